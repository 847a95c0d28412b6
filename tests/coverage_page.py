"""Writes `docs/api.md`, and into `kbench/api/api.json` how many tests each function has.

Run it from the project's folder after adding a function, a test row, a golden case or a wrong call:
`python tests/coverage_page.py`.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "docs" / "api.md"

Counts = dict[str, dict[str, int]]


def counts() -> Counts:
    """For each function the rows of the op table, the golden cases and the wrong calls."""
    from case import rows
    from cases import CASES

    cases = json.loads((FOLDER / "golden" / "cases.json").read_text(encoding="utf-8"))["cases"]
    wrong = [
        one.function
        for path in sorted((FOLDER / "tables").glob("wrong_*.py"))
        for one in importlib.import_module(path.stem).WRONG
    ]
    found = {
        "rows": Counter(row.case.name for row in rows(CASES)),
        "golden": Counter(case["fn"] for case in cases),
        "wrong": Counter(wrong),
    }
    names = sorted(set().union(*found.values()))
    return {
        name: {kind: counter[name] for kind, counter in found.items() if counter[name]}
        for name in names
    }


def data_with(tests: Counts) -> str:
    """The text of `kbench/api/api.json` with these counts, one line for each function."""
    from kbench.api import reference

    known = reference.data()
    functions = ",\n  ".join(json.dumps(row) for row in known["functions"])
    lines = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in tests.items())
    families = json.dumps(known["families"])
    return (
        f'{{\n "families": {families},\n "functions": [\n  {functions}\n ],\n'
        f' "tests": {{\n  {lines}\n }}\n}}\n'
    )


def main() -> None:
    """Write both files."""
    sys.path[:0] = [str(FOLDER / name) for name in ("tables", "support")]
    from kbench import backend
    from kbench.api import reference

    public = set(backend.__all__)
    tests = {name: one for name, one in counts().items() if name in public}
    reference.DATA.write_text(data_with(tests), encoding="utf-8")
    reference.entries.cache_clear()
    PAGE.write_text(reference.markdown(), encoding="utf-8")
    print(f"{PAGE}: {reference.summary()}")


if __name__ == "__main__":
    main()
