"""The inspector's replies about names, windows and pictures as typed rows."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from kbench.workbench.protocol.arrays import ImageReply, StatsReply, WindowReply
from kbench.workbench.protocol.names import VariableRow, number_of

MAX_WHOLE_NUMBER = 10**24
"""An integer below is written in all its digits; one above as a power of ten."""
KIND_WORDS = {
    "variable": "var",
    "placeholder": "input",
    "tensor": "tensor",
    "constant": "const",
    "update": "update",
    "array": "array",
    "function": "func",
    "scalar": "number",
    "sequence": "list",
    "object": "object",
    "model": "model",
    "layer": "layer",
    "property": "prop",
}


MAX_KIND_CELLS = 7
"""The longest name of a type that stands for a kind: a wider column would cost the size's."""


def kind_word(row: NameRow) -> str:
    """`var`, `input`, `array`; of Python's own values the type: `float`, `dict`, `str`."""
    if row.type == "NoneType":
        return "None"
    if row.kind in ("scalar", "sequence") and 0 < len(row.type) <= MAX_KIND_CELLS:
        return row.type
    return KIND_WORDS.get(row.kind, row.kind[:MAX_KIND_CELLS])


def shape_text(shape: Sequence[int | None] | None, comma: str = ", ") -> str:
    """`(32, ?, 3)`; '-' when there is no shape. `comma` is what stands between two sizes."""
    if shape is None:
        return "-"
    sizes = ["?" if size is None else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({comma.join(sizes)})"


SHORT_DTYPES = {"bool": "b1"} | {
    f"{kind}{bits}": f"{kind[0]}{bits}"
    for kind in ("float", "int", "uint")
    for bits in (8, 16, 32, 64)
}


def number_text(value: float | None, digits: int = 3) -> str:
    """A number in at most about seven characters; an integer in all its digits."""
    if value is None:
        return "-"
    if isinstance(value, int) and abs(int(value)) < MAX_WHOLE_NUMBER:
        return str(value)
    real = float(value)
    if real != real:
        return "NaN"
    if real in (float("inf"), float("-inf")):
        return "Inf" if real > 0 else "-Inf"
    text = f"{real:.{digits}g}".replace("e-0", "e-").replace("e+0", "e+").replace("e+", "e")
    if text.startswith(("0.", "-0.")):
        text = text.replace("0.", ".", 1)
    return text


class Statistics(Struct, frozen=True):
    """What an array looks like in numbers; `None` where nothing is finite."""

    low: float | None = None
    high: float | None = None
    mean: float | None = None
    deviation: float | None = None
    count: int = 0
    zeros: int = 0
    nan: int = 0
    inf: int = 0
    bins: tuple[int, ...] = ()
    sampled: bool = False
    refused: str = ""

    @classmethod
    def of(cls, row: VariableRow | StatsReply) -> Statistics:
        """Of a row of the names, or of the reply to `stats`."""
        return cls(
            low=number_of(row.min),
            high=number_of(row.max),
            mean=number_of(row.mean),
            deviation=number_of(row.std),
            count=row.count or row.size or 0,
            zeros=row.zeros or 0,
            nan=row.nan or 0,
            inf=row.inf or 0,
            bins=tuple(row.histogram or ()),
            sampled=bool(row.sampled),
            refused=(row.refused or "") if isinstance(row, StatsReply) else "",
        )


class NameRow(Struct, frozen=True):
    """One name of the user's namespace."""

    name: str
    kind: str
    shape: tuple[int | None, ...] | None
    dtype: str
    nbytes: int | None = None
    about: str = ""  # before the size: "~" where it is estimated, ">" where it is the least
    fed: tuple[int, ...] | None = None
    note: str = ""
    type: str = ""
    stats: Statistics | None = None
    version: int | None = None
    place: str = ""
    evaluated: bool = False
    length: int | None = None  # of a container or a text
    label: str = ""  # of a part: its name within the whole, which `name` addresses
    parts: int = 0
    code: str = ""

    @property
    def symbolic(self) -> bool:
        """True for what has no value of its own, but a graph that leads to it."""
        return self.kind in ("placeholder", "tensor", "update", "function", "layer", "model")

    @property
    def expression(self) -> str:
        """What to type for it."""
        return self.code or self.name

    @property
    def held(self) -> bool:
        """True when there is a value to look at: its own, or a symbol's from the last run."""
        return (
            self.kind in ("variable", "array")
            or self.evaluated
            or (self.kind in ("scalar", "object") and self.shape is not None)  # or of pandas
        )

    @property
    def openable(self) -> bool:
        """True for what has no cells and no graph, but entries or lines."""
        return self.kind in ("sequence", "object", "scalar") and not self.held


class ArrayWindow(Struct, frozen=True):
    """A two-dimensional part of an array as texts."""

    shape: tuple[int, ...]
    dtype: str
    index: tuple[int, ...]
    row_axis: int | None
    col_axis: int | None
    rows: tuple[int, int, int]
    cols: tuple[int, int, int]
    cells: list[list[str]] = field(default_factory=list)
    heat: list[str] = field(default_factory=list)  # a digit per cell, '-' for none
    row_names: list[str] = field(default_factory=list)  # of a table of pandas
    col_names: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, reply: WindowReply) -> ArrayWindow:
        """From the reply to `window`."""
        (row, row_stop, row_total), (col, col_stop, col_total) = reply.rows, reply.cols
        return cls(
            shape=tuple(reply.shape),
            dtype=reply.dtype,
            index=tuple(reply.index),
            row_axis=reply.row_axis,
            col_axis=reply.col_axis,
            rows=(row, row_stop, row_total),
            cols=(col, col_stop, col_total),
            cells=reply.cells,
            heat=reply.heat,
            row_names=reply.row_names or [],
            col_names=reply.col_names or [],
        )


