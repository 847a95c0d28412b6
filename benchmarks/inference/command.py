"""What `kbench bench --inference` does with its options."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from tables import write_report

from .cases import CASES, MODELS
from .measure import Contest, built
from .report import DRAWN, inference_tables, line


def run_inference(
    options: argparse.Namespace,
    names: Sequence[str],
    peers: list[str],
    turns: AbstractContextManager[Any],
    cpu: str,
) -> int:
    """Measure these cases, print the tables, write the files; 1 when a library fails."""
    report: dict[str, Any] = {
        "cpu": cpu,
        "threads": options.threads[-1],
        "python": platform.python_version(),
        "when": time.strftime("%Y-%m-%d"),
        "load_before": os.getloadavg(),
        "rows": {},
    }
    with tempfile.TemporaryDirectory() as home:
        contest = Contest(["kbench", *peers], options.peer_python, options.threads[-1], home)
        report["versions"] = contest.versions
        for model in MODELS:
            own = [name for name in names if CASES[name].model == model]
            if own:
                _measured(model, own, contest, options, turns, report)
    report["load_after"] = os.getloadavg()
    text = inference_tables(report)
    print(text)
    write_report(report, text, DRAWN, options)
    return int(any("error" in row for rows in report["rows"].values() for row in rows.values()))


def _measured(
    model: str,
    names: list[str],
    contest: Contest,
    options: argparse.Namespace,
    turns: AbstractContextManager[Any],
    report: dict[str, Any],
) -> None:
    """The cases of one model, which is built once."""
    with tempfile.TemporaryDirectory() as folder:
        with turns:
            wrong = built(model, folder, folder, contest.names[1:])
        for name in names:
            if wrong:
                report["rows"][name] = {one: {"error": wrong} for one in contest.names}
            else:
                with turns:
                    report["rows"][name] = contest.measure(
                        CASES[name], folder, options.rounds, options.seconds
                    )
            print(line(name, report["rows"][name]), file=sys.stderr, flush=True)
