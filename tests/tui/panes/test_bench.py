"""Controllers of panes on a bench without a screen: when they ask, and who is told of what."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kbench.tui.panes
from kbench.tui import signal
from kbench.tui.messages import AssignSetting, SettingRefused, ShowValue
from kbench.tui.panes.bench import Bench, PaneController
from kbench.tui.panes.gradient.controller import GradientController
from kbench.tui.panes.panes import Panes
from kbench.tui.panes.plan.controller import PlanController
from kbench.tui.panes.registry import BY_ID, PANES
from kbench.tui.panes.settings.controller import SettingsController
from kbench.tui.panes.variables.controller import VariablesController
from kbench.tui.panes.watch.controller import WatchController
from kbench.tui.session.link import Work
from kbench.tui.signal import Pushed, Signal


class BareBench:
    """No widget is there; remembers what is asked of it, and runs nothing by itself."""

    def __init__(self) -> None:
        self.state = "idle"
        self.shown: set[str] = set()
        self.works: list[Work] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.said: list[tuple[Any, ...]] = []
        self.saved = 0
        self.signal = Signal()

    def run(self, work: Work, opens: bool = False) -> None:
        self.works.append(work)

    async def ask(self, verb: str, timeout: float = 5.0, **arguments: object) -> dict[str, Any]:
        self.asked.append((verb, arguments))
        return {}

    def clock(self) -> float:
        return 0.0

    def view(self, kind: type[Any], name: str = "") -> Any:
        return None

    def shows(self, pane: str) -> bool:
        return pane in self.shown

    def go(self, pane: str) -> None:
        self.said.append(("go", pane))

    def title(self, pane: str, words: str) -> None:
        self.said.append(("title", pane, words))

    def notify(self, words: str, seconds: float | None = None, warning: bool = False) -> None:
        self.said.append(("notify", words))

    def open(self, dialog: Any, take: Any = None) -> None:
        self.said.append(("open", type(dialog).__name__))

    def copy(self, text: str, what: str) -> None:
        self.said.append(("copy", text))

    def show_place(self, place: str) -> None:
        self.said.append(("place", place))

    def key_word(self, ident: str) -> str:
        return ident

    def save(self) -> None:
        self.saved += 1

    def take_settings(self, settings: dict[str, Any]) -> None:
        self.said.append(("settings", settings))

    def on(self, kind: type[Any], handler: Callable[[Any], None]) -> None:
        self.signal.subscribe(kind, handler)

    def tell(self, event: object) -> None:
        self.signal.emit(event)

    def told(self, kind: str, handler: Callable[[Any], None]) -> None:
        self.on(Pushed, lambda event: handler(event.data) if event.kind == kind else None)


def test_every_controller_works_without_a_widget() -> None:
    bare = BareBench()
    bench: Bench = bare
    Panes(bench).mounted()
    for event in (
        signal.KernelStarted(),
        signal.VariablesChanged(["x"], many=True),
        signal.CellEnded(None, None),  # type: ignore[arg-type]
        signal.StateChanged(),
        signal.SettingsChanged({"floatx": "float32"}),
        signal.PanesMoved(),
        signal.KernelLost(),
        ShowValue("x"),
        SettingRefused("no"),
    ):
        bench.tell(event)
    assert len(bare.works) == 1 and bare.asked == []  # the kernel is to know the list of watches
    assert bare.said == [("title", "settings", "Config")]


@pytest.mark.parametrize(
    ("kind", "pane"),
    [
        (VariablesController, "variables"),
        (GradientController, "gradient"),
        (PlanController, "plan"),
    ],
)
def test_a_pane_is_asked_for_only_while_it_is_shown(kind: type[PaneController], pane: str) -> None:
    bench = BareBench()
    controller = kind(bench)
    controller.started()
    assert bench.works == []
    bench.shown, bench.state = {pane}, "starting"
    controller.refresh()
    assert bench.works == []
    bench.state = "idle"
    controller.refresh()
    assert len(bench.works) == 1
    controller.changed(["x"])
    assert len(bench.works) == 1  # one request at a time


def test_a_setting_is_set_in_the_kernel() -> None:
    bench = BareBench()
    SettingsController(bench)
    bench.tell(AssignSetting("floatx", "float64"))
    assert len(bench.works) == 1 and bench.asked == []


def test_watches_are_added_kept_and_told_by_the_kernel() -> None:
    bench = BareBench()
    watches = WatchController(bench)
    watches.add("K.mean(w)")
    watches.add("K.mean(w)")
    assert watches.expressions == ["K.mean(w)"] and bench.saved == 1
    assert bench.said[-1] == ("notify", "K.mean(w) is watched already")
    bench.tell(Pushed("pace", {}))
    bench.tell(Pushed("watching", {"expressions": ["loss", "K.mean(w)"]}))
    assert watches.expressions == ["loss", "K.mean(w)"] and bench.saved == 2
    bench.tell(Pushed("watching", {}))  # of another version
    assert watches.expressions == ["loss", "K.mean(w)"]


def test_the_variables_are_told_last(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = BareBench()
    panes = Panes(bare)
    told: list[type[PaneController]] = []
    for kind in (VariablesController, PlanController, WatchController):
        monkeypatch.setattr(panes.controller(kind), "state_changed", partial(told.append, kind))
    bare.tell(signal.StateChanged())
    assert len(told) == 3 and told[-1] is VariablesController


def test_one_of_each_class_is_found() -> None:
    panes = Panes(BareBench())
    assert panes.controller(WatchController) is panes.controller(WatchController)
    assert isinstance(panes.controller(PlanController), PlanController)
    made = [pane.id for pane in PANES if pane.controller]
    assert made == [pane for pane in BY_ID if pane not in ("prompt", "transcript", "lesson")]


def test_no_controller_sees_the_screen() -> None:
    room = Path(kbench.tui.panes.__file__).parent
    seers = {
        path.relative_to(room).as_posix()
        for path in room.rglob("*.py")
        if "main_screen" in path.read_text("utf-8")
    }
    assert seers == set()
