"""Keras 1 in one table: its names of functions and arguments, and what they are called today.

A call in Keras 1's form works and gives one DeprecationWarning that says the new form. Such a call
is read as Keras 1 throughout: `dim_ordering` left out is "default", and with "th" the weights of
convolutions are laid out [filters, channels, rows, cols], as they were then.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kbench.engine import config
from kbench.engine.config import image_data_format
from kbench.engine.errors import ArgumentError, shown
from kbench.engine.ops.compare import less, less_equal
from kbench.engine.ops.conv import conv2d, conv2d_transpose
from kbench.engine.ops.layout import permute_dimensions
from kbench.engine.ops.padding import spatial_2d_padding, temporal_padding
from kbench.engine.tensor import Operand, Tensor

Arguments = dict[str, Any]
Public = Callable[..., Any]

HOME = "kbench.backend"  # where pickle finds the functions that take both forms
ORDERINGS = {"tf": "channels_last", "th": "channels_first"}
OLD_WORDS = (*ORDERINGS, "default")
TH_LAYOUT = {4: "filters, channels, rows, cols", 5: "filters, channels, depth, rows, cols"}
LAYOUT = {4: "rows, cols, channels, filters", 5: "depth, rows, cols, channels, filters"}


@dataclass(frozen=True)
class Old:
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

    def tells(operands: tuple[Any, ...]) -> bool:
        given = [operands[one] for one in positions if one < len(operands)]
        return any(isinstance(one, (tuple, list)) and len(one) > 1 for one in given)

    return tells


def _fraction_at(position: int) -> Callable[[tuple[Any, ...]], bool]:
    """Whether a float stands at a position where today an axis would."""

    def tells(operands: tuple[Any, ...]) -> bool:
        given = operands[position] if len(operands) > position else None
        return isinstance(given, (float, np.floating))

    return tells


_BORDER = {"border_mode": "padding"}
_ORDERING = {"dim_ordering": "data_format"}
_IMAGE = {**_BORDER, **_ORDERING}
_UNUSED: dict[str, str | None] = {"image_shape": None, "filter_shape": None}
_TH_2D, _TH_3D = (2, 3, 1, 0), (2, 3, 4, 1, 0)

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
        weights={"kernel": _TH_2D},
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
    "separable_conv2d": Old(
        _IMAGE, weights={"depthwise_kernel": _TH_2D, "pointwise_kernel": _TH_2D}
    ),
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


def missing(name: str) -> str:
    """Why there is no function of that name."""
    if config.backend() not in ("kbench", "numpy"):
        return f"the engine {config.backend()!r} has no {name!r}"
    reason = ABSENT.get(name)
    return f"module 'kbench' has no attribute {name!r}" + (f": {reason}" if reason else "")


# ------------------------------------------------------------------ calls in Keras 1's form


def accepting_all(names: Mapping[str, Any]) -> dict[str, Public]:
    """Those of `names` that the table tells of, taking both forms."""
    return {name: accepting(name, names[name]) for name in TABLE if name in names}


def accepting(name: str, public: Public) -> Public:
    """`public`, which also takes calls in Keras 1's form; its signature stays today's."""
    old, today = TABLE[name], tuple(inspect.signature(public).parameters)
    known = frozenset((*old.names, *old.others))
    ordering = today.index("data_format") if "data_format" in today else len(today)
    first = min(ordering, 4)  # fewer positional arguments mean the same in both forms

    def form(operands: tuple[Any, ...], keywords: Arguments) -> tuple[str, ...] | None:
        """The parameters that the operands of a call in Keras 1's form are meant for."""
        order = old.order or today
        if len(operands) > len(order):
            return None
        told = len(operands) > len(today) or (old.tells is not None and old.tells(operands))
        if not told and len(operands) > ordering:
            told = isinstance(operands[ordering], str) and operands[ordering] in OLD_WORDS
        return order if told or not known.isdisjoint(keywords) else None

    def call(*operands: Any, **keywords: Any) -> Any:
        if (keywords and not known.isdisjoint(keywords)) or len(operands) > first:
            order = form(operands, keywords)
            if order is not None:
                given = dict(zip(order, operands, strict=False))
                return public(**_translated(name, today, given, keywords))
        return public(*operands, **keywords)

    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name)  # errors name it by that
    functools.update_wrapper(call, public)
    call.__module__ = HOME
    return call


