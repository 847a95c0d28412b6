"""Fused loops: from a `Program` to a running kernel.

`request` gives the kernel of a program as soon as it is compiled, and None until then; meanwhile
the caller computes with `numpy_form`. A `Kernel` checks its arrays against the loop dims before
every call, so that compiled code never reads or writes outside of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np

from kbench.engine.codegen import loop_source
from kbench.engine.codegen.arguments import Binding
from kbench.engine.codegen.join_kernels import join, joined
from kbench.engine.codegen.loop_program import Fold, Input, Program, Statement
from kbench.engine.core.folds import exact_folds
from kbench.engine.core.types import Array, CancelCheck
from kbench.engine.graph.expr.scalars import Cost
from kbench.engine.jit.array_memory import are_same
from kbench.engine.jit.launch import Launch, drive, thread_count
from kbench.engine.jit.service import Job, service
from kbench.engine.runtime import config, threads

__all__ = [
    "Fold",
    "Input",
    "Kernel",
    "Program",
    "Statement",
    "request",
]


CHEAP_FACTOR = 4
"""Times as many elements it takes to be worth waking threads where there are but sums and
products."""
MAX_BINDINGS = 16
"""Loop dims whose bindings a kernel remembers."""

_JOINS: dict[str, np.ufunc] = {
    "prod": np.multiply,  # of integers
    "max": np.maximum,
    "min": np.minimum,
    "any": np.bitwise_or,
    "all": np.bitwise_and,
}


class Items(Protocol):
    """What was bound to some loop dims: how many items, and elements of one."""

    items: int
    each: int


Bound = TypeVar("Bound", bound=Items)


class Nest(Generic[Bound]):
    """A compiled nest, what was bound to its last loop dims, and how fast it runs here."""

    def __init__(
        self, job: Job, made: Callable[[tuple[int, ...]], Bound], pace: float, ease: int = 1
    ) -> None:
        """`ease` times as many elements as others are worth the waking of threads."""
        self._job, self._made, self._ease = job, made, ease
        # Until a run has been timed; a look at the flag too many costs less than one too few.
        self._pace = pace
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

    def drive(self, params: Array, binding: Bound, cancel_check: CancelCheck | None) -> None:
        """Run every item, and take the time of a large run as the pace of the next."""
        work = binding.items * binding.each
        if work < self._ease * threads.MIN_PARALLEL_ELEMENTS:
            drive(
                self._job, params, binding.items, binding.each, cancel_check, self._pace, self._ease
            )
            return
        begun = time.perf_counter()
        drive(self._job, params, binding.items, binding.each, cancel_check, self._pace, self._ease)
        self._pace = 2 * max(1e-11, (time.perf_counter() - begun) / work)

    def call(self, params: Array, binding: Bound, *kept: Array) -> Launch:
        """What `drive` does, to be done later."""
        wanted = binding.items * binding.each >= self._ease * threads.MIN_PARALLEL_ELEMENTS
        many = thread_count(binding.items, wanted)
        return Launch(self._job.address, params, binding.items, many, kept=kept)


class Kernel:
    """A compiled program. `run` is safe from any thread."""

    form = "fused"

    def __init__(self, program: Program, job: Job) -> None:
        self.program = program
        self.name = program.name
        self.path: Path | None = job.path
        self._job = job
        slow = sum(statement.expr.count(Cost.SERIAL) for statement in program.statements)
        pace = 1e-9 * (1 + len(program.inputs) + 2 * len(program.statements)) + 2e-8 * slow
        dear = any(statement.expr.cost > Cost.CHEAP for statement in program.statements)
        self._nest = Nest(job, partial(Binding, program), pace, 1 if dear else CHEAP_FACTOR)

    @property
    def address(self) -> int:
        """Where the range kernel lies in memory."""
        return self._job.address

    @property
    def source(self) -> str:
        """The generated source of the loop nest."""
        return loop_source.source(self.program)

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
        binding = self._nest.bind(tuple(dims))
        binding.check_outs(outs)
        params, _alive = binding.parameters(outs, ins)
        if self.program.fold is not None:
            self._fold(binding, params, outs[-1], cancel_check)
        elif binding.total:
            self._nest.drive(params, binding, cancel_check)

    def launches(
        self, outs: Sequence[Array], ins: Sequence[Array], dims: Sequence[int]
    ) -> list[Launch] | None:
        """What `run` launches, None where it does more; `ins` are read as they lie then."""
        binding = self._nest.bind(tuple(dims))
        binding.check_outs(outs)
        params, alive = binding.parameters(outs, ins)
        if not are_same(alive, ins):
            return None
        fold = self.program.fold
        if fold is None:
            return [self._nest.call(params, binding)] if binding.total else []
        if fold.kind not in ("sum", "mean") or binding.kept == 0 or binding.reduced == 0:
            return None
        partials = binding.set_result(params, outs[-1])
        if partials is None:
            return [self._nest.call(params, binding)]
        last = join(outs[-1], partials, binding.reduced if fold.kind == "mean" else 1)
        return None if last is None else [self._nest.call(params, binding), last]

    def factors(
        self, ins: Sequence[Array], dims: Sequence[int], cancel_check: CancelCheck | None = None
    ) -> exact_folds.Factors:
        """The product that `run` gives, with the exponent by itself: it may have any size."""
        binding = self._nest.bind(tuple(dims))
        params, _alive = binding.parameters([], ins)
        parts = binding.set_factors(params)
        self._nest.drive(params, binding, cancel_check)
        return exact_folds.product_of_factors(parts, (0,))

    def _fold(
        self, binding: Binding, params: Array, result: Array, cancel_check: CancelCheck | None
    ) -> None:
        assert self.program.fold is not None
        kind = self.program.fold.kind
        if binding.kept == 0 or binding.reduced == 0:
            _fold_nothing(kind, result)
            return
        partials = binding.set_result(params, result)
        apart = partials is not None and self.program.has_exponents
        factors = binding.set_factors(params) if apart else None
        self._nest.drive(params, binding, cancel_check)
        if partials is None:
            return
        with np.errstate(all="ignore"):
            whole = partials[0]
            if factors is not None:
                whole = exact_folds.scaled(exact_folds.product_of_factors(factors, (0,)))
            elif binding.parts > 1:
                join_parts = _JOINS.get(kind)
                whole = joined(partials) if join_parts is None else join_parts.reduce(partials)
            if kind == "mean":
                whole = whole / binding.reduced
            np.copyto(result, whole.reshape(result.shape), casting="unsafe")


def _fold_nothing(kind: str, result: Array) -> None:
    if kind in ("max", "min") and result.size:
        raise ValueError(f"{kind} of no elements")
    identity = {"prod": 1, "all": True, "mean": np.nan}.get(kind, 0)
    np.copyto(result, np.asarray(identity).astype(result.dtype))


_kernels: dict[Program, Kernel] = {}


def request(program: Program) -> Kernel | None:
    """The program's kernel, or None while it is being compiled, when that failed or JIT is off."""
    kernel = _kernels.get(program)
    if kernel is not None:
        return None if config.jit_mode() == "off" else kernel
    job = service.find(program.name, lambda: loop_source.source(program))
    if job is not None:
        kernel = _kernels[program] = Kernel(program, job)
    return kernel
