"""What plan views say of a step and of the machine it ran on, in the terminal and in notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

Row = Mapping[str, Any]


def of_limit(row: Row, limits: Row | None) -> str:
    """A step's rate as a part of what the machine can do: of memory or of arithmetic."""
    if not limits or row.get("form") == "view":  # a view moves nothing
        return "-"
    double = str(row.get("spec") or "").startswith("float64")
    most = limits.get("gemm_float64" if double else "gemm_float32")
    parts = [
        (float(row.get(rate) or 0.0) / float(limit), word)
        for rate, limit, word in (
            ("gb_per_s", limits.get("copy_gb_per_s"), "mem"),
            ("gflop_per_s", most, "flop"),
        )
        if limit
    ]
    part, word = max(parts, default=(0.0, ""))
    return f"{part * 100:.0f}% {word}" if part >= 0.005 else "-"


def known_limits() -> Row | None:
    """What this machine can do at best, if it was ever measured."""
    from kbench.engine.kernels import limits

    found = limits.known()
    return None if found is None else asdict(found)


def machine(limits: Row) -> str:
    """What this machine can do at best, as it was measured."""
    return (
        f"this machine with {limits['threads']} threads: {limits['copy_gb_per_s']:.1f} GB/s, "
        f"{limits['gemm_float32']:.0f} GFLOP/s in float32, "
        f"{limits['gemm_float64']:.0f} in float64"
    )
