"""Memory of the training steps: the peak of each library's process, and whether kbench grows."""

from __future__ import annotations

from typing import Any

from measuring import SEED
from process import Process
from workloads import Workload

_WARM, _WATCHED, _LONG = 20, 50, 1000  # steps


def measure_memory(one: Workload, process: Process, long: bool) -> dict[str, Any]:
    """Bytes: after the import, in use when warm, the peak of the steps after that, the peak of all;
    with `long`, also how much a thousand steps add."""
    before = process.ask("memory", reset=True)
    ready = process.ask("prepare", 90.0, workload=one.name, seed=SEED)
    for answer in (before, ready):
        if "error" in answer:
            return {"error": answer["error"]}
    process.ask("warm", seconds=0.1)
    process.ask("calls", 120.0, count=_WARM)
    warm = process.ask("memory", reset=True)
    process.ask("calls", 120.0, count=_WATCHED)
    after = process.ask("memory", reset=False)
    if "error" in after:
        return {"error": after["error"]}
    row = {
        "import": before["now"],
        "now": warm["now"],
        "steps": after["peak"],
        "all": max(warm["peak"], after["peak"]),
    }
    if long:
        process.ask("calls", 600.0, count=_LONG)
        row["growth"] = process.ask("memory", reset=False)["now"] - after["now"]
    return row
