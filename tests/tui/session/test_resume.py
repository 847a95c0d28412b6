"""Sessions that did not end, brought back; drafts; and a kernel that belongs to somebody else."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from bench_screen import at_each_size, bench, settle, submit, text_of
from fake_session import FakeSession
from PIL import Image

from kbench.tui.app import WorkbenchApp
from kbench.tui.session import resume, unsent_input
from kbench.tui.session.link import Opened
from kbench.workbench.history import session_archive
from kbench.workbench.history.journal import Journal
from kbench.workbench.session import events


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of everything that outlives a workbench."""
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    return tmp_path


def crashed(state: Path, *codes: str, name: str = "20260101-000000-a", draft: str = "") -> Path:
    """The journal of a session of these cells, the last of which was running at the end."""
    folder = state / "journal"
    folder.mkdir(exist_ok=True)
    made = Journal(folder / f"{name}.jsonl")
    for number, code in enumerate(codes, 1):
        made.record(events.CellStarted(number, code))
        text = f"shown by {code}"
        made.record(events.Result(number, text, {"text/plain": text}, number))
        if number < len(codes):
            made.record(events.CellDone(number, number, True, 0.01))
    if draft:
        made.write({"event": "Draft", "text": draft})
    made.close()
    assert made.path is not None
    return made.path


def journaled(state: Path) -> FakeSession:
    session = FakeSession()
    session.journal = Journal.create(state / "journal")
    return session


def said(app: Any) -> str:
    """What the app has notified of."""
    return "\n".join(one.message for one in app._notifications)


@at_each_size
async def test_resume_shows_the_cells_and_runs_them_only_if_asked(
    state: Path, size: tuple[int, int]
) -> None:
    crashed(state, "first", "second", "third", draft="half typed")
    session = journaled(state)
    async with bench(size, session, state, resume=True) as (app, pilot, _):
        await settle(pilot)
        screen = text_of(app)
        assert "are back. Their variables are not." in screen
        assert "run all again (2 cells, without the 1 that did not finish)" in screen
        await pilot.press("n")
        await settle(pilot)
        screen = text_of(app)
        assert session.running() is None and session.count == 0
        assert "In [2]: second" in screen and "Out[2]: shown by second" in screen
        assert "earlier session" in screen and "kernel lost" in screen
        assert app.query_one("#prompt").text == "half typed"  # type: ignore[attr-defined]
        await submit(pilot, "mine")
        assert "Out[1]: mine" in text_of(app)
        assert session_archive.unfinished(state / "journal") == []


async def test_the_picture_of_an_earlier_session_can_be_written(state: Path) -> None:
    (state / "journal").mkdir()
    file = io.BytesIO()
    Image.new("RGB", (700, 20), "red").save(file, "PNG")
    data = {"text/plain": "a", "image/png": base64.b64encode(file.getvalue()).decode()}
    made = Journal(state / "journal" / "20260101-000000-a.jsonl")
    made.record(events.CellStarted(1, "plot"))
    made.record(events.Result(1, "a", data, 1))
    made.record(events.CellDone(1, 1, True, 0.01))
    made.close()
    async with bench((120, 40), journaled(state)) as (app, pilot, _):
        await pilot.press("alt+u", "n", "escape", "alt+d", "enter")
        await settle(pilot)
        assert "700 x 20 pixels" in said(app)


async def test_all_of_it_can_run_again(state: Path) -> None:
    crashed(state, "first", "second", "third")
    session = journaled(state)
    async with bench((120, 40), session, state, resume=True) as (app, pilot, _):
        await pilot.press("a")
        await settle(pilot)
        screen = text_of(app)
        assert "Out[1]: first" in screen and "Out[2]: second" in screen
        ran = [(one.code, one.replay_of) for one in session.cells.values() if one.count]
        assert ran[-2:] == [("first", 1), ("second", 2)]
        assert "Out[3]: third" not in screen


@pytest.mark.slow
async def test_cells_can_run_again_one_by_one(state: Path) -> None:
    crashed(state, "first", "second", "third")
    session = journaled(state)
    async with bench((120, 40), session, state, resume=True) as (app, pilot, _):
        await pilot.press("o")
        for key, shown in (("r", "first"), ("s", "second"), ("r", "third")):
            await settle(pilot)
            assert shown in text_of(app) and "run it and the" in text_of(app)
            await pilot.press(key)
            await pilot.pause(resume.NEXT_QUESTION_SECONDS * 2)
        await settle(pilot)
        ran = [one.code for one in session.cells.values() if one.replay_of]
        assert ran == ["first", "third"] and "run it" not in text_of(app)


