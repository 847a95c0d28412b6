"""Each widget of the one list leads to something, and what follows from the list follows."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import kbench
from kbench import notebook
from kbench.engine.core.errors import ArgumentError
from kbench.notebook import registry

ROOT = Path(__file__).resolve().parents[2]


def test_names_and_words_are_told_apart() -> None:
    words = [spec.word for spec in registry.WIDGETS]
    assert len(set(words)) == len(words) == len(registry.names())
    assert not {"help", "arrays"} & set(words)  # that %kb takes besides
    assert all(registry.find(spec.name) is spec for spec in registry.WIDGETS)
    assert registry.find("nothing") is None


@pytest.mark.parametrize("spec", registry.WIDGETS, ids=lambda spec: spec.word)
def test_every_widget_is_there(spec: registry.WidgetSpec) -> None:
    module = importlib.import_module(f"kbench.notebook.{spec.home}")
    assert getattr(notebook, spec.name) is getattr(module, spec.name)
    assert getattr(kbench, spec.name) is getattr(notebook, spec.name)
    assert spec.call.startswith(f"{spec.name}(") and spec.name in notebook.__all__


def test_other_names_are_those_of_the_package() -> None:
    assert sorted({*registry.names(), *registry.FUNCTIONS}) == notebook.__all__
    assert kbench.show is notebook.show and not hasattr(notebook, "nothing")
    assert kbench.progress is not notebook.progress  # that of every front end


@pytest.mark.parametrize(
    "word, values, refusal",
    [
        ("nothing", (), "widget must be one of names, value, watches"),
        ("value", (), "widget 'value' wants a value"),
        ("settings", (1,), "widget 'settings' takes no value"),
        ("value", (str,), "a tensor, an array or numbers are needed"),
        ("graph", (3,), "name must be a tensor"),
    ],
)
def test_what_cannot_be_opened_is_refused_in_a_sentence(
    word: str, values: tuple[object, ...], refusal: str
) -> None:
    with pytest.raises(ArgumentError, match=refusal):
        notebook.show(*values, widget=word)


def test_the_documents_have_the_table() -> None:
    """After a change of the list: `python .ci/widgets.py`."""
    ran = subprocess.run(
        [sys.executable, ".ci/widgets.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
