"""What the inspector tells of recorded runs, and of the nodes of a graph after them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from inspector_helpers import ask, refused

import kbench as K
from kbench.engine.inspect import roofline
from kbench.engine.jit import service
from kbench.engine.runtime import profile
from kbench.engine.runtime.profile import PartRecord, RunRecord, StepRecord
from kbench.workbench.inspector import recorder
from kbench.workbench.inspector.inspector import Inspector

LIMITS = roofline.Limits(20.0, 100.0, 50.0, 2)


def publish(name: str, seconds: float = 0.5, **step: Any) -> None:
    fields: dict[str, Any] = {
        "label": "add+relu",
        "form": "fused",
        "seconds": seconds,
        "bytes": 8,
        "flops": 2,
        "shape": (2,),
        "dtype": "float32",
    }
    profile.publish(RunRecord(name, seconds, 16, [StepRecord(**{**fields, **step})]))


def test_the_last_runs_are_kept_and_told_by_number(recording: Inspector) -> None:
    for number in range(recorder.MAX_RUNS + 4):
        publish(f"f{number % 2}", 0.5 + number)
    told = ask(recording, "plan")
    assert [one["run"] for one in told["runs"]] == list(range(5, recorder.MAX_RUNS + 5))
    assert told["run"]["run"] == recorder.MAX_RUNS + 4
    assert told["functions"] == ["f0", "f1"]
    earlier = ask(recording, "plan", run=6)["run"]
    assert earlier["function"] == "f1" and earlier["seconds"] == 5.5
    assert ask(recording, "plan", run=1)["run"] is None
    assert ask(recording, "plan", function="f0")["run"]["run"] == recorder.MAX_RUNS + 3


def test_a_run_tells_under_which_name_it_can_be_run_again(
    recording: Inspector, names: dict[str, Any]
) -> None:
    x = K.placeholder((2,), name="x")
    names["double"], names["half"] = K.function([x], [x * 2]), K.function([x], [x / 2])
    for called in ("double", "half", "double"):
        names[called]([[1.0, 2.0]])
        run = ask(recording, "plan")["run"]
        assert (run["function"], run["called"]) == ("function", called)
    runs = [ask(recording, "plan", run=number)["run"]["called"] for number in (1, 2, 3)]
    assert runs == ["double", "half", "double"]
    publish("gone")
    assert ask(recording, "plan")["run"]["called"] == ""


def test_a_step_tells_its_parts_and_its_whole_source(recording: Inspector) -> None:
    source = "x = 1\n" * 2_000
    parts = (PartRecord("add", "float32[2]"), PartRecord("relu", "float32[2]"))
    publish("f", source=source, parts=parts)
    row = ask(recording, "plan")["run"]["rows"][0]
    assert [(one["op"], one["spec"]) for one in row["parts"]] == [
        ("add", "float32[2]"),
        ("relu", "float32[2]"),
    ]
    assert row["source"].endswith("# … cut")
    assert ask(recording, "plan", run=1, step=0) == {"step": 0, "source": source}
    for wrong in (-1, 1, 10**9):
        assert f"no step {wrong}" in refused(recording, "plan", step=wrong)["reason"]


def test_the_operations_of_a_group_are_recorded_with_their_nodes() -> None:
    x = K.variable(np.ones((64, 1024)), name="wide")
    with K.record() as runs:
        K.function([], [K.relu(x * 2.0 + 1.0) * 3.0])([])
    (step,) = (one for one in runs[0].steps if one.parts)
    assert len(step.parts) >= 3 and {one.op for one in step.parts} >= {"relu"}
    assert all(str(one.spec) == "float32[64, 1024]" and one.node for one in step.parts)
    assert step.node == step.parts[-1].node


def test_kernels_are_told_with_the_run_that_they_became_ready_for(
    recording: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(name: str, hit: bool, seconds: float) -> service.Job:
        return service.Job(name, str, state="ready", was_cached=hit, seconds=seconds)

    jobs = [job("old", True, 9.0)]
    monkeypatch.setattr(service.service, "ready", lambda: list(jobs))
    monkeypatch.setattr(service.service, "pending", lambda: 3)
    publish("warm")
    jobs += [job("one", False, 0.25), job("two", True, 0.5)]
    publish("f")
    run = ask(recording, "plan")["run"]
    assert (run["compiled"], run["loaded"], run["pending"]) == (1, 1, 3)
    assert run["kernel_seconds"] == 0.75
    assert [one["name"] for one in run["kernels"]] == ["two", "one"]
    publish("f")
    run = ask(recording, "plan")["run"]
    assert (run["compiled"], run["loaded"], run["kernels"]) == (0, 0, [])


def test_the_machine_is_measured_only_when_asked_and_while_no_cell_runs(
    recording: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[bool] = []

    def measure(*, again: bool = False) -> roofline.Limits:
        measured.append(again)
        return LIMITS

    monkeypatch.setattr(roofline, "known", lambda: None)
    monkeypatch.setattr(roofline, "measure", measure)
    assert ask(recording, "plan")["limits"] is None and not measured
    recording.cell_started()
    assert "a cell runs" in refused(recording, "plan", measure=True)["reason"]
    recording.cell_ended()
    found = ask(recording, "plan", measure=True)["limits"]
    assert found["copy_gb_per_s"] == 20.0 and found["threads"] == 2 and measured == [True]


# ------------------------------------------------------------------ graphs


def pages(inspector: Inspector, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    start: int | None = 0
    while start is not None:
        page = ask(inspector, "graph", name=name, start=start)
        found += page["rows"]
        assert page["cut"] == page["total"] - len(found)
        start = page["next"]
    return found


@pytest.mark.slow
def test_every_node_of_a_large_graph_is_told_page_by_page(names: dict[str, Any]) -> None:
    value = names["x"]
    for _ in range(5_000):
        value = value + 1.0
    names["deep"] = value
    inspector = Inspector(names)
    rows = pages(inspector, "deep")
    assert [row["id"] for row in rows] == list(range(len(rows))) and len(rows) > 5_000
    assert rows[0]["name"] == value.name and any(row["name"].startswith("x") for row in rows)
    assert ask(inspector, "graph", name="deep", start=10**9)["rows"] == []
    assert ask(inspector, "graph", name="deep", start=-5)["rows"][0]["id"] == 0
    inspector.close()


def test_after_a_run_nodes_tell_what_they_were(names: dict[str, Any]) -> None:
    x = K.placeholder((None, 300), name="fed")
    w = K.variable(np.full((300, 2), 0.5), name="weight")
    product = K.dot(x, w)
    names["out"] = K.sum(K.relu(product))
    inspector = Inspector(names)
    ask(inspector, "trace", on=True)
    values = np.ones((5, 300), np.float32)
    values[1, 2], values[2, 3] = np.nan, np.inf
    K.function([x], [names["out"]])([values])
    rows = {row["name"].partition(":")[0]: row for row in pages(inspector, "out")}
    fed = rows["fed"]
    assert fed["last"]["shape"] == [5, 300] and fed["bad"] == 2 and "ran" not in fed
    made = rows[product.name.partition(":")[0]]
    assert made["last"]["shape"] == [5, 2] and made["ran"]["seconds"] >= 0
    assert all(row["last"]["shape"] == [5, 2] for key, row in rows.items() if "relu" in key)
    out = rows[names["out"].name.partition(":")[0]]
    assert out["last"]["text"] == "NaN" and out["spec"] == "float32[]"
    assert "test_plan_verbs.py" in out["place"]
    inspector.close()
