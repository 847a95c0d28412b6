"""What a learner has written down, compared with what is right, however it is written.

A list, a tuple, an array and a tensor without feeds are the same answer, and so are 3, 3.0 and
`np.int64(3)`. Truth values are no numbers, and strings are none either.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.engine.execute.function import Function
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk

TOLERANCE = 1e-6
"""Relative and absolute; what float32 makes of 0.001 is 0.001."""
ADVICE = "look again at the cells above"
"""What to do about a wrong value, where a check knows nothing better."""


def plain(value: object) -> Any:
    """The answer in Python's own kinds: sequences as tuples, numbers, strings; what else it may be.

    A tensor that nothing has to be fed to is computed.
    """
    if isinstance(value, Tensor):
        fed = any(node.kind == "placeholder" for node in walk([value]))
        return value if fed else plain(value.eval())
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufUS":
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return tuple(plain(item) for item in value)
    return value


def complaint(
    found: Any,
    wanted: object,
    parts: Sequence[str] = (),
    advice: str = ADVICE,
    tolerance: float = TOLERANCE,
) -> str:
    """What keeps an answer from being the right one, as the end of a sentence; empty if nothing.

    Arguments:
        found: what the learner has written.
        wanted: a number, string, None, or a tuple of these.
        parts: what the entries of `wanted` are, in the words of the lesson; it is told which of
            them are wrong, and never what is right.
        advice: what to do about a wrong value.
        tolerance: relative and absolute.
    """
    if not isinstance(wanted, tuple):
        return _misfit(found, wanted, "", tolerance) or (
            "" if _same(plain(found), wanted, tolerance) else f"is not right; {advice}"
        )
    found = plain(found)
    if kind(found) != kind(wanted):
        return _misfit(found, wanted, "", tolerance)
    if len(found) != len(wanted):
        many = "1 entry" if len(found) == 1 else f"{len(found)} entries"
        return f"has {many}; it should have {len(wanted)}"
    pairs = list(zip(found, wanted, strict=True))
    misfits = (
        _misfit(item, other, f" at index {index}", tolerance)
        for index, (item, other) in enumerate(pairs)
    )
    misfit = next((words for words in misfits if words), "")
    if misfit:
        return misfit
    right = [_same(plain(item), other, tolerance) for item, other in pairs]
    return "" if all(right) else f"is not right: {_halves(right, parts)}; {advice}"


def _misfit(found: Any, wanted: object, place: str, tolerance: float) -> str:
    """What is wrong with the kind of an answer, or with the entries of a tuple within a tuple."""
    found = _dtype(plain(found)) if isinstance(wanted, str) else plain(found)
    actual, right = kind(found), kind(wanted)
    if actual != right and {actual, right} != {"None", "number"}:
        return f"is {article(actual)}{place}; it should be {article(right)}"
    if isinstance(wanted, tuple) and complaint(found, wanted, tolerance=tolerance):
        return f"is not right{place}; {ADVICE}"
    return ""


def _halves(right: Sequence[bool], parts: Sequence[str]) -> str:
    """Which entries are right and which are not, by their names."""
    names = parts or [f"entry {index}" for index in range(len(right))]
    good = [name for name, fits in zip(names, right, strict=True) if fits]
    bad = [name for name, fits in zip(names, right, strict=True) if not fits]
    wrong = f"{' and '.join(bad)} {'is' if len(bad) == 1 else 'are'} wrong"
    return (
        f"{' and '.join(good)} {'is' if len(good) == 1 else 'are'} right, {wrong}"
        if good
        else wrong
    )


def _same(found: Any, wanted: Any, tolerance: float) -> bool:
    """Whether two answers of the same kind agree."""
    if isinstance(wanted, tuple):
        return True  # its entries were compared already
    if isinstance(wanted, str):
        return bool(_dtype(found) == wanted)
    if wanted is None or found is None:
        return found is wanted
    return math.isclose(found, wanted, rel_tol=tolerance, abs_tol=tolerance)


def _dtype(value: object) -> object:
    """The name of a dtype that was written as an object, such as `np.float32`; else the value."""
    if isinstance(value, type) and issubclass(value, np.generic):
        return np.dtype(value).name
    return value.name if isinstance(value, np.dtype) else value


def kind(value: object) -> str:
    """What the learner's value is, in the words of the lessons."""
    if isinstance(value, Tensor):
        return str(value.kind)
    if isinstance(value, Function):
        return "function"
    if isinstance(value, np.ndarray):
        return "array"
    if isinstance(value, (bool, np.bool_)):
        return "truth value"
    if isinstance(value, (int, float, np.number)):
        return "number"
    if inspect.isfunction(value):
        return "Python function"
    names = {str: "string", type: "class", type(None): "None"}
    return names.get(type(value), type(value).__name__)


def article(noun: str) -> str:
    """The noun with its article."""
    if noun == "None":
        return noun
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


class Operation(str):
    """The name of an operation in a graph, with its attributes."""

    def __new__(cls, name: str, attrs: dict[str, Any]) -> Operation:
        """The name is the text."""
        made = super().__new__(cls, name)
        made.attrs = attrs
        return made

    attrs: dict[str, Any]


def operations(tensor: Tensor) -> list[Operation]:
    """The operations of a graph, inputs first; those inside of loops are left out."""
    nodes = (node for node in walk([tensor]) if node.kind == "tensor")
    return [Operation(node.op.name, dict(node.attrs)) for node in nodes]


def reads(tensor: Tensor, source: Tensor) -> bool:
    """Whether a tensor is computed from another one."""
    return any(node is source for node in walk([tensor]))
