"""Whose turn it is to compile, of the processes that share a few compilers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kbench.engine.jit import compile_locks, compile_turns
from kbench.engine.jit.compile_turns import Turn, Turns
from tests.engine.jit.test_compile_locks import folder

__all__ = ["folder"]

pytestmark = pytest.mark.skipif(
    compile_locks.fcntl is None, reason="this system has no locks of bytes"
)


@pytest.fixture
def at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody may ask at any time, and is done with his turn at once."""
    monkeypatch.setattr(compile_turns, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(compile_turns, "TURN_SECONDS", 0.0)


def _processes(number: int, count: int = 1) -> list[Turn]:
    """Threads of so many processes, which have `count` compilers together."""
    return [Turn(Turns(count)) for _ in range(number)]


@pytest.mark.usefixtures("at_once")
def test_a_turn_goes_to_who_is_in_line() -> None:
    first, second, third = _processes(3)
    assert [first.ask(), first.ask()] == [True, True]  # nobody else wants it
    assert [second.ask(), third.ask()] == [False, False]
    assert [first.ask(), third.ask(), second.ask()] == [False, False, True]
    assert [first.ask(), second.ask(), first.ask()] == [False, False, True]
    first.give_back()
    assert third.ask()


def test_a_turn_is_not_over_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_turns, "ASK_SECONDS", 0.0)
    first, second = _processes(2)
    assert [first.ask(), second.ask(), first.ask()] == [True, False, True]
    first.give_back()
    assert second.ask()


@pytest.mark.usefixtures("at_once")
def test_processes_share_so_many_compilers() -> None:
    turns = _processes(4, count=2)
    assert [turn.ask() for turn in turns] == [True, True, False, False]
    turns[0].give_back()
    assert turns[2].ask()


@pytest.mark.usefixtures("at_once")
def test_who_leaves_the_line_stands_in_nobodys_way() -> None:
    first, second, third = _processes(3)
    assert [first.ask(), second.ask()] == [True, False]
    second.give_back()
    assert not third.ask()
    first.give_back()
    assert third.ask()


@pytest.mark.usefixtures("at_once")
def test_a_holder_that_is_stuck_keeps_nobody_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(compile_turns, "time", SimpleNamespace(monotonic=lambda: now[0]))
    stuck, second, third = _processes(3)
    assert [stuck.ask(), second.ask(), third.ask()] == [True, False, False]
    now[0] += compile_turns.PATIENCE_SECONDS - 1
    third._turns.note_progress()  # a kernel came
    assert [second.ask(), third.ask()] == [False, False]
    now[0] += 1
    assert [second.ask(), third.ask()] == [True, False]
    now[0] += compile_turns.ALONE_SECONDS - 1
    assert [second.ask(), third.ask()] == [True, True]
    now[0] += 1
    assert not second.ask()


def test_another_host_has_turns_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = _processes(2)
    assert here.ask()
    first = compile_turns._places()
    monkeypatch.setattr(compile_turns, "_places", lambda: first + 256)
    assert there.ask()
    there.give_back()
    monkeypatch.undo()


def test_where_nothing_is_shared_it_is_everybodys_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_locks, "fcntl", None)
    turns = _processes(2)
    assert [turn.ask() for turn in (*turns, *turns)] == [True] * 4
    assert not turns[0].is_wanted()


@pytest.mark.usefixtures("at_once")
def test_what_others_are_in_line_for_is_wanted() -> None:
    first, second = _processes(2)
    assert first.ask() and not first.is_wanted()
    assert not second.ask() and first.is_wanted() and not second.is_wanted()
    second.give_back()
    assert not first.is_wanted()
