"""Pooling, normalization, cross-entropy and local layers under one set of names for every library.

`pool(x, size, stride, mode)` over windows without border, `batch_norm(x, gamma, beta)` over all
axes but the last, `layer_norm(x, gamma, beta)` over the last, `cross_entropy(target, logits)` with
one-hot targets and `sparse_cross_entropy(labels, logits)`, row by row, and `local(x, kernel)`: a
kernel of its own for each 3x3 patch. Nothing is imported before it is asked for.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from convolutions import taps

EPSILON = 1e-3


def _composed_layer_norm(F: Any) -> Any:
    """Layer normalization of the names' own elementary functions."""

    def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
        middle = F.mean(x, axis=-1, keepdims=True)
        away = x - middle
        spread = F.mean(F.square(away), axis=-1, keepdims=True)
        return away / F.sqrt(spread + EPSILON) * gamma + beta

    return layer_norm


# ------------------------------------------------------------------ NumPy


def numpy_names() -> dict[str, Any]:
    """Written with slices."""

    def pool(x: Any, size: int, stride: int, mode: str) -> Any:
        seen = [part for _, part in taps(x, (size, size), stride, "valid", 1)]
        return reduce(np.maximum, seen) if mode == "max" else sum(seen) * (1 / size**2)

    def batch_norm(x: Any, gamma: Any, beta: Any) -> Any:
        axes = tuple(range(x.ndim - 1))
        middle, spread = x.mean(axes), x.var(axes)
        return (x - middle) * (gamma / np.sqrt(spread + EPSILON)) + beta

    def log_softmax(x: Any) -> Any:
        away = x - x.max(-1, keepdims=True)
        return away - np.log(np.exp(away).sum(-1, keepdims=True))

    def local(x: Any, kernel: Any) -> Any:
        parts = [part for _, part in taps(x, (3, 3), 1, "valid", 1)]
        patches = np.concatenate(parts, -1)
        rows = patches.reshape(len(x), len(kernel), -1).swapaxes(0, 1)
        y = np.matmul(rows, kernel).swapaxes(0, 1)
        return np.ascontiguousarray(y).reshape(*patches.shape[:-1], -1)

    return {
        "pool": pool,
        "batch_norm": batch_norm,
        "layer_norm": _composed_layer_norm(np),
        "cross_entropy": lambda target, x: -(target * log_softmax(x)).sum(-1),
        "sparse_cross_entropy": lambda labels, x: (
            -np.take_along_axis(log_softmax(x), labels.astype(np.int64)[:, None], 1)[:, 0]
        ),
        "local": local,
    }


# ------------------------------------------------------------------ kbench


def kbench_names(K: Any) -> dict[str, Any]:
    """As a program for Keras would say it."""

    def pool(x: Any, size: int, stride: int, mode: str) -> Any:
        return K.pool2d(x, (size, size), (stride, stride), pool_mode=mode)

    def batch_norm(x: Any, gamma: Any, beta: Any) -> Any:
        axes = list(range(K.ndim(x) - 1))
        return K.normalize_batch_in_training(x, gamma, beta, axes, EPSILON)[0]

    def local(x: Any, kernel: Any) -> Any:
        rows, columns = (size - 2 for size in K.int_shape(x)[1:3])
        return K.local_conv2d(x, kernel, (3, 3), (1, 1), (rows, columns))

    def sparse(labels: Any, x: Any) -> Any:
        return K.sparse_categorical_crossentropy(labels, K.softmax(x))

    return {
        "pool": pool,
        "batch_norm": batch_norm,
        "layer_norm": _composed_layer_norm(K),
        "cross_entropy": lambda target, x: K.categorical_crossentropy(target, K.softmax(x)),
        "sparse_cross_entropy": sparse,
        "local": local,
    }


# ------------------------------------------------------------------ PyTorch


