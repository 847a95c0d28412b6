"""Tensors, arrays, graphs and runs as plain JSON-able rows, the only view that any UI has of them.

Nothing here evaluates a symbolic tensor, and no cost grows with the size of an array beyond what
`statistics` bounds. Texts that come from users pass through `printable`.
"""

from __future__ import annotations

import datetime
import math
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from kbench.engine.core.types import Array, Row
from kbench.engine.inspect import statistics as _statistics

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor
    from kbench.engine.graph.variables import Variable
    from kbench.engine.runtime.profile import RunRecord, StepRecord

MAX_NAME_CHARACTERS = 80
MAX_GRAPH_NODES = 200
MAX_PARTS = 64
"""Operations that are listed of one step that runs many as one."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = " .:-=+*%#"
MAX_TEXT_CHARACTERS = 24
MASKED = "--"
"""An entry of a masked array that is masked, as NumPy writes it."""
_WRITTEN = (type(None), datetime.date, datetime.datetime, datetime.timedelta)
"""Python's own classes whose `str` runs no code of a user's."""
_MAX_CELL_FIELDS = 4
"""Fields of a structured element that are shown in one cell."""
MAX_WHOLE_INTEGER = 10**24
"""An integer below is told in all its digits, whatever 64 bits hold among them."""


# ------------------------------------------------------------------ small texts


def printable(text: object, limit: int = MAX_NAME_CHARACTERS) -> str:
    """Text safe to show: control, bidi and other invisible characters escaped, length capped."""
    source = text if isinstance(text, str) else str(text)
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in source[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def number(value: Any) -> str:
    """A number in about nine characters: 0.0123, 1.2e-05, NaN, -Inf; an integer is exact.

    >>> number(2**53 + 1), number(2.0**53), number(10**40)
    ('9007199254740993', '9.01e+15', '1.000e+40')
    """
    if value is None:
        return "-"
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        whole = int(value)
        if abs(whole) < MAX_WHOLE_INTEGER:
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
    return f"{dtype}[{', '.join('?' if length is None else str(length) for length in shape)}]"


# ------------------------------------------------------------------ what a value is


def _engine_class(module: str, name: str) -> type | None:
    """A class of the engine if it is loaded; when it is not, no value can be of that class."""
    return getattr(sys.modules.get(f"kbench.engine.{module}"), name, None)


def _is(value: object, module: str, name: str) -> bool:
    found = _engine_class(module, name)
    return found is not None and issubclass(type(value), found)


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """True for every symbolic object: tensors, variables, placeholders, constants, updates."""
    return _is(value, "graph.tensor", "Tensor")


def is_variable(value: object) -> TypeGuard[Variable]:
    return _is(value, "graph.variables", "Variable")


def is_function(value: object) -> TypeGuard[Function]:
    """True for what `K.function` returns."""
    return _is(value, "execute.function", "Function")


def held_array(value: object) -> Array | None:
    """The array that a value holds right now, without copying; None if symbolic or sparse.

    A masked array stays one, so that what reads it can leave out the masked entries.
    """
    if is_variable(value):
        return None if value.is_sparse else np.asarray(value.peek())
    if is_tensor(value) and value.kind == "constant":
        return np.asarray(value.value)  # type: ignore[attr-defined]
    if is_masked(value):
        return value
    if issubclass(type(value), (np.ndarray, np.generic)):
        return np.asarray(value)
    return None


def is_masked(value: object) -> TypeGuard[np.ma.MaskedArray[Any, Any]]:
    """True for a masked array of NumPy's; a subclass may do as it likes."""
    return type(value) is np.ma.MaskedArray


# ------------------------------------------------------------------ arrays


_read = threading.local()


@contextmanager
def reading_once() -> Iterator[None]:
    """Within the block, what this thread asks of an array again is not read again."""
    if getattr(_read, "rows", None) is not None:
        yield
        return
    _read.rows = {}
    try:
        yield
    finally:
        _read.rows = None


def array(values: object, exact: bool = False) -> Row:
    """Statistics of an array: see `statistics.statistics`; `refused` says why there are none."""
    if is_masked(values):
        return _statistics.statistics(values, exact)
    whole = np.asarray(values)
    rows = getattr(_read, "rows", None)
    if rows is None or exact:
        return _statistics.statistics(whole, exact)
    key = (whole.ctypes.data, whole.shape, whole.strides, whole.dtype)
    if key not in rows:
        rows[key] = whole, _statistics.statistics(whole)  # which keeps the memory from another use
    return dict(rows[key][1])


def cell(value: Any) -> str:
    """One element of an array as a short text; a foreign object is told by its type alone."""
    kind = type(value)  # not isinstance: it would ask the object, which may be hostile
    if issubclass(kind, (np.str_, np.bytes_, np.datetime64, np.timedelta64)):
        return printable(value, MAX_TEXT_CHARACTERS)  # NumPy counts a timedelta64 as an integer
    if issubclass(kind, (bool, np.bool_, int, np.integer, float, np.floating)):
        return number(value)
    if issubclass(kind, (complex, np.complexfloating)):
        return f"{number(value.real)}{value.imag:+.3g}j"
    if kind in (str, bytes):  # quoted, which tells the text 'None' from None
        return printable(repr(value[:MAX_TEXT_CHARACTERS]), MAX_TEXT_CHARACTERS)
    if kind in _WRITTEN:
        return printable(value, MAX_TEXT_CHARACTERS)
    if kind in (np.void, np.ma.core.mvoid) and value.dtype.names:
        return _structured(value)
    return f"<{printable(kind.__name__, MAX_TEXT_CHARACTERS - 2)}>"


