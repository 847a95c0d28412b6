"""Keras' own tests, unmodified, on kbench: the conformance suite of its source distribution.

    python .ci/keras3_suite.py [--source FOLDER] [--into FOLDER] [--failures FILE] [TEST ...]

Needs Keras 3 in the environment (`pip install 'kbench[keras3]' pytest pytest-xdist
pytest-timeout`), and what tests compare with or take data from: JAX, PyTorch, pandas, grain, and
TensorFlow for its `tf.data`. The source distribution is downloaded from the package index unless a
folder has it. Tests are files below `keras/src`, or folders; without one, those that the backend is
judged by. A test or a file that asks for one of these packages is skipped where that is missing.
Prints how many passed, failed and were skipped, for each file and each folder, which files could
not be imported, and what is excluded and why (`keras_kbench/excluded_tests.txt`). Ends with 1 where
a test failed.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXCLUDED = ROOT / "keras_kbench" / "excluded_tests.txt"
VERSION = "3.15.1"
JUDGES = (
    "ops backend/common random layers trainers models losses metrics optimizers callbacks saving "
    "quantizers dtype_policies initializers activations constraints regularizers utils tree "
    "datasets visualization wrappers legacy distillation distribution"
).split()
OUTCOMES = ("passed", "failed", "skipped")
OTHERS = "grain jax orbax pandas sklearn tensorflow torch".split()
"""Packages that tests compare with or take data from."""
LACKS = re.compile(r"(?:No module named '|[Rr]equires (?:the |installing )?'?)(\w+)")
NAMES_BACKENDS = "trainers/trainer_test.py"
"""The one file of tests that lists the backends outside of tests: kbench is added there."""
REPAIRS = (
    (
        '    raise ImportError(f"Invalid backend: {backend.backend()}")\n',
        "    from keras_kbench.src.trainer import Trainer\n",
    ),
    (
        '        CPU_DEVICES = {\n            "tensorflow"',
        '        CPU_DEVICES = {\n            "kbench": "cpu",\n            "tensorflow"',
    ),
)


def excluded() -> list[tuple[str, str]]:
    """Ends of the names of tests that are left out, each with its reason."""
    lines = EXCLUDED.read_text().splitlines() if EXCLUDED.exists() else []
    kept = [line for line in lines if line.strip() and not line.startswith("#")]
    found = []
    for line in kept:
        name, mark, reason = line.partition("  # ")
        if not mark:
            raise SystemExit(f"{EXCLUDED.name}: {line!r} has no reason (two blanks, #, a blank)")
        found.append((name.strip(), reason.strip()))
    return found


# ------------------------------------------------------------------ inside of pytest


def skip_if_backend(name: str, reason: str):
    """What tests import from a `conftest` that the source distribution does not have."""
    return pytest.mark.skipif(os.environ.get("KERAS_BACKEND") == name, reason=reason)


def pytest_configure(config):
    if not os.environ.get("KERAS3_SUITE"):
        return
    import keras_kbench  # noqa: F401  # before keras

    for mark in ("requires_trainable_backend", "multi_device"):
        config.addinivalue_line("markers", f"{mark}: see Keras")
    conftest = types.ModuleType("conftest")
    conftest.skip_if_backend = skip_if_backend
    sys.modules.setdefault("conftest", conftest)


def pytest_collection_modifyitems(config, items):
    names = [name for name, _ in excluded()]
    left = [item for item in items if item.nodeid.endswith(tuple(names))]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def _asked_for(text: str) -> str:
    """The package that a test or a file of tests lacks, if it is one of the others'."""
    found = LACKS.search(text)
    name = found[1].lower() if found else ""
    return name if name in OTHERS and importlib.util.find_spec(name) is None else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and (name := _asked_for(str(call.excinfo.value))):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: needs {name}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if report.failed and (name := _asked_for(str(report.longrepr))):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"needs {name}")
    return report


_counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
_failed: list[tuple[str, str]] = []
_unread: dict[str, str] = {}


def pytest_collectreport(report):
    if report.failed:
        lines = [line for line in str(report.longrepr).splitlines() if "Error: " in line]
        _unread[report.nodeid] = lines[-1].lstrip("E ") if lines else "an error"
    elif report.skipped and report.nodeid.endswith(".py"):
        _unread[report.nodeid] = report.longrepr[2]


