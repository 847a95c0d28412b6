"""The process that compiles for others: reads sources, stores code, answers.

A request is a line of JSON with a name, a source, a folder, and the key by which other
processes may be compiling it, if that matters. An answer is one with the key it is stored under,
with none where another process compiles it, or with the reason why it is not. The process ends with
its input, and with its parent, at once: a child that the parent has forked meanwhile may hold the
other end of the input for hours.
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
from pathlib import Path
from typing import Any

PARENT_POLL_SECONDS = 0.5
"""Time between two looks at whether the parent is there, where the system does not tell."""

_PARENT_DEATH_SIGNAL = 1


def _read(requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Hand on what is asked; the end of the input is the end of whoever asked."""
    for line in sys.stdin.buffer:
        requests.put(json.loads(line))
    os._exit(0)


def _end_with(parent: int) -> None:
    """End this process when its parent ends, however it does."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if hasattr(os, "getppid") and sys.platform != "win32":
        threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()


def _watch_parent(parent: int) -> None:
    first = os.getppid()
    while first == os.getppid() and not (first == 1 != parent):  # 1 takes over orphans
        time.sleep(PARENT_POLL_SECONDS)
    os._exit(0)


def serve(descriptor: int, parent: int) -> None:
    """Answer requests until the input or the parent ends."""
    _end_with(parent)
    answers = os.fdopen(descriptor, "w", encoding="utf-8")
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()

    def answer(**fields: object) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        from kbench.engine.jit import disk_cache, numba_backend
        from kbench.engine.jit.compiling import build, compile_lock

        numba_backend.use_whole_vectors()
        numba_backend.compile_objects_only()
    except Exception as error:
        answer(error=f"{type(error).__name__}: {error}")
        return
    answer(ready=True)
    tidy = False
    while True:
        asked = requests.get()
        try:
            disk_cache.use_folder(Path(asked["folder"]))
            name, text = asked["name"], asked["text"]
            with compile_lock.claimed(name, asked["shared_key"]) as is_ours:
                key = build.build(name, text) if is_ours else None
            if key is not None and not tidy:
                disk_cache.prune()
                tidy = True
            answer(key=key)
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}")
