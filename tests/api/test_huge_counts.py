"""Counts that no number of elements bounds: empty arrays of ten million million rows, at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

HUGE = 10**13
G = 10**9

# What is evaluated, and the shape of its value. `Z` makes zeros.
CASES: dict[str, tuple[int, ...]] = {
    "K.repeat_elements(Z(3, 0), H, 0)": (3 * HUGE, 0),
    "K.repeat_elements(Z(0, 3), H, 1)": (0, 3 * HUGE),
    "K.repeat(Z(3, 0), H)": (3, HUGE, 0),
    "K.tile(Z(3, 0), (H, 1))": (3 * HUGE, 0),
    "K.tile(Z(0, 3), (2, H))": (0, 3 * HUGE),
    "K.zeros((H, 0)) + 1": (HUGE, 0),
    "K.ones((0, H)) * 2": (0, HUGE),
    "K.constant(1, shape=(H, 0))": (HUGE, 0),
    "K.random_normal((H, 0))": (HUGE, 0),
    "K.one_hot(K.cast(Z(0), 'int32'), H)": (0, HUGE),
    "K.temporal_padding(Z(3, 3, 0), (H, H))": (3, 2 * HUGE + 3, 0),
    "K.concatenate([Z(H, 0), Z(H, 0)], 0)": (2 * HUGE, 0),
    "K.concatenate([Z(H, 0), Z(H, 0)], 1)": (HUGE, 0),
    "K.stack([Z(H, 0), Z(H, 0)], 0)": (2, HUGE, 0),
    "K.resize_images(Z(1, 2, 2, 0), H, 2, 'channels_last')": (1, 2 * HUGE, 4, 0),
    "K.softmax(Z(H, 0))": (HUGE, 0),
    "K.softmax(Z(0, H))": (0, HUGE),
    "K.sum(Z(H, 0), 0)": (0,),
    "K.max(Z(0, H), 1)": (0,),
    "K.cumsum(Z(H, 0), 0)": (HUGE, 0),
    "K.var(Z(H, 0), 0)": (0,),
    "K.transpose(Z(H, 0))": (0, HUGE),
    "K.reverse(Z(H, 0), 0)": (HUGE, 0),
    "K.reshape(Z(H, 0), (0, 3))": (0, 3),
    "K.gather(Z(H, 0), K.constant([1, 2], 'int32'))": (2, 0),
    "K.dot(Z(H, 0), Z(0, 0))": (HUGE, 0),
    "K.batch_dot(Z(H, 0, 2), Z(H, 2, 0))": (HUGE, 0, 0),
    "K.l2_normalize(Z(H, 0), 0)": (HUGE, 0),
    "K.conv1d(Z(1, H, 0), Z(3, 0, 0))": (1, HUGE - 2, 0),
    "K.pool2d(Z(1, H, 2, 0), (2, 2), (2, 2))": (1, HUGE // 2, 1, 0),
    "K.map_fn(lambda x: x + 1, Z(H, 0))": (HUGE, 0),
    "K.foldl(lambda a, x: a + x, Z(H, 0))": (0,),
    "K.foldr(lambda a, x: a + x, Z(H, 0))": (0,),
    "K.rnn(lambda x, s: (x, [x + s[0]]), Z(0, H, 3), [Z(0, 3)])[1]": (0, HUGE, 3),
    "K.rnn(lambda x, s: (x, [x + s[0]]), Z(2, H, 0), [Z(2, 0)])[2][0]": (2, 0),
    "K.rnn(lambda x, s: (x, [x]), Z(0, H, 3), [Z(0, 3)], unroll=True)[1]": (0, HUGE, 3),
    "K.l2_normalize(Z(H, 0) + fed, 0)": (HUGE, 0),
    "gradient(lambda v: K.repeat_elements(v, H, 0), Z(3, 0))": (3, 0),
    "gradient(lambda v: K.tile(v, (H, 1)), Z(3, 0))": (3, 0),
    "gradient(lambda v: K.cumprod(v, 1), Z(0, G, G))": (0, G, G),
    "gradient(lambda v: K.sum(K.dot(v, Z(0, G)), 0), Z(G, 0))": (G, 0),
    "K.batch_dot(Z(0, G, G), Z(0, G, G))": (0, G, G),
    "K.conv2d(Z(0, G, G, 2), Z(2, 2, 2, 2))": (0, G - 1, G - 1, 2),
    "gradient(lambda v: K.rnn(lambda x, s: (x * v, [s[0]]), Z(0, H, 3), [Z(0)])[1], Z(3))": (3,),
}

# What is more than there can be, and what is said.
REFUSED = {
    "K.batch_dot(Z(0, H, 2), Z(0, 2, H))": "sizes that are too large for any array",
    "K.batch_dot(Z(2, H, 0), Z(2, 0, H))": "GB are available",
    "K.zeros((0, H, H))": "sizes that are too large for any array",
    "K.constant(1, shape=(0, H, H))": "sizes that are too large for any array",
    "K.mean(K.relu(K.dot(Z(H, 0), Z(0, H))))": "GB are available",
    "gradient(lambda v: K.mean(K.relu(K.dot(v, Z(0, H)))), Z(H, 0))": "GB are available",
    "gradient(lambda v: K.dot(v, Z(0, H)), Z(H, 0))": "GB are available",
    "gradient(lambda v: K.conv1d(v, Z(1, 0, H)), Z(2, H, 0))": "GB are available",
    "K.shape(Z(H, 0))": "float32[10000000000000, 0]; its size does not fit int32",
    "K.shape(Z(H, 0) + fed)[0] * 2": "float32[10000000000000, 0]; its size does not fit int32",
    "K.zeros(K.shape(Z(H, 0)))": "float32[10000000000000, 0]; its size does not fit int32",
}

PROGRAM = """
import faulthandler, signal
import numpy as np
from kbench import backend as K
from kbench.engine.core.errors import OutOfMemory, ShapeError

faulthandler.register(signal.SIGALRM, chain=True)
H, G = 10**13, 10**9
fed = K.variable(0.0) * K.variable(1.0)  # so that nothing is computed ahead


def Z(*shape):
    return K.constant(np.zeros(shape, 'float32'))


def gradient(of, at):
    return K.gradients(K.sum(of(at)), [at])[0]


for text, shape in CASES.items():
    print(text, flush=True)
    signal.alarm(60)
    found = K.eval(eval(text)).shape
    assert found == shape, found
for text, words in REFUSED.items():
    print(text, flush=True)
    signal.alarm(60)
    try:
        found = K.eval(eval(text))
        raise AssertionError(found)
    except (ShapeError, OutOfMemory) as error:
        assert words in str(error), str(error)
print("right")
"""


@pytest.mark.skipif(not hasattr(__import__("signal"), "SIGALRM"), reason="alarms of POSIX")
def test_no_loop_counts_what_is_empty() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"CASES, REFUSED = {CASES!r}, {REFUSED!r}\n{PROGRAM}"],
        capture_output=True,
        text=True,
        timeout=250,
    )
    printed = done.stdout.splitlines()
    assert (done.returncode, printed[-1]) == (0, "right"), done.stderr[-2000:]
