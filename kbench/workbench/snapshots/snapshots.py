"""What each name was after each cell: copies of what has changed, within a number of bytes.

Taken on the program's thread as a cell ends, since the next cell may write into the same arrays.
A variable is compared by its version, all else by its bytes. The oldest copies that a later one
has replaced go first.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Mapping

import numpy as np
from msgspec import Struct, field

from kbench.engine.core import fork_safety
from kbench.engine.inspect import describe
from kbench.engine.runtime.environment import whole_number
from kbench.workbench.inspector import variable_rows
from kbench.workbench.snapshots import copies
from kbench.workbench.snapshots.copies import Copier, NotKeptError

BUDGET_VARIABLE = "KBENCH_SNAPSHOT_MB"
DEFAULT_BUDGET_MB = 64
"""Of all copies together: the weights of a small network after some hundred cells."""
MAX_BUDGET_MB = 1 << 20
MAX_CELL_BYTES = 16 << 20
"""That one cell adds at most: some 5 ms of copying."""
MAX_CELL_SECONDS = 0.02
"""That one cell takes at most, of the processor; what is left is not kept after it."""
GONE = "it does not exist"


def _nothing() -> object:
    return None


class State(Struct):
    """What a name was from a cell on. `missing` says why there is no copy."""

    cell: int
    value: object = None
    bytes: int = 0
    missing: str = ""
    version: int = 0
    owner: Callable[[], object] = _nothing  # the object itself, while it exists


class Found(Struct):
    """A state, and for which cells it holds: the last is `until`."""

    state: State
    until: int


class _History(Struct):
    states: list[State] = field(default_factory=list)
    dropped: int = 0  # the cell of the newest state that was dropped


class Snapshots:
    """The states of all names. `take` comes with the end of each cell that counts."""

    def __init__(self, budget: int | None = None) -> None:
        if budget is None:
            budget = whole_number(BUDGET_VARIABLE, MAX_BUDGET_MB, DEFAULT_BUDGET_MB, 0) << 20
        self.budget = budget
        self.last = 0
        """The number of the newest cell."""
        self.bytes = 0
        self._lock = fork_safety.lock()
        self._histories: dict[str, _History] = {}

    def take(self, cell: int, values: Mapping[str, object], clock: Callable[[], float]) -> None:
        """Keep what has changed by a cell; `clock` counts seconds. Never raises."""
        if self.budget <= 0:
            return
        if cell <= self.last:  # the count began again, as in another kernel
            self.forget()
        until, room = clock() + MAX_CELL_SECONDS, MAX_CELL_BYTES
        found: list[tuple[str, State | None]] = []
        for name, value in values.items():
            history = self._histories.get(name)
            before = history.states[-1] if history is not None and history.states else None
            state = self._state(cell, value, before, room, clock() > until)
            room -= state.bytes if state is not None else 0
            found.append((name, state))
        with self._lock:
            self.last = cell
            for name, state in found:
                if state is not None:
                    self._add(name, state)
            for name in self._histories.keys() - values.keys():
                if self._histories[name].states[-1:] and not self._is_gone(name):
                    self._add(name, State(cell, missing=GONE))
            self._trim()

    def _is_gone(self, name: str) -> bool:
        return self._histories[name].states[-1].missing == GONE

    @staticmethod
    def _state(
        cell: int, value: object, before: State | None, room: int, late: bool
    ) -> State | None:
        """The new state of a value; None where it is as it was."""
        version = variable_rows.version(value)
        if before is not None and not before.missing and _is_unchanged(value, version, before):
            return None
        owner: Callable[[], object] = _nothing
        if version:
            with contextlib.suppress(TypeError):
                owner = weakref.ref(value)
        if late:
            return State(cell, missing="not kept, copying took too long")
        copier = Copier(room)
        try:
            made = copier.copy(value)
        except NotKeptError as error:
            return State(cell, missing=str(error))
        except Exception as error:  # whatever a value of another package does
            return State(cell, missing=f"not kept, {type(error).__name__}")
        if before is not None and not before.missing and copies.same(before.value, made):
            before.version, before.owner = version, owner
            return None
        return State(cell, made, copier.bytes, version=version, owner=owner)

    def _add(self, name: str, state: State) -> None:
        history = self._histories.setdefault(name, _History())
        if history.states and state.missing and history.states[-1].missing == state.missing:
            return
        history.states.append(state)
        self.bytes += state.bytes

    def _trim(self) -> None:
        """Drop the oldest states that another has replaced; then the oldest of all."""
        if self.bytes <= self.budget:
            return
        replaced = [
            (state.cell, name)
            for name, history in self._histories.items()
            for state in history.states[:-1]
        ]
        for _, name in sorted(replaced):
            history = self._histories[name]
            self.bytes -= history.states.pop(0).bytes
            history.dropped = history.states[0].cell
            if self.bytes <= self.budget:
                return
        newest = [
            (history.states[0].cell, name)
            for name, history in self._histories.items()
            if history.states and history.states[0].bytes
        ]
        for _, name in sorted(newest):
            state = self._histories[name].states[0]
            self.bytes -= state.bytes
            state.value, state.bytes = None, 0
            state.missing = f"dropped to stay within {self._budget_words()}"
            if self.bytes <= self.budget:
                return

    def _budget_words(self) -> str:
        return describe.size(self.budget)

    def forget(self) -> None:
        """Nothing is known any more."""
        with self._lock:
            self._histories, self.bytes, self.last = {}, 0, 0

    # ------------------------------------------------------------------ looking

    def at(self, name: str, cell: int) -> Found:
        """What a name was after a cell; with `missing` where that is not kept."""
        with self._lock:
            history = self._histories.get(name)
            if history is None:
                return Found(
                    State(cell, missing="not kept: no cell has ended since it exists"), cell
                )
            states = history.states
            place = next((at for at in reversed(range(len(states))) if states[at].cell <= cell), -1)
            until = states[place + 1].cell - 1 if place + 1 < len(states) else self.last
            if place >= 0:
                return Found(states[place], until)
            if history.dropped > cell:
                words = f"dropped to stay within {self._budget_words()}"
                return Found(State(1, missing=words), until)
            return Found(State(1, missing=GONE), until)

    def first(self, name: str) -> int:
        """The first cell after which something is known of a name; 0 where nothing is."""
        with self._lock:
            history = self._histories.get(name)
            return history.states[0].cell if history is not None and history.states else 0


def _is_unchanged(value: object, version: int, before: State) -> bool:
    """Whether a value is certainly as it was, as far as can be told without a copy."""
    if version:
        return before.version == version and before.owner() is value
    if type(value) is np.ndarray and type(before.value) is np.ndarray:
        kept = before.value
        plain = not value.dtype.hasobject and value.shape == kept.shape
        return plain and value.dtype == kept.dtype and copies.same(value, kept)
    return copies.is_plain(value) and value is before.value
