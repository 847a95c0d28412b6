"""Numbers between two ends, in double precision: at equal distances, or at equal ratios."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.dtypes import result_type

from kbench import backend as K
from kbench.api.operations import Tensor, where
from kbench.keras3.calls.host import operand
from kbench.keras3.complex_numbers.refusal import real_only
from kbench.keras3.numpy import curves, elementwise, layout
from kbench.keras3.tensor import Traced, any_traced, in_dtype


def _ends(name: str, start: Any, stop: Any, dtype: Any) -> tuple[Any, Any, str]:
    """Both ends, as nodes where one is traced, and the dtype of what lies between them."""
    start, stop = operand(start), operand(stop)
    real_only(name, start=start, stop=stop)
    kinds = [getattr(one, "dtype", type(one)) for one in (start, stop)]
    wanted = standardize_dtype(dtype) if dtype is not None else result_type(*kinds, float)
    if any_traced(start, stop):
        return in_dtype(start, "float64"), in_dtype(stop, "float64"), wanted
    return _wide(start), _wide(stop), wanted


def _wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Numbers at equal distances; with `retstep` the distance, too."""
    first, last, wanted = _ends("linspace", start, stop, dtype)
    if isinstance(first, Tensor):
        found, step = _line(first, last, num, endpoint)
        found, step = _placed(found, axis), Traced(step, "float64")
    else:
        with np.errstate(all="ignore"):
            found, step = np.linspace(first, last, num, endpoint, retstep=True, axis=axis)
    found = elementwise.cast(curves.floor(found) if "int" in wanted else found, wanted)
    return (found, elementwise.cast(step, wanted)) if retstep else found


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Powers of a base, whose exponents are at equal distances."""
    first, last, wanted = _ends("logspace", start, stop, dtype)
    if isinstance(first, Tensor):
        powers = K.pow(in_dtype(base, "float64"), _line(first, last, num, endpoint)[0])
        return elementwise.cast(_placed(powers, axis), wanted)
    return np.logspace(first, last, num, endpoint, base, axis=axis).astype(wanted)


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Numbers of which each is the same multiple of the one before."""
    first, last, wanted = _ends("geomspace", start, stop, dtype)
    if isinstance(first, Tensor):
        ratio = last / first
        found = first * K.pow(ratio, _line(ratio * 0.0, 1.0, num, endpoint)[0])
        return elementwise.cast(_placed(_with_end(found, last, num, endpoint), axis), wanted)
    return np.geomspace(first, last, num, endpoint, axis=axis).astype(wanted)


# ------------------------------------------------------------------ between traced ends


def _line(first: Any, last: Any, num: Any, endpoint: bool) -> tuple[Any, Any]:
    """Numbers at equal distances along a new first axis, and the distance."""
    count = operator.index(num)
    if count < 0:
        raise ValueError(f"Number of samples, {count}, must be non-negative.")
    whole = last - first
    parts = count - bool(endpoint)
    if parts < 1:
        return first + whole * 0.0 + _counted(count, whole), K.constant(np.nan, "float64")
    step = whole / float(parts)
    return _with_end(first + step * _counted(count, whole), last, count, endpoint), step


def _counted(count: int, beside: Any) -> Any:
    """0, 1, 2 ... along a new first axis of what lies beside it."""
    numbers = np.arange(count, dtype="float64").reshape(-1, *[1] * beside.ndim)
    return K.constant(numbers, "float64")


def _with_end(found: Any, last: Any, count: int, endpoint: bool) -> Any:
    """The last of several numbers is the end as it was given, which sums and powers may miss."""
    if not endpoint or count < 2:
        return found
    return where(K.equal(_counted(count, found[0]), count - 1.0), last, found)


def _placed(found: Any, axis: int) -> Any:
    return layout.moveaxis(Traced(found, "float64"), 0, axis)
