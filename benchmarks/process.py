"""A library at work in a process of its own, which is asked one thing at a time.

It may crash or hang without harm: the question is then answered with `error`, and the next one
finds a new process.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WORKER = Path(__file__).resolve().parent / "worker.py"
STARTING = 120.0  # seconds for an import

# Freed memory is kept for the next result instead of going back to the system (glibc's allocator).
KEPT = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(1 << 26),
    "MALLOC_ARENA_MAX": "1",
}
# These make a library less than it is on this machine.
_DROPPED = ("OPENBLAS_CORETYPE", *KEPT)


def users_environment() -> dict[str, str]:
    """The environment of a user's process: kbench has told idle threads of this one, and so of
    those that begin from it, to sleep at once, which slows small operations of PyTorch by two."""
    threads = sys.modules.get("kbench.engine.runtime.threads")
    return dict(os.environ) if threads is None else dict(threads.users_environment())


class Process:
    """One contestant; `label` is its name in the table."""

    def __init__(
        self,
        python: str,
        name: str,
        threads: int,
        environment: dict[str, str],
        label: str = "",
        worker: Path | None = None,
    ) -> None:
        self.name = label or name
        self._command = [python, str(worker or WORKER), name, str(threads)]
        clean = {key: value for key, value in users_environment().items() if key not in _DROPPED}
        self._environment = {**clean, "OMP_NUM_THREADS": str(threads), **environment}
        self._process: subprocess.Popen[str] | None = None
        self.hello = self._start()

    def _start(self) -> dict[str, Any]:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment,
            text=True,
        )
        return self._answer(STARTING)

    def _answer(self, patience: float) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdout is not None
        if not select.select([process.stdout], [], [], patience)[0]:
            self._end(kill=True)
            return {"error": f"no answer within {patience:.0f} s"}
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self._end()
            return {"error": f"ended with code {code}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, patience: float = 60.0, **arguments: Any) -> dict[str, Any]:
        """Ask for one thing and wait for the answer; trouble comes back as `error`."""
        if self._process is None:
            if do not in ("prepare", "copy_limit"):
                return {"error": "has ended"}
            started = self._start()
            if "error" in started:
                return started
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            self._end()
            return {"error": "has ended"}
        return self._answer(patience)

    def _end(self, kill: bool = False) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        if kill:
            process.kill()
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        deadline = time.monotonic() + 10
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()

    def close(self) -> None:
        """End the process and wait for it."""
        self._end()
