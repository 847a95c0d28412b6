"""The arrays of a map: checked against the inputs of its function, and cut along the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import common_blockdim
from msgspec import Struct, field

from kbench.dask.rows.analysis import Known
from kbench.dask.rows.states import FREE, Rows
from kbench.engine.core.errors import (
    ArgumentError,
    DtypeError,
    EngineError,
    FeedError,
    KbenchError,
    Operand,
    ShapeError,
    make_operand,
    shown,
)
from kbench.engine.core.spec import Spec, show
from kbench.engine.core.types import Shape
from kbench.engine.execute.feeds import fed_array
from kbench.engine.graph.tensor import Tensor

NUMBERS = "biuf"
"""Kinds of NumPy dtypes that a tensor can be made of."""


class Given(Struct):
    """What a function is called with: blocks of arrays, and what all chunks have in common."""

    arrays: list[Any] = field(default_factory=list)  # of Dask, in the order of their inputs
    places: list[int] = field(default_factory=list)  # which inputs these are
    constants: dict[int, np.ndarray] = field(default_factory=dict)
    chunks: tuple[float, ...] = ()  # rows of each chunk, NaN where unknown


def is_array(value: object) -> bool:
    """Whether it is an array of Dask.

    Raises:
        EngineError: one of those that Dask plans as queries, which is work in progress there.
    """
    if isinstance(value, da.Array) and hasattr(value, "expr"):
        raise EngineError(
            "kbench.dask: arrays with Dask's setting array.query-planning cannot be mapped; "
            "leave DASK_ARRAY__QUERY_PLANNING unset"
        )
    return isinstance(value, da.Array)


def shape_of(array: Any) -> Shape:
    """The shape of an array, None for sizes that are unknown."""
    return tuple(None if math.isnan(size) else int(size) for size in array.shape)


def operand(role: str, array: Any) -> Operand:
    """The record of an array of Dask for an error."""
    spec = f"{array.dtype}{show(shape_of(array))}"
    return Operand(role, spec, "dask array", "", None, id(array))


def refusal(
    kind: type[KbenchError], function: str, reason: str, node: Tensor, role: str, array: Any
) -> KbenchError:
    """An error that names an input and the array that was given for it."""
    told = make_operand("input", node)
    rows = (*((told,) if told is not None else ()), operand(role, array))
    return kind(reason, function=function, operands=rows)


def given(function: str, inputs: Sequence[Tensor], values: Sequence[Any]) -> Given:
    """The values of a map, one for each input: arrays of Dask in chunks, all else as it is.

    Raises:
        FeedError: another number of values, or one that does not fit its input. ShapeError,
        DtypeError: an array of Dask that does not. ArgumentError: none is one.
    """
    if len(values) != len(inputs):
        names = ", ".join(node.name.split(":")[0] for node in inputs)
        raise FeedError(
            f"takes {len(inputs)} array{'' if len(inputs) == 1 else 's'} ({names}), "
            f"got {len(values)}",
            function=function,
        )
    found = Given()
    for place, (node, value) in enumerate(zip(inputs, values, strict=True)):
        if is_array(value):
            _check(function, node, f"arrays[{place}]", value)
            found.places.append(place)
            found.arrays.append(value)
        else:
            found.constants[place] = _constant(function, node, value)
    if not any(array.ndim for array in found.arrays):
        raise ArgumentError(
            "none of the arrays is an array of Dask with rows",
            function=function,
            suggestion="dask.array.from_array(x, chunks=...)",
        )
    _cut(function, inputs, found)
    return found


def refuse_others(function: str, value: object) -> None:
    """ArgumentError for what is lazy, and no array of Dask."""
    family = type(value).__module__.partition(".")[0]
    if family in ("dask", "dask_expr", "xarray") and not is_array(value):
        raise ArgumentError(
            f"takes arrays of Dask, got {shown(value)}",
            function=function,
            operands=(),
            suggestion="its .data, or .to_dask_array(lengths=True)",
        )


def _constant(function: str, node: Tensor, value: object) -> np.ndarray:
    refuse_others(function, value)
    try:
        return fed_array(node, value)
    except KbenchError as error:
        error.function = function
        raise


def _check(function: str, node: Tensor, role: str, array: Any) -> None:
    """Rank, sizes and kind of dtype; what values an int cannot hold shows once they are there."""
    spec = node.spec
    if array.dtype.kind not in NUMBERS:
        raise refusal(DtypeError, function, "an array of numbers is needed", node, role, array)
    shape = shape_of(array)
    if len(shape) != spec.ndim:
        reason = f"{spec.ndim} axes are needed, and {role} has {len(shape)}"
        raise refusal(ShapeError, function, reason, node, role, array)
    for axis, (want, have) in enumerate(zip(spec.shape, shape, strict=True)):
        if axis and None not in (want, have) and want != have:
            reason = f"axis {axis} must have {want} entries, and {role} has {have}"
            raise refusal(ShapeError, function, reason, node, role, array)
    for axis, blocks in enumerate(array.numblocks):
        if axis and blocks > 1 and shape[axis] is None:
            reason = (
                f"axis {axis} of {role} is cut into chunks of unknown sizes: a row must be whole"
            )
            raise refusal(ShapeError, function, reason, node, role, array)


# ------------------------------------------------------------------ rows


def _cut(function: str, inputs: Sequence[Tensor], found: Given) -> None:
    """Give all arrays the same chunks along axis 0, and one chunk along each other axis."""
    wide = [place for place, array in enumerate(found.arrays) if array.ndim]
    rows = {shape_of(found.arrays[place])[0] for place in wide} - {None}
    if len(rows) > 1:
        given = tuple(operand(f"arrays[{found.places[n]}]", found.arrays[n]) for n in wide)
        counts = ", ".join(sorted(map(str, rows)))
        raise ShapeError(
            f"the arrays have {counts} rows; all must have the same number",
            function=function,
            operands=given,
        )
    chunks = _fixed(function, inputs, found, _common(function, found, wide))
    for place in wide:
        array = found.arrays[place]
        wanted: dict[int, Any] = {
            axis: -1 for axis in range(1, array.ndim) if array.numblocks[axis] > 1
        }
        if array.chunks[0] != chunks and not _is_unknown([array.chunks[0], chunks]):
            wanted[0] = chunks
        found.arrays[place] = array.rechunk(wanted) if wanted else array
    found.chunks = chunks


def _common(function: str, found: Given, wide: Sequence[int]) -> tuple[float, ...]:
    """Chunks along axis 0 that all arrays can be cut into."""
    chunks = [found.arrays[place].chunks[0] for place in wide]
    if not _is_unknown(chunks):
        return tuple(common_blockdim(chunks)) or (0,)
    alike = all(
        len(one) == len(chunks[0]) and (len(one) == 1 or _same(one, chunks[0])) for one in chunks
    )
    if not alike:
        raise ShapeError(
            "the chunks of the arrays have unknown sizes, and are not the same",
            function=function,
            operands=tuple(operand(f"arrays[{found.places[n]}]", found.arrays[n]) for n in wide),
            suggestion="x.compute_chunk_sizes()",
        )
    return next((one for one in chunks if not _is_unknown([one])), chunks[0])


def _is_unknown(chunks: Sequence[Sequence[float]]) -> bool:
    return any(math.isnan(size) for one in chunks for size in one)


def _same(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether chunks are the same, as far as their sizes are known."""
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(one, other, strict=True))


