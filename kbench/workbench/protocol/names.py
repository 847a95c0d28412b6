"""Questions about the user's names: a row for each, and for each part of a Keras model."""

from __future__ import annotations

from kbench.workbench.protocol.question import Answer, Question
from kbench.workbench.protocol.record import Record

Real = float | str
"""A number; JSON has neither NaN nor infinities, which come as their names."""


def number_of(value: Real | None) -> float | None:
    """The number that a field of a reply stands for."""
    return float(value) if isinstance(value, str) else value


class LastValue(Record):
    """What the last evaluation knew of a tensor: its shape, and its entries when few."""

    shape: list[int]
    text: str | None = None


class Item(Record):
    """An array or a tensor in a list."""

    item: int
    spec: str


class VariableRow(Record):
    """One name. Which fields are given depends on what kind of value it has.

    `key` is what to ask by, `name` is safe to show. `place` is the line that made it, `last` what
    its last evaluation knew, `count` the elements that were read of `size`, `about` how well
    `bytes` are known, `trainable` how many parameters of a layer are, or whether a weight is.
    """

    name: str
    kind: str
    key: str = ""
    op: str | None = None
    shape: list[int | None] | None = None
    dtype: str | None = None
    bytes: int | None = None
    about: str | None = None
    place: str | None = None
    last: LastValue | None = None
    version: int | None = None
    symbol: str | None = None
    text: str | None = None
    type: str | None = None
    length: int | None = None
    items: list[Item] | None = None
    problem: str | None = None
    # statistics
    min: Real | None = None
    max: Real | None = None
    mean: Real | None = None
    std: Real | None = None
    histogram: list[int] | None = None
    size: int | None = None
    sampled: bool | None = None
    count: int | None = None
    zeros: int | None = None
    nan: int | None = None
    inf: int | None = None
    flags: str | None = None
    # layers and weights
    label: str | None = None
    params: int | None = None
    trainable: int | bool | None = None
    parts: int | None = None
    layers: int | None = None
    step: int | None = None
    sources: list[str] | None = None
    code: str | None = None
    parent: str | None = None


class RowPage(Answer):
    """`next` is where the next page starts, None behind the last."""

    rows: list[VariableRow]
    next: int | None


class SummaryReply(RowPage):
    total: int
    epoch: int


class Summary(Question[SummaryReply], verb="summary"):
    """Rows of the given names or of all, paged; `statistics` False leaves ranges out."""

    names: list[str] | None = None
    statistics: bool = True
    pattern: str | None = None
    start: int = 0


class PartsReply(RowPage):
    """`parent` of a row says whose part it is."""


class Parts(Question[PartsReply], verb="parts"):
    """Rows of the layers of Keras models and of the weights of layers, paged."""

    names: list[str]
    statistics: bool = True
    start: int = 0
