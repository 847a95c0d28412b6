"""Ops that have a kernel in the library: run it once it is ready, the NumPy form until then."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from kbench.engine.compiler.values import Value
from kbench.engine.core import cancel
from kbench.engine.core.quiet import quietly
from kbench.engine.core.spec import Spec
from kbench.engine.core.types import Attrs
from kbench.engine.execute.buffer_pool import owned, pool
from kbench.engine.execute.steps.base import Buffers, Registers
from kbench.engine.fusion.elementwise import MIN_LOOP_ELEMENTS
from kbench.engine.graph.op import KernelFactory
from kbench.engine.jit.launch import Preparable, Prepared
from kbench.engine.kernels import registry
from kbench.engine.runtime import config
from kbench.engine.runtime.workspace import Workspace

KERNEL_OPS = ("argmax", "argmin", "cumsum", "cumprod", "var")
SHAPE_KEEPING_OPS = ("cumsum", "cumprod")
BLOCK_ELEMENTS = 1 << 20
"""Elements of a part on NumPy: a few milliseconds, after which a stop is honoured."""
FLOPS_PER_ELEMENT = {"var": 3}


class LibraryStep:
    """One op over an axis (or neighbouring axes) of a large array."""

    def __init__(self, value: Value, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
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
        self.sides = (outer, middle, inner)
        self.value = value
        self.ready = False

    def form(self) -> str:
        return "library" if self.ready else "numpy"

    def run(self, registers: Registers, buffers: Buffers) -> None:
        value = self.value
        x = registers[value.inputs[0]]
        kernel = registry.find(value.op.name, x.dtype.name, self.view)
        self.ready = kernel is not None
        if kernel is None:
            registers[value.slot] = self._on_numpy(buffers[value.slot], x)
            return
        out = buffers[value.slot]
        whole = x if x.flags.c_contiguous else owned(x)
        kernel(out, whole.reshape(self.shape), cancel.check)
        registers[value.slot] = out

    def _on_numpy(self, out: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The NumPy form, in parts of a few milliseconds, so that a stop is honoured soon."""
        outer, middle, inner = self.sides
        whole = np.ascontiguousarray(x).reshape(self.sides)
        keeps = self.value.op.name in SHAPE_KEEPING_OPS
        result = out.reshape(self.sides if keeps else (outer, inner))
        run = partial(self.value.op.numpy, **self._attributes())
        rows = max(1, BLOCK_ELEMENTS // (middle * inner))
        columns = max(1, BLOCK_ELEMENTS // middle) if rows == 1 else inner
        for i in range(0, outer, rows):
            for j in range(0, inner, columns):
                block = (slice(i, i + rows), slice(j, j + columns))
                place = (block[0], slice(None), block[1]) if keeps else block
                result[place] = run(None, whole[block[0], :, block[1]])
                cancel.check()
        return out

    def _attributes(self) -> Attrs:
        attrs = dict(self.value.attrs)
        attrs["axis"] = (1,) if isinstance(attrs["axis"], tuple) else 1
        if "keepdims" in attrs:
            attrs["keepdims"] = False
        return attrs


class KernelStep:
    """One op that brings a compiled kernel of its own."""

    def __init__(self, value: Value, factory: KernelFactory, specs: Sequence[Spec]) -> None:
        """`specs` are those of the operands."""
        self.value = value
        self.factory = factory
        self._forms = [(spec.shape, np.dtype(spec.dtype)) for spec in specs]
        self.kernel: Callable[..., object] | Preparable | None = None
        self.variant = "library"  # of the kernel's last call
        self._slot, self._inputs = value.slot, value.inputs

    def form(self) -> str:
        return self.variant if self.kernel is not None else self.value.op.tier

    def find(self) -> Callable[..., object] | Preparable | None:
        """The kernel, or None while there is none."""
        self.kernel = None if config.jit_mode() == "off" else self.kernel or self.factory()
        return self.kernel

    def run(self, registers: Registers, buffers: Buffers) -> None:
        value, kernel, out = self.value, self.find(), buffers[self._slot]
        arrays = list(map(registers.__getitem__, self._inputs))
        if kernel is None:
            registers[value.slot] = value.op.numpy(out, *arrays, **value.attrs)
            return
        if value.op.kind == "several":
            assert not isinstance(kernel, Preparable)
            registers[value.slot] = kernel(*arrays, cancel.check)
            return
        if out is None:
            out = pool.take(value.shape, value.spec.dtype)
        if isinstance(kernel, Preparable):
            if kernel.repeat(out, *arrays):
                registers[self._slot] = out
                return
            workspace = Workspace()
            prepared = kernel.prepare(out, *arrays, workspace=workspace)
            self.variant = prepared.run(cancel.check)
            workspace.release()
            kernel.keep(out, *arrays)
        else:
            kernel(out, *arrays, cancel.check)
        registers[value.slot] = out

    def repeat(self, out: np.ndarray, *arrays: np.ndarray) -> bool:
        """What `run` does, once more; False where it is not known how."""
        kernel = self.find()
        if isinstance(kernel, Preparable):
            return kernel.repeat(out, *arrays)
        if kernel is None or self.value.op.kind == "several":
            return False
        if [(array.shape, array.dtype) for array in arrays] != self._forms:
            return False
        try:
            quietly(kernel, out, *arrays, cancel.check)
        except Exception:
            return False  # the usual way says what is wrong, and where
        return True

    def prepare(
        self, registers: Registers, buffers: Buffers, workspace: Workspace
    ) -> Prepared | None:
        """What `run` does, to be kept; None where that is no call of a kernel."""
        kernel, out = self.find(), buffers[self.value.slot]
        if out is None or not isinstance(kernel, Preparable):
            return None
        arrays = [registers[slot] for slot in self.value.inputs]
        return kernel.prepare(out, *arrays, workspace=workspace)


def kernel_step(value: Value, values: Sequence[Value]) -> KernelStep | None:
    """The step of a value whose op has a kernel for these shapes."""
    if value.op.kernel is None or not value.static:
        return None
    specs = [values[slot].spec for slot in value.inputs]
    if any(None in spec.shape for spec in specs):
        return None
    factory = value.op.kernel(*specs, **value.attrs)
    return None if factory is None else KernelStep(value, factory, specs)


def library_step(value: Value, values: Sequence[Value]) -> LibraryStep | None:
    """The step of a value that the library has a kernel for, if its operand is large."""
    if value.op.name not in KERNEL_OPS or not value.static or value.op.allocates:
        return None
    source = values[value.inputs[0]]
    if (
        not source.static
        or source.size < config.min_elements(MIN_LOOP_ELEMENTS)
        or value.attrs.get("backward")
    ):
        return None
    axis = value.attrs["axis"]
    axes = axis if isinstance(axis, tuple) else (axis,)
    if not axes or axes != tuple(range(axes[0], axes[-1] + 1)):
        return None
    return LibraryStep(value, source.shape, axes)
