"""The `--json` document: one object, whatever happened, that tells values as facts and as data.

Up to MAX_VALUE_ELEMENTS elements an array, a tensor that needs no feed, and Python's own numbers,
texts, lists and dictionaries carry their `data`; larger ones are told by their statistics.
"""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from msgspec import Struct

from kbench.cli.exit_codes import OK

if TYPE_CHECKING:
    from kbench.engine.core.scipy_input import Matrix
    from kbench.engine.core.types import Array, Row

MAX_VALUE_ELEMENTS = 1000
"""Elements of one value, or characters of a text."""
MAX_ENTRIES = 32
"""Entries of a list that are told one by one."""
_MAX_INTEGER_BITS = 10_000
"""Bits of an integer; Python writes no more than 4300 digits."""
_SCALARS = (bool, int, float, str, type(None))


class Outcome(Struct):
    """What a run left behind."""

    code: int = OK
    value: object = None
    error: BaseException | None = None
    names: dict[str, object] | None = None
    seconds: float = 0.0


def text(outcome: Outcome, is_users: Callable[[traceback.FrameSummary], bool]) -> str:
    """The document of a run; `is_users` says which frames of a traceback are the user's."""
    error = outcome.error
    document = {
        "version": 1,
        "ok": outcome.code == OK,
        "exit_code": outcome.code,
        "seconds": round(outcome.seconds, 6),
        "value": None if outcome.value is None else _last_row(outcome.value),
        "names": {name: _value_row(value) for name, value in (outcome.names or {}).items()},
        "error": None if error is None else _error_row(error, is_users),
    }
    return json.dumps(_finite(document), allow_nan=False)


def is_ours(value: object) -> bool:
    """True for what the engine makes or takes, which a summary describes better than its repr."""
    from kbench.engine.inspect import describe, sparse_summary
    from kbench.workbench.models import keras_models

    symbolic = describe.is_tensor(value) or describe.is_function(value)
    held = describe.held_array(value) is not None or sparse_summary.held_matrix(value) is not None
    return symbolic or held or keras_models.is_model(value)


def is_few(value: object) -> TypeGuard[Sequence[object]]:
    """Whether it is a list of a few values of which any is the engine's."""
    if not isinstance(value, (list, tuple)) or type(value) not in (list, tuple):
        return False
    return 0 < len(value) <= MAX_ENTRIES and any(map(is_ours, value))


def _finite(row: object) -> object:
    """The document with NaN and infinities as words: JSON has no numbers for them."""
    if isinstance(row, dict):
        return {key: _finite(value) for key, value in row.items()}
    if isinstance(row, list):
        return [_finite(value) for value in row]
    return str(row) if isinstance(row, float) and not math.isfinite(row) else row


# ------------------------------------------------------------------ values


def _last_row(value: object) -> Row:
    """The last value: tensors that need no feed are computed, those of a short list together."""
    from kbench.workbench.analysis import known_value

    budget = known_value.Budget()
    row = _value_row(value, budget.known(value))
    if is_few(value):
        row["items"] = [_value_row(item, budget.known(item)) for item in value]
    return row


def _value_row(value: object, found: Any = None) -> Row:
    """One value as facts, never as a repr: the summary line, and what `describe` knows."""
    from kbench.engine.inspect import describe, sparse_summary
    from kbench.workbench.inspector import summary
    from kbench.workbench.models import keras_models

    found = found or summary.NO_VALUE
    line = summary.line(value, found=found)
    row: Row = {"type": type(value).__name__, "summary": line}
    if describe.is_tensor(value):
        row["tensor"] = describe.tensor(value)
    if keras_models.is_model(value):
        row["model"] = keras_models.facts(value)
    value = value if found.value is None else found.value
    held = describe.held_array(value)
    if held is not None:
        row["array"] = {**describe.array(held), **_cells(held)}
    matrix = sparse_summary.held_matrix(value)
    if matrix is not None:
        row["sparse"] = {
            **sparse_summary.facts(matrix),
            "statistics": sparse_summary.statistics(matrix),
        }
        row["sparse"].update(_entries(matrix))
    if _room(value, MAX_VALUE_ELEMENTS) >= 0:
        row["data"] = value
    return row


def _cells(held: Array) -> Row:
    """The numbers of an array as nested lists, where they are few."""
    if held.size > MAX_VALUE_ELEMENTS or held.dtype.kind not in "biuf":
        return {}
    return {"data": held.tolist()}


def _entries(matrix: Matrix) -> Row:
    """Row, column and value of each entry of a sparse matrix, where they are few."""
    if matrix.nnz > MAX_VALUE_ELEMENTS or matrix.format not in ("csr", "csc", "coo"):
        return {}
    listed = matrix.tocoo()
    parts = {"rows": listed.row, "cols": listed.col, "data": listed.data}
    return {name: part.tolist() for name, part in parts.items()}


def _room(value: Any, room: int) -> int:
    """What is left of `room` behind a value of Python's own kinds; less than 0 for all others."""
    kind = type(value)
    if kind in _SCALARS:
        if kind is int and value.bit_length() > _MAX_INTEGER_BITS:
            return -1
        return room - (len(value) if kind is str else 1)
    if kind is dict:
        if not all(type(key) is str for key in value):
            return -1
        value = [*value, *value.values()]
    elif kind not in (list, tuple):
        return -1
    for item in value:
        if room < 0:
            break
        room = _room(item, room - 1)
    return room


# ------------------------------------------------------------------ errors


def _error_row(error: BaseException, is_users: Callable[[traceback.FrameSummary], bool]) -> Row:
    from kbench.workbench.errors.explanation import safe_text

    row: Row = {"type": type(error).__name__, "message": safe_text(error)}
    for field in ("function", "reason", "suggestion"):
        if isinstance(getattr(error, field, None), str):
            row[field] = getattr(error, field)
    operands = getattr(error, "operands", ())
    if isinstance(operands, tuple) and operands:
        row["operands"] = [_operand_row(operand) for operand in operands]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame)]
    if frames:
        row["file"], row["line"] = frames[-1].filename, frames[-1].lineno
    return row


def _operand_row(operand: object) -> Row:
    place = getattr(operand, "place", None)
    row = {key: getattr(operand, key, None) for key in ("role", "spec", "kind", "name", "axis")}
    return {**row, "place": None if place is None else str(place)}
