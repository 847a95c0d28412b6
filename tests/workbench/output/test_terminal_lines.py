"""Lines that are redrawn: what a terminal would show, at whatever points the text is cut."""

from __future__ import annotations

import random

import pytest

from kbench.workbench.history.output_store import add_text
from kbench.workbench.output import stream, terminal_lines
from kbench.workbench.output.terminal_lines import (
    _draw,
    joined,
    latest,
    overwrite,
    settled,
    visible_length,
)
from kbench.workbench.session import events
from kbench.workbench.session.cell import MAX_TEXT_CHARACTERS, Cell

BAR = "{0:4}/2000 [{1:.<30}] - ETA: 1s - loss: {2:.4f}"


def bars(count: int) -> list[str]:
    """What Keras prints in an epoch: every bar takes back the one before it."""
    texts = [BAR.format(at, "=" * (at % 30) + ">", 1 / (at + 1)) for at in range(count)]
    before = [0, *map(len, texts)]
    return ["\b" * length + "\r" + text for length, text in zip(before, texts, strict=False)]


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain", "plain"),
        ("abc\rX", "Xbc"),
        ("abc\b\bX", "aXc"),
        ("abc\b\b\b\b\b\bX", "Xbc"),
        ("a\b \bX", "X"),
        ("abc\r\x1b[Kx", "x"),
        ("abc\b\x1b[Kx", "abx"),
        ("abc\r\x1b[2Kx", "x"),
        ("\x1b[31mabc\x1b[0m\rX", "X\x1b[31mbc\x1b[0m"),
        ("ab\r\x1b[32mX", "\x1b[32mX\x1b[0mb\x1b[32m"),
        ("a\x1b[5;5Hb\r", "ab"),
        ("a\x1b]0;title\x07b\r", "ab"),
        ("a\x1b\r", "a"),
        ("\r\r\b", ""),
        ("é漢\rx", "x漢"),
    ],
)
def test_a_line_is_drawn_as_a_terminal_draws_it(printed: str, shown: str) -> None:
    assert overwrite(printed) == shown


def test_a_progress_bar_leaves_its_last_state() -> None:
    assert overwrite("".join(bars(200))) == BAR.format(199, "=" * 19 + ">", 1 / 200)


@pytest.mark.parametrize("seed", range(30))
def test_text_in_pieces_is_drawn_as_the_whole(seed: int) -> None:
    source = random.Random(seed)
    pieces = ["ab", "\r", "\b", "\b\b", "cde", "\x1b[31m", "\x1b[0m", "\x1b[K", "xyz", "\n"]
    printed = [source.choice(pieces) for _ in range(40)]
    line, text = "", ""
    for one in printed:
        if one != "\n":
            line = settled(line + one)
        text = joined(text, one)
    whole = "".join(printed)
    assert _draw(line)[0] == _draw(whole.replace("\n", ""))[0]
    cells = [_draw(one)[0] for one in text.split("\n")]
    assert cells == [_draw(one)[0] for one in whole.split("\n")]


def test_a_long_training_is_not_cut_for_its_bars() -> None:
    """An hour of bars is a few lines; what is cut is what stays, not what was redrawn."""
    shown: list[events.Stream] = []
    gathered = stream.Output(shown.append, None)
    printed = [*bars(600), "\n"] * 60
    for text in printed:
        gathered.add(1, "stdout", text)
    gathered.close(1)
    assert sum(map(len, printed)) > 2 * stream.MAX_CHARACTERS
    lines = "".join(one.text for one in shown).split("\n")
    assert [overwrite(line) for line in lines] == [overwrite(bars(600)[-1])] * 60 + [""]
    assert not [one for one in shown if one.name == "notice"]
    gathered.add(2, "stdout", "x\n" * (stream.MAX_LINES + 1))
    gathered.close(2)
    assert any(one.name == "notice" for one in shown)


@pytest.mark.parametrize("seed", range(30))
def test_old_redrawings_of_plain_text_are_dropped_without_a_trace(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_lines, "_MAX_REDRAWN_CHARACTERS", 0)
    source = random.Random(seed)
    before, text = (
        "".join(source.choice(["ab", "cdefg", "h", "\r", "\n"]) for _ in range(30)) for _ in "12"
    )
    assert len(latest(text)) <= len(text) + 20
    whole, short = before + text + "\rz", before + latest(text) + "\rz"
    assert list(map(overwrite, short.split("\n"))) == list(map(overwrite, whole.split("\n")))


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31m####\x1b[0m" + "\r\x1b[31m####\r\x1b[32m....\x1b[0m" * 500,
        "\x1b[31m" + ("y" * 40 + "\r") * 500 + "z" * 40,
        "\x1b[31m" + "#" * 9000,
        "x" * 9000 + "\r\n" + "\x1b[1my",
        "\x1b[1m" + ("y" * 40 + "\r") * 500 + "\nz",
        "ab\b" * 3000,
    ],
)
def test_coloured_redrawings_end_in_the_same_colours(text: str) -> None:
    short = latest(text)
    assert [_draw(one) for one in short.split("\n")] == [_draw(one) for one in text.split("\n")]


def test_lengths_add_up_to_what_stays() -> None:
    kept, line = 0, 0
    for piece in ["abc", "\rabcd", "\rabcde\nxy", "z\r12", "\n\n", "q\r"]:
        more, line = visible_length(piece, line)
        kept += more
    assert kept == len("abcde\n12\n\n")


def test_a_notebook_of_the_session_keeps_the_last_bar() -> None:
    cell = Cell(1, "model.fit()")
    add_text(cell, events.Stream(1, "stdout", "Epoch 1/2\n"))
    for text in bars(2_000):
        add_text(cell, events.Stream(1, "stdout", text))
    add_text(cell, events.Stream(1, "stdout", "\nEpoch 2/2\n"))
    assert "".join(one.text for one in cell.outputs) == (
        "Epoch 1/2\n" + overwrite("".join(bars(2_000))) + "\nEpoch 2/2\n"
    )
    assert cell.text_characters < MAX_TEXT_CHARACTERS
