"""The user's names as rows: what each is, how large, in which range, and which changed since when.

Rows hold facts, never values of user objects: a `repr`, `len` or `shape` of the user's could raise,
print, or take a minute. Statistics are kept per version of a variable; arrays, which have none, are
read again only when a front end asks for them.
"""

from __future__ import annotations

import fnmatch
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbench.engine import describe, entries
from kbench.workbench import protocol, summary
from kbench.workbench.protocol import ProtocolError

_SKIPPED = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_SHELL_NAMES = {"In", "Out", "exit", "quit", "get_ipython", "open"}
_NUMBERS = (bool, int, float, complex, type(None))
_FIND_BLOCK = 1 << 20
_ITEM = re.compile(r"(.+)\[(\d{1,9})\]", re.DOTALL)
_ITEMS = 8
_TESTS: dict[str, Callable[[Any], NDArray[np.bool_]]] = {
    "nan": np.isnan,
    "inf": np.isinf,
    "bad": lambda block: ~np.isfinite(block),
}


@dataclass
class _Known:
    """What the view last saw under a name, and the statistics it computed of that."""

    ident: int
    version: int
    epoch: int
    turn: int
    is_array: bool
    statistics: dict[bool, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    rows: dict[bool, tuple[int, Any, dict[str, Any], int]] = field(default_factory=dict)
    owner: Any = None

    def __post_init__(self) -> None:
        """Hold the object, lest its id be given to another; tensors and arrays only weakly."""
        if describe.is_tensor(self.owner) or self.is_array:
            self.owner = weakref.ref(self.owner)

    def same(self, value: object) -> bool:
        """Whether `value` is the object that was seen."""
        if type(self.owner) is weakref.ref:  # not isinstance, which asks the object
            return self.owner() is value
        return self.ident == id(value)


class View:
    """One namespace as seen by the inspector. `epoch` counts the refreshes that found a change."""

    def __init__(self, names: dict[str, Any], hidden: Mapping[str, Any] | None = None) -> None:
        self._names = names
        self._hidden = hidden if hidden is not None else {}
        self._lock = threading.RLock()
        self._known: dict[str, _Known] = {}
        self._gone: dict[str, int] = {}
        self._asked: set[str] = set()
        self.epoch = 0
        self.told = 0
        self.turn = 0  # raised by the host when code has run that may have written into arrays

    # ------------------------------------------------------------------ names and changes

    def snapshot(self) -> dict[str, Any]:
        """The namespace as it is now, the shell's own names included."""
        return dict(self._names)

    def values(self) -> dict[str, Any]:
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

    def get(self, name: str) -> Any:
        """The value of a name, or of `name[3]` for an item of a list; ProtocolError if none."""
        snapshot = self.snapshot()
        if name in snapshot:
            return snapshot[name]
        item = _ITEM.fullmatch(name)
        if item is not None:
            values: Any = snapshot.get(item.group(1))
            if type(values) in (list, tuple) and int(item.group(2)) < len(values):
                return values[int(item.group(2))]
        raise ProtocolError("name", f"no name {describe.printable(name)}")

    def refresh(self) -> bool:
        """Look which names were made, rebound, removed or stored to; True when any was."""
        with self._lock:
            values = self.values()
            epoch = self.epoch + 1
            changed = False
            for name, value in values.items():
                known = self._known.get(name)
                version = int(value.version) if describe.is_variable(value) else 0
                array = issubclass(type(value), np.ndarray)
                if known is None or not known.same(value):
                    made = _Known(id(value), version, epoch, self.turn, array, owner=value)
                    self._known[name] = made
                elif known.version != version or self._maybe_written(name, known):
                    known.version, known.epoch, known.turn = version, epoch, self.turn
                else:
                    continue
                changed = True
            for name in [one for one in self._known if one not in values]:
                del self._known[name]
                self._asked.discard(name)
                self._gone[name] = epoch
                changed = True
            if changed:
                self.epoch = epoch
            return changed

    def _maybe_written(self, name: str, known: _Known) -> bool:
        """An array has no version; one that is being watched counts as changed by every turn."""
        return known.is_array and known.turn != self.turn and name in self._asked

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
    ) -> tuple[list[dict[str, Any]], int | None]:
        """Rows of the given names, or of all; a name that is gone has kind 'gone'.

        As many rows from `start` on as one message holds, and where to go on, or None.
        """
        self.refresh()
        values = self.values()
        wanted = list(values) if names is None else [one for one in names if type(one) is str]
        if pattern:
            wanted = [one for one in wanted if fnmatch.fnmatchcase(one, pattern)]
        rows: list[dict[str, Any]] = []
        room = protocol.PAGE
        for place, name in enumerate(wanted[max(start, 0) :], max(start, 0)):
            if name in values:
                row, length = self._kept_row(name, values[name], statistics)
            else:
                row = {"name": describe.printable(name), "key": name, "kind": "gone"}
                length = protocol.size(row)
            room -= length + 2
            if room < 0 and rows:
                return rows, place
            rows.append(row)
        return rows, None

    def _kept_row(self, name: str, value: Any, statistics: bool) -> tuple[dict[str, Any], int]:
        """A row and its size; of a tensor the same as before while version and last run are."""
        known = self._known.get(name)
        if known is None or not describe.is_tensor(value):
            row = self._row(name, value, statistics)
            return row, protocol.size(row)
        kept = known.rows.get(statistics)
        if kept is None or kept[0] != known.version or kept[1] is not value.last:
            version, last = known.version, value.last
            row = self._row(name, value, statistics)
            kept = known.rows[statistics] = (version, last, row, protocol.size(row))
        return kept[2], kept[3]

    def _row(self, name: str, value: Any, statistics: bool) -> dict[str, Any]:
        row: dict[str, Any] = {"name": describe.printable(name), "key": name}
        try:
            row.update(_facts(value))
            if row.pop("held", False) and statistics:
                self._asked.add(name)
                row.update(_range(self.statistics(name)))
        except Exception as error:  # whatever a user's object does, the other rows must come
            row.update(kind="object", type=summary.type_name(value))
            row["problem"] = summary.type_name(error)
        return row

    def array(self, name: str) -> NDArray[Any]:
        """The array that a name holds; ProtocolError when it holds none."""
        value = self.get(name)
        held = describe.held_array(value)
        if entries.held_matrix(value) is not None:
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
            reason = f"{describe.printable(name)} is {summary.type_name(value)}, no array"
            raise ProtocolError("name", reason)
        return held

    def cells(self, name: str) -> Any:
        """What a window of a name is read from: its array, or the cells of a sparse matrix."""
        value = self.get(name)
        matrix = entries.held_matrix(value)
        cells = None if matrix is None else entries.cells(matrix, describe.is_variable(value))
        return self.array(name) if cells is None else cells

    def statistics(self, name: str, exact: bool = False) -> dict[str, Any]:
        """Statistics of a name's array, from the cache while its version is the same."""
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

    def _stamp(self, known: _Known | None) -> int:
        """What must be unchanged for statistics to hold: a version, or for arrays the epoch."""
        if known is None:
            return -1
        return known.epoch if known.is_array else known.version


