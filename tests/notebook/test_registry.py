"""The three lists of the notebook's names agree, and each name leads to something."""

from __future__ import annotations

import importlib

import kbench
from kbench import notebook
from kbench.notebook.registry import HOMES

ELSEWHERE = {
    "progress",  # `kbench.progress` is that of every front end, which a notebook's bars follow
    "show",  # within the notebook's package alone
}


def test_the_lists_of_names_agree():
    assert notebook.__all__ == sorted(HOMES)
    assert list(HOMES) == sorted(HOMES)
    assert list(kbench._WIDGETS) == sorted(HOMES.keys() - ELSEWHERE)


def test_every_name_is_there():
    for name, home in HOMES.items():
        module = importlib.import_module(f"kbench.notebook.{home}")
        assert getattr(notebook, name) is getattr(module, name)
    for name in kbench._WIDGETS:
        assert getattr(kbench, name) is getattr(notebook, name)
