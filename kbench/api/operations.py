"""What the engine offers to clients that bring an API of their own, beside the names of `backend`.

`kbench/keras3` imports the engine through this module and `kbench.backend` alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator

import numpy as np

from kbench.engine.compiler.rewrite import rebuild, with_inputs
from kbench.engine.control_flow.scan import read_outside, repeated_gradient, scan
from kbench.engine.core import fork_safety
from kbench.engine.core.csr import (
    SPARSE_DTYPES,
    Csr,
    as_csr,
    as_dense,
    frozen,
    is_matrix,
    multiply,
    with_data,
)
from kbench.engine.core.errors import (
    ArgumentError,
    DtypeError,
    GradientError,
    KbenchError,
    Place,
    ShapeError,
    name_functions,
    see_through,
)
from kbench.engine.core.spec import DTYPES, Spec, is_float
from kbench.engine.graph import scope
from kbench.engine.graph.apply import results
from kbench.engine.graph.convert import Constant, constant_node
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.variables import Placeholder, Variable
from kbench.engine.jit.service import prefetch
from kbench.engine.ops.control.numpy_call import numpy_call, numpy_calls
from kbench.engine.ops.ctc.cost import ctc_cost
from kbench.engine.ops.elementwise.arithmetic import where
from kbench.engine.ops.elementwise.compare import logical_and, logical_or, logical_xor
from kbench.engine.ops.elementwise.elementary import ceil, erf, expm1, floor, log1p
from kbench.engine.ops.loss.pick import pick_class
from kbench.engine.ops.random.seeded import seeded_array, seeded_draw
from kbench.engine.ops.sparse.sparse_ops import cast_sparse
from kbench.engine.runtime import config
from kbench.engine.runtime.environment import env
from kbench.engine.runtime.garbage import uncollected
from kbench.engine.runtime.keras_json import chosen_backend as keras_file_backend

__all__ = [
    "ArgumentError", "Constant", "Csr", "DTYPES", "DtypeError", "GradientError", "KbenchError",
    "Place", "Placeholder", "SPARSE_DTYPES", "ShapeError", "Spec", "Tensor", "Variable",
    "as_csr", "as_dense", "cast_sparse", "ceil", "ctc_cost", "env", "erf", "expm1", "floor",
    "is_float", "is_matrix", "keras_file_backend", "kernels_allowed", "lock", "log1p",
    "logical_and", "logical_or", "logical_xor", "multiply", "name_functions", "numpy_call",
    "numpy_calls", "on_setting", "opaque_constant", "pick_class", "prefetch", "read_outside",
    "rebuild", "repeated_gradient", "results", "scan", "see_through", "seeded_array",
    "seeded_draw", "settings_in_force", "sparse_constant", "uncollected", "walk", "where",
    "with_data", "with_inputs",
]  # fmt: skip

lock = fork_safety.lock


@contextlib.contextmanager
def kernels_allowed(wanted: bool) -> Iterator[None]:
    """Whether functions that are bound within the block may run compiled code."""
    before = config.allow_kernels(wanted)
    try:
        yield
    finally:
        config.allow_kernels(before)


def opaque_constant(array: np.ndarray) -> Tensor:
    """A constant of the array, copied, whose entries nothing follows as a shape."""
    node = constant_node(np.array(array))
    return Constant(node.op, (), node.attrs, Spec(node.value.shape, node.value.dtype.name))


def sparse_constant(csr: Csr) -> Tensor:
    """A sparse tensor of known value, which a function may be fed in place of it."""
    spec = Spec(csr.shape, csr.dtype.name, sparse=True)
    return Placeholder(spec, None, frozen(csr))


def on_setting(listener: Callable[[str], None]) -> None:
    """Have `listener` called with its name after each change of a setting."""
    config.changed.subscribe(listener)


def settings_in_force() -> Hashable:
    """Equal for two moments between which no setting of the engine has changed."""
    return config.epoch(), scope.generation(), config.backend(), config.of_this_thread()
