"""What is told of a value that is no tensor, no array and no number: what it is, what was meant.

Knows no operation; `graph/convert.py` and whoever else takes a value asks it for the error.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.core import masked_arrays
from kbench.engine.core.errors import (
    ArgumentError,
    DtypeError,
    KbenchError,
    describe_value,
    meant_call,
    role_of,
    shown,
)

_NEEDED = "a tensor, an array or numbers"
_MAX_TEXT_CHARACTERS = 40  # characters of a text that are shown
_MAX_LEVELS = 8  # levels of lists that are looked into
_MAX_ENTRIES = 10_000  # entries of one list that are looked at


def describe_operand(value: object) -> str:
    """What a value is, in words: "None", "the text 'a'", "the function K.mean", "a dict"."""
    if value is None:
        return "None"
    if isinstance(value, int) and not isinstance(value, bool) and not _is_number(value):
        return f"{shown(value)}, which no dtype holds"
    if (spec := describe_value(value)) is not None:
        return f"{getattr(value, 'kind', 'array')} {spec}"
    if isinstance(value, (str, bytes)):
        text = repr(value if len(value) <= _MAX_TEXT_CHARACTERS else value[:_MAX_TEXT_CHARACTERS])
        return f"the string {text}" + ("..." if len(value) > _MAX_TEXT_CHARACTERS else "")
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    if _is_layer(value):
        return f"a {'model' if hasattr(type(value), 'predict') else 'layer'} of type {kind}"
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        ours = getattr(value, "__module__", None) or ""
        return f"the function {'K.' if ours.startswith('kbench.') else ''}{name}"
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _is_layer(value: object) -> bool:
    """True for layers and models of Keras, by what their class has."""
    return all(hasattr(type(value), name) for name in ("get_config", "call", "output"))


def operand_error(value: object, role: str | None = None) -> KbenchError:
    """The error for a value of which no array of numbers can be made."""
    path, found = _first_non_number(value)
    role = role or role_of(value) or ("value" if path else "")
    role, value = role + path, found
    suggestion = meant_call(value)
    if suggestion is None and _is_layer(value):
        suggestion = f"{role}.output" if role else "layer.output"
    reason = f"{role} is {describe_operand(value)}" if role else f"got {describe_operand(value)}"
    return DtypeError(f"{reason}; {_NEEDED} are needed", suggestion=suggestion)


def describe_non_number(value: object) -> str:
    """Which entry of a fed value is none, in words: "value[1] is None"."""
    path, found = _first_non_number(value)
    return f"{f'value{path}' if path else 'the value'} is {describe_operand(found)}"


def _first_non_number(value: object) -> tuple[str, object]:
    """The first entry of nested lists that is no number, and the way to it."""
    path = ""
    for _ in range(_MAX_LEVELS):
        if not isinstance(value, (list, tuple)):
            break
        odd = [(i, entry) for i, entry in enumerate(value[:_MAX_ENTRIES]) if not _is_number(entry)]
        if not odd:
            break
        flat = [pair for pair in odd if not isinstance(pair[1], (list, tuple))]
        index, value = (flat or odd)[0]
        path += f"[{index}]"
    return path, value


def _is_number(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_number(entry) for entry in value[:_MAX_ENTRIES])
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return getattr(getattr(value, "dtype", None), "kind", "") in tuple("biuf") or isinstance(
        value, float
    )


def numeric_array(value: object) -> np.ndarray:
    """Anything array-like as an array of a dtype that kbench has.

    Raises:
        ArgumentError: lists that make no array, or masked entries. DtypeError: no numbers, or of
        another dtype.
    """
    refuse_masked(value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        if not isinstance(value, (list, tuple)):
            raise ArgumentError(f"not an array: {error}") from None
        head = f"{role_of(value) or 'value'} is a {type(value).__name__}"
        raise ArgumentError(
            f"{head} that cannot become an array: {describe_ragged(value)}"
        ) from None
    if array.dtype.kind in "OUSVmM" and not isinstance(value, np.ndarray):
        raise operand_error(value)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise DtypeError(
            f"{array.dtype} is not a dtype of kbench (value of type {type(value).__name__})"
        )
    return array


def refuse_masked(value: object, name: str = "") -> None:
    """ArgumentError when an entry of what becomes an array is masked."""
    found = masked_arrays.masked_entries(value)
    if found is not None:
        name = name or role_of(value) or "value"
        raise ArgumentError(f"{name}{found}{NO_MASK_WORDS}", suggestion=suggest_filled(value, name))


def entries_of(value: object, name: str) -> object:
    """The entries of an array in nested lists; anything else as it is. ArgumentError for masks."""
    if not isinstance(value, np.ndarray):
        return value
    refuse_masked(value, name)
    return value.tolist()


NO_MASK_WORDS = ", and a tensor has no mask: fill its entries, or leave them out"


def suggest_filled(value: object, name: str) -> str | None:
    """What to write for a masked array."""
    masked = hasattr(value, "filled") and getattr(value, "ndim", 0) > 0
    return f"{name}.filled(0)" if masked else None


def describe_ragged(value: object) -> str:
    """How nested lists fail to be an array, in words."""
    rows = value
    for _ in range(_MAX_LEVELS):
        if not isinstance(rows, (list, tuple)):
            break
        lengths = {_length(row) for row in rows[:_MAX_ENTRIES]}
        if len(lengths) > 1 and None in lengths:
            return "numbers and lists are mixed"
        if len(lengths) > 1:
            first, second, *_ = sorted(length for length in lengths if length is not None)
            return f"its rows differ in length, {first} and {second}"
        lists = [row for row in rows[:_MAX_ENTRIES] if isinstance(row, (list, tuple))]
        rows = [entry for row in lists for entry in row]
    return "its entries differ"


def _length(value: object) -> int | None:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(value) if isinstance(value, (list, tuple)) else None
