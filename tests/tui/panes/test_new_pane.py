"""A new pane is one folder and one line: one is added to the table, and everything knows it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

FOLDER = {
    "__init__.py": """
from kbench.tui.keys.key import Key
from kbench.tui.panes.spec import PaneSpec, Taker

SPEC = PaneSpec(
    id="tally",
    title="Tally",
    letter="y",
    about="How many cells have ended.",
    region="stack",
    view="tally.view:TallyView",
    controller="tally.controller:TallyController",
    takers=(Taker("tally", ("tally",), {"tally_clear": "start again"}),),
    keys=(Key("tally", "tally_clear", "z", "clear", "count from nothing again"),),
)
""",
    "view.py": """
from textual.content import Content
from kbench.tui.keys import keys
from kbench.tui.messages import PaneMessage
from kbench.tui.text.lines import LineView

class TallyView(LineView):
    BINDINGS = keys.bindings("tally")

    class ClearWanted(PaneMessage):
        pass

    def __init__(self):
        super().__init__(id="tally")
        self.count = 0

    def row_count(self):
        return 1

    def row(self, y):
        return Content(f"{self.count} cells so far")

    def action_clear(self):
        self.post_message(self.ClearWanted())
""",
    "controller.py": """
from kbench.tui.panes.bench import PaneController
from tally.view import TallyView

class TallyController(PaneController):
    def __init__(self, bench):
        super().__init__(bench)
        bench.on(TallyView.ClearWanted, lambda _: self.show(0))

    def cell_done(self):
        self.show(self.bench.view(TallyView).count + 1)

    def show(self, count):
        view = self.bench.view(TallyView)
        view.count = count
        view.refit()
""",
}
LINE = """
import importlib.util, sys
from pathlib import Path

NAME = "kbench.tui.panes.registry"
found = importlib.util.find_spec(NAME)
source = Path(found.origin).read_text("utf-8")
last = "    lesson.SPEC,\\n)"
with_line = source.replace(last, "    __import__('tally').SPEC,\\n" + last)
assert with_line != source
registry = sys.modules[NAME] = importlib.util.module_from_spec(found)
exec(compile(with_line, found.origin, "exec"), registry.__dict__)
sys.modules["kbench.tui.panes"].registry = registry
"""
USE = """
import asyncio
from bench_screen import bench, settle, submit, text_of

async def use(size):
    async with bench(size) as (app, pilot, _):
        panes = app._main.arrangement
        await submit(pilot, "define")
        await pilot.press("alt+8")  # its tab
        await settle(pilot)
        assert panes.focused_pane() == "tally" and "1 cells so far" in text_of(app), text_of(app)
        assert "8 Tally]" in text_of(app) and "z start again" in text_of(app), text_of(app)
        await submit(pilot, "1 + 1")
        assert "2 cells so far" in text_of(app), text_of(app)
        await pilot.press("ctrl+o", "y")  # its letter
        await settle(pilot)
        assert panes.focused_pane() == "tally"
        await pilot.press("f1")
        await settle(pilot)
        drawn = text_of(app)
        assert "Help: Tally" in drawn and "How many cells have ended." in drawn, drawn
        assert "count from nothing again" in drawn and "tally_clear" in drawn, drawn
        await pilot.press("escape", "z")  # its key
        await settle(pilot)
        assert "0 cells so far" in text_of(app), text_of(app)
        await pilot.press("ctrl+p", *"nothing")
        await settle(pilot)
        assert "Tally: count from nothing again" in text_of(app), text_of(app)

asyncio.run(use((140, 40)))
asyncio.run(use((80, 24)))
print("used")
"""


@pytest.mark.slow
def test_a_new_pane_is_one_folder_and_one_line(
    run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    folder = tmp_path / "tally"
    folder.mkdir()
    for name, text in FOLDER.items():
        (folder / name).write_text(text, encoding="utf-8")
    path = [tmp_path, ROOT, ROOT / "tests/support", ROOT / "tests/tui/support"]
    done = run_python("-c", LINE + USE, env={"PYTHONPATH": os.pathsep.join(map(str, path))})
    assert done.stdout == "used\n", done.stderr
