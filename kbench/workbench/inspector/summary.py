"""One line of text about any value: the text/plain of every front end.

    float32[32, 64] 8 kB  [0 |█▄▂▁    | 0.98] mean 0.31 sd 0.2  NaN 3!

A summary never evaluates a symbolic tensor, never calls a user's `repr` and never raises.
"""

from __future__ import annotations

import collections
import sys
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from kbench.engine.inspect import describe, slice_view, sparse_summary
from kbench.workbench.core_types import JsonObject
from kbench.workbench.inspector import sizes
from kbench.workbench.models import keras_models

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor

MAX_LISTED_ELEMENTS = 8
"""Of an array that is shown whole on its line."""
_SCALARS = (bool, int, float, complex, type(None))
_SIZED: tuple[type, ...] = (
    list, tuple, dict, set, frozenset, str, bytes, bytearray, range, collections.deque,
    *sizes.DICT_VIEWS,
)  # fmt: skip
_EDGE_CELLS = 4
"""Rows and columns shown at each end of a matrix; fewer columns where rows would be broken."""


class KnownValue(Struct, frozen=True, eq=False):
    """The value computed for a tensor, an array or compressed rows; or why there is none."""

    value: object = None
    reason: str = ""


NO_VALUE = KnownValue()


def ascii_only() -> bool:
    """True when standard output cannot show block characters."""
    encoding = str(getattr(sys.stdout, "encoding", None) or "utf-8")
    return not encoding.lower().replace("-", "").startswith("utf")


def line(value: object, ascii: bool = False, found: KnownValue = NO_VALUE) -> str:
    """The one-line summary of a tensor, variable, array, function or any other object.

    `found` is the value of a tensor that was computed for it, or why it was not.
    """
    try:
        if found is not NO_VALUE and describe.is_tensor(value):
            text = _tensor_line(value, ascii, found)
        else:
            text = _line(value, ascii)
    except Exception as error:  # a user's object may raise from anything we touch
        text = f"{type_name(value)} (no summary: {type_name(error)})"
    return text.encode("ascii", "backslashreplace").decode("ascii") if ascii else text


def text(value: object, ascii: bool = False, found: KnownValue = NO_VALUE) -> str:
    """The summary line and, up to rank 2, the corners of the values below it."""
    head = line(value, ascii, found)
    try:
        held = describe.held_array(value if found.value is None else found.value)
        if held is None or not 0 < held.ndim <= 2 or not MAX_LISTED_ELEMENTS < held.size:
            return head
        return "\n".join([head, *_table(held, "..." if ascii else "…")])
    except Exception:  # as above: the head has said what can be said
        return head


def type_name(value: object) -> str:
    """The name of a value's class, safe to show."""
    return describe.printable(type(value).__name__)


def _line(value: object, ascii: bool) -> str:
    if describe.is_function(value):
        return f"function {describe.printable(value.name)}  {function_text(value)}"
    if describe.is_tensor(value):
        return _tensor_line(value, ascii)
    held = describe.held_array(value)
    if held is not None:
        return array_line(describe.array(held), ascii, _few(held))
    matrix = sparse_summary.held_matrix(value)
    if matrix is not None:
        return matrix_line(matrix, ascii)
    if type(value) in _SCALARS:
        return f"{type_name(value)} {describe.printable(value)}"
    if keras_models.is_layer(value):
        row = keras_models.facts(value)
        shape = "" if row["shape"] is None else describe.spec_text(row["shape"], row["dtype"])
        return "  ".join(part for part in (row["label"], shape, row["text"]) if part)
    length = safe_length(value)
    return type_name(value) if length is None else f"{type_name(value)} of {length}"


def safe_length(value: object) -> int | None:
    """The length of a builtin collection, by its own class's rule, not by a subclass's."""
    for base in _SIZED:
        if issubclass(type(value), base):
            return int(base.__len__(value))  # type: ignore[attr-defined]
    return None


def array_line(row: JsonObject, ascii: bool = False, values: str | None = None) -> str:
    """The summary line of an array whose statistics are `row`; `values` replaces the range."""
    head = f"{describe.spec_text(row['shape'], row['dtype'])} {describe.size(row['bytes'])}"
    if "refused" in row:
        return f"{head}  {row['refused'] if values is None else values}"
    if row["size"] == 0:
        return f"{head}  empty"
    body = values if values is not None else range_text(row, ascii)
    return "  ".join(part for part in (head, body, flags_text(row)) if part)


def matrix_line(matrix: object, ascii: bool = False) -> str:
    """The summary line of a sparse matrix: how many entries it has, and their range."""
    row = sparse_summary.facts(matrix)
    size = "" if row["bytes"] is None else f" {describe.size(row['bytes'])}"
    parts = (f"{row['spec']}{size}", sparse_summary.count_text(row), entries_text(matrix, ascii))
    return "  ".join(part for part in parts if part)


def entries_text(matrix: object, ascii: bool = False) -> str:
    """The range of a sparse matrix's entries, empty when there is none to tell."""
    row = sparse_summary.statistics(matrix)
    if row is None or "refused" in row or not row["count"]:
        return ""
    return "  ".join(part for part in (range_text(row, ascii), flags_text(row)) if part)


