"""The libraries that are compared: how each takes arrays, runs a formula and gives the result.

Every library is asked for its best ordinary form: kbench a `K.function`, PyTorch eager calls in
inference mode, JAX a jitted function on device arrays, NumPy itself. A result counts as there when
it may be read, so JAX is waited for. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import convolutions
import numpy as np

Call = Callable[[], Any]


class Library:
    """One contestant; `version` says which."""

    version = ""

    def function(self, formula: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Call:
        """The formula made once, to be called often on the same operands."""
        raise NotImplementedError

    def evaluate(self, formula: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Call:
        """The formula written anew in every call, with a NumPy array as result."""
        raise NotImplementedError

    def array(self, result: Any) -> np.ndarray:
        """A result as a NumPy array."""
        return np.asarray(result)


def _numpy_sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _numpy_softmax(x: Any) -> Any:
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    shifted /= np.sum(shifted, axis=-1, keepdims=True)
    return shifted


def _numpy_logsumexp(x: Any, axis: Any) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return np.squeeze(total, axis)


NUMPY = SimpleNamespace(
    sigmoid=_numpy_sigmoid,
    tanh=np.tanh,
    exp=np.exp,
    sqrt=np.sqrt,
    square=np.square,
    softmax=_numpy_softmax,
    logsumexp=_numpy_logsumexp,
    sum=np.sum,
    mean=np.mean,
    max=np.max,
    **convolutions.NUMPY,
)


class NumPy(Library):
    version = np.__version__

    def function(self, formula: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Call:
        return lambda: formula(NUMPY, *arrays)

    evaluate = function


class Kbench(Library):
    def __init__(self, threads: int) -> None:
        import kbench as K

        self.K: Any = K
        self.names = convolutions.kbench_names(K)
        K.set_num_threads(threads)
        self.version = K.__version__

    def function(self, formula: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Call:
        feeds = [self.K.placeholder(shape=one.shape, dtype=str(one.dtype)) for one in arrays]
        call = self.K.function(feeds, [formula(self.names, *feeds)])
        values = list(arrays)
        return lambda: call(values)[0]

    def evaluate(self, formula: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Call:
        operands = [self.K.variable(one) for one in arrays]
        return lambda: self.K.eval(formula(self.names, *operands))


class Torch(Library):
    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.torch: Any = torch
        self.version = torch.__version__
        self.names = SimpleNamespace(
            sigmoid=torch.sigmoid,
            tanh=torch.tanh,
            exp=torch.exp,
            sqrt=torch.sqrt,
            square=torch.square,
            softmax=lambda x: torch.softmax(x, -1),
            logsumexp=torch.logsumexp,
            sum=lambda x, axis: torch.sum(x) if axis is None else torch.sum(x, axis),
            mean=lambda x, axis: torch.mean(x) if axis is None else torch.mean(x, axis),
            max=lambda x, axis: torch.amax(x) if axis is None else torch.amax(x, axis),
            **convolutions.torch_names(torch),
        )

    def function(self, formula: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Call:
        operands = [self.torch.from_numpy(one) for one in arrays]
        inference = self.torch.inference_mode

        def call() -> Any:
            with inference():
                return formula(self.names, *operands)

        return call

    def evaluate(self, formula: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Call:
        call = self.function(formula, arrays)
        return lambda: call().numpy()

    def array(self, result: Any) -> np.ndarray:
        return result if isinstance(result, np.ndarray) else result.numpy()


class TorchCompile(Torch):
    """`torch.compile` with its default mode; needs a C++ compiler."""

    def function(self, formula: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Call:
        operands = [self.torch.from_numpy(one) for one in arrays]
        compiled = self.torch.compile(lambda *xs: formula(self.names, *xs), dynamic=False)
        return lambda: compiled(*operands)


class Jax(Library):
    def __init__(self, threads: int) -> None:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax
        import jax.numpy as jnp

        self.jax: Any = jax
        self.version = jax.__version__
        self.names = SimpleNamespace(
            sigmoid=jax.nn.sigmoid,
            tanh=jnp.tanh,
            exp=jnp.exp,
            sqrt=jnp.sqrt,
            square=jnp.square,
            softmax=jax.nn.softmax,
            logsumexp=jax.nn.logsumexp,
            sum=jnp.sum,
            mean=jnp.mean,
            max=jnp.max,
            **convolutions.jax_names(jax),
        )

    def function(self, formula: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Call:
        operands = [self.jax.device_put(one) for one in arrays]
        compiled = self.jax.jit(lambda *xs: formula(self.names, *xs))
        return lambda: compiled(*operands).block_until_ready()

    def evaluate(self, formula: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Call:
        operands = [self.jax.device_put(one) for one in arrays]
        return lambda: np.asarray(formula(self.names, *operands))


LIBRARIES: dict[str, Callable[[int], Library]] = {
    "kbench": Kbench,
    "numpy": lambda threads: NumPy(),
    "torch": Torch,
    "torch-compile": TorchCompile,
    "jax": Jax,
}
