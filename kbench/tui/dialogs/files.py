"""Files that are written from here: asks where to, and never replaces one unasked."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.tui.dialogs.dialogs import InputDialog, may_replace
from kbench.tui.dialogs.pick import ListDialog
from kbench.tui.text.glyphs import human_bytes
from kbench.tui.text.text import safe
from kbench.workbench.output.picture import form_of

if TYPE_CHECKING:
    from kbench.tui.screen_bench import ScreenBench
    from kbench.tui.transcript.cells import Block
    from kbench.workbench.core_types import Row


def ask_path(
    bench: ScreenBench,
    title: str,
    path: str,
    check: Callable[[str], str],
    write: Callable[[Path], Awaitable[None]],
) -> None:
    """Have a path typed, and `write` to it; a file that is there is replaced only if wanted."""

    def act(path: str | None) -> None:
        if not path or not path.strip():
            return
        target = os.path.abspath(os.path.expanduser(path.strip()))
        go = partial(bench.run, partial(write, Path(target)))
        if os.path.lexists(target):
            bench.open(*may_replace(target, go))
        else:
            go()

    bench.open(InputDialog(title, path, check=check), act)


def not_written(path: Path, error: OSError | ValueError) -> str:
    """Why a file is not there."""
    reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
    return safe(f"not written: {path}: {reason}")


def ask_picture(bench: ScreenBench, block: Block) -> None:
    """Write a picture that a cell shows to a file."""
    pictures = _pictures(bench, block)
    if not pictures:
        bench.notify(_no_picture(block), 3)
    elif len(pictures) == 1:
        _ask_picture_path(bench, block, pictures[0], "")
    else:

        def take(at: int | None) -> None:
            if at is not None:
                _ask_picture_path(bench, block, pictures[at], f"-{at + 1}")

        rows = [
            f"{at}  {safe(str(data.get('text/plain', 'picture')).partition(chr(10))[0])}"
            for at, data in enumerate(pictures, 1)
        ]
        bench.open(ListDialog(f"Pictures of {_cell(block)}", rows), take)


def _pictures(bench: ScreenBench, block: Block) -> list[Row]:
    """What the session keeps of the pictures that a cell has shown."""
    from kbench.workbench.session import events

    session = bench.link.session
    cell = session.cells.get(int(block.ident)) if session and block.ident.isdecimal() else None
    results = (
        [] if cell is None else [one for one in cell.outputs if isinstance(one, events.Result)]
    )
    return [one.data for one in results if form_of(one.data)]


def _cell(block: Block) -> str:
    return "the cell" if block.count is None else f"cell {block.count}"


def _no_picture(block: Block) -> str:
    if block.has_picture:
        return f"the picture of {_cell(block)} is no longer kept"
    return f"{_cell(block)} shows no picture"


def _ask_picture_path(bench: ScreenBench, block: Block, data: Row, number: str) -> None:
    from kbench.workbench.export import picture_file

    kinds = picture_file.endings(data)

    def check(path: str) -> str:
        named = Path(path.strip()).suffix.lower() in kinds
        return "" if named or not path.strip() else f"the name must end in {' or '.join(kinds)}"

    async def write(path: Path) -> None:
        try:
            done = await bench.link.call(picture_file.write, data, path)
        except (OSError, ValueError) as error:
            bench.notify(not_written(path, error), error=True)
            return
        note = f" ({done.note})" if done.note else ""
        size = f"{done.width} x {done.height} pixels{note}, {human_bytes(done.bytes)}"
        bench.notify(safe(f"written: {done.path}, {size}"))

    title = f"write the picture of {_cell(block)} to a file ({' '.join(kinds)})"
    count = "" if block.count is None else f"-{block.count}"
    ask_path(bench, title, f"picture{count}{number}.png", check, write)
