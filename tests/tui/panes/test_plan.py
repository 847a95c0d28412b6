"""The plan of recorded runs and the graph pane on a fake kernel, at every layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench_screen import at_each_size, bench, settle, submit, text_of
from fake_session import FakeSession
from msgspec.structs import asdict

import kbench as K
from kbench.engine.core.errors import Place
from kbench.engine.inspect import roofline
from kbench.engine.runtime import profile
from kbench.engine.runtime.profile import PartRecord, RunRecord, StepRecord
from kbench.tui.panes.graph.view import GraphView
from kbench.tui.panes.plan.steps import PlanTable, share_bar
from kbench.tui.text.glyphs import ASCII, UNICODE
from kbench.workbench.analysis.plan_text import of_limit
from kbench.workbench.inspector.recorder import Recorder
from kbench.workbench.protocol.runs import Limits, PlanStep

SCREENS = Path(__file__).parents[1] / "screens"
LIMITS = roofline.Limits(20.0, 100.0, 50.0, 2)
CACHES = roofline.Limits(20.0, 100.0, 50.0, 2, 30.0, ((1 << 17, 200.0), (1 << 20, 100.0)), 32 << 20)
SOURCE = '"""A loop."""\n\ndef run(params, start, stop):\n    return start + stop\n'
STEPS = [
    StepRecord("dot", "blas", 6e-3, 12 << 20, 400_000_000, (32, 10), "float32",
               Place("train.py", 12)),
    StepRecord("add+relu", "fused", 3e-3, 30 << 20, 640, (32, 10), "float32",
               Place("train.py", 13), SOURCE,
               (PartRecord("add", "float32[32, 10]", Place("train.py", 13)),
                PartRecord("relu", "float32[32, 10]", Place("train.py", 14)))),
    StepRecord("softmax", "library", 1e-3, 2560, 1600, (32, 10), "float32"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What machine and compilers tell would be another each time."""
    job = {"name": "loop_1", "seconds": 0.25, "loaded": False}
    monkeypatch.setattr(Recorder, "_new_kernels", lambda self: ((job,), 1))
    monkeypatch.setattr(roofline, "known", lambda: None)
    monkeypatch.setattr(roofline, "measure", lambda *, again: LIMITS)
    K.clear_session()  # names are numbered from the start


def with_runs(**names: Any) -> FakeSession:
    """`train` and `small` record a run; the names are there from the start."""
    session = FakeSession()
    session.names.update(K=K, **names)

    def train(one: FakeSession, cell: Any) -> None:
        profile.publish(RunRecord("train", 0.01, 3 << 20, list(STEPS)))
        one.finish(cell)

    def small(one: FakeSession, cell: Any) -> None:
        profile.publish(RunRecord("small", 1e-3, 2560, STEPS[2:]))
        one.finish(cell)

    session.script.update(train=train, small=small)
    return session


async def press(pilot: Any, *names: str) -> None:
    for name in names:
        await pilot.press(name)
        await settle(pilot)


def said(app: Any) -> list[str]:
    """What the app has told its user besides the panes."""
    return [str(one.message) for one in app._notifications]


def compare(name: str, drawn: str, accept: bool) -> None:
    path = SCREENS / f"{name}.txt"
    if accept:
        path.write_text(drawn + "\n", encoding="utf-8")
    assert drawn + "\n" == path.read_text(encoding="utf-8"), f"{path} differs: --accept-screens"


# ------------------------------------------------------------------ the plan


@at_each_size
async def test_plan_screen(size: tuple[int, int], accept: bool) -> None:
    async with bench(size, with_runs(), clock=lambda: 0.0) as (app, pilot, _):
        await submit(pilot, "train")
        await press(pilot, "f5", "m", "down", "right")
        app.clear_notifications()
        await settle(pilot)
        compare(f"plan-{size[0]}x{size[1]}", text_of(app), accept)


async def test_the_plan_says_what_to_do_while_nothing_has_run() -> None:
    async with bench((120, 40), with_runs()) as (app, pilot, _):
        await press(pilot, "f5", "s", "right", "left", "left_square_bracket", "i", "y", "enter")
        assert "No run yet. Call a K.function or K.eval" in text_of(app)


async def test_steps_unfold_and_are_sorted_by_time() -> None:
    async with bench((120, 40), with_runs()) as (app, pilot, _):
        await submit(pilot, "train")
        await press(pilot, "f5")
        table = app.screen.query_one(PlanTable)
        assert table.keys() == ["0", "1", "2"]
        await press(pilot, "right")  # one operation: nothing to show
        assert table.keys() == ["0", "1", "2"]
        await press(pilot, "down", "l")
        assert table.keys() == ["0", "1", "1.0", "1.1", "2"]
        assert "relu  float32[32, 10]" in text_of(app)
        await press(pilot, "down", "down", "h")
        assert table.keys() == ["0", "1", "2"] and table.current_key == "1"
        assert table.run is not None
        table.run = table.run.replaced(rows=table.run.rows[::-1])
        await press(pilot, "s")
        assert table.keys() == ["0", "1", "2"] and "by time" in text_of(app)


