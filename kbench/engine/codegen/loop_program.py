"""What a fused loop computes: inputs, statements, outputs and a fold, as plain frozen data."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from kbench.engine.core.fork_safety import cached_property
from kbench.engine.graph.expr.expression import Expr, parse
from kbench.engine.graph.expr.scalars import Cost

FOLDS = ("sum", "mean", "prod", "max", "min", "any", "all")

DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


@dataclass(frozen=True)
class Input:
    """An array by dtype and pattern: for each loop dim, whether it varies there or broadcasts."""

    dtype: str
    pattern: tuple[bool, ...]


@dataclass(frozen=True)
class Statement:
    """`t<number> = expr` as `dtype`, over inputs a0, a1, ... and earlier statements t0, t1, ..."""

    expr: Expr
    dtype: str


def statement(text: str, dtype: str) -> Statement:
    """A statement by its text."""
    return Statement(parse(text), dtype)


@dataclass(frozen=True)
class Fold:
    """Reduces the last statement over the loop dims `start` to `stop` (end excluded)."""

    kind: str
    start: int
    stop: int


@dataclass(frozen=True)
class Program:
    """A fused loop nest. `outputs` are statements stored whole; the fold's result comes last."""

    inputs: tuple[Input, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[int, ...]
    fold: Fold | None = None

    def __post_init__(self) -> None:
        ranks = {len(operand.pattern) for operand in self.inputs}
        if len(ranks) > 1:
            raise ValueError(f"inputs have patterns of several lengths: {sorted(ranks)}")
        dtypes = [operand.dtype for operand in self.inputs]
        for dtype in [*dtypes, *(statement.dtype for statement in self.statements)]:
            if dtype not in DTYPES:
                raise ValueError(f"no kernel for dtype {dtype!r}")
        if not self.statements or not (self.outputs or self.fold):
            raise ValueError("a program needs a statement and an output")
        if any(not 0 <= output < len(self.statements) for output in self.outputs):
            raise ValueError(f"outputs {self.outputs} are not all statements")
        if self.fold is not None:
            self._check_fold(self.fold)

    def _check_fold(self, fold: Fold) -> None:
        if fold.kind not in FOLDS:
            raise ValueError(f"fold must be one of {', '.join(FOLDS)}, got {fold.kind!r}")
        if not 0 <= fold.start < fold.stop <= self.rank:
            raise ValueError(f"fold over dims {fold.start}:{fold.stop} of {self.rank}")

    @cached_property
    def rank(self) -> int:
        """Number of loop dims; at least 1."""
        return max(1, len(self.inputs[0].pattern)) if self.inputs else 1

    @cached_property
    def patterns(self) -> tuple[tuple[bool, ...], ...]:
        """The inputs' patterns, with a rank of 0 read as one loop dim."""
        return tuple(operand.pattern or (False,) for operand in self.inputs)

    @cached_property
    def name(self) -> str:
        """A name that says the kind and is unique to the program."""
        text = repr((self.inputs, self.statements, self.outputs, self.fold))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{self.fold.kind if self.fold else 'fused'}_{digest}"

    @property
    def value_dtype(self) -> str:
        """Dtype of the folded value."""
        return self.statements[-1].dtype

    @property
    def has_exponents(self) -> bool:
        """Whether it multiplies floats: exponents are added by themselves, and have no bound."""
        return self.fold is not None and self.fold.kind == "prod" and self.value_dtype[0] == "f"

    @property
    def partial_dtype(self) -> str:
        """Dtype in which the fold's partial results are kept."""
        assert self.fold is not None
        kind, dtype = self.fold.kind, np.dtype(self.value_dtype)
        if kind in ("any", "all") or dtype.kind == "b" and kind in ("max", "min"):
            return "uint8"
        if kind in ("sum", "mean", "prod"):
            return {"f": "float64", "u": "uint64"}.get(dtype.kind, "int64")
        return "float32" if dtype == np.float16 else dtype.name


def is_direct(program: Program) -> bool:
    """Whether a fold that is not cut into parts can store its result by itself."""
    fold = program.fold
    plain = program.value_dtype not in ("bool", "float16")  # float16 would be rounded twice
    if fold is None or not plain or fold.kind in ("any", "all"):
        return False
    return fold.kind != "mean" or program.value_dtype[0] == "f"


def may_stream(program: Program) -> bool:
    """Whether results may go past the caches (see `runtime/cpu_caches`).

    What computes long for each element waits for itself and not for memory: there it would be one
    more copy.
    """
    return program.fold is None and all(
        statement.expr.cost < Cost.CURVE for statement in program.statements
    )


def field_names(program: Program) -> list[str]:
    """The integers of a kernel's parameter block, in order."""
    rank = program.rank
    names = [f"y{n}" for n in range(len(program.outputs))]
    names += ["partials", "direct"] if program.fold else []
    names += ["exponents"] if program.has_exponents else []
    names += ["streamed"] if may_stream(program) else []
    names += [f"x{n}" for n in range(len(program.inputs))]
    names += [f"n{d}" for d in range(rank)]
    names += ["width", "blocks", "rows", "pieces"]
    for number, pattern in enumerate(program.patterns):
        names += [f"s{number}_{d}" for d in range(rank - 1) if pattern[d]]
    return names
