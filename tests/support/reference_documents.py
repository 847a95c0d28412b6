"""The cells of the reference documents as data, and the comparison with what they show."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "reference"
DOCUMENTS = ("backend_functions_notebook", "keras2_backend_notebook", "keras1_backend_docs")
_NAMES = {
    "array": np.array,
    "np": np,
    "dtype": np.dtype,
    **{name: np.dtype(name) for name in ("int32", "int64", "float16", "float32", "float64")},
}


@dataclass(frozen=True)
class Cell:
    """One cell: its code, and what is known of its result."""

    label: str
    code: str
    shows: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    raises: str | None = None
    confirm: str | None = None

    @property
    def parts(self) -> tuple[str, str | None]:
        """The statements, and the expression at the end that a notebook would show."""
        body = ast.parse(self.code).body
        if not body or not isinstance(body[-1], ast.Expr):
            return self.code, None
        last = ast.get_source_segment(self.code, body[-1])
        lines = self.code.splitlines()[: body[-1].lineno - 1]
        return "\n".join(lines), last

    def complaint(self, shown: str | None) -> str | None:
        """What is wrong with the text of the result, None when it is as the document says."""
        if self.shows is None and self.shape is None:
            return None
        if shown is None:
            return f"{self.label}: nothing was shown"
        actual = value(shown)
        if self.shape is not None:
            right = (np.shape(actual), str(np.asarray(actual).dtype)) == (self.shape, self.dtype)
            return None if right else f"{self.label}: {shown} is not {self.dtype}{self.shape}"
        wanted = value(self.shows or "")
        if _same(actual, wanted):
            return None
        return f"{self.label}: {shown} where the document shows {self.shows}"


def _same(actual: Any, wanted: Any) -> bool:
    """Equal in value and dtype; a number may come as an array of rank 0, as NumPy prints it."""
    if isinstance(wanted, (bool, int, float)):
        kinds = np.asarray(actual).dtype.kind, np.asarray(wanted).dtype.kind
        return np.shape(actual) == () and kinds[0] == kinds[1] and bool(actual == wanted)
    if isinstance(wanted, np.ndarray):
        same_kind = isinstance(actual, np.ndarray) and actual.dtype == wanted.dtype
        return same_kind and np.array_equal(actual, wanted)
    return type(actual) is type(wanted) and bool(actual == wanted)


def value(text: str) -> Any:
    """The value that a printed Python or NumPy value stands for."""
    return eval(text.strip(), {"__builtins__": {}}, {**_NAMES, "False": False, "True": True})


def cells(document: str) -> list[Cell]:
    """The cells of one document, in order."""
    table = tomllib.loads((FOLDER / f"{document}.toml").read_text(encoding="utf-8"))
    return [_cell(entry) for entry in table["cell"]]


def _cell(entry: dict[str, Any]) -> Cell:
    known = {name: entry.get(name) for name in ("shows", "dtype", "raises", "confirm")}
    shape = tuple(entry["shape"]) if "shape" in entry else None
    return Cell(entry["label"], entry["code"].strip(), shape=shape, **known)
