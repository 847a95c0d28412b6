"""What plan views say of a step and of the machine it ran on, in the terminal and in notebooks."""

from __future__ import annotations

from dataclasses import asdict

from kbench.workbench.core_types import Row


def of_limit(row: Row, limits: Row | None) -> str:
    """A step's rate as a part of what the machine can do: of arithmetic, of memory, or of the
    caches where these hold what it moves. Nothing does more than all.
    """
    if not limits or row.get("form") == "view":  # a view moves nothing
        return "-"
    double = str(row.get("spec") or "").startswith("float64")
    most = limits.get("gemm_float64" if double else "gemm_float32")
    parts = [
        (float(row.get(rate) or 0.0) / float(limit), word)
        for rate, limit, word in (
            ("gb_per_s", *moving(limits, int(row.get("bytes") or 0))),
            ("gflop_per_s", most, "flop"),
        )
        if limit
    ]
    part, word = max(parts, default=(0.0, ""))
    return f"{min(part, 1.0) * 100:.0f}% {word}" if part >= 0.005 else "-"


def moving(limits: Row, moved: int) -> tuple[float, str]:
    """The rate at which so many bytes can be moved at best, and from where.

    >>> moving({"copy_gb_per_s": 20.0, "cached": [(1000, 90.0), (4000, 50.0)], "cache": 9000}, 5000)
    (50.0, 'cache')
    """
    memory = max(float(limits.get("copy_gb_per_s") or 0), float(limits.get("read_gb_per_s") or 0))
    cached = limits.get("cached") or ()
    if not 0 < moved <= int(limits.get("cache") or 0) or not cached:
        return memory, "mem"
    least = max((size for size, _ in cached if size <= moved), default=0)
    return max(memory, *(float(rate) for size, rate in cached if size >= least)), "cache"


def known_limits() -> Row | None:
    """What this machine can do at best, if it was ever measured."""
    from kbench.engine.inspect import roofline

    found = roofline.known()
    return None if found is None else asdict(found)


def machine(limits: Row) -> str:
    """What this machine can do at best, as it was measured."""
    cached = [float(rate) for _, rate in limits.get("cached") or ()]
    caches = f" ({min(cached):.0f} to {max(cached):.0f} from the caches)" if cached else ""
    memory = moving({**limits, "cached": ()}, 0)[0]
    return (
        f"this machine with {limits['threads']} threads: {memory:.1f} GB/s{caches}, "
        f"{limits['gemm_float32']:.0f} GFLOP/s in float32, "
        f"{limits['gemm_float64']:.0f} in float64"
    )
