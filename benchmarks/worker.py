"""One library in a process of its own, doing what the harness asks for, line by line in JSON.

Standard output carries the answers; whatever a library prints goes to standard error.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from typing import Any

_BATCH_SECONDS = 2e-4  # calls shorter than this are timed many at a time


class Worker:
    """The library, and the workload being measured."""

    def __init__(self, name: str, threads: int) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        import numpy as np
        from libraries import LIBRARIES

        self.np = np
        start = time.perf_counter()
        self.library = LIBRARIES[name](threads)
        self.import_seconds = time.perf_counter() - start
        self.call: Any = None
        self.batch = 1

    def prepare(self, workload: str, seed: int, result: str) -> dict[str, Any]:
        """Build a workload, time its first call, and leave its value in the file `result`."""
        from workloads import WORKLOADS

        self.call = None
        gc.collect()
        one = WORKLOADS[workload]
        arrays = one.inputs(self.np.random.default_rng(seed))
        start = time.perf_counter()
        make = self.library.evaluate if one.mode == "eval" else self.library.function
        self.call = make(one.formula, arrays)
        value = self.call()
        first = time.perf_counter() - start
        self.np.save(result, self.library.array(value))
        return {"first": first}

    def warm(self, seconds: float) -> dict[str, Any]:
        """Call until background compilation and caches have settled; choose the batch size."""
        end = time.perf_counter() + seconds
        best = float("inf")
        while time.perf_counter() < end:
            start = time.perf_counter()
            self.call()
            best = min(best, time.perf_counter() - start)
        self.batch = max(1, int(_BATCH_SECONDS / best))
        return {"batch": self.batch}

    def last(self, result: str) -> dict[str, Any]:
        """Leave the value of one more call in the file `result`: is it still right?"""
        self.np.save(result, self.library.array(self.call()))
        return {}

    def round(self, seconds: float) -> dict[str, Any]:
        """Seconds per call, measured for about `seconds`, at least three times."""
        call, batch, times = self.call, self.batch, []
        gc.collect()
        gc.disable()
        end = time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            for _ in range(batch):
                call()
            times.append((time.perf_counter() - start) / batch)
        gc.enable()
        return {"times": times}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(sys.argv[1], int(sys.argv[2]))
    hello = {"version": worker.library.version, "import": worker.import_seconds}
    print(json.dumps(hello), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = getattr(worker, request.pop("do"))(**request)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main()
