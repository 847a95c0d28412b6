"""Watched expressions: values, refusals, that nothing changes, and that nobody waits."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kbench as K
from kbench.engine.runtime import config
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.kernel import sandbox
from kbench.workbench.kernel.sandbox import Sandbox
from kbench.workbench.protocol.findings import WatchRow
from kbench.workbench.watches import expressions, watches
from kbench.workbench.watches.value_text import value_text
from kbench.workbench.watches.watches import Watches


@pytest.fixture(autouse=True)
def enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not make a quick watch slow."""
    monkeypatch.setattr(watches, "BUDGET_SECONDS", 20.0)


@pytest.fixture
def names() -> dict[str, Any]:
    w = K.variable([[1.0, 2.0], [3.0, 4.0]], name="w")
    x = K.placeholder((None, 2), name="x")
    return {
        "K": K,
        "np": np,
        "random": random,
        "w": w,
        "x": x,
        "loss": K.mean(K.square(w)),
        "z": K.dot(x, w) * 2,
        "noise": K.random_normal((2,), seed=3),
        "h": np.arange(4.0),
        "items": [1, 2],
        "stream": iter([1]),
        "step": K.function([], [w], updates=[K.update_add(w, K.ones((2, 2)))]),
        "drawn": lambda: np.random.rand() + random.random(),
    }


@pytest.fixture
def board(names: dict[str, Any]) -> Iterator[Watches]:
    made = Watches(lambda: names)
    yield made
    made.close()


def row(board: Watches, expression: str, force: bool = False) -> WatchRow:
    return board.evaluate_now([expression], [expression] if force else [])[0]


VALUES = [
    ("loss", "value", "7.5"),
    ("w", "value", "float32[2, 2]  mean 2.5 [1 .. 4]"),
    ("K.std(h)", "value", "1.118"),
    ("h", "value", "[0, 1, 2, 3]"),
    ("w[0, 1]", "value", "2"),
    ("np.sort(h)[-1]", "value", "3"),
    ("items + ['a']", "value", "[1, 2, 'a']"),
    ("{'a': 1}", "value", "dict of 1"),
    ("(h.shape, None)", "value", "(tuple of 1, None)"),
    ("np.zeros((2, 0))", "value", "float64[2, 0] empty"),
    ("np.array([1, np.nan] * 9)", "value", "float64[18]  all 1  NaN 9!"),
    ("z", "spec", "float32[?, 2]"),
    ("x", "spec", "float32[?, 2]"),
    ("nope", "error", "NameError: name 'nope' is not defined"),
    ("1 / 0", "error", "ZeroDivisionError: division by zero"),
    ("w[7]", "error", "ShapeError: index 7 is out of range for axis 0 of float32[2, 2]"),
]


@pytest.mark.parametrize(("expression", "state", "text"), VALUES)
def test_values_and_errors(board: Watches, expression: str, state: str, text: str) -> None:
    found = row(board, expression)
    assert (found.state, found.text) == (state, text) and found.current


def test_a_symbol_says_by_the_users_names_what_must_be_fed(
    board: Watches, names: dict[str, Any]
) -> None:
    assert row(board, "z").note == "needs x"
    names["images"] = names.pop("x")
    board.cell_ended()
    assert row(board, "z").note == "needs images"


def test_a_symbol_is_computed_on_what_was_fed_last(names: dict[str, Any]) -> None:
    given: dict[Any, Any] = {}
    board = Watches(
        lambda: names, fed=lambda nodes: {one: given[one] for one in nodes if one in given}
    )
    try:
        assert (row(board, "z").state, row(board, "x").state) == ("spec", "spec")
        given[names["x"]] = np.ones((1, 2), "float32")
        board.cell_ended()
        found = row(board, "z[0]")
        assert (found.state, found.text, found.note) == ("value", "[8, 12]", "as fed last")
        found = row(board, "x[0]")
        assert (found.state, found.text, found.note) == ("value", "[1, 1]", "as fed last")
        assert "all 1" in row(board, "x").text and row(board, "x").before == ""
        given[names["x"]] = np.zeros((1, 2), "float32")
        board.cell_ended()
        found = row(board, "z[0]")
        assert (found.before, found.text, found.changed) == ("[8, 12]", "[0, 0]", True)
    finally:
        board.close()


