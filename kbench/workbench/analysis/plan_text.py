"""What plan views say of a step and of the machine it ran on, in the terminal and in notebooks."""

from __future__ import annotations

from msgspec.structs import asdict

from kbench.workbench.protocol.runs import Limits, PlanStep


def of_limit(row: PlanStep, limits: Limits | None) -> str:
    """A step's rate as a part of what the machine can do: of arithmetic, of memory, or of the
    caches where these hold what it moves. Nothing does more than all.
    """
    if limits is None or row.form == "view":  # a view moves nothing
        return "-"
    double = row.spec.startswith("float64")
    most = limits.gemm_float64 if double else limits.gemm_float32
    parts = [
        ((rate or 0.0) / limit, word)
        for rate, limit, word in (
            (row.gb_per_s, *moving(limits, row.bytes)),
            (row.gflop_per_s, most, "flop"),
        )
        if limit
    ]
    part, word = max(parts, default=(0.0, ""))
    return f"{min(part, 1.0) * 100:.0f}% {word}" if part >= 0.005 else "-"


def moving(limits: Limits, moved: int) -> tuple[float, str]:
    """The rate at which so many bytes can be moved at best, and from where.

    >>> measured = {"copy_gb_per_s": 20.0, "gemm_float32": 90.0, "gemm_float64": 45.0, "threads": 2}
    >>> moving(Limits(**measured, cached=[[1000, 90.0], [4000, 50.0]], cache=9000), 5000)
    (50.0, 'cache')
    """
    memory = max(limits.copy_gb_per_s, limits.read_gb_per_s)
    cached = limits.cached
    if not 0 < moved <= limits.cache or not cached:
        return memory, "mem"
    least = max((size for size, _ in cached if size <= moved), default=0)
    return max(memory, *(rate for size, rate in cached if size >= least)), "cache"


def known_limits() -> Limits | None:
    """What this machine can do at best, if it was ever measured."""
    from kbench.engine.inspect import roofline

    found = roofline.known()
    return None if found is None else Limits.built(asdict(found))


def machine(limits: Limits) -> str:
    """What this machine can do at best, as it was measured."""
    cached = [rate for _, rate in limits.cached or ()]
    caches = f" ({min(cached):.0f} to {max(cached):.0f} from the caches)" if cached else ""
    memory = moving(limits, 0)[0]
    return (
        f"this machine with {limits.threads} threads: {memory:.1f} GB/s{caches}, "
        f"{limits.gemm_float32:.0f} GFLOP/s in float32, "
        f"{limits.gemm_float64:.0f} in float64"
    )
