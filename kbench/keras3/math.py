"""Segments, order, transforms of Fourier, special functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy  # whose parts are loaded on first use

from kbench import backend as K
from kbench.api import operations as engine
from kbench.api.operations import ArgumentError, ShapeError, Spec, numpy_call
from kbench.keras3 import linalg
from kbench.keras3.calls.host import BY_PARTS, REAL, common_dtype, host, operand
from kbench.keras3.calls.planned import planned
from kbench.keras3.complex_numbers.parts import joined
from kbench.keras3.complex_numbers.refusal import real_only, spec_of, whole_only
from kbench.keras3.complex_numbers.whole import conjugated
from kbench.keras3.numpy import curves, elementwise, index, layout, reduce
from kbench.keras3.numpy.elementwise import float_type, of_floats
from kbench.keras3.tensor import PARTS, Traced, finish, in_dtype, is_traced, to_wide

_EMPTY = {"sum": 0, "prod": 1}
_UFUNCS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _segments(kind: str, data: Any, ids: Any, count: int) -> np.ndarray:
    """The rows joined by the number of their segment; numbers out of range are left out."""
    if kind in _EMPTY:
        start: Any = _EMPTY[kind]
    elif data.dtype.kind == "f":
        start = -np.inf if kind == "max" else np.inf
    else:
        limits = np.iinfo(data.dtype)
        start = limits.min if kind == "max" else limits.max
    out = np.full((count, *data.shape[1:]), start, data.dtype)
    there = (ids >= 0) & (ids < count)
    _UFUNCS[kind].at(out, ids[there], data[there])
    return out


def _segment_rule(kind: str) -> Any:
    def rule(g: Any, y: Any, data: Any, ids: Any, *_rest: Any, **_options: Any) -> Any:
        rows = K.clip(K.cast(ids, "int64"), 0, y.spec.shape[0] - 1)
        inside = K.cast(K.equal(K.cast(ids, "int64"), rows), g.spec.dtype)
        for _ in range(data.ndim - 1):
            inside = K.expand_dims(inside, -1)
        slope = K.gather(g, rows) * inside
        if kind in ("max", "min"):
            slope = slope * K.cast(K.equal(data, K.gather(y, rows)), g.spec.dtype)
        elif kind == "prod":
            slope = slope * K.gather(y, rows) / data
        return slope, None

    return rule


def _complex_prod_rule(g: Any, y: Any, data: Any, ids: Any, *rest: Any, **options: Any) -> Any:
    """The products of the other rows, by division."""
    whole = index.take(g * conjugated(y), ids, axis=0)
    return [elementwise.divide(whole, conjugated(data)), None]


def _segment(kind: str) -> Any:
    of_complex = {"sum": BY_PARTS, "prod": _complex_prod_rule}.get(kind, REAL)

    def reduced(data: Any, segment_ids: Any, num_segments: Any = None, sorted: bool = False) -> Any:
        count = int(segment_ids.max(initial=-1)) + 1 if num_segments is None else int(num_segments)
        return _segments(kind, data, segment_ids.astype(np.int64), count)

    reduced.__name__ = f"segment_{kind}"
    joined = host(2, _segment_rule(kind), dtype="same", of_complex=of_complex)(reduced)

    def segment(data: Any, segment_ids: Any, num_segments: Any = None, sorted: bool = False) -> Any:
        segment_ids = operand(segment_ids)
        whole_only(reduced.__name__, segment_ids=segment_ids)
        return joined(data, segment_ids, num_segments, sorted)

    segment.__name__ = reduced.__name__
    return segment


segment_sum = _segment("sum")
segment_prod = _segment("prod")
segment_max = _segment("max")
segment_min = _segment("min")


def top_k(x: Any, k: int, sorted: bool = True) -> tuple[Any, Any]:
    """The largest `k` elements of the last axis, and their places."""
    x = layout.known(x)
    real_only("top_k", x=x)
    if x.shape and not 0 <= k <= x.shape[-1]:
        told = f"x is {spec_of(x)}, whose last axis has {x.shape[-1]} elements; k is {k}"
        raise ArgumentError(told, function="top_k")
    if not is_traced(x):
        order = _top_places(to_wide(x), k)
        return np.take_along_axis(x, order, -1), order
    spec = Spec((*x.node.spec.shape[:-1], k), "int32")
    places = Traced(numpy_call(lambda array: _top_places(array, k), [x.node], spec))
    return index.gathered(x, places, len(x.shape) - 1), places


def _top_places(x: np.ndarray, k: int) -> np.ndarray:
    """The places of the largest elements, NaN before all; of equal ones the first comes first."""
    order = np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]
    found: np.ndarray = (x.shape[-1] - 1 - order[..., :k]).astype(np.int32)
    return found


def in_top_k(targets: Any, predictions: Any, k: int) -> Any:
    """Whether the prediction of the target is among the largest `k`."""
    targets = operand(targets)
    whole_only("in_top_k", targets=targets)
    return _in_top_k(targets, predictions, k)


@host(2, dtype="bool", name="in_top_k")
def _in_top_k(targets: Any, predictions: Any, k: int) -> Any:
    places = targets.astype(np.int64)
    known = (places >= 0) & (places < predictions.shape[-1])
    rows = np.take_along_axis(predictions, np.where(known, places, 0)[..., None], -1)
    larger = (predictions > rows).sum(-1)
    return known & (larger < k) & np.isfinite(rows[..., 0])


@planned
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The logarithm of the sum of exponentials, without overflow."""
    dtype = float_type(x)
    x = operand(x)
    axis = reduce.axes_of(axis, x)
    if dtype in PARTS:
        return _complex_logsumexp(elementwise.cast(x, dtype), axis, keepdims)
    return finish(K.logsumexp(in_dtype(x, dtype), axis, keepdims), dtype)


