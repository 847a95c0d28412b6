"""Pictures in tmux, in a terminal that answers it as kitty does: attached again, another window."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from terminal import ROOT, START

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

QUESTION = b"\x1b[>q"
KITTY = b"\x1bP>|kitty(0.35.1)\x1b\\"
XTERM = b"\x1bP>|XTerm(379)\x1b\\"
PATIENCE = 60.0
CODE = "from PIL import Image; Image.new('RGB', (80, 40), 'red')"


class Tmux:
    """A server of its own, with a workbench in its first window."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")
        config = folder / "tmux.conf"
        config.write_text("set -g allow-passthrough on\nset -g status off\n")
        self.environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "HOME": str(folder),
            "KBENCH_STATE_DIR": str(folder / "state"),
            "PYTHONPATH": str(ROOT),
        }
        for name in ("CI", "TMUX", "TMUX_PANE", "NO_COLOR"):
            self.environment.pop(name, None)
        (folder / "start.py").write_text(START)
        command = f"{sys.executable} {folder / 'start.py'}"
        self.tell("-f", str(config), "new-session", "-d", "-x", "100", "-y", "30", command)

    def tell(self, *words: str) -> str:
        """A command of tmux, and what it prints."""
        command = ["tmux", "-S", self._socket, *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, check=True)
        return done.stdout.decode(errors="replace")

    def until(self, words: str) -> None:
        """Wait for words on the screen."""
        deadline = time.monotonic() + PATIENCE
        while words not in (screen := self.tell("capture-pane", "-p", "-t", ":0")):
            assert time.monotonic() < deadline, screen
            time.sleep(0.1)


class Client:
    """A terminal in which tmux is attached."""

    def __init__(self, tmux: Tmux, name: bytes = KITTY) -> None:
        command = ["-S", tmux._socket, "attach"]
        environment = dict(tmux.environment)
        self.child: Any = pexpect.spawn("tmux", command, env=environment, dimensions=(30, 100))
        self._name = name
        self._left = False
        self.written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Take what comes, and say who it is when asked: at once, as tmux waits no longer."""
        answered = 0
        while not self._left:
            try:
                self.written += self.child.read_nonblocking(1 << 16, 0.1)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                return
            while self.written.count(QUESTION) > answered:
                answered += 1
                self.child.send(self._name)

    def pictures(self, least: int, seconds: float) -> int:
        """How many pictures have been sent to it, once there are so many or the time is over."""
        deadline = time.monotonic() + seconds
        while True:
            time.sleep(0.05)
            sent = len(re.findall(rb"\x1b_Ga=t", self.written))
            if sent >= least or time.monotonic() > deadline:
                return sent

    def leave(self) -> None:
        """The window is closed."""
        self._left = True
        self._reader.join()
        self.child.close(force=True)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """A server, ended after the test."""
    server = Tmux(tmp_path)
    yield server
    server.tell("kill-server")


def test_who_attaches_gets_the_pictures_without_a_key(tmux: Tmux) -> None:
    first = Client(tmux)
    time.sleep(1.0)
    tmux.until("Type Python")
    time.sleep(0.5)
    tmux.tell("send-keys", CODE, "Enter")
    assert first.pictures(1, PATIENCE) == 1
    tmux.tell("detach-client")
    first.leave()
    time.sleep(0.5)
    second = Client(tmux)
    assert second.pictures(1, PATIENCE) == 1
    assert second.pictures(2, 3.0) == 1  # once
    third = Client(tmux, XTERM)  # beside it: half blocks are for both
    time.sleep(1.0)
    tmux.tell("send-keys", "1")
    tmux.until("▀▀▀▀")
    third.leave()
    second.leave()


def test_a_picture_that_came_while_another_window_was_shown(tmux: Tmux) -> None:
    client = Client(tmux)
    time.sleep(1.0)
    tmux.until("Type Python")
    tmux.tell("send-keys", CODE, "Enter")
    assert client.pictures(1, PATIENCE) == 1
    tmux.tell("send-keys", f"import time; time.sleep(2); {CODE}", "Enter")
    time.sleep(0.5)
    tmux.tell("new-window", "sleep 1000")
    tmux.until("In [3]")
    assert client.pictures(2, 2.0) == 1  # tmux drops it
    tmux.tell("select-window", "-t", ":0")
    assert client.pictures(2, PATIENCE) >= 2
    client.leave()
