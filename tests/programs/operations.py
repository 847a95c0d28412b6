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


def _add(name: str, build: Build, fits: Fits, arity: int = 1, **more: Any) -> None:
    OPERATIONS[name] = Operation(name, build, fits, arity, **more)


# ------------------------------------------------------------------ what operands have to be


def _number(value: Value) -> bool:
    return value.floating and value.array.size > 0


def _below(limit: float) -> Fits:
    return lambda x: _number(x) and np.abs(x.array).max() < limit


def _above(limit: float) -> Fits:
    return lambda x: _number(x) and x.array.min() > limit


def _rank(*ranks: int) -> Fits:
    return lambda x: _number(x) and x.array.ndim in ranks


def _exact(value: Value) -> bool:
    return _number(value) and value.exact


def _broadcast(left: Shape, right: Shape) -> Shape | None:
    try:
        return np.broadcast_shapes(left, right)
    except ValueError:
        return None


def _together(x: Value, y: Value) -> bool:
    """Whether one of them broadcasts to the other."""
    if not (_number(x) and _number(y)):
        return False
    return _broadcast(x.shape, y.shape) in (x.shape, y.shape)


def _axis(random: Random, x: Value, *others: Value) -> Attributes:
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
    _add(_name, _build, _number)

_add("square", lambda K, x: K.square(x), _below(30))
_add("cube", lambda K, x: x**3, _below(6))
_add("exp", lambda K, x: K.exp(x), _below(4))
_add("bell", lambda K, x: K.exp(-K.square(x)), _below(4))
_add("log", lambda K, x: K.log(x), _above(1e-2))
_add("sqrt", lambda K, x: K.sqrt(x), _above(1e-2))
_add("power", lambda K, x: K.pow(x, 1.5), lambda x: _above(1e-2)(x) and _below(20)(x))
_add("inverse", lambda K, x: 1.0 / x, _above(0.1))
_add("double", lambda K, x: K.cast(K.cast(x, "float64"), K.dtype(x)), _number)

for _name, _build in {
    "add": lambda K, x, y: x + y,
    "subtract": lambda K, x, y: x - y,
    "multiply": lambda K, x, y: x * y,
    "maximum": lambda K, x, y: K.maximum(x, y),
    "minimum": lambda K, x, y: K.minimum(x, y),
    "gate": lambda K, x, y: K.sigmoid(x) * K.tanh(y),
}.items():
    _add(_name, _build, _together, 2)
