"""Networks with channels first are computed with channels last, and give what they gave before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import every

import kbench as K
from kbench.engine.compiler.layout import inverse, propagate_layouts
from kbench.engine.execute import plan

FIRST = "channels_first"
RNG = np.random.default_rng(3)
Build = Callable[[Any, Callable[..., Any]], Any]


def conv(x: Any, weight: Callable[..., Any], filters: int = 4, **options: Any) -> Any:
    kernel = weight(3, 3, K.int_shape(x)[1], filters)
    return K.conv2d(x, kernel, padding="same", data_format=FIRST, **options)


def biased(x: Any, weight: Callable[..., Any]) -> Any:
    return K.bias_add(x, weight(K.int_shape(x)[1]), data_format=FIRST)


def pooled(x: Any, mode: str = "max", **options: Any) -> Any:
    return K.pool2d(x, (2, 2), (2, 2), data_format=FIRST, pool_mode=mode, **options)


def normed(x: Any, weight: Callable[..., Any]) -> Any:
    sizes = (1, K.int_shape(x)[1], 1, 1)
    mean, var = K.mean(x, [0, 2, 3], keepdims=True), K.var(x, [0, 2, 3], keepdims=True)
    gamma, beta = K.reshape(weight(sizes[1]), sizes), K.reshape(weight(sizes[1]), sizes)
    return K.batch_normalization(x, mean, var, beta, gamma)


# How a network is built from its input; how many permutations of more than a vector are left.
NETWORKS: dict[str, tuple[Build, int]] = {
    "two convolutions": (lambda x, w: conv(K.relu(biased(conv(x, w), w)), w), 2),
    "max pooling": (lambda x, w: conv(pooled(K.relu(conv(x, w))), w), 2),
    "mean pooling": (lambda x, w: conv(pooled(conv(x, w), "avg", padding="same"), w), 2),
    "norm": (lambda x, w: conv(normed(conv(x, w), w), w), 2),
    "training norm": (
        lambda x, w: K.normalize_batch_in_training(conv(x, w), w(4), w(4), [0, 2, 3])[0],
        2,
    ),
    "global pooling": (lambda x, w: K.dot(K.mean(conv(x, w), [2, 3]), w(4, 2)), 1),
    "fold of channels": (lambda x, w: K.max(conv(x, w), 1), 1),
    "fold that keeps": (lambda x, w: conv(x, w) - K.max(conv(x, w), 1, keepdims=True), 2),
    "residual": (lambda x, w: (lambda h: conv(h + conv(K.tanh(h), w), w))(conv(x, w)), 2),
    "with the input": (lambda x, w: x + conv(x, w, 3), 2),
    "joined": (lambda x, w: conv(K.concatenate([conv(x, w), conv(x, w)], 1), w), 2),
    "padded": (lambda x, w: conv(K.spatial_2d_padding(conv(x, w), data_format=FIRST), w), 2),
    "larger": (lambda x, w: conv(K.resize_images(conv(x, w), 2, 3, FIRST), w), 2),
    "flat": (lambda x, w: K.dot(K.batch_flatten(pooled(conv(x, w))), w(4 * 12, 2)), 2),
    "depthwise": (
        lambda x, w: conv(
            K.relu(K.depthwise_conv2d(conv(x, w), w(3, 3, 4, 2), data_format=FIRST)), w
        ),
        2,
    ),
    "a dense layer's own": (lambda x, w: K.sum(K.transpose(K.batch_flatten(x) * 2), 0), 0),
    "another permutation": (
        lambda x, w: K.exp(K.permute_dimensions(K.relu(conv(x, w)), (0, 1, 3, 2))),
        2,
    ),
    "compared": (lambda x, w: K.switch(K.greater(conv(x, w), 0.0), conv(x, w), conv(x, w)), 2),
}


def made(build: Build, dtype: str = "float64") -> tuple[Any, Any, list[Any]]:
    """The input, the result and the weights of a network."""
    rng, weights = np.random.default_rng(5), []

    def weight(*sizes: int) -> Any:
        weights.append(K.variable(rng.normal(size=sizes), dtype=dtype))
        return weights[-1]

    x = K.placeholder((2, 3, 8, 6), dtype=dtype)
    return x, build(x, weight), weights


def labels(run: Any, fed: list[np.ndarray]) -> list[str]:
    with K.record() as runs:
        run(fed)
    return [step.label for one in runs for step in one.steps]


def turned(run: Any) -> int:
    """Permutations in a plan of what has more than one axis."""
    sources = [node.inputs[0] for node in run.plan.order if node.op.name == "permute"]
    return sum(sum(size != 1 for size in one.spec.shape) > 1 for one in sources)


COMPILED = ("max pooling", "norm", "residual", "joined")  # each has kernels of its own to compile
WAYS = [*((name, "off") for name in NETWORKS), *every(4, ((name, "wait") for name in COMPILED))]


@pytest.mark.parametrize(("name", "jit"), WAYS)
def test_values_and_gradients_stay(name: str, jit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", jit)
    monkeypatch.setenv("KBENCH_LEAST", "1")
    x, result, weights = made(NETWORKS[name][0])
    slopes = K.gradients(K.sum(K.square(result) * 0.1), [x, *weights])
    roots = [result, *(one for one in slopes if one is not None)]
    fed = [RNG.normal(size=(2, 3, 8, 6))]
    settled = K.function([x], roots)(fed)
    passes = tuple(one for one in plan.PASSES if one is not propagate_layouts)
    assert len(passes) < len(plan.PASSES)
    monkeypatch.setattr(plan, "PASSES", passes)
    plain = K.function([x], roots)(fed)
    for one, other in zip(settled, plain, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, 1e-11, 1e-11)


@pytest.mark.parametrize("name", NETWORKS)
def test_permutations_stand_at_the_ends_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")
    build, count = NETWORKS[name]
    x, result, _ = made(build)
    assert turned(K.function([x], [result])) == count


def test_the_way_back_turns_nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training step with channels first takes the steps of one with channels last."""
    monkeypatch.setenv("KBENCH_JIT", "off")
    steps = {}
    for layout in (FIRST, "channels_last"):
        sizes = (2, 3, 8, 6) if layout == FIRST else (2, 8, 6, 3)
        x, kernels = K.placeholder(sizes), [K.variable(RNG.normal(size=(3, 3, 3, 3))) for _ in "ab"]
        h = K.relu(K.conv2d(x, kernels[0], data_format=layout))
        h = K.conv2d(K.pool2d(h, (2, 2), data_format=layout), kernels[1], data_format=layout)
        run = K.function([x], K.gradients(K.mean(K.square(h)), kernels))
        found = labels(run, [RNG.normal(size=sizes)])
        steps[layout] = [one for one in found if one not in ("permute", "reshape")]
    assert steps[FIRST] == steps["channels_last"]


