"""Evaluates the line of an exploration beside the program, and tells what came of it.

On a thread that only looks (`workbench/kernel/sandbox.py`): the user's variables and settings stay
as they are, random numbers too, and what takes too long is stopped.
"""

from __future__ import annotations

import itertools
import linecache
import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeGuard

from msgspec import Struct

from kbench.engine.core import fork_safety
from kbench.engine.core.errors import ArgumentError, KbenchError
from kbench.engine.execute.function import Function
from kbench.engine.graph.variables import Placeholder
from kbench.engine.inspect import describe, sparse_summary
from kbench.notebook.exploration.explore_subject import Subject
from kbench.workbench.errors import explanation, positions
from kbench.workbench.inspector import summary
from kbench.workbench.kernel.sandbox import Sandbox

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

TIMEOUT_SECONDS = 20.0
"""Seconds after which an evaluation is stopped."""
MAX_ELEMENTS = 1 << 22
"""Elements of one result: 16 MB of float32."""
MAX_RESULTS = 8
"""Results that are shown of one call."""
_MAX_ERROR_LINES = 30
"""Lines of an error: what a page shows at once."""
STORED = "would be stored"  # what an update gives
_numbers = itertools.count(1)
_SCOPES = re.compile(r"\b(?:watch/|explore/)+")
_MADE = re.compile(r", made at <[^>]*explore[^>]*>:\d+")


class Result(Struct, frozen=True):
    """One thing that the call gave: `value` is an array where there is one, `text` tells it."""

    label: str
    value: object
    text: str
    note: str = ""


class Outcome(Struct, frozen=True):
    """What a line gave, or in `words` why it gave nothing."""

    line: str
    results: tuple[Result, ...] = ()
    cut: int = 0  # results that are not told
    words: tuple[str, ...] = ()


class Runner:
    """Runs the lines of one exploration, one at a time."""

    def __init__(self) -> None:
        self._sandbox = Sandbox()
        self._lock = fork_safety.lock()
        self._file = f"<explore {next(_numbers)}>"

    def run(self, subject: Subject, values: Mapping[str, object]) -> Outcome:
        """Call the function with these values of its controls."""
        with self._lock:
            return self._run(subject, subject.line(values))

    def _run(self, subject: Subject, line: str) -> Outcome:
        """Errors find the line by the name of its file, in which no other one is meanwhile."""
        linecache.cache[self._file] = (len(line), None, [f"{line}\n"], self._file)
        try:
            done = self._sandbox.run(lambda: self._evaluate(subject, line), TIMEOUT_SECONDS)
            if done.stopped:
                return Outcome(line, words=(_stopped(done.stopped),))
            if done.error is not None:
                return Outcome(line, words=tuple(words(done.error)))
        finally:
            linecache.cache.pop(self._file, None)
        assert done.value is not None
        results, cut = done.value
        return Outcome(line, results, cut)

    def _evaluate(self, subject: Subject, line: str) -> tuple[tuple[Result, ...], int]:
        namespace = dict(subject.namespace())
        value = eval(compile(line, self._file, "eval"), namespace)
        leaves = list(itertools.islice(_leaves(value), MAX_RESULTS + 1))
        kept = leaves[:MAX_RESULTS]
        arrays = _evaluated([leaf for _, leaf in kept if _has_value(leaf)])
        found = []
        for label, leaf in kept:
            array = arrays.get(id(leaf), leaf)
            note = f"{leaf.kind} {leaf.spec}" if describe.is_tensor(leaf) else ""
            if describe.is_tensor(leaf) and leaf.kind == "update":
                note = f"{STORED} in the variable"
            found.append(Result(label, array, _describe_value(array), note))
        return tuple(found), len(leaves) - len(kept)


