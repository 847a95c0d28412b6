"""What runs inside the kernel: loaded as an IPython extension before the first cell.

It names K and np, shows models as one line and places as 'In [3]', reports KbenchErrors with their
operands in the user's expression, has output fit the front end, knows all magics by name, and opens
the inspector to any front end that asks for it by its comm target.
"""

from __future__ import annotations

import contextlib
import faulthandler
import sys
from typing import TYPE_CHECKING

import numpy as np

import kbench
from kbench.engine.core import errors
from kbench.engine.jit.service import prefetch
from kbench.engine.kernels.idle_warmup import IdleWarmup
from kbench.workbench.core_types import JsonObject, Publish
from kbench.workbench.errors import did_you_mean, explanation
from kbench.workbench.inspector import summary
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.kernel import (
    array_pictures,
    cell_names,
    magics,
    output_width,
    pane_channel,
    value_magic,
)
from kbench.workbench.output import kernel_prints
from kbench.workbench.protocol import messages
from kbench.workbench.watches import watched_set

if TYPE_CHECKING:
    from types import TracebackType

    from kbench.workbench.ipython_types import (
        CellResult,
        Comm,
        ErrorHandler,
        Kernel,
        PrettyPrinter,
        Shell,
        WireSession,
    )


class Channel:
    """The inspector of a kernel, and the comms through which front ends reach it."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._comms: dict[str, Comm] = {}
        self._twins: list[Comm] = []
        self._listening: set[str] = set()  # those to which changes are pushed
        self.inspector = Inspector(
            shell.user_ns, self.publish, shell.user_ns_hidden, watched_set.of_shell(shell)
        )

    def open(self, comm: Comm, message: JsonObject) -> None:
        """A front end opens the target; its first request may come with that."""
        if (twin := self._comms.get(comm.comm_id)) is not None:
            # Asked for twice. A comm that is collected says that its id is closed: keep it.
            self._twins.append(twin)
        self._comms[comm.comm_id] = comm
        comm.on_msg(lambda received: self._serve(comm, received))
        comm.on_close(lambda _closed: self._closed(comm.comm_id))
        if message["content"].get("data"):
            self._serve(comm, message)

    def _serve(self, comm: Comm, message: JsonObject) -> None:
        request = message["content"].get("data")
        reply = self.inspector.handle(request)
        self._send(comm, reply)
        if reply.get("ok") and reply.get("verb") in ("hello", "push"):
            self._note_wish(comm.comm_id, request)

    def _note_wish(self, comm: str, request: JsonObject) -> None:
        """One front end that hides its panes must not silence the others."""
        wanted = request.get("on", True) if request["verb"] == "push" else request.get("push")
        (self._listening.add if wanted else self._listening.discard)(comm)
        if self._listening and not wanted:
            self.inspector.handle({"id": 0, "verb": "push", "on": True})

    def _closed(self, comm: str) -> None:
        """A front end has left; without any, nothing is watched or recorded any more."""
        self._comms.pop(comm, None)
        self._listening.discard(comm)
        idle = [*(["push"] if not self._listening else []), *(["trace"] if not self._comms else [])]
        for verb in idle:
            self.inspector.handle({"id": 0, "verb": verb, "on": False})

    def publish(self, data: JsonObject) -> None:
        """Tell the front ends: changes to those that want them, all else to every one."""
        for ident, comm in list(self._comms.items()):
            if data.get("push") != "changed" or ident in self._listening:
                self._send(comm, data)

    def _send(self, comm: Comm, data: JsonObject) -> None:
        # Not comm.send: ipykernel 7 would then route the front end's next request to the thread
        # that sent last, which for a push is the main one, and no longer to the subshell.
        kernel: Kernel | None = getattr(self._shell, "kernel", None)
        if kernel is None or kernel.session is None:
            comm.send(data)
            return
        content = {"comm_id": comm.comm_id, "data": data}
        with contextlib.suppress(OSError, RuntimeError):  # the kernel is going down
            kernel.session.send(
                kernel.iopub_socket, "comm_msg", content, parent={}, ident=comm.topic
            )


def load_ipython_extension(shell: Shell) -> None:
    """Set the kernel up; a second time changes nothing."""
    if pane_channel.of(shell) is not None:
        return
    channel = Channel(shell)
    prepare(shell, channel.publish)
    setattr(shell, pane_channel.ATTRIBUTE, channel)
    # Not pre_execute and post_execute: ipykernel's comms trigger those for every message, too.
    shell.events.register("pre_run_cell", lambda _info: channel.inspector.cell_started())
    shell.events.register(
        "post_run_cell", lambda result: channel.inspector.cell_ended(number_of(result))
    )
    magics.install(shell)
    value_magic.install(shell, channel.inspector.past.copy_of)
    warmup = IdleWarmup()
    shell.events.register("pre_run_cell", lambda _info: warmup.pause())
    shell.events.register("post_run_cell", lambda _result: warmup.resume())
    kernel: Kernel | None = getattr(shell, "kernel", None)
    if kernel is not None:
        kernel.comm_manager.register_target(messages.TARGET, channel.open)
        shell.ask_exit = lambda: _tell_exit(shell)
        kernel_prints.install(shell)
        output_width.install(shell)
        cell_names.install(shell)
        # ipykernel loads debugpy, whose own `breakpoint()` waits for a client that never comes.
        sys.breakpointhook = sys.__breakpointhook__
        array_pictures.install(shell)
        if kernel.session is not None:
            _escape_surrogates(kernel.session)
    if kernel is not None and not faulthandler.is_enabled():
        faulthandler.enable(all_threads=False)  # a crash in native code then tells its place
    prefetch()  # has the driver of kernels ready
    warmup.resume()


def number_of(result: CellResult) -> int:
    """The number of a cell; 0 of one of the front end's own, which has none."""
    return getattr(result, "execution_count", None) or 0