def test_unknown_sizes_are_settled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")
    x = K.placeholder((None, 3, None, None))
    weights = [K.variable(RNG.normal(size=(3, 3, 3, 3))) for _ in "ab"]
    bias = K.variable(RNG.normal(size=3))
    h = K.relu(K.bias_add(K.conv2d(x, weights[0], data_format=FIRST), bias, data_format=FIRST))
    run = K.function([x], [K.conv2d(pooled(h), weights[1], data_format=FIRST)])
    assert turned(run) == 3  # of one, only the shape is looked at: whether the bias fits
    assert run([RNG.normal(size=(1, 3, 12, 16))])[0].shape == (1, 3, 3, 5)


def test_random_masks_are_drawn_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")
    kernel = K.variable(RNG.normal(size=(3, 3, 3, 3)))
    fed, drawn = [RNG.normal(size=(2, 3, 8, 6))], []
    for passes in (plan.PASSES, ()):
        monkeypatch.setattr(plan, "PASSES", passes)
        x = K.placeholder((2, 3, 8, 6))
        dropped = K.dropout(K.relu(K.conv2d(x, kernel, data_format=FIRST)), 0.5, seed=7)
        drawn.append(K.function([x], [dropped])(fed)[0])
    assert 0 < np.count_nonzero(drawn[0]) < drawn[0].size
    np.testing.assert_allclose(*drawn, 1e-5, 1e-6)


def test_a_pattern_and_its_inverse() -> None:
    assert inverse((0, 3, 1, 2)) == (0, 2, 3, 1)
