"""What is sampled while a cell runs: how often, what share of the time, and on whose thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine.inspect import describe
from kbench.engine.runtime import profile
from kbench.workbench.inspector import gradient_verbs
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.kernel import live_sampling
from kbench.workbench.kernel.live_sampling import MAX_SHARE, QUIET_SECONDS, RATE, LiveSampling
from kbench.workbench.watches import watches

STORES = (SimpleNamespace(updates=[1]), [], [])
LOOKS = (SimpleNamespace(updates=[]), [], [])


class Clock:
    """A time that only the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def sampling(clock: Clock, seconds: float) -> tuple[LiveSampling, list[float]]:
    """A sampling of which each sample takes some seconds; the times of the samples."""
    taken: list[float] = []

    def action() -> None:
        taken.append(clock.now)
        clock.now += seconds

    live = LiveSampling(clock)
    live.add(action)
    return live, taken


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.006, 0.02, 0.5])
def test_the_rate_and_the_share_of_the_time_are_bounded(seconds: float) -> None:
    clock = Clock()
    live, taken = sampling(clock, seconds)
    live.cell_started()
    began = clock.now
    for _ in range(30_000):  # calls of a millisecond
        clock.now += 0.001
        profile.call_ended.emit(STORES)
    live.cell_ended()
    total = clock.now - began
    assert 1 <= len(taken) <= total * RATE
    assert len(taken) * seconds <= MAX_SHARE * total + seconds
    assert len(taken) >= min(RATE, MAX_SHARE / max(seconds, 1e-9)) * total * 0.9 - 1


def test_calls_are_told_of_only_while_it_is_of_use() -> None:
    live = LiveSampling(Clock())
    live.cell_started()
    assert not profile.call_ended  # nothing is on show
    remove, other = live.add(lambda: None), live.add(lambda: None)
    assert len(profile.call_ended.listeners) == 1
    remove()
    assert profile.call_ended
    live.cell_ended()
    assert not profile.call_ended
    live.cell_started()
    assert profile.call_ended
    other()
    assert not profile.call_ended


def test_only_calls_of_the_program_that_store_are_followed() -> None:
    clock = Clock()
    live, taken = sampling(clock, 0.0)
    profile.call_ended.emit(STORES)  # no cell runs
    live.cell_started()
    clock.now += 1.0
    profile.call_ended.emit(LOOKS)
    other = threading.Thread(target=profile.call_ended.emit, args=(STORES,))
    other.start()
    other.join()
    assert taken == []
    profile.call_ended.emit(STORES)
    assert taken == [101.0]
    live.cell_ended()
    clock.now += 1.0
    profile.call_ended.emit(STORES)
    assert taken == [101.0] and not profile.call_ended


def test_where_no_call_comes_a_look_beside_the_program_takes_its_place() -> None:
    clock, taken, looks = Clock(), [], []  # type: ignore[var-annotated]
    live = LiveSampling(clock)

    def look() -> None:
        looks.append(clock.now)
        clock.now += 0.01

    live.add(lambda: taken.append(clock.now))
    live.cell_started()
    live._thread = threading.current_thread()  # looks are the test's
    live.add(lambda: taken.append(clock.now), look)
    for _ in range(200):  # calls come: there is no need to look
        clock.now += 1 / RATE
        profile.call_ended.emit(STORES)
        live.look()
    assert len(taken) == 400 and looks == []
    began = clock.now
    while clock.now < began + 60:
        clock.now += 0.05
        live.look()
    assert 0.9 * MAX_SHARE < len(looks) * 0.01 / 60 <= MAX_SHARE
    assert looks[0] - began >= QUIET_SECONDS
    live.cell_ended()
    live.close()


def test_what_follows_a_cell_ends_with_it() -> None:
    clock, taken = Clock(), []  # type: ignore[var-annotated]
    live = LiveSampling(clock)
    live.follow_cell("watch", lambda: taken.append("early"))  # the cell begins in a moment
    live.cell_started()
    live.follow_cell("watch", lambda: taken.append("later"))
    live.follow_cell("node", lambda: taken.append("node"))
    clock.now += 1.0
    profile.call_ended.emit(STORES)
    assert sorted(taken) == ["later", "node"]
    live.cell_ended()
    live.cell_started()
    assert not profile.call_ended  # nobody follows the next one
    live.close()


def test_a_thread_looks_beside_a_loop_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_sampling, "QUIET_SECONDS", 0.005)
    monkeypatch.setattr(live_sampling, "RATE", 200)
    live, looked = LiveSampling(), threading.Event()
    live.add(lambda: None, looked.set)
    live.cell_started()
    assert looked.wait(30)
    live.cell_ended()
    live.close()


def test_an_interrupt_of_a_sample_does_not_end_the_sampling() -> None:
    clock, count = Clock(), [0]

    def action() -> None:
        count[0] += 1
        if count[0] == 1:
            raise KeyboardInterrupt

    live = LiveSampling(clock)
    live.add(action)
    live.cell_started()
    clock.now += 1.0
    with pytest.raises(KeyboardInterrupt):
        profile.call_ended.emit(STORES)
    clock.now += 1.0
    profile.call_ended.emit(STORES)
    live.cell_ended()
    assert count == [2]


def test_an_action_that_fails_is_told_of_once_and_hinders_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    live, taken = sampling(clock, 0.0)

    def fails() -> None:
        raise ValueError("no")

    remove = live.add(fails)
    live.cell_started()
    for _ in range(3):
        live.add(lambda: taken.append(0.0))()  # added and removed
        clock.now += 1.0
        profile.call_ended.emit(STORES)
    remove()
    live.cell_ended()
    assert taken == [101.0, 102.0, 103.0]
    assert [record.getMessage() for record in caplog.records] == [
        "what is on show could not be followed"
    ]


