"""What Keras 3 asks of a backend."""

from keras.src.backend.common.name_scope import name_scope

from kbench.keras3 import core, image, linalg, math, nn, numpy, random, rnn
from kbench.keras3.core import (
    IS_THREAD_SAFE,
    SUPPORTS_COMPLEX_DTYPES,
    SUPPORTS_RAGGED_TENSORS,
    SUPPORTS_SPARSE_TENSORS,
    Variable,
    cast,
    compute_output_spec,
    cond,
    convert_to_numpy,
    convert_to_tensor,
    device_scope,
    is_tensor,
    random_seed_dtype,
    shape,
    stop_gradient,
)


def __getattr__(name):
    from kbench.keras3.numpy import absent

    return absent("keras.backend", name)
