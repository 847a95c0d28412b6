"""Parts of a tensor: `x[...]` in every form, and `slice`."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from types import EllipsisType

import numpy as np

from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError, shown
from kbench.engine.core.spec import INTEGERS, Spec, integer
from kbench.engine.core.types import Attrs, Ints
from kbench.engine.graph.apply import apply, make_node
from kbench.engine.graph.convert import as_tensor
from kbench.engine.graph.declare import structured, view
from kbench.engine.graph.tensor import Operand, Tensor, operator
from kbench.engine.graph.traits.batching import BatchingRule
from kbench.engine.graph.traits.roles import Extents, Role
from kbench.engine.kernels.data import strided_copy
from kbench.engine.ops.layout.copy_kernels import Copy, copy_kernel
from kbench.engine.ops.layout.shape import shape_operand

# An index is kept as a tuple of items: ("int", i), ("slice", start, stop, step), ("new",), and
# ("block", start, size), which unlike a slice must lie within the axis; size -1 is the rest. A
# number may be ("input", k): the value of the k-th further input.
Bound = int | tuple[str, int] | None
Item = tuple[str, *tuple[Bound, ...]]
ArrayIndex = tuple[int | builtins.slice | None | EllipsisType, ...]
KnownItem = tuple[str, tuple[int | None, ...]]
"""The word of an item and its numbers, None for an input that is not known."""


def _items(tensor: Tensor, key: object) -> tuple[tuple[Item, ...], list[Tensor]]:
    """The index in its kept form, with `...` and missing axes written out, and its tensors."""
    keys = key if isinstance(key, tuple) else (key,)
    if sum(entry is Ellipsis for entry in keys) > 1:
        raise ArgumentError("an index holds `...` at most once")
    used = sum(entry is not None and entry is not Ellipsis for entry in keys)
    if used > tensor.ndim:
        raise ShapeError(f"{used} indices for {tensor.spec}, which has {tensor.ndim} axes")
    if not any(entry is Ellipsis for entry in keys):
        keys = (*keys, Ellipsis)
    extra: list[Tensor] = []
    items: list[Item] = []
    for entry in keys:
        if entry is Ellipsis:
            items += [("slice", None, None, None)] * (tensor.ndim - used)
        elif entry is None:
            items.append(("new",))
        elif isinstance(entry, builtins.slice):
            bounds = (entry.start, entry.stop, entry.step)
            items.append(("slice", *(_bound(bound, extra) for bound in bounds)))
        else:
            items.append(("int", _bound(entry, extra)))
    return tuple(items), extra


def _bound(value: object, extra: list[Tensor]) -> Bound:
    if value is None:
        return None
    if isinstance(value, Tensor):
        if value.spec.ndim != 0 or value.spec.dtype not in INTEGERS:
            raise DtypeError(
                f"an index must be a scalar integer tensor, got {value.spec}; "
                "K.gather picks rows by several, K.switch chooses by a condition"
            )
        if value.spec.known and value.spec.value is not None:
            return value.spec.value[0]
        extra.append(value)
        return ("input", len(extra) - 1)
    if isinstance(value, (bool, np.bool_, list, np.ndarray, float)):
        raise ArgumentError(
            f"an index must be an integer, a slice, None or ..., got {shown(value)}; "
            "K.gather picks rows by a list of indices"
        )
    try:
        return integer(value)
    except (AttributeError, TypeError):
        raise ArgumentError(f"not an index: {shown(value)}") from None


def _numbers(items: tuple[Item, ...], values: Sequence[int | None]) -> list[KnownItem]:
    """The index with ("input", k) replaced; None where the value is unknown."""

    def number(entry: Bound) -> int | None:
        return values[entry[1]] if isinstance(entry, tuple) else entry

    return [(item[0], tuple(number(entry) for entry in item[1:])) for item in items]


def _getitem_infer(x: Spec, *indices: Spec, items: tuple[Item, ...]) -> Spec:
    values = [None if index.value is None else index.value[0] for index in indices]
    shape: list[int | None] = []
    axis = 0
    for (word, numbers), item in zip(_numbers(items, values), items, strict=True):
        if word == "new":
            shape.append(1)
            continue
        size = x.shape[axis]
        if word == "int":
            index = numbers[0]
            if index is not None and size is not None and not -size <= index < size:
                wrong = shown(index)
                raise ShapeError(f"index {wrong} is out of range for axis {axis} of {x}")
        elif word == "block":
            shape.append(_block_size(x, axis, *numbers))
        else:
            shape.append(_slice_size(size, numbers, item))
        axis += 1
    return Spec(tuple(shape), x.dtype, _picked_value(x, items))


def _block_size(x: Spec, axis: int, first: int | None, count: int | None) -> int | None:
    size = x.shape[axis]
    least = (first or 0) + max(count or 0, 0)
    if min(first or 0, (count or 0) + 1) < 0 or (size is not None and least > size):
        raise ShapeError(f"start {first} and size {count} go beyond axis {axis} of x, {x}")
    if count != -1:
        return count
    return None if size is None or first is None else size - first


def _as_slice(word: str, numbers: tuple[int | None, ...]) -> builtins.slice:
    """The slice that an item with known numbers means."""
    if word == "block":
        start, size = numbers
        if size == -1:
            return builtins.slice(start, None)
        if start is None or size is None:
            raise ArgumentError("start and size must hold integers")
        return builtins.slice(start, start + size)
    return builtins.slice(*numbers)


def _slice_size(size: int | None, numbers: tuple[int | None, ...], item: Item) -> int | None:
    start, stop, step = numbers
    if step == 0:
        raise ArgumentError("the step of a slice must not be 0")
    pending = any(
        isinstance(bound, tuple) and number is None
        for bound, number in zip(item[1:], numbers, strict=True)
    )
    if size is None:
        whole = start in (None, 0) and stop is None and step in (None, 1)
        return None if not whole or pending else size
    return None if pending else len(range(*builtins.slice(start, stop, step).indices(size)))


def _picked_value(x: Spec, items: tuple[Item, ...]) -> tuple[int | None, ...] | None:
    """Entries of a followed integer vector survive indexing by numbers."""
    if x.value is None or x.ndim != 1 or len(items) != 1:
        return None
    if any(isinstance(entry, tuple) for entry in items[0]):
        return None
    word, numbers = _numbers(items, ())[0]
    if word == "int":
        return None if numbers[0] is None else (x.value[numbers[0]],)
    return x.value[_as_slice(word, numbers)]


def _index(x: np.ndarray, items: tuple[Item, ...], indices: Sequence[np.ndarray]) -> ArrayIndex:
    """The index of NumPy; ShapeError for a block that leaves `x`, of which NumPy takes a part."""
    key: list[int | builtins.slice | None] = []
    axis = 0
    for word, numbers in _numbers(items, [int(index) for index in indices]):
        if word == "new":
            key.append(None)
            continue
        if word == "block" and indices:  # known ones were looked at before
            _block_size(Spec(x.shape, x.dtype.name), axis, *numbers)
        key.append(numbers[0] if word == "int" else _as_slice(word, numbers))
        axis += 1
    return (*key, Ellipsis)  # with it, one entry is an array of rank 0 and no NumPy scalar


def _getitem_numpy(x: np.ndarray, *indices: np.ndarray, items: tuple[Item, ...]) -> np.ndarray:
    try:
        return x[_index(x, items, indices)]
    except IndexError as error:
        raise ShapeError(f"{error}", function="x[...]") from None


def _getitem_gradient(
    g: Tensor, y: Tensor, x: Tensor, *indices: Tensor, items: tuple[Item, ...]
) -> tuple[Tensor | None, ...]:
    return (apply(PLACE, g, x, *indices, items=items),) + (None,) * len(indices)


def _place_numpy(
    out: np.ndarray | None,
    g: np.ndarray,
    x: np.ndarray,
    *indices: np.ndarray,
    items: tuple[Item, ...],
) -> np.ndarray:
    if out is None:
        out = np.empty(x.shape, g.dtype)
    out.fill(0)
    out[_index(x, items, indices)] = g
    return out


def _place_infer(g: Spec, x: Spec, *indices: Spec, items: tuple[Item, ...]) -> Spec:
    return Spec(x.shape, g.dtype)


def _place_by_copies(
    copy: Copy,
    out: np.ndarray,
    g: np.ndarray,
    x: np.ndarray,
    *indices: np.ndarray,
    items: tuple[Item, ...],
) -> None:
    strided_copy.zero(out, copy)
    copy(out[_index(x, items, indices)], g)


def _extents(attrs: Attrs, shape: Ints) -> Extents | None:
    """The block that an index takes; None for other than slices in steps of 1, and known ones."""
    items: tuple[Item, ...] = attrs["items"]
    if len(items) != len(shape):
        return None
    found = []
    for item, size in zip(items, shape, strict=True):
        if item[0] not in ("slice", "block") or any(isinstance(part, tuple) for part in item):
            return None
        taken = range(size)[_as_slice(*_numbers((item,), ())[0])]
        if taken.step != 1 or not len(taken):
            return None
        found.append((taken.start, len(taken)))
    return found


def _batched(own: int) -> BatchingRule:
    """The rule for an index, of which the first `own` operands are batched."""

    def rule(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
        if not all(mapped[:own]) or any(mapped[own:]):
            return None
        items = (("slice", None, None, None), *node.attrs["items"])
        return make_node(node.op, node, *inputs, items=items)

    return rule


GETITEM = view(
    "getitem",
    _getitem_infer,
    _getitem_numpy,
    _getitem_gradient,
    role=Role.PART,
    extents=_extents,
    batched=_batched(1),
)
PLACE = structured(
    "place",
    _place_infer,
    _place_numpy,
    lambda g, y, z, x, *indices, items: (
        (apply(GETITEM, g, *indices, items=items), None) + (None,) * len(indices)
    ),
    shapes=(1,),
    kernel=copy_kernel(_place_infer, _place_by_copies),
    role=Role.PLACE,
    extents=_extents,
    batched=_batched(2),
)


@operator("__getitem__")
def getitem(x: Tensor, key: object) -> Tensor:
    """`x[key]`: integers, slices of any step, None, `...`, tuples of them; scalar int tensors too.

    Raises:
        ShapeError: too many indices, or one out of range.
    Gradient: to `x`.
    """
    items, extra = _items(x, key)
    return apply(GETITEM, x, *extra, items=items)


# ------------------------------------------------------------------ slice


def slice(x: Operand, start: Operand, size: Operand) -> Tensor:
    """The block of `size` elements from `start` on, along every axis.

    Arguments:
        x: any dtype and shape.
        start, size: one integer (or scalar tensor) for each axis, or vector tensors; a size of -1
            reaches to the end.
    Returns:
        Tensor of the shape `size` and the dtype of `x`.
    Raises:
        ArgumentError: not one entry for each axis. ShapeError: the block leaves `x`.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.slice`.

    >>> K.eval(K.slice(K.constant([1.0, 2.0, 3.0]), [1], [2]))
    array([2., 3.], dtype=float32)
    """
    tensor = as_tensor(x)
    starts, sizes = _entries(start, "start"), _entries(size, "size")
    if len(starts) != tensor.ndim or len(sizes) != tensor.ndim:
        raise ArgumentError(
            f"start has {len(starts)} and size {len(sizes)} entries, but x is {tensor.spec}: "
            "one for each axis is needed"
        )
    extra: list[Tensor] = []
    items: list[Item] = []
    for first, count in zip(starts, sizes, strict=True):
        items.append(("block", _bound(first, extra), _bound(count, extra)))
    return apply(GETITEM, tensor, *extra, items=tuple(items))


def _entries(value: Operand, name: str) -> list[object]:
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        return list(value)
    checked = shape_operand(value, allow_free=True, name=name)
    if isinstance(checked, Tensor):
        return [checked[i] for i in range(checked.spec.shape[0] or 0)]
    return list(checked)
