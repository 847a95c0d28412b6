"""What lives where: files per folder, circles of imports, and which tests a module has.

    python .ci/rooms.py          counts, circles, and how many modules have no test named after them
    python .ci/rooms.py --all    these modules as well, each with the tests that are nearest to it
    python .ci/rooms.py --tests kbench/engine/fusion/row_lower.py   a module's tests, nearest first

Every import counts: those within functions, and those for type checking alone.

A test is found by its name, which is the module's; else it imports the module; else it uses public
names that no other module has, imported from elsewhere or as attributes (`K.sin`), or has rows for
them (`Case("sin", ...)`); else it lies in the folder that mirrors the module's, or in the next one
above that has tests. Modules that define nothing, as most `__init__` do, are not counted.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Graph = dict[str, set[str]]

MAX_LISTED = 3
"""Tests told of each module by `--all`: enough to find the place to begin."""


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted((ROOT / "kbench").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports(known: dict[str, Path]) -> Graph:
    """What each module imports of the others, wherever in the file it does so."""
    return {
        module: _imported(ast.parse(path.read_text("utf-8")), known) - {module}
        for module, path in known.items()
    }


def _imported(tree: ast.Module, known: dict[str, Path]) -> set[str]:
    """The known modules that a file imports."""
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{one.name}": node.module for one in node.names}
            named |= {name if name in known else home for name, home in whole.items()}
    return named.intersection(known)


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


class Tests:
    """The files of tests, and what each imports and names."""

    def __init__(self, known: dict[str, Path]) -> None:
        self._known = known
        self._files = [
            path
            for path in sorted((ROOT / "tests").rglob("*.py"))
            if path.name.startswith("test_") or path.parent.name in ("tables", "programs")
        ]
        trees = {path: ast.parse(path.read_text("utf-8")) for path in self._files}
        self._imported = {path: _imported(tree, known) for path, tree in trees.items()}
        self._named = {path: _named(tree) for path, tree in trees.items()}
        self._public = {
            name: _public(ast.parse(path.read_text("utf-8"))) for name, path in known.items()
        }
        self._owners = Counter(name for names in self._public.values() for name in names)

    def defining(self) -> list[str]:
        """The modules that define a function or a class for others."""
        return [name for name, public in self._public.items() if public]

    def unnamed(self) -> list[str]:
        """Those that have no `test_<name>.py` in their part of the tests."""
        files = self._files
        return [name for name in self.defining() if not any(map(self._named_for(name), files))]

    def nearest(self, module: str) -> list[Path]:
        """The files that test a module, the nearest first."""
        home = ROOT / "tests" / self._known[module].parent.relative_to(ROOT / "kbench")
        while not any(home == path.parent for path in self._files) and home.name != "tests":
            home = home.parent
        public = [name for name in self._public[module] if self._owners[name] == 1]
        is_named_for = self._named_for(module)
        ranks: dict[Path, tuple[int, bool, int]] = {}
        for path in self._files:
            used = sum(self._named[path][name] for name in public)
            if is_named_for(path):
                rank = 0
            elif module in self._imported[path]:
                rank = 1
            elif used:
                rank = 2
            elif path.parent == home:
                rank = 3
            else:
                continue
            ranks[path] = (rank, path.parent != home, -used)
        return sorted(ranks, key=lambda path: ranks[path])

    def _named_for(self, module: str) -> Callable[[Path], bool]:
        part, name = [*module.split("."), ""][1], module.rpartition(".")[2]
        return lambda path: (
            path.stem == f"test_{name}" and path.relative_to(ROOT / "tests").parts[0] == part
        )


def _named(tree: ast.Module) -> Counter[str]:
    """How often a file says a name as an attribute, imports it, or begins a row with it."""
    named: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            named[node.attr] += 1
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kbench"):
            named.update(one.name for one in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            named[str(node.args[0].value)] += 1
    return named


def _public(tree: ast.Module) -> set[str]:
    """The functions and classes of a module that others may use."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {one.name for one in tree.body if isinstance(one, kinds) and one.name[0] != "_"}


def _told(paths: list[Path]) -> str:
    return " ".join(str(path.relative_to(ROOT)) for path in paths)


def main() -> int:
    """Print all three, or the tests of the modules that are named."""
    known = modules()
    if "--tests" in sys.argv:
        tests = Tests(known)
        of_path = {path: name for name, path in known.items()}
        for argument in sys.argv[sys.argv.index("--tests") + 1 :]:
            if (module := of_path.get(Path(argument).resolve())) is None:
                print(f"{argument} is no module of kbench", file=sys.stderr)
                return 2
            print(*_told(tests.nearest(module)).split(), sep="\n")
        return 0
    graph = imports(known)
    folders = Counter(path.parent.relative_to(ROOT) for path in known.values())
    print("files  folder")
    for folder, count in sorted(folders.items()):
        print(f"{count:5}  {folder}")
    for package in ("engine", "api", "cli", "workbench", "tui", "notebook", "keras_client"):
        found = circles(graph, f"kbench.{package}")
        print(f"{len(found)} circles in kbench.{package}", *map(len, found))
    tests = Tests(known)
    missing = tests.unnamed()
    print(f"{len(missing)} of {len(tests.defining())} modules have no test of their name")
    if "--all" in sys.argv:
        for name in missing:
            print(f"{name}  {_told(tests.nearest(name)[:MAX_LISTED])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
