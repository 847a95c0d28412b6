"""From a row program to a running kernel, and from the parts of its items to results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from msgspec import Struct

from kbench.engine.codegen.arguments import Reader
from kbench.engine.codegen.join_kernels import Joined, Repeated, Variance
from kbench.engine.codegen.loop_kernel import Nest, ready_kernel
from kbench.engine.codegen.loop_program import LoopProgram, Schedule, field_names
from kbench.engine.codegen.repeated_loop import RepeatedLoop
from kbench.engine.codegen.row_sweeps import Sweeps
from kbench.engine.codegen.writers import kernel_source, row_source
from kbench.engine.codegen.writers.running_folds import SHORT_ROW
from kbench.engine.core.types import Array, CancelCheck
from kbench.engine.jit.array_memory import are_same, describe_array
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import Part, Prepared
from kbench.engine.jit.service import service
from kbench.engine.runtime.workspace import Workspace

MAX_KEPT_COLUMNS = 4096
"""Columns of a row whose dear values one sweep keeps for the next, or that are folded down."""


_FLOAT64 = np.dtype(np.float64)
_NOTHING = np.empty(0)
_Piece = tuple[Sequence[Array], Sequence[Array], tuple[int, ...]]
"""Results, inputs and loop dims of one launch."""


class RowItemSizes(Struct, frozen=True):
    """How much one item of a row program holds at most, and how many items there are."""

    elements: int = 32_768
    """Elements, where rows are short."""
    parts: int = 32
    """Items of a program that folds down the columns: enough for many threads. Each item leaves a
    row for each fold, and of joined rows several: twice as many are more than the second cache
    holds."""
    columns: int = 1024
    """Columns where rows are apart; a fold's few rows of them stay in the cache."""


ROW_ITEM_SIZES = RowItemSizes()
"""What a row program is cut into, where nothing else is said."""


