"""Writes the kernel of a row program: sweeps over each row, folds down blocks of rows.

An item is a block of rows, or where rows are apart of some columns of them, of sizes that do not
depend on the number of threads. Sums are of float64: what is dear to compute is added in float32,
along rows a few columns at a time, down the columns with what each addition loses; and sums of
float64 keep what they lose. A variance takes distances from the first row of its item, all in
float64, so that one read of memory does without cancellation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kbench.engine.codegen.row_fold_source import Downs
from kbench.engine.codegen.row_sweeps import RowProgram, row_fields
from kbench.engine.codegen.typed_expr import computed, translate
from kbench.engine.codegen.writer import (
    CHUNK_ELEMENTS,
    PRODUCT_ELEMENTS,
    SHORT_CHUNK_ELEMENTS,
    by_halves,
    identity,
    imported,
    rows_at_once,
)
from kbench.engine.graph.expr.expression import Expr, input_leaf

FLUSH_ROWS = 32
"""Rows that a fold down the columns adds up in float32 before they join the totals."""


class _Rows(Downs):
    """One program's source under construction."""

    def __init__(self, program: RowProgram) -> None:
        super().__init__(program)
        self.dear = False  # whether a sweep computes what takes long for each element

    # -------------------------------------------------------------- pieces

    def statement(self, number: int) -> str:
        """The line that computes a statement."""
        node = self.program.nodes[number]
        found = translate(node.expr, self.types, node.dtype)
        self.used |= found.used
        return f"t{number} = {found.source}"

    def body(self, sweep: int, wanted: list[int], also: Iterable[Expr]) -> None:
        """Load and compute the statements `wanted`; `also` are leaves that are read besides."""
        program = self.program
        fresh = [n for n in wanted if not program.is_fetched(n, sweep)]
        read = {leaf for n in fresh for leaf in program.nodes[n].reads} | set(also)
        for number, pattern in enumerate(program.patterns):
            if input_leaf(number) in read and pattern[-1]:
                self.out.add(self.load(number, self.place(number, "j")))
        if any(program.nodes[n].has_column for n in fresh):
            self.out.add("column = np.int64(j)")
        for number in wanted:
            if number in fresh:
                self.out.add(self.statement(number))
            else:
                kept = self.peek(*self.room(number), computed(program.nodes[number].dtype))
                self.out.add(f"t{number} = {kept}")

    def room(self, number: int) -> tuple[str, str]:
        """Where a value is kept between sweeps, by name and position."""
        place = self.program.homes.get(number)
        return (f"k{number}", "j - first") if place is None else (f"y{place}", "base + j")

    # -------------------------------------------------------------- one row

    def begin_row(self) -> None:
        """Indices, offsets, and what does not vary along the row."""
        self.out.add("rest = row")
        self.index("rest", range(self.last))
        self.offsets(range(self.last))
        self.out.add(f"base = row * n{self.last}")
        self.hoisted()
        self.row_statements(0)

    def row_statements(self, level: int) -> None:
        program = self.program
        for number, node in enumerate(program.nodes):
            alone = not (node.along or node.down or program.full[number])
            if alone and program.levels[number] == level:
                self.out.add(self.statement(number))

    def row(self) -> None:
        """Every sweep of a row, and the values it has one of."""
        self.begin_row()
        for sweep in range(self.program.sweeps):
            self.sweep(sweep)
            self.row_statements(sweep + 1)
        for place, number in enumerate(self.program.outputs):
            if not self.program.full[number]:
                self.store(f"y{place}", "row", f"t{number}", self.program.nodes[number].dtype)

    def sweep(self, sweep: int) -> None:
        program, out = self.program, self.out
        folds = [n for n, node in enumerate(program.nodes) if node.along]
        folds = [n for n in folds if program.level_of(n) == sweep]
        picks = [n for n in folds if program.nodes[n].along == "pick"]
        folds = [n for n in folds if n not in picks]
        downs = [n for n in self.folded_down() if program.level_of(n) == sweep]
        wanted = program.needs(sweep)
        for number in picks:
            self.pick(number, sweep, wanted)
        if not (folds or downs or wanted):
            return
        self.dear = self.is_dear(sweep, wanted)
        for number in folds:
            out.add(f"r{number} = {identity(program.nodes[number].along, self.total(number))}")
            if self.is_carried(number):
                out.add(f"lost{number} = np.float64(0)")
            if self.has_exponents(number):
                out.add(f"power{number} = np.int64(0)")
        if folds:
            chunk = min(self.chunk(number) for number in folds)
            out.open(f"for low in range(first, last, {chunk}):")
            for number in folds:
                out.add(f"p{number} = {identity(program.nodes[number].along, self.part(number))}")
            out.open(f"for j in range(low, min(low + {chunk}, last)):")
        else:
            out.open("for j in range(first, last):")
        self.body(
            sweep, wanted, [name for n in (*folds, *downs) for name in program.nodes[n].reads]
        )
        self.stores(sweep, wanted)
        self.steps(folds, downs)
        out.close()
        if folds:
            for number in folds:
                part, total = self.part(number), self.total(number)
                value = f"p{number}" if part == total else f"np.{total}(p{number})"
                if self.is_carried(number):
                    self.used.add("lost")
                    out.add(f"joint = r{number} + {value}")
                    out.add(f"lost{number} += lost(r{number}, {value}, joint)")
                    out.add(f"r{number} = joint")
                else:
                    self.joined(f"r{number}", program.nodes[number].along, value, total)
                if self.has_exponents(number):
                    out.add(f"power{number} = power{number} + exponent(r{number})")
                    out.add(f"r{number} = mantissa(r{number})")
            out.close()
        for number in folds:
            if self.is_carried(number):
                self.used.add("settled")
                out.add(f"r{number} = settled(r{number}, lost{number})")
            if self.has_exponents(number):
                self.used.add("scaled")
                out.add(f"r{number} = scaled(r{number}, power{number})")
            out.add(f"t{number} = np.{computed(program.nodes[number].dtype)}(r{number})")

    def pick(self, number: int, sweep: int, wanted: list[int]) -> None:
        """Compute what is picked at its own column alone."""
        value, place = self.program.nodes[number].reads
        dtype = computed(self.program.nodes[number].dtype)
        self.out.add(f"t{number} = np.{dtype}(0)", f"low = np.int64({place})")
        self.out.open("for j in range(low, low + 1):")
        self.body(sweep, wanted, [value])
        self.out.add(f"t{number} = {self.as_dtype(value, dtype)}")
        self.out.close()

    def stores(self, sweep: int, wanted: list[int]) -> None:
        """Store the outputs of a sweep, and keep what later ones need."""
        program = self.program
        for number in wanted:
            dtype = program.nodes[number].dtype
            if number in program.kept and program.begins[number] == sweep:
                self.store(*self.room(number), f"t{number}", computed(dtype))
            for place, output in enumerate(program.outputs):
                if output == number and program.levels[number] == sweep:
                    self.store(f"y{place}", "base + j", f"t{number}", dtype)

    def steps(self, folds: list[int], downs: list[int]) -> None:
        """The innermost step of every fold."""
        for number in folds:
            node = self.program.nodes[number]
            value = self.as_dtype(node.expr, self.part(number))
            if self.has_exponents(number):
                self.used.update({"mantissa", "exponent"})
                self.out.add(f"power{number} = power{number} + exponent({value})")
                value = f"mantissa({value})"
            self.joined(f"p{number}", node.along, value, self.part(number))
        for number in downs:
            value = self.as_dtype(self.program.nodes[number].expr, self.sum_dtype(number))
            if number in self.variances():
                centre = self.peek(f"v{number}", "j - first", "float64")
                self.out.add(f"apart{number} = {value} - {centre}")
                value = f"apart{number}"
                self.grow(f"m{number}", f"{value} * {value}")
            if not self.loses(number):
                self.grow(f"f{number}", value)
            elif self.held:
                self.values.setdefault(number, []).append(value)
            else:
                self.carry(number, value)

    def total(self, number: int) -> str:
        """The dtype of a whole row's running result."""
        node = self.program.nodes[number]
        if node.along in ("sum", "prod"):
            return {"f": "float64", "u": "uint64"}.get(node.dtype[0], "int64")
        return computed(node.dtype)

    def part(self, number: int) -> str:
        """The dtype of the innermost running result: a dear float32 stays what it is."""
        small = self.program.nodes[number].along == "sum" and self.given(number) == "float32"
        return "float32" if small and self.dear else self.total(number)

    def is_carried(self, number: int) -> bool:
        """Whether the sum of a row keeps what it loses, as nothing is wider than its values."""
        adds = self.program.nodes[number].along == "sum"
        return adds and self.given(number) == "float64" and not self.narrow

    def has_exponents(self, number: int) -> bool:
        """Whether it multiplies floats: exponents are added by themselves, and have no bound."""
        return self.program.nodes[number].along == "prod" and self.total(number) == "float64"

    def chunk(self, number: int) -> int:
        """Columns that a running result takes before it joins the row's."""
        if self.has_exponents(number):
            return PRODUCT_ELEMENTS
        short = self.is_carried(number) or self.part(number) == "float32"
        adds = self.program.nodes[number].along == "sum"
        return SHORT_CHUNK_ELEMENTS[self.part(number)] if adds and short else CHUNK_ELEMENTS

    def is_dear(self, sweep: int, wanted: list[int]) -> bool:
        """Whether a sweep computes what takes long for each element."""
        fresh = [n for n in wanted if not self.program.is_fetched(n, sweep)]
        return any(self.program.nodes[n].is_dear for n in fresh)

    # -------------------------------------------------------------- blocks of rows

    def run(self) -> None:
        """The whole kernel."""
        out, program = self.out, self.program
        for number in sorted(program.kept):
            if number not in program.homes:
                self.scratch(f"k{number}", computed(program.nodes[number].dtype))
        downs = self.folded_down()
        for name, dtype in [*self.totals(), *self.parts(), *self.centred()]:
            self.scratch(name, dtype)
        out.open("for item in range(start, stop):")
        out.add("block = item // blocks", "first = (item - block * blocks) * width")
        if not program.outputs:  # backwards, as what comes next begins with what was read last
            out.add("block = parts - 1 - block")
        out.add(f"last = min(first + width, n{self.last})")
        out.add("top = block * rows", "bottom = min(top + rows, many)")
        if not downs:
            out.open("for row in range(top, bottom):")
            self.row()
            return
        self.clear(self.totals())
        if self.variances():
            self.centres()
        out.open(f"for head in range(top, bottom, {FLUSH_ROWS}):")
        out.add(f"tail = min(head + {FLUSH_ROWS}, bottom)")
        self.clear(self.parts())
        self.rows(downs)
        if self.parts():
            self.flush()
        out.close()
        self.partials(downs)

    def rows(self, downs: list[int]) -> None:
        """Rows `head` to `tail`: where they are apart some at once, the others one by one."""
        out, program = self.out, self.program
        dear = any(node.is_dear for node in program.nodes)
        group = rows_at_once(len(program.inputs), dear) if program.across else 1
        if group > 1:
            out.add(f"whole = head + (tail - head) // {group} * {group}")
            out.open(f"for group in range(head, whole, {group}):")
            self.some_rows(group, downs)
            out.close()
        out.open(f"for row in range({'whole' if group > 1 else 'head'}, tail):")
        self.row()
        out.close()

    def some_rows(self, group: int, downs: list[int]) -> None:
        """One sweep over rows side by side, which goes over the running sums once."""
        out, wanted = self.out, self.program.needs(0)
        for k in range(group):
            begun = len(out.lines)
            out.add(f"row = group + {k}")
            self.begin_row()
            self.renamed(begun, k)
        out.open("for j in range(first, last):")
        for name, dtype in self.totals():
            out.add(f"grown_{name} = {self.peek(name, 'j - first', dtype)}")
        self.held, self.values = True, {}
        for k in range(group):
            begun, kept = len(out.lines), {n: len(rows) for n, rows in self.values.items()}
            self.body(0, wanted, [name for n in downs for name in self.program.nodes[n].reads])
            self.stores(0, wanted)
            self.steps([], downs)
            self.renamed(begun, k)
            for number, values in self.values.items():
                begin = kept.get(number, 0)
                values[begin:] = [self.name_of_row(value, k) for value in values[begin:]]
        self.held = False
        for number, values in self.values.items():
            self.used.add("lost")
            out.add(f"some = {by_halves(values)}", f"joint = grown_f{number} + some")
            out.add(f"grown_l{number} += lost(grown_f{number}, some, joint)")
            out.add(f"grown_f{number} = joint")
        for name, dtype in self.totals():
            self.store(name, "j - first", f"grown_{name}", dtype)
        out.close()

    def centres(self) -> None:
        """The first row, as far as it is finite."""
        out = self.out
        variances = self.variances()
        out.add("row = top")
        self.begin_row()
        out.open("for j in range(first, last):")
        self.body(0, self.program.needs(0), [self.program.nodes[n].expr for n in variances])
        for number in variances:
            out.add(f"near = {self.as_dtype(self.program.nodes[number].expr, 'float64')}")
            self.used.update({"absolute_float", "select"})
            finite = "select(absolute_float(near) < np.inf, near, 0.0)"
            self.store(f"v{number}", "j - first", finite, "float64")
        out.close()


def source(program: RowProgram) -> str:
    """The module that defines `run`, the range kernel of a row program."""
    rows = _Rows(program)
    rows.run()
    words = set(re.findall(r"\w+", "\n".join(rows.out.lines)))
    fields = [
        f"    {n} = field(params, {i})" for i, n in enumerate(row_fields(program)) if n in words
    ]
    imports = sorted({"field", "exact_kernel", *rows.used})
    what = "; ".join(
        f"t{n} = {node.along or node.down}({node.expr})" for n, node in enumerate(program.nodes)
    )
    header = [f'"""Generated by kbench, rows: {what}."""', "import numpy as np"]
    header += imported("intrinsics.toolkit", imports)
    header += ["", "", "@exact_kernel", "def run(params, start, stop):"]
    return "\n".join(header + fields + rows.out.lines) + "\n"