@at_each_size
async def test_of_several_sessions_one_is_picked_and_others_dropped(
    state: Path, size: tuple[int, int]
) -> None:
    for number, code in enumerate(("oldest", "dropped", "wanted"), 1):
        crashed(state, code, "end", name=f"2026010{number}-000000-a")
    session = journaled(state)
    async with bench(size, session, state) as (app, pilot, _):
        await pilot.press("alt+u")
        await settle(pilot)
        assert "Sessions that ended unexpectedly" in text_of(app)
        assert text_of(app).count("last: end") == 3
        await pilot.press("down", "delete")
        await settle(pilot)
        assert text_of(app).count("last: end") == 2
        await pilot.press("up", "enter")
        await settle(pilot)
        await pilot.press("n")
        await settle(pilot)
        assert "In [1]: wanted" in text_of(app)
        (left,) = session_archive.unfinished(state / "journal")
        assert left.cells[0].code == "oldest"


async def test_a_session_that_did_not_end_is_spoken_of_once_asked_nothing(state: Path) -> None:
    crashed(state, "first", "second")
    async with bench((120, 40), journaled(state), state) as (app, pilot, _):
        await settle(pilot)
        assert "ended unexpectedly; alt+U restores its 2 cells" in said(app)
        assert "In [1]: first" not in text_of(app)


async def test_a_session_that_was_left_comes_back_when_asked_for(state: Path) -> None:
    async with bench((120, 40), journaled(state), state) as (_, pilot, _):
        await submit(pilot, "first = 1")
    async with bench((120, 40), journaled(state), state) as (app, pilot, _):
        await settle(pilot)
        assert said(app) == ""
        await pilot.press("alt+u")
        await settle(pilot)
        screen = text_of(app)
        assert "run all again (1 cell)" in screen and "did not finish" not in screen
        await pilot.press("a")
        await settle(pilot)
        assert text_of(app).count("In [1]: first = 1") == 2


async def test_nothing_to_resume_is_said(state: Path) -> None:
    async with bench((120, 40), journaled(state), state, resume=True) as (app, pilot, _):
        await settle(pilot)
        assert "nothing to resume" in said(app)


async def test_hostile_cells_come_back_harmless(state: Path) -> None:
    crashed(state, "[bold]x[/bold]\x1b[2J\u202e", "end")
    async with bench((120, 40), journaled(state), state, resume=True) as (app, pilot, _):
        await pilot.press("o")
        await settle(pilot)
        screen = text_of(app)
        assert "[bold]x[/bold]" in screen and "\x1b" not in screen and "\u202e" not in screen


# ------------------------------------------------------------------ drafts


async def test_a_text_that_did_not_run_is_there_at_the_next_start(state: Path) -> None:
    async with bench((120, 40), journaled(state), state) as (app, pilot, _):
        app.query_one("#prompt").put("half\ntyped")  # type: ignore[attr-defined]
        await settle(pilot)
        app.save_state()
    async with bench((120, 40), journaled(state), state) as (app, pilot, _):
        await settle(pilot)
        assert app.query_one("#prompt").text == "half\ntyped"  # type: ignore[attr-defined]
        assert "when you left is in the prompt" in said(app)
    async with bench((120, 40), journaled(state), state) as (app, pilot, _):
        await settle(pilot)
        assert app.query_one("#prompt").text == ""  # type: ignore[attr-defined]


async def test_what_is_being_typed_is_in_the_journal(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent_input, "JOURNAL_PAUSE_SECONDS", 0.05)
    session = journaled(state)
    async with bench((120, 40), session, state) as (app, pilot, _):
        await submit(pilot, "ran")
        app.query_one("#prompt").put("half typed")  # type: ignore[attr-defined]
        await pilot.pause(0.2)
        await settle(pilot)
        path = session.journal.path
        assert path is not None and session_archive.load(path).draft == "half typed"
        await pilot.press("enter")
        await pilot.pause(0.2)
        await settle(pilot)
        assert session_archive.load(path).draft == ""


def test_drafts_of_several_workbenches_do_not_mix(state: Path) -> None:
    for text in ("one", " ", "two"):
        assert unsent_input.keep(state, text) == ""
    assert [unsent_input.take(state) for _ in range(3)] == ["two", "one", ""]
    for number in range(unsent_input.MAX_FILES + 5):
        unsent_input.keep(state, f"text {number}")
    assert len(list((state / unsent_input.FOLDER).iterdir())) == unsent_input.MAX_FILES
    (state / "file").write_text("")
    assert (
        "file" in unsent_input.keep(state / "file", "x") and unsent_input.take(state / "file") == ""
    )


