"""The user's names as rows: what each is, how large, in which range, and which changed since when.

Rows hold facts, never values of user objects: a `repr`, `len` or `shape` of the user's could raise,
print, or take a minute. Statistics are kept per version of a variable. What has no version (lists,
objects, arrays) is scanned once after each run of code, in pieces of a few milliseconds and off the
program's thread, and counts as changed when its row, or the bytes of a small array, are others.
"""

from __future__ import annotations

import contextlib
import fnmatch
import time
import types
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from kbench.engine.core import fork_safety
from kbench.engine.inspect import describe, sparse_summary
from kbench.workbench.contents import address, entries, frames
from kbench.workbench.core_types import JsonObject
from kbench.workbench.inspector import sizes, summary, variable_rows
from kbench.workbench.models import keras_models
from kbench.workbench.protocol import messages
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.names import VariableRow

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Last
    from kbench.engine.graph.variables import Variable

_SKIPPED = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_SHELL_NAMES = {"In", "Out", "exit", "quit", "get_ipython", "open"}

MAX_NODE_VALUES = 4
"""Of nodes of graphs that were looked at last."""


class _SeenValue(Struct):
    """What the view last saw under a name, and the statistics it computed of that."""

    ident: int
    version: int
    epoch: int
    is_array: bool
    serial: int  # counts the names in the order in which they were first seen
    statistics: dict[bool, tuple[int, JsonObject]] = field(default_factory=dict)
    rows: dict[bool, tuple[int, Last | None, VariableRow, int]] = field(default_factory=dict)
    owner: object = None
    fixed: bool = False  # never another without being rebound, or known by its version
    seen: Any = None  # what a scan has found of it, and after how many runs of code
    scanned: int = -1

    def __post_init__(self) -> None:
        """Hold the object, lest its id be given to another; tensors and arrays only weakly."""
        self.fixed = variable_rows.fixed(self.owner)
        if describe.is_tensor(self.owner) or self.is_array:
            self.owner = weakref.ref(self.owner)

    def same(self, value: object) -> bool:
        """Whether `value` is the object that was seen."""
        if type(self.owner) is weakref.ref:  # not isinstance, which asks the object
            return self.owner() is value
        return self.ident == id(value)