def range_text(row: JsonObject, ascii: bool = False) -> str:
    """`[low |histogram| high] mean sd`, "all zero", or what is left when nothing is finite."""
    if not row["finite"]:
        return "no finite value"
    mark = "~" if row["sampled"] else ""
    if row["zeros"] == row["count"]:
        return f"{mark}all zero"
    low, high = describe.number(row["min"]), describe.number(row["max"])
    if row["min"] == row["max"]:
        return f"{mark}all {low}"
    bars = describe.glyphs(row["histogram"], ascii=ascii)
    mean, deviation = describe.number(row["mean"]), describe.number(row["std"])
    return f"{mark}[{low} |{bars}| {high}] mean {mean} sd {deviation}"


def flags_text(row: JsonObject) -> str:
    """`NaN 3! Inf 1!`, empty when every value read is finite."""
    parts = []
    for label, field in (("NaN", "nan"), ("Inf", "positive_inf"), ("-Inf", "negative_inf")):
        if row.get(field):
            parts.append(f"{label} {row[field]}!")
    if row.get("masked"):
        parts.append(f"masked {row['masked']}")
    return " ".join(parts)


def _few(held: np.ndarray) -> str | None:
    """The values themselves when they are few."""
    if not 0 < held.size <= MAX_LISTED_ELEMENTS:
        return None
    line = held.reshape(1, -1)
    flat = ", ".join(slice_view.window(line, None, (0, 1), (0, MAX_LISTED_ELEMENTS))["cells"][0])
    return flat if held.ndim == 0 else f"[{flat}]"


def _tensor_line(value: Tensor, ascii: bool, found: KnownValue = NO_VALUE) -> str:
    row = describe.tensor(value)
    head = f"{row['kind']} {row['name']}"
    held = describe.held_array(value)
    if held is not None:
        version = f"  v{row['version']}" if "version" in row else ""
        return f"{head} {array_line(describe.array(held), ascii, _few(held))}{version}"
    matrix = sparse_summary.held_matrix(value)
    if matrix is not None:
        return f"{head} {matrix_line(matrix, ascii)}  v{row['version']}"
    parts = [f"{head} {row['spec']}"]
    if found.value is not None:
        parts = [f"{head} {_computed_line(found.value, ascii)}"]
    if row["inputs"]:
        names = ", ".join(source["name"] for source in row["inputs"][:4])
        parts.append(f"{row['op']}({names}{', ...' if row['input_count'] > 4 else ''})")
    parts += [found.reason] if found.reason else []
    if row["last"] is not None and found.value is None:
        word = "last fed" if row["kind"] == "placeholder" else "last"
        last = row["last"]
        parts.append(f"{word} {last.get('text') or last['shape']}")
    return "  ".join(parts)


def _computed_line(value: object, ascii: bool) -> str:
    held = describe.held_array(value)
    if held is None:
        return matrix_line(value, ascii)
    return array_line(describe.array(held), ascii, _few(held))


def function_text(value: Function) -> str:
    """`2 inputs -> 1 output, 3 updates`."""
    counts = (
        _count(len(value.inputs), "input"),
        _count(len(value.outputs), "output"),
        _count(len(value.updates), "update"),
    )
    updates = f", {counts[2]}" if value.updates else ""
    return f"{counts[0]} -> {counts[1]}{updates}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _table(held: np.ndarray, gap: str) -> list[str]:
    """The first and last four rows and columns, right-aligned, in NumPy's width of a line."""
    grid = held.reshape(1, -1) if held.ndim == 1 else held
    rows, cols = _edges(grid.shape[0], _EDGE_CELLS), _edges(grid.shape[1], _EDGE_CELLS)
    cells = [[_table_cell(grid, row, col, gap) for col in cols] for row in rows]
    room = np.get_printoptions()["linewidth"]
    for edge in range(_EDGE_CELLS, 0, -1):
        lines = _table_lines(_outer(cells, edge, gap))
        if len(lines[0]) <= room:
            break
    return lines


def _outer(cells: list[list[str]], edge: int, gap: str) -> list[list[str]]:
    """Rows of cells with `edge` of them left at each end, and a gap for those between."""
    if len(cells[0]) <= 2 * edge:
        return cells
    return [[*row[:edge], gap, *row[-edge:]] for row in cells]


def _table_lines(cells: list[list[str]]) -> list[str]:
    width = max(len(cell) for row in cells for cell in row)
    return ["  " + " ".join(cell.rjust(width) for cell in row) for row in cells]


def _edges(count: int, shown: int) -> list[int | None]:
    if count <= 2 * shown:
        return list(range(count))
    return [*range(shown), None, *range(count - shown, count)]


def _table_cell(grid: np.ndarray, row: int | None, col: int | None, gap: str) -> str:
    if row is None or col is None:
        return gap
    return str(slice_view.window(grid, None, (row, 1), (col, 1))["cells"][0][0])
