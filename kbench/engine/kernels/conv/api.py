"""Tier 1: compiled convolutions with channels last, over one to three spatial axes.

`find_forward`, `find_to_input` and `find_to_kernel` give a call, or None while it is not ready,
when it cannot be had or JIT is off. The calls check every size before compiled code sees an
address. float16 is computed in float32. `is_profitable` says for which sizes the kernels are worth
it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from kbench.engine.core.types import Array, CancelCheck, Ints
from kbench.engine.jit import kernel_file
from kbench.engine.jit.array_memory import are_same, can_write_to
from kbench.engine.jit.launch import Launch
from kbench.engine.jit.service import Job
from kbench.engine.kernels.conv import col2im, direct, direct_source
from kbench.engine.kernels.conv.launch import MAX_PLANS, Tiles
from kbench.engine.kernels.conv.variants import Memory, Way, captured, perform
from kbench.engine.kernels.family import Family, Sources
from kbench.engine.kernels.winograd import api as winograd
from kbench.engine.runtime import config

MakeWays = Callable[..., Iterable[Way]]

FLOATS = ("float16", "float32", "float64")
MIN_PRODUCTS = 500_000
"""Products below which the NumPy form is as fast."""


def find_forward(dtype: str, rank: int) -> Convolution | None:
    """`(out, x, kernel, strides, pads_before, dilation, cancel_check=None)`: the convolution.

    x[n, *space, channels], kernel[*window, channels, filters], out[n, *new_space, filters], each
    of rank + 2 axes. Padding is zeros: `pads_before` of it, and as much after as `out` needs.
    """
    return _found(dtype, rank, direct.forward, "image", "kernel", "image")


def find_to_input(dtype: str, rank: int) -> Convolution | None:
    """`(out, g, kernel, strides, pads_before, dilation, cancel_check=None)`: the gradient to x."""
    return _found(dtype, rank, direct.to_input, "image", "kernel", "image")


def find_to_kernel(dtype: str, rank: int) -> Convolution | None:
    """`(out, g, x, strides, pads_before, dilation, cancel_check=None)`: the gradient to the
    kernel."""
    return _found(dtype, rank, direct.to_kernel, "image", "image", "kernel")


def find(way: str, dtype: str) -> Convolution | None:
    """One of the three above, by name, over two axes; all ranks share their kernels.

    Forms for some sizes are asked for as well, which calls otherwise do when one first suits.
    """
    if dtype == "float32":
        winograd.find_loops()
    if dtype in FLOATS[1:]:
        col2im.find_loops(dtype)
    finders = {"forward": find_forward, "to_input": find_to_input, "to_kernel": find_to_kernel}
    return finders[way](dtype, 2)


def tile_text(dtype: str) -> str:
    """The source of the tiles; their shape is chosen where it is compiled."""
    return kernel_file.specialized(direct_source.TILES, DTYPE=dtype)


def _pack_text(dtype: str) -> str:
    """The source of the kernel that brings weights into panels."""
    return kernel_file.specialized(
        direct_source.PACK,
        element=dtype,
        load_element=f"load_{dtype}",
        store_element=f"store_{dtype}",
    )


def _sources(dtype: str) -> Sources:
    return {
        "conv_tiles": lambda: tile_text(dtype),
        "conv_gather": lambda: direct_source.filled(
            direct_source.GATHER, dtype, direct_source.GATHER_FIELDS
        ),
        "conv_pack": lambda: _pack_text(dtype),
        "conv_reduce": lambda: direct_source.filled(
            direct_source.REDUCE, dtype, direct_source.REDUCE_FIELDS
        ),
    }


def _tiles(dtype: str, jobs: dict[str, Job]) -> Tiles:
    module = jobs["conv_tiles"].loaded
    return Tiles(
        dtype, module.LANES, module.ROWS, int(module.wide.address), int(module.narrow.address),
        jobs["conv_pack"], jobs["conv_gather"], jobs["conv_reduce"],
    )  # fmt: skip


find_tiles = Family(_sources, _tiles).find
"""The tiles of float32 or float64, or None while they are not ready."""


def _found(dtype: str, rank: int, ways: MakeWays, *kinds: str) -> Convolution | None:
    if dtype not in FLOATS or rank not in (1, 2, 3) or config.jit_mode() == "off":
        return None
    tiles = find_tiles("float32" if dtype == "float16" else dtype)
    if tiles is None:
        return None

    def widened(
        tiles: Tiles, out: Array, first: Array, second: Array, strides: Sequence[int],
        pads: Sequence[int], dilation: Sequence[int], memory: Memory,
    ) -> Iterable[Way]:  # fmt: skip
        """All three spatial axes: those that are missing have one place."""
        arrays = [_three(*pair) for pair in zip((first, second, out), kinds, strict=True)]
        return ways(tiles, arrays[2], *arrays[:2], strides, pads, dilation, memory)

    return Convolution(dtype, tiles.dtype, rank, 3, widened, tiles)


class Convolution:
    """A call that checks its operands and hands on contiguous arrays of the dtype computed in."""

    def __init__(
        self, dtype: str, computed: str, rank: int, axes: int, ways: MakeWays, compiled: object
    ) -> None:
        """`rank` spatial axes, of which the compiled form has so many `axes`."""
        self._dtype, self._computed, self._rank, self._axes = dtype, computed, rank, axes
        self._ways, self._compiled = ways, compiled

    def __call__(
        self, out: Array, first: Array, second: Array, strides: Sequence[int],
        pads_before: Sequence[int], dilation: Sequence[int],
        cancel_check: CancelCheck | None = None,
    ) -> None:  # fmt: skip
        ready, steps = self._checked(out, first, second, strides, pads_before, dilation)
        with result_array(out, self._computed, ready) as into:
            perform(self._ways(self._compiled, into, *ready, *steps, Memory()), cancel_check)

    def launches(
        self, out: Array, first: Array, second: Array, strides: Sequence[int],
        pads_before: Sequence[int], dilation: Sequence[int],
    ) -> list[Launch] | None:  # fmt: skip
        """The launches, to be made later; None where more than launches is needed."""
        ready, steps = self._checked(out, first, second, strides, pads_before, dilation)
        if not (are_same(ready, (first, second)) and can_write_to(out, self._computed, ready)):
            return None
        return captured(lambda memory: self._ways(self._compiled, out, *ready, *steps, memory))

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


@contextmanager
def result_array(out: Array, dtype: str, inputs: Sequence[Array]) -> Iterator[Array]:
    """Where compiled code writes: `out` itself, or an array copied to it at the end.

    That is for another dtype, strides, or an input that overlaps; inputs are read many times.
    """
    if not out.flags.writeable:
        raise ValueError("the result array is read-only")
    if can_write_to(out, dtype, inputs):
        yield out
        return
    into = np.empty(out.shape, dtype)
    yield into
    with np.errstate(over="ignore"):
        np.copyto(out, into, casting="same_kind")


def _three(array: Array, kind: str) -> Array:
    """An array with three spatial axes: the missing ones are one long, and come first."""
    missing = (1,) * (5 - array.ndim)
    if kind == "kernel":
        return array.reshape(missing + array.shape)
    return array.reshape(array.shape[:1] + missing + array.shape[1:])


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
