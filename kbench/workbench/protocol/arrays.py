"""Questions about one array: its cells, its statistics, what is in it, to a file."""

from __future__ import annotations

from typing import ClassVar

from kbench.workbench.protocol.names import Real
from kbench.workbench.protocol.question import Answer, Question

_AXES = frozenset(("row_axis", "col_axis"))


class WindowReply(Answer):
    """`rows`, `cols`: start, stop, total. `heat`: a text a row, of a digit or "-" for each cell.

    `row_names`, `col_names` are those of a table of pandas.
    """

    name: str
    shape: list[int]
    dtype: str
    index: list[int]
    row_axis: int | None
    col_axis: int | None
    rows: list[int]
    cols: list[int]
    cells: list[list[str]]
    heat: list[str]
    row_names: list[str] | None = None
    col_names: list[str] | None = None


class Window(Question[WindowReply], verb="window"):
    """The formatted cells of a slice; rows and columns are (start, count).

    An axis is None for a single row or column, and the last ones by default. `limits` is the
    range that `heat` refers to; `exact` has texts from which the numbers can be read back.
    """

    null_arguments: ClassVar[frozenset[str]] = _AXES
    name: str
    index: list[int] | None = None
    rows: list[int] | None = None
    cols: list[int] | None = None
    row_axis: int | None = -2
    col_axis: int | None = -1
    limits: list[float] | None = None
    exact: bool = False


class StatsReply(Answer):
    """Moments, range and histogram are over the finite elements, None where there are none.

    `count` of `size` elements were read; `refused` says why there are no statistics.
    """

    name: str
    shape: list[int]
    dtype: str
    bytes: int
    size: int
    sampled: bool
    count: int
    refused: str | None = None
    masked: int | None = None
    min: Real | None = None
    max: Real | None = None
    mean: Real | None = None
    std: Real | None = None
    finite: int | None = None
    zeros: int | None = None
    nan: int | None = None
    inf: int | None = None
    positive_inf: int | None = None
    negative_inf: int | None = None
    first_nan: int | None = None
    first_inf: int | None = None
    histogram: list[int] | None = None


class Stats(Question[StatsReply], verb="stats"):
    """Statistics of one name; `exact` reads a large array whole."""

    name: str
    exact: bool = False


class ImageReply(Answer):
    """`axes` are those of rows, columns and channels; `pixels` are bytes in base64."""

    name: str
    shape: list[int]
    dtype: str
    index: list[int]
    axes: list[int | None]
    data_format: str
    colours: bool
    limits: list[Real]
    size: list[int]
    blocks: str
    pixels: str


class Image(Question[ImageReply], verb="image"):
    """One picture of an array, of at most `size` rows and columns of pixels."""

    null_arguments: ClassVar[frozenset[str]] = _AXES
    name: str
    size: list[int]
    index: list[int] | None = None
    row_axis: int | None = None
    col_axis: int | None = None
    colours: bool = True
    limits: list[float] | None = None


class CurveReply(Answer):
    """`low`, `high`: of the finite elements of each stretch; `bad`: stretches with a NaN or Inf."""

    name: str
    axis: int
    index: list[int]
    size: int
    sampled: bool
    low: list[float | None]
    high: list[float | None]
    bad: list[int]


class Curve(Question[CurveReply], verb="curve"):
    """One line of an array, along `axis`, as least and greatest of so many stretches."""

    name: str
    stretches: int
    index: list[int] | None = None
    axis: int = -1


class FindReply(Answer):
    """Of one piece: `rest` is where to go on and how many elements are left, None at the end."""

    name: str
    what: str
    words: str
    index: list[int] | None
    size: int
    rest: list[int] | None


class Find(Question[FindReply], verb="find"):
    """Index of the next element that meets a condition, behind `after`; or from `start` on."""

    name: str
    what: str = "nan"
    after: list[int] | None = None
    start: int | None = None
    left: int | None = None


class ExportReply(Answer):
    """The file that was written, that `exists`, or that a `job` is writing until it is `done`."""

    name: str = ""
    exists: str | None = None
    job: int | None = None
    done: bool = True
    written: int = 0
    path: str = ""
    bytes: int = 0


class Export(Question[ExportReply], verb="export"):
    """Write a name's array to a file whose name says the format.

    With `index` and `axes` only the part along these axes. Where the file exists and `replace` is
    False, nothing is written. Without `wait` a long one goes on as a job.
    """

    name: str
    path: str
    index: list[int] | None = None
    axes: list[int] | None = None
    limits: list[float] | None = None
    grey: bool = False
    replace: bool = True
    wait: bool = True


class Exporting(Question[ExportReply], verb="exporting"):
    """How far an export is; `stop` gives it up."""

    job: int
    stop: bool = False
