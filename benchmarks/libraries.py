"""The libraries that are compared: how each takes arrays, runs a formula and gives the result.

Every library is asked for its best ordinary form: kbench a `K.function`, PyTorch eager calls in
inference mode, JAX a jitted function on device arrays, TensorFlow a `tf.function`, plain or with
`jit_compile=True`, NumPy itself. A result counts as there when it may be read, so JAX is waited
for. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import convolutions
import layers
import names
import numpy as np
import sequences
import training

Call = Callable[[], Any]
Formula = Callable[..., Any]
Arrays = tuple[np.ndarray, ...]


class Library:
    """One contestant; `version` says which, `names` are what formulas see."""

    version = ""
    names: Any

    def function(self, formula: Formula, arrays: Arrays) -> Call:
        """The formula made once, to be called often on the same operands."""
        raise NotImplementedError

    def evaluate(self, formula: Formula, arrays: Arrays) -> Call:
        """The formula written anew in every call, with a NumPy array as result."""
        raise NotImplementedError

    def exchange(self, formula: Formula, arrays: Arrays) -> Call:
        """The formula made once, from NumPy arrays to a NumPy array."""
        raise NotImplementedError

    def train(self, model: Formula | None, arrays: Arrays, weights: Arrays) -> training.Steps:
        """A step of training, and what puts the first weights back."""
        raise names.Missing("no training")

    def settle(self) -> None:
        """Wait for what is compiled in the background."""

    def array(self, result: Any) -> np.ndarray:
        """A result as a NumPy array."""
        return np.asarray(result)


def keras_version() -> str:
    """The version of the Keras that is installed beside kbench; "" where there is none."""
    try:
        return importlib.metadata.version("keras")
    except importlib.metadata.PackageNotFoundError:
        return ""


def numpy_names() -> Any:
    """What formulas see of NumPy; also the reference, in float64."""
    own = {**names.numpy_names(), **convolutions.numpy_names(), **layers.numpy_names()}
    return SimpleNamespace(**own, **sequences.numpy_names(own))


def kbench_names(K: Any) -> Any:
    """What formulas see of kbench."""
    own = {**names.kbench_names(K), **convolutions.kbench_names(K), **layers.kbench_names(K)}
    return SimpleNamespace(**{**own, **sequences.kbench_names(K)})


class NumPy(Library):
    version = np.__version__

    def __init__(self, threads: int) -> None:
        self.names = numpy_names()

    def function(self, formula: Formula, arrays: Arrays) -> Call:
        return lambda: formula(self.names, *arrays)

    evaluate = exchange = function


class Kbench(Library):
    def __init__(self, threads: int) -> None:
        import kbench as K

        self.K: Any = K
        self.names = kbench_names(K)
        K.set_num_threads(threads)
        self.version = K.__version__

    def function(self, formula: Formula, arrays: Arrays) -> Call:
        feeds = [self.K.placeholder(shape=one.shape, dtype=str(one.dtype)) for one in arrays]
        result = formula(self.names, *feeds)
        several = isinstance(result, (list, tuple))
        call = self.K.function(feeds, list(result) if several else [result])
        values = list(arrays)
        return (lambda: call(values)) if several else (lambda: call(values)[0])

    exchange = function

    def evaluate(self, formula: Formula, arrays: Arrays) -> Call:
        operands = [self.K.variable(one) for one in arrays]
        return lambda: self.K.eval(formula(self.names, *operands))

    def train(self, model: Formula | None, arrays: Arrays, weights: Arrays) -> training.Steps:
        return training.kbench_steps(self.K, self.names, arrays, weights, model)

    def settle(self) -> None:
        from kbench.engine.jit.service import service

        service.wait_idle(60)


class Reference(Kbench):
    """What a value should be: the formula on NumPy in float64; where that takes a gradient or
    anything else that NumPy has not, on kbench's NumPy forms in float64."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.K.set_floatx("float64")
        self._numpy = NumPy(threads)

    def function(self, formula: Formula, arrays: Arrays) -> Call:
        wide = tuple(_wide(one) for one in arrays)
        kbench = super().function

        def call() -> Any:
            try:
                with np.errstate(all="ignore"):
                    return formula(self._numpy.names, *wide)
            except names.Missing:
                return kbench(formula, wide)()

        return call

    evaluate = exchange = function

    def train(self, model: Formula | None, arrays: Arrays, weights: Arrays) -> training.Steps:
        both = tuple(map(_wide, arrays)), tuple(map(_wide, weights))
        return training.kbench_steps(self.K, self.names, *both, model)


def _wide(one: np.ndarray) -> np.ndarray:
    return one.astype(np.float64) if one.dtype.kind == "f" else one


