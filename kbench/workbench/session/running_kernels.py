"""Kernels that run already: found by their connection files, questioned, and watched from outside.

Nothing here starts, signals or ends a kernel: it belongs to whoever started it.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from kbench.engine.runtime import paths
from kbench.workbench.core_types import JsonObject

ANSWER_SECONDS = 5.0
"""In which a kernel must answer."""
IDLE_ANSWER_SECONDS = 0.4
"""More, in which one that is idle answers on its shell channel, too."""
GROUP_ANSWER_SECONDS = 2.0
"""For each of several that are asked together."""
POLL_SECONDS = 0.5
"""Between two looks at whether the kernel is still there."""
GOODBYE_SECONDS = 10.0
"""That a kernel may take to go once it has said goodbye."""
_CONNECT_SECONDS = 1.0
"""For a connection to its shell channel; one of this machine takes or refuses it at once."""
_FIELDS = {
    "shell_port": int,
    "iopub_port": int,
    "stdin_port": int,
    "control_port": int,
    "ip": str,
    "key": str,
    "transport": str,
}


class AttachError(Exception):
    """Why there is no attaching; the text is for the user."""


class Kernel(Struct, frozen=True):
    """A connection file that somebody listens behind."""

    path: Path
    connection: JsonObject
    began: float

    @property
    def name(self) -> str:
        """The file's name without what all of them have in common."""
        return self.path.stem.removeprefix("kernel-")

    @property
    def notebook(self) -> str:
        """'train.ipynb, ' where Jupyter has written whose kernel it is, else ''."""
        name = str(self.connection.get("jupyter_session") or "").replace("\\", "/")
        return f"{name.rsplit('/', 1)[-1][:60]}, " if name else ""

    @property
    def when(self) -> str:
        """'Sat 21 Nov 18:02'."""
        return time.strftime("%a %d %b %H:%M", time.localtime(self.began))


class Facts(Struct, frozen=True):
    """What a kernel says of itself. `state`: idle, or busy with a cell."""

    language: str
    version: str
    implementation: str
    state: str

    @property
    def words(self) -> str:
        """'Python 3.11.2, ipython, busy'."""
        return f"{self.language.capitalize()} {self.version}, {self.implementation}, {self.state}"


def runtime_folder() -> Path:
    """Where Jupyter keeps the connection files of kernels that run."""
    from jupyter_core.paths import jupyter_runtime_dir

    return Path(jupyter_runtime_dir())


def find(wanted: str = "") -> list[Kernel]:
    """The kernels that `wanted` may mean, newest first: a file, part of a file's name, '' for any.

    Raises:
        AttachError: there is none, or all of them have ended.
    """
    path = Path(wanted).expanduser()
    if wanted and path.is_file():
        return [_living(path)]
    if wanted and ("/" in wanted or path.suffix == ".json" and not _files(wanted)):
        raise AttachError(f"there is no connection file {wanted}")
    files = _files(wanted)
    with ThreadPoolExecutor(8) as pool:
        found = [kernel for kernel in pool.map(_living_or_none, files) if kernel is not None]
    if found:
        exact = [kernel for kernel in found if wanted in (kernel.name, kernel.path.name)]
        return exact or found
    ended = f"; the kernels of {len(files)} files there have ended" if files else ""
    if wanted:
        where = f"in {runtime_folder()}{ended}"
        raise AttachError(f"no running kernel is named like {wanted[:80]!r} {where}")
    raise AttachError(f"no Jupyter kernel is running (looked in {runtime_folder()}{ended})")


def _files(wanted: str) -> list[Path]:
    """Connection files whose names hold `wanted`, newest first."""
    try:
        found = [path for path in runtime_folder().glob("kernel-*.json") if wanted in path.name]
        return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []


def _living_or_none(path: Path) -> Kernel | None:
    try:
        return _living(path)
    except AttachError:
        return None


def _living(path: Path) -> Kernel:
    connection = read_connection(path)
    if not accepts(connection):
        where = address(connection)
        raise AttachError(f"the kernel of {path} has ended: nobody listens at {where}")
    return Kernel(path, connection, path.stat().st_mtime)


def read_connection(path: Path) -> JsonObject:
    """The content of a connection file.

    Raises:
        AttachError: it cannot be read or is not a connection file.
    """
    try:
        table = json.loads(paths.read_text(path))
    except OSError as error:
        raise AttachError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise AttachError(f"{path} is not a connection file: it is not JSON") from None
    if not isinstance(table, dict):
        raise AttachError(f"{path} is not a connection file")
    for name, kind in _FIELDS.items():
        if type(table.get(name)) is not kind:
            raise AttachError(f"{path} is not a connection file: {name} is missing or wrong")
    if table["transport"] not in ("tcp", "ipc"):
        raise AttachError(f"{path}: the transport {table['transport'][:20]!r} is not known")
    return table


