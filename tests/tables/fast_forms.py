"""Every fast form of an op, on sizes that fill no vector, block or item: rows for test_fast_forms.

A row says what is computed, of which arrays, and the label of the step that a kernel must take.
Sizes are odd throughout. `index` bounds the integers of an operand, `rough` is how much more than
sixteen units in the last place the same sums in another order may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kbench import backend as K

Build = Callable[..., Sequence[Any]]
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Form:
    """One fast form: `build(*placeholders)` gives results, the first axis of `shapes` may be 0."""

    name: str
    build: Build
    shapes: Shapes
    index: dict[int, int] = field(default_factory=dict)
    rough: float = 1.0
    shared: tuple[int, ...] = ()
    """Operands without the first axis of the others, such as weights."""

    def __str__(self) -> str:
        return self.name

    def arrays(self, dtype: str, rows: int | None = None) -> list[np.ndarray]:
        """Drawn operands, with `rows` in place of the first axis of those that have it."""
        random = np.random.default_rng(len(self.name))
        found = []
        for place, shape in enumerate(self.shapes):
            if rows is not None and place not in self.shared:
                shape = (rows, *shape[1:])
            if place in self.index:
                found.append(random.integers(0, self.index[place], shape).astype("int32"))
            else:
                found.append(random.normal(0, 1, shape).astype(dtype))
        return found


def slopes(result: Any, *inputs: Any) -> list[Any]:
    """A result and the gradients of a sum that weighs its elements differently."""
    return [result, *K.gradients(K.sum(K.sin(result)), list(inputs))]


def over(name: str, axis: int | None) -> Build:
    return lambda x: [getattr(K, name)(x, axis=axis)]


def transposed(x: Any, y: Any) -> list[Any]:
    return [K.concatenate([K.permute_dimensions(one, (0, 3, 1, 2)) for one in (x, y)], 1)]


def layer_norm(x: Any, scale: Any) -> list[Any]:
    centred = x - K.mean(x, -1, keepdims=True)
    return slopes(centred / K.sqrt(K.var(x, -1, keepdims=True) + 1e-3) * scale, x, scale)


def batch_norm(x: Any, gamma: Any, beta: Any) -> list[Any]:
    y, mean, variance = K.normalize_batch_in_training(x, gamma, beta, [0, 1, 2])
    return [*slopes(y, x, gamma), mean, variance]


def cross_entropy(x: Any, y: Any) -> list[Any]:
    return slopes(K.categorical_crossentropy(K.softmax(y), x, from_logits=True), x)


def convolution(name: str, **options: Any) -> Build:
    return lambda x, kernel: slopes(getattr(K, name)(x, kernel, **options), x, kernel)


def pooling(mode: str, window: tuple[int, int], strides: tuple[int, int]) -> Build:
    return lambda x: slopes(K.pool2d(x, window, strides, "same", pool_mode=mode), x)


def recurrent(x: Any, w: Any, u: Any) -> list[Any]:
    def step(one: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        h = K.tanh(K.dot(one, w) + K.dot(states[0], u))
        return h, [h]

    first = K.sum(x, 1) @ w * 0.0
    return slopes(K.rnn(step, x, [first])[1], x, w, u)


def ctc(labels: Any, logits: Any) -> list[Any]:
    """Every row has 13 steps and 3 labels."""
    steps, lengths = (K.ones_like(labels[:, :1]) * count for count in (13, 3))
    return slopes(K.ctc_batch_cost(labels, K.softmax(logits), steps, lengths), logits)


FORMS = [
    Form("loop", lambda x, y: [K.tanh(x) * y + K.exp(-x), K.maximum(x, y)], ((67, 31, 29),) * 2),
    Form("loop, broadcast", lambda x, y: [K.sigmoid(x + y)], ((67, 31), (31,)), shared=(1,)),
    *[
        Form(f"{name} {axis}", over(name, axis), ((43, 31, 29),))
        for name in ("sum", "mean", "max", "var")
        for axis in (None, 0, 1, 2)
    ],
    *[Form(f"argmax {axis}", over("argmax", axis), ((43, 331),)) for axis in (0, 1)],
    *[
        Form(f"{name} {axis}", over(name, axis), ((43, 37, 31),))
        for name, axis in (("cumsum", 0), ("cumsum", 1), ("cumsum", 2), ("logsumexp", 2))
    ],
    Form("softmax", lambda x: slopes(K.softmax(x), x), ((301, 37),)),
    Form("cross entropy", cross_entropy, ((301, 37),) * 2),
    Form("layer norm", layer_norm, ((301, 37), (37,)), rough=3, shared=(1,)),
    Form("batch norm", batch_norm, ((7, 9, 11, 13), (13,), (13,)), rough=4, shared=(1, 2)),
    Form("transpose", transposed, ((5, 19, 21, 33), (5, 19, 21, 3))),
    Form("join", lambda x, y: [K.concatenate([x, y, x], -1)], ((301, 37), (301, 5))),
    Form("tile", lambda x: [K.tile(x, (1, 3)), K.repeat_elements(x, 3, 1)], ((301, 37),)),
    Form(
        "rows by index",
        lambda i, table: slopes(K.gather(table, i), table),
        ((901,), (67, 33)),
        {0: 67},
        shared=(1,),
    ),
    Form("one hot", lambda i: [K.one_hot(i, 67)], ((901,),), {0: 80}),
    *[
        Form(f"{mode} of {window} by {strides}", pooling(mode, window, strides), (shape,))
        for mode in ("max", "avg")
        for window, strides, shape in (
            ((3, 3), (2, 2), (5, 17, 19, 21)),
            ((2, 3), (1, 2), (5, 17, 19, 3)),
        )
    ],
    Form(
        "direct convolution",
        convolution("conv2d", strides=(2, 1), padding="same"),
        ((3, 13, 15, 19), (3, 5, 19, 21)),
        rough=10,
        shared=(1,),
    ),
    Form(
        "Winograd's convolution",
        convolution("conv2d", padding="same"),
        ((3, 13, 15, 19), (3, 3, 19, 37)),
        rough=30,
        shared=(1,),
    ),
    Form(
        "convolution of few channels",
        convolution("conv2d", padding="same"),
        ((3, 13, 15, 3), (5, 5, 3, 35)),
        rough=4,
        shared=(1,),
    ),
    Form(
        "depthwise convolution",
        convolution("depthwise_conv2d", padding="same"),
        ((3, 13, 15, 21), (3, 3, 21, 1)),
        rough=4,
        shared=(1,),
    ),
    Form(
        "product",
        lambda x, y: slopes(K.dot(x, y), x, y),
        ((101, 131), (131, 67)),
        rough=15,
        shared=(1,),
    ),
    Form(
        "resize",
        lambda x: slopes(K.resize_images(x, 2, 3, "channels_last", "bilinear"), x),
        ((5, 7, 9, 11),),
    ),
    Form("recurrent loop", recurrent, ((19, 7, 5), (5, 33), (33, 33)), rough=100, shared=(1, 2)),
    Form("CTC", ctc, ((17, 3), (17, 13, 11)), {0: 10}),
]
