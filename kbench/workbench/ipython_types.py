"""What kbench uses of IPython's shells, of kernels and of comms: the attributes, as protocols.

For types alone: nothing is imported here, and nobody imports this when a program runs. Attributes
that kbench itself hangs on a shell are read with `getattr`, and so is `kernel`, which only the
shell of a kernel has.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Protocol

from kbench.workbench.core_types import JsonObject, Message

ErrorHandler = Callable[..., list[str]]
"""Gets shell, class, error, traceback and `tb_offset`; shows a report and gives its lines."""


class CellEvents(Protocol):
    """Tells what runs at the beginning and the end of cells."""

    def register(self, event: str, function: Callable[..., object]) -> None: ...
    def unregister(self, event: str, function: Callable[..., object]) -> None: ...


class CellInfo(Protocol):
    """What `pre_run_cell` tells."""

    raw_cell: str
    store_history: bool


class CellResult(Protocol):
    """What `post_run_cell` tells, and what running a cell gives."""

    execution_count: int | None
    error_before_exec: BaseException | None
    error_in_exec: BaseException | None

    @property
    def success(self) -> bool: ...


class Formatter(Protocol):
    """Shows values of known classes; `deferred_printers` has those of classes not yet loaded."""

    type_printers: dict[type, Callable[..., object]]
    deferred_printers: dict[tuple[str, str], Callable[..., object]]

    def for_type_by_name(
        self, module: str, name: str, function: Callable[..., object]
    ) -> object: ...


class DisplayFormatter(Protocol):
    """The formatters of a shell, by MIME type."""

    formatters: dict[str, Formatter]
    mimebundle_formatter: Formatter
    format: Callable[..., object]


class PrettyPrinter(Protocol):
    """What a text form is written to."""

    def text(self, words: str) -> None: ...


class DisplayHook(Protocol):
    """Shows the value of a cell."""

    write_format_data: Callable[..., None]

    @property
    def prompt_count(self) -> int: ...


class TracebackPrinter(Protocol):
    """Makes the lines of an error's report."""

    tb_offset: int

    def structured_traceback(
        self,
        kind: type[BaseException],
        error: BaseException,
        frames: TracebackType | None,
        offset: int,
    ) -> list[str]: ...


class MagicsManager(Protocol):
    """The magics of a shell, by kind and name, and the objects that they belong to."""

    magics: dict[str, dict[str, object]]
    registry: dict[str, object]


class PayloadManager(Protocol):
    """What goes to the front end with the reply to a cell."""

    def write_payload(self, data: JsonObject) -> None: ...


class CompletionMatch(Protocol):
    """One way to go on, in place of the text from `start` to `end`."""

    start: int
    end: int
    text: str
    type: str | None


class Completer(Protocol):
    """Finds how a text may go on at a place."""

    def completions(self, text: str, offset: int) -> Iterator[CompletionMatch]: ...


class Shell(Protocol):
    """IPython's shell."""

    user_ns: dict[str, object]
    user_ns_hidden: dict[str, object]
    execution_count: int
    ast_transformers: list[ast.NodeTransformer]
    custom_exceptions: tuple[type[BaseException], ...]
    CustomTB: ErrorHandler
    ask_exit: Callable[[], None]
    init_user_ns: Callable[[], None]

    def register_magic_function(self, func: object, magic_kind: str, magic_name: str) -> None: ...

    @property
    def events(self) -> CellEvents: ...
    @property
    def Completer(self) -> Completer: ...
    @property
    def compile(self) -> object: ...
    @property
    def displayhook(self) -> DisplayHook: ...
    @property
    def display_formatter(self) -> DisplayFormatter: ...
    @property
    def InteractiveTB(self) -> TracebackPrinter: ...
    @property
    def log(self) -> logging.Logger: ...
    @property
    def magics_manager(self) -> MagicsManager: ...
    @property
    def payload_manager(self) -> PayloadManager: ...

    @classmethod
    def clear_instance(cls) -> None: ...
    def register_magics(self, magics: type) -> None: ...
    def run_line_magic(self, magic_name: str, line: str) -> object: ...
    def run_cell(self, code: str, store_history: bool = False) -> CellResult: ...
    def set_custom_exc(
        self, classes: tuple[type[BaseException], ...], handler: ErrorHandler
    ) -> None: ...
    def show_usage_error(self, error: object) -> None: ...
    def set_next_input(self, text: str) -> None: ...
    def _showtraceback(
        self, kind: type[BaseException], error: BaseException, lines: list[str]
    ) -> None: ...


class Comm(Protocol):
    """One front end's line to something in a kernel."""

    comm_id: str
    topic: bytes

    def on_msg(self, function: Callable[[Message], None]) -> None: ...
    def on_close(self, function: Callable[[Message], None]) -> None: ...
    def send(self, data: JsonObject) -> None: ...


class WireSession(Protocol):
    """Sends the messages of a kernel."""

    pack: Callable[[object], bytes]

    def send(
        self,
        socket: object,
        kind: str,
        content: JsonObject,
        parent: Mapping[str, object],
        ident: bytes,
    ) -> object: ...


class CommManager(Protocol):
    """Opens comms by the name of what they lead to."""

    def register_target(self, name: str, opened: Callable[[Comm, Message], None]) -> None: ...


class EventLoop(Protocol):
    """The loop that runs a kernel's cells."""

    def add_callback(self, action: Callable[[], None]) -> None: ...


class Kernel(Protocol):
    """What a kernel's shell belongs to."""

    session: WireSession | None
    iopub_socket: object
    comm_manager: CommManager
    io_loop: EventLoop | None

    def get_parent(self) -> Message: ...
