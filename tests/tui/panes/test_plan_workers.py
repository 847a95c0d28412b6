"""The workers of a fit or a map in the plan's place, fed by hand, at every layout."""

from __future__ import annotations

from typing import Any

import pytest
from bench_screen import at_each_size, bench, settle, submit, text_of, until
from fake_session import FakeSession

import kbench as K
from kbench.dask import activity
from kbench.dask.activity import Tracker
from kbench.engine.inspect import roofline
from kbench.engine.runtime import profile
from kbench.engine.runtime.profile import RunRecord, StepRecord
from kbench.tui.panes.plan.controller import PlanController
from kbench.tui.panes.plan.steps import PlanTable
from kbench.tui.panes.plan.view import PlanPane
from kbench.tui.panes.plan.workers import WorkerTable
from kbench.workbench.inspector import job_verbs
from kbench.workbench.session import events

STEP = StepRecord("dot", "blas", 6e-3, 12 << 20, 400_000_000, (32, 10), "float32")
NOTE = "one machine would be faster: a step moves 12 MB in 40 ms and computes for 9 ms"
MB = 1 << 20


@pytest.fixture(autouse=True)
def quick_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pushes without a pause."""
    monkeypatch.setattr(job_verbs, "PUSH_SECONDS", 0.02)
    monkeypatch.setattr(job_verbs, "MAX_PUSH_SECONDS", 0.02)
    monkeypatch.setattr(job_verbs, "MIN_PUSH_SECONDS", 0.01)
    monkeypatch.setattr(roofline, "known", lambda: None)


def fit(name: str = "mlp", workers: int = 4, total: int | None = 300) -> Tracker:
    """A training under way, whose third worker is slow and whose last one is lost."""
    tracker = activity.track("fit", name, total)
    for number in range(workers):
        address = f"tcp://10.0.0.{number % 250 + 1}:{40000 + number}"
        tracker.worker(address, threads=2, state="working")
        seconds = 9.0 if number == 2 else 3.0
        tracker.add(address, tasks=120, rows=3840, seconds=seconds, received=12 * MB, returned=MB)
    tracker.worker(address, state="lost")
    tracker.step(120)
    return tracker


def session() -> FakeSession:
    """`fit` begins a job and ends with it under way; `run` records a run."""
    one = FakeSession()
    one.names["K"] = K

    def begin(session: FakeSession, cell: Any) -> None:
        fit()

    def run(session: FakeSession, cell: Any) -> None:
        profile.publish(RunRecord("train", 0.01, 3 << 20, [STEP]))
        session.finish(cell)

    one.script.update(fit=begin, run=run)
    return one


def end(one: FakeSession) -> None:
    """The job is over, and the cell with it."""
    for tracker in activity._trackers.values():
        tracker.end()
    cell = one.running()
    assert cell is not None
    one.finish(cell)


@at_each_size
async def test_workers_lead_while_a_job_runs_and_after_it(size: tuple[int, int]) -> None:
    async with bench(size, session()) as (app, pilot, one):
        await submit(pilot, "run")
        await pilot.press("f5")
        await settle(pilot)
        assert app.query_one(PlanPane).worker_table is None and "blas" in text_of(app)
        await submit(pilot, "fit")
        shown = await until(app, pilot, "step 120 of 300, 4 workers, 1 lost")
        assert ("fit of model 'mlp': step" if size[0] == 80 else "Plan: fit 'mlp' 40%") in shown
        assert "w4 is lost; w3 is slow" in shown and "blas" not in shown
        for words in ("worker", "state", "rows", "time", "share", "in", "out", "w1", "9.00 s"):
            assert words in shown
        assert "█" in shown and "50%" in shown and "12 MB" in shown
        await pilot.press("f5")
        await settle(pilot)
        assert app.focused is app.query_one(WorkerTable)
        for tracker in activity._trackers.values():
            tracker.say(NOTE)
        await until(app, pilot, "one machine would")
        end(one)
        await until(app, pilot, "ended: step 120 of 300")
        await submit(pilot, "run")  # a later cell
        shown = await until(app, pilot, "blas")
        assert "w shows the workers" in shown and "'mlp'" not in shown
        assert app.query_one(PlanTable).display


@pytest.mark.slow
async def test_a_key_counts_though_news_comes_right_behind_it() -> None:
    async with bench((120, 40), session()) as (app, pilot, one):
        await submit(pilot, "run")
        await submit(pilot, "fit")
        await pilot.press("f5")
        await until(app, pilot, "step 120 of 300")
        plan = app._main.panes.controller(PlanController)
        for shown in ("blas", "step 120 of 300"):
            plan.act(PlanTable.Wanted("turn"))
            plan.changed()  # takes the place of the request before, which has not begun
            await until(app, pilot, shown)


@pytest.mark.slow
async def test_w_turns_between_the_workers_and_the_run() -> None:
    async with bench((120, 40), session()) as (app, pilot, one):
        await submit(pilot, "run")
        await submit(pilot, "fit")
        await pilot.press("f5")
        await until(app, pilot, "step 120 of 300")
        assert "last run" in text_of(app)  # the hint
        await pilot.press("w")
        await until(app, pilot, "w shows the workers")
        assert app.focused is app.query_one(PlanTable) and "blas" in text_of(app)
        next(iter(activity._trackers.values())).step()
        await settle(pilot, 8)
        assert "blas" in text_of(app)  # what the user has turned to stays
        await pilot.press("w")
        await until(app, pilot, "step 121 of 300")
        await pilot.press("w")
        end(one)
        await settle(pilot)
        assert "blas" in text_of(app)
        await submit(pilot, "fit")  # another job leads again
        await until(app, pilot, "job 2/2")


@pytest.mark.slow
async def test_jobs_details_order_and_copy() -> None:
    fit("first").end()
    async with bench((120, 40), session()) as (app, pilot, one):
        await submit(pilot, "fit")
        await pilot.press("f5")
        await until(app, pilot, "fit 'mlp' 40% job 2/2")
        table = app.query_one(WorkerTable)
        assert table.keys() == ["w1", "w2", "w3", "w4"]
        await pilot.press("s")
        await settle(pilot)
        assert table.keys()[0] == "w3" and "by time" in text_of(app)
        await pilot.press("enter")
        words = "w3 10.0.0.3:40002, 2 threads, slow, working: 120 tasks, 3,840 rows in 9.00 s"
        await until(app, pilot, words)
        await pilot.press("escape", "i")
        await until(app, pilot, "w4 is lost")
        await pilot.press("escape", "y")
        await settle(pilot)
        await pilot.press("f10")
        await until(app, pilot, "slow, working  ")
        await pilot.press("f10")
        assert words in app.clipboard and "12 MB in, 1 MB out" in app.clipboard
        await pilot.press("right_square_bracket", "left_square_bracket")
        await until(app, pilot, "'first' ended job 1/2")
        next(iter(reversed(activity._trackers.values()))).step()
        await settle(pilot, 6)
        assert "'first' ended job 1/2" in text_of(app)  # the one that was chosen stays
        await pilot.press("right_square_bracket")
        await until(app, pilot, "step 121 of 300")


async def test_a_job_that_is_not_kept_any_more_gives_way() -> None:
    fit("first").end()
    async with bench((120, 40), session()) as (app, pilot, one):
        await submit(pilot, "fit")
        await pilot.press("f5")
        await until(app, pilot, "job 2/2")
        await pilot.press("left_square_bracket")
        await until(app, pilot, "'first' ended")
        activity._trackers.pop(min(activity._trackers))
        next(iter(activity._trackers.values())).step()
        await until(app, pilot, "step 121 of 300")


@pytest.mark.slow
async def test_of_many_workers_all_are_shown_or_summed_up() -> None:
    async with bench((200, 50), session()) as (app, pilot, one):
        tracker = fit("wide", 300)
        await pilot.press("f5")
        await until(app, pilot, "300 workers, 1 lost")
        table = app.query_one(WorkerTable)
        assert len(table.keys()) == 257 and table.keys()[-1] == "others"
        await pilot.press("G")
        await until(app, pilot, "44 more")
        tracker.end()


async def test_a_job_without_workers_and_another_kernel() -> None:
    async with bench((120, 40), session()) as (app, pilot, one):
        activity.track("map", "predict")
        await pilot.press("f5")
        shown = await until(app, pilot, "map of 'predict': chunk 0, no workers yet")
        assert "No worker has reported yet" in shown
        gone = app.query_one(PlanPane).job
        assert gone is not None
        activity._trackers.clear()
        one.restart(replay=False)
        await until(app, pilot, "No run yet")
        one._emit(events.Told("jobs", {"job": gone.given()}))  # which the old kernel had still told
        await settle(pilot)
        await until(app, pilot, "No run yet")
        await pilot.press("w")
        await settle(pilot)
        assert "goes to the prompt" in text_of(app)  # the key means nothing without a job
