"""The folds of a program's loop nest: over the trailing dims, or down leading and middle ones.

Sums of float32 are of float64 from the first step on, but for what is dear to compute, where SIMD
goes on for float32: that is added in float32, a few columns at a time along rows, and down the
columns with what each addition loses. Sums of float64, which nothing is wider than, keep what they
lose. So a sum errs less than one by halves, whatever the axis. Products of floats multiply
mantissas and add exponents: nothing overflows on the way to a product that can be held.
"""

from __future__ import annotations

from kbench.engine.codegen.loop_program import Fold, LoopProgram
from kbench.engine.codegen.writers.running_folds import (
    PRODUCT_ELEMENTS,
    STRETCH,
    FoldWalk,
    Running,
    by_halves,
    identity,
    rows_at_once,
    stretches_of,
)
from kbench.engine.codegen.writers.writer import Module

JOINT_FACTORS = 4
"""Numbers of float32 that are multiplied in float64 before exponents are taken off."""
NARROW_PRODUCT_ELEMENTS = 256
"""Columns of which the quarters are multiplied side by side: near enough to be read as one."""
COMPENSATED_ROWS = 128
"""Rows added in float32, with what is lost on the way, before they join float64 totals."""


class NestFolds(FoldWalk):
    """The one fold of a nest."""

    fold: Running
    is_down: bool  # whether it has a result for each column

    def __init__(self, program: LoopProgram, module: Module) -> None:
        super().__init__(program, module)
        if program.fold is not None:
            wide = self.is_wide(slice(program.fold.start, program.fold.stop))
            names = ("total", "part", "carry", "power")
            self.fold = self.running(program.final_folds[0], program.is_dear, wide, *names)
            self.is_down = program.fold.stop < program.rank

    def step(self, position: str, near: bool = False) -> None:
        """The innermost body, which the nest has."""
        raise NotImplementedError

    # -------------------------------------------------------------- over trailing dims

    def row_fold(self, span: Fold) -> None:
        """A fold over the trailing dims: an item is a part of one kept element's values."""
        out, width = self.out, self.field("width")
        kept, reduced = range(span.start), range(span.start, self.last)
        out.add(f"kept = {self.count(kept)}")
        out.open("for item in range(start, stop):")
        blocks = self.field("blocks")
        out.add(f"place = item // {blocks}", f"block = item - place * {blocks}", "rest = place")
        self.index("rest", kept)
        self.offsets(kept)
        out.add(f"first = block * {width}")
        self.begin_total(self.fold)
        size = self.field(f"n{self.last}")
        if len(reduced):
            out.add(f"end = min(first + {width}, {self.count(reduced)})")
            self._keep_bases(kept)
            with out.block("for row in range(first, end):"):
                out.add("rest = row")
                self.index("rest", reduced)
                self.offsets(reduced, base=True)
                row = f"(place * {self.count(reduced)} + row) * {size} + j"
                self._chunks("0", size, row)
        else:
            self._chunks("first", f"min(first + {width}, {size})", f"place * {size} + j")
        self.settle(self.fold)
        count = self.count(range(span.start, span.stop))
        self.finish("place", "block * kept + place", "total", "power", count)

    def _keep_bases(self, kept: range) -> None:
        for number, pattern in enumerate(self.program.patterns):
            if any(pattern[d] for d in kept):
                self.out.add(f"b{number} = o{number}")

    def _chunks(self, first: str, last: str, position: str) -> None:
        """Fold columns `first` to `last` into `total`, in chunks short enough for float32."""
        out, chunk, begun = self.out, self.fold.chunk, "low"
        self.hoisted()
        out.add(f"last = {last}")
        if self._is_narrow:
            chunk, begun = NARROW_PRODUCT_ELEMENTS, "begun"
        if self._stretches > 1:
            first = self._side_by_side(first, position)
        with out.block(f"for low in range({first}, last, {chunk}):"):
            self.begin_part(self.fold)
            if self._is_narrow:
                self._quarters(position, chunk)
            with out.block(f"for j in range({begun}, min(low + {chunk}, last)):"):
                self.step(position)
                self.take(self.fold, self.value(self.fold.step_dtype))
            self.join_part(self.fold)

    def _side_by_side(self, first: str, position: str) -> str:
        """Fold a long row by stretches side by side, and say where what is left begins."""
        out, fold, stretches = self.out, self.fold, self._stretches
        self.begin_stretches(first, stretches)
        with out.block(f"for low in range(left, whole, {stretches * STRETCH}):"):
            self.fetch_ahead(stretches * STRETCH, self._varying)
            self.begin_part(fold)
            with out.block(f"for k in range(low, low + {STRETCH}):"):
                values = self._columns_of_parts(stretches, STRETCH, position, fold.step_dtype)
                self.take(fold, self.joined_by_halves(fold, values))
            self.join_part(fold)
        return "whole"

    @property
    def _stretches(self) -> int:
        """Stretches of a row that are folded side by side."""
        if self.program.is_dear or not self.fold.has_stretches:
            return 1
        return stretches_of(len(self._varying))

    @property
    def _varying(self) -> list[int]:
        """The inputs that vary along a row."""
        return [n for n, pattern in enumerate(self.program.patterns) if pattern[self.last]]

    def _columns_of_parts(
        self, count: int, length: int | str, position: str, dtype: str
    ) -> list[str]:
        """The values of column `k` of some parts of a row, each `length` columns long."""
        values = []
        for part in range(count):
            self.column_mark = f"_{part}"
            self.out.add(f"j = k + {part} * {length}")
            self.step(position)
            values.append(self.value(dtype))
        self.column_mark = ""
        return values

    def _quarters(self, position: str, chunk: int) -> None:
        """Multiply the quarters of a chunk side by side, so that exponents are taken off once."""
        out = self.out
        out.add(f"each = {chunk // JOINT_FACTORS} if low + {chunk} <= last else 0")
        out.add(f"begun = low + each * {JOINT_FACTORS}")
        with out.block("for k in range(low, low + each):"):
            values = self._columns_of_parts(JOINT_FACTORS, "each", position, "float64")
            out.add(f"some = {' * '.join(values)}")
            out.add(f"power = power + {self.call('exponent_narrow', 'some')}")
            self.join_to("part", "prod", self.call("mantissa_narrow", "some"), "float64")

    @property
    def _is_narrow(self) -> bool:
        """Whether a few factors, that were float32, are within float64 whatever they are."""
        return self.fold.has_exponents and self.program.value_dtype != "float64"

    # -------------------------------------------------------------- over leading or middle dims

    def column_fold(self, span: Fold) -> None:
        """A fold over leading or middle dims: running results of some columns on the stack."""
        out, fold, field = self.out, self.fold, self.field
        outer, inner = range(span.start), range(span.stop, self.last)
        reduced = range(span.start, span.stop)
        for name, dims in (("outer", outer), ("reduced", reduced), ("inner", inner)):
            out.add(f"{name} = {self.count(dims)}")
        self._column_scratch()
        out.open("for item in range(start, stop):")
        blocks, width = field("blocks"), field("width")
        size, pieces = field(f"n{self.last}"), field("pieces")
        out.add(f"rest = item // {blocks}", f"first = (item - rest * {blocks}) * {width}")
        out.add(f"last = min(first + {width}, {size})")
        out.add(f"place = rest // {pieces}", f"piece = rest - place * {pieces}")
        out.add("across = place // inner", "along = place - across * inner")
        out.add("rest = across")
        self.index("rest", outer)
        out.add("rest = along")
        self.index("rest", inner)
        self.fill([("totals", fold.total_dtype, identity(fold.kind, fold.total_dtype))])
        rows = field("rows")
        out.add(f"begin = piece * {rows}", f"end = min(begin + {rows}, reduced)")
        self._parts_of_columns(reduced)
        out.add(f"base = (piece * outer * inner + place) * {size}")
        total = self.peek("totals", "j - first", fold.total_dtype)
        power = self.peek("powers", "j - first", "int64") if fold.has_exponents else ""
        self.finish("base + j", "base + j", total, power, "reduced")

    def _column_scratch(self) -> None:
        """Running results of an item's columns."""
        fold = self.fold
        self.scratch("totals", fold.total_dtype)
        if fold.step_dtype != fold.total_dtype:
            self.scratch("parts", fold.step_dtype)
        else:
            self.out.add("parts = totals")
        if fold.is_rounded:
            self.scratch("carries", fold.step_dtype)
        if fold.has_exponents:
            self.scratch("powers", "int64")

    def _parts_of_columns(self, reduced: range) -> None:
        """Fold the rows of an item into the totals, by way of parts where these are narrower."""
        out, fold, step = self.out, self.fold, self.fold.step_dtype
        zero = [("carries", step, identity(fold.kind, step))] if fold.is_rounded else []
        if step == fold.total_dtype:
            self.fill(zero)
            if fold.has_exponents:
                self._rows_of_factors(reduced)
            else:
                self._rows("begin", "end", reduced)
            if zero:
                with out.block("for j in range(last - first):"):
                    total, carry = (self.peek(name, "j", step) for name in ("totals", "carries"))
                    self.store("totals", "j", self.call("settled", total, carry), step)
            return
        with out.block(f"for low in range(begin, end, {COMPENSATED_ROWS}):"):
            self.fill([("parts", step, identity(fold.kind, step))])
            self.fill(zero)
            self._rows("low", f"min(low + {COMPENSATED_ROWS}, end)", reduced)
            with out.block("for j in range(last - first):"):
                self.add_part("totals", "parts", "carries", step)

    def _rows_of_factors(self, reduced: range) -> None:
        """Multiply rows, and every few of them take the exponents off."""
        out = self.out
        self.fill([("powers", "int64", "np.int64(0)")])
        with out.block(f"for low in range(begin, end, {PRODUCT_ELEMENTS}):"):
            self._rows("low", f"min(low + {PRODUCT_ELEMENTS}, end)", reduced)
            with out.block("for j in range(last - first):"):
                out.add(f"grown = {self.peek('totals', 'j', 'float64')}")
                self.add_to("powers", "j", self.call("exponent", "grown"), "int64")
                self.store("totals", "j", self.call("mantissa", "grown"), "float64")

    def _rows(self, begin: str, end: str, reduced: range) -> None:
        """Fold these rows: some at once where that saves going over the running results."""
        out, group = self.out, self._group()
        if group > 1:
            out.add(f"begun = {begin}", f"ended = {end}")
            out.add(f"whole = begun + (ended - begun) // {group} * {group}")
            with out.block(f"for head in range(begun, whole, {group}):"):
                self._some_rows([f"head + {k}" for k in range(group)], reduced)
            begin, end = "whole", "ended"
        with out.block(f"for row in range({begin}, {end}):"):
            self._some_rows(["row"], reduced)

    def _group(self) -> int:
        """Rows of a column fold that are read side by side."""
        if self._is_narrow:
            return JOINT_FACTORS
        if self.fold.has_exponents:
            return 1
        return rows_at_once(self.program.patterns, self.program.is_dear)

    def _some_rows(self, rows: list[str], reduced: range) -> None:
        """Let the running results of the columns take the values of these rows."""
        out, step = self.out, self.fold.step_dtype
        size = self.field(f"n{self.last}")
        for k, row in enumerate(rows):
            self.row_mark = f"_{k}"
            out.add(f"rest = {row}")
            self.index("rest", reduced)
            self.offsets(range(self.last))
            self.hoisted()
            out.add(f"base_{k} = ((across * reduced + {row}) * inner + along) * {size}")
        with out.block("for j in range(first, last):"):
            out.add(f"grown = {self.peek('parts', 'j - first', step)}")
            values = []
            for k in range(len(rows)):
                self.row_mark = f"_{k}"
                self.step(f"base_{k} + j")
                values.append(self.value(step))
                self._take_row(values[-1])
            self.row_mark = ""
            self._take_rows(values)
            self.store("parts", "j - first", "grown", step)

    def _take_row(self, value: str) -> None:
        """Fold the value of one row, where those of several are not first folded by themselves."""
        if self.fold.is_rounded or self._is_narrow or self.fold.kind in ("max", "min"):
            return
        if self.fold.has_exponents:
            self.add_to("powers", "j - first", self.call("exponent", value), "int64")
            value = self.call("mantissa", value)
        self.join_to("grown", self.fold.kind, value, self.fold.step_dtype)

    def _take_rows(self, values: list[str]) -> None:
        """Fold the values of some rows at once."""
        out, step = self.out, self.fold.step_dtype
        if self.fold.is_rounded:
            out.add(f"some = {by_halves(values)}", "joint = grown + some")
            lost = self.call("lost", "grown", "some", "joint")
            self.add_to("carries", "j - first", lost, step)
            out.add("grown = joint")
        elif self._is_narrow:
            out.add(f"grown = grown * {' * '.join(values)}")
            self.add_to("powers", "j - first", self.call("exponent_narrow", "grown"), "int64")
            out.add(f"grown = {self.call('mantissa_narrow', 'grown')}")
        elif self.fold.kind in ("max", "min"):
            self.join_to("grown", self.fold.kind, self.joined_by_halves(self.fold, values), step)

    # -------------------------------------------------------------- results

    def finish(self, place: str, part_place: str, total: str, power: str, count: str) -> None:
        """Store totals: as the result itself where it is not cut into parts, else as partials."""
        own = self.program.value_dtype
        if self.program.is_direct:
            whole = f"{total} / np.float64({count})" if self.fold.kind == "mean" else total
            whole = self.call("scaled", total, power) if self.fold.has_exponents else whole
            direct = self.field("direct")
            with self.out.block(f"if {direct} != 0:"):
                self._store_each(direct, place, f"np.{own}({whole})", own)
            self.out.open("else:")
        self._store_each(self.field("partials"), part_place, total, self.fold.total_dtype)
        if self.fold.has_exponents:
            self._store_each(self.field("exponents"), part_place, power, "int64")

    def _store_each(self, target: str, where: str, value: str, dtype: str) -> None:
        """Store a result, or that of each column."""
        if self.is_down:
            self.out.open("for j in range(first, last):")
        self.store(target, where, value, dtype)
        if self.is_down:
            self.out.close()

    def value(self, dtype: str) -> str:
        """The folded value as the running result's dtype."""
        if self.fold.kind in ("any", "all") and self.fold.given != "bool":
            return f"np.uint8({self.named(self.fold.value)} != 0)"
        return self.as_dtype(self.fold.value, dtype)
