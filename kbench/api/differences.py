"""What `compare` found: values, times and differences of several engines, as rows and as text."""

from __future__ import annotations

import shutil
import statistics
import sys
import textwrap

import numpy as np
from msgspec import Struct, field
from msgspec.structs import asdict

from kbench.engine.core.types import Array, Row
from kbench.engine.graph import tensor
from kbench.engine.inspect import describe

COLUMN_HEADS = ("engine", "first", "median", "ran as", "max diff", "relative", "at")
DROPPED_COLUMNS = ("first", "relative", "at")
"""Columns left out where there is no room, in this order."""
MAX_CUT_CHARACTERS = 6
"""Characters that may be cut from the widest column before one goes."""
LINE_CHARACTERS = 80
BUILD_SETTINGS = ("floatx", "epsilon", "image_data_format", "learning_phase")
"""Settings that are read while a graph is built."""


class Difference(Struct, frozen=True):
    """The largest differences of an engine's values from the reference's.

    `relative` is divided by the larger magnitude of the two values. `output` and `index` are the
    place of the largest absolute difference, `relative_at` that of the largest relative one.
    A number against NaN, or against an infinity, differs by infinity. `problem` says what
    keeps the values from being compared: another shape, dtype or number of outputs.
    """

    absolute: float = 0.0
    relative: float = 0.0
    output: str = ""
    index: tuple[int, ...] = ()
    relative_at: str = ""
    problem: str | None = None

    @property
    def place(self) -> str:
        """`[1][0, 2]`: the output, where there are several, and the index in it."""
        if not self.absolute:
            return ""
        return self.output + (f"[{', '.join(map(str, self.index))}]" if self.index else "")


class Result(Struct):
    """One variant's part: its values in the form of the function's result, and how it ran.

    `engine` is its name in the comparison, `backend` the engine and `settings` what was set.

    `first` is the seconds until the first values, the graph's building included (and compiling,
    where KBENCH_JIT=wait asks to wait for it); `times` are those of the repeats.
    `older` is what the expression reads that was built before it was called.
    `forms` is what the steps ran as, where the engine tells. `error` is what kept it from a value.
    """

    engine: str
    value: object = None
    outputs: dict[str, Array] = field(default_factory=dict)
    first: float = 0.0
    times: list[float] = field(default_factory=list)
    forms: tuple[str, ...] = ()
    error: Exception | None = None
    difference: Difference | None = None
    backend: str = ""
    settings: Row = field(default_factory=dict)
    older: list[tuple[str, str]] = field(default_factory=list)  # built before: name and kind

    @property
    def median(self) -> float:
        """The median of the repeats in seconds; the first call's where there were none."""
        return statistics.median(self.times) if self.times else self.first

    def as_dict(self) -> Row:
        """Everything as plain values; arrays stay arrays."""
        found = self.difference
        return {
            "engine": self.engine,
            "settings": self.settings,
            "value": self.value,
            "outputs": self.outputs,
            "shapes": {name: array.shape for name, array in self.outputs.items()},
            "dtypes": {name: array.dtype.name for name, array in self.outputs.items()},
            "first": self.first,
            "median": self.median,
            "forms": list(self.forms),
            "error": None if self.error is None else message(self.error),
            "difference": None if found is None else {**asdict(found), "place": found.place},
        }


