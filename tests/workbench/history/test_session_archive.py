"""Sessions that did not end are found, read as far as they are whole, and adopted once."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from kbench.workbench.history import journal, session_archive
from kbench.workbench.history.journal import Journal
from kbench.workbench.session import events
from kbench.workbench.session.local_session import LocalSession


def written(folder: Path, *rows: dict[str, Any], name: str = "20260101-000000-a") -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps({"time": 1000.0, **row}) + "\n" for row in rows))
    return path


def started(cell: int, code: str, **more: Any) -> dict[str, Any]:
    return {"event": "CellStarted", "cell": cell, "code": code, "replay_of": None, **more}


def done(cell: int, status: str = "ok") -> dict[str, Any]:
    row = {"event": "CellDone", "cell": cell, "count": cell, "seconds": 0.5}
    return {**row, "ok": status == "ok", "status": status}


RESULT = {"event": "Result", "cell": 1, "text": "3", "data": {"text/plain": "3"}, "count": 1}
STREAM = {"event": "Stream", "cell": 1, "name": "stdout", "text": "shown\n"}
ERROR = {"event": "Error", "cell": 1, "name": "E", "value": "no", "traceback": ["t"], "detail": {}}


def test_cells_come_back_with_what_they_showed(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        started(1, "1 + 2"),
        STREAM,
        RESULT,
        done(1),
        started(2, "wait()"),
        {"event": "Queued", "cell": 3, "code": "later()", "replay_of": None},
        {"event": "Draft", "text": "half"},
        {"event": "Draft", "text": "half typed"},
    )
    (past,) = session_archive.unfinished(tmp_path)
    assert past == session_archive.load(path) and past.draft == "half typed"
    found = [(one.code, one.status, one.count) for one in past.cells]
    assert found == [("1 + 2", "ok", 1), ("wait()", "lost", None), ("later()", "withdrawn", None)]
    assert [type(one).__name__ for one in past.cells[0].outputs] == ["Stream", "Result"]
    assert "3 cells; last: later()" in past.words
    assert [one.code for one in session_archive.finished_cells(past.cells)] == ["1 + 2", "later()"]


def test_displays_come_back_as_they_were_last(tmp_path: Path) -> None:
    def display(cell: int, text: str, **more: Any) -> dict[str, Any]:
        return {**RESULT, "cell": cell, "text": text, "count": None, "display_id": "x", **more}

    path = written(
        tmp_path,
        started(1, "a"),
        display(1, "first"),
        STREAM,
        done(1),
        started(2, "b"),
        display(2, "second", updates=True),
        display(2, "of no cell", display_id="y", updates=True),
        display(2, "no text", display_id=3),
    )
    one, two = session_archive.load(path).cells
    assert [event.text for event in one.outputs] == ["second", "shown\n"] and two.outputs == []


ENDED = {"event": "Ended"}
OFFERED = [
    ("ended", [started(1, "x"), done(1), ENDED], 0),
    ("died", [started(1, "x"), done(1), {"event": "Died", "code": -9}], 1),
    ("nothing in it", [{"event": "Started", "hello": {}}], 0),
    ("a draft alone", [{"event": "Draft", "text": "half typed"}], 1),
    ("an empty draft", [{"event": "Draft", "text": " "}], 0),
    ("goes on behind an end", [started(1, "x"), done(1), ENDED, started(2, "y")], 1),
]


@pytest.mark.parametrize(("kind", "rows", "count"), OFFERED, ids=[one[0] for one in OFFERED])
def test_what_is_offered(tmp_path: Path, kind: str, rows: list[Any], count: int) -> None:
    written(tmp_path, *rows)
    assert len(session_archive.unfinished(tmp_path)) == count


def test_sessions_that_live_are_not_offered_and_do_not_mix(tmp_path: Path) -> None:
    one, two = Journal.create(tmp_path), Journal.create(tmp_path)
    for made, code in ((one, "in one"), (two, "in two")):
        made.record(events.CellStarted(1, code))
    assert session_archive.unfinished(tmp_path) == []
    one.close()  # as the system does when its process is killed
    (past,) = session_archive.unfinished(tmp_path)
    assert [cell.code for cell in past.cells] == ["in one"]
    two.end()
    assert len(session_archive.unfinished(tmp_path)) == 1


def test_a_kernel_that_died_and_was_not_restarted_leaves_a_session_unfinished(
    tmp_path: Path,
) -> None:
    made = Journal.create(tmp_path)
    made.record(events.CellStarted(1, "x"))
    made.record(events.Died(-9, "", 1))
    made.end()
    assert len(session_archive.unfinished(tmp_path)) == 1
    made = Journal.create(tmp_path / "other")
    for event in (events.CellStarted(1, "x"), events.Died(-9, "", 1), events.Started({}, 1.0)):
        made.record(event)
    made.end()
    assert session_archive.unfinished(tmp_path / "other") == []


DAMAGE = [
    ("cut in the last line", lambda data: data[:-10], ["x = 1", "y = 2"]),
    ("cut in the middle", lambda data: data[: len(data) // 2], ["x = 1"]),
    ("zeros at the end", lambda data: data + b"\0" * 4096, ["x = 1", "y = 2"]),
    (
        "a line of bytes",
        lambda data: data.replace(b"\n", b"\n\xff\xfe\x00\n", 1),
        ["x = 1", "y = 2"],
    ),
    (
        "other rows",
        lambda data: b'[1]\n"x"\n{"event": 7}\n{"cell": "a"}\n' + data,
        ["x = 1", "y = 2"],
    ),
    ("a deep one", lambda data: data + b"[" * 100_000, ["x = 1", "y = 2"]),
]


@pytest.mark.parametrize(("kind", "damage", "codes"), DAMAGE, ids=[one[0] for one in DAMAGE])
def test_a_damaged_journal_is_read_as_far_as_it_is_whole(
    tmp_path: Path, kind: str, damage: Any, codes: list[str]
) -> None:
    path = written(tmp_path, started(1, "x = 1"), STREAM, done(1), started(2, "y = 2"), done(2))
    path.write_bytes(damage(path.read_bytes()))
    assert [one.code for one in session_archive.load(path).cells] == codes
    assert len(session_archive.unfinished(tmp_path)) == 1


MISFITS = [
    {"event": "Stream", "cell": 1, "name": "stdout", "text": 5},
    {"event": "Stream", "cell": 1, "name": "stdout"},
    {"event": "Result", "cell": 1, "text": "x", "data": [1]},
    {"event": "Error", "cell": 1, "name": "E", "value": "v", "traceback": "no list"},
    {"event": "Stream", "cell": 9, "name": "stdout", "text": "of no cell"},
    {"event": "CellStarted", "cell": 2, "code": None},
    {"event": "CellStarted", "cell": True, "code": "x"},
    {"event": "CellDone", "cell": 1, "status": ["?"], "count": "x", "seconds": "long"},
    {"event": "CellDone", "cell": 1, "status": "odd", "count": 1, "seconds": 1e400},
]


@pytest.mark.parametrize("row", MISFITS)
def test_a_row_that_does_not_fit_is_left_out(tmp_path: Path, row: dict[str, Any]) -> None:
    path = written(tmp_path, started(1, "x"), row)
    (cell,) = session_archive.load(path).cells
    assert cell.outputs == [] and cell.status == "lost" and 0.0 <= cell.seconds < 1e12


def test_an_adopted_session_belongs_to_the_one_that_adopted_it(tmp_path: Path) -> None:
    written(
        tmp_path,
        started(1, "a = 1"),
        STREAM,
        done(1),
        started(2, "a"),
        done(2),
        started(3, "b"),
        ERROR,
    )
    (past,) = session_archive.unfinished(tmp_path)
    session = LocalSession(Journal.create(tmp_path))
    session.start()
    session.execute("own = 0")
    taken = session_archive.adopt(session, past)
    assert [one.ident for one in taken] == [2, 3, 4]
    assert [one.status for one in taken] == ["ok", "ok", "lost"]
    assert [one.code for one in session.replayable()] == ["own = 0"]
    assert session_archive.unfinished(tmp_path) == []  # the old one is taken, the new one lives
    session.execute("a = 1", replay_of=2)
    session.journal.close()  # as a crash would
    (again,) = session_archive.unfinished(tmp_path)
    codes = [one.code for one in again.cells]
    assert codes == ["own = 0", "a = 1", "a", "b", "a = 1"]
    assert [one.code for one in session_archive.runnable(again.cells)] == [
        "own = 0",
        "a",
        "b",
        "a = 1",
    ]
    assert again.cells[1].outputs[0].text == "shown\n"
    session.shutdown()
    assert session_archive.unfinished(tmp_path) == []


def test_cells_of_a_namespace_that_was_emptied_are_not_run_again(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        started(1, "old"),
        done(1),
        {"event": "Restarted", "replayed": 0},
        started(2, "new"),
        done(2),
        started(3, "theirs", origin="another client"),
    )
    cells = session_archive.load(path).cells
    assert [one.code for one in session_archive.runnable(cells)] == ["new"]


def test_sessions_that_were_left_are_offered_where_all_have_ended(tmp_path: Path) -> None:
    end = {"event": journal.ENDED}
    left = written(tmp_path, started(1, "a = 1"), done(1), end, name="20260101-000000-a")
    written(tmp_path, end, name="20260102-000000-a")  # without a cell
    crashed = written(tmp_path, started(1, "b = 1"), name="20260103-000000-a")
    (past,) = session_archive.resumable(tmp_path)
    assert past.path == crashed and not past.finished
    session_archive.dismiss(past)
    (past,) = session_archive.resumable(tmp_path)
    assert past.path == left and past.finished and session_archive.unfinished(tmp_path) == []
    session_archive.dismiss(past)
    assert session_archive.resumable(tmp_path) == []


def test_a_dismissed_session_is_not_offered_again(tmp_path: Path) -> None:
    path = written(tmp_path, started(1, "x"))
    path.write_bytes(path.read_bytes()[:-1])  # without its last newline
    (past,) = session_archive.unfinished(tmp_path)
    session_archive.dismiss(past)
    assert (
        session_archive.unfinished(tmp_path) == []
        and session_archive.load(path).cells[0].code == "x"
    )


# ------------------------------------------------------------------ the journal's bounds


def test_a_full_journal_still_tells_every_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_JOURNAL_BYTES", 8_000)
    made = Journal.create(tmp_path)
    for number in range(1, 41):
        made.record(events.CellStarted(number, f"cell {number}"))
        made.record(events.Stream(number, "stdout", "x" * 500))
        made.record(events.CellDone(number, number, True, 0.0))
    made.close()
    assert made.path is not None
    rows = journal.read(made.path)
    assert [row["event"] for row in rows].count("Full") == 1
    assert 5 < len([row for row in rows if row["event"] == "Stream"]) < 15
    assert [one.status for one in session_archive.load(made.path).cells] == ["ok"] * 40


def test_long_code_is_kept_whole(tmp_path: Path) -> None:
    made = Journal.create(tmp_path)
    code = "x = '" + "y" * 300_000 + "'"
    made.record(events.CellStarted(1, code))
    made.close()
    assert made.path is not None and session_archive.load(made.path).cells[0].code == code


def test_journals_have_an_age_and_a_size_but_those_that_live_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_FOLDER_BYTES", 1_000)
    live = Journal(tmp_path / "20250101-000000-live.jsonl")
    live.record(events.CellStarted(1, "x"))
    for number in range(4):
        path = written(tmp_path, started(1, "x" * 300), name=f"2026010{number}-000000-a")
        if number == 3:
            os.utime(path, (time.time(), time.time() - 100 * 86_400))
    made = Journal.create(tmp_path)
    made.record(events.CellStarted(1, "x"))
    left = sorted(one.name[:8] for one in tmp_path.glob("*.jsonl"))[:-1]
    assert left == ["20250101", "20260101", "20260102"]
    live.close()
    made.close()
