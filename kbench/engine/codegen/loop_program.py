"""What a compiled loop computes: inputs, values, and which of them are stored, as frozen data.

One form serves fused elementwise nests, their folds, programs of rows, and the loops within a
recurrence's step. It knows no sizes, and nothing of the source that is written for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import Enum

import numpy as np
from msgspec import Struct

from kbench.engine.core.fork_safety import cached_property
from kbench.engine.graph.expr.expression import COLUMN, Expr, input_leaf, local_leaf, parse
from kbench.engine.graph.expr.scalars import Cost

NEST_FOLDS = ("sum", "mean", "prod", "max", "min", "any", "all")
"""Folds of a nest, over neighbouring dims wherever they stand."""
COLUMN_FOLDS = ("pick", "first")
"""Folds of rows that take the value of one column."""
ALONG_FOLDS = ("sum", "prod", "max", "min", *COLUMN_FOLDS)
"""Folds of rows along the columns of each."""
DOWN_FOLDS = ("sum", "mean", "var")
"""Folds of rows down each column."""

DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


class Schedule(Enum):
    """In which order the loop dims of a program are walked."""

    NEST = "nest"
    """Each value once for every element, and at most one fold, which is stored last."""
    ROWS = "rows"
    """Row by row, the last dim being its columns: a row is swept as often as folds along it need.
    Dear values of one sweep are kept for the next."""
    SHORT_ROWS = "short rows"
    """The same, with rows of so few columns that what is left over by SIMD counts."""
    WIDE_ROWS = "wide rows"
    """The same, with rows of which some places are read side by side, in a longer source."""
    LONG_ROWS = "long rows"
    """The same again, with rows too long for scratch: values are kept only where results lie."""


class Input(Struct, frozen=True):
    """An array by dtype and pattern: for each loop dim, whether it varies there or broadcasts."""

    dtype: str
    pattern: tuple[bool, ...]


class Fold(Struct, frozen=True):
    """How a value is reduced over the loop dims `start` to `stop` (end excluded)."""

    kind: str
    start: int
    stop: int


class LoopValue(Struct, frozen=True):
    """`t<number> = expr` as `dtype`, over inputs a0, a1, ... and earlier values t0, t1, ...

    With a fold, it is what the fold makes of `expr`, an input or an earlier value. In rows `column`
    is the number of the column, and the fold "pick" of `x + a0` takes the value `x` at the column
    that the input `a0` says for each row; "first" takes the value at the first column.
    """

    expr: Expr
    dtype: str
    fold: Fold | None = None

    @property
    def reads(self) -> tuple[Expr, ...]:
        """The inputs and values that it uses."""
        return tuple(leaf for leaf in self.expr.leaves if leaf is not COLUMN)

    @property
    def locals(self) -> tuple[Expr, ...]:
        """The earlier values that it uses."""
        return tuple(leaf for leaf in self.expr.leaves if leaf.kind == "local")

    @property
    def has_column(self) -> bool:
        """Whether it uses the number of the column."""
        return COLUMN in self.expr.leaves

    @property
    def is_dear(self) -> bool:
        """Whether it takes longer than sums and products do."""
        return self.expr.cost > Cost.CHEAP


def loop_value(text: str, dtype: str, fold: Fold | None = None) -> LoopValue:
    """A value by the text of its expression."""
    return LoopValue(parse(text), dtype, fold)


class LoopProgram(Struct, frozen=True, dict=True):
    """Values in order, of which `stores` are the results.

    A *final* fold is one whose result no other value uses: items leave parts of it, which are
    joined later. Every fold of a nest is final, and of rows those down the columns. Final folds are
    the last of `stores`.
    """

    inputs: tuple[Input, ...]
    values: tuple[LoopValue, ...]
    stores: tuple[int, ...]
    schedule: Schedule = Schedule.NEST
    flushes: bool = False
    """Whether numbers below the smallest normal one are 0: `compiler/settle_states.py`."""

    def __post_init__(self) -> None:
        ranks = {len(operand.pattern) for operand in self.inputs}
        if len(ranks) > 1:
            raise ValueError(f"inputs have patterns of several lengths: {sorted(ranks)}")
        for dtype in self.types.values():
            if dtype not in DTYPES:
                raise ValueError(f"no kernel for dtype {dtype!r}")
        if not self.stores:
            raise ValueError("a program needs a result")
        if any(not 0 <= number < len(self.values) for number in self.stores):
            raise ValueError(f"not all of {self.stores} are values")
        for one in self.values:
            self._check_fold(one.fold)
            if any(leaf.index in self.final_folds for leaf in one.locals):
                raise ValueError("a fold of several rows or of a nest cannot be used in its kernel")
        if self.final_folds != self.stores[len(self.outputs) :]:
            raise ValueError(f"the folds {self.final_folds} are not the last of {self.stores}")
        if self.schedule is Schedule.NEST and self.final_folds not in ((), (len(self.values) - 1,)):
            raise ValueError("the fold of a nest is its last value")

    def _check_fold(self, fold: Fold | None) -> None:
        if fold is None:
            return
        if not 0 <= fold.start < fold.stop <= self.rank:
            raise ValueError(f"fold over dims {fold.start}:{fold.stop} of {self.rank}")
        kinds: tuple[str, ...] = NEST_FOLDS
        if self.schedule is not Schedule.NEST:
            spans = {(self.rank - 1, self.rank): ALONG_FOLDS, (0, self.rank - 1): DOWN_FOLDS}
            kinds = spans.get((fold.start, fold.stop), ())
        if fold.kind not in kinds:
            raise ValueError(f"fold must be one of {', '.join(kinds)}, got {fold.kind!r}")

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
        text = repr((self.inputs, self.values, self.stores, self.schedule, self.flushes))
        kind = "rows"
        if self.schedule is Schedule.NEST:
            kind = self.fold.kind if self.fold else "fused"
        return f"{kind}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    # -------------------------------------------------------------- values and results

    @cached_property
    def final_folds(self) -> tuple[int, ...]:
        """The folds that no value uses; a nest has one at most."""
        last = self.rank if self.schedule is not Schedule.NEST else self.rank + 1
        folds = ((n, one.fold) for n, one in enumerate(self.values))
        return tuple(n for n, fold in folds if fold is not None and fold.stop < last)

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """The values that are stored as they are computed: all but final folds."""
        return tuple(n for n in self.stores if n not in self.final_folds)

    @cached_property
    def fold(self) -> Fold | None:
        """The fold of a nest."""
        return self.values[self.final_folds[0]].fold if self.final_folds else None

    @cached_property
    def statements(self) -> tuple[int, ...]:
        """The values that are no folds."""
        return tuple(n for n, one in enumerate(self.values) if one.fold is None)

    @cached_property
    def full(self) -> tuple[bool, ...]:
        """Which values are one for each column, rather than one for all of them."""
        found: list[bool] = []
        for one in self.values:
            wide = one.has_column or any(self._varies(leaf, found) for leaf in one.reads)
            found.append(wide and one.fold is None)
        return tuple(found)

    def _varies(self, leaf: Expr, values: Sequence[bool]) -> bool:
        if leaf.kind == "input":
            return self.patterns[leaf.index][-1]
        return values[leaf.index]

    @cached_property
    def types(self) -> dict[Expr, str]:
        """The dtypes of all that an expression may read."""
        found: dict[Expr, str] = {COLUMN: "int64"}
        found |= {input_leaf(n): operand.dtype for n, operand in enumerate(self.inputs)}
        return found | {local_leaf(n): one.dtype for n, one in enumerate(self.values)}

    @cached_property
    def is_dear(self) -> bool:
        """Whether any value takes longer than sums and products do."""
        return any(one.is_dear for one in self.values)

    def kind_of(self, number: int) -> str:
        """The kind of a value's fold; '' for none."""
        fold = self.values[number].fold
        return fold.kind if fold is not None else ""

    def partial_dtype(self, number: int) -> str:
        """Dtype in which partial results of a fold are kept."""
        kind, dtype = self.kind_of(number), np.dtype(self.values[number].dtype)
        if kind in ("any", "all") or dtype.kind == "b" and kind in ("max", "min"):
            return "uint8"
        if kind in ("sum", "mean", "prod"):
            return {"f": "float64", "u": "uint64"}.get(dtype.kind, "int64")
        return "float32" if dtype == np.float16 else dtype.name

    # -------------------------------------------------------------- of a nest with a fold

    @property
    def value_dtype(self) -> str:
        """Dtype of the values that a nest folds."""
        return self.values[-1].dtype

    @property
    def has_exponents(self) -> bool:
        """Whether it multiplies floats: exponents are added by themselves, and have no bound."""
        return self.fold is not None and self.fold.kind == "prod" and self.value_dtype[0] == "f"

    @property
    def is_direct(self) -> bool:
        """Whether a fold that is not cut into parts can store its result by itself."""
        fold = self.fold
        plain = self.value_dtype not in ("bool", "float16")  # float16 would be rounded twice
        if fold is None or not plain or fold.kind in ("any", "all"):
            return False
        return fold.kind != "mean" or self.value_dtype[0] == "f"

    @property
    def may_stream(self) -> bool:
        """Whether results may go past the caches (see `runtime/cpu_caches`).

        What computes long for each element waits for itself and not for memory: there it would be
        one more copy.
        """
        return self.fold is None and all(one.expr.cost < Cost.CURVE for one in self.values)

    # -------------------------------------------------------------- of rows

    @cached_property
    def across(self) -> bool:
        """Whether rows are apart: nothing is computed along them, so they may be cut and joined."""
        varying = any(any(p[:-1]) and not p[-1] for p in self.patterns)
        varying = varying or any(one.has_column for one in self.values)
        return not varying and all(self.full[n] for n in self.outputs) and not self.along_folds

    @cached_property
    def along_folds(self) -> tuple[int, ...]:
        """The folds along each row, which later values may use."""
        folded = (n for n, one in enumerate(self.values) if one.fold is not None)
        return tuple(n for n in folded if n not in self.final_folds)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The inputs that say a column for each row."""
        picks = [self.values[n] for n in self.along_folds if self.kind_of(n) == "pick"]
        leaves = {one.reads[-1] for one in picks}
        if any(leaf.kind != "input" or self._varies(leaf, ()) for leaf in leaves):
            raise ValueError("what to pick is said by an input with one value for each row")
        return tuple(sorted(leaf.index for leaf in leaves))

    def twin(self, number: int) -> int | None:
        """The variance whose sums are those that `number`, a sum or a mean, asks for."""
        expr = self.values[number].expr
        same = (n for n in self.final_folds if self.values[n].expr is expr and n != number)
        return next((n for n in same if self.kind_of(n) == "var" != self.kind_of(number)), None)


def loop_nest(
    inputs: Sequence[Input],
    values: Sequence[LoopValue],
    outputs: Sequence[int],
    fold: Fold | None = None,
    flushes: bool = False,
) -> LoopProgram:
    """A nest that stores `outputs`, and then the fold of its last value."""
    if fold is None or not values:
        return LoopProgram(tuple(inputs), tuple(values), tuple(outputs), flushes=flushes)
    last = len(values)
    folded = LoopValue(local_leaf(last - 1), values[-1].dtype, fold)
    return LoopProgram(tuple(inputs), (*values, folded), (*outputs, last), flushes=flushes)


_NEST_ITEMS = ("width", "blocks", "rows", "pieces")
_ROW_ITEMS = ("many", "rows", "pieces", "width", "blocks")


def field_names(program: LoopProgram) -> list[str]:
    """The integers of a kernel's parameter block, in order: where results and inputs lie, the loop
    dims, how work is cut into items, and strides."""
    nest = program.schedule is Schedule.NEST
    names = [f"y{n}" for n in range(len(program.outputs))]
    names += _nest_fields(program) if nest else _down_fields(program)
    names += [f"x{n}" for n in range(len(program.inputs))]
    names += [f"n{d}" for d in range(program.rank)]
    names += _NEST_ITEMS if nest else _ROW_ITEMS
    for number, pattern in enumerate(program.patterns):
        names += [f"s{number}_{d}" for d in range(program.rank - 1) if pattern[d]]
    return names


def _nest_fields(program: LoopProgram) -> list[str]:
    """Where a fold's result goes, and whether results go past the caches."""
    names = ["partials", "direct"] if program.fold else []
    names += ["exponents"] if program.has_exponents else []
    return names + (["streamed"] if program.may_stream else [])


def _down_fields(program: LoopProgram) -> list[str]:
    """Where the sums of each fold down go, and of a variance squares and means too."""
    names = []
    for number in program.final_folds:
        variance = program.kind_of(number) == "var"
        kinds = ("partials", "squares", "means") if variance else ("partials",)
        names += [f"{kind}{number}" for kind in kinds]
    return names