def _translated(
    name: str, today: tuple[str, ...], given: Arguments, keywords: Arguments
) -> Arguments:
    """The arguments of a call in Keras 1's form by their names of today."""
    old = TABLE[name]
    twice = given.keys() & keywords.keys()
    if twice:
        raise TypeError(f"{name}() got multiple values for argument {twice.pop()!r}")
    says: list[str] = []
    arguments: Arguments = {}
    for position, (key, value) in enumerate([*given.items(), *keywords.items()]):
        new = _new_name(old, key)
        if new is None:
            says += [f"{key} is not used"] if key in keywords or value is not None else []
            continue
        if new in arguments:
            both = [one for one in (*given, *keywords) if _new_name(old, one) == new]
            raise TypeError(f"{name}() got {both[0]!r} and {both[1]!r}, which are the same")
        arguments[new] = kept = _value(new, key, value)
        if kept is not value:
            says.append(f"dim_ordering={shown(value)} is now data_format={kept!r}")
        elif key in keywords:
            says += [f"{key} is now {new}"] if key in old.names else []
        elif today[position : position + 1] != (new,):
            says.append(f"{new} is to be given by name")
    if "data_format" in today:
        _lay_out(old, arguments, given | keywords, says)
    if says:
        _warn(f"K.{name} in Keras 1's form: {', '.join(says)}", 4)
    return arguments


def _new_name(old: Old, key: str) -> str | None:
    return old.names.get(key, old.others.get(key, key))


def _value(new: str, key: str, value: Any) -> Any:
    """The value of an argument as it is called today."""
    if new != "data_format":
        return value
    if isinstance(value, str) and value in OLD_WORDS:
        return ORDERINGS.get(value) or image_data_format()
    if key == "dim_ordering":
        raise ArgumentError(f"dim_ordering must be 'tf', 'th' or 'default', got {shown(value)}")
    return value


def _lay_out(old: Old, arguments: Arguments, given: Arguments, says: list[str]) -> None:
    """Add Keras 1's default layout, and bring the weights of "th" into today's."""
    if "dim_ordering" not in old.names:
        arguments.setdefault("data_format", "channels_last")  # all that there was
    if "data_format" not in arguments:
        arguments["data_format"] = image_data_format()
    elif given.get("data_format") == arguments["data_format"]:
        return  # given in today's words, so meant in today's layout
    if arguments["data_format"] != "channels_first":
        return
    for weight, axes in old.weights.items():
        if weight in arguments:
            arguments[weight] = permute_dimensions(arguments[weight], axes)
            says.append(f"{weight}[{TH_LAYOUT[len(axes)]}] is now [{LAYOUT[len(axes)]}]")


def _warn(text: str, depth: int = 3) -> None:
    """Say at the user's line what is called differently today; `depth` frames up."""
    warnings.warn(text, DeprecationWarning, stacklevel=depth)


# ------------------------------------------------------------------ functions under their old names


def lesser(x: Operand, y: Operand) -> Tensor:
    """Keras 1's name of `less`: whether x < y, element by element.

    Source: Keras 1.2 `backend.lesser`. Warns; use `K.less`.
    """
    _renamed("lesser", "less(x, y)")
    result: Tensor = less(x, y)
    return result


def lesser_equal(x: Operand, y: Operand) -> Tensor:
    """Keras 1's name of `less_equal`: whether x <= y, element by element.

    Source: Keras 1.2 `backend.lesser_equal`. Warns; use `K.less_equal`.
    """
    _renamed("lesser_equal", "less_equal(x, y)")
    result: Tensor = less_equal(x, y)
    return result


def image_dim_ordering() -> str:
    """Keras 1's view of `image_data_format`: 'tf' for channels_last, 'th' for channels_first.

    Source: Keras 1.2 `backend.image_dim_ordering`. Warns; use `K.image_data_format`.
    """
    _renamed("image_dim_ordering", "image_data_format()")
    return config.image_dim_ordering()


