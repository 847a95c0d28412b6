"""`explore(fn)`: every function of the API opens, and every control gives a result or words."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from ipywidgets import fixed
from waiting import wait_for

import kbench
import kbench.notebook
from kbench import backend as K
from kbench.api import reference
from kbench.engine.core.errors import ArgumentError
from kbench.engine.graph import variables
from kbench.engine.runtime import config
from kbench.notebook.exploration import explore_run
from kbench.notebook.exploration.explore_controls import Choice, Control, Fixed, Flag, Number, Text
from kbench.notebook.exploration.explore_functions import functions
from kbench.notebook.exploration.explore_panel import explore
from kbench.notebook.exploration.explore_run import Outcome, Runner
from kbench.notebook.exploration.explore_subject import subject
from kbench.notebook.exploration.explore_widgets import widget_of
from kbench.notebook.ipython.progress_bar import progress
from kbench.notebook.markup.markup import MAX_OUTPUT_BYTES

# Called with what its controls begin with, each of these changes something, which is refused.
REFUSED = {
    "get_uid", "reset_uids", "clear_session", "batch_set_value", "set_value", "set_exact",
    "set_learning_phase", "set_num_threads", "manual_variable_initialization",
}  # fmt: skip
TRACE = ("Traceback", 'File "', "explore_", "SystemError", "AssertionError", "_evaluate")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # functions of Keras 1


def ends(control: Control) -> list[Any]:
    """The first and last of what a control can be set to."""
    if isinstance(control, Choice):
        return [control.options[0][1], control.options[-1][1]]
    if isinstance(control, Number):
        found = [control.low, control.high]
        return [10.0**one for one in found] if control.log else found
    return [False, True] if isinstance(control, Flag) else ["", "word <b>&"]


def told(outcome: Outcome, line: str) -> None:
    """A result, or the reason why there is none in words."""
    assert outcome.line == line
    ast.parse(line)
    text = "\n".join(outcome.words)
    assert bool(outcome.results) != bool(outcome.words), line
    assert [one for one in TRACE if one in text] == [], text
    assert "watch/" not in text and "explore/" not in text


@pytest.mark.parametrize("family", list(functions()))
def test_every_function_opens_and_every_control_moves(family: str) -> None:
    runner = Runner()
    for name in functions()[family]:
        made = subject(name, (), {})
        first = runner.run(made, {})
        told(first, made.line({}))
        assert bool(first.words) == (name in REFUSED), first
        for argument, control in made.controls.items():
            for value in [] if isinstance(control, Fixed) else ends(control):
                line = made.line({argument: value})
                told(runner.run(made, {argument: value}), line)


@pytest.mark.slow
@pytest.mark.parametrize("family", list(functions()))
def test_every_choice_and_all_pairs_of_ends(family: str) -> None:
    runner = Runner()
    for name in functions()[family]:
        made = subject(name, (), {})
        ways: dict[str, list[Any]] = {}
        for argument, control in made.controls.items():
            if isinstance(control, Choice):
                ways[argument] = [value for _, value in control.options]
            elif not isinstance(control, Fixed):
                ways[argument] = ends(control)
        sets: list[dict[str, Any]] = [{a: v} for a, values in ways.items() for v in values]
        sets += [
            {a: v, b: w} for a in ways for b in ways if a < b
            for v in (ways[a][0], ways[a][-1]) for w in (ways[b][0], ways[b][-1])
        ]  # fmt: skip
        for values in sets:
            told(runner.run(made, values), made.line(values))


# ------------------------------------------------------------------ the widget


@pytest.fixture
def made() -> Iterator[list[Any]]:
    """Explorations that are closed behind the test."""
    kept: list[Any] = []
    yield kept
    for one in kept:
        one.close()


def moved(one: Any, **values: Any) -> str:
    """Move controls as a user does, and wait until the line has been run; what is said then."""
    for name, value in values.items():
        one.controls[name].value = value
    wait_for(lambda: one.now is not None and one.now.line == one.line)
    return str(one._message.value)


def test_a_moved_control_changes_the_result_and_the_line(made: list[Any]) -> None:
    made.append(one := explore("conv2d"))
    assert one.line == "K.conv2d(x, kernel)"
    one.mode.value = "numbers"
    assert "result[0, :, :, 0]" in one._body.value
    assert moved(one, padding=1, strides=3) == ""
    assert one.line == "K.conv2d(x, kernel, strides=(2, 2), padding='same')"
    assert one.good.results[0].value.shape == (1, 8, 8, 4)
    assert "K.conv2d(x, kernel, strides=(2, 2)" in one._code.value


def test_it_is_a_name_of_the_package() -> None:
    assert kbench.explore is explore and kbench.notebook.explore is explore
    assert "explore" not in kbench.__all__ and kbench.notebook.progress is progress


def test_steps_of_a_slider_are_the_numbers_that_are_meant(made: list[Any]) -> None:
    made.append(one := explore("relu"))
    moved(one, alpha=0.05000000000000004)
    assert one.controls["alpha"].value == 0.05 and one.line == "K.relu(x, alpha=0.05)"


def test_what_cannot_be_is_told_in_words_and_the_last_result_stays(made: list[Any]) -> None:
    made.append(one := explore("conv2d"))
    said = moved(one, data_format=2)
    words = ["16 channels", "axis 1 does not fit", "try data_format=", 'role="status"']
    assert [word for word in words if word not in said] == []
    assert "the last good result, of K.conv2d(x, kernel)" in one._body.value
    assert "grayscale" in one._body.value and one.good is not one.now
    assert moved(one, data_format=1) == ""
    assert "last good result" not in one._body.value and one.good is one.now


def test_the_shown_lines_do_the_same(made: list[Any]) -> None:
    made.append(one := explore("softmax"))
    moved(one, axis=2)
    space: dict[str, Any] = {}
    text = one.subject.preamble() + f"\nresult = {one.line}"
    exec(text, space)
    assert np.array_equal(K.eval(space["result"]), one.good.results[0].value)
    assert one.line == "K.softmax(x, axis=0)"


def scaled(x: Any, factor: float = 2.0, axis: int = -1, name: str = "<i>&") -> Any:
    """A function of the user's."""
    if factor > 5:
        raise ZeroDivisionError("too <b>large</b>")
    return K.sum(x * factor, axis=axis)


