"""What a session tells its front end: one frozen dataclass per event, emitted on `session.events`.

Handlers are called from the session's own thread; a front end hands them to its event loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kbench.workbench.core_types import JsonObject


@dataclass(frozen=True)
class Started:
    """The kernel answers and queued cells begin to run. `hello` is the inspector's greeting.

    Without an inspector `hello` is empty and `problem` says why.
    """

    hello: JsonObject
    seconds: float
    problem: str = ""


@dataclass(frozen=True)
class CellStarted:
    """A cell began to run; `replay_of` is the cell that it repeats after a restart.

    `origin` is empty, or says which other client of an attached kernel runs it.
    """

    cell: int
    code: str
    replay_of: int | None = None
    origin: str = ""


@dataclass(frozen=True)
class Stream:
    """Printed text. `name` is 'stdout', 'stderr', or 'notice' for a word of the session itself."""

    cell: int
    name: str
    text: str


@dataclass(frozen=True)
class Result:
    """The value of a cell (`count` set) or something displayed in between (`count` None)."""

    cell: int
    text: str
    data: JsonObject
    count: int | None = None


@dataclass(frozen=True)
class ClearOutput:
    """The cell asked to remove what it has shown; `wait`: only when something new comes."""

    cell: int
    wait: bool


@dataclass(frozen=True)
class Error:
    """An exception. `detail` is empty, or what `explanation.detail` says of a KbenchError."""

    cell: int
    name: str
    value: str
    traceback: list[str]
    detail: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class CellDone:
    """A cell ended. `status`: 'ok', 'error', 'interrupted', or 'lost' with its kernel."""

    cell: int
    count: int | None
    ok: bool
    seconds: float
    status: str = "ok"


@dataclass(frozen=True)
class Changed:
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


@dataclass(frozen=True)
class Told:
    """What the inspector has found out beside the program: `kind` is "watch" ...; `data` its."""

    kind: str
    data: JsonObject


@dataclass(frozen=True)
class InputRequested:
    """The running cell called `input`; answer with `session.answer(text)`."""

    cell: int
    prompt: str
    password: bool


@dataclass(frozen=True)
class Busy:
    """The kernel works."""


@dataclass(frozen=True)
class Idle:
    """The kernel waits; `seconds` is what the last cell took."""

    seconds: float


@dataclass(frozen=True)
class Stuck:
    """An interrupt was asked for `seconds` ago and the cell still runs: offer a restart."""

    seconds: float
    cell: int


@dataclass(frozen=True)
class Died:
    """The kernel process ended by itself. `code` is negative for a signal, as in subprocess."""

    code: int | None
    log: str
    cell: int | None


@dataclass(frozen=True)
class Restarted:
    """A new kernel process was started; `replayed` cells are queued again."""

    replayed: int


@dataclass(frozen=True)
class Attached:
    """The session runs in an existing kernel, which has run `inputs` before; `count`: how many."""

    kernel: str
    inputs: list[str]
    count: int


@dataclass(frozen=True)
class ExitAsked:
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
