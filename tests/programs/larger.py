"""Products, windows, loops and branches: the operations whose operands have to fit each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from programs.operations import (
    OPERATIONS,
    Attributes,
    Random,
    Value,
    add,
    below,
    is_exact,
    is_number,
    of_rank,
    together,
)

# ------------------------------------------------------------------ products, windows

add(
    "dot",
    lambda K, x, y: K.dot(x, y) * 0.2,
    lambda x, y: of_rank(2, 3)(x) and of_rank(2)(y) and x.shape[-1] == y.shape[0] and below(20)(x),
    2,
)
add(
    "dot transposed",
    lambda K, x, y: K.dot(x, K.transpose(y)) * 0.2,
    lambda x, y: (
        of_rank(2)(x) and of_rank(2)(y) and x.shape[1] == y.shape[1] and y.array.size < 40_000
    ),
    2,
)
add(
    "batch dot",
    lambda K, x, y: K.batch_dot(x, y, axes=[2, 2]) * 0.2,
    lambda x, y: (
        of_rank(3)(x)
        and of_rank(3)(y)
        and (x.shape[0], x.shape[2]) == (y.shape[0], y.shape[2])
        and x.shape[1] * y.shape[1] < 5_000
    ),
    2,
)
add(
    "bias",
    lambda K, x, y: K.bias_add(x, y),
    lambda x, y: of_rank(2, 3, 4)(x) and y.floating and y.shape == x.shape[-1:],
    2,
)
add(
    "dense",
    lambda K, x, y, z: K.relu(K.bias_add(K.dot(x, y) * 0.2, z)),
    lambda x, y, z: (
        of_rank(2)(x) and of_rank(2)(y) and x.shape[1] == y.shape[0] and z.shape == y.shape[1:]
    ),
    3,
)


def _window(random: Random, *values: Value) -> Attributes:
    return {"padding": ["same", "valid"][int(random.integers(2))]}


def _images(x: Value) -> bool:
    return of_rank(4)(x) and min(x.shape[1:3]) > 3 and below(20)(x)


add(
    "convolution",
    lambda K, x, y, **a: K.conv2d(x, y, **a) * 0.3,
    lambda x, y: _images(x) and of_rank(4)(y) and x.shape[3] == y.shape[2] and max(y.shape[:2]) < 4,
    2,
    attributes=_window,
)
add(
    "strided convolution",
    lambda K, x, y, **a: K.conv2d(x, y, strides=(2, 2), **a) * 0.3,
    lambda x, y: _images(x) and of_rank(4)(y) and x.shape[3] == y.shape[2] and max(y.shape[:2]) < 4,
    2,
    attributes=_window,
)
add(
    "depthwise",
    lambda K, x, y, **a: K.depthwise_conv2d(x, y, **a) * 0.3,
    lambda x, y: (
        _images(x)
        and of_rank(4)(y)
        and x.shape[3] == y.shape[2]
        and max(y.shape[:2]) < 4
        and y.shape[3] * x.shape[3] < 16
    ),
    2,
    attributes=_window,
)
for _mode in ("max", "avg"):
    add(
        f"{_mode} pool",
        lambda K, x, mode=_mode, **a: K.pool2d(x, (2, 2), (2, 2), pool_mode=mode, **a),
        _images,
        attributes=_window,
    )

add(
    "convolution of sequences",
    lambda K, x, y, **a: K.conv1d(x, K.stack([y, y * 0.5], 0), **a) * 0.3,
    lambda x, y: of_rank(3)(x) and of_rank(2)(y) and x.shape[2] == y.shape[0] and x.shape[1] > 2,
    2,
    attributes=_window,
)
add(
    "convolution of volumes",
    lambda K, x, y: K.squeeze(
        K.conv3d(K.expand_dims(x, 1), K.expand_dims(y, 0), padding="same"), 1
    ),
    lambda x, y: _images(x) and of_rank(4)(y) and x.shape[3] == y.shape[2] and max(y.shape[:2]) < 4,
    2,
)
add(
    "transposed convolution",
    lambda K, x, y: (
        K.conv2d_transpose(
            x,
            y,
            (K.shape(x)[0], 2 * K.int_shape(x)[1], 2 * K.int_shape(x)[2], K.int_shape(y)[2]),
            strides=(2, 2),
            padding="same",
        )
        * 0.3
    ),
    lambda x, y: (
        _images(x)
        and of_rank(4)(y)
        and x.shape[3] == y.shape[3]
        and 1 < max(y.shape[:2]) < 4
        and x.array.size < 40_000
    ),
    2,
)
add(
    "separable",
    lambda K, x, y, z: K.separable_conv2d(x, y[:, :, :, :1], z, padding="same") * 0.3,
    lambda x, y, z: (
        _images(x)
        and of_rank(4)(y)
        and x.shape[3] == y.shape[2]
        and 1 < max(y.shape[:2]) < 4
        and z.shape[:3] == (1, 1, x.shape[3])
    ),
    3,
)
add(
    "local",
    lambda K, x, y: K.local_conv1d(
        x,
        K.tile(K.expand_dims(K.concatenate([y, y * 0.5], 0), 0), (K.int_shape(x)[1] - 1, 1, 1)),
        (2,),
        (1,),
    ),
    lambda x, y: (
        of_rank(3)(x) and of_rank(2)(y) and x.shape[2] == y.shape[0] and 1 < x.shape[1] < 12
    ),
    2,
)
add(
    "pool of volumes",
    lambda K, x: K.squeeze(K.pool3d(K.expand_dims(x, 1), (1, 2, 2), (1, 1, 1)), 1),
    _images,
)
add(
    "paths",
    lambda K, x: (
        K.ctc_batch_cost(
            K.zeros_like(x[:, :1, 0]),
            K.softmax(x),
            K.sum(K.ones_like(x[:, :, 0]), 1, keepdims=True),
            K.zeros_like(x[:, :1, 0]) + 1.0,
        )
        * 0.1
    ),
    lambda x: of_rank(3)(x) and 1 < x.shape[1] < 12 and x.shape[2] > 1 and below(8)(x),
)
add(
    "one-hot",
    lambda K, x, y: K.cast(K.one_hot(K.argmax(x, -1), K.int_shape(y)[1]), K.dtype(y)) * y,
    lambda x, y: is_exact(x) and of_rank(2)(x) and y.floating and x.shape == y.shape,
    2,
)
add(
    "any of",
    lambda K, x, y: K.cast(K.any(K.greater(x, 0.875), axis=-1, keepdims=True), K.dtype(y)) + y,
    lambda x, y: is_exact(x) and of_rank(2)(x) and y.floating and x.shape == y.shape,
    2,
)
add(
    "integers",
    lambda K, x, y: K.cast(K.cast(x * 8.0, "int32") // 3 % 5, K.dtype(y)) * y,
    lambda x, y: is_exact(x) and is_number(y) and y.floating and x.shape == y.shape,
    2,
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


def _gated(K: Any, x: Any, y: Any, backwards: bool, masked: bool) -> Any:
    """A recurrent cell with two states, whose steps some rows skip."""

    def step(inputs: Any, states: Any) -> tuple[Any, Any]:
        hidden, cell = states
        gates = K.dot(inputs, y) * 0.3 + hidden
        cell = K.sigmoid(gates) * cell + (1.0 - K.sigmoid(gates)) * K.tanh(inputs)
        hidden = K.hard_sigmoid(gates) * K.tanh(cell)
        return hidden, [hidden, cell]

    start = [K.zeros_like(x[:, 0]), K.zeros_like(x[:, 0])]
    mask = K.any(K.greater(x, 0.25), -1) if masked else None
    last, every, states = K.rnn(step, x, start, go_backwards=backwards, mask=mask)
    return every + K.expand_dims(last * states[1], 1)


add(
    "gated",
    _gated,
    lambda x, y: (
        is_exact(x) and of_rank(3)(x) and x.shape[1] < 12 and y.shape == (x.shape[2], x.shape[2])
    ),
    2,
    attributes=lambda random, *values: {
        "backwards": bool(random.random() < 0.5),
        "masked": bool(random.random() < 0.5),
    },
)
add(
    "mapped to the top",
    lambda K, x: K.map_fn(lambda row: K.sin(row / 3) - K.max(K.sin(row / 3), -1, keepdims=True), x),
    lambda x: of_rank(2, 3)(x) and x.shape[0] < 12 and x.shape[-1] > 1,
)
add(
    "folded from the end",
    lambda K, x: K.foldr(lambda total, row: K.maximum(0.5 * total, row), x),
    lambda x: of_rank(2, 3)(x) and 1 < x.shape[0] < 12,
)
add(
    "recurrent",
    _recurrent,
    lambda x, y: of_rank(3)(x) and of_rank(2)(y) and x.shape[2] == y.shape[0] and x.shape[1] < 12,
    2,
)
add("smoothed", _smoothed, lambda x: of_rank(3)(x) and x.shape[1] < 12)
add(
    "mapped",
    lambda K, x: K.map_fn(lambda row: K.softmax(row) + K.sin(row), x),
    lambda x: of_rank(3)(x) and x.shape[0] < 12,
)
add(
    "folded",
    lambda K, x: K.foldl(lambda total, row: 0.5 * total + K.cos(row), x),
    lambda x: of_rank(2, 3)(x) and 1 < x.shape[0] < 12,
)
add(
    "branch",
    lambda K, x, y, z: K.switch(K.sum(x) > 0.1, lambda: K.tanh(y) + z, lambda: y * z),
    lambda x, y, z: (
        is_exact(x) and abs(x.array.sum() - 0.1) > 0.5 and together(y, z) and y.shape == z.shape
    ),
    3,
)

# ------------------------------------------------------------------ sparse, random, printed


def _wide(K: Any, x: Any) -> Any:
    """float32 in place of float16, which no sparse tensor has."""
    return K.cast(x, "float32") if K.dtype(x) == "float16" else x


def _sparse(K: Any, like: Any, rows: int, columns: int, seed: int, kind: str = "csr") -> Any:
    """A sparse variable: about a third of its entries, one row without any."""
    random = np.random.default_rng(seed)
    dense = random.uniform(-1, 1, (rows, columns)) * (random.random((rows, columns)) < 0.3)
    dense[seed % rows] = 0
    return K.variable(scipy.sparse.csr_matrix(dense).asformat(kind), dtype=K.dtype(_wide(K, like)))


def _matrix(random: Random, x: Value) -> Attributes:
    kinds = ["csr", "csc", "coo"]
    seed, rows = int(random.integers(1000)), int(random.choice([1, 3, 8]))
    return {
        "rows": rows,
        "columns": x.shape[0],
        "seed": seed,
        "kind": kinds[int(random.integers(3))],
    }


def _few_rows(x: Value) -> bool:
    return of_rank(2)(x) and below(20)(x) and x.shape[0] <= 2000


def _joined(K: Any, x: Any, axis: int, rows: int, columns: int, seed: int, kind: str) -> Any:
    """Two sparse matrices side by side, or one above the other, times a dense one."""
    sides = [_sparse(K, x, rows, columns, seed + n, kind) for n in range(2)]
    wide = _wide(K, x)
    below = wide if axis == 0 else K.concatenate([wide, K.sin(wide)], 0)
    return K.cast(K.dot(K.concatenate(sides, axis), below) * 0.2, K.dtype(x))


add(
    "sparse product",
    lambda K, x, **a: K.cast(K.dot(_sparse(K, x, **a), _wide(K, x)) * 0.2, K.dtype(x)),
    _few_rows,
    attributes=_matrix,
)
add(
    "sparse to dense",
    lambda K, x, **a: K.cast(K.dot(K.to_dense(_sparse(K, x, **a)), _wide(K, x)) * 0.2, K.dtype(x)),
    _few_rows,
    attributes=_matrix,
)
add(
    "sparse joined",
    _joined,
    _few_rows,
    attributes=lambda random, x: {"axis": int(random.integers(2)), **_matrix(random, x)},
)
DRAWS = {
    "uniform noise": lambda K, shape, **a: K.random_uniform(shape, -0.5, 1.0, **a),
    "normal noise": lambda K, shape, **a: K.random_normal(shape, 0.2, 0.3, **a),
    "truncated noise": lambda K, shape, **a: K.truncated_normal(shape, 0.0, 0.4, **a),
    "noise of two kinds": lambda K, shape, **a: K.random_binomial(shape, 0.3, **a),
}


def _noisy(draws: Any) -> Any:
    """Random numbers of a seed, the same for every dtype, in the shape of a value."""
    return lambda K, x, seed: (
        x + K.cast(draws(K, K.shape(x), dtype="float32", seed=seed), K.dtype(x)) * 0.5
    )


for _name, _draws in DRAWS.items():
    add(
        _name,
        _noisy(_draws),
        lambda x: is_number(x) and x.array.ndim > 0,
        attributes=lambda random, x: {"seed": int(random.integers(100))},
    )
add("printed", lambda K, x: K.print_tensor(x, "printed by a program: "), of_rank(1, 2, 3))

__all__ = ["OPERATIONS"]
