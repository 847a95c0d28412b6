"""The bias of a layer: one number for each channel, or for each place and channel."""

from __future__ import annotations

from kbench.engine.core.errors import ShapeError
from kbench.engine.core.spec import Spec
from kbench.engine.core.types import Shape
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import tensors_of
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.elementwise.arithmetic import add
from kbench.engine.ops.layout.reshape import reshape
from kbench.engine.ops.layout.shape import IDENTITY, shape
from kbench.engine.runtime.config import normalize_data_format


def bias_add(x: Operand, bias: Operand, data_format: str | None = None) -> Tensor:
    """`x` plus one number for each channel, or for each place and channel.

    Arguments:
        x: [batch, *space, channels], or with "channels_first" the channels second.
        bias: [channels], or [*space, channels] in both layouts; with "channels_first" the latter
            is reshaped, not transposed, to [channels, *space].
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor of the shape and dtype of `x`.
    Raises:
        ShapeError: `bias` has another rank, or sizes that differ from those of `x`.
        ArgumentError: unknown layout.
    Gradient: to both.
    Source: Keras 2.3 `backend.bias_add`.

    >>> K.eval(K.bias_add(K.zeros((1, 2)), K.constant([1.0, 2.0])))
    array([[1., 2.]], dtype=float32)
    """
    layout = normalize_data_format(data_format)
    value, offset = tensors_of(x, bias)
    if value.ndim == 0 or offset.ndim not in (1, value.ndim - 1):
        raise ShapeError(
            f"x is {value.spec} and bias is {offset.spec}, which must have rank 1"
            + (f" or {value.ndim - 1}" if value.ndim > 2 else "")
        )
    first = layout == "channels_first" and value.ndim > 2
    _fitting_infer(offset.spec, value.spec, first=first)
    if None in value.spec.shape[1:] or None in offset.spec.shape:
        offset = apply(FITTING, offset, value, first=first)
    if first:
        sizes = _bias_sizes(offset.spec.shape, value.ndim, first)
        offset = reshape(offset, _known_sizes(offset, sizes))
    return add(value, offset)


def _bias_sizes(shape: Shape, ndim: int, first: bool) -> Shape:
    """The shape in which the bias meets `x`."""
    if len(shape) == 1:
        return (1, shape[0], *(1,) * (ndim - 2)) if first else shape
    return (1, shape[-1], *shape[:-1]) if first else (1, *shape)


def _known_sizes(offset: Tensor, sizes: Shape) -> list[int | Tensor]:
    """`sizes` of a bias whose channels come first, unknown ones read from it at evaluation."""
    if sizes.count(None) <= 1:
        return [-1 if size is None else size for size in sizes]
    actual = shape(offset)
    return [1, actual[offset.ndim - 1], *[actual[i] for i in range(offset.ndim - 1)]]


def _fitting_infer(bias: Spec, x: Spec, *, first: bool) -> Spec:
    """Sizes must agree: neither is spread over the other where it is 1."""
    sizes = _bias_sizes(bias.shape, x.ndim, first)
    pairs = list(enumerate(zip(x.shape[1:], sizes[1:], strict=True), 1)) if bias.ndim > 1 else []
    if bias.ndim == 1:
        channel = 1 if first else x.ndim - 1
        pairs = [(channel, (x.shape[channel], bias.shape[0]))]
    for axis, (ours, theirs) in pairs:
        if None not in (ours, theirs) and ours != theirs:
            raise ShapeError(
                f"x is {x}, so axis {axis} has size {ours}, but bias is {bias}, of size {theirs}",
                axes={"x": axis},
            )
    return bias


FITTING = register(  # the bias as it is, once its sizes are known to be those of x
    Op(
        "fitting_bias",
        "view",
        _fitting_infer,
        lambda out, bias, x, *, first: bias,
        lambda g, y, bias, x, *, first: (g, None),
        lower=lambda specs, attrs: (IDENTITY, {"stop": False}, (0,)),
        allocates=True,
    )
)
