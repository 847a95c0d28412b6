"""The table of steps: what it tells of a call, and which calls are recorded before it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from seen import settled, text_of
from waiting import wait_for

from kbench import backend as K
from kbench.engine.core.errors import Place
from kbench.engine.inspect import roofline
from kbench.engine.runtime import profile
from kbench.engine.runtime.profile import RunRecord, StepRecord
from kbench.notebook import PlanTable
from kbench.notebook.base import recording
from kbench.notebook.base.recording import Recording
from kbench.workbench.inspector.recorder import MAX_RUNS, Recorder

LIMITS = roofline.Limits(20.0, 100.0, 50.0, 2)
STEP = StepRecord("dot", "blas", 6e-3, 12 << 20, 400_000_000, (32, 10), "float32", Place("a.py", 1))
Names = dict[str, Any]


@pytest.fixture
def names() -> Iterator[Names]:
    """A function, and what to feed it."""
    x = K.placeholder((None, 3), name="x")
    y = K.dot(x, K.variable(np.ones((3, 2))))
    train = K.function([x], [K.mean(K.square(y))], name="train")
    yield {"x": x, "y": y, "train": train, "data": np.ones((4, 3))}


def test_plan_follows_calls_while_it_is_shown(names: Names) -> None:
    part = PlanTable(namespace=names)
    names["train"]([names["data"]])
    assert not part.redraws.running and "no run yet" in text_of(part.html)
    part._repr_mimebundle_()
    settled("train", part)  # it was called before the plan was shown
    shown = text_of(part.html)
    assert "GB/s" in shown and "steps" in shown and "in use; kernels" in shown
    names["other"] = K.function([names["x"]], [names["y"]], name="other")
    names["other"]([names["data"]])
    settled("other", part)
    part.choose("train")
    wait_for(lambda: "train" in part._static_text())
    part.sort.value = "time"
    assert "train" in text_of(part.html)
    part._view_count = 1
    part._view_count = 0  # as a front end tells when the output is cleared
    assert not part.redraws.running
    part._view_count = 1
    assert part.redraws.running
    part.close()
    assert not profile.run_finished


def test_each_step_beside_what_the_machine_can_do(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline, "known", lambda: None)
    monkeypatch.setattr(roofline, "measure", lambda *, again: LIMITS)
    part = PlanTable(namespace=names)
    part._repr_mimebundle_()
    profile.publish(RunRecord("train", 0.01, 3 << 20, [STEP]))
    settled("'measure' finds", part)
    assert '<th scope="col">of limit</th>' in part.html and "flop<" not in part.html
    monkeypatch.setattr(roofline, "known", lambda: LIMITS)
    part.measure_button.click()
    settled("67% flop", part)
    assert "with 2 threads: 20.0 GB/s, 100 GFLOP/s in float32" in text_of(part.html)
    part.hub.inspector.cell_started()
    part.measure_button.click()
    settled("the machine is measured while none does", part)
    part.hub.inspector.cell_ended()
    profile.publish(RunRecord("other", 0.01, 3 << 20, [STEP]))
    settled("other", part)
    assert "measured while" not in text_of(part.html)
    part.close()


# ------------------------------------------------------------------ before a plan is shown


def test_of_many_quick_calls_some_are_recorded(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "REST_SECONDS", 1e6)
    kept = Recorder()
    some = Recording(kept)
    for _ in range(MAX_RUNS + 5):
        names["train"]([names["data"]])
    assert [one.number for one in kept.runs()] == list(
        range(1, MAX_RUNS + 1)
    ) and not profile.run_finished
    assert profile.inputs_fed  # what is fed is kept all the same
    some.refill()  # as a cell does when it begins
    names["train"]([names["data"]])
    assert kept.runs()[-1].number == MAX_RUNS + 1
    leave = some.record_all()
    for _ in range(2 * MAX_RUNS):
        names["train"]([names["data"]])
    assert kept.runs()[-1].number == 3 * MAX_RUNS + 1
    leave()
    some.end()
    assert not profile.run_finished and not profile.inputs_fed
    some.refill()
    assert not profile.run_finished


def test_recording_goes_on_after_a_rest(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "REST_SECONDS", 0.01)
    some = Recording(Recorder())
    for _ in range(MAX_RUNS):
        names["train"]([names["data"]])
    wait_for(lambda: profile.run_finished)
    some.end()


def test_a_widget_knows_what_the_session_has_recorded(names: Names) -> None:
    recording.begin()
    names["train"]([names["data"]])
    part = PlanTable(namespace=names)
    recording.finish()
    part._repr_mimebundle_()
    settled("train", part)
    part.close()
    assert recording.earlier() is None and not profile.run_finished and not profile.inputs_fed
