"""What is installed: a wheel holds everything that the product needs beside its modules."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from kbench.version import __version__

ROOT = Path(__file__).resolve().parents[2]


TYPED = """import numpy as np

import kbench as K
from kbench import backend

x = K.placeholder(shape=(None, 4), name="x")
w = K.variable(np.ones((4, 3)), dtype="float32")
y = K.softmax(K.dot(x, w) + 1.0, axis=-1)
loss = K.mean(K.square(y - 2 * K.exp(y)), axis=[0, 1])
f = K.function([x], [loss, *K.gradients(loss, [w])])
print(f([np.zeros((2, 4))])[0], backend.epsilon(), K.int_shape(y[0]))
"""
WRONG = "K.softmax(y, axes=1)\nK.square(y, 2)\nK.mean(y, axis='a')\nK.sum({1: 2})\n"
"""Each line is refused: an unknown argument, one too many, and two of a wrong type."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The project as it is given away."""
    place = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(place)]
    subprocess.run([*pip, str(ROOT)], check=True, capture_output=True)
    (found,) = place.glob("*.whl")
    return found


@pytest.mark.slow
def test_users_code_is_checked_against_the_wheel(wheel, tmp_path):
    """By mypy, as an editor does: names and types of arguments, and what comes back."""
    place = tmp_path / "user"
    venv.create(place, with_pip=False)
    (packages,) = place.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    assert (packages / "kbench" / "py.typed").is_file()
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    mypy += ["--python-executable", str(place / "bin" / "python"), "program.py"]
    for text, errors in ((TYPED, []), (TYPED + WRONG, [12, 13, 14, 15])):
        (tmp_path / "program.py").write_text(text, "utf-8")
        done = subprocess.run(mypy, cwd=tmp_path, capture_output=True, text=True)
        found = re.findall(r"^program.py:(\d+): error", done.stdout, re.MULTILINE)
        assert [int(line) for line in found] == errors, done.stdout


@pytest.mark.slow
def test_a_wheel_is_whole(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        scripts = archive.read(f"kbench-{__version__}.dist-info/entry_points.txt").decode()
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "kbench").rglob("*.py")}
    data = {str(path.relative_to(ROOT)) for path in (ROOT / "kbench").rglob("*.tcss")}
    data |= {"kbench/py.typed"}
    lessons = {f"kbench/tutorials/{path.name}" for path in (ROOT / "tutorials").glob("*.*")}
    assert modules | data | lessons | {"kbench_launcher.py", "kbench/benchmarks/harness.py"} <= held
    assert not [name for name in held if name.startswith(("tests/", ".ci/", "docs/"))]
    assert "kbench = kbench_launcher:main" in scripts
    place = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(place), "KBENCH_STATE_DIR": str(tmp_path)}
    for arguments in (["learn", "--list"], ["-c", "K.sum(K.ones((3,)))"], ["--version"]):
        done = subprocess.run(
            [sys.executable, "-m", "kbench", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        if arguments[0] == "learn":
            notebooks = Path(tmp_path, done.stdout.split()[-1])
            assert notebooks.is_relative_to(place) and len(list(notebooks.glob("*.ipynb"))) > 14
        else:
            assert ("float32[] 4 B  3" if arguments[0] == "-c" else __version__) in done.stdout


def test_the_project_names_the_versions_of_python_that_it_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    head = "Programming Language :: Python :: 3."
    minors = [int(one[len(head) :]) for one in project["classifiers"] if one.startswith(head)]
    assert minors == list(range(11, 11 + len(minors))) and len(minors) >= 3
    assert project["requires-python"] == f">=3.{minors[0]}"


def test_every_extra_is_used():
    """What an extra installs is imported somewhere; CI runs with three of them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = dict(project["optional-dependencies"])
    runs = (ROOT / ".ci" / "run").read_text("utf-8") + (ROOT / "README.md").read_text("utf-8")
    for key in ("test", "docs", "front-ends"):
        assert extras.pop(key) and f"pip install -e '.[{key}]'" in runs.replace(" -q", "")
    files = [*(ROOT / "kbench").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    text = "\n".join(path.read_text("utf-8") for path in files)
    for needs in extras.values():
        for requirement in needs:
            name = re.match(r"[\w-]+", requirement)[0].replace("-", "_")
            words = rf"import {name}\b|import_module\(.{name}|from {name}\b|.{name}\.|\"{name}\""
            assert re.search(words, text), requirement


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
