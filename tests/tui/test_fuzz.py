"""Random use of the workbench: keys, mouse, pastes, sizes, cells and the deaths of kernels.

`python tests/tui/fuzz_soak.py` does the same for as long as wanted, and finds rows for SEQUENCES.
"""

from __future__ import annotations

import ast
import json
import random
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from bench_screen import bench
from fuzz_actions import Action, Chance, Setting, shrunk
from fuzz_play import Player, told
from fuzz_session import CELLS, REAL_CELLS
from sampling import every
from textual.css.query import NoMatches

from kbench.tui.session import unsent_input
from kbench.tui.text.text import typed
from kbench.workbench.core_types import Reply
from kbench.workbench.history import journal
from kbench.workbench.session.session_interface import settle

# What once failed: name, size, options, actions.
SEQUENCES: list[tuple[str, tuple[int, int], dict[str, Any], list[Action]]] = [
    (
        "a dialog is left twice at once",
        (80, 24),
        {},
        [["burst", [["key", "f8"], ["key", "escape"], ["key", "escape"], ["key", "escape"]]]],
    ),
    (
        "a double click beside the palette",
        (80, 24),
        {},
        [["key", "ctrl+p"], ["twice", 0.01, 0.99], ["twice", 0.01, 0.99]],
    ),
    (
        "a click outside of the screen",
        (20, 5),
        {},
        [["sent", "\x1b[<0;9999;9999M\x1b[<0;9999;9999m"], ["type", "abc"]],
    ),
    (
        "the focused pane has no room any more",
        (80, 24),
        {},
        [["key", "f7"], ["resize", 1, 1], ["resize", 20, 5], ["type", "abc"]],
    ),
    (
        "control characters are pasted into the prompt and into a dialog",
        (120, 40),
        {},
        [
            ["paste", "\x1b[2J\x07\x7f\u202e\u2028"],
            ["key", "alt+s"],
            ["paste", "\x1b[2J\x07\x7f\u202e"],
            ["key", "escape"],
            ["key", "ctrl+r"],
        ],
    ),
    *(
        (
            f"undoing what needed a scrollbar, {size[0]}x{size[1]}",
            size,
            {},
            [["paste", "line\n" * 30], ["key", "ctrl+z"], ["key", "ctrl+y"], ["key", "ctrl+z"]],
        )
        for size in ((20, 5), (80, 24), (120, 40))
    ),
    (
        "pages of a palette without room",
        (20, 5),
        {},
        [
            ["key", "ctrl+p"],
            ["resize", 3, 2],
            ["key", "pagedown"],
            ["key", "pageup"],
            ["key", "escape"],
            ["resize", 20, 5],
            ["key", "alt+t"],
            ["resize", 3, 2],
            ["key", "pagedown"],
            ["key", "pageup"],
        ],
    ),
    (
        "lines are copied and pasted into a dialog",
        (80, 24),
        {},
        [["key", "f1"], ["key", "y"], ["key", "escape"], ["key", "alt+s"], ["key", "ctrl+v"]],
    ),
    (
        "an input of the history is taken while another pane has the whole screen",
        (120, 40),
        {},
        [
            ["cell", "echo me"],
            ["key", "alt+4"],
            ["key", "f10"],
            ["key", "f8"],
            ["key", "escape"],
            ["key", "f8"],
            ["key", "enter"],
            ["type", "!"],
        ],
    ),
    (
        "a narrow column has words for empty panes",
        (120, 40),
        {},
        [*([["key", "alt+right"]] * 20), ["key", "alt+3"], ["wait", 0.05], ["key", "alt+5"]],
    ),
    (
        "settings in a narrow column",
        (120, 40),
        {},
        [["key", "f7"], *([["key", "alt+right"]] * 20), ["resize", 100, 30]],
    ),
    (
        "a folded cell in a narrow column",
        (200, 50),
        {},
        [["cell", "print_much"], ["key", "f6"], ["key", "enter"], *([["key", "alt+left"]] * 20)],
    ),
]


async def held(setting: Setting, actions: list[Action], folder: Path) -> None:
    """Play; a failure tells what replays it."""
    try:
        await Player(setting, folder).play(actions)
    except Exception as error:
        pytest.fail(f"{type(error).__name__}: {error}\n{told(setting, actions)}")


