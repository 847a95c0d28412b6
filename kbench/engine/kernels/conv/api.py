"""Tier 1: compiled convolutions with channels last, over one to three spatial axes.

`find_kernel` gives a call, which checks every size before compiled code sees an address. float16 is
computed in float32. `is_profitable` says for which sizes the kernels are worth it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from msgspec.structs import asdict

from kbench.engine.core.types import Array, CancelCheck, Ints
from kbench.engine.jit import kernel_file
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.launch import Preparable, Prepared, first_right, run
from kbench.engine.kernels.conv import col2im, direct
from kbench.engine.kernels.conv.launch import (
    GATHER,
    MAX_PLANS,
    PACK,
    REDUCE,
    TILES,
    PanelTiles,
    Tiles,
    Way,
    copied,
    result_array,
)
from kbench.engine.kernels.family import Family, Sources
from kbench.engine.kernels.winograd import api as winograd
from kbench.engine.runtime import config
from kbench.engine.runtime.workspace import Workspace

MakeWays = Callable[..., Iterable[Way | None]]
Kinds = tuple[str, str, str]
IMAGE_BY_KERNEL: Kinds = ("image", "image", "kernel")
IMAGE_BY_IMAGE: Kinds = ("kernel", "image", "image")
"""What result and operands are: axes that are missing are before the space, wherever it begins."""

FLOATS = ("float16", "float32", "float64")
PRODUCTS: dict[str, tuple[MakeWays, Kinds]] = {
    "forward": (direct.forward, IMAGE_BY_KERNEL),
    "to_input": (direct.to_input, IMAGE_BY_KERNEL),
    "to_kernel": (direct.to_kernel, IMAGE_BY_IMAGE),
}
MIN_PRODUCTS = 500_000
"""Products below which the NumPy form is as fast."""


def find_kernel(product: str, dtype: str, rank: int) -> Convolution | None:
    """One of `PRODUCTS`, or None while it is not ready, when it cannot be had or JIT is off.

    Called as `(out, x, kernel, strides, pads_before, dilation, cancel_check=None)` it is "forward",
    the convolution of x[n, *space, channels] with kernel[*window, channels, filters], of rank + 2
    axes each. "to_input", as `(out, g, kernel, ...)`, is the gradient to x; "to_kernel", as `(out,
    g, x, ...)`, that to the kernel. Padding is zeros: `pads_before` of it, and as much after as is
    needed.
    """
    if dtype not in FLOATS or rank not in (1, 2, 3) or config.jit_mode() == "off":
        return None
    tiles = find_tiles("float32" if dtype == "float16" else dtype)
    if tiles is None:
        return None
    ways, kinds = PRODUCTS[product]
    return Convolution(dtype, tiles.dtype, rank, 3, kinds, partial(ways, tiles))


def find(product: str, dtype: str) -> Convolution | None:
    """The kernel over two axes, for warm-up; all ranks and products share their kernels.

    Forms for some sizes are asked for as well, which calls otherwise do when one first suits.
    """
    if dtype == "float32":
        winograd.find_loops()
    if dtype in FLOATS[1:]:
        col2im.find_loops(dtype)
    return find_kernel(product, dtype, 2)


def tile_text(dtype: str) -> str:
    """The source of the tiles; their shape is chosen where it is compiled."""
    return kernel_file.specialized(TILES, DTYPE=dtype)


def _pack_text(dtype: str) -> str:
    """The source of the kernel that brings weights into panels."""
    return kernel_file.specialized(
        PACK,
        SIZE=np.dtype(dtype).itemsize,
        element=dtype,
        load_element=f"load_{dtype}",
        store_element=f"store_{dtype}",
    )


def _panel_sources(dtype: str) -> Sources:
    return {"conv_tiles": lambda: tile_text(dtype), "conv_pack": lambda: _pack_text(dtype)}


def _panel_tiles(dtype: str, jobs: dict[str, Job]) -> PanelTiles:
    module = jobs["conv_tiles"].loaded
    wide, narrow, whole = (int(one.address) for one in (module.wide, module.narrow, module.whole))
    return PanelTiles(dtype, module.LANES, module.ROWS, wide, narrow, whole, pack=jobs["conv_pack"])


def _sources(dtype: str) -> Sources:
    size = np.dtype(dtype).itemsize
    return {
        **_panel_sources(dtype),
        "conv_gather": lambda: kernel_file.specialized(GATHER, SIZE=size),
        "conv_reduce": lambda: kernel_file.specialized(REDUCE, SIZE=size),
    }


def _tiles(dtype: str, jobs: dict[str, Job]) -> Tiles:
    panels = asdict(_panel_tiles(dtype, jobs))
    return Tiles(**panels, gather=jobs["conv_gather"], reduce=jobs["conv_reduce"])


find_panel_tiles = Family(_panel_sources, _panel_tiles).find
"""The tiles of float32 or float64 without what convolutions need, or None while not ready."""
find_tiles = Family(_sources, _tiles).find
"""The tiles of float32 or float64, or None while they are not ready."""


class Convolution(Preparable):
    """A call that checks its operands and hands on contiguous arrays of the dtype computed in."""

    def __init__(
        self, dtype: str, computed: str, rank: int, axes: int, kinds: Kinds, ways: MakeWays
    ) -> None:
        """`rank` spatial axes, of which the compiled form has so many `axes`."""
        self._dtype, self._computed, self._rank, self._axes = dtype, computed, rank, axes
        self._kinds, self._ways = kinds, ways
        self._planned: dict[tuple[Ints | bool, ...], list[Way]] = {}

    def __call__(
        self, out: Array, first: Array, second: Array, strides: Sequence[int],
        pads_before: Sequence[int], dilation: Sequence[int],
        cancel_check: CancelCheck | None = None,
    ) -> None:  # fmt: skip
        run(partial(self.prepare, out, first, second, strides, pads_before, dilation), cancel_check)

    def prepare(
        self, out: Array, first: Array, second: Array, strides: Sequence[int],
        pads_before: Sequence[int], dilation: Sequence[int], workspace: Workspace,
    ) -> Prepared:  # fmt: skip
        """The call: the first of its ways, and behind it those for results that are not right."""
        ready, steps = self._checked(out, first, second, strides, pads_before, dilation)
        into = result_array(out, self._computed, ready)
        target, one, other = into, ready[0], ready[1]
        if self._rank < self._axes:
            missing = (1,) * (self._axes - self._rank)
            target, one, other = _expanded((into, *ready), self._kinds, missing)
        sizes = target.shape, one.shape, other.shape, *steps
        ways = self._planned.get((config.exact(), *sizes)) or self._plan(sizes)
        prepared = ways[0].prepare(target, one, other, workspace)
        if prepared.check_after is not None:
            rest = (way.prepare(target, one, other, workspace) for way in ways[1:])
            prepared = prepared._replace(otherwise=partial(first_right, rest))
        if into is not out:
            prepared = prepared.then(copied(out, into))
        lasts = into is out and ready[0] is first and ready[1] is second
        return prepared._replace(kept=ready, is_lasting=lasts)

    def _plan(self, sizes: tuple[Ints, ...]) -> list[Way]:
        """The ways of a call in order, kept once all of them are ready."""
        wanted = list(self._ways(*sizes))
        ways = [way for way in wanted if way is not None]
        if len(self._planned) >= MAX_PLANS:
            self._planned.clear()
        if len(ways) == len(wanted):
            self._planned[config.exact(), *sizes] = ways
        return ways

    def _checked(
        self, out: Array, first: Array, second: Array, *steps: Sequence[int]
    ) -> tuple[list[Array], tuple[Ints, Ints, Ints]]:
        """The operands as compiled code reads them, and the numbers for each axis."""
        for array in (out, first, second):
            if array.dtype != self._dtype or array.ndim != self._rank + 2:
                shape, rank = list(array.shape), self._rank + 2
                raise ValueError(f"expected {self._dtype} of rank {rank}, got {array.dtype}{shape}")
        ready = [np.require(array, self._computed, ["C", "A"]) for array in (first, second)]
        return ready, _geometry(self._rank, self._axes, *map(tuple, steps))


@functools.lru_cache(MAX_PLANS)
def _geometry(
    rank: int, axes: int, strides: Ints, pads: Ints, dilation: Ints
) -> tuple[Ints, Ints, Ints]:
    """The numbers of all axes of the compiled form: those that are missing have one place."""
    missing = axes - rank
    return (
        (1,) * missing + _numbers(strides, rank, 1),
        (0,) * missing + _numbers(pads, rank, -(2**31)),
        (1,) * missing + _numbers(dilation, rank, 1),
    )


def _numbers(values: Sequence[int], rank: int, low: int) -> Ints:
    """One number for each axis, within bounds."""
    numbers = tuple([int(value) for value in values])
    if len(numbers) != rank or not all(low <= number <= 2**31 for number in numbers):
        raise ValueError(f"expected {rank} numbers of at least {low}, got {values}")
    return numbers


def _expanded(arrays: Sequence[Array], kinds: Kinds, missing: Ints) -> Sequence[Array]:
    """Arrays with all spatial axes of the compiled form: those that they have not come first."""
    places = [0 if kind == "kernel" else 1 for kind in kinds]
    return [
        array.reshape(*array.shape[:at], *missing, *array.shape[at:])
        for array, at in zip(arrays, places, strict=True)
    ]


def is_profitable(what: str, kernel: Sequence[int], places: int) -> bool:
    """Whether a compiled kernel is as fast as the NumPy form at least.

    Arguments:
        what: "forward", "to_input" or "to_kernel".
        kernel: shape of the kernel, [*window, channels, filters].
        places: images times output places of the convolution.

    Measured: below half a million products the call costs more than it gains. One or two columns of
    results, where there are channels enough for BLAS, leave most of a vector idle.
    """
    *_, channels, filters = kernel
    if math.prod(kernel) * places < MIN_PRODUCTS:
        return False
    if what == "to_input":
        return channels > 2 or filters < 8
    return filters > 1 or channels < 8
