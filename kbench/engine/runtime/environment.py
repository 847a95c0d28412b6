"""What the process was given: environment variables, which small evaluations ask for at each call,
and cores."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from typing import Generic, TypeVar

# What os.environ keeps its variables in, where it does: this tells in a tenth of the time that one
# is not set, as most are not.
_held = getattr(os.environ, "_data", os.environ)
_key = functools.cache(getattr(os.environ, "encodekey", str))

MAX_THREADS = 1024
"""Threads that may be asked for, more than any machine has cores; guards against slips."""
_FLAGS = {"1": True, "on": True, "yes": True, "true": True}
_FLAGS |= {"0": False, "off": False, "no": False, "false": False}

Value = TypeVar("Value")


def env(name: str) -> str | None:
    """An environment variable, None when unset or empty."""
    return (os.environ.get(name) or None) if _key(name) in _held else None


def set_if_unset(name: str, text: str) -> str:
    """What a variable is from now on, for this process and those that it starts."""
    return os.environ.setdefault(name, text)


def one_of(name: str, words: tuple[str, ...]) -> str:
    """A variable that is one of some words, in any case; the first where it is not set."""
    text = env(name)
    if text is None:
        return words[0]
    lowered = text.strip().lower()
    if lowered in words:
        return lowered
    _warn(name, text, f"{', '.join(words[:-1])} or {words[-1]}", words[0])
    return words[0]


def flag(name: str) -> bool:
    """A variable that is a yes or a no; no where it is not set."""
    text = env(name)
    if text is None:
        return False
    found = _FLAGS.get(text.strip().lower())
    if found is None:
        _warn(name, text, "1 or 0", "0")
    return bool(found)


def whole_number(name: str, most: int, otherwise: int, least: int = 1) -> int:
    """A variable that is a whole number in a range; `otherwise` where it is not set."""
    text = env(name)
    if text is None:
        return otherwise
    digits = text.strip()
    short = digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= len(str(most))
    if short and least <= int(digits) <= most:
        return int(digits)
    _warn(name, text, f"a whole number from {least} to {most}", str(otherwise))
    return otherwise


@functools.cache
def _warn(name: str, text: str, needed: str, taken: str) -> None:
    """Say once that a variable's value is none of those it can have."""
    given = repr(text if len(text) <= 60 else f"{text[:60]}...")
    warnings.warn(
        f"{name} must be {needed}, got {given}; {taken} is used", RuntimeWarning, stacklevel=4
    )


class Setting(Generic[Value]):
    """A variable whose text is read again only once it is another."""

    def __init__(self, name: str, read: Callable[[str], Value]) -> None:
        self._name, self._read = name, read
        self._place = _key(name)
        self._known: tuple[object, Value] | None = None

    def value(self) -> Value:
        """What it is set to now."""
        text, known = _held.get(self._place), self._known
        if known is None or known[0] is not text:
            known = self._known = text, self._read(self._name)
        return known[1]


def core_count() -> int:
    """Cores that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


@functools.cache
def default_threads() -> int:
    """Threads of a parallel call where nobody sets how many, as first asked for."""
    return whole_number("KBENCH_NUM_THREADS", MAX_THREADS, min(core_count(), MAX_THREADS))
