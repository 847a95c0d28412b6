"""What a row of the table of names says of a value: kind, shape, dtype, size, and words."""

from __future__ import annotations

import zlib

import numpy as np

from kbench.engine.inspect import describe, sparse_summary
from kbench.workbench.core_types import JsonObject
from kbench.workbench.inspector import sizes, summary
from kbench.workbench.models import keras_models

_NUMBERS = (bool, int, float, complex, type(None))
_MAX_ITEMS = 8
"""Of a list whose specs are shown: as many as a row has room for."""
MAX_COMPARED_BYTES = 64 * 1024
"""Of an array that is compared with what it was: some 50 us of a checksum at 1 GB/s."""


def facts(value: object) -> JsonObject:
    """Kind, shape, dtype and bytes; `held` when there is an array to compute statistics of."""
    if describe.is_function(value):
        return {"kind": "function", "type": "Function", "text": summary.function_text(value)}
    if describe.is_tensor(value):
        row = describe.tensor(value)
        keep = ("kind", "op", "shape", "dtype", "bytes", "place", "last", "version")
        facts = {key: row[key] for key in keep if key in row}
        facts["symbol"] = row["name"]
        matrix = sparse_summary.held_matrix(value)
        if matrix is not None:
            return {**facts, **_matrix_facts(matrix)}
        return {**facts, "held": describe.held_array(value) is not None}
    held = describe.held_array(value)
    if held is not None:
        kind = "array" if issubclass(type(value), np.ndarray) else "scalar"
        facts = {"kind": kind, "shape": list(held.shape), "dtype": held.dtype.name}
        return {**facts, "bytes": int(held.nbytes), "held": True}
    matrix = sparse_summary.held_matrix(value)
    if matrix is not None:
        return {"kind": "array", **_matrix_facts(matrix)}
    kind_of = type(value)
    if kind_of in _NUMBERS:
        text = describe.number(value) if kind_of in (int, float) else str(value)
        return {"kind": "scalar", "type": kind_of.__name__, "text": text}
    length = summary.safe_length(value)
    if length is not None:
        row = {"kind": "sequence", "type": summary.type_name(value), "length": length}
        return {**row, **_memory(value), **_items(value)}
    if keras_models.is_layer(value):
        return keras_models.facts(value)
    row = {"kind": "object", "type": summary.type_name(value)}
    return {**row, **_frame_facts(value), **_memory(value)}


def fixed(value: object) -> bool:
    """Whether a value's row is the same until the name is bound anew, or its version another."""
    if describe.is_tensor(value) or describe.is_function(value) or keras_models.is_layer(value):
        return True
    kind = type(value)
    return kind in _NUMBERS or kind in (str, bytes, range) or issubclass(kind, np.generic)


def contents(values: object) -> object:
    """What is another thing when an array holds other bytes; for a large array always another."""
    try:
        whole = np.asarray(values)
        if whole.nbytes > MAX_COMPARED_BYTES or whole.dtype.hasobject:
            return object()
        return whole.shape, whole.dtype.str, zlib.crc32(whole.tobytes())
    except Exception:  # of a class derived from an array: it is read again
        return object()


def mark(value: object) -> object:
    """What is another thing when an array holds other numbers, of a large one as far as a sample
    tells; None of what is no array."""
    if not issubclass(type(value), np.ndarray):
        return None
    try:
        whole = np.asarray(value)
        if whole.dtype.hasobject:
            return None
        step = max(whole.size // MAX_COMPARED_BYTES, 1)
        return whole.shape, whole.dtype.str, zlib.crc32(whole.flat[::step].tobytes())
    except Exception:  # of a class derived from an array
        return None


def version(value: object) -> int:
    """What is another number after each change of a value; always 0 where only looking tells."""
    if describe.is_variable(value):
        return int(value.version)
    return keras_models.version(value) if keras_models.is_layer(value) else 0


def _matrix_facts(matrix: object) -> JsonObject:
    row = sparse_summary.facts(matrix)
    known = {key: row[key] for key in ("shape", "dtype", "bytes")}
    if known["bytes"] is None:
        known |= _memory(matrix)
    return {**known, "text": f"sparse, {sparse_summary.count_text(row)}"}


def _items(value: object) -> JsonObject:
    """The specs of the arrays and tensors in a list, such as what a K.function returns."""
    if type(value) not in (list, tuple) or not isinstance(value, (list, tuple)):
        return {}
    specs = [(place, _spec(item)) for place, item in enumerate(value[:_MAX_ITEMS])]
    known = [{"item": place, "spec": spec} for place, spec in specs if spec is not None]
    if not known:
        return {}
    more = ", …" if len(value) > _MAX_ITEMS else ""
    text = ", ".join(str(item["spec"]) for item in known)
    return {"items": known, "text": f"{type(value).__name__} of {len(value)}: {text}{more}"}


def _spec(value: object) -> str | None:
    if describe.is_tensor(value):
        return str(value.spec)
    held = describe.held_array(value)
    if held is not None:
        return describe.spec_text(held.shape, held.dtype.name)
    matrix = sparse_summary.held_matrix(value)
    return None if matrix is None else str(sparse_summary.facts(matrix)["spec"])


def _memory(value: object) -> JsonObject:
    """Bytes with all that is held, and in `about` how well they are known, unless exactly."""
    count, mark = sizes.of(value)
    return {"bytes": count, "about": mark} if mark else {"bytes": count}


def _frame_facts(value: object) -> JsonObject:
    """Shape and dtype of a table, a column or an index of pandas; nothing of anything else."""
    if not sizes.is_frame(value):
        return {}
    dtype = "" if value.ndim > 1 else str(value.dtype)
    shape = [int(size) for size in value.shape]
    return {"shape": shape, "dtype": dtype, "text": summary.type_name(value)}


# "size" counts the elements, "count" those that were read, of which the last three are a part.
_RANGE_KEYS = (
    *("min", "max", "mean", "std", "histogram", "size", "sampled"),
    *("count", "zeros", "nan", "inf"),
)


def range_of(row: JsonObject) -> JsonObject:
    """The part of an array's statistics that a table row shows."""
    if "refused" in row:
        return {"text": row["refused"]}
    return {**{key: row[key] for key in _RANGE_KEYS}, "flags": summary.flags_text(row)}
