"""The inspector's verbs about watched expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kbench.workbench.core_types import Publish
from kbench.workbench.inspector import namespace
from kbench.workbench.inspector.recorder import Feeds, Recorder
from kbench.workbench.kernel.live_sampling import LiveSampling
from kbench.workbench.kernel.sandbox import Sandbox
from kbench.workbench.protocol import messages
from kbench.workbench.protocol.findings import (
    Watch,
    WatchList,
    WatchListReply,
    WatchReply,
    WatchRow,
)
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.question import Served
from kbench.workbench.watches import expressions
from kbench.workbench.watches.watched_set import WatchedSet
from kbench.workbench.watches.watches import MAX_WATCHES, Watches

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

LIST_PUSH = "watching"
"""The kind of the push that tells the session's list after each change."""


class WatchVerbs:
    """Serves the names of one view; values found later are pushed as "watch"."""

    def __init__(
        self,
        view: namespace.View,
        publish: Publish | None,
        sandbox: Sandbox,
        recorder: Recorder,
        sampling: LiveSampling,
        watched: WatchedSet | None = None,
    ) -> None:
        def tell(rows: list[WatchRow]) -> None:
            if publish is not None:
                publish(messages.push("watch", {"rows": rows}))

        def fed(nodes: Sequence[Tensor]) -> Feeds:
            return recorder.feeds(nodes, {id(node) for node in nodes})[0]

        def listed(expressions: list[str]) -> None:
            if publish is not None:
                publish(messages.push(LIST_PUSH, {"expressions": expressions}))

        self.watches = Watches(view.snapshot, tell, sandbox, fed)
        self._tell_rows, self._sampling = tell, sampling
        self._watched = watched or WatchedSet()
        self._unsubscribe = self._watched.changed.subscribe(listed)

    def served(self) -> list[Served]:
        """The questions that are answered here."""
        return [Watch.served_by(self._watch), WatchList.served_by(self._list)]

    def close(self) -> None:
        """Evaluate no more, and tell nothing of the list."""
        self._unsubscribe()
        self.watches.close()

    def _list(self, asked: WatchList) -> WatchListReply:
        self._watched.replace(_texts("expressions", asked.expressions), asked.join)
        return WatchListReply(expressions=self._watched.expressions)

    def _watch(self, asked: Watch) -> WatchReply:
        wanted = _texts("expressions", asked.expressions)
        forced = _texts("force", asked.force or [])
        if len(wanted) > MAX_WATCHES:
            reason = f"watch: the limit is {MAX_WATCHES} expressions"
            raise ProtocolError("argument", reason)
        held = self.watches.sandbox.blocked
        rows = self.watches.ask(wanted, forced)
        if asked.live and wanted:
            self._follow_cell(wanted)
        return WatchReply(rows=rows, held=held)

    def _follow_cell(self, wanted: list[str]) -> None:
        def told(look: Callable[[list[str]], list[WatchRow]]) -> None:
            rows = look(wanted)
            if rows and self.watches.sandbox.blocked:  # else those of the ended cell are told
                self._tell_rows(rows)

        between, beside = self.watches.sample, self.watches.look
        self._sampling.follow_cell("watch", partial(told, between), partial(told, beside))


def _texts(argument: str, given: list[Any]) -> list[str]:
    longest = expressions.MAX_CHARACTERS
    if not all(type(text) is str and len(text) <= longest for text in given):
        words = f"watch: {argument} must hold texts of at most {longest} characters"
        raise ProtocolError("argument", words)
    return given
