"""What every test gets: folders of its own, settings as they were, and a way to run commands."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# Before anything of kbench is imported, and once for all workers of a parallel run, which inherit
# it: no test reads or writes the user's settings, history, progress or kernel cache. What has been
# compiled stays for the next run; its files are found by a hash of all that they are made of.
if "KBENCH_TEST_HOME" not in os.environ:
    home = tempfile.mkdtemp(prefix="kbench-tests-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ["KBENCH_TEST_HOME"] = home
    kept = ROOT / ".pytest_cache" if os.access(ROOT, os.W_OK) else Path()
    folders = {
        "KBENCH_CACHE_DIR": str(kept / "kbench"),
        "KBENCH_STATE_DIR": "state",
        "KERAS_HOME": "keras",
        "IPYTHONDIR": "ipython",
        "JUPYTER_CONFIG_DIR": "jupyter",
        "MPLCONFIGDIR": str(kept / "matplotlib"),  # a list of all fonts, which takes 4 seconds
    }
    for variable, folder in folders.items():
        os.environ[variable] = os.path.join(home, folder)
for variable in (
    "KBENCH_JIT",
    "KBENCH_LEAST",
    "KBENCH_NUM_THREADS",
    "KERAS_BACKEND",
    "NO_COLOR",
    "PYTHONSTARTUP",
    "VIRTUAL_ENV",
):
    os.environ.pop(variable, None)

# Hundreds of processes begin and end; compilers that outlive each of them would fill the machine.
os.environ["KBENCH_COMPILE_AFTER_EXIT"] = "off"

# Hundreds of processes import kbench. Compiling its sources anew takes each of them twice as long
# as the import itself, so that it is kept beside them, whatever the environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Makes grammars of all that IRIs may be when it is imported, with nbformat: two seconds for each
# worker. jsonschema does without; a notebook has none.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# A shell starts jobs in the background with interrupts ignored, and whatever a test starts would
# inherit that.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run: what fails once fails again, and a green run stays green.
settings.register_profile("kbench", derandomize=True, database=None, deadline=None)
settings.load_profile("kbench")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Files are given to workers in an order that keeps all of them at work to the end."""
    from worker_queues import WorkerQueues

    return WorkerQueues(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    """A worker that computes leaves the processor to those that answer somebody."""
    from worker_queues import NICE, is_for_interfaces

    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None and hasattr(os, "nice") and not is_for_interfaces(worker):
        os.nice(NICE)


def pytest_collection_finish() -> None:
    """Have the garbage collector look no more through the 20,000 tests themselves, and less often
    through all that they make: it takes a tenth of a terminal test."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


@pytest.fixture(autouse=True)
def settings_as_before() -> Iterator[None]:
    """Put back every setting that a test changes."""
    from kbench.engine.runtime import config

    before, exact = config.snapshot(), config._values["exact"]
    yield
    config._values["exact"] = exact
    for name, value in before.items():
        if config.snapshot()[name] != value:
            config.assign(name, value)


@pytest.fixture(autouse=True)
def no_job_stays() -> Iterator[None]:
    """Forget the jobs of clusters, which the panes of other tests would show."""
    yield
    activity = sys.modules.get("kbench.dask.activity")
    if activity is not None:
        activity.forget_jobs()


@pytest.fixture(scope="session")
def checked_sources() -> Iterator[list[str]]:
    """Hold each source that is written against its program; gives what was found wrong."""
    import source_checker

    from kbench.engine.jit import compile_threads

    compile_threads.IDLE_SECONDS = 600.0  # one compiler for all tests of a worker that compile
    found: list[str] = []
    with source_checker.watching(found):
        yield found


@pytest.fixture(autouse=True)
def sources_do_what_programs_say(checked_sources: list[str]) -> Iterator[None]:
    """Every source of a loop or row kernel that a test has written is checked once."""
    yield
    assert not checked_sources, checked_sources.pop()


@pytest.fixture(scope="session")
def root() -> Path:
    """The clone's top folder."""
    return ROOT


@pytest.fixture(scope="session")
def run_python() -> Run:
    """Run a fresh interpreter on the clone; `stdin`, `env` and `cwd` as wanted."""

    def run(
        *arguments: str,
        stdin: str = "",
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        environment = {key: value for key, value in environment.items() if value != "unset"}
        return subprocess.run(
            [sys.executable, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=environment,
            cwd=cwd or ROOT,
            timeout=timeout,
        )

    return run


@pytest.fixture(scope="session")
def run_kbench(run_python: Run) -> Run:
    """Run the `kbench` command with standard input and output as pipes."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        return run_python("-m", "kbench_launcher", *arguments, **options)

    return run
