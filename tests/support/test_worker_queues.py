"""The order in which workers get files: each its own kind first, the longest first, all of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from worker_queues import QUICK_SECONDS, SLOW_SECONDS, WorkerQueues, is_for_interfaces

LONG, SHORT = "tests/engine/ops/test_ops.py", "tests/engine/x/test_short.py"
WAITS = "tests/tui/test_waits.py"


class Worker:
    """Notes what it is given; `done` says that its next test is over."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.shutting_down = False
        self.given: list[int] = []

    def send_runtest_some(self, places: list[int]) -> None:
        self.given += places

    def shutdown(self) -> None:
        self.shutting_down = True


def queues(tests: list[str], workers: list[Worker], marks: str = "not slow") -> Any:
    option = SimpleNamespace(loadscopereorder=True)
    given = {"tx": ["popen"] * len(workers), "markexpr": marks}
    config: Any = SimpleNamespace(option=option, getvalue=given.get, getoption=given.get)
    made = WorkerQueues(config)
    for one in workers:
        made.add_node(one)
        made.add_node_collection(one, tests)
    made.schedule()
    return made


def test_the_files_in_the_table_are_there(root: Path) -> None:
    assert [name for name in {**QUICK_SECONDS, **SLOW_SECONDS} if not (root / name).is_file()] == []


def test_each_begins_with_its_own_kind_and_the_longest() -> None:
    tests = [f"{file}::test[{n}]" for file in (SHORT, WAITS, LONG) for n in range(4)]
    workers = [Worker(0), Worker(1)]
    made = queues(tests, workers)
    assert [[tests[place].partition("::")[0] for place in one.given] for one in workers] == [
        [LONG] * 4,
        [WAITS] * 4,
    ]
    for place in workers[1].given[:2]:  # it has two left, and gets what is left of the other kind
        made.mark_test_complete(workers[1], place)
    assert workers[1].given == [4, 5, 6, 7, 0, 1, 2, 3]
    for one, places in zip(workers, ([8, 9, 10], [6, 7, 0, 1, 2]), strict=True):
        assert not made.tests_finished
        for place in places:
            made.mark_test_complete(one, place)
    assert made.tests_finished and all(one.shutting_down for one in workers)


def test_what_a_lost_worker_had_is_given_to_another() -> None:
    tests = [f"{file}::test[{n}]" for file in (LONG, WAITS) for n in range(3)]
    workers = [Worker(0), Worker(1)]
    made = queues(tests, workers)
    made.mark_test_complete(workers[1], 3)
    assert made.remove_node(workers[1]) == tests[4]
    assert list(made.workqueue) == [WAITS]


def test_slow_tests_have_an_order_of_their_own() -> None:
    first, second = "tests/engine/ops/test_tiers.py", LONG
    tests = [f"{file}::test" for file in (second, first)]
    for marks, given in (("not slow", [0, 1]), ("slow", [1, 0])):
        worker = Worker(0)
        queues(tests, [worker], marks)
        assert worker.given == given


def test_every_second_worker_is_for_interfaces() -> None:
    assert [is_for_interfaces(f"gw{number}") for number in range(4)] == [False, True, False, True]
