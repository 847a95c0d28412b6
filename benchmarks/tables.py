"""The measured numbers as Markdown tables."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from figures import KEPT, OTHERS, SEPARATE, families, has_kept, ratio, roof, shortfall
from first import reached
from fresh import FRESH
from workloads import WORKLOADS

Rows = dict[str, dict[str, Any]]
TOLD = 0.02  # seconds of system time that are worth telling; its clock ticks every 10 ms


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(value) * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def drawn_below(mark: str, text: str, file: Path) -> str:
    """The text, below what stands in the file above its mark."""
    before = file.read_text(encoding="utf-8") if file.is_file() else ""
    above, found, _ = before.partition(mark)
    return f"{above}{mark}\n\n{text}" if found else text


def write_report(report: dict[str, Any], text: str, mark: str, options: argparse.Namespace) -> None:
    """The files that `--json` and `--markdown` name; tables below the mark of the page."""
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        file = Path(options.markdown)
        file.write_text(drawn_below(mark, text, file) + "\n", encoding="utf-8")


def wrong(row: dict[str, Any]) -> str:
    """The error of a row, for a cell of a table."""
    return f"!! {row['error']}".replace("|", "/").replace("\n", " ")


def middle_half(row: dict[str, Any]) -> str:
    """The median of a row, and the half of all times around it."""
    return f"{seconds(row['median'])} ({seconds(row['low'])} to {seconds(row['high'])})"


def _cell(row: dict[str, Any] | None, kept: dict[str, Any] | None = None) -> str:
    if row is None or "absent" in row:
        return ""
    if "error" in row:
        return wrong(row)
    text = middle_half(row)
    return f"{text}, kept {seconds(kept['median'])}" if kept and "median" in kept else text


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _goal(name: str) -> str:
    texts = []
    for goal in WORKLOADS[name].goals:
        peer = f" of {goal.peer}" if goal.peer else ""
        texts.append(f"{goal.factor:g}{peer}" + (f" + {seconds(goal.plus)}" if goal.plus else ""))
    return " and ".join(texts)


def _verdict(name: str, rows: Rows, kept: bool = False) -> str:
    missed = shortfall(name, rows, kept=kept)
    if missed is None:
        return ""
    return "met" if missed <= 1 else f"missed by {100 * (missed - 1):.0f} %"


def line(name: str, rows: Rows) -> str:
    """One workload in one line, for who watches the run."""
    parts = [f"{name:<28}"]
    ours = rows["kbench"]
    parts.append(f"{seconds(ours['median']):>8}" if "median" in ours else f"!! {ours.get('error')}")
    for label, row in rows.items():
        if label != "kbench" and "absent" not in row:
            parts.append(f"{label} {seconds(row['median']) if 'median' in row else '!!'}")
    for kept in [False, True][: 1 + has_kept(rows)]:
        found = ratio(rows, kept=kept)
        if found:
            word = "kept " if kept else ""
            parts.append(f"| {word}{found[1]:.2f} of {found[0]} {_verdict(name, rows, kept)}")
    return "  ".join(parts)


def _line(name: str, rows: Rows, libraries: list[str], limits: dict[str, float]) -> list[str]:
    ours = rows["kbench"]
    cells = [f"`{name}`", WORKLOADS[name].note]
    cells.append(seconds(ours["first"]) if "first" in ours else "")
    cells += [_cell(rows.get(label), rows.get(label + KEPT)) for label in libraries]
    found, best = ratio(rows), ratio(rows, "best")
    kept = ratio(rows, kept=True) if has_kept(rows) else None
    cells += [found[0], number(found[1])] if found else ["", ""]
    cells += [number(best[1] if best else None), number(kept[1] if kept else None)]
    cells += [_goal(name), _verdict(name, rows)]
    return [*cells, _rate(name, ours), percent(roof(name, ours, limits))]


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _rate(name: str, row: dict[str, Any]) -> str:
    one = WORKLOADS[name]
    if "median" not in row or "error" in row:
        return ""
    if one.flops:
        return f"{one.flops / row['median'] / 1e9:.0f} GFLOP/s"
    return f"{one.traffic / row['median'] / 1e9:.1f} GB/s" if one.traffic else ""


def table(header: list[str], lines: list[list[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def markdown(report: dict[str, Any]) -> str:
    """The whole report: what ran where, the workloads, the summary, the fresh processes."""
    machine, limits = report["machine"], report["limits"]
    before, after = report["load_before"][0], report["load_after"][0]
    parts = [
        f"{machine['cpu']}, {report['threads']} threads, Python {machine['python']}, "
        f"{report['when']}, load {before:.1f} before and {after:.1f} after, "
        f"{report['seconds']:.0f} s.",
    ]
    if report["rows"]:
        parts += _workloads(report, limits)
    if len(report["runs"]) > 1:
        parts.append(_scaling(report["runs"]))
    if report["first"]:
        parts.append(_first(report["first"]))
    for name, rows in report["memory"].items():
        parts.append(_memory(name, rows))
    if report["fresh"]:
        lines = [_fresh_line(name, row) for name, row in report["fresh"].items()]
        parts.append(table(["fresh process", "what", "median", "best", "worst"], lines))
    return "\n\n".join(parts)


def _workloads(report: dict[str, Any], limits: dict[str, float]) -> list[str]:
    libraries = list(report["versions"])
    header = ["workload", "what", "first call", *libraries, "best peer", "ratio"]
    header += ["of the best calls", "kept", "goal", "reached", "rate", "of the limit"]
    lines = [_line(name, rows, libraries, limits) for name, rows in report["rows"].items()]
    return [
        "Time per call: median (middle half). Ratio: kbench to the fastest peer; below 1 kbench "
        "is faster. Kept: the same where peers keep freed memory. On a machine with other work, "
        "compare the best calls.",
        f"The best copy reads and writes {limits.get('copy', 0) / 1e9:.1f} GB/s, the best "
        f"product of matrices does {limits.get('gemm', 0) / 1e9:.0f} GFLOP/s.",
        ", ".join(f"{name} {report['versions'][name]}" for name in libraries),
        table(header, lines),
        summary(report["rows"]),
    ]


def summary(rows: dict[str, Rows]) -> str:
    """Families, and how many goals are reached."""
    usual, kept = families(rows), families(rows, kept=True)
    best = families(rows, "best")
    lines = []
    for family in usual:
        names = [name for name in rows if family == WORKLOADS[name].family]
        if family == OTHERS:
            names = [name for name in rows if WORKLOADS[name].family != SEPARATE]
        missed = [shortfall(name, rows[name]) for name in names]
        judged = [one for one in missed if one is not None]
        met = f"{sum(one <= 1 for one in judged)} of {len(judged)}"
        means = [number(one[family]) for one in (usual, best, kept)]
        lines.append([family, *means, met])
    header = ["family", "geometric mean of the ratios", "of the best calls", "kept", "goals met"]
    return table(header, lines)


def _scaling(runs: dict[str, Any]) -> str:
    """Times of kbench by the number of threads."""
    counts = list(runs)
    lines = []
    for name in runs[counts[0]]["rows"]:
        rows = [runs[count]["rows"].get(name, {}).get("kbench", {}) for count in counts]
        cells = [seconds(row["median"]) if "median" in row else "" for row in rows]
        first, last = rows[0].get("median"), rows[-1].get("median")
        if first and last:
            share = parallel_share(first / last, int(counts[-1]) / int(counts[0]))
            cells += [f"{first / last:.2f}", percent(share)]
        lines.append([f"`{name}`", *cells])
    header = ["kbench", *(f"{count} threads" for count in counts), "speed-up", "parallel share"]
    note = "Parallel share: what part of the time of one thread, by Amdahl's law, is shared out."
    return f"{note}\n\n{table(header, lines)}"


def parallel_share(speedup: float, threads: float) -> float:
    """The part of a time that `threads` times as many threads share out, by Amdahl's law.

    A memory that one thread can nearly fill makes it look smaller than the work that is shared.
    """
    return min(1.0, max(0.0, (1 - 1 / speedup) / (1 - 1 / threads)))


def _fresh_line(name: str, row: dict[str, Any]) -> list[str]:
    head = [f"`{name}`", FRESH[name].note]
    if "error" in row:
        return [*head, f"!! {row['error']}", "", ""]
    return [*head, *(seconds(row[key]) for key in ("median", "best", "worst"))]


def _first_cells(row: dict[str, Any]) -> list[str]:
    marks = ["" if one else " !" for one in reached(row)]
    numpy = row["numpy"]
    return [
        seconds(row["usual"]),
        f"{seconds(row['warm'])}{_of_system(row['warm_system'])}{marks[0]}",
        seconds(numpy),
        f"{seconds(row['cold'])} ({row['cold'] / numpy:.1f})"
        f"{_of_system(row['cold_system'])}{marks[1]}",
        f"{seconds(row['following'])} ({row['following'] / numpy:.1f}){marks[2]}",
    ]


def _of_system(share: float) -> str:
    """What the system took, as far as its clock can tell."""
    return f", {seconds(share)} in the system" if share >= TOLD else ""


def first_line(name: str, row: dict[str, Any]) -> str:
    """One workload's first calls in one line."""
    words = ("usual", "first with cache", "numpy", "first without", "slowest following")
    if "error" in row:
        return f"{name:<28}!! {row['error']}"
    pairs = zip(words, _first_cells(row), strict=True)
    return f"{name:<28}" + ", ".join(f"{word} {cell}" for word, cell in pairs)


def _first(rows: Rows) -> str:
    header = ["fresh process", "usual call", "first call, kernels in the cache", "NumPy"]
    header += ["first call, empty cache (to NumPy)", "slowest of the next (to NumPy)"]
    lines = []
    for name, row in rows.items():
        cells = [f"!! {row['error']}", *[""] * 4] if "error" in row else _first_cells(row)
        lines.append([f"`{name}`", *cells])
    good = [reached(row) for row in rows.values() if "error" not in row]
    met = [f"{sum(one[at] for one in good)} of {len(good)}" for at in range(3)]
    lines.append(["in time", "", met[0], "", *met[1:]])
    return table(header, lines)


def _memory(name: str, rows: Rows) -> str:
    """Megabytes by library."""
    header = [name, "after the import", "in use, warm", "peak of the steps", "peak of all"]
    header += ["growth over 1,000 steps"]
    keys = ("import", "now", "steps", "all", "growth")
    lines = []
    for library, row in rows.items():
        cells = [f"{row[key] / 1e6:.0f} MB" if key in row else "" for key in keys]
        cells[0] = f"!! {row['error']}" if "error" in row else cells[0]
        lines.append([library, *cells])
    return table(header, lines)
