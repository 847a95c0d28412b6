"""The whole product in a pseudo-terminal, its screen read as a person reads it."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pyte

from kbench.tui.graphics.answers import COLOUR_QUESTION, QUESTIONS

ROOT = Path(__file__).resolve().parents[3]
START = "import sys; sys.argv[0] = 'kbench'; from kbench_launcher import main; sys.exit(main())"
PATIENCE = 90.0  # a bound, not an expectation
TAKING_SECONDS = 20.0
"""For which a key waits at most until the program has read the one before."""
ALT = "\x1b"
UNKNOWN = re.compile(rb"\x1b\[[<>=][0-9;]*[uq]|\x1b[_P][^\x1b]*\x1b\\")
"""What the emulator does not know, and would draw: codes of keys, pictures."""
BEGUN = re.compile(rb"\x1b[_P][^\x1b]*\x1b?\Z")
KEYS = {
    "enter": "\r", "escape": "\x1b", "tab": "\t", "backspace": "\x7f", "space": " ",
    "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
    "home": "\x1b[H", "end": "\x1b[F", "pageup": "\x1b[5~", "pagedown": "\x1b[6~",
    "f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~",
    "f6": "\x1b[17~", "f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~",
    "f12": "\x1b[24~", "delete": "\x1b[3~",
}  # fmt: skip


def gone(pid: int) -> bool:
    """Whether a process ends, for which it has some time."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


