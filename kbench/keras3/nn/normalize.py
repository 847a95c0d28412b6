"""Means and variances, and what is normalized by them."""

from __future__ import annotations

from typing import Any

from kbench.keras3.calls.planned import planned
from kbench.keras3.numpy import elementwise, layout, reduce


def moments(
    x: Any, axes: Any, keepdims: bool = False, synchronized: bool = False
) -> tuple[Any, Any]:
    """Mean and variance over axes; narrow floats are summed up in float32."""
    if synchronized:
        raise NotImplementedError(
            "moments: synchronized=True is for several devices; the kbench backend has one"
        )
    x = layout.known(x)
    dtype = elementwise.float_type(x)
    narrow = dtype in ("float16", "bfloat16")
    wide = elementwise.cast(x, "float32" if narrow else dtype)
    mean, variance = reduce.mean(wide, axes, keepdims), reduce.var(wide, axes, keepdims)
    if narrow:
        largest = 65504.0 if dtype == "float16" else 3.3895314e38
        mean = elementwise.clip(mean, -largest, largest)
        variance = elementwise.clip(variance, -largest, largest)
    return elementwise.cast(mean, dtype), elementwise.cast(variance, dtype)


@planned
def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    axis: int,
    offset: Any = None,
    scale: Any = None,
    epsilon: float = 1e-3,
) -> Any:
    """`x` less the mean, by the standard deviation, times a scale, with an offset."""
    x = layout.known(x)
    shape = [1] * len(x.shape)
    shape[axis] = layout.known(mean).shape[0]

    def along(value: Any) -> Any:
        return layout.reshape(value, shape)

    deviation = elementwise.sqrt(elementwise.add(along(variance), epsilon))
    factor = elementwise.divide(1.0, deviation)
    if scale is not None:
        factor = elementwise.multiply(factor, along(scale))
    shift = elementwise.multiply(elementwise.negative(along(mean)), factor)
    if offset is not None:
        shift = elementwise.add(shift, along(offset))
    return elementwise.add(elementwise.multiply(x, factor), shift)
