"""Elementwise work, reductions, data movement, products and random numbers for every library.

Each function here gives the dictionary of one library; the names, and what they mean, are those of
Keras. Random functions take a seed, an operand of the formula, for the one library (JAX) whose
functions need it. Nothing is imported before it is asked for.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

_GELU = 0.7978845608028654, 0.044715


class Missing(Exception):
    """A library does not offer this; the workload is left out for it."""


def missing(what: str) -> Any:
    """A function that says that the library has no `what`."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise Missing(f"no {what}")

    return refuse


def gelu(F: Any, x: Any) -> Any:
    """The tanh form, for libraries that have no function of that name."""
    scale, cubic = _GELU
    return 0.5 * x * (1.0 + F.tanh(scale * (x + cubic * x * x * x)))


# ------------------------------------------------------------------ NumPy


def _numpy_softmax(x: Any, axis: int = -1) -> Any:
    shifted = np.exp(x - np.max(x, axis=axis, keepdims=True))
    shifted /= np.sum(shifted, axis=axis, keepdims=True)
    return shifted


def _numpy_logsumexp(x: Any, axis: Any) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return np.squeeze(total, axis)


def _numpy_one_hot(indices: Any, classes: int) -> Any:
    out = np.zeros((*indices.shape, classes), np.float32)
    out[np.arange(len(indices)), indices] = 1
    return out


def numpy_names() -> dict[str, Any]:
    """NumPy's own functions; its generator is that of `default_rng`."""
    random = np.random.default_rng(20261120)

    def dropout(x: Any, rate: float, seed: Any) -> Any:
        kept = random.random(x.shape, dtype=np.float32) >= rate
        return x * kept * np.float32(1 / (1 - rate))

    names = dict(
        {name: getattr(np, name) for name in ("tanh", "exp", "log", "sqrt", "square", "sin")},
        **{name: getattr(np, name) for name in ("cos", "sum", "mean", "max", "std", "cumsum")},
        sigmoid=lambda x: 1 / (1 + np.exp(-x)),
        relu=lambda x: np.maximum(x, 0),
        argmax=np.argmax,
        softmax=_numpy_softmax,
        logsumexp=_numpy_logsumexp,
        reshape=np.reshape,
        transpose=lambda x: np.ascontiguousarray(x.T),
        permute=lambda x, axes: np.ascontiguousarray(np.transpose(x, axes)),
        concatenate=np.concatenate,
        gather=lambda table, indices: table[indices],
        one_hot=_numpy_one_hot,
        dot=np.matmul,
        batch_dot=np.matmul,
        random_normal=lambda shape, seed: random.standard_normal(shape, dtype=np.float32),
        random_uniform=lambda shape, seed: random.random(shape, dtype=np.float32),
        dropout=dropout,
        gradients=missing("gradients"),
        pullback=missing("gradients"),
    )
    return {**names, "gelu": lambda x: gelu(SimpleNamespace(tanh=np.tanh), x)}


# ------------------------------------------------------------------ kbench


def kbench_names(K: Any) -> dict[str, Any]:
    """The functions of the module, and these."""

    def pullback(function: Any, g: Any, *operands: Any) -> Any:
        return K.gradients(K.sum(function(*operands) * g), list(operands))

    return dict(
        vars(K),
        gelu=lambda x: gelu(K, x),
        permute=K.permute_dimensions,
        batch_dot=lambda x, y: K.batch_dot(x, y, (2, 1)),
        random_normal=lambda shape, seed: K.random_normal(shape),
        random_uniform=lambda shape, seed: K.random_uniform(shape),
        dropout=lambda x, rate, seed: K.dropout(x, rate),
        gradients=lambda loss, *operands: K.gradients(loss(*operands), list(operands)),
        pullback=pullback,
    )


# ------------------------------------------------------------------ PyTorch


