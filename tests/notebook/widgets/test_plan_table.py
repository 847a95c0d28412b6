"""The table of steps: what it tells of a call, and which calls are recorded before it is shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from seen import read, settled, text_of
from traitlets import TraitError
from waiting import wait_for, wait_for_words

from kbench import backend as K
from kbench.dask import activity
from kbench.dask.activity import Tracker
from kbench.engine.core.errors import Place
from kbench.engine.inspect import roofline
from kbench.engine.runtime import profile
from kbench.engine.runtime.profile import RunRecord, StepRecord
from kbench.notebook import PlanTable
from kbench.notebook.base import recording
from kbench.notebook.base.recording import Recording
from kbench.workbench.inspector import job_verbs
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
    wait_for_words("train", part._static_text)
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
    assert '<th scope="col">% of peak</th>' in part.html and "flop<" not in part.html
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


# ------------------------------------------------------------------ workers of a job


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracker]:
    """A training under way on three workers, the last of them slow."""
    monkeypatch.setattr(job_verbs, "PUSH_SECONDS", 0.02)
    monkeypatch.setattr(job_verbs, "MAX_PUSH_SECONDS", 0.02)
    monkeypatch.setattr(job_verbs, "MIN_PUSH_SECONDS", 0.005)
    tracker = activity.track("fit", "mlp", 300)
    for number, seconds in enumerate((3.0, 3.0, 9.0), 1):
        address = f"tcp://10.0.0.{number}:4000"
        tracker.worker(address, threads=2, state="working")
        tracker.add(address, tasks=120, rows=3840, seconds=seconds, received=12 << 20)
    yield tracker
    tracker.end()


def test_workers_are_followed_while_a_job_runs(names: Names, job: Tracker) -> None:
    part = PlanTable(namespace=names)
    part._repr_mimebundle_()
    settled("fit of model 'mlp': step 0 of 300, 3 workers", part)
    job.step(120)
    settled("step 120 of 300", part)
    shown = text_of(part.html)
    assert "w3 is slow: 3.0 times the median per row" in shown and "slow, working" in shown
    for words in ("10.0.0.3:4000", "3,840", "9 s", "█████\xa0\xa0\xa0 60%", "12 MB"):
        assert words in shown, words
    assert "no run yet" not in shown
    names["train"]([names["data"]])
    settled("GB/s", part)
    assert "step 120 of 300" in text_of(part.html)  # above the steps of the run
    assert "w1 10.0.0.1:4000, 2 threads, working: 120 tasks" in part._static_text()
    assert "mlp" in part._static_bundle()["text/html"]
    job.say("one machine would be faster: 9 ms against 40 ms")
    job.end()
    settled("fit of model 'mlp' ended: step 120 of 300", part)
    settled("one machine would be faster", part)
    part.hub.inspector.cell_started()  # a later cell
    names["train"]([names["data"]])
    wait_for(lambda: "mlp" not in text_of(part.html) and "GB/s" in text_of(part.html))
    part.close()


def test_an_earlier_job_is_chosen_as_a_run_is(names: Names, job: Tracker) -> None:
    job.end()
    other = activity.track("map", "predict", 8)
    part = PlanTable(namespace=names)
    part._repr_mimebundle_()
    settled("map of 'predict': chunk 0 of 8, no workers yet", part)
    labels = [label for label, _ in part.run.options]
    assert labels[:3] == ["the newest", "map of 'predict', running", "fit of model 'mlp', ended"]
    part.run.value = ("job", job.number)
    settled("fit of model 'mlp' ended", part)
    other.step()
    names["train"]([names["data"]])
    settled("fit of model 'mlp' ended", part)
    assert "GB/s" not in text_of(part.html) and "predict" not in part._static_text()

    def a_run_is_chosen() -> bool:
        """Its options come on another thread, one trait after the other."""
        chosen = part.run.options[-1][1]
        with contextlib.suppress(TraitError):
            part.run.value = chosen
        return isinstance(chosen, int) and part.run.value == chosen

    wait_for(a_run_is_chosen)
    wait_for(lambda: "GB/s" in text_of(part.html) and "mlp" not in text_of(part.html))
    part.run.value = ("job", job.number)
    settled("fit of model 'mlp' ended", part)
    del activity._trackers[job.number]  # so many others since
    other.step()
    settled("chunk 2 of 8", part)
    assert part.run.value is None
    other.end()
    part.close()


def test_many_workers_and_steps_fit_an_output(names: Names, job: Tracker) -> None:
    for number in range(400):
        job.worker(f"tcp://node-{number}.cluster.example:{40000 + number}", state="lost")
        job.add(f"tcp://node-{number}.cluster.example:{40000 + number}", rows=10**9, seconds=1e4)
    job.say("one machine would be faster. " * 20)
    part = PlanTable(namespace=names)
    part._repr_mimebundle_()
    profile.publish(RunRecord("train", 0.01, 3 << 20, [STEP] * 200))
    settled("203 more workers", part)
    settled("200 workers, 1-20", part)
    part.workers.sort.value = "address"
    part.workers.rows.value = part.workers.rows.options[0][1]
    assert "lost" in text_of(part._worker.value)
    settled("200 steps, 1-40", part)
    static = part._static_html()
    assert "383 more" in text_of(static)
    read(static)  # which looks at its size
    part.table.pager.children[-1].click()
    settled("200 steps, 41-80", part)
    assert part.step.options[0] == ("40 dot", 40)
    part.sort.value = "time"  # from the first page on
    settled("200 steps, 1-40", part)
    assert "the 20 of 403 workers that matter most" in text_of(part._static_html())
    part.close()


def test_a_click_on_a_step_tells_of_it_and_time_has_a_bar(names: Names) -> None:
    part = PlanTable(namespace=names)
    part._repr_mimebundle_()
    slow = StepRecord("exp", "numpy", 3e-3, 1 << 10, 0, (4,), "float64", Place("b.py", 7))
    profile.publish(RunRecord("train", 0.01, 3 << 20, [STEP, slow]))
    settled("60%", part)
    assert "█████" in part.html and "60%" in text_of(part._static_html())
    part.step.value = 1
    told = text_of(part._source.value)
    assert "step 1 exp float64[4]" in told and "b.py:7" in told
    part.sort.value = "made at"
    part.sort._handle_custom_msg({"event": "click"}, [])  # as the front end tells the same click
    part.refresh()
    assert [label for label, _ in part.step.options] == ["0 dot", "1 exp"]
    part.sort._handle_custom_msg({"event": "click"}, [])
    part.refresh()
    assert [label for label, _ in part.step.options] == ["1 exp", "0 dot"]
    part.close()
