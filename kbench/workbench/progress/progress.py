"""`kbench.progress`: an iterable that tells the workbench how far a loop over it has come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from kbench.engine.core.errors import ArgumentError

Item = TypeVar("Item")

running: list[Progress] = []  # type: ignore[type-arg]  # the loops under way, outermost first


class Progress(Generic[Item]):
    """What `progress` gives. `done` items of `total`, which is None where it is not known."""

    def __init__(self, iterable: Iterable[Item], total: int | None, name: str) -> None:
        self._iterable = iterable
        self.done = 0
        self.total = total
        self.name = name

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError("progress: the number of items is not known")
        return self.total

    def __iter__(self) -> Iterator[Item]:
        self.done = 0
        running.append(self)
        try:
            for item in self._iterable:
                yield item
                self.done += 1
        finally:
            running.remove(self)


def progress(
    iterable: Iterable[Item], total: int | None = None, name: str = "step"
) -> Progress[Item]:
    """The same items; a loop over them shows in the workbench how far it is and what is left.

    Arguments:
        iterable: what the loop runs over.
        total: how many items there are, where `len(iterable)` does not tell.
        name: the word for one item, such as "epoch".
    Returns:
        An iterable, with `done` and `total`. Outside of the workbench nothing is shown.
    Raises:
        ArgumentError: not iterable, or a total that is no count.
    Source: kbench's own.

    >>> import kbench
    >>> [2 * number for number in kbench.progress([1, 2, 3], name="row")]
    [2, 4, 6]
    """
    if not hasattr(type(iterable), "__iter__") and not hasattr(type(iterable), "__getitem__"):
        raise ArgumentError(
            f"iterable must be one, got {type(iterable).__name__}", function="progress"
        )
    if total is None:
        try:
            total = len(iterable)  # type: ignore[arg-type]
        except TypeError:
            total = None
    if total is not None and (type(total) is not int or total < 0):
        raise ArgumentError(f"total must be a count or None, got {total!r}", function="progress")
    return Progress(iterable, total, str(name))
