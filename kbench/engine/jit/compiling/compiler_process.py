"""Who compiles: a process of its own where that can be had, else the thread that asks.

In a process of its own a compile takes neither the interpreter's lock nor much of the processor
from the user's work, may crash, and leaves no memory behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kbench.engine.core import fork_safety

BACKGROUND_NICENESS = 4
"""Added to the process's niceness, so that the user's own work comes first while he does not wait
for the compiler. With 10 it starves beside other work: a training process of 20 s took 40 to 50."""

_START = (
    "import os, sys; parent = int(sys.argv[1]); sys.path[:] = sys.argv[2:]; "
    "os.environ['OPENBLAS_NUM_THREADS'] = '1'; "
    "answers = os.dup(1); os.dup2(2, 1); "  # what a library prints does not get among the answers
    "from kbench.engine.jit.compiling.worker import serve; serve(answers, parent)"
)


LEFT = "left"
"""Field of the last line that is written to a compiler, and of its answer: see `leave`."""
_LOOK_SECONDS = 0.001
"""Time between two tries to write to a pipe that is full."""
STAY_SECONDS = 0.25
"""How long the end of a process waits for its compiler to say that it stays; it takes some 5 ms."""


class CompileError(Exception):
    """A source that cannot be compiled; it says why."""


class NoCompilerError(Exception):
    """There is nothing to compile with."""


class CompilerProcess:
    """A process that compiles one source after the other; `urgent` while somebody waits for it.

    Raises:
        OSError: no process can be started here.
    """

    def __init__(self, urgent: bool = False) -> None:
        import subprocess  # here, as few processes compile and each would load it

        python = sys.executable or ""
        if not Path(python).name.lower().startswith("python"):
            raise OSError(f"{python!r} may not be Python")
        # Ctrl+C is not for it. In a session of its own it would have as much of the processor as
        # all of the user's work, however nice it is: Linux shares between sessions first.
        detached: dict[str, Any] = {"process_group": 0}
        if sys.platform == "win32":
            behind = 0 if urgent else subprocess.BELOW_NORMAL_PRIORITY_CLASS
            detached = {"creationflags": subprocess.CREATE_NO_WINDOW | behind}
        command = [python, "-P", "-c", _START, str(os.getpid()), *filter(None, sys.path)]
        # A child that is forked meanwhile would hold a pipe whose end is waited for here.
        with fork_safety.unforked:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                **detached,
            )
        self._greeted = False
        self._stays = threading.Event()
        self.urgent = True
        if not urgent:
            self.lower_priority()

    def lower_priority(self) -> None:
        """Let the user's own work come first."""
        if self.urgent:
            self.urgent = False
            with contextlib.suppress(OSError):
                self._set_priority(BACKGROUND_NICENESS)

    def raise_priority(self) -> bool:
        """Let it have as much of the processor as the caller; False where the system says no, as
        most do once it has stood back."""
        if not self.urgent:
            with contextlib.suppress(OSError):
                self.urgent = self._set_priority(0)
        return self.urgent

    def _set_priority(self, behind: int) -> bool:
        if not hasattr(os, "setpriority"):
            return False
        own = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, self._process.pid, min(own + behind, 19))
        return True

    def compile(self, name: str, text: str, folder: Path, shared_key: str = "") -> str | None:
        """The key under which the source's code now lies in the folder; None where another process
        compiles what has this key, or just has.

        Raises:
            CompileError: it cannot be compiled.
            NoCompilerError: the process has nothing to compile with.
            EOFError: the process has ended.
        """
        if not self._greeted:  # not when it is made: it takes half a second to load the compiler
            try:
                self._answer()
            except (CompileError, EOFError) as error:
                raise NoCompilerError(str(error)) from error
            self._greeted = True
        asked = json.dumps(request_of(name, text, folder, shared_key)) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(asked.encode())
            self._process.stdin.flush()
        except OSError as error:
            raise EOFError("the compiling process has ended") from error
        key = self._answer()["key"]
        return None if key is None else str(key)

    def _answer(self) -> dict[str, object]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the compiling process has ended")
        answer: dict[str, object] = json.loads(line)
        if LEFT in answer:
            self._stays.set()
            raise EOFError("this process is ending")
        if "error" in answer:
            raise CompileError(str(answer["error"]))
        return answer

    def leave(self, requests: list[dict[str, str]]) -> bool:
        """Have it end what it compiles, and these, after this process; False if it does not answer.

        Called while another thread waits in `compile`, which ends with an EOFError then.
        """
        pipe = self._process.stdin
        if not self._greeted or pipe is None or sys.platform == "win32":
            return False
        self.lower_priority()
        line = json.dumps({LEFT: requests}).encode() + b"\n"
        return _written(pipe.fileno(), line, STAY_SECONDS) and self._stays.wait(STAY_SECONDS)

    def interrupt(self) -> None:
        """End it, also in the middle of a compile."""
        self._process.kill()

    def close(self) -> None:
        """End it, unless it was left, and clear up."""
        if self._stays.is_set():
            self._process.returncode = 0  # nobody waits for it
        else:
            self.interrupt()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                continue

    def forget(self) -> None:
        """Let go of a parent's process in a forked child, where its locks may be held for ever.

        Otherwise it would not see its input end while the child lives.
        """
        self._process.returncode = 0
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                os.dup2(nothing, pipe.fileno(), inheritable=False)
        os.close(nothing)


def request_of(name: str, text: str, folder: Path, shared_key: str) -> dict[str, str]:
    """What a process is asked for."""
    return {"name": name, "text": text, "folder": str(folder), "shared_key": shared_key}


def _written(descriptor: int, data: bytes, seconds: float) -> bool:
    """Write all of it to a pipe, if its reader takes it within some seconds."""
    os.set_blocking(descriptor, False)
    end = time.monotonic() + seconds
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(_LOOK_SECONDS)
        except OSError:
            return False
    return True


class InProcessCompiler:
    """Compiles in this process."""

    urgent = True

    def lower_priority(self) -> None:
        """Nothing: it is the caller's own thread that compiles."""

    def raise_priority(self) -> bool:
        """It has as much of the processor as the caller."""
        return True

    def compile(self, name: str, text: str, folder: Path, shared_key: str = "") -> str | None:
        """As a `CompilerProcess` does it, but whatever others compile: a lock would stay with the
        children that are forked meanwhile."""
        try:
            from kbench.engine.jit.compiling import build
        except Exception as error:
            raise NoCompilerError(f"{type(error).__name__}: {error}") from error
        try:
            return build.build(name, text)
        except Exception as error:
            raise CompileError(f"{type(error).__name__}: {error}") from error

    def leave(self, requests: list[dict[str, str]]) -> bool:
        """It cannot outlive this process."""
        return False

    def interrupt(self) -> None:
        """Nothing: LLVM must not be cut off."""

    def close(self) -> None:
        """Nothing to end."""

    def forget(self) -> None:
        """Nothing to let go of."""
