"""The recording on jobs that workers share: what it answers, what it pushes, how much fits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from inspector_helpers import ask, refused

from kbench.dask import activity
from kbench.dask.activity import Tracker
from kbench.engine.runtime import profile
from kbench.engine.runtime.profile import RunRecord, StepRecord
from kbench.workbench.inspector import job_verbs
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.protocol import messages

STEP = StepRecord("dot", "blas", 6e-3, 8, 2, (2,), "float32")
GB = 10**9


def fit(name: str, workers: int, host: str = "") -> Tracker:
    tracker = activity.track("fit", name, 300)
    for number in range(workers):
        address = f"tcp://10.123.123.{number % 250}:{40000 + number}"
        tracker.worker(address, host, 16, "working")
        moved = 1234 * GB
        tracker.add(
            address, tasks=10**6, rows=GB, seconds=1234.5678, received=moved, returned=moved
        )
    return tracker


def test_no_job(recording: Inspector) -> None:
    none: dict[str, Any] = {"jobs": [], "job": None, "shown": None, "rows": [], "others": None}
    assert ask(recording, "jobs") == none
    assert ask(recording, "plan")["job"] is None
    assert "job 3 is no longer known" in refused(recording, "jobs", job=3)["reason"]


def test_the_job_that_leads_or_one_of_a_number(recording: Inspector) -> None:
    old = fit("old", 1)
    old.end()
    fit("new", 2)
    told = ask(recording, "jobs")
    assert [(one["name"], one["running"]) for one in told["jobs"]] == [
        ("old", False),
        ("new", True),
    ]
    assert told["shown"]["name"] == "new" and [row["share"] for row in told["rows"]] == [0.5, 0.5]
    assert told["job"]["leads"] and told["job"]["name"] == "new"
    assert ask(recording, "plan")["job"]["name"] == "new"
    other = ask(recording, "jobs", job=old.number)
    assert other["shown"]["name"] == "old" and other["job"]["name"] == "new"
    assert len(ask(recording, "jobs", most=1)["rows"]) == 1


def test_a_job_leads_until_a_later_cell_records_a_run(recording: Inspector) -> None:
    def leads() -> bool:
        return bool(ask(recording, "plan")["job"]["leads"])

    def run() -> None:
        profile.publish(RunRecord("step", 0.01, 8, [STEP]))

    run()
    recording.cell_started()
    tracker = fit("mlp", 2)
    run()
    assert leads()
    tracker.end()
    run()  # within the cell of the job, as its validation
    assert leads()
    recording.cell_ended()
    recording.cell_started()
    assert leads()
    run()
    assert not leads()
    again = fit("mlp", 2)
    assert leads()
    again.end()


@pytest.mark.parametrize("host", ["", "ip-10-0-12-123.eu-central-1.compute.internal", "h" * 300])
@pytest.mark.parametrize("count", [1, 256, 300, 2_000])
def test_256_workers_fit_a_message_and_the_rest_is_summed_up(
    recording: Inspector, host: str, count: int
) -> None:
    for number in range(activity.MAX_JOBS - 1):
        activity.track("map", f"{number} {'n' * 300}").end()
    tracker = fit("m" * 300, count, host)
    tracker.say("one machine would be faster. " * 40)
    told = ask(recording, "jobs")  # which looks at the size of the message
    kept = min(count, 256)
    assert len(told["rows"]) == kept or (len(host) == 300 and len(told["rows"]) >= 224)
    assert "truncated" not in told
    rest = count - len(told["rows"])
    assert (told["others"] or {"count": 0})["count"] == rest


# ------------------------------------------------------------------ pushes


@pytest.fixture
def pushed(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[dict[str, Any]]]:
    """What a recording tells unasked, without long pauses."""
    monkeypatch.setattr(job_verbs, "PUSH_SECONDS", 0.02)
    monkeypatch.setattr(job_verbs, "MAX_PUSH_SECONDS", 0.02)
    monkeypatch.setattr(job_verbs, "MIN_PUSH_SECONDS", 0.005)
    told: list[dict[str, Any]] = []
    made = Inspector(names, told.append)
    yield told
    made.close()


def wait_for(told: list[dict[str, Any]], key: str, value: object) -> dict[str, Any]:
    """The first push from now on whose job says so."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for message in told:
            if message["data"]["job"][key] == value:
                assert message["push"] == "jobs" and messages.size(message) < 2_000
                return message["data"]
        time.sleep(0.005)
    raise TimeoutError(key)


def test_a_job_is_told_while_it_runs_and_when_it_has_ended(pushed: list[dict[str, Any]]) -> None:
    tracker = fit("mlp", 300)
    data = wait_for(pushed, "workers", 300)
    assert data["running"] == 1 and data["job"]["leads"]
    tracker.step(5)
    wait_for(pushed, "steps", 5)
    tracker.end()
    assert wait_for(pushed, "running", False)["running"] == 0
    tracker.say("one machine would be faster")  # what is known only afterwards
    wait_for(pushed, "note", "one machine would be faster")
    time.sleep(0.1)
    count = len(pushed)
    time.sleep(0.1)
    assert len(pushed) == count  # nothing runs: nothing is looked at


def test_what_stands_still_is_told_less_often(
    pushed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_verbs, "MAX_PUSH_SECONDS", 30.0)
    tracker = fit("mlp", 1)
    wait_for(pushed, "workers", 1)
    time.sleep(0.3)
    assert len(pushed) < 8
    tracker.end()  # told at once all the same
    wait_for(pushed, "running", False)


def test_a_job_that_began_before_anybody_looked_is_followed(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_verbs, "PUSH_SECONDS", 0.02)
    tracker = fit("mlp", 1)
    told: list[dict[str, Any]] = []
    made = Inspector(names, told.append)
    wait_for(told, "workers", 1)
    tracker.step(7)
    wait_for(told, "steps", 7)
    tracker.end()
    made.close()


def test_a_closed_inspector_listens_no_more(names: dict[str, Any]) -> None:
    told: list[dict[str, Any]] = []
    before = profile.job_changed.listeners
    made = Inspector(names, told.append)
    made.close()
    assert profile.job_changed.listeners == before
