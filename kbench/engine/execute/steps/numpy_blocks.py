"""A group of elementwise statements on NumPy: block by block, so that temporaries stay in cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.engine.codegen.loop_program import LoopValue
from kbench.engine.core import cancel
from kbench.engine.core.fork_safety import cached_property
from kbench.engine.execute.buffer_pool import pool
from kbench.engine.graph.expr.numpy_form import BLOCK, ArrayFunction, bare_form, numpy_form

BLOCKS_PER_CANCEL_CHECK = 64
"""Blocks between two looks at the cancel flag: some 2 million elements, a few milliseconds."""


Runs = list[ArrayFunction]
"""How each statement is computed."""


class BlockedForm:
    """Evaluates statements over arrays of a common collapsed shape; keeps the `outputs` of them."""

    def __init__(
        self,
        statements: Sequence[LoopValue],
        patterns: Sequence[tuple[bool, ...]],
        dims: tuple[int, ...],
        outputs: Sequence[int],
    ) -> None:
        self.dims = dims
        self.places = {statement: place for place, statement in enumerate(outputs)}
        self.shapes = [
            tuple(size if varies else 1 for size, varies in zip(dims, pattern, strict=True))
            for pattern in patterns
        ]
        self._statements = statements
        self.dtypes = [statement.dtype for statement in statements]
        self._wide = [np.dtype(_wide(dtype)) for dtype in self.dtypes]
        self._blocks = 0

    @cached_property
    def forms(self) -> list[_Form]:
        """Made by the first run: where a kernel is ready at once, there is none."""
        forms = [_form(statement, len(self.shapes)) for statement in self._statements]
        last = {read: form for form in forms for read in form.reads}
        kept = {len(self.shapes) + place for place in self.places}
        for read, form in last.items():
            if read >= len(self.shapes) and read not in kept:
                form.ends.append(read)
        return forms

    def run(self, outs: Sequence[np.ndarray], arrays: Sequence[np.ndarray]) -> None:
        """Fill `outs` from the sources, each given in any shape with the right elements."""
        shaped = [array.reshape(shape) for array, shape in zip(arrays, self.shapes, strict=True)]
        self._fill([out.reshape(self.dims) for out in outs], shaped)

    def slab(
        self, window: tuple[slice, ...], outs: Sequence[np.ndarray], arrays: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Fill a window of `outs`; gives the last output's, which `outs` need not hold."""
        cut = len(window) - 1
        shaped = [
            array.reshape(shape)[window] if shape[cut] > 1 else array.reshape(shape)
            for array, shape in zip(arrays, self.shapes, strict=True)
        ]
        parts = [out.reshape(self.dims)[window] for out in outs]
        if len(parts) < len(self.places):
            size = len(range(*window[cut].indices(self.dims[cut])))
            shape = (*self.dims[:cut], size, *self.dims[cut + 1 :])
            parts.append(pool.take(shape, self.dtypes[-1]))
        self._fill(parts, shaped)
        return parts[-1]

    def _fill(self, outs: list[np.ndarray], arrays: list[np.ndarray]) -> None:
        self._blocks = 0
        narrow = any(array.dtype.char == "e" for array in (*outs, *arrays))
        runs = [form.run if narrow else bare_form(form.run) for form in self.forms]
        with np.errstate(all="ignore"):
            self._split(outs, arrays, runs, [])

    def _split(
        self, outs: list[np.ndarray], arrays: list[np.ndarray], runs: Runs, spare: list[np.ndarray]
    ) -> None:
        first = outs[0]
        if first.size <= BLOCK or first.ndim == 0:
            self._block(outs, arrays, runs, spare)
            return
        row = first.size // first.shape[0]
        if row > BLOCK and first.ndim > 1:
            for i in range(first.shape[0]):
                parts = [array[i if array.shape[0] > 1 else 0] for array in arrays]
                self._split([out[i] for out in outs], parts, runs, spare)
            return
        rows = max(1, BLOCK // row)
        for start in range(0, first.shape[0], rows):
            window = slice(start, start + rows)
            parts = [array[window] if array.shape[0] > 1 else array for array in arrays]
            self._block([out[window] for out in outs], parts, runs, spare)

    def _block(
        self, outs: list[np.ndarray], arrays: list[np.ndarray], runs: Runs, spare: list[np.ndarray]
    ) -> None:
        """One block; `spare` are temporaries that nobody reads any more, of earlier ones, too."""
        self._blocks += 1
        if self._blocks % BLOCKS_PER_CANCEL_CHECK == 0:
            cancel.check()
        values: list[np.ndarray] = list(arrays)
        last = len(self.forms) - 1
        for number, (form, run) in enumerate(zip(self.forms, runs, strict=True)):
            operands = [values[i] for i in form.reads]
            spare += [values[i] for i in form.ends]  # a form may write over what it reads
            out = outs[self.places[number]] if number in self.places else None
            target = out
            if target is None or (self.dtypes[number] == "float16" and number != last):
                target = _temporary(spare, operands, self._wide[number])
            run(target, *operands)
            if out is not None and target is not out:
                np.copyto(out, target, casting="unsafe")
            values.append(target)


def _temporary(
    spare: list[np.ndarray], operands: list[np.ndarray], dtype: np.dtype[Any]
) -> np.ndarray:
    """An array for what is made of operands: one of the spare ones if it fits."""
    shape = operands[0].shape if operands else ()
    if any(operand.shape != shape for operand in operands):
        shape = np.broadcast_shapes(*[operand.shape for operand in operands])
    for place, array in enumerate(spare):
        if array.shape == shape and array.dtype == dtype:
            return spare.pop(place)
    return np.empty(shape, dtype)


class _Form:
    """One statement: its NumPy form and the positions of what it reads."""

    def __init__(self, run: ArrayFunction, reads: tuple[int, ...]) -> None:
        self.run = run
        self.reads = reads
        self.ends: list[int] = []  # the temporaries that nobody reads after it


def _form(statement: LoopValue, sources: int) -> _Form:
    leaves = statement.expr.leaves
    reads = tuple(leaf.index + (sources if leaf.kind == "local" else 0) for leaf in leaves)
    return _Form(numpy_form(statement.expr, leaves, statement.dtype), reads)


def _wide(dtype: str) -> str:
    return "float32" if dtype == "float16" else dtype