def _complex_logsumexp(x: Any, axis: Any, keepdims: bool) -> Any:
    real = curves.real(x)
    real = real if is_traced(real) else Traced(in_dtype(real, str(real.dtype)))
    top = Traced(K.stop_gradient(reduce.max(real, axis, True, -np.inf).node))
    found = elementwise.log(reduce.sum(elementwise.exp(x - top), axis, True)) + top
    return found if keepdims else layout.reshape(found, _without(x.shape, axis))


def _without(shape: Any, axis: Any) -> tuple[int, ...]:
    """A shape without axes, or without all."""
    if axis is None:
        return ()
    places = np.lib.array_utils.normalize_axis_tuple(axis, len(shape))
    return tuple(size for i, size in enumerate(shape) if i not in places)


def cdist(x: Any, y: Any) -> Any:
    """The distances between the rows of two matrices."""
    x, y = layout.known(x), layout.known(y)
    dtype = float_type(x, y)
    away = elementwise.subtract(
        layout.expand_dims(elementwise.cast(x, dtype), -2),
        layout.expand_dims(elementwise.cast(y, dtype), -3),
    )
    away = elementwise.absolute(away) if dtype in PARTS else away
    return elementwise.sqrt(reduce.sum(elementwise.square(away), -1))


def extract_sequences(x: Any, sequence_length: int, sequence_stride: int) -> Any:
    """Pieces of the last axis, one every so many entries."""
    x = layout.known(x)
    count = 1 + (x.shape[-1] - sequence_length) // sequence_stride
    places = np.arange(sequence_length) + sequence_stride * np.arange(count)[:, None]
    return index.take(x, places, axis=-1)


# ------------------------------------------------------------------ transforms of Fourier


def _pair(x: Any, name: str) -> tuple[Any, Any]:
    """The real and the imaginary part, as two floats of one dtype."""
    if not isinstance(x, (tuple, list)) or len(x) != 2:
        raise ValueError(
            f"Input `x` should be a tuple of two tensors - real and imaginary. Received: x={x}"
        )
    first, second = layout.known(x[0]), layout.known(x[1])
    if tuple(first.shape) != tuple(second.shape):
        raise ValueError(
            "Input `x` should be a tuple of two tensors - real and imaginary. "
            "Both the real and imaginary parts should have the same shape. "
            f"Received: x[0].shape = {first.shape}, x[1].shape = {second.shape}"
        )
    real_only(name, real=first, imag=second)
    dtype = float_type(first, second)
    return elementwise.cast(first, dtype), elementwise.cast(second, dtype)


def _get_complex_tensor_from_tuple(x: Any) -> Any:
    """Complex numbers of a pair of parts: what `keras.ops.polar` asks a backend for."""
    parts = _pair(x, "polar")
    dtype = str(common_dtype(*parts, 1j))
    if not any(map(is_traced, parts)):
        return (parts[0] + 1j * parts[1]).astype(dtype)
    real, imaginary = [in_dtype(part, PARTS[dtype]) for part in parts]
    return joined(real, imaginary, dtype)


def _points(name: str, x: Any, size: Any, role: str = "x") -> int | None:
    """The entries to be transformed, None for those there are; ShapeError where there are none."""
    if size is None and x.shape[-1] == 0:
        raise ShapeError(
            f"{role} is {spec_of(x)}, whose last axis has no elements; give fft_length",
            function=name,
        )
    return None if size is None else int(size)


