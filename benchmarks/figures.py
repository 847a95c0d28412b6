"""What the measured times mean: the fastest peer, the ratio to it, goals, families, limits."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log
from typing import Any

from workloads import WORKLOADS

KEPT = "+kept"  # ends the label of a process that keeps freed memory

BEFORE = "before"  # the label of another tree of kbench, which no goal speaks of

SEPARATE = "tiny"  # the family that has no part in the overall mean
OTHERS = "all others"  # that mean

Rows = dict[str, dict[str, Any]]


def peer_times(rows: Rows, figure: str = "median", kept: bool = False) -> dict[str, float]:
    """Seconds by peer; with `kept`, those of the processes that keep freed memory, too."""
    times: dict[str, float] = {}
    for label, row in rows.items():
        if label == "kbench" or figure not in row or "error" in row:
            continue
        name = label.removesuffix(KEPT)
        if kept or name == label:
            times[name] = min(row[figure], times.get(name, float("inf")))
    return times


def has_kept(rows: Rows) -> bool:
    """Whether both modes of the allocator were measured."""
    return any(label.endswith(KEPT) for label in rows)


def ratio(rows: Rows, figure: str = "median", kept: bool = False) -> tuple[str, float] | None:
    """The fastest peer, and kbench's time as a part of its."""
    times, ours = peer_times(rows, figure, kept), rows.get("kbench", {})
    if not times or figure not in ours or "error" in ours:
        return None
    fastest = min(times, key=lambda one: times[one])
    return fastest, ours[figure] / times[fastest]


def shortfall(name: str, rows: Rows, figure: str = "median", kept: bool = False) -> float | None:
    """kbench's time as a part of what the goals allow: above 1 is missed; None without goal."""
    times, ours = peer_times(rows, figure, kept), rows.get("kbench", {})
    times.pop(BEFORE, None)
    if figure not in ours or "error" in ours:
        return None
    limits = [goal.limit(times) for goal in WORKLOADS[name].goals]
    return max((ours[figure] / one for one in limits if one), default=None)


def roof(name: str, row: dict[str, Any], limits: dict[str, float]) -> float | None:
    """The part of the machine's limit that a time reaches: the larger of the two bounds."""
    one, parts = WORKLOADS[name], []
    if "median" in row and one.traffic and limits.get("copy"):
        parts.append(one.traffic / limits["copy"] / row["median"])
    if "median" in row and one.flops and limits.get("gemm"):
        parts.append(one.flops / limits["gemm"] / row["median"])
    return max(parts, default=None)


def geometric(values: Iterable[float]) -> float | None:
    """The geometric mean; None of nothing."""
    logs = [log(one) for one in values if one > 0]
    return exp(sum(logs) / len(logs)) if logs else None


def families(
    rows: dict[str, Rows], figure: str = "median", kept: bool = False
) -> dict[str, float | None]:
    """The geometric mean of the ratios by family, and of all of them but the tiny ones, which
    measure what a call costs and have goals of their own."""
    found: dict[str, list[float]] = {}
    for name, one in rows.items():
        measured = ratio(one, figure, kept)
        if measured:
            found.setdefault(WORKLOADS[name].family, []).append(measured[1])
    means = {family: geometric(values) for family, values in found.items()}
    found.pop(SEPARATE, None)
    return {**means, OTHERS: geometric(one for values in found.values() for one in values)}
