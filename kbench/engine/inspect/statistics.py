"""What an array looks like in a few numbers: range, moments, zeros, NaN, infinities, histogram.

Arrays up to `MAX_EXACT_ELEMENTS` are read whole; larger ones are sampled in evenly spread blocks
and marked so, unless the caller asks for exact numbers. The cost is bounded either way: blocks of
64 K elements pass through one small buffer, whatever the memory layout. Knows no graph and no UI.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbench.engine.core.types import Array, Row

MAX_EXACT_ELEMENTS = 4_000_000
BINS = 16
_BLOCK_ELEMENTS = 65_536
_SAMPLE_BLOCKS, _SAMPLE_RUN = 4_096, 64
_MAX_HISTOGRAM_ELEMENTS = 65_536


def refusal(array: Array) -> str | None:
    """Why an array has no statistics, or None when it has."""
    if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
        return None
    return f"no statistics for dtype {array.dtype.name}"


def statistics(array: Array, exact: bool = False) -> Row:
    """Statistics of an array as a JSON-able row.

    Moments, range and histogram are over the finite values; they are None (or empty) when there
    are none. `sampled` tells that only `count` of `size` elements were read. Of a masked array
    the masked elements are left out, and `masked` says how many these are.
    """
    is_masked = type(array) is np.ma.MaskedArray
    mask = np.ma.getmask(array) if is_masked else np.ma.nomask
    array = np.asarray(array)
    row: Row = {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "bytes": int(array.nbytes),
        "size": int(array.size),
        "sampled": False,
        "count": int(array.size),
    }
    reason = refusal(array)
    if reason is not None:
        return {**row, "refused": reason, "count": 0}
    row["sampled"] = not exact and array.size > MAX_EXACT_ELEMENTS
    sample = _sample(array) if row["sampled"] else array
    places: NDArray[np.intp] | None = None
    if is_masked:
        row["masked"] = int(np.count_nonzero(mask))
    if isinstance(mask, np.ndarray):  # and not nomask
        places = np.flatnonzero(~(_sample(mask) if row["sampled"] else mask))
        sample = np.ravel(sample)[places]
    row["count"] = int(sample.size)
    found = _scan(sample)
    if _lost_precision(found):
        found = _scan_again(sample, found)
    if places is not None:
        _move(found, places)
    row.update(_found_row(found, array, row["sampled"]))
    row["histogram"] = _histogram(sample, found, exact)
    return row


# ------------------------------------------------------------------ reading every element once


class _Found(Struct):
    """What one pass has gathered; moments are of (element - shift) / scale, against overflow.

    `mean` is theirs, `moment` the sum of their squared deviations from it.
    """

    scale: float = 1.0
    shift: int = 0
    low: Any = math.inf
    high: Any = -math.inf
    finite: int = 0
    mean: float = 0.0
    moment: float = 0.0
    zeros: int = 0
    nan: int = 0
    positive_inf: int = 0
    negative_inf: int = 0
    first_nan: int | None = None
    first_inf: int | None = None


def _blocks(array: Array) -> Iterator[Array]:
    """One-dimensional pieces of an array of any layout, in C order, without copying it whole."""
    if array.size == 0:
        return
    walk = np.nditer(
        array,
        flags=["external_loop", "buffered"],
        op_flags=["readonly"],
        op_dtypes=array.dtype.newbyteorder("="),
        order="C",
        buffersize=_BLOCK_ELEMENTS,
    )
    for block in walk:
        yield np.asarray(block)


def _scan(array: Array, scale: float = 1.0, shift: int = 0) -> _Found:
    found = _Found(scale, shift)
    start = 0
    for block in _blocks(array):
        values = block.astype(np.float64)
        # Comparing first is faster: floats are not counted by SIMD, those of 16 bits least of all.
        found.zeros += int(block.size - np.count_nonzero(values != 0))
        low, high = (values, values) if block.dtype.kind == "f" else (block, block)
        smallest, largest = low.min(), high.max()
        if not (np.isfinite(smallest) and np.isfinite(largest)):
            values = _count_nonfinite(found, values, start)
            if values.size:
                smallest, largest = values.min(), values.max()
        if shift:
            values = (block - block.dtype.type(shift)).astype(np.float64)
        if values.size:
            found.low = min(found.low, smallest.item())
            found.high = max(found.high, largest.item())
            _add_moments(found, values)
        start += block.size
    return found


def _move(found: _Found, places: NDArray[np.intp]) -> None:
    """Count positions over all that was read, and not over what is not masked."""
    if found.first_nan is not None:
        found.first_nan = int(places[found.first_nan])
    if found.first_inf is not None:
        found.first_inf = int(places[found.first_inf])


def _count_nonfinite(found: _Found, values: NDArray[np.float64], start: int) -> NDArray[np.float64]:
    nan, inf = np.isnan(values), np.isinf(values)
    if nan.any():
        found.nan += int(np.count_nonzero(nan))
        if found.first_nan is None:
            found.first_nan = start + int(nan.argmax())
    if inf.any():
        positive = int(np.count_nonzero(values == np.inf))
        found.positive_inf += positive
        found.negative_inf += int(np.count_nonzero(inf)) - positive
        if found.first_inf is None:
            found.first_inf = start + int(inf.argmax())
    return values[~(nan | inf)]


def _add_moments(found: _Found, values: NDArray[np.float64]) -> None:
    """Join a block's mean and squared deviations to the total (Chan, Golub and LeVeque 1979)."""
    if found.scale != 1.0:
        values = values / found.scale
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.sum()) / values.size
        values = values - mean
        moment = float(np.multiply(values, values, out=values).sum())
        total = found.finite + values.size
        gap = mean - found.mean
        weight = found.finite * values.size / total
        found.moment += moment + (gap * gap * weight if found.finite else 0.0)
        found.mean += gap * values.size / total
        found.finite = total


