"""The forms of the workbench for other terminals and tasks: plain, colourless, ASCII, training."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from terminal import Terminal

from kbench.workbench.history.input_history import History

pytestmark = pytest.mark.slow

COLOUR = re.compile(rb"\x1b\[([0-9;:]*)m")
ATTRIBUTES = {b"", b"0", *(b"%d" % code for code in (*range(1, 10), *range(21, 30)))}
"""Codes of what is no colour: bold, underlined, reversed."""
FIT = """import numpy as np, keras
model = keras.Sequential([keras.layers.Dense(4, activation='relu', input_shape=(3,)),
    keras.layers.Dense(1)])
model.compile('sgd', 'mse')
inputs, wanted = np.ones((64, 3)), np.zeros((64, 1))
done = model.fit(inputs, wanted, batch_size=8, epochs=100_000, verbose=0)"""


def colours(terminal: Terminal) -> set[str]:
    """The colours on the screen, of letters and behind them."""
    cells = (cell for row in terminal.grid.buffer.values() for cell in row.values())
    return {colour for cell in cells for colour in (cell.fg, cell.bg)} - {"default"}


def test_the_prompt_for_screen_readers_tells_changes_as_lines(tmp_path: Path) -> None:
    with Terminal(tmp_path, "--plain") as terminal:
        terminal.until("In [1]:")
        terminal.type("a = K.variable([1., 2.], name='a')\r")
        terminal.until("a: ", "float32[2]", "In [2]:")
        terminal.type("%watch K.sum(a)\r")
        terminal.until("K.sum(a)", "3", "In [3]:")
        terminal.type("K.set_value(a, [5., 6.]); K.set_epsilon(1e-3)\r")
        terminal.until("setting epsilon is now 0.001", "3 -> 11", "In [4]:")
        terminal.type("K.dot(a, K.ones((3, 2)))\r")
        screen = terminal.until("ShapeError", "In [5]:")
        assert "kbench/" not in screen
        terminal.type("%vars\r")
        terminal.until("Out[5]: a  variable", "In [6]:")
        terminal.type("%kb value\r")
        screen = terminal.until("\nUsageError: %kb value wants a name", "In [7]:")
        assert "Traceback" not in screen[screen.index("%kb value") :]
        terminal.type("loss = K.sum(K.square(a)); K.eval(loss)\r")
        terminal.type("%grad loss\r")
        terminal.until("d loss / d variable; loss is 61", "a  float32[2]  norm 15.62")
        terminal.type("import time; print('run' + 'ning', flush=True); time.sleep(3600)\r")
        terminal.until("running")
        terminal.press("ctrl+c")
        terminal.until("KeyboardInterrupt")
        terminal.type("exit()\r")
        assert terminal.ended() == 0
        assert b"\x1b[?1049h" not in terminal.written  # it never takes the screen


def test_the_prompt_of_lines_shares_the_history_of_all_sessions(tmp_path: Path) -> None:
    file = tmp_path / "state" / "history.sqlite"
    kept = History(file)
    kept.add("six = 6")
    kept.add("six * 7")
    kept.close()
    with Terminal(tmp_path, "--plain") as terminal:
        terminal.until("In [1]:")
        terminal.press("up", "up", "enter")
        terminal.until("In [1]: six = 6", "In [2]:")
        terminal.press("up", "up", "enter")
        terminal.until("Out[2]: 42", "In [3]:")
        terminal.type("exit()\r")
        assert terminal.ended() == 0
    kept = History(file)
    assert kept.latest() == ["six = 6", "six * 7", "six = 6", "six * 7", "exit()"]
    kept.close()
    assert not list(tmp_path.rglob(".ipython/**/history.sqlite"))


def test_without_colours_nothing_is_lost(tmp_path: Path) -> None:
    with Terminal(tmp_path, NO_COLOR="1") as terminal:
        terminal.until("idle")
        terminal.run("import numpy as np\nh = np.array([[0.1, np.nan], [2., 3.]])\n1 / 0")
        terminal.until("ZeroDivisionError", "NaN 1", gone="busy")
        terminal.press("f3", "enter")
        terminal.until(">0.1 NaN", "NaN 1  Inf 0 !")
        terminal.press("f7")
        terminal.until("┏━ Config", "epsilon")
        assert not colours(terminal)
        assert terminal.quit() == 0
        codes = {code for one in COLOUR.findall(terminal.written) for code in one.split(b";")}
        assert codes <= ATTRIBUTES, sorted(codes - ATTRIBUTES)


def test_the_plain_prompt_without_colours(tmp_path: Path) -> None:
    with Terminal(tmp_path, "--plain", NO_COLOR="1") as terminal:
        terminal.until("In [1]:")
        terminal.type("for x in [1, 'two']: 1/0\r\r")
        terminal.until("ZeroDivisionError", "In [2]:")
        terminal.type("K.dot(K.ones((2, 3)), K.ones((2, 3)))\r")
        terminal.until("ShapeError", "In [3]:")
        codes = {code for one in COLOUR.findall(terminal.written) for code in one.split(b";")}
        assert codes <= ATTRIBUTES, sorted(codes - ATTRIBUTES)


@pytest.mark.parametrize("how", ["asked", "by the locale"])
def test_ascii_is_enough(how: str, tmp_path: Path) -> None:
    plain = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    arguments, variables = (["--ascii"], {}) if how == "asked" else ([], plain)
    with Terminal(tmp_path, *arguments, **variables) as terminal:
        terminal.until("idle")
        terminal.run(
            "w = K.zeros((784, 10), name='w')\nx = K.placeholder((32, 784), name='x')\nK.dot(w, x)"
        )
        terminal.until("ShapeError", "alt+E explain", gone="busy")
        terminal.press("f3", "end", "o")
        terminal.until("Graph: x")
        for keys, words in (
            (("alt+e",), "Traceback"),
            (("escape", "f1"), "Help: "),
            (("escape", "f8"), "K.dot(w, x)"),
            (("escape", "ctrl+p"), "part of a command"),
            (("escape", "f12"), "kbench "),
        ):
            terminal.press(*keys)
            screen = terminal.until(words)
            assert screen.isascii(), [one for one in screen.split("\n") if not one.isascii()]
        terminal.press("escape")
        terminal.resize(80, 24)
        screen = terminal.until("1 Vars", "7 Config")
        assert screen.isascii()
        assert terminal.quit() == 0
        assert terminal.written.isascii()


def test_the_status_line_follows_a_fit(tmp_path: Path) -> None:
    with Terminal(tmp_path, size=(200, 50), KERAS_BACKEND="kbench") as terminal:
        terminal.until("idle")
        terminal.run(FIT)
        pace = re.compile(r"busy .* │ epoch ([\d,]+) of 100,000, batch \d of 8, .*left")
        terminal.wait(lambda: pace.search(terminal.screen), "the pace of the fit")
        first = pace.search(terminal.screen)
        assert first is not None
        before = int(first.group(1).replace(",", ""))

        def further() -> bool:
            found = pace.search(terminal.screen)
            return found is not None and int(found.group(1).replace(",", "")) > before

        terminal.wait(further, "a later epoch")
        terminal.press("ctrl+c")
        screen = terminal.until("KeyboardInterrupt", "idle", "model", gone="busy")
        assert " of 100,000" not in screen.split("\n")[0]
        terminal.run("print('weights', len(model.get_weights()))")
        terminal.until("weights 4")
        assert terminal.quit() == 0


def test_pasted_code_and_the_debugger_without_marks_of_the_terminal(tmp_path: Path) -> None:
    """The text comes as keys, all at once, as from a terminal that does not bracket it."""
    lines = [
        "def grow(x):",
        "    for i in range(2):",
        "        x += i",
        "    breakpoint()",
        "    return x",
    ]
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        terminal.type("\r".join([*lines, "", "grow(41)", ""]))
        screen = terminal.until("grow(41)")
        assert "In [1]: def" not in screen  # it waits for Enter
        assert all(f" {line} " in screen for line in lines)
        terminal.press("enter")
        terminal.until("Answer: ipdb>")
        terminal.type("p x + 1\r")
        terminal.until("ipdb> p x + 1", "43")
        terminal.press("ctrl+c")
        terminal.until("idle", gone="Answer:")
        terminal.type("K.rleu\r")
        terminal.until("Did you mean K.relu?")
