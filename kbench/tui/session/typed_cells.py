"""From Enter to the session: who may take what was typed, and what happens where nobody does.

Whoever has a use for a text that is not for the kernel, such as a command of a lesson, joins the
chain by `intercept`. At each Enter those of the chain are asked, in the order in which they joined,
whether they take the text. The first that does ends it: nothing runs, and the prompt is its
business. What nobody takes leaves the prompt, is remembered among the inputs, and runs; then
`CellTyped` tells which cell it became, so that whoever follows the session need not run it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.tui.signal import CellTyped

if TYPE_CHECKING:
    from kbench.tui.session.session_controller import SessionController

Interceptor = Callable[[str], bool]
"""Gets what was typed; True if it has taken it."""


class TypedCells:
    """The chain, and the one place where typed cells are given to the session."""

    def __init__(self, session: SessionController) -> None:
        self._session = session
        self._chain: list[Interceptor] = []

    def intercept(self, interceptor: Interceptor) -> None:
        """Join the chain, behind those that have joined before."""
        self._chain.append(interceptor)

    def submit(self, code: str, now: bool = False) -> None:
        """Enter; `now`: by the key that runs a text whatever it is."""
        if any(takes(code) for takes in self._chain):
            return
        bench = self._session.bench
        bench.prompt.put("")
        bench.prompt.remember(code)
        bench.tell(CellTyped(self._session.run(code), now))