# ------------------------------------------------------------------ what an inspector samples


@pytest.fixture
def served() -> Iterator[tuple[Inspector, dict[str, Any]]]:
    x = K.placeholder((None, 2), name="x")
    w = K.variable(np.ones((2, 1)), name="w")
    loss = K.mean(K.square(K.dot(x, w)))
    names = {
        "K": K, "x": x, "w": w, "loss": loss, "data": np.ones((4, 2)),
        "train": K.function([x], [loss], [(w, w * 0.999)], name="train"),
    }  # fmt: skip
    inspector = Inspector(names)
    inspector.recorder.keep_feeds()
    inspector.cell_started()
    yield inspector, names
    inspector.cell_ended()
    inspector.close()
    K.clear_session()


def sampled(inspector: Inspector, names: dict[str, Any], action: Any) -> Any:
    """What an action gives behind the next call."""
    found: list[Any] = []
    remove = inspector.sampling.add(lambda: found.append(action()))
    inspector.sampling._due = 0.0
    names["train"]([names["data"]])
    remove()
    (value,) = found
    return value


Served = tuple[Inspector, dict[str, Any]]


def test_watches_are_those_of_the_step_between(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspector, names = served
    monkeypatch.setattr(watches, "BUDGET_SECONDS", 30.0)
    doubled = "float(K.get_value(w)[0, 0]) * 2"
    wanted = ["K.sum(w)", doubled, "len(", "K.dot(x, w)", "train([data])", "np.random.rand()"]
    for _ in range(2):
        told = sampled(inspector, names, lambda: inspector.sample_watches(wanted))
        rows = {row.expression: row for row in told}
        now = float(K.get_value(names["w"])[0, 0])
        assert rows["K.sum(w)"].text == rows[doubled].text == describe.number(2 * now)
        assert rows["len("].state == "refused" and rows["train([data])"].state == "error"
        assert rows["K.dot(x, w)"].note == "as fed last"
    assert rows["K.sum(w)"].changed and rows["K.sum(w)"].before


def test_gradients_are_those_of_the_step_between(served: Served) -> None:
    inspector, names = served
    for loss in ("loss", ""):
        data = sampled(inspector, names, lambda loss=loss: inspector.sample_gradients(loss))
        w = float(K.get_value(names["w"])[0, 0])
        assert data["loss"] == "loss"
        assert data["rows"][0]["max"] == pytest.approx(2 * (w + w), rel=1e-5)
    assert sampled(inspector, names, lambda: inspector.sample_gradients("w"))["error"]


class Front:
    """A front end that asks an inspector and keeps what it is told."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        take = lambda message: self.told.append((message["push"], message["data"]))  # noqa: E731
        self.inspector = Inspector(names, take)
        self.inspector.recorder.keep_feeds()

    def ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        return self.inspector.handle({"id": 1, "verb": verb, **arguments})

    def step(self, names: dict[str, Any]) -> None:
        """One call, behind which there is a sample."""
        self.inspector.sampling._due = 0.0
        names["train"]([names["data"]])


def test_a_front_end_that_asks_follows_the_cell(served: Served) -> None:
    _, names = served
    front = Front(names)
    names["train"]([names["data"]])
    graph = front.ask("graph", name="loss", start=0)["data"]["rows"]
    node = next(row for row in graph if row["op"] == "square")
    asked = {"name": "loss", "number": node["id"], "node": node["name"]}
    front.inspector.cell_started()
    front.ask("watch", expressions=["K.dot(x, w)", "K.sum(w)"], live=True)
    assert front.ask("node", **asked, live=True)["error"]["kind"] == "busy"
    assert front.ask("gradient", loss="loss", live=True)["data"]["state"] == "held"
    seen = []
    for _ in range(2):
        front.told.clear()
        front.step(names)
        seen.append(dict(front.told))
        assert set(seen[-1]) == {"watch", "node", "gradient"}
    for told in seen:
        rows = {row["expression"]: row for row in told["watch"]["rows"]}
        assert rows["K.sum(w)"]["live"] and rows["K.dot(x, w)"]["live"]
    now = float(K.get_value(names["w"])[0, 0])
    row = seen[1]["node"]["row"]
    assert (
        row["max"] == pytest.approx((2 * now) ** 2, rel=1e-5) and "live" in seen[1]["node"]["words"]
    )
    assert rows["K.sum(w)"]["text"] == describe.number(2 * now)
    front.inspector.cell_ended()
    front.told.clear()
    front.step(names)
    assert front.told == []  # no cell runs
    front.inspector.close()


def test_what_is_slow_waits_for_the_end_of_the_cell(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspector, names = served
    names["sleep"] = time.sleep
    look = ["sleep(30)"]
    began = time.monotonic()
    for _ in range(watches.MAX_LIVE_MISSES + 1):
        watch = inspector._watch_verbs.watches._watch(*look)
        watch.skip = 0
        (row,) = sampled(inspector, names, lambda: inspector.sample_watches(look))
        assert row.state == "slow"
    assert sampled(inspector, names, lambda: inspector.sample_watches(look)) == []
    assert time.monotonic() - began < 20  # the program went on
    monkeypatch.setattr(gradient_verbs, "LIVE_BUDGET_SECONDS", 0.0)
    assert sampled(inspector, names, lambda: inspector.sample_gradients("loss"))
    assert sampled(inspector, names, lambda: inspector.sample_gradients("loss")) is None
