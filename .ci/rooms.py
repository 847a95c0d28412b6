"""What lives where: files per folder, circles of imports, and modules without a test of their name.

    python .ci/rooms.py          counts, circles, and how many modules have no test named after them
    python .ci/rooms.py --all    the modules as well

Every import counts: those within functions, and those for type checking alone.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Graph = dict[str, set[str]]


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted((ROOT / "kbench").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports(known: dict[str, Path]) -> Graph:
    """What each module imports of the others, wherever in the file it does so."""
    graph: Graph = {}
    for module, path in known.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                named |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                whole = {f"{node.module}.{one.name}": node.module for one in node.names}
                named |= {name if name in known else home for name, home in whole.items()}
        graph[module] = {name for name in named if name in known and name != module}
    return graph


def circles(graph: Graph, package: str) -> list[list[str]]:
    """The sets of modules of a package that import one another, by Tarjan's algorithm."""
    inside = [name for name in graph if name == package or name.startswith(f"{package}.")]
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in graph[name].intersection(inside):
            if other not in number:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            together = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(together) > 1:
                found.append(sorted(together))

    for name in inside:
        if name not in number:
            visit(name)
    return found


def untested(known: dict[str, Path]) -> list[str]:
    """The modules that have no `test_<name>.py`."""
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py")}
    return [name for name in known if name.rpartition(".")[2] not in tests]


def main() -> int:
    """Print all three."""
    known = modules()
    graph = imports(known)
    folders = Counter(path.parent.relative_to(ROOT) for path in known.values())
    print("files  folder")
    for folder, count in sorted(folders.items()):
        print(f"{count:5}  {folder}")
    for package in ("engine", "api", "cli", "workbench", "tui", "notebook", "keras_client"):
        found = circles(graph, f"kbench.{package}")
        print(f"{len(found)} circles in kbench.{package}", *map(len, found))
    missing = untested(known)
    print(f"{len(missing)} of {len(known)} modules have no test of their name")
    if "--all" in sys.argv:
        print(*missing, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
