"""The public names, listed. `from kbench import backend as K` gives the whole API.

The module is callable and returns the backend's name, so that both `K.backend()` after
`import kbench as K` and this module's use as `K` work.
"""

from __future__ import annotations

import builtins
import sys
from types import ModuleType
from typing import Any, NoReturn

from kbench.api import legacy as _legacy
from kbench.api.legacy import (
    asymmetric_spatial_2d_padding,
    asymmetric_temporal_padding,
    atrous_conv2d,
    deconv2d,
    image_dim_ordering,
    lesser,
    lesser_equal,
    set_image_dim_ordering,
)
from kbench.engine.autodiff import gradients, stop_gradient
from kbench.engine.control_flow.map import foldl, foldr, map_fn
from kbench.engine.control_flow.rnn import rnn
from kbench.engine.core.errors import (
    ArgumentError,
    DtypeError,
    FeedError,
    GradientError,
    KbenchError,
    OutOfMemory,
    ShapeError,
)
from kbench.engine.execute.function import Function, eval, function
from kbench.engine.execute.tf_session import Session, get_session, set_session
from kbench.engine.graph.queries import (
    count_params,
    dtype,
    get_variable_shape,
    int_shape,
    is_keras_tensor,
    is_placeholder,
    is_sparse,
    is_symbolic,
    is_tensor,
    is_variable,
    ndim,
)
from kbench.engine.graph.scope import (
    clear_session,
    eager,
    get_uid,
    manual_variable_initialization,
    name_scope,
    reset_uids,
    symbolic,
    v1_variable_initialization,
)
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.updates import moving_average_update, update, update_add, update_sub
from kbench.engine.graph.variable_values import (
    batch_get_value,
    batch_set_value,
    get_value,
    set_value,
)
from kbench.engine.graph.variables import Placeholder, Variable, constant, placeholder, variable
from kbench.engine.ops.control.print_tensor import print_tensor
from kbench.engine.ops.control.switch import (
    control_dependencies,
    in_test_phase,
    in_train_phase,
    learning_phase,
    learning_phase_scope,
    set_learning_phase,
    switch,
)
from kbench.engine.ops.conv.api import conv1d, conv2d, conv2d_transpose, conv3d, conv3d_transpose
from kbench.engine.ops.conv.bias import bias_add
from kbench.engine.ops.conv.depthwise import depthwise_conv2d, separable_conv1d, separable_conv2d
from kbench.engine.ops.conv.local import local_conv1d, local_conv2d
from kbench.engine.ops.ctc.cost import ctc_batch_cost
from kbench.engine.ops.ctc.decode import ctc_decode
from kbench.engine.ops.elementwise.activation import (
    elu,
    hard_sigmoid,
    relu,
    sigmoid,
    softmax,
    softplus,
    softsign,
    tanh,
)
from kbench.engine.ops.elementwise.arithmetic import cast, clip, maximum, minimum
from kbench.engine.ops.elementwise.compare import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
)
from kbench.engine.ops.elementwise.elementary import (
    abs,
    cos,
    exp,
    log,
    pow,
    round,
    sign,
    sin,
    sqrt,
    square,
)
from kbench.engine.ops.layout.concatenate import concatenate
from kbench.engine.ops.layout.create import arange, eye, one_hot, ones, ones_like, zeros, zeros_like
from kbench.engine.ops.layout.gather import gather
from kbench.engine.ops.layout.indexing import slice
from kbench.engine.ops.layout.padding import (
    spatial_2d_padding,
    spatial_3d_padding,
    temporal_padding,
)
from kbench.engine.ops.layout.repeat import repeat, repeat_elements, tile
from kbench.engine.ops.layout.reshape import (
    batch_flatten,
    expand_dims,
    flatten,
    permute_dimensions,
    reshape,
    squeeze,
    transpose,
)
from kbench.engine.ops.layout.resize import resize_images, resize_volumes
from kbench.engine.ops.layout.reverse import reverse
from kbench.engine.ops.layout.shape import identity, pattern_broadcast, shape, size
from kbench.engine.ops.layout.stack import stack
from kbench.engine.ops.linear.matmul import batch_dot, dot
from kbench.engine.ops.loss.losses import (
    binary_crossentropy,
    binary_focal_crossentropy,
    categorical_crossentropy,
    categorical_focal_crossentropy,
    in_top_k,
    sparse_categorical_crossentropy,
)
from kbench.engine.ops.pool.api import pool2d, pool3d
from kbench.engine.ops.random.distributions import (
    random_bernoulli,
    random_binomial,
    random_normal,
    random_normal_variable,
    random_uniform,
    random_uniform_variable,
    truncated_normal,
)
from kbench.engine.ops.random.dropout import dropout
from kbench.engine.ops.reduce.argmax import argmax, argmin
from kbench.engine.ops.reduce.batch_norm import batch_normalization, normalize_batch_in_training
from kbench.engine.ops.reduce.cumulative import cumprod, cumsum
from kbench.engine.ops.reduce.moments import l2_normalize, logsumexp, mean, std, var
from kbench.engine.ops.reduce.reduction import all, any, max, min, prod, sum
from kbench.engine.ops.sparse.sparse_ops import ctc_label_dense_to_sparse, to_dense
from kbench.engine.runtime.config import backend as _backend_name
from kbench.engine.runtime.config import (
    cast_to_floatx,
    epsilon,
    exact,
    floatx,
    image_data_format,
    normalize_data_format,
    num_threads,
    set_epsilon,
    set_exact,
    set_floatx,
    set_image_data_format,
    set_num_threads,
)
from kbench.engine.runtime.profile import record