@pytest.mark.parametrize(
    "wanted, values, ranges, line, controls",
    [
        ("relu", (), {}, "K.relu(x)", {"alpha": Number, "max_value": Choice, "threshold": Number}),
        ("K.sum", (), {}, "K.sum(x)", {"axis": Choice, "keepdims": Flag}),
        (K.elu, (), {"alpha": (0.0, 0.5)}, "K.elu(x, alpha=0.5)", {"alpha": Number}),
        (K.elu, (), {"alpha": 0.25}, "K.elu(x, alpha=0.25)", {"alpha": Fixed}),
        (K.elu, (), {"alpha": [0.5, 2.0]}, "K.elu(x, alpha=0.5)", {"alpha": Choice}),
        (K.elu, (), {"alpha": {"a <b>": 3.0}}, "K.elu(x, alpha=3.0)", {"alpha": Choice}),
        (K.elu, (), {"alpha": [("low", 0.0)]}, "K.elu(x, alpha=0.0)", {"alpha": Choice}),
        (K.elu, (), {"alpha": (1, 5, 2)}, "K.elu(x)", {"alpha": Number}),
        ("sum", (), {"axis": fixed((0, 1))}, "K.sum(x, axis=(0, 1))", {"axis": Fixed}),
        ("pool2d", (), {"strides": (2, 2)}, "K.pool2d(x, (2, 2), strides=(2, 2))", {}),
        ("relu", ([-1, 2],), {}, "K.relu(x)", {}),
        ("relu", (-1.5,), {}, "K.relu(-1.5)", {}),
        ("dot", (np.ones((2, 7)),), {}, "K.dot(x, y)", {}),
        ("conv2d", (np.ones((1, 8, 8, 5)),), {}, "K.conv2d(x, kernel)", {}),
        ("concatenate", ([K.ones((2,)), K.ones((3,))],), {},
         "K.concatenate([tensors0, tensors1])", {"axis": Choice}),
        ("slice", (np.ones((4, 4, 4)),), {}, "K.slice(x, (0, 0, 0), (2, 2, 2))", {}),
        (scaled, (), {}, "scaled(x)", {"factor": Number, "axis": Choice, "name": Text}),
        (scaled, ([[1, 2]],), {"factor": (0.0, 9.0, 0.5)}, "scaled(x)", {"factor": Number}),
        (lambda *parts: parts[0] + parts[1], (), {}, "fn(parts0, parts1)", {}),
        (lambda *, x, n=3: x * n, (), {}, "fn(x=x)", {"n": Number}),
        (lambda: 3, (), {}, "fn()", {}),
        (np.tanh, (), {}, "tanh(x)", {}),
        (lambda x, k=1: np.roll(x, k), (), {}, "fn(x)", {"k": Number}),
        ("concatenate", ([np.ones((2, 1)), np.ones((2, 5))],), {}, "K.concatenate(tensors)",
         {"axis": Choice}),
        ("categorical_crossentropy", (np.eye(3),), {},
         "K.categorical_crossentropy(target, output)", {}),
    ],
)  # fmt: skip
def test_inputs_and_ranges(
    wanted: Any, values: tuple[Any, ...], ranges: dict[str, Any], line: str,
    controls: dict[str, type], made: list[Any],
) -> None:  # fmt: skip
    made.append(one := explore(wanted, *values, **ranges))
    assert one.line == line
    assert one.now.words == () and len(one.now.results) == 1
    kinds = {name: type(control) for name, control in one.subject.controls.items()}
    assert {name: kinds.get(name) for name in controls} == controls
    assert controls == {} or set(kinds) >= set(controls)
    for control in one.controls.values():
        assert control.description and control.tooltip


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: explore("con2d"), ["no function 'con2d'", "conv2d"]),
        (lambda: explore("Variable"), ["no function 'Variable'"]),
        (lambda: explore(3), ["fn must be a function", "int"]),
        (lambda: explore(K.Variable), ["the class Variable"]),
        (lambda: explore("relu", 1, 2, 3, 4, 5), ["takes at most 4 values, got 5"]),
        (lambda: explore("relu", beta=2), ["no argument 'beta'", "alpha"]),
        (lambda: explore("relu", 1.0, x=2.0), ["x is given twice"]),
        (lambda: explore("elu", alpha=(3, 1)), ["alpha goes from 3 to 1"]),
        (lambda: explore("elu", alpha=(0, 1, 0)), ["step of alpha must be positive"]),
        (lambda: explore("elu", alpha=(0.0, float("nan"))), ["alpha goes from 0.0 to float"]),
        (lambda: explore("elu", alpha=[]), ["alpha needs at least one choice"]),
    ],
)
def test_refused(call: Any, words: list[str]) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)


