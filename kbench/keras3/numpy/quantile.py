"""Quantiles over axes: at once by NumPy, in a trace from sorted elements, gradients included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.keras3.calls.host import host, operand
from kbench.keras3.complex_numbers.refusal import real_only
from kbench.keras3.numpy import curves, elementwise, index, layout, reduce
from kbench.keras3.numpy.elementwise import float_type
from kbench.keras3.tensor import any_traced, is_traced, plain

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _by_order(form: Any, name: str, whole: float, skips: bool) -> Callable[..., Any]:
    """A function of `x` and of parts of `whole`, below which that part of the elements lies."""

    def at_once(
        x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
    ) -> Any:
        axis = reduce.axes_of(axis, x)
        return form(np.asarray(x), q, axis=axis, method=method, keepdims=keepdims)

    at_once.__name__ = name
    eager = host(2)(at_once)

    def quantile(
        x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
    ) -> Any:
        x, q = operand(x), plain(q)
        real_only(name, x=x, q=q)
        reduce.some_to_choose_from(name, x, axis)
        if not any_traced(x, q):
            return eager(x, q, axis, method, keepdims)
        if method not in METHODS:
            raise ValueError(f"{name}: method must be one of {METHODS}, got {method!r}")
        x = layout.known(x)
        dtype = float_type(x)
        narrow = dtype in ("float16", "bfloat16")
        x = elementwise.cast(x, "float32" if narrow else dtype)
        part = np.asarray(q, x.dtype) if isinstance(q, (int, float)) else layout.known(q)
        part = elementwise.divide(part, whole) if whole != 1 else part
        found = _at(x, part, axis, method, skips)
        if keepdims:
            sizes = [1 if i in _axes(x, axis) else size for i, size in enumerate(x.shape)]
            found = layout.reshape(found, (*part.shape, *sizes))
        return elementwise.cast(found, dtype)

    quantile.__name__ = name
    return quantile


def _axes(x: Any, axis: Any) -> tuple[int, ...]:
    rank = len(x.shape)
    if axis is None:
        return tuple(range(rank))
    return tuple(np.lib.array_utils.normalize_axis_tuple(reduce.axes_of(axis, x), rank))


def _at(x: Any, part: Any, axis: Any, method: str, skips: bool) -> Any:
    """The quantiles of a traced value, those of each part first."""
    axes = _axes(x, axis)
    others = [i for i in range(len(x.shape)) if i not in axes]
    lead = tuple(x.shape[i] for i in others)
    if 0 in lead:
        return np.zeros((*part.shape, *lead), x.dtype)
    rows = layout.reshape(layout.transpose(x, (*others, *axes)), (*lead, -1))
    rows = index.sort(rows, -1)  # NaN comes last
    last = rows.shape[-1] - 1
    if skips:
        there = elementwise.logical_not(elementwise.isnan(rows))
        last = layout.expand_dims(reduce.sum(elementwise.cast(there, "int32"), -1), -1) - 1
        none = elementwise.less(last, 0)
        last = elementwise.cast(elementwise.maximum(last, 0), str(x.dtype))
    else:
        none = elementwise.isnan(rows[..., last:])
    place = elementwise.multiply(layout.reshape(part, (-1,)), last)
    found = _between(rows, place, method)
    found = elementwise.where(none, elementwise.cast(np.nan, str(x.dtype)), found)
    found = layout.moveaxis(found, -1, 0)
    return layout.reshape(found, (*part.shape, *lead))


def _between(rows: Any, place: Any, method: str) -> Any:
    """The elements of sorted rows at a place, which may lie between two of them."""

    def entry(at: Any) -> Any:
        at = elementwise.cast(at, "int64")
        by = index.take if len(at.shape) == 1 else index.take_along_axis
        return by(rows, at, -1)

    if method == "nearest":
        return entry(elementwise.round(place))
    below, above = curves.floor(place), curves.ceil(place)
    if method in ("lower", "higher"):
        return entry(below if method == "lower" else above)
    share = elementwise.subtract(place, below)
    if method == "midpoint":
        share = elementwise.multiply(
            elementwise.cast(elementwise.greater(share, 0), "float32"), 0.5
        )
    low, high = entry(below), entry(above)
    away = elementwise.multiply(
        elementwise.subtract(high, low), elementwise.cast(share, str(low.dtype))
    )
    # The difference of two infinities is NaN.
    same = elementwise.logical_and(elementwise.isinf(low), elementwise.equal(low, high))
    return elementwise.where(same, low, elementwise.add(low, away))


quantile = _by_order(np.quantile, "quantile", 1, False)
percentile = _by_order(np.percentile, "percentile", 100, False)
nanquantile = _by_order(np.nanquantile, "nanquantile", 1, True)
nanpercentile = _by_order(np.nanpercentile, "nanpercentile", 100, True)


def _middle(form: Any, name: str, by: Callable[..., Any]) -> Callable[..., Any]:
    def at_once(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return form(x, axis=reduce.axes_of(axis, x), keepdims=keepdims)

    at_once.__name__ = name
    eager = host(1)(at_once)

    def median(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        """The middle element over axes, or the mean of the middle two."""
        x = operand(x)
        real_only(name, x=x)
        reduce.some_to_choose_from(name, x, axis)
        if is_traced(x):
            return by(x, 0.5, axis, "linear", keepdims)
        return eager(x, axis, keepdims)

    median.__name__ = name
    return median


median = _middle(np.median, "median", quantile)
nanmedian = _middle(np.nanmedian, "nanmedian", nanquantile)
