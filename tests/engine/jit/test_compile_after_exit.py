"""Compilers that go on after the process that has asked for kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbench.engine.jit import disk_cache
from kbench.engine.jit.compiling import compile_lock, compiler_process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform == "win32", reason="compilers end with their parent there"),
]
SECONDS = 60.0
"""How long a test waits for what must come."""
KERNELS = ("argmax", "argmin")
PROGRAM = f"""
import os, signal, sys
from kbench.engine.jit.service import service
from kbench.engine.kernels.reduce import argreduce

for kind in {KERNELS}:
    service.submit(kind, lambda kind=kind: argreduce.source(kind, "float32", True))
greeted = []
while not greeted:
    service.wait_for_change(0.01)
    compilers = [job.compiler for job in service._jobs.values()]
    greeted = [one for one in compilers if one is not None and one._greeted]
compiler = greeted[0]
print(compiler._process.pid, flush=True)
exec(sys.argv[1])
"""


def _pid_left(folder: Path, last: str = "", setting: str = "on") -> int:
    """The compiler of a process that ends as soon as it compiles."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, last],
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        env={
            **os.environ,
            "KBENCH_CACHE_DIR": str(folder),
            "KBENCH_COMPILE_AFTER_EXIT": setting,
        },
    )
    return int(done.stdout)


def _wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.strip()
    return bool(found) and not found.startswith("Z")


def _kernels(folder: Path) -> set[str]:
    return {path.name.partition("-")[0] for path in folder.glob("kernels/*.kernel")}


def test_what_is_left_is_compiled(tmp_path: Path) -> None:
    pid = _pid_left(tmp_path)
    assert not {"driver", *KERNELS} <= _kernels(tmp_path)
    _wait_for(lambda: not _runs(pid))
    # Another compiler of the process may have the driver, and end later.
    _wait_for(lambda: _kernels(tmp_path) == {"driver", *KERNELS})
    _wait_for(lambda: not [*tmp_path.glob("kernels/*.lock")])


STOP = """
os.kill(compiler._process.pid, signal.SIGSTOP)
os.waitpid(compiler._process.pid, os.WUNTRACED)  # on a busy machine it goes on for some time
"""
ENDS = {
    "told so": ("", "off"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "on"),
    "its compiler is stopped": (STOP, "on"),
}


@pytest.mark.parametrize("how", ENDS)
def test_nothing_is_left(how: str, tmp_path: Path) -> None:
    pid = _pid_left(tmp_path, *ENDS[how])
    _wait_for(lambda: not _runs(pid))
    assert not set(KERNELS) <= _kernels(tmp_path)


def test_one_that_nobody_hears_ends_all_the_same() -> None:
    """Who has asked it to stay is gone before it answers."""
    compiler = compiler_process.CompilerProcess()
    process: Any = compiler._process
    try:
        assert compiler._answer() == {"ready": True}
        process.stdout.close()
        process.stdin.write(json.dumps({compiler_process.LEFT: []}).encode() + b"\n")
        process.stdin.flush()
        process.wait(timeout=SECONDS)
    finally:
        compiler.close()


def test_one_in_a_folder_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    with compile_lock.claimed("left", "over") as is_ours:
        assert is_ours and disk_cache.folder() == tmp_path / "kernels"
        pid = _pid_left(tmp_path)
        _wait_for(lambda: not _runs(pid))
    assert len(_kernels(tmp_path)) <= 1  # the one that was in hand


def test_a_folder_that_goes_with_the_process(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("in the way")
    pid = _pid_left(tmp_path)
    _wait_for(lambda: not _runs(pid))
    assert not _kernels(tmp_path)
