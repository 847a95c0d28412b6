"""The kernel's process: its private runtime folder, start, interrupt, death and removal.

Starting needs nothing but the standard library on POSIX, so that a front end can start the kernel
first and import everything else while it comes up.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol

from kbench.engine.runtime.environment import env
from kbench.workbench.core_types import JsonObject

Ended = Callable[["KernelProcess", int | None], object]
EXTENSION = "kbench.workbench.kernel.extension"
POSIX = os.name == "posix"
_MAX_SOCKET_PATH_BYTES = 100
"""The system's limit for the path of a Unix socket is 108."""
_LOG_TAIL_BYTES = 4_000
"""Of the kernel's standard error: a fault handler's stack."""
_PREFIX = "kbench-session-"
_MIN_ORPHAN_SECONDS = 60.0
"""A younger folder may be about to be locked by its owner."""
_PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


class Process(Protocol):
    """What a session does with the process of its kernel, or with what stands for it."""

    pid: int | None
    connection: JsonObject

    def alive(self) -> bool: ...
    def interrupt(self) -> None: ...
    def wait(self, timeout: float) -> bool: ...
    def log_tail(self) -> str: ...
    def end(self, timeout: float) -> None: ...
    def remove(self) -> None: ...


class KernelProcess:
    """One ipykernel in a process of its own. Nothing of it writes to this process's terminal."""

    def __init__(self) -> None:
        self.folder = _runtime_folder()
        self._held = _lock(self.folder)
        self.connection_file = self.folder / "kernel.json"
        self.log = self.folder / "kernel.log"
        self.connection: JsonObject = {}
        self.pid: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, ended: Ended) -> None:
        """Start the process; `ended(self, code)` is called from a thread when it ends."""
        self.connection = _write_connection(self.connection_file)
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", str(self.connection_file)]
        command += [
            f"--ext={EXTENSION}",
            "--HistoryManager.hist_file=:memory:",
            "--InteractiveShell.colors=nocolor",
            "--IPCompleter.use_jedi=False",  # up to seconds an answer; the names are at hand
        ]
        environment = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        environment.pop("COLUMNS", None)  # of the terminal; that of the transcript comes with cells
        with open(self.log, "ab") as log:
            self._process = _spawn(command, environment, log)
        self.pid = self._process.pid
        waiter = threading.Thread(
            target=self._wait, args=(self._process, ended), name="kbench-kernel-wait", daemon=True
        )
        waiter.start()

    def _wait(
        self,
        process: subprocess.Popen[bytes],
        ended: Ended,
    ) -> None:
        ended(self, process.wait())

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def interrupt(self) -> None:
        """Ctrl+C for the kernel and the commands that it runs."""
        if POSIX:
            self._signal(signal.SIGINT)
            return
        from jupyter_client.win_interrupt import send_interrupt

        event = getattr(self._process, "win32_interrupt_event", None)
        if event is not None and self.alive():
            send_interrupt(event)

    def kill(self) -> None:
        """End the kernel and the commands that it runs at once."""
        if POSIX:
            self._signal(signal.SIGKILL)
        elif self._process is not None:
            self._process.kill()

    def _signal(self, number: int) -> None:
        if self._process is not None and self.alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def wait(self, timeout: float) -> bool:
        """True when the process has ended within `timeout` seconds."""
        if self._process is None:
            return True
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def log_tail(self) -> str:
        """The last words on the kernel's own standard error, such as a fault handler's stack."""
        try:
            return self.log.read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def end(self, timeout: float) -> None:
        """Kill what is left of the process and remove its folder."""
        self.kill()
        self.wait(timeout)
        self.remove()

    def remove(self) -> None:
        """Remove the runtime folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._held is not None:
            self._held.close()


def _runtime_folder() -> Path:
    """A new folder that only this user may enter, short enough to hold sockets."""
    for base in (env("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        if (
            base
            and len(os.fsencode(base)) < _MAX_SOCKET_PATH_BYTES - 30
            and os.access(base, os.W_OK)
        ):
            _remove_orphans(Path(base))
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    return Path(tempfile.mkdtemp(prefix=_PREFIX))


def _remove_orphans(base: Path) -> None:
    """Remove the folders of our own sessions whose front end was killed: nobody locks them."""
    for folder in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            known = folder.lstat()
            ours = POSIX and known.st_uid == os.getuid() and folder.is_dir()
            if ours and time.time() - known.st_mtime > _MIN_ORPHAN_SECONDS:
                lock = _lock(folder)
                if lock is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                    lock.close()


def _lock(folder: Path) -> IO[str] | None:
    """Hold a folder until the returned file is closed or this process ends; None if it is held."""
    if not POSIX:
        return None
    import fcntl

    file = open(folder / "lock", "a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _write_connection(path: Path) -> JsonObject:
    """Write the connection file: Unix sockets beside it, or on other systems loopback TCP."""
    if not POSIX:
        from jupyter_client.connect import write_connection_file

        key = secrets.token_hex(32).encode()
        return dict(write_connection_file(str(path), key=key)[1])
    info: JsonObject = {name: number for number, name in enumerate(_PORTS, 1)}
    info.update(
        transport="ipc",
        ip=str(path.parent / "socket"),
        key=secrets.token_hex(32),
        signature_scheme="hmac-sha256",
        kernel_name="",
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(info, stream)
    return info


def _spawn(
    command: list[str], environment: dict[str, str], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    if POSIX:
        # A session of its own keeps the terminal's Ctrl+C away; the variable makes the kernel
        # end when this process does, however it ends.
        environment["JPY_PARENT_PID"] = str(os.getpid())
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    from jupyter_client.launcher import launch_kernel

    out: Any = log  # its types know file descriptors only
    process: subprocess.Popen[bytes] = launch_kernel(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment
    )
    return process
