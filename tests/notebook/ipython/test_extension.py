"""`%load_ext kbench` in a shell: magics, displays, error reports, and that unloading restores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from kbench import backend as K
from kbench.engine.core import errors
from kbench.engine.runtime import config
from kbench.workbench.kernel import magics


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell of its own, with the extension loaded."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("KBENCH_JIT", "off")
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(colors="nocolor")
    made.history_manager.enabled = False
    made.run_cell("from kbench import backend as K\nimport numpy as np")
    made.run_line_magic("load_ext", "kbench")
    yield made
    made.run_line_magic("unload_ext", "kbench")
    InteractiveShell.clear_instance()
    for name, value in (("epsilon", 1e-7), ("floatx", "float32")):
        config.assign(name, value)
    K.clear_session()


def run(shell: Any, code: str) -> str:
    """Run a cell; what it printed and showed, as text."""
    with capture_output() as captured:
        result = shell.run_cell(code)
    shown = "\n".join(str(one.data.get("text/plain")) for one in captured.outputs)
    plain = "" if result.result is None else str(shell.display_formatter.format(result.result)[0])
    return captured.stdout + captured.stderr + shown + plain


@pytest.mark.parametrize(
    "code, words",
    [
        ("%kb", ["kbench", "epsilon", "1e-07", "channels_last"]),
        ("%kb arrays on\n%kb", ["arrays shown", "as tensors are"]),
        ("%kb arrays on\n%kb arrays off", ["by NumPy"]),
        ("%kb arrays maybe", ["%kb takes help, arrays on|off, names,", "got 'arrays maybe'"]),
        ("%kb help", ["kbench.GraphView()", "%kb graph x", "dtype and shape on every edge"]),
        ("%kb value", ["%kb value wants a name or an expression, such as %kb value w"]),
        ("%kb value 1 +", ["1 +: SyntaxError"]),
        ("%kb value nope", ["%kb value: no name nope"]),
        ("%kb value np.eye(2) * 3", ["float64[2, 2] 32 B  [3, 0, 0, 3]"]),
        ("%kb settings 3", ["%kb settings takes nothing, got '3'"]),
        ("%kb watches 1 + 41", ["watches", "1 + 41"]),
        ("%kb explore softmax", ["K.softmax("]),
        ("w = K.variable([1., 2.])\n%vars", ["w  variable", "float32[2]"]),
        ("w = K.variable([1.]); v = 3\n%vars w*", ["w  variable"]),
        ("%vars nothing*", ["no name fits 'nothing*'"]),
        ("%config_k floatx=float64 epsilon=1e-5", ["float64", "1e-05"]),
        (
            "%config_k epsilon=abc",
            ["nothing was changed: epsilon must be a finite number of at least 0"],
        ),
        ("%config_k nonsense=1", ["unknown setting 'nonsense'"]),
        ("%config_k floatx", ["needs name=value"]),
        ("%config_k floatx = float64", ["float64"]),
        ("w = K.variable([1., 2.])\n%watch K.sum(w)", ["K.sum(w)  3"]),
        ("n = 1\n%watch n + 41\nn = 2\n%watch", ["1  n + 41  42 -> 43"]),
        (
            "%watch nope\n%watch -d 1\n%watch",
            ["NameError", "no longer watched: nope", "no watches;"],
        ),
        ("%watch a = 1", ["refused: one expression is needed"]),
        ("%watch -d 9", ["there is no watch 9"]),
        ("%watch -d x", ["%watch -d needs the number of a watch, got 'x'"]),
        ("%%profile x\n1", ["%%profile takes no argument; its code is the cell below it, got 'x'"]),
        ("%lesson 1 2", ["%lesson needs a number, got '1 2'"]),
        ("%watch", ["no watches; %watch K.mean(w) adds one"]),
        (
            "x = K.placeholder((2,)); f = K.function([x], [K.log(x)]); f([[0.0, 1.0]])\n%nan f",
            ["an infinity made by log at In [", "log of 0 is -Inf", "first at [0]: -Inf"],
        ),
        (
            "x = K.placeholder((None, 2)); t = K.placeholder((None, 1)); b = K.variable([0.0])\n"
            "p = K.sigmoid(K.dot(x, K.ones((2, 1))) + b)\n"
            "loss = -K.mean(t * K.log(p) + (1 - t) * K.log(1 - p))\n"
            "step = K.function([x, t], [loss], [(b, b - K.gradients(loss, [b])[0])])\n"
            "for bias in (0.0, 100.0, None):\n"
            "    if bias is not None: b.set_value([bias])\n"
            "    step([np.ones((4, 2)), np.ones((4, 1))])\n%nan loss",
            ["NaN made by multiply in * at In [", "line 3: log(0) * 0", "the first call of step"],
        ),
        ("%nan K.log(K.constant(-1.0))", ["NaN made by log", "log of a negative number is NaN"]),
        ("%nan K.exp(K.constant(1.0))", ["no NaN and no infinity"]),
        ("%nan 3", ["a tensor, a K.function or a Keras model is needed"]),
        ("%nan", ["%nan needs a tensor"]),
        ("%%ab epsilon=0,1\nb = K.ones((1,)) * 2\nb + K.epsilon()", ["2 variants", "[0]", "0.333"]),
        ("%%ab engine=kbench,numpy\nK.ones((2,))", ["2 engines", "none"]),
        ("%%ab speed=1\n1", ["unknown setting; choose from"]),
        ("%%ab epsilon=1\nb = 1", ["the last line must be an expression"]),
        ("%plan w", ["needs the name of a K.function"]),
        ("%plan", ["needs the name of a K.function"]),
        ("f = K.function([], [K.variable(1.) + 1])\n%plan f", ["no call of f was recorded"]),
        ("%check", ["no lesson is open"]),
        ("%lesson x", ["needs a number"]),
        ("%lesson 77", ["there is no lesson 77"]),
        ("%lesson 1", ["[ ] row-means"]),
        ("%lesson 1\n%hint", ["hint 1 of 2"]),
        ("%lesson 1\n%solution", ["0 failed checks so far"]),
        ("%lesson 1\n%solution --sure", ["axis=1"]),
        (
            "%lesson 1\n%skip overflow\n%lesson",
            ["overflow counts as done", 'dtype="float32"', "[x] overflow"],
        ),
        ("%lesson 1\n%lesson off\n%hint", ["no lesson is open"]),
        (
            "%lesson 1\n%skip overflow\n%lesson reset\n%lesson",
            ["Lesson 1 starts over: no exercise counts as done", "[ ] overflow"],
        ),
        ("%lesson reset", ["no lesson is open"]),
        ("%lesson 1\n%again overflow", ["dtype=___"]),
        ("%lesson 1\n%again", ["axis=___"]),
        ("%lesson 1\n%again nope", ["has no exercise 'nope'"]),
        ("_ = 1; ___ = 7\n%lesson 1\n%lesson off\nprint(___)", ["7"]),
        ("%lesson 1\n%check nope", ["has no exercise 'nope'"]),
        ("%lesson 1\n%check", ["row-means: not yet. `means` does not exist yet"]),
    ],
)
def test_magics(shell: Any, code: str, words: list[str]) -> None:
    shown = run(shell, code)
    assert [word for word in words if word not in shown] == [], shown
    assert "Traceback" not in shown


def test_refused_settings_change_nothing(shell: Any) -> None:
    run(shell, "%config_k floatx=float64 epsilon=-1")
    assert (K.floatx(), K.epsilon()) == ("float32", 1e-7)
    assert config.snapshot()["learning_phase"] is None
    run(shell, "%config_k learning_phase=1 floatx=float99")
    assert config.snapshot()["learning_phase"] is None


def test_profile_shows_every_step(shell: Any) -> None:
    run(shell, "x = K.placeholder((None,), name='x')\nf = K.function([x], [K.sum(x * 2)])")
    shown = run(shell, "%%profile\nf([np.ones(5)])\nf([np.ones(6)])")
    assert len(re.findall(r" [mun]?s\n", shown)) >= 2 and "sum" in shown
    assert "nothing was evaluated" in run(shell, "%%profile\n1 + 1")
    shown = run(shell, "%%profile\n1 / 0")
    assert shown.count("Traceback") == 1 and "UsageError: the cell did not finish" in shown


def test_long_operations_have_a_line_of_their_own(shell: Any) -> None:
    code = "x = K.placeholder((None,)); f = K.function([x], [K.tanh(K.exp(K.sin(x) / 2) - 3)])"
    shown = run(shell, f"{code}\nf([np.ones(200_000)])\n%plan f").split("\n")
    at = shown.index("  sin+divide+exp+subtract+tanh")
    assert "+" not in shown[at + 1] and "GB/s" in shown[at + 1]


def test_skip_fills_the_next_cell_where_there_is_one(shell: Any) -> None:
    class Cells:  # a kernel whose front end has cells
        pass

    shell.kernel, given = Cells(), []
    shell.set_next_input = given.append
    shown = run(shell, "%lesson 1\n%skip overflow")
    assert "overflow counts as done; the next cell enters its answer" in shown
    assert 'dtype="float32"' not in shown and 'dtype="float32"' in given[0]


def test_again_fills_the_next_cell_where_there_is_one(shell: Any) -> None:
    class Cells:  # a kernel whose front end has cells
        pass

    shell.kernel, given = Cells(), []
    shell.set_next_input = given.append
    assert "___" not in run(shell, "%lesson 1\n%again overflow")
    assert "dtype=___" in given[0]


def test_trace_keeps_its_columns(shell: Any) -> None:
    run(shell, "x = K.placeholder((2,)); f = K.function([x], [K.log(x / x)]); f([[0.0, 1.0]])")
    markup = shell.run_line_magic("nan", "f")._repr_mimebundle_()["text/html"]
    told = markup[markup.index("<pre>") : markup.index("</pre>")]
    assert "\n\nresult   float32[2]  NaN 1" in told and "\ninput 1  float32[2]" in told


def test_panel_is_shown(shell: Any) -> None:
    with capture_output() as captured:
        result = shell.run_cell("%config_k").result
    assert [list(one.data) for one in captured.outputs] == [["text/plain"]]
    assert "floatx float32" in captured.outputs[0].data["text/plain"]
    bundle = result._repr_mimebundle_()
    assert "floatx" in bundle["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in bundle
    result.close()


@pytest.mark.parametrize(
    "expression, word",
    [
        ("K.variable([1.0], name='w')", "variable"),
        ("K.placeholder((2,))", "until it is fed"),
        ("K.function([], [K.variable(1.0)])", "outputs"),
        ("with K.record() as runs: K.eval(K.variable(1.0) + 1)\nruns[0]", "1 step"),
        (
            "try: K.dot(K.zeros((2, 3)), 'a')\nexcept Exception as error: found = error\nfound",
            "dot",
        ),
    ],
)
def test_displays(shell: Any, expression: str, word: str) -> None:
    bundle, _ = shell.display_formatter.format(shell.run_cell(expression).result)
    assert set(bundle) == {"text/plain", "text/html"} and word in bundle["text/html"]


def test_arrays_on_request_and_as_before(shell: Any) -> None:
    def shown() -> set[str]:
        return set(shell.display_formatter.format(shell.user_ns["np"].ones(3))[0])

    own = lambda value, **_: {"text/plain": "own", "text/latex": "own"}  # noqa: E731
    printers = shell.display_formatter.mimebundle_formatter.type_printers
    for before, kinds in ((None, {"text/plain"}), (own, {"text/plain", "text/latex"})):
        if before is not None:
            printers[type(shell.user_ns["np"].ones(3))] = before
        for end in ("%kb arrays off", "%unload_ext kbench"):
            run(shell, "%load_ext kbench\n%kb arrays on\n%kb arrays on")
            assert shown() == {"text/plain", "text/html"}
            run(shell, end)
            assert shown() == kinds
    printers.clear()


def test_show_displays_at_once(shell: Any) -> None:
    code = "from kbench.notebook import show\nfor n in range(2): show(np.ones(n), K.zeros((2,)))"
    with capture_output() as captured:
        assert shell.run_cell(code).success
    assert [set(one.data) for one in captured.outputs] == [{"text/plain", "text/html"}] * 4


def test_errors_show_the_users_frames_and_the_operands(shell: Any) -> None:
    shell.run_cell("def wrong(a, b):\n    return K.concatenate([a, b], axis=0)", store_history=True)
    shell.run_cell("p = K.placeholder((2, 3), name='p')", store_history=True)
    shown = run(shell, "wrong(p, K.zeros((2, 4)))")
    assert "ShapeError" in shown and "return K.concatenate([a, b], axis=0)" in shown
    assert "kbench/engine" not in shown.replace("\\", "/")
    assert "+-" in shown and "placeholder 'p" in shown
    shell.run_cell("u, v = K.zeros((3, 6)), K.zeros((16, 6))", store_history=True)
    shown = run(shell, "K.dot(u, v)")
    assert "+-" in shown and shown.count("try K.dot(u, K.transpose(v)) -> (3, 16)") == 1
    assert shown.count("float32[16, 6]") == 2  # in the reason, and in the drawing


def test_unloading_restores_everything(shell: Any) -> None:
    fresh = {kind: dict(known) for kind, known in shell.magics_manager.magics.items()}
    shell.run_line_magic("unload_ext", "kbench")
    before = {kind: dict(known) for kind, known in shell.magics_manager.magics.items()}
    handlers = shell.custom_exceptions, shell.CustomTB
    printers = dict(shell.display_formatter.mimebundle_formatter.deferred_printers)
    assert "kb" not in before["line"] and "profile" not in before["cell"]
    assert shell.custom_exceptions == ()
    for _ in range(2):
        shell.run_line_magic("load_ext", "kbench")
        shell.run_line_magic("reload_ext", "kbench")
        assert set(shell.magics_manager.magics["line"]) == set(fresh["line"])
        shell.run_cell("K.function([], [K.variable(1.0)])")
        shell.run_line_magic("unload_ext", "kbench")
        assert shell.magics_manager.magics == before
        assert (shell.custom_exceptions, shell.CustomTB) == handlers
        assert shell.display_formatter.mimebundle_formatter.deferred_printers == printers
        assert not shell.display_formatter.mimebundle_formatter.type_printers
    assert str(errors.Place("/a/b.py", 3)) == "b.py:3"


def test_a_magic_of_the_same_name_comes_back(shell: Any) -> None:
    shell.run_line_magic("unload_ext", "kbench")
    shell.run_cell("from IPython.core.magic import register_line_magic\n"
                   "@register_line_magic\ndef kb(line): return 'mine'")  # fmt: skip
    shell.run_line_magic("load_ext", "kbench")
    assert "epsilon" in run(shell, "%kb")
    shell.run_line_magic("unload_ext", "kbench")
    assert shell.run_line_magic("kb", "") == "mine"


def test_the_terminals_prompt_has_every_magic_from_the_start(shell: Any) -> None:
    found = {kind: set(known) for kind, known in shell.magics_manager.magics.items()}
    shell.run_line_magic("unload_ext", "kbench")
    without = {kind: set(known) for kind, known in shell.magics_manager.magics.items()}
    assert {kind: found[kind] - without[kind] for kind in found} == {
        kind: set(known) for kind, known in magics.MAGICS.items()
    }
    magics.install(shell)
    shell.run_cell("n = 2.0")
    assert "n * 3  6" in run(shell, "%watch n * 3")
    shown = run(shell, "%%ab epsilon=1e-2\nK.log(K.constant(n) + K.epsilon())")
    assert "epsilon=1e-07" in shown and "epsilon=0.01" in shown  # beside what is set
    assert "epsilon is 1e-07 already" in run(shell, "%%ab epsilon=1e-7\nK.log(n)")
    shown = run(shell, "%%ab epsilon=1e-7,1e-2\nK.log(K.constant(n) + K.epsilon())")
    assert "epsilon=0.01" in shown and "max diff" in shown


def test_plan_of_a_recorded_function(shell: Any) -> None:
    run(shell, "x = K.placeholder((None,))\nf = K.function([x], [K.sum(x * 2)], name='double')")
    run(shell, "g = K.function([x], [x + 1])")
    run(shell, "%%profile\nf([np.ones(5)])\ng([np.ones(5)])")
    shown = run(shell, "%plan f")
    assert "double  " in shown and "sum" in shown and "GB/s" in shown
    assert "last run" in shell.display_formatter.format(shell.user_ns["f"])[0]["text/html"]


@pytest.mark.parametrize("code", ["x = ___", "x = K.___(1)", "def f():\n    return [___]"])
def test_a_cell_with_blanks_is_not_run_in_a_lesson(shell: Any, code: str) -> None:
    run(shell, "1\n2\n'third'")
    run(shell, "x = 0\n%lesson 1\n%lesson 2")
    shown = run(shell, code)
    assert "still has a ___ to fill in" in shown and shell.user_ns["x"] == 0
    assert "Traceback" not in shown
    assert len(shell.ast_transformers) == 1
    shell.run_line_magic("unload_ext", "kbench")
    assert shell.ast_transformers == []
