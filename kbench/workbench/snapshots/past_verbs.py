"""The inspector's verb about values after earlier cells."""

from __future__ import annotations

import time

from kbench.engine.inspect import describe
from kbench.workbench.contents import address
from kbench.workbench.inspector import namespace
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.past import Past, PastReply
from kbench.workbench.protocol.question import Served
from kbench.workbench.snapshots.copies import Copier, NotKeptError, Weights
from kbench.workbench.snapshots.snapshots import Found, Snapshots


class PastVerbs:
    """Keeps the states of the names of one view, and serves them. Nothing is kept before `start`.

    So a program without a front end pays nothing.
    """

    def __init__(self, view: namespace.View) -> None:
        self._view = view
        self._snapshots = Snapshots()
        self._on = False
        view.past = self._value

    def start(self) -> None:
        """Keep values from the end of the next cell on."""
        if not self._on:
            Copier().copy([0])  # loads what copying needs, lest the first cell pay for it
            describe.is_masked(None)
        self._on = True

    def cell_ended(self, number: int | None = None) -> None:
        """Keep what has changed by a cell; 0 is one that is not counted."""
        cell = self._snapshots.last + 1 if number is None else number
        if self._on and cell:
            self._snapshots.take(cell, self._view.values(), time.thread_time)

    def copy_of(self, name: str, cell: int) -> object:
        """A copy of what a name, or what is inside it, was after a cell; raises ProtocolError."""
        value = self._view.get(address.with_cell(name, cell))
        try:
            return Copier().copy(value)
        except NotKeptError as error:
            raise ProtocolError("past", str(error)) from None

    def _value(self, root: str, rest: str) -> object:
        """What `x@3` was; of a model a weight, which a slash leads to, or all by address."""
        name, cell = address.split_cell(root)
        assert cell is not None
        if cell > self._snapshots.last:
            reason = f"cell {cell} has not ended yet; the last is {self._snapshots.last}"
            raise ProtocolError("past", reason)
        state = self._snapshots.at(name, cell).state
        if state.missing:
            raise ProtocolError("past", f"{name} after cell {cell}: {state.missing}")
        if type(state.value) is not Weights:
            if rest:
                raise ProtocolError("name", f"{name} was not a model after cell {cell}")
            return state.value
        arrays = state.value.arrays
        if rest and rest not in arrays:
            raise ProtocolError("name", f"{name} had no weight {rest} after cell {cell}")
        return arrays[rest] if rest else arrays

    def served(self) -> list[Served]:
        """The questions that are answered here."""
        return [Past.served_by(self._past)]

    def _past(self, asked: Past) -> PastReply:
        name, shown = address.split_cell(asked.name)
        root = address.root_of(name)
        kept = self._snapshots
        if kept.budget <= 0:
            raise ProtocolError("past", "no values are kept: KBENCH_SNAPSHOT_MB is 0")
        if not kept.last:
            raise ProtocolError("past", "no value is kept yet: no cell has ended")
        cell = asked.cell
        if cell is None:
            cell = self._stepped(root, shown, asked.step)
        if cell > kept.last:
            return self._now(asked.name, name)
        if cell < 1:
            raise ProtocolError("past", f"there is no cell {cell}; the first is 1")
        return self._reply(name, cell, kept.at(root, cell))

    def _stepped(self, root: str, shown: int | None, step: int) -> int:
        """The cell after which the value before or after the one that is shown came to be."""
        kept = self._snapshots
        here = kept.at(root, kept.last if shown is None else shown)
        if step < 0:
            first = kept.first(root)
            if here.state.cell <= max(first, 1):
                raise ProtocolError("past", f"nothing older is kept of {root}")
            return here.state.cell - 1
        if shown is None:
            raise ProtocolError("past", f"{root} is shown as it is now")
        if step > 0 and kept.at(root, here.until + 1).until >= kept.last:
            return kept.last + 1  # the newest is what it is now
        return here.until + 1 if step > 0 else shown

    def _now(self, asked: str, name: str) -> PastReply:
        kept = self._snapshots
        row = self._view.row_of(name, self._view.get(name), True)
        return PastReply(name=name, cell=kept.last, until=kept.last, last=kept.last, row=row)

    def _reply(self, name: str, cell: int, found: Found) -> PastReply:
        kept, state = self._snapshots, found.state
        past = address.with_cell(name, cell)
        reply = PastReply(
            name=past,
            cell=state.cell,
            until=found.until,
            last=kept.last,
            words=state.missing,
            kept=kept.bytes,
            budget=kept.budget,
        )
        if state.missing:
            return reply
        try:
            row = self._view.row_of(past, self._view.get(past), True)
        except ProtocolError:
            return reply.replaced(words=f"{name} did not exist")
        return reply.replaced(row=row)