py_all = builtins.all
py_any = builtins.any
py_slice = builtins.slice
py_sum = builtins.sum

globals().update(_legacy.accepting_all(globals()))

__all__ = [  # as a literal, so that editors and type checkers see what is public
    "ArgumentError", "DtypeError", "FeedError", "Function", "GradientError", "KbenchError",
    "OutOfMemory", "Placeholder", "Session", "ShapeError", "Tensor", "Variable", "abs", "all",
    "any", "arange", "argmax", "argmin", "asymmetric_spatial_2d_padding",
    "asymmetric_temporal_padding", "atrous_conv2d", "batch_dot", "batch_flatten",
    "batch_get_value", "batch_normalization", "batch_set_value", "bias_add", "binary_crossentropy",
    "binary_focal_crossentropy", "cast", "cast_to_floatx", "categorical_crossentropy",
    "categorical_focal_crossentropy", "clear_session", "clip", "concatenate", "constant",
    "control_dependencies", "conv1d", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose",
    "cos", "count_params", "ctc_batch_cost", "ctc_decode", "ctc_label_dense_to_sparse", "cumprod",
    "cumsum", "deconv2d", "depthwise_conv2d", "dot", "dropout", "dtype", "eager", "elu", "epsilon",
    "equal", "eval", "exact", "exp", "expand_dims", "eye", "flatten", "floatx", "foldl", "foldr",
    "function", "gather", "get_session", "get_uid", "get_value", "get_variable_shape", "gradients",
    "greater", "greater_equal", "hard_sigmoid", "identity", "image_data_format",
    "image_dim_ordering", "in_test_phase", "in_top_k", "in_train_phase", "int_shape",
    "is_keras_tensor", "is_placeholder", "is_sparse", "is_symbolic", "is_tensor", "is_variable",
    "l2_normalize", "learning_phase", "learning_phase_scope", "less", "less_equal", "lesser",
    "lesser_equal", "local_conv1d", "local_conv2d", "log", "logsumexp",
    "manual_variable_initialization", "map_fn", "max", "maximum", "mean", "min", "minimum",
    "moving_average_update", "name_scope", "ndim", "normalize_batch_in_training",
    "normalize_data_format", "not_equal", "num_threads", "one_hot", "ones", "ones_like",
    "pattern_broadcast", "permute_dimensions", "placeholder", "pool2d", "pool3d", "pow",
    "print_tensor", "prod", "py_all", "py_any", "py_slice", "py_sum", "random_bernoulli",
    "random_binomial", "random_normal", "random_normal_variable", "random_uniform",
    "random_uniform_variable", "record", "relu", "repeat", "repeat_elements", "reset_uids",
    "reshape", "resize_images", "resize_volumes", "reverse", "rnn", "round", "separable_conv1d",
    "separable_conv2d", "set_epsilon", "set_exact", "set_floatx", "set_image_data_format",
    "set_image_dim_ordering", "set_learning_phase", "set_num_threads", "set_session", "set_value",
    "shape", "sigmoid", "sign", "sin", "size", "slice", "softmax", "softplus", "softsign",
    "sparse_categorical_crossentropy", "spatial_2d_padding", "spatial_3d_padding", "sqrt",
    "square", "squeeze", "stack", "std", "stop_gradient", "sum", "switch", "symbolic", "tanh",
    "temporal_padding", "tile", "to_dense", "transpose", "truncated_normal", "update",
    "update_add", "update_sub", "v1_variable_initialization", "var", "variable", "zeros",
    "zeros_like",
]  # fmt: skip


class _CallableModule(ModuleType):
    """A module that answers with the backend's name when it is called."""

    def __call__(self) -> str:
        return _backend_name()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(_legacy.missing(name))

    @staticmethod
    def backend() -> str:
        """The name of the active engine."""
        return _backend_name()


sys.modules[__name__].__class__ = _CallableModule