REFUSED = [
    ("", "an expression is needed"),
    ("a = 1", "this is a statement"),
    ("del w", "this is a statement"),
    ("import os", "this is a statement"),
    ("(a := 1)", "would bind a name"),
    ("(yield)", "belongs into a function"),
    ("[await one for one in items]", "would wait"),
    ("1 +", "not Python"),
    ("(" * 300 + ")" * 300, "not Python"),
    ("x" * 2000, "at most"),
    ("items.append(3)", "append() may change"),
    ("h.sort()", "sort() may change"),
    ("h.fill(0)", "fill() may change"),
    ("np.add(h, 1, out=h)", "'out='"),
    ("np.copyto(h, 0)", "copyto() may change"),
    ("np.random.rand()", "numbers drawn here"),
    ("np.random", "numbers drawn here"),
    ("random.random()", "numbers drawn here"),
    ("stream", "is an iterator"),
    ("list(stream)", "is an iterator"),
    ("exec('items.clear()')", "exec() may change"),
    ("print(1)", "print() may change"),
    ("__import__('os')", "__import__() may change"),
    ("items.__setitem__(0, 5)", "__setitem__() may change"),
    ("w.set_value(0)", "set_value() may change"),
    ("K.print_tensor(w)", "print_tensor() may change"),
]


@pytest.mark.parametrize(("expression", "words"), REFUSED)
def test_what_the_text_shows_to_change_something_is_refused(
    board: Watches, names: dict[str, Any], expression: str, words: str
) -> None:
    found = row(board, expression)
    assert found.state == "refused" and words in found.text
    assert names["items"] == [1, 2] and names["h"].tolist() == [0, 1, 2, 3]
    assert next(names["stream"]) == 1


ENGINE_REFUSES = [
    ("step([])", "store to variable 'w"),
    ("K.set_value(w, [[0, 0], [0, 0]])", "store to variable 'w"),
    ("K.update(w, w * 2)", "store to variable 'w"),
    ("K.batch_set_value([(w, [[0, 0], [0, 0]])])", "store to variable 'w"),
    ("K.set_epsilon(0.5)", "set epsilon"),
    ("K.set_floatx('float64')", "set floatx"),
    ("K.set_learning_phase(1)", "set the learning phase"),
    ("K.clear_session()", "clear the session"),
    ("K.get_uid('dense')", "count a uid"),
    ("K.reset_uids()", "start the uids again"),
]


@pytest.mark.parametrize(("expression", "words"), ENGINE_REFUSES)
def test_the_engine_refuses_what_only_running_shows(
    board: Watches, names: dict[str, Any], expression: str, words: str
) -> None:
    before = config.snapshot()
    found = row(board, expression)
    assert found.state == "error" and words in found.text
    assert names["w"].version == 0 and K.get_value(names["w"]).tolist() == [[1, 2], [3, 4]]
    assert config.snapshot() == before


def test_a_watch_leaves_the_programs_random_numbers_alone(
    board: Watches, names: dict[str, Any]
) -> None:
    noise, again = names["noise"], K.random_normal((2,), seed=3)
    np.random.seed(5)
    random.seed(5)
    shown = [row(board, one).text for one in ("noise", "K.random_uniform((2,))", "drawn()")]
    drawn = (np.random.rand(), random.random())
    np.random.seed(5)
    random.seed(5)
    assert drawn == (np.random.rand(), random.random())
    assert K.eval(noise).tolist() == K.eval(again).tolist()
    assert "drew random numbers" in shown[2]
    board.cell_ended()
    assert row(board, "drawn()", force=True).state == "refused"


