"""The first call that made a NaN is explained, not a later one whose variables are bad already."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kbench as K
from kbench.engine.runtime import profile, read_only
from kbench.workbench.inspector.recorder import Recorder
from kbench.workbench.nan import first_bad_call, nan_words
from kbench.workbench.nan.nan_verbs import traced

Names = dict[str, Any]


@pytest.fixture
def recorder() -> Any:
    one = Recorder()
    one.keep_feeds()
    yield one
    one.stop()
    assert not profile.update_started and not profile.call_ended


def told(name: str, names: Names, recorder: Recorder) -> str:
    """The whole trace of a name, as a user reads it."""
    with read_only.evaluation():
        data = traced(names[name], recorder, names)
    return "\n".join(nan_words.lines({**data, "name": name}))


def two_layers(rate: float = 0.1) -> tuple[Names, list[np.ndarray]]:
    """A net with a cross-entropy that nothing is clipped in, and a batch that it can learn."""
    rng = np.random.default_rng(0)
    x, t = K.placeholder((None, 4), name="x"), K.placeholder((None, 1), name="t")
    first, second = K.variable(rng.normal(size=(4, 8)), name="W1"), K.variable(np.zeros(8))
    third, last = K.variable(rng.normal(size=(8, 1)), name="W2"), K.variable(np.zeros(1))
    p = K.sigmoid(K.dot(K.tanh(K.dot(x, first) + second), third) + last)
    loss = -K.mean(t * K.log(p) + (1 - t) * K.log(1 - p))
    weights = [first, second, third, last]
    slopes = K.gradients(loss, weights)
    stores = [(w, w - rate * g) for w, g in zip(weights, slopes, strict=True)]
    names = {
        "x": x, "t": t, "W1": first, "W2": third, "bias": last, "loss": loss, "p": p,
        "step": K.function([x, t], [loss], stores, name="step"),
        "silent": K.function([x, t], [], stores, name="silent"),
        "slopes": K.function([x, t], [loss, *slopes], name="slopes"),
    }  # fmt: skip
    images = rng.normal(size=(16, 4)).astype("float32")
    return names, [images, (images[:, :1] > 0).astype("float32")]


def saturated(names: Names, batch: list[np.ndarray]) -> list[np.ndarray]:
    """A batch for which p is exactly 1."""
    K.set_value(names["bias"], [60.0])
    return [batch[0], np.ones_like(batch[1])]


@pytest.mark.parametrize("asked", ["step", "loss", "p", "W2 * 2.0"])
@pytest.mark.parametrize("before,behind", [(0, 0), (0, 5), (1, 1), (30, 0), (30, 30), (200, 3)])
def test_log_of_zero_times_zero_is_told_where_it_was_made(
    recorder: Recorder, before: int, behind: int, asked: str
) -> None:
    names, batch = two_layers()
    names["W2 * 2.0"] = names["W2"] * 2.0
    for _ in range(before):
        names["step"](batch)
    assert np.isnan(names["step"](saturated(names, batch))[0])
    for _ in range(behind):
        names["step"](batch)
    text = told(asked, names, recorder)
    first = text.splitlines()[0]
    assert first.startswith("NaN made by multiply") and first.endswith(": log(0) * 0"), text
    assert "test_first_bad_call.py" in first and "K.log(1 - p)" in text
    assert "log of 0 is -Inf" in text and "at [0, 0]: 0" in text
    assert "the first call of step that gave NaN or Inf, with the variables as they were" in text
    assert "as they were before it" in text
    assert "learning rate" not in text and "already contains NaN" not in text


def test_updates_without_results_are_looked_at_when_they_are_copied(recorder: Recorder) -> None:
    names, batch = two_layers()
    for _ in range(20):
        names["silent"](batch)
    names["silent"](saturated(names, batch))
    for _ in range(20):
        names["silent"](batch)
    assert "log(0) * 0" in told("loss", names, recorder).splitlines()[0]
    text = told("silent", names, recorder)
    assert "made by" in text.splitlines()[0] and "new values of variables are not" in text


def test_a_bad_gradient_of_a_finite_loss(recorder: Recorder) -> None:
    w = K.variable([4.0, 0.0], name="w")
    x = K.placeholder((2,), name="x")
    loss = K.sum(K.pow(w * x, 0.5))
    step = K.function([x], [loss], [(w, w - 0.1 * K.gradients(loss, [w])[0])], name="step")
    names = {"w": w, "x": x, "loss": loss, "step": step}
    assert np.isfinite(step([[1.0, 1.0]])[0])
    assert not np.isfinite(step([[1.0, 1.0]])[0])
    text = told("step", names, recorder)
    assert "holds" not in text.splitlines()[0] and "new values of variables are not" in text, text


def test_weights_that_the_program_stores_itself(recorder: Recorder) -> None:
    names, batch = two_layers()
    weights = [names["W1"], names["W2"]]

    def train(fed: list[np.ndarray]) -> None:
        _, first, _, second, _ = names["slopes"](fed)
        for weight, slope in zip(weights, (first, second), strict=True):
            K.set_value(weight, K.get_value(weight) - 0.1 * slope)

    train(batch)
    train(saturated(names, batch))
    train(batch)
    for asked in ("slopes", "loss"):
        assert "log(0) * 0" in told(asked, names, recorder).splitlines()[0]


def test_two_functions_that_take_turns(recorder: Recorder) -> None:
    names, batch = two_layers()
    other = K.function([], [K.sum(names["W1"])], [(names["W1"], names["W1"] * 0.999)])
    for _ in range(20):
        names["step"](batch)
        other([])
    names["step"](saturated(names, batch))
    for _ in range(20):
        other([])
        names["step"](batch)
    for asked in ("step", "loss"):
        assert "log(0) * 0" in told(asked, names, recorder).splitlines()[0]


def test_a_new_beginning_forgets_the_old_story(recorder: Recorder) -> None:
    names, batch = two_layers()
    values = {name: K.get_value(names[name]) for name in ("W1", "W2")}
    names["step"](saturated(names, batch))
    weights = list(names["step"].plan.targets)
    for one in weights:
        K.set_value(one, np.zeros(one.spec.shape))
    for name, value in values.items():
        K.set_value(names[name], value)
    names["step"](batch)
    assert "no NaN and no infinity" in told("step", names, recorder)
    K.set_value(names["W1"], np.full((4, 8), np.inf))
    names["step"](batch)
    assert "variable W1 already contains NaN" in told("step", names, recorder)


def test_dropout_may_draw_other_numbers(recorder: Recorder) -> None:
    w = K.variable(np.ones((4, 3)), name="w")
    x = K.placeholder((None, 4), name="x")
    loss = K.sum(K.log(K.dot(K.dropout(x, 0.2), w)))
    step = K.function([x], [loss], [(w, w - 0.01 * K.gradients(loss, [w])[0])], name="step")
    for value in (1.0, 1.0, 0.0, 1.0, 1.0):
        step([np.full((8, 4), value)])
    text = told("step", {"step": step}, recorder)
    assert "log of 0 is -Inf" in text and "learning rate" not in text, text


def test_what_is_too_large_to_be_copied_is_told_as_before(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_bad_call, "MAX_COPIED_BYTES", 100)
    names, batch = two_layers()
    names["step"](batch)
    names["step"](saturated(names, batch))
    names["step"](batch)
    assert "W1 already contains NaN" in told("step", names, recorder)
    assert not any(one.copies for one in recorder.first_bad._histories.values())


def test_copies_take_a_small_share_of_the_time_and_of_memory(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, copies = [0.0], [0]
    monkeypatch.setattr(first_bad_call.time, "perf_counter", lambda: now[0])
    copy: Callable[..., bool] = first_bad_call.FirstBadCalls._copy

    def copied(self: Any, history: Any) -> bool:
        copies[0] += 1
        now[0] += 1.0  # a copy takes as long as a call
        return copy(self, history)

    monkeypatch.setattr(first_bad_call.FirstBadCalls, "_copy", copied)
    names, batch = two_layers()
    for _ in range(1000):
        names["step"](batch)
        now[0] += 1.0
    assert 8 <= copies[0] <= 20
    history = recorder.first_bad._histories[id(names["step"])]
    assert len(history.calls) <= first_bad_call.MAX_CALLS
    del names, history
    gc.collect()
    assert recorder.first_bad.behind(None) == []


def test_finite_calls_cost_nothing_that_can_be_felt(recorder: Recorder) -> None:
    names, batch = two_layers()
    for _ in range(20):
        names["step"](batch)
    memory = recorder.first_bad
    history = memory._histories[id(names["step"])]
    results = names["step"](batch)
    best = 1.0
    for _ in range(50):
        history.due = np.inf
        history.calls.clear()
        begun = time.perf_counter()
        for _ in range(20):
            history.count = first_bad_call.stores.count
            memory._begins((names["step"], batch))
            memory._ended((names["step"], batch, results))
        best = min(best, (time.perf_counter() - begun) / 20)
    assert best < 10e-6  # about 1 microsecond, of a call that takes 50 at least


def test_listeners_share_one_memory(recorder: Recorder) -> None:
    other = Recorder()
    other.adopt(recorder)
    other.start()
    assert other.first_bad is recorder.first_bad
    names, batch = two_layers()
    names["step"](batch)
    assert len(recorder.first_bad._histories[id(names["step"])].calls) == 1
    other.stop()
    assert profile.update_started