def _escape_surrogates(session: WireSession) -> None:
    """Have every message sent, whatever a cell prints, raises or shows.

    Without it a lone surrogate raises in the thread that sends. That thread may then sleep while
    other messages wait, such as the one that says that the cell has ended.
    """
    pack = session.pack

    def pack_escaped(part: object) -> bytes:
        try:
            return pack(part)
        except UnicodeEncodeError:
            return pack(messages.encodable(part))

    session.pack = pack_escaped


def _tell_exit(shell: Shell) -> None:
    """`exit()` tells the front end and no more: the shell's own way ends the kernel 0.1 s later."""
    shell.payload_manager.write_payload({"source": "ask_exit", "keepkernel": True})


def offer(shell: Shell, name: str, value: object) -> None:
    """Have a name among the user's, hidden from lists, and again after `%reset`.

    What the user calls by this name stays.
    """

    def put() -> None:
        if name not in shell.user_ns:
            shell.user_ns[name] = shell.user_ns_hidden[name] = value

    begin = shell.init_user_ns

    def begin_and_put() -> None:
        begin()
        put()

    put()
    shell.init_user_ns = begin_and_put


def prepare(shell: Shell, publish: Publish) -> None:
    """What every shell of kbench has: K and np, hidden from lists; places, error reports."""
    offer(shell, "K", kbench)
    offer(shell, "np", np)
    errors.set_place_namer(lambda file, line: place_name(shell, file, line))
    kinds: tuple[type[BaseException], ...] = (errors.KbenchError, *did_you_mean.reported())
    shell.set_custom_exc(kinds, _reporter(publish))
    texts = shell.display_formatter.formatters["text/plain"]
    texts.for_type_by_name("keras.engine.network", "Network", _show_model)


def _show_model(value: object, printer: PrettyPrinter, _cycle: bool) -> None:
    """A Keras model as one line, in place of its address in memory."""
    printer.text(summary.line(value))


def place_name(shell: Shell, file: str, line: int) -> str:
    """'In [3]' for a cell of one line, 'In [3] line 2' for a longer one, else 'file.py:12'."""
    short = file.replace("\\", "/").rsplit("/", 1)[-1]
    return errors.cell_place(shell, file, line) or f"{short}:{line}"


def tell_error(shell: Shell, publish: Publish, error: BaseException) -> None:
    """Send what is known of a KbenchError, and which name was meant by another one."""
    ours = isinstance(error, errors.KbenchError)
    try:
        known = explanation.detail(error) if ours else did_you_mean.detail(error)
        if known:
            publish(messages.push("error", known))
    except Exception:  # the report of an error must not replace it
        shell.log.debug("no detail of the error", exc_info=True)


def _reporter(publish: Publish) -> ErrorHandler:
    """The shell's handler of KbenchErrors, and of names that are none: send what is known of them,
    then show the user's frames."""

    def report(
        shell: Shell,
        kind: type[BaseException],
        error: BaseException,
        traceback: TracebackType | None,
        tb_offset: int | None = None,
    ) -> list[str]:
        tell_error(shell, publish, error)
        if not isinstance(error, errors.KbenchError):
            return did_you_mean.report(shell, kind, error, traceback, tb_offset)
        offset = shell.InteractiveTB.tb_offset if tb_offset is None else tb_offset
        frames = explanation.user_frames(traceback) or traceback
        lines = shell.InteractiveTB.structured_traceback(kind, error, frames, offset)
        shell._showtraceback(kind, error, lines)
        return lines

    return report
