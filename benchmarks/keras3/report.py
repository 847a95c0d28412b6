"""Tables of what was measured, and the page that holds them below its hand-written part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tables import middle_half, seconds, table, wrong

from .cases import BATCHES, CASES, FIRSTS

DRAWN = "<!-- from here on drawn by kbench bench --keras3 -->"
Rows = dict[str, dict[str, Any]]


def best_other(
    rows: Rows, time: Callable[[dict[str, Any]], float | None]
) -> tuple[str, float] | None:
    """The best other backend, and kbench's figure by its."""
    right = {name: time(row) for name, row in rows.items() if "error" not in row}
    others = {name: one for name, one in right.items() if name != "kbench" and one}
    own = right.get("kbench")
    if not own or not others:
        return None
    best = min(others, key=lambda name: others[name] or 0.0)
    return best, own / (others[best] or 1.0)


def _first(row: dict[str, Any]) -> str:
    return f"{middle_half(row)}, system {seconds(row['system'])}"


def _cells(
    rows: Rows,
    names: list[str],
    draw: Callable[[dict[str, Any]], str],
    time: Callable[[dict[str, Any]], float | None],
) -> list[str]:
    found = []
    for name in names:
        row = rows.get(name, {"error": "not measured"})
        found.append(wrong(row) if "error" in row else draw(row))
    best = best_other(rows, time)
    return [*found, *([best[0], f"{best[1]:.2f}"] if best else ["", ""])]


def keras3_tables(report: dict[str, Any]) -> str:
    """What ran where; steps, predictions, first steps, memory; eager calls; imports."""
    rows, names = report["rows"], report["names"]
    header = ["", *names, "best other", "ratio"]
    before, after = report["load_before"][0], report["load_after"][0]
    where = (
        f"{report['cpu']}, {report['threads']} threads, Python {report['python']}, "
        f"{report['when']}, load {before:.1f} before and {after:.1f} after; Keras "
        + "; ".join(report["versions"].values())
        + ". Ratio: kbench to the best of the others; below 1 kbench is better."
    )

    def models(
        draw: Callable[[dict[str, Any]], str], time: Callable[[dict[str, Any]], float | None]
    ) -> str:
        lines = [[f"`{name}`", *_cells(found, names, draw, time)] for name, found in rows.items()]
        return table(header, lines)

    def of(what: str) -> str:
        return models(lambda row: middle_half(row[what]), lambda row: row[what]["median"])

    parts = [where]
    if rows:
        notes = [[f"`{name}`", CASES[name].note, str(CASES[name].batch)] for name in rows]
        parts += [
            table(["model", "what", "batch"], notes),
            f"A step of `fit` over {BATCHES} batches: median (middle half).",
            of("fit"),
            "A batch of `predict`.",
            of("predict"),
            f"The first batch of `fit`, from the compiled model on: median of {FIRSTS} processes "
            "(least to most), and how long the system worked for it.",
            models(lambda row: _first(row["first"]), lambda row: row["first"]["median"]),
            "The same in the first process of all, for which kbench has no kernels.",
            models(lambda row: _first(row["cold"]), lambda row: row["cold"]["median"]),
            "Peak memory of the process.",
            models(lambda row: f"{row['peak'] / 1e6:.0f} MB", lambda row: row["peak"]),
        ]
    if report["eager"]:
        lines = [
            [
                f"`{call}`",
                *_cells(
                    found,
                    names,
                    lambda row: middle_half(row["call"]),
                    lambda row: row["call"]["median"],
                ),
            ]
            for call, found in report["eager"].items()
        ]
        parts += ["An eager call of `keras.ops`, with its result there.", table(header, lines)]
    if report["imports"]:
        imports = report["imports"]
        line = _cells(imports, names, middle_half, lambda row: row["median"])
        memory = _cells(
            imports, names, lambda row: f"{row['peak'] / 1e6:.0f} MB", lambda row: row["peak"]
        )
        parts += [
            "A process that imports Keras and ends: median (least to most), and its memory.",
            table(header, [["seconds", *line], ["memory", *memory]]),
        ]
    return "\n\n".join(parts)


def line(name: str, rows: Rows) -> str:
    """One model in one line, for who watches the run."""
    parts = [f"{name:<12}"]
    for one, row in rows.items():
        parts.append(f"{one} {wrong(row) if 'error' in row else seconds(row['fit']['median'])}")
    best = best_other(rows, lambda row: row["fit"]["median"])
    return "  ".join([*parts, f"| {best[1]:.2f} of {best[0]}"] if best else parts)
