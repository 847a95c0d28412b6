"""docs/speed.md from the JSON of `kbench bench`: the families, and each workload in one short row.

kbench bench --json all.json
python benchmarks/page.py all.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from figures import has_kept, ratio, roof, shortfall
from tables import Rows, number, percent, seconds, summary, table
from workloads import WORKLOADS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "speed.md"

_INTRO = """# How fast it is

Every workload is written once and run by each library in a process of its own, in turns, after its
values were compared with those of float64. The ratio is kbench's median time to that of the fastest
other library: below 1, kbench is faster. "Kept" is the same where the others keep freed memory
instead of giving it back to the system, which kbench does by itself; it matters for results over
32 MiB.
`kbench bench` repeats this on your machine; figures of another machine are no promise for it.
[scaling.md](scaling.md) tells what more cores would give. [inference.md](inference.md)
has models of Keras beside ONNX Runtime and OpenVINO."""


def page(report: dict[str, Any]) -> str:
    """The whole page."""
    machine, limits = report["machine"], report["limits"]
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    where = (
        f"{machine['cpu']}, {report['threads']} threads, Python {machine['python']}, "
        f"{report['when'].split()[0]}; {versions}. The best copy moves {limits['copy'] / 1e9:.1f} "
        f"GB/s, the best product of matrices does {limits['gemm'] / 1e9:.0f} GFLOP/s."
    )
    rows = report["rows"]
    header = ["workload", "what", "kbench", "fastest other", "ratio", "kept", "of the limit"]
    lines = [_line(name, rows[name], limits) for name in rows]
    missed = [name for name in rows if (shortfall(name, rows[name]) or 0) > 1]
    goals = (
        f"{len(rows) - len(missed)} of {len(rows)} reach what we aim at; the others are marked !."
    )
    return "\n\n".join([_INTRO, where, summary(rows), goals, table(header, lines)]) + "\n"


def _line(name: str, rows: Rows, limits: dict[str, float]) -> list[str]:
    ours, found = rows["kbench"], ratio(rows)
    if "median" not in ours or found is None:
        return [f"`{name}`", WORKLOADS[name].note, "", "", "", "", ""]
    peer, value = found
    kept = ratio(rows, kept=True) if has_kept(rows) else None
    mark = " !" if (shortfall(name, rows) or 0) > 1 else ""
    return [
        f"`{name}`",
        WORKLOADS[name].note,
        seconds(ours["median"]),
        f"{peer} {seconds(rows[peer]['median'])}",
        f"{value:.2f}{mark}",
        number(kept[1] if kept else None),
        percent(roof(name, ours, limits)),
    ]


def main() -> int:
    """Write the page."""
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    PAGE.write_text(page(report), encoding="utf-8")
    print(f"{PAGE}: {len(report['rows'])} workloads")
    return 0


if __name__ == "__main__":
    sys.exit(main())