def _halves(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return found.real, found.imag


def _complex_rule(back: Any, axes: int, forward: bool) -> Any:
    """The gradient of a transform: the one back, scaled by how many entries there are."""

    def rule(g: Any, y: Any, real: Any, imag: Any) -> Any:
        shape, dtype = real.spec.shape, real.spec.dtype
        zero = K.zeros(shape, dtype=dtype)
        count = math.prod(shape[-axes:])
        pair = [Traced(g.get(i, zero)) for i in (0, 1)]
        first, second = back(pair)
        scale = count if forward else 1.0 / count
        return first.node * scale, second.node * scale

    return rule


def _transform(name: str, form: Any, rule: Any) -> Any:
    def function(x: Any) -> Any:
        whole = x[0] + 1j * x[1]
        return _halves(form(whole) if whole.size else whole)

    function.__name__ = name
    run = host(1, rule)(function)

    def call(x: Any) -> Any:
        return tuple(run(list(_pair(x, name))))

    call.__name__ = name
    return call


def _ifft_pair(x: Any) -> Any:
    """One axis back: the transform of exchanged parts, exchanged again."""
    real, imag = x
    first, second = fft((imag, real))
    count = real.shape[-1]
    return elementwise.divide(second, count), elementwise.divide(first, count)


def _back2(x: Any) -> Any:
    return ifft2(x)


fft = _transform("fft", lambda x: scipy.fft.fft(x), _complex_rule(_ifft_pair, 1, True))
fft2 = _transform("fft2", lambda x: scipy.fft.fft2(x), _complex_rule(lambda x: _back2(x), 2, True))
ifft2: Any = _transform(
    "ifft2", lambda x: scipy.fft.ifft2(x), _complex_rule(lambda x: fft2(x), 2, False)
)


def _rfft_rule(g: Any, y: Any, x: Any, fft_length: Any = None) -> Any:
    def back(*slopes: np.ndarray) -> np.ndarray:
        size = fft_length or x.spec.shape[-1]
        whole = np.zeros((*slopes[0].shape[:-1], size), np.complex128)
        whole[..., : slopes[0].shape[-1]] = slopes[0] + 1j * slopes[1]
        found = (scipy.fft.ifft(whole) * size).real[..., : x.spec.shape[-1]]
        missing = x.spec.shape[-1] - found.shape[-1]
        found = np.pad(found, [(0, 0)] * (found.ndim - 1) + [(0, missing)])
        return found.astype(slopes[0].dtype)

    known = next(iter(g.values()))
    parts = [g.get(i, 0 * known) for i in (0, 1)]
    return (numpy_call(back, parts, Spec(x.spec.shape, x.spec.dtype)),)


@host(1, _rfft_rule, name="rfft")
def _rfft(x: Any, fft_length: Any = None) -> Any:
    return _halves(scipy.fft.rfft(x, n=fft_length))


def rfft(x: Any, fft_length: Any = None) -> Any:
    """The transform of real numbers, as real and imaginary parts of half the frequencies."""
    x = layout.known(x)
    real_only("rfft", x=x)
    size = _points("rfft", x, fft_length)
    x = elementwise.cast(x, float_type(x))
    return tuple(_rfft(x, size))


def _irfft_rule(g: Any, y: Any, real: Any, imag: Any, fft_length: Any = None) -> Any:
    size = y.spec.shape[-1]
    shape, dtype = real.spec.shape, real.spec.dtype

    def part(name: str) -> Any:
        def back(slope: np.ndarray) -> np.ndarray:
            found = scipy.fft.rfft(slope.astype(np.float64)) / size
            double = np.full(found.shape[-1], 2.0)
            double[0] = 1.0
            if size % 2 == 0:
                double[-1] = 1.0
            values = (found * double)[..., : shape[-1]]
            values = values.real if name == "real" else values.imag
            missing = shape[-1] - values.shape[-1]
            return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)]).astype(dtype)

        return numpy_call(back, [g], Spec(shape, dtype))

    return part("real"), part("imag")


@host(1, _irfft_rule, name="irfft")
def _irfft(x: Any, fft_length: Any = None) -> Any:
    return scipy.fft.irfft(x[0] + 1j * x[1], n=fft_length)


def irfft(x: Any, fft_length: Any = None) -> Any:
    """Real numbers from the two parts of half their frequencies."""
    parts = _pair(x, "irfft")
    return _irfft(list(parts), _points("irfft", parts[0], fft_length, "real"))