def test_axes_are_those_of_the_first_of_several_operands(made: list[Any]) -> None:
    made.append(one := explore("concatenate", [np.ones((2, 1)), np.ones((2, 5))]))
    assert [label for label, _ in one.subject.controls["axis"].options] == ["-2", "-1", "0", "1"]
    made.append(two := explore(lambda x, y: np.sin(x) + y.nothing))
    assert "AttributeError" in two.now.words[0] or "TypeError" in two.now.words[0]
    assert "K.constant" in two.subject.preamble()


def test_errors_of_the_users_own_are_words(made: list[Any]) -> None:
    made.append(one := explore(scaled, factor=(0.0, 9.0)))
    said = moved(one, factor=9.0)
    assert "ZeroDivisionError: too &lt;b&gt;large&lt;/b&gt;" in said and "Traceback" not in said
    moved(one, factor=1.0)
    assert "array" in one._body.value


def test_nothing_of_the_users_changes(made: list[Any]) -> None:
    w = K.variable([1.0, 2.0])
    before = config.snapshot(), np.random.get_state()[1].tolist(), w.version

    def changing(x: Any, step: float = 1.0) -> Any:
        np.random.normal()
        return K.get_value(K.update_add(w, x * step) if False else w) * np.random.normal()

    made.append(one := explore(changing, [1.0, 2.0]))
    made.append(explore("set_epsilon"))
    made.append(explore("clear_session"))
    made.append(other := explore(lambda n=1: K.set_value(w, [n, n])))
    assert "would store to variable" in other.now.words[0]
    moved(one, step=3.0)
    moved(made[1], e=1e-3)
    assert "would set epsilon" in made[1].now.words[0]
    assert (config.snapshot(), np.random.get_state()[1].tolist(), w.version) == before
    assert K.placeholder((2,), name="explored").name == "explored:0"