class Comparison:
    """The results of the engines in the order asked for; `comparison["numpy"]` is one of them.

    Differences are those from the first engine that gave a value, the reference.
    """

    def __init__(self, results: list[Result]) -> None:
        self.results = results
        self.reference = next((result for result in results if result.error is None), None)
        for result in results:
            if self.reference is not None and result.error is None and result is not self.reference:
                floats = "floatx" in result.settings  # another dtype is what was asked for
                result.difference = difference(self.reference.outputs, result.outputs, floats)

    def __getitem__(self, engine: str) -> Result:
        for result in self.results:
            if result.engine == engine:
                return result
        known = ", ".join(result.engine for result in self.results)
        raise KeyError(f"{engine!r} was not compared; choose from {known}")

    @property
    def largest(self) -> Difference | None:
        """The largest difference of all; None when fewer than two engines gave a value."""
        found = [result.difference for result in self.results if result.difference is not None]
        return max(found, key=lambda gap: (gap.problem is not None, gap.absolute), default=None)

    def as_dict(self) -> Row:
        """Everything as plain values; arrays stay arrays."""
        return {
            "reference": None if self.reference is None else self.reference.engine,
            "engines": {result.engine: result.as_dict() for result in self.results},
        }

    def title(self) -> str:
        """How many engines, and what they computed."""
        count = f"{len(self.results)} {self._word}{'s' if len(self.results) != 1 else ''}"
        if self.reference is None:
            return f"{count}, no value"
        specs = [describe.spec_text(array.shape, array.dtype.name) for array in self._arrays()]
        more = f" and {len(specs) - 3} more" if len(specs) > 3 else ""
        return f"{count}, {', '.join(specs[:3]) or 'no output'}{more}"

    def _arrays(self) -> list[Array]:
        return [] if self.reference is None else list(self.reference.outputs.values())

    @property
    def heads(self) -> tuple[str, ...]:
        """The titles of `rows`."""
        return (self._word, *COLUMN_HEADS[1:])

    @property
    def _word(self) -> str:
        return "variant" if any(result.settings for result in self.results) else COLUMN_HEADS[0]

    def rows(self) -> list[tuple[str, ...]]:
        """One line of `heads` for each engine that gave a value."""
        return [
            _row(result, result is self.reference)
            for result in self.results
            if result.error is None
        ]

    def notes(self) -> list[tuple[str, str]]:
        """(engine, what went wrong with it)."""
        failed = [(result.engine, message(result.error)) for result in self.results if result.error]
        compared = [
            (result.engine, result.difference) for result in self.results if result.difference
        ]
        return failed + [(name, found.problem) for name, found in compared if found.problem]

    def unfelt(self) -> str:
        """Why settings that were tried made no difference; '' where they made one."""
        tried = {name for result in self.results for name in result.settings}
        built = [name for name in BUILD_SETTINGS if name in tried]
        good = [result for result in self.results if result.error is None]
        found = [result.difference for result in good if result.difference is not None]
        if not built or not found or any(gap.absolute or gap.problem for gap in found):
            return ""
        if "floatx" in built and len({_dtypes(result) for result in good}) > 1:
            built.remove("floatx")  # it made values of another dtype, which are the same
        if not built:
            return ""
        words = " and ".join(built)
        words += f", all are {_dtypes(good[0])}" if "floatx" in built and good[0].outputs else ""
        held = [name for name, kind in good[0].older if kind == "tensor" or "floatx" in built]
        if not held:
            return f"no difference by {words}: nothing that the expression creates uses it"
        names = ", ".join(held[:3]) + (" and more" if len(held) > 3 else "")
        return (
            f"no difference by {words}: {names} existed before, and a setting only affects tensors "
            f"that the expression creates; create {'it' if len(held) == 1 else 'them'} there"
        )

    def __repr__(self) -> str:
        return self.text(max(40, shutil.get_terminal_size((LINE_CHARACTERS, 24)).columns))

    def text(self, width: int = LINE_CHARACTERS) -> str:
        """The table, at most `width` columns wide; what went wrong below it."""
        lines = textwrap.wrap(f"comparison of {self.title()}", width)
        rows = self.rows()
        if rows:
            lines += _table([self.heads, *rows], width)
        for name, said in self.notes():
            lines += textwrap.wrap(f"{name}: {said}", width, subsequent_indent="  ")
        lines += textwrap.wrap(self.unfelt(), width, subsequent_indent="  ")
        return "\n".join(lines)

    def _repr_mimebundle_(self, **_unused: object) -> Row:
        rich = {} if tensor._rich_repr is None else tensor._rich_repr(self)  # type: ignore[arg-type]  # which tells this, too
        terminal = sys.stdout is not None and sys.stdout.isatty()
        return {**rich, "text/plain": repr(self) if terminal else self.text(_columns())}


def _columns() -> int:
    """Columns of a front end, which tells NumPy of them."""
    return min(int(np.get_printoptions()["linewidth"]), LINE_CHARACTERS)


def _dtypes(result: Result) -> str:
    """`float32`, or of several outputs each dtype once."""
    return ", ".join(dict.fromkeys(array.dtype.name for array in result.outputs.values()))


def message(error: Exception | None) -> str:
    """The class of an error and its first line; the error itself says the rest."""
    said = (str(error).strip().splitlines() or [""])[0]
    name = type(error).__name__
    return f"{name}: {said}" if said else name


# ------------------------------------------------------------------ rows and columns