def _fixed(
    function: str, inputs: Sequence[Tensor], found: Given, chunks: tuple[float, ...]
) -> tuple[float, ...]:
    """Chunks of the size that inputs ask for which have a fixed one."""
    for place, array in zip(found.places, found.arrays, strict=True):
        size = inputs[place].spec.shape[0] if array.ndim else None
        if size is None:
            continue
        rows = shape_of(array)[0]
        if rows is None or not size or rows % size:
            reason = (
                f"the input takes {size} rows at once; the array needs a multiple of {size} rows"
            )
            raise refusal(ShapeError, function, reason, inputs[place], f"arrays[{place}]", array)
        return (size,) * (rows // size)
    return chunks


def known(inputs: Sequence[Tensor], found: Given) -> dict[int, Known]:
    """What is known of each input: its shape here, and whether it has the rows."""
    facts = {
        id(inputs[place]): Known(Spec(value.shape, inputs[place].spec.dtype), FREE)
        for place, value in found.constants.items()
    }
    for place, array in zip(found.places, found.arrays, strict=True):
        node = inputs[place]
        shape = shape_of(array)
        if shape:
            shape = (node.spec.shape[0], *shape[1:])
        spec = Spec(shape, node.spec.dtype, sparse=node.spec.sparse)
        facts[id(node)] = Known(spec, Rows(0) if shape else FREE)
    return facts
