"""What a session tells its front end: one frozen record per event, emitted on `session.events`.

Handlers are called from the session's own thread; a front end hands them to its event loop.
"""

from __future__ import annotations

from msgspec import Struct, field

from kbench.workbench.core_types import JsonObject


class Started(Struct, frozen=True):
    """The kernel answers and queued cells begin to run. `hello` is the inspector's greeting.

    Without an inspector `hello` is empty and `problem` says why.
    """

    hello: JsonObject
    seconds: float
    problem: str = ""


class CellStarted(Struct, frozen=True):
    """A cell began to run; `replay_of` is the cell that it repeats after a restart.

    `origin` is empty, or says which other client of an attached kernel runs it.
    """

    cell: int
    code: str
    replay_of: int | None = None
    origin: str = ""


class Stream(Struct, frozen=True):
    """Printed text. `name` is 'stdout', 'stderr', or 'notice' for a word of the session itself."""

    cell: int
    name: str
    text: str


class Result(Struct, frozen=True, weakref=True):
    """The value of a cell (`count` set) or something displayed in between (`count` None).

    With `updates` it takes the place of all that was displayed under the same `display_id` before,
    in whatever cell, and is shown nowhere else.
    """

    cell: int
    text: str
    data: JsonObject
    count: int | None = None
    display_id: str = ""
    updates: bool = False


class ClearOutput(Struct, frozen=True):
    """The cell asked to remove what it has shown; `wait`: only when something new comes."""

    cell: int
    wait: bool


class Error(Struct, frozen=True):
    """An exception. `detail` is empty, or what `explanation.detail` says of a KbenchError."""

    cell: int
    name: str
    value: str
    traceback: list[str]
    detail: JsonObject = field(default_factory=dict)


class CellDone(Struct, frozen=True):
    """A cell ended. `status`: 'ok', 'error', 'interrupted', or 'lost' with its kernel."""

    cell: int
    count: int | None
    ok: bool
    seconds: float
    status: str = "ok"


class Changed(Struct, frozen=True):
    """Names whose row is no longer current, the settings, and the inspector's epoch.

    `many`: more names than a message holds are no longer current, so any may be among them.
    """

    names: list[str]
    config: JsonObject
    epoch: int
    refused: dict[str, str] = field(default_factory=dict)
    many: bool = False

    @classmethod
    def of(cls, data: JsonObject) -> Changed:
        """From what the inspector has pushed."""
        refused, many = data.get("refused", {}), bool(data.get("many"))
        return cls(data["names"], data["config"], data["epoch"], refused, many)


class Told(Struct, frozen=True):
    """What the inspector has found out beside the program: `kind` is "watch" ...; `data` its."""

    kind: str
    data: JsonObject


class InputRequested(Struct, frozen=True):
    """The running cell called `input`; answer with `session.answer(text)`."""

    cell: int
    prompt: str
    password: bool


class Busy(Struct, frozen=True):
    """The kernel works."""


class Idle(Struct, frozen=True):
    """The kernel waits; `seconds` is what the last cell took."""

    seconds: float


class Stuck(Struct, frozen=True):
    """An interrupt was asked for `seconds` ago and the cell still runs: offer a restart."""

    seconds: float
    cell: int


class Died(Struct, frozen=True):
    """The kernel process ended by itself. `code` is negative for a signal, as in subprocess."""

    code: int | None
    log: str
    cell: int | None


class Restarted(Struct, frozen=True):
    """A new kernel process was started; `replayed` cells are queued again."""

    replayed: int


class Attached(Struct, frozen=True):
    """The session runs in an existing kernel, which has run `inputs` before; `count`: how many."""

    kernel: str
    inputs: list[str]
    count: int


class ExitAsked(Struct, frozen=True):
    """The cell called `exit` or `quit`: the front end decides."""


Event = (
    Started
    | CellStarted
    | Stream
    | Result
    | ClearOutput
    | Error
    | CellDone
    | Changed
    | Told
    | InputRequested
    | Busy
    | Idle
    | Stuck
    | Died
    | Restarted
    | Attached
    | ExitAsked
)

Shown = Stream | Result | Error
"""What a cell's output is made of."""
