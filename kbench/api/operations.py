"""What the engine offers to clients that bring an API of their own, beside the names of `backend`.

`kbench/keras3` imports the engine through this module and `kbench.backend` alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kbench.engine.control_flow.scan import read_outside, repeated_gradient, scan
from kbench.engine.core.errors import GradientError, KbenchError, see_through
from kbench.engine.core.spec import DTYPES, Spec, is_float
from kbench.engine.graph.apply import results
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.variables import Variable
from kbench.engine.jit.service import prefetch
from kbench.engine.ops.control.numpy_call import numpy_call, numpy_calls
from kbench.engine.ops.ctc.cost import ctc_cost
from kbench.engine.ops.elementwise.arithmetic import where
from kbench.engine.ops.elementwise.compare import logical_and, logical_or, logical_xor
from kbench.engine.ops.elementwise.elementary import ceil, erf, expm1, floor, log1p
from kbench.engine.ops.random.seeded import seeded_array, seeded_draw
from kbench.engine.runtime import config
from kbench.engine.runtime.environment import env
from kbench.engine.runtime.keras_json import chosen_backend as keras_file_backend

__all__ = [
    "DTYPES", "GradientError", "KbenchError", "Spec", "Tensor", "Variable", "ceil", "ctc_cost",
    "env", "erf", "expm1", "floor", "is_float", "keras_file_backend", "kernels_allowed", "log1p",
    "logical_and", "logical_or", "logical_xor", "numpy_call", "numpy_calls", "prefetch",
    "read_outside", "repeated_gradient", "results", "scan", "see_through", "seeded_array",
    "seeded_draw", "where",
]  # fmt: skip


@contextlib.contextmanager
def kernels_allowed(wanted: bool) -> Iterator[None]:
    """Whether functions that are bound within the block may run compiled code."""
    before = config.allow_kernels(wanted)
    try:
        yield
    finally:
        config.allow_kernels(before)
