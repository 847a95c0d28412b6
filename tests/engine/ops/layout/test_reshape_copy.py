"""A reshape of permuted axes: a view where that will do, and else a copy by a kernel."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import numpy as np
import pytest

import kbench as K
from kbench.engine.ops.layout.reshape_copy import _is_view
from kbench.engine.runtime import profile

DRAW = np.random.default_rng(4)


def _grouped(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Some of the shapes to which neighbouring axes can be merged, and a one here and there."""
    sizes: list[int] = []
    for size in shape:
        if sizes and DRAW.random() < 0.5:
            sizes[-1] *= size
        else:
            sizes.append(size)
        if DRAW.random() < 0.2:
            sizes.append(1)
    return tuple(sizes)


def _case() -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Sizes, the order of axes, and what it is reshaped to."""
    rank = int(DRAW.integers(1, 6))
    sizes = tuple(int(size) for size in DRAW.choice([1, 2, 2, 3, 4, 5, 6], rank))
    pattern = tuple(int(axis) for axis in DRAW.permutation(rank))
    turned = tuple(sizes[axis] for axis in pattern)
    if DRAW.random() < 0.5:
        return sizes, pattern, _grouped(turned)
    halves = [(2, size // 2) if size % 2 == 0 else (size,) for size in turned]
    return sizes, pattern, _grouped(tuple(itertools.chain(*halves)))


def test_a_view_is_found_where_numpy_finds_one() -> None:
    copies = 0
    for _ in range(4000):
        sizes, pattern, wanted = _case()
        array = np.empty(sizes).transpose(pattern)
        is_view = np.may_share_memory(array.reshape(wanted), array)
        assert _is_view(array.shape, pattern, wanted) == is_view, (sizes, pattern, wanted)
        copies += not is_view
    assert 1000 < copies < 3000


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("jit", ["wait", "off"])
def test_values_and_gradients_are_those_of_a_reshape(dtype, jit) -> None:
    with mock.patch.dict("os.environ", {"KBENCH_JIT": jit, "KBENCH_LEAST": "1"}):
        for _ in range(10):
            sizes, pattern, wanted = _case()
            array = DRAW.integers(0, 99, sizes).astype(dtype)
            x = K.placeholder(sizes, dtype=dtype)
            turned = K.reshape(K.permute_dimensions(x, pattern), wanted)
            weights = DRAW.normal(size=wanted).astype("float32")
            results = [turned]
            if dtype.startswith("float"):
                results += K.gradients(K.sum(turned * weights), [x])
            got, *gradient = K.function([x], results)([array])
            np.testing.assert_array_equal(got, array.transpose(pattern).reshape(wanted))
            assert got.dtype == array.dtype
            for one in gradient:
                spread = weights.reshape(array.transpose(pattern).shape)
                np.testing.assert_allclose(one.transpose(pattern), spread, rtol=1e-6)


def test_a_copy_is_a_step_of_a_kernel_and_a_view_is_none() -> None:
    x = K.placeholder((4, 3, 5, 2))
    swapped = K.permute_dimensions(x, (0, 2, 1, 3))
    array = DRAW.normal(size=(4, 3, 5, 2)).astype("float32")
    for shape, kind in [((20, 6), "reshape_copy"), ((4, 5, 1, 3, 2), "reshape")]:
        with mock.patch.dict("os.environ", {"KBENCH_JIT": "wait", "KBENCH_LEAST": "1"}):
            f = K.function([x], [K.exp(K.reshape(swapped, shape))])
            for _ in range(12):
                f([array])
            with profile.record() as runs:
                (got,) = f([array])
        np.testing.assert_allclose(
            got, np.exp(array.transpose(0, 2, 1, 3)).reshape(shape), rtol=1e-6
        )
        assert kind in {step.label for step in runs[-1].steps}
        assert math.prod(shape) == array.size
