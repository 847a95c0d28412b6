"""The process that compiles for others: reads sources, stores code, answers.

A request is a line of JSON with a name, a source, a folder, and the key by which other
processes may be compiling it, if that matters. An answer is one with the key it is stored under,
with none where another process compiles it, or with the reason why it is not. The process ends with
its input, and with its parent, at once: a child that the parent has forked meanwhile may hold the
other end of the input for hours.

A parent that ends as it should may ask it to stay, by a last line with what is left to compile. It
answers that it does, does that much without further answers, and ends. One process in a folder
does so at a time; others end once they have stored what they compile.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from kbench.engine.core import fork_safety

PARENT_POLL_SECONDS = 0.5
"""Time between two looks at whether the parent is there, where the system does not tell."""

_PARENT_DEATH_SIGNAL = 1


LEFT_SECONDS = 30.0
"""After the end of its parent, no further kernel is begun; the longest take 5 s."""
_FAREWELL = "left"


class _Requests:
    """What is asked, and whether whoever asked has gone and left it here."""

    def __init__(self, answers: TextIO) -> None:
        self._asked: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._answers = answers
        self._answering = fork_safety.lock()
        self.left: list[dict[str, Any]] | None = None
        """What is still to be done by itself, once nobody waits for answers any more."""
        threading.Thread(target=self._read, daemon=True).start()

    def answer(self, **fields: object) -> None:
        """Tell whoever asked, if he is there."""
        with self._answering:
            if self.left is None:
                self._tell(fields)

    def _tell(self, fields: dict[str, object]) -> None:
        self._answers.write(json.dumps(fields) + "\n")
        self._answers.flush()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (asked := self._asked.get()) is not None:
            yield asked

    def _read(self) -> None:
        """Hand on what is asked; the end of the input is the end of whoever asked."""
        _die_with_parent(signal.SIGKILL)  # in this thread, as the other is deep in a compile
        for line in sys.stdin.buffer:
            asked = json.loads(line)
            if _FAREWELL in asked:
                self._stay(asked[_FAREWELL])
                return
            self._asked.put(asked)
        os._exit(0)

    def _stay(self, left: list[dict[str, Any]]) -> None:
        _die_with_parent(0)
        with self._answering:
            self.left = left
            self._tell({_FAREWELL: True})
        self._asked.put(None)

    def watch(self, parent: int) -> None:
        """End this process when its parent ends, however it does, unless it is to stay."""
        first = os.getppid()
        while first == os.getppid() and not (first == 1 != parent):  # 1 takes over orphans
            time.sleep(PARENT_POLL_SECONDS)
        if self.left is None:
            os._exit(0)


def _die_with_parent(number: int) -> None:
    """Have the system send this signal when the parent is gone; 0 for none."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, number, 0, 0, 0)


def serve(descriptor: int, parent: int) -> None:
    """Answer requests until the input or the parent ends."""
    requests = _Requests(os.fdopen(descriptor, "w", encoding="utf-8"))
    if hasattr(os, "getppid") and sys.platform != "win32":
        threading.Thread(target=requests.watch, args=(parent,), daemon=True).start()
    try:
        from kbench.engine.jit import disk_cache, numba_backend
        from kbench.engine.jit.compiling import build, compile_lock

        numba_backend.use_whole_vectors()
        numba_backend.compile_objects_only()
    except Exception as error:
        requests.answer(error=f"{type(error).__name__}: {error}")
        return

    def compile_one(asked: dict[str, Any]) -> str | None:
        disk_cache.use_folder(Path(asked["folder"]))
        with compile_lock.claimed(asked["name"], asked["shared_key"]) as is_ours:
            return build.build(asked["name"], asked["text"]) if is_ours else None

    requests.answer(ready=True)
    tidy = False
    for asked in requests:
        try:
            key = compile_one(asked)
            if key is not None and not tidy:
                disk_cache.prune()
                tidy = True
            requests.answer(key=key)
        except Exception as error:
            requests.answer(error=f"{type(error).__name__}: {error}")
    end = time.monotonic() + LEFT_SECONDS
    with compile_lock.claimed("left", "over") as is_alone:
        for asked in requests.left or ():
            if is_alone and time.monotonic() < end:
                with contextlib.suppress(Exception):
                    compile_one(asked)
    os._exit(0)  # as its input may be open, and a thread waits for it