def test_what_other_threads_draw_is_not_laid_to_a_watch(
    board: Watches, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as one draws, nobody can say; when it rests, the watch is evaluated."""
    monkeypatch.setattr(sandbox, "REST_SECONDS", 0.2)  # for a busy machine
    ends = threading.Event()

    def draw() -> None:
        while not ends.wait(1e-4):
            random.random()

    drawing = threading.Thread(target=draw)
    drawing.start()
    names["slowly"] = lambda: time.sleep(0.1) or 3
    found = row(board, "slowly()")
    ends.set()
    drawing.join()
    assert found.state == "refused" and "another thread draws" in found.text
    board.cell_ended()
    assert row(board, "slowly()").text == "3"


def test_watches_of_two_boards_do_not_take_each_others_draws(
    board: Watches, names: dict[str, Any]
) -> None:
    """One evaluates what draws, the other what does not; the program's numbers stay."""
    names["slowly"] = lambda: time.sleep(0.002) or 3
    names["draws"] = lambda: (random.random(), time.sleep(0.001), np.random.rand())[0]
    other = Watches(lambda: names)
    before = random.getstate(), np.random.get_state()[2]
    rows: list[WatchRow] = []
    drawers = [f"draws() + {number}" for number in range(20)]
    beside = threading.Thread(target=lambda: rows.extend(other.evaluate_now(drawers)))
    beside.start()
    found = set()
    while beside.is_alive():
        board.cell_ended()
        found.add(row(board, "slowly()").text)
    other.close()
    assert found == {"3"}
    assert {one.state for one in rows} == {"refused"}
    assert (random.getstate(), np.random.get_state()[2]) == before


def test_a_closed_inspector_undoes_no_draws_of_what_follows(names: dict[str, Any]) -> None:
    """What a watch still does when its widget is closed is stopped, and restores nothing later."""
    inspector = Inspector(names)
    sandbox, begun = inspector.sandbox, threading.Event()

    def deaf() -> None:
        begun.set()
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            with contextlib.suppress(BaseException):
                time.sleep(0.01)

    running = threading.Thread(target=lambda: sandbox.run(deaf, 5.0))
    running.start()
    assert begun.wait(30)
    inspector.close()
    drawn = random.random(), np.random.rand()
    running.join()
    assert (random.random(), np.random.rand()) != drawn


def test_another_thread_that_draws_meanwhile_bans_no_watch(
    board: Watches, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    restore, times = sandbox._RandomState.restore, []

    def drawn_elsewhere(state: Any) -> bool:
        times.append(restore(state))
        return len(times) == 1

    monkeypatch.setattr(sandbox._RandomState, "restore", drawn_elsewhere)
    names["calm"] = K.constant([1.0, 2.0])
    shown = row(board, "calm").text
    assert len(times) == 2 and shown == "[1, 2]"


def test_a_watch_leaves_names_records_and_last_values_alone(
    board: Watches, names: dict[str, Any]
) -> None:
    K.mean(names["w"], axis=0)
    with K.record() as runs:
        row(board, "loss")
        row(board, "K.mean(w)")
    assert runs == [] and names["loss"].last is None
    first = K.mean(names["w"]).name
    row(board, "K.mean(w) + 1")
    second = K.mean(names["w"]).name
    assert int(second[:-2].rpartition("_")[2]) - int(first[:-2].rpartition("_")[2]) == 1


def test_old_and_new_value_stand_side_by_side(board: Watches, names: dict[str, Any]) -> None:
    assert row(board, "loss").before == ""
    names["w"].set_value([[0.0, 0.0], [0.0, 2.0]])
    board.stored()
    found = row(board, "loss")
    assert (found.before, found.text, found.changed) == ("7.5", "1", True)
    assert row(board, "loss").changed, "nothing has happened since"
    board.cell_ended()
    found = row(board, "loss")
    assert (found.before, found.text, found.changed) == ("7.5", "1", False)


def test_a_watch_is_evaluated_only_when_something_has_changed(names: dict[str, Any]) -> None:
    calls: list[int] = []
    names["count"] = lambda: calls.append(1) or len(calls)
    board = Watches(lambda: names)
    for happen in (
        lambda: None,
        board.cell_ended,
        lambda: config.notify_changed("epsilon"),
        board.stored,
    ):
        happen()
        row(board, "count()")
        row(board, "count()")
    assert len(calls) == 4


def test_the_last_values_of_a_scalar_are_kept(names: dict[str, Any]) -> None:
    board = Watches(lambda: names)
    seen: list[Any] = [3, 2.5, float("nan"), np.float32(1), np.array([[7]])]
    for value in seen:
        names["it"] = value
        board.cell_ended()
        found = row(board, "it")
    assert found.history == [3.0, 2.5, None, 1.0, 7.0]
    names["it"] = np.zeros(3)
    board.cell_ended()
    assert row(board, "it").history is None
    for value in range(3 * watches.MAX_HISTORY):
        names["it"] = value
        board.cell_ended()
        found = row(board, "it")
    assert found.history is not None and len(found.history) == watches.MAX_HISTORY
    assert found.history[-1] == 3 * watches.MAX_HISTORY - 1


NUMBERS = [
    (True, None), ("1", None), (2, 2.0), (10**400, float("inf")), (1 + 2j, None), (None, None),
    (np.int8(-3), -3.0), (np.zeros((1, 1)), 0.0), (np.zeros(0), None), (np.array([True]), None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "number"), NUMBERS)
def test_what_is_a_scalar(value: object, number: float | None) -> None:
    assert watches.number_of(value) == number


CHEAP = [
    ("loss", True), ("items[-1]", True), ("len(items) + 1", True), ("K.mean(w)", True),
    ("w.mean()", True), ("np.max(h) - h.min()", True), ("model.history['loss'][-1]", True),
    ("own()", False), ("own", True), ("items.index(2)", False), ("[one for one in h]", False),
    ("(lambda: 1)()", False), ("sorted(items)", False), ("len(own())", False), ("1 +", False),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "cheap"), CHEAP)
def test_what_may_be_looked_at_while_a_cell_runs(
    names: dict[str, Any], expression: str, cheap: bool
) -> None:
    names["own"] = lambda: 3
    assert expressions.is_cheap(expression, names) is cheap


@pytest.fixture
def enough_time_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an idle machine."""
    monkeypatch.setattr(watches, "LIVE_SECONDS", 20.0)
    monkeypatch.setattr(watches, "LIVE_BUDGET_SECONDS", 20.0)


def test_cheap_watches_are_looked_at_beside_a_cell(
    names: dict[str, Any], enough_time_to_look: None
) -> None:
    calls: list[int] = []
    names.update(step=1, own=lambda: calls.append(1) or len(calls))
    sandbox = Sandbox()
    board = Watches(lambda: names, None, sandbox)
    wanted = ["step", "own()", "nope"]
    board.evaluate_now(wanted)
    assert board.look(wanted) == []  # no cell runs
    sandbox.block()
    assert not any(one.live for one in board.ask(wanted))
    for step in (2, 3):
        names["step"] = step
        (found,) = board.look(wanted)
        assert (found.expression, found.text, found.live) == ("step", str(step), True)
    assert found.before == "1" and found.changed and found.history is not None
    assert found.history[-1] == 3.0
    assert len(calls) == 1, "a function of the user's is not called beside the cell"
    sandbox.unblock()
    board.cell_ended()
    found = row(board, "step")
    assert (found.before, found.text, found.changed, found.live) == ("1", "3", True, False)
    assert len(calls) == 1
    board.close()


def test_both_ways_to_look_keep_the_value_from_before_the_cell(
    names: dict[str, Any], enough_time_to_look: None
) -> None:
    names["step"] = 1
    sandbox = Sandbox()
    board = Watches(lambda: names, None, sandbox)
    board.evaluate_now(["step"])
    sandbox.block()
    names["step"] = 2
    board.look(["step"])
    names["step"] = 3
    board.stored()
    (found,) = board.sample(["step"])
    assert (found.text, found.before, found.live) == ("3", "1", True)
    sandbox.unblock()
    board.cell_ended()
    assert row(board, "step").before == "1"
    board.close()


def test_an_error_gives_way_to_a_value_while_a_cell_runs(
    names: dict[str, Any], enough_time_to_look: None
) -> None:
    sandbox = Sandbox()
    board = Watches(lambda: names, None, sandbox)
    names["items"] = []
    assert board.evaluate_now(["items[-1]"])[0].state == "error"
    sandbox.block()
    for value, before in ((5, ""), (6, "5")):
        names["items"].append(value)
        (found,) = board.look(["items[-1]"])
        assert (found.state, found.text, found.before) == ("value", str(value), before)
    board.close()


HISTOGRAMS = [
    ("np.arange(64.0)", 64),
    ("np.array([np.nan] * 3 + [1.0] * 5 + [2.0])", 6),
    ("w", None),  # shown whole, or nearly
    ("np.array(['a'] * 9)", None),
    ("3.5", None),
    ("np.full(9, np.nan)", None),
]


@pytest.mark.parametrize(("expression", "count"), HISTOGRAMS)
def test_an_array_has_a_histogram(board: Watches, expression: str, count: int | None) -> None:
    found = row(board, expression).histogram
    assert (None if found is None else sum(found)) == count


def wait_for(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30.0
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


def test_a_slow_watch_is_stopped_and_evaluated_when_asked_for(
    board: Watches, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "BUDGET_SECONDS", 0.05)
    go = threading.Event()
    names["slow"] = lambda: next(iter(int, 1) if not go.is_set() else iter([42]))
    names["forever"] = lambda: [one for one in iter(int, 1) if one]
    assert row(board, "forever()").state == "slow"
    board.cell_ended()
    again = row(board, "forever()")
    assert again.state == "slow" and not again.current, "it sits one change out"
    monkeypatch.setattr(watches, "FORCED_BUDGET_SECONDS", 20.0)
    names["forever"] = lambda: 42
    found = row(board, "forever()", force=True)
    assert (found.state, found.text, found.current) == ("value", "42", True)


def test_a_cell_that_begins_stops_a_watch(names: dict[str, Any]) -> None:
    sandbox, started = Sandbox(), threading.Event()
    names["forever"] = lambda: started.set() or [one for one in iter(int, 1) if one]
    board = Watches(lambda: names, sandbox=sandbox)
    ended: list[Any] = []
    asking = threading.Thread(target=lambda: ended.append(row(board, "forever()", force=True)))
    asking.start()
    assert started.wait(30.0)
    began = time.perf_counter()
    sandbox.block()
    assert time.perf_counter() - began < 5.0
    asking.join(30.0)
    assert ended and ended[0].state == "new"
    assert row(board, "loss").state == "new", "nothing is evaluated while a cell runs"
    sandbox.unblock()
    assert row(board, "loss").text == "7.5"


def test_stopping_a_watch_does_not_stop_the_program(names: dict[str, Any]) -> None:
    sandbox = Sandbox()
    big = K.variable(np.ones((200, 200)))
    names["many"] = K.function([], [K.sum(K.exp(big) * big)])
    board = Watches(lambda: names, sandbox=sandbox)
    names["forever"] = lambda: [names["many"]([]) for _ in iter(int, 1)]
    asking = threading.Thread(target=lambda: row(board, "forever()", force=True))
    asking.start()
    assert wait_for(lambda: sandbox._job is not None)
    sandbox.block()
    results = [names["many"]([])[0] for _ in range(20)]
    asking.join(30.0)
    assert len({float(one) for one in results}) == 1


def test_what_is_told_later_comes_without_waiting(names: dict[str, Any]) -> None:
    told: list[dict[str, Any]] = []
    board = Watches(lambda: names, told.extend)
    assert [one.state for one in board.ask(["loss", "nope"])] == ["new", "new"]
    assert wait_for(lambda: len(told) == 2)
    assert [one.state for one in told] == ["value", "error"]
    assert [one.state for one in board.ask(["loss", "nope"])] == ["value", "error"]
    board.close()


class Loud:
    """Raises from whatever is asked of it."""

    def __repr__(self) -> str:
        raise AssertionError("asked")

    __str__ = __len__ = __iter__ = __repr__  # type: ignore[assignment]


TEXTS = [
    (Loud(), "Loud"),
    ([Loud()], "[Loud]"),
    ("a\x1b]0;b", "'a\\x1b]0;b'"),
    (True, "True"),
    (3 + 4j, "(3+4j)"),
    (np.float32("nan"), "NaN"),
    (range(3), "range of 3"),
    ([[1, 2], [3]], "[list of 2, list of 1]"),
    ([1] * 40, "list of 40"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_values_as_words(value: object, text: str) -> None:
    assert value_text(value) == text


def test_names_that_hide_builtins_are_the_users() -> None:
    assert expressions.compiled("print(1)", {"print": abs})