def torch_names(torch: Any) -> dict[str, Any]:
    """Eager calls; gradients through autograd."""
    functional = torch.nn.functional

    def over(run: Any) -> Any:
        return lambda x, axis: run(x) if axis is None else run(x, axis)

    def std(x: Any, axis: Any) -> Any:
        return torch.std(x, axis, correction=0)

    def pullback(function: Any, g: Any, *operands: Any) -> Any:
        with torch.inference_mode(False), torch.enable_grad():
            leaves = [one.detach().requires_grad_() for one in operands]
            y = function(*leaves)
            if isinstance(y, (list, tuple)):
                y = y[0]
            return torch.autograd.grad(y, leaves, g)

    elementary = ("sigmoid", "tanh", "exp", "log", "sqrt", "square", "sin", "cos", "relu")
    return dict(
        {name: getattr(torch, name) for name in elementary},
        gelu=lambda x: functional.gelu(x, approximate="tanh"),
        softmax=lambda x, axis=-1: torch.softmax(x, axis),
        logsumexp=torch.logsumexp,
        sum=over(torch.sum),
        mean=over(torch.mean),
        max=over(torch.amax),
        std=std,
        argmax=torch.argmax,
        cumsum=torch.cumsum,
        reshape=torch.reshape,
        transpose=lambda x: x.t().contiguous(),
        permute=lambda x, axes: x.permute(axes).contiguous(),
        concatenate=torch.cat,
        gather=lambda table, indices: table.index_select(0, indices),
        one_hot=lambda indices, classes: _torch_one_hot(torch, indices, classes),
        dot=torch.matmul,
        batch_dot=torch.bmm,
        random_normal=lambda shape, seed: torch.randn(shape),
        random_uniform=lambda shape, seed: torch.rand(shape),
        dropout=lambda x, rate, seed: functional.dropout(x, rate, True),
        gradients=lambda loss, *operands: pullback(loss, None, *operands),
        pullback=pullback,
    )


def _torch_one_hot(torch: Any, indices: Any, classes: int) -> Any:
    out = torch.zeros((*indices.shape, classes))
    return out.scatter_(-1, indices.long()[:, None], 1.0)


# ------------------------------------------------------------------ JAX


def jax_names(jax: Any) -> dict[str, Any]:
    """`jax.numpy` and `jax.nn`, traced by `jax.jit`."""
    jnp, random = jax.numpy, jax.random

    def dropout(x: Any, rate: float, seed: Any) -> Any:
        kept = random.bernoulli(random.key(seed), 1 - rate, x.shape)
        return jnp.where(kept, x / (1 - rate), 0.0)

    def gradients(loss: Any, *operands: Any) -> Any:
        return jax.grad(loss, tuple(range(len(operands))))(*operands)

    elementary = ("tanh", "exp", "log", "sqrt", "square", "sin", "cos", "sum", "mean", "max")
    return dict(
        {name: getattr(jnp, name) for name in elementary},
        sigmoid=jax.nn.sigmoid,
        relu=jax.nn.relu,
        gelu=lambda x: jax.nn.gelu(x, approximate=True),
        softmax=jax.nn.softmax,
        logsumexp=jax.nn.logsumexp,
        std=jnp.std,
        argmax=jnp.argmax,
        cumsum=jnp.cumsum,
        reshape=jnp.reshape,
        transpose=jnp.transpose,
        permute=jnp.transpose,
        concatenate=jnp.concatenate,
        gather=lambda table, indices: table[indices],
        one_hot=jax.nn.one_hot,
        dot=jnp.matmul,
        batch_dot=jnp.matmul,
        random_normal=lambda shape, seed: random.normal(random.key(seed), shape),
        random_uniform=lambda shape, seed: random.uniform(random.key(seed), shape),
        dropout=dropout,
        gradients=gradients,
        pullback=lambda function, g, *operands: jax.vjp(function, *operands)[1](g),
    )


# ------------------------------------------------------------------ TensorFlow


def tensorflow_names(tf: Any) -> dict[str, Any]:
    """The functions of TensorFlow, traced by `tf.function`."""

    def pullback(function: Any, g: Any, *operands: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(operands)
            y = function(*operands)
        found = tape.gradient(y, operands, g)
        return [tf.convert_to_tensor(one) for one in found]

    elementary = ("sigmoid", "tanh", "exp", "sqrt", "square", "sin", "cos", "transpose", "argmax")
    return dict(
        {name: getattr(tf, name) for name in (*elementary, "gather", "reshape", "cumsum")},
        log=tf.math.log,
        relu=tf.nn.relu,
        gelu=lambda x: tf.nn.gelu(x, approximate=True),
        softmax=tf.nn.softmax,
        logsumexp=tf.reduce_logsumexp,
        sum=tf.reduce_sum,
        mean=tf.reduce_mean,
        max=tf.reduce_max,
        std=tf.math.reduce_std,
        permute=tf.transpose,
        concatenate=tf.concat,
        one_hot=tf.one_hot,
        dot=tf.matmul,
        batch_dot=tf.matmul,
        random_normal=lambda shape, seed: tf.random.normal(shape),
        random_uniform=lambda shape, seed: tf.random.uniform(shape),
        dropout=lambda x, rate, seed: tf.nn.dropout(x, rate),
        gradients=lambda loss, *operands: pullback(loss, None, *operands),
        pullback=pullback,
    )
