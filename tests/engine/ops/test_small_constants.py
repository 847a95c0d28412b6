"""Constants that float16 cannot hold, in functions that need them: on every tier as in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import every

from kbench import backend as K

Build = Callable[..., Any]


def classes(x: K.Tensor) -> K.Tensor:
    return K.argmax(x * 0.0, -1)


FUNCTIONS: dict[str, Build] = {
    "l2_normalize": lambda x: K.l2_normalize(x, 1),
    "l2_normalize down": lambda x: K.l2_normalize(x, 0),
    "l2_normalize composed": lambda x: K.l2_normalize(x * 1.0, 1) + K.l2_normalize(x, 0),
    "binary_crossentropy": lambda x: K.binary_crossentropy(x * 0.0, x),
    "binary_crossentropy of what saturates": lambda x: K.binary_crossentropy(
        x * 0.0, K.sigmoid(100.0 * x)
    ),
    "categorical_crossentropy": lambda x: K.categorical_crossentropy(
        x * 0.0 + 1.0, x + K.cast(K.one_hot(classes(x) * 0, x.shape[1]), x.dtype)
    ),
    "categorical_crossentropy of what saturates": lambda x: K.categorical_crossentropy(
        x * 0.0 + 0.5, K.softmax(x * 100.0)
    ),
    "sparse_categorical_crossentropy": lambda x: K.sparse_categorical_crossentropy(classes(x), x),
    "categorical_focal_crossentropy": lambda x: K.categorical_focal_crossentropy(
        x * 0.0 + 1.0, K.softmax(x * 100.0)
    ),
    "normalize_batch_in_training": lambda x: K.normalize_batch_in_training(
        x, None, None, [0], 1e-10
    )[0],
    "batch_normalization": lambda x: K.batch_normalization(
        x, K.zeros(x.shape[1], x.dtype), K.zeros(x.shape[1], x.dtype), None, None, epsilon=1e-9
    ),
}
SIZES = {"off": (6, 4), "wait": (500, 60)}


@pytest.mark.parametrize(
    ("name", "tier"),
    [*((name, "off") for name in FUNCTIONS), *every(6, ((name, "wait") for name in FUNCTIONS))],
)
def test_halves_are_as_good_as_singles(
    name: str, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", tier)
    array = np.zeros(SIZES[tier])
    array[0, 1], array[2:, 2] = 1.0, 1.0
    found = []
    for dtype in ("float16", "float32"):
        x = K.placeholder(array.shape, dtype=dtype)
        y = FUNCTIONS[name](x)
        step = K.function([x], [y, K.gradients(K.sum(y * 0.125), [x])[0]])
        found.append(step([array.astype(dtype)]))
    for half, single in zip(*found, strict=True):
        assert np.isfinite(single).all() and half.dtype == np.float16
        with np.errstate(over="ignore"):  # a slope of 1e6 is beyond it
            wanted = single.astype("float16")
        np.testing.assert_allclose(half.astype("f8"), wanted.astype("f8"), 4e-3, 1e-3)


def test_a_number_that_is_written_has_the_dtype_of_the_tensor() -> None:
    x = K.constant(np.zeros(3), "float16")
    assert np.isneginf(K.eval(K.log(x + 1e-8))).all()