# ------------------------------------------------------------------ somebody else's kernel


class Guest(FakeSession):
    """As a session in an existing kernel shows itself."""

    attached = "abc123"
    asked_for_others = False

    def come_up(self) -> None:
        super().come_up()
        self._emit(events.Attached("abc123", ["older = 1"], 4))

    def interrupt_others(self) -> None:
        self.asked_for_others = True

    def theirs(self, code: str) -> int:
        cell = self._new_cell(code)
        cell.status = "running"
        self._emit(events.Busy())
        self._emit(events.CellStarted(cell.ident, code, None, "another client"))
        return cell.ident


@at_each_size
async def test_an_attached_kernel_shows_whose_cells_are_whose(size: tuple[int, int]) -> None:
    guest = Guest()
    async with bench(size, guest) as (app, pilot, _):
        guest.count = 4
        ident = guest.theirs("train()")
        guest._emit(events.Stream(ident, "stdout", "epoch 1\n"))
        await settle(pilot)
        screen = text_of(app)
        assert "attached to kernel abc123 (4 cells so far)" in screen
        assert "another client" in screen and "epoch 1" in screen
        assert "attached to abc123" in screen and "busy" in screen
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert "The running cell is another client's." in text_of(app)
        await pilot.press("i")
        await settle(pilot)
        assert guest.asked_for_others and ("interrupt", None) not in guest.log
        guest._emit(events.CellDone(ident, 5, True, 0.2))
        guest.cells[ident].status = "ok"
        guest._emit(events.Idle(0.2))
        await settle(pilot)
        assert "In [5]: train()" in text_of(app) and "In [6]" in text_of(app)
        await pilot.press("alt+r")
        await settle(pilot)
        assert "belongs to another program" in said(app)
        await pilot.press("up")
        assert app.query_one("#prompt").text == "older = 1"  # type: ignore[attr-defined]


async def test_leaving_asks_only_for_a_cell_of_ours() -> None:
    guest = Guest()
    async with bench((120, 40), guest) as (app, pilot, _):
        guest.theirs("train()")
        await settle(pilot)
        await pilot.press("ctrl+q")
        await settle(pilot)
        assert not app.is_running
    guest = Guest()
    async with bench((120, 40), guest) as (app, pilot, _):
        await submit(pilot, "forever")
        await pilot.press("ctrl+q")
        await settle(pilot)
        assert "it keeps running in the kernel" in text_of(app)


async def test_the_end_of_an_attached_kernel_is_said_and_waited_for() -> None:
    guest = Guest()
    async with bench((120, 40), guest) as (app, pilot, _):
        guest.die(-9)
        await settle(pilot)
        assert "the kernel has ended or is being restarted" in text_of(app)
        guest._emit(events.Restarted(0))
        guest.come_up()
        await settle(pilot)
        assert "its namespace is empty" in text_of(app) and "has ended" not in text_of(app)


async def test_a_kernel_without_panes_says_why() -> None:
    session = FakeSession(auto_start=False)
    async with bench((120, 40), session) as (app, pilot, _):
        session.started.set()
        session._emit(events.Started({}, 0.1, "kbench is not installed in this kernel's Python"))
        await settle(pilot)
        assert "! kbench is not installed in this kernel" in text_of(app)


@at_each_size
async def test_of_several_kernels_one_is_picked(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    chosen: list[Any] = []

    def open_one(kernel: Any) -> Opened:
        chosen.append(kernel)
        return Opened(FakeSession())

    monkeypatch.setattr("kbench.tui.app.open_existing", open_one)
    kernels = [("first", "aaa  Python 3.11, idle"), ("second", "bbb  Python 3.11, busy")]
    app = WorkbenchApp(kernels=kernels)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        assert "Running kernels" in text_of(app) and "bbb" in text_of(app)
        await pilot.press("j", "enter")
        await settle(pilot)
        assert chosen == ["second"]
        await submit(pilot, "works")
        assert "Out[1]: works" in text_of(app)
    app.link.close()


async def test_no_kernel_picked_leaves() -> None:
    app = WorkbenchApp(kernels=[("first", "aaa"), ("second", "bbb")])
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert not app.is_running and app.return_value == 0
