"""One library in a process of its own, with one of the models."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])  # of all benchmarks, not of this package

import worker  # noqa: E402


class Worker(worker.Worker):
    """The library and the model that it has loaded."""

    def load(self, name: str, threads: int) -> Any:
        """The library, by its name."""
        from inference.runners import RUNNERS

        return RUNNERS[name](threads)

    def prepare_case(self, folder: str, batch: int, result: str | None = None) -> dict[str, Any]:
        """Load the model and call it once; `at` is the moment when the first result is there."""
        self.forget()
        before, begun = self.memory(reset=True), time.perf_counter()
        self.call = self.value = self.library.load(folder, batch)
        loaded = time.perf_counter()
        first, at = self.call(), time.time()
        row = {"load": loaded - begun, "call": time.perf_counter() - loaded, "at": at}
        if result is not None:
            self._save(first, result)
        return {**row, "before": before["now"], "loaded": self.memory(reset=False)["peak"]}

    def settle(self) -> dict[str, Any]:
        """Call until nothing more is compiled; a kernel that comes late may ask for the next."""
        for _ in range(4):
            self.call()
            self.library.settle()
        return {}


if __name__ == "__main__":
    worker.main(Worker)
