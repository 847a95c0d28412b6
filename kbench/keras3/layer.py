"""The base of Keras' layers: known outputs can take a mask, as tensors of other backends do.

Keras sets `_keras_mask` on what a layer returns. An array of NumPy takes no attributes, so that
Keras would keep the mask in a table of its own, where a user does not find it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask


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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the layer; known ones as arrays that a mask can be set on."""
        outputs = super().__call__(*args, **kwargs)  # type: ignore[misc]
        if not self.supports_masking:
            return outputs
        return tree.map_structure(_maskable, outputs)


def _maskable(output: Any) -> Any:
    """The same elements and mask, as an array on which the mask is an attribute."""
    if type(output) is not np.ndarray:
        return output
    found = output.view(MaskableArray)
    mask = get_keras_mask(output)
    if mask is not None:
        set_keras_mask(found, mask)
    return found
