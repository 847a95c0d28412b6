"""What a run did: `view` is the place of two tables, `steps` of a run and `workers` of a job;
`controller` fills them.
"""

from __future__ import annotations

from kbench.tui.keys.key import Key
from kbench.tui.panes.spec import PaneSpec, Taker

KEYS = (
    Key("plan", "trace_run", "t", "trace", "trace where the run's NaN or Inf came from"),
    Key("plan", "plan_sort", "s", "sort", "in the order of the run, or the slowest first"),
    Key("plan", "plan_unfold", "right,l", "unfold", "show what a step runs as one"),
    Key("plan", "plan_fold", "left,h", "fold", "hide it again"),
    Key("plan", "plan_earlier", "left_square_bracket", "other_run(-1)", "an earlier run"),
    Key("plan", "plan_later", "right_square_bracket", "other_run(1)", "a later run"),
    Key("plan", "plan_place", "o", "place", "go to the line that made the step"),
    Key("plan", "plan_details", "i,space", "details", "all about the run: kernels, limits"),
    Key("plan", "plan_measure", "m", "measure", "measure what this machine can do at best"),
    Key("plan", "plan_copy", "y", "copy", "copy the run as a table"),
    Key("plan", "plan_workers", "w", "turn", "the workers of the last fit or map over a cluster"),
    Key("workers", "workers_turn", "w", "turn", "the steps of the last run"),
    Key("workers", "workers_sort", "s", "sort", "in their order, or the longest time first"),
    Key("workers", "workers_earlier", "left_square_bracket", "other_job(-1)", "an earlier job"),
    Key("workers", "workers_later", "right_square_bracket", "other_job(1)", "a later job"),
    Key("workers", "workers_details", "i,space", "details", "all about the job, in words"),
    Key("workers", "workers_copy", "y", "copy", "copy the job in words"),
)
SPEC = PaneSpec(
    id="plan",
    title="Plan",
    letter="l",
    about="What a run did, step by step. Enter shows the source of a step, [ an earlier run.",
    region="foot",
    view="kbench.tui.panes.plan.view:PlanPane",
    controller="kbench.tui.panes.plan.controller:PlanController",
    takers=(
        Taker(
            "plan-run",
            ("table", "plan"),
            {
                "row_open": "source", "plan_place": "line", "plan_unfold": "parts",
                "plan_earlier": "run before", "plan_sort": "slowest",
                "trace_run": "trace NaN", "plan_details": "details",
                "plan_workers": "workers",
            },
        ),
        Taker(
            "workers",
            ("table", "workers"),
            {
                "row_open": "worker", "workers_turn": "last run", "workers_sort": "slowest",
                "workers_details": "details", "workers_earlier": "job before",
            },
        ),
    ),
    keys=KEYS,
)  # fmt: skip
