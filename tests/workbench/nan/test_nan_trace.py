"""What made the first NaN or infinity: the operation, its operands, the user's line."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import kbench as K
from kbench.engine.runtime import profile, read_only
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.inspector.recorder import Recorder
from kbench.workbench.nan import nan_trace, nan_verbs, nan_words
from kbench.workbench.nan.nan_verbs import target_of, traced
from kbench.workbench.protocol.messages import ProtocolError

NAN, INF = float("nan"), float("inf")
SMALL = np.array([[1.0, 2.0], [0.0, 4.0]], "float32")


@pytest.fixture
def recorder() -> Any:
    one = Recorder()
    one.start()
    yield one
    one.stop()


def found(value: Any, recorder: Recorder, **names: Any) -> dict[str, Any]:
    """A trace, as it is made beside the program."""
    with read_only.evaluation():
        data = traced(value, recorder, names)
    return {**data, "name": "y"}


def chain(build: Any, array: Any = SMALL) -> tuple[Any, Any]:
    """A placeholder that was fed this array, and what is built of it, evaluated."""
    x = K.placeholder(np.shape(array), name="x")
    y = build(x)
    K.function([x], [y])([array])
    return x, y


ORIGINS: list[tuple[str, Any, str, list[int], str, str]] = [
    # what, expression, operation, first index, the value there, why
    ("log of 0", lambda x: K.mean(K.log(x)), "log", [1, 0], "-Inf", "log of 0 is -Inf"),
    (
        "log of a negative",
        lambda x: K.sum(K.log(x - 3.0) * 2.0),
        "log",
        [0, 0],
        "NaN",
        "log of a negative number is NaN",
    ),
    (
        "root",
        lambda x: K.relu(K.exp(K.square(x) * 0.1)) / K.sum(x - x),
        "divide",
        [0, 0],
        "Inf",
        "a number divided by 0 is infinite",
    ),
    ("overflow", lambda x: K.sum(K.exp(x * 100.0)), "exp", [0, 0], "Inf", "float32 can hold"),
    ("0 / 0", lambda x: x / x, "divide", [1, 0], "NaN", "0 / 0 is NaN"),
    ("product", lambda x: K.dot(x * 5e37, x * 10.0), "dot", [0, 0], "Inf", "float32 can hold"),
]


@pytest.mark.parametrize(
    "build,op,index,value,why", [row[1:] for row in ORIGINS], ids=[row[0] for row in ORIGINS]
)
def test_the_operation_its_place_and_why(
    recorder: Recorder, build: Any, op: str, index: list[int], value: str, why: str
) -> None:
    x, y = chain(build)
    data = found(y, recorder, x=x)
    assert data["state"] == "found" and data["op"] == op, nan_words.lines(data)
    assert data["index"] == index and data["value"] == value
    assert why in data["why"]
    assert data["place"].startswith("test_nan_trace.py:")
    assert data["fed"] == ["x float32[2, 2]"]


def test_the_inputs_are_told_with_range_and_the_value_at_the_index(recorder: Recorder) -> None:
    x, y = chain(lambda x: K.mean(x / K.constant([[2.0, 0.0]])))
    data = found(y, recorder)
    left, right = data["operands"]
    assert (left["spec"], left["index"], left["value"]) == ("float32[2, 2]", [0, 1], "2")
    assert (left["min"], left["max"], left["kind"]) == (0.0, 4.0, "placeholder")
    assert (right["spec"], right["index"], right["value"]) == ("float32[1, 2]", [0, 1], "0")
    text = "\n".join(nan_words.lines(data))
    assert "K.mean(x / K.constant([[2.0, 0.0]]))" in text
    assert "from there" in text and "mean" in text


def test_a_function_is_run_again_without_its_updates(recorder: Recorder) -> None:
    w = K.variable([0.0, 1.0], name="w")
    x = K.placeholder((2,), name="x")
    loss = K.sum(x)
    step = K.function([x], [loss], [(w, w + K.log(x))])
    step([[0.0, 1.0]])
    assert K.get_value(w)[0] == -INF
    K.set_value(w, [0.0, 1.0])
    version = w.version
    data = found(step, recorder)
    assert (data["op"], data["reaches"]) == ("log", "update")
    assert w.version == version and K.get_value(w).tolist() == [0.0, 1.0]
    assert "new values of variables are not" in "\n".join(nan_words.lines(data))


def test_a_variable_that_is_bad_already_is_named(recorder: Recorder) -> None:
    w = K.variable([1.0, NAN], name="poisoned")
    step = K.function([], [K.sum(w * 2.0)], [(w, w * 1.0)])
    step([])
    data = found(step, recorder)
    assert (data["source"], data["name_of"], data["index"]) == ("variable", "poisoned", [1])
    assert nan_words.verdict(data) == "variable poisoned already contains NaN"
    assert any("re-initialise the variables, run once" in one for one in data["notes"])
    assert any("too large a learning rate" in one for one in data["notes"])


def test_what_zeros_in_place_of_bad_variables_show(recorder: Recorder) -> None:
    w = K.variable([1.0, 2.0], name="lost")
    step = K.function([], [K.sum(K.log(w - w))], [(w, w - K.log(w - w))])
    K.set_value(w, [-INF, INF])
    step([])
    assert not np.isfinite(K.get_value(w)).any()
    data = found(step, recorder)
    text = "\n".join(nan_words.lines(data))
    assert nan_words.verdict(data) == "variable lost already contains NaN"
    assert "with 0 for NaN and Inf in the variables:\n  infinities made by log" in text
    assert np.isnan(K.get_value(w)).all()
    assert not any("too large a learning rate" in one for one in data["notes"])


def test_what_was_fed_is_named(recorder: Recorder) -> None:
    x, y = chain(lambda x: K.sum(x), np.array([1.0, NAN], "float32"))
    data = found(y, recorder)
    assert data["name_of"] == x.name.partition(":")[0]
    assert nan_words.verdict(data) == f"the value fed to {data['name_of']} contains NaN"


def test_what_does_not_reach_the_result_is_told_as_such(recorder: Recorder) -> None:
    x, y = chain(lambda x: K.switch(K.greater(x, 0.0), K.log(x), K.zeros_like(x)))
    data = found(y, recorder)
    assert (data["op"], data["reaches"]) == ("log", "")
    assert "does not reach a result" in "\n".join(nan_words.lines(data))


def test_a_branch_that_is_not_taken_is_not_run(recorder: Recorder) -> None:
    x = K.placeholder((2,), name="x")
    y = K.switch(K.sum(x) > 0.0, lambda: K.sum(x), lambda: K.sum(K.log(x - 100.0)))
    K.function([x], [y])([[1.0, 2.0]])
    assert found(y, recorder)["state"] == "clean"


def test_finite_values_are_said_to_be(recorder: Recorder) -> None:
    x, y = chain(lambda x: K.sum(K.exp(x)))
    data = found(y, recorder)
    assert data["state"] == "clean" and "no NaN and no infinity" in nan_words.verdict(data)


def test_random_nodes_draw_again_what_they_drew(recorder: Recorder) -> None:
    x = K.placeholder((200,), name="x")
    y = K.log(K.dropout(x, 0.2, seed=3))
    f = K.function([x], [y])
    for _ in range(3):
        (value,) = f([np.ones(200, "float32")])
    first = int(np.argmax(~np.isfinite(value)))
    for _ in range(2):  # tracing uses no random number up
        data = found(f, recorder)
        assert (data["op"], data["index"]) == ("log", [first])
        assert data["inf"] == int(np.isinf(value).sum())
        assert any("drew again" in one for one in data["notes"])


def test_the_step_of_a_loop_and_the_operation_in_it(recorder: Recorder) -> None:
    """The states are 2, 1, 0, -1: the logarithm of the fourth step is the first bad one."""
    x = K.placeholder((1, 6, 1), name="x")

    def step(entry: Any, states: Any) -> Any:
        less = states[0] - entry
        return K.log(less + 1.0), [less]

    y = K.rnn(step, x, [K.ones((1, 1)) * 3.0])[1]
    total = K.sum(y)
    K.function([x], [total])([np.ones((1, 6, 1), "float32")])
    data = found(total, recorder)
    assert (data["op"], data["loop"], data["step"]) == ("log", "rnn", 4)
    assert data["why"] == "log of 0 is -Inf" and data["line"].startswith("return K.log(less")
    assert data["operands"][0]["value"] == "0"
    assert nan_words.verdict(data).startswith("an infinity made by log in step 4 of rnn at ")


def test_what_was_drawn_in_a_loop_may_differ(recorder: Recorder) -> None:
    x = K.placeholder((5, 3), name="x")
    y = K.map_fn(lambda row: K.log(row - K.random_uniform((3,), seed=1) * 4.0), x)
    f = K.function([x], [y])
    f([np.ones((5, 3), "float32")])
    data = found(f, recorder)
    assert data["state"] == "found"
    assert any("may differ" in one for one in data["notes"])


def test_the_gradient_is_traced_too(recorder: Recorder) -> None:
    w = K.variable([0.0, 4.0], name="w")
    f = K.function([], K.gradients(K.sum(K.sqrt(w)), [w]))
    f([])
    data = found(f, recorder)
    assert data["state"] == "found" and data["index"] == [0] and data["value"] == "Inf"


def test_memory_is_that_of_the_values_that_live(recorder: Recorder) -> None:
    x = K.placeholder((1 << 18,), name="x")
    y = x
    for _ in range(60):
        y = K.abs(y) + 1.0
    f = K.function([x], [K.log(y * 0.0)])
    f([np.ones(1 << 18, "float32")])
    live: list[int] = []
    before = nan_trace._Sweep._value

    def counting(self: Any, item: Any) -> Any:
        value = before(self, item)
        live.append(sum(one is not None for one in self._values))
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nan_trace._Sweep, "_value", counting)
        assert found(f, recorder)["state"] == "found"
    assert len(live) > 100 and max(live) <= 6


WRONG = [
    (3, "a tensor, a K.function or a Keras model is needed"),
    (np.ones(2), "a tensor, a K.function or a Keras model is needed"),
]


@pytest.mark.parametrize("value,words", WRONG, ids=["int", "array"])
def test_what_cannot_be_traced(recorder: Recorder, value: Any, words: str) -> None:
    with pytest.raises(ProtocolError) as error:
        found(value, recorder)
    assert words in error.value.reason


def test_what_was_never_fed(recorder: Recorder) -> None:
    x = K.placeholder((2,), name="x")
    with pytest.raises((ProtocolError, K.FeedError), match="x"):
        found(K.log(x), recorder)
    with pytest.raises(ProtocolError) as error:
        found(K.function([x], [x * 2.0]), recorder)
    assert "kbench has not seen" in error.value.reason


@pytest.mark.parametrize(
    "array,wanted",
    [
        (np.array([1.0, NAN, INF]), (1, 1, (1,))),
        (np.array([[1.0, -INF], [NAN, NAN]]).T, (2, 1, (0, 1))),
        (np.array(NAN), (1, 0, ())),
        (np.ones((3, 0)), None),
        (np.array([1, 2]), None),
        (np.lib.stride_tricks.sliding_window_view(np.array([0.0] * 5 + [INF]), 3), (0, 1, (3, 2))),
    ],
    ids=["flat", "transposed", "scalar", "empty", "integers", "windows"],
)
def test_bad_elements_are_counted_and_placed(array: Any, wanted: Any) -> None:
    bad = nan_trace.bad_elements(array)
    assert (bad and (bad.nan, bad.inf, bad.index)) == wanted


@pytest.mark.parametrize(
    "code,wanted",
    [
        ("K.eval(y)", "y"),
        ("y.eval()", "y"),
        ("f([a])", "f"),
        ("f([a])[0][1]", "f"),
        ("y", "y"),
        ("a = 1\nK.eval(K.log(a))", "K.log(a)"),
        ("value = K.eval(y)", "y"),
        ("model.fit(x, t)", "model"),
        ("model.train_on_batch(x, t)", "model"),
        ("1 + 1", ""),
        ("for i in x:\n    pass", ""),
        ("", ""),
        ("def", ""),
        ("print(1, 2)", ""),
    ],
)
def test_what_a_cell_shows(code: str, wanted: str) -> None:
    assert target_of(code) == wanted


# ------------------------------------------------------------------ the verb


def served(names: dict[str, Any]) -> tuple[Inspector, list[dict[str, Any]], threading.Event]:
    told: list[dict[str, Any]] = []
    came = threading.Event()

    def publish(message: dict[str, Any]) -> None:
        if message.get("push") == "nan":
            told.append(message["data"])
            came.set()

    inspector = Inspector(names, publish=publish)
    inspector.handle({"id": 0, "verb": "hello", "record": True})
    return inspector, told, came


def test_the_verb_answers_by_name_by_code_and_by_run() -> None:
    x = K.placeholder((2,), name="x")
    f = K.function([x], [K.log(x)], name="mine")
    names = {"K": K, "x": x, "f": f, "y": K.log(x)}
    inspector, told, came = served(names)
    try:
        names["r"] = f([[0.0, 1.0]])
        for asked in (
            {"name": "f"},
            {"name": "y"},
            {"code": "f([x])"},
            {"code": "for _ in range(3):\n    print(f([x]))"},
            {"code": "print(f([x]))"},
            {"code": "r"},
            {"code": "r[0]"},
            {"function": "mine"},
            {"name": "K.log(x) + 1"},
        ):
            came.clear()
            reply = inspector.handle({"id": 1, "verb": "nan", **asked})
            assert reply["ok"] and reply["data"]["state"] == "tracing", reply
            assert came.wait(60)
            assert "an infinity made by log" in told[-1]["verdict"], (asked, told[-1])
            assert told[-1]["job"] == reply["data"]["job"]
        none = inspector.handle({"id": 1, "verb": "nan", "code": "1 + 1"})
        assert none["data"]["state"] == "none"
        came.clear()
        inspector.handle({"id": 1, "verb": "nan", "code": "r", "quiet": True})
        assert came.wait(60) and told[-1]["state"] == "error"
        inspector.cell_started()
        assert inspector.handle({"id": 1, "verb": "nan", "name": "f"})["data"]["state"] == "held"
        inspector.cell_ended()
    finally:
        inspector.close()


def test_the_verb_refuses_what_would_change_something() -> None:
    inspector, told, came = served({"items": [1]})
    try:
        inspector.handle({"id": 1, "verb": "nan", "name": "items.append(2)"})
        assert came.wait(60)
        assert "append() may change something" in told[0]["verdict"]
    finally:
        inspector.close()


def test_a_trace_is_given_up_when_a_cell_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    began = threading.Event()

    def endless(*_: Any) -> Any:
        began.set()
        while True:
            nan_trace.cancel.check()

    monkeypatch.setattr(nan_verbs, "traced", endless)
    inspector, told, came = served({"y": K.constant(1.0)})
    try:
        inspector.handle({"id": 1, "verb": "nan", "name": "y"})
        assert began.wait(60)
        inspector.cell_started()
        assert came.wait(60)
        assert told[0]["state"] == "stopped"
    finally:
        inspector.close()


def test_nothing_is_fed_or_recorded_by_a_trace(recorder: Recorder) -> None:
    x, y = chain(lambda x: K.log(x))
    fed: list[Any] = []
    stop = profile.inputs_fed.subscribe(fed.append)
    try:
        runs = len(recorder.runs())
        found(y, recorder)
        assert fed == [] and len(recorder.runs()) == runs
    finally:
        stop()
