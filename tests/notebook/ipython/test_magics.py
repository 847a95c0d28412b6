"""%explore, %plot and %grad: what they show, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from shells import opened, run


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One for all rows, with the extension loaded."""
    for made in opened(tmp_path_factory.mktemp("shell")):
        made.run_line_magic("load_ext", "kbench")
        yield made


LOSS = "w = K.variable([[1.0, 2.0]])\n"
ONE = "f = K.function([], [K.variable(1.0) + 1])\n"


@pytest.mark.parametrize(
    "code, words",
    [
        ("%explore relu", ["K.relu(x)", "alpha", "-1 to 2", "result"]),
        ("%explore", ["K.conv2d(x, kernel)"]),
        ("%explore K.softmax", ["K.softmax(x)"]),
        ("a = np.ones((2, 2))\n%explore sum(a, axis=[0, 1])", ["K.sum(a, axis=0)", "one of 0, 1"]),
        ("def f(x, n=2): return x * n\n%explore f", ["f(x)", "n       -2 to 6"]),
        ("def tanh(x): return x\n%explore tanh", ["tanh(x)"]),
        ("%explore con2d", ["UsageError", "no function 'con2d'", "try 'conv2d'"]),
        ("%explore 3 +", ["UsageError", "%explore needs a function"]),
        ("%explore elu(nope)", ["UsageError", "nope: NameError"]),
        ("%explore elu(*[1])", ["UsageError", "%explore needs a function"]),
        ("%explore elu(beta=1)", ["UsageError", "no argument 'beta'"]),
        ("%explore K.Variable", ["UsageError", "the class Variable"]),
        ("w = K.variable([[1.0]])\n%plot w", ["Picture size"]),
        ("%plot np.ones((2, 2))", ["Picture size"]),
        ("%plot images np.ones((2, 4, 4))", ["Picture size"]),
        ("%plot {'a': [1.0, 2.0]}", ["Picture size"]),
        ("h = kbench.plots.History(K.variable(1.0)); h.stop()\n%plot h", ["Picture size"]),
        (f"{ONE}%plot f", ["UsageError", "no call was recorded"]),
        (f"{ONE}with K.record() as r: f([])\n%plot r", ["Picture size"]),
        ("%plot", ["UsageError", "%plot needs a value", "heatmap, images"]),
        ("%plot nope", ["UsageError", "nope: NameError"]),
        ("%plot timeline 3", ["UsageError", "must be a K.function, a Keras model"]),
        ("%plot K.ones((2,)) * 2", ["Picture size"]),
        ("%plot K.placeholder((2,)) * 2", ["UsageError", "needs values for placeholder"]),
        (f"{LOSS}l = K.sum(w * w)\n%grad l", ["d l / d variable; l is 5"]),
        (f"{LOSS}l = K.sum(K.square(w)); a = K.variable(1.0)\n%grad l", ["norm 4.472  zeros 0%"]),
        (f"{LOSS}l = K.sum(K.square(w)); a = K.variable(1.0)\n%grad l", ["a ", "no path"]),
        (f"{LOSS}%grad K.sum(K.relu(-w))", ["sum is 0", "zeros 100%  dead\n"]),
        (f"x = K.placeholder((2,))\n{LOSS}l = K.sum(x * w)\n%kb gradients l", ["values for x"]),
        ("%grad nope", ["no name nope"]),
        (f"{LOSS}%kb watches K.mean(w)", ["K.mean(w)  1.5"]),
        (f"{LOSS}%kb compare K.log(w)", ["comparison of 2 engines, float32[1, 2]", "none"]),
        ("%kb compare K.log(nope)", ["kbench: NameError"]),
        (f"{LOSS}l = K.sum(w * w)\n%kb graph K.mean(w * w)", ["graph of mean", "mean:0  mean "]),
    ],
)  # fmt: skip
def test_magics(shell: Any, code: str, words: list[str]) -> None:
    shown = run(shell, code)
    assert [word for word in words if word not in shown] == [], shown
    assert "Traceback" not in shown
