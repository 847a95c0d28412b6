"""Draws programs: plain data, so that they can be kept, shortened and run again anywhere."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from programs.larger import OPERATIONS
from programs.operations import Operation, Value

FEEDS = 3
"""Sets of arrays that a program is fed: what goes wrong with each of them is no accident."""
LARGEST = 50.0
"""Largest value that a step may give; beyond it rounding would drown what is looked for."""


@dataclass(frozen=True)
class Leaf:
    """A placeholder or variable, its shape, and whether its first dimension is told beforehand."""

    kind: str  # 'placeholder' or 'variable'
    shape: tuple[int, ...]
    known: bool = True


@dataclass(frozen=True)
class Step:
    """An operation on earlier values, which are the leaves and the steps before it, in order."""

    name: str
    operands: tuple[int, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """Leaves, steps, which values are outputs, what variables become, what gradients are asked."""

    seed: int
    dtype: str
    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    updates: tuple[tuple[int, int], ...] = ()  # a variable, and the value it gets a part of
    slopes: tuple[int, ...] = ()  # leaves to which the gradient of all outputs is asked

    def as_row(self) -> dict[str, Any]:
        """The program as JSON knows it."""
        return asdict(self)

    @staticmethod
    def from_row(row: dict[str, Any]) -> Program:
        """The program of a row."""
        leaves = tuple(
            Leaf(one["kind"], tuple(one["shape"]), one["known"]) for one in row["leaves"]
        )
        steps = tuple(
            Step(one["name"], tuple(one["operands"]), one["attributes"]) for one in row["steps"]
        )
        updates = tuple((int(one[0]), int(one[1])) for one in row["updates"])
        return Program(
            row["seed"],
            row["dtype"],
            leaves,
            steps,
            tuple(row["outputs"]),
            updates,
            tuple(row["slopes"]),
        )


@dataclass(frozen=True)
class Sizes:
    """How large values are: rows, columns, images, sequences."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    images: tuple[tuple[int, int, int, int], ...]
    sequences: tuple[tuple[int, int, int], ...]
    filters: tuple[int, ...]


SMALL = Sizes((3, 5, 7, 34), (2, 3, 5), ((2, 5, 4, 3),), ((3, 4, 2),), (2, 3))
"""For interpreted kernels, which take small arrays, too."""
LARGE = Sizes(
    (700, 2000), (64, 100, 256, 512), ((8, 28, 28, 16), (4, 33, 31, 8)), ((32, 9, 64),), (16, 32)
)
"""For compiled kernels: sizes from which on they run by default."""


def feeds(program: Program, number: int) -> list[np.ndarray]:
    """What the leaves are in feed `number`: float32 numbers, so that all dtypes hold them."""
    random = np.random.default_rng([program.seed, number])
    made = [random.uniform(-1.5, 1.5, one.shape).astype("float32") for one in program.leaves]
    return [one.astype(program.dtype) for one in made]


def alone(operation: Operation, arrays: list[np.ndarray], attributes: dict[str, Any]) -> np.ndarray:
    """An operation on arrays, by itself, on NumPy."""
    K = numpy_engine()
    given = [K.constant(one, dtype=one.dtype.name) for one in arrays]
    with contextlib.redirect_stdout(io.StringIO()):  # what it prints
        return np.asarray(K.eval(operation.build(K, *given, **attributes)))


@functools.cache
def numpy_engine() -> Any:
    """The engine without kernels."""
    from kbench.api import engines

    return engines.load("numpy")


