"""Values to files (npy, csv, json, png) and the cells of a session to a script or a notebook.

Everything is written beside the target first and then renamed, so that a failed export leaves
neither half a file nor a lost one.
"""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import describe, slice_view
from kbench.workbench.core_types import JsonObject
from kbench.workbench.session import events
from kbench.workbench.session.cell import Cell

if TYPE_CHECKING:
    from kbench.workbench.session.events import Event

MAX_JSON_ELEMENTS = 1_000_000
"""Of an array as nested lists: some 20 MB of text."""
MAX_PICTURE_PIXELS = 4_096
"""On each side of a picture."""

ENDINGS = ".npy, .csv, .json or .png"
_OTHER_KINDS = {
    "U": "texts", "S": "bytes", "M": "dates", "m": "spans of time", "c": "complex numbers",
    "V": "records",
}  # fmt: skip
"""What arrays are made of that JSON and pictures have no place for, by NumPy's letter."""

SETUP = "import kbench as K\nimport numpy as np"
"""What the prompt has from the start."""


class Stopped(Exception):
    """The writing of a file was given up; nothing is left of it."""


class Progress:
    """How many bytes of a file are written; `stop` ends the writing, from any thread."""

    def __init__(self) -> None:
        self.written = 0
        self.stop = False


def value(
    held: object,
    path: str | os.PathLike[str],
    *,
    grey: bool = False,
    limits: tuple[float, float] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write an array, or the value of a variable, in the format that the file's name says.

    Arguments:
        held: the array or variable.
        path: ends in .npy, .csv, .json or .png.
        grey, limits: of a picture without colours: not as a heat map, and which numbers are
            black and white. Default: the least and the greatest.
        progress: is told, and asked whether to go on.
    Raises:
        ArgumentError: no array, an unknown format, or an array that the format cannot hold.
        Stopped: given up.
    """
    target = Path(path)
    array = describe.held_array(held)
    if array is None:
        raise ArgumentError(f"{type(held).__name__} holds no array; K.eval gives a tensor's value")
    if array.dtype.hasobject:
        raise ArgumentError("an array of Python objects is written to no file")
    png = partial(_png, grey=grey, limits=limits)
    writers: dict[str, Callable[[_Sink, np.ndarray], None]]
    writers = {".npy": _npy, ".csv": _csv, ".json": _json, ".png": png}
    if target.suffix.lower() not in writers:
        raise ArgumentError(f"{target.name or 'a file'}: its name must end in {ENDINGS}")
    write = writers[target.suffix.lower()]
    return atomically(target, lambda stream: write(_Sink(stream, progress), array))


def script(cells: Iterable[Cell], path: str | os.PathLike[str]) -> Path:
    """Write the cells as a Python script that runs: what ended with an error, and what only a shell
    understands, becomes a comment."""
    parts = [f"{SETUP}\n"]
    for cell in _ended(cells):
        runs = cell.status != "error" and _is_python(cell.code)
        code = cell.code.rstrip() if runs else _commented(cell.code)
        note = "" if cell.status in ("ok", "past") else f"  ({cell.status})"
        parts.append(f"# In [{cell.count if cell.count is not None else ' '}]{note}\n{code}\n")
    text = "\n".join(parts).encode("utf-8", "backslashreplace")
    return atomically(Path(path), lambda stream: stream.write(text))


def notebook(cells: Iterable[Cell], path: str | os.PathLike[str]) -> Path:
    """Write the cells and what they showed as a Jupyter notebook, format 4.5."""
    rows = [_setup_cell(), *(_notebook_cell(cell) for cell in _ended(cells))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": rows,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    text = json.dumps(content, indent=1).encode("utf-8") + b"\n"
    return atomically(Path(path), lambda stream: stream.write(text))


def atomically(target: Path, write: Callable[[BinaryIO], object]) -> Path:
    """Write beside the target, then rename."""
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            write(stream)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return target


# ------------------------------------------------------------------ values


class _Sink:
    """A stream that counts, and that ends the writing when asked to."""

    def __init__(self, stream: BinaryIO, progress: Progress | None) -> None:
        self._stream = stream
        self._progress = progress or Progress()

    def write(self, data: bytes) -> int:
        if self._progress.stop:
            raise Stopped
        count = self._stream.write(data)
        self._progress.written += count
        return count

    def flush(self) -> None:
        self._stream.flush()


def _npy(stream: _Sink, array: np.ndarray) -> None:
    np.save(stream, array, allow_pickle=False)


def _csv(stream: _Sink, array: np.ndarray) -> None:
    """Rank 2 as rows; any other rank as one line per element, its index first."""
    lines = _Lines(stream)
    writer = csv.writer(lines)
    if array.ndim <= 2:
        for row in array.reshape(1, -1) if array.ndim < 2 else array:
            writer.writerow([repr(number) for number in row.tolist()])
        return
    writer.writerow([*(f"axis {axis}" for axis in range(array.ndim)), "value"])
    for index in np.ndindex(array.shape):
        writer.writerow([*index, repr(array[index].item())])


class _Lines:
    """Text written by `csv` to a stream of bytes."""

    def __init__(self, stream: _Sink) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(text.encode("utf-8", "backslashreplace"))


def _json(stream: _Sink, array: np.ndarray) -> None:
    if array.size > MAX_JSON_ELEMENTS:
        raise ArgumentError(
            f"more than {MAX_JSON_ELEMENTS:,} elements are not written as JSON; use .npy"
        )
    if array.dtype.kind not in "biuf":
        raise ArgumentError(f"{_OTHER_KINDS[array.dtype.kind]} are not written as JSON; use .npy")
    row = {"shape": list(array.shape), "dtype": array.dtype.name, "values": _jsonable(array)}
    stream.write(json.dumps(row, allow_nan=False).encode("utf-8"))


def _jsonable(array: np.ndarray) -> object:
    """Nested lists; JSON has no NaN and no infinity, so that these are written by name."""
    if array.dtype.kind != "f" or bool(np.isfinite(array).all()):
        return array.tolist()
    named = array.astype(object)
    bad = ~np.isfinite(array)
    named[bad] = [describe.number(number) for number in array[bad]]
    return named.tolist()


def _png(stream: _Sink, array: np.ndarray, grey: bool, limits: tuple[float, float] | None) -> None:
    """Rank 2 as a heat map, one pixel an element; rank 3 with 1, 3 or 4 channels last as image."""
    if array.dtype.kind not in "biuf":
        raise ArgumentError(
            f"{_OTHER_KINDS[array.dtype.kind]} cannot be shown as a picture; use .npy"
        )
    picture = array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array
    colours = picture.ndim == 3 and picture.shape[-1] in (3, 4)
    if not (picture.ndim == 2 or colours) or 0 in picture.shape:
        raise ArgumentError(
            f"shape {list(array.shape)} cannot be shown as a picture; it needs rows and "
            "columns, and may have 1, 3 or 4 channels after them; .npy takes any shape"
        )
    if max(picture.shape[:2]) > MAX_PICTURE_PIXELS:
        raise ArgumentError(f"a picture has at most {MAX_PICTURE_PIXELS} pixels a side")
    from matplotlib.image import imsave

    save = partial(imsave, cast(BinaryIO, stream), format="png")
    if colours and picture.dtype == np.uint8:
        save(picture)
        return
    values = picture.astype(np.float64)
    finite = values[np.isfinite(values)]
    if limits is None:
        limits = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if colours:
        values = np.nan_to_num(values, nan=limits[0], posinf=limits[1], neginf=limits[0])
        save(slice_view.scaled(values, limits))
    else:
        shades = "gray" if grey else "viridis"
        save(values, vmin=limits[0], vmax=limits[1], cmap=shades)


# ------------------------------------------------------------------ cells


def _ended(cells: Iterable[Cell]) -> list[Cell]:
    """What ran; of a cell that a restart has repeated, the repetition."""
    listed = list(cells)
    repeated = {cell.replay_of for cell in listed}
    ran = [cell for cell in listed if cell.status not in ("queued", "withdrawn")]
    return [cell for cell in ran if cell.ident not in repeated]


def _is_python(code: str) -> bool:
    try:
        compile(code, "<cell>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _commented(code: str) -> str:
    return "\n".join(f"# {line}" for line in code.rstrip().splitlines())


def _setup_cell() -> JsonObject:
    return {**_code_cell("setup", f"{SETUP}\n%load_ext kbench", None), "outputs": []}


def _code_cell(ident: str, code: str, count: int | None) -> JsonObject:
    return {
        "cell_type": "code",
        "id": ident,
        "execution_count": count,
        "metadata": {},
        "source": code.splitlines(keepends=True),
    }


def _notebook_cell(cell: Cell) -> JsonObject:
    outputs = [
        output for output in (_output(event) for event in cell.outputs) if output is not None
    ]
    found = {**_code_cell(f"cell-{cell.ident}", cell.code, cell.count), "outputs": outputs}
    if cell.status == "error":  # so that "run all" goes on behind it
        found["metadata"] = {"tags": ["raises-exception"]}
    return found


def _output(event: Event) -> JsonObject | None:
    if isinstance(event, events.Stream):
        name = event.name if event.name in ("stdout", "stderr") else "stderr"
        lines = event.text.splitlines(keepends=True)
        return {"output_type": "stream", "name": name, "text": lines}
    if isinstance(event, events.Result):
        shown = {"data": event.data, "metadata": {}}
        if event.count is None:
            return {"output_type": "display_data", **shown}
        return {"output_type": "execute_result", "execution_count": event.count, **shown}
    if isinstance(event, events.Error):
        return {
            "output_type": "error",
            "ename": event.name,
            "evalue": event.value,
            "traceback": event.traceback,
        }
    return None
