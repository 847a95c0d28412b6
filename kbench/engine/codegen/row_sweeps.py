"""What a row program computes: statements, folds along each row and down the columns.

Its loop dims are those of the rows and, last, the columns of a row. A value is `full` (one for each
element) or `row` (one for each row). A fold along the row makes a `row` value that later
nodes may use: the kernel sweeps a row once for each level of such folds, while it lies in the
cache. A fold down the columns makes a result of its own, which no node can use.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

from kbench.engine.codegen.loop_program import DTYPES, Input
from kbench.engine.core.fork_safety import cached_property
from kbench.engine.graph.expr.expression import COLUMN, Expr, parse
from kbench.engine.graph.expr.scalars import Cost

ALONG = ("sum", "prod", "max", "min", "pick")
DOWN = ("sum", "mean", "var")


@dataclass(frozen=True)
class Node:
    """`t<number>`: a statement over inputs `a0`, ... and earlier nodes, or a fold of one of them.

    A statement may also use `column`, the number of the column. The fold "pick" of `x + a0` takes
    the value `x` at the column that the input `a0` says for each row.
    """

    expr: Expr
    dtype: str
    along: str = ""
    down: str = ""

    @property
    def reads(self) -> tuple[Expr, ...]:
        """The inputs and nodes that it uses."""
        return tuple(leaf for leaf in self.expr.leaves if leaf is not COLUMN)

    @property
    def locals(self) -> tuple[Expr, ...]:
        """The earlier nodes that it uses."""
        return tuple(leaf for leaf in self.expr.leaves if leaf.kind == "local")

    @property
    def has_column(self) -> bool:
        """Whether it uses the number of the column."""
        return COLUMN in self.expr.leaves

    @property
    def is_dear(self) -> bool:
        """Whether it takes longer than sums and products do."""
        return self.expr.cost > Cost.CHEAP


def node(text: str, dtype: str, along: str = "", down: str = "") -> Node:
    """A node by its text."""
    return Node(parse(text), dtype, along, down)


@dataclass(frozen=True)
class RowProgram:
    """Nodes in order; `outputs` are the statements and folds along rows that are stored.

    The results of folds down the columns come after the outputs, in the order of their nodes.
    With `keep`, rows are short enough to keep dear values of one sweep for the next.
    """

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    keep: bool = True

    def __post_init__(self) -> None:
        dtypes = [operand.dtype for operand in self.inputs]
        for dtype in [*dtypes, *(node.dtype for node in self.nodes)]:
            if dtype not in DTYPES:
                raise ValueError(f"no kernel for dtype {dtype!r}")
        if not (self.outputs or self.downs):
            raise ValueError("a row program needs a result")
        for node in self.nodes:
            if node.along not in ("", *ALONG) or node.down not in ("", *DOWN):
                raise ValueError(f"no fold {node.along or node.down!r} of rows")
        if any(self.nodes[leaf.index].down for node in self.nodes for leaf in node.locals):
            raise ValueError("a fold down the columns cannot be used within its kernel")

    @cached_property
    def rank(self) -> int:
        """Number of loop dims: those of the rows, and the columns."""
        return len(self.inputs[0].pattern)

    @cached_property
    def patterns(self) -> tuple[tuple[bool, ...], ...]:
        """For each input the dims along which it varies."""
        return tuple(operand.pattern for operand in self.inputs)

    @cached_property
    def name(self) -> str:
        """A name unique to the program."""
        text = repr((self.inputs, self.nodes, self.outputs, self.keep))
        return f"rows_{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @cached_property
    def downs(self) -> tuple[int, ...]:
        """The folds down the columns."""
        return tuple(n for n, node in enumerate(self.nodes) if node.down)

    @cached_property
    def full(self) -> tuple[bool, ...]:
        """Which nodes have a value for each element."""
        found: list[bool] = []
        for node in self.nodes:
            wide = node.has_column or any(self._is_full(leaf, found) for leaf in node.reads)
            found.append(wide and not node.along and not node.down)
        return tuple(found)

    def _is_full(self, leaf: Expr, nodes: list[bool]) -> bool:
        if leaf.kind == "input":
            return self.inputs[leaf.index].pattern[-1]
        return nodes[leaf.index]

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The sweep in which each node can be computed; a fold's value is there one later."""
        found: list[int] = []
        for node in self.nodes:
            level = max((found[leaf.index] for leaf in node.locals), default=0)
            found.append(level + bool(node.along))
        return tuple(found)

    @cached_property
    def sweeps(self) -> int:
        """How many sweeps a row takes."""
        return 1 + max(self.level_of(n) for n in (*self.outputs, *self.downs, *self._alongs))

    @cached_property
    def _alongs(self) -> tuple[int, ...]:
        return tuple(n for n, node in enumerate(self.nodes) if node.along)

    def level_of(self, number: int) -> int:
        """The sweep that does the work of a node."""
        return self.levels[number] - bool(self.nodes[number].along)

    @cached_property
    def across(self) -> bool:
        """Whether rows are apart: nothing is computed along them, so they may be cut and joined."""
        varying = any(any(p[:-1]) and not p[-1] for p in self.patterns)
        varying = varying or any(node.has_column for node in self.nodes)
        return not self._alongs and not varying and all(self.full[n] for n in self.outputs)

    def needs(self, sweep: int) -> list[int]:
        """The full statements a sweep has: computed, or fetched where an earlier one kept them."""
        return self._closure(sweep, self.kept)

    def _closure(self, sweep: int, kept: frozenset[int]) -> list[int]:
        wanted = {n for n in self.outputs if self.full[n] and self.levels[n] == sweep}
        for number, node in enumerate(self.nodes):
            if (node.along or node.down) and self.level_of(number) == sweep:
                wanted |= self._statements(node)
        for number in range(len(self.nodes) - 1, -1, -1):
            fetched = number in kept and self.begins[number] < sweep
            if number in wanted and not fetched:
                wanted |= self._statements(self.nodes[number])
        return sorted(wanted)

    def _statements(self, node: Node) -> set[int]:
        return {leaf.index for leaf in node.locals if self.full[leaf.index]}

    def is_fetched(self, number: int, sweep: int) -> bool:
        """Whether a sweep finds a value that an earlier one kept."""
        return number in self.kept and self.begins[number] < sweep

    @cached_property
    def _apart(self) -> list[list[int]]:
        """The full statements that each sweep would compute, were nothing kept."""
        return [self._closure(sweep, frozenset()) for sweep in range(self.sweeps)]

    @cached_property
    def begins(self) -> dict[int, int]:
        """The first sweep that needs each full statement."""
        found: dict[int, int] = {}
        for sweep, numbers in enumerate(self._apart):
            for number in numbers:
                found.setdefault(number, sweep)
        return found

    @cached_property
    def kept(self) -> frozenset[int]:
        """Dear full statements that several sweeps use; their first one keeps them.

        One that later sweeps would need only to compute another kept value is not among them.
        """
        if not self.keep:
            return frozenset()
        uses = Counter(number for phase in self._apart for number in phase if self._is_dear(number))
        kept = frozenset(number for number, count in uses.items() if count > 1)
        needed = [set(self._closure(sweep, kept)) for sweep in range(self.sweeps)]
        return frozenset(
            number
            for number in kept
            if any(number in phase for phase in needed[self.begins[number] + 1 :])
        )

    @cached_property
    def homes(self) -> dict[int, int]:
        """Kept values that lie in the place of an output until that is stored over them."""
        found: dict[int, int] = {}
        for number in sorted(self.kept):
            last = max(sweep for sweep in range(self.sweeps) if number in self.needs(sweep))
            for place, output in enumerate(self.outputs):
                same = self.nodes[output].dtype == self.nodes[number].dtype != "float16"
                free = place not in found.values() and number not in self.outputs
                if self.full[output] and same and free and self.levels[output] >= last:
                    found[number] = place
                    break
        return found

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The inputs that say a column for each row."""
        picks = {node.reads[-1] for node in self.nodes if node.along == "pick"}
        if any(leaf.kind != "input" or self._is_full(leaf, []) for leaf in picks):
            raise ValueError("what to pick is said by an input with one value for each row")
        return tuple(sorted(leaf.index for leaf in picks))

    def twin(self, number: int) -> int | None:
        """The variance whose sums are those that `number`, a sum or a mean, asks for."""
        node = self.nodes[number]
        same = (n for n in self.downs if self.nodes[n].expr is node.expr and n != number)
        return next((n for n in same if self.nodes[n].down == "var" != node.down), None)

    def _is_dear(self, number: int) -> bool:
        return self.nodes[number].is_dear and self.nodes[number].dtype[0] == "f"


def row_fields(program: RowProgram) -> list[str]:
    """The integers of a kernel's parameter block, in order."""
    names = [f"y{n}" for n in range(len(program.outputs))]
    for number in program.downs:
        variance = program.nodes[number].down == "var"
        names += [f"d{number}", *([f"e{number}", f"g{number}"] if variance else [])]
    names += [f"x{n}" for n in range(len(program.inputs))]
    names += [f"n{d}" for d in range(program.rank)]
    names += ["many", "rows", "parts", "width", "blocks"]
    for number, pattern in enumerate(program.patterns):
        names += [f"s{number}_{d}" for d in range(program.rank - 1) if pattern[d]]
    return names
