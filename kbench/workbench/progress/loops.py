"""The loops in which a thread is, and how far they have come, seen from another thread.

Nothing is added to the program: the counters are read from its frames. Only what is certain is
reported: the epochs and batches of Keras, `kbench.progress` and tqdm, and in the user's own
code loops over `range` and `enumerate` whose bounds are numbers or lengths of lists and arrays.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Mapping
from functools import lru_cache
from types import FrameType

import numpy as np
from msgspec import Struct

from kbench.workbench.errors import positions
from kbench.workbench.models.fields import fields
from kbench.workbench.progress import progress

_MAX_FRAMES = 200
"""Frames of a thread that are looked at, from the innermost."""
_MAX_LOOPS = 3
"""Loops that are reported: as many as a status line holds."""
# Function and its file -> (word, counter, total), or a list whose length is the total.
_KERAS_COUNTERS = {
    ("fit_loop", "training_arrays.py"): (
        ("epoch", "epoch", "epochs"),
        ("step", "step_index", "steps_per_epoch"),
        ("batch", "batch_index", "batches"),
    ),
    ("predict_loop", "training_arrays.py"): (
        ("step", "step", "steps"),
        ("batch", "batch_index", "batches"),
    ),
    ("test_loop", "training_arrays.py"): (
        ("step", "step", "steps"),
        ("batch", "batch_index", "batches"),
    ),
    ("fit_generator", "training_generator.py"): (
        ("epoch", "epoch", "epochs"),
        ("step", "steps_done", "steps_per_epoch"),
    ),
    ("evaluate_generator", "training_generator.py"): (("step", "steps_done", "steps"),),
    ("predict_generator", "training_generator.py"): (("step", "steps_done", "steps"),),
    ("fit", "trainer.py"): (("epoch", "epoch", "epochs"),),  # those of Keras 3, as kbench has them
    ("_each_batch", "trainer.py"): (("batch", "begin", "count"),),
}
_SIZED = (list, tuple, dict, range)
_CELL_CODE_NAMES = ("<module>", "<cell line")  # names of a cell's own code
_MAX_NUMBER = 1 << 62
"""Bounds of loops stay below it, so that their products are no huge integers."""


class Loop(Struct, frozen=True):
    """A loop under way: `done` passes of `total` are over; `name` is the word for a pass."""

    name: str
    done: int
    total: int


def running(thread: int) -> list[Loop]:
    """The loops of a thread, outermost first; those that tell of themselves go before others."""
    declared = [*_declared_loops(), *_bars()]
    return (declared or _loops_of_frames(sys._current_frames().get(thread)))[:_MAX_LOOPS]


def fraction(loops: list[Loop]) -> float:
    """How much of the outermost loop is over, with the part that the inner ones have done."""
    done, share = 0.0, 1.0
    for loop in loops:
        done += share * loop.done / loop.total
        share /= loop.total
    return done


def _declared_loops() -> list[Loop]:
    rows = [(loop.name, loop.done, loop.total) for loop in list(progress.running)]
    return [Loop(name, done, total) for name, done, total in rows if total]


def _bars() -> list[Loop]:
    """The bars of tqdm, if the program uses it."""
    bar = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    found = []
    for tqdm_bar in list(getattr(bar, "_instances", None) or ()):
        known = fields(tqdm_bar)
        name, done, total = known.get("desc"), known.get("n"), known.get("total")
        place = known.get("pos")
        if type(done) is int and type(total) is int and 0 <= done <= total and total:
            word = name.strip(": ") if type(name) is str else ""
            found.append((-place if type(place) is int else 0, Loop(word or "step", done, total)))
    return [loop for _, loop in sorted(found, key=lambda pair: pair[0])]


# ------------------------------------------------------------------ from the frames


def _loops_of_frames(frame: FrameType | None) -> list[Loop]:
    frames: list[FrameType] = []
    while frame is not None and len(frames) < _MAX_FRAMES:
        frames.append(frame)
        frame = frame.f_back
    found: list[Loop] = []
    for seen in reversed(frames):
        code = seen.f_code
        file = code.co_filename
        keras = _KERAS_COUNTERS.get((code.co_name, file.replace("\\", "/").rsplit("/", 1)[-1]))
        if keras is not None and "keras" in file:
            found += _counted(keras, seen.f_locals)
        elif positions.is_own(file):
            found += _written(seen)
    return found


def _counted(table: tuple[tuple[str, str, str], ...], names: Mapping[str, object]) -> list[Loop]:
    """Keras' own counters, in one of its loops."""
    found = []
    for word, counter, bound in table:
        done, total = names.get(counter), names.get(bound)
        total = len(total) if type(total) is list else total
        if type(done) is int and type(total) is int and 0 <= done <= total and total:
            found.append(Loop(word, done, total))
    return found


