"""Calls in Keras 1's form, by the table of its names and arguments.

A call in Keras 1's form works and gives one DeprecationWarning that says the new form. Such a call
is read as Keras 1 throughout: `dim_ordering` left out is "default", and with "th" the weights of
convolutions are laid out [filters, channels, rows, cols], as they were then.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from kbench.api.legacy_layout import LAYOUT, TH_LAYOUT, Laid, laid_out, told_as_given
from kbench.api.legacy_table import ABSENT as ABSENT
from kbench.api.legacy_table import ELSEWHERE as ELSEWHERE
from kbench.api.legacy_table import NAMES as NAMES
from kbench.api.legacy_table import TABLE as TABLE
from kbench.api.legacy_table import TH_2D, Old
from kbench.engine.core.errors import ArgumentError, shown
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.conv.api import conv2d, conv2d_transpose
from kbench.engine.ops.elementwise.compare import less, less_equal
from kbench.engine.ops.layout.padding import spatial_2d_padding, temporal_padding
from kbench.engine.runtime import config
from kbench.engine.runtime.config import image_data_format

Arguments = dict[str, Any]  # of a call, by the names of its parameters
Public = Callable[..., Any]

HOME = "kbench.backend"  # where pickle finds the functions that take both forms
ORDERINGS = {"tf": "channels_last", "th": "channels_first"}
OLD_WORDS = (*ORDERINGS, "default")
OLD_PADDING = {"padding": "border_mode"}


def missing(name: str) -> str:
    """Why there is no function of that name."""
    if config.backend() not in ("kbench", "numpy"):
        return f"the engine {config.backend()!r} has no {name!r}"
    reason = ABSENT.get(name)
    if name in ELSEWHERE:
        reason = f"write {ELSEWHERE[name]}"
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

    def form(operands: tuple[object, ...], keywords: Arguments) -> tuple[str, ...] | None:
        """The parameters that the operands of a call in Keras 1's form are meant for."""
        order = old.order or today
        if len(operands) > len(order):
            return None
        told = len(operands) > len(today) or (old.tells is not None and old.tells(operands))
        if not told and len(operands) > ordering:
            told = isinstance(operands[ordering], str) and operands[ordering] in OLD_WORDS
        return order if told or not known.isdisjoint(keywords) else None

    def call(*operands: object, **keywords: object) -> object:
        if (keywords and not known.isdisjoint(keywords)) or len(operands) > first:
            order = form(operands, keywords)
            if order is not None:
                given = dict(zip(order, operands, strict=False))
                arguments, weights, renamed = _translated(name, today, given, keywords)
                with told_as_given(weights, renamed):
                    return public(**arguments)
        return public(*operands, **keywords)

    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name)  # errors name it by that
    functools.update_wrapper(call, public)
    call.__module__ = HOME
    return call


def _translated(
    name: str, today: tuple[str, ...], given: Arguments, keywords: Arguments
) -> tuple[Arguments, list[Laid], dict[str, str]]:
    """The arguments of a call in Keras 1's form by their names of today.

    With them the weights that are laid out anew, and what was called differently, by today's name.
    """
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
            both = [used for used in (*given, *keywords) if _new_name(old, used) == new]
            raise TypeError(f"{name}() got {both[0]!r} and {both[1]!r}, which are the same")
        arguments[new] = kept = _value(new, key, value)
        if kept is not value:
            says.append(f"dim_ordering={shown(value)} is now data_format={kept!r}")
        elif key in keywords:
            says += [f"{key} is now {new}"] if key in old.names else []
        elif today[position : position + 1] != (new,):
            says.append(f"{new} must be given by name")
    weights: list[Laid] = []
    if "data_format" in today:
        weights = _lay_out(old, arguments, given | keywords, says)
    if says:
        _warn(f"K.{name} in Keras 1's form: {', '.join(says)}", 4)
    renamed = {new: key for key in keywords if (new := _new_name(old, key)) not in (None, key)}
    return arguments, weights, renamed


def _new_name(old: Old, key: str) -> str | None:
    return old.names.get(key, old.others.get(key, key))


def _value(new: str, key: str, value: object) -> Any:
    """The value of an argument as it is called today."""
    if new != "data_format":
        return value
    if isinstance(value, str) and value in OLD_WORDS:
        return ORDERINGS.get(value) or image_data_format()
    if key == "dim_ordering":
        raise ArgumentError(f"dim_ordering must be 'tf', 'th' or 'default', got {shown(value)}")
    return value


def _lay_out(old: Old, arguments: Arguments, given: Arguments, says: list[str]) -> list[Laid]:
    """Add Keras 1's default layout, and bring the weights of "th" into today's; gives these."""
    if "dim_ordering" not in old.names:
        arguments.setdefault("data_format", "channels_last")  # all that there was
    if "data_format" not in arguments:
        arguments["data_format"] = image_data_format()
    elif given.get("data_format") == arguments["data_format"]:
        return []  # given in today's words, so meant in today's layout
    if arguments["data_format"] != "channels_first":
        return []
    weights = []
    for name, axes in old.weights.items():
        if name in arguments:
            words = TH_LAYOUT[len(axes)]
            weights.append(laid_out(name, arguments[name], axes, words))
            arguments[name] = weights[-1].today
            says.append(f"{name}[{words}] is now [{LAYOUT[len(axes)]}]")
    return weights


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
    image_shape: object = None,
    filter_shape: object = None,
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
    form, laid = _in_format(dim_ordering, kernel, (0, 1, 2, 3))
    today = kernel if laid is None else laid.today
    with told_as_given([] if laid is None else [laid], OLD_PADDING):
        return conv2d(x, today, (1, 1), border_mode, form, (rate, rate))


def deconv2d(
    x: Operand,
    kernel: Operand,
    output_shape: Operand,
    strides: tuple[int, int] = (1, 1),
    border_mode: str = "valid",
    dim_ordering: str = "default",
    image_shape: object = None,
    filter_shape: object = None,
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
    form, laid = _in_format(dim_ordering, kernel, (0, 1, 3, 2))
    assert laid is not None
    with told_as_given([laid], OLD_PADDING):
        return conv2d_transpose(x, laid.today, output_shape, strides, border_mode, form)


def _in_format(
    dim_ordering: str, kernel: Operand, order: tuple[int, ...]
) -> tuple[str, Laid | None]:
    """Today's name of the layout, and the kernel with the axes of `conv2d`'s in `order`.

    None for the kernel where that is how it was given.
    """
    form = _value("data_format", "dim_ordering", dim_ordering)
    if form == "channels_first":
        return form, laid_out("kernel", kernel, [TH_2D[axis] for axis in order], TH_LAYOUT[4])
    same = order == (0, 1, 2, 3)
    return form, None if same else laid_out("kernel", kernel, order, LAYOUT[4])


def _renamed(name: str, form: str) -> None:
    _warn(f"K.{name} is Keras 1's; use K.{form}", 4)
