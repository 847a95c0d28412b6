"""docs/speed.md from the JSON of `kbench bench`: the families, and each workload in one short row.

kbench bench --json all.json
python benchmarks/page.py all.json
python benchmarks/page.py all.json again.json --avx2    docs/speed_avx2.md, of another machine

Rows of a later file stand in place of those of an earlier one.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from figures import has_kept, ratio, roof, shortfall
from tables import Rows, number, percent, seconds, summary, table
from workloads import WORKLOADS

DOCS = Path(__file__).resolve().parents[1] / "docs"

_INTRO = """# How fast it is

Every workload is written once and run by each library in a process of its own, in turns, after its
values were compared with those of float64. The ratio is kbench's median time to that of the fastest
other library: below 1, kbench is faster. "Kept" is the same where the others keep freed memory
instead of giving it back to the system, which kbench does by itself; it matters for results over
32 MiB.
`kbench bench` repeats this on your machine; figures of another machine are no promise for it.
[speed_avx2.md](speed_avx2.md) is of a processor without AVX-512. [scaling.md](scaling.md) tells
what more cores would give. [inference.md](inference.md) has models of Keras beside ONNX Runtime and
OpenVINO."""

_INTRO_AVX2 = """# How fast it is without AVX-512

The workloads of [speed.md](speed.md), in the same way, on an older processor that knows AVX2 and
multiply-adds. Fresh memory is dear on this machine: the system takes about 2 ms for a megabyte. So
"kept" says more than the ratio where results are over 32 MiB: there the others keep freed memory,
as kbench does by itself."""


def page(report: dict[str, Any], intro: str = _INTRO) -> str:
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
    return "\n\n".join([intro, where, summary(rows), goals, table(header, lines)]) + "\n"


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
    parser = argparse.ArgumentParser(description="docs/speed.md from the JSON of kbench bench")
    parser.add_argument("reports", nargs="+", type=Path)
    parser.add_argument("--avx2", action="store_true", help="docs/speed_avx2.md instead")
    options = parser.parse_args()
    report, *later = [json.loads(one.read_text(encoding="utf-8")) for one in options.reports]
    for one in later:
        report["rows"].update(one["rows"])
    name, intro = ("speed_avx2.md", _INTRO_AVX2) if options.avx2 else ("speed.md", _INTRO)
    (DOCS / name).write_text(page(report, intro), encoding="utf-8")
    print(f"{DOCS / name}: {len(report['rows'])} workloads")
    return 0


if __name__ == "__main__":
    sys.exit(main())
