"""How a fold runs: in which dtypes, what it keeps besides, and the lines of its steps.

A running result has two levels. A *part* takes some values in the step's dtype; then it joins the
*total*, which is wide enough for any number of them. Sums of float64, which nothing is wider than,
carry what their additions lose. Products of floats multiply mantissas and add exponents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct

from kbench.engine.codegen.writers.typed_expr import computed
from kbench.engine.codegen.writers.writer import Walk, bits_of
from kbench.engine.graph.expr.expression import Expr
from kbench.engine.runtime.cpu_caches import CACHE_LINE_BYTES

CHUNK_ELEMENTS = 4096
"""Values that a running result takes before it joins the total."""

SHORT_CHUNK_ELEMENTS = {"float32": 128, "float64": 256}
"""As many of them where they are added in their own dtype. SIMD adds them in 16 lanes or more, so
that each is rounded less often than in a sum by halves."""

PRODUCT_ELEMENTS = 512
"""Mantissas, of 1 to 2, that are multiplied before the exponent of the product is taken off."""

STRETCHES = 4
"""Stretches of a long row that are folded side by side if it has one input: four additions are
under way where one would wait for the last."""
STRETCH = 64
"""Elements of each. They follow one another, as memory answers best to who reads on where it is."""
LONG_ROW = 4096
"""Elements of a row, or of a part of one, that is folded so."""
AHEAD_BYTES = 8192
"""How far ahead its lines are asked for: processors by themselves ask for less."""

SHORT_ROW = SHORT_CHUNK_ELEMENTS["float32"]
"""Elements of a short row, at most: each of its folds is a single part."""
SHORT_STRETCH = 32
"""Elements of it that one turn of SIMD takes: two vectors of 16."""

JOINT_ROWS = 8
"""Rows of one input that a fold down the columns adds up before it goes on to the next columns."""


class Running(Struct, frozen=True):
    """One fold while it runs: its kind, the dtype of what it folds, and those of its results.

    `total`, `part`, `carry` and `power` name the variables that hold them.
    """

    kind: str
    value: Expr
    given: str
    step_dtype: str
    total_dtype: str
    is_rounded: bool
    """Whether a sum's steps are rounded as its values are."""
    has_exponents: bool
    total: str
    part: str
    carry: str
    power: str

    @property
    def is_carried(self) -> bool:
        """Whether the total of a row keeps what it loses, as nothing is wider than its values."""
        return self.is_rounded and self.step_dtype == "float64"

    @property
    def has_stretches(self) -> bool:
        """Whether some stretches of a long row may be folded side by side."""
        return not self.has_exponents and not self.is_rounded

    @property
    def chunk(self) -> int:
        """Values that a part takes before it joins the total."""
        if self.has_exponents:
            return PRODUCT_ELEMENTS
        return SHORT_CHUNK_ELEMENTS[self.step_dtype] if self.is_rounded else CHUNK_ELEMENTS


