"""The inspector's verbs about one array: its cells, its statistics, what is in it, to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kbench.engine.inspect import curve_view, image_view, slice_view
from kbench.engine.runtime import config
from kbench.workbench.analysis import array_search, conditions
from kbench.workbench.contents import frames
from kbench.workbench.core_types import JsonObject
from kbench.workbench.export import export_task
from kbench.workbench.inspector import namespace
from kbench.workbench.protocol import messages
from kbench.workbench.protocol.arrays import (
    Curve,
    CurveReply,
    Export,
    Exporting,
    ExportReply,
    Find,
    FindReply,
    Image,
    ImageReply,
    Stats,
    StatsReply,
    Window,
    WindowReply,
)
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.question import Served


class ArrayVerbs:
    """Serves the names of one view."""

    def __init__(self, view: namespace.View) -> None:
        self._view = view
        self._exports = export_task.Exports()

    def served(self) -> list[Served]:
        """The questions that are answered here."""
        return [
            Window.served_by(self._window),
            Stats.served_by(self._stats),
            Image.served_by(self._image),
            Curve.served_by(self._curve),
            Find.served_by(self._find),
            Export.served_by(self._export),
            Exporting.served_by(self._exporting),
        ]

    def _window(self, asked: Window) -> WindowReply:
        """The options are those of `slice_view.window`.

        Where the cells asked for do not fit a reply there are fewer rows, as `rows` says.
        """
        options = asked.given()
        name = options.pop("name")
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
        found = _fitting(found)
        if isinstance(held, frames.Cells):
            rows, cols = held.names(tuple(found["rows"][:2]), tuple(found["cols"][:2]))
            found |= {"row_names": rows, "col_names": cols}
        return WindowReply(name=name, **found)

    def _stats(self, asked: Stats) -> StatsReply:
        return StatsReply(name=asked.name, **self._view.statistics(asked.name, asked.exact))

    def _image(self, asked: Image) -> ImageReply:
        """The options are those of `image_view.picture`.

        The channels are where the setting `image_data_format` says.
        """
        options = asked.given()
        name, size = options.pop("name"), options.pop("size")
        if len(size) != 2 or not all(
            type(pixels) is int and 1 <= pixels <= 4096 for pixels in size
        ):
            raise ProtocolError("argument", "image: size must be two integers from 1 to 4096")
        if "limits" in options:
            options["limits"] = _pair("image", "limits", options["limits"])
        _check_index("image", options.get("index", []))
        array, layout = self._view.array(name), config.image_data_format()
        found = image_view.picture(array, (size[0], size[1]), layout, **options)
        return ImageReply(name=name, **found)

    def _curve(self, asked: Curve) -> CurveReply:
        """The options are those of `curve_view.curve`."""
        array, index = self._view.array(asked.name), asked.index
        _check_index("curve", index or [])
        found = curve_view.curve(array, asked.stretches, index, asked.axis)
        return CurveReply(name=asked.name, **found)

    def _find(self, asked: Find) -> FindReply:
        """The end of the array is followed by its start. A reply tells of one piece."""
        array, after = self._view.array(asked.name), asked.after
        reason = array_search.unsearchable_reason(array)
        if reason is not None:
            raise ProtocolError("dtype", reason)
        try:
            condition = conditions.parse(asked.what)
            begin = asked.start or 0 if after is None else array_search.position_after(array, after)
        except (ValueError, TypeError) as error:
            raise ProtocolError("argument", f"find: {error}") from None
        todo = array.size if asked.left is None else max(asked.left, 0)
        index, at, rest = array_search.search_chunk(array, condition, max(begin, 0), todo)
        more = index is None and rest > 0
        return FindReply(
            name=asked.name,
            what=condition.text,
            words=condition.words,
            index=index,
            size=array.size,
            rest=[at, rest] if more else None,
        )

    def _export(self, asked: Export) -> ExportReply:
        array, limits = self._view.array(asked.name), asked.limits
        if asked.axes is not None:
            for given in (asked.axes, asked.index or []):
                _check_index("export", given)
            array = export_task.part_of(array, asked.index or [0] * array.ndim, asked.axes)
        target = Path(asked.path).expanduser()
        if not asked.replace and target.exists():
            return ExportReply(name=asked.name, exists=str(target.resolve()))
        options = {"grey": asked.grey, "limits": limits and _pair("export", "limits", limits)}
        written = self._exports.write(array, asked.path, options, asked.wait)
        return ExportReply(name=asked.name, **written)

    def _exporting(self, asked: Exporting) -> ExportReply:
        return ExportReply(**self._exports.state(asked.job, asked.stop))


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