class Terminal:
    """A workbench in a terminal of its own; what it draws is kept as a grid of characters."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        size: tuple[int, int] = (120, 40),
        ignore_hangup: bool = False,
        answers: str | None = None,
        answer_seconds: float = 0.0,
        **variables: str,
    ) -> None:
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "HOME": str(folder),
            "KBENCH_STATE_DIR": str(folder / "state"),
            "PYTHONPATH": str(ROOT),
            **variables,
        }
        for name in ("CI", "COLUMNS", "LINES"):  # the size is the terminal's own
            environment.pop(name, None)
        columns, rows = size
        self.child: Any = pexpect.spawn(
            sys.executable,
            ["-c", START, *arguments],
            env=environment,
            cwd=str(folder),
            dimensions=(rows, columns),
            timeout=PATIENCE,
            ignore_sighup=ignore_hangup,
        )
        self.grid = pyte.Screen(columns, rows)
        self.grid.write_process_input = self.child.send  # where the cursor is, when asked
        self._stream = pyte.ByteStream(self.grid)
        self.written = b""  # all of it
        self._begun = b""  # a sequence of which the end is still to come
        self._answers = answers  # to who asks what can be drawn; None: as the emulator does
        self._answer_seconds = answer_seconds  # for which an answer is under way
        self._under_way: list[tuple[float, str]] = []

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.isalive():
            self.child.kill(signal.SIGKILL)
        self.child.close(force=True)

    # ------------------------------------------------------------------ reading

    def read(self, seconds: float = 0.05) -> bool:
        """Take what has been drawn; False once the program has ended."""
        self._send_answers()
        try:
            drawn = self.child.read_nonblocking(1 << 16, seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.written += drawn
        drawn = self._answered(drawn)
        drawn = UNKNOWN.sub(b"", self._begun + drawn)
        begun = BEGUN.search(drawn)
        self._begun = drawn[begun.start() :] if begun else b""
        self._stream.feed(drawn[: begun.start()] if begun else drawn)
        return True

    def _answered(self, drawn: bytes) -> bytes:
        """What is left to draw once questions about graphics are answered."""
        if self._answers is None:
            return drawn
        features = re.search(r"\x1b\[\?[0-9;]*c", self._answers)
        for question, answer in (
            (QUESTIONS, self._answers), (COLOUR_QUESTION, features.group() if features else "")
        ):  # fmt: skip
            if question.encode() in drawn:
                self._under_way.append((time.monotonic() + self._answer_seconds, answer))
                drawn = drawn.replace(question.encode(), b"")
        self._send_answers()
        return drawn

    def _send_answers(self) -> None:
        """Those that arrive by now."""
        while self._under_way and self._under_way[0][0] <= time.monotonic():
            self.child.send(self._under_way.pop(0)[1])

    @property
    def screen(self) -> str:
        """What stands on the screen, line by line."""
        return "\n".join(line.rstrip() for line in self.grid.display)

    def until(self, *words: str, gone: str = "", patience: float = PATIENCE) -> str:
        """The screen, once it shows all of the words and no longer what shall be gone.

        What is still being drawn then is waited for, unless something moves all the time.
        """

        def there() -> bool:
            screen = self.screen
            return all(one in screen for one in words) and not (gone and gone in screen)

        self.wait(there, f"{words}, without {gone!r}" if gone else f"{words}", patience)
        for _ in range(10):
            before = len(self.written)
            if not self.read(0.1) or len(self.written) == before:
                break
        return self.screen

    def wait(self, condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> str:
        """The screen, once the condition holds."""
        deadline = time.monotonic() + patience
        while not condition():
            going = self.read()
            if condition():
                break
            assert going, f"ended before {what}:\n{self.screen}"
            assert time.monotonic() < deadline, f"{what} did not come:\n{self.screen}"
        return self.screen

    def ended(self) -> int:
        """The exit code, once the program has left."""
        deadline = time.monotonic() + PATIENCE
        while self.read():
            assert time.monotonic() < deadline, f"it did not leave:\n{self.screen}"
        self.child.close()
        return int(self.child.exitstatus if self.child.exitstatus is not None else -1)

    # ------------------------------------------------------------------ typing

    def type(self, text: str) -> None:
        """Send characters as they are."""
        self.child.send(text)

    def press(self, *keys: str) -> None:
        """Press keys by their names: `f3`, `ctrl+q`, `alt+2`, `x`; each is taken up by itself."""
        for key in keys:
            modifier, plus, rest = key.partition("+")
            if plus and modifier == "ctrl":
                self.type(chr(ord(rest.upper()) & 31))
            elif plus and modifier == "alt":
                self.type(ALT + rest)
            else:
                self.type(KEYS.get(key, key))
            taken_by = time.monotonic() + TAKING_SECONDS
            while self._untaken() and time.monotonic() < taken_by and self.read():
                pass
            behind = time.monotonic() + 0.15  # an Escape and the key behind it are two keys
            while (left := behind - time.monotonic()) > 0 and self.read(left):
                pass

    def _untaken(self) -> int:
        """How many characters the program has not read yet."""
        try:
            keys = os.open(f"/proc/{self.child.pid}/fd/0", os.O_RDONLY | os.O_NOCTTY)
        except OSError:  # it has ended, or the system does not tell
            return 0
        try:
            return int.from_bytes(fcntl.ioctl(keys, termios.FIONREAD, bytes(4)), sys.byteorder)
        finally:
            os.close(keys)

    def put(self, code: str) -> None:
        """Type a line, or paste several, and wait until it stands there."""
        if "\n" in code:
            self.type(f"\x1b[200~{code}\x1b[201~")
        else:
            self.type(code)
        self.until(code.split()[-1][-12:])  # lines wrap at blanks
        self.read(0.15)

    def run(self, code: str) -> None:
        """Type code and run it, complete or not."""
        self.put(code)
        self.press("alt+x")

    def number(self, code: str) -> int:
        """The number that an expression has in the kernel."""
        label = f"n{time.monotonic_ns()}"
        self.run(f"print('{label}'[:9] + '{label}'[9:], {code}, 'end')")
        found = self.until(f"{label} ", " end").partition(f"{label} ")[2]
        return int(found.split()[0])

    def vanish(self) -> int:
        """The window is closed under the program; its exit code."""
        self.child.ptyproc.fileobj.close()
        deadline = time.monotonic() + PATIENCE
        while self.child.isalive():
            assert time.monotonic() < deadline, "it goes on without a terminal"
            time.sleep(0.1)
        return int(self.child.exitstatus if self.child.exitstatus is not None else -1)

    def resize(self, columns: int, rows: int) -> None:
        """The person pulls at the window's corner."""
        self.grid.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def quit(self) -> int:
        """Leave by the key; the exit code."""
        self.press("ctrl+q")
        return self.ended()