def _lost_precision(found: _Found) -> bool:
    """True when squares overflowed or vanished, or integers exceed what a float64 holds."""
    if not found.finite:
        return False
    differ = found.low != found.high
    if isinstance(found.low, int):
        return differ and _inexact(found)
    if not (math.isfinite(found.mean) and math.isfinite(found.moment)):
        return True
    return bool(differ and not found.moment > 0.0)


def _inexact(found: _Found) -> bool:
    """True for integers that a float64 does not hold; their differences may fit."""
    return isinstance(found.low, int) and max(abs(found.low), abs(found.high)) > 2**53


def _scan_again(sample: Array, found: _Found) -> _Found:
    """The pass over numbers brought to a range where float64 keeps their differences."""
    if not isinstance(found.low, int):
        return _scan(sample, scale=max(abs(found.low), abs(found.high)))
    return _scan(sample, shift=found.low) if found.high - found.low < 2**63 else found


def _found_row(found: _Found, array: Array, sampled: bool) -> Row:
    known = found.finite > 0
    deviation = math.sqrt(found.moment / found.finite) * found.scale if known else None
    mean = found.mean * found.scale + found.shift
    if isinstance(found.low, int) and found.low == found.high:
        mean = found.low  # which a float may not hold
    return {
        "min": found.low if known else None,
        "max": found.high if known else None,
        "mean": mean if known else None,
        "std": deviation,
        "finite": found.finite,
        "zeros": found.zeros,
        "nan": found.nan,
        "inf": found.positive_inf + found.negative_inf,
        "positive_inf": found.positive_inf,
        "negative_inf": found.negative_inf,
        "first_nan": _index(found.first_nan, array, sampled),
        "first_inf": _index(found.first_inf, array, sampled),
    }


# ------------------------------------------------------------------ sampling


def _spacing(size: int) -> int:
    return size // _SAMPLE_BLOCKS


def _sample(array: Array) -> Array:
    """Evenly spread runs of neighbouring elements: a view when the layout allows it."""
    spacing = _spacing(array.size)
    if array.flags.c_contiguous:
        whole = array.reshape(-1)[: _SAMPLE_BLOCKS * spacing]
        return whole.reshape(_SAMPLE_BLOCKS, spacing)[:, :_SAMPLE_RUN]
    starts = np.arange(_SAMPLE_BLOCKS, dtype=np.int64)[:, None] * spacing
    places = starts + np.arange(_SAMPLE_RUN, dtype=np.int64)
    return array[np.unravel_index(places, array.shape)]


def _index(position: int | None, array: Array, sampled: bool) -> list[int] | None:
    """The index in the array of a position counted over what was read."""
    if position is None:
        return None
    if sampled:
        run, offset = divmod(position, _SAMPLE_RUN)
        position = run * _spacing(array.size) + offset
    return [int(index) for index in np.unravel_index(position, array.shape)]


# ------------------------------------------------------------------ histogram


def _histogram(array: Array, found: _Found, exact: bool) -> list[int]:
    """Counts of the finite values in equal bins from low to high, of at most 64 K elements."""
    if not found.finite:
        return []
    if not exact and array.size > _MAX_HISTOGRAM_ELEMENTS:
        pieces = (_thin(array),)
        return _count_bins(pieces, found)
    return _count_bins(_blocks(array), found)


def _thin(array: Array) -> Array:
    if array.flags.c_contiguous:
        return array.reshape(-1)[:: -(-array.size // _MAX_HISTOGRAM_ELEMENTS)]
    places = np.linspace(0, array.size - 1, _MAX_HISTOGRAM_ELEMENTS).astype(np.int64)
    return array[np.unravel_index(places, array.shape)]


def _count_bins(pieces: Iterable[Array], found: _Found) -> list[int]:
    counts = np.zeros(BINS, np.int64)
    shift = found.low if _inexact(found) and found.high - found.low < 2**63 else 0
    low, high = float(found.low - shift), float(found.high - shift)
    half = max(abs(low), abs(high)) or 1.0
    low, high = low / half, high / half
    for piece in pieces:
        values = (piece - piece.dtype.type(shift) if shift else piece).astype(np.float64)
        values = values[np.isfinite(values)] / half
        if high > low:
            bins = ((values - low) * (BINS / (high - low))).astype(np.int64)
            counts += np.bincount(bins.clip(0, BINS - 1), minlength=BINS)
        else:
            counts[BINS // 2] += values.size
    return [int(count) for count in counts]
