"""Tier 1 of pooling: the compiled forms of the largest, the mean, and the ways back.

`kernel_factory` is asked once for known sizes. Along each spatial axis a `Line` gives the cells,
the windows, a window's size, the stride and the border before; sizes of the arrays follow from
these and are checked before compiled code sees an address.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from kbench.engine.core.types import Array, CancelCheck, KernelArguments, KernelCall
from kbench.engine.jit.array_memory import check_result, operand
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import service
from kbench.engine.kernels.pool import channel_lanes, spatial_source
from kbench.engine.runtime import config

MIN_ELEMENTS = 8192
"""Elements of the input from which on a kernel is worth while."""
FEW_LANES = 8
"""Lanes up to which neighbouring windows are computed side by side."""
STRIP_CELLS = 1 << 15
"""Cells of a strip that one item scatters to: they stay in the cache."""
MAX_STRIP_CELLS = 1 << 19
"""Cells of a strip of several planes; one that has more is cut by rows, too."""
MAX_VISITS = 40
"""Visits of each cell from which on NumPy, one axis after the other, is faster."""
MAX_VISITS_BACK = (24, 14)
"""Likewise on the way back to the largest: by window, side by side."""
MAX_ADDED_CELLS = 2048
"""Cells of a window that are added up in one chain of float32, which then errs by some 2e-5 at
most; NumPy adds along one axis after the other."""
WIDENED_ELEMENTS = 1 << 22
"""Elements of float16 that are widened at a time."""

SCATTERS = ("max_gradient", "spread", "copy")
OPERANDS = {
    "max": "x",
    "average": "x",
    "sum": "x",
    "max_gradient": "gxh",
    "spread": "g",
    "copy": "g",
}


class Line(Protocol):
    """Windows along one axis."""

    @property
    def size(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def window(self) -> int: ...
    @property
    def stride(self) -> int: ...
    @property
    def before(self) -> int: ...


def kernel_factory(
    name: str, dtype: str, outer: int, lines: Sequence[Line], inner: int
) -> Callable[[], KernelCall | None] | None:
    """Where the kernel `name` is found for these sizes, None when NumPy is the better way.

    Arguments:
        name: "max", "average", "sum", called as (out, x, cancel_check); "max_gradient", as (out, g,
            x, y, cancel_check), of which y may be left out unless `reads_largest`; "spread", which
            shares g among the cells, or "copy", which gives all of it to each, as (out, g, like,
            cancel_check).
        outer, lines, inner: the input is [outer, *cells of each line, inner].
    """
    work = _work(name, dtype, outer, lines, inner)
    return None if work is None else work.find


def reads_largest(dtype: str, outer: int, lines: Sequence[Line], inner: int) -> bool:
    """Whether the kernel "max_gradient" for these sizes reads the largest values; False where it
    finds them again, or where there is none."""
    work = _work("max_gradient", dtype, outer, lines, inner)
    return work is not None and work.windows_alone is None


def _work(name: str, dtype: str, outer: int, lines: Sequence[Line], inner: int) -> Work | None:
    if dtype not in ("float16", "float32", "float64") or len(lines) > 3:
        return None
    if name == "copy" and (inner > FEW_LANES or dtype == "float16"):
        return None  # NumPy copies runs of lanes as they are
    cells = outer * math.prod(line.size for line in lines) * inner
    windows = outer * math.prod(line.steps for line in lines) * inner
    if min(cells, windows) == 0 or cells < config.min_elements(MIN_ELEMENTS):
        return None
    work = Work(name, dtype, outer, lines, inner)
    if name in ("average", "sum") and dtype != "float64" and work.taps > MAX_ADDED_CELLS:
        return None
    if work.windows_alone is not None:
        return None if work.taps > MAX_VISITS else work
    often = MAX_VISITS_BACK[work.fields["wide"] > 0] if name == "max_gradient" else MAX_VISITS
    return None if work.visits > often else work


def compiled(kind: str, dtype: str, wide: bool) -> Job | None:
    """The kernel of a way of pooling, None while it is not ready."""
    text = partial(spatial_source.source, kind, dtype, wide)
    return service.find(f"pool_{kind}_{'rows' if wide else 'cells'}_{dtype}", text)


def find(kind: str, dtype: str) -> Job | channel_lanes.Loops | None:
    """The kernel of a way of pooling and of walking ("max_rows", "max_cells" ...), for warm-up.

    "windows" are those of all ways whose lanes are channels.
    """
    way, _, walk = kind.rpartition("_")
    if kind == "windows":
        return channel_lanes.find_loops(dtype)
    return compiled(way, dtype, walk == "rows")


class Work:
    """One kernel bound to sizes."""

    def __init__(
        self, name: str, dtype: str, outer: int, lines: Sequence[Line], inner: int
    ) -> None:
        self.name, self.dtype, self.outer, self.inner = name, dtype, outer, inner
        self.taken = "float32" if dtype == "float16" else dtype
        sizes = [(line.size, line.steps, line.window, line.stride, line.before) for line in lines]
        sizes = [(1, 1, 1, 1, 0)] * (3 - len(lines)) + sizes
        self.fields = {"inner": inner, "divides": name in ("average", "spread")}
        for axis, entries in zip(("depth", "rows", "cols"), sizes, strict=True):
            letters = ("", "o", "k", "s", "p")
            self.fields.update(zip([letter + axis for letter in letters], entries, strict=True))
        self.image = math.prod(size[0] for size in sizes) * inner
        self.windows = math.prod(size[1] for size in sizes) * inner
        self.taps = math.prod(size[2] for size in sizes)
        self.scatters = name in SCATTERS
        self._choose_way(sizes)
        self.windows_alone: channel_lanes.Windows | None = None
        if channel_lanes.is_profitable(name, self.taken, sizes, inner):
            self.windows_alone = channel_lanes.Windows(name, self.taken, sizes[1:], inner)

    def _choose_way(self, sizes: Sequence[tuple[int, ...]]) -> None:
        """How an item walks over its windows, and how many items an image has."""
        visits = [steps * window / size for size, steps, window, _, _ in sizes]
        self.visits = math.prod(visits)
        wide = self._wide() if self._prefers_rows() else 0
        self.fields["wide"] = wide
        if wide and self.name != "max_gradient":
            self.visits = visits[0] * visits[1] + visits[2]
        if self.scatters:
            self._cut_strips()
        else:
            self.items = self.fields["odepth"] * self.fields["orows"]

    def _prefers_rows(self) -> bool:
        """Whether neighbouring windows go side by side, by the measured cost of a cell."""
        field, inner = self.fields, self.inner
        if self.name == "max_gradient":
            return inner <= FEW_LANES // 2 and field["ocols"] > inner
        by_window = self.taps * (1 + 24 / inner)
        step = field["scols"]
        by_rows = field["kdepth"] * field["krows"] * step + field["kcols"] * (1 if step == 1 else 6)
        return inner <= FEW_LANES or by_rows + 1 < by_window

    def _wide(self) -> int:
        """Neighbouring windows whose columns fit the scratch, 0 when those are too few."""
        across, stride = self.fields["kcols"], self.fields["scols"]
        if across * self.inner > spatial_source.SCRATCH_LANES // 2:
            return 0
        return (spatial_source.SCRATCH_LANES // self.inner - across) // stride + 1

    def _cut_strips(self) -> None:
        """Strips of whole strides, high enough that few windows reach into two of them."""
        field = self.fields
        row = field["cols"] * self.inner
        deep = self._strip("depth", STRIP_CELLS // max(1, field["rows"] * row))
        volume = deep * field["rows"] * row
        high = field["rows"]
        if field["depth"] == 1 or volume > MAX_STRIP_CELLS:
            high = self._strip(
                "rows", (STRIP_CELLS if deep == 1 else MAX_STRIP_CELLS) // (deep * row)
            )
        field.update(strip_depth=deep, strip_rows=high)
        field["strips_depth"] = -(-field["depth"] // deep)
        field["strips_rows"] = -(-field["rows"] // high)
        self.items = field["strips_depth"] * field["strips_rows"]

    def _strip(self, axis: str, wanted: int) -> int:
        stride, window = self.fields["s" + axis], self.fields["k" + axis]
        least = 4 * window if window > stride else stride
        cells = -(-max(wanted, least) // stride) * stride
        return min(cells, self.fields[axis])

    # -------------------------------------------------------------- running

    def find(self) -> KernelCall | None:
        """The call, or None while the kernel is not ready."""
        run: KernelCall = self._run
        if self.windows_alone is not None:
            loops = channel_lanes.find_loops(self.taken)
            return None if loops is None else partial(run, loops)
        kind = {"sum": "average", "copy": "spread"}.get(self.name, self.name)
        job = compiled(kind, self.taken, bool(self.fields["wide"]))
        return None if job is None else partial(run, job)

    def _run(
        self, compiled: Job | channel_lanes.Loops, out: Array, *arguments: *KernelArguments
    ) -> None:
        *arrays, cancel_check = arguments
        given = dict(zip(OPERANDS[self.name], arrays, strict=False))
        sizes = dict.fromkeys("gh", self.outer * self.windows) | {"x": self.outer * self.image}
        whole = {}
        for letter, array in given.items():
            whole[letter] = operand(array, self.dtype, sizes[letter], out).reshape(self.outer, -1)
        check_result(out, self.dtype, self.outer * (self.image if self.scatters else self.windows))
        result = out.reshape(self.outer, -1)
        if self.taken == self.dtype:
            self._drive(compiled, result, whole, cancel_check)
            return
        step = max(1, WIDENED_ELEMENTS // max(self.image, self.windows))
        for start in range(0, self.outer, step):
            part = slice(start, start + step)
            wide = np.empty(result[part].shape, self.taken)
            parts = {role: array[part].astype(self.taken) for role, array in whole.items()}
            self._drive(compiled, wide, parts, cancel_check)
            with np.errstate(all="ignore"):
                result[part] = wide

    def _drive(
        self, job: Job | channel_lanes.Loops, out: Array, arrays: dict[str, Array],
        cancel_check: CancelCheck | None,
    ) -> None:  # fmt: skip
        if isinstance(job, channel_lanes.Loops):
            assert self.windows_alone is not None
            self.windows_alone.drive(job, out, arrays, cancel_check)
            return
        images = len(out)
        field = {**self.fields, "outer": images, "y": address_of(out)}
        field.update({letter: address_of(array) for letter, array in arrays.items()})
        params = np.array([field.get(name, 0) for name in spatial_source.fields()], np.int64)
        each = self.windows * self.taps // self.items
        drive(job, params, images * self.items, each, cancel_check)