_PERIODIC = {"hann": np.hanning, "hamming": np.hamming}
"""Weights whose first and last are equal: the last is the first of the next period."""


def _window(window: Any, length: int, size: int, dtype: str) -> Any:
    """The weights of a piece, in the middle of so many points."""
    if window is None:
        return np.ones(size, dtype)
    if isinstance(window, str):
        points = _PERIODIC[window](length + 1)[:length] if length > 1 else np.ones(length)
    else:
        points = operand(window)
        real_only("stft", window=points)
        if len(points.shape) != 1 or points.shape[0] != length:
            raise ValueError(
                f"The shape of `window` must be equal to ({length},), got {tuple(points.shape)}"
            )
    left = (size - length) // 2
    return np.pad(points, (left, size - length - left)).astype(dtype)


def stft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    window: Any = "hann",
    center: bool = True,
) -> Any:
    """The transforms of weighted pieces."""
    x = layout.known(x)
    dtype = str(x.dtype)
    if dtype not in ("float32", "float64"):
        raise TypeError(f"Invalid input type. Expected `float32` or `float64`. Received: {dtype}")
    _check_window(sequence_length, fft_length, window)
    if center:
        border = [(0, 0)] * len(x.shape)
        border[-1] = (fft_length // 2, fft_length // 2)
        x = layout.pad(x, border, "reflect")
    pieces = extract_sequences(x, fft_length, sequence_stride)
    weighted = elementwise.multiply(pieces, _window(window, sequence_length, fft_length, dtype))
    return rfft(weighted, fft_length)


def _check_window(length: int, size: int, window: Any) -> None:
    if size < length:
        raise ValueError(
            "`fft_length` must equal or larger than `sequence_length`. Received: "
            f"sequence_length={length}, fft_length={size}"
        )
    if isinstance(window, str) and window not in ("hann", "hamming"):
        raise ValueError(
            'If a string is passed to `window`, it must be one of `"hann"`, `"hamming"`. '
            f"Received: window={window}"
        )


def istft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    length: Any = None,
    window: Any = "hann",
    center: bool = True,
) -> Any:
    """Weighted pieces, transformed back and added up where they were."""
    real, imag = _pair(x, "istft")
    dtype = str(real.dtype)
    _check_window(sequence_length, fft_length, window)
    weights = _window(window, sequence_length, fft_length, dtype)
    pieces = irfft((real, imag), fft_length)
    if window is not None:
        weights = weights / _period_sums(np.asarray(weights) ** 2, sequence_stride)
        pieces = elementwise.multiply(pieces, weights.astype(dtype))
    count = pieces.shape[-2]
    total = fft_length + sequence_stride * (count - 1)
    lead = (*pieces.shape[:-2],)
    flat = layout.reshape(pieces, (-1, count * fft_length))
    places = np.arange(fft_length) + sequence_stride * np.arange(count)[:, None]
    summed = segment_sum(layout.transpose(flat), places.reshape(-1), total)
    found = layout.transpose(summed)
    start = fft_length // 2 if center else 0
    stop = start + length if length is not None else total - (start if center else 0)
    found = found[:, start : min(stop, total)]
    if length is not None and found.shape[-1] < length:
        found = layout.pad(found, ((0, 0), (0, length - found.shape[-1])))
    return layout.reshape(found, (*lead, found.shape[-1]))


def _period_sums(power: np.ndarray, stride: int) -> np.ndarray:
    """What the weights of all pieces that cover a point add up to; 1 where that is nothing."""
    size = len(power)
    folded = np.pad(power, (0, -size % stride)).reshape(-1, stride).sum(0)
    folded[folded == 0] = 1.0
    return np.resize(folded, size)


# ------------------------------------------------------------------ special functions


def rsqrt(x: Any) -> Any:
    """One over the square root."""
    return elementwise.divide(1.0, elementwise.sqrt(x))


erf = elementwise.unary("erf", engine.erf, lambda x: scipy.special.erf(x))


def erfc(x: Any) -> Any:
    """One less the error function, exact where that is near 1."""
    return _erfc(x)


@host(1, lambda g, y, x: (-g * K.exp(-x * x) * (2 / math.sqrt(math.pi)),), name="erf")
def _erfc(x: Any) -> Any:
    return scipy.special.erfc(x)


@of_floats(1)
@host(1, lambda g, y, x: (g * K.exp(y * y) * (math.sqrt(math.pi) / 2),))
def erfinv(x: Any) -> Any:
    """The inverse of the error function."""
    return scipy.special.erfinv(x)


def logdet(x: Any) -> Any:
    """The logarithm of the size of a determinant."""
    return linalg.slogdet(x)[1]
