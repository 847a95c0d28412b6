"""Tensors, arrays, graphs and runs as plain JSON-able rows, the only view that any UI has of them.

Nothing here evaluates a symbolic tensor, and no cost grows with the size of an array beyond what
`statistics` bounds. Texts that come from users pass through `printable`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbench.engine import statistics as _statistics
from kbench.engine.errors import ArgumentError

NAME_LIMIT = 80
CELL_LIMIT = 20_000
GRAPH_LIMIT = 200
HEAT_LEVELS = 10
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = " .:-=+*%#"
_TEXT_LIMIT = 24


# ------------------------------------------------------------------ small texts


def printable(text: object, limit: int = NAME_LIMIT) -> str:
    """Text safe to show: control, bidi and other invisible characters escaped, length capped."""
    source = text if isinstance(text, str) else str(text)
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii")
        for one in source[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def number(value: Any) -> str:
    """A number in at most about nine characters: 0.0123, 1.2e-05, NaN, -Inf, 12345."""
    if value is None:
        return "-"
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        whole = int(value)
        if abs(whole) < 10**9:
            return str(whole)
        bits = whole.bit_length()
        return f"{whole:.3e}" if bits < 1000 else f"{'-' if whole < 0 else ''}2**{bits - 1}…"
    real = float(value)
    if math.isnan(real):
        return "NaN"
    if math.isinf(real):
        return "Inf" if real > 0 else "-Inf"
    if real == 0:
        return "0"
    return f"{real:.4g}" if 1e-4 <= abs(real) < 1e5 else f"{real:.3g}"


def size(count: int | None) -> str:
    """A number of bytes for people: 4 B, 31 kB, 3.1 MB (steps of 1024)."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1023.5:
            digits = f"{value:.1f}".removesuffix(".0") if value < 9.95 else f"{value:.0f}"
            return f"{digits} {unit}"
        value /= 1024
    return f"{value:.0f} TB"


