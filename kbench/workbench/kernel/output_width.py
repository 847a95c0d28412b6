"""Has libraries break their lines where the front end does: its width comes with each cell.

A front end sends the columns of its transcript in the metadata of a request to run a cell. Before
the cell runs they go to NumPy, pandas, Keras, IPython's printer, and to whoever reads COLUMNS
(argparse; rich, at its first use). What the user has set stays. A library that the cell itself
imports is told when a value is shown.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.workbench.core_types import JsonObject
from kbench.workbench.session.cell import METADATA_FIELD

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import Kernel, Shell

MIN_COLUMNS = 20
"""Narrower lines are broken by the front end: libraries show nothing sensible in them."""
_SUMMARY_GAP_COLUMNS = 2
"""Between two columns of a model's summary."""
_SUMMARY_PROBE_COLUMNS = 1_000
"""Of a summary that is drawn to see how wide its columns are: no name of a layer is as long."""
_SUMMARY_MARK = "_kbench_fits"


class OutputWidth:
    """The width that a shell's libraries have been told."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._columns = 0  # of a printed row, 0 while no front end has told
        self._set: dict[str, object] = {}  # what was told last, by setting

    def follow(self) -> None:
        """Take over the width that came with the cell that is about to run."""
        kernel: Kernel | None = getattr(self._shell, "kernel", None)
        if kernel is None:
            return
        metadata: JsonObject = kernel.get_parent().get("metadata") or {}
        columns = metadata.get(METADATA_FIELD)
        if type(columns) is int and columns > 0:
            self.tell(columns)

    def tell(self, columns: int) -> None:
        """Rows have so many columns from now on; the first of a value begin with `Out[3]: `."""
        self._columns = max(columns, MIN_COLUMNS)
        self._put_variable("COLUMNS")
        self._put_variable("JUPYTER_COLUMNS")  # rich reads this one in a kernel
        self.tell_libraries()

    def tell_libraries(self) -> None:
        """Tell those that are loaded; called again before a value is shown."""
        if not self._columns:
            return
        label = len(f"Out[{self._shell.execution_count}]: ")
        room = max(self._columns - label, MIN_COLUMNS)
        printer: Any = self._shell.display_formatter.formatters["text/plain"]
        self._put(
            "printer",
            79,
            room,
            lambda: printer.max_width,
            lambda n: setattr(printer, "max_width", n),
        )
        self._put(
            "numpy",
            75,
            room,
            lambda: np.get_printoptions()["linewidth"],
            lambda n: np.set_printoptions(linewidth=n),
        )
        if (pandas := _loaded("pandas", "set_option")) is not None:
            self._put(
                "pandas",
                80,
                room,
                lambda: pandas.get_option("display.width"),
                lambda n: pandas.set_option("display.width", n),
            )
        if (network := _loaded("keras.engine.network", "print_layer_summary")) is not None:
            self._fit_summary(network)

    def _put(
        self,
        name: str,
        default: int,
        value: int,
        read: Callable[[], object],
        write: Callable[[int], object],
    ) -> None:
        """Write a setting that is as the library or this class has left it."""
        if read() in (default, self._set.get(name)):
            write(value)
            self._set[name] = value

    def _put_variable(self, name: str) -> None:
        if os.environ.get(name) in (None, self._set.get(name)):
            self._set[name] = os.environ[name] = str(self._columns)

    def _fit_summary(self, network: Any) -> None:
        """Have `model.summary()` of Keras 2 give each column the room that its entries take."""
        original = network.print_layer_summary
        if hasattr(original, _SUMMARY_MARK):
            return

        def summary(
            model: object,
            line_length: int | None = None,
            positions: list[float] | None = None,
            print_fn: Callable[[str], object] | None = None,
        ) -> object:
            if line_length is None and positions is None:
                with contextlib.suppress(Exception):  # as Keras draws it, then
                    line_length, positions = _summary_columns(original, model)
            return original(model, line_length, positions, print_fn)

        setattr(summary, _SUMMARY_MARK, True)
        network.print_layer_summary = summary


def _loaded(module: str, attribute: str) -> Any:
    """A module that is loaded as far as to have the attribute."""
    found = sys.modules.get(module)
    return found if hasattr(found, attribute) else None


def _summary_columns(draw: Callable[..., object], model: object) -> tuple[int, list[float]]:
    """Length of a line, and where each column ends, of a summary that cuts no entry."""
    rows: list[str] = []
    draw(model, _SUMMARY_PROBE_COLUMNS, None, rows.append)
    heading = rows[2]
    starts = [match.start() for match in re.finditer(r"(?:^|(?<=  ))\S", heading)]
    table = [row for row in rows[2:] if row[:1] not in ("_", "=", "") and len(row) > starts[-1]]
    ends: list[float] = []
    for at, start in enumerate(starts):
        stop = starts[at + 1] if at + 1 < len(starts) else None
        widest = max(len(row[start:stop].rstrip()) for row in table)
        ends.append((ends[-1] if ends else 0) + widest + _SUMMARY_GAP_COLUMNS)
    return int(ends[-1]), ends


def install(shell: Shell) -> OutputWidth:
    """Follow the width that front ends tell with the cells of this shell."""
    width = OutputWidth(shell)
    shell.events.register("pre_run_cell", lambda _info: width.follow())
    formatter = shell.display_formatter
    show = formatter.format

    def show_at_width(value: object, *arguments: object, **named: object) -> object:
        width.tell_libraries()
        return show(value, *arguments, **named)

    formatter.format = show_at_width
    return width
