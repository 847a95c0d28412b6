"""A session without a kernel: cells are scripted, the inspector is the real one on a dict."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import numpy as np

from kbench.workbench.history.journal import Journal
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.session import events
from kbench.workbench.session.cell import Cell
from kbench.workbench.session.session_interface import Completion, Reply, Session, failed_reply

DETAIL = {
    "kind": "ShapeError",
    "function": "dot",
    "reason": "inner sizes differ: 10 != 32",
    "place": "In [7]",
    "suggestion": "K.dot(x, w) -> float32[32, 10]",
    "source": ["K.dot(w, x)"],
    "operands": [
        {
            "role": "x",
            "spec": "float32[784, 10]",
            "kind": "variable",
            "name": "w",
            "place": "In [1]",
            "axis": -1,
            "line": 0,
            "start": 6,
            "end": 7,
        },
        {
            "role": "y",
            "spec": "float32[32, 784]",
            "kind": "placeholder",
            "name": "x",
            "place": "In [2]",
            "axis": -2,
            "line": 0,
            "start": 9,
            "end": 10,
        },
    ],
}


class FakeSession(Session):
    """`script` maps code to a function of (session, cell); what is not in it echoes its code."""

    def __init__(self, auto_start: bool = True) -> None:
        super().__init__(Journal(None))
        self.names: dict[str, Any] = {}
        self.inspector = Inspector(self.names, publish=self._published)
        self.script: dict[str, Any] = dict(SCRIPT)
        self.log: list[tuple[str, Any]] = []
        self.auto_start = auto_start
        self.dead = False
        self.count = 0
        self.started = threading.Event()
        self.asked: list[str] = []
        self.pid = 0  # of no process: nothing to measure

    # ------------------------------------------------------------------ the interface

    def start(self) -> None:
        if self.auto_start:
            self.come_up()

    def come_up(self) -> None:
        """The kernel is ready: greet and run what waits."""
        hello = self.inspector.handle({"id": 0, "verb": "hello", "push": True, "record": True})
        self.started.set()
        self._emit(events.Started(hello["data"], 0.8))
        waiting = self.queued()
        if waiting:
            self._run(waiting[0])

    def ready(self, timeout: float | None = None) -> bool:
        return self.started.wait(timeout)

    def execute(self, code: str, replay_of: int | None = None, unseen: str = "") -> int:
        cell = self._new_cell(code, replay_of, unseen)
        if self.started.is_set() and not self.dead and self.running() is None:
            self._run(cell)
        return cell.ident

    def request(self, verb: str, **arguments: Any) -> Future[Reply]:
        self.asked.append(verb)
        future: Future[Reply] = Future()
        if self.dead or not self.started.is_set():
            future.set_result(failed_reply(verb, "inspector", "no kernel"))
        else:
            future.set_result(self.inspector.handle({"id": 1, "verb": verb, **arguments}))
        return future

    def complete(self, code: str, position: int, timeout: float = 2.0) -> Completion:
        start = position
        while start and (code[start - 1].isalnum() or code[start - 1] in "._"):
            start -= 1
        word = code[start:position]
        known = ["K.dot", "K.dropout", "K.dtype", "print", *self.names]
        found = [name for name in known if name.startswith(word)]
        return Completion(found, start, position, ["function"] * len(found))

    def answer(self, text: str) -> None:
        self.log.append(("answer", text))
        cell = self.running()
        if cell is not None:
            self._emit(events.Stream(cell.ident, "stdout", f"hello {text}\n"))
            self.finish(cell)

    def interrupt(self) -> None:
        self.log.append(("interrupt", None))
        cell = self.running()
        if cell is not None:
            self._emit(events.Error(cell.ident, "KeyboardInterrupt", "", ["KeyboardInterrupt"]))
            self.finish(cell, "interrupted")

    def restart(self, replay: bool = True) -> None:
        self.log.append(("restart", replay))
        again = self.replayable() if replay else []
        self.names.clear()
        self.dead, self.count = False, 0
        self._emit(events.Restarted(len(again)))
        waiting = self.queued()
        for cell in again:
            cell.status = "past"
            self._new_cell(*cell.rerun_arguments)
        for cell in waiting:  # behind the cells that run again
            self.cells[cell.ident] = self.cells.pop(cell.ident)
        self.come_up()

    def shutdown(self) -> None:
        self.log.append(("shutdown", None))
        self.inspector.close()
        self.journal.end()

    # ------------------------------------------------------------------ playing a kernel

    def _published(self, message: dict[str, Any]) -> None:
        data = message["data"]
        if message["push"] == "changed":
            self._emit(events.Changed.of(data))
        else:
            self._emit(events.Told(message["push"], data))

    def _run(self, cell: Cell) -> None:
        cell.status = "running"
        self._emit(events.Busy())
        self._emit(events.CellStarted(cell.ident, cell.code, cell.replay_of))
        self.inspector.cell_started()
        act = self.script.get(cell.code)
        if act is None:
            self.result(cell, cell.code)
            self.finish(cell)
        else:
            act(self, cell)

    def result(self, cell: Cell, text: str) -> None:
        self._emit(events.Result(cell.ident, text, {"text/plain": text}, self.count + 1))

    def finish(self, cell: Cell, status: str = "ok") -> None:
        self.count += 1
        cell.status, cell.count = status, self.count
        self.inspector.cell_ended()
        self._emit(events.CellDone(cell.ident, self.count, status == "ok", 0.012, status))
        self._emit(events.Idle(0.012))
        waiting = self.queued()
        if waiting and not self.dead:
            self._run(waiting[0])

    def die(self, code: int = -9) -> None:
        """The process is gone."""
        self.dead = True
        self.started.clear()
        cell = self.running()
        if cell is not None:
            cell.status = "lost"
            self._emit(events.CellDone(cell.ident, None, False, 1.0, "lost"))
        self._emit(events.Idle(1.0))
        self._emit(events.Died(code, "Fatal Python error: Killed", cell.ident if cell else None))


def define(session: FakeSession, cell: Cell) -> None:
    """An array of rank 4 with a NaN, and a plain number."""
    values = np.arange(6 * 5 * 4 * 3, dtype=np.float32).reshape(6, 5, 4, 3) / 100
    values[2, 3, 1, 2] = np.nan
    session.names["h"] = values
    session.names["lr"] = 0.01
    session.finish(cell)


def big(session: FakeSession, cell: Cell) -> None:
    session.names["big"] = np.zeros((1_000_000, 16), np.float32)
    session.finish(cell)


def shape_error(session: FakeSession, cell: Cell) -> None:
    trace = ["\x1b[31mShapeError\x1b[0m", "Cell In[3], line 1"]
    session._emit(events.Error(cell.ident, "ShapeError", DETAIL["reason"], trace, DETAIL))
    session.finish(cell, "error")


def print_much(session: FakeSession, cell: Cell) -> None:
    for start in range(0, 2000, 500):
        text = "".join(f"line {number}\n" for number in range(start, start + 500))
        session._emit(events.Stream(cell.ident, "stdout", text))
    session.finish(cell)


def hostile(session: FakeSession, cell: Cell) -> None:
    text = "[bold]no[/bold] \x1b]0;t\x07\x07\u202eabc\n"
    session._emit(events.Stream(cell.ident, "stdout", text))
    session.result(cell, "[red]x[/red]\x1b[2J\x00")
    session.names["a\u202eb"] = 1
    session.finish(cell)


def ask_name(session: FakeSession, cell: Cell) -> None:
    session._emit(events.InputRequested(cell.ident, "name? ", False))


SCRIPT: dict[str, Any] = {
    "define": define,
    "big": big,
    "K.dot(w, x)": shape_error,
    "print_much": print_much,
    "hostile": hostile,
    "forever": lambda session, cell: None,
    "ask": ask_name,
}
