"""One backend of Keras 3 in a process of its own."""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])  # of all benchmarks, not of this package

import worker  # noqa: E402


class Backend:
    """Keras 3, on the backend that the environment names."""

    def __init__(self, name: str, threads: int) -> None:
        if name == "kbench":
            import keras_kbench  # noqa: F401
        import keras

        self.keras = keras
        assert keras.backend.backend() == name, keras.backend.backend()
        if name == "torch":
            import torch

            torch.set_num_threads(threads)
        self.version = f"{keras.__version__}, {name} {importlib.import_module(name).__version__}"

    def settle(self) -> None:
        """Nothing is compiled behind the call; `warm` asks."""

    def done(self, value: Any) -> None:
        """Wait for a value: JAX gives it before it is there."""
        ready = getattr(value, "block_until_ready", None)
        if ready:
            ready()


class Kbench(Backend):
    """The backend whose kernels are compiled while it works without them."""

    def settle(self) -> None:
        """Wait until nothing more is compiled."""
        from kbench.engine.jit.service import service

        service.wait_idle(60)


class Worker(worker.Worker):
    """The backend, and the model or call that is measured."""

    def load(self, name: str, threads: int) -> Any:
        """Keras on this backend."""
        return (Kbench if name == "kbench" else Backend)(name, threads)

    def start(self, name: str, epoch: bool) -> dict[str, Any]:
        """Build a model and fit one batch: seconds of both, those of the batch that the system took
        for this process, and the memory before. Fit an `epoch`, too."""
        from keras3.cases import CASES
        from keras3.models import build

        self.forget()
        before = self.memory(reset=True)["now"]
        begun = time.perf_counter()
        model, inputs, targets = build(name)
        built = time.perf_counter()
        batch = CASES[name].batch
        self.fit: dict[str, Any] = {"batch_size": batch, "shuffle": False, "verbose": 0}
        system = os.times().system
        losses = list(model.fit(inputs[:batch], targets[:batch], **self.fit).history["loss"])
        at, system = time.perf_counter(), os.times().system - system
        if epoch:
            losses += model.fit(inputs, targets, **self.fit).history["loss"]
        self.model, self.inputs, self.targets = model, inputs, targets
        row = {"build": built - begun, "first": at - built, "system": system, "before": before}
        return {**row, "losses": [float(loss) for loss in losses]}

    def choose(self, what: str) -> dict[str, Any]:
        """What a round calls: `fit` or `predict`, over all batches."""
        if what == "fit":
            self.call = lambda: self.model.fit(self.inputs, self.targets, **self.fit)
        else:
            size = self.fit["batch_size"]
            self.call = lambda: self.model.predict(self.inputs, batch_size=size, verbose=0)
        return {}

    def choose_eager(self, name: str) -> dict[str, Any]:
        """A function of `keras.ops` on values that are there."""
        from keras3.cases import SEED, eager_call

        random, keras = self.np.random.default_rng(SEED), self.library.keras

        def tensor(shape: tuple[int, ...]) -> Any:
            return keras.ops.convert_to_tensor(random.random(shape, "float32"))

        call, done = eager_call(name, keras.ops, tensor), self.library.done
        self.call = lambda: done(call())
        return {}

    def settle(self) -> dict[str, Any]:
        """Train until nothing more is compiled; a kernel that comes late may ask for the next."""
        for _ in range(4 if isinstance(self.library, Kbench) else 1):
            self.call()
            self.library.settle()
        return {}


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    worker.main(Worker)
