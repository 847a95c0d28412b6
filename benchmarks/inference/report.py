"""Tables of what was measured, and the page that holds them below its hand-written part."""

from __future__ import annotations

from typing import Any

from tables import middle_half, seconds, table, wrong

from .cases import CASES

DRAWN = "<!-- from here on drawn by kbench bench --inference -->"
Rows = dict[str, dict[str, dict[str, Any]]]


def ratio(rows: dict[str, dict[str, Any]]) -> tuple[str, float] | None:
    """The fastest other library, and kbench's time by its."""
    right = {name: row["median"] for name, row in rows.items() if "error" not in row}
    others = {name: time for name, time in right.items() if name != "kbench"}
    if "kbench" not in right or not others:
        return None
    best = min(others, key=lambda name: others[name])
    return best, right["kbench"] / others[best]


def _load(report: dict[str, Any]) -> str:
    """How busy the machine was; what is measured adds to it."""
    return f"load {report['load_before'][0]:.1f} before and {report['load_after'][0]:.1f} after"


def _first(row: dict[str, Any]) -> str:
    cold = f", cold {seconds(row['cold'])}" if row.get("cold") else ""
    return f"{seconds(row['start'])} ({seconds(row['load'] + row['call'])}{cold})"


def _memory(row: dict[str, Any]) -> str:
    return f"{row['peak'] / 1e6:.0f} MB (+{(row['peak'] - row['before']) / 1e6:.0f})"


def _lines(rows: Rows, names: list[str], cell: Any, last: Any = None) -> list[list[str]]:
    lines = []
    for name, found in rows.items():
        cells = [f"`{name}`"]
        for one in names:
            row = found.get(one, {"error": "not measured"})
            cells.append(wrong(row) if "error" in row else cell(row))
        lines.append([*cells, *(last(found) if last else [])])
    return lines


def _ratio_cells(found: dict[str, dict[str, Any]]) -> list[str]:
    best = ratio(found)
    return [best[0], f"{best[1]:.2f}"] if best else ["", ""]


def inference_tables(report: dict[str, Any]) -> str:
    """What ran where, the times, the first results, the memory."""
    rows, versions = report["rows"], report["versions"]
    names = list(dict.fromkeys(name for found in rows.values() for name in found))
    where = (
        f"{report['cpu']}, {report['threads']} threads, Python {report['python']}, "
        f"{report['when']}, {_load(report)}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + "."
    )
    notes = [[f"`{name}`", CASES[name].note, str(CASES[name].batch)] for name in rows]
    times = _lines(rows, names, middle_half, _ratio_cells)
    return "\n\n".join(
        [
            where,
            table(["case", "what", "samples in a call"], notes),
            "Time per call: median (middle half). Ratio: kbench to the faster of the others; below "
            "1 kbench is faster.",
            table(["case", *names, "fastest other", "ratio"], times),
            "First result, from the start of the process; in brackets from where the library is "
            'loaded and the model is not. "Cold" is the first process of all, for which kbench has '
            "no kernels.",
            table(["case", *names], _lines(rows, names, _first)),
            "Peak memory of the process, and in brackets how much that is above what it had before "
            "the model.",
            table(["case", *names], _lines(rows, names, _memory)),
        ]
    )


def line(name: str, rows: dict[str, dict[str, Any]]) -> str:
    """One case in one line, for who watches the run."""
    parts = [f"{name:<16}"]
    for one, row in rows.items():
        parts.append(f"{one} {wrong(row) if 'error' in row else seconds(row['median'])}")
    best = ratio(rows)
    return "  ".join([*parts, f"| {best[1]:.2f} of {best[0]}"] if best else parts)
