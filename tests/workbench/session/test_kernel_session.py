"""What only a session with a kernel of its own can do: survive, be stopped, answer while busy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from session_helpers import WAIT, Watched, make, replied

from kbench.workbench.history import journal
from kbench.workbench.history.journal import Journal
from kbench.workbench.session import connection, events
from kbench.workbench.session.connection import KernelClient
from kbench.workbench.session.kernel_session import KernelSession
from kbench.workbench.session.wire import Wire


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


@pytest.mark.slow
def test_names_are_told_as_they_are_after_each_cell(fresh: Watched) -> None:
    """Changed in place, deleted in every way that IPython has, and in their thousands."""
    assert replied(fresh.session, "push", on=True)["ok"]

    def told(code: str) -> set[str]:
        before = len(fresh.of(events.Changed))
        fresh.run(code)
        fresh.until(lambda: fresh.of(events.Changed)[before:])
        news = fresh.of(events.Changed)[before:]
        return {"many"} if any(one.many for one in news) else {n for one in news for n in one.names}

    def names() -> set[str]:
        return {
            row["key"] for row in replied(fresh.session, "summary", timeout=WAIT)["data"]["rows"]
        }

    assert told("hist, kept, other = [], {}, (1, [2])") == {"hist", "kept", "other"}
    assert told("def note(x): hist.append(x); kept[x] = [x]\nnote(1)") == {"hist", "kept"}
    assert told("other[1].append(3)") == {"other"}
    assert told("del kept") == {"kept"} and names() == {"hist", "other"}
    assert told("%xdel other") == {"other"} and names() == {"hist"}
    assert told("%reset_selective -f hist") == {"hist"} and names() == set()
    many = "for at in range(10_000): globals()[f'v{at:04d}'] = [at]"
    assert told(many) == {"many"} and len(names()) == 10_001
    assert told("v0999.append(1)") == {"v0999"}
    assert told("%reset -f") == {"many"} and names() == set()
    fresh.run("left = 1")
    fresh.session.restart(replay=False)
    fresh.until(lambda: len(fresh.of(events.Started)) == 2)
    assert names() == set()


def test_the_inspector_answers_while_a_cell_runs(kernel: Watched) -> None:
    kernel.run("import time\nv = K.variable([1.0, 2.0], name='v')")
    cell = kernel.session.execute("for step in range(400):\n    time.sleep(0.01)")
    kernel.until(lambda: kernel.of(events.CellStarted, cell))
    for _ in range(5):
        reply = replied(kernel.session, "summary", timeout=3.0, names=["v"])
        assert reply["ok"] and reply["data"]["rows"][0]["max"] == 2.0
    assert kernel.session.complete("K.set_val", 9, timeout=3.0).matches
    assert kernel.session.running() is not None
    kernel.session.interrupt()
    assert kernel.done(cell).status == "interrupted"


@pytest.mark.slow
def test_a_value_stored_in_a_loop_is_told_ten_times_a_second_at_most(kernel: Watched) -> None:
    kernel.run("import time\nstep = K.variable(0.0, name='step')\nK.set_value(step, 1.0)")
    before = len(kernel.of(events.Changed))
    began = time.monotonic()
    kernel.run("for i in range(200):\n    K.set_value(step, i)\n    time.sleep(0.004)")
    time.sleep(0.3)
    told = kernel.of(events.Changed)[before:]
    assert 2 <= len(told) <= 10 * (time.monotonic() - began) + 2
    assert all("step" in one.names for one in told[:-1])
    replied(kernel.session, "push", on=False)
    kernel.run("K.set_value(step, 7.0)")
    time.sleep(0.3)
    assert kernel.of(events.Changed)[before:] == told
    replied(kernel.session, "push", on=True)


def test_a_thousand_names_come_in_pages_and_whole(kernel: Watched) -> None:
    code = "for i in range(1000): globals()[f'many_{i}'] = K.variable([float(i)])"
    kernel.run(code)
    reply = replied(kernel.session, "summary", timeout=WAIT, pattern="many_*")
    rows = {row["key"]: row["max"] for row in reply["data"]["rows"]}
    assert rows == {f"many_{i}": float(i) for i in range(1000)}
    kernel.run("for i in range(1000): del globals()[f'many_{i}']")


def test_lone_surrogates_stop_nothing(kernel: Watched) -> None:
    cell, done = kernel.run("x = '\ud800'")
    assert done.status == "error" and kernel.of(events.Error, cell)
    kernel.run(r"globals()['\ud800'] = 1")
    assert kernel.run("'next'")[1].ok
    assert replied(kernel.session, "summary")["ok"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (r"print('a \ud800 b'); 'after'", ("a \\ud800 b", "after")),
        (r"import sys; print('to \udfff', file=sys.stderr)", ("to \\udfff",)),
        (r"raise ValueError('bad \ud800')", ("bad \\ud800",)),
        (r"from IPython.display import Latex, display; display(Latex('x \ud83d'))", ("x \\ud83d",)),
        (r"import IPython; IPython.display.Pretty('of', metadata={'\ud83d': 1})", ("of",)),
        (r"x = {'\ud800': 1}; x", (r"{'\ud800': 1}",)),
    ],
)
def test_lone_surrogates_are_shown_as_escapes(
    kernel: Watched, code: str, told: tuple[str, ...]
) -> None:
    """The wire takes none, and a message that cannot be sent would take others with it."""
    for _ in range(3):
        cell, _done = kernel.run(code)
        heard = repr(kernel.heard_of(cell)).replace("\\\\", "\\")
        assert all(text in heard for text in told), heard


def test_many_threads_may_ask_at_once(kernel: Watched) -> None:
    kernel.run("asked = K.variable([1.0, 5.0], name='asked')")
    cell = kernel.session.execute("total = 0\nfor i in range(200_000): total += i")
    with ThreadPoolExecutor(8) as pool:
        replies = list(
            pool.map(lambda _: replied(kernel.session, "stats", name="asked"), range(80))
        )
    assert all(one["data"]["max"] == 5.0 for one in replies)
    assert kernel.done(cell).ok


@pytest.mark.slow
def test_a_kernel_without_subshells_answers_when_it_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = KernelClient._on_info
    monkeypatch.setattr(KernelClient, "_on_info", lambda self, content: original(self, {}))
    watched = make(KernelSession, tmp_path)
    watched.run("v = K.variable([1.0, 2.0], name='v')")
    assert replied(watched.session, "stats", name="v")["data"]["max"] == 2.0
    watched.session.execute("import time\ntime.sleep(1.0)")
    late = watched.session.request("stats", name="v")
    assert replied(watched.session, "stats", timeout=0.2, name="v")["error"]["kind"] == "timeout"
    assert late.result(WAIT)["ok"]
    watched.session.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["create_subshell_request", "comm_open", "nothing"])
def test_what_a_starting_kernel_loses_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Or, for "nothing", is sent twice: its answer was only late."""
    send, sent = Wire.send, [lost]

    def lose(self: Wire, channel: str, kind: str, *rest: Any, **more: Any) -> str:
        if kind in sent:
            sent.remove(kind)
            return ""
        if lost == "nothing" and kind in ("create_subshell_request", "comm_open"):
            send(self, channel, kind, *rest, **more)
        return send(self, channel, kind, *rest, **more)

    monkeypatch.setattr(Wire, "send", lose)
    monkeypatch.setattr(connection, "_UNANSWERED_SECONDS", 0.5)
    watched = make(KernelSession, tmp_path)
    assert len(watched.of(events.Started)) == 1 and watched.of(events.Started)[0].problem == ""
    watched.run("v = K.variable([1.0, 2.0], name='v')\nimport gc\ngc.collect()")
    cell = watched.session.execute("import time\ntime.sleep(1.0)")
    reply = replied(watched.session, "stats", name="v", timeout=0.9)
    assert reply["ok"], reply
    assert reply["data"]["max"] == 2.0
    assert watched.done(cell).ok and len(watched.of(events.Started)) == 1
    watched.session.shutdown()