class ArrayPicture(Struct, frozen=True):
    """An array, or a part of one, as pixels of one byte, or of three in colours."""

    shape: tuple[int, ...]
    index: tuple[int, ...]
    axes: tuple[int, int, int | None]  # rows, columns, channels
    data_format: str
    colours: bool
    limits: tuple[float, float]
    size: tuple[int, int]
    pixels: bytes
    blocks: str = ""  # what the pixels of a large array are
    top: int = 254  # the brightest level; one above it marks what is not finite

    @classmethod
    def of(cls, reply: ImageReply) -> ArrayPicture:
        """From the reply to `image`."""
        low, high = (number_of(limit) or 0.0 for limit in reply.limits)
        rows, cols, channels = reply.axes
        assert rows is not None and cols is not None
        return cls(
            shape=tuple(reply.shape),
            index=tuple(reply.index),
            axes=(rows, cols, channels),
            data_format=reply.data_format,
            colours=reply.colours,
            limits=(low, high),
            size=(reply.size[0], reply.size[1]),
            pixels=b64decode(reply.pixels),
            blocks=reply.blocks,
        )

    @property
    def free_axes(self) -> list[int]:
        """The axes that lead to other pictures: neither shown nor the channels."""
        return [axis for axis in range(len(self.shape)) if axis not in self.axes]

    def pixel_of(self, cell: tuple[int, int]) -> tuple[int, int]:
        """The pixel, row and column, that an element of the shown axes falls on."""
        lengths = self.shape[self.axes[0]], self.shape[self.axes[1]]
        row, col = (
            max(0, min(at * count // length, count - 1))
            for at, count, length in zip(cell, self.size, lengths, strict=True)
        )
        return row, col

    def cell_of(self, pixel: tuple[int, int]) -> tuple[int, int]:
        """The element in the middle of a pixel."""
        lengths = self.shape[self.axes[0]], self.shape[self.axes[1]]
        row, col = (
            (2 * at + 1) * length // (2 * count)
            for at, count, length in zip(pixel, self.size, lengths, strict=True)
        )
        return row, col

    def place_of(self, cell: tuple[int, int]) -> list[int | None]:
        """The index of an element in the whole array; None along channels shown as colours."""
        place: list[int | None] = list(self.index)
        place[self.axes[0]], place[self.axes[1]] = cell
        if self.colours and self.axes[2] is not None:
            place[self.axes[2]] = None
        return place

    def pixel(self, row: int, col: int) -> tuple[int, int, int] | None:
        """Red, green and blue from 0 to `top`; None where the number is not finite."""
        at = row * self.size[1] + col
        part = self.pixels[3 * at : 3 * at + 3] if self.colours else self.pixels[at : at + 1] * 3
        return None if part[0] > self.top else (part[0], part[1], part[2])


def rows_of(rows: Iterable[VariableRow]) -> list[NameRow]:
    """Rows of a reply to `summary`; names that are gone are left out."""
    return [row_of(row) for row in rows if row.kind != "gone"]


def row_of(row: VariableRow) -> NameRow:
    """One row of a reply to `summary`."""
    return NameRow(
        name=row.key or row.name,
        kind=row.kind,
        shape=None if row.shape is None else tuple(row.shape),
        dtype=row.dtype or "",
        nbytes=row.bytes,
        about=row.about or "",
        fed=None if row.last is None else tuple(row.last.shape),
        note=_note(row),
        type=row.type or "",
        stats=None if row.histogram is None else Statistics.of(row),
        version=row.version,
        place=row.place or "",
        evaluated=row.last is not None and bool(row.last.text),
        label=row.label or "",
        length=row.length,
        parts=row.parts or 0,
        code=row.code or "",
    )


def _note(row: VariableRow) -> str:
    """Words for what has no range: the value of a scalar, the last value of a symbol, a type."""
    if row.kind == "variable" and row.trainable is False:
        return "not trained"
    if row.text:
        return row.text.removeprefix("function ")
    if row.last is not None:
        return f"last {row.last.text or shape_text(row.last.shape)}"
    if row.length is not None:
        return f"{row.type} of {row.length}"
    if row.kind in ("tensor", "update"):
        return f"{row.op or ''}, not evaluated".lstrip(", ")
    return row.type or ""
