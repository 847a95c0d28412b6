"""Sums down the columns of a row program, and what all its folds are written with.

A sum of float32 is of float64. What is dear to compute is added in float32, with what each addition
loses, and joins the totals every few rows. A sum of float64 keeps what it loses.
"""

from __future__ import annotations

from kbench.engine.codegen.loop_program import LoopProgram
from kbench.engine.codegen.writers.running_folds import FoldWalk
from kbench.engine.codegen.writers.writer import Module

Arrays = list[tuple[str, str]]
"""Scratch of an item's columns, by name and dtype."""


class DownFolds(FoldWalk):
    """What folds down the columns add to a walk over rows."""

    def __init__(self, program: LoopProgram, module: Module) -> None:
        super().__init__(program, module)
        self.wide = self.is_wide(slice(None))
        self.held = False  # whether running sums are held in variables
        self.values: dict[int, list[str]] = {}  # what rows side by side add to each
        finals = program.final_folds
        self.variances = [n for n in finals if program.kind_of(n) == "var"]
        self.downs = [n for n in finals if program.twin(n) is None]
        """The folds that have sums of their own."""

    # -------------------------------------------------------------- dtypes

    def sum_dtype(self, number: int) -> str:
        """The dtype in which values are added down the columns."""
        small = self.given(number) == "float32" and self.program.is_dear
        return "float32" if small and number not in self.variances else "float64"

    def loses(self, number: int) -> bool:
        """Whether a sum down the columns has to keep what it loses."""
        return self.sum_dtype(number) == "float32" or self.wide

    # -------------------------------------------------------------- memory

    def totals(self) -> Arrays:
        """The running sums of an item's columns, and what those of float64 lose."""
        wide = [n for n in self.downs if self.loses(n) and self.sum_dtype(n) == "float64"]
        names = [f"f{n}" for n in self.downs] + [f"m{n}" for n in self.variances]
        return [(name, "float64") for name in names + [f"l{n}" for n in wide]]

    def parts(self) -> Arrays:
        """Sums of a few rows in float32, and what they lose."""
        small = [n for n in self.downs if self.sum_dtype(n) == "float32"]
        return [(f"{name}{n}", "float32") for n in small for name in "cl"]

    def centred(self) -> Arrays:
        """Near what a variance takes the distances of its values from."""
        return [(f"v{n}", "float64") for n in self.variances]

    def clear(self, arrays: Arrays) -> None:
        """Set arrays to 0."""
        self.fill([(name, dtype, f"np.{dtype}(0)") for name, dtype in arrays])

    # -------------------------------------------------------------- steps

    def add_down(self, number: int) -> None:
        """Let the sums of a fold take the value of a row."""
        value = self.as_dtype(self.program.values[number].expr, self.sum_dtype(number))
        if number in self.variances:
            apart = f"apart{number}{self.row_mark}"
            centre = self.peek(f"v{number}", "j - first", "float64")
            self.out.add(f"{apart} = {value} - {centre}")
            value = apart
            self.grow_square(f"m{number}", value)
        if not self.loses(number):
            self.grow(f"f{number}", value)
        elif self.held:
            self.values.setdefault(number, []).append(value)
        else:
            self.carry(number, value)

    def grow(self, name: str, value: str) -> None:
        """Add to a column's running sum."""
        if self.held:
            self.join_to(f"grown_{name}", "sum", value, "float64")
            return
        old = self.peek(name, "j - first", "float64")
        self.store(name, "j - first", self.joined("sum", old, value, "float64"), "float64")

    def grow_square(self, name: str, value: str) -> None:
        """Add a square to a column's running sum: with a sum of float64 beside it, as a variance
        has, additions are what it takes longest for, and this is none of its own."""
        if self.held:
            old = f"grown_{name}"
            self.out.add(f"{old} = {self.call('multiply_add', value, value, old)}")
            return
        joint = self.call("multiply_add", value, value, self.peek(name, "j - first", "float64"))
        self.store(name, "j - first", joint, "float64")

    def carry(self, number: int, value: str) -> None:
        """Add to a column's running sum, and what is lost to another."""
        dtype = self.sum_dtype(number)
        sums = f"f{number}" if dtype == "float64" else f"c{number}"
        self.out.add(f"some = {value}", f"grown = {self.peek(sums, 'j - first', dtype)}")
        self.out.add("joint = grown + some")
        lost = self.call("lost", "grown", "some", "joint")
        self.add_to(f"l{number}", "j - first", lost, dtype)
        self.store(sums, "j - first", "joint", dtype)

    def flush(self) -> None:
        """Let sums of a few rows join the totals."""
        with self.out.block("for j in range(last - first):"):
            for number in self.downs:
                if self.sum_dtype(number) == "float32":
                    self.add_part(f"f{number}", f"c{number}", f"l{number}", "float32")

    # -------------------------------------------------------------- results

    def partials(self) -> None:
        """Store the totals of an item: sums, squares about their own mean, and this mean."""
        out, size = self.out, self.field(f"n{self.last}")
        out.add(f"base = block * {size}", "count = np.float64(bottom - top)")
        with out.block("for j in range(first, last):"):
            for number in self.downs:
                out.add(f"total = {self.peek(f'f{number}', 'j - first', 'float64')}")
                if self.loses(number) and self.sum_dtype(number) == "float64":
                    lost = self.peek(f"l{number}", "j - first", "float64")
                    out.add(f"total = {self.call('settled', 'total', lost)}")
                if number in self.variances:
                    self._store_variance(number)
                self.store(self.field(f"partials{number}"), "base + j", "total", "float64")

    def _store_variance(self, number: int) -> None:
        squares = self.peek(f"m{number}", "j - first", "float64")
        self.out.add(f"squares = {squares} - total * total / count")
        above = self.call("select", "squares < 0.0", "0.0", "squares")
        self.store(self.field(f"squares{number}"), "base + j", above, "float64")
        centre = self.peek(f"v{number}", "j - first", "float64")
        mean = f"{centre} + total / count"
        self.store(self.field(f"means{number}"), "base + j", mean, "float64")
        self.out.add(f"total = total + count * {centre}")