def test_a_kernel_whose_inspector_does_not_load_still_runs_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'kbench.workbench.kernel.extension':\n"
        "            raise ImportError('numba is too old')\n"
        "sys.meta_path.insert(0, Missing())\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    watched = make(KernelSession, tmp_path)
    (started,) = watched.of(events.Started)
    assert started.hello == {} and "no inspector" in started.problem
    assert "numba is too old" in started.problem
    assert replied(watched.session, "summary")["error"]["kind"] == "inspector"
    cell, done = watched.run("6 * 7")
    assert done.ok and watched.of(events.Result, cell)[0].text == "42"
    watched.session.shutdown()


def test_the_inspector_is_loaded_into_a_kernel_that_came_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kbench.workbench.session.kernel_process.EXTENSION", "IPython.extensions.storemagic"
    )
    watched = make(KernelSession, tmp_path)
    (started,) = watched.of(events.Started)
    assert started.problem == "" and started.hello["pid"] == watched.session.pid
    cell, done = watched.run("K.floatx()")
    assert done.ok and done.count == 1
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
    assert replied(fresh.session, "summary")["error"]["kind"] == "kernel"
    assert fresh.session.complete("fir", 3).matches == []
    rows = journal.read(fresh.session.journal.path)
    kinds = [row["event"] for row in rows[-5:]]
    assert kinds == ["CellStarted", "Queued", "Stream", "CellDone", "Died"]
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


