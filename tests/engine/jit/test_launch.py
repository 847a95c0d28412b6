"""A call as data: what it makes, in which order, and when another way is taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.launch import HostStep, Launch, Prepared, first_right, run
from kbench.engine.runtime.pacer import Pacer
from kbench.engine.runtime.workspace import Workspace

Log = list[str]


def step(log: Log, name: str) -> HostStep:
    return HostStep(lambda _check: log.append(name))


def way(log: Log, name: str, right: bool | None = None) -> Prepared:
    check: Callable[[], bool] | None = None if right is None else lambda: bool(right)
    return Prepared([step(log, name)], name, check)


def test_the_first_way_that_is_right_is_the_result() -> None:
    log: Log = []
    ways = iter([way(log, "a", False), way(log, "b", True), way(log, "c")])
    assert first_right(ways).run(None) == "b"
    assert log == ["a", "b"]


def test_the_last_way_is_always_right() -> None:
    log: Log = []
    assert first_right(iter([way(log, "a", False), way(log, "b")])).run(None) == "b"
    assert log == ["a", "b"]


def test_what_comes_behind_comes_behind_every_way() -> None:
    log: Log = []
    prepared = first_right(iter([way(log, "a", False), way(log, "b")]))
    prepared.then(step(log, "end")).run(None)
    assert log == ["a", "end", "b", "end"]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("valid", [True, False])
def test_a_form_is_taken_where_no_way_may_be(first: bool, valid: bool) -> None:
    log: Log = []
    prepared = first_right(iter([way(log, "a", first), way(log, "b")]))
    prepared = prepared.requiring(lambda: valid, step(log, "form"))
    assert prepared.check_after is not None and prepared.check_after() == (first and valid)
    prepared.run(None)
    assert log == ["a", *([] if first and valid else ["b"] if valid else ["form"])]


def test_a_single_way_may_be_replaced_by_a_form() -> None:
    log: Log = []
    way(log, "a").requiring(lambda: False, step(log, "form")).run(None)
    assert log == ["a", "form"]


def test_only_launches_are_launches() -> None:
    launch = Launch(1, np.zeros(1, np.int64), 3, 1, False, Pacer(1e-9))
    assert Prepared([launch, launch]).launches == [launch, launch]
    assert Prepared([launch, HostStep(print)]).launches is None
    assert Prepared([launch], is_lasting=False).launches is None
    assert Prepared([]).launches == []
    assert launch.threads == 1


def test_a_call_that_is_stopped_goes_no_further() -> None:
    log: Log = []

    def stop(_check: object) -> None:
        raise KeyboardInterrupt

    def prepare(workspace: Workspace) -> Prepared:
        workspace.take(10)
        return Prepared([step(log, "a"), HostStep(stop), step(log, "b")])

    with pytest.raises(KeyboardInterrupt):
        run(prepare, None)
    assert log == ["a"]


def test_each_job_learns_its_own_pace() -> None:
    first, other = Job("first", str), Job("other", str)
    assert first.paced(1e-9) is first.paced(5.0) and first.paced(5.0).seconds == 1e-9
    assert other.paced(5.0).seconds == 5.0
