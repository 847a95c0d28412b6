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
_STEPS = 3  # of a training step, whose losses are compared


class Worker:
    """The library, and the workload being measured."""

    def __init__(self, name: str, threads: int) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        import numpy as np

        self.np = np
        start = time.perf_counter()
        self.library = self.load(name, threads)
        self.import_seconds = time.perf_counter() - start
        self.threads = threads
        self.call: Any = None
        self.value: Any = None
        self.batch = 1

    def load(self, name: str, threads: int) -> Any:
        """The library, by its name, without the forms that it is to do without."""
        from forms import WITHOUT, leave_out
        from libraries import LIBRARIES

        library = LIBRARIES[name](threads)
        leave_out(os.environ.get(WITHOUT, ""))
        return library

    def forget(self) -> dict[str, Any]:
        """Let the last workload's arrays go."""
        self.call = self.value = None
        gc.collect()
        return {}

    def prepare(self, workload: str, seed: int, result: str | None = None) -> dict[str, Any]:
        """Build a workload, time its first call, and leave its value in the folder `result`."""
        from workloads import WORKLOADS

        self.forget()
        one = WORKLOADS[workload]
        random = self.np.random.default_rng(seed)
        arrays = one.inputs(random)
        if one.mode == "train":
            assert one.weights is not None
            weights = one.weights(random)
            start, system = time.perf_counter(), os.times().system
            self.call, reset = self.library.train(one.formula, arrays, weights)
            self.value = lambda: self._losses(reset)
        else:
            make = {"eval": self.library.evaluate, "exchange": self.library.exchange}
            start, system = time.perf_counter(), os.times().system
            self.call = make.get(one.mode, self.library.function)(one.formula, arrays)
            self.value = self.call
        first = self.call()
        seconds, system = time.perf_counter() - start, os.times().system - system
        if result is not None:
            # A step of training has moved the weights, so its value is made anew.
            self._save(self.value() if one.mode == "train" else first, result)
        return {"first": seconds, "system": system}

    def prepare_model(self, name: str) -> dict[str, Any]:
        """Build a model of Keras, whose call is a step on one batch."""
        from cold import build

        self.forget()
        model, inputs, targets = build(name)
        self.call = lambda: model.train_on_batch(inputs, targets)
        self.call()
        return {}

    def take_apart(self, threads: int, seconds: float) -> dict[str, Any]:
        """The launches of the call, as the engine cuts them for so many threads."""
        from launches import take_apart

        return take_apart(self.call, threads, seconds)

    def machine_rates(self) -> dict[str, Any]:
        """What this machine gives to launches on one and on two threads."""
        from machine_rates import rates, waking

        return {"rates": rates((1, 2)), "waking": waking()}

    def limit(self, threads: int) -> dict[str, Any]:
        """Let kbench use so many threads, on any of the cores."""
        self.library.K.set_num_threads(threads)
        return {}

    def _losses(self, reset: Any) -> list[Any]:
        reset()
        return [self.library.array(self.call()) for _ in range(_STEPS)]

    def _save(self, value: Any, folder: str) -> None:
        several = value if isinstance(value, (list, tuple)) else [value]
        for number, one in enumerate(several):
            array = self.np.asarray(self.library.array(one))
            self.np.save(os.path.join(folder, f"{number:03d}.npy"), array)

    def warm(self, seconds: float) -> dict[str, Any]:
        """Call until background compilation and caches have settled; choose the batch size."""
        self.call()
        self.library.settle()
        end = time.perf_counter() + seconds
        best = float("inf")
        while best == float("inf") or time.perf_counter() < end:
            start = time.perf_counter()
            self.call()
            best = min(best, time.perf_counter() - start)
        self.batch = max(1, int(_BATCH_SECONDS / best))
        return {"best": best}

    def last(self, result: str) -> dict[str, Any]:
        """Leave the value of one more call in the folder `result`: is it still right?"""
        self._save(self.value(), result)
        return {}

    def round(self, seconds: float, least: int = 1) -> dict[str, Any]:
        """Seconds per call, measured for about `seconds`, but `least` times."""
        call, batch, times = self.call, self.batch, []
        gc.collect()
        gc.disable()
        end = time.perf_counter() + seconds
        while len(times) < least or time.perf_counter() < end:
            start = time.perf_counter()
            for _ in range(batch):
                call()
            times.append((time.perf_counter() - start) / batch)
        gc.enable()
        return {"times": times}

    def calls(self, count: int) -> dict[str, Any]:
        """So many calls, for what they leave behind."""
        for _ in range(count):
            self.call()
        return {}

    def memory(self, reset: bool) -> dict[str, Any]:
        """Bytes of memory in use, and the most since the last reset, where Linux tells."""
        gc.collect()
        with open("/proc/self/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        found = {name: int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")}
        if reset:
            with open("/proc/self/clear_refs", "w") as control:
                control.write("5")
        return {"now": found["VmRSS"], "peak": found["VmHWM"]}

    def copy_limit(self, seconds: float) -> dict[str, Any]:
        """Bytes read and written per second by the best copy of an array that no cache holds."""
        from concurrent.futures import ThreadPoolExecutor

        source = self.np.ones(32 << 20, self.np.float32)
        target = self.np.ones_like(source)
        ones = self.np.array_split(source, self.threads)
        others = self.np.array_split(target, self.threads)
        best = float("inf")
        with ThreadPoolExecutor(self.threads) as pool:
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                start = time.perf_counter()
                list(pool.map(self.np.copyto, others, ones))
                best = min(best, time.perf_counter() - start)
        return {"rate": 2 * source.nbytes / best}


def main(make: type[Worker] = Worker) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = make(sys.argv[1], int(sys.argv[2]))
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
