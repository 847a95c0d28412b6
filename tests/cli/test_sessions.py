"""`kbench --existing` and `--resume` on the command line: usage, exit codes, what is printed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from kbench.cli import main
from kbench.workbench.history import session_archive

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_=>])")
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("arguments", "head", "rest"),
    [
        (["--existing"], ["--existing"], []),
        (["--existing", "abc"], ["--existing", "abc"], []),
        (["--existing", "--plain"], ["--existing", "--plain"], []),
        (["--existing", "abc", "x.py", "-a"], ["--existing", "abc", "x.py"], ["-a"]),
        (["--existing=abc", "--plain"], ["--existing=abc", "--plain"], []),
        (["--resume", "x.py"], ["--resume", "x.py"], []),
    ],
)
def test_the_command_line_is_cut_behind_the_kernel(arguments, head, rest):
    assert main.split(arguments) == (head, rest)


WRONG = [
    (["--existing", "a", "x.py"], "takes no code"),
    (["--existing", "-c", "1"], "takes no code"),
    (["--existing", "--json"], "takes no code, --json"),
    (["--existing", "--screenshot", "x.svg"], "--screenshot"),
    (["--resume", "-c", "1"], "takes no code"),
    (["--resume", "--existing"], "--existing"),
    (["--resume", "--screenshot", "x.svg"], "--screenshot"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_wrong_usage_gives_2(arguments, words, capsys):
    with pytest.raises(SystemExit) as stop:
        main.main(arguments)
    assert stop.value.code == 2 and words in capsys.readouterr().err


NONE = [
    ([], "no Jupyter kernel is running"),
    (["abc"], "named like 'abc'"),
    (["no.json"], "no connection file no.json"),
    (["pyproject.toml"], "it is not JSON"),
]


@pytest.mark.parametrize(("wanted", "words"), NONE)
def test_where_no_kernel_can_be_attached_to_the_code_is_3(wanted, words, run_kbench, tmp_path):
    done = run_kbench("--existing", *wanted, env={"JUPYTER_RUNTIME_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (3, "") and words in done.stderr
    assert done.stderr.count("\n") == 1


def test_resume_without_a_terminal_gives_2(run_kbench):
    done = run_kbench("--resume")
    assert done.returncode == 2 and "standard input is not a terminal" in done.stderr


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: Any) -> Iterator[Path]:
    """A runtime folder of Jupyter with a kernel in it."""
    folder = tmp_path_factory.mktemp("runtime")
    path = folder / "kernel-of-a-notebook.json"
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and nobody_listens(path):
            time.sleep(0.05)
        yield folder
        process.kill()


def nobody_listens(path: Path) -> bool:
    """Whether nobody listens there yet."""
    from kbench.workbench.session import running_kernels

    try:
        return not running_kernels.find(str(path))
    except running_kernels.AttachError:
        return True


@pytest.mark.slow
def test_what_a_pipe_holds_runs_in_the_kernel(runtime, run_kbench):
    env = {"JUPYTER_RUNTIME_DIR": str(runtime)}
    done = run_kbench("--existing", stdin="kept = 6 * 7\nprint('made')\nkept", env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "made\n42\n", "")
    done = run_kbench("--existing", "notebook", stdin="kept + 1", env=env)
    assert (done.returncode, done.stdout) == (0, "43\n")
    done = run_kbench("--existing", "notebook", stdin="kept / 0", env=env)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


# ------------------------------------------------------------------ in a terminal


class Lines:
    """`kbench` in a terminal that is read line by line."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.child: Any = pexpect.spawn(
            sys.executable,
            ["-m", "kbench_launcher", *arguments],
            env={
                **os.environ,
                "TERM": "dumb",
                "KBENCH_STATE_DIR": str(folder),
                "PYTHONPATH": str(ROOT),
                **environment,
            },
            dimensions=(40, 120),
            encoding="utf-8",
            timeout=30,
        )
        self.text = ""

    def expect(self, words: str) -> None:
        """Wait for the words, behind what was waited for before."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            clean = ESCAPES.sub("", self.text)
            if words in clean:
                self.text = clean.split(words, 1)[1]
                return
            try:
                self.text += self.child.read_nonblocking(65536, 0.2)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                break
        last = ESCAPES.sub("", self.text)[-600:]
        raise AssertionError(f"{words!r} was not written; last: {last!r}")

    def say(self, line: str) -> None:
        self.child.send(line + "\n")

    def leave(self) -> int | None:
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus


@pytest.mark.slow
def test_the_prompt_of_lines_in_a_kernel(runtime, tmp_path):
    lines = Lines(tmp_path, "--existing", "--plain", JUPYTER_RUNTIME_DIR=str(runtime))
    lines.expect("attached to kernel of-a-notebook")
    lines.expect("]: ")
    lines.say("import numpy as np; seen = np.arange(4.0)")
    lines.expect("seen  array  float64  (4,)")
    lines.say("def f():")
    lines.expect("...:")
    lines.say("    return seen.sum()")
    lines.expect("...:")
    lines.say("")
    lines.expect("]: ")
    lines.say("f()")
    lines.expect("np.float64(6.0)")
    lines.say("input('who? ')")
    lines.expect("who? ")
    lines.say("me")
    lines.expect("'me'")
    lines.say("while True: pass")
    time.sleep(0.5)
    lines.child.send("\x03")
    lines.expect("KeyboardInterrupt")
    lines.say("%vars")
    lines.expect("seen  array")
    lines.say("exit()")
    assert lines.leave() == 0
    lines = Lines(tmp_path, "--existing", "--plain", JUPYTER_RUNTIME_DIR=str(runtime))
    lines.expect("attached")
    lines.say("seen.max()")
    lines.expect("3.0")
    lines.expect("]: ")  # a terminal drops an end of input that nobody reads yet
    lines.child.send("\x04")
    assert lines.leave() == 0


@pytest.mark.slow
def test_a_plain_session_that_was_killed_comes_back(tmp_path):
    lines = Lines(tmp_path, "--plain")
    lines.expect("In [1]: ")
    cells = ("kept = 6 * 7", "kept"), ("kept + 1", "43"), ("1/0", "ZeroDivisionError")
    for code, shown in cells:
        lines.say(code)
        lines.expect(shown)
        lines.expect("In [")
    lines.child.kill(signal.SIGKILL)
    lines.leave()
    assert len(session_archive.unfinished(tmp_path / "journal")) == 1
    lines = Lines(tmp_path, "--plain", "--resume")
    lines.expect("nothing was run again")
    lines.expect("In [2]: kept + 1")
    lines.expect("43")
    lines.expect("ZeroDivisionError: division by zero")
    lines.expect("run (a)ll 3 cells again")
    lines.say("o")
    lines.expect("(r)un it")
    lines.say("r")
    lines.expect("(r)un it")
    lines.say("q")
    lines.expect("In [2]: ")
    lines.say("kept * 2")
    lines.expect("84")
    lines.say("exit")
    assert lines.leave() == 0
    assert session_archive.unfinished(tmp_path / "journal") == []
