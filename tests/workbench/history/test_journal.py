"""What must survive: history over sessions, the journal after a crash, output beyond the cap."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbench.workbench.history import journal
from kbench.workbench.history.input_history import MAX_ENTRIES, History
from kbench.workbench.history.journal import Journal
from kbench.workbench.output import stream
from kbench.workbench.output.stream import Output
from kbench.workbench.session import events
from kbench.workbench.session.session_interface import completeness


def test_history_outlives_its_session_and_drops_repetitions(tmp_path: Path) -> None:
    first = History(tmp_path / "h.sqlite")
    for code in ("a = 1", "a = 1", "  ", "b = 2", "a = 1"):
        first.add(code)
    first.close()
    second = History(tmp_path / "h.sqlite")
    assert second.latest() == ["a = 1", "b = 2", "a = 1"]
    assert second.latest(1) == ["a = 1"]
    assert second.search() == ["a = 1", "b = 2"]
    second.close()


SEARCHES = [
    ("dot", ["K.dot(y)", "K.dot(x)"]),
    ("dot x", ["K.dot(x)"]),
    ("100%", ["x = '100%'"]),
    ("_", ["a_b = 1"]),
    ("nothing", []),
]


@pytest.mark.parametrize(("words", "wanted"), SEARCHES)
def test_history_search(tmp_path: Path, words: str, wanted: list[str]) -> None:
    history = History(tmp_path / "h.sqlite")
    for code in ("K.dot(x)", "a_b = 1", "x = '100%'", "K.dot(y)"):
        history.add(code)
    assert history.search(words) == wanted
    history.close()


def test_two_sessions_write_one_history(tmp_path: Path) -> None:
    one, two = History(tmp_path / "h.sqlite"), History(tmp_path / "h.sqlite")
    one.add("from one")
    two.add("from two")
    assert one.latest() == two.latest() == ["from one", "from two"]
    one.close()
    two.close()


def test_sessions_that_begin_at_once_share_one_history(tmp_path: Path) -> None:
    for trial in range(20):  # to make the file takes all of it, for which SQLite does not wait
        path, gate = tmp_path / f"{trial}.sqlite", threading.Barrier(4)

        def begin(number: int, path: Path = path, gate: threading.Barrier = gate) -> History:
            gate.wait()
            history = History(path)
            for line in range(5):
                history.add(f"{number} {line}\n  more")
            return history

        with ThreadPoolExecutor(4) as pool:
            opened = list(pool.map(begin, range(4)))
        assert [one.problem for one in opened] == [None] * 4
        assert len(opened[0].latest()) == 20
        for one in opened:
            one.close()


def test_huge_inputs_do_not_come_with_the_start(tmp_path: Path) -> None:
    history = History(tmp_path / "h.sqlite")
    codes = ["small", *(f"{number}" + "x" * 150_000 for number in range(20)), "last"]
    huge = "y" * 300_000
    for code in [*codes, huge]:
        history.add(code)
    latest = history.latest()
    assert latest == codes[-len(latest) :] and 2 < len(latest) < len(codes)
    assert history.search("yyy") == [huge]
    history.close()


def test_history_keeps_a_bounded_number(tmp_path: Path) -> None:
    history = History(tmp_path / "h.sqlite")
    base = sqlite3.connect(tmp_path / "h.sqlite")
    rows = [(number, f"x = {number}") for number in range(1, MAX_ENTRIES + 1)]
    base.executemany("INSERT INTO entry (id, at, code) VALUES (?, 0, ?)", rows)
    base.commit()
    base.close()
    history.add("last")
    assert len(history.latest(2 * MAX_ENTRIES)) == MAX_ENTRIES and history.latest(1) == ["last"]
    history.close()


def test_a_broken_history_is_kept_aside(tmp_path: Path) -> None:
    (tmp_path / "h.sqlite").write_bytes(b"no database" * 500)
    history = History(tmp_path / "h.sqlite")
    history.add("x")
    assert history.latest() == ["x"] and "unreadable" in str(history.problem)
    assert len(list(tmp_path.glob("h.broken-*"))) == 1
    history.close()


def test_a_folder_that_cannot_be_made_gives_a_history_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = History(tmp_path / "file" / "h.sqlite")
    history.add("x\ud800")
    assert history.latest() == ["x\\ud800"] and "memory only" in str(history.problem)
    history.close()


def test_journal_tells_cells_and_a_picture_of_each_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Journal.create(tmp_path)
    made.record(events.CellStarted(1, "x = 1"))
    made.record(
        events.Result(1, "1", {"text/plain": "1", "image/png": "A" * 10_000, "text/html": "h"}, 1)
    )
    large = {"text/plain": "2", "image/png": "A" * (journal.MAX_PICTURE_CHARACTERS + 1)}
    made.record(events.Result(1, "2", large, 1))
    monkeypatch.setattr(journal, "MAX_PICTURES_BYTES", 10_000)
    made.record(events.Result(1, "3", {"text/plain": "3", "image/png": "A"}, 1))
    made.record(events.Busy())
    made.record(events.CellDone(1, 1, True, 0.1))
    made.close()
    assert made.path is not None
    rows = journal.read(made.path)
    assert [row["event"] for row in rows] == ["CellStarted", *["Result"] * 3, "CellDone"]
    assert rows[1]["data"] == {"text/plain": "1", "image/png": "A" * 10_000}
    assert [row["data"] for row in rows[2:4]] == [{"text/plain": "2"}, {"text/plain": "3"}]


def test_a_journal_cut_off_by_a_crash_is_read_to_there(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text('{"event": "CellStarted", "code": "x"}\n{"event": "CellDo')
    assert journal.read(path) == [{"event": "CellStarted", "code": "x"}]


def test_a_journal_that_cannot_be_written_says_so_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = Journal.create(tmp_path / "file")
    made.record(events.CellStarted(1, "x"))
    made.record(events.CellDone(1, 1, True, 0.1))
    assert made.problem is not None and made.folder is None


def test_old_journals_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_JOURNALS", 3)
    for number in range(6):
        (tmp_path / f"2020010{number}-000000-a.jsonl").write_text("{}\n")
    made = Journal.create(tmp_path)
    made.record(events.CellStarted(1, "x"))
    made.close()
    assert len(list(tmp_path.glob("2020*"))) == 3


# ------------------------------------------------------------------ output


def collected(folder: Path | None) -> tuple[Output, list[events.Stream]]:
    shown: list[events.Stream] = []
    return Output(shown.append, folder), shown


def test_output_is_gathered(tmp_path: Path) -> None:
    out, shown = collected(tmp_path)
    for number in range(1000):
        out.add(1, "stdout", f"{number}\n")
    out.close(1)
    assert len(shown) < 50
    assert "".join(one.text for one in shown) == "".join(f"{n}\n" for n in range(1000))
    assert out.due() is None


def test_streams_keep_their_order(tmp_path: Path) -> None:
    out, shown = collected(tmp_path)
    for name, text in (("stdout", "a"), ("stderr", "b"), ("stdout", "c")):
        out.add(1, name, text)
    out.close(1)
    assert [(one.name, one.text) for one in shown] == [
        ("stdout", "a"),
        ("stderr", "b"),
        ("stdout", "c"),
    ]


LONG = [
    ("lines", ["x\n"] * (stream.MAX_LINES + 5), stream.MAX_LINES * 2),
    ("one piece", ["x\n" * (stream.MAX_LINES + 5)], stream.MAX_LINES * 2),
    ("characters", ["y" * 700_000] * 3, stream.MAX_CHARACTERS),
]


@pytest.mark.parametrize(("kind", "pieces", "kept"), LONG, ids=[one[0] for one in LONG])
def test_the_rest_of_long_output_goes_to_a_file(
    tmp_path: Path, kind: str, pieces: list[str], kept: int
) -> None:
    out, shown = collected(tmp_path)
    for piece in pieces:
        out.add(3, "stdout", piece)
    out.close(3)
    printed = "".join(one.text for one in shown if one.name == "stdout")
    notices = [one.text for one in shown if one.name == "notice"]
    (spilled,) = tmp_path.glob("*-cell-3.txt")
    assert len(printed) == kept and printed + spilled.read_text() == "".join(pieces)
    assert len(notices) == 2 and str(spilled) in notices[0] and "more characters" in notices[1]


def test_a_spill_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_SPILL_CHARACTERS", 1000)
    out, shown = collected(tmp_path)
    for _ in range(5):
        out.add(3, "stdout", "y" * stream.MAX_CHARACTERS)
    out.close(3)
    (spilled,) = tmp_path.glob("*-cell-3.txt")
    assert spilled.stat().st_size == 1000 and "only 1,000 of them" in shown[-1].text


def test_without_a_folder_the_rest_is_counted() -> None:
    out, shown = collected(None)
    out.add(3, "stdout", "y" * (stream.MAX_CHARACTERS + 7))
    out.close(3)
    assert shown[-1].text == "7 more characters not kept\n"


COMPLETE = [
    ("x = 1", "complete", ""),
    ("", "complete", ""),
    ("if x:", "incomplete", "    "),
    ("if x:\n    y", "incomplete", "    "),
    ("if x:\n    y\n    ", "complete", ""),
    ("if x:\n    y\n", "complete", ""),
    ("if x:\n    y\n\n", "complete", ""),
    ("def f(a,", "incomplete", ""),
    ("def f():\n    if x:", "incomplete", "        "),
    ("x = (1 +", "incomplete", ""),
    ("x = 1 +", "invalid", ""),
    ("'''abc", "incomplete", ""),
    ("a = 1\nb = 2", "complete", ""),
    ("%time x", "complete", ""),
    ("!ls", "complete", ""),
    ("K.dot?", "complete", ""),
    ("%%time\nx", "incomplete", ""),
    ("%%time\nx\n\n", "complete", ""),
    ("x = \x00", "invalid", ""),
    ("for i in range(3): print(i)", "complete", ""),
    ("x = 1 \\", "incomplete", ""),
    ("@deco", "incomplete", ""),
]


@pytest.mark.parametrize(("code", "status", "indent"), COMPLETE)
def test_completeness(code: str, status: str, indent: str) -> None:
    assert completeness(code) == (status, indent)
