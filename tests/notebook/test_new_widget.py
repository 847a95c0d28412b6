"""A new widget is a module and a line of the list: names, magic, `show`, help, tab, documents."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import kbench
from kbench import notebook
from kbench.engine.inspect import describe
from kbench.notebook import registry, show
from kbench.notebook.base import given
from kbench.notebook.base.namespace_widget import NamespaceWidget, sentence

# ------------------------------------------------------------------ the module


class LengthView(NamespaceWidget):
    """How many entries something has."""

    def __init__(self, value: object = "", namespace: dict[str, object] | None = None) -> None:
        super().__init__(namespace, [])
        self._name = self._name_of_argument("value", value, given.is_watched, "an array or a name")
        self.children = (self._body,)
        self.refresh()

    def choose(self, name: str) -> None:
        self._name = name
        self.refresh()

    def refresh(self) -> None:
        self._show()

    def _static_text(self) -> str:
        held = describe.held_array(self.hub.view.get(self._name)) if self._name else None
        return "nothing chosen" if held is None else f"{self._name} has {held.size} entries"

    def _static_html(self) -> str:
        return sentence(self._static_text())


# ------------------------------------------------------------------ the line

LINE = registry.WidgetSpec(
    "LengthView", "length", "widgets.length", "LengthView()", "how many entries", tab="Length"
)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    module = types.ModuleType("kbench.notebook.widgets.length")
    vars(module)["LengthView"] = LengthView
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(registry, "WIDGETS", (*registry.WIDGETS, LINE))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path))
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(colors="nocolor")
    made.history_manager.enabled = False
    made.run_cell("import numpy as np\na = np.ones((3, 4))")
    made.run_line_magic("load_ext", "kbench")
    yield made
    made.run_line_magic("unload_ext", "kbench")
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("code", ["%kb length a", "%kb LengthView a", "%kb length a + 0"])
def test_its_magic(shell: Any, code: str) -> None:
    made = shell.run_cell(code).result
    assert made._static_text().endswith("has 12 entries")
    made.close()


def test_its_names(shell: Any) -> None:
    for package in (kbench, notebook):
        assert vars(package).get("LengthView") is None
        assert package.LengthView is LengthView
    assert "LengthView" in dir(notebook)


def test_show_opens_it(shell: Any) -> None:
    with capture_output() as captured:
        show(shell.user_ns["a"], widget="length")
    assert [one.data["text/plain"] for one in captured.outputs] == ["a has 12 entries"]


def test_its_tab_follows_what_is_chosen(shell: Any) -> None:
    whole = kbench.explorer("a")  # type: ignore[operator]
    assert whole.titles[-1] == "Length"
    assert whole.tabs["length"]._static_text() == "a has 12 entries"
    whole.open_tab("length")
    assert "a has 12 entries" in whole._static_html()
    whole.close()


def test_help_and_documents_have_it(shell: Any) -> None:
    with capture_output():
        told = shell.run_line_magic("kb", "help").text
    assert "kbench.LengthView()" in told and "%kb length x" in told
    assert "| `LengthView()` | Length | `%kb length x` | how many entries |" in registry.document()
    with capture_output() as captured:
        shell.run_cell("%kb lengths a")
    assert "%kb takes help, arrays on|off, names, value" in captured.stdout + captured.stderr
