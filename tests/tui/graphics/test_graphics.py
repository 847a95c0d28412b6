"""Which graphics a terminal turns out to have, by its answers; nothing is waited for in vain."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import time
from collections.abc import Iterable

import pytest
from graphics_helpers import ANSWERS, Terminal
from textual import events

from kbench.tui.graphics import answers as answers_module
from kbench.tui.graphics import graphics as graphics_module
from kbench.tui.graphics import tmux
from kbench.tui.graphics.answers import Answers
from kbench.tui.graphics.graphics import Graphics
from kbench.tui.graphics.tmux import Client, Viewers
from kbench.tui.keys.bursts import BurstParser

KITTY, OTHER_KITTY = Client(7, "1", "kitty(0.35.1)"), Client(8, "2", "kitty(0.40.0)")
XTERM = Client(9, "3", "XTerm(379)")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who answers at once is heard, however busy the machine is."""
    monkeypatch.setattr(graphics_module, "MAX_WAIT_SECONDS", 60.0)


@pytest.mark.parametrize(
    ("name", "wish", "kind"),
    [
        ("kitty", "auto", "kitty"),
        ("old kitty", "auto", ""),  # knows no placeholders
        ("ghostty", "auto", "kitty"),
        ("konsole", "auto", "sixel"),  # has kitty's protocol without placeholders
        ("foot", "auto", "sixel"),
        ("xterm", "auto", ""),
        ("xterm -ti vt340", "auto", "sixel"),
        ("sixels of unknown size", "auto", ""),
        ("tmux with sixels", "auto", ""),
        ("silent", "auto", ""),
        ("foot", "blocks", ""),
        ("foot", "kitty", "kitty"),
        ("silent", "sixel", "sixel"),
    ],
)
async def test_the_terminal_says_what_it_draws(
    name: str, wish: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ANSWERS[name]:
        monkeypatch.setattr(graphics_module, "MAX_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(tmux, "clients", lambda: None)
    graphics = Graphics(wish)
    terminal = Terminal(graphics, ANSWERS[name])
    assert await graphics.found() == kind
    assert terminal.keys == ""
    if name == "xterm -ti vt340":
        assert graphics.answers.colours == 16
    graphics.stop()


@pytest.mark.parametrize(("name", "kind"), [("kitty", "kitty"), ("xterm", "")])
async def test_a_late_answer_counts_for_all_pictures(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphics_module, "MAX_WAIT_SECONDS", 0.01)
    graphics = Graphics()
    redrawn: list[str] = []
    graphics.redraw = lambda: redrawn.append(graphics.kind)
    terminal = Terminal(graphics, "")
    assert await graphics.found() == ""
    terminal.types(ANSWERS[name])
    assert graphics._search is not None
    await graphics._search
    assert redrawn == ([kind] if kind else [])
    assert await graphics.found() == kind and terminal.keys == ""
    assert len(redrawn) <= 1


async def test_pictures_that_come_together_wait_for_the_same_answer() -> None:
    graphics = Graphics()
    graphics.redraw = lambda: pytest.fail("nothing was shown")
    terminal = Terminal(graphics, "")
    found = [asyncio.create_task(graphics.found()) for _ in range(3)]
    while not terminal.asked:
        await asyncio.sleep(0)
    terminal.types(ANSWERS["kitty"])
    assert await asyncio.gather(*found) == ["kitty"] * 3


async def test_behind_tmux_is_the_terminal_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tmux, "clients", lambda: frozenset((KITTY,)))
    graphics = Graphics()
    Terminal(graphics, ANSWERS["tmux with sixels"])
    assert await graphics.found() == "kitty"
    graphics.add(b"file").rows(2, 1)
    assert "\x1bPtmux;\x1b\x1b_G" in graphics.written(_first_row(graphics))
    graphics.stop()


LOOKERS: list[tuple[list[tuple[Client, ...]], list[str]]] = [
    # who shows the pane when a picture is sent, and at each look after it; what is drawn at the end
    ([(KITTY,), (KITTY,)], []),
    ([(KITTY,), ()], []),
    ([(KITTY,), (OTHER_KITTY,)], ["kitty"]),
    ([(KITTY,), (KITTY, OTHER_KITTY)], ["kitty"]),
    ([(KITTY,), (XTERM,)], [""]),
    ([(KITTY,), (XTERM,), (KITTY,)], ["", "kitty"]),
    ([(), (KITTY,)], ["kitty"]),
    ([(KITTY, XTERM), (KITTY,)], []),
]


@pytest.mark.parametrize(("shows", "kinds"), LOOKERS)
async def test_who_attaches_tmux_gets_the_pictures(
    shows: list[tuple[Client, ...]], kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = iter(map(frozenset, shows))
    monkeypatch.setattr(tmux, "clients", lambda: next(there))
    monkeypatch.setattr(tmux, "WATCH_SECONDS", 60.0)
    graphics = Graphics()
    Terminal(graphics, ANSWERS["tmux with sixels"])
    redrawn: list[str] = []

    def redraw() -> None:
        redrawn.append(graphics.kind)
        graphics.send_again()

    graphics.redraw = redraw
    await graphics.found()
    picture = graphics.add(b"file")
    picture.sent = True
    for _ in shows[1:]:
        graphics.look()
        assert graphics._viewers is not None and graphics._viewers._looking is not None
        await graphics._viewers._looking
    assert redrawn == kinds and picture.sent is not bool(kinds)
    graphics.stop()


@pytest.mark.parametrize(
    ("alive", "known", "looks"),
    [(True, {KITTY}, False), (False, {KITTY}, True), (True, set(), True)],
)
async def test_tmux_is_asked_by_itself_only_when_somebody_has_gone(
    alive: bool, known: set[Client], looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def clients() -> frozenset[Client]:
        asked.append(1)
        return frozenset(known)

    monkeypatch.setattr(tmux, "clients", clients)
    monkeypatch.setattr(tmux, "is_there", lambda client: alive)
    monkeypatch.setattr(tmux, "WATCH_SECONDS", 0.005)
    viewers = Viewers(lambda found: None)
    await viewers.begin()
    for _ in range(3000 if looks else 100):
        await asyncio.sleep(0.001)
        if len(asked) > 1:
            break
    viewers.stop()
    assert (len(asked) > 1) is looks


def test_tmux_says_who_shows_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        assert command[:2] == ["tmux", "display-message"]
        return subprocess.CompletedProcess(command, 0, "\n".join(told).encode())

    monkeypatch.setattr(subprocess, "run", run)
    told = ["on @1", "12 99 @1 kitty(0.35.1)", "13 99 @2 kitty(0.35.1)", "14 98 @1 "]
    assert tmux.clients() == {Client(12, "99", "kitty(0.35.1)"), Client(14, "98", "")}
    told = ["off @1", "12 99 @1 kitty(0.35.1)"]
    assert tmux.clients() is None
    told = []
    assert tmux.clients() is None


def _first_row(graphics: Graphics) -> str:
    (picture,) = graphics._pictures.values()
    return str(picture.rows(2, 1)[0].cells.plain)  # type: ignore[attr-defined]


@pytest.mark.parametrize("variables", [{"TERM": "linux"}, {"TERM_PROGRAM": "Apple_Terminal"}])
async def test_who_draws_questions_is_asked_none(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    graphics = Graphics()
    terminal = Terminal(graphics, ANSWERS["kitty"])
    assert await graphics.found() == "" and terminal.asked == ""


def taken(parts: Iterable[str]) -> tuple[Answers, str, list[bool]]:
    """What the answers are, which characters remain, and whether they were complete."""
    found, done = Answers(), [False]
    found.expect(lambda: done.append(True))
    return found, "".join(found.rest(part) for part in parts), done


def test_answers_are_taken_out_of_the_keys_wherever_they_are_cut() -> None:
    text = "a" + ANSWERS["foot"] + "b\x1b[Ac"
    for first, second in itertools.combinations(range(1, len(text)), 2):
        found, keys, done = taken((text[:first], text[first:second], text[second:]))
        assert keys == "ab\x1b[Ac" and done[-1]
        assert (found.name, found.cell) == ("foot(1.16.2)", (8, 17)) and 4 in found.features


@pytest.mark.parametrize("keys", ["\x1bp", "\x1b[A", "\x1b[1;3A", "\x1b[200~x\x1b[201~"])
def test_keys_are_not_held_while_an_answer_is_awaited(keys: str) -> None:
    assert taken((keys,))[1] == keys


@pytest.mark.parametrize("key", ["\x1b", "\x1bP", "\x1b["])
def test_a_key_that_may_begin_an_answer_waits_a_moment(key: str) -> None:
    now = [0.0]
    found = Answers(clock=lambda: now[0])
    found.expect(lambda: None)
    parser = BurstParser(clock=lambda: now[0], answers=found)
    assert list(parser.feed(key)) == [] == list(parser.tick())
    now[0] = 0.2
    came = list(parser.tick())
    time.sleep(0.15)  # the pause in which Textual waits for more of a sequence
    came += parser.tick()
    assert came and all(isinstance(event, events.Key) for event in came)
    assert found.overdue() == ""


def test_nothing_is_looked_for_unasked() -> None:
    assert Answers().rest(ANSWERS["foot"]) == ANSWERS["foot"]


def test_the_last_question_is_one_that_every_terminal_answers() -> None:
    assert answers_module.QUESTIONS.endswith("\x1b[c")
    assert answers_module.COLOUR_QUESTION.endswith("\x1b[c")
