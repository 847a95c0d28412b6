"""What pages of figures begin with, and their tables: the processor, how busy it is, the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from kbench.cli.doctor import processor

Lines = list[str]


def cores() -> int | None:
    """How many cores may be used."""
    counted = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if counted else os.cpu_count()


def machine() -> str:
    """The processor, the cores that may be used, and Python."""
    return f"{processor()}, {cores()} cores, Python {platform.python_version()}"


def load() -> str:
    """How busy the machine is, the last minute's average first."""
    return "load " + ", ".join(f"{one:.1f}" for one in os.getloadavg())


def commit() -> str:
    """The commit that is measured; empty outside of a clone."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return f", commit {found.stdout.strip()}" if found.returncode == 0 else ""


def table(header: list[str], rows: list[list[str]]) -> Lines:
    """A Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]] + [""]
