"""Folds over several axes at once, of operands that broadcast along some of them.

Axes merge where all operands vary alike. Where one does not, as the gradient of a mean over time
steps, the fold goes over several loop dims, and is one kernel all the same.
"""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import pytest
from sampling import every

import kbench as K
from kbench.engine.runtime import profile

KINDS = ("sum", "mean", "max", "min", "prod", "any")
SPANS = [((3, 5, 17), (0, 1)), ((3, 5, 17), (1, 2)), ((2, 3, 5, 4), (1, 2)), ((2, 3, 5, 4), (0, 2))]
PATTERNS = [(True, False), (False, True)]
"""Along which of two folded axes an operand varies besides one that varies along both."""


def _run(arrays: list[np.ndarray], kind: str, axes: list[int], keepdims: bool, jit: str):
    with mock.patch.dict("os.environ", {"KBENCH_JIT": jit, "KBENCH_LEAST": "1"}):
        full, part = (K.placeholder(one.shape) for one in arrays)
        value = full * part + part
        value = K.greater(value, 1.0) if kind == "any" else value
        value = 1.0 + value * 0.01 if kind == "prod" else value
        f = K.function([full, part], [getattr(K, kind)(value, axis=axes, keepdims=keepdims)])
        with profile.record() as runs:
            (got,) = f(arrays)
    return got, {step.form for step in runs[-1].steps if step.form != "view"}


@pytest.mark.parametrize(
    ("kind", "span", "pattern"), every(6, list(itertools.product(KINDS, SPANS, PATTERNS)))
)
def test_a_fold_of_axes_that_do_not_merge_is_one_kernel(kind, span, pattern) -> None:
    shape, (first, last) = span
    draw = np.random.default_rng(7)
    varies = [True] * len(shape)
    varies[first], varies[last] = pattern
    part = [size if varying else 1 for size, varying in zip(shape, varies, strict=True)]
    arrays = [draw.normal(size=one).astype("float32") for one in (shape, part)]
    axes = list(range(first, last + 1))
    for keepdims in (False, True):
        got, forms = _run(arrays, kind, axes, keepdims, "wait")
        want, _ = _run(arrays, kind, axes, keepdims, "off")
        assert forms == {"fused"}
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


APART = [
    ((3, 5, 7), (0, 2)),
    ((2, 3, 5, 4), (0, 2)),
    ((2, 3, 5, 4), (1, 3)),
    ((2, 3, 4, 3, 5), (0, 2, 4)),
    ((70, 3, 90, 17), (0, 2)),
]


@pytest.mark.parametrize(("kind", "case"), every(6, list(itertools.product(KINDS, APART))))
def test_a_fold_of_axes_apart_is_one_kernel(kind, case) -> None:
    """Between them lies one that is kept."""
    shape, axes = case
    draw = np.random.default_rng(8)
    part = [size if axis % 2 else 1 for axis, size in enumerate(shape)]
    arrays = [draw.normal(size=one).astype("float32") for one in (shape, part)]
    for keepdims in (False, True):
        got, forms = _run(arrays, kind, list(axes), keepdims, "wait")
        want, _ = _run(arrays, kind, list(axes), keepdims, "off")
        assert forms == {"fused"}
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "span"), every(7, list(itertools.product(KINDS[:5], SPANS))))
def test_what_is_folded_over_several_loop_dims_is_kept_too(kind, span) -> None:
    """Members that are stored stand where they belong, whatever a second operand repeats."""
    shape, (first, last) = span
    draw, axes = np.random.default_rng(11), list(range(first, last + 1))
    for varies in itertools.product([True, False], repeat=len(shape)):
        part = [size if varying else 1 for size, varying in zip(shape, varies, strict=True)]
        arrays = [draw.normal(size=one).astype("float32") for one in (shape, part)]
        x, y = (K.placeholder(one.shape) for one in arrays)
        value = 1.0 + (x * y + y) * 0.01
        plain = 1 + (arrays[0] * arrays[1] + arrays[1]) * np.float32(0.01)
        with mock.patch.dict("os.environ", {"KBENCH_JIT": "wait", "KBENCH_LEAST": "1"}):
            f = K.function([x, y], [value, getattr(K, kind)(value, axis=axes)])
            whole, got = f(arrays)
        np.testing.assert_allclose(whole, plain, rtol=1e-6)
        want = getattr(plain.astype("float64"), kind)(tuple(axes))
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("turn", [False, True])
def test_what_is_folded_and_kept_too_is_right_for_axes_apart(turn) -> None:
    """A second result is no reason for a wrong first one; nor is an operand that lies turned."""
    draw = np.random.default_rng(9)
    x = K.placeholder((6, 4, 5))
    given = K.permute_dimensions(x, (2, 1, 0)) if turn else x
    value = given * 2.0 + 1.0
    array = draw.normal(size=(6, 4, 5)).astype("float32")
    plain = (array.transpose(2, 1, 0) if turn else array) * 2 + 1
    with mock.patch.dict("os.environ", {"KBENCH_JIT": "wait", "KBENCH_LEAST": "1"}):
        both = K.function([x], [K.sum(value, axis=[0, 2]), value, K.sum(given, axis=[0, 2])])
        for sign in (1, -1, 1, 1):  # the later ones are replays
            total, whole, bare = both([sign * array])
            np.testing.assert_allclose(whole, sign * (plain - 1) + 1, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(total, whole.sum((0, 2)), rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(bare, sign * (plain - 1).sum((0, 2)) / 2, rtol=1e-4)


@pytest.mark.parametrize(("pattern",), every(3, [(p,) for p in itertools.permutations(range(4))]))
def test_the_gradient_of_a_bias_behind_a_permutation_is_its_sum(pattern) -> None:
    """Such a sum goes over the axes of what was permuted, and copies nothing."""
    draw = np.random.default_rng(10)
    x, bias = K.placeholder((6, 4, 5, 3)), K.placeholder((5, 3))
    weights = draw.normal(size=[(6, 4, 5, 3)[axis] for axis in pattern]).astype("float32")
    loss = K.sum(K.permute_dimensions(x + bias, pattern) * weights)
    array = np.zeros((6, 4, 5, 3), "float32")
    with mock.patch.dict("os.environ", {"KBENCH_JIT": "wait", "KBENCH_LEAST": "1"}):
        (got,) = K.function([x, bias], K.gradients(loss, [bias]))([array, array[0, 0]])
    want = weights.transpose(np.argsort(pattern)).sum((0, 1))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