def torch_names(torch: Any) -> dict[str, Any]:
    """Its functional layers on views with the channels second."""
    functional = torch.nn.functional

    def pool(x: Any, size: int, stride: int, mode: str) -> Any:
        run = functional.max_pool2d if mode == "max" else functional.avg_pool2d
        return run(x.movedim(-1, 1), size, stride).movedim(1, -1)

    def batch_norm(x: Any, gamma: Any, beta: Any) -> Any:
        y = functional.batch_norm(
            x.movedim(-1, 1), None, None, gamma, beta, training=True, eps=EPSILON
        )
        return y.movedim(1, -1)

    def local(x: Any, kernel: Any) -> Any:
        patches = x.unfold(1, 3, 1).unfold(2, 3, 1).permute(1, 2, 0, 4, 5, 3)
        rows, columns = patches.shape[:2]
        y = torch.bmm(patches.reshape(rows * columns, len(x), -1), kernel)
        return y.transpose(0, 1).reshape(len(x), rows, columns, -1)

    def cross_entropy(target: Any, x: Any) -> Any:
        return functional.cross_entropy(x, target, reduction="none")

    return {
        "pool": pool,
        "batch_norm": batch_norm,
        "layer_norm": lambda x, gamma, beta: functional.layer_norm(
            x, x.shape[-1:], gamma, beta, EPSILON
        ),
        "cross_entropy": cross_entropy,
        "sparse_cross_entropy": lambda labels, x: cross_entropy(labels.long(), x),
        "local": local,
    }


# ------------------------------------------------------------------ JAX


def jax_names(jax: Any) -> dict[str, Any]:
    """Windows through `lax`, the rest of elementary functions."""
    jnp, lax = jax.numpy, jax.lax

    def pool(x: Any, size: int, stride: int, mode: str) -> Any:
        window, steps = (1, size, size, 1), (1, stride, stride, 1)
        if mode == "max":
            return lax.reduce_window(x, -jnp.inf, lax.max, window, steps, "VALID")
        return lax.reduce_window(x, 0.0, lax.add, window, steps, "VALID") / size**2

    def batch_norm(x: Any, gamma: Any, beta: Any) -> Any:
        axes = tuple(range(x.ndim - 1))
        middle, spread = x.mean(axes), x.var(axes)
        return (x - middle) * (gamma * lax.rsqrt(spread + EPSILON)) + beta

    def local(x: Any, kernel: Any) -> Any:
        rows, columns = x.shape[1] - 2, x.shape[2] - 2
        parts = [x[:, i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
        patches = jnp.concatenate(parts, -1).reshape(len(x), rows * columns, -1)
        y = jnp.einsum("bpk,pkf->bpf", patches, kernel)
        return y.reshape(len(x), rows, columns, -1)

    def sparse(labels: Any, x: Any) -> Any:
        rows = jax.nn.log_softmax(x)
        return -jnp.take_along_axis(rows, labels[:, None], 1)[:, 0]

    return {
        "pool": pool,
        "batch_norm": batch_norm,
        "layer_norm": _composed_layer_norm(jnp),
        "cross_entropy": lambda target, x: -(target * jax.nn.log_softmax(x)).sum(-1),
        "sparse_cross_entropy": sparse,
        "local": local,
    }


# ------------------------------------------------------------------ TensorFlow


def tensorflow_names(tf: Any) -> dict[str, Any]:
    """The functions of `tf.nn`."""

    def pool(x: Any, size: int, stride: int, mode: str) -> Any:
        run = tf.nn.max_pool2d if mode == "max" else tf.nn.avg_pool2d
        return run(x, size, stride, "VALID")

    def batch_norm(x: Any, gamma: Any, beta: Any) -> Any:
        run = tf.compat.v1.nn.fused_batch_norm
        return run(x, gamma, beta, epsilon=EPSILON, is_training=True)[0]

    def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
        middle, spread = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(x, middle, spread, beta, gamma, EPSILON)

    def local(x: Any, kernel: Any) -> Any:
        patches = tf.image.extract_patches(x, [1, 3, 3, 1], [1] * 4, [1] * 4, "VALID")
        _, rows, columns, size = patches.shape
        flat = tf.reshape(patches, (-1, rows * columns, size))
        y = tf.einsum("bpk,pkf->bpf", flat, kernel)
        return tf.reshape(y, (-1, rows, columns, kernel.shape[-1]))

    return {
        "pool": pool,
        "batch_norm": batch_norm,
        "layer_norm": layer_norm,
        "cross_entropy": tf.nn.softmax_cross_entropy_with_logits,
        "sparse_cross_entropy": tf.nn.sparse_softmax_cross_entropy_with_logits,
        "local": local,
    }
