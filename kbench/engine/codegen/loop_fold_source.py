"""The folds of a program's loop nest: over the trailing dims, or down leading and middle ones.

Sums of float32 are of float64 from the first step on, but for what is dear to compute, where SIMD
goes on for float32: that is added in float32, a few columns at a time along rows, and down the
columns with what each addition loses. Sums of float64, which nothing is wider than, keep what they
lose. So a sum errs less than one by halves, whatever the axis. Products of floats multiply
mantissas and add exponents: nothing overflows on the way to a product that can be held.
"""

from __future__ import annotations

import re

from kbench.engine.codegen.loop_program import Input, Program, is_direct
from kbench.engine.codegen.typed_expr import computed
from kbench.engine.codegen.writer import (
    CHUNK_ELEMENTS,
    PRODUCT_ELEMENTS,
    SHORT_CHUNK_ELEMENTS,
    Walk,
    bits_of,
    by_halves,
    identity,
    join,
    rows_at_once,
)
from kbench.engine.graph.expr.scalars import Cost

JOINT_FACTORS = 4
"""Numbers of float32 that are multiplied in float64 before exponents are taken off."""
NARROW_PRODUCT_ELEMENTS = 256
"""Columns of which the quarters are multiplied side by side: near enough to be read as one."""
COMPENSATED_ROWS = 128
"""Rows added in float32, with what is lost on the way, before they join float64 totals."""