def _structured(value: Any) -> str:
    """The fields of one structured element: `(1, 0.5)`."""
    names = (value.dtype.names or ())[:_MAX_CELL_FIELDS]
    texts = [MASKED if value[name] is np.ma.masked else cell(value[name]) for name in names]
    more = ", …" if len(value.dtype.names or ()) > len(names) else ""
    return f"({', '.join(texts)}{more})"


# ------------------------------------------------------------------ tensors and graphs


def place(value: object) -> str | None:
    """The user's line that made something, as text."""
    where = getattr(value, "place", None)
    return None if where is None else printable(where)


def last(value: object) -> Row | None:
    """What the last evaluation knew of a tensor: its shape, and its entries when few."""
    seen = getattr(value, "last", None)
    if seen is None:
        return None
    row: Row = {"shape": [int(length) for length in seen.shape]}
    entries = getattr(seen, "value", None)
    if entries is not None:
        flat = np.asarray(entries).reshape(-1)[:64]
        row["text"] = ", ".join(cell(entry) for entry in flat[:8]) + (
            ", …" if flat.size > 8 else ""
        )
    return row


def tensor(value: Tensor) -> Row:
    """One symbolic object: kind, name, op, static shape, dtype, inputs, place, last run."""
    shape = [None if length is None else int(length) for length in value.spec.shape]
    dtype = str(value.spec.dtype)
    several = bool(getattr(value.spec, "parts", ()))
    known = None not in shape and not value.spec.sparse and not several
    elements = math.prod(length for length in shape if length is not None) if known else None
    row: Row = {
        "name": printable(value.name),
        "kind": str(value.kind),
        "op": printable(value.op.name),
        "shape": shape,
        "dtype": dtype,
        "spec": str(value.spec),
        "bytes": None if elements is None else elements * np.dtype(dtype).itemsize,
        "inputs": [_input(slot) for slot in value.inputs[:16]],
        "input_count": len(value.inputs),
        "place": place(value),
        "last": last(value),
    }
    if is_variable(value):
        row["version"] = int(value.version)
    return row


def _input(value: Tensor) -> Row:
    return {
        "name": printable(value.name),
        "op": printable(value.op.name),
        "spec": str(value.spec),
    }


def graph(value: Tensor | Sequence[Tensor], limit: int = MAX_GRAPH_NODES) -> Row:
    """The graph above one tensor (or several), inputs before users; the nearest `limit` nodes.

    Returns:
        `rows` with `id`, `inputs` (ids; None where the input is not shown) and the fields of a
        tensor; `total` nodes there are, `cut` how many are not shown.
    """
    roots: list[Tensor] = list(value) if isinstance(value, (list, tuple)) else [value]  # type: ignore[list-item]
    nearest = nodes(roots)
    shown = {id(node): node for node in nearest[:limit]}
    order = _inputs_first(roots, shown)
    ids = {id(node): number for number, node in enumerate(order)}
    rows = []
    for node in order:
        row = tensor(node)
        row["id"] = ids[id(node)]
        row["inputs"] = [ids.get(id(source)) for source in node.inputs[:16]]
        rows.append(row)
    return {"rows": rows, "total": len(nearest), "cut": len(nearest) - len(order)}


def nodes(roots: Sequence[Tensor]) -> list[Tensor]:
    """Every node above the roots, breadth first."""
    found: dict[int, Tensor] = {}
    layer = {id(root): root for root in roots}
    while layer:
        found.update(layer)
        layer = {
            id(operand): operand
            for node in layer.values()
            for operand in node.inputs
            if id(operand) not in found
        }
    return list(found.values())


def _inputs_first(roots: Sequence[Tensor], shown: dict[int, Tensor]) -> list[Tensor]:
    """The shown nodes in an order where inputs precede their users; explicit stack."""
    done: dict[int, Tensor] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            done[id(node)] = node
        elif id(node) in shown and id(node) not in done:
            stack.append((node, True))
            stack.extend(
                (operand, False) for operand in reversed(node.inputs) if id(operand) not in done
            )
    return list(done.values())


def plan(function: object) -> Row | None:
    """The last recorded run of a function as rows, None when none was recorded."""
    record = getattr(function, "records", None)
    return None if not record else run(record)


def run(record: RunRecord) -> Row:
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


def _step(position: int, step: StepRecord) -> Row:
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
        "place": place(step),
        "source": step.source,
        "parts": [
            {"op": printable(part.op), "spec": str(part.spec), "place": place(part)}
            for part in step.parts[:MAX_PARTS]
        ],
    }
