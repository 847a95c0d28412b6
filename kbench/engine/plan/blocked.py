"""A group of elementwise statements on NumPy: block by block, so that temporaries stay in cache."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

import numpy as np

from kbench.engine import cancel
from kbench.engine.kernels import scalars
from kbench.engine.plan.buffers import pool

BLOCK = scalars.BLOCK
CHECK_EVERY = 64  # blocks between two looks at the cancel flag


class BlockedForm:
    """Evaluates statements over arrays of a common collapsed shape."""

    def __init__(
        self,
        statements: Sequence[tuple[str, str]],
        patterns: Sequence[tuple[bool, ...]],
        dims: tuple[int, ...],
    ) -> None:
        self.dims = dims
        self.shapes = [
            tuple(size if varies else 1 for size, varies in zip(dims, pattern, strict=True))
            for pattern in patterns
        ]
        self.forms = [_statement(expr, dtype, len(patterns)) for expr, dtype in statements]
        self.dtypes = [_wide(dtype) for _, dtype in statements]
        self._blocks = 0

    def run(self, out: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        """Fill `out` from the sources, each given in any shape with the right elements."""
        shaped = [array.reshape(shape) for array, shape in zip(arrays, self.shapes, strict=True)]
        self._blocks = 0
        self._split(out.reshape(self.dims), shaped)

    def slab(
        self, window: tuple[slice, ...], arrays: Sequence[np.ndarray], dtype: str
    ) -> np.ndarray:
        """The part of the result that a window over its dims cuts out."""
        cut = len(window) - 1
        self._blocks = 0
        shaped = [
            array.reshape(shape)[window] if shape[cut] > 1 else array.reshape(shape)
            for array, shape in zip(arrays, self.shapes, strict=True)
        ]
        size = len(range(*window[cut].indices(self.dims[cut])))
        out = pool.take((*self.dims[:cut], size, *self.dims[cut + 1 :]), dtype)
        self._split(out, shaped)
        return out

    def _split(self, out: np.ndarray, arrays: list[np.ndarray]) -> None:
        if out.size <= BLOCK or out.ndim == 0:
            self._block(out, arrays)
            return
        row = out.size // out.shape[0]
        if row > BLOCK and out.ndim > 1:
            for i in range(out.shape[0]):
                self._split(out[i], [one[i if one.shape[0] > 1 else 0] for one in arrays])
            return
        rows = max(1, BLOCK // row)
        for start in range(0, out.shape[0], rows):
            window = slice(start, start + rows)
            self._block(out[window], [one[window] if one.shape[0] > 1 else one for one in arrays])

    def _block(self, out: np.ndarray, arrays: list[np.ndarray]) -> None:
        self._blocks += 1
        if self._blocks % CHECK_EVERY == 0:
            cancel.check()
        values: list[np.ndarray] = list(arrays)
        for form, dtype in zip(self.forms[:-1], self.dtypes[:-1], strict=True):
            operands = [values[i] for i in form.reads]
            shape = np.broadcast_shapes(*[one.shape for one in operands])
            target = np.empty(shape, dtype)
            form.run(target, *operands)
            values.append(target)
        last = self.forms[-1]
        last.run(out, *[values[i] for i in last.reads])


class _Statement:
    """One statement: its NumPy form and the positions of what it reads."""

    def __init__(self, run: Callable[..., None], reads: tuple[int, ...]) -> None:
        self.run = run
        self.reads = reads


def _statement(expr: str, dtype: str, sources: int) -> _Statement:
    names = sorted(set(_names(expr)), key=_position_key)
    reads = tuple(int(name[1:]) + (sources if name[0] == "t" else 0) for name in names)
    return _Statement(scalars.numpy_form(expr, names, dtype), reads)


def _names(expr: str) -> list[str]:
    return [
        node.id
        for node in ast.walk(ast.parse(expr, mode="eval"))
        if isinstance(node, ast.Name) and node.id[1:].isdigit()
    ]


def _position_key(name: str) -> tuple[str, int]:
    return name[0], int(name[1:])


def _wide(dtype: str) -> str:
    return "float32" if dtype == "float16" else dtype