class Folds(Walk):
    """What a fold adds to a walk over a program's dims."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.inputs, program.patterns)
        self.program = program

    def step(self, position: str, near: bool = False) -> None:
        """The innermost body, which the nest has."""
        raise NotImplementedError

    def row_fold(self) -> None:
        """A fold over the trailing dims: an item is a part of one kept element's values."""
        fold, out = self.program.fold, self.out
        assert fold is not None
        kept, reduced = range(fold.start), range(fold.start, self.last)
        count = " * ".join(f"n{d}" for d in kept) or "1"
        out.add(f"kept = {count}")
        out.open("for item in range(start, stop):")
        out.add("place = item // blocks", "block = item - place * blocks", "rest = place")
        self.index("rest", kept)
        self.offsets(kept)
        out.add("first = block * width", f"total = {self.identity(self.program.partial_dtype)}")
        if self.carried:
            out.add("carry = np.float64(0)")
        if self.program.has_exponents:
            out.add("power = np.int64(0)")
        if len(reduced):
            out.add(f"end = min(first + width, {' * '.join(f'n{d}' for d in reduced)})")
            self._keep_bases(kept)
            out.open("for row in range(first, end):")
            out.add("rest = row")
            self.index("rest", reduced)
            self.offsets(reduced, "b")
            self._chunks("0", f"n{self.last}", self._row_position(kept, reduced))
            out.close()
        else:
            self._chunks("first", f"min(first + width, n{self.last})", f"place * n{self.last} + j")
        reduced_count = " * ".join(f"n{d}" for d in range(fold.start, fold.stop))
        if self.carried:
            self.used.add("settled")
            out.add("total = settled(total, carry)")
        self.finish("place", "block * kept + place", "total", reduced_count)

    def _row_position(self, kept: range, reduced: range) -> str:
        rows = " * ".join(f"n{d}" for d in reduced)
        return f"(place * {rows} + row) * n{self.last} + j"

    def _keep_bases(self, kept: range) -> None:
        for number, pattern in enumerate(self.program.patterns):
            if any(pattern[d] for d in kept):
                self.out.add(f"b{number} = o{number}")

    def _chunks(self, first: str, last: str, position: str) -> None:
        """Fold columns `first` to `last` into `total`, in chunks short enough for float32."""
        out, program = self.out, self.program
        self.hoisted()
        out.add(f"last = {last}")
        chunk = self._chunk()
        out.open(f"for low in range({first}, last, {chunk}):")
        out.add(f"part = {self.identity(self.step_dtype)}")
        if self._narrow:
            self._quarters(position, chunk)
        begun = "begun" if self._narrow else "low"
        out.open(f"for j in range({begun}, min(low + {chunk}, last)):")
        self.step(position)
        value = self.value(self.step_dtype)
        if program.has_exponents:
            self.used.update({"mantissa", "exponent"})
            out.add(f"power = power + exponent({value})")
            value = f"mantissa({value})"
        out.add(f"part = {self.join('part', value, self.step_dtype)}")
        out.close()
        partial = program.partial_dtype
        part = f"np.{partial}(part)" if partial != self.step_dtype else "part"
        if self.carried:
            self.used.add("lost")
            out.add("joint = total + part", "carry += lost(total, part, joint)", "total = joint")
        else:
            out.add(f"total = {self.join('total', part, partial)}")
        if program.has_exponents:
            out.add("power = power + exponent(total)", "total = mantissa(total)")
        out.close()

    def _quarters(self, position: str, chunk: int) -> None:
        """Multiply the quarters of a chunk side by side, so that exponents are taken off once."""
        out = self.out
        side = chunk // JOINT_FACTORS
        out.add(f"each = {side} if low + {chunk} <= last else 0")
        out.add(f"begun = low + each * {JOINT_FACTORS}")
        out.open("for k in range(low, low + each):")
        values = []
        for part in range(JOINT_FACTORS):
            start = len(out.lines)
            out.add(f"j = k + {part} * each")
            self.step(position)
            own = {line.split(" = ")[0].strip() for line in out.lines[start:] if " = " in line}
            names = re.compile(rf"\b({'|'.join(sorted(own - {'j'}))})\b")
            out.lines[start:] = [names.sub(rf"\1_{part}", line) for line in out.lines[start:]]
            values.append(names.sub(rf"\1_{part}", self.value("float64")))
        self.used.update({"mantissa_narrow", "exponent_narrow"})
        out.add(f"some = {' * '.join(values)}", "power = power + exponent_narrow(some)")
        out.add(f"part = {self.join('part', 'mantissa_narrow(some)', 'float64')}")
        out.close()

    @property
    def _narrow(self) -> bool:
        """Whether a few factors, that were float32, are within float64 whatever they are."""
        return self.program.has_exponents and self.program.value_dtype != "float64"

    def _chunk(self) -> int:
        """Columns of a chunk."""
        if self.program.has_exponents:
            return NARROW_PRODUCT_ELEMENTS if self._narrow else PRODUCT_ELEMENTS
        short = SHORT_CHUNK_ELEMENTS.get(self.step_dtype, CHUNK_ELEMENTS)
        return short if self.is_rounded else CHUNK_ELEMENTS

    def column_fold(self) -> None:
        """A fold over leading or middle dims: running results of some columns on the stack."""
        fold, out, last = self.program.fold, self.out, self.last
        assert fold is not None
        outer, reduced, inner = (
            range(fold.start),
            range(fold.start, fold.stop),
            range(fold.stop, last),
        )
        counts = {
            name: " * ".join(f"n{d}" for d in dims) or "1"
            for name, dims in (("outer", outer), ("reduced", reduced), ("inner", inner))
        }
        out.add(*[f"{name} = {count}" for name, count in counts.items()])
        partial, step = self.program.partial_dtype, self.step_dtype
        out.add(f"totals = scratch_{bits_of(partial)}()")
        out.add(f"parts = scratch_{bits_of(step)}()" if step != partial else "parts = totals")
        self.used.update({f"scratch_{bits_of(partial)}", f"scratch_{bits_of(step)}"})
        if self.carried:
            out.add(f"carries = scratch_{bits_of(step)}()")
        if self.program.has_exponents:
            out.add("powers = scratch_64()")
        out.open("for item in range(start, stop):")
        out.add("rest = item // blocks", "first = (item - rest * blocks) * width")
        out.add(f"last = min(first + width, n{last})")
        out.add("place = rest // pieces", "piece = rest - place * pieces")
        out.add("across = place // inner", "along = place - across * inner")
        out.add("rest = across")
        self.index("rest", outer)
        out.add("rest = along")
        self.index("rest", inner)
        self._fill("totals", partial)
        out.add("begin = piece * rows", "end = min(begin + rows, reduced)")
        if step == partial:
            self._clear_carries(step)
            if self.program.has_exponents:
                self._rows_of_factors(reduced)
            else:
                self._rows("begin", "end", reduced)
            if self.carried:
                self._settle(step)
        else:
            out.open(f"for low in range(begin, end, {COMPENSATED_ROWS}):")
            self._fill("parts", step)
            self._clear_carries(step)
            self._rows("low", f"min(low + {COMPENSATED_ROWS}, end)", reduced)
            self._add_parts(partial, step)
            out.close()
        out.add(f"base = (piece * outer * inner + place) * n{last}")
        self.used.add(f"peek_{partial}")
        self.finish("base + j", "base + j", f"peek_{partial}(totals, j - first)", "reduced", True)

    def _fill(self, name: str, dtype: str) -> None:
        self.used.add(f"store_{dtype}")
        self.out.open("for j in range(last - first):")
        self.out.add(f"store_{dtype}({name}, j, {self.identity(dtype)})")
        self.out.close()

    def _clear_carries(self, step: str) -> None:
        if self.carried:
            self._fill("carries", step)

    def _rows_of_factors(self, reduced: range) -> None:
        """Multiply rows, and every few of them take the exponents off."""
        out = self.out
        self.used.update({"peek_int64", "store_int64", "mantissa", "exponent"})
        out.open("for j in range(last - first):")
        out.add("store_int64(powers, j, np.int64(0))")
        out.close()
        out.open(f"for low in range(begin, end, {PRODUCT_ELEMENTS}):")
        self._rows("low", f"min(low + {PRODUCT_ELEMENTS}, end)", reduced)
        out.open("for j in range(last - first):")
        out.add("grown = peek_float64(totals, j)")
        out.add("store_int64(powers, j, peek_int64(powers, j) + exponent(grown))")
        out.add("store_float64(totals, j, mantissa(grown))")
        out.close(2)

    def _settle(self, step: str) -> None:
        """Give the totals what they have lost."""
        self.used.update({"settled", f"peek_{step}", f"store_{step}"})
        self.out.open("for j in range(last - first):")
        whole = f"settled(peek_{step}(totals, j), peek_{step}(carries, j))"
        self.out.add(f"store_{step}(totals, j, {whole})")
        self.out.close()

    def _rows(self, begin: str, end: str, reduced: range) -> None:
        """Fold these rows: some at once where that saves going over the running results."""
        out, group = self.out, self._group()
        if group > 1:
            out.add(f"begun = {begin}", f"ended = {end}")
            out.add(f"whole = begun + (ended - begun) // {group} * {group}")
            out.open(f"for head in range(begun, whole, {group}):")
            self._some_rows([f"head + {k}" for k in range(group)], reduced)
            out.close()
            begin, end = "whole", "ended"
        out.open(f"for row in range({begin}, {end}):")
        self._some_rows(["row"], reduced)
        out.close()

    def _group(self) -> int:
        """Rows of a column fold that are read side by side; one step after the other takes a
        largest value longer than its memory."""
        assert self.program.fold is not None
        if self._narrow:
            return JOINT_FACTORS
        return rows_at_once(len(self.program.inputs), self._dear) if self._adds else 1

    def _some_rows(self, rows: list[str], reduced: range) -> None:
        out, step = self.out, self.step_dtype
        assert self.program.fold is not None
        for k, row in enumerate(rows):
            begun = len(out.lines)
            out.add(f"rest = {row}")
            self.index("rest", reduced)
            self.offsets(range(self.last))
            self.hoisted()
            place = f"(across * reduced + {row}) * inner + along"
            out.add(f"base = ({place}) * n{self.last}")
            self.renamed(begun, k)
        out.open("for j in range(first, last):")
        self.used.update({f"peek_{step}", f"store_{step}"})
        out.add(f"grown = peek_{step}(parts, j - first)")
        values = []
        for k in range(len(rows)):
            begun = len(out.lines)
            self.step("base + j")
            value = self.value(step)
            if self.carried or self._narrow:
                values.append(self.name_of_row(value, k))
            elif self.program.has_exponents:
                raised = f"peek_int64(powers, j - first) + exponent({value})"
                out.add(f"store_int64(powers, j - first, {raised})")
                out.add(f"grown = {self.join('grown', f'mantissa({value})', step)}")
            else:
                out.add(f"grown = {self.join('grown', value, step)}")
            self.renamed(begun, k)
        if self.carried:
            self.used.add("lost")
            out.add(f"some = {by_halves(values)}", "joint = grown + some")
            carry = f"peek_{step}(carries, j - first) + lost(grown, some, joint)"
            out.add(f"store_{step}(carries, j - first, {carry})", "grown = joint")
        elif self._narrow:
            self.used.update({"mantissa_narrow", "exponent_narrow"})
            out.add(f"grown = grown * {' * '.join(values)}")
            raised = "peek_int64(powers, j - first) + exponent_narrow(grown)"
            out.add(f"store_int64(powers, j - first, {raised})", "grown = mantissa_narrow(grown)")
        out.add(f"store_{step}(parts, j - first, grown)")
        out.close()

    def _add_parts(self, partial: str, step: str) -> None:
        """Let sums of a few rows join the totals, with what they have lost."""
        self.used.update({f"peek_{partial}", f"peek_{step}", f"store_{partial}", "settled"})
        self.out.open("for j in range(last - first):")
        part, carry = (f"np.{partial}(peek_{step}({name}, j))" for name in ("parts", "carries"))
        joined = f"peek_{partial}(totals, j) + settled({part}, {carry})"
        self.out.add(f"store_{partial}(totals, j, {joined})")
        self.out.close()

    # -------------------------------------------------------------- the fold's arithmetic

    def finish(
        self, place: str, part_place: str, total: str, count: str, columns: bool = False
    ) -> None:
        """Store totals: as the result itself where it is not cut into parts, else as partials."""
        partial, own = self.program.partial_dtype, self.program.value_dtype
        power = "peek_int64(powers, j - first)" if columns else "power"
        if is_direct(self.program):
            assert self.program.fold is not None
            whole = f"{total} / np.float64({count})" if self.program.fold.kind == "mean" else total
            if self.program.has_exponents:
                self.used.add("scaled")
                whole = f"scaled({total}, {power})"
            self.out.open("if direct != 0:")
            self._store_each(own, f"direct, {place}, np.{own}({whole})", columns)
            self.out.close()
            self.out.open("else:")
        self._store_each(partial, f"partials, {part_place}, {total}", columns)
        if self.program.has_exponents:
            self._store_each("int64", f"exponents, {part_place}, {power}", columns)

    def _store_each(self, dtype: str, arguments: str, columns: bool) -> None:
        self.used.add(f"store_{dtype}")
        if columns:
            self.out.open("for j in range(first, last):")
        self.out.add(f"store_{dtype}({arguments})")
        if columns:
            self.out.close()

    @property
    def step_dtype(self) -> str:
        """Dtype of the innermost running result: where float32 takes long to make, SIMD goes on
        for float32; other sums of it are of float64 from the first step on."""
        own = computed(self.program.value_dtype)
        return own if self._adds and own == "float32" and self._dear else self.program.partial_dtype

    @property
    def _adds(self) -> bool:
        fold = self.program.fold
        return fold is not None and fold.kind in ("sum", "mean")

    @property
    def _dear(self) -> bool:
        return any(statement.expr.cost > Cost.CHEAP for statement in self.program.statements)

    @property
    def is_rounded(self) -> bool:
        """Whether a sum's steps are rounded as its values are."""
        own = computed(self.program.value_dtype)
        if not self._adds or own[0] != "f" or own != self.step_dtype:
            return False
        return own == "float32" or any(operand.dtype == "float64" for operand in self._folded)

    @property
    def _folded(self) -> list[Input]:
        """The inputs that vary along the fold."""
        fold = self.program.fold
        assert fold is not None
        pairs = zip(self.program.inputs, self.program.patterns, strict=True)
        return [operand for operand, pattern in pairs if any(pattern[fold.start : fold.stop])]

    @property
    def carried(self) -> bool:
        """Whether totals go with what their additions lose: a fold over rows adds few of them, and
        needs it where nothing is wider; one down the columns has a total for each."""
        fold = self.program.fold
        over_rows = fold is not None and fold.stop == self.program.rank
        return self.is_rounded and not (over_rows and self.step_dtype == "float32")

    def identity(self, dtype: str) -> str:
        assert self.program.fold is not None
        return identity(self.program.fold.kind, dtype)

    def value(self, dtype: str) -> str:
        """The folded statement as the running result's dtype."""
        name = f"t{len(self.program.statements) - 1}"
        own = computed(self.program.value_dtype)
        assert self.program.fold is not None
        if self.program.fold.kind in ("any", "all") and own != "bool":
            return f"np.uint8({name} != 0)"
        return name if own == dtype else f"np.{dtype}({name})"

    def join(self, left: str, right: str, dtype: str) -> str:
        assert self.program.fold is not None
        joined, used = join(self.program.fold.kind, left, right, dtype)
        self.used |= used
        return joined
