"""`x[key]` of a traced value, for every key that NumPy knows; places may be traced, too."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kbench import backend as K
from kbench.keras3.calls.host import host
from kbench.keras3.complex_numbers.parts import moved
from kbench.keras3.complex_numbers.refusal import spec_of
from kbench.keras3.numpy import elementwise, layout
from kbench.keras3.numpy.index import inside
from kbench.keras3.tensor import NotTracedError, Traced, in_dtype, is_traced


def subscript(x: Traced, key: Any) -> Any:
    """The elements that a key of integers, slices, `...`, `None`, masks and arrays names."""
    items = key if isinstance(key, tuple) else (key,)
    if any(is_traced(item) for item in items):
        return _picked(x, _entries(x, items))
    if all(item is None or item is Ellipsis or _is_plain(item) for item in items):
        bare = tuple(_bare(item) for item in items)
        return moved(lambda node: node[bare], x)
    return _indexed(x, key)


def _is_plain(item: Any) -> bool:
    return isinstance(item, (int, slice, np.integer))


def _bare(item: Any) -> Any:
    if isinstance(item, slice):
        bounds = (item.start, item.stop, item.step)
        return slice(*[None if one is None else int(one) for one in bounds])
    return int(item) if isinstance(item, np.integer) else item


_indexed = host(1, moves=True, dtype="same")(lambda x, key: x[key])


# ------------------------------------------------------------------ traced places


class _Places(NamedTuple):
    """What a key says of one axis: integers of any shape, known or traced.

    Those of a mask fit an axis of so many entries only.
    """

    values: Any
    mask_size: int | None = None


def _entries(x: Traced, items: tuple[Any, ...]) -> list[Any]:
    """An entry for every axis of `x`: a slice, or places; and None for each new axis."""
    found: list[Any] = []
    for item in items:
        if item is None or item is Ellipsis or isinstance(item, slice):
            found.append(item)
            continue
        values = item if is_traced(item) else np.asarray(item)
        if isinstance(item, list) and not values.size:
            values = values.astype(np.int64)  # the dtype of [] is one of floats
        if str(values.dtype) == "bool" and not is_traced(values):
            found += map(_Places, values.nonzero(), values.shape)
        elif str(values.dtype) == "bool":
            raise NotTracedError(
                f"a mask that a step computes, here {spec_of(values)}, is not an index: how many "
                "elements it has is not known; `where` keeps all of them"
            )
        elif "int" not in str(values.dtype):
            told = "arrays used as indices must be of integer (or boolean) type"
            raise IndexError(f"{told}, got {spec_of(values)}")
        else:
            found.append(_Places(values))
    missing = len(x.shape) - sum(one is not None and one is not Ellipsis for one in found)
    dots = [place for place, one in enumerate(found) if one is Ellipsis]
    if missing < 0 or len(dots) > 1:
        told = "an index can only have a single ellipsis" if len(dots) > 1 else "too many indices"
        raise IndexError(f"{told} for {spec_of(x)}")
    at = dots[0] if dots else len(found)
    return [*found[:at], *[slice(None)] * missing, *found[at + len(dots) :]]


def _picked(x: Traced, entries: list[Any]) -> Any:
    """The elements at places that the step computes.

    The places of several axes meet by broadcasting and are one index into these axes laid out as
    one. As in NumPy, the axes of the result stand where the first of them stood, or before all
    others where something is between them.
    """
    named = [one for one in entries if one is not None]
    rest = tuple(slice(None) if isinstance(one, _Places) else one for one in named)
    if any(one != slice(None) for one in rest):
        x = subscript(x, rest)
    first = [axis for axis, one in enumerate(named) if isinstance(one, _Places)]
    others = [axis for axis in range(len(named)) if axis not in first]
    for axis in first:
        if named[axis].mask_size not in (None, x.shape[axis]):
            told = f"has {named[axis].mask_size} entries on an axis of {x.shape[axis]}"
            raise IndexError(f"boolean index {told}; got {spec_of(x)}")
    sizes, kept = [x.shape[axis] for axis in first], [x.shape[axis] for axis in others]
    rows: Any = 0
    for i, axis in enumerate(first):
        wide = elementwise.cast(named[axis].values, "int64")
        places = in_dtype(inside("x[...]", x, wide, axis), "int64")
        rows = rows + places * math.prod(sizes[i + 1 :])
    shape = tuple(int(size) for size in rows.spec.shape)

    def build(node: Any) -> Any:
        node = K.permute_dimensions(node, [*first, *others]) if others else node
        return K.gather(K.reshape(node, (math.prod(sizes), *kept)), rows)

    found = moved(build, x)
    left = iter(kept)
    around = [1 if one is None else next(left) for one in entries if not isinstance(one, _Places)]
    if None in entries:
        found = layout.reshape(found, (*shape, *around))
    at = [place for place, one in enumerate(entries) if isinstance(one, _Places)]
    if at[-1] - at[0] >= len(at) or not at[0]:
        return found
    count = len(shape)
    return layout.moveaxis(found, list(range(count)), list(range(at[0], at[0] + count)))
