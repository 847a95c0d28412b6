"""Writes the kernel of a row program: sweeps over each row, folds down blocks of rows.

An item is a block of rows, or where rows are apart of some columns of them, of sizes that do not
depend on the number of threads. Sums are of float64: what is dear to compute is added in float32,
along rows a few columns at a time, down the columns with what each addition loses; and sums of
float64 keep what they lose. A variance takes distances from the first row of its item, all in
float64, so that one read of memory does without cancellation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kbench.engine.codegen.loop_program import COLUMN_FOLDS, LoopProgram, Schedule
from kbench.engine.codegen.row_sweeps import Sweeps
from kbench.engine.codegen.writers.row_fold_source import DownFolds
from kbench.engine.codegen.writers.running_folds import (
    SHORT_STRETCH,
    STRETCH,
    Running,
    by_halves,
    rows_at_once,
    stretches_of,
)
from kbench.engine.codegen.writers.typed_expr import computed
from kbench.engine.codegen.writers.writer import Module
from kbench.engine.graph.expr.expression import Expr, input_leaf, local_leaf

FLUSH_ROWS = 32
"""Rows that a fold down the columns adds up in float32 before they join the totals."""


class _Work(Struct, frozen=True):
    """What one sweep does with each column of a row."""

    sweep: int
    wanted: Sequence[int]
    """The values that it has, in order."""
    folds: Mapping[int, Running]
    """Folds along the row, by their numbers."""
    downs: Sequence[int]
    """Folds down the columns."""
    is_dear: bool = False
    """Whether it computes anything dear."""


class RowWriter(DownFolds):
    """Blocks of rows, each swept as often as folds along it need."""

    def __init__(self, program: LoopProgram, module: Module) -> None:
        super().__init__(program, module)
        self.sweeps = Sweeps(program)
        self.is_short = program.schedule is Schedule.SHORT_ROWS

    @property
    def title(self) -> str:
        """What the program computes."""
        values, kind_of = self.program.values, self.program.kind_of
        said = [f"t{n} = {kind_of(n)}({one.expr})" for n, one in enumerate(values)]
        return f", rows: {'; '.join(said)}"

    # -------------------------------------------------------------- the innermost body

    def body(self, sweep: int, wanted: Iterable[int], also: Iterable[Expr]) -> None:
        """Load and compute the values `wanted`; `also` are leaves that are read besides."""
        values, sweeps = self.program.values, self.sweeps
        fresh = [n for n in wanted if not sweeps.is_fetched(n, sweep)]
        self.loads({leaf for n in fresh for leaf in values[n].reads} | set(also))
        if any(values[n].has_column for n in fresh):
            self.out.add("column = np.int64(j)")
        for number in wanted:
            if sweeps.is_fetched(number, sweep):
                kept = self.peek(*self.room(number), computed(values[number].dtype))
                self.out.add(f"{self.named(local_leaf(number))} = {kept}")
            else:
                self.compute([number])

    def room(self, number: int) -> tuple[str, str]:
        """Where a value is kept between sweeps, by name and position."""
        place = self.sweeps.homes.get(number)
        return (f"k{number}", "j - first") if place is None else self.result(place)

    def result(self, place: int) -> tuple[str, str]:
        """Where a result of each element goes, by name and position."""
        return self.field(f"y{place}"), f"base{self.row_mark} + j"

    def stores(self, sweep: int, wanted: Iterable[int]) -> None:
        """Store the outputs of a sweep, and keep what later ones need."""
        program, sweeps = self.program, self.sweeps
        for number in wanted:
            name, dtype = self.named(local_leaf(number)), program.values[number].dtype
            if sweeps.is_kept(number, sweep):
                self.store(*self.room(number), name, computed(dtype))
            for place, output in enumerate(program.outputs):
                if output == number and sweeps.is_result(number, sweep):
                    self.store(*self.result(place), name, dtype)

    # -------------------------------------------------------------- one row

    def begin_row(self) -> None:
        """Indices, offsets, and what does not vary along the row."""
        self.out.add("rest = row")
        self.index("rest", range(self.last))
        self.offsets(range(self.last))
        self.out.add(f"base{self.row_mark} = row * {self.field(f'n{self.last}')}")
        self.hoisted()
        self.row_values(0)

    def row_values(self, level: int) -> None:
        """Compute what a row has one of, once the folds are there that it needs."""
        program = self.program
        alone = (n for n in program.statements if not program.full[n])
        self.compute([n for n in alone if self.sweeps.levels[n] == level])

    def row(self) -> None:
        """Every sweep of a row, and the values it has one of."""
        program = self.program
        self.begin_row()
        for sweep in range(self.sweeps.count):
            self.sweep(sweep)
            self.row_values(sweep + 1)
        for place, number in enumerate(program.outputs):
            if not program.full[number]:
                self.store(
                    self.field(f"y{place}"), "row", f"t{number}", program.values[number].dtype
                )

    def sweep(self, sweep: int) -> None:
        """One pass over a row: what it computes, stores and folds."""
        program, sweeps = self.program, self.sweeps
        wanted = sweeps.needs(sweep)
        along = {n: program.kind_of(n) for n in sweeps.folds(sweep)}
        for number, kind in along.items():
            if kind in COLUMN_FOLDS:
                self.pick(number, sweep, wanted)
        is_dear = self._is_dear(sweep, wanted)
        folds = {
            n: self.running(n, is_dear, self.wide, f"r{n}", f"p{n}", f"lost{n}", f"power{n}")
            for n, kind in along.items()
            if kind not in COLUMN_FOLDS
        }
        downs = [n for n in self.downs if sweeps.level_of(n) == sweep]
        work = _Work(sweep, wanted, folds, downs, is_dear)
        if folds:
            self._chunks(work)
        elif downs or wanted:
            self._loop("first", "last", work)

    def _is_dear(self, sweep: int, wanted: Iterable[int]) -> bool:
        """Whether a sweep computes anything dear."""
        fresh = (n for n in wanted if not self.sweeps.is_fetched(n, sweep))
        return any(self.program.values[n].is_dear for n in fresh)

    def _chunks(self, work: _Work) -> None:
        """The columns of a sweep with folds, in chunks whose parts join the totals."""
        out, folds, begun = self.out, work.folds, "first"
        for fold in folds.values():
            self.begin_total(fold)
        chunk = min(fold.chunk for fold in folds.values())
        stretches = self._stretches(work)
        if stretches > 1:
            begun = self._side_by_side(work, stretches)
        if self.is_short:
            self._chunk("first", "last", work)
        else:
            with out.block(f"for low in range({begun}, last, {chunk}):"):
                self._chunk("low", f"min(low + {chunk}, last)", work)
        for number, fold in folds.items():
            self.settle(fold)
            if fold.has_exponents:
                out.add(f"{fold.total} = {self.call('scaled', fold.total, fold.power)}")
            dtype = computed(self.program.values[number].dtype)
            out.add(f"t{number} = np.{dtype}({fold.total})")

    def _chunk(self, low: str, high: str, work: _Work) -> None:
        """Some columns of a sweep with folds: a part of each."""
        for fold in work.folds.values():
            self.begin_part(fold)
        self._loop(low, high, work)
        for fold in work.folds.values():
            self.join_part(fold)

    def _loop(self, low: str, high: str, work: _Work) -> None:
        """The columns from `low` to `high`.

        Of short rows SIMD takes fewer at a time, and masks what is left over of dear ones: one by
        one they would take as long as all the others.
        """
        loops = [(low, high, "two_vectors" if self.is_short else "")]
        if self.is_short and work.is_dear:
            self.out.add(f"middle = {low} + (({high} - {low}) & -{SHORT_STRETCH})")
            loops = [(low, "middle", "two_vectors"), ("middle", high, "masked")]
        for begin, end, hint in loops:
            with self.out.block(f"for j in range({begin}, {end}):"):
                self._columns(work)
                if hint:
                    self.out.add(self.call(hint))

    def _stretches(self, work: _Work) -> int:
        """Stretches of a row folded side by side, by a sweep that does nothing but cheap folds."""
        values, sweeps, wanted = self.program.values, self.sweeps, work.wanted
        if self.program.schedule in (Schedule.ROWS, Schedule.SHORT_ROWS) or work.downs:
            return 1
        number = work.sweep
        stays = any(sweeps.is_kept(n, number) or sweeps.is_result(n, number) for n in wanted)
        if stays or any(values[n].is_dear for n in wanted):
            return 1
        if not all(fold.has_stretches for fold in work.folds.values()):
            return 1
        return stretches_of(len(self._varying(work)))

    def _varying(self, work: _Work) -> list[int]:
        """The inputs of a sweep that vary along the row."""
        read = {leaf for n in (*work.wanted, *work.folds) for leaf in self._reads(n)}
        patterns = enumerate(self.program.patterns)
        return [n for n, p in patterns if p[self.last] and input_leaf(n) in read]

    def _side_by_side(self, work: _Work, stretches: int) -> str:
        """Fold a long row by stretches side by side, and say where what is left begins."""
        out, folds = self.out, work.folds
        self.begin_stretches("first", stretches)
        with out.block(f"for low in range(left, whole, {stretches * STRETCH}):"):
            self.fetch_ahead(stretches * STRETCH, self._varying(work))
            for fold in folds.values():
                self.begin_part(fold)
            with out.block(f"for k in range(low, low + {STRETCH}):"):
                values: dict[int, list[str]] = {number: [] for number in folds}
                for place in range(stretches):
                    out.add(f"j = k + {place} * {STRETCH}")
                    reads = [leaf for n in folds for leaf in self._reads(n)]
                    self.body(work.sweep, work.wanted, reads)
                    for number, fold in folds.items():
                        name = f"some{number}_{place}"
                        out.add(f"{name} = {self.as_dtype(fold.value, fold.step_dtype)}")
                        values[number].append(name)
                for number, fold in folds.items():
                    self.take(fold, self.joined_by_halves(fold, values[number]))
            for fold in folds.values():
                self.join_part(fold)
        return "whole"

    def _columns(self, work: _Work) -> None:
        """What a sweep does with each column."""
        folds, downs = work.folds, work.downs
        reads = [leaf for n in (*folds, *downs) for leaf in self._reads(n)]
        self.body(work.sweep, work.wanted, reads)
        self.stores(work.sweep, work.wanted)
        for fold in folds.values():
            self.take(fold, self.as_dtype(fold.value, fold.step_dtype))
        for number in downs:
            self.add_down(number)

    def _reads(self, number: int) -> tuple[Expr, ...]:
        return self.program.values[number].reads

    def pick(self, number: int, sweep: int, wanted: Iterable[int]) -> None:
        """Compute what is picked at its own column alone."""
        picked, *place = self._reads(number)
        dtype = computed(self.program.values[number].dtype)
        self.out.add(f"t{number} = np.{dtype}(0)", f"low = np.int64({place[0] if place else 0})")
        with self.out.block("for j in range(low, low + 1):"):
            self.body(sweep, wanted, [picked])
            self.out.add(f"t{number} = {self.as_dtype(picked, dtype)}")

    # -------------------------------------------------------------- blocks of rows

    def run(self) -> None:
        """The whole kernel."""
        out, field = self.out, self.field
        self._scratch()
        out.open("for item in range(start, stop):")
        blocks, width = field("blocks"), field("width")
        out.add(f"block = item // {blocks}", f"first = (item - block * {blocks}) * {width}")
        if not self.program.outputs:  # backwards, as what follows begins with what was read last
            out.add(f"block = {field('pieces')} - 1 - block")
        out.add(f"last = min(first + {width}, {field(f'n{self.last}')})")
        out.add(f"top = block * {field('rows')}", f"bottom = min(top + rows, {field('many')})")
        if not self.downs:
            with out.block("for row in range(top, bottom):"):
                self.row()
            return
        self.clear(self.totals())
        if self.variances:
            self.centres()
        with out.block(f"for head in range(top, bottom, {FLUSH_ROWS}):"):
            out.add(f"tail = min(head + {FLUSH_ROWS}, bottom)")
            self.clear(self.parts())
            self.rows()
            if self.parts():
                self.flush()
        self.partials()

    def _scratch(self) -> None:
        """What is kept between sweeps, and the sums of columns."""
        kept = sorted(self.sweeps.kept - set(self.sweeps.homes))
        arrays = [(f"k{n}", computed(self.program.values[n].dtype)) for n in kept]
        for name, dtype in [*arrays, *self.totals(), *self.parts(), *self.centred()]:
            self.scratch(name, dtype)

    def rows(self) -> None:
        """Rows `head` to `tail`: where they are apart some at once, the others one by one."""
        out, program, first = self.out, self.program, "head"
        group = rows_at_once(program.patterns, program.is_dear) if program.across else 1
        if group > 1:
            out.add(f"whole = head + (tail - head) // {group} * {group}")
            with out.block(f"for group in range(head, whole, {group}):"):
                self.some_rows(group)
            first = "whole"
        with out.block(f"for row in range({first}, tail):"):
            self.row()

    def some_rows(self, group: int) -> None:
        """One sweep over rows side by side, which goes over the running sums once."""
        out = self.out
        work = _Work(0, self.sweeps.needs(0), {}, self.downs)
        for k in range(group):
            self.row_mark = f"_{k}"
            out.add(f"row = group + {k}")
            self.begin_row()
        with out.block("for j in range(first, last):"):
            for name, dtype in self.totals():
                out.add(f"grown_{name} = {self.peek(name, 'j - first', dtype)}")
            self.held, self.values = True, {}
            for k in range(group):
                self.row_mark = f"_{k}"
                self._columns(work)
            self.held, self.row_mark = False, ""
            for number, values in self.values.items():
                self._join_rows(number, by_halves(values))
            for name, dtype in self.totals():
                self.store(name, "j - first", f"grown_{name}", dtype)

    def _join_rows(self, number: int, some: str) -> None:
        """Let a sum that is held take those of a few rows, with what is lost."""
        grown = f"grown_f{number}"
        self.out.add(f"some = {some}", f"joint = {grown} + some")
        self.out.add(f"grown_l{number} += {self.call('lost', grown, 'some', 'joint')}")
        self.out.add(f"{grown} = joint")

    def centres(self) -> None:
        """The first row, as far as it is finite."""
        out = self.out
        out.add("row = top")
        self.begin_row()
        with out.block("for j in range(first, last):"):
            exprs = [self.program.values[n].expr for n in self.variances]
            self.body(0, self.sweeps.needs(0), exprs)
            for number, expr in zip(self.variances, exprs, strict=True):
                out.add(f"near = {self.as_dtype(expr, 'float64')}")
                is_finite = f"{self.call('absolute_float', 'near')} < np.inf"
                finite = self.call("select", is_finite, "near", "0.0")
                self.store(f"v{number}", "j - first", finite, "float64")
