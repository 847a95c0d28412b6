"""The process that compiles for others: reads sources, stores code, answers. Low in priority.

A request is a line of JSON with a name, a source and a folder; an answer one with the key it is
stored under, or the reason why it is not. The process ends with its input, at once.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any


def _read(requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Hand on what is asked; the end of the input is the end of whoever asked."""
    for line in sys.stdin.buffer:
        requests.put(json.loads(line))
    os._exit(0)


def serve(descriptor: int) -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(descriptor, "w", encoding="utf-8")
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()

    def answer(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        from kbench.engine.kernels import build, compile, store

        compile.use_whole_vectors()
    except Exception as error:
        answer(error=f"{type(error).__name__}: {error}")
        return
    answer(ready=True)
    tidy = False
    while True:
        asked = requests.get()
        try:
            store.use(Path(asked["folder"]))
            key = build.build(asked["name"], asked["text"])
            if not tidy:
                store.prune()
                tidy = True
            answer(key=key)
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}")