def set_image_dim_ordering(dim_ordering: str) -> None:
    """Set the image layout by its name in Keras 1, 'tf' or 'th'.

    Raises:
        ArgumentError: any other value.
    Source: Keras 1.2 `backend.set_image_dim_ordering`. Warns; use `K.set_image_data_format`.
    """
    config.set_image_dim_ordering(dim_ordering)
    form = ORDERINGS[dim_ordering]
    _renamed("set_image_dim_ordering", f"set_image_data_format({form!r})")


def asymmetric_temporal_padding(x: Operand, left_pad: int = 1, right_pad: int = 1) -> Tensor:
    """Keras 1's name of `temporal_padding` with a pair of sizes.

    Source: Keras 1.2 `backend.asymmetric_temporal_padding`. Warns; use `K.temporal_padding`.
    """
    _renamed("asymmetric_temporal_padding", "temporal_padding(x, (left, right))")
    return temporal_padding(x, (left_pad, right_pad))


def asymmetric_spatial_2d_padding(
    x: Operand,
    top_pad: int = 1,
    bottom_pad: int = 1,
    left_pad: int = 1,
    right_pad: int = 1,
    dim_ordering: str = "default",
) -> Tensor:
    """Keras 1's name of `spatial_2d_padding` with pairs of sizes.

    Source: Keras 1.2 `backend.asymmetric_spatial_2d_padding`. Warns; use `K.spatial_2d_padding`.
    """
    form = _value("data_format", "dim_ordering", dim_ordering)
    _renamed(
        "asymmetric_spatial_2d_padding",
        f"spatial_2d_padding(x, ((top, bottom), (left, right)), {form!r})",
    )
    return spatial_2d_padding(x, ((top_pad, bottom_pad), (left_pad, right_pad)), form)


def atrous_conv2d(
    x: Operand,
    kernel: Operand,
    rate: int = 1,
    border_mode: str = "valid",
    dim_ordering: str = "default",
    image_shape: Any = None,
    filter_shape: Any = None,
) -> Tensor:
    """Keras 1's name of `conv2d` with one dilation rate for both axes.

    Arguments:
        x: float[batch, rows, cols, channels], or with "th" the channels second.
        kernel: float[rows, cols, channels, filters], or with "th"
            float[filters, channels, rows, cols].
        rate: the spacing of the filter's taps; image_shape and filter_shape are not used.
    Source: Keras 1.2 `backend.atrous_conv2d`. Warns; use `K.conv2d(dilation_rate=...)`.
    """
    _renamed("atrous_conv2d", "conv2d(x, kernel, padding=..., dilation_rate=...)")
    form, kernel = _in_format(dim_ordering, kernel, _TH_2D)
    return conv2d(x, kernel, padding=border_mode, data_format=form, dilation_rate=(rate, rate))


def deconv2d(
    x: Operand,
    kernel: Operand,
    output_shape: Any,
    strides: tuple[int, int] = (1, 1),
    border_mode: str = "valid",
    dim_ordering: str = "default",
    image_shape: Any = None,
    filter_shape: Any = None,
) -> Tensor:
    """Keras 1's name of `conv2d_transpose`, with the kernel laid out as that of `conv2d`.

    Arguments:
        x: float[batch, rows, cols, channels], or with "th" the channels second.
        kernel: float[rows, cols, channels, filters], or with "th"
            float[filters, channels, rows, cols]: channels of `x` and of the result.
        output_shape: sizes of the result; image_shape and filter_shape are not used.
    Source: Keras 1.2 `backend.deconv2d`. Warns; use `K.conv2d_transpose`, whose kernel is
    float[rows, cols, filters, channels].
    """
    _renamed("deconv2d", "conv2d_transpose, whose kernel is [rows, cols, filters, channels]")
    form, kernel = _in_format(dim_ordering, kernel, _TH_2D)
    swapped = permute_dimensions(kernel, (0, 1, 3, 2))
    return conv2d_transpose(x, swapped, output_shape, strides, border_mode, form)


def _in_format(dim_ordering: str, kernel: Operand, axes: tuple[int, ...]) -> tuple[str, Operand]:
    """Today's name of the layout, and the kernel as it is laid out today."""
    form = _value("data_format", "dim_ordering", dim_ordering)
    return form, permute_dimensions(kernel, axes) if form == "channels_first" else kernel


def _renamed(name: str, form: str) -> None:
    _warn(f"K.{name} is Keras 1's; use K.{form}", 4)
