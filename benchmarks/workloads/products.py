"""Matrix products, single and in batches."""

from __future__ import annotations

from workloads.base import Goal, Workload, at_most, normal


def _dot(side: int) -> Workload:
    return Workload(
        f"dot.{side}",
        f"{side}x{side} by {side}x{side}",
        normal((side, side), (side, side)),
        lambda F, x, y: F.dot(x, y),
        flops=2 * side**3,
        tolerance=5e-6,
        # The smallest is mostly what surrounds it: as NumPy's call of BLAS, and half of it more.
        goals=(Goal(1.5, "numpy"),) if side == 64 else at_most(1.03),
        small=normal((5, 6), (6, 7)),
        long=side in (128, 512),
    )


def _dense(name: str, note: str, rows: int, depth: int, columns: int) -> Workload:
    return Workload(
        f"dot.{name}",
        f"{note}: {rows}x{depth} by {depth}x{columns}",
        normal((rows, depth), (depth, columns)),
        lambda F, x, y: F.dot(x, y),
        flops=2 * rows * depth * columns,
        tolerance=5e-6,
        goals=at_most(1.03),
        small=normal((3, 5), (5, 4)),
    )


WORKLOADS = [
    *map(_dot, (64, 128, 256, 512, 1024, 2048)),
    _dense("dense_32", "a layer of 1024 units for 32 samples", 32, 1024, 1024),
    _dense("dense_128", "a layer of 1000 units for 128 samples", 128, 1000, 1000),
    _dense("shallow", "a small depth", 1000, 20, 1000),
    Workload(
        "dot.batch",
        "batch_dot, 64 of 256x256 by 256x256",
        normal((64, 256, 256), (64, 256, 256)),
        lambda F, x, y: F.batch_dot(x, y),
        flops=2 * 64 * 256**3,
        tolerance=5e-6,
        goals=at_most(1.03),
        small=normal((3, 4, 5), (3, 5, 2)),
    ),
]
