"""A program bound to loop dims: how its work is cut, and its parameter block for given arrays.

Everything that depends on the dims alone is computed once; per call only addresses are filled in,
after every array has been checked against what compiled code will read and write.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kbench.engine.codegen.loop_program import Input, LoopProgram, field_names
from kbench.engine.core.types import Array
from kbench.engine.jit import fast_call
from kbench.engine.jit.array_memory import are_same, contiguous_copy, describe_array
from kbench.engine.runtime import cpu_caches
from kbench.engine.runtime.workspace import Workspace

# NumPy 2 has moved it.
_byte_bounds = getattr(np.lib, "array_utils", np).byte_bounds

_FLOAT64 = np.dtype(np.float64)

MIN_ITEMS = 64
"""Items that keep any number of threads busy; a fold with fewer results is cut into parts."""


class ItemSizes(Struct, frozen=True):
    """How much one item of a nest holds at most."""

    columns: int = 16_384
    """Columns of a nest with rows; up to twice as many are not cut."""
    fold_elements: int = 65_536
    """Elements of a fold over the last dims."""
    scratch_columns: int = 4096
    """Columns of a fold down them: their running results fit the scratch of
    `intrinsics/primitives`."""
    fold_rows: int = 256
    """Rows of such a fold, where there are few columns to share out."""


ITEM_SIZES = ItemSizes()
"""What a nest is cut into, where nothing else is said."""


class Reader:
    """The parameter template of a nest over some loop dims, and the check of what it reads."""

    def __init__(
        self, name: str, inputs: Sequence[Input], sizes: Sequence[int], fields: Sequence[str]
    ) -> None:
        self.name = name
        self.sizes = list(sizes)
        self.total = math.prod(self.sizes)
        self._slots = {field: place for place, field in enumerate(fields)}
        self._template = np.zeros(len(self._slots), np.int64)
        self._known: tuple[list[int], Array] | None = None
        self._set(**{f"n{d}": size for d, size in enumerate(self.sizes)})
        self._patterns = [operand.pattern or (False,) for operand in inputs]
        self._inputs = [self._input(number, operand) for number, operand in enumerate(inputs)]

    def _set(self, **values: int) -> None:
        for name, value in values.items():
            self._template[self._slots[name]] = value

    def _input(self, number: int, operand: Input) -> tuple[np.dtype[np.generic], int, list[int]]:
        """dtype, size and shape of an input; its strides, if contiguous, go to the template."""
        pattern = self._patterns[number]
        shape = [size if varies else 1 for size, varies in zip(self.sizes, pattern, strict=True)]
        strides, step = [], 1
        for size in reversed(shape):
            strides.append(step)
            step *= size
        self._set_strides(self._template, number, strides[::-1])
        return np.dtype(operand.dtype), math.prod(shape), shape

    def _set_strides(self, params: Array, number: int, strides: list[int]) -> None:
        for d, stride in enumerate(strides[:-1]):
            if self._patterns[number][d]:
                params[self._slots[f"s{number}_{d}"]] = stride

    def places(self, result: str) -> list[int]:
        """Where in the parameter block the addresses of a result, by its field, and of the inputs
        stand."""
        return [self._slots[result], *[self._slots[f"x{n}"] for n in range(len(self._inputs))]]

    def fill(self, params: Array, outs: Sequence[Array], ins: Sequence[Array]) -> list[Array]:
        """Enter the inputs, copied where they cannot be read as they lie or `outs` overwrite them.

        Gives the arrays that must stay alive during the call. An input may be the only one of
        `outs` itself.
        """
        if len(ins) != len(self._inputs):
            raise ValueError(f"{self.name} has {len(self._inputs)} inputs, got {len(ins)}")
        spans = [(fast_call.address(out), out.nbytes) for out in outs]
        alive = []
        for number, array in enumerate(ins):
            array = self._readable(params, number, array)
            begin = place_of = fast_call.address(array)
            end = begin + array.nbytes
            if not array.flags.c_contiguous:
                begin, end = _byte_bounds(array)
            for low, size in spans:
                apart = end <= low or low + size <= begin
                if not (apart or self._in_place(outs, array, low, begin)):
                    array = self._readable(params, number, array.copy())
                    place_of = fast_call.address(array)
            alive.append(array)
            params[self._slots[f"x{number}"]] = place_of
        return alive

    def _in_place(self, outs: Sequence[Array], array: Array, low: int, begin: int) -> bool:
        """Whether an input is the only result itself, element for element."""
        alone = len(outs) == 1 and array.flags.c_contiguous
        return alone and low == begin and array.nbytes == outs[0].nbytes

    def _readable(self, params: Array, number: int, array: Array) -> Array:
        """The array, copied if its strides cannot be followed; strides that can are noted."""
        dtype, size, shape = self._inputs[number]
        if array.dtype != dtype or array.size != size:
            raise ValueError(
                f"{self.name} reads {dtype}{shape} as a{number}, got {describe_array(array)}"
            )
        if array.flags.c_contiguous and array.flags.aligned:
            return array
        if array.flags.aligned and list(array.shape) == shape:
            steps = [stride // array.itemsize for stride in array.strides]
            whole = all(stride % array.itemsize == 0 and stride >= 0 for stride in array.strides)
            if whole and (not self._patterns[number][-1] or steps[-1] == 1):
                self._set_strides(params, number, steps)
                return array
        return contiguous_copy(array)


class Binding(Reader):
    """Sizes, items and the parameter template of a program over some loop dims."""

    def __init__(
        self, program: LoopProgram, dims: Sequence[int], item_sizes: ItemSizes = ITEM_SIZES
    ) -> None:
        self.program, self.item_sizes = program, item_sizes
        sizes = [int(size) for size in dims] or [1]
        if len(sizes) != program.rank or min(sizes) < 0:
            raise ValueError(f"{program.name} loops over {program.rank} dims, got {sizes}")
        super().__init__(program.name, program.inputs, sizes, field_names(program))
        self.outputs = [np.dtype(program.values[n].dtype) for n in program.outputs]
        self.kept = self.reduced = self.parts = 0
        self.items = self.each = 0
        self.is_streamed = False
        if program.fold is not None:
            self._cut_fold()
        elif self.total:
            self._cut()

    # -------------------------------------------------------------- cutting

    def _cut(self) -> None:
        last = self.sizes[-1]
        moved = sum(math.prod(shape) * dtype.itemsize for dtype, _, shape in self._inputs)
        moved += self.total * sum(dtype.itemsize for dtype in self.outputs)
        row = last * min(dtype.itemsize for dtype in self.outputs)
        self.is_streamed = self.program.may_stream and cpu_caches.is_streamed(moved, row)
        if len(self.sizes) == 1:
            self.items, self.each = self.total, 1
            return
        most = self.item_sizes.columns
        width = last if last <= 2 * most else most
        blocks = -(-last // width)
        self._set(width=width, blocks=blocks)
        self.items, self.each = self.total // last * blocks, width

    def _cut_fold(self) -> None:
        fold, sizes = self.program.fold, self.sizes
        assert fold is not None
        self.reduced = math.prod(sizes[fold.start : fold.stop])
        self.kept = math.prod(sizes[: fold.start]) * math.prod(sizes[fold.stop :])
        if not self.total:
            return
        last = sizes[-1]
        if fold.stop < len(sizes):
            self._cut_columns(last)
            return
        single = fold.stop - fold.start == 1
        rows = last if single else self.reduced // last
        most = self.item_sizes.fold_elements
        wanted = most if single else max(1, most // last)
        width = min(rows, wanted) if self.kept < MIN_ITEMS else rows
        blocks = -(-rows // width)
        self._set(width=width, blocks=blocks)
        self.parts, self.items = blocks, self.kept * blocks
        self.each = self.reduced // blocks

    def _cut_columns(self, last: int) -> None:
        width = min(last, self.item_sizes.scratch_columns)
        blocks = -(-last // width)
        lanes = self.kept // last * blocks
        most = self.item_sizes.fold_rows
        height = min(self.reduced, most) if lanes < MIN_ITEMS else self.reduced
        self.parts = -(-self.reduced // height)
        self._set(width=width, blocks=blocks, rows=height, pieces=self.parts)
        self.items, self.each = lanes * self.parts, height * width

    # -------------------------------------------------------------- arrays

    def check_outs(self, outs: Sequence[Array]) -> None:
        """ValueError unless `outs` can take the outputs and the fold's result."""
        name, folds = self.program.name, self.program.fold is not None
        if len(outs) != len(self.outputs) + folds:
            raise ValueError(f"{name} has {len(self.outputs) + folds} results, got {len(outs)}")
        for out, dtype in zip(outs, self.outputs, strict=False):
            if out.dtype != dtype or out.size != self.total or not out.flags.c_contiguous:
                raise ValueError(
                    f"{name} writes contiguous {dtype}{self.sizes}, got {describe_array(out)}"
                )
        if folds and outs[-1].size != self.kept:
            raise ValueError(f"{name} gives {self.kept} results, got {describe_array(outs[-1])}")
        for out in outs:
            if not out.flags.writeable:
                raise ValueError(f"{name} cannot write to a read-only array")

    def parameters(self, outs: Sequence[Array], ins: Sequence[Array]) -> tuple[Array, list[Array]]:
        """The parameter block, and the arrays that must stay alive during the call."""
        places = self._places(outs, ins)
        known = self._known
        if known is not None and known[0] == places:
            return known[1].copy(), list(ins)
        params = self._template.copy()
        for number in range(len(self.outputs)):
            params[number] = fast_call.address(outs[number])
        alive = self.fill(params, outs, ins)
        if self.is_streamed:  # what is written where it was read is in the cache already
            read = {fast_call.address(array) for array in alive}
            params[self._slots["streamed"]] = read.isdisjoint(
                fast_call.address(array) for array in outs
            )
        if places is not None and are_same(alive, ins):
            self._known = places, params.copy()
        return params, alive

    def _places(self, outs: Sequence[Array], ins: Sequence[Array]) -> list[int] | None:
        """Where all arrays lie, if inputs are read as they lie: the same give the same block."""
        places = [fast_call.address(out) for out in outs]
        for array, (dtype, size, _) in zip(ins, self._inputs, strict=False):
            flags = array.flags
            if not (flags.c_contiguous and flags.aligned):
                return None
            if array.dtype != dtype or array.size != size:
                return None
            places.append(fast_call.address(array))
        return places if len(ins) == len(self._inputs) else None

    def _in_place(self, outs: Sequence[Array], array: Array, low: int, begin: int) -> bool:
        """Whether an input is one of the results: an element is read before any of it is stored."""
        if self.program.fold is not None or low != begin or not array.flags.c_contiguous:
            return False
        are_same = [out.nbytes for out in outs if fast_call.address(out) == low]
        return array.size == self.total and are_same == [array.nbytes]

    def set_factors(self, params: Array, workspace: Workspace) -> tuple[Array, Array]:
        """Say where the mantissas and exponents of products go; gives their arrays."""
        shape = (self.parts, self.kept)
        mantissas = workspace.array(shape, _FLOAT64)
        exponents = workspace.array(shape, params.dtype)
        params[self._slots["partials"]] = fast_call.address(mantissas)
        params[self._slots["exponents"]] = fast_call.address(exponents)
        return mantissas, exponents

    def set_result(self, params: Array, result: Array, workspace: Workspace) -> Array | None:
        """Say where a fold's totals go; gives their array, None when that is `result` itself."""
        program = self.program
        if self.parts == 1 and program.is_direct and result.dtype == program.value_dtype:
            if result.flags.c_contiguous:
                params[self._slots["direct"]] = fast_call.address(result)
                return None
        dtype = np.dtype(program.partial_dtype(-1))
        partials = workspace.array((self.parts, self.kept), dtype)
        params[self._slots["partials"]] = fast_call.address(partials)
        return partials