def pytest_runtest_logreport(report):
    if report.outcome == "skipped" or report.when == "call" or report.outcome == "failed":
        outcome = report.outcome if report.outcome in OUTCOMES else "failed"
        _counts[report.nodeid.partition("::")[0]][outcome] += 1
        if outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else str(report.longrepr)[-300:]
            _failed.append((report.nodeid, " ".join(text.split())[:300]))


def _row(name: str, counts: collections.Counter) -> str:
    return f"{name:<70}" + "".join(f"{counts[one]:>8}" for one in OUTCOMES)


def pytest_terminal_summary(terminalreporter):
    folders: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    terminalreporter.write_line(f"{'file':<70}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for file, counts in sorted(_counts.items()):
        folders[file.removeprefix("keras/src/").partition("/")[0]].update(counts)
        folders["all"].update(counts)
        terminalreporter.write_line(_row(file, counts))
    for folder, counts in sorted(folders.items(), key=lambda entry: (entry[0] == "all", entry[0])):
        terminalreporter.write_line(_row(folder, counts))
    for file, error in sorted(_unread.items()):
        terminalreporter.write_line(f"not imported: {file}: {error}")
    for name, reason in excluded():
        terminalreporter.write_line(f"excluded: {name}: {reason}")
    where = os.environ.get("KERAS3_SUITE_FAILURES")
    if where:
        Path(where).write_text("".join(f"{name}\t{text}\n" for name, text in sorted(_failed)))


# ------------------------------------------------------------------ the command


def unpacked(into: Path) -> Path:
    """The folder of the source distribution, downloaded where it is not there."""
    source = into / f"keras-{VERSION}"
    if not source.exists():
        into.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary"]
        subprocess.run([*pip, "keras", f"keras=={VERSION}", "--dest", str(into)], check=True)
        with tarfile.open(into / f"keras-{VERSION}.tar.gz") as archive:
            archive.extractall(into, filter="data")
    return source


def joined(source: Path, into: Path) -> Path:
    """A folder with the installed package, as the wheel has it, and the tests of the source."""
    target = into / "joined"
    if not target.exists():
        spec = importlib.util.find_spec("keras")
        if spec is None or spec.origin is None:
            raise SystemExit("Keras 3 is not installed: pip install 'kbench[keras3]'")
        shutil.copytree(Path(spec.origin).parent, target / "keras")
        shutil.copytree(source / "keras" / "src", target / "keras" / "src", dirs_exist_ok=True)
        shutil.copy(source / "pyproject.toml", target)
    file = target / "keras" / "src" / NAMES_BACKENDS
    text = file.read_text()
    for old, new in REPAIRS:
        if text.count(old) + text.count(new) != 1:
            raise SystemExit(f"{NAMES_BACKENDS} is not the one of Keras {VERSION}")
        text = text.replace(old, new)
    file.write_text(text)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", type=Path, help="folder of an unpacked source distribution")
    parser.add_argument("--into", type=Path, default=ROOT / ".keras3_suite")
    parser.add_argument("--failures", type=Path, help="file for the names of what failed")
    parser.add_argument("--processes", default="2")
    parser.add_argument("tests", nargs="*")
    given = parser.parse_args()
    source = given.source or unpacked(given.into)
    source = joined(source, given.into)
    tests = [f"keras/src/{name}" for name in (given.tests or JUDGES)]
    environment = os.environ | {
        "KERAS_BACKEND": "kbench",
        "KERAS3_SUITE": "1",
        "PYTHONHASHSEED": "0",  # some cases are listed by sets: each process has the same order
        "PYTHONPATH": os.pathsep.join(map(str, (source.resolve(), Path(__file__).parent, ROOT))),
    }
    if given.failures:
        environment["KERAS3_SUITE_FAILURES"] = str(given.failures.resolve())
    options = ["-p", "keras3_suite", "-o", "addopts=", "-q", "--tb=no", "-p", "no:cacheprovider"]
    options += ["--continue-on-collection-errors"]
    options += ["-n", given.processes] if given.processes != "0" else ["-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, "--timeout", "300", *tests]
    return subprocess.run(command, cwd=source, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
