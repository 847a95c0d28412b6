"""The reference table: what every public function takes, gives and runs as.

Asked of the engine itself: each function is called on symbols of every dtype and its graph is
looked at, so that the table cannot say what is not so. `docs/api.md` is this table; the numbers of
tests come from the package's data, which the test suite keeps fresh.
"""

from __future__ import annotations

import functools
import inspect
import json
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from kbench.api import engines, legacy
from kbench.api import operations as _  # noqa: F401  # declares operations of its own
from kbench.api.samples import GIVES, SAMPLES
from kbench.engine.codegen.loop_program import NEST_FOLDS
from kbench.engine.core.errors import KbenchError
from kbench.engine.core.types import Row
from kbench.engine.execute.steps import library_step
from kbench.engine.graph.op import REGISTRY, Op
from kbench.engine.graph.tensor import Tensor
from kbench.engine.runtime import config

K = engines.load("kbench")  # whatever engine is chosen
FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
DTYPES = ("bool", *INTEGERS, *FLOATS)
DATA = Path(__file__).with_name("api.json")
LINE_CHARACTERS = 100
TESTS = ("rows", "golden", "wrong")
OWN = "kbench's own"
ORDER = ("numpy", "scipy", "blas", "fused", "library", "loop", "scan", "view")

INTRODUCTION = (
    "# The functions",
    "",
    "This page is written by `python tests/coverage_page.py` from the engine itself; a test fails",
    "when it is stale, and `kbench doctor --api` prints it. Each function is called on symbols of",
    "every dtype, and its graph is looked at.",
    "",
    "- **takes → gives**: dtypes of the tensors, and the dtype of the result: *same*, or which.",
    "  *numbers* are all but bool, *floats* are float16, float32 and float64.",
    "- **gradient**: whether gradients reach the tensors it was called with.",
    "- **runs as**: what its steps can be. *numpy* is the NumPy form, there for every function;",
    "  *fused* a loop generated for the expression around it; *library* a compiled kernel of its",
    "  own; *blas* a matrix product; *scipy* a sparse one; *loop* its own step, repeated, and",
    "  *scan* all steps as one compiled loop; *view* costs nothing. Compiled forms are for large",
    "  arrays.",
    "- **tests**: rows of the op table, golden cases (values from another implementation), wrong",
    "  calls whose errors are checked.",
)


class Entry(Struct, frozen=True):
    """One function: how it is called, what it takes and gives, how it runs, what tests it."""

    name: str
    family: str
    signature: str
    keras: tuple[str, ...]
    dtypes: str = ""
    result: str = ""
    gradient: str = ""
    tiers: tuple[str, ...] = ()
    tests: dict[str, int] = field(default_factory=dict)
    note: str = ""

    @property
    def absent(self) -> bool:
        """Whether kbench leaves this name out, for the reason in `note`."""
        return _get(self.name) is None

    def facts(self) -> str:
        """Everything but the signature in one line."""
        takes = f"{self.dtypes} -> {self.result}" if self.dtypes else ""
        gradient = f"gradient {self.gradient}" if self.gradient else ""
        parts = (takes, gradient, ", ".join(self.tiers), tests_text(self.tests), self.note)
        return "; ".join(part for part in parts if part)


def data() -> Row:
    """The names that Keras and tf_keras have, their families, and the numbers of tests."""
    loaded: Row = json.loads(DATA.read_text(encoding="utf-8"))
    return loaded


def tests_text(tests: dict[str, int]) -> str:
    """`12 rows, 3 golden, 4 wrong`, without what there is none of."""
    shown = ((tests[word], word) for word in TESTS if tests.get(word))
    return ", ".join("1 row" if pair == (1, "rows") else f"{pair[0]} {pair[1]}" for pair in shown)


# ------------------------------------------------------------------ asking the engine


