"""Cells of a kernel that nobody has prepared, by the names that ipykernel gives their files.

Python's warnings name the file of a cell, `/tmp/ipykernel_42/2955584457.py:3`. Its number is a hash
of the cell's code, so that whoever knows the code knows the cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache, partial

MAX_HASHED_CHARACTERS = 20_000
"""Of a cell that is looked at; the hash of as many takes 10 ms."""
MAX_HASHED_CELLS = 300
"""The newest cells, of which one is looked for."""
_WARNING = re.compile(
    r"^[^\n]*[/\\]ipykernel_\d+[/\\](?P<hash>\d+)\.py:(?P<line>\d+): (?=[\w.]+: )", re.MULTILINE
)


def named(text: str, cells: Iterable[tuple[int, str]]) -> str:
    """Text with `cell 3, line 2: ` where a warning has the file of a cell.

    `cells` are numbers and codes, the newest first; a file that is none of theirs stays.
    """
    if "ipykernel_" not in text:
        return text
    return _WARNING.sub(partial(_name, list(cells)[:MAX_HASHED_CELLS]), text)


def _name(cells: list[tuple[int, str]], warning: re.Match[str]) -> str:
    wanted = int(warning["hash"])
    short = ((count, code) for count, code in cells if len(code) <= MAX_HASHED_CHARACTERS)
    found = next((count for count, code in short if _hash(code) == wanted), None)
    return warning.group() if found is None else f"cell {found}, line {warning['line']}: "


@lru_cache(maxsize=MAX_HASHED_CELLS)
def _hash(code: str) -> int:
    from ipykernel import compiler

    return int(compiler.murmur2_x86(code, compiler.get_tmp_hash_seed()))
