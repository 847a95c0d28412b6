"""Calls take hardly any fresh pages from the system: these may take longer than the computing.

A process of its own counts page faults, with an allocator that gives all large memory back at once,
as that of a process does which has just begun.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="other systems count faults otherwise"),
]
MAX_PAGES = 200
"""Of a call whose results are small; 0.8 MB."""
KERNEL_FOLDS = {
    f"{name} {axes}": f"K.{name}(x, axis={axes})"
    for name in ("sum", "mean", "var", "std", "max", "logsumexp")
    for axes in ([0, 1, 2], [3], None)
}
CASES = KERNEL_FOLDS | {
    "moments": "K.normalize_batch_in_training(x, None, None, [0, 1, 2])[1:]",
    "gamma": "K.gradients(K.sum(K.normalize_batch_in_training(x, w, w, [0, 1, 2])[0] * x), [w])",
    "softmax": "K.sum(K.softmax(x), axis=[0, 1, 2])",
    "bias": "K.gradients(K.sum(K.square(K.bias_add(x, w))), [w])",
    "pooled": "K.mean(K.pool2d(x, (2, 2), (2, 2)), axis=[1, 2])",
    "kernel": "K.gradients(K.sum(K.square(K.conv2d(x[:2], k))), [k])",
}
PROGRAM = """
import json, os, resource, sys
import numpy as np
from kbench import backend as K
random = np.random.default_rng(0)
fed = random.normal(size=(16, 48, 48, 64)).astype("float32")
w = K.variable(random.normal(size=64))
k = K.variable(random.normal(size=(3, 3, 64, 16)))
found = {}
for name, text in json.loads(sys.argv[1]).items():
    x = K.placeholder(fed.shape)
    results = eval(text)
    f = K.function([x], results if isinstance(results, (list, tuple)) else [results])
    for _ in range(12):
        f([fed])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        out = f([fed])
    pages = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 8
    found[name] = pages - sum(one.nbytes for one in out) / resource.getpagesize()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def pages() -> dict[str, float]:
    """Fresh pages of a call, besides those of its results."""
    limits = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(CASES)],
        env={**os.environ, **limits, "KBENCH_JIT": "wait"},
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("name", CASES)
def test_a_call_takes_few_fresh_pages(name: str, pages: dict[str, float]) -> None:
    assert pages[name] < MAX_PAGES