@pytest.mark.slow
async def test_earlier_runs_are_shown_and_the_newest_is_followed() -> None:
    async with bench((200, 50), with_runs()) as (app, pilot, _):
        for code in ("train", "small"):
            await submit(pilot, code)
        await press(pilot, "f5")
        assert "small run 2/2" in text_of(app)
        await press(pilot, "left_square_bracket", "left_square_bracket")
        assert "train run 1/2" in text_of(app)
        await submit(pilot, "small")
        assert "train run 1/3" in text_of(app)  # the one that was chosen stays
        await press(pilot, "f5", "right_square_bracket", "right_square_bracket")
        assert "small run 3/3" in text_of(app)
        await submit(pilot, "train")
        assert "train run 4/4" in text_of(app)


@pytest.mark.slow
async def test_source_place_details_and_copy() -> None:
    async with bench((120, 40), with_runs()) as (app, pilot, _):
        await submit(pilot, "train")
        await press(pilot, "f5", "enter")
        assert said(app)[-1] == "this step has no generated source: it ran as blas"
        await press(pilot, "down", "enter")
        assert "source of step 1: add+relu" in text_of(app) and "def run(params" in text_of(app)
        await press(pilot, "y", "escape")
        assert app.clipboard.strip() == SOURCE.strip()
        await press(pilot, "o")
        assert app.clipboard == "train.py:13"
        await press(pilot, "m", "i")
        shown = text_of(app)
        assert "compiled 250 ms  loop_1" in shown and "20.0 GB/s, 100 GFLOP/s in float32" in shown
        await press(pilot, "escape", "y")
        assert "1 compiled in 250 ms, 1 still compiling" in app.clipboard
        assert "add+relu\tfused\t3.0 ms" in app.clipboard


STEP: dict[str, Any] = {
    "step": 0, "op": "add", "form": "fused", "spec": "float32[2]", "seconds": 1.0, "bytes": 0,
    "flops": 0, "place": None, "source": None, "parts": [],
}  # fmt: skip
OF_LIMIT = [
    ({"gb_per_s": 10.0, "gflop_per_s": 5.0, "spec": "float32[2]"}, LIMITS, "50% mem"),
    ({"gb_per_s": 1.0, "gflop_per_s": 80.0, "spec": "float32[2]"}, LIMITS, "80% flop"),
    ({"gb_per_s": 1.0, "gflop_per_s": 40.0, "spec": "float64[2]"}, LIMITS, "80% flop"),
    ({"gb_per_s": 50.0, "gflop_per_s": None, "spec": "int32[]"}, LIMITS, "100% mem"),
    ({"gb_per_s": 50.0, "gflop_per_s": 1.0, "form": "view"}, LIMITS, "-"),
    ({"gb_per_s": 160.0, "gflop_per_s": None, "bytes": 200_000}, CACHES, "80% cache"),
    ({"gb_per_s": 160.0, "gflop_per_s": None, "bytes": 2_000_000}, CACHES, "100% cache"),
    ({"gb_per_s": 50.0, "gflop_per_s": None, "bytes": 2_000_000}, CACHES, "50% cache"),
    ({"gb_per_s": 50.0, "gflop_per_s": None, "bytes": 1_000}, CACHES, "25% cache"),
    ({"gb_per_s": 15.0, "gflop_per_s": None, "bytes": 90_000_000}, CACHES, "50% mem"),
    ({"gb_per_s": 15.0, "gflop_per_s": None}, CACHES, "50% mem"),
    ({"gb_per_s": None, "gflop_per_s": None}, LIMITS, "-"),
    ({"gb_per_s": 10.0, "gflop_per_s": 5.0}, None, "-"),
]


@pytest.mark.parametrize(("row", "known", "words"), OF_LIMIT)
def test_rates_are_told_as_parts_of_what_the_machine_can_do(
    row: dict[str, Any], known: roofline.Limits | None, words: str
) -> None:
    step = PlanStep(**{**STEP, **row})
    assert of_limit(step, None if known is None else Limits.built(asdict(known))) == words


def test_shares_of_the_time_have_a_bar_of_one_width() -> None:
    bars = [share_bar(share, UNICODE) for share in (0.0, 0.01, 0.5, 1.0, 7.0)]
    assert bars == ["         0%", "█        1%", "███     50%", "██████ 100%", "██████ 100%"]
    assert share_bar(0.5, ASCII) == "@@@     50%"


# ------------------------------------------------------------------ the graph


def drawn(app: Any) -> str:
    """The lines of the graph, those out of view too."""
    view = app.screen.query_one("#graph", GraphView)
    return "\n".join(view.row(y).plain.rstrip() for y in range(view.row_count()))


def small_graph() -> dict[str, Any]:
    x = K.placeholder((None, 3), name="images")
    hidden = K.relu(K.dot(x, K.variable([[1.0], [2.0], [3.0]], name="kernel")))
    loss = K.sum(K.square(hidden) + K.exp(hidden))
    return {"x": x, "loss": loss, "step": K.function([x], [loss], name="step")}


