"""Sums down the columns of a row program, and what all its folds are written with.

A sum of float32 is of float64. What is dear to compute is added in float32, with what each addition
loses, and joins the totals every few rows. A sum of float64 keeps what it loses.
"""

from __future__ import annotations

from kbench.engine.codegen.row_sweeps import RowProgram
from kbench.engine.codegen.typed_expr import computed
from kbench.engine.codegen.writer import Walk, bits_of, join
from kbench.engine.graph.expr.expression import COLUMN, Expr, input_leaf, local_leaf


class Downs(Walk):
    """What folds down the columns add to a walk over rows."""

    def __init__(self, program: RowProgram) -> None:
        super().__init__(program.inputs, program.patterns)
        self.program = program
        self.types = {input_leaf(n): operand.dtype for n, operand in enumerate(program.inputs)}
        self.types |= {local_leaf(n): node.dtype for n, node in enumerate(program.nodes)}
        self.types[COLUMN] = "int64"
        self.held = False  # whether running sums are held in variables
        self.values: dict[int, list[str]] = {}  # what rows side by side add to each
        wide = (operand.dtype == "float64" and any(operand.pattern) for operand in program.inputs)
        self.narrow = not any(wide)

    def as_dtype(self, leaf: Expr, dtype: str) -> str:
        """A value converted to the dtype of a running result."""
        return str(leaf) if computed(self.types[leaf]) == dtype else f"np.{dtype}({leaf})"

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

    def grow(self, name: str, value: str) -> None:
        """Add to a column's running sum."""
        if self.held:
            self.out.add(f"grown_{name} = {self.plus(f'grown_{name}', value, 'float64')}")
            return
        old = self.peek(name, "j - first", "float64")
        self.store(name, "j - first", self.plus(old, value, "float64"), "float64")

    def carry(self, number: int, value: str) -> None:
        """Add to a column's running sum, and what is lost to another."""
        dtype = self.sum_dtype(number)
        sums = f"f{number}" if dtype == "float64" else f"c{number}"
        self.used.add("lost")
        self.out.add(f"some = {value}", f"grown = {self.peek(sums, 'j - first', dtype)}")
        self.out.add("joint = grown + some")
        before = self.peek(f"l{number}", "j - first", dtype)
        lost = f"{before} + lost(grown, some, joint)"
        self.store(f"l{number}", "j - first", lost, dtype)
        self.store(sums, "j - first", "joint", dtype)

    def joined(self, name: str, kind: str, value: str, dtype: str) -> None:
        text, used = join(kind, name, value, dtype)
        self.used |= used
        self.out.add(f"{name} = {text}")

    def plus(self, left: str, right: str, dtype: str) -> str:
        text, used = join("sum", left, right, dtype)
        self.used |= used
        return text

    def given(self, number: int) -> str:
        """The dtype in which a fold's values are computed."""
        return computed(self.types[self.program.nodes[number].expr])

    def sum_dtype(self, number: int) -> str:
        """The dtype in which values are added down the columns."""
        dear = any(node.is_dear for node in self.program.nodes)
        small = self.given(number) == "float32" and dear
        return "float32" if small and number not in self.variances() else "float64"

    def loses(self, number: int) -> bool:
        """Whether a sum down the columns has to keep what it loses."""
        return self.sum_dtype(number) == "float32" or not self.narrow

    def folded_down(self) -> list[int]:
        """The folds down the columns that have sums of their own."""
        return [n for n in self.program.downs if self.program.twin(n) is None]

    def totals(self) -> list[tuple[str, str]]:
        """The running sums of an item's columns, and what those of float64 lose."""
        downs, variances = self.folded_down(), self.variances()
        wide = [n for n in downs if self.loses(n) and self.sum_dtype(n) == "float64"]
        names = [f"f{n}" for n in downs] + [f"m{n}" for n in variances] + [f"l{n}" for n in wide]
        return [(name, "float64") for name in names]

    def parts(self) -> list[tuple[str, str]]:
        """Sums of a few rows in float32, and what they lose."""
        small = [n for n in self.folded_down() if self.sum_dtype(n) == "float32"]
        return [(f"{name}{n}", "float32") for n in small for name in "cl"]

    def centred(self) -> list[tuple[str, str]]:
        return [(f"v{n}", "float64") for n in self.variances()]

    def flush(self) -> None:
        """Let sums of a few rows join the totals."""
        self.used.add("settled")
        self.out.open("for j in range(last - first):")
        for name, dtype in self.parts():
            if name[0] == "c":
                part, lost = self.peek(name, "j", dtype), self.peek(f"l{name[1:]}", "j", dtype)
                total = self.peek(f"f{name[1:]}", "j", "float64")
                joint = f"{total} + settled(np.float64({part}), np.float64({lost}))"
                self.store(f"f{name[1:]}", "j", joint, "float64")
        self.out.close()

    def variances(self) -> list[int]:
        return [n for n in self.program.downs if self.program.nodes[n].down == "var"]

    def clear(self, arrays: list[tuple[str, str]]) -> None:
        if not arrays:
            return
        self.out.open("for j in range(last - first):")
        for name, dtype in arrays:
            self.store(name, "j", f"np.{dtype}(0)", dtype)
        self.out.close()

    def partials(self, downs: list[int]) -> None:
        """Store the totals of an item: sums, squares about their own mean, and this mean."""
        out = self.out
        out.add(f"base = block * n{self.last}", "count = np.float64(bottom - top)")
        out.open("for j in range(first, last):")
        for number in downs:
            out.add(f"total = {self.peek(f'f{number}', 'j - first', 'float64')}")
            if self.loses(number) and self.sum_dtype(number) == "float64":
                self.used.add("settled")
                lost = self.peek(f"l{number}", "j - first", "float64")
                out.add(f"total = settled(total, {lost})")
            if number in self.variances():
                squares = self.peek(f"m{number}", "j - first", "float64")
                out.add(f"squares = {squares} - total * total / count")
                self.used.add("select")
                self.store(
                    f"e{number}", "base + j", "select(squares < 0.0, 0.0, squares)", "float64"
                )
                centre = self.peek(f"v{number}", "j - first", "float64")
                self.store(f"g{number}", "base + j", f"{centre} + total / count", "float64")
                out.add(f"total = total + count * {centre}")
            self.store(f"d{number}", "base + j", "total", "float64")
        out.close()
