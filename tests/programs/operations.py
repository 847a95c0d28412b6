"""What programs are made of: each operation with what it takes and how it is built.

An operation takes operands of given shapes, and of values that it can take without falling off an
edge: a logarithm needs numbers above zero, and what jumps (comparisons, signs, rounding) takes only
values that no rounding has touched. `draw` asks for both, so what is drawn is well conditioned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Random = np.random.Generator
Shape = tuple[int, ...]
Attributes = dict[str, Any]


@dataclass(frozen=True)
class Value:
    """What `draw` knows of a value: what it is for one feed, and whether rounding touched it."""

    array: np.ndarray
    exact: bool = False

    @property
    def shape(self) -> Shape:
        return self.array.shape

    @property
    def floating(self) -> bool:
        return self.array.dtype.kind == "f"


Fits = Callable[..., bool]
Build = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """`build(K, *operands, **attributes)`; `fits(*values)` says whether these can be operands."""

    name: str
    build: Build
    fits: Fits
    arity: int = 1
    attributes: Callable[..., Attributes] = field(default=lambda random, *values: {})
    smooth: bool = True
    """Whether a gradient may go through it."""


OPERATIONS: dict[str, Operation] = {}


def add(name: str, build: Build, fits: Fits, arity: int = 1, **more: Any) -> None:
    OPERATIONS[name] = Operation(name, build, fits, arity, **more)


# ------------------------------------------------------------------ what operands have to be


def is_number(value: Value) -> bool:
    return value.floating and value.array.size > 0


def below(limit: float) -> Fits:
    return lambda x: is_number(x) and np.abs(x.array).max() < limit


def above(limit: float) -> Fits:
    return lambda x: is_number(x) and x.array.min() > limit


def of_rank(*ranks: int) -> Fits:
    return lambda x: is_number(x) and x.array.ndim in ranks


def is_exact(value: Value) -> bool:
    return is_number(value) and value.exact


def _broadcast(left: Shape, right: Shape) -> Shape | None:
    try:
        return np.broadcast_shapes(left, right)
    except ValueError:
        return None


def together(x: Value, y: Value) -> bool:
    """Whether one of them broadcasts to the other."""
    if not (is_number(x) and is_number(y)):
        return False
    return _broadcast(x.shape, y.shape) in (x.shape, y.shape)


def some_axis(random: Random, x: Value, *others: Value) -> Attributes:
    return {"axis": int(random.integers(-x.array.ndim, x.array.ndim))}


def _fold(random: Random, x: Value) -> Attributes:
    rank = x.array.ndim
    axes: list[Any] = [-1, -1, 0, None, rank - 1, rank - 2]
    axes += [[0, rank - 1]] if rank > 1 else []
    chosen = axes[int(random.integers(len(axes)))]
    return {"axis": chosen, "keepdims": bool(random.random() < 0.6)}


# ------------------------------------------------------------------ element by element

for _name, _build in {
    "sin": lambda K, x: K.sin(x),
    "cos": lambda K, x: K.cos(x),
    "tanh": lambda K, x: K.tanh(x),
    "sigmoid": lambda K, x: K.sigmoid(x),
    "hard_sigmoid": lambda K, x: K.hard_sigmoid(x),
    "relu": lambda K, x: K.relu(x),
    "leaky_relu": lambda K, x: K.relu(x, alpha=0.2, max_value=2.0, threshold=0.1),
    "elu": lambda K, x: K.elu(x, 0.7),
    "softplus": lambda K, x: K.softplus(x),
    "softsign": lambda K, x: K.softsign(x),
    "abs": lambda K, x: K.abs(x),
    "negative": lambda K, x: -x,
    "clip": lambda K, x: K.clip(x, -1.0, 1.5),
    "plus": lambda K, x: x + 0.5,
    "from": lambda K, x: 2 - x,
    "times": lambda K, x: x * 0.7,
    "over": lambda K, x: x / 3,
    "largest of": lambda K, x: K.maximum(x, 0.1),
    "identity": lambda K, x: K.identity(x),
    "stop": lambda K, x: K.stop_gradient(x),
}.items():
    add(_name, _build, is_number)

add("square", lambda K, x: K.square(x), below(30))
add("cube", lambda K, x: x**3, below(6))
add("exp", lambda K, x: K.exp(x), below(4))
add("bell", lambda K, x: K.exp(-K.square(x)), below(4))
add("log", lambda K, x: K.log(x), above(1e-2))
add("sqrt", lambda K, x: K.sqrt(x), above(1e-2))
add("power", lambda K, x: K.pow(x, 1.5), lambda x: above(1e-2)(x) and below(20)(x))
add("inverse", lambda K, x: 1.0 / x, above(0.1))
add("double", lambda K, x: K.cast(K.cast(x, "float64"), K.dtype(x)), is_number)

for _name, _build in {
    "add": lambda K, x, y: x + y,
    "subtract": lambda K, x, y: x - y,
    "multiply": lambda K, x, y: x * y,
    "maximum": lambda K, x, y: K.maximum(x, y),
    "minimum": lambda K, x, y: K.minimum(x, y),
    "gate": lambda K, x, y: K.sigmoid(x) * K.tanh(y),
}.items():
    add(_name, _build, together, 2)
add("divide", lambda K, x, y: x / y, lambda x, y: together(x, y) and above(0.1)(y), 2)
add(
    "where",
    lambda K, x, y, z: K.switch(K.greater(x, 0.0), y, z),
    lambda x, y, z: is_exact(x) and is_number(y) and x.shape == y.shape == z.shape and z.floating,
    3,
)
add(
    "masked",
    lambda K, x, y: K.cast(K.less(x, 0.25), K.dtype(y)) * y,
    lambda x, y: is_exact(x) and together(x, y) and x.shape == y.shape,
    2,
)
add(
    "sign of",
    lambda K, x, y: K.sign(x) * y + K.round(x),
    lambda x, y: is_exact(x) and together(x, y),
    2,
    smooth=False,
)

add(
    "dropout",  # of a seed, the first call of any function drops the same elements
    lambda K, x, seed: K.dropout(x, 0.4, seed=seed),
    lambda x: is_number(x) and x.array.ndim > 0,
    attributes=lambda random, x: {"seed": int(random.integers(100))},
)

# ------------------------------------------------------------------ folds and rows

for _name, _build in {
    "sum": lambda K, x, **a: K.sum(x, **a) * 0.2,
    "mean": lambda K, x, **a: K.mean(x, **a),
    "max": lambda K, x, **a: K.max(x, **a),
    "min": lambda K, x, **a: K.min(x, **a),
    "var": lambda K, x, **a: K.var(x, **a),
    "logsumexp": lambda K, x, **a: K.logsumexp(x, **a),
}.items():
    add(_name, _build, lambda x: below(30)(x) and x.array.ndim > 0, attributes=_fold)
add(
    "std",
    lambda K, x, **a: K.std(x, **a),
    lambda x: below(30)(x) and x.array.ndim > 0 and x.array.std() > 0.1,
    attributes=lambda random, x: {"axis": None, "keepdims": bool(random.random() < 0.5)},
)
add(
    "prod",
    lambda K, x, **a: K.prod(K.tanh(x) + 1.5, **a) * 1e-3,
    lambda x: of_rank(2)(x) and x.shape[-1] < 12,
    attributes=lambda random, x: {"axis": -1, "keepdims": True},
)
add("softmax", lambda K, x: K.softmax(x), lambda x: below(30)(x) and x.array.ndim > 1)
add(
    "normal rows",
    lambda K, x: K.l2_normalize(x, -1),
    lambda x: of_rank(2, 3)(x) and np.abs(x.array).max(-1).min() > 0.05,
)
add("centred", lambda K, x: x - K.mean(x, axis=-1, keepdims=True), of_rank(2, 3, 4))
add("from the top", lambda K, x: x - K.max(x, axis=0), of_rank(2))
add(
    "layer norm",
    lambda K, x: (x - K.mean(x, -1, keepdims=True)) / (K.std(x, -1, keepdims=True) + 0.3),
    lambda x: of_rank(2, 3)(x) and below(20)(x) and x.array.std(-1).min() > 0.05,
)
add(
    "batch norm",
    lambda K, x, y, z: K.normalize_batch_in_training(x, y, z, [0])[0],
    lambda x, y, z: (
        of_rank(2)(x)
        and is_number(y)
        and is_number(z)
        and y.shape == z.shape == x.shape[-1:]
        and x.array.std(0).min() > 0.05
    ),
    3,
)
add(
    "normal by",
    lambda K, x, y, z: K.batch_normalization(x, y, K.square(z) + 0.3, z, y, axis=-1),
    lambda x, y, z: (
        of_rank(2, 4)(x) and y.floating and z.floating and y.shape == z.shape == x.shape[-1:]
    ),
    3,
)
add(
    "cross-entropy",
    lambda K, x, y: K.categorical_crossentropy(K.softmax(y), K.softmax(x)),
    lambda x, y: (
        of_rank(2)(x) and y.floating and x.shape == y.shape and below(8)(x) and below(8)(y)
    ),
    2,
)
add(
    "cross-entropy of logits",
    lambda K, x, y: K.categorical_crossentropy(K.sigmoid(y), x, from_logits=True),
    lambda x, y: of_rank(2)(x) and y.floating and x.shape == y.shape and below(8)(x),
    2,
)
add(
    "binary cross-entropy",
    lambda K, x, y: K.binary_crossentropy(K.sigmoid(y), K.sigmoid(x)),
    lambda x, y: together(x, y) and x.shape == y.shape and below(6)(x),
    2,
)
add(
    "classes",
    lambda K, x: K.sparse_categorical_crossentropy(
        K.cast(K.cumsum(K.ones_like(x[:, 0]), 0), "int64") % K.cast(K.shape(x)[1], "int64"),
        x,
        from_logits=True,
    ),
    lambda x: of_rank(2)(x) and below(8)(x),
)
add(
    "running",
    lambda K, x, axis: K.cumsum(x, axis) * 0.2,
    lambda x: below(30)(x) and x.array.ndim > 0,
    attributes=some_axis,
)
add(
    "running product",
    lambda K, x: K.cumprod(K.tanh(x) * 0.5 + 1.0, -1) * 0.1,
    lambda x: of_rank(2)(x) and x.shape[-1] < 12,
)
add(
    "one of",
    lambda K, x, y: K.cast(K.argmax(x, -1), K.dtype(y)) * 0.1 + K.mean(y, -1),
    lambda x, y: is_exact(x) and of_rank(2)(x) and y.floating and x.shape == y.shape,
    2,
    smooth=False,
)

# ------------------------------------------------------------------ views and moves

add("transpose", lambda K, x: K.transpose(x), of_rank(2, 3))
add(
    "permute",
    lambda K, x, order: K.permute_dimensions(x, order),
    of_rank(2, 3, 4),
    attributes=lambda random, x: {"order": [int(n) for n in random.permutation(x.array.ndim)]},
)
add(
    "reshape",
    lambda K, x, shape: K.reshape(x, shape),
    lambda x: is_number(x) and x.array.size > 1,
    attributes=lambda random, x: {
        "shape": [
            [-1],
            [x.array.size // (x.shape[-1] if x.shape else 1), -1],
            [1, *x.shape],
        ][int(random.integers(3))]
    },
)
add("flatten", lambda K, x: K.batch_flatten(x), of_rank(3, 4))
add(
    "one more axis",
    lambda K, x, axis: K.expand_dims(x, axis),
    of_rank(1, 2, 3),
    attributes=some_axis,
)
add(
    "one axis less",
    lambda K, x: K.squeeze(x, 0),
    lambda x: is_number(x) and x.array.ndim > 1 and x.shape[0] == 1,
)
add("tail", lambda K, x: x[1:], lambda x: is_number(x) and x.array.ndim > 0 and x.shape[0] > 2)
add("every other", lambda K, x: x[::2], lambda x: is_number(x) and x.array.ndim > 1)
add("some columns", lambda K, x: x[:, 1:-1], lambda x: of_rank(2, 3)(x) and x.shape[1] > 3)
add("last column", lambda K, x: x[:, -1], of_rank(2, 3))
add("reverse", lambda K, x, axis: K.reverse(x, axis), of_rank(1, 2, 3), attributes=some_axis)
add(
    "rolled",
    lambda K, x: K.concatenate([x[1:], x[:1]], 0),
    lambda x: is_number(x) and x.array.ndim > 0 and x.shape[0] > 2,
)
add(
    "concatenate",
    lambda K, x, y, axis: K.concatenate([x, y], axis),
    lambda x, y: (
        of_rank(1, 2, 3)(x) and y.floating and x.shape == y.shape and x.array.size < 90_000
    ),
    2,
    attributes=some_axis,
)
add(
    "stack",
    lambda K, x, y: K.mean(K.stack([x, y, x], 1), 1),
    lambda x, y: of_rank(1, 2)(x) and y.floating and x.shape == y.shape,
    2,
)
add(
    "repeat",
    lambda K, x: K.mean(K.repeat(x, 3), 1),
    of_rank(2),
)
add(
    "repeat elements",
    lambda K, x, axis: K.repeat_elements(x, 2, axis),
    lambda x: of_rank(1, 2, 3)(x) and x.array.size < 90_000,
    attributes=some_axis,
)
add(
    "tile",
    lambda K, x: K.tile(x, [1] * (K.ndim(x) - 1) + [2]),
    lambda x: of_rank(1, 2, 3)(x) and x.array.size < 90_000,
)
add(
    "gather",
    lambda K, x: K.gather(x, K.constant([1, 0, 1, 1], dtype="int32")),
    lambda x: of_rank(1, 2, 3)(x) and x.shape[0] > 1,
)
add("padded rows", lambda K, x: K.temporal_padding(x, (1, 2)), of_rank(3))
add("padded images", lambda K, x: K.spatial_2d_padding(x, ((1, 0), (0, 2))), of_rank(4))
add(
    "larger images",
    lambda K, x: K.resize_images(x, 2, 2, "channels_last"),
    lambda x: of_rank(4)(x) and x.array.size < 40_000,
)
