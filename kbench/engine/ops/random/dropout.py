"""Dropout: a random mask that is a node of its own, so that value and gradient share it."""

from __future__ import annotations

import numpy as np

from kbench.engine.core.errors import ArgumentError, ShapeError, shown
from kbench.engine.core.spec import Spec, is_float
from kbench.engine.core.types import Dim, Shape
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, converted
from kbench.engine.graph.op import KernelFactory, Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.elementwise.arithmetic import where
from kbench.engine.ops.layout.shape import identity, shape_operand
from kbench.engine.ops.random.distributions import finite_number
from kbench.engine.ops.random.sampling import Stream, fill_below, fill_kernel
from kbench.engine.runtime.config import floatx


def _mask_infer(x: Spec, *target: Spec, noise: Shape | None, **_attrs: object) -> Spec:
    sizes = _noise_sizes(x, target, noise)
    fits = len(sizes) <= x.ndim and all(
        size in (None, 1) or whole is None or size == whole
        for size, whole in zip(sizes[::-1], x.shape[::-1], strict=False)
    )
    if not fits:
        raise ShapeError(f"x is {x}; a mask of shape {list(sizes)} does not broadcast to it")
    return Spec(sizes, "bool")


def _noise_sizes(x: Spec, target: tuple[Spec, ...], noise: Shape | None) -> Shape:
    """The shape of the mask: that of `x`, or the one given, whose None entries `x` fills."""
    if target:
        sizes = target[0].value
        return sizes if sizes is not None else (None,) * (target[0].shape[0] or 0)
    if noise is None:
        return x.shape
    if len(noise) != x.ndim and None in noise:
        raise ShapeError(f"x is {x}, but noise_shape has {len(noise)} entries")
    return tuple(_either(size, axis, x) for axis, size in enumerate(noise))


def _either(size: int | None, axis: int, x: Spec) -> Dim:
    return x.shape[axis] if size is None else size


def _mask_numpy(
    out: np.ndarray | None,
    x: np.ndarray,
    *target: np.ndarray,
    stream: Stream,
    keep: float,
    noise: Shape | None,
) -> np.ndarray:
    if out is None:
        given = tuple(Spec((shape.size,), "int32", tuple(shape.tolist())) for shape in target)
        sizes = _noise_sizes(Spec(x.shape, x.dtype.name), given, noise)
        out = np.empty(sizes, np.bool_)  # type: ignore[arg-type]
    fill_below(out, stream, p=keep)
    return out


def _mask_gradient(g: Tensor, y: Tensor, *inputs: Tensor, **_attrs: object) -> tuple[None, ...]:
    return (None,) * len(inputs)


def _mask_kernel(
    x: Spec, *target: Spec, stream: Stream, keep: float, noise: Shape | None
) -> KernelFactory | None:
    return fill_kernel("below", _mask_infer(x, *target, noise=noise), stream, p=keep)


MASK = register(
    Op(
        "dropout_mask",
        "structured",
        _mask_infer,
        _mask_numpy,
        _mask_gradient,
        pure=False,
        kernel=_mask_kernel,
    )
)


def dropout(
    x: Operand, level: float, noise_shape: Operand | None = None, seed: int | None = None
) -> Tensor:
    """`x` with a random share of its elements set to 0, and the rest scaled up to make up for it.

    Arguments:
        x: any shape; integers become `floatx()`.
        level: the share that is dropped, from 0 to below 1.
        noise_shape: shape of the mask, which broadcasts over `x`; None entries are those of `x`.
        seed: the same seed gives the same sequence; None draws one from `numpy.random`.
    Returns:
        Tensor of the shape and dtype of `x`, with a new mask at every evaluation.
    Raises:
        ArgumentError: `level` out of range. ShapeError: the mask does not broadcast over `x`.
    Gradient: to `x`, through the same mask as the value of the same evaluation.
    Source: Keras 2.3 `backend.dropout`.

    >>> sorted(set(K.eval(K.dropout(K.ones((1000,)), 0.75, seed=1)).tolist()))
    [0.0, 4.0]
    """
    share = finite_number(level, "level")
    if isinstance(share, Tensor) or not 0 <= share < 1:
        raise ArgumentError(f"level must be a number from 0 to below 1, got {shown(level)}")
    tensor = as_tensor(x)
    if not is_float(tensor.spec.dtype):
        tensor = converted(tensor, floatx())
    if share == 0:
        return identity(tensor)
    target, noise = _noise_argument(noise_shape)
    mask = apply(
        MASK, tensor, *target, stream=Stream(seed, "dropout"), keep=1.0 - share, noise=noise
    )
    return where(mask, tensor * (1.0 / (1.0 - share)), 0)


def _noise_argument(noise_shape: Operand | None) -> tuple[tuple[Tensor, ...], Shape | None]:
    if noise_shape is None:
        return (), None
    if isinstance(noise_shape, (list, tuple)) and any(size is None for size in noise_shape):
        filled = [1 if size is None else size for size in noise_shape]
        sizes = shape_operand(filled, name="noise_shape")
        if isinstance(sizes, Tensor):
            raise ArgumentError("noise_shape must not mix None with tensors")
        pairs = zip(noise_shape, sizes, strict=True)
        return (), tuple(None if given is None else size for given, size in pairs)
    sizes = shape_operand(noise_shape, name="noise_shape")
    return ((sizes,), None) if isinstance(sizes, Tensor) else ((), sizes)
