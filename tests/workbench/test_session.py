"""Sessions end to end: the same expectations of a real kernel and of the in-process shell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from kbench.workbench import events, journal
from kbench.workbench.journal import Journal
from kbench.workbench.link import Link
from kbench.workbench.session import KernelSession, LocalSession, Session
from kbench.workbench.wire import Wire

WAIT = 30.0


class Watched:
    """A session and everything that it has said."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.heard: list[Any] = []
        session.events.subscribe(self.heard.append)
        session.start()
        assert session.ready(WAIT)

    def until(self, condition: Callable[[], Any], seconds: float = WAIT) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.005)
        raise AssertionError(f"not within {seconds} s; heard {self.heard[-8:]}")

    def of(self, kind: type, cell: int | None = None) -> list[Any]:
        found = [one for one in list(self.heard) if isinstance(one, kind)]
        return [one for one in found if cell is None or one.cell == cell]

    def done(self, cell: int) -> events.CellDone:
        return self.until(lambda: self.of(events.CellDone, cell))[0]

    def run(self, code: str) -> tuple[int, events.CellDone]:
        cell = self.session.execute(code)
        return cell, self.done(cell)

    def text(self, cell: int, name: str = "stdout") -> str:
        return "".join(one.text for one in self.of(events.Stream, cell) if one.name == name)


def make(kind: type, folder: Path) -> Watched:
    return Watched(kind(Journal.create(folder)))


@pytest.fixture(scope="module", params=[KernelSession, LocalSession], ids=["kernel", "local"])
def both(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Watched]:
    watched = make(request.param, tmp_path_factory.mktemp("journal"))
    yield watched
    watched.session.shutdown()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: Any) -> Iterator[Watched]:
    """One kernel for the tests that leave it as it was."""
    watched = make(KernelSession, tmp_path_factory.mktemp("journal"))
    yield watched
    watched.session.shutdown()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Watched]:
    watched = make(KernelSession, tmp_path)
    yield watched
    watched.session.shutdown()


# ------------------------------------------------------------------ both kinds


def test_a_cell_prints_shows_and_counts(both: Watched) -> None:
    cell, done = both.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    assert done.ok and done.status == "ok" and done.count is not None
    assert (both.text(cell), both.text(cell, "stderr")) == ("out\n", "err\n")
    (result,) = both.of(events.Result, cell)
    assert (result.text, result.count) == ("42", done.count)


def test_k_is_there_and_not_among_the_names(both: Watched) -> None:
    both.run("shown = K.variable([1.0, 2.0])\nK.eval(shown)")
    reply = both.session.ask("summary")
    keys = {row["key"] for row in reply["data"]["rows"]}
    assert reply["ok"] and "shown" in keys and not {"K", "In", "Out", "exit"} & keys


def test_displays_come_before_the_result(both: Watched) -> None:
    cell, _ = both.run("from IPython.display import display\ndisplay(1)\n2")
    shown = both.of(events.Result, cell)
    assert [(one.text, one.count is None) for one in shown] == [("1", True), ("2", False)]


def test_an_error_names_itself_and_the_next_cell_runs(both: Watched) -> None:
    first = both.session.execute("1/0")
    second = both.session.execute("'after'")
    assert both.done(first).status == "error" and both.done(second).ok
    (error,) = both.of(events.Error, first)
    assert error.name == "ZeroDivisionError" and error.detail == {} and error.traceback


def test_a_shape_error_is_drawn_in_the_users_expression(both: Watched) -> None:
    both.run("x = K.placeholder((32, 784), name='x')\nw = K.variable(K.zeros((784, 10)), name='w')")
    cell, _ = both.run("a = 1\nK.dot(w, x)")
    (error,) = both.of(events.Error, cell)
    detail = error.detail
    assert (detail["kind"], detail["function"], detail["source"]) == (
        "ShapeError", "dot", ["K.dot(w, x)"]
    )
    spans = {one["role"]: (one["start"], one["end"]) for one in detail["operands"]}
    assert spans == {"x": (6, 7), "y": (9, 10)}
    assert all(one["place"].startswith("In [") for one in detail["operands"])
    assert not any("kbench/engine" in line for line in error.traceback)


