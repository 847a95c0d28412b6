"""The same expectations of a real kernel and of the in-process shell."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from session_helpers import WAIT, Watched, make, replied

from kbench.workbench.history import journal
from kbench.workbench.session import events
from kbench.workbench.session.kernel_session import KernelSession
from kbench.workbench.session.local_session import LocalSession
from kbench.workbench.session.session_interface import Session


@pytest.fixture(scope="module", params=[KernelSession, LocalSession], ids=["kernel", "local"])
def both(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Watched]:
    watched = make(request.param, tmp_path_factory.mktemp("journal"))
    yield watched
    watched.session.shutdown()


def test_a_cell_prints_shows_and_counts(both: Watched) -> None:
    cell, done = both.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    assert done.ok and done.status == "ok" and done.count is not None
    assert (both.text(cell), both.text(cell, "stderr")) == ("out\n", "err\n")
    (result,) = both.of(events.Result, cell)
    assert (result.text, result.count) == ("42", done.count)


def test_k_is_there_and_not_among_the_names(both: Watched) -> None:
    both.run("shown = K.variable([1.0, 2.0])\nK.eval(shown)")
    reply = replied(both.session, "summary")
    keys = {row["key"] for row in reply["data"]["rows"]}
    assert reply["ok"] and "shown" in keys and not {"K", "In", "Out", "exit"} & keys


def test_k_and_input_are_there_again_after_a_reset(both: Watched) -> None:
    def said(code: str) -> str:
        cell, done = both.run(code)
        assert done.ok
        return str(both.of(events.Result, cell)[0].text)

    before = said("mine = 1\ninput.__qualname__")
    _, done = both.run("%reset -f")
    assert done.ok
    assert said("K.epsilon(), 'mine' in globals()") == "(1e-07, False)"
    assert said("input.__qualname__") == before
    assert {"K", "input"}.isdisjoint(
        row["key"] for row in replied(both.session, "summary")["data"]["rows"]
    )


def test_a_tensor_that_needs_no_feed_shows_its_value(both: Watched) -> None:
    cell, _ = both.run("K.softmax(K.variable([[1., 2.]], name='v'))")
    (result,) = both.of(events.Result, cell)
    assert "float32[1, 2] 8 B  [0.2689, 0.7311]  softmax(v" in result.text


def test_displays_come_before_the_result(both: Watched) -> None:
    cell, _ = both.run("from IPython.display import display\ndisplay(1)\n2")
    shown = both.of(events.Result, cell)
    assert [(one.text, one.count is None) for one in shown] == [("1", True), ("2", False)]


def test_a_later_display_takes_the_place_of_its_id(both: Watched) -> None:
    """In every cell that shows it; one that was never shown is shown nowhere."""
    code = "from IPython.display import display, update_display\n"
    first, _ = both.run(code + "h = display('a', display_id='x'); print('p'); display('b')")
    second, _ = both.run("h.display('c')\nh.update('d')\nupdate_display('e', display_id='never')")
    shown = {
        cell: [one.text for one in both.session.cells[cell].outputs] for cell in (first, second)
    }
    assert shown == {first: ["'d'", "p\n", "'b'"], second: ["'d'"]}


def test_a_cell_clears_what_it_has_shown(both: Watched) -> None:
    code = "from IPython.display import clear_output, display\n"
    cell, _ = both.run(code + "print('a'); display('b'); clear_output(); display('c')")
    assert [one.text for one in both.session.cells[cell].outputs] == ["'c'"]


def test_an_error_names_itself_and_the_next_cell_runs(both: Watched) -> None:
    first = both.session.execute("1/0")
    second = both.session.execute("'after'")
    assert both.done(first).status == "error" and both.done(second).ok
    (error,) = both.of(events.Error, first)
    assert error.name == "ZeroDivisionError" and error.detail == {} and error.traceback


def test_a_shape_error_is_drawn_in_the_users_expression(both: Watched) -> None:
    both.run("x = K.placeholder((32, 784), name='x')\nw = K.variable(K.zeros((784, 10)), name='w')")
    cell, _ = both.run("a = 1\nK.dot(w, x)")
    (error,) = both.of(events.Error, cell)
    detail = error.detail
    assert (detail["kind"], detail["function"], detail["source"]) == (
        "ShapeError",
        "dot",
        ["K.dot(w, x)"],
    )
    spans = {one["role"]: (one["start"], one["end"]) for one in detail["operands"]}
    assert spans == {"x": (6, 7), "y": (9, 10)}
    assert all(one["place"].startswith("In [") for one in detail["operands"])
    assert not any("kbench/engine" in line for line in error.traceback)


def test_a_huge_value_or_error_is_cut_and_says_so(both: Watched) -> None:
    cell, _ = both.run("'x' * 3_000_000")
    (result,) = both.of(events.Result, cell)
    assert len(result.text) < 200_000 and "3,000,002 characters, cut" in result.text
    assert result.data["text/plain"] == result.text
    cell, _ = both.run("raise ValueError('x' * 3_000_000)")
    (error,) = both.of(events.Error, cell)
    assert "3,000,000 characters, cut" in error.value
    assert sum(map(len, error.traceback)) < 200_000
    assert both.session.journal.path.stat().st_size < 2_000_000


def test_completion_and_help(both: Watched) -> None:
    found = both.session.complete("K.set_val", 9)
    assert "set_value" in found.matches and (found.start, found.end) == (2, 9)
    found = both.session.complete("K.dot(", 6)
    assert found.matches[:2] == ["x=", "y="] and not any("%" in one for one in found.matches)
    shown = both.session.inspect_object("K.dot(x, ", 9)
    assert shown.startswith("K.dot(x") and "Matrix product" in shown and "Raises:" in shown
    assert both.session.complete("no_such_name_at_all.", 20).matches == []


def test_settings_changed_by_a_cell_are_told(both: Watched) -> None:
    both.run("K.set_epsilon(0.25)")
    both.until(lambda: any(one.config["epsilon"] == 0.25 for one in both.of(events.Changed)))
    both.run("K.set_epsilon(1e-7)")


def test_an_interrupted_cell_says_so(both: Watched) -> None:
    if isinstance(both.session, LocalSession):
        cell, done = both.run("raise KeyboardInterrupt")
    else:
        cell = both.session.execute("import time\nwhile True: time.sleep(0.01)")
        both.until(lambda: both.of(events.CellStarted, cell))
        time.sleep(0.2)
        both.session.interrupt()
        done = both.done(cell)
    assert done.status == "interrupted" and not done.ok
    following = both.run("1")[1]
    assert following.ok and done.count is not None and following.count == done.count + 1


def test_restart_forgets_and_replays(both: Watched) -> None:
    both.run("kept = 5")
    both.run("undefined_name")
    before = len(both.session.cells)
    both.session.restart(replay=True)
    assert both.session.ready(WAIT)
    both.until(lambda: not both.session.queued() and both.session.running() is None)
    replayed = [one for one in both.session.cells.values() if one.ident > before]
    assert [one.code for one in replayed][-2:] == ["kept = 5", "undefined_name"]
    cell, _ = both.run("kept")
    assert both.of(events.Result, cell)[0].text == "5"
    both.session.restart(replay=False)
    assert both.session.ready(WAIT)
    assert both.run("kept")[1].status == "error"


def test_every_event_of_a_cell_is_in_the_journal(both: Watched) -> None:
    cell, _ = both.run("print('for the record')\n1/0")
    rows = [row for row in journal.read(both.session.journal.path) if row.get("cell") == cell]
    # Output comes in as many pieces as its time windows cut it into.
    kinds = [kind for kind, _ in itertools.groupby(row["event"] for row in rows)]
    assert kinds == ["CellStarted", "Stream", "Error", "CellDone"]
    written = "".join(row["text"] for row in rows if row["event"] == "Stream")
    assert written == "for the record\n"


def test_both_kinds_are_sessions() -> None:
    assert issubclass(KernelSession, Session) and issubclass(LocalSession, Session)
