"""Sources of kernels from files, specialised for dtypes and sizes.

A kernel file is a plain module of Python, which editors and checkers read. It is read here as text
and never imported. What it leaves open, it imports from `intrinsics/specialized.py`: helpers, by
names in small letters, and constants, by names in capitals. The text of a specialisation says in
their place what they are. An `if` that constants decide becomes the branch that is taken; functions
and imports that nothing uses then are left out.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import TypeGuard

from kbench.engine.core.syntax import parse_module
from kbench.engine.jit import disk_cache

Meaning = int | float | str
"""What a name stands for: a constant for one in capitals, else a dtype or a name of the toolkit."""

_DTYPES = {f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}

PRELUDE = "kbench.engine.intrinsics.specialized"
TOOLKIT = "kbench.engine.intrinsics.toolkit"
PARAMETERS = "parameters"
"""The name by which a kernel file reads its whole parameter block, in order."""

_ENGINE = Path(__file__).resolve().parents[1]
_MAX_LINE = 100
_MERGED = ("inline", "exact_inline", "part")
"""Decorators of functions that nobody calls from outside."""


@functools.lru_cache(256, typed=True)
def specialized(file: str, **given: Meaning) -> str:
    """The source that a kernel file is for some meanings of the names that it leaves open.

    Arguments:
        file: its path below the engine, without the ending: "kernels/data/sources/one_hot".
        given: what each of the names means. A constant is a number or a text, "float32" the dtype,
            "load_float32" the helper of that name, "kernels.data.copy_tile.turn_8" one that
            another module of the engine has, and several lines define it themselves.
    Raises:
        ValueError: a name that the file asks for is not given, or one is given that it has no use
            for.
    """
    make = functools.partial(_specialized, file, given)
    return _kept(file, repr(sorted(given.items())), make)


def _specialized(file: str, given: Mapping[str, Meaning]) -> str:
    tree = _tree(file)
    asked = _asked(tree) - {PARAMETERS}
    for wrong, names in (("lacks", asked - given.keys()), ("has no", given.keys() - asked)):
        if names:
            raise ValueError(f"the specialisation of {file} {wrong} {', '.join(sorted(names))}")
    folded = _Folded(_text(file), _constants(given))
    folded.fold(tree.body)
    text, used = _without_unused(folded.text())
    return _with_imports(text, tree, used, given)


def _constants(given: Mapping[str, Meaning]) -> dict[str, Meaning]:
    return {name: meaning for name, meaning in given.items() if name.isupper()}


@functools.cache
def parameters_of(file: str) -> tuple[str, ...]:
    """The parameters of a kernel file, in their order: what it reads as `parameters(params)`."""
    return tuple(_kept(file, PARAMETERS, functools.partial(_parameters, file)).split())


def _parameters(file: str) -> str:
    (found,) = [node for node in ast.walk(_tree(file)) if _reads_parameters(node)]
    return " ".join(_targets(found))


# ------------------------------------------------------------------ reading


@functools.cache
def _own_text() -> str:
    return Path(__file__).read_text(encoding="utf-8")


def _kept(file: str, what: str, make: Callable[[], str]) -> str:
    """What this module makes of a file; made anew once either of them is edited."""
    return disk_cache.keep_text(make, _own_text(), _text(file), what)


@functools.cache
def _text(file: str) -> str:
    return (_ENGINE / f"{file}.py").read_text(encoding="utf-8")


@functools.cache
def _tree(file: str) -> ast.Module:
    return parse_module(_text(file), f"{file}.py")


def _asked(tree: ast.Module) -> set[str]:
    """The names that a file leaves open."""
    return {name.name for node in _imports(tree) if node.module == PRELUDE for name in node.names}


def _imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    return (node for node in tree.body if isinstance(node, ast.ImportFrom))


def _reads_parameters(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
        return False
    called = node.value.func
    return isinstance(called, ast.Name) and called.id == PARAMETERS


def _targets(node: ast.AST) -> list[str]:
    assert isinstance(node, ast.Assign)
    (target,) = node.targets
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return [name.id for name in names if isinstance(name, ast.Name)]


# The names that each function reads from outside of it, and under "" those of all other lines.
Uses = dict[str, set[str]]


def _uses(tree: ast.Module) -> Uses:
    """What a module's functions need. The compiler knows, sooner than a walk through the tree."""
    outside: set[str] = set()
    for node in tree.body:
        parts = node.decorator_list if isinstance(node, ast.FunctionDef) else [node]
        found = (name for part in parts for name in ast.walk(part) if isinstance(name, ast.Name))
        outside.update(name.id for name in found if isinstance(name.ctx, ast.Load))
    code = compile(tree, "<kernel>", "exec", dont_inherit=True)
    inside = {part.co_name: _names(part) for part in code.co_consts if isinstance(part, CodeType)}
    return {"": outside, **inside}


def _names(code: CodeType) -> set[str]:
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*map(_names, inner))


# ------------------------------------------------------------------ branches