def _leaves(value: object, label: str = "") -> Iterator[tuple[str, object]]:
    """The tensors, arrays and other values in lists, tuples and dictionaries, with their places."""
    if isinstance(value, (list, tuple)) and any(_is_data(item) for item in _flat(value)):
        for at, item in enumerate(value):
            yield from _leaves(item, f"{label}[{at}]")
    elif isinstance(value, dict) and any(_is_data(item) for item in value.values()):
        for key, item in value.items():
            yield from _leaves(item, f"{label}[{describe.printable(repr(key), 20)}]")
    else:
        yield label, value


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _is_data(value: object) -> bool:
    return (
        describe.is_tensor(value)
        or describe.held_array(value) is not None
        or sparse_summary.held_matrix(value) is not None
    )


def _evaluated(tensors: list[Tensor]) -> dict[int, object]:
    """The values of tensors, computed together; of an update the value that it would store."""
    nodes = [tensor.inputs[1] if tensor.kind == "update" else tensor for tensor in tensors]
    for node in nodes:
        shape = node.spec.shape or ()
        count = math.prod(1 if size is None else size for size in shape)
        if count > MAX_ELEMENTS:
            raise ArgumentError(
                f"the result {node.spec} has {count} elements; at most {MAX_ELEMENTS} are explored",
                function="explore",
            )
    nodes = [_unprinted(node) for node in nodes]
    arrays = Function([], nodes, name="explore")([]) if nodes else []
    return {id(tensor): array for tensor, array in zip(tensors, arrays, strict=True)}


def _unprinted(node: Tensor) -> Tensor:
    """What print_tensor passes on: an exploration prints nothing."""
    return node.inputs[0] if node.op.name == "print_tensor" else node


def _has_value(leaf: object) -> TypeGuard[Tensor]:
    """Whether a leaf is a tensor that can be evaluated; a placeholder waits to be fed."""
    if not describe.is_tensor(leaf):
        return False
    return not isinstance(leaf, Placeholder) or leaf.default is not None


def _describe_value(value: object) -> str:
    if describe.is_tensor(value):
        return f"{value.kind} {value.spec}, which has a value once it is fed"
    return describe.printable(repr(value), 200) if _is_plain(value) else summary.line(value)


def _is_plain(value: object, depth: int = 4) -> bool:
    """Whether a value's text runs no code of the user's."""
    if type(value) in (list, tuple) and isinstance(value, (list, tuple)):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value[:100])
    return type(value) in (str, int, float, bool, type(None))


# ------------------------------------------------------------------ why there is nothing


def _stopped(how: str) -> str:
    if how == "time":
        return f"stopped after {TIMEOUT_SECONDS:g} s; try smaller inputs"
    return "an earlier call still runs, and cannot be stopped; try again when it has ended"


def words(error: BaseException) -> list[str]:
    """Reason, operands in the line and what would fit; never a traceback."""
    if not isinstance(error, KbenchError):
        text = explanation.safe_text(error).splitlines()[:_MAX_ERROR_LINES]
        name = describe.printable(type(error).__name__)
        return [f"{name}: {text[0]}" if text else name, *text[1:]]
    try:
        row = explanation.detail(error)
    except Exception:  # the report of an error must not replace it
        row = {}
    reason = describe.printable(error.reason, 4_000)
    head = f"{error.function}: {reason}" if error.function else reason
    if not row:
        return [_plain(head)]
    path = positions.path(error.__traceback__)
    if path and path[-1].frame.f_code.co_filename == __file__:  # as it was evaluated, not called
        row["source"], row["span"] = [], None
        for operand in row["operands"]:
            operand["line"] = None
    for operand in row["operands"]:  # they were made here, under names that nobody knows
        operand["place"], operand["name"] = None, ""
    row["layer"] = None
    return [_plain(line) for line in (head, *explanation.drawing(row)[:_MAX_ERROR_LINES])]


def _plain(text: str) -> str:
    """Without the scopes and places of the exploration itself."""
    return _MADE.sub("", _SCOPES.sub("", text))
