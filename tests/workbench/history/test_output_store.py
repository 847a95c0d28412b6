"""What a session keeps of what cells showed: bounded, and honest about what has gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbench.workbench.export import export
from kbench.workbench.history import output_store
from kbench.workbench.history.journal import Journal
from kbench.workbench.history.output_store import OutputStore
from kbench.workbench.session import events
from kbench.workbench.session.cell import Cell


def result(cell: int, size: int) -> events.Result:
    return events.Result(cell, "", {"text/plain": "r" * size})


def shown(cell: Cell) -> str:
    return "".join(one.text for one in cell.outputs if isinstance(one, events.Stream))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_store, "MAX_TOTAL_CHARACTERS", 1000)
    monkeypatch.setattr(output_store, "MAX_RICH_CHARACTERS", 400)


def filled(journal: Journal, count: int) -> dict[int, Cell]:
    """Cells that have each shown 100 characters of text and a value of 100."""
    store, cells = OutputStore(journal), {}
    for number in range(1, count + 1):
        cell = cells[number] = Cell(number, f"show({number})", "ok")
        for event in (events.Stream(number, "stdout", "t" * 100), result(number, 100)):
            store.add(cells.values(), cell, event)
    return cells


@pytest.mark.usefixtures("small")
def test_the_oldest_cells_let_go_and_say_where_to_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    cells = filled(journal, 8)
    assert [cell.characters for cell in cells.values()] == [0, 0, 0, 200, 200, 200, 200, 200]
    assert shown(cells[3]) == f"what this cell showed is in {journal.path}\n"
    assert shown(cells[4]) == "t" * 100
    export.notebook(cells.values(), tmp_path / "a.ipynb")
    text = (tmp_path / "a.ipynb").read_text(encoding="utf-8")
    assert text.count("what this cell showed is in") == 3 and text.count("show(") == 8


def test_a_later_display_is_counted_in_the_place_of_the_first() -> None:
    store, cell, other = OutputStore(Journal(None)), Cell(1, "a", "ok"), Cell(2, "b", "ok")
    for owner, size, updates in ((cell, 100, False), (other, 50, False), (other, 30, True)):
        data = {"text/plain": "r" * size}
        store.add([cell, other], owner, events.Result(owner.ident, "", data, None, "x", updates))
    assert [one.characters for one in (cell, other)] == [30, 30]
    assert [len(one.outputs) for one in (cell, other)] == [1, 1]
    store.add([cell, other], cell, events.ClearOutput(1, False))
    store.add([cell, other], other, events.Result(2, "", {"text/plain": "r"}, None, "x", True))
    assert [one.characters for one in (cell, other)] == [0, 1]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("why", ["no journal", "a full one"])
def test_what_no_journal_holds_is_told_as_gone(tmp_path: Path, why: str) -> None:
    journal = Journal(None if why == "no journal" else tmp_path / "journal.jsonl")
    journal.full = why == "a full one"
    assert shown(filled(journal, 8)[1]) == "what this cell showed is no longer kept\n"


@pytest.mark.usefixtures("small")
def test_of_one_cell_so_many_values_are_kept() -> None:
    cell = Cell(1, "")
    store = OutputStore(Journal(None))
    for _ in range(9):
        store.add([cell], cell, result(1, 100))
    store.add([cell], cell, events.Error(1, "E", "v" * 50, ["t" * 50]))
    assert len(cell.outputs) == 4 and cell.characters == 400
    store.add([cell], cell, events.ClearOutput(1, wait=False))
    assert cell.outputs == [] and cell.characters == 0
    store.add([cell], cell, result(1, 100))
    assert len(cell.outputs) == 1


@pytest.mark.usefixtures("small")
def test_cells_brought_back_count_and_may_have_to_go(tmp_path: Path) -> None:
    old = filled(Journal(None), 4)
    store = OutputStore(Journal(tmp_path / "journal.jsonl"))
    for cell in old.values():
        store.adopt(cell)
    assert sum(cell.characters for cell in old.values()) == 800
    new = Cell(9, "")
    every: list[Any] = [*old.values(), new]
    store.add(every, new, result(9, 300))
    assert [cell.characters for cell in every] == [0, 200, 200, 200, 300]