def test_a_huge_value_or_error_is_cut_and_says_so(both: Watched) -> None:
    cell, _ = both.run("'x' * 3_000_000")
    (result,) = both.of(events.Result, cell)
    assert len(result.text) < 200_000 and "3,000,002 characters, cut" in result.text
    assert result.data["text/plain"] == result.text
    cell, _ = both.run("raise ValueError('x' * 3_000_000)")
    (error,) = both.of(events.Error, cell)
    assert "3,000,000 characters, cut" in error.value
    assert sum(map(len, error.traceback)) < 200_000
    assert both.session.journal.path.stat().st_size < 2_000_000


def test_completion_and_help(both: Watched) -> None:
    found = both.session.complete("K.set_val", 9)
    assert "set_value" in found.matches and (found.start, found.end) == (2, 9)
    found = both.session.complete("K.dot(", 6)
    assert found.matches[:2] == ["x=", "y="] and not any("%" in one for one in found.matches)
    assert both.session.inspect_object("K.dot(x, ", 9).startswith("K.dot(x")
    assert both.session.complete("no_such_name_at_all.", 20).matches == []


def test_settings_changed_by_a_cell_are_told(both: Watched) -> None:
    both.run("K.set_epsilon(0.25)")
    both.until(lambda: any(one.config["epsilon"] == 0.25 for one in both.of(events.Changed)))
    both.run("K.set_epsilon(1e-7)")


def test_an_interrupted_cell_says_so(both: Watched) -> None:
    if isinstance(both.session, LocalSession):
        cell, done = both.run("raise KeyboardInterrupt")
    else:
        cell = both.session.execute("import time\nwhile True: time.sleep(0.01)")
        both.until(lambda: both.of(events.CellStarted, cell))
        time.sleep(0.2)
        both.session.interrupt()
        done = both.done(cell)
    assert done.status == "interrupted" and not done.ok
    assert both.run("1")[1].ok


def test_restart_forgets_and_replays(both: Watched) -> None:
    both.run("kept = 5")
    both.run("undefined_name")
    before = len(both.session.cells)
    both.session.restart(replay=True)
    assert both.session.ready(WAIT)
    both.until(lambda: not both.session.queued() and both.session.running() is None)
    replayed = [one for one in both.session.cells.values() if one.ident > before]
    assert [one.code for one in replayed][-2:] == ["kept = 5", "undefined_name"]
    cell, _ = both.run("kept")
    assert both.of(events.Result, cell)[0].text == "5"
    both.session.restart(replay=False)
    assert both.session.ready(WAIT)
    assert both.run("kept")[1].status == "error"


def test_every_event_of_a_cell_is_in_the_journal(both: Watched) -> None:
    cell, _ = both.run("print('for the record')\n1/0")
    rows = [row for row in journal.read(both.session.journal.path) if row.get("cell") == cell]
    assert [row["event"] for row in rows] == ["CellStarted", "Stream", "Error", "CellDone"]


# ------------------------------------------------------------------ the kernel's own


def test_cells_typed_while_the_kernel_starts_run_in_order(tmp_path: Path) -> None:
    session = KernelSession(Journal.create(tmp_path))
    heard: list[Any] = []
    session.events.subscribe(heard.append)
    cells = [session.execute(f"print({number})") for number in range(5)]
    session.start()
    assert session.ready(WAIT)
    deadline = time.monotonic() + WAIT
    while session.cells[cells[-1]].status != "ok" and time.monotonic() < deadline:
        time.sleep(0.01)
    session.shutdown()
    printed = [one.text for one in heard if isinstance(one, events.Stream)]
    assert printed == [f"{number}\n" for number in range(5)]


def test_the_inspector_answers_while_a_cell_runs(kernel: Watched) -> None:
    kernel.run("import time\nv = K.variable([1.0, 2.0], name='v')")
    cell = kernel.session.execute("for step in range(400):\n    time.sleep(0.01)")
    kernel.until(lambda: kernel.of(events.CellStarted, cell))
    for _ in range(5):
        reply = kernel.session.ask("summary", timeout=3.0, names=["v"])
        assert reply["ok"] and reply["data"]["rows"][0]["max"] == 2.0
    assert kernel.session.complete("K.set_val", 9, timeout=3.0).matches
    assert kernel.session.running() is not None
    kernel.session.interrupt()
    assert kernel.done(cell).status == "interrupted"