class FoldWalk(Walk):
    """What folds add to a walk over the loop dims."""

    def running(self, number: int, dear: bool, wide: bool, *names: str) -> Running:
        """How a fold runs, with the names of its variables.

        `dear`: its values take long to make, so that SIMD goes on for float32. `wide`: values that
        it adds may be of float64 as they are read.
        """
        one, kind = self.program.values[number], self.program.kind_of(number)
        given, total = self.given(number), self.program.partial_dtype(number)
        adds = kind in ("sum", "mean")
        step = given if adds and given == "float32" and dear else total
        own = adds and given[0] == "f" and given == step
        exponents = kind == "prod" and one.dtype[0] == "f"
        rounded = own and (given == "float32" or wide)
        return Running(kind, one.expr, given, step, total, rounded, exponents, *names)

    def given(self, number: int) -> str:
        """The dtype in which a fold's values are computed."""
        return computed(self.program.types[self.program.values[number].expr])

    def is_wide(self, dims: slice) -> bool:
        """Whether an input of float64 varies along some dims."""
        pairs = zip(self.program.inputs, self.program.patterns, strict=True)
        return any(operand.dtype == "float64" and any(p[dims]) for operand, p in pairs)

    # -------------------------------------------------------------- the steps along a row

    def begin_total(self, fold: Running) -> None:
        """What a total starts from."""
        self.out.add(f"{fold.total} = {identity(fold.kind, fold.total_dtype)}")
        if fold.is_carried:
            self.out.add(f"{fold.carry} = np.float64(0)")
        if fold.has_exponents:
            self.out.add(f"{fold.power} = np.int64(0)")

    def begin_part(self, fold: Running) -> None:
        """What a part starts from."""
        self.out.add(f"{fold.part} = {identity(fold.kind, fold.step_dtype)}")

    def begin_stretches(self, first: str, stretches: int) -> None:
        """From where and to where a row is folded by stretches: nowhere, if it is short."""
        whole = f"last - (last - left) % {stretches * STRETCH}"
        self.out.add(f"left = {first}", f"whole = {whole} if last - left >= {LONG_ROW} else left")

    def fetch_ahead(self, columns: int, inputs: Iterable[int]) -> None:
        """Ask for what inputs have `AHEAD_BYTES` behind the columns from `low` on. It may be behind
        their end: nothing is read."""
        for number in inputs:
            address, place = self.location(number)
            place = place if place == "j" else f"({place})"
            size = np.dtype(self.program.inputs[number].dtype).itemsize
            ahead, line = AHEAD_BYTES // size, CACHE_LINE_BYTES // size
            first, end = f"low + {ahead}", f"low + {ahead + columns}"
            with self.out.block(f"for j in range({first}, {end}, {line}):"):
                self.out.add(self.call("fetch_line", f"{address} + {place} * {size}"))

    def take(self, fold: Running, value: str) -> None:
        """Let a part take a value of its dtype."""
        if fold.has_exponents:
            self.out.add(f"{fold.power} = {fold.power} + {self.call('exponent', value)}")
            value = self.call("mantissa", value)
        self.join_to(fold.part, fold.kind, value, fold.step_dtype)

    def join_part(self, fold: Running) -> None:
        """Let the part join the total."""
        total, same = fold.total, fold.step_dtype == fold.total_dtype
        part = fold.part if same else f"np.{fold.total_dtype}({fold.part})"
        if fold.is_carried:
            lost = self.call("lost", total, part, "joint")
            self.out.add(f"joint = {total} + {part}", f"{fold.carry} += {lost}", f"{total} = joint")
        else:
            self.join_to(total, fold.kind, part, fold.total_dtype)
        if fold.has_exponents:
            self.out.add(f"{fold.power} = {fold.power} + {self.call('exponent', total)}")
            self.out.add(f"{total} = {self.call('mantissa', total)}")

    def add_part(self, total: str, part: str, carry: str, step: str) -> None:
        """Let a column's sum of a few rows join its total of float64, with what it has lost."""
        parts = [f"np.float64({self.peek(name, 'j', step)})" for name in (part, carry)]
        self.add_to(total, "j", self.call("settled", *parts), "float64")

    def settle(self, fold: Running) -> None:
        """Give the total what it has lost."""
        if fold.is_carried:
            self.out.add(f"{fold.total} = {self.call('settled', fold.total, fold.carry)}")

    # -------------------------------------------------------------- arithmetic

    def join_to(self, name: str, kind: str, value: str, dtype: str) -> None:
        """Fold a value into a variable."""
        self.out.add(f"{name} = {self.joined(kind, name, value, dtype)}")

    def joined(self, kind: str, left: str, right: str, dtype: str) -> str:
        """One step of a fold in a dtype."""
        if kind in ("max", "min"):
            helper = f"{kind}imum_{'float' if dtype[0] == 'f' else 'int'}"
            joined = self.call(helper, left, right)
        elif kind in ("any", "all"):
            joined = f"({left} {'|' if kind == 'any' else '&'} {right})"
        else:
            joined = self.call("times" if kind == "prod" else "plus", left, right)
        return joined if dtype[0] == "f" else f"np.{dtype}({joined})"

    def joined_by_halves(self, fold: Running, values: Sequence[str]) -> str:
        """A few values of the step's dtype as one: a step waits for few others."""
        return by_halves(
            values, lambda left, right: self.joined(fold.kind, left, right, fold.step_dtype)
        )

    def fill(self, arrays: Sequence[tuple[str, str, str]]) -> None:
        """Set scratch arrays of some columns, by name and dtype, to what each starts from."""
        if arrays:
            with self.out.block("for j in range(last - first):"):
                for name, dtype, start in arrays:
                    self.store(name, "j", start, dtype)


def added(left: str, right: str) -> str:
    """The sum of two values."""
    return f"({left} + {right})"


def by_halves(values: Sequence[str], join: Callable[[str, str], str] = added) -> str:
    """A few values as one, in the order in which a sum of them is not rounded often."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    return join(by_halves(values[:half], join), by_halves(values[half:], join))


def stretches_of(inputs: int) -> int:
    """Stretches of a row that are folded side by side, by the inputs that vary along it."""
    return max(1, STRETCHES // max(1, inputs))


def rows_at_once(patterns: Sequence[tuple[bool, ...]], dear: bool) -> int:
    """Rows that a fold down the columns reads side by side: it goes over its sums less often.

    The fewer, the more inputs have rows of their own, by the dims along which each varies.
    """
    inputs = sum(any(pattern[:-1]) for pattern in patterns)
    return 1 if dear or not inputs else max(1, JOINT_ROWS // inputs)


def identity(kind: str, dtype: str) -> str:
    """What a fold starts from."""
    if kind in ("sum", "mean", "any"):
        return f"np.{dtype}(0)"
    if kind in ("prod", "all"):
        return f"np.{dtype}(1)"
    if dtype[0] == "f":
        return f"np.{dtype}({'-' if kind == 'max' else ''}np.inf)"
    bits = int(bits_of(dtype))
    low = 0 if dtype[0] == "u" else -(2 ** (bits - 1))
    return f"np.{dtype}({low if kind == 'max' else low + 2**bits - 1})"