LEAVING = [
    ("input('who? ')", None, "interrupted", "KeyboardInterrupt"),
    ("x = 41\nbreakpoint()\nx + 1", ["p x", "c"], "ok", "42"),
    ("x = 41\nbreakpoint()\nx + 1", ["q"], "error", ""),
    ("x = 41\nbreakpoint()\nx + 1", None, "", ""),
    ("import getpass\ngetpass.getpass('key? ')", None, "interrupted", "KeyboardInterrupt"),
]


@pytest.mark.parametrize(("code", "answers", "status", "shown"), LEAVING)
def test_a_cell_that_waits_for_a_line_can_be_left(
    kernel: Watched, code: str, answers: list[str] | None, status: str, shown: str
) -> None:
    """None as answers: an interrupt."""
    cell = kernel.session.execute(code)
    asked = kernel.until(lambda: kernel.of(events.InputRequested, cell))
    if "breakpoint" in code:
        assert asked[0].prompt == "ipdb> "
    if answers is None:
        kernel.session.interrupt()
    for number, answer in enumerate(answers or (), 1):
        kernel.until(lambda number=number: len(kernel.of(events.InputRequested, cell)) >= number)
        kernel.session.answer(answer)
    done = kernel.done(cell)
    assert done.status == status or not status
    errors = [error.name for error in kernel.of(events.Error, cell)]
    results = [result.text for result in kernel.of(events.Result, cell)]
    assert not shown or shown in errors + results
    after = kernel.session.execute("6 * 7")
    assert kernel.done(after).status == "ok"


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
    monkeypatch.setattr("kbench.workbench.session.kernel_session.STUCK_SECONDS", 0.3)
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


@pytest.mark.parametrize("code", ["exit()", "quit()", "get_ipython().ask_exit()"])
def test_exit_is_the_front_ends_to_decide(kernel: Watched, code: str) -> None:
    asked = len(kernel.of(events.ExitAsked))
    kernel.run(f"{code}\nimport asyncio\nawait asyncio.sleep(0.3)")  # lets the kernel's loop turn
    kernel.until(lambda: len(kernel.of(events.ExitAsked)) == asked + 1)
    assert kernel.run("1")[1].ok and not kernel.of(events.Died)


def test_hostile_names_and_objects_do_not_stop_the_inspector(kernel: Watched) -> None:
    _, done = kernel.run(
        "class Bad:\n"
        "    def __getattribute__(self, name): raise RuntimeError\n"
        "    def __len__(self): raise RuntimeError\n"
        "bad = Bad()\n"
        "globals()['a\\x1b[31m'] = 1"
    )
    assert done.ok
    rows = {row["key"]: row for row in replied(kernel.session, "summary")["data"]["rows"]}
    assert rows["bad"]["kind"] == "object" and rows["a\x1b[31m"]["name"] == r"a\x1b[31m"


@pytest.mark.slow
def test_an_endless_loop_of_output_can_be_stopped(fresh: Watched) -> None:
    cell = fresh.session.execute("while True: print('x' * 200)")
    fresh.until(lambda: [one for one in fresh.of(events.Stream, cell) if one.name == "notice"])
    began = time.monotonic()
    assert replied(fresh.session, "summary", timeout=10.0)["ok"]
    fresh.session.interrupt()
    assert fresh.done(cell).status == "interrupted"
    assert time.monotonic() - began < 15.0
    assert len(fresh.text(cell)) <= 2_000_000


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_killed_front_end_takes_its_kernel_along(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from kbench.workbench.history.journal import Journal
from kbench.workbench.session.kernel_session import KernelSession
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
    os.utime(folder, (0, 0))  # as if it had been left behind long ago
    watched = make(KernelSession, tmp_path)
    os.utime(watched.session._process.folder, (0, 0))
    other = make(KernelSession, tmp_path)
    assert not Path(folder).exists() and watched.session._process.folder.exists()
    other.session.shutdown()
    watched.session.shutdown()


def test_after_the_end_every_question_is_answered(tmp_path: Path) -> None:
    watched = make(KernelSession, tmp_path)
    watched.session.shutdown()
    assert replied(watched.session, "summary", timeout=1.0)["error"]["kind"] == "kernel"
    assert watched.session.complete("K.", 2).matches == []
    assert watched.session.withdraw() == []
    watched.session.interrupt()
