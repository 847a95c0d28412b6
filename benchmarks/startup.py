"""Time from the start of the `kbench` process to a usable prompt and to a kernel that is ready.

A pseudo-terminal runs the workbench as a user's terminal would. Three moments are taken: the first
frame with the prompt in it; the first typed character on the screen; the status word "idle", which
the workbench shows once its kernel has answered with the engine loaded.

    python benchmarks/startup.py [--rounds 7] [--json out.json]
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from statistics import median

from process import users_environment

ROOT = Path(__file__).resolve().parents[1]
COLUMNS, ROWS = 120, 40
PROMPT = b"Enter run"
STARTING = b"type ahead"
TYPED = "zq7"
LIMIT = 30.0
START = "import sys; sys.argv = ['kbench']; from kbench_launcher import main; sys.exit(main())"


class Terminal:
    """The workbench in a pseudo-terminal, and when it wrote what."""

    def __init__(self, command: list[str], home: str) -> None:
        self.primary, secondary = pty.openpty()
        size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
        fcntl.ioctl(secondary, termios.TIOCSWINSZ, size)
        environment = {
            **users_environment(),
            "TERM": "xterm-256color",
            "HOME": home,
            "KBENCH_STATE_DIR": str(Path(home, "state")),
            "PYTHONPATH": str(ROOT),
        }
        environment.pop("CI", None)
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
            env=environment,
            start_new_session=True,
        )
        os.close(secondary)
        self.seen = b""

    def wait_for(self, *texts: bytes) -> float:
        """Seconds since the start at which any of the texts was on the wire."""
        deadline = time.perf_counter() + LIMIT
        while time.perf_counter() < deadline:
            if any(text in self.seen for text in texts):
                return time.perf_counter() - self.began
            readable, _, _ = select.select([self.primary], [], [], 0.5)
            if readable:
                self.seen += os.read(self.primary, 65536)
        raise TimeoutError(f"none of {texts} within {LIMIT} s; last: {self.seen[-300:]!r}")

    def drain(self) -> None:
        """Read what is there, and forget it."""
        while select.select([self.primary], [], [], 0)[0]:
            os.read(self.primary, 65536)
        self.seen = b""

    def type(self, text: str) -> None:
        """Press keys; what was on the wire before is forgotten."""
        self.seen = b""
        os.write(self.primary, text.encode())

    def held_up(self) -> float:
        """Milliseconds for which the workbench's main thread was ready but had no core, so far.

        Other programs take these, not the workbench; 0 where the system does not tell.
        """
        try:
            told = Path(f"/proc/{self.process.pid}/schedstat").read_text(encoding="ascii")
        except OSError:
            return 0.0
        return int(told.split()[1]) / 1e6

    def memory(self) -> dict[str, dict[str, float]]:
        """RSS and PSS in MB of the workbench and of its kernel, the newest of its processes."""
        table = {}
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        kernels = children.read_text(encoding="ascii").split()
        for name, pid in (("workbench", self.process.pid), ("kernel", kernels[-1])):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
            sizes = dict(line.split()[:2] for line in text.splitlines()[1:])
            table[name] = {key: int(sizes[f"{key}:"]) / 1024 for key in ("Rss", "Pss")}
        return table

    def close(self) -> None:
        """Leave the workbench with ctrl+Q and wait for it."""
        os.write(self.primary, b"\x11")
        try:
            while self.process.poll() is None:
                readable, _, _ = select.select([self.primary], [], [], 5.0)
                if not readable or not os.read(self.primary, 65536):
                    break
        except OSError:
            pass  # the other side has closed, as it should
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        os.close(self.primary)


def once(home: str) -> dict[str, float]:
    """One start: seconds to the first frame, to the first echo, and to the kernel's readiness."""
    terminal = Terminal([sys.executable, "-c", START], home)
    try:
        frame = terminal.wait_for(PROMPT, STARTING)
        terminal.type(TYPED[0])
        echo = terminal.wait_for(TYPED[0].encode())
        ready = terminal.wait_for(b"idle")
    finally:
        terminal.close()
    return {"first frame": frame, "first echo": echo, "kernel ready": ready}


def main() -> int:
    """Measure and print; the first round, which fills file caches, is not counted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kbench-startup-") as home:
        once(home)
        rows = [once(home) for _ in range(max(options.rounds, 1))]
    table = {key: [row[key] for row in rows] for key in rows[0]}
    for key, values in table.items():
        low, high = min(values), max(values)
        print(f"{key:<14} median {median(values):.3f} s   [{low:.3f} .. {high:.3f}]")
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
