"""How many functions of kbench a value goes through, in how many files, and how deep they call.

    python .ci/hops.py           a table, as docs/architecture.md has it
    python .ci/hops.py relu      the functions of one way, in the order in which they begin

Only functions written in Python count: calls into NumPy and compiled code are not seen. Kernels are
compiled first, into a cache of its own, so that what is counted is the way when all is warm.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = str(ROOT / "kbench") + os.sep
WARM_RUNS = 40
"""Calls before one is counted: launches are captured after 8, and anew when an array has moved."""
SAMPLES = 9
"""Calls that are counted; the shortest stands for all, as one may meet a replay given up."""


class Hops:
    """The frames of kbench that began while a call ran."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, CodeType]] = []
        self._depth = 0

    def count(self, call: Callable[[], Any]) -> Hops:
        """Run a call, and note every function of kbench that it calls."""
        sys.setprofile(self._note)
        try:
            call()
        finally:
            sys.setprofile(None)
        return self

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if frame.f_code.co_name.startswith("<"):  # a comprehension, a lambda
            return
        if event == "call":
            self._depth += 1
            self.calls.append((self._depth, frame.f_code))
        else:
            self._depth -= 1

    @property
    def row(self) -> tuple[int, int, int, int]:
        """Functions, calls of them, files, and the deepest stack."""
        functions = {code for _, code in self.calls}
        files = {code.co_filename for code in functions}
        deepest = max(depth for depth, _ in self.calls)
        return len(functions), len(self.calls), len(files), deepest


def ways() -> dict[str, tuple[str, Callable[[], Any]]]:
    """What is counted, by a short name: what it is, and the call."""
    import numpy as np

    import kbench as K

    small = K.variable(np.ones((4, 4)))
    large = K.variable(np.ones((64, 64)))
    x = K.placeholder((None, 256))
    warm = K.function([x], [K.relu(x) * 2 + 1])
    rows = np.ones((256, 256), "float32")

    images = K.placeholder((None, 28, 28, 16))
    kernel = K.variable(np.ones((3, 3, 16, 16)))
    conv = K.function([images], [K.conv2d(images, kernel)])
    batch = np.ones((8, 28, 28, 16), "float32")

    train = _training_step(K, np)
    data = np.ones((128, 256), "float32"), np.ones((128, 16), "float32")
    return {
        "relu": ("`K.eval(K.relu(x))`, 4x4", lambda: K.eval(K.relu(small))),
        "new": ("`K.eval` of a new node, 64x64", lambda: K.eval(K.relu(large))),
        "function": ("a warm `K.function`, one fused loop", lambda: warm([rows])),
        "conv2d": ("a warm `conv2d`", lambda: conv([batch])),
        "train": ("a training step on replay", lambda: train(list(data))),
    }


def _training_step(K: Any, np: Any) -> Any:
    """Two layers and plain gradient descent."""
    generator = np.random.default_rng(0)
    x, t = K.placeholder((None, 256)), K.placeholder((None, 16))
    weights = [
        K.variable(generator.normal(size=shape) / 16)
        for shape in ((256, 256), (256,), (256, 16), (16,))
    ]
    w, b, v, c = weights
    y = K.bias_add(K.dot(K.relu(K.bias_add(K.dot(x, w), b)), v), c)
    loss = K.mean(K.square(y - t))
    slopes = K.gradients(loss, weights)
    updates = [K.update_sub(one, 0.01 * slope) for one, slope in zip(weights, slopes, strict=True)]
    return K.function([x, t], [loss], updates=updates)


def _repeat(call: Callable[[], Any]) -> None:
    for _ in range(WARM_RUNS):
        call()


def main() -> int:
    """Print the table, or the functions of one way."""
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(KBENCH_JIT="wait", KBENCH_CACHE_DIR=folder, KERAS_HOME=folder)
        wanted = sys.argv[1:]
        for _, call in ways().values():  # compiles: what is built anew finds its kernels at once
            _repeat(call)
        for name, (label, call) in ways().items():
            if wanted and name not in wanted:
                continue
            _repeat(call)
            counted = [Hops().count(call) for _ in range(SAMPLES)]
            hops = min(counted, key=lambda one: len(one.calls))
            print(f"| {label} | {' | '.join(map(str, hops.row))} |")
            if wanted:
                for depth, code in hops.calls:
                    place = Path(code.co_filename).relative_to(PACKAGE)
                    print(f"{'  ' * depth}{code.co_qualname}  {place}:{code.co_firstlineno}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