async def random_use(seed: int, count: int, folder: Path, real: bool = False) -> None:
    """Everything at random, from one seed."""
    source = random.Random(seed)
    setting = Setting.drawn(source, real)
    cells = REAL_CELLS if real else CELLS
    await held(setting, Chance(source, setting, cells).actions(count), folder)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is written goes to a folder of the test."""
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path))


@pytest.mark.parametrize(
    ("size", "options", "actions"),
    every(4, [row[1:] for row in SEQUENCES]),
    ids=[row[0] for row in SEQUENCES],
)
async def test_what_once_failed(
    size: tuple[int, int], options: dict[str, Any], actions: list[Action], tmp_path: Path
) -> None:
    await held(Setting(size, **options), actions, tmp_path)


@pytest.mark.parametrize(
    ("pasted", "text"),
    [
        ("a = 1\r\nb\rc\f", "a = 1\nb\nc"),
        ("'\x1b[0m\x85'", "'\\x1b[0m\\x85'"),
        ("'\u202e\ufeff\ud800'", "'\\u202e\\ufeff\\ud800'"),
        ("\t'日本 👩\u200d👧 e\u0301'", "\t'日本 👩\u200d👧 e\u0301'"),
    ],
)
def test_what_is_typed_can_be_drawn_and_means_the_same(pasted: str, text: str) -> None:
    assert typed(pasted) == text
    if pasted.startswith("'"):
        assert ast.literal_eval(text) == pasted[1:-1]


@pytest.mark.parametrize("seed", every(3, range(3)))
async def test_random_use_does_no_harm(seed: int, tmp_path: Path) -> None:
    await random_use(seed, 50, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 108))
async def test_much_random_use_does_no_harm(seed: int, tmp_path: Path) -> None:
    await random_use(seed, 250, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 204))
async def test_much_random_use_of_a_kernel_does_no_harm(seed: int, tmp_path: Path) -> None:
    await random_use(seed, 80, tmp_path, real=True)


@pytest.mark.slow
async def test_a_journal_does_not_grow_beyond_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_JOURNAL_BYTES", 40_000)
    monkeypatch.setattr(unsent_input, "JOURNAL_PAUSE_SECONDS", 0.005)
    actions: list[Action] = []
    for number in range(12):
        actions += [["paste", f"{number} " * 1500], ["wait", 0.02], ["key", "ctrl+u"]]
        actions += [["cell", "text = 'line\\n' * 500; print(text)"]]
    await held(Setting(), actions, tmp_path)
    (path,) = (tmp_path / "journal").glob("*.jsonl")
    assert 20_000 < path.stat().st_size < 60_000
    assert sum(row["event"] == "CellDone" for row in journal.read(path)) == 13


def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    waiting: Future[Reply] = Future()
    settle(waiting, {"ok": True})
    assert waiting.result(0) == {"ok": True}
    given_up: Future[Reply] = Future()
    assert given_up.cancel()
    settle(given_up, {"ok": True})
    assert given_up.cancelled()


async def test_what_comes_late_finds_a_workbench_that_is_left_without_harm() -> None:
    async with bench() as (app, _, _):
        screen: Any = app.screen
        with pytest.raises(NoMatches), screen.bench.while_it_stands():
            screen.query_one("#nothing")
        app._running = False  # as from the beginning of its end on
        with screen.bench.while_it_stands():
            screen.query_one("#nothing")
        app._running = True


def test_the_same_seed_draws_the_same_and_can_be_written_down() -> None:
    drawn = []
    for _ in range(2):
        source = random.Random(7)
        setting = Setting.drawn(source)
        drawn.append((setting, Chance(source, setting, CELLS).actions(300)))
    assert drawn[0] == drawn[1]
    setting, actions = drawn[0]
    assert json.loads(told(setting, actions))[1] == actions


async def test_a_failure_is_shrunk_to_what_it_needs() -> None:
    async def fails(actions: list[Action]) -> bool:
        return ["key", "a"] in actions and ["key", "b"] in actions

    many: list[Action] = [["key", one] for one in "xxxxxaxxxxxxxxxxbxxx"]
    assert await shrunk(many, fails, 100) == [["key", "a"], ["key", "b"]]
