"""What `kbench bench --keras3` does with its options."""

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

from .cases import EAGER
from .measure import Contest
from .report import DRAWN, keras3_tables, line


def run_keras3(
    options: argparse.Namespace,
    names: Sequence[str],
    peers: list[str],
    turns: AbstractContextManager[Any],
    cpu: str,
) -> int:
    """Measure models, `eager` or `imports`, print the tables, write the files; 1 when a backend
    fails."""
    report: dict[str, Any] = {
        "cpu": cpu,
        "threads": options.threads[-1],
        "python": platform.python_version(),
        "when": time.strftime("%Y-%m-%d"),
        "names": ["kbench", *peers],
        "load_before": os.getloadavg(),
        "rows": {},
        "eager": {},
        "imports": {},
    }
    with tempfile.TemporaryDirectory() as home:
        contest = Contest(report["names"], options.peer_python, options.threads[-1], home)
        report["versions"] = contest.versions
        for name in names:
            with turns:
                if name == "imports":
                    report["imports"] = contest.measure_imports()
                elif name == "eager":
                    found = contest.measure_eager([*EAGER], options.rounds, options.seconds)
                    report["eager"] = found
                else:
                    found = contest.measure(name, options.rounds, options.seconds)
                    report["rows"][name] = found
                    print(line(name, found), file=sys.stderr, flush=True)
    report["load_after"] = os.getloadavg()
    text = keras3_tables(report)
    print(text)
    write_report(report, text, DRAWN, options)
    return int(any("error" in row for rows in report["rows"].values() for row in rows.values()))
