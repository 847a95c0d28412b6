"""Convolutions and their gradients, channels last; sizes of ordinary networks."""

from __future__ import annotations

from math import prod
from typing import Any

from workloads.base import Formula, Workload, at_most, normal, size

Shape = tuple[int, ...]


def _outputs(x: Shape, kernel: Shape, stride: int, padding: str, dilation: int) -> Shape:
    """The shape of a convolution's result."""
    less = [dilation * (width - 1) if padding == "valid" else 0 for width in kernel[:-2]]
    space = [-(-(side - by) // stride) for side, by in zip(x[1:-1], less, strict=True)]
    return (x[0], *space, kernel[-1])


def _workload(
    name: str, note: str, formula: Formula, shapes: Any, small: Any, flops: int, goal: float,
    small_formula: Formula | None = None, traffic: int = 0, long: bool = False,
) -> Workload:  # fmt: skip
    # Sums of up to a million products, relative to the largest of them.
    return Workload(
        f"conv.{name}",
        note,
        normal(*shapes),
        formula,
        traffic=traffic,
        flops=flops,
        tolerance=5e-5,
        goals=at_most(goal),
        small=normal(*small),
        small_formula=small_formula,
        long=long,
    )


def _three(
    name: str, what: str, x: Shape, kernel: Shape, small_x: Shape,
    stride: int = 1, padding: str = "same", dilation: int = 1, goal: float = 1.0,
) -> list[Workload]:  # fmt: skip
    """A convolution and its two gradients."""
    how = (stride, padding, dilation)
    small_kernel = (*kernel[:-2], small_x[-1], 5)
    y, small_y = _outputs(x, kernel, *how), _outputs(small_x, small_kernel, *how)
    flops = 2 * prod(y[:-1]) * prod(kernel)
    long = goal >= 1 and name != "7x7s2"  # its gradients are
    note = f"{what}, {'x'.join(map(str, x))} to {kernel[-1]}, {padding}"

    def forward(F: Any, x: Any, kernel: Any) -> Any:
        return F.convolution(x, kernel, *how)

    def to_input(space: Shape) -> Formula:
        return lambda F, g, kernel: F.convolution_to_input(g, kernel, space, *how)

    def to_kernel(F: Any, g: Any, x: Any) -> Any:
        return F.convolution_to_kernel(g, x, kernel[:-2], *how)

    return [
        _workload(name, note, forward, (x, kernel), (small_x, small_kernel), flops, goal),
        _workload(
            f"{name}.to_input", "its gradient to the input", to_input(x[1:-1]), (y, kernel),
            (small_y, small_kernel), flops, goal, to_input(small_x[1:-1]), long=long,
        ),
        _workload(
            f"{name}.to_kernel", "its gradient to the kernel", to_kernel, (y, x),
            (small_y, small_x), flops, goal, long=long,
        ),
    ]  # fmt: skip


_IMAGE = (32, 56, 56, 64)
_LITTLE = (2, 7, 6, 4)


def _pullback(function: str, at: int) -> Formula:
    """The gradient of a layer to one of its two operands."""

    def formula(F: Any, g: Any, x: Any, kernel: Any) -> Any:
        run = getattr(F, function)
        if at == 0:
            return F.pullback(lambda x: run(x, kernel), g, x)[0]
        return F.pullback(lambda kernel: run(x, kernel), g, kernel)[0]

    return formula


_DEPTHWISE = (3, 3, 64, 1)
_DEPTHWISE_FLOPS = 2 * prod(_IMAGE) * 9
_LITTLE_DEPTHWISE = (_LITTLE, _LITTLE, (3, 3, 4, 1))

WORKLOADS = [
    *_three("3x3", "conv2d, 3x3", _IMAGE, (3, 3, 64, 64), _LITTLE, goal=0.6),
    *_three(
        "7x7s2", "conv2d, 7x7 with stride 2", (32, 112, 112, 3), (7, 7, 3, 64), (2, 15, 13, 3),
        2, "valid",
    ),
    *_three("1x1", "conv2d, 1x1", _IMAGE, (1, 1, 64, 64), _LITTLE),
    *_three("dilated", "conv2d, 3x3 with dilation 2", _IMAGE, (3, 3, 64, 64), _LITTLE, dilation=2),
    *_three("conv1d", "conv1d, 5 steps", (32, 256, 128), (5, 128, 128), (2, 9, 4)),
    *_three("conv3d", "conv3d, 3x3x3", (8, 16, 28, 28, 16), (3, 3, 3, 16, 32), (2, 4, 5, 6, 3)),
    _workload(
        "depthwise", "depthwise_conv2d, 3x3, 32x56x56x64, same",
        lambda F, x, kernel: F.depthwise(x, kernel), (_IMAGE, _DEPTHWISE), _LITTLE_DEPTHWISE[1:],
        _DEPTHWISE_FLOPS, 0.95, traffic=2 * size(_IMAGE),
    ),
    _workload(
        "depthwise.to_input", "its gradient to the input", _pullback("depthwise", 0),
        (_IMAGE, _IMAGE, _DEPTHWISE), _LITTLE_DEPTHWISE, _DEPTHWISE_FLOPS, 0.95,
        traffic=2 * size(_IMAGE),
    ),
    _workload(
        "depthwise.to_kernel", "its gradient to the kernel", _pullback("depthwise", 1),
        (_IMAGE, _IMAGE, _DEPTHWISE), _LITTLE_DEPTHWISE, _DEPTHWISE_FLOPS, 0.95,
        traffic=2 * size(_IMAGE),
    ),
    _workload(
        "separable", "separable_conv2d, 3x3, 32x56x56x64 to 128, same",
        lambda F, x, kernel, last: F.separable(x, kernel, last),
        (_IMAGE, _DEPTHWISE, (1, 1, 64, 128)), (_LITTLE, (3, 3, 4, 1), (1, 1, 4, 5)),
        _DEPTHWISE_FLOPS + 2 * prod(_IMAGE) * 128, 1.0,
    ),
    _workload(
        "transposed", "conv2d_transpose, 4x4 with stride 2, 32x28x28x64 to 56x56x32",
        lambda F, x, kernel: F.transposed(x, kernel, (56, 56), 2),
        ((32, 28, 28, 64), (4, 4, 32, 64)), ((2, 4, 3, 5), (4, 4, 3, 5)),
        2 * 32 * 28 * 28 * 64 * 16 * 32, 1.05,
        lambda F, x, kernel: F.transposed(x, kernel, (8, 6), 2),
    ),
    _workload(
        "local", "local_conv2d, 3x3, 64x12x12x8 to 16", lambda F, x, kernel: F.local(x, kernel),
        ((64, 12, 12, 8), (100, 72, 16)), ((2, 5, 4, 3), (6, 27, 5)), 2 * 64 * 100 * 72 * 16, 1.05,
    ),
]  # fmt: skip