class RowBinding(Reader):
    """Sizes, items and the parameter template of a row program over some loop dims."""

    def __init__(
        self,
        program: LoopProgram,
        dims: Sequence[int],
        item_sizes: RowItemSizes = ROW_ITEM_SIZES,
    ) -> None:
        super().__init__(program.name, program.inputs, dims, field_names(program))
        self.rows, self.columns = math.prod(dims[:-1]), dims[-1]
        width = min(self.columns, item_sizes.columns) if program.across else self.columns
        blocks = -(-self.columns // width)
        each = max(1, item_sizes.elements // width)
        if program.final_folds:
            each = max(row_source.FLUSH_ROWS, -(-self.rows * blocks // item_sizes.parts))
        self.parts = -(-self.rows // each)
        self.items, self.each = self.parts * blocks, each * width
        self._set(many=self.rows, rows=each, pieces=self.parts, width=width, blocks=blocks)
        self.counts = np.full(self.parts, each, np.float64)
        self.counts[-1] = self.rows - each * (self.parts - 1)

    def parameters(
        self, stores: Sequence[Array], ins: Sequence[Array]
    ) -> tuple[Array, list[Array]]:
        """The parameter block for these results, and what must stay alive during the call."""
        params = self._template.copy()
        for number, array in enumerate(stores):
            params[number] = address_of(array)
        return params, self.fill(params, stores, ins)

    def _in_place(self, outs: Sequence[Array], array: Array, low: int, begin: int) -> bool:
        return False  # a later sweep would read what an earlier one wrote


def is_inside(places: Array, columns: int) -> bool:
    """Whether all of these are numbers of columns."""
    return places.dtype.kind in "iu" and bool(places.min() >= 0 and places.max() < columns)


class RowKernel:
    """A compiled row program. `run` is safe from any thread."""

    form = "fused"

    def __init__(self, program: LoopProgram, job: Job) -> None:
        self.program = program
        self._sweeps = Sweeps(program)
        self.name = program.name
        self.path: Path | None = job.path
        pace = 1e-9 * (1 + len(program.inputs) + 2 * len(program.values))
        self._nest = Nest(job, partial(RowBinding, program), pace)
        twins = {number: program.twin(number) for number in program.final_folds}
        self._spans: dict[int, slice] = {}
        self._areas = 0
        for number, twin in twins.items():  # sums that a variance has are those of its twin
            count = 3 if program.kind_of(number) == "var" else int(twin is None)
            self._spans[number] = slice(self._areas, self._areas + count)
            self._areas += count
        self._firsts = {
            n: self._spans[n if twin is None else twin].start for n, twin in twins.items()
        }

    @property
    def source(self) -> str:
        """The generated source."""
        return kernel_source.source(self.program)

    def run(
        self,
        outs: Sequence[Array],
        ins: Sequence[Array],
        dims: Sequence[int],
        cancel_check: CancelCheck | None = None,
    ) -> None:
        """Compute into `outs`: the program's outputs, then the folds down the columns.

        Arguments:
            outs: contiguous arrays of prod(dims) elements, of one for each row, or for each column.
            ins: arrays of the program's dtypes, contiguous over the dims they vary in, or of the
                full rank with any strides (1 where broadcast); others are copied.
            dims: the loop dims, none of them 0: those of the rows, then the columns.
            cancel_check: called about every 20 ms; may raise to stop, which leaves `outs` half
                written.
        """
        workspace = Workspace()
        parts, _pieces = self._parts(outs, ins, dims, workspace)
        for part in parts:
            part.run(cancel_check)
        workspace.release()

    def prepare(
        self,
        outs: Sequence[Array],
        ins: Sequence[Array],
        dims: Sequence[int],
        workspace: Workspace,
    ) -> Prepared:
        """The call of `run`, with memory for what it folds."""
        parts, pieces = self._parts(outs, ins, dims, workspace)
        lasts = not self.program.places and all(are_same(*piece) for piece in pieces)
        if self._together(dims) > 1:  # inputs were seen as single rows
            lasts = lasts and all(array.flags.c_contiguous for array in ins)
        return Prepared(parts, self.form, kept=pieces, is_lasting=lasts)

    def repeated(
        self, outs: Sequence[Array], ins: Sequence[Array], dims: Sequence[int], given: Sequence[int]
    ) -> RepeatedLoop | None:
        """How the call of `run` is made again, for another result and other arrays in place of the
        `given` inputs; None where it is more than one launch of what these are."""
        program = self.program
        if len(outs) != 1 or program.final_folds or program.places or self._together(dims) > 1:
            return None
        (part,), ((_, alive),) = self._parts(outs, ins, dims, Workspace())
        launch = part.launch()
        if launch is None or not are_same(alive, ins):
            return None
        places = self._nest.bind(tuple(dims)).places("y0")
        return RepeatedLoop([launch], outs[0], ins, given, [(0, place) for place in places])

    def _parts(
        self, outs: Sequence[Array], ins: Sequence[Array], dims: Sequence[int], workspace: Workspace
    ) -> tuple[list[Part], list[tuple[Sequence[Array], list[Array]]]]:
        """What a call does; and for each launch its inputs, and what it reads in their place."""
        program = self.program
        self._check(outs, dims)
        for number in program.places:
            if not is_inside(ins[number], dims[-1]):
                raise ValueError(f"{self.name} picks one of {dims[-1]} columns with a{number}")
        stored = outs[: len(program.outputs)]
        many = self._together(dims)
        parts: list[Part] = []
        pieces: list[_Piece] = [(stored, ins, tuple(dims))]
        if many > 1:
            pieces = self._joined(stored, ins, dims, many, parts, workspace)
        folds: list[list[Array]] = [[]] * len(pieces)
        last: list[Part] = []
        if self._areas:
            folds, last = self._folds(outs[len(stored) :], pieces, dims, workspace)
        read = []
        for (written, given, sizes), areas in zip(pieces, folds, strict=True):
            binding = self._nest.bind(sizes)
            params, alive = binding.parameters([*written, *areas], given)
            parts.append(self._nest.launch(params, binding))
            read.append((given, alive))
        parts += last
        return parts, read

    def _folds(
        self,
        outs: Sequence[Array],
        pieces: Sequence[_Piece],
        dims: Sequence[int],
        workspace: Workspace,
    ) -> tuple[list[list[Array]], list[Part]]:
        """Where launches write what they fold down the columns, and what makes results of that.

        For each item and column these are sums, and for a variance squares about the mean, and
        these means, which of equal numbers are exact.
        """
        columns, program = dims[-1], self.program
        bindings = [self._nest.bind(sizes) for _, _, sizes in pieces]
        counts = [np.repeat(one.counts, one.columns // columns) for one in bindings]
        each = np.concatenate(counts) if len(counts) > 1 else counts[0]
        whole = workspace.array((self._areas, len(each), columns), _FLOAT64)
        stores, begin = [], 0
        for binding, some in zip(bindings, counts, strict=True):
            areas = whole[:, begin : begin + len(some)]
            shape = self._areas, binding.parts, binding.columns
            areas, begin = areas.reshape(shape), begin + len(some)
            found: list[Array] = []
            for span in self._spans.values():
                found += list(areas[span]) or [_NOTHING]
            stores.append(found)
        last: list[Part] = []
        for out, number in zip(outs, program.final_folds, strict=True):
            kind, first = program.kind_of(number), self._firsts[number]
            if kind == "var":
                last.append(Variance(out, whole[first + 2], whole[first + 1], each))
            else:
                rows = math.prod(dims[:-1])
                last.append(Joined(out, whole[first], rows if kind == "mean" else 0))
        return stores, last

    def _joined(
        self,
        outs: Sequence[Array],
        ins: Sequence[Array],
        dims: Sequence[int],
        many: int,
        parts: list[Part],
        workspace: Workspace,
    ) -> list[_Piece]:
        """Where rows are apart, short ones are joined; what is left over is a second launch.

        Inputs of one row are repeated by `parts`.
        """
        rows, columns = math.prod(dims[:-1]), dims[-1]
        head = rows // many * many
        pieces: list[_Piece] = []
        for first, last, side in ((0, head, many), (head, rows, 1)):
            if first == last:
                continue
            window = slice(first * columns, last * columns)
            given = []
            for array, (row_wise, column_wise) in zip(ins, self.program.patterns, strict=True):
                if row_wise or column_wise:
                    array = array.reshape(-1)[window] if row_wise else array.reshape(-1)
                if column_wise and not row_wise and side > 1:
                    row, array = array, workspace.array((side * array.size,), array.dtype)
                    parts.append(Repeated(array, row))
                given.append(array)
            written = [out.reshape(-1)[window] for out in outs]
            pieces.append((written, given, ((last - first) // side, columns * side)))
        return pieces

    def _check(self, outs: Sequence[Array], dims: Sequence[int]) -> None:
        program = self.program
        if len(dims) != program.rank or min(dims) < 1:
            raise ValueError(f"{self.name} loops over {program.rank} dims, got {list(dims)}")
        if program.schedule is Schedule.SHORT_ROWS and dims[-1] > SHORT_ROW:
            raise ValueError(f"{self.name} takes rows of {SHORT_ROW} columns, got {dims[-1]}")
        inside = self._sweeps.kept - self._sweeps.homes.keys() or program.final_folds
        if not program.across and dims[-1] > MAX_KEPT_COLUMNS and inside:
            raise ValueError(
                f"{self.name} takes rows of {MAX_KEPT_COLUMNS} columns, got {dims[-1]}"
            )
        if len(outs) != len(program.stores):
            raise ValueError(f"{self.name} has {len(program.stores)} results, got {len(outs)}")
        for number, out in zip(program.stores, outs, strict=True):
            one = program.values[number]
            size = dims[-1] if number in program.final_folds else math.prod(dims[:-1])
            size = math.prod(dims) if program.full[number] else size
            if out.dtype != one.dtype or out.size != size or not out.flags.c_contiguous:
                raise ValueError(
                    f"{self.name} gives {one.dtype}[{size}], got {describe_array(out)}"
                )
            if not out.flags.writeable:
                raise ValueError(f"{self.name} cannot write to a read-only array")

    def _together(self, dims: Sequence[int]) -> int:
        """Rows that are joined to one: where rows are apart, short ones."""
        if not self.program.across or self.program.rank != 2:
            return 1
        return min(max(1, ROW_ITEM_SIZES.columns // dims[-1]), math.prod(dims[:-1]))


_kernels: dict[LoopProgram, RowKernel] = {}


def request(program: LoopProgram) -> RowKernel | None:
    """The kernel of a program of rows, as soon as it is ready."""
    return ready_kernel(program, _kernels, RowKernel)


def is_coming(program: LoopProgram) -> bool:
    """Whether the kernel of a program has been asked for and is not there yet."""
    job = service.job(program.name)
    return job is not None and job.state == "pending"
