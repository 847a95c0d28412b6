"""What a user looks for in an array: `3`, `> 0.5`, `!= 0`, `0.1 .. 0.2`, `abs > 10`, `nan`.

Only words; `array_search` looks for it in an array.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

from msgspec import Struct

NAMED = {
    "nan": "is NaN",
    "inf": "is infinite",
    "bad": "is not finite",
    "finite": "is finite",
}
HELP = "write a value, > 0.5, == 3, 0.1 .. 0.2, abs > 10 or nan"
_COMPARE = re.compile(r"(abs)?\s*(<=|>=|==|!=|=|<|>)\s*(.+)", re.DOTALL)
_WORDS = {"true": 1, "false": 0, "-inf": -math.inf, "+inf": math.inf}
_MAX_CHARACTERS = 80
"""Of a condition: a line."""


class Condition(Struct, frozen=True):
    """`test` is a name of `NAMED`, an operator, "near" (within `slack` of `low`) or "between"."""

    text: str
    test: str
    low: int | float = 0
    high: int | float = 0
    slack: float = 0.0
    absolute: bool = False

    @property
    def words(self) -> str:
        """To stand behind "nothing"."""
        if self.test in NAMED:
            return NAMED[self.test]
        return f"is {self.text}"


def parse(text: str) -> Condition:
    """The condition that a text says.

    Raises:
        ValueError: it says none; the message is for the user.
    """
    plain = " ".join(text.split()).lower()
    if not plain or len(plain) > _MAX_CHARACTERS:
        raise ValueError(HELP)
    if plain in NAMED:
        return Condition(plain, plain)
    compared = _COMPARE.fullmatch(plain)
    if compared is not None:
        absolute, test, number = compared.groups()
        value = _number(number)
        if math.isnan(value):
            raise ValueError("nothing compares with NaN; write nan to find it")
        test = "==" if test == "=" else test
        shown = f"{'abs ' if absolute else ''}{test} {number.strip()}"
        return Condition(shown, test, value, absolute=bool(absolute))
    first, dots, last = plain.partition("..")
    if dots:
        low, high = _number(first), _number(last)
        if not low <= high:
            raise ValueError(f"the range {first.strip()} .. {last.strip()} is empty")
        return Condition(f"{first.strip()} .. {last.strip()}", "between", low, high)
    return Condition(plain, "near", _number(plain), slack=_slack(plain))


def _number(text: str) -> int | float:
    text = text.strip().replace("_", "")
    if text in _WORDS:
        return _WORDS[text]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number; {HELP}") from None


def _slack(text: str) -> float:
    """Half a unit of the last digit of a number with a fraction: what is shown rounded is found."""
    try:
        exponent = Decimal(text.replace("_", "")).as_tuple().exponent
    except InvalidOperation:
        return 0.0
    if not isinstance(exponent, int) or ("." not in text and "e" not in text):
        return 0.0
    return 0.5 * 10.0 ** max(min(exponent, 300), -330)