def _facts(value: Any) -> dict[str, Any]:
    """Kind, shape, dtype and bytes; `held` when there is an array to compute statistics of."""
    if describe.is_function(value):
        return {"kind": "function", "type": "Function", "text": summary.function_text(value)}
    if describe.is_tensor(value):
        row = describe.tensor(value)
        keep = ("kind", "op", "shape", "dtype", "bytes", "place", "last", "version")
        facts = {key: row[key] for key in keep if key in row}
        facts["symbol"] = row["name"]
        matrix = entries.held_matrix(value)
        if matrix is not None:
            return {**facts, **_matrix_facts(matrix)}
        return {**facts, "held": describe.held_array(value) is not None}
    held = describe.held_array(value)
    if held is not None:
        kind = "array" if issubclass(type(value), np.ndarray) else "scalar"
        facts = {"kind": kind, "shape": list(held.shape), "dtype": held.dtype.name}
        return {**facts, "bytes": int(held.nbytes), "held": True}
    matrix = entries.held_matrix(value)
    if matrix is not None:
        return {"kind": "array", **_matrix_facts(matrix)}
    kind_of = type(value)
    if kind_of in _NUMBERS:
        text = describe.number(value) if kind_of in (int, float) else str(value)
        return {"kind": "scalar", "type": kind_of.__name__, "text": text}
    length = summary.safe_length(value)
    if length is not None:
        row = {"kind": "sequence", "type": summary.type_name(value), "length": length}
        return {**row, **_items(value)}
    return {"kind": "object", "type": summary.type_name(value), "bytes": _shallow(value)}


def _matrix_facts(matrix: Any) -> dict[str, Any]:
    row = entries.facts(matrix)
    known = {key: row[key] for key in ("shape", "dtype", "bytes")}
    return {**known, "text": f"sparse, {entries.count_text(row)}"}


def _items(value: Any) -> dict[str, Any]:
    """The specs of the arrays and tensors in a list, such as what a K.function returns."""
    if type(value) not in (list, tuple):
        return {}
    specs = [(place, _spec(one)) for place, one in enumerate(value[:_ITEMS])]
    known = [{"item": place, "spec": spec} for place, spec in specs if spec is not None]
    if not known:
        return {}
    more = ", …" if len(value) > _ITEMS else ""
    text = ", ".join(str(one["spec"]) for one in known)
    return {"items": known, "text": f"{type(value).__name__} of {len(value)}: {text}{more}"}


def _spec(value: Any) -> str | None:
    if describe.is_tensor(value):
        return str(value.spec)
    held = describe.held_array(value)
    if held is not None:
        return describe.spec_text(held.shape, held.dtype.name)
    matrix = entries.held_matrix(value)
    return None if matrix is None else str(entries.facts(matrix)["spec"])


def _shallow(value: Any) -> int | None:
    """The size of the object itself by its class's layout, not by a method of the user's."""
    return int(object.__sizeof__(value)) if sys.implementation.name == "cpython" else None


def _range(row: dict[str, Any]) -> dict[str, Any]:
    """The part of an array's statistics that a table row shows."""
    if "refused" in row:
        return {"text": row["refused"]}
    keys = ("min", "max", "mean", "std", "zeros", "nan", "inf", "sampled", "histogram", "size")
    return {**{key: row[key] for key in keys}, "flags": summary.flags_text(row)}


def find(array: NDArray[Any], what: str, after: list[int] | None) -> list[int] | None:
    """The index of the next NaN, infinity or non-finite value behind `after`, cyclic; or None."""
    if what not in _TESTS:
        raise ProtocolError("argument", "find: what must be nan, inf or bad")
    if array.dtype.kind != "f" or array.size == 0:
        return None
    start = 0
    if after is not None:
        try:
            start = int(np.ravel_multi_index(tuple(after), array.shape)) + 1
        except (ValueError, TypeError) as error:
            raise ProtocolError("argument", f"find: {error}") from None
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    for begin, end in ((start, array.size), (0, start)):
        for low in range(begin, end, _FIND_BLOCK):
            hits = _TESTS[what](flat[low : min(low + _FIND_BLOCK, end)])
            if hits.any():
                found = np.unravel_index(low + int(hits.argmax()), array.shape)
                return [int(one) for one in found]
    return None
