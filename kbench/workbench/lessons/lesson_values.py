"""What a learner has written down, compared with what is right, however it is written.

A list, a tuple, an array and a tensor without feeds are the same answer, and so are 3, 3.0 and
`np.int64(3)`. Truth values are no numbers, and text is no number either.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from kbench.engine.execute.function import Function
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk

TOLERANCE = 1e-6
"""Relative and absolute; what float32 makes of 0.001 is 0.001."""


def plain(value: object) -> Any:
    """The answer in Python's own kinds: sequences as tuples, numbers, texts; what else it may be.

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


def complaint(found: Any, wanted: object, place: str = "") -> str:
    """What keeps an answer from being the right one, as the end of a sentence; empty if nothing."""
    found = plain(found)
    if isinstance(wanted, str) and not isinstance(found, str) and (name := _dtype(found)):
        found = name
    actual, right = kind(found), kind(wanted)
    if actual != right and {actual, right} != {"None", "number"}:
        return f"is {article(actual)}{place}; it should be {article(right)}"
    if isinstance(wanted, tuple):
        if len(found) != len(wanted):
            many = "1 entry" if len(found) == 1 else f"{len(found)} entries"
            return f"has {many}{place}; it should have {len(wanted)}"
        pairs = enumerate(zip(found, wanted, strict=True))
        inner = (complaint(item, other, f" at index {index}") for index, (item, other) in pairs)
        return next((words for words in inner if words), "")
    return "" if _same(found, wanted) else "is not what comes out; look again at the cells above"


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, str) or wanted is None or found is None:
        return bool(found == wanted)
    return math.isclose(found, wanted, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _dtype(value: object) -> str:
    """The name of a dtype that was written as an object, such as `np.float32`."""
    if isinstance(value, type) and issubclass(value, np.generic):
        return np.dtype(value).name
    return value.name if isinstance(value, np.dtype) else ""


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
    names = {str: "text", type: "class", type(None): "None"}
    return names.get(type(value), type(value).__name__)


def article(noun: str) -> str:
    """The noun with its article."""
    if noun in ("None", "text"):
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
