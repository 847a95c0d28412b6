"""Locally connected layers: convolution whose kernel is another at every place.

The patches of all places are gathered with the places in front, where they meet the kernel of
their place in one batched product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict, Unpack

import numpy as np

from kbench.engine.core import cancel
from kbench.engine.core.errors import ArgumentError, ShapeError, shown
from kbench.engine.core.spec import Spec, known_size, show
from kbench.engine.core.types import Attrs, CancelCheck, Dim, Ints, KernelCall, Sizes
from kbench.engine.graph.apply import apply
from kbench.engine.graph.declare import structured
from kbench.engine.graph.op import KernelFactory, Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.conv.api import factors
from kbench.engine.ops.conv.convolve_numpy import windows_of
from kbench.engine.ops.conv.windows import (
    check_rank,
    checked_ints,
    from_channels_last,
    layout_of,
    to_channels_last,
    window_counts,
)
from kbench.engine.ops.layout.copy_kernels import Copy, copy_kernel
from kbench.engine.ops.layout.reshape import PERMUTE, permute_dimensions, reshape
from kbench.engine.ops.layout.shape import shape
from kbench.engine.ops.linear.matmul import BATCH_DOT, contract
from kbench.engine.runtime import config

PRODUCT = ((2,), (1,))
"""The axes that patches and their weights are contracted over, after that of the places."""
MIN_KERNEL_PRODUCTS = 1 << 20
"""Products from which on the kernel is worth a call."""

# ------------------------------------------------------------------ patches


class PatchAttrs(TypedDict):
    """The attributes of the ops on patches."""

    window: Ints
    strides: Ints
    channels_first: bool


def _patches_infer(x: Spec, *, window: Ints, strides: Ints, channels_first: bool) -> Spec:
    counts = window_counts(x.shape[1:-1], window, strides, "valid")
    channels = x.shape[-1]
    width = None if channels is None else channels * math.prod(window)
    return Spec((known_size(counts), x.shape[0], width), x.dtype)


def _view(x: np.ndarray, window: Ints, strides: Ints, channels_first: bool) -> np.ndarray:
    """Every patch as a view [*places, n, *patch]."""
    rank = len(window)
    counts = tuple(
        int(count or 0) for count in window_counts(x.shape[1:-1], window, strides, "valid")
    )
    view = windows_of(x, counts, window, strides, (1,) * rank)
    taps = tuple(range(rank + 1, 2 * rank + 1))
    patch = (view.ndim - 1, *taps) if channels_first else (*taps, view.ndim - 1)
    return view.transpose(*range(1, rank + 1), 0, *patch)


def _patches_numpy(
    out: np.ndarray | None, x: np.ndarray, *, window: Ints, strides: Ints, channels_first: bool
) -> np.ndarray:
    view = _view(x, window, strides, channels_first)
    rank = len(window)
    if out is None:
        places = math.prod(view.shape[:rank])
        out = np.empty((places, x.shape[0], math.prod(view.shape[rank + 1 :])), x.dtype)
    target = out.reshape(view.shape)
    for i in range(view.shape[0]):
        target[i] = view[i]
        cancel.check()
    return out


def _patches_gradient(
    g: Tensor, y: Tensor, x: Tensor, **attrs: Unpack[PatchAttrs]
) -> tuple[Tensor]:
    return (apply(UNPATCH, g, x, **attrs),)


@np.errstate(all="ignore")
def _unpatch_numpy(
    out: np.ndarray | None,
    g: np.ndarray,
    x: np.ndarray,
    *,
    window: Ints,
    strides: Ints,
    channels_first: bool,
) -> np.ndarray:
    """The sum of all patches, each where it was taken from."""
    if out is None:
        out = np.empty(x.shape, g.dtype)
    wide = out if g.dtype != np.float16 else np.empty(x.shape, np.float32)
    wide.fill(0)
    rank = len(window)
    counts = [int(count or 0) for count in window_counts(x.shape[1:-1], window, strides, "valid")]
    patch = (x.shape[-1], *window) if channels_first else (*window, x.shape[-1])
    parts = np.moveaxis(g.reshape(*counts, x.shape[0], *patch), rank, 0)
    for tap in np.ndindex(*window):
        cells = [
            slice(t, t + (count - 1) * s + 1, s)
            for t, count, s in zip(tap, counts, strides, strict=True)
        ]
        seen = (..., slice(None), *tap) if channels_first else (..., *tap, slice(None))
        wide[(slice(None), *cells)] += parts[seen]
        cancel.check()
    if wide is not out:
        out[...] = wide
    return out


def _patches_by_copies(
    copy: Copy,
    out: np.ndarray,
    x: np.ndarray,
    *,
    window: Ints,
    strides: Ints,
    channels_first: bool,
) -> None:
    view = _view(x, window, strides, channels_first)
    copy(out.reshape(view.shape), view)


PATCHES = structured(
    "patches",
    _patches_infer,
    _patches_numpy,
    _patches_gradient,
    kernel=copy_kernel(_patches_infer, _patches_by_copies),
)
UNPATCH = register(
    Op(
        "patches_to_input",
        "structured",
        lambda g, x, **_attrs: Spec(x.shape, g.dtype),
        _unpatch_numpy,
        lambda h, y, g, x, **attrs: (apply(PATCHES, h, **attrs), None),
    )
)

# ------------------------------------------------------------------ patches and their product


def _products_infer(x: Spec, kernel: Spec, *, window: Ints, strides: Ints) -> Spec:
    patches = _patches_infer(x, window=window, strides=strides, channels_first=False)
    product = BATCH_DOT.infer(patches, kernel, batch=1, axes=PRODUCT)
    places, n, filters = product.shape
    return Spec((n, places, filters), product.dtype)


def _products_numpy(
    out: np.ndarray | None, x: np.ndarray, kernel: np.ndarray, *, window: Ints, strides: Ints
) -> np.ndarray:
    patches = _patches_numpy(None, x, window=window, strides=strides, channels_first=False)
    product = np.asarray(BATCH_DOT.numpy(None, patches, kernel, batch=1, axes=PRODUCT))
    product = product.transpose(1, 0, 2)
    if out is None:
        return product
    np.copyto(out, product)
    return out


def _products_kernel(x: Spec, kernel: Spec, *, window: Ints, strides: Ints) -> KernelFactory | None:
    places, patch, filters = kernel.shape
    products = (known_size((x.shape[0], places, patch)) or 0) * (filters or 0)
    if products < config.min_elements(MIN_KERNEL_PRODUCTS):
        return None
    rows = (1,) * (2 - len(window))

    def factory() -> KernelCall | None:
        from kbench.engine.kernels.conv import local

        call = local.find("product", x.dtype)
        if call is None:
            return None

        def run(
            out: np.ndarray, x: np.ndarray, kernel: np.ndarray, cancel_check: CancelCheck | None
        ) -> None:
            image = x.reshape(x.shape[0], *rows, *x.shape[1:])
            call(out, image, kernel, (*rows, *window), (*rows, *strides), cancel_check)

        return run

    return factory


def products_of_patches(node: Tensor) -> Tensor | None:
    """permute(patches(x) . w) = local_products(x, w), which needs no patches"""
    if node.op is not PERMUTE or node.attrs["pattern"] != (1, 0, 2):
        return None
    product = node.inputs[0]
    if product.op is not BATCH_DOT or product.attrs != {"batch": 1, "axes": PRODUCT}:
        return None
    patches, kernel = product.inputs
    if patches.op is not PATCHES or len(patches.attrs["window"]) > 2:
        return None
    if patches.attrs["channels_first"] or node.spec.dtype not in ("float32", "float64"):
        return None
    from kbench.engine.kernels.conv.local import FILTER_LANES

    filters = kernel.spec.shape[2]
    if not filters or filters % FILTER_LANES:
        return None
    attrs: Attrs = {name: patches.attrs[name] for name in ("window", "strides")}
    return Tensor.derived(PRODUCTS, (patches.inputs[0], kernel), attrs, node.spec, node)


PRODUCTS: Op = structured(
    "local_products",
    _products_infer,
    _products_numpy,
    None,
    kernel=_products_kernel,
    stands_for=products_of_patches,
)
"""Of [n, *space, channels] and [places, patch, filters]: [n, places, filters]. Plans have it in
place of patches, their product and its transpose."""


# ------------------------------------------------------------------ as Keras calls it


def _local(
    rank: int,
    inputs: Operand,
    kernel: Operand,
    kernel_size: Sizes,
    strides: Sizes,
    places: Sequence[Dim] | None,
    data_format: str | None,
    ordered_first: bool,
) -> Tensor:
    layout = layout_of(data_format)
    window = checked_ints(kernel_size, rank, "kernel_size")
    steps = checked_ints(strides, rank, "strides")
    value, weights = factors(inputs, kernel=kernel)
    check_rank(value.spec, rank, layout, "inputs")
    last = to_channels_last(value, layout)
    counts = window_counts(last.spec.shape[1:-1], window, steps, "valid")
    if places is not None:
        counts = _checked_places(places, counts, rank)
    _check_kernel(value.spec, weights.spec, counts, window, last.spec.shape[-1])
    patches = apply(PATCHES, last, window=window, strides=steps, channels_first=ordered_first)
    product = permute_dimensions(contract(patches, weights, 1, PRODUCT), (1, 0, 2))
    if rank > 1:
        product = reshape(product, _sizes(product, last, counts, window, steps))
    return from_channels_last(product, layout)


def _sizes(
    product: Tensor, x: Tensor, counts: tuple[Dim, ...], window: Ints, strides: Ints
) -> list[Tensor | Dim]:
    """[n, *places, filters], unknown ones read from the tensors at evaluation."""
    sizes: list[Tensor | Dim] = [shape(product)[0], *counts, shape(product)[2]]
    for axis, count in enumerate(counts, 1):
        if count is None:
            sizes[axis] = (shape(x)[axis] - window[axis - 1]) // strides[axis - 1] + 1
    return sizes


def _checked_places(places: Sequence[Dim], counts: tuple[Dim, ...], rank: int) -> tuple[Dim, ...]:
    """`output_shape` beside what follows from `inputs`; they must agree."""
    listed = isinstance(places, (list, tuple, np.ndarray)) and getattr(places, "ndim", 1) == 1
    if not listed or len(places) != rank:
        raise ArgumentError(f"output_shape must hold {rank} sizes, got {shown(places)}")
    given = tuple(
        None if size is None else checked_ints(size, 1, "output_shape")[0] for size in places
    )
    for ours, theirs in zip(given, counts, strict=True):
        if None not in (ours, theirs) and ours != theirs:
            raise ShapeError(
                f"output_shape is {show(given)}, but the windows fit {show(counts)} times"
            )
    return tuple(b if a is None else a for a, b in zip(given, counts, strict=True))


def _check_kernel(
    inputs: Spec, kernel: Spec, counts: tuple[Dim, ...], window: Ints, channels: Dim
) -> None:
    if kernel.ndim != 3:
        raise ShapeError(f"kernel is {kernel}, but rank 3 is needed: [places, patch, filters]")
    patch = None if channels is None else math.prod(window) * channels
    for axis, wanted, what in (
        (0, known_size(counts), "places"),
        (1, patch, "entries in a patch"),
    ):
        if None not in (kernel.shape[axis], wanted) and kernel.shape[axis] != wanted:
            raise ShapeError(
                f"inputs is {inputs}, which has {wanted} {what}, but kernel is {kernel}, whose "
                f"axis {axis} has {kernel.shape[axis]}",
                axes={"kernel": axis},
            )


def local_conv1d(
    inputs: Operand,
    kernel: Operand,
    kernel_size: Sizes,
    strides: Sizes,
    data_format: str | None = None,
) -> Tensor:
    """Slide a window along a batch of sequences, with other filters at every place.

    Arguments:
        inputs: float[batch, steps, channels].
        kernel: float[places, width * channels, filters]; a patch is flattened step by step.
        kernel_size: the width, an int or a tuple of one.
        strides: likewise, the steps from one window to the next. There is no border.
        data_format: checked, but without effect, as in Keras: the channels are always last.
    Returns:
        Tensor float[batch, places, filters] in the dtype of `inputs`.
    Raises:
        ShapeError: `inputs` is not rank 3, or `kernel` does not fit its places and patches.
        ArgumentError: window, strides or layout are not valid.
    Gradient: to `inputs` and `kernel`.
    Source: Keras 2.3 `backend.local_conv1d`.

    >>> x, kernel = K.zeros((8, 10, 3)), K.zeros((8, 9, 4))
    >>> K.int_shape(K.local_conv1d(x, kernel, (3,), (1,)))
    (8, 8, 4)
    """
    layout_of(data_format)
    return _local(1, inputs, kernel, kernel_size, strides, None, "channels_last", False)


def local_conv2d(
    inputs: Operand,
    kernel: Operand,
    kernel_size: Sizes,
    strides: Sizes,
    output_shape: Sequence[int | None],
    data_format: str | None = None,
) -> Tensor:
    """Slide a window over a batch of images, with other filters at every place.

    Arguments:
        inputs: float[batch, rows, cols, channels], or with "channels_first" the channels second.
        kernel: float[places, patch, filters], with places in row-major order. A patch is
            flattened as (row, col, channel), or with "channels_first" as (channel, row, col).
        kernel_size, strides: two ints of at least 1. There is no border.
        output_shape: (new_rows, new_cols), which must be how often the window fits.
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor float[batch, new_rows, new_cols, filters] in the layout and dtype of `inputs`.
    Raises:
        ShapeError: `inputs` is not rank 4, `kernel` does not fit its places and patches, or
            `output_shape` is another.
        ArgumentError: window, strides, `output_shape` or layout are not valid.
    Gradient: to `inputs` and `kernel`.
    Source: Keras 2.3 `backend.local_conv2d`.

    >>> x, kernel = K.zeros((8, 5, 5, 3)), K.zeros((9, 27, 4))
    >>> K.int_shape(K.local_conv2d(x, kernel, (3, 3), (1, 1), (3, 3)))
    (8, 3, 3, 4)
    """
    first = layout_of(data_format) == "channels_first"
    return _local(2, inputs, kernel, kernel_size, strides, output_shape, data_format, first)