def address(connection: JsonObject) -> str:
    """Where the kernel's shell channel is, for people."""
    joint = ":" if connection["transport"] == "tcp" else "-"
    return f"{connection['ip']}{joint}{connection['shell_port']}"


def accepts(connection: JsonObject) -> bool:
    """Whether anybody listens there; a process that has ended refuses at once."""
    try:
        if connection["transport"] == "tcp":
            target = (connection["ip"], connection["shell_port"])
            socket.create_connection(target, _CONNECT_SECONDS).close()
            return True
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
            knock.settimeout(_CONNECT_SECONDS)
            knock.connect(address(connection))
        return True
    except (OSError, OverflowError, ValueError):
        return False


def is_local(connection: JsonObject) -> bool:
    """Whether the kernel's process is one of this machine."""
    local = ("127.0.0.1", "::1", "localhost")
    return connection["transport"] == "ipc" or connection["ip"] in local


def ask(kernel: Kernel, patience: float = ANSWER_SECONDS) -> Facts:
    """What the kernel says of itself; asked on the control channel, which a cell does not block.

    Raises:
        AttachError: no answer, or it is no Python kernel.
    """
    from kbench.workbench.session.wire import Wire

    wire = Wire(kernel.connection)
    try:
        for channel in ("control", "shell"):
            wire.send(channel, "kernel_info_request", {})
        deadline = time.monotonic() + patience
        info, state = None, "busy"
        while time.monotonic() < deadline and state == "busy":
            wire.pause(0.05)
            for channel in ("control", "shell"):
                for message in wire.receive(channel):
                    if info is None:
                        deadline = min(deadline, time.monotonic() + IDLE_ANSWER_SECONDS)
                    info = message["content"]
                    state = "idle" if channel == "shell" else state
    finally:
        wire.close()
    if info is None:
        raise AttachError(
            f"the kernel of {kernel.path} did not answer within {patience:g} s: it is busy and "
            "answers only between cells, or the file's key is not its own"
        )
    return _facts(kernel, info, state)


def _facts(kernel: Kernel, info: JsonObject, state: str) -> Facts:
    spoken = info.get("language_info")
    spoken = spoken if isinstance(spoken, dict) else {}
    language = str(spoken.get("name", "an unknown language"))[:40]
    if language.lower() not in ("python", "ipython"):
        raise AttachError(f"the kernel of {kernel.path} runs {language}, not Python")
    version = str(spoken.get("version", ""))[:40]
    return Facts("python", version, str(info.get("implementation", ""))[:40], state)


def ask_all(kernels: list[Kernel]) -> list[str]:
    """A few words on each, '' for one that cannot be used; all are asked at once."""

    def words(kernel: Kernel) -> str:
        try:
            return ask(kernel, GROUP_ANSWER_SECONDS).words
        except AttachError:
            return ""

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(words, kernels))


class ExistingKernel:
    """Stands where a session has the process of its own kernel; looks only whether it is there."""

    pid: int | None = None  # known once its inspector has said hello

    def __init__(self, kernel: Kernel, returned: Callable[[], object]) -> None:
        self.kernel = kernel
        self.connection = kernel.connection
        self._returned = returned
        self._stop = threading.Event()
        self._going_until = 0.0  # it has said goodbye and was still there when last looked for
        self._present = True

    def start(self, ended: Callable[[ExistingKernel, int | None], object]) -> None:
        """Watch; `ended(self, None)` is called from a thread when nobody listens any more."""
        watch = threading.Thread(
            target=self._watch, args=(ended,), name="kbench-kernel-watch", daemon=True
        )
        watch.start()

    def _watch(self, ended: Callable[[ExistingKernel, int | None], object]) -> None:
        while not self._stop.wait(POLL_SECONDS / 5 if self._going_until else POLL_SECONDS):
            there = accepts(self.connection)
            if not there or time.monotonic() > self._going_until:
                self._going_until = 0.0
            there = there and not self._going_until
            if self._stop.is_set():
                return
            if there != self._present:
                self._present = there
                self._returned() if there else ended(self, None)

    def said_goodbye(self) -> None:
        """The kernel has told that it ends; it may come back under the same address."""
        self._going_until = time.monotonic() + GOODBYE_SECONDS

    def alive(self) -> bool:
        """Whether it was there when last looked for."""
        return self._present

    def log_tail(self) -> str:
        """Its words on standard error went elsewhere."""
        return ""

    def interrupt(self) -> None:
        """No signal: the session asks for an interrupt on the control channel."""

    def wait(self, timeout: float) -> bool:
        """Nobody waits for the end of a kernel that is not ours."""
        return True

    def end(self, timeout: float) -> None:
        """Look no longer. The kernel goes on."""
        self._stop.set()

    def remove(self) -> None:
        """Its files are not ours."""
