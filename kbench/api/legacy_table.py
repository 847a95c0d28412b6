"""Keras 1 in one table: its names of functions and arguments, and what they are called today."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct, field


class Old(Struct, frozen=True):
    """How Keras 1 called one function.

    `names` maps its argument names to today's, None for what was never used on this kind of engine.
    `order` lists its parameters where their positions differ from today's, and `tells` says whether
    the positional arguments of a call can only be meant that way. `weights` are those whose layout
    differs under "th", with the axes that today's layout takes from there. `others` are names that
    tf_keras has for the same arguments; nothing is wrong with them.
    """

    names: Mapping[str, str | None] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    tells: Callable[[tuple[Any, ...]], bool] | None = None
    weights: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)


def _sizes_at(*positions: int) -> Callable[[tuple[Any, ...]], bool]:
    """Whether several sizes stand at a position where today one word or number would."""

    def tells(operands: tuple[object, ...]) -> bool:
        given = [operands[position] for position in positions if position < len(operands)]
        return any(isinstance(operand, (tuple, list)) and len(operand) > 1 for operand in given)

    return tells


def _fraction_at(position: int) -> Callable[[tuple[Any, ...]], bool]:
    """Whether a float stands at a position where today an axis would."""

    def tells(operands: tuple[object, ...]) -> bool:
        given = operands[position] if len(operands) > position else None
        return isinstance(given, (float, np.floating))

    return tells


_BORDER = {"border_mode": "padding"}
_ORDERING = {"dim_ordering": "data_format"}
_IMAGE = {**_BORDER, **_ORDERING}
_UNUSED: dict[str, str | None] = {"image_shape": None, "filter_shape": None}
TH_2D, _TH_3D = (2, 3, 1, 0), (2, 3, 4, 1, 0)

TABLE: dict[str, Old] = {
    "batch_get_value": Old({"xs": "ops"}, others={"tensors": "ops"}),
    "batch_normalization": Old(
        order=("x", "mean", "var", "beta", "gamma", "epsilon"), tells=_fraction_at(5)
    ),
    "conv1d": Old(
        {"stride": "strides", **_BORDER, **_UNUSED},
        order=("x", "kernel", "stride", "border_mode", "image_shape", "filter_shape"),
        tells=_sizes_at(4, 5),
    ),
    "conv2d": Old(
        {**_IMAGE, **_UNUSED, "filter_dilation": "dilation_rate"},
        order=tuple(
            "x kernel strides border_mode dim_ordering image_shape filter_shape "
            "filter_dilation".split()
        ),
        weights={"kernel": TH_2D},
    ),
    "conv3d": Old(
        {**_IMAGE, "volume_shape": None, "filter_shape": None, "filter_dilation": "dilation_rate"},
        order=tuple(
            "x kernel strides border_mode dim_ordering volume_shape filter_shape "
            "filter_dilation".split()
        ),
        weights={"kernel": _TH_3D},
    ),
    "expand_dims": Old({"dim": "axis"}),
    "moving_average_update": Old({"variable": "x"}),
    "one_hot": Old({"nb_classes": "num_classes"}),
    "pattern_broadcast": Old({"broatcastable": "broadcastable"}),  # spelled so in Keras 1
    "pool2d": Old(_IMAGE),
    "pool3d": Old(_IMAGE),
    "random_normal": Old({"std": "stddev"}),
    "random_uniform": Old({"low": "minval", "high": "maxval"}),
    "resize_images": Old({"X": "x", **_ORDERING}),
    "resize_volumes": Old({"X": "x", **_ORDERING}),
    "separable_conv2d": Old(_IMAGE, weights={"depthwise_kernel": TH_2D, "pointwise_kernel": TH_2D}),
    "set_epsilon": Old(others={"value": "e"}),
    "set_floatx": Old(others={"value": "floatx"}),
    "spatial_2d_padding": Old(_ORDERING),
    "spatial_3d_padding": Old(_ORDERING),
}

NAMES: dict[str, str] = {
    "asymmetric_spatial_2d_padding": "spatial_2d_padding",
    "asymmetric_temporal_padding": "temporal_padding",
    "atrous_conv2d": "conv2d",
    "deconv2d": "conv2d_transpose",
    "image_dim_ordering": "image_data_format",
    "lesser": "less",
    "lesser_equal": "less_equal",
    "set_image_dim_ordering": "set_image_data_format",
}

ELSEWHERE: dict[str, str] = {
    "add": "x + y",
    "array": "K.constant(value), or K.variable(value) for a value that changes",
    "assign": "K.update(variable, new) for updates of a function, or K.set_value(variable, value)",
    "concat": "K.concatenate([x, y], axis)",
    "divide": "x / y",
    "einsum": "K.batch_dot(x, y, axes)",
    "flip": "K.reverse(x, axes)",
    "global_variables_initializer": "nothing: variables have their values from the start",
    "gradient": "K.gradients(loss, variables)",
    "GradientTape": "K.gradients(loss, variables)",
    "leaky_relu": "K.relu(x, alpha=0.2)",
    "linspace": "K.constant(np.linspace(start, stop, num))",
    "log_softmax": "x - K.logsumexp(x, axis=-1, keepdims=True)",
    "masked_fill": "K.switch(mask, value, x)",
    "matmul": "x @ y, or K.dot; K.batch_dot for two batches",
    "moveaxis": "K.permute_dimensions(x, pattern)",
    "mse": "K.mean(K.square(x - y), axis=-1)",
    "multiply": "x * y",
    "norm": "K.sqrt(K.sum(K.square(x)))",
    "reduce_max": "K.max(x, axis)",
    "reduce_mean": "K.mean(x, axis)",
    "reduce_min": "K.min(x, axis)",
    "reduce_sum": "K.sum(x, axis)",
    "relu6": "K.relu(x, max_value=6)",
    "run": "K.function([x], [y])([value]), or K.eval(y)",
    "split": "slices, such as x[:, :3] and x[:, 3:]",
    "subtract": "x - y",
    "swapaxes": "K.permute_dimensions(x, pattern)",
    "unsqueeze": "K.expand_dims(x, axis)",
    "where": "K.switch(condition, x, y)",
}
"""What to write for functions of TensorFlow, NumPy and PyTorch that the backend does not have."""

ABSENT: dict[str, str] = {
    "ctc_cost": "Theano's cost of one sequence; K.ctc_batch_cost takes a batch",
    "ctc_create_skip_idxs": "a part of Theano's ctc_cost; use K.ctc_batch_cost",
    "ctc_interleave_blanks": "a part of Theano's ctc_cost; use K.ctc_batch_cost",
    "ctc_path_probs": "a part of Theano's ctc_cost; use K.ctc_batch_cost",
    "ctc_update_log_p": "a part of Theano's ctc_cost; use K.ctc_batch_cost",
    "experimental": "switches of tf_keras' random generators; K's always draw by counters",
    "get_graph": "TensorFlow's graph object; a tensor holds its own graph in op and inputs",
    "is_explicit_shape": "a helper of Keras 1 for Theano; use all(n is not None for n in shape)",
    "legacy_weight_ordering": "a flag about weight files of 2015 that nothing reads any more",
    "local_conv": "tf_keras' own helper; use K.local_conv1d or K.local_conv2d",
    "set_legacy_weight_ordering": "a flag about weight files of 2015 that nothing reads any more",
    "track_tf_optimizer": "tf_keras' own helper; there is nothing to track",
}