class _Folded:
    """The lines of a file, of which those of branches that are not taken are left out."""

    def __init__(self, text: str, constants: Mapping[str, Meaning]) -> None:
        self._lines: list[str | None] = list(text.splitlines())
        self._constants = constants

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines if line is not None)

    def fold(self, statements: Iterable[ast.AST]) -> None:
        """Take the branches that constants decide, and read parameters one by one."""
        for node in statements:
            if isinstance(node, ast.If) and self._decided(node.test) is not None:
                if self._is_elif(node):
                    raise ValueError(f"line {node.lineno}: constants decide an elif, but no if")
                self._take(node)
            elif isinstance(node, ast.stmt):
                if _reads_parameters(node):
                    self._read_parameters(node)
                self.fold(ast.iter_child_nodes(node))

    def _decided(self, test: ast.expr) -> bool | None:
        """What constants make of a condition; None where it depends on more."""
        if isinstance(test, ast.BoolOp):
            ending = isinstance(test.op, ast.Or)  # what one of its operands says for all
            if any(self._decided(operand) is ending for operand in test.values):
                return ending
        names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        if not names or not names <= self._constants.keys():
            return None
        code = compile(ast.Expression(test), "<condition>", "eval")
        return bool(eval(code, {"__builtins__": {}}, dict(self._constants)))

    def _is_elif(self, node: ast.If) -> bool:
        line = self._lines[node.lineno - 1]
        return line is not None and line.lstrip().startswith("elif ")

    def _take(self, node: ast.If) -> None:
        """Leave the lines of the branch that is taken, where the `if` stood."""
        taken, begin = node.body, node.test.end_lineno or node.lineno
        if not self._decided(node.test):
            taken = node.orelse
            begin = node.body[-1].end_lineno or begin
            if taken:
                begin = next(n for n in range(begin, taken[0].lineno) if self._opens(n)) + 1
        more = taken[0] if taken and isinstance(taken[0], ast.If) else None
        if more is not None and self._is_elif(more):
            if self._decided(more.test) is None:
                raise ValueError(f"line {more.lineno}: constants decide an if, but not its elif")
            self._clear(node.lineno, more.lineno - 1)
            self._take(more)
            return
        end = (taken[-1].end_lineno or begin) if taken else begin
        self._clear(node.lineno, begin)
        self._clear(end + 1, node.end_lineno or end)
        for number in range(begin, end):
            line = self._lines[number]
            self._lines[number] = None if line is None else line.removeprefix("    ")
        self.fold(taken)

    def _opens(self, number: int) -> bool:
        """Whether the line behind this one begins the other branch."""
        line = (self._lines[number] or "").lstrip()
        return line.startswith(("else:", "elif "))

    def _clear(self, first: int, last: int) -> None:
        self._lines[first - 1 : last] = [None] * (last - first + 1)

    def _read_parameters(self, node: ast.stmt) -> None:
        """A line for each parameter, where all of them were named at once."""
        first = self._lines[node.lineno - 1] or ""
        depth = first[: len(first) - len(first.lstrip())]
        names = enumerate(_targets(node))
        lines = [f"{depth}{name} = field(params, {number})" for number, name in names]
        self._clear(node.lineno, node.end_lineno or node.lineno)
        self._lines[node.lineno - 1] = "\n".join(lines)


# ------------------------------------------------------------------ what is left over


def _without_unused(text: str) -> tuple[str, set[str]]:
    """The text without the functions for other specialisations; the names that it uses."""
    tree = parse_module(text)
    uses = _uses(tree)
    merged = {node.name: node for node in tree.body if _is_merged(node)}
    gone: list[ast.FunctionDef] = []
    while True:
        used = set[str]().union(*uses.values())
        unused = merged.keys() - used
        if not unused:
            break
        for name in unused:
            gone.append(merged.pop(name))
            del uses[name]
    lines = text.splitlines()
    for node in sorted(gone, key=lambda node: node.lineno, reverse=True):
        first = node.decorator_list[0].lineno - 1
        while not lines[first - 1].strip():
            first -= 1
        del lines[first : node.end_lineno]
    return "".join(f"{line}\n" for line in lines), used


def _is_merged(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(decorator, ast.Name) and decorator.id in _MERGED
        for decorator in node.decorator_list
    )


def _with_imports(text: str, tree: ast.Module, used: set[str], given: Mapping[str, Meaning]) -> str:
    """The text with the imports that it needs; constants stand below them.

    `tree` is that of the file, which has the same lines up to the last import.
    """
    constants = _constants(given)
    lines = text.splitlines()
    statements = list(_imports(tree))
    written = [f"{name} = {constants[name]!r}" for name in sorted(constants.keys() & used)]
    defined = [str(given[name]) for name in sorted(given.keys() & used) if _is_defined(given[name])]
    for text in defined:
        written += ["", "", text.strip()]
    if written and statements:
        end = statements[-1].end_lineno or 0
        lines[end:end] = ["", *written]
    for node in reversed(statements):
        named = [(name.name, name.asname or name.name) for name in node.names]
        kept = [f"{name} as {own}" if own != name else name for name, own in named if own in used]
        found = _statement(node.module or "", kept)
        if node.module == PRELUDE:
            found = _meanings([own for _, own in named if own in used | {PARAMETERS}], given)
        lines[node.lineno - 1 : node.end_lineno] = found
    return "".join(f"{line}\n" for line in lines)


def _meanings(names: Sequence[str], given: Mapping[str, Meaning]) -> list[str]:
    """The imports that say what helpers and dtypes are."""
    found: dict[str, list[str]] = {}
    for name in names:
        meaning = "field" if name == PARAMETERS else str(given[name])
        home, _, own = meaning.rpartition(".")
        module = f"kbench.engine.{home}" if home else TOOLKIT
        if meaning in _DTYPES:
            module = "numpy"
        if not (name.isupper() or _is_defined(meaning)):
            same = name in (own, PARAMETERS)
            found.setdefault(module, []).append(own if same else f"{own} as {name}")
    modules = sorted(found, key=lambda module: (module != "numpy", module))
    return [line for module in modules for line in _statement(module, sorted(found[module]))]


def _is_defined(meaning: Meaning) -> bool:
    """Whether the meaning of a name is the text of a function."""
    return isinstance(meaning, str) and "\n" in meaning


def _statement(module: str, names: Sequence[str]) -> list[str]:
    """An import of names, on as many lines as they need."""
    if not names:
        return []
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _MAX_LINE:
        return [line]
    return [f"from {module} import (", *[f"    {name}," for name in names], ")"]
