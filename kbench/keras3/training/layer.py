"""The base of Keras' layers: known outputs can take a mask, texts may stand beside numbers, and
matrices of SciPy are tensors.

Keras sets `_keras_mask` on what a layer returns. An array of NumPy takes no attributes, so that
Keras would keep the mask in a table of its own, where a user does not find it.

Keras refuses an argument of tensors and other things. Arrays are no tensors of other backends, so
that a layer which converts its inputs itself, such as `HashedCrossing`, takes arrays and texts in
one argument there. Here they are, so that they are hidden while Keras looks at the arguments.

Keras' operations are loaded once its layers are; their rules for complex numbers are corrected
then.
A matrix of SciPy is no tensor to Keras' functions, so that it becomes one before Keras looks at it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask

from kbench.api.operations import KbenchError
from kbench.keras3.complex_numbers.refusal import spec_of
from kbench.keras3.complex_numbers.symbolic import tell_real_dtypes
from kbench.keras3.core import is_tensor
from kbench.keras3.tensor import HiddenArray, without_matrices


class MaskableArray(np.ndarray):
    """An array with attributes; what is computed from it is a plain one, without them."""

    def __array_wrap__(
        self, array: np.ndarray, context: Any = None, return_scalar: bool = False
    ) -> Any:
        return array[()] if return_scalar else array.view(np.ndarray)

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))


class BackendLayer:
    """What stands between Keras' `Layer` and `Operation`."""

    supports_masking: bool

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if BackendLayer in cls.__bases__ and "__call__" in cls.__dict__:  # Keras' own `Layer`
            setattr(cls, "__call__", _beside_texts(cls.__dict__["__call__"]))  # noqa: B010
            tell_real_dtypes(sys.modules["keras.src.ops.numpy"])  # which Keras' layers import

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the layer; known ones as arrays that a mask can be set on."""
        given = (args, kwargs)
        if _converts_itself(self) and any(map(_is_hidden, tree.flatten(given))):
            args, kwargs = tree.map_structure(_shown, given)  # else a layer's own dicts stay
        try:
            outputs = super().__call__(*args, **kwargs)  # type: ignore[misc]
        except KbenchError as error:
            error.within = error.within or _told(self, given)  # the innermost one
            raise
        if not self.supports_masking:
            return outputs
        return tree.map_structure(_maskable, outputs)


def _told(layer: Any, given: Any) -> str:
    """A layer, and what it was called with."""
    specs = [spec_of(leaf) for leaf in tree.flatten(given) if is_tensor(leaf)]
    name = f"layer {layer.name!r} ({type(layer).__name__})"
    return f"{name}, called with {', '.join(specs)}" if specs else name


def _maskable(output: Any) -> Any:
    """The same elements and mask, as an array on which the mask is an attribute."""
    if type(output) is not np.ndarray:
        return output
    found = output.view(MaskableArray)
    mask = get_keras_mask(output)
    if mask is not None:
        set_keras_mask(found, mask)
    return found


def _converts_itself(layer: Any) -> bool:
    """Whether Keras hands the arguments of a call to the layer as they were given."""
    return not getattr(layer, "_convert_input_args", True)


def _beside_texts(call: Callable[..., Any]) -> Callable[..., Any]:
    """Keras' call of a layer, of tensors alone, from which those beside texts are hidden."""

    @functools.wraps(call)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        args = tuple(without_matrices(value) for value in args)
        kwargs = {name: without_matrices(value) for name, value in kwargs.items()}
        if _converts_itself(self):
            args = tuple(_hidden(value) for value in args)
            kwargs = {name: _hidden(value) for name, value in kwargs.items()}
        return call(self, *args, **kwargs)

    return wrapped


def _hidden(value: Any) -> Any:
    """The argument, its arrays hidden where they stand beside what is no tensor."""
    if not tree.is_nested(value):
        return value
    leaves = [leaf for leaf in tree.flatten(value) if leaf is not None]
    tensors = [leaf for leaf in leaves if is_tensor(leaf)]
    known = all(
        isinstance(leaf, (np.ndarray, np.generic)) and get_keras_mask(leaf) is None
        for leaf in tensors
    )
    if not tensors or len(tensors) == len(leaves) or not known:
        return value
    return tree.map_structure(lambda leaf: HiddenArray.of(leaf) if is_tensor(leaf) else leaf, value)


def _is_hidden(leaf: Any) -> bool:
    return isinstance(leaf, HiddenArray)


def _shown(leaf: Any) -> Any:
    return leaf.shown if _is_hidden(leaf) else leaf
