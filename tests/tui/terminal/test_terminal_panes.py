"""The panes in a pseudo-terminal with a real kernel, used by their keys."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from terminal import Terminal

pytestmark = pytest.mark.slow

STEP = """x = K.placeholder((None, 3), name='x')
w = K.variable([[1., 0.], [2., 1.], [0., 3.]], name='w')
loss = K.mean(K.square(K.softmax(K.dot(x, w)) - 0.25))
slopes = K.gradients(loss, [w])
step = K.function([x], [loss], updates=[K.update_sub(w, 0.1 * slopes[0])])"""


def test_a_watch_shows_old_and_new_value(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        terminal.run("rate = 0.5")
        terminal.until("In [2]", "Variables (1)")
        terminal.press("alt+3", "a")
        terminal.until("watch an expression")
        terminal.type("rate * 100\r")
        terminal.until("Watch (1)", gone="watch an expression")
        terminal.press("ctrl+r")  # however slow this machine is just now
        terminal.until("rate * 100 50")
        terminal.press("f2")
        terminal.run("rate = 0.125")
        terminal.until("In [3]", "0.125", gone="busy")
        terminal.press("alt+3", "ctrl+r")
        terminal.until("value history before", "rate * 100 12.5", "█▁", " 50 ")
        terminal.press("f2")
        terminal.run("del rate")
        terminal.until("NameError: name 'rate' is not defined")
        terminal.press("alt+3", "delete")
        terminal.until("No watches yet")
        assert terminal.quit() == 0


def test_a_shape_error_points_into_a_users_function(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        terminal.run(
            "w = K.zeros((784, 10), name='w')\nx = K.placeholder((32, 784), name='x')\n"
            "def layer(inputs, weights):\n    return K.relu(K.dot(weights, inputs))"
        )
        terminal.until("In [2]", gone="busy")
        terminal.run("layer(x, w)")
        screen = terminal.until("ShapeError", "alt+E explain")
        lines = [line[1:61] for line in screen.split("\n")]
        at = next(place for place, line in enumerate(lines) if "In [1] line 4" in line)
        assert "layer(x, w)" in lines[at - 1] and "K.dot(weights, inputs)" in lines[at + 1]
        for row, operand, spec in (
            (at + 2, "inputs", "float32[32, 784]  axis -2 !"),
            (at + 3, "weights", "float32[784, 10]  axis -1 !"),
        ):
            column = lines[at + 1].index(operand)
            assert "└" in lines[row][column : column + len(operand)] and spec in lines[row]
        assert "try K.dot(inputs, weights) -> (32, 10)" in screen
        terminal.press("alt+e")
        screen = terminal.until("Traceback", "placeholder 'x', In [1] line 2", "Esc close")
        assert "kbench/" not in screen  # the user's lines alone
        terminal.press("escape")
        terminal.until("In [3]", gone="Esc close")
        assert terminal.quit() == 0


def test_gradients_of_the_last_feeds_are_shown(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        terminal.run(STEP)
        terminal.until("slopes", "In [2]", gone="busy")
        terminal.press("alt+4")
        terminal.until("needs values for x: run a K.function or K.eval")
        terminal.press("f2")
        terminal.run("import numpy as np\nlast = step([np.eye(3, dtype='float32')])[0]")
        terminal.until("last ", "v1", gone="busy")
        terminal.press("alt+4", "ctrl+r")
        terminal.until("Grad: d loss", "d loss / d", "w  ")
        terminal.press("enter")
        screen = terminal.until("Value: gradient/w d loss / d w", "NaN 0")
        assert "(3, 2)" in screen
        assert terminal.quit() == 0


def test_graph_and_plan_lead_to_the_source(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        terminal.press("f5")
        terminal.until("No run yet. Call a K.function or K.eval")
        terminal.press("f2")
        terminal.run(STEP)
        terminal.until("slopes", "In [2]", gone="busy")
        terminal.run("import numpy as np\nfor n in range(3): out = step([np.ones((4, 3)) * n])")
        terminal.until("out ", "v3", gone="busy")
        terminal.press("f5")
        screen = terminal.until("Plan: step run 3/3", "form")
        assert any(
            "dot" in line and ("blas" in line or "kernel" in line) for line in screen.split("\n")
        )
        terminal.press("[")
        terminal.until("Plan: step run 2/3")
        terminal.press("o")
        terminal.until("┃▌In [1]: x = K.placeholder", "In [1] line 3")
        terminal.press("f3", "home", "o")
        screen = terminal.until("Graph: loss (", "square", "softmax", "dot")
        assert "= (4, 2)" in screen  # the shape that the last run saw
        terminal.press("o")
        terminal.until("┃▌In [1]: x = K.placeholder")
        assert terminal.quit() == 0


def test_a_nan_is_traced_and_two_settings_are_compared(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        terminal.run(
            "def risky(v):\n    return K.log(v + K.epsilon())\n"
            "low = K.variable([-1., 0., 2.], name='low')\ny = K.square(risky(low))\nK.eval(y)"
        )
        terminal.until("! NaN made by log at In [1] line 2")
        terminal.press("alt+n")
        screen = terminal.until("NaN trace: y", "first at")
        for words in (
            "return K.log(v + K.epsilon())",
            "log of a negative number is NaN",
            "first at [0]: NaN",
            "square at In [1] line 4",
        ):
            assert words in screen
        terminal.press("escape")
        terminal.until("In [2]", gone="Esc close")
        terminal.put("K.eval(risky(0. * low))")
        terminal.press("alt+c")
        terminal.until("compare an expression")
        terminal.press("enter")
        terminal.until("[p] epsilon")
        terminal.press("p")
        terminal.until("variants: ")
        terminal.type("\x15epsilon=1e-7,1e-3\r")
        screen = terminal.until("-16.1", "-6.9")
        assert "1e-07" in screen and "0.001" in screen
        terminal.press("escape")
        terminal.until("In [3]", gone="Comparison")
        terminal.press("f2", "ctrl+c")
        terminal.run("print('epsilon', K.epsilon() * 1e7)")
        terminal.until("epsilon 1.0")
        assert terminal.quit() == 0


def test_a_value_is_walked_searched_and_exported(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("idle")
        terminal.run(
            "import numpy as np\nh = np.arange(6000.).reshape(20, 30, 10)\n"
            "h[7, 11, 3] = np.nan\nh[9, 2, 5] = np.inf"
        )
        terminal.until("(20, 30, 10)", gone="busy")
        terminal.press("f3", "enter")
        terminal.until("[0, :, :]  at (0, 0, 0)", "NaN 1  Inf 1 !")
        terminal.press("n")
        terminal.until("[7, :, :]  at (7, 11, 3)", ">NaN! 2214")
        terminal.press("n")
        terminal.until("[9, :, :]  at (9, 2, 5)", ">Inf! 2726")
        terminal.press("]")
        terminal.until("[10, :, :]")
        terminal.press(":")
        terminal.until("index into")
        terminal.type("3, 4, 5\r")
        terminal.until("[3, :, :]  at (3, 4, 5)", ">945")
        terminal.press("f")
        terminal.until("find in h")
        terminal.type("> 5990\r")
        terminal.until("[9, :, :]  at (9, 2, 5)")  # an infinity is greater than that
        terminal.press("F")
        terminal.until("at (19, 29, 1)", ">5991")
        terminal.press("a")
        terminal.until("axes of h", "size 20")
        terminal.press("down", "down", "r", "enter")
        terminal.until("rows 2 cols 1", "0 5700 5710", gone="axes of h")  # from the first row on
        for answer, name in (("a", "whole.npy"), ("s", "slice.json")):
            terminal.press("e")
            terminal.until("Write to a file")
            terminal.press(answer)
            terminal.until("to a file (.npy")
            terminal.type(f"\x15{name}\r")
            terminal.wait(lambda name=name: (tmp_path / name).exists(), name)
        assert terminal.quit() == 0
    expected = np.arange(6000.0).reshape(20, 30, 10)
    expected[7, 11, 3], expected[9, 2, 5] = np.nan, np.inf
    np.testing.assert_array_equal(np.load(tmp_path / "whole.npy"), expected)
    written = json.loads((tmp_path / "slice.json").read_text())
    assert written["shape"] == [10, 30]
