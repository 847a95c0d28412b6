"""The whole product in a pseudo-terminal: type, resize, interrupt, kill, replay, quit."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pexpect
import pytest

ROOT = Path(__file__).resolve().parents[2]
START = "import sys; sys.argv = ['kbench']; from kbench_launcher import main; sys.exit(main())"
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


class Screen:
    """A workbench in a terminal; `expect` looks for words, escape sequences aside."""

    def __init__(self, folder: Path) -> None:
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "HOME": str(folder),
            "KBENCH_STATE_DIR": str(folder / "state"),
            "PYTHONPATH": str(ROOT),
        }
        environment.pop("CI", None)
        self.child: Any = pexpect.spawn(
            sys.executable,
            ["-c", START],
            env=environment,
            dimensions=(40, 120),
            encoding="utf-8",
            timeout=30,
        )
        self.text = ""

    def expect(self, words: str, timeout: float = 30.0) -> str:
        """Wait until the words have been drawn since the last `type`."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            found = ESCAPES.sub("", self.text)
            if words in found:
                return found
            try:
                self.text += self.child.read_nonblocking(65536, 0.2)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                break
        last = ESCAPES.sub("", self.text)[-800:]
        raise AssertionError(f"{words!r} was not drawn; last: {last!r}")

    def number(self, code: str, label: str) -> int:
        """The number that `code` prints."""
        self.run(f"print('{label}', {code}, 'end')")
        self.expect(f"{label} ")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            found = re.search(rf"{label} (\d+) end", self.expect(" end"))
            if found:
                return int(found.group(1))
            time.sleep(0.1)
            self.text += self.child.read_nonblocking(65536, 1)
        raise AssertionError(f"{label} was not printed")

    def type(self, text: str) -> None:
        self.text = ""
        self.child.send(text)

    def run(self, code: str) -> None:
        self.type(code)
        time.sleep(0.3)
        self.child.send("\r")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_day_in_a_terminal(tmp_path: Path) -> None:
    screen = Screen(tmp_path)
    screen.expect("idle")
    screen.run("kept = 6 * 7; print('made', kept)")
    screen.expect("made 42")
    pid = screen.number("__import__('os').getpid()", "first")

    for rows, columns in ((5, 20), (24, 80), (50, 200), (40, 120)):
        screen.child.setwinsize(rows, columns)
        time.sleep(0.3)
    screen.run("print('re' + 'sized')")
    screen.expect("resized")

    screen.run("while True: pass")
    screen.expect("busy")
    screen.type("\x03")
    screen.expect("KeyboardInterrupt")
    screen.expect("idle")

    screen.run("import time; time.sleep(60)")
    screen.expect("busy")
    screen.type("never_lost")
    os.kill(pid, signal.SIGKILL)
    screen.expect("the kernel died (killed by SIGKILL)")
    screen.type("\x1br")
    screen.expect("Restart the kernel?")
    screen.type("r")
    screen.expect("run again")
    screen.expect("made 42")
    screen.expect("idle")
    screen.type(" = kept\r")
    screen.run("print('got', never_lost)")
    found = screen.expect("got 42")
    assert found

    second = screen.number("__import__('os').getpid()", "second")
    screen.type("\x11")
    screen.child.expect(pexpect.EOF)
    assert "\x1b[?1049l" in screen.child.before  # the terminal gets its own screen back
    screen.child.close()
    assert screen.child.exitstatus == 0
    assert second != pid and not alive(second)


@pytest.mark.slow
def test_history_comes_back_in_the_next_session(tmp_path: Path) -> None:
    screen = Screen(tmp_path)
    screen.expect("idle")
    screen.run("first_session = 12345")
    screen.expect("In [2]")
    screen.expect("idle")
    screen.type("\x11")
    screen.child.expect(pexpect.EOF)
    screen = Screen(tmp_path)
    screen.expect("idle")
    screen.type("\x1b[A")
    screen.expect("first_session")
    screen.type("\x11")
    screen.child.expect(pexpect.EOF)
    screen.child.close()
    assert screen.child.exitstatus == 0
