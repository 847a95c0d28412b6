"""Anything in any order: cells, interrupts, questions, restarts and kills leave no cell open."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest
from session_helpers import WAIT, make, replied

from kbench.workbench.session import events
from kbench.workbench.session.kernel_session import KernelSession

CODES = [
    "1 + 1",
    "import time; time.sleep(0.2)",
    "print('x' * 1000)",
    "K.eval(K.ones((100, 100)))",
    "1/0",
    "import time\nfor i in range(50): time.sleep(0.02)",
    "x = K.variable(1.0)",
    "while True: pass",
    "import os; os._exit(3)",
]
VERBS = ["summary", "changes", "config", "plan", "hello"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_of_operations_ends_well(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    watched = make(KernelSession, tmp_path)
    session = watched.session
    end = time.monotonic() + 12.0
    while time.monotonic() < end:
        step = chance.random()
        if step < 0.5:
            session.execute(chance.choice(CODES))
        elif step < 0.7:
            session.interrupt()
        elif step < 0.9:
            reply = replied(session, chance.choice(VERBS), timeout=10.0)
            assert reply["ok"] or reply["error"]["kind"] in ("inspector", "kernel")
        elif step < 0.95:
            session.restart(replay=chance.random() < 0.5)
        elif session.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(session.pid, signal.SIGKILL)
        time.sleep(chance.random() * 0.2)
        if any(isinstance(one, events.Died) for one in watched.heard[-3:]):
            session.restart(replay=False)
    session.withdraw()
    session.restart(replay=False)
    assert session.ready(WAIT)
    cell, done = watched.run("'final'")
    assert done.ok and watched.of(events.Result, cell)[0].text == "'final'"
    started = [one.cell for one in watched.of(events.CellStarted)]
    assert len(set(started)) == len(started) > 0
    ended = [one.cell for one in watched.of(events.CellDone)]
    assert sorted(started) == sorted(ended)
    session.shutdown()
