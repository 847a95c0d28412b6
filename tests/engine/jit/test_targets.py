"""Kernels compiled for older processors than this one: they run here too, and give right values.

Without AVX-512 tiles have other shapes, without FMA products and sums are rounded apart, without
F16C numbers of float16 are converted by integer arithmetic, without SSE4.1 rounding is a call.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TARGETS = {  # LLVM's name of a processor, and its features
    "baseline": ("x86-64", ""),
    "avx2": ("haswell", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+popcnt,+sse4.1,+sse4.2"),
}

SCRIPT = """
import sys
import numpy as np
from kbench import backend as K
from kbench.engine.jit.service import service

random = np.random.default_rng(0)
draw = lambda *shape: random.normal(size=shape).astype("float32")
shapes = {"x": (4, 16, 16, 24), "w": (3, 3, 24, 40), "a": (300, 200), "b": (200, 100),
          "d": (3, 3, 24, 2), "t": (8, 12, 16)}
arrays = {name: draw(*shape) for name, shape in shapes.items()}
x, w, a, b, d, t = (K.placeholder(shape) for shape in shapes.values())
half = K.placeholder((None,), dtype="float16")
wide = K.placeholder((None,), dtype="float32")
halves = np.arange(1 << 16, dtype="uint16").view("float16")
with np.errstate(all="ignore"):
    numbers = halves.astype("float32")
    middles = (numbers[1:] + numbers[:-1]) / 2
    near = [np.nextafter(one, np.float32(end)) for one in (numbers, middles) for end in (-9, 9)]
    wides = np.concatenate([numbers, middles, *near]).astype("float32")


def steps(x):
    matrix = K.constant(np.linspace(-1, 1, 256).reshape(16, 16), dtype="float32")

    def step(now, states):
        state = K.tanh(K.dot(now, matrix) + states[0])
        return state, [state]

    return K.rnn(step, x, [x[:, 0]])[0]


y = K.relu(K.conv2d(x, w, padding="same"))
shares = K.softmax(K.tanh(K.dot(a, b)))
outputs = {
    "convolution": y,
    "its gradients": K.gradients(K.sum(K.square(y)), [x, w]),
    "one tap": K.conv2d(x, w[:1, 1:2]),
    "large kernel": K.conv2d(x, K.concatenate([w, w, w[:1]], axis=0), padding="same"),
    "depthwise": K.depthwise_conv2d(x, d, padding="same"),
    "pooling": [K.pool2d(y, (2, 2), (2, 2)), K.pool2d(y, (3, 3), (2, 2), pool_mode="avg")],
    "rows": [shares, *K.gradients(K.sum(shares * K.log(shares + 1e-3)), [a, b])],
    "sums": [K.sum(a, 0), K.var(a, 0), K.std(a), K.prod(1 + a / 64, 1), K.cumsum(a, 1)],
    "places": [K.argmax(a, 1), K.argmin(a, 0)],
    "functions": [K.exp(a), K.sin(40 * a), K.log(K.abs(a)), K.pow(K.abs(a), 1.7), K.sigmoid(a)],
    "rounding": [K.round(3 * a), K.cast(9 * a, "int32"), K.cast(9 * a, "uint8") // 3],
    "recurrent": steps(t),
}
for name, found in outputs.items():
    found = found if isinstance(found, list) else [found]
    function = K.function([x, w, a, b, d, t], found)
    for number, value in enumerate(function(list(arrays.values()))):
        np.save(f"{sys.argv[1]}/{name} {number}.npy", value)
narrowed = K.function([wide], [K.cast(wide, "float16")])([wides])[0]
widened = K.function([half], [K.cast(half, "float32") * 1])([halves])[0]
np.save(f"{sys.argv[1]}/narrowed.npy", narrowed)
np.save(f"{sys.argv[1]}/widened.npy", widened)
assert not service.stats().failures
"""


def _values(folder: Path, **environment: str) -> dict[str, np.ndarray]:
    """What the script computes, in a process with a cache of its own."""
    results = folder / "results"
    results.mkdir(parents=True)
    settings = {"KBENCH_CACHE_DIR": str(folder), **environment}
    command = [sys.executable, "-c", SCRIPT, str(results)]
    subprocess.run(command, env={**os.environ, **settings}, check=True, timeout=600)
    return {path.stem: np.load(path) for path in results.iterdir()}


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="targets of x86-64")
@pytest.mark.parametrize("target", TARGETS)
def test_kernels_for_older_processors_give_right_values(tmp_path: Path, target: str) -> None:
    processor, features = TARGETS[target]
    want = _values(tmp_path / "numpy", KBENCH_JIT="off")
    got = _values(
        tmp_path / "kernels",
        KBENCH_JIT="wait",
        NUMBA_CPU_NAME=processor,
        NUMBA_CPU_FEATURES=features,
    )
    assert len(list((tmp_path / "kernels").rglob("*.kernel"))) > 20
    assert got.keys() == want.keys()
    for name in ("narrowed", "widened"):
        same = got[name] == want[name]
        assert (same | (np.isnan(got[name]) & np.isnan(want[name]))).all(), name
    for name, value in want.items():
        limit = 2e-5 * np.abs(value[np.isfinite(value)].astype("float64")).max(initial=0)
        np.testing.assert_allclose(got[name], value, rtol=2e-5, atol=limit, err_msg=name)