def test_a_value_stored_in_a_loop_is_told_ten_times_a_second_at_most(kernel: Watched) -> None:
    kernel.run("import time\nstep = K.variable(0.0, name='step')\nK.set_value(step, 1.0)")
    before = len(kernel.of(events.Changed))
    began = time.monotonic()
    kernel.run("for i in range(200):\n    K.set_value(step, i)\n    time.sleep(0.004)")
    time.sleep(0.3)
    told = kernel.of(events.Changed)[before:]
    assert 2 <= len(told) <= 10 * (time.monotonic() - began) + 2
    assert all("step" in one.names for one in told[:-1])
    kernel.session.ask("push", on=False)
    kernel.run("K.set_value(step, 7.0)")
    time.sleep(0.3)
    assert kernel.of(events.Changed)[before:] == told
    kernel.session.ask("push", on=True)


def test_many_threads_may_ask_at_once(kernel: Watched) -> None:
    kernel.run("asked = K.variable([1.0, 5.0], name='asked')")
    cell = kernel.session.execute("total = 0\nfor i in range(200_000): total += i")
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: kernel.session.ask("stats", name="asked"), range(80)))
    assert all(one["data"]["max"] == 5.0 for one in replies)
    assert kernel.done(cell).ok


def test_a_kernel_without_subshells_answers_when_it_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Link._on_info
    monkeypatch.setattr(Link, "_on_info", lambda self, content: original(self, {}))
    watched = make(KernelSession, tmp_path)
    watched.run("v = K.variable([1.0, 2.0], name='v')")
    assert watched.session.ask("stats", name="v")["data"]["max"] == 2.0
    watched.session.execute("import time\ntime.sleep(1.0)")
    late = watched.session.request("stats", name="v")
    assert watched.session.ask("stats", timeout=0.2, name="v")["error"]["kind"] == "timeout"
    assert late.result(WAIT)["ok"]
    watched.session.shutdown()


def test_messages_that_the_key_did_not_sign_are_ignored(kernel: Watched) -> None:
    stranger = dict(kernel.session._process.connection, key="another key")
    wire = Wire(stranger)
    before = len(kernel.heard)
    wire.send("shell", "execute_request", {"code": "x = 1", "silent": False})
    time.sleep(0.3)
    assert wire.receive("shell") == [] and len(kernel.heard) == before
    wire.close()
    assert kernel.run("1")[1].ok


def test_a_killed_kernel_loses_nothing_typed_or_shown(fresh: Watched) -> None:
    fresh.run("first = 1")
    cell = fresh.session.execute("import time\nprint('shown', flush=True)\ntime.sleep(60)")
    waiting = fresh.session.execute("first + 1")
    fresh.until(lambda: fresh.text(cell))
    os.kill(fresh.session.pid, signal.SIGKILL)
    (died,) = fresh.until(lambda: fresh.of(events.Died))
    assert (died.code, died.cell) == (-signal.SIGKILL, cell)
    assert fresh.done(cell).status == "lost" and fresh.text(cell) == "shown\n"
    assert not fresh.session.ready(0.0)
    assert fresh.session.ask("summary")["error"]["kind"] == "kernel"
    assert fresh.session.complete("fir", 3).matches == []
    rows = journal.read(fresh.session.journal.path)
    assert ["CellStarted", "Stream", "CellDone", "Died"] == [row["event"] for row in rows[-4:]]
    fresh.session.restart(replay=True)
    assert fresh.session.ready(WAIT)
    assert fresh.done(waiting).ok
    assert fresh.of(events.Result, waiting)[0].text == "2"
    assert fresh.session.cells[cell].status == "lost"


def test_a_crash_in_native_code_leaves_its_last_words(fresh: Watched) -> None:
    fresh.session.execute("import ctypes\nctypes.string_at(0)")
    (died,) = fresh.until(lambda: fresh.of(events.Died))
    assert died.code == -signal.SIGSEGV and "Segmentation fault" in died.log


def test_input_is_asked_for_and_answered(kernel: Watched) -> None:
    cell = kernel.session.execute("name = input('who? ')\nprint('hello', name)")
    (asked,) = kernel.until(lambda: kernel.of(events.InputRequested))
    assert (asked.cell, asked.prompt, asked.password) == (cell, "who? ", False)
    kernel.session.answer("world")
    kernel.done(cell)
    assert kernel.text(cell) == "hello world\n"