class _Drawing:
    """A program under construction, with the values of its first feed."""

    def __init__(self, seed: int, sizes: Sizes, dtype: str) -> None:
        self.random = np.random.default_rng([seed, 7])
        rows_only = self.random.random() < 0.4
        self.names = list(ROWS) if rows_only else [*OPERATIONS, *RARE * 3]
        self.leaves = self._leaves(sizes)[: 4 if rows_only else None]
        self.steps: list[Step] = []
        first = Program(seed, dtype, self.leaves, (), ())
        arrays = [one.astype("float64") for one in feeds(first, 0)]
        self.values = [Value(one, exact=True) for one in arrays]

    def _choice(self, options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    def _leaves(self, sizes: Sizes) -> tuple[Leaf, ...]:
        rows, columns = self._choice(sizes.rows), self._choice(sizes.columns)
        other = self._choice(sizes.columns)
        known = bool(self.random.random() < 0.5)
        found = [Leaf("placeholder", (rows, columns), known)]
        found += [Leaf(self._kind(), (rows, columns)), Leaf("variable", (columns, other))]
        found += [Leaf(self._kind(), (columns,)), Leaf("variable", (other,))]
        found += [Leaf("variable", (columns,)), Leaf(self._kind(), (rows, 1))]
        if self.random.random() < 0.3:
            images, filters = self._choice(sizes.images), self._choice(sizes.filters)
            found += [
                Leaf("placeholder", images, known),
                Leaf("variable", (3, 3, images[3], filters)),
            ]
            found += [Leaf("variable", (filters,)), Leaf("variable", (1, 1, filters, images[3]))]
        if self.random.random() < 0.3:
            sequence = self._choice(sizes.sequences)
            found += [Leaf("placeholder", sequence, known), Leaf("variable", sequence[2:] * 2)]
        return tuple(found)

    def _kind(self) -> str:
        return str(self._choice(["placeholder", "variable"]))

    def _operands(self, operation: Operation) -> tuple[int, ...] | None:
        """Values that an operation takes: recent ones more often than old ones."""
        count = len(self.values)
        recent = np.exp(-np.arange(count)[::-1] / 6.0) + 0.05
        weights = recent / recent.sum()
        for _ in range(12):
            chosen = self.random.choice(count, operation.arity, p=weights)
            if operation.fits(*[self.values[int(n)] for n in chosen]):
                return tuple(int(n) for n in chosen)
        return None

    def grow(self) -> None:
        """One more step, whose value is finite, of a modest size, and not too large an array."""
        names = self.names
        while True:
            operation = OPERATIONS[self._choice(names)]
            operands = self._operands(operation)
            if operands is None:
                continue
            given = [self.values[n] for n in operands]
            attributes = operation.attributes(self.random, *given)
            result = alone(operation, [one.array for one in given], attributes)
            largest = np.abs(result).max(initial=0.0)
            if result.size == 0 or result.size > 400_000 or not largest < LARGEST:
                continue
            moved = operation.name in MOVES and all(one.exact for one in given)
            self.steps.append(Step(operation.name, operands, attributes))
            self.values.append(Value(result, exact=moved))
            return


MOVES = (
    "transpose permute reshape flatten tail reverse rolled concatenate negative abs gather tile "
    "identity"
).split() + ["one more axis", "every other", "some columns", "last column", "repeat elements"]
"""Operations that leave exact values exact."""

ROWS = (
    "sin tanh sigmoid softplus exp bell log sqrt square times plus add multiply divide subtract "
    "maximum gate sum sum mean max max min var softmax softmax centred relu over negative "
    "logsumexp clip"
).split() + ["layer norm", "normal rows", "cross-entropy", "cross-entropy of logits"]
"""What row programs are made of; a part of all programs has nothing else."""

KNOWN = ("local", "transposed convolution", "one-hot")
"""Operations that need sizes to be known before anything is fed."""

RARE = (
    "convolution depthwise recurrent smoothed mapped dense dot bias divide where masked branch"
).split() + ["strided convolution", "avg pool", "max pool", "batch norm", "normal by", "layer norm"]
RARE += "separable local paths gated integers one-hot".split()
RARE += ["convolution of sequences", "convolution of volumes", "transposed convolution"]
RARE += ["sparse product", "sparse joined", "uniform noise", "normal noise", "printed"]
RARE += ["pool of volumes", "any of", "mapped to the top"]
"""Operations that few operands fit, and so are tried more often."""


def draw(seed: int, sizes: Sizes = SMALL, longest: int = 60) -> tuple[Program, list[np.ndarray]]:
    """The program of a seed, and in float64 what its values are for the first feed."""
    random = np.random.default_rng([seed, 11])
    dtype = str(random.choice(["float16", "float32", "float64"], p=[0.05, 0.7, 0.25]))
    drawing = _Drawing(seed, sizes, dtype)
    for _ in range(int(min(longest, 5 + random.exponential(10)))):
        drawing.grow()
    made = list(range(len(drawing.leaves), len(drawing.values)))
    used = {n for step in drawing.steps for n in step.operands}
    ends = [n for n in made if n not in used]
    share = random.choice([0.1, 0.3, 0.6])
    some = [n for n in made if n in used and random.random() < share]
    outputs = tuple(sorted({*ends, *some}))[:12] or (made[-1],)
    updates, slopes = [], []
    for n, leaf in enumerate(drawing.leaves):
        if leaf.kind == "variable" and random.random() < 0.3:
            same = [m for m in made if drawing.values[m].shape == leaf.shape]
            if same:
                updates.append((n, int(random.choice(same))))
        if random.random() < 0.4:
            slopes.append(n)
    smooth = all(OPERATIONS[one.name].smooth for one in drawing.steps)
    wanted = tuple(slopes) if smooth and random.random() < 0.5 else ()
    steps, leaves = tuple(drawing.steps), drawing.leaves
    if any(one.name in KNOWN for one in steps):
        leaves = tuple(Leaf(one.kind, one.shape) for one in leaves)
    program = Program(seed, dtype, leaves, steps, outputs, tuple(updates), wanted)
    return program, [one.array for one in drawing.values]


def values_of(
    program: Program, dtype: str, moved: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> list[np.ndarray]:
    """All values of a program for its first feed, each operation evaluated by itself.

    `moved` gives what is computed with in place of a value. No step knows of another one here, so
    nothing that joins, moves or drops steps has a part in it.
    """
    values = [moved(one.astype(dtype)) for one in feeds(program, 0)]
    for step in program.steps:
        given = [values[n] for n in step.operands]
        values.append(moved(alone(OPERATIONS[step.name], given, step.attributes)))
    return values
