"""`%load_ext kbench` in a shell: magics, displays, error reports, and that unloading restores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from kbench import backend as K
from kbench.engine import config, errors


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell of its own, with the extension loaded."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path))
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
        ("w = K.variable([1., 2.])\n%vars", ["w  variable", "float32[2]"]),
        ("w = K.variable([1.]); v = 3\n%vars w*", ["w  variable"]),
        ("%vars nothing*", ["no names yet"]),
        ("%config_k floatx=float64 epsilon=1e-5", ["float64", "1e-05"]),
        ("%config_k epsilon=abc", ["nothing was changed: epsilon must be a number"]),
        ("%config_k nonsense=1", ["unknown setting 'nonsense'"]),
        ("%config_k floatx", ["wants name=value"]),
        ("%plan w", ["wants the name of a K.function"]),
        ("%plan", ["wants the name of a K.function"]),
        ("f = K.function([], [K.variable(1.) + 1])\n%plan f", ["no call of f was recorded"]),
        ("%check", ["no lesson is open"]),
        ("%lesson x", ["wants a number"]),
        ("%lesson 77", ["there is no lesson 77"]),
        ("%lesson 1", ["[ ] row-means"]),
        ("%lesson 1\n%hint", ["hint 1 of 2"]),
        ("%lesson 1\n%solution", ["0 failed checks so far"]),
        ("%lesson 1\n%solution --sure", ["axis=1"]),
        ("%lesson 1\n%skip overflow\n%lesson", ['dtype="float32"', "[x] overflow"]),
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
    assert shown.count(" ms\n") >= 2 and "sum" in shown
    assert "nothing was evaluated" in run(shell, "%%profile\n1 + 1")
    assert "ZeroDivisionError" in run(shell, "%%profile\n1 / 0")


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
    ],
)
def test_displays(shell: Any, expression: str, word: str) -> None:
    bundle, _ = shell.display_formatter.format(shell.run_cell(expression).result)
    assert set(bundle) == {"text/plain", "text/html"} and word in bundle["text/html"]


def test_errors_show_the_users_frames_and_the_operands(shell: Any) -> None:
    shell.run_cell("def wrong(a, b):\n    return K.concatenate([a, b], axis=0)", store_history=True)
    shell.run_cell("p = K.placeholder((2, 3), name='p')", store_history=True)
    shown = run(shell, "wrong(p, K.zeros((2, 4)))")
    assert "ShapeError" in shown and "return K.concatenate([a, b], axis=0)" in shown
    assert "kbench/engine" not in shown.replace("\\", "/")
    assert "+-" in shown and "placeholder 'p" in shown


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
    assert len(shell.ast_transformers) == 1
    shell.run_line_magic("unload_ext", "kbench")
    assert shell.ast_transformers == []
