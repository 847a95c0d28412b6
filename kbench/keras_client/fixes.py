"""Repairs of Keras 2.3.1 where Python and NumPy have moved on.

Each changes one module of Keras and nothing outside of it. `keras_client` applies them.
"""

from __future__ import annotations

import collections
import collections.abc
import functools
import importlib
import inspect
from collections import namedtuple
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

MOVED = ("Iterable", "Mapping", "Sequence", "Container")  # from collections to collections.abc
Keras = Any
"""An object of Keras, which has no types."""
ArgSpec = namedtuple("ArgSpec", "args varargs keywords defaults")


class Stand(ModuleType):
    """A module as it is, with some names more; it stands for it in one module of Keras."""

    def __init__(self, module: ModuleType, **names: object) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(names)
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> object:
        return getattr(self.__dict__["_module"], name)


def before_callbacks(module: ModuleType) -> Callable[[], None]:
    """callbacks/callbacks.py:19 `from collections import Iterable`: there while it is executed."""
    missing = [name for name in MOVED if not hasattr(collections, name)]
    for name in missing:
        setattr(collections, name, getattr(collections.abc, name))

    def restore() -> None:
        for name in missing:
            delattr(collections, name)

    return restore


def callbacks(module: ModuleType) -> None:
    """callbacks/callbacks.py:685, 813, 1024 ... `np.Inf`: gone from NumPy 2."""
    module.np = Stand(np, Inf=np.inf)  # type: ignore[attr-defined]


def training_utils(module: ModuleType) -> None:
    """engine/training_utils.py:639, 696, 823 ... `collections.Mapping`: gone from Python 3.10."""
    names = {name: getattr(collections.abc, name) for name in MOVED}
    module.collections = Stand(collections, **names)  # type: ignore[attr-defined]


def generic_utils(module: ModuleType) -> None:
    """utils/generic_utils.py:246 `inspect.ArgSpec`: gone from Python 3.11.

    :193 `func_load` reads a Lambda's bytecode, which each version of Python has of its own.
    """
    read = module.func_load

    def getargspec(fn: Callable[..., object]) -> ArgSpec:
        spec = inspect.getfullargspec(fn)
        return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)

    @functools.wraps(read)
    def func_load(code: object, *arguments: object, **keywords: object) -> object:
        try:
            return read(code, *arguments, **keywords)
        except (EOFError, SystemError, TypeError, ValueError) as error:
            raise ValueError(
                f"the code of a Lambda layer cannot be read ({error}): it was saved by another "
                "version of Python; build the model in code and use load_weights"
            ) from error

    module.func_load = func_load  # type: ignore[attr-defined]
    module.getargspec = getargspec  # type: ignore[attr-defined]


def sequence(module: ModuleType) -> None:
    """keras_preprocessing/sequence.py:79 `np.unicode_`: gone from NumPy 2."""
    module.np = Stand(np, unicode_=np.str_)  # type: ignore[attr-defined]


def ragged_arrays(module: ModuleType) -> None:
    """datasets/imdb.py, reuters.py: `np.array` of lists of unequal length, an error now."""

    def array(value: Sequence[object], *arguments: Any, **keywords: Any) -> np.ndarray:
        try:
            return np.array(value, *arguments, **keywords)
        except ValueError:
            rows = np.empty(len(value), dtype=object)
            rows[:] = value
            return rows

    module.np = Stand(np, array=array)  # type: ignore[attr-defined]


def core_layers(module: ModuleType) -> None:
    """layers/core.py:381, 505 `np.prod` of sizes: NumPy 2 shows a shape of it as np.int64(288)."""

    def prod(sizes: object, **options: Any) -> int:
        return int(np.prod(sizes, **options))  # type: ignore[call-overload]

    module.np = Stand(np, prod=prod)  # type: ignore[attr-defined]
    lambda_layer(module)


def lambda_layer(module: ModuleType) -> None:
    """layers/core.py:670: the shape of a Lambda is inferred for two backends by name only.

    For others the input's shape was taken, and the layer behind it was built wrongly.
    """
    K = importlib.import_module("kbench.backend")
    layer = module.Lambda
    original = layer.compute_output_shape

    def compute_output_shape(self: Keras, input_shape: object) -> object:
        if self._output_shape is not None:
            return original(self, input_shape)
        if isinstance(input_shape, list):
            dtypes = self._input_dtypes or [None] * len(input_shape)
            pairs = zip(input_shape, dtypes, strict=True)
            result = self.call([K.placeholder(shape, dtype=dtype) for shape, dtype in pairs])
        else:
            result = self.call(K.placeholder(input_shape, dtype=self._input_dtypes))
        for tensor in result if isinstance(result, list) else [result]:
            if not K.is_tensor(tensor):
                raise TypeError(
                    f"the function of Lambda layer {self.name!r} gave {type(tensor).__name__}; "
                    "it must give a tensor or a list of tensors"
                )
        if isinstance(result, list):
            return [K.int_shape(tensor) for tensor in result]
        return K.int_shape(result)

    layer.compute_output_shape = compute_output_shape


def time_distributed(module: ModuleType) -> None:
    """layers/wrappers.py:225: a step reads the global `uses_learning_phase`, which nobody made.

    With a fixed batch that was a NameError for every layer that does not use the learning phase.
    """
    module.uses_learning_phase = False  # type: ignore[attr-defined]


def first_step(module: ModuleType) -> None:
    """layers/recurrent.py:919, 1382, 1971: a cell makes its dropout masks at its first step.

    TensorFlow's `rnn` calls the step once before the loop, so that these masks belong to the whole
    sequence. Made within the loop, as `K.rnn` alone would have it, they differ from step to step.
    """
    K = importlib.import_module("kbench.backend")

    def rnn(
        step_function: Callable[..., object],
        inputs: object,
        initial_states: Sequence[object],
        **options: Any,
    ) -> object:
        if not options.get("unroll"):
            entry = K.zeros_like(K.sum(inputs, axis=1))  # there is one even if there are no steps
            step_function(entry, [*initial_states, *(options.get("constants") or [])])
        return K.rnn(step_function, inputs, initial_states, **options)

    module.K = Stand(module.K, rnn=rnn)  # type: ignore[attr-defined]


def scikit_learn(module: ModuleType) -> None:
    """wrappers/scikit_learn.py:20: classes of nobody, which scikit-learn 1.6 asks for tags.

    Without them its pipelines and searches refuse a wrapped model.
    """

    def kind_of(self: object) -> str:
        return "classifier" if isinstance(self, module.KerasClassifier) else "regressor"

    def __sklearn_tags__(self: object) -> object:
        tags = importlib.import_module("sklearn.utils")
        kind = kind_of(self)
        return tags.Tags(
            estimator_type=kind,
            target_tags=tags.TargetTags(required=True),
            classifier_tags=tags.ClassifierTags() if kind == "classifier" else None,
            regressor_tags=tags.RegressorTags() if kind == "regressor" else None,
            non_deterministic=True,
        )

    wrapper = module.BaseWrapper
    wrapper.__sklearn_tags__ = __sklearn_tags__
    wrapper.__sklearn_is_fitted__ = lambda self: hasattr(self, "model")
    wrapper._estimator_type = property(kind_of)  # what earlier versions ask for
