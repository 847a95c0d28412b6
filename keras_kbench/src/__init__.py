"""What Keras 3 asks of a backend."""

from kbench.keras3 import core, image, linalg, math, nn, numpy, random
from kbench.keras3 import distribution as distribution_lib
from kbench.keras3.calls.named_errors import name_errors
from kbench.keras3.control.rnn import (
    bidirectional_gru,
    bidirectional_lstm,
    cudnn_ok,
    gru,
    lstm,
    rnn,
)
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
    name_scope,
    random_seed_dtype,
    scatter,
    shape,
    stop_gradient,
    vectorized_map,
)
from kbench.keras3.repairs import without_types

name_errors((image, linalg, math, nn, numpy, random))
without_types((core, image, linalg, math, nn, numpy, random))
