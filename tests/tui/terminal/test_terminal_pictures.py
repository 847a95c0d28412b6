"""Pictures in a pseudo-terminal whose terminal draws them, does not, or never answers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from graphics_helpers import ANSWERS, kitty_messages, kitty_picture, sixel_picture
from PIL import Image
from terminal import Terminal

from kbench.tui.graphics.answers import QUESTIONS

pytestmark = pytest.mark.slow

RED, BLUE = (255, 0, 0), (0, 0, 255)
CODE = (
    "from PIL import Image; i = Image.new('RGB', (80, 40), 'red'); "
    "i.paste('blue', (0, 20, 80, 40)); i"
)


def halves(image: Image.Image) -> list[tuple[int, ...]]:
    """The colours of the upper and of the lower half."""
    image = image.convert("RGB")
    places = ((image.width // 2, image.height * at // 4) for at in (1, 3))
    return [tuple(image.getpixel(place)) for place in places]  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
@pytest.mark.parametrize("name", ["kitty", "foot", "xterm", "silent"])
def test_a_picture_as_the_terminal_draws_it(
    name: str, size: tuple[int, int], tmp_path: Path
) -> None:
    answers = ANSWERS[name]
    with Terminal(tmp_path, size=size, answers=answers) as terminal:
        terminal.until("Type Python")
        asked = terminal.written
        terminal.type(CODE)
        terminal.press("enter")
        terminal.until("In [2]")
        terminal.wait(lambda: drawn(name, text(terminal)), "picture")
        assert QUESTIONS.encode() not in asked  # nobody is asked before there is a picture
        terminal.until("In [2]", gone="62;")  # answers are not typed into the prompt
        terminal.type("1 + 1")
        terminal.press("enter")
        terminal.until("Out[2]: 2")
        terminal.press("ctrl+q")
        assert terminal.ended() == 0
        written = text(terminal)
    if name == "kitty":
        assert halves(kitty_picture(written)) == [RED, BLUE]
        assert kitty_messages(written)[-1][0]["a"] == "d"
    elif name == "foot":
        first = written.index("\x1bP0;1q")
        end = written.index("\x1b\\", first) + 2
        assert halves(sixel_picture(written[first:end])) == [RED, BLUE]


@pytest.mark.parametrize("name", ["kitty", "foot"])
def test_a_slow_line_has_half_blocks_until_the_terminal_has_answered(
    name: str, tmp_path: Path
) -> None:
    with Terminal(tmp_path, answers=ANSWERS[name], answer_seconds=2.0) as terminal:
        terminal.until("Type Python")
        terminal.type(CODE)
        terminal.press("enter")
        terminal.wait(lambda: "▀▀▀▀" in text(terminal), "half blocks")
        assert not drawn(name, text(terminal))
        terminal.wait(lambda: drawn(name, text(terminal)), "picture")
        shown = terminal.until("In [2]", gone="▀▀")
        assert "62;" not in shown


def text(terminal: Terminal) -> str:
    """What was written so far; its last character may still be half."""
    return terminal.written.decode(errors="ignore")


def drawn(name: str, written: str) -> bool:
    if name == "kitty":
        return "\U0010eeee" in written
    return ("\x1bP0;1q" if name == "foot" else "▀▀▀▀") in written


@pytest.mark.parametrize("name", ["kitty", "foot"])
@pytest.mark.parametrize("how", ["resized", "another terminal", "key", "paused"])
def test_a_picture_that_the_terminal_has_lost_is_sent_again(
    how: str, name: str, tmp_path: Path
) -> None:
    with Terminal(tmp_path, answers=ANSWERS[name]) as terminal:
        terminal.until("Type Python")
        terminal.type(CODE)
        terminal.press("enter")
        terminal.until("In [2]")
        terminal.wait(lambda: drawn(name, text(terminal)), "picture")
        terminal.until("In [2]")
        before = len(text(terminal))
        if how == "resized":
            terminal.resize(130, 44)
        elif how == "key":
            terminal.press("ctrl+l")
        elif how == "paused":
            os.kill(terminal.child.pid, signal.SIGTSTP)
            state = Path(f"/proc/{terminal.child.pid}/stat")
            terminal.wait(lambda: ") T " in state.read_text(), "pause")
            os.kill(terminal.child.pid, signal.SIGCONT)
        else:  # as dtach says it
            os.kill(terminal.child.pid, signal.SIGWINCH)
        began = "\x1b_Ga=t" if name == "kitty" else "\x1bP0;1q"
        terminal.wait(lambda: began in text(terminal)[before:], "picture again")
        terminal.until("In [2]")
        again = text(terminal)[before:]
        again = again[again.rindex(began) :]
        end = again.index("\U0010eeee") if name == "kitty" else again.index("\x1b\\") + 2
        picture = (kitty_picture if name == "kitty" else sixel_picture)(again[:end])
        assert halves(picture) == [RED, BLUE]


def test_what_is_asked_for_is_drawn(tmp_path: Path) -> None:
    with Terminal(tmp_path, "--pictures", "blocks", answers=ANSWERS["kitty"]) as terminal:
        terminal.until("Type Python")
        terminal.type(CODE)
        terminal.press("enter")
        terminal.wait(lambda: "▀▀▀▀" in text(terminal), "half blocks")
        assert QUESTIONS.encode() not in terminal.written
    variables = {"KBENCH_PICTURES": "sixel"}
    with Terminal(tmp_path, answers=ANSWERS["silent"], **variables) as terminal:
        terminal.until("Type Python")
        terminal.type(CODE)
        terminal.press("enter")
        terminal.wait(lambda: "\x1bP0;1q" in text(terminal), "sixels")


def test_a_wrong_word_is_told(tmp_path: Path) -> None:
    with Terminal(tmp_path, KBENCH_PICTURES="svg") as terminal:
        assert terminal.ended() == 2
        assert "choose from auto, kitty, sixel, blocks" in text(terminal)