class View:
    """One namespace as seen by the inspector. `epoch` counts the refreshes that found a change."""

    def __init__(
        self, names: dict[str, object], hidden: Mapping[str, object] | None = None
    ) -> None:
        self._names = names
        self._hidden = hidden if hidden is not None else {}
        self._lock = fork_safety.lock()
        self._known: dict[str, _SeenValue] = {}
        self._gone: dict[str, int] = {}
        self._serial = 0
        self._asked: set[str] = set()
        self._weights: weakref.WeakKeyDictionary[Variable, tuple[int, JsonObject]]
        self._weights = weakref.WeakKeyDictionary()
        self.epoch = 0
        self.pushed_epoch = 0
        """Up to which changes have been pushed."""
        self.unnamed_arrays: dict[str, np.ndarray] = {}
        """Arrays that are no names: by an address, for a grid."""
        self._node_values: dict[str, np.ndarray] = {}
        self.widget_values: dict[str, object] = {}
        """What a widget was given that has no name of the user's."""
        self.past: Callable[[str, str], object] | None = None
        """What `x@3` was, given that and what a slash leads to; raises ProtocolError."""
        self.code_runs = 0
        """Raised by the host when code has run that may have written into arrays."""

    def keep_node_value(self, name: str, value: np.ndarray) -> None:
        """Have the value of a node under an address of its own, for a grid; the last few stay."""
        kept = {key: one for key, one in self._node_values.items() if key != name}
        self._node_values = {**dict(list(kept.items())[1 - MAX_NODE_VALUES :]), name: value}

    # ------------------------------------------------------------------ names and changes

    def snapshot(self) -> dict[str, object]:
        """The namespace as it is now, the shell's own names included.

        A variable of Keras 3 is shown as that of K which it holds.
        """
        names = dict(self._names)
        if keras_models.has_variables():
            names = {name: keras_models.variable_of(value) for name, value in names.items()}
        for name, value in self.widget_values.items():  # behind the user's, never in their place
            names.setdefault(name, value)
        return names

    def values(self) -> dict[str, object]:
        """Names that are the user's data, in the order in which they were made."""
        return {name: value for name, value in self.snapshot().items() if self._shown(name, value)}

    def _shown(self, name: object, value: object) -> bool:
        if not isinstance(name, str) or name.startswith("_") or name in _SHELL_NAMES:
            return False
        if name in self._hidden and self._hidden[name] is value:
            return False
        return not issubclass(type(value), _SKIPPED)

    def names(self) -> list[str]:
        return list(self.values())

    def get(self, name: str) -> object:
        """The value of a name, of `name['a'][3].w` inside it, of `name/2/w0` for a model's part.

        Raises:
            ProtocolError: there is none.
        """
        return self.part(name).value

    def part(self, name: str) -> keras_models.Part:
        """As `get`, with what is known of it when it is inside a model or a layer of Keras."""
        snapshot = self.snapshot()
        if name in snapshot:
            return keras_models.Part(name, snapshot[name], None)
        for unnamed in (self.unnamed_arrays, self._node_values):
            if name in unnamed:
                return keras_models.Part(name, unnamed[name], None)
        found = address.parse(name)
        rest = "" if found is None else found.rest
        if found is None:
            raise ProtocolError("name", f"no name {describe.printable(name)}")
        if found.root in snapshot:
            value = snapshot[found.root]
        elif self.past is not None and address.split_cell(found.root)[1] is not None:
            value, rest = self.past(found.root, rest), ""
        else:
            raise ProtocolError("name", f"no name {describe.printable(name)}")
        try:
            inner = entries.resolve(value, found.steps)
            if not rest:
                return keras_models.Part(name, inner, None)
            return replace(keras_models.resolve(inner, rest), address=name)
        except LookupError as error:
            reason = f"no name {describe.printable(name)}: {describe.printable(error)}"
            raise ProtocolError("name", reason) from None

    def refresh(self) -> bool:
        """Find which names were made, rebound, removed or stored to; True when any was."""
        with self._lock:
            values = self.values()
            epoch = self.epoch + 1
            changed = False
            for name, value in values.items():
                known = self._known.get(name)
                version = variable_rows.version(value)
                array = issubclass(type(value), np.ndarray)
                if known is None or not known.same(value):
                    self._serial += known is None
                    serial = self._serial if known is None else known.serial
                    made = _SeenValue(id(value), version, epoch, array, serial, owner=value)
                    self._known[name] = made
                elif known.version != version:
                    known.version, known.epoch = version, epoch
                else:
                    continue
                changed = True
            for name in [known_name for known_name in self._known if known_name not in values]:
                del self._known[name]
                self._asked.discard(name)
                self._gone[name] = epoch
                changed = True
            if changed:
                self.epoch = epoch
            return changed

    def scan(self, seconds: float) -> bool:
        """Find what has changed within its object since code ran last; False: not yet of all."""
        runs, until = self.code_runs, time.monotonic() + seconds
        with self._lock:
            due = [
                (known.scanned, name)
                for name, known in self._known.items()
                if not known.fixed and known.scanned != runs
            ]
        due.sort(key=lambda one: one[0])  # what was scanned longest ago comes first
        for _, name in due:
            self._scan_value(name, self._names.get(name))
            if time.monotonic() > until:
                return False
        return True

    def _scan_value(self, name: str, value: object) -> None:
        """Compare a value that has no version with what it was; an array once per run of code."""
        known, runs = self._known.get(name), self.code_runs
        if known is None or known.fixed or not known.same(value):
            return
        if known.is_array and known.scanned == runs:
            return
        if known.is_array:
            seen = variable_rows.contents(value) if name in self._asked else None
        else:
            seen = self._row(name, value, False)
        with self._lock:
            if known.seen is not None and seen != known.seen:
                self.epoch += 1
                known.epoch = self.epoch
            known.seen, known.scanned = seen, runs

    def changed_since(self, epoch: int) -> list[str]:
        """Names whose row differs from what it was at `epoch`, removed ones included."""
        with self._lock:
            found = [name for name, known in self._known.items() if known.epoch > epoch]
            removed = [
                name for name, at in self._gone.items() if at > epoch and name not in self._known
            ]
            return found + removed

    # ------------------------------------------------------------------ rows

    def rows(
        self,
        names: list[str] | None,
        statistics: bool,
        pattern: str | None = None,
        start: int = 0,
        writing: bool = False,
    ) -> tuple[list[VariableRow], int | None]:
        """Rows of the given names, or of all; a name that is gone has kind 'gone'.

        As many rows from `start` on as one message holds, and where to go on, or None. `writing`:
        code is running that may be writing into arrays.
        """
        self.refresh()
        values = self.values()
        rows: list[VariableRow] = []
        room = messages.MAX_PAGE_BYTES
        for place, name in self._wanted(names, pattern, start):
            if name in values:
                if writing and (known := self._known.get(name)) is not None:
                    known.scanned = -1
                row, length = self._kept_row(name, values[name], statistics)
            elif name in self.unnamed_arrays:
                row = self._row(name, self.unnamed_arrays[name], statistics)
                length = messages.size(row)
            elif (part := self._row_inside(name, statistics)) is not None:
                row, length = part, messages.size(part)
            else:
                row = VariableRow(name=describe.printable(name), key=name, kind="gone")
                length = messages.size(row)
            room -= length + 2
            if room < 0 and rows:
                return rows, place
            rows.append(row)
        return rows, None

    def _wanted(
        self, names: list[str] | None, pattern: str | None, start: int
    ) -> list[tuple[int, str]]:
        """The names from `start` on, each with its place; of all names, a place that never shifts.

        So no page leaves a name out because others were removed since the page before.
        """
        if names is None:
            with self._lock:
                places = [(known.serial, name) for name, known in self._known.items()]
            places.sort()
        else:
            places = list(enumerate(name for name in names if type(name) is str))
        return [
            (place, name)
            for place, name in places
            if place >= start and (not pattern or fnmatch.fnmatchcase(name, pattern))
        ]

    def _kept_row(self, name: str, value: object, statistics: bool) -> tuple[VariableRow, int]:
        """A row and its size; of a tensor the same as before while version and last run are."""
        known = self._known.get(name)
        if known is not None and not known.fixed and not known.is_array:
            self._scan_value(name, value)
            if known.seen is not None:
                return known.seen, messages.size(known.seen)
        if known is None or not describe.is_tensor(value):
            row = self._row(name, value, statistics)
            return row, messages.size(row)
        kept = known.rows.get(statistics)
        if kept is None or kept[0] != known.version or kept[1] is not value.last:
            version, last = known.version, value.last
            row = self._row(name, value, statistics)
            kept = known.rows[statistics] = (version, last, row, messages.size(row))
        return kept[2], kept[3]

    def row_of(self, name: str, value: object, statistics: bool = False) -> VariableRow:
        """The row of a value that may be no name, but inside one."""
        return self._row(name, value, statistics)

    def _row(self, name: str, value: object, statistics: bool) -> VariableRow:
        row: JsonObject = {"name": describe.printable(name), "key": name}
        try:
            row.update(variable_rows.facts(value))
            if row.pop("held", False) and statistics:
                self._ask(name)
                row.update(variable_rows.range_of(self.statistics(name)))
        except Exception as error:  # whatever a user's object does, the other rows must come
            row.update(kind="object", type=summary.type_name(value))
            row["problem"] = summary.type_name(error)
        return VariableRow.built(row)

    def _ask(self, name: str) -> None:
        """From now on an array is scanned, beginning with what it holds now."""
        if name not in self._asked:
            self._asked.add(name)
            if (known := self._known.get(name)) is not None:
                known.scanned = -1

    def parts(
        self, names: list[str], statistics: bool, start: int = 0
    ) -> tuple[list[VariableRow], int | None]:
        """Rows of the parts of Keras' models and layers, `parent` naming whose; paged as `rows`."""
        wanted: list[tuple[str, keras_models.Part]] = []
        for name in names:
            with contextlib.suppress(ProtocolError):
                value = self.get(name)
                if keras_models.is_layer(value):
                    wanted += [(name, part) for part in keras_models.parts(value, name)]
        found: list[VariableRow] = []
        room = messages.MAX_PAGE_BYTES
        for place, (name, part) in enumerate(wanted[max(start, 0) :], max(start, 0)):
            row = self._part_row(part, statistics, name)
            room -= messages.size(row) + 2
            if room < 0 and found:
                return found, place
            found.append(row)
        return found, None

    def _row_inside(self, name: str, statistics: bool) -> VariableRow | None:
        """The row of a part of a model, or of what is inside a value; None where nothing is."""
        try:
            part = self.part(name)
        except ProtocolError:
            return None
        inside = address.parse(name)
        in_model = inside is not None and inside.rest and keras_models.is_layer(part.value)
        if part.weight is not None or in_model:
            return self._part_row(part, statistics)
        return self.row_of(name, part.value, statistics)

    def _part_row(
        self, part: keras_models.Part, statistics: bool, parent: str | None = None
    ) -> VariableRow:
        key = part.address
        row = {"name": describe.printable(key.rpartition("/")[2]), "key": key}
        if part.weight is None:
            row |= {
                **keras_models.facts(part.value, part.owner),
                "code": keras_models.code_of(part),
            }
        else:
            facts = variable_rows.facts(part.value)
            if facts.pop("held", False) and statistics:
                facts.update(variable_rows.range_of(self._weight_statistics(part.weight.variable)))
            row |= {**facts, **keras_models.weight_facts(part)}
        return VariableRow.built(row if parent is None else {**row, "parent": parent})

    def _weight_statistics(self, variable: Variable) -> JsonObject:
        """Statistics of a weight, from the cache while its version is the same."""
        with self._lock:
            known = self._weights.get(variable)
        version = int(variable.version)
        if known is not None and known[0] == version:
            return known[1]
        row = describe.array(describe.held_array(variable))
        with self._lock:
            self._weights[variable] = (version, row)
        return row

    def array(self, name: str) -> np.ndarray:
        """The array that a name holds; ProtocolError when it holds none."""
        value = self.get(name)
        held = describe.held_array(value)
        if sparse_summary.held_matrix(value) is not None:
            reason = f"{describe.printable(name)} is sparse; its toarray(), or K.eval, is an array"
            raise ProtocolError("symbolic", reason)
        if held is None and describe.is_tensor(value):
            last = getattr(value, "last", None)
            if last is not None and last.value is not None:
                return np.asarray(last.value)
            words = "is fed at evaluation" if value.kind == "placeholder" else "is symbolic"
            reason = f"{describe.printable(name)} {words}; K.eval gives its value"
            raise ProtocolError("symbolic", reason)
        if held is None:
            kind = summary.type_name(value)
            reason = f"{describe.printable(name)} is of type {kind}, not an array"
            reason += (
                f"; {describe.printable(name)}.to_numpy() gives one"
                if sizes.is_frame(value)
                else ""
            )
            raise ProtocolError("name", reason)
        return held

    def cells(self, name: str) -> np.ndarray | sparse_summary.Cells | frames.Cells:
        """What a window of a name is read from: its array, the cells of a matrix or a table."""
        value = self.get(name)
        if (table := frames.cells(value)) is not None:
            return table
        matrix = sparse_summary.held_matrix(value)
        is_variable = describe.is_variable(value)
        cells = None if matrix is None else sparse_summary.cells(matrix, is_variable)
        return self.array(name) if cells is None else cells

    def statistics(self, name: str, exact: bool = False) -> JsonObject:
        """Statistics of a name's array, from the cache while its version is the same."""
        self._scan_value(name, self._names.get(name))
        with self._lock:
            known = self._known.get(name)
            stamp = self._stamp(known)
            if known is not None and exact in known.statistics:
                at, row = known.statistics[exact]
                if at == stamp:
                    return row
        row = describe.array(self.array(name), exact)
        if known is not None:
            known.statistics[exact] = (stamp, row)
        return row

    def _stamp(self, known: _SeenValue | None) -> int:
        """What must be unchanged for statistics to hold: a version, or for arrays the epoch."""
        if known is None:
            return -1
        return known.epoch if known.is_array else known.version
