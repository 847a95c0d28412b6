"""The inspector's verb about watched expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbench.workbench.core_types import Publish
from kbench.workbench.inspector import namespace
from kbench.workbench.inspector.recorder import Feeds, Recorder
from kbench.workbench.kernel.sandbox import Sandbox
from kbench.workbench.protocol import messages
from kbench.workbench.protocol.findings import Watch, WatchReply, WatchRow
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.question import Served
from kbench.workbench.watches import expressions
from kbench.workbench.watches.watches import MAX_WATCHES, Watches

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor


class WatchVerbs:
    """Serves the names of one view; values found later are pushed as "watch"."""

    def __init__(
        self,
        view: namespace.View,
        publish: Publish | None,
        sandbox: Sandbox,
        recorder: Recorder,
    ) -> None:
        def tell(rows: list[WatchRow]) -> None:
            if publish is not None:
                publish(messages.push("watch", {"rows": rows}))

        def fed(nodes: Sequence[Tensor]) -> Feeds:
            return recorder.feeds(nodes, {id(node) for node in nodes})[0]

        self.watches = Watches(view.snapshot, tell, sandbox, fed)

    def served(self) -> list[Served]:
        """The questions that are answered here."""
        return [Watch.served_by(self._watch)]

    def _watch(self, asked: Watch) -> WatchReply:
        wanted = _texts("expressions", asked.expressions)
        forced = _texts("force", asked.force or [])
        if len(wanted) > MAX_WATCHES:
            reason = f"watch: the limit is {MAX_WATCHES} expressions"
            raise ProtocolError("argument", reason)
        held = self.watches.sandbox.blocked
        return WatchReply(rows=self.watches.ask(wanted, forced, asked.live), held=held)


def _texts(argument: str, given: list[Any]) -> list[str]:
    longest = expressions.MAX_CHARACTERS
    if not all(type(text) is str and len(text) <= longest for text in given):
        words = f"watch: {argument} must hold texts of at most {longest} characters"
        raise ProtocolError("argument", words)
    return given
