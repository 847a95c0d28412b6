"""What is installed: a wheel holds everything that the product needs beside its modules."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from kbench.version import __version__

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_a_wheel_is_whole(tmp_path):
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "-w",
            str(tmp_path),
            str(ROOT),
        ],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        scripts = archive.read(f"kbench-{__version__}.dist-info/entry_points.txt").decode()
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "kbench").rglob("*.py")}
    data = {str(path.relative_to(ROOT)) for path in (ROOT / "kbench").rglob("*.tcss")}
    lessons = {f"kbench/tutorials/{path.name}" for path in (ROOT / "tutorials").glob("*.*")}
    assert modules | data | lessons | {"kbench_launcher.py", "kbench/benchmarks/harness.py"} <= held
    assert not [name for name in held if name.startswith(("tests/", ".ci/", "docs/"))]
    assert "kbench = kbench_launcher:main" in scripts


def test_dependencies_are_those_of_the_changelog():
    """A dependency has a line that says what hand-written code it replaces."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    text = (ROOT / "CHANGELOG.md").read_text("utf-8").split("### Dependencies")[1]
    told = {
        name.strip()
        for line in text.splitlines()
        if line.startswith("- ")
        for name in line[2:].partition(":")[0].split(",")
    }
    names = {requirement.split(">")[0].split("=")[0] for requirement in project["dependencies"]}
    assert names <= told
