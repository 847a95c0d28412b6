"""The kinds of control that an argument can have, and those for ranges that were asked for.

Knows no widgets. Which kind an argument gets by its name stands in `explore_rules.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
from msgspec import Struct

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import describe
from kbench.notebook.exploration.explore_samples import Code

MAX_CHOICES = 40
"""Choices of one control: as many as a list on the page holds."""
_CHOICE_CHARACTERS = 60
"""Characters of a choice."""


class Choice(Struct, frozen=True):
    """One of several values."""

    options: tuple[tuple[str, object], ...]
    start: int = 0


class Number(Struct, frozen=True):
    """A number between two ends; on a logarithmic scale these are powers of ten."""

    low: float
    high: float
    step: float
    start: float
    whole: bool = False
    log: bool = False


class Flag(Struct, frozen=True):
    """True or False."""

    start: bool


class Text(Struct, frozen=True):
    """Any text."""

    start: str


class Fixed(Struct, frozen=True):
    """A value that stays."""

    value: object


Control = Choice | Number | Flag | Text | Fixed
Shape = tuple[int, ...]


def start_of(control: Control) -> object:
    """The value that a control begins with."""
    if isinstance(control, Choice):
        return control.options[control.start][1]
    if isinstance(control, Fixed):
        return control.value
    if isinstance(control, Number) and control.whole:
        return int(control.start)
    return control.start


def python_text(value: object) -> str:
    """A value as Python."""
    if type(value) is float:
        return repr(float(f"{value:.6g}")) if math.isfinite(value) else f"float('{value}')"
    if type(value) in (list, tuple) and isinstance(value, (list, tuple)):
        inner = ", ".join(python_text(item) for item in value)
        if type(value) is list:
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def choice(values: Sequence[object], start: object) -> Control:
    """A choice among values, among which the first one is put if it is missing."""
    found = list(values)[:MAX_CHOICES]
    if not any(_same(value, start) for value in found):
        found.insert(0, start)
    at = next(i for i, value in enumerate(found) if _same(value, start))
    options = tuple(
        (describe.printable(python_text(value), _CHOICE_CHARACTERS), value) for value in found
    )
    return Choice(options, at)


def _same(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, _PLAIN) and bool(a == b))


_PLAIN = (bool, int, float, str, tuple, list, type(None))


# ------------------------------------------------------------------ ranges that were asked for


def requested_control(name: str, wanted: object, derived: Control | None, function: str) -> Control:
    """The control for a range: (low, high[, step]), a list or dict of choices, or a fixed value.

    A tuple for an argument that takes tuples is a value.

    Raises:
        ArgumentError: a range that is none.
    """
    if type(wanted).__name__ == "fixed" and hasattr(wanted, "value"):  # of ipywidgets
        return Fixed(wanted.value)
    if isinstance(wanted, dict):
        pairs = [(str(label), choice) for label, choice in wanted.items()]
        return _labelled(pairs, name, function)
    if isinstance(wanted, list):
        paired = all(isinstance(pair, tuple) and len(pair) == 2 for pair in wanted)
        if paired and wanted and all(isinstance(pair[0], str) for pair in wanted):
            return _labelled(wanted, name, function)
        return _labelled([(python_text(choice), choice) for choice in wanted], name, function)
    if isinstance(wanted, tuple) and _is_range(wanted) and not _takes_tuples(derived):
        return _range(name, wanted, derived, function)
    return Fixed(wanted)


def _labelled(pairs: Sequence[tuple[str, object]], name: str, function: str) -> Control:
    if not pairs:
        raise ArgumentError(f"{name} needs at least one choice, got none", function=function)
    options = tuple(
        (describe.printable(label, _CHOICE_CHARACTERS), choice) for label, choice in pairs
    )
    return Choice(options)


def _is_range(wanted: tuple[object, ...]) -> TypeGuard[tuple[float, ...]]:
    numbers = (int, float, np.integer, np.floating)
    plain = [isinstance(number, numbers) and not isinstance(number, bool) for number in wanted]
    return len(wanted) in (2, 3) and all(plain)


def _takes_tuples(derived: Control | None) -> bool:
    if isinstance(derived, Choice):
        return isinstance(start_of(derived), tuple)
    return isinstance(derived, Fixed) and isinstance(derived.value, tuple)


def _range(name: str, wanted: tuple[float, ...], derived: Control | None, function: str) -> Number:
    low, high = wanted[:2]
    whole = all(isinstance(number, (int, np.integer)) for number in wanted)
    if not all(map(math.isfinite, wanted)) or low > high:
        raise ArgumentError(
            f"{name} goes from {python_text(low)} to {python_text(high)}, "
            "which is not a range from a low number to a high one",
            function=function,
        )
    if len(wanted) == 3 and wanted[2] <= 0:
        raise ArgumentError(
            f"the step of {name} must be positive, got {python_text(wanted[2])}", function=function
        )
    step = wanted[2] if len(wanted) == 3 else 1 if whole else (high - low) / 40 or 1.0
    before = (low + high) / 2
    if isinstance(derived, Number):
        before = int(derived.start) if derived.whole else derived.start
    start = min(max(before, low), high)
    return Number(low, high, step, int(start) if whole else start, whole)


def by_value(value: object) -> Control:
    """The control for a value of which only its type is known, as `ipywidgets.interact` has it."""
    if isinstance(value, (bool, np.bool_)):
        return Flag(bool(value))
    if isinstance(value, str) and not isinstance(value, Code):
        return Text(value)
    if isinstance(value, (int, np.integer)):
        low, high = sorted((-int(value), 3 * int(value))) if value else (0, 10)
        return Number(low, high, 1, int(value), whole=True)
    if isinstance(value, (float, np.floating)) and math.isfinite(value):
        ends = sorted((-float(value), 3 * float(value))) if value else [0.0, 1.0]
        return Number(ends[0], ends[1], (ends[1] - ends[0]) / 40, float(value))
    return Fixed(value)
