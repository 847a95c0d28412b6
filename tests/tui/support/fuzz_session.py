"""Cells for random use, and a session without a kernel that runs them in this process."""

from __future__ import annotations

import contextlib
import io
import traceback
from pathlib import Path
from typing import Any

import fake_session
import numpy as np

import kbench as K
from kbench.workbench.history.journal import Journal
from kbench.workbench.session import events
from kbench.workbench.session.cell import Cell

CODES = (
    "w = K.variable(np.eye(3), name='w')",
    "x = K.placeholder((None, 3)); y = K.dot(x, w); loss = K.mean(K.square(y))",
    "f = K.function([x], [loss]); f([np.ones((2, 3))])",
    "f([np.array([[np.nan, 1, np.inf]])])",
    "K.set_value(w, np.zeros((3, 3)))",
    "K.dot(w, K.variable(np.ones((4, 4))))",
    "n = np.array([[1, np.nan], [np.inf, 2]])",
    "e = np.zeros((0, 3)); s = np.array(5); t = np.array(['a', '日本', '\\x1b[2J'])",
    "c = np.array([1 + 2j]); o = np.array([None, {}], object); b = np.array([True, False])",
    "宽 = np.ones((2, 3, 4, 5), 'float16'); d = np.array(['2020-01-01'], 'datetime64[D]')",
    "p = np.random.default_rng(0).random((4, 8, 8, 3))",
    "globals().update({f'v{i}': i for i in range(120)})",
    "for name in [one for one in dict(globals()) if one[:1] == 'v']: del globals()[name]",
    "text = 'line\\n' * 500; print(text)",
    "for i in range(3): print('日本' * 60, end='\\r')",
    "print('\\x1b[31mred\\x1b[0m \\x1b[2J\\x07 [bold]x[/] \\u202eabc \\u0301')",
    "1 / 0",
    "def deep(n): return deep(n - 1) if n else 1 / 0\ndeep(30)",
    "{'a': [1, 2, {'b': list(range(300))}]}",
    "'x' * 5000",
    "import math",
    "K.set_floatx('float64')",
    "K.set_floatx('float32'); K.set_epsilon(1e-5)",
    "if True:\n    z = 1\n\n    z += 1\nz",
)
CELLS = (*fake_session.SCRIPT, "echo me", *CODES)
REAL_CELLS = (
    *CODES,
    "for i in range(20_000): print('a flood of lines', i)",
    "print('x' * 1_000_000)",
    "import time; time.sleep(0.5)",
    "while True: pass",
    "while True: print('y' * 200)",
    "input('name? ')",
    "import os; os._exit(3)",
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "h = np.arange(360, dtype='float32').reshape(6, 5, 4, 3); h[2, 3, 1, 2] = np.nan",
    "big = np.zeros((1_000_000, 16), 'float32')",
    "from IPython.display import clear_output; print(1); clear_output(wait=True); print(2)",
    "raise KeyboardInterrupt",
    "def broken(:",
    "%time sum(range(1000))",
    "K.dot?",
)


class FuzzSession(fake_session.FakeSession):
    """The cells above run; all others echo their text, as those of the fake session do."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.journal = Journal.create(folder / "journal")
        self.script |= dict.fromkeys(CODES, run)

    def come_up(self) -> None:
        """A new kernel has its imports."""
        self.names.update(K=K, np=np)
        super().come_up()

    def shutdown(self) -> None:
        """What ran is over."""
        self.dead = True
        super().shutdown()

    def act(self, what: str) -> None:
        """Something that happens to a kernel."""
        running = self.running()
        if what == "die":
            if not self.dead:
                self.die(-11)
        elif what == "revive":
            if self.dead:
                self.restart(replay=False)
        elif what == "finish":
            if running is not None:
                self.finish(running)
        elif what == "output":
            ident = running.ident if running else max(self.cells, default=1)
            self._emit(events.Stream(ident, "stderr", "late\x1b[1m words\r\n\b\b\x00" * 20))
        elif what == "changed":
            self._emit(events.Changed(["h", "w", "gone"], {}, 7, {"floatx": "no"}))
        elif what == "stuck":
            if running is not None:
                self._emit(events.Stuck(2.0, running.ident))
        elif what == "ask" and running is not None:
            self._emit(events.InputRequested(running.ident, "really?\n\x1b[2J", True))


def run(session: Any, cell: Cell) -> None:
    """A cell in the names of the session."""
    printed = io.StringIO()
    status = "ok"
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(cell.code, "<cell>", "exec"), session.names)
    except Exception as error:
        status = "error"
        trace = traceback.format_exc().split("\n")
        session._emit(events.Error(cell.ident, type(error).__name__, str(error), trace))
    session.names.pop("__builtins__", None)
    if printed.getvalue():
        session._emit(events.Stream(cell.ident, "stdout", printed.getvalue()))
    session.finish(cell, status)
