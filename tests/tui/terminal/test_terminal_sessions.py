"""What a session goes through in a pseudo-terminal: interrupts, ends, another's kernel, exports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from terminal import PATIENCE, Terminal, gone

from kbench.tui.app import HANGUP
from kbench.tui.dialogs import dialogs
from kbench.workbench.history import session_archive

pytestmark = pytest.mark.slow

PID = "__import__('os').getpid()"
FOREVER = "import time\nwhile True: time.sleep(0.01)"


@contextmanager
def notebook(folder: Path) -> Iterator[tuple[Path, Any]]:
    """A kernel that some other program has started, and that program's client."""
    path = folder / "kernel-notebook.json"
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", str(path)]
    kernel = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=folder)
    client = BlockingKernelClient()
    try:
        deadline = time.monotonic() + PATIENCE
        while not (path.exists() and path.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.1)
        client.load_connection_file(str(path))
        client.start_channels()
        client.wait_for_ready(timeout=PATIENCE)
        yield path, client
        assert kernel.poll() is None, "the other program's kernel has ended"
    finally:
        client.stop_channels()
        kernel.kill()
        kernel.wait()


def peak_memory(pid: int) -> float:
    """Bytes of memory that a process has had at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024.0 * int(status.partition("VmHWM:")[2].split()[0])


def test_anothers_kernel_shows_its_names_and_its_clients_cells(tmp_path: Path) -> None:
    with notebook(tmp_path) as (path, client):
        client.execute_interactive("import numpy as np; theirs = np.eye(3)", timeout=PATIENCE)
        with Terminal(tmp_path, "--existing", str(path)) as terminal:
            terminal.until("attached to kernel notebook (1 cell so far);", "theirs", "(3, 3)")
            client.execute_interactive("print('from ' + 'elsewhere')", timeout=PATIENCE)
            terminal.until("from elsewhere", "another client", "In [3]")
            terminal.run("theirs = theirs * 7")
            terminal.until("[0 ", " 7]", "In [4]", gone="busy")
            client.execute("import time; time.sleep(3600)")
            terminal.until("busy", "time.sleep(3600)")
            terminal.press("ctrl+c")
            terminal.until("The running cell is another client's.")
            terminal.press("i")
            terminal.until("KeyboardInterrupt", gone="busy")
            terminal.press("alt+r")
            terminal.until("belongs to another program")
            terminal.run("exit()")
            assert terminal.ended() == 0
        client.execute_interactive("assert theirs[1, 1] == 7", timeout=PATIENCE)
    with Terminal(tmp_path, "--existing", str(path)) as terminal:
        assert terminal.ended() == 3
        # A terminal breaks lines wherever they end, and the folder may have any length.
        assert "has ended: nobody listens" in "".join(terminal.grid.display)


FLOODS = {
    "in one message": "print('x' * 200_000_000)",
    "in many": "for _ in range(2_000): print('x' * 99_999)",
}


@pytest.mark.parametrize("code", FLOODS.values(), ids=FLOODS.keys())
def test_anothers_flood_of_200_mb_leaves_the_workbench_usable_and_small(
    code: str, tmp_path: Path
) -> None:
    with (
        notebook(tmp_path) as (path, client),
        Terminal(tmp_path, "--existing", str(path)) as terminal,
    ):
        terminal.until("attached to kernel")
        before = peak_memory(terminal.child.pid)
        client.execute(code)
        typed = ""
        while len(typed) < 40:
            typed += "abcdefghij"[len(typed) % 10]
            terminal.type(typed[-1])
            terminal.wait(lambda: typed in terminal.screen, typed)  # noqa: B023 - waited for
        terminal.until("output cut after", "MB came too fast and were dropped")
        # One message has to arrive before any of it can be dropped; nothing is made of it.
        assert peak_memory(terminal.child.pid) - before < 300e6
        terminal.press("ctrl+c")
        terminal.run("print('still ' + 'here')")
        terminal.until("still here")
        assert terminal.quit() == 0


def test_a_killed_workbench_comes_back_with_all_that_was_typed(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        terminal.run("kept = 6 * 7; print('made', kept)")
        terminal.until("made 42")
        kernel = terminal.number(PID)
        terminal.run(FOREVER)
        terminal.until("busy")
        terminal.run("'typed ' + 'ahead'")
        terminal.until("1 waiting")
        terminal.put("half_typed")
        journals = tmp_path / "state" / "journal"
        terminal.wait(
            lambda: any("half_typed" in one.read_text() for one in journals.glob("*.jsonl")),
            "the draft in the journal",
        )
        os.kill(terminal.child.pid, signal.SIGKILL)
    assert gone(kernel)  # without its workbench it leaves
    (past,) = session_archive.unfinished(journals)
    assert past.draft == "half_typed" and len(past.cells) == 4
    with Terminal(tmp_path, "--resume") as terminal:
        terminal.until("are back. Their variables are not.", "3 cells, without the 1")
        for _ in range(5):  # a letter right behind it could have been typed for a cell
            time.sleep(2 * dialogs.UNASKED_QUIET_SECONDS)
            if "are back. Their variables are not." not in terminal.screen:
                break
            terminal.press("a")
            terminal.read(1.0)
        terminal.until("Out[3]: 'typed ahead'", "earlier session", "half_typed", gone="busy")
        terminal.press("ctrl+c")
        terminal.until("kept", gone="half_typed")
        terminal.run("print('got', kept)")
        terminal.until("got 42")
        assert terminal.quit() == 0
    assert session_archive.unfinished(journals) == []


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "printing"])
def test_without_its_terminal_it_ends_although_hangups_are_ignored(
    busy: bool, tmp_path: Path
) -> None:
    with Terminal(tmp_path, ignore_hangup=True) as terminal:
        terminal.until("idle")
        kernel = terminal.number(PID)
        if busy:
            terminal.run("while True: print('on ' * 20)")
            terminal.until("busy")
        terminal.put("half_typed")
        journals = tmp_path / "state" / "journal"
        terminal.wait(
            lambda: any("half_typed" in one.read_text() for one in journals.glob("*.jsonl")),
            "the draft in the journal",
        )
        assert terminal.vanish() == HANGUP
    assert gone(kernel)
    (past,) = session_archive.unfinished(journals)
    assert past.draft == "half_typed" and len(past.cells) == 1 + busy


def test_a_signal_to_go_on_that_had_no_stop_before_changes_nothing(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        threads = Path(f"/proc/{terminal.child.pid}/task")
        before = len(list(threads.iterdir()))
        for _ in range(3):
            written = len(terminal.written)
            os.kill(terminal.child.pid, signal.SIGCONT)
            terminal.wait(
                lambda start=written: b"[?1049h" in terminal.written[start:], "the screen again"
            )
            terminal.read(0.3)
        assert len(list(threads.iterdir())) <= before  # one that reads keys, one that draws
        terminal.run("print('still ' + 'typed')")
        terminal.until("still typed", "In [2]")
        assert terminal.quit() == 0


def test_history_comes_back_in_the_next_session(tmp_path: Path) -> None:
    for number in (1, 2):
        with Terminal(tmp_path) as terminal:
            terminal.until("idle")
            if number == 2:
                terminal.press("up")
                terminal.until("first_session = 12345")
                terminal.press("ctrl+c")
            terminal.run("first_session = 12345")
            terminal.until("In [2]", "first_session int", gone="busy")
            assert terminal.quit() == 0


def test_a_killed_kernel_is_replaced_and_its_cells_run_again(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        terminal.run("kept = 41")
        terminal.until("In [2]", "kept", gone="busy")
        first = terminal.number(PID)
        terminal.run(FOREVER)
        terminal.until("busy")
        terminal.put("never_lost")
        os.kill(first, signal.SIGKILL)
        terminal.until("the kernel died (killed by SIGKILL) while it ran In [3]", "never_lost")
        terminal.press("alt+r")
        terminal.until("Restart the kernel?")
        terminal.press("r")
        terminal.until("new kernel, 2 cells run again", "idle", "never_lost", gone="kernel died")
        terminal.type(" = kept + 1\x1bx")
        terminal.until("never_lost int", gone="busy")
        assert terminal.number(PID) != first
        assert terminal.quit() == 0
        assert gone(first)


def test_a_session_is_written_as_a_script_and_as_a_notebook(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        terminal.run("total = sum(range(5))\nprint('total', total)\ntotal * 2")
        terminal.until("Out[1]: 20")
        terminal.run("1 / 0")
        terminal.until("ZeroDivisionError")
        for name in ("mine.py", "mine.ipynb"):
            terminal.press("alt+s")
            terminal.until("write the session to a script")
            terminal.type(f"\x15{name}\r")
            terminal.until("written: ", gone="write the session")
            terminal.wait(lambda name=name: (tmp_path / name).exists(), name)
        assert terminal.quit() == 0
    script = (tmp_path / "mine.py").read_text()
    compile(script, "mine.py", "exec")
    assert "total = sum(range(5))" in script
    cells = json.loads((tmp_path / "mine.ipynb").read_text())["cells"]
    assert "".join(cells[-2]["source"]).startswith("total = sum(range(5))")
    assert [one["output_type"] for one in cells[-2]["outputs"]] == ["stream", "execute_result"]
    assert cells[-1]["outputs"][0]["ename"] == "ZeroDivisionError"


def test_a_running_cell_is_interrupted_and_sizes_change_while_it_runs(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        terminal.run("before = 'still ' + 'here'; before")
        terminal.until("Out[1]: 'still here'", gone="busy")
        kernel = terminal.number(PID)
        terminal.run(FOREVER)
        terminal.until("busy")
        for size, words in (
            ((80, 24), ("1 Vars", "2 Value", "busy")),
            ((200, 50), ("Variables (1)", "Watch", "Plan", "busy")),
            ((20, 5), ("60x16",)),
            ((120, 40), ("Variables (1)", "still here", "busy")),
        ):
            terminal.resize(*size)
            screen = terminal.until(*words)
            assert len(screen.split("\n")) == size[1]
            assert terminal.grid.columns == size[0]
        terminal.press("ctrl+q")
        terminal.until("A cell is still running.", "[q] stop it and quit")
        terminal.press("s")
        terminal.until("busy", gone="A cell is still running.")
        terminal.press("ctrl+c")
        terminal.until("KeyboardInterrupt", "idle")
        terminal.run("print('goes', before)")
        terminal.until("goes still here")
        terminal.run(FOREVER)
        terminal.until("busy")
        terminal.press("ctrl+q")
        terminal.until("A cell is still running.")
        terminal.press("q")
        assert terminal.ended() == 0
        assert b"\x1b[?1049l" in terminal.written  # the shell gets its own screen back
    assert gone(kernel)
