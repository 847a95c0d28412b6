"""A session in somebody else's kernel: what it shows, what it leaves alone, and what it refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client import BlockingKernelClient
from session_helpers import WAIT, Watched, replied

from kbench.workbench.history.journal import Journal
from kbench.workbench.output import stream
from kbench.workbench.session import events, running_kernels
from kbench.workbench.session.attached_session import OTHER_CLIENT, AttachedSession
from kbench.workbench.session.connection import KernelClient
from kbench.workbench.session.running_kernels import Kernel


class Owner:
    """Somebody's kernel, and the notebook through which it is used."""

    def __init__(self, path: Path, environment: dict[str, str] | None = None) -> None:
        self.path = path
        self.environment = {**os.environ, **(environment or {})}
        self.content = ""
        self.start()
        deadline = time.monotonic() + WAIT
        while not (path.exists() and path.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.client = BlockingKernelClient(connection_file=str(path))
        self.client.load_connection_file()
        self.client.start_channels()
        self.client.wait_for_ready(WAIT)
        self.content = path.read_text()

    def start(self) -> None:
        if self.content:  # a kernel that ends politely takes its file along
            self.path.write_text(self.content)
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", str(self.path)]
        self.process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def run(self, code: str) -> Any:
        """Run a cell to its end; the reply."""
        return self.client.execute_interactive(code, timeout=WAIT, output_hook=lambda _: None)

    def value(self, code: str) -> Any:
        """What an expression gives, without a cell of its own."""
        content = {"value": code}
        reply = self.client.execute_interactive(
            "", user_expressions=content, silent=True, timeout=WAIT, output_hook=lambda _: None
        )
        return eval(reply["content"]["user_expressions"]["value"]["data"]["text/plain"])

    @property
    def kernel(self) -> Kernel:
        return running_kernels.find(str(self.path))[0]

    def end(self) -> None:
        self.client.stop_channels()
        self.process.kill()
        self.process.wait()


def attach(owner: Owner, folder: Path) -> Watched:
    watched = Watched(AttachedSession(owner.kernel, Journal.create(folder)))
    watched.until(lambda: watched.of(events.Attached))
    return watched


@pytest.fixture(scope="module")
def owner(tmp_path_factory: Any) -> Iterator[Owner]:
    """One kernel for the tests that leave it alive."""
    made = Owner(tmp_path_factory.mktemp("runtime") / "kernel-shared.json")
    yield made
    made.end()


@pytest.fixture
def guest(owner: Owner, tmp_path: Path) -> Iterator[Watched]:
    watched = attach(owner, tmp_path)
    yield watched
    watched.session.shutdown()


NAMES = "sorted(name for name in globals() if not name.startswith('_'))"
WIDTHS = (
    "(__import__('numpy').get_printoptions()['linewidth'],"
    " get_ipython().display_formatter.formatters['text/plain'].max_width,"
    " 'kbench' in str(get_ipython().compile.get_code_name))"
)
SHELL = "(str(get_ipython().custom_exceptions), get_ipython().ask_exit.__func__.__qualname__)"


def test_the_kernel_stays_as_it_was(owner: Owner, tmp_path: Path) -> None:
    owner.run("import numpy as np\nmine = np.arange(6.0)")
    before = owner.value(NAMES), owner.value(SHELL)
    watched = attach(owner, tmp_path)
    watched.session.columns = 40  # told to a kernel of our own alone
    rows = {row["key"]: row for row in replied(watched.session, "summary")["data"]["rows"]}
    assert rows["mine"]["shape"] == [6] and rows["mine"]["max"] == 5.0
    cell, _ = watched.run("mine.sum()")
    assert watched.of(events.Result, cell)[0].text == "np.float64(15.0)"
    watched.session.restart()
    assert watched.run("mine is not None")[1].ok
    watched.session.shutdown()
    assert owner.process.poll() is None
    assert (owner.value(NAMES), owner.value(SHELL)) == before
    assert owner.value(WIDTHS) == (75, 79, False)
    left = "len(get_ipython()._kbench_guest._comms)"
    watched.until(lambda: owner.value(left) == 0)


def test_what_ran_before_is_told(owner: Owner, tmp_path: Path) -> None:
    owner.run("before = 'this session'")
    watched = attach(owner, tmp_path)
    (told,) = watched.of(events.Attached)
    assert told.inputs[-1] == "before = 'this session'" and told.count >= len(told.inputs) > 0
    _, done = watched.run("1")
    assert done.count == told.count + 1
    watched.session.shutdown()


def others(guest: Watched) -> list[events.CellStarted]:
    return [one for one in guest.of(events.CellStarted) if one.origin == OTHER_CLIENT]


def test_cells_of_another_client_are_shown_with_all_they_show(owner: Owner, guest: Watched) -> None:
    owner.run("print('seen')\n6 * 7")
    owner.run("1/0")
    done = guest.until(lambda: guest.of(events.CellDone)[1:2])
    first, second = others(guest)
    assert first.code == "print('seen')\n6 * 7" and guest.text(first.cell) == "seen\n"
    assert guest.of(events.Result, first.cell)[0].text == "42"
    assert guest.of(events.Error, second.cell)[0].name == "ZeroDivisionError"
    assert [one.status for one in guest.of(events.CellDone)] == ["ok", "error"]
    assert done[0].count == guest.of(events.CellDone)[0].count + 1
    guest.until(lambda: guest.session.running() is None)
    owner.run("told = 1")
    guest.until(lambda: any("told" in one.names for one in guest.of(events.Changed)))


FLOODS = {
    "in one message": "print('x' * 40_000_000)",
    "in many": "for _ in range(400): print('x' * 99_999)",
    "of lines": "print('line\\n' * 8_000_000)",
}


@pytest.mark.parametrize("code", FLOODS.values(), ids=FLOODS.keys())
def test_of_a_flood_of_prints_so_much_is_taken_in(code: str, owner: Owner, guest: Watched) -> None:
    owner.run(code)
    (done,) = guest.until(lambda: guest.of(events.CellDone))
    (theirs,) = others(guest)
    streams = guest.of(events.Stream, theirs.cell)
    printed = sum(len(one.text) for one in streams if one.name == "stdout")
    notices = "".join(one.text for one in streams if one.name == "notice")
    assert done.ok and 10_000 < printed <= stream.MAX_CHARACTERS
    assert "output cut after" in notices and "MB came too fast and were dropped" in notices
    assert guest.run("'still here'")[1].ok


def test_errors_of_both_are_drawn_in_the_users_expression(owner: Owner, guest: Watched) -> None:
    owner.run("import kbench as KK\nw = KK.variable([[1.0, 2.0]], name='w')")
    reply = owner.run("KK.dot(w, w)")["content"]
    assert any("kbench" in line for line in reply["traceback"])  # shown as before
    cell, _ = guest.run("KK.dot(w, w)")
    guest.until(lambda: len(guest.of(events.Error)) == 2)
    for error in guest.of(events.Error):
        assert error.detail["source"] == ["KK.dot(w, w)"] and error.detail["function"] == "dot"


def test_a_name_that_is_missing_is_told_in_cells_of_both(owner: Owner, guest: Watched) -> None:
    """Somebody's kernel has no K: the first line that is tried there says how it gets one."""
    owner.run("K.ones((2,))")
    guest.run("K.zeros((2,))")
    for error in guest.until(lambda: guest.of(events.Error)[1:] and guest.of(events.Error)):
        assert error.detail == {"meant": "Import it first: from kbench import backend as K"}


@pytest.mark.parametrize("code", ["x = (1 +", "if True:\nx", "if 1:\n\tx\n        y", "a b"])
def test_syntax_errors_of_both_name_the_cell(code: str, owner: Owner, guest: Watched) -> None:
    guest.run(code)
    owner.run(code)
    for error in guest.until(lambda: guest.of(events.Error)[1:] and guest.of(events.Error)):
        assert f"(cell {guest.session.cells[error.cell].count}, line " in error.value


def test_warnings_of_both_name_the_cell_that_they_come_from(owner: Owner, tmp_path: Path) -> None:
    code = "import warnings\ndef warns():\n    warnings.warn('beware', UserWarning)"
    owner.run(code)  # before we come
    watched = attach(owner, tmp_path)
    made = watched.of(events.Attached)[0].count
    owner.run("warns()")
    watched.until(lambda: watched.of(events.CellDone))
    (theirs,) = others(watched)
    cell, _ = watched.run("#\nwarnings.warn('mine')")
    count = watched.session.cells[cell].count
    for ident, words in (
        (theirs.cell, f"cell {made}, line 3: UserWarning: beware\n"),
        (cell, f"cell {count}, line 2: UserWarning: mine\n"),
    ):
        streams = watched.of(events.Stream, ident)
        text = "".join(one.text for one in streams if one.name == "stderr")
        assert text.startswith(words) and "ipykernel_" not in text
    watched.session.shutdown()


@pytest.mark.slow
def test_ours_wait_for_theirs_while_the_names_are_live(owner: Owner, guest: Watched) -> None:
    owner.run("import time\nstep = 0")
    theirs = owner.client.execute("while step < 200:\n    step += 1\n    time.sleep(0.02)")
    guest.until(lambda: others(guest)[1:])
    ours = guest.session.execute("'after'")
    seen = []
    while guest.session.cells[ours].status == "queued":
        reply = replied(guest.session, "summary", names=["step"])
        seen.append(float(reply["data"]["rows"][0]["text"]))
        time.sleep(0.05)
    assert guest.done(ours).ok and len(set(seen)) > 3 and seen == sorted(seen)
    owner.client.get_shell_msg(timeout=WAIT)
    assert theirs


@pytest.mark.slow
def test_a_busy_kernel_is_attached_to_beside_its_cell(tmp_path: Path) -> None:
    owner = Owner(tmp_path / "kernel-busy.json")
    owner.run("import time\nvalue = 5")
    owner.client.execute("for _ in range(1000):\n    print('on'); time.sleep(0.05)")
    time.sleep(0.5)
    assert running_kernels.ask(owner.kernel).state == "busy"
    guest = attach(owner, tmp_path)
    reply = replied(guest.session, "summary", names=["value"])
    assert reply["data"]["rows"][0]["text"] == "5"
    (theirs,) = guest.until(lambda: others(guest))
    assert theirs.code.startswith("# a cell that ran already") and guest.session.running()
    guest.until(lambda: "on\n" in guest.text(theirs.cell))
    guest.session.interrupt()  # reaches cells of ours only
    time.sleep(0.3)
    assert guest.session.running() is not None
    guest.session.interrupt_others()
    assert guest.done(theirs.cell).status == "interrupted"
    cell, done = guest.run("value + 1")
    assert done.ok and guest.of(events.Result, cell)[0].text == "6"
    guest.session.shutdown()
    assert owner.process.poll() is None
    owner.end()


def test_a_cell_of_ours_can_be_interrupted(guest: Watched) -> None:
    cell = guest.session.execute("import time\nwhile True: time.sleep(0.01)")
    guest.until(lambda: guest.of(events.CellStarted, cell))
    time.sleep(0.2)
    guest.session.interrupt()
    assert guest.done(cell).status == "interrupted"


@pytest.mark.parametrize("code", ["exit", " quit() \n", "%exit"])
def test_leaving_does_not_reach_the_kernel(owner: Owner, guest: Watched, code: str) -> None:
    guest.session.execute(code)
    guest.until(lambda: guest.of(events.ExitAsked))
    assert guest.run("1")[1].ok and owner.process.poll() is None


def test_two_front_ends_do_not_silence_each_other(
    owner: Owner, guest: Watched, tmp_path: Path
) -> None:
    second = attach(owner, tmp_path / "second")
    assert replied(second.session, "push", on=False)["ok"]
    told = len(second.of(events.Changed))
    owner.run("pushed = 1")
    guest.until(lambda: any("pushed" in one.names for one in guest.of(events.Changed)))
    assert len(second.of(events.Changed)) == told
    second.session.shutdown()
    owner.run("again = 1")
    guest.until(lambda: any("again" in one.names for one in guest.of(events.Changed)))


@pytest.mark.slow
def test_a_kernel_that_is_restarted_elsewhere_comes_back(tmp_path: Path) -> None:
    owner = Owner(tmp_path / "kernel-mortal.json")
    guest = attach(owner, tmp_path)
    guest.run("kept = 1")
    lost = guest.session.execute("import time\ntime.sleep(60)")
    waiting = guest.session.execute("'typed ahead'")
    guest.until(lambda: guest.of(events.CellStarted, lost))
    os.kill(owner.process.pid, signal.SIGKILL)
    owner.process.wait()
    (died,) = guest.until(lambda: guest.of(events.Died))
    assert died.cell == lost and guest.done(lost).status == "lost"
    assert replied(guest.session, "summary")["error"]["kind"] == "kernel"
    owner.start()
    assert guest.done(waiting).ok and guest.of(events.Restarted)
    cell, done = guest.run("kept")
    assert done.status == "error" and guest.of(events.Error, cell)[0].name == "NameError"
    guest.session.shutdown()
    owner.end()


@pytest.mark.slow
def test_a_restart_from_a_notebook_is_noticed_however_quick(tmp_path: Path) -> None:
    owner = Owner(tmp_path / "kernel-quick.json")
    guest = attach(owner, tmp_path)
    owner.client.shutdown(restart=True)
    owner.process.wait()
    owner.start()
    guest.until(lambda: guest.of(events.Restarted))
    guest.until(lambda: len(guest.of(events.Started)) == 2)
    assert guest.run("1")[1].count == 1
    guest.session.shutdown()
    owner.end()


def test_without_subshells_the_names_come_when_the_kernel_is_idle(
    owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = KernelClient._on_info
    plain = {"supported_features": []}
    monkeypatch.setattr(
        KernelClient, "_on_info", lambda self, info: original(self, {**info, **plain})
    )
    guest = attach(owner, tmp_path)
    owner.run("idle = 3")
    assert replied(guest.session, "summary", names=["idle"])["data"]["rows"][0]["text"] == "3"
    guest.session.shutdown()


def test_a_kernel_without_kbench_runs_cells_and_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] == 'kbench':\n"
        "            raise ModuleNotFoundError(\"No module named 'kbench'\", name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
    )
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    owner = Owner(tmp_path / "kernel-bare.json", {"PYTHONPATH": path})
    guest = attach(owner, tmp_path / "journal")
    (begun,) = guest.of(events.Started)
    assert begun.hello == {} and "kbench is not installed in this kernel" in begun.problem
    assert "no inspector" in replied(guest.session, "summary")["error"]["reason"]
    cell, done = guest.run("6 * 7")
    assert done.ok and guest.of(events.Result, cell)[0].text == "42"
    guest.session.shutdown()
    owner.end()


def test_a_kernel_tells_what_it_is(owner: Owner) -> None:
    facts = running_kernels.ask(owner.kernel)
    assert (facts.language, facts.implementation, facts.state) == ("python", "ipython", "idle")
    assert running_kernels.ask_all([owner.kernel]) == [facts.words]