def glyphs(counts: Sequence[int], width: int = 8, ascii: bool = False) -> str:
    """A histogram as one short line of characters; any non-empty bin is visible."""
    if not counts or not any(counts):
        return ""
    levels = _ASCII_BLOCKS if ascii else _BLOCKS
    edges = [round(i * len(counts) / width) for i in range(width + 1)]
    bins = [sum(counts[first : max(last, first + 1)]) for first, last in pairwise(edges)]
    top = max(bins)
    return "".join(levels[-(-count * (len(levels) - 1) // top)] for count in bins)


def spec_text(shape: Iterable[int | None], dtype: str) -> str:
    """`float32[?, 784]`, as errors and reprs write it."""
    return f"{dtype}[{', '.join('?' if one is None else str(one) for one in shape)}]"


# ------------------------------------------------------------------ what a value is


def _engine_class(module: str, name: str) -> type | None:
    """A class of the engine if it is loaded; when it is not, no value can be of that class."""
    return getattr(sys.modules.get(f"kbench.engine.{module}"), name, None)


def _is(value: object, module: str, name: str) -> bool:
    found = _engine_class(module, name)
    return found is not None and issubclass(type(value), found)


def is_tensor(value: object) -> bool:
    """True for every symbolic object: tensors, variables, placeholders, constants, updates."""
    return _is(value, "tensor", "Tensor")


def is_variable(value: object) -> bool:
    return _is(value, "variables", "Variable")


def is_function(value: object) -> bool:
    """True for what `K.function` returns."""
    return _is(value, "function", "Function")


def held_array(value: object) -> NDArray[Any] | None:
    """The array that a value holds right now, without copying; None if symbolic or sparse."""
    if is_variable(value):
        return None if value.is_sparse else np.asarray(value.peek())  # type: ignore[attr-defined]
    if is_tensor(value) and value.kind == "constant":  # type: ignore[attr-defined]
        return np.asarray(value.value)  # type: ignore[attr-defined]
    if issubclass(type(value), (np.ndarray, np.generic)):
        return np.asarray(value)
    return None


# ------------------------------------------------------------------ arrays


def array(values: object, exact: bool = False) -> dict[str, Any]:
    """Statistics of an array: see `statistics.statistics`; `refused` says why there are none."""
    return _statistics.statistics(np.asarray(values), exact)


def window(
    values: object,
    index: Sequence[int] | None = None,
    rows: tuple[int, int] = (0, 20),
    cols: tuple[int, int] = (0, 10),
    row_axis: int | None = -2,
    col_axis: int | None = -1,
    limits: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Formatted cells of a two-dimensional slice of an array of any rank, at constant cost.

    Arguments:
        values: the array.
        index: one index per axis; those of the two shown axes are ignored. Default: all 0.
        rows, cols: (start, count) along the shown axes, cut to what exists.
        row_axis, col_axis: the shown axes; None for a single row or column.
        limits: range that `heat` levels refer to; None for the range of the window itself.
    Returns:
        `cells` (texts), `heat` (0 to 9 per cell, None where not finite), what is shown
        (`rows`, `cols` as start, stop, total; `row_axis`, `col_axis`, `index`), shape and dtype.
    Raises:
        ArgumentError: an axis or index that the array does not have.
    """
    whole: Any = values if getattr(type(values), "lazy", False) else np.asarray(values)
    row_axis, col_axis = _shown_axes(whole.ndim, row_axis, col_axis)
    fixed = _fixed_index(whole.shape, index, (row_axis, col_axis))
    row_span = _span(rows, whole.shape[row_axis] if row_axis is not None else 1)
    col_span = _span(cols, whole.shape[col_axis] if col_axis is not None else 1)
    if (row_span[1] - row_span[0]) * (col_span[1] - col_span[0]) > CELL_LIMIT:
        raise ArgumentError(f"a window has at most {CELL_LIMIT} cells")
    key: list[int | slice] = list(fixed)
    for axis, span in ((row_axis, row_span), (col_axis, col_span)):
        if axis is not None:
            key[axis] = slice(span[0], span[1])
    part = whole[tuple(key)]
    if row_axis is not None and col_axis is not None and row_axis > col_axis:
        part = part.T
    part = np.reshape(part, (row_span[1] - row_span[0], col_span[1] - col_span[0]))
    return {
        "shape": list(whole.shape),
        "dtype": whole.dtype.name,
        "index": fixed,
        "row_axis": row_axis,
        "col_axis": col_axis,
        "rows": list(row_span),
        "cols": list(col_span),
        "cells": [[_cell(one) for one in line] for line in part],
        "heat": _heat(part, limits),
    }


def _shown_axes(
    rank: int, row_axis: int | None, col_axis: int | None
) -> tuple[int | None, int | None]:
    if rank == 0:
        return None, None
    if rank == 1 and row_axis == -2:
        row_axis = None
    shown: list[int | None] = []
    for axis in (row_axis, col_axis):
        if axis is not None and not -rank <= axis < rank:
            raise ArgumentError(f"axis {axis} is out of range for rank {rank}")
        shown.append(None if axis is None else axis % rank)
    if shown[0] is not None and shown[0] == shown[1]:
        raise ArgumentError(f"rows and columns are both axis {shown[0]}")
    return shown[0], shown[1]


def _fixed_index(
    shape: tuple[int, ...], index: Sequence[int] | None, shown: tuple[int | None, ...]
) -> list[int]:
    given = list(index) if index is not None else [0] * len(shape)
    if len(given) != len(shape):
        raise ArgumentError(f"index {given} needs {len(shape)} entries, one per axis")
    for axis, (one, length) in enumerate(zip(given, shape, strict=True)):
        if axis in shown:
            given[axis] = 0
        elif length == 0:
            raise ArgumentError(f"axis {axis} is empty")
        elif not -length <= one < length:
            raise ArgumentError(f"index {one} is out of range for axis {axis} of size {length}")
        else:
            given[axis] = int(one) % length
    return given


def _span(asked: tuple[int, int], total: int) -> tuple[int, int, int]:
    start = min(max(int(asked[0]), 0), max(total - 1, 0))
    return start, min(start + max(int(asked[1]), 0), total), total


def _cell(value: Any) -> str:
    kind = type(value)  # not isinstance: it would ask the object, which may be hostile
    if issubclass(kind, (bool, np.bool_, int, np.integer, float, np.floating)):
        return number(value)
    if issubclass(kind, (complex, np.complexfloating)):
        return f"{number(value.real)}{value.imag:+.3g}j"
    if issubclass(kind, (np.str_, np.bytes_, np.datetime64, np.timedelta64)):
        return printable(value, _TEXT_LIMIT)
    return f"<{printable(kind.__name__, _TEXT_LIMIT - 2)}>"


def _heat(part: NDArray[Any], limits: tuple[float, float] | None) -> list[list[int | None]]:
    if _statistics.refusal(part) is not None:
        return [[None] * part.shape[1] for _ in range(part.shape[0])]
    values = part.astype(np.float64)
    finite = np.isfinite(values)
    if limits is None:
        known = values[finite]
        limits = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    scale = max(abs(limits[0]), abs(limits[1])) or 1.0
    low, high = limits[0] / scale, limits[1] / scale
    spread = (high - low) or 1.0
    share = np.where(finite, values, limits[0]).clip(*limits) / scale
    levels = ((share - low) / spread * HEAT_LEVELS).clip(0, HEAT_LEVELS - 1).astype(int)
    return [
        [int(level) if known else None for level, known in zip(*line, strict=True)]
        for line in zip(levels, finite, strict=True)
    ]


# ------------------------------------------------------------------ tensors and graphs


def _place(value: Any) -> str | None:
    place = getattr(value, "place", None)
    return None if place is None else printable(place)


def _last(value: Any) -> dict[str, Any] | None:
    """What the last evaluation knew of a tensor: its shape, and its entries when few."""
    last = getattr(value, "last", None)
    if last is None:
        return None
    row: dict[str, Any] = {"shape": [int(one) for one in last.shape]}
    entries = getattr(last, "value", None)
    if entries is not None:
        flat = np.asarray(entries).reshape(-1)[:64]
        row["text"] = ", ".join(_cell(one) for one in flat[:8]) + (", …" if flat.size > 8 else "")
    return row


def tensor(value: Any) -> dict[str, Any]:
    """One symbolic object: kind, name, op, static shape, dtype, inputs, place, last run."""
    shape = [None if one is None else int(one) for one in value.spec.shape]
    dtype = str(value.spec.dtype)
    several = bool(getattr(value.spec, "parts", ()))
    known = None not in shape and not value.spec.sparse and not several
    elements = math.prod(one for one in shape if one is not None) if known else None
    row: dict[str, Any] = {
        "name": printable(value.name),
        "kind": str(value.kind),
        "op": printable(value.op.name),
        "shape": shape,
        "dtype": dtype,
        "spec": str(value.spec),
        "bytes": None if elements is None else elements * np.dtype(dtype).itemsize,
        "inputs": [_input(one) for one in value.inputs[:16]],
        "input_count": len(value.inputs),
        "place": _place(value),
        "last": _last(value),
    }
    if is_variable(value):
        row["version"] = int(value.version)
    return row


def _input(value: Any) -> dict[str, Any]:
    return {
        "name": printable(value.name),
        "op": printable(value.op.name),
        "spec": str(value.spec),
    }


def graph(value: Any, limit: int = GRAPH_LIMIT) -> dict[str, Any]:
    """The graph above one tensor (or several), inputs before users; the nearest `limit` nodes.

    Returns:
        `rows` with `id`, `inputs` (ids; None where the input is not shown) and the fields of a
        tensor; `total` nodes there are, `cut` how many are not shown.
    """
    roots = list(value) if isinstance(value, (list, tuple)) else [value]
    nearest = _nearest_first(roots)
    shown = {id(one): one for one in nearest[:limit]}
    order = _inputs_first(roots, shown)
    ids = {id(one): number for number, one in enumerate(order)}
    rows = []
    for one in order:
        row = tensor(one)
        row["id"] = ids[id(one)]
        row["inputs"] = [ids.get(id(source)) for source in one.inputs[:16]]
        rows.append(row)
    return {"rows": rows, "total": len(nearest), "cut": len(nearest) - len(order)}


def _nearest_first(roots: Sequence[Any]) -> list[Any]:
    """Every node above the roots, breadth first."""
    nodes: dict[int, Any] = {}
    layer = {id(one): one for one in roots}
    while layer:
        nodes.update(layer)
        layer = {
            id(one): one for node in layer.values() for one in node.inputs if id(one) not in nodes
        }
    return list(nodes.values())


def _inputs_first(roots: Sequence[Any], shown: dict[int, Any]) -> list[Any]:
    """The shown nodes in an order where inputs precede their users; explicit stack."""
    done: dict[int, Any] = {}
    stack = [(one, False) for one in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            done[id(node)] = node
        elif id(node) in shown and id(node) not in done:
            stack.append((node, True))
            stack.extend((one, False) for one in reversed(node.inputs) if id(one) not in done)
    return list(done.values())


def plan(function: Any) -> dict[str, Any] | None:
    """The last recorded run of a function as rows, None when none was recorded."""
    record = getattr(function, "records", None)
    return None if not record else run(record)


def run(record: Any) -> dict[str, Any]:
    """A RunRecord as rows: what each step was, in which form it ran, how long, how fast."""
    rows = [_step(position, step) for position, step in enumerate(record.steps)]
    forms: dict[str, int] = {}
    for row in rows:
        forms[row["form"]] = forms.get(row["form"], 0) + 1
    return {
        "function": printable(record.function),
        "seconds": float(record.seconds),
        "bytes": sum(row["bytes"] for row in rows),
        "peak_bytes": int(record.peak_bytes),
        "forms": forms,
        "rows": rows,
    }


def _step(position: int, step: Any) -> dict[str, Any]:
    seconds, moved, flops = float(step.seconds), int(step.bytes or 0), int(step.flops or 0)
    return {
        "step": position,
        "op": printable(step.label),
        "form": str(step.form),
        "spec": spec_text(step.shape, step.dtype),
        "seconds": seconds,
        "bytes": moved,
        "flops": flops,
        "gb_per_s": moved / seconds / 1e9 if seconds > 0 else None,
        "gflop_per_s": flops / seconds / 1e9 if seconds > 0 else None,
        "place": _place(step),
        "source": step.source,
    }
