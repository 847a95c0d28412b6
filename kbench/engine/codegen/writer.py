"""What the writers of kernel sources share: lines, walks over inputs, the arithmetic of folds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kbench.engine.codegen.loop_program import Input

CHUNK_ELEMENTS = 4096
"""Values that a running result takes before it joins the total."""

SHORT_CHUNK_ELEMENTS = {"float32": 128, "float64": 256}
"""As many of them where they are added in their own dtype. SIMD adds them in 16 lanes or more, so
that each is rounded less often than in a sum by halves."""

PRODUCT_ELEMENTS = 512
"""Mantissas, of 1 to 2, that are multiplied before the exponent of the product is taken off."""

JOINT_ROWS = 8
"""Rows of one input that a fold down the columns adds up before it goes on to the next columns."""

STEP_EXPRESSIONS = {
    "sum": "plus({0}, {1})",
    "mean": "plus({0}, {1})",
    "prod": "times({0}, {1})",
    "any": "({0} | {1})",
    "all": "({0} & {1})",
}


def imported(module: str, names: Sequence[str]) -> list[str]:
    """The lines by which a source imports names from a module of the engine."""
    return [f"from kbench.engine.{module} import (", *[f"    {name}," for name in names], ")"]


@dataclass
class Lines:
    """Source lines under construction, indented by the blocks that are open."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def add(self, *texts: str) -> None:
        """Lines at the present depth."""
        self.lines += ["    " * self.depth + text for text in texts]

    def open(self, text: str) -> None:
        """A line that begins a block."""
        self.add(text)
        self.depth += 1

    def close(self, count: int = 1) -> None:
        """End blocks."""
        self.depth -= count


class Walk:
    """Where inputs stand while a nest walks over its dims; `used` collects helpers to import."""

    def __init__(self, inputs: Sequence[Input], patterns: Sequence[tuple[bool, ...]]) -> None:
        self.inputs = inputs
        self.patterns = patterns
        self.last = (len(patterns[0]) if patterns else 1) - 1
        self.out = Lines(depth=1)
        self.used: set[str] = set()

    def index(self, rest: str, dims: range) -> None:
        """Split a running number into `i<d>` for each of `dims`."""
        names = list(dims)
        for d in names[:0:-1]:
            self.out.add(f"i{d} = {rest} % n{d}", f"{rest} = {rest} // n{d}")
        if names:
            self.out.add(f"i{names[0]} = {rest}")

    def offset(self, number: int, dims: range) -> str:
        """Where input `number` stands for the indices of `dims` (the last loop dim left out)."""
        pattern = self.patterns[number]
        terms = [f"i{d} * s{number}_{d}" for d in dims if d < self.last and pattern[d]]
        return " + ".join(terms)

    def offsets(self, dims: range, base: str = "") -> None:
        """Set `o<number>` of every input that moves over `dims`."""
        for number, pattern in enumerate(self.patterns):
            if any(pattern[d] for d in dims if d < self.last):
                terms = self.offset(number, dims)
                before = f"{base}{number} + " if base and self._moves(number, dims) else ""
                self.out.add(f"o{number} = {before}{terms}")

    def _moves(self, number: int, after: range) -> bool:
        """Whether the input also moves over dims before `after`, so that a base was set."""
        return any(self.patterns[number][d] for d in range(after.start))

    def load(self, number: int, where: str) -> str:
        """The statement that reads an input."""
        dtype = self.inputs[number].dtype
        self.used.add(f"load_{dtype}")
        return f"a{number} = load_{dtype}(x{number}, {where})"

    def place(self, number: int, column: str) -> str:
        """The position of an input for a column."""
        pattern = self.patterns[number]
        moved = any(pattern[: self.last])
        parts = [f"o{number}"] if moved else []
        parts += [column] if pattern[self.last] else []
        return " + ".join(parts) or "0"

    def renamed(self, begun: int, k: int) -> None:
        """Give what the lines since `begun` say of a row names of its own."""
        lines = self.out.lines
        lines[begun:] = [self.name_of_row(line, k) for line in lines[begun:]]

    @staticmethod
    def name_of_row(text: str, k: int) -> str:
        """A line with the names that it has for row `k`."""
        return re.sub(r"\b([aot]\d+|apart\d+|base)\b", rf"\1_{k}", text)

    def hoisted(self) -> None:
        """Load what does not vary along the innermost loop."""
        for number, pattern in enumerate(self.patterns):
            if not pattern[self.last]:
                self.out.add(self.load(number, self.place(number, "j")))


def by_halves(values: Sequence[str]) -> str:
    """The sum of a few values, in the order in which none is rounded often."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    return f"({by_halves(values[:half])} + {by_halves(values[half:])})"


def rows_at_once(inputs: int, dear: bool) -> int:
    """Rows that a fold down the columns reads side by side: it goes over its sums less often."""
    return 1 if dear or not inputs else max(1, JOINT_ROWS // inputs)


def bits_of(dtype: str) -> str:
    """How many bits a value has, as text."""
    return re.sub(r"\D", "", dtype)


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


def join(kind: str, left: str, right: str, dtype: str) -> tuple[str, set[str]]:
    """One step of a fold in a dtype, and the helpers that it calls."""
    if kind in ("max", "min"):
        helper = f"{kind}imum_{'float' if dtype[0] == 'f' else 'int'}"
        used, joined = {helper}, f"{helper}({left}, {right})"
    else:
        used = {"plus", "times"} if kind in ("sum", "mean", "prod") else set()
        joined = STEP_EXPRESSIONS[kind].format(left, right)
    return (joined if dtype[0] == "f" else f"np.{dtype}({joined})"), used
