"""Fused loops: from a `LoopProgram` to a running kernel.

`request` gives the kernel of a program as soon as it is compiled, and None until then; meanwhile
the caller computes with `numpy_form`. A `Kernel` checks its arrays against the loop dims before
every call, so that compiled code never reads or writes outside of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np

from kbench.engine.codegen.arguments import Binding
from kbench.engine.codegen.join_kernels import Joined, Reduced, Repeated
from kbench.engine.codegen.loop_program import Fold, LoopProgram
from kbench.engine.codegen.repeated_loop import RepeatedLoop
from kbench.engine.codegen.writers import kernel_source
from kbench.engine.core.folds import exact_folds
from kbench.engine.core.types import Array, CancelCheck
from kbench.engine.graph.expr.scalars import Cost
from kbench.engine.jit import disk_cache
from kbench.engine.jit.array_memory import are_same
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.launch import HostStep, Launch, LaunchGraph, Part, Prepared
from kbench.engine.jit.service import service
from kbench.engine.runtime import config, threads
from kbench.engine.runtime.pacer import Pacer
from kbench.engine.runtime.workspace import Workspace

CHEAP_FACTOR = 2
"""Times as many elements it takes to be worth waking threads where there are but sums and
products."""
MAX_BINDINGS = 16
"""Loop dims whose bindings a kernel remembers."""


REPEATED = ("float32", "float64")
"""Dtypes of rows that a kernel repeats, so that a replay can, too."""
JOINED_COLUMNS = 512
"""Columns at most of rows that are joined on their way past the caches: two stages. Of rows of 64,
each takes as long to begin as to compute."""


@functools.lru_cache(MAX_BINDINGS)
def rows_to_join(rows: int, columns: int) -> int:
    """The most rows that have no more than JOINED_COLUMNS together and leave none over."""
    most = min(rows, JOINED_COLUMNS // max(1, columns))
    return next((many for many in range(most, 1, -1) if rows % many == 0), 1)


def is_joined(program: LoopProgram) -> bool:
    """Whether several rows may be gone over as one: each operand is whole, or one element, or a row
    that can be repeated."""
    if program.fold is not None or program.rank != 2 or (True, False) in program.patterns:
        return False
    pairs = zip(program.inputs, program.patterns, strict=True)
    return all(one.dtype in REPEATED for one, pattern in pairs if pattern == (False, True))


class Items(Protocol):
    """What was bound to some loop dims: how many items, and elements of one."""

    items: int
    each: int


Bound = TypeVar("Bound", bound=Items)
Compiled = TypeVar("Compiled")


class Nest(Generic[Bound]):
    """A compiled nest, what was bound to its last loop dims, and how fast it runs here."""

    def __init__(
        self, job: Job, made: Callable[[tuple[int, ...]], Bound], pace: float, ease: int = 1
    ) -> None:
        """`ease` times as many elements as others are worth the waking of threads."""
        self._job, self._made, self._ease = job, made, ease
        # A guess at first; a look at the flag too many costs less than one too few.
        self._pacer = Pacer(pace, ease * threads.MIN_PARALLEL_ELEMENTS)
        self._bindings: dict[tuple[int, ...], Bound] = {}

    def bind(self, dims: tuple[int, ...]) -> Bound:
        """What was made for these loop dims, made anew if that is long ago."""
        binding = self._bindings.get(dims)
        if binding is None:
            binding = self._made(dims)
            if len(self._bindings) >= MAX_BINDINGS:
                self._bindings.clear()
            self._bindings[dims] = binding
        return binding

    def launch(self, params: Array, binding: Bound) -> Launch:
        """Every item, for this parameter block."""
        items, work = binding.items, binding.each
        worth = items * work / (self._ease * threads.MIN_PARALLEL_ELEMENTS)
        most = max(2, int(2 * worth))  # half of what is worth two of them for each
        address = self._job.address
        return Launch(address, params, items, work, worth >= 1, self._pacer, most=most)


class Kernel:
    """A compiled program. `run` is safe from any thread."""

    form = "fused"

    def __init__(self, program: LoopProgram, job: Job) -> None:
        self.program = program
        self.name = program.name
        self.path: Path | None = job.path
        self._job = job
        self._joins = is_joined(program)
        slow = sum(one.expr.count(Cost.SERIAL) for one in program.values)
        pace = 1e-9 * (1 + len(program.inputs) + 2 * len(program.statements)) + 2e-8 * slow
        self._nest = Nest(
            job, partial(Binding, program), pace, 1 if program.is_dear else CHEAP_FACTOR
        )

    @property
    def address(self) -> int:
        """Where the range kernel lies in memory."""
        return self._job.address

    @property
    def source(self) -> str:
        """The generated source of the loop nest."""
        return kernel_source.source(self.program)

    def run(
        self,
        outs: Sequence[Array],
        ins: Sequence[Array],
        dims: Sequence[int],
        cancel_check: CancelCheck | None = None,
    ) -> None:
        """Compute into `outs`: the program's outputs, then the fold's result.

        Arguments:
            outs: C-contiguous arrays; outputs hold prod(dims) elements, the result the kept ones.
                An output may be one of the inputs, or overlap some.
            ins: arrays of the program's dtypes, C-contiguous over the dims they vary in, or of the
                full rank with any strides (1 where broadcast); others are copied.
            dims: the loop dims.
            cancel_check: called about every 20 ms; may raise to stop, which leaves `outs` half
                written.
        """
        workspace = Workspace()
        parts, _given, _alive = self._parts(outs, ins, dims, workspace)
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
        """The call of `run`; what it reads stays as it is until it has run."""
        parts, given, alive = self._parts(outs, ins, dims, workspace)
        is_lasting = are_same(alive, given)
        if given is not ins:  # inputs were seen as rows
            is_lasting = is_lasting and all(array.flags.c_contiguous for array in ins)
        return Prepared(parts, self.form, None, None, (ins, alive), is_lasting)

    def repeated(
        self, outs: Sequence[Array], ins: Sequence[Array], dims: Sequence[int], given: Sequence[int]
    ) -> RepeatedLoop | None:
        """How the call of `run` is made again, for another result and other arrays in place of the
        `given` inputs; None where it is more than launches of what these are, or not ready."""
        binding = self._nest.bind(tuple(dims))
        if len(outs) != 1 or binding.is_streamed or not LaunchGraph.is_supported():
            return None
        parts, _given, alive = self._parts(outs, ins, dims, Workspace())  # which is never released
        launches = [one for part in parts if (one := part.launch()) is not None]
        if not launches or len(launches) < len(parts) or not are_same(alive, ins):
            return None
        result, *places = binding.places("y0" if self.program.fold is None else "direct")
        first = (0, result) if len(launches) == 1 else (1, 0)
        return RepeatedLoop(
            launches, outs[0], ins, given, [first, *[(0, place) for place in places]]
        )

    def _parts(
        self, outs: Sequence[Array], ins: Sequence[Array], dims: Sequence[int], workspace: Workspace
    ) -> tuple[Sequence[Part], Sequence[Array], list[Array]]:
        """What a call does, its inputs as they are given to the launch, and what is read in their
        place, which must stay alive until it has run."""
        binding = self._nest.bind(tuple(dims))
        binding.check_outs(outs)
        parts: list[Part] = []
        many = self._together(ins, binding)
        if many > 1:
            ins = self._joined(ins, many, parts, workspace)
            binding = self._nest.bind((binding.sizes[0] // many, binding.sizes[1] * many))
        params, alive = binding.parameters(outs, ins)
        if self.program.fold is not None:
            fold = self._fold(self.program.fold, binding, params, outs[-1], workspace)
            return fold, ins, alive
        if binding.total:
            parts.append(self._nest.launch(params, binding))
        return parts, ins, alive

    def _together(self, ins: Sequence[Array], binding: Binding) -> int:
        """Rows that are gone over as one: many short ones, where that copies no operand."""
        if not (self._joins and binding.is_streamed) or len(ins) != len(self.program.inputs):
            return 1
        pairs = zip(ins, self.program.patterns, strict=True)
        if any(pattern == (True, True) and not one.flags.c_contiguous for one, pattern in pairs):
            return 1
        return rows_to_join(*binding.sizes)

    def _joined(
        self, ins: Sequence[Array], many: int, parts: list[Part], workspace: Workspace
    ) -> list[Array]:
        """The inputs for so many rows at a time; those of one row are repeated by `parts`."""
        given = []
        for array, pattern in zip(ins, self.program.patterns, strict=True):
            if pattern == (True, True):
                array = array.reshape(-1)
            elif pattern == (False, True):
                row, array = array.reshape(-1), workspace.array((many * array.size,), array.dtype)
                parts.append(Repeated(array, row))
            given.append(array)
        return given

    def factors(
        self, ins: Sequence[Array], dims: Sequence[int], cancel_check: CancelCheck | None = None
    ) -> exact_folds.Factors:
        """The product that `run` gives, with the exponent by itself: it may have any size."""
        binding = self._nest.bind(tuple(dims))
        params, _alive = binding.parameters([], ins)
        parts = binding.set_factors(params, Workspace())  # never released: the product may view it
        self._nest.launch(params, binding).run(cancel_check)
        return exact_folds.product_of_factors(parts, (0,))

    def _fold(
        self, fold: Fold, binding: Binding, params: Array, result: Array, workspace: Workspace
    ) -> Sequence[Part]:
        """The launch, and what joins the parts that it leaves."""
        if binding.kept == 0 or binding.reduced == 0:
            return (HostStep(lambda _check: _fold_nothing(fold.kind, result)),)
        partials = binding.set_result(params, result, workspace)
        if partials is None:
            return (self._nest.launch(params, binding),)
        last: Part
        if self.program.has_exponents:
            factors = binding.set_factors(params, workspace)
            last = HostStep(lambda _check: _multiply(factors, result))
        elif fold.kind in ("sum", "mean"):
            last = Joined(result, partials, binding.reduced if fold.kind == "mean" else 0)
        else:
            last = Reduced(fold.kind, result, partials)
        return self._nest.launch(params, binding), last


def _multiply(factors: exact_folds.Factors, result: Array) -> None:
    """Join the parts of a product of floats."""
    with np.errstate(all="ignore"):
        whole = exact_folds.scaled(exact_folds.product_of_factors(factors, (0,)))
        np.copyto(result, whole.reshape(result.shape), casting="unsafe")


def _fold_nothing(kind: str, result: Array) -> None:
    if kind in ("max", "min") and result.size:
        raise ValueError(f"{kind} of no elements")
    identity = {"prod": 1, "all": True, "mean": np.nan}.get(kind, 0)
    np.copyto(result, np.asarray(identity).astype(result.dtype))


@functools.cache
def _writers() -> str:
    """The hash of all that writes sources."""
    return disk_cache.content_key("from kbench.engine.codegen.writers.kernel_source import source")


def source_of(program: LoopProgram) -> str:
    """The program's source; one that was written before is read, in a tenth of the time."""
    write = partial(kernel_source.source, program)
    return disk_cache.keep_text(write, _writers(), program.name)


def _guessed_length(program: LoopProgram) -> int:
    """About the length of a source that was never written here; 0 if it was.

    Those of training steps of five models have between half and twice the characters.
    """
    if disk_cache.is_kept(_writers(), program.name):
        return 0
    folds = any(one.fold is not None for one in program.values)
    return 1500 + 120 * len(program.values) + 1500 * folds


def ready_kernel(
    program: LoopProgram,
    known: dict[LoopProgram, Compiled],
    made: Callable[[LoopProgram, Job], Compiled],
) -> Compiled | None:
    """The program's kernel, or None while it is being compiled, when that failed or JIT is off."""
    kernel = known.get(program)
    if kernel is not None:
        return None if config.jit_mode() == "off" else kernel
    job = service.find(program.name, lambda: source_of(program), lambda: _guessed_length(program))
    if job is not None:
        kernel = known[program] = made(program, job)
    return kernel


_kernels: dict[LoopProgram, Kernel] = {}


def request(program: LoopProgram) -> Kernel | None:
    """The kernel of a nest, as soon as it is ready."""
    return ready_kernel(program, _kernels, Kernel)
