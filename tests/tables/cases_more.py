"""The op table, second part: shapes, parts, creation, linear algebra, normalisation, losses."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from case import ANY, BINARY, FLOATS, UNARY, Case, Shape, each, product

from kbench import backend as K
from kbench.engine.core.spec import Spec
from kbench.engine.ops.control.numpy_call import numpy_call, numpy_calls

EPSILON = 1e-7
MATRIX = [((2, 3),)]
CUBE = [((2, 3, 4),)]

# ------------------------------------------------------------------ layout


def _flat_batch(x: np.ndarray) -> np.ndarray:
    return x.reshape(x.shape[0], -1)


LAYOUT = [
    Case("identity", UNARY, lambda x: x, dtypes=ANY, smooth=True),
    Case(
        "reshape",
        [((2, 6),)],
        lambda x, shape: x.reshape(shape),
        options=each("shape", values=[(3, 4), (-1, 2), (12,)]),
    ),
    Case(
        "reshape",
        [((2, 6),)],
        lambda x: x.reshape(6, 2),
        dtypes=ANY,
        call=lambda x: K.reshape(x, K.shape(K.zeros((6, 2)))),
    ),
    Case("flatten", UNARY, np.ravel, dtypes=ANY),
    Case(  # large enough to be copied by a kernel
        "reshape",
        [((64, 32, 8),)],
        lambda x: x.transpose(1, 0, 2).reshape(32, 512),
        call=lambda x: K.reshape(K.permute_dimensions(x, (1, 0, 2)), (32, 512)),
    ),
    Case("batch_flatten", [((2, 3, 4),), ((3,),), ((2, 0, 3),)], _flat_batch, dtypes=ANY),
    Case(
        "permute_dimensions",
        CUBE,
        lambda x, pattern: x.transpose(pattern),
        options=each("pattern", values=[(2, 0, 1), (0, 1, 2), (-1, 1, 0)]),
        dtypes=ANY,
        smooth=True,
    ),
    Case("transpose", [((2, 3),), ((2, 3, 4),), ((),)], np.transpose, dtypes=ANY),
    Case("expand_dims", MATRIX, np.expand_dims, options=product(axis=[0, 1, -1, -3]), dtypes=ANY),
    Case("squeeze", [((2, 1, 3, 1),)], np.squeeze, options=product(axis=[1, -1]), dtypes=ANY),
    Case(
        "reverse",
        CUBE,
        lambda x, axes: np.flip(x, axes if isinstance(axes, int) else tuple(axes)),
        options=each("axes", values=[0, -1, [0, 2]]),
        dtypes=ANY,
    ),
    Case(
        "repeat_elements",
        CUBE,
        lambda x, rep, axis: np.repeat(x, rep, axis),
        options=product(rep=[1, 3], axis=[0, 1, -1]),
        dtypes=ANY,
        smooth=True,
    ),
    Case("repeat", MATRIX, lambda x, n: np.repeat(x[:, None], n, 1), options=product(n=[1, 3])),
    Case(
        "tile",
        MATRIX,
        lambda x, n: np.tile(x, n),
        options=each("n", values=[2, [2, 1], [3, 2]]),
        dtypes=ANY,
        smooth=True,
    ),
    Case(
        "concatenate",
        [((2, 3), (2, 3), (2, 3)), ((2, 3), (2, 3)), ((2, 0), (2, 0))],
        lambda *xs, axis: np.concatenate(xs, axis),
        options=product(axis=[0, -1]),
        dtypes=ANY,
        call=lambda *xs, axis: K.concatenate(list(xs), axis),
        smooth=True,
    ),
    Case(
        "stack",
        [((2, 3), (2, 3)), ((), (), ())],
        lambda *xs, axis: np.stack(xs, axis),
        options=product(axis=[0, -1]),
        dtypes=ANY,
        call=lambda *xs, axis: K.stack(list(xs), axis),
        smooth=True,
    ),
]

# ------------------------------------------------------------------ parts of a tensor

KEYS = [
    0,
    -1,
    (slice(None), 1),
    (slice(1, None), None, ..., slice(None, None, -1)),
    (..., slice(-3, -1)),
    (slice(None), slice(None, None, 2), 3),
]


def _item(x: Any, key: Any) -> Any:
    return x[key]


def _block(x: np.ndarray, start: Any, size: Any) -> np.ndarray:
    stops = [None if n == -1 else s + n for s, n in zip(start, size, strict=True)]
    return x[tuple(slice(a, b) for a, b in zip(start, stops, strict=True))]


INDEXING = [
    Case(
        "getitem",
        [((3, 4, 5),)],
        _item,
        options=each("key", values=KEYS),
        dtypes=ANY,
        call=_item,
        smooth=True,
    ),
    Case(
        "slice",
        [((3, 4),)],
        _block,
        options=each("start", "size", values=[((1, 0), (2, 3)), ((0, 2), (-1, 1))]),
        dtypes=ANY,
    ),
    Case(
        "gather",
        [((5, 3), (4,)), ((5,), (2, 3)), ((5, 3), ()), ((5, 3), (0,))],
        lambda x, i: x[i],
        domain=[(-3, 3), (0, 4)],
        fixed={1: "int32"},
        dtypes=ANY,
        smooth=True,
    ),
    Case(
        "one_hot",
        [((4,),), ((2, 3),), ((),)],
        lambda i, num_classes: (i[..., None] == np.arange(num_classes)).astype(np.float64),
        options=product(num_classes=[1, 3]),
        domain=(0, 4),
        dtypes=("uint8", "int32", "int64"),
        result="float32",
        gradient=False,
    ),
]

# ------------------------------------------------------------------ creation from a tensor


def _like(value: float) -> Callable[..., Any]:
    return lambda x: np.full(x.shape, value)


CREATION = [
    Case("zeros_like", UNARY, _like(0), dtypes=ANY, gradient=False),
    Case("ones_like", UNARY, _like(1), dtypes=ANY, gradient=False),
    Case(
        "zeros",
        [((2, 3),)],
        _like(0),
        dtypes=ANY,
        result="float32",
        gradient=False,
        call=lambda x: K.zeros(K.shape(x)) * 1,
    ),
    Case(
        "ones",
        [((2, 3),)],
        _like(1),
        dtypes=ANY,
        result="float32",
        gradient=False,
        call=lambda x: K.ones(K.shape(x)) * 1,
    ),
    Case(
        "shape",
        [((2, 3),), ((),), ((0, 2),)],
        lambda x: np.array(x.shape),
        dtypes=ANY,
        result="int32",
        gradient=False,
    ),
    Case("size", UNARY, np.size, dtypes=ANY, result="int32", gradient=False),
]

# ------------------------------------------------------------------ linear algebra


def _dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.ndim < 2 or y.ndim < 2:
        return np.dot(x, y)
    return np.tensordot(x, y, axes=([x.ndim - 1], [y.ndim - 2]))


def _batch_dot(x: np.ndarray, y: np.ndarray, axes: Any = None) -> np.ndarray:
    first, second = axes if isinstance(axes, (list, tuple)) else (axes, axes)
    each_row = [
        np.tensordot(a, b, axes=([first % x.ndim - 1], [second % y.ndim - 1]))
        for a, b in zip(x, y, strict=True)
    ]
    result = np.array(each_row)
    return result[:, None] if result.ndim == 1 else result


DOTS: list[tuple[Shape, ...]] = [
    ((2, 3), (3, 4)),
    ((2, 3), (2, 3, 4)),
    ((2, 4, 3), (3, 5)),
    ((2, 3), (3, 0)),
    ((2, 0), (0, 3)),
]
PRODUCTS: list[tuple[Shape, ...]] = [
    ((2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (2, 3, 4)),
]

LINEAR = [
    Case("dot", DOTS, _dot, dtypes=(*FLOATS, "int32"), scale=4, smooth=True),
    Case("matmul", PRODUCTS, np.matmul, scale=4, call=operator.matmul, smooth=True),
    Case(
        "batch_dot",
        [((2, 3, 4), (2, 5, 4))],
        _batch_dot,
        options=each("axes", values=[2, (2, 2), (-1, -1)]),
        scale=4,
        smooth=True,
    ),
    Case("batch_dot", [((4, 3), (4, 3))], _batch_dot, options=[{"axes": 1}], scale=4),
    Case(
        "bias_add",
        [((2, 3), (3,)), ((2, 4, 3), (3,)), ((2, 5, 4, 3), (3,)), ((2, 4, 3), (4, 3))],
        np.add,
    ),
    Case(
        "bias_add",
        [((2, 3, 4), (3,)), ((2, 3, 4, 5), (3,))],
        lambda x, b, data_format: x + b.reshape((1, -1) + (1,) * (x.ndim - 2)),
        options=[{"data_format": "channels_first"}],
    ),
]

# ------------------------------------------------------------------ normalisation


def _batch_normalization(
    x: np.ndarray, mean: np.ndarray, var: np.ndarray, beta: np.ndarray, gamma: np.ndarray
) -> np.ndarray:
    return (x - mean) / np.sqrt(var + 1e-3) * gamma + beta


def _normalize_batch(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> list[np.ndarray]:
    mean, var = x.mean(0), x.var(0)
    return [(x - mean) / np.sqrt(var + 1e-3) * gamma + beta, mean, var]


NORM = [
    Case(
        "batch_normalization",
        [((4, 3), (3,), (3,), (3,), (3,))],
        _batch_normalization,
        domain=[(-3, 3), (-1, 1), (0.5, 2), (-1, 1), (0.5, 2)],
        scale=10,
        smooth=True,
    ),
    Case(
        "normalize_batch_in_training",
        [((5, 3), (3,), (3,))],
        _normalize_batch,
        call=lambda x, gamma, beta: K.normalize_batch_in_training(x, gamma, beta, [0]),
        scale=10,
        smooth=True,
    ),
]

# ------------------------------------------------------------------ activation over an axis, losses


def _softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    powers = np.exp(x)
    return powers / powers.sum(axis, keepdims=True)


def _categorical(
    target: np.ndarray, output: np.ndarray, from_logits: bool = False, axis: int = -1
) -> np.ndarray:
    share = _softmax(output, axis) if from_logits else output / output.sum(axis, keepdims=True)
    return -(target * np.log(np.clip(share, EPSILON, 1 - EPSILON))).sum(axis)


def _sparse(
    target: np.ndarray,
    output: np.ndarray,
    from_logits: bool = False,
    ignore_class: int | None = None,
) -> np.ndarray:
    share = _softmax(output) if from_logits else output / output.sum(-1, keepdims=True)
    losses = -np.log(np.take_along_axis(share, target[..., None], -1)[..., 0])
    return losses if ignore_class is None else np.where(target == ignore_class, 0.0, losses)


def _binary(target: np.ndarray, output: np.ndarray, from_logits: bool = False) -> np.ndarray:
    p = 1 / (1 + np.exp(-output)) if from_logits else output
    shift = 0 if from_logits else EPSILON
    return -(target * np.log(p + shift) + (1 - target) * np.log(1 - p + shift))


def _binary_focal(target: np.ndarray, output: np.ndarray) -> np.ndarray:
    right = target * output + (1 - target) * (1 - output)
    return (1 - right) ** 2 * _binary(target, output)


def _categorical_focal(target: np.ndarray, output: np.ndarray) -> np.ndarray:
    share = np.clip(output / output.sum(-1, keepdims=True), EPSILON, 1 - EPSILON)
    return (0.25 * (1 - share) ** 2 * -target * np.log(share)).sum(-1)


def _in_top(predictions: np.ndarray, targets: np.ndarray, k: int) -> np.ndarray:
    chosen = np.take_along_axis(predictions, targets[:, None], 1)
    return (predictions > chosen).sum(1) < k


LOGITS = product(from_logits=[False, True])
PAIR: list[tuple[Shape, ...]] = [((4, 3), (4, 3))]

LOSS = [
    Case("softmax", [((2, 3, 4),)], _softmax, options=product(axis=[-1, 0, 1]), smooth=True),
    Case("softmax", [((4,),), ((0, 3),)], _softmax, smooth=True),
    Case(
        "categorical_crossentropy",
        PAIR,
        _categorical,
        options=product(from_logits=[False, True], axis=[-1, 0]),
        domain=(0.1, 0.9),
        scale=10,
    ),
    Case(
        "sparse_categorical_crossentropy",
        [((4,), (4, 3)), ((2, 5), (2, 5, 3))],
        _sparse,
        options=product(from_logits=[False, True], ignore_class=[None, 1, 255]),
        domain=[(0, 2), (0.1, 0.9)],
        fixed={0: "int32"},
        scale=10,
    ),
    Case("binary_crossentropy", PAIR, _binary, options=LOGITS, domain=(0.1, 0.9), scale=10),
    Case("binary_focal_crossentropy", PAIR, _binary_focal, domain=(0.1, 0.9), scale=10),
    Case("categorical_focal_crossentropy", PAIR, _categorical_focal, domain=(0.1, 0.9), scale=10),
    Case(
        "in_top_k",
        [((5, 4), (5,))],
        _in_top,
        options=product(k=[1, 2, 4]),
        domain=[(-3, 3), (0, 3)],
        fixed={1: "int32"},
        dtypes=("float32", "float64"),
        result="bool",
        gradient=False,
    ),
]

# ------------------------------------------------------------------ gradients that stop, phases


def _sinh_of(x: np.ndarray) -> np.ndarray:
    return np.sinh(x).astype(x.dtype)


def _slope_of_sinh(g: Any, y: Any, x: Any) -> list[Any]:
    return [g * (K.exp(x) + K.exp(-x)) / 2]


def _sinh(x: Any) -> Any:
    """A function of arrays as an operation, with the gradient that its caller gives."""
    return numpy_call(_sinh_of, [x], Spec(x.spec.shape, x.spec.dtype), _slope_of_sinh)


def _sin_and_cos_of(x: np.ndarray) -> tuple[np.ndarray, ...]:
    return np.sin(x).astype(x.dtype), np.cos(x).astype(x.dtype)


def _slopes_of_both(g: Any, y: Any, x: Any) -> list[Any]:
    slopes = {0: K.cos(x), 1: -K.sin(x)}
    return [sum(g[i] * slopes[i] for i in g)]


def _sin_and_cos(x: Any) -> list[Any]:
    part = Spec(x.spec.shape, x.spec.dtype)
    return numpy_calls(_sin_and_cos_of, [x], [part, part], _slopes_of_both)


CONTROL = [
    Case("stop_gradient", UNARY, lambda x: x, dtypes=ANY, gradient=False),
    Case(
        "in_train_phase",
        BINARY[:1],
        lambda x, y, training: x if training else y,
        options=product(training=[0, 1]),
        gradient=True,
    ),
    Case(
        "in_test_phase",
        BINARY[:1],
        lambda x, y, training: y if training else x,
        options=product(training=[0, 1]),
        gradient=True,
    ),
    Case("numpy_call", UNARY, np.sinh, call=_sinh, smooth=True),
    Case("numpy_calls", UNARY, lambda x: [np.sin(x), np.cos(x)], call=_sin_and_cos),
]

ARRAY_CASES = [*LAYOUT, *INDEXING, *CREATION, *LINEAR, *NORM, *LOSS, *CONTROL]
