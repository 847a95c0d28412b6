"""The steps of a recorded run as a table: what, in which form, how long, how fast."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.api.differences import seconds
from kbench.engine.inspect import describe
from kbench.notebook.markup.columns import Columns, share, span
from kbench.notebook.markup.markup import Html
from kbench.workbench.analysis import plan_text
from kbench.workbench.protocol.runs import Limits, PlanStep

STEPS = Columns(
    "kb-plan",
    ("step", "form", "time", "share", "moved", "GB/s", "GFLOP/s", "made at"),
    {"GFLOP/s": 720, "made at": 660, "GB/s": 560, "moved": 500, "form": 430, "share": 330},
)
"""Of a run; what it is and its time stay longest."""
STEPS_OF_PEAK = Columns(
    "kb-peak",
    ("step", "form", "time", "share", "% of peak", "moved", "GB/s", "GFLOP/s", "made at"),
    {
        "GFLOP/s": 820,
        "made at": 760,
        "GB/s": 650,
        "moved": 590,
        "% of peak": 520,
        "form": 430,
        "share": 330,
    },
)
MAX_STEPS = 40
"""Of a table."""


def table(
    steps: Sequence[PlanStep],
    whole: float,
    limits: Limits | None = None,
    of_peak: bool = False,
    page: tuple[int, int] = (0, MAX_STEPS),
) -> Html:
    """The steps of a run of `whole` seconds: what, in which form, how long, how fast.

    `of_peak`: with a column of each step's part of `limits`, the best rates of this machine.
    `page` is where it begins and how many steps it has; the style of the columns goes with it.
    """
    start, most = page
    lines = [
        (
            f"{row.step} {row.op}",
            row.form,
            seconds(row.seconds),
            share(row.seconds / whole if whole > 0 else 0.0),
            *([plan_text.of_limit(row, limits)] if of_peak else []),
            describe.size(row.bytes),
            "-" if row.gb_per_s is None else f"{row.gb_per_s:.3g}",
            "-" if not row.flops else f"{row.gflop_per_s:.3g}",
            row.place or "",
        )
        for row in steps[start : start + most]
    ]
    caption = f"{span(start, len(lines), len(steps), 'step')}, {seconds(whole)} in all"
    return columns(of_peak).drawn(caption, lines)


def columns(of_peak: bool) -> Columns:
    """The columns of such a table; their style goes with it."""
    return STEPS_OF_PEAK if of_peak else STEPS