@at_each_size
async def test_o_opens_the_graph_at_every_size(size: tuple[int, int]) -> None:
    async with bench(size, with_runs(**small_graph())) as (app, pilot, _):
        await submit(pilot, "1")
        await press(pilot, "f3", "o")
        assert app.screen.arrangement.focused_pane() == "graph"
        shown = text_of(app)
        assert "sum(add float32[?, 1]) -> float32[]" in shown and " nodes)" in shown
        text = drawn(app)
        assert "● │  square float32[?, 1]" in text and "images float32[?, 3]" in text
        assert "dot    float32[?, 1]  with kernel" in text


@pytest.mark.slow
async def test_nodes_fold_and_are_found() -> None:
    async with bench((120, 40), with_runs(**small_graph())) as (app, pilot, _):
        await submit(pilot, "1")
        await press(pilot, "f3", "o")
        view = app.screen.query_one("#graph", GraphView)
        await press(pilot, "minus")
        assert "folded)" in text_of(app) and view.row_count() == 1
        await press(pilot, "slash")
        app.screen.query_one("Input").value = "images"
        await settle(pilot)
        await press(pilot, "enter")
        assert view.header(0).plain.startswith(" placeholder") or "images" in view.header(0).plain
        await press(pilot, "n", "N")
        assert view.search_text == "images" and "nothing" not in text_of(app)
        await press(pilot, "plus", "g")
        full = view.row_count()
        await press(pilot, "left")
        assert view.row_count() == 1
        await press(pilot, "right")
        assert view.row_count() == full
        await press(pilot, "down", "space", "y")
        assert "float32[" in app.clipboard


@pytest.mark.slow
async def test_a_call_is_one_node_until_it_is_opened() -> None:
    x = K.placeholder((None, 3), name="images")
    one = K.variable([1.0, 2.0, 3.0], name="one")
    normed = K.relu(K.batch_normalization(x, one, one, one, one))
    async with bench((120, 40), with_runs(normed=normed)) as (app, pilot, _):
        await submit(pilot, "1")
        await press(pilot, "f3", "end", "o", "down")
        view = app.screen.query_one("#graph", GraphView)
        closed = drawn(app)
        assert "+batch_normalization float32[?, 3]  (7 ops)" in closed
        assert view.row_count() == 3
        assert "batch_normalization(" in view.header(0).plain and "one call" in view.header(1).plain
        await press(pilot, "right")
        assert view.row_count() > 4 and "part of batch_normalization" in view.header(1).plain
        await submit(pilot, "1")  # the same graph again
        assert view.row_count() > 4
        await press(pilot, "f3", "o", "left")
        assert drawn(app) == closed
        await press(pilot, "plus", "minus", "right")
        assert view.row_count() == 2
        await press(pilot, "plus")
        assert " ops)" not in drawn(app)


@pytest.mark.slow
async def test_a_graph_shows_what_a_run_saw() -> None:
    names = small_graph()
    session = with_runs(**names)

    def run(one: FakeSession, cell: Any) -> None:
        names["step"]([[[0.0, 0.0, float("nan")], [1.0, 0.0, 0.0]]])
        one.finish(cell)

    session.script["run"] = run
    async with bench((200, 50), session) as (app, pilot, _):
        await submit(pilot, "1")
        await press(pilot, "f3", "o")
        assert "1 NaN or Inf !" not in drawn(app)
        await submit(pilot, "run")
        shown = drawn(app)
        assert "= (2, 3)" in shown and "1 NaN or Inf !" in shown and "= NaN" in shown


async def test_the_line_that_made_a_node_is_shown() -> None:
    names = small_graph()
    session = with_runs(**names)
    async with bench((120, 40), session) as (app, pilot, _):
        await submit(pilot, "1 + 1")
        await press(pilot, "f3", "o", "down", "o")
        assert app.clipboard.startswith("test_plan.py:")
        view = app.screen.query_one("#graph", GraphView)
        view.post_message(GraphView.PlaceWanted("In [1] line 2"))
        await settle(pilot)
        assert app.screen.arrangement.focused_pane() == "transcript"


@pytest.mark.slow
async def test_5000_nodes_are_shown_and_walked() -> None:
    value = K.placeholder((4,), name="start")
    for _ in range(5_000):
        value = value + 1.0
    async with bench((120, 40), with_runs(deep=value)) as (app, pilot, session):
        await submit(pilot, "1")
        session.asked.clear()
        await press(pilot, "f3", "o")
        view = app.screen.query_one("#graph", GraphView)
        assert view.row_count() == 5_001 and session.asked.count("graph") < 60
        await press(pilot, "G")
        assert "start" in text_of(app)
        await press(pilot, "minus")
        assert view.row_count() == 1 and "(5000 folded)" in drawn(app)


async def test_an_empty_graph_pane_says_what_to_do() -> None:
    async with bench((120, 40), with_runs()) as (app, pilot, _):
        await press(pilot, "alt+5", "minus", "plus", "slash", "n", "enter", "y", "G", "space")
        assert "press o on a tensor, a function" in text_of(app)