def test_waiting_cells_can_be_taken_back(kernel: Watched) -> None:
    cell = kernel.session.execute("import time\ntime.sleep(60)")
    for code in ("a = 1", "b = 2"):
        kernel.session.execute(code)
    kernel.until(lambda: kernel.of(events.CellStarted, cell))
    assert kernel.session.withdraw() == ["a = 1", "b = 2"]
    kernel.session.interrupt()
    assert kernel.done(cell).status == "interrupted" and kernel.session.queued() == []


def test_what_ignores_an_interrupt_is_reported_stuck(
    fresh: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbench.workbench.session.STUCK_AFTER", 0.3)
    code = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
time.sleep(60)
"""
    cell = fresh.session.execute(code)
    fresh.until(lambda: fresh.of(events.CellStarted, cell))
    time.sleep(0.5)
    fresh.session.interrupt()
    (stuck,) = fresh.until(lambda: fresh.of(events.Stuck))
    assert stuck.cell == cell
    fresh.session.restart(replay=False)
    assert fresh.session.ready(WAIT) and fresh.done(cell).status == "lost"


def test_exit_is_the_front_ends_to_decide(kernel: Watched) -> None:
    kernel.run("exit()")
    kernel.until(lambda: kernel.of(events.ExitAsked))
    assert kernel.run("1")[1].ok


def test_hostile_names_and_objects_do_not_stop_the_inspector(kernel: Watched) -> None:
    kernel.run(
        "class Bad:\n"
        "    def __getattribute__(self, name): raise RuntimeError\n"
        "    def __len__(self): raise RuntimeError\n"
        "bad = Bad()\n"
        "globals()['a\\x1b[31m'] = 1"
    )
    rows = {row["key"]: row for row in kernel.session.ask("summary")["data"]["rows"]}
    assert rows["bad"]["kind"] == "object" and rows["a\x1b[31m"]["name"] == r"a\x1b[31m"


@pytest.mark.slow
def test_an_endless_loop_of_output_can_be_stopped(fresh: Watched) -> None:
    cell = fresh.session.execute("while True: print('x' * 200)")
    fresh.until(lambda: [one for one in fresh.of(events.Stream, cell) if one.name == "notice"])
    began = time.monotonic()
    assert fresh.session.ask("summary", timeout=10.0)["ok"]
    fresh.session.interrupt()
    assert fresh.done(cell).status == "interrupted"
    assert time.monotonic() - began < 15.0
    assert len(fresh.text(cell)) <= 2_000_000


def test_the_runtime_folder_is_private_and_goes_with_the_session(tmp_path: Path) -> None:
    watched = make(KernelSession, tmp_path)
    folder = watched.session._process.folder
    assert folder.stat().st_mode & 0o777 == 0o700
    watched.session.shutdown()
    assert not folder.exists()
    watched.session.shutdown()


def test_a_kernel_that_cannot_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(broken))
    session = KernelSession(Journal.create(tmp_path))
    heard: list[Any] = []
    session.events.subscribe(heard.append)
    session.start()
    assert not session.ready(WAIT)
    (died,) = [one for one in heard if isinstance(one, events.Died)]
    assert died.code == 3 and "no such thing" in died.log
    session.shutdown()


def test_a_killed_front_end_takes_its_kernel_along(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from kbench.workbench.journal import Journal
from kbench.workbench.session import KernelSession
session = KernelSession(Journal.create(Path({str(tmp_path)!r})))
session.start()
session.ready(30)
print(session.pid, session._process.folder, flush=True)
input()
"""
    front = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert front.stdout is not None and front.stdin is not None
    pid, folder = front.stdout.readline().split()
    front.kill()
    front.wait()
    front.stdout.close()
    front.stdin.close()
    deadline = time.monotonic() + WAIT
    while psutil.pid_exists(int(pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(int(pid))
    watched = make(KernelSession, tmp_path)
    watched.session.shutdown()
    assert not Path(folder).exists()


def test_after_the_end_every_question_is_answered(tmp_path: Path) -> None:
    watched = make(KernelSession, tmp_path)
    watched.session.shutdown()
    assert watched.session.ask("summary", timeout=1.0)["error"]["kind"] == "kernel"
    assert watched.session.complete("K.", 2).matches == []
    assert watched.session.withdraw() == []
    watched.session.interrupt()


def test_both_kinds_are_sessions() -> None:
    assert issubclass(KernelSession, Session) and issubclass(LocalSession, Session)
