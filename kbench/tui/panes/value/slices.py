"""What a user writes to go somewhere in an array: `[0, :, :, 3]`, `12, 5`, `7`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Target(Struct, frozen=True):
    """A slice (`index`, with the shown axes) and optionally a cell on it."""

    index: tuple[int, ...]
    row_axis: int | None
    col_axis: int | None
    cell: tuple[int, int] | None = None


def parse(text: str, shape: Sequence[int], here: Target) -> Target:
    """The place that `text` names.

    With colons, they are the shown axes and numbers the slice; `100:` begins at 100. With
    one number per axis, the cell; with two numbers (or one), the cell on the slice that is shown.

    Raises:
        ValueError: the text is no index of this shape; the message is for the user.
    """
    inside = text.strip().partition("[")[2] if "[" in text else text.strip()
    parts = [part.strip() for part in inside.strip("]()").split(",") if part.strip()]
    if not parts:
        raise ValueError("write an index such as 0, :, :, 3 or 12, 5")
    rank = len(shape)
    if "..." in parts or any(":" in part for part in parts):
        return _slice(parts, shape)
    numbers = [_number(part) for part in parts]
    if len(numbers) == rank:
        index = [
            _inside(number, size, axis)
            for axis, (number, size) in enumerate(zip(numbers, shape, strict=True))
        ]
        return with_cell(index, here)
    shown = [axis for axis in (here.row_axis, here.col_axis) if axis is not None]
    if len(numbers) <= len(shown):
        index = list(here.index)
        for number, axis in zip(numbers, shown, strict=False):
            index[axis] = _inside(number, shape[axis], axis)
        return with_cell(index, here)
    raise ValueError(f"{len(numbers)} numbers do not fit rank {rank}")


def with_cell(index: Sequence[int], here: Target) -> Target:
    """The slice, along the axes of `here`, that holds an element, and the element's cell on it."""
    row = index[here.row_axis] if here.row_axis is not None else 0
    col = index[here.col_axis] if here.col_axis is not None else 0
    fixed = tuple(
        0 if axis in (here.row_axis, here.col_axis) else number for axis, number in enumerate(index)
    )
    return Target(fixed, here.row_axis, here.col_axis, (row, col))


def _slice(parts: list[str], shape: Sequence[int]) -> Target:
    rank = len(shape)
    if "..." in parts:
        at = parts.index("...")
        parts = parts[:at] + [":"] * (rank - len(parts) + 1) + parts[at + 1 :]
    if len(parts) != rank:
        raise ValueError(f"{len(parts)} entries, but the array has {rank} axes")
    free = [axis for axis, part in enumerate(parts) if ":" in part]
    if len(free) > 2:
        raise ValueError("at most two axes can be shown: write at most two ':'")
    index = tuple(
        0 if axis in free else _inside(_number(part), shape[axis], axis)
        for axis, part in enumerate(parts)
    )
    row_axis, col_axis = (free[0], free[1]) if len(free) == 2 else (None, free[0])
    begins = {axis: parts[axis].partition(":")[0].strip() for axis in free}
    if not any(begins.values()):
        return Target(index, row_axis, col_axis)
    first = {
        axis: _inside(_number(begin or "0"), shape[axis], axis) for axis, begin in begins.items()
    }
    row = 0 if row_axis is None else first[row_axis]
    return Target(index, row_axis, col_axis, (row, first[col_axis]))


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a number nor ':'") from None


def _inside(number: int, size: int, axis: int) -> int:
    if not -size <= number < size:
        raise ValueError(f"{number} is outside axis {axis}, whose size is {size}")
    return number % size


def cell_index(target: Target) -> tuple[int, ...]:
    """The index, in the whole array, of the cell; of the first of the slice without one."""
    index = list(target.index)
    cell = target.cell or (0, 0)
    for axis, number in ((target.row_axis, cell[0]), (target.col_axis, cell[1])):
        if axis is not None:
            index[axis] = number
    return tuple(index)


def free_axes(target: Target) -> list[int]:
    """The axes that are not shown."""
    shown = (target.row_axis, target.col_axis)
    return [axis for axis in range(len(target.index)) if axis not in shown]


def stepped(
    index: Sequence[int], shape: Sequence[int], axes: Sequence[int], step: int
) -> tuple[int, ...] | None:
    """The index `step` slices further in C order over some axes, stopping at the ends.

    None when it stands at that end already.
    """
    total, at = 1, 0
    for axis in axes:
        total, at = total * shape[axis], at * shape[axis] + index[axis]
    wanted = max(0, min(at + step, total - 1))
    if wanted == at:
        return None
    found = list(index)
    for axis in reversed(axes):
        wanted, found[axis] = divmod(wanted, shape[axis])
    return tuple(found)


def text_of(target: Target) -> str:
    """`[0, :, :, 3]`."""
    shown = (target.row_axis, target.col_axis)
    parts = (":" if axis in shown else str(number) for axis, number in enumerate(target.index))
    return f"[{', '.join(parts)}]"