def seconds(count: float) -> str:
    """`1.23 ms`: three figures and the unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count * 1e9:.0f} ns"


def _row(result: Result, is_reference: bool) -> tuple[str, ...]:
    found = result.difference
    head = (result.engine, seconds(result.first), seconds(result.median), ", ".join(result.forms))
    if is_reference or found is None:
        return (*head, "reference" if is_reference else "", "", "")
    if found.problem:
        return (*head, "not comparable", "", "")
    if not found.absolute:
        return (*head, "none", "", "")
    return (*head, f"{found.absolute:.3g}", f"{found.relative:.3g}", found.place)


def _table(rows: list[tuple[str, ...]], width: int) -> list[str]:
    """Columns side by side; where they are too wide some go, then the widest words are cut."""
    kept = [n for n in range(len(COLUMN_HEADS)) if any(row[n] for row in rows[1:])]
    for head in DROPPED_COLUMNS:
        wanted = sum(_size(rows, n) + 2 for n in kept) - 2
        widest = max(kept, key=lambda n: _size(rows, n))
        may_cut = MAX_CUT_CHARACTERS if widest else 0  # without its middle a name says nothing
        if wanted - may_cut > width and COLUMN_HEADS.index(head) in kept:
            kept.remove(COLUMN_HEADS.index(head))
    sizes = [_size(rows, n) for n in kept]
    while sum(sizes) + 2 * (len(sizes) - 1) > width:
        sizes[sizes.index(max(sizes))] -= 1
    lines = []
    for row in rows:
        cells = [_cell(row[n], size, COLUMN_HEADS[n]) for n, size in zip(kept, sizes, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _size(rows: list[tuple[str, ...]], column: int) -> int:
    return max(len(row[column]) for row in rows)


def _cell(text: str, size: int, head: str) -> str:
    if len(text) <= size:
        cut = text
    elif head == COLUMN_HEADS[0]:  # variants of one setting differ in their last words
        half = (size - 1) // 2
        cut = text[: size - 1 - half] + "…" + text[len(text) - half :]
    else:
        cut = text[: size - 1] + "…"
    return cut.rjust(size) if head in ("first", "median") else cut.ljust(size)


# ------------------------------------------------------------------ differences


def difference(
    reference: dict[str, Array], outputs: dict[str, Array], floats: bool = False
) -> Difference:
    """The largest differences over all outputs; `floats`: those of another float dtype, too."""
    if list(reference) != list(outputs):
        return Difference(problem=f"{len(outputs)} outputs against {len(reference)}")
    found = Difference()
    for name, wanted in reference.items():
        got = outputs[name]
        kinds = floats and got.dtype.kind == wanted.dtype.kind == "f"
        if got.shape != wanted.shape or (got.dtype != wanted.dtype and not kinds):
            spec, other = (
                describe.spec_text(array.shape, array.dtype.name) for array in (got, wanted)
            )
            where = f"output {name}: " if name else ""
            return Difference(problem=f"{where}{spec} against {other}")
        if got.size:
            found = _larger(found, name, gaps(wanted, got), _magnitudes(wanted, got))
    return found


def gaps(wanted: Array, got: Array) -> Array:
    """Absolute differences; 0 where both are NaN or the same infinity."""
    same = wanted == got
    if wanted.dtype.kind == "f":
        same |= np.isnan(wanted) & np.isnan(got)
    with np.errstate(all="ignore"):
        gaps = np.abs(_wide(wanted) - _wide(got))
    gaps = np.where(np.isfinite(gaps), gaps, np.inf)
    return np.where(same, 0.0, gaps).astype(np.float64)


def _magnitudes(wanted: Array, got: Array) -> Array:
    larger: Array = np.fmax(np.abs(_wide(wanted)), np.abs(_wide(got)))
    return larger.astype(np.float64)


def _wide(array: Array) -> Array:
    """In numbers whose differences are exact enough, long ones for 64-bit integers."""
    return array.astype(np.longdouble if array.dtype.kind in "iu" else np.float64)


def _larger(before: Difference, name: str, gaps: Array, magnitudes: Array) -> Difference:
    """`before`, or what this output adds to it."""
    with np.errstate(all="ignore"):
        shares = np.where(gaps > 0, gaps / magnitudes, 0.0)
    shares = np.where(np.isnan(shares), np.inf, shares)  # infinity against a number
    index, place = (
        np.unravel_index(int(np.argmax(values)), values.shape) for values in (gaps, shares)
    )
    absolute, relative = float(gaps[index]), float(shares[place])
    where = f"{name}[{', '.join(map(str, place))}]"
    larger = absolute > before.absolute
    more = relative > before.relative
    return Difference(
        absolute if larger else before.absolute,
        relative if more else before.relative,
        name if larger else before.output,
        tuple(int(coordinate) for coordinate in index) if larger else before.index,
        where if more else before.relative_at,
    )
