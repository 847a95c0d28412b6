"""Ops that have a kernel in the library: run it once it is ready, the NumPy form until then."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kbench.engine import cancel
from kbench.engine.kernels import library
from kbench.engine.plan.groups import LEAST
from kbench.engine.plan.items import Item
from kbench.engine.plan.steps import Buffers, Values, numpy_step

NAMES = ("softmax", "log_softmax", "logsumexp", "argmax", "argmin", "cumsum", "cumprod")
WORK = {"softmax": 5, "log_softmax": 5, "logsumexp": 4}


class LibraryStep:
    """One op over an axis (or neighbouring axes) of a large array."""

    def __init__(self, item: Item, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
        outer = math.prod(shape[: axes[0]])
        middle = math.prod(shape[axes[0] : axes[-1] + 1])
        inner = math.prod(shape[axes[-1] + 1 :])
        sides = {"outer": outer, "axis": middle, "inner": inner}
        self.view = {
            (True, True): "all",
            (False, True): "last",
            (True, False): "first",
            (False, False): "middle",
        }[outer == 1, inner == 1]
        kept = [size for name, size in sides.items() if name == "axis" or size != 1]
        self.shape = tuple(kept)
        self.item = item
        self.ready = False
        self._numpy = numpy_step(item)

    def form(self) -> str:
        return "library" if self.ready else "numpy"

    def run(self, v: Values, b: Buffers) -> None:
        item = self.item
        x = v[item.inputs[0]]
        kernel = library.find(item.op.name, x.dtype.name, self.view)
        self.ready = kernel is not None
        if kernel is None:
            self._numpy(v, b)
            return
        out = b[item.slot]
        kernel(out, np.ascontiguousarray(x).reshape(self.shape), cancel.check)
        v[item.slot] = out


def library_step(item: Item, items: Sequence[Item]) -> LibraryStep | None:
    """The step of an item that the library has a kernel for, if its operand is large."""
    if item.op.name not in NAMES or not item.static or item.op.allocates:
        return None
    source = items[item.inputs[0]]
    if not source.static or source.size < LEAST or item.attrs.get("backward"):
        return None
    axis = item.attrs["axis"]
    axes = axis if isinstance(axis, tuple) else (axis,)
    if not axes or axes != tuple(range(axes[0], axes[-1] + 1)):
        return None
    return LibraryStep(item, source.shape, axes)
