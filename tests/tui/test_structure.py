"""How the parts of the terminal hang together: no knot, no chain of classes over files."""

from __future__ import annotations

import ast
import runpy
from collections import defaultdict
from pathlib import Path

import kbench.tui

ROOT = Path(__file__).resolve().parents[2]
ROOM = Path(kbench.tui.__file__).parent
PARTS = {"kbench.tui.transcript.cells", "kbench.tui.transcript.error_rows"}
"""A cell draws its error, whose rows are a part of it."""


def test_no_modules_import_one_another_in_a_circle() -> None:
    rooms = runpy.run_path(str(ROOT / ".ci" / "rooms.py"))
    graph = rooms["imports"](rooms["modules"]())
    assert {one for circle in rooms["circles"](graph, "kbench.tui") for one in circle} <= PARTS
    graph["kbench.tui.workbench"] |= {"kbench.tui.app"}  # a circle would be seen
    assert any("kbench.tui.app" in circle for circle in rooms["circles"](graph, "kbench.tui"))


def test_only_the_app_knows_the_main_screen() -> None:
    rooms = runpy.run_path(str(ROOT / ".ci" / "rooms.py"))
    graph = rooms["imports"](rooms["modules"]())
    knowers = {module for module in graph if "kbench.tui.main_screen" in graph[module]}
    assert knowers == {"kbench.tui.app"}


def chains(files: dict[str, str]) -> dict[str, str]:
    """Classes with one subclass alone, which stands in another file."""
    homes: dict[str, str] = {}
    derived: defaultdict[str, set[str]] = defaultdict(set)
    for path, text in files.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                homes[node.name] = path
                for base in node.bases:
                    name = base.value if isinstance(base, ast.Subscript) else base
                    if isinstance(name, ast.Name):
                        derived[name.id].add(node.name)
    single = {base: classes.pop() for base, classes in derived.items() if len(classes) == 1}
    return {
        base: one for base, one in single.items() if base in homes and homes[base] != homes[one]
    }


def test_no_class_is_there_for_one_other_to_derive_from() -> None:
    assert chains({"one": "class A: pass", "other": "class B(A): pass"}) == {"A": "B"}
    assert chains({str(path): path.read_text("utf-8") for path in ROOM.rglob("*.py")}) == {}
