"""The inspector's verbs about one array: its cells, its statistics, what is in it, to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kbench.engine.inspect import image_view, slice_view
from kbench.engine.runtime import config
from kbench.workbench.analysis import array_search, conditions
from kbench.workbench.core_types import JsonObject
from kbench.workbench.export import export_task
from kbench.workbench.inspector import namespace
from kbench.workbench.protocol import messages
from kbench.workbench.protocol.messages import ProtocolError


class ArrayVerbs:
    """Serves the names of one view."""

    def __init__(self, view: namespace.View) -> None:
        self._view = view
        self._exports = export_task.Exports()

    def serve_window(self, name: str, **options: Any) -> JsonObject:
        """The formatted cells of a slice: the options of `slice_view.window`.

        `heat` is one text a row, a digit per cell, "-" where not finite. Where the cells asked for
        do not fit a reply there are fewer rows, as `rows` says.
        """
        held = self._view.cells(name)
        for key in ("rows", "cols", "limits"):
            if key in options:
                options[key] = _pair("window", key, options[key])
        _check_index("window", options.get("index", []))
        found = slice_view.window(held, **options)
        found["heat"] = [
            "".join("-" if digit is None else str(digit) for digit in line)
            for line in found["heat"]
        ]
        return {"name": name, **_fitting(found)}

    def serve_stats(self, name: str, exact: bool = False) -> JsonObject:
        """Statistics of one name; `exact` reads a large array whole."""
        return {"name": name, **self._view.statistics(name, exact)}

    def serve_image(self, name: str, size: list[int], **options: Any) -> JsonObject:
        """One picture of an array: the options of `image_view.picture`.

        The channels are where the setting `image_data_format` says.
        """
        if len(size) != 2 or not all(
            type(pixels) is int and 1 <= pixels <= 4096 for pixels in size
        ):
            raise ProtocolError("argument", "image: size must be two integers from 1 to 4096")
        if "limits" in options:
            options["limits"] = _pair("image", "limits", options["limits"])
        _check_index("image", options.get("index", []))
        array, layout = self._view.array(name), config.image_data_format()
        found = image_view.picture(array, (size[0], size[1]), layout, **options)
        return {"name": name, **found}

    def serve_find(
        self,
        name: str,
        what: str = "nan",
        after: list[int] | None = None,
        start: int | None = None,
        left: int | None = None,
    ) -> JsonObject:
        """Index of the next element that meets a condition (see `conditions`), behind `after`.

        The end of the array is followed by its start. A reply tells of one piece: where that is
        not the whole array, and nothing was found, `rest` holds the `start` and the elements
        `left` to go on with.
        """
        array = self._view.array(name)
        reason = array_search.unsearchable_reason(array)
        if reason is not None:
            raise ProtocolError("dtype", reason)
        try:
            condition = conditions.parse(what)
            begin = start or 0 if after is None else array_search.position_after(array, after)
        except (ValueError, TypeError) as error:
            raise ProtocolError("argument", f"find: {error}") from None
        todo = array.size if left is None else max(left, 0)
        index, at, rest = array_search.search_chunk(array, condition, max(begin, 0), todo)
        data = {"name": name, "what": condition.text, "words": condition.words, "index": index}
        more = index is None and rest > 0
        return {**data, "size": array.size, "rest": [at, rest] if more else None}

    def serve_export(
        self,
        name: str,
        path: str,
        index: list[int] | None = None,
        axes: list[int] | None = None,
        limits: list[float] | None = None,
        grey: bool = False,
        replace: bool = True,
        wait: bool = True,
    ) -> JsonObject:
        """Write a name's array to a file whose name says the format.

        With `index` and `axes` only the part along these axes. Where the file `exists` and is not
        to be replaced, nothing is written. Without `wait` a long one goes on as a `job`.
        """
        array = self._view.array(name)
        if axes is not None:
            for given in (axes, index or []):
                _check_index("export", given)
            array = export_task.part_of(array, index or [0] * array.ndim, axes)
        target = Path(path).expanduser()
        if not replace and target.exists():
            return {"name": name, "exists": str(target.resolve())}
        options = {"grey": grey, "limits": limits and _pair("export", "limits", limits)}
        return {"name": name, **self._exports.write(array, path, options, wait)}

    def serve_exporting(self, job: int, stop: bool = False) -> JsonObject:
        """How far an export is; `stop` gives it up."""
        return self._exports.state(job, stop)


def _fitting(found: JsonObject) -> JsonObject:
    """The window with as many of its first rows as one reply holds, or of one row's columns."""
    room = messages.MAX_PAGE_BYTES - messages.size({**found, "cells": [], "heat": []})
    cells, fitting = found["cells"], 0
    while cells and _length(cells[0]) > room:
        cells = [line[: len(line) // 2] for line in cells[:1]]
    for line in cells:
        room -= _length(line)
        if room < 0:
            break
        fitting += 1
    cols = len(cells[0]) if cells else found["cols"][1] - found["cols"][0]
    cut: JsonObject = {
        "cells": cells[:fitting],
        "heat": [digits[:cols] for digits in found["heat"][:fitting]],
    }
    for key, count in (("rows", fitting), ("cols", cols)):
        start, _, total = found[key]
        cut[key] = [start, start + count, total]
    return {**found, **cut}


def _length(line: list[str]) -> int:
    """Bytes of a row in a reply: the texts, and a digit for each."""
    return messages.size({"": line}) + len(line)


def _check_index(verb: str, index: list[Any]) -> None:
    if not all(type(entry) is int for entry in index):
        raise ProtocolError("argument", f"{verb}: index must hold integers")


def _pair(verb: str, key: str, value: list[Any]) -> tuple[Any, Any]:
    if len(value) != 2 or not all(type(number) in (int, float) for number in value):
        raise ProtocolError("argument", f"{verb}: {key} must be two numbers")
    return value[0], value[1]