def test_opening_calls_nothing_but_what_is_explored() -> None:
    """In a process of its own, since what is known of the API is kept."""
    code = (
        "import kbench\n"
        "from kbench.engine.runtime import config, profile\n"
        "told = []\n"
        "profile.run_finished.subscribe(told.append)\n"
        "config.changed.subscribe(told.append)\n"
        "made = kbench.explore('softmax')\n"
        "print(told, made.good is not None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"
    assert reference.names() == {
        family: [one.name for one in members] for family, members in reference.families()
    }


def test_it_follows_variables_and_settings_while_it_is_shown(made: list[Any]) -> None:
    w = K.variable([1.0, 2.0])
    made.append(one := explore("sum", w))
    K.set_value(w, [3.0, 4.0])
    assert float(one.good.results[0].value) == 3.0
    one._repr_mimebundle_()
    K.set_value(w, [5.0, 6.0])
    wait_for(lambda: float(one.good.results[0].value) == 11.0)
    made.append(other := explore("ones"))
    other._repr_mimebundle_()
    config.assign("floatx", "float64")
    wait_for(lambda: "float64" in other._body.value)
    one.close()
    other.close()
    assert not variables.changed and not config.changed


def test_another_function_is_chosen(made: list[Any]) -> None:
    made.append(one := explore())
    families, picked = one._choosers
    assert families.value == "Convolution" and picked.value == "conv2d"
    families.value = "Reductions"
    wait_for(lambda: one.now is not None and one.now.line.startswith(f"K.{picked.value}("))
    picked.value = "argmax"
    assert one.line == "K.argmax(x)" and set(one.controls) == {"axis"}


def test_any_of_several_results_is_looked_into(made: list[Any]) -> None:
    made.append(one := explore("rnn"))
    assert one.output.options == ("result[0]", "result[1]", "result[2][0]")
    assert "result[0][:, :]" in one._body.value
    one.output.value = "result[1]"
    assert "result[1][0, :, :]" in one._body.value and one.index.value == "[0, :, :]"
    moved(one, go_backwards=True)
    assert "result[1][0, :, :]" in one._body.value and one.output.layout.display == ""
    one.choose("relu")
    assert one.output.options == ("result",) and one.output.layout.display == "none"


@pytest.mark.parametrize("text, said", [("0, :, :, 0", ""), ("9, :, :, 0", "out of range")])
def test_a_slice_of_the_result(text: str, said: str, made: list[Any]) -> None:
    made.append(one := explore("conv2d"))
    one.index.value = text
    assert said in one._message.value
    assert one.index.value == "[0, :, :, 0]"


def test_heat_map_and_picture(made: list[Any]) -> None:
    made.append(one := explore("conv2d"))
    one.mode.value = "heat map"
    assert "data:image/png" in one._body.value
    bundle = one._repr_mimebundle_()
    assert (
        len(bundle["text/html"].encode()) <= MAX_OUTPUT_BYTES
        and "<script" not in bundle["text/html"]
    )
    assert "K.conv2d(x, kernel)" in bundle["text/html"]
    assert bundle["text/plain"].startswith("K.conv2d(x, kernel)\n  x ")
    assert "padding        one of 'valid', 'same'" in repr(one)


@pytest.mark.parametrize("name", ["rnn", "ctc_decode", "batch_normalization", "gradients", "tile"])
def test_the_picture_is_small(name: str, made: list[Any]) -> None:
    made.append(one := explore(name))
    assert len(one._static_html().encode()) <= MAX_OUTPUT_BYTES
    assert one._static_html().count("<style>") == 1
    moved_bytes = sum(len(part.value) for part in (one._code, one._message, one._body))
    assert moved_bytes < 40_000


def test_large_results_and_endless_calls_are_stopped(
    made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explore_run, "MAX_ELEMENTS", 100)
    made.append(one := explore("zeros", shape=[(2,), (20, 20)]))
    assert "float32[20, 20] has 400 elements; at most 100 are explored" in moved(one, shape=1)

    monkeypatch.setattr(explore_run, "TIMEOUT_SECONDS", 0.2)

    def endless(n: int = 1) -> None:
        while n:
            pass

    made.append(other := explore(endless))
    assert other.now.words == ("stopped after 0.2 s; try smaller inputs",)
    moved(other, n=0)
    assert other.now.words == ()


def test_of_a_function_of_the_engine(made: list[Any]) -> None:
    x = K.placeholder((None, 2), name="x")
    made.append(one := explore(K.function([x], [x * 2], name="double")))
    assert one.now.words == () and one.now.results[0].value.shape == (3, 2)


@pytest.mark.parametrize(
    "value, step", [(1e-7, 1e-8), (2e-7, 1e-7), (1.0, 0.1), (0.3, 0.1), (9.99, 1.0), (0.0, 1e-10)]
)
def test_arrow_keys_change_the_first_digit_of_a_logarithmic_number(
    value: float, step: float
) -> None:
    field, _ = widget_of("epsilon", Number(-9.0, 1.0, 0.5, -3.0, log=True), "about")
    field.value = value
    assert field.value == max(value, 1e-9) and field.step == pytest.approx(step, rel=1e-9)
