"""Rows and words about the workers of a job: who is slow, what is summed up, how it is said."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from kbench.dask import activity
from kbench.dask.activity import Job, WorkerFigures
from kbench.workbench.analysis import job_rows, job_text
from kbench.workbench.analysis.job_news import JobNews


def worker(number: int, seconds: float = 1.0, rows: int = 100, **more: Any) -> WorkerFigures:
    fields: dict[str, Any] = {"tasks": 10, "rows": rows, "seconds": seconds, "state": "working"}
    fields |= {"received": 2048, "returned": 1024, **more}
    return WorkerFigures(f"tcp://10.0.0.{number}:{4000 + number}", "", 2, **fields)


def job(*workers: WorkerFigures, **more: Any) -> Job:
    fields: dict[str, Any] = {"seconds": 12.34, "steps": 120, "total": 300, "number": 7, **more}
    return Job("fit", "mlp", 0.0, workers=workers, **fields)


# ------------------------------------------------------------------ who is slow


SLOW = [
    ((1.0, 1.0, 1.0, 3.0), {4: 3.0}),
    ((1.0, 1.4), {}),
    ((1.0, 1.6), {2: 1.6}),  # of two the quicker one is the measure
    ((2.0,), {}),
    ((0.01, 0.01, 0.09), {}),  # too short to tell
    ((1.0, 1.0, 2.0, 2.0, 4.0), {5: 2.0}),
    ((), {}),
]


@pytest.mark.parametrize(("times", "slow"), SLOW)
def test_a_worker_is_slow_by_its_time_per_row(
    times: tuple[float, ...], slow: dict[int, float]
) -> None:
    made = job(*(worker(number, seconds) for number, seconds in enumerate(times, 1)))
    found = job_rows.rows(made)[0]
    assert {row.number: row.slow for row in found if row.slow is not None} == slow


def test_who_has_more_rows_is_not_slow() -> None:
    made = job(worker(1, 1.0, 100), worker(2, 10.0, 1000), worker(3, 0.0, 0))
    assert not any(row.slow for row in job_rows.rows(made)[0])


# ------------------------------------------------------------------ what is summed up


def test_of_too_many_workers_the_notable_and_the_busiest_keep_their_rows() -> None:
    workers = [worker(number, 1.0 + number / 1000) for number in range(1, 11)]
    workers[2] = worker(3, 0.5, state="lost")
    workers[4] = worker(5, 4.0)
    found, others = job_rows.rows(job(*workers), 4)
    assert [row.number for row in found] == [3, 5, 9, 10] and others is not None
    assert others.count == 6 and others.rows == 600 and others.received == 6 * 2048
    shares = [row.share for row in found] + [others.share]
    assert sum(shares) == pytest.approx(1.0, abs=1e-5)
    assert job_rows.rows(job(*workers), 10)[1] is None


def test_nobody_works_for_a_job_that_has_ended() -> None:
    ended = job(worker(1), worker(2, state="idle"), worker(3, state="lost"), running=False)
    assert [row.state for row in job_rows.rows(ended)[0]] == ["done", "done", "lost"]


def test_figures_of_numpy_become_plain_numbers() -> None:
    odd = worker(1, np.float32(0.5), np.int64(3), received=np.int32(7))  # type: ignore[arg-type]
    row = job_rows.rows(job(odd))[0][0]
    assert {type(getattr(row, key)) for key in job_rows.SUMS} == {int, float}


ADDRESSES = [
    ("tcp://10.0.0.1:4001", "", "10.0.0.1:4001"),
    ("tls://10.0.0.1:4001", "node07.cluster.local", "node07:4001"),
    ("tcp://10.0.0.1:4001", "10.0.0.1", "10.0.0.1:4001"),
    ("tcp://[::1]:4001", "", "[::1]:4001"),
    ("inproc://10.0.0.1/77/1", "", "10.0.0.1/77/1"),
    ("worker-3", "node", "worker-3"),
    ("a\x1b[2J:1", "", "a\\x1b[2J:1"),
]


@pytest.mark.parametrize(("address", "host", "words"), ADDRESSES)
def test_a_worker_is_called_by_host_and_port(address: str, host: str, words: str) -> None:
    assert job_rows.rows(job(WorkerFigures(address, host, 1)))[0][0].address == words


# ------------------------------------------------------------------ which job leads


def test_a_map_within_a_training_does_not_take_its_place() -> None:
    assert job_rows.first(job_rows.known()) is None
    forgotten = activity.track("map", "lazy")
    fit = activity.track("fit", "mlp")
    fit.worker("tcp://a:1")
    inner = activity.track("map", "validation")
    inner.worker("tcp://a:1")

    def leads() -> str:
        found = job_rows.first(job_rows.known())
        assert found is not None
        return found.name

    assert leads() == "mlp"
    inner.end()
    assert leads() == "mlp"
    fit.end()
    assert leads() == "validation"  # the newest
    forgotten.end()
    assert leads() == "validation"


def test_what_has_ended_makes_room_before_what_runs() -> None:
    first = activity.track("fit", "long")
    for number in range(2 * activity.MAX_JOBS):
        activity.track("map", f"map {number}").end()
    names = [one.name for one in activity.jobs()]
    assert len(names) == activity.MAX_JOBS and "long" in names and "map 15" in names
    seconds = activity.jobs()[0].seconds
    next(reversed(activity._trackers.values())).end()  # a second time
    assert activity.jobs()[0].seconds == seconds
    first.end()


def test_nothing_of_dask_is_loaded_to_look_for_jobs() -> None:
    code = (
        "import sys\n"
        "from kbench.workbench.inspector.inspector import Inspector\n"
        "one = Inspector({}, print)\n"
        "assert one.handle({'id': 1, 'verb': 'jobs'})['data']['jobs'] == []\n"
        "assert one.handle({'id': 1, 'verb': 'plan'})['data']['job'] is None\n"
        "one.cell_started(), one.cell_ended(), one.close()\n"
        "print([name for name in sys.modules if 'dask' in name or name == 'distributed'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


# ------------------------------------------------------------------ in words


HEADLINES = [
    ({}, "fit of model 'mlp': step 120 of 300, 2 workers, 12.3 s"),
    ({"total": None, "steps": 1200}, "fit of model 'mlp': step 1,200, 2 workers, 12.3 s"),
    ({"running": False}, "fit of model 'mlp' ended: step 120 of 300, 2 workers, 12.3 s"),
    ({"seconds": 3723.0}, "fit of model 'mlp': step 120 of 300, 2 workers, 1:02:03"),
    ({"workers": ()}, "fit of model 'mlp': step 120 of 300, no workers yet, 12.3 s"),
    ({"workers": (worker(1, state="lost"),)},
     "fit of model 'mlp': step 120 of 300, 1 worker, 1 lost, 12.3 s"),
    ({"kind": "map", "name": "f"}, "map of 'f': chunk 120 of 300, 2 workers, 12.3 s"),
    ({"name": "a\nb"}, "fit of model 'a\\nb': step 120 of 300, 2 workers, 12.3 s"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), HEADLINES)
def test_headline(change: dict[str, Any], words: str) -> None:
    fields = {"workers": (worker(1), worker(2)), "steps": 120, "total": 300, "seconds": 12.34}
    made = Job(**{"kind": "fit", "name": "mlp", "started": 0.0, **fields, **change})
    assert job_text.headline(job_rows.head(made)) == words


def test_headline_without_its_title() -> None:
    head = job_rows.head(job(worker(1)))
    assert job_text.headline(head, titled=False) == "step 120 of 300, 1 worker, 12.3 s"
    ended = head.replaced(running=False)
    assert job_text.headline(ended, titled=False).startswith("ended: step 120 of 300")


def test_remarks_name_a_few_and_count_the_others() -> None:
    workers = [worker(number) for number in range(1, 20)]
    workers[0] = worker(1, state="lost")
    made = job(*workers, note="one machine would be faster: 9 ms against 40 ms.")
    rows = job_rows.rows(made)[0]
    note = "one machine would be faster: 9 ms against 40 ms"
    assert job_text.remarks(job_rows.head(made), rows) == ["w1 is lost", note]
    for number in range(1, 6):
        workers[number] = worker(number + 1, 2.0 + number)
    workers[10] = worker(11, state="lost")
    rows = job_rows.rows(job(*workers))[0]
    assert job_text.remarks(job_rows.head(job(*workers)), rows) == [
        "w1 and w11 are lost",
        "w6, w5, w4 and 2 more are slow: w6 takes 7.0 times the median per row",
    ]


def test_a_job_in_one_sentence_when_it_begins_and_when_it_ends() -> None:
    news = JobNews()
    assert news() == []
    tracker = activity.track("fit", "mlp", 300)
    tracker.worker("tcp://a:1")
    (told,) = news()
    assert told.startswith("fit of model 'mlp': step 0 of 300, 1 worker") and news() == []
    tracker.say("one machine would be faster")
    tracker.end()
    activity.track("map", "f").end()
    ended, other = news()
    assert ended.endswith("s; one machine would be faster") and "map of 'f' ended" in other
    assert news() == []