_add("divide", lambda K, x, y: x / y, lambda x, y: _together(x, y) and _above(0.1)(y), 2)
_add(
    "where",
    lambda K, x, y, z: K.switch(K.greater(x, 0.0), y, z),
    lambda x, y, z: _exact(x) and _number(y) and x.shape == y.shape == z.shape and z.floating,
    3,
)
_add(
    "masked",
    lambda K, x, y: K.cast(K.less(x, 0.2), K.dtype(y)) * y,
    lambda x, y: _exact(x) and _together(x, y) and x.shape == y.shape,
    2,
)
_add(
    "sign of",
    lambda K, x, y: K.sign(x) * y + K.round(x),
    lambda x, y: _exact(x) and _together(x, y),
    2,
    smooth=False,
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
    _add(_name, _build, lambda x: _below(30)(x) and x.array.ndim > 0, attributes=_fold)
_add(
    "std",
    lambda K, x, **a: K.std(x, **a),
    lambda x: _below(30)(x) and x.array.ndim > 0 and x.array.std() > 0.1,
    attributes=lambda random, x: {"axis": None, "keepdims": bool(random.random() < 0.5)},
)
_add(
    "prod",
    lambda K, x, **a: K.prod(K.tanh(x) + 1.5, **a) * 1e-3,
    lambda x: _rank(2)(x) and x.shape[-1] < 12,
    attributes=lambda random, x: {"axis": -1, "keepdims": True},
)
_add("softmax", lambda K, x: K.softmax(x), lambda x: _below(30)(x) and x.array.ndim > 1)
_add("normal rows", lambda K, x: K.l2_normalize(x, -1), _rank(2, 3))
_add("centred", lambda K, x: x - K.mean(x, axis=-1, keepdims=True), _rank(2, 3, 4))
_add("from the top", lambda K, x: x - K.max(x, axis=0), _rank(2))
_add(
    "layer norm",
    lambda K, x: (x - K.mean(x, -1, keepdims=True)) / (K.std(x, -1, keepdims=True) + 0.3),
    lambda x: _rank(2, 3)(x) and _below(20)(x) and x.array.std(-1).min() > 0.05,
)
_add(
    "batch norm",
    lambda K, x, y, z: K.normalize_batch_in_training(x, y, z, [0])[0],
    lambda x, y, z: (
        _rank(2)(x)
        and _number(y)
        and _number(z)
        and y.shape == z.shape == x.shape[-1:]
        and x.array.std(0).min() > 0.05
    ),
    3,
)
_add(
    "normal by",
    lambda K, x, y, z: K.batch_normalization(x, y, K.square(z) + 0.3, z, y, axis=-1),
    lambda x, y, z: (
        _rank(2, 4)(x) and y.floating and z.floating and y.shape == z.shape == x.shape[-1:]
    ),
    3,
)
_add(
    "cross-entropy",
    lambda K, x, y: K.categorical_crossentropy(K.softmax(y), K.softmax(x)),
    lambda x, y: (
        _rank(2)(x) and y.floating and x.shape == y.shape and _below(8)(x) and _below(8)(y)
    ),
    2,
)
_add(
    "cross-entropy of logits",
    lambda K, x, y: K.categorical_crossentropy(K.sigmoid(y), x, from_logits=True),
    lambda x, y: _rank(2)(x) and y.floating and x.shape == y.shape and _below(8)(x),
    2,
)
_add(
    "binary cross-entropy",
    lambda K, x, y: K.binary_crossentropy(K.sigmoid(y), K.sigmoid(x)),
    lambda x, y: _together(x, y) and x.shape == y.shape and _below(6)(x),
    2,
)
_add(
    "classes",
    lambda K, x: K.sparse_categorical_crossentropy(
        K.cast(K.cumsum(K.ones_like(x[:, 0]), 0), "int64") % K.cast(K.shape(x)[1], "int64"),
        x,
        from_logits=True,
    ),
    lambda x: _rank(2)(x) and _below(8)(x),
)
_add(
    "running",
    lambda K, x, axis: K.cumsum(x, axis) * 0.2,
    lambda x: _below(30)(x) and x.array.ndim > 0,
    attributes=_axis,
)
_add(
    "running product",
    lambda K, x: K.cumprod(K.tanh(x) * 0.5 + 1.0, -1) * 0.1,
    lambda x: _rank(2)(x) and x.shape[-1] < 12,
)
_add(
    "one of",
    lambda K, x, y: K.cast(K.argmax(x, -1), K.dtype(y)) * 0.1 + K.mean(y, -1),
    lambda x, y: _exact(x) and _rank(2)(x) and y.floating and x.shape == y.shape,
    2,
    smooth=False,
)

# ------------------------------------------------------------------ views and moves

_add("transpose", lambda K, x: K.transpose(x), _rank(2, 3))
_add(
    "permute",
    lambda K, x, order: K.permute_dimensions(x, order),
    _rank(2, 3, 4),
    attributes=lambda random, x: {"order": [int(n) for n in random.permutation(x.array.ndim)]},
)
_add(
    "reshape",
    lambda K, x, shape: K.reshape(x, shape),
    lambda x: _number(x) and x.array.size > 1,
    attributes=lambda random, x: {
        "shape": [
            [-1],
            [x.array.size // (x.shape[-1] if x.shape else 1), -1],
            [1, *x.shape],
        ][int(random.integers(3))]
    },
)
_add("flatten", lambda K, x: K.batch_flatten(x), _rank(3, 4))
_add("one more axis", lambda K, x, axis: K.expand_dims(x, axis), _rank(1, 2, 3), attributes=_axis)
_add(
    "one axis less",
    lambda K, x: K.squeeze(x, 0),
    lambda x: _number(x) and x.array.ndim > 1 and x.shape[0] == 1,
)
_add("tail", lambda K, x: x[1:], lambda x: _number(x) and x.array.ndim > 0 and x.shape[0] > 2)
_add("every other", lambda K, x: x[::2], lambda x: _number(x) and x.array.ndim > 1)
_add("some columns", lambda K, x: x[:, 1:-1], lambda x: _rank(2, 3)(x) and x.shape[1] > 3)
_add("last column", lambda K, x: x[:, -1], _rank(2, 3))
_add("reverse", lambda K, x, axis: K.reverse(x, axis), _rank(1, 2, 3), attributes=_axis)
_add(
    "rolled",
    lambda K, x: K.concatenate([x[1:], x[:1]], 0),
    lambda x: _number(x) and x.array.ndim > 0 and x.shape[0] > 2,
)
_add(
    "concatenate",
    lambda K, x, y, axis: K.concatenate([x, y], axis),
    lambda x, y: _rank(1, 2, 3)(x) and y.floating and x.shape == y.shape and x.array.size < 90_000,
    2,
    attributes=_axis,
)
_add(
    "stack",
    lambda K, x, y: K.mean(K.stack([x, y, x], 1), 1),
    lambda x, y: _rank(1, 2)(x) and y.floating and x.shape == y.shape,
    2,
)
_add(
    "repeat",
    lambda K, x: K.mean(K.repeat(x, 3), 1),
    _rank(2),
)
_add(
    "repeat elements",
    lambda K, x, axis: K.repeat_elements(x, 2, axis),
    lambda x: _rank(1, 2, 3)(x) and x.array.size < 90_000,
    attributes=_axis,
)
_add(
    "tile",
    lambda K, x: K.tile(x, [1] * (K.ndim(x) - 1) + [2]),
    lambda x: _rank(1, 2, 3)(x) and x.array.size < 90_000,
)
_add(
    "gather",
    lambda K, x: K.gather(x, K.constant([1, 0, 1, 1], dtype="int32")),
    lambda x: _rank(1, 2, 3)(x) and x.shape[0] > 1,
)
_add("padded rows", lambda K, x: K.temporal_padding(x, (1, 2)), _rank(3))
_add("padded images", lambda K, x: K.spatial_2d_padding(x, ((1, 0), (0, 2))), _rank(4))
_add(
    "larger images",
    lambda K, x: K.resize_images(x, 2, 2, "channels_last"),
    lambda x: _rank(4)(x) and x.array.size < 40_000,
)

# ------------------------------------------------------------------ products, windows

_add(
    "dot",
    lambda K, x, y: K.dot(x, y) * 0.2,
    lambda x, y: _rank(2, 3)(x) and _rank(2)(y) and x.shape[-1] == y.shape[0] and _below(20)(x),
    2,
)
_add(
    "dot transposed",
    lambda K, x, y: K.dot(x, K.transpose(y)) * 0.2,
    lambda x, y: _rank(2)(x) and _rank(2)(y) and x.shape[1] == y.shape[1] and y.array.size < 40_000,
    2,
)
_add(
    "batch dot",
    lambda K, x, y: K.batch_dot(x, y, axes=[2, 2]) * 0.2,
    lambda x, y: (
        _rank(3)(x)
        and _rank(3)(y)
        and (x.shape[0], x.shape[2]) == (y.shape[0], y.shape[2])
        and x.shape[1] * y.shape[1] < 5_000
    ),
    2,
)
_add(
    "bias",
    lambda K, x, y: K.bias_add(x, y),
    lambda x, y: _rank(2, 3, 4)(x) and y.floating and y.shape == x.shape[-1:],
    2,
)
_add(
    "dense",
    lambda K, x, y, z: K.relu(K.bias_add(K.dot(x, y) * 0.2, z)),
    lambda x, y, z: (
        _rank(2)(x) and _rank(2)(y) and x.shape[1] == y.shape[0] and z.shape == y.shape[1:]
    ),
    3,
)


def _window(random: Random, *values: Value) -> Attributes:
    return {"padding": ["same", "valid"][int(random.integers(2))]}


def _images(x: Value) -> bool:
    return _rank(4)(x) and min(x.shape[1:3]) > 3 and _below(20)(x)


_add(
    "convolution",
    lambda K, x, y, **a: K.conv2d(x, y, **a) * 0.3,
    lambda x, y: _images(x) and _rank(4)(y) and x.shape[3] == y.shape[2] and max(y.shape[:2]) < 4,
    2,
    attributes=_window,
)
_add(
    "strided convolution",
    lambda K, x, y, **a: K.conv2d(x, y, strides=(2, 2), **a) * 0.3,
    lambda x, y: _images(x) and _rank(4)(y) and x.shape[3] == y.shape[2] and max(y.shape[:2]) < 4,
    2,
    attributes=_window,
)
_add(
    "depthwise",
    lambda K, x, y, **a: K.depthwise_conv2d(x, y, **a) * 0.3,
    lambda x, y: (
        _images(x)
        and _rank(4)(y)
        and x.shape[3] == y.shape[2]
        and max(y.shape[:2]) < 4
        and y.shape[3] * x.shape[3] < 16
    ),
    2,
    attributes=_window,
)
for _mode in ("max", "avg"):
    _add(
        f"{_mode} pool",
        lambda K, x, mode=_mode, **a: K.pool2d(x, (2, 2), (2, 2), pool_mode=mode, **a),
        _images,
        attributes=_window,
    )

# ------------------------------------------------------------------ loops and branches


def _recurrent(K: Any, x: Any, y: Any) -> Any:
    def step(inputs: Any, states: Any) -> tuple[Any, Any]:
        new = K.tanh(K.dot(inputs, y) * 0.3 + states[0])
        return new, [new]

    return K.rnn(step, x, [K.zeros_like(K.dot(x[:, 0], y))])[1]


def _smoothed(K: Any, x: Any) -> Any:
    def step(inputs: Any, states: Any) -> tuple[Any, Any]:
        new = 0.7 * states[0] + 0.3 * K.sin(inputs)
        return new * 2.0, [new]

    return K.rnn(step, x, [K.zeros_like(x[:, 0])])[1]


_add(
    "recurrent",
    _recurrent,
    lambda x, y: _rank(3)(x) and _rank(2)(y) and x.shape[2] == y.shape[0] and x.shape[1] < 12,
    2,
)
_add("smoothed", _smoothed, lambda x: _rank(3)(x) and x.shape[1] < 12)
_add(
    "mapped",
    lambda K, x: K.map_fn(lambda row: K.softmax(row) + K.sin(row), x),
    lambda x: _rank(3)(x) and x.shape[0] < 12,
)
_add(
    "folded",
    lambda K, x: K.foldl(lambda total, row: 0.5 * total + K.cos(row), x),
    lambda x: _rank(2, 3)(x) and 1 < x.shape[0] < 12,
)
_add(
    "branch",
    lambda K, x, y, z: K.switch(K.sum(x) > 0.1, lambda: K.tanh(y) + z, lambda: y * z),
    lambda x, y, z: (
        _exact(x) and abs(x.array.sum() - 0.1) > 1e-2 and _together(y, z) and y.shape == z.shape
    ),
    3,
)