class _Symbols:
    """Makes the operands of a sample, and remembers those of the dtype that is looked at."""

    def __init__(self, dtype: str) -> None:
        self.made: list[Tensor] = []
        self.names = {
            "K": K,
            "d": dtype,
            "x": lambda *shape: self._keep(K.placeholder(shape, dtype=dtype)),
            "s": lambda *shape: self._keep(K.placeholder(shape, dtype=dtype, sparse=True)),
            "v": lambda *shape: self._keep(K.zeros(shape, dtype=dtype)),
            "i": lambda *shape: K.placeholder(shape, dtype="int32"),
            "b": lambda *shape: K.placeholder(shape, dtype="bool"),
        }

    def _keep(self, tensor: Tensor) -> Tensor:
        self.made.append(tensor)
        return tensor


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _call(name: str, dtype: str) -> tuple[list[object], _Symbols] | None:
    """What the sample gives for a dtype, None where the function does not take it."""
    symbols = _Symbols(dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the functions of Keras 1
            made = eval(SAMPLES[name], symbols.names)  # our own text, from the table
    except (KbenchError, TypeError):
        return None
    return list(_leaves(made)), symbols


def _dtype_of(value: object) -> str:
    return str(value.dtype) if hasattr(value, "dtype") else "a Python value"


def _taken(accepted: Iterable[str]) -> str:
    """A set of dtypes in words."""
    taken = [dtype for dtype in DTYPES if dtype in set(accepted)]
    for word, group in (("any", DTYPES), ("numbers", DTYPES[1:]), ("floats", FLOATS)):
        if tuple(taken) == tuple(group):
            return word
    return " ".join(taken)


def _given(results: dict[str, str]) -> str:
    """The rule of the result's dtype in words."""
    values = set(results.values())
    if all(key == value for key, value in results.items()):
        return "same"
    if len(values) == 1:
        return values.pop()
    floats = all(results[dtype] == dtype for dtype in FLOATS if dtype in results)
    rest = {value for key, value in results.items() if key not in FLOATS}
    if floats and len(rest) == 1:
        return f"floats same, others {rest.pop()}"
    numbers = all(value == key for key, value in results.items() if key != "bool")
    if numbers:
        return f"same, bool {results['bool']}"
    return "floats same, integers by size" if floats else " ".join(sorted(values))


def _gradient(results: list[object], symbols: _Symbols) -> str:
    """Whether gradients reach the operands: "yes", "no", or to how many of them."""
    floats = [
        result for result in results if isinstance(result, Tensor) and str(result.dtype) in FLOATS
    ]
    if not floats or not symbols.made:
        return "no" if symbols.made else ""
    try:
        loss = functools.reduce(lambda a, b: a + b, [K.sum(tensor) for tensor in floats])
        found = K.gradients(loss, symbols.made)
    except KbenchError:
        return "no"
    reached = sum(gradient is not None for gradient in found)
    if reached in (0, len(found)):
        return "yes" if reached else "no"
    return f"to {reached} of {len(found)}"


def tiers(op: Op) -> tuple[str, ...]:
    """What an op can run as, its NumPy form included."""
    if op.kind == "source":
        return ()
    if op.name == "loop":
        return ("loop", "scan")
    if op.kind == "view":
        return ("view",)
    found = [op.tier]
    folds = op.kind == "reduction" and op.fold in NEST_FOLDS
    if op.kind == "elementwise" or folds or (op.rows is not None and op.rows.sole):
        found.append("fused")
    if op.name in library_step.KERNEL_OPS or op.kernel is not None:
        found.append("library")
    return tuple(found)


def _tiers_of(results: list[object], symbols: _Symbols) -> tuple[str, ...]:
    """What the steps between the operands and the results can run as."""
    seen: set[int] = {id(tensor) for tensor in symbols.made}
    found: set[str] = set()
    stack = [result for result in results if isinstance(result, Tensor)]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            found.update(tiers(node.op))
            stack.extend(node.inputs)
    if found - {"view"}:
        found.discard("view")
    return tuple(tier for tier in ORDER if tier in found)


# ------------------------------------------------------------------ the table


@functools.cache
def entries() -> tuple[Entry, ...]:
    """One entry for each name of Keras, tf_keras or kbench, by family."""
    known = data()
    tests = known["tests"]
    with _usual_settings():
        return tuple(_entry(row, tests.get(row["name"], {})) for row in _rows(known))


def _rows(known: Row) -> list[Row]:
    """What is stored of each name, and as much of those that are kbench's own."""
    named = {row["name"] for row in known["functions"]}
    own = [name for name in K.__all__ if name not in named and inspect.isfunction(_get(name))]
    return [*known["functions"], *({"name": name, "family": OWN, "in": []} for name in own)]


def names() -> dict[str, list[str]]:
    """The names by family, in the order of the page; nothing is called for that."""
    known = data()
    found: dict[str, list[str]] = {family: [] for family in (*known["families"], OWN)}
    for row in _rows(known):
        found[row["family"]].append(row["name"])
    return found


@contextmanager
def _usual_settings() -> Iterator[None]:
    """The settings that decide what a call gives, as they are by default."""
    usual = {"floatx": "float32", "image_data_format": "channels_last", "learning_phase": None}
    before = config.snapshot()
    for name, value in usual.items():
        config.assign(name, value)
    try:
        yield
    finally:
        for name in usual:
            config.assign(name, before[name])


def _get(name: str) -> Any:
    return getattr(K, name, None)


def _entry(row: Row, tests: dict[str, int]) -> Entry:
    name, family, keras = row["name"], row["family"], tuple(row["in"])
    if _get(name) is None:
        return Entry(name, family, name, keras, note=f"not there: {legacy.ABSENT[name]}")
    entry = Entry(
        name, family, signature(name, _get(name)), keras, tests=tests, note=_renamed(name)
    )
    calls = {dtype: _call(name, dtype) for dtype in DTYPES} if name in SAMPLES else {}
    taken = {dtype: made for dtype, made in calls.items() if made is not None}
    if not taken:
        return entry
    results, symbols = taken.get("float32") or next(iter(taken.values()))
    given = {dtype: _dtype_of(made[0][0]) for dtype, made in taken.items()}
    symbolic = any(isinstance(result, Tensor) for result in results)
    return replace(
        entry,
        dtypes=_taken(taken),
        result=GIVES.get(name) or _given(given),
        gradient=_gradient(results, symbols) if symbolic else "",
        tiers=_tiers_of(results, symbols),
    )


def _renamed(name: str) -> str:
    """Today's name of a function of Keras 1, and which old argument names one of today takes."""
    if name in legacy.NAMES:
        return f"Keras 1's name of {legacy.NAMES[name]}"
    old = legacy.TABLE[name].names if name in legacy.TABLE else {}
    return f"also takes {', '.join(old)}" if old else ""


def signature(name: str, function: Callable[..., object]) -> str:
    """`name(x, axis=-1)`, without annotations."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return f"{name}(...)"
    bare = [
        parameter.replace(annotation=parameter.empty) for parameter in found.parameters.values()
    ]
    return name + str(found.replace(parameters=bare, return_annotation=found.empty))


def operations() -> list[tuple[str, str, str, str]]:
    """(name, kind, whether it is differentiable, tiers) of every op of the engine."""
    return [
        (name, op.kind, "yes" if op.gradient is not None else "no", ", ".join(tiers(op)))
        for name, op in sorted(REGISTRY.items())
        if op.kind != "source" and op.infer.__module__.startswith("kbench.engine.")
    ]


# ------------------------------------------------------------------ as text, Markdown and JSON


def summary() -> str:
    """How many functions there are, of how many names that Keras and tf_keras know."""
    found = entries()
    known = [entry for entry in found if entry.family != OWN]
    absent = [entry for entry in known if entry.absent]
    extra = len(found) - len(known)
    return (
        f"{len(known) - len(absent)} of the {len(known)} names of Keras 1.2, Keras 2.3.1 and "
        f"tf_keras, {extra} of kbench's own; the {len(absent)} others are named with their reasons"
    )


def families() -> Iterator[tuple[str, list[Entry]]]:
    """The entries by family, in the order of the page."""
    for family in (*data()["families"], OWN):
        yield family, [entry for entry in entries() if entry.family == family]


def text(width: int = LINE_CHARACTERS) -> str:
    """The table for a terminal: each function's call, and below it what is known of it."""
    lines = textwrap.wrap(summary(), width)
    for family, members in families():
        lines += ["", family]
        for entry in members:
            lines += _folded(entry.signature, width, "  ", " " * (len(entry.name) + 3))
            lines += textwrap.wrap(
                entry.facts(), width, initial_indent=" " * 6, subsequent_indent=" " * 6
            )
    lines += ["", "Operations of the graph"]
    rows = operations()
    size = max(len(row[0]) for row in rows)
    for name, kind, gradient, forms in rows:
        line = f"{name:<{size}}  {kind:<11}  gradient {gradient:<3}  {forms}"
        lines += _folded(line, width, "  ", " " * 6)
    return "\n".join(lines)


def _folded(call: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        call, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def markdown() -> str:
    """The page `docs/api.md`."""
    lines = [*INTRODUCTION, "", f"{summary()}.", ""]
    for family, members in families():
        lines += [f"## {family}", "", "| function | takes → gives | gradient | runs as | tests |"]
        lines += ["|---|---|---|---|---|", *map(_line, members), ""]
    lines += ["## Operations of the graph", "", "| op | kind | gradient | runs as |"]
    lines += ["|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in operations())]
    return "\n".join(lines) + "\n"


def _line(entry: Entry) -> str:
    takes = f"{entry.dtypes} → {entry.result}" if entry.dtypes else ""
    call = f"`{entry.signature}`" + (f"<br>{entry.note}" if entry.note else "")
    cells = (call, takes, entry.gradient, ", ".join(entry.tiers), tests_text(entry.tests))
    return f"| {' | '.join(cells)} |"


def as_dicts() -> list[Row]:
    """The table as plain values."""
    return [asdict(entry) for entry in entries()]