class Torch(Library):
    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.torch: Any = torch
        self.version = torch.__version__
        own = {
            **names.torch_names(torch),
            **convolutions.torch_names(torch),
            **layers.torch_names(torch),
        }
        self.names = SimpleNamespace(**own, **sequences.torch_names(torch, own))

    def _operands(self, arrays: Arrays) -> list[Any]:
        return [self.torch.from_numpy(np.ascontiguousarray(one)) for one in arrays]

    def function(self, formula: Formula, arrays: Arrays) -> Call:
        operands = self._operands(arrays)
        inference = self.torch.inference_mode

        def call() -> Any:
            with inference():
                return formula(self.names, *operands)

        return call

    def evaluate(self, formula: Formula, arrays: Arrays) -> Call:
        call = self.function(formula, arrays)
        return lambda: call().numpy()

    def exchange(self, formula: Formula, arrays: Arrays) -> Call:
        inference, given = self.torch.inference_mode, self.torch.from_numpy

        def call() -> Any:
            with inference():
                return formula(self.names, *map(given, arrays)).numpy()

        return call

    def train(self, model: Formula | None, arrays: Arrays, weights: Arrays) -> training.Steps:
        return training.torch_steps(self.torch, self.names, arrays, weights, model)

    def array(self, result: Any) -> np.ndarray:
        return result if isinstance(result, np.ndarray) else result.numpy()


class TorchCompile(Torch):
    """`torch.compile` with its default mode; needs a C++ compiler."""

    def function(self, formula: Formula, arrays: Arrays) -> Call:
        operands = self._operands(arrays)
        compiled = self.torch.compile(lambda *xs: formula(self.names, *xs), dynamic=False)
        return lambda: compiled(*operands)

    def train(self, model: Formula | None, arrays: Arrays, weights: Arrays) -> training.Steps:
        compiled = self.torch.compile(model, dynamic=False) if model else None
        return training.torch_steps(self.torch, self.names, arrays, weights, compiled)


class Jax(Library):
    def __init__(self, threads: int) -> None:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax

        self.jax: Any = jax
        self.version = jax.__version__
        own = {**names.jax_names(jax), **convolutions.jax_names(jax), **layers.jax_names(jax)}
        self.names = SimpleNamespace(**own, **sequences.jax_names(jax, own))

    def function(self, formula: Formula, arrays: Arrays) -> Call:
        operands = [self.jax.device_put(one) for one in arrays]
        compiled = self.jax.jit(lambda *xs: formula(self.names, *xs))
        ready = self.jax.block_until_ready
        return lambda: ready(compiled(*operands))

    def evaluate(self, formula: Formula, arrays: Arrays) -> Call:
        operands = [self.jax.device_put(one) for one in arrays]
        return lambda: np.asarray(formula(self.names, *operands))

    def exchange(self, formula: Formula, arrays: Arrays) -> Call:
        compiled = self.jax.jit(lambda *xs: formula(self.names, *xs))
        return lambda: np.asarray(compiled(*arrays))

    def train(self, model: Formula | None, arrays: Arrays, weights: Arrays) -> training.Steps:
        return training.jax_steps(self.jax, self.names, arrays, weights, model)


class TensorFlow(Library):
    """`tf.function` on tensors; Keras is tf_keras, version 2 of it."""

    compiled = False

    def __init__(self, threads: int) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf
        import tf_keras

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        self.tf: Any = tf
        self.keras: Any = tf_keras
        self.version = tf.__version__
        own = {
            **names.tensorflow_names(tf),
            **convolutions.tensorflow_names(tf),
            **layers.tensorflow_names(tf),
        }
        self.names = SimpleNamespace(**own, **sequences.tensorflow_names(tf, tf_keras, own))

    def _traced(self, formula: Formula) -> Any:
        return self.tf.function(
            lambda *xs: formula(self.names, *xs), jit_compile=self.compiled, autograph=False
        )

    def function(self, formula: Formula, arrays: Arrays) -> Call:
        operands = [self.tf.constant(one) for one in arrays]
        traced = self._traced(formula)
        return lambda: traced(*operands)

    def evaluate(self, formula: Formula, arrays: Arrays) -> Call:
        if self.compiled:
            raise names.Missing("no compiled form of single calls")
        operands = [self.tf.Variable(one) for one in arrays]
        return lambda: formula(self.names, *operands).numpy()

    def exchange(self, formula: Formula, arrays: Arrays) -> Call:
        traced, given = self._traced(formula), self.tf.constant
        return lambda: traced(*map(given, arrays)).numpy()

    def train(self, model: Formula | None, arrays: Arrays, weights: Arrays) -> training.Steps:
        return training.tensorflow_steps(
            self.tf, self.keras, self.names, arrays, weights, model, self.compiled
        )


class TensorFlowCompiled(TensorFlow):
    """The same with `jit_compile=True`."""

    compiled = True


LIBRARIES: dict[str, Callable[[int], Library]] = {
    "kbench": Kbench,
    "reference": Reference,
    "numpy": NumPy,
    "torch": Torch,
    "torch-compile": TorchCompile,
    "jax": Jax,
    "tf-keras": TensorFlow,
    "tf-xla": TensorFlowCompiled,
}

# The module that has to be there for a library.
MODULES = {"torch-compile": "torch", "tf-keras": "tf_keras", "tf-xla": "tf_keras"}
