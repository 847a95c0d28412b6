"""The list of watched expressions: kept over sessions, asked for only while its pane is shown."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

from kbench.tui.dialogs.dialogs import InputDialog, Pager
from kbench.tui.messages import ValueCommand
from kbench.tui.panes.bench import Bench, PaneController
from kbench.tui.panes.following import Following
from kbench.tui.panes.value.view import ValuePane
from kbench.tui.panes.variables.view import VariablesTable
from kbench.tui.panes.watch.view import WatchTable
from kbench.tui.session.link import AskFailed, Latest
from kbench.workbench.core_types import JsonObject
from kbench.workbench.protocol.findings import Watch, WatchList, WatchRow
from kbench.workbench.protocol.record import MissingFieldError

MAX_WATCHES = 50
"""Watches in the list: all are evaluated after each change, and stand on a screen or two."""
MAX_EXPRESSION_CHARACTERS = 1_000
"""Characters of one expression."""


class WatchController(PaneController):
    """Adds, edits and removes watches, and has them evaluated when something has changed."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.expressions: list[str] = []
        self._dirty = True
        self._forced: list[str] = []
        self._requests = Latest(bench.run)
        self._following = Following(bench, self._requests.submit)
        self._lists = Latest(bench.run)
        self._joined = False  # the kernel has told its own list
        self._untold = False  # the kernel does not know this one yet
        bench.on(WatchTable.Wanted, lambda event: self.act(event.what, event.expression))
        bench.on(VariablesTable.WatchWanted, lambda event: self.add(event.expression))
        bench.on(ValueCommand, self._value_command)
        bench.told("watch", self.on_push)
        bench.told("watching", self.on_listed)

    @property
    def _table(self) -> WatchTable | None:
        return self.bench.view(WatchTable)

    # ------------------------------------------------------------------ what happens

    def mounted(self) -> None:
        """Those of the last session may have come before."""
        self._show()

    def restore(self, expressions: Sequence[str]) -> None:
        """Those of the last session, before those that were added since."""
        self.expressions = list(dict.fromkeys([*expressions, *self.expressions]))[:MAX_WATCHES]
        self._show()
        if self._joined:
            self._tell_list()

    def started(self) -> None:
        """A kernel answers, in which others may be watched already."""
        self._joined = False
        self._tell_list()
        super().started()

    def changed(self, names: Sequence[str] | None = None, many: bool = False) -> None:
        """A variable, a setting or the namespace has changed."""
        self._dirty = True
        self.refresh()

    def forget(self) -> None:
        """The kernel is another one, or gone."""
        self._dirty = True
        self._joined = False
        if (table := self._table) is not None:
            table.forget()

    def state_changed(self) -> None:
        """While a cell runs the cheap ones are looked at, the others wait."""
        self.refresh()

    def refresh(self) -> None:
        """Have watches evaluated, if they are on the screen and old; or looked at by a cell."""
        table, state = self._table, self.bench.state
        if table is None:
            return
        table.hold(state == "busy")
        shown = self.bench.shows("watch")
        self._following.update(self._question if shown and self.expressions else None)
        if shown and self._dirty and state == "idle":
            self._requests.submit(self._ask)

    def _question(self) -> Watch:
        return Watch(expressions=self.expressions, live=True)

    async def _ask(self) -> None:
        table = self._table
        if table is None or not (self._dirty or self._forced):
            return
        forced, self._forced, self._dirty = self._forced, [], False
        if not self.expressions:
            return
        try:
            data = await self.bench.ask(Watch(expressions=self.expressions, force=forced))
        except AskFailed as error:
            self._dirty = True
            self.bench.title("watch", f"Watch: {error}")
            return
        self._dirty = self._dirty or data.held
        rows = [row for row in data.rows if row.state != "new" and row.expression not in forced]
        table.show(self.expressions, [row.replaced(changed=False) for row in rows])

    def on_push(self, data: JsonObject) -> None:
        """The kernel has evaluated some."""
        if (table := self._table) is not None:
            with contextlib.suppress(MissingFieldError):  # of another version: asking tells it
                rows = [WatchRow.from_json(row) for row in data.get("rows") or []]
                table.show(self.expressions, rows)

    # ------------------------------------------------------------------ the list

    def on_listed(self, data: JsonObject) -> None:
        """The session's list is another one, by `%watch` in a cell or by another front end."""
        expressions = data.get("expressions")
        if isinstance(expressions, list) and not self._untold:
            new = [one for one in expressions if one not in self.expressions]
            self._take(expressions)
            if new:
                self._say_watched(new[-1])

    def _take(self, expressions: list[str]) -> None:
        if expressions != self.expressions:
            self._replace_list(expressions)

    def _tell_list(self) -> None:
        """Have `%watch` know the list of the pane; until then what others say waits."""
        self._untold = True
        self._lists.submit(self._tell)

    async def _tell(self) -> None:
        told, listed = list(self.expressions), None
        with contextlib.suppress(AskFailed):  # of another version, whose `%watch` has its own
            reply = await self.bench.ask(WatchList(expressions=told, join=not self._joined))
            self._joined, listed = True, reply.expressions
        if told == self.expressions:
            self._untold = False
            if listed is not None:
                self._take(listed)

    def act(self, what: str, expression: str) -> None:
        """Do what a key of the pane asks for."""
        if what == "add":
            self._type("watch an expression, such as K.mean(w)", "", self.add)
        elif what == "edit":
            self._type("change the watch", expression, partial(self._replace, expression))
        elif what == "evaluate":
            self._evaluate(expression)
        elif what == "full" and (table := self._table) is not None:
            self.bench.open(Pager("Watch", table.words(expression)))
        elif what == "remove":
            self._set([kept for kept in self.expressions if kept != expression])

    def _type(self, title: str, text: str, take: Callable[[str], object]) -> None:
        def check(typed: str) -> str:
            return (
                f"at most {MAX_EXPRESSION_CHARACTERS} characters"
                if len(typed) > MAX_EXPRESSION_CHARACTERS
                else ""
            )

        def done(typed: str | None) -> None:
            if typed is not None and typed.strip():
                take(typed.strip())

        self.bench.open(InputDialog(title, text, check=check), done)

    def add(self, expression: str) -> None:
        """Watch one more expression."""
        if expression in self.expressions:
            self.bench.notify(f"{expression} is watched already", 2)
        elif len(self.expressions) >= MAX_WATCHES:
            key = self.bench.key_word("watch_remove")
            words = f"the limit is {MAX_WATCHES} watches; {key} removes one"
            self.bench.notify(words, warning=True)
        else:
            self._set([*self.expressions, expression])
            self._say_watched(expression)

    def _say_watched(self, expression: str) -> None:
        if not self.bench.shows("watch"):
            self.bench.notify(f"watching {expression}", 2)

    def _value_command(self, event: ValueCommand) -> None:
        pane = self.bench.view(ValuePane)
        if event.what == "watch" and pane is not None and not pane.when:
            self._add_cell(pane)

    def _add_cell(self, pane: ValuePane) -> None:
        """Watch the cell under the cursor, or all of what has no cells."""
        name = pane.shown if pane.row is None else pane.row.expression
        index = pane.full_index()
        self.add(f"{name}[{', '.join(str(number) for number in index)}]" if index else name)

    def _replace(self, old: str, new: str) -> None:
        place = self.expressions.index(old) if old in self.expressions else len(self.expressions)
        others = [kept for kept in self.expressions if kept not in (old, new)]
        self._set([*others[:place], new, *others[place:]])

    def _evaluate(self, expression: str) -> None:
        self._forced.append(expression)
        if self.bench.state == "busy":
            words = "evaluated when the running cell ends"
            self.bench.notify(words, 2)
        elif (table := self._table) is not None:
            note = WatchRow(expression=expression, note="evaluating ...")
            table.show(self.expressions, [note])
        self.changed()

    def _set(self, expressions: list[str]) -> None:
        """What the pane watches from now on, as its user wants it."""
        self._replace_list(expressions)
        if self._joined:
            self._tell_list()

    def _replace_list(self, expressions: list[str]) -> None:
        self.expressions = expressions
        self._show()
        self.bench.save()
        self.changed()

    def _show(self) -> None:
        if (table := self._table) is not None:
            table.show(self.expressions)
