"""Writes the kernel of a row program: sweeps over each row, folds down blocks of rows.

An item is a block of rows, or where rows are apart of some columns of them, of sizes that do not
depend on the number of threads. Folds down the columns add up `FLUSH` rows in float32 before they
join float64 totals. A variance takes distances from a value near the mean, that of the first rows
of its item, so that one read of memory does without cancellation.
"""

from __future__ import annotations

import re

from kbench.engine.kernels.rowwise import DEAR, RowProgram, row_fields
from kbench.engine.kernels.translate import computed, translate
from kbench.engine.kernels.writing import CHUNK, Walk, bits_of, identity, join, rows_at_once

FLUSH = 32
"""Rows that a fold down the columns adds up before they join the totals."""


class _Rows(Walk):
    """One program's source under construction."""

    def __init__(self, program: RowProgram) -> None:
        super().__init__(program.inputs, program.patterns)
        self.program = program
        self.types = {f"a{n}": one.dtype for n, one in enumerate(program.inputs)}
        self.types |= {f"t{n}": one.dtype for n, one in enumerate(program.nodes)}
        self.held = False  # whether running sums are held in variables

    # -------------------------------------------------------------- pieces

    def statement(self, number: int) -> str:
        """The line that computes a statement."""
        node = self.program.nodes[number]
        types = {name: self.types[name] for name in node.reads} | {"column": "int64"}
        found = translate(node.expr, types, node.dtype)
        self.used |= found.used
        return f"t{number} = {found.source}"

    def as_dtype(self, name: str, dtype: str) -> str:
        """A value converted to the dtype of a running result."""
        return name if computed(self.types[name]) == dtype else f"np.{dtype}({name})"

    def store(self, target: str, where: str, value: str, dtype: str) -> None:
        self.used.add(f"store_{dtype}")
        self.out.add(f"store_{dtype}({target}, {where}, {value})")

    def peek(self, source: str, where: str, dtype: str) -> str:
        self.used.add(f"peek_{dtype}")
        return f"peek_{dtype}({source}, {where})"

    def scratch(self, name: str, dtype: str) -> None:
        helper = f"scratch_{bits_of(dtype)}"
        self.used.add(helper)
        self.out.add(f"{name} = {helper}()")

    def body(self, sweep: int, wanted: list[int], also: list[str]) -> None:
        """Load and compute the statements `wanted`; `also` names inputs that are read besides."""
        program = self.program
        fresh = [n for n in wanted if not (n in program.kept and program.levels[n] < sweep)]
        names = {name for n in fresh for name in program.nodes[n].reads} | set(also)
        for number, pattern in enumerate(program.patterns):
            if f"a{number}" in names and pattern[-1]:
                self.out.add(self.load(number, self.place(number, "j")))
        if any("column" in program.nodes[n].expr for n in fresh):
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
        folds = [n for n, one in enumerate(program.nodes) if one.along]
        folds = [n for n in folds if program.level_of(n) == sweep]
        picks = [n for n in folds if program.nodes[n].along == "pick"]
        folds = [n for n in folds if n not in picks]
        downs = [n for n in self.folded_down() if program.level_of(n) == sweep]
        wanted = program.needs(sweep)
        for number in picks:
            self.pick(number, sweep, wanted)
        if not (folds or downs or wanted):
            return
        for number in folds:
            out.add(f"r{number} = {identity(program.nodes[number].along, self.total(number))}")
        if folds:
            out.open(f"for low in range(first, last, {CHUNK}):")
            for number in folds:
                out.add(f"p{number} = {identity(program.nodes[number].along, self.part(number))}")
            out.open(f"for j in range(low, min(low + {CHUNK}, last)):")
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
                self.joined(f"r{number}", program.nodes[number].along, value, total)
            out.close()
        for number in folds:
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
            if program.levels[number] != sweep:
                continue
            dtype = program.nodes[number].dtype
            if number in program.kept:
                self.store(*self.room(number), f"t{number}", computed(dtype))
            for place, output in enumerate(program.outputs):
                if output == number:
                    self.store(f"y{place}", "base + j", f"t{number}", dtype)

    def steps(self, folds: list[int], downs: list[int]) -> None:
        """The innermost step of every fold."""
        for number in folds:
            node = self.program.nodes[number]
            value = self.as_dtype(node.expr, self.part(number))
            self.joined(f"p{number}", node.along, value, self.part(number))
        for number in downs:
            dtype = self.wide(number)
            value = self.as_dtype(self.program.nodes[number].expr, dtype)
            if number in self.variances():
                centre = self.peek(f"v{number}", "j - first", dtype)
                self.out.add(f"apart{number} = {value} - {centre}")
                value = f"apart{number}"
                self.grow(f"q{number}", f"{value} * {value}", dtype)
            self.grow(f"c{number}", value, dtype)

    def grow(self, name: str, value: str, dtype: str) -> None:
        """Add to a column's running sum."""
        if self.held:
            self.out.add(f"grown_{name} = {self.plus(f'grown_{name}', value, dtype)}")
            return
        old = self.peek(name, "j - first", dtype)
        self.store(name, "j - first", self.plus(old, value, dtype), dtype)

    def joined(self, name: str, kind: str, value: str, dtype: str) -> None:
        text, used = join(kind, name, value, dtype)
        self.used |= used
        self.out.add(f"{name} = {text}")

    def plus(self, left: str, right: str, dtype: str) -> str:
        text, used = join("sum", left, right, dtype)
        self.used |= used
        return text

    def total(self, number: int) -> str:
        """The dtype of a whole row's running result."""
        node = self.program.nodes[number]
        if node.along in ("sum", "prod"):
            return {"f": "float64", "u": "uint64"}.get(node.dtype[0], "int64")
        return computed(node.dtype)

    def part(self, number: int) -> str:
        """The dtype of the innermost running result: float32 sums start in float32."""
        node = self.program.nodes[number]
        small = node.along == "sum" and computed(node.dtype) == "float32"
        return "float32" if small else self.total(number)

    def wide(self, number: int) -> str:
        """The dtype in which a few rows are added down the columns."""
        return computed(self.program.nodes[number].dtype)

    # -------------------------------------------------------------- blocks of rows

    def folded_down(self) -> list[int]:
        """The folds down the columns that have sums of their own."""
        return [n for n in self.program.downs if self.program.twin(n) is None]

    def run(self) -> None:
        """The whole kernel."""
        out, program = self.out, self.program
        for number in sorted(program.kept):
            if number not in program.homes:
                self.scratch(f"k{number}", computed(program.nodes[number].dtype))
        downs = self.folded_down()
        for number in downs:
            self.scratch(f"c{number}", self.wide(number))
            self.scratch(f"f{number}", "float64")
        for number in self.variances():
            self.scratch(f"q{number}", self.wide(number))
            self.scratch(f"v{number}", self.wide(number))
            self.scratch(f"m{number}", "float64")
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
        self.clear([(f"f{n}", "float64") for n in downs])
        variances = self.variances()
        self.clear([(f"m{n}", "float64") for n in variances])
        if variances:
            self.centres()
        out.open(f"for head in range(top, bottom, {FLUSH}):")
        out.add(f"tail = min(head + {FLUSH}, bottom)")
        self.clear([(f"c{n}", self.wide(n)) for n in downs])
        self.clear([(f"q{n}", self.wide(n)) for n in variances])
        self.rows(downs)
        out.open("for j in range(last - first):")
        pairs = [(f"f{n}", f"c{n}", n) for n in downs] + [(f"m{n}", f"q{n}", n) for n in variances]
        for total, part, number in pairs:
            value = f"np.float64({self.peek(part, 'j', self.wide(number))})"
            self.store(total, "j", f"{self.peek(total, 'j', 'float64')} + {value}", "float64")
        out.close(2)
        self.partials(downs)

    def rows(self, downs: list[int]) -> None:
        """Rows `head` to `tail`: where they are apart some at once, the others one by one."""
        out, program = self.out, self.program
        dear = any(DEAR.search(node.expr) for node in program.nodes)
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
        sums = [(f"c{n}", self.wide(n)) for n in downs]
        sums += [(f"q{n}", self.wide(n)) for n in self.variances()]
        out.open("for j in range(first, last):")
        for name, dtype in sums:
            out.add(f"grown_{name} = {self.peek(name, 'j - first', dtype)}")
        self.held = True
        for k in range(group):
            begun = len(out.lines)
            self.body(0, wanted, [name for n in downs for name in self.program.nodes[n].reads])
            self.stores(0, wanted)
            self.steps([], downs)
            self.renamed(begun, k)
        self.held = False
        for name, dtype in sums:
            self.store(name, "j - first", f"grown_{name}", dtype)
        out.close()

    def variances(self) -> list[int]:
        return [n for n in self.program.downs if self.program.nodes[n].down == "var"]

    def clear(self, arrays: list[tuple[str, str]]) -> None:
        if not arrays:
            return
        self.out.open("for j in range(last - first):")
        for name, dtype in arrays:
            self.store(name, "j", f"np.{dtype}(0)", dtype)
        self.out.close()

    def centres(self) -> None:
        """The means of the first rows, as far as they are finite."""
        out = self.out
        variances = self.variances()
        out.add(f"tail = min(top + {FLUSH}, bottom)")
        self.clear([(f"v{n}", self.wide(n)) for n in variances])
        out.open("for row in range(top, tail):")
        self.begin_row()
        out.open("for j in range(first, last):")
        self.body(0, self.program.needs(0), [self.program.nodes[n].expr for n in variances])
        for number in variances:
            dtype = self.wide(number)
            self.grow(f"v{number}", self.as_dtype(self.program.nodes[number].expr, dtype), dtype)
        out.close(2)
        out.open("for j in range(last - first):")
        for number in variances:
            dtype = self.wide(number)
            out.add(f"mean = {self.peek(f'v{number}', 'j', dtype)} / np.{dtype}(tail - top)")
            self.used.update({"absolute_float", "select"})
            finite = f"absolute_float(mean) < np.{dtype}(np.inf)"
            self.store(f"v{number}", "j", f"select({finite}, mean, np.{dtype}(0))", dtype)
        out.close()

    def partials(self, downs: list[int]) -> None:
        """Store the totals of an item: sums, and squares about their own mean."""
        out = self.out
        out.add(f"base = block * n{self.last}", "count = np.float64(bottom - top)")
        out.open("for j in range(first, last):")
        for number in downs:
            out.add(f"total = {self.peek(f'f{number}', 'j - first', 'float64')}")
            if number in self.variances():
                squares = self.peek(f"m{number}", "j - first", "float64")
                out.add(f"squares = {squares} - total * total / count")
                self.used.add("select")
                self.store(
                    f"e{number}", "base + j", "select(squares < 0.0, 0.0, squares)", "float64"
                )
                centre = self.peek(f"v{number}", "j - first", self.wide(number))
                out.add(f"total = total + count * np.float64({centre})")
            self.store(f"d{number}", "base + j", "total", "float64")
        out.close()


def source(program: RowProgram) -> str:
    """The module that defines `run`, the range kernel of a row program."""
    rows = _Rows(program)
    rows.run()
    words = set(re.findall(r"\w+", "\n".join(rows.out.lines)))
    fields = [
        f"    {n} = field(params, {i})" for i, n in enumerate(row_fields(program)) if n in words
    ]
    imports = sorted({"field", "range_kernel", *rows.used})
    what = "; ".join(
        f"t{n} = {node.along or node.down}({node.expr})" for n, node in enumerate(program.nodes)
    )
    header = [f'"""Generated by kbench, rows: {what}."""', "import numpy as np"]
    header += ["from kbench.engine.kernels.toolkit import (", *[f"    {n}," for n in imports], ")"]
    header += ["", "", "@range_kernel", "def run(params, start, stop):"]
    return "\n".join(header + fields + rows.out.lines) + "\n"
