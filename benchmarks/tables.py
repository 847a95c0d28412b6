"""The measured numbers as Markdown tables."""

from __future__ import annotations

from typing import Any

from fresh import FRESH
from workloads import WORKLOADS


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(value) * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if "error" in row:
        return f"!! {row['error']}"
    return f"{seconds(row['median'])} ({seconds(row['low'])} to {seconds(row['high'])})"


def _ratio(rows: dict[str, Any], figure: str) -> tuple[str, str]:
    """The fastest peer by `figure` ("median" or "best") and kbench's ratio to it."""
    peers = {name: row[figure] for name, row in rows.items() if name != "kbench" and figure in row}
    if not peers or figure not in rows["kbench"]:
        return "", ""
    fastest = min(peers, key=lambda one: peers[one])
    return fastest, f"{rows['kbench'][figure] / peers[fastest]:.2f}"


def _line(name: str, rows: dict[str, Any], libraries: list[str]) -> list[str]:
    ours = rows["kbench"]
    cells = [f"`{name}`", WORKLOADS[name].note]
    cells.append(seconds(ours["first"]) if "first" in ours else "")
    cells += [_cell(rows.get(library)) for library in libraries]
    cells += [*_ratio(rows, "median"), _ratio(rows, "best")[1]]
    traffic = WORKLOADS[name].traffic
    rate = f"{traffic / ours['median'] / 1e9:.1f} GB/s" if traffic and "median" in ours else ""
    return [*cells, rate]


def _table(header: list[str], lines: list[list[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def markdown(report: dict[str, Any]) -> str:
    """The whole report: what ran where, the workloads, the fresh processes."""
    machine = report["machine"]
    before, after = report["load_before"][0], report["load_after"][0]
    parts = [
        f"{machine['cpu']}, {machine['threads']} threads, Python {machine['python']}, "
        f"{report['when']}, load {before:.1f} before and {after:.1f} after.",
        "Time per call: median (middle half). Ratio: kbench to the fastest peer; "
        "below 1 kbench is faster. On a machine with other work, compare the best calls.",
    ]
    libraries = [name for name in report["versions"] if report["versions"][name]]
    if report["rows"]:
        parts.append(", ".join(f"{name} {report['versions'][name]}" for name in libraries))
        header = ["workload", "what", "first call", *libraries, "best peer", "ratio"]
        header += ["of the best calls", "rate"]
        lines = [_line(name, rows, libraries) for name, rows in report["rows"].items()]
        parts.append(_table(header, lines))
    if report["fresh"]:
        lines = [_fresh_line(name, row) for name, row in report["fresh"].items()]
        parts.append(_table(["fresh process", "what", "median", "best", "worst"], lines))
    return "\n\n".join(parts)


def _fresh_line(name: str, row: dict[str, Any]) -> list[str]:
    head = [f"`{name}`", FRESH[name].note]
    if "error" in row:
        return [*head, f"!! {row['error']}", "", ""]
    return [*head, *(seconds(row[key]) for key in ("median", "best", "worst"))]