def _written(frame: FrameType) -> list[Loop]:
    """Loops in the user's source at the line where a frame is."""
    code, line = frame.f_code, frame.f_lineno
    source = "".join(linecache.getlines(code.co_filename, frame.f_globals))
    if not source or line is None or " in " not in source:
        return []
    loops = _loops_at(source, code.co_name, code.co_firstlineno, line)
    if not loops:
        return []
    top = code.co_name.startswith(_CELL_CODE_NAMES)
    names = frame.f_globals if top else {**frame.f_globals, **frame.f_locals}
    found = (_count(loop, names) for loop in loops)
    return [loop for loop in found if loop is not None]


@lru_cache(maxsize=64)
def _loops_at(source: str, name: str, first: int, line: int) -> tuple[ast.For, ...]:
    """The `for` statements around a line, in the code of one function or of the module."""
    node: ast.AST | None = positions.tree(source)
    if not name.startswith(_CELL_CODE_NAMES):
        node = _function(node, name, first)
    found = []
    while node is not None:
        if isinstance(node, ast.For) and node.body[0].lineno <= line:
            if line <= (node.body[-1].end_lineno or 0):
                found.append(node)
        inner = [
            statement
            for statement in _statements(node)
            if statement.lineno <= line <= (statement.end_lineno or 0)
        ]
        node = inner[0] if inner else None
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
    return tuple(found)


def _function(tree: ast.AST | None, name: str, first: int) -> ast.AST | None:
    if tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            if (
                min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                == first
            ):
                return node
    return None


def _statements(node: ast.AST) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for field in ("body", "orelse", "finalbody"):
        found += [
            statement
            for statement in getattr(node, field, None) or []
            if isinstance(statement, ast.stmt)
        ]
    for handler in getattr(node, "handlers", ()):
        found += handler.body
    return found


# ------------------------------------------------------------------ what counts in a loop


def _count(loop: ast.For, names: Mapping[str, object]) -> Loop | None:
    """How far a loop is, if its counter and its bounds can be read and do not change in it."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords:
        return None
    target = loop.target
    if call.func.id == "enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    if not isinstance(target, ast.Name) or names.get(call.func.id) is not None:
        return None
    read = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)} | {target.id}
    bound = {
        node.id
        for part in loop.body
        for node in ast.walk(part)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    now = names.get(target.id)
    if read & bound or type(now) is not int:
        return None
    passes = _passes(call, names)
    if passes is None or now not in passes:
        return None
    return Loop(target.id if target.id != "_" else "step", passes.index(now), len(passes))


def _passes(call: ast.Call, names: Mapping[str, object]) -> range | None:
    """The numbers that `range(...)` or `enumerate(...)` counts."""
    assert isinstance(call.func, ast.Name)
    if call.func.id == "range":
        bounds = [_number(argument, names) for argument in call.args]
        if not 1 <= len(bounds) <= 3 or None in bounds or 0 in bounds[2:]:
            return None
        return range(*(bound for bound in bounds if bound is not None))
    if call.func.id == "enumerate" and len(call.args) == 1:
        size = _size(call.args[0], names)
        return None if size is None else range(size)
    return None


def _size(node: ast.expr, names: Mapping[str, object]) -> int | None:
    """How many items a list, an array, a range or a `zip` of these gives."""
    if isinstance(node, ast.Name):
        held = names.get(node.id)
        if type(held) is np.ndarray:
            return len(held) if held.ndim else None
        return len(held) if type(held) in _SIZED and isinstance(held, _SIZED) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if names.get(node.func.id) is not None:
            return None
        if node.func.id == "zip" and node.args:
            sizes = [_size(argument, names) for argument in node.args]
            return None if None in sizes else min(size for size in sizes if size is not None)
        if node.func.id == "range":
            passes = _passes(node, names)
            return None if passes is None else len(passes)
    return None


def _number(node: ast.expr, names: Mapping[str, object]) -> int | None:
    """A whole number written, named, computed of such, or the length of something."""
    value: object = None
    if isinstance(node, ast.Constant):
        value = node.value
    elif isinstance(node, ast.Name):
        value = names.get(node.id)
        if type(value) in (np.int32, np.int64) and isinstance(value, np.integer):
            value = int(value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand, names)
        value = None if inner is None else -inner
    elif isinstance(node, ast.BinOp):
        value = _computed(node, names)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        known = node.func.id == "len" and names.get("len") is None
        value = _size(node.args[0], names) if known else None
    return value if type(value) is int and abs(value) < _MAX_NUMBER else None


def _computed(node: ast.BinOp, names: Mapping[str, object]) -> int | None:
    left, right = _number(node.left, names), _number(node.right, names)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mult):
        return left * right
    return left // right if isinstance(node.op, ast.FloorDiv) and right else None
