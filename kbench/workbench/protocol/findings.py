"""Questions about what is found out beside the program: watches, gradients, NaN, comparisons."""

from __future__ import annotations

from kbench.workbench.protocol.question import Answer, Question
from kbench.workbench.protocol.record import Record


class WatchRow(Record):
    """A watched expression: its value as text, and the one that it had until it changed last.

    `state` is "new", "value", "spec", "error", "refused" or "slow"; `current`: nothing has changed
    since it was evaluated; `count` tells old news from new; `live`: the value is one of the running
    cell. `history` has the last values of a scalar, None for NaN and Inf; `histogram` counts the
    finite elements of an array between its least and its greatest.
    """

    expression: str
    state: str = "new"
    text: str = ""
    before: str = ""
    note: str = ""
    seconds: float = 0.0
    changed: bool = False
    count: int | None = None
    current: bool = True
    history: list[float | None] | None = None
    live: bool = False
    histogram: list[int] | None = None


class WatchReply(Answer):
    """`held`: they are evaluated when the running cell ends."""

    rows: list[WatchRow]
    held: bool


class Watch(Question[WatchReply], verb="watch"):
    """What is known of some expressions; those that are old are evaluated and pushed later.

    `force` names those to evaluate in any case, and with more time. With `live` they are looked at,
    and pushed, while the cell lasts that runs or begins.
    """

    expressions: list[str]
    force: list[str] | None = None
    live: bool = False


class WatchListReply(Answer):
    """The list as it is now."""

    expressions: list[str]


class WatchList(Question[WatchListReply], verb="watch_list"):
    """Set the session's list of watched expressions, which `%watch` and every pane share.

    With `join` they are put behind those that are there: a front end that begins takes over what
    is watched already.
    """

    expressions: list[str]
    join: bool = False


class GradientReply(Answer):
    """`state` is none, computing, held (a cell runs), slow (only with `force`) or stopped."""

    losses: list[str]
    loss: str
    state: str
    number: int | None = None


class Gradient(Question[GradientReply], verb="gradient"):
    """Have the gradients of a loss computed, the newest by default; they are pushed later.

    With `live` they follow the cell that runs or begins, where they are quick.
    """

    loss: str = ""
    force: bool = False
    stop: bool = False
    live: bool = False


class NanReply(Answer):
    """`state`: tracing, held (a cell runs), none (nothing can be traced), stopped."""

    state: str
    name: str
    job: int | None = None


class Nan(Question[NanReply], verb="nan"):
    """Have the origin of a NaN or infinity looked for; what is found is pushed later.

    `name` is a name of the view, or an expression that only reads; `code` a cell, whose last value
    is meant, or else the last run of all; `function` the last recorded run of that name. `quiet`
    allows a short time only.
    """

    name: str = ""
    code: str = ""
    function: str = ""
    quiet: bool = False
    stop: bool = False


class VersusReply(Answer):
    lines: list[str]


class Versus(Question[VersusReply], verb="versus"):
    """The lines of the comparison that a cell has made last."""

    width: int = 80
