"""Bars of long cells: what they say, when they come, and that nobody's bar is doubled."""

from __future__ import annotations

import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from run_book import run_book

from kbench.engine.core.errors import ArgumentError
from kbench.notebook.ipython import progress_bar
from kbench.workbench.progress.progress import progress


class Screen:
    """Takes the place of the front end: `outputs` as they stand, `shown` all that ever did."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.outputs: list[str] = []

    def __call__(self, bundle: dict[str, str]) -> Any:
        place = len(self.outputs)
        self.outputs.append("")

        def change(other: dict[str, str]) -> None:
            self.outputs[place] = other["text/plain"]
            self.shown.append(other["text/plain"])

        change(bundle)
        return change


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Screen]]:
    """A shell with bars that a test can read; the namespace has `seen`, how many were drawn."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    InteractiveShell.clear_instance()
    shell, screen = InteractiveShell.instance(colors="nocolor"), Screen()
    shell.history_manager.enabled = False
    remove = progress_bar.install(shell, screen)
    shell.user_ns.update(screen=screen, wait_for=wait_for, progress=progress)
    yield shell, screen
    remove()
    InteractiveShell.clear_instance()


LOOP = (
    "for n in progress(range(3), name='epoch'):\n"
    "    wait_for(lambda: any('epoch %d of 3' % (n + 1) in one for one in screen.shown))\n"
)


@pytest.mark.slow
def test_a_bar_comes_follows_and_becomes_a_line(running: tuple[Any, Screen]) -> None:
    shell, screen = running
    shell.run_cell(LOOP).raise_error()
    for n in (1, 2, 3):
        assert any(f"epoch {n} of 3" in one for one in screen.shown)
    assert screen.shown[-1].startswith("done in ")
    assert len(screen.outputs) == 2 and screen.outputs[0] == ""
    before = len(screen.shown)
    shell.run_cell("1 + 1")
    assert len(screen.shown) == before


@pytest.mark.slow
def test_the_line_stands_below_all_that_the_cell_shows(running: tuple[Any, Screen]) -> None:
    shell, screen = running
    say = "screen({'text/plain': 'said'})\n"
    shell.run_cell(f"{say}{LOOP}{say}").raise_error()
    said, bar, more, line = screen.outputs
    assert (said, bar, more) == ("said", "", "said") and line.startswith("done in ")


def test_a_cell_that_fails_says_where(running: tuple[Any, Screen]) -> None:
    shell, screen = running
    shell.showtraceback = lambda *_args, **_more: None
    shell.run_cell(LOOP + "    1 / (n - 1)\n")
    assert (
        screen.shown[-1].startswith("stopped after ")
        and "last seen at epoch 2 of 3" in screen.shown[-1]
    )


@pytest.mark.slow
def test_a_cell_within_a_cell_is_a_part_of_it(running: tuple[Any, Screen]) -> None:
    shell, screen = running
    shell.user_ns["shell"] = shell
    shell.run_cell(f"shell.run_cell('1')\n{LOOP}").raise_error()
    assert any("epoch 3 of 3" in one for one in screen.shown)
    assert screen.shown[-1].startswith("done in ")


def test_installing_again_changes_nothing_and_removing_restores(
    running: tuple[Any, Screen],
) -> None:
    shell, _ = running
    callbacks = {name: list(found) for name, found in shell.events.callbacks.items()}
    progress_bar.install(shell)()
    assert {name: list(found) for name, found in shell.events.callbacks.items()} == callbacks


@pytest.mark.parametrize("verbose, own", [(1, True), (2, True), (0, False)])
def test_keras_own_bar_is_not_doubled(verbose: int, own: bool) -> None:
    code = compile(
        "def fit_loop(verbose):\n    ask()\n", "/keras/engine/training_arrays.py", "exec"
    )
    found: list[bool] = []
    space: dict[str, Any] = {
        "ask": lambda: found.append(progress_bar.own_bar(threading.get_ident()))
    }
    exec(code, space)
    space["fit_loop"](verbose)
    assert found == [own]


@pytest.mark.slow
def test_where_another_bar_was_seen_there_is_none_for_the_rest_of_the_cell(
    running: tuple[Any, Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, screen = running
    looks: list[bool] = []

    def seen(thread: int) -> bool:
        looks.append(not looks)
        return looks[-1]

    monkeypatch.setattr(progress_bar, "own_bar", seen)
    shell.user_ns.update(looked=lambda: getattr(shell, progress_bar._BARS)._foreign)
    shell.run_cell("for n in progress(range(2)):\n    wait_for(looked)").raise_error()
    assert screen.shown == [] and looks[0]
    shell.run_cell(LOOP).raise_error()
    assert screen.shown[-1].startswith("done in ")


def test_neither_is_that_of_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not progress_bar.own_bar(threading.get_ident())
    tqdm = types.SimpleNamespace(tqdm=types.SimpleNamespace(_instances={object()}))
    monkeypatch.setitem(sys.modules, "tqdm.std", tqdm)
    assert progress_bar.own_bar(threading.get_ident())


@pytest.mark.parametrize(
    "data, text",
    [
        ({"calls": 0, "loops": [["epoch", 3, 10]], "left": 80.0}, "epoch 4 of 10, 1:20 left"),
        ({"calls": 9, "loops": [["i", 10, 10]], "rate": 181.6}, "i 10 of 10, 182 calls/s"),
        ({"calls": 9, "loops": []}, "9 calls"),
        ({"calls": 1, "loops": [], "compiling": 1}, "1 kernel is being compiled"),
        ({"calls": 0, "loops": [], "compiling": 3, "left": 7384.0},
         "2:03:04 left, 3 kernels are being compiled"),
        ({"calls": 0, "loops": [["<b>\u202e", 0, 2]]}, "<b>\\u202e 1 of 2"),
    ],
)  # fmt: skip
def test_words(data: dict[str, Any], text: str) -> None:
    bundle = progress_bar.drawn(data)
    assert bundle["text/plain"] == text
    assert "<b>" not in bundle["text/html"] and "\u202e" not in bundle["text/html"]
    assert ("<progress" in bundle["text/html"]) == bool(data["loops"])


def test_what_cannot_be_looped_over_is_refused() -> None:
    with pytest.raises(ArgumentError, match="iterable must be one"):
        progress_bar.progress(3)  # type: ignore[type-var]
    assert list(progress_bar.progress([1, 2])) == [1, 2]


@pytest.mark.slow
def test_in_a_kernel(tmp_path: Path) -> None:
    book = nbformat.v4.new_notebook()
    for code in (
        "import time\nfrom kbench.notebook.ipython.progress_bar import progress, _BARS",
        "for n in progress(range(2), name='epoch'):\n"
        "    bars, end = getattr(get_ipython(), _BARS), time.monotonic() + 30\n"
        "    while bars._change is None and time.monotonic() < end:\n"
        "        time.sleep(0.01)\n"
        "    print('between', n)\n"
        "'last'",
    ):
        book.cells.append(nbformat.v4.new_code_cell(code))
    run_book(book, tmp_path)
    bar, said, value, line = book.cells[1].outputs
    assert bar["data"]["text/plain"] == "" and "kb-gone" in bar["data"]["text/html"]
    assert said["text"] == "between 0\nbetween 1\n" and value["data"]["text/plain"] == "'last'"
    assert line["data"]["text/plain"].startswith("done in ")
