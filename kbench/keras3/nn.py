"""`keras.ops` of networks, as far as they are there."""

from __future__ import annotations

from typing import Any

from kbench import backend as K
from kbench.keras3.numpy import _unary, absent, dtype_of, in_dtype
from kbench.keras3.tensor import Traced, node_of, operation

relu = _unary("relu", K.relu, "same")
sigmoid = _unary("sigmoid", K.sigmoid)
tanh = _unary("tanh", K.tanh)
softplus = _unary("softplus", K.softplus)
softsign = _unary("softsign", K.softsign)


@operation
def softmax(x: Any, axis: Any = -1) -> Traced:
    if not isinstance(axis, int):
        raise NotImplementedError("softmax: only one axis is available on the kbench backend")
    return Traced(K.softmax(node_of(x), axis))


@operation
def log_softmax(x: Any, axis: Any = -1) -> Traced:
    if not isinstance(axis, int):
        raise NotImplementedError("log_softmax: only one axis is available on the kbench backend")
    node = node_of(x)
    return Traced(node - K.logsumexp(node, axis, keepdims=True))


@operation
def one_hot(
    x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: Any = False
) -> Any:
    if axis not in (-1, len(x.shape)) or sparse:
        raise NotImplementedError("one_hot: only the last axis is available on the kbench backend")
    return Traced(K.cast(K.one_hot(in_dtype(x, "int32"), num_classes), dtype or "float32"))


@operation
def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Traced:
    if len(target.shape) == len(output.shape):
        target = Traced(K.squeeze(node_of(target), len(target.shape) - 1))
    logs = _logs(output, from_logits, axis)
    labels = K.one_hot(in_dtype(target, "int32"), output.shape[axis])
    return Traced(-K.sum(K.cast(labels, str(dtype_of(output))) * logs, axis=axis))


@operation
def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Traced:
    logs = _logs(output, from_logits, axis)
    return Traced(-K.sum(in_dtype(target, str(dtype_of(output))) * logs, axis=axis))


def _logs(output: Any, from_logits: bool, axis: int) -> Any:
    node = node_of(output)
    if axis not in (-1, node.ndim - 1):
        raise NotImplementedError("crossentropy: only the last axis is available on kbench")
    if from_logits:
        return node - K.logsumexp(node, axis, keepdims=True)
    total = node / K.sum(node, axis=axis, keepdims=True)
    return K.log(K.clip(total, K.epsilon(), 1.0 - K.epsilon()))


def __getattr__(name: str) -> Any:
    return absent("keras.ops", name)
