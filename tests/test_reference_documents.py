"""The main job: the code of two published notebooks, with one changed import, gives their values.

Run in three ways: as a script, as a notebook, and typed into the terminal workbench.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from reference_documents import DOCUMENTS, Cell, cells

PRELUDE = """
import json
def _show(label, value):
    print(json.dumps([label, repr(value)]))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, so that no settings of the machine change what the documents show."""
    for name in ("HOME", "KERAS_HOME", "KBENCH_STATE_DIR", "IPYTHONDIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
        (tmp_path / name.lower()).mkdir()
    for name in ("KERAS_BACKEND", "KBENCH_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def script(document: str) -> str:
    """The document's cells as one program that prints what a notebook would show."""
    lines = [PRELUDE]
    for cell in cells(document):
        statements, last = cell.parts
        lines.append(f"# {cell.label}\n{statements}")
        show = f"_show({cell.label!r}, {last})" if last else ""
        if cell.raises:
            attempt = f"try:\n    {show}\nexcept {cell.raises} as error:\n"
            show = attempt + f"    _show({cell.label!r}, {cell.raises!r})"
        lines.append(show)
        if cell.confirm:
            lines.append(f"_show({'confirm ' + cell.label!r}, bool({cell.confirm.strip()}))")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_as_a_script(document: str, home: Path) -> None:
    program = home / "document.py"
    program.write_text(script(document), encoding="utf-8")
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=_environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    shown = dict(json.loads(line) for line in done.stdout.splitlines())
    complaints = [cell.complaint(shown.get(cell.label)) for cell in cells(document)]
    assert [one for one in complaints if one] == []
    assert all(shown[cell.label] == repr(cell.raises) for cell in cells(document) if cell.raises)
    confirmed = {label: text for label, text in shown.items() if label.startswith("confirm ")}
    assert len(confirmed) == sum(cell.confirm is not None for cell in cells(document))
    assert set(confirmed.values()) == {"True"}, confirmed


@pytest.mark.parametrize("document", DOCUMENTS)
def test_as_a_notebook(document: str, home: Path) -> None:
    book = notebook(cells(document))
    NotebookClient(book, timeout=60, kernel_name="python3").execute(cwd=str(home))
    complaints = [
        cell.complaint(shown_text(entry))
        for cell, entry in zip(cells(document), _documents_cells(book), strict=True)
        if not cell.raises
    ]
    assert [one for one in complaints if one] == []
    for cell, entry in zip(cells(document), _documents_cells(book), strict=True):
        errors = [one.ename for one in entry.outputs if one.output_type == "error"]
        assert bool(errors) == bool(cell.raises), (cell.label, errors)
    confirmed = [shown_text(entry) for entry in book.cells if entry.metadata.get("confirm")]
    assert confirmed == ["True"] * sum(cell.confirm is not None for cell in cells(document))


def notebook(document: list[Cell]) -> Any:
    """The document as a notebook; after a cell with `confirm`, one that shows whether it holds."""
    book = nbformat.v4.new_notebook()
    for cell in document:
        tags = ["raises-exception"] if cell.raises else []
        book.cells.append(nbformat.v4.new_code_cell(cell.code, metadata={"tags": tags}))
        if cell.confirm:
            check = f"bool({cell.confirm.strip()})"
            book.cells.append(nbformat.v4.new_code_cell(check, metadata={"confirm": True}))
    return book


def _documents_cells(book: Any) -> list[Any]:
    return [entry for entry in book.cells if not entry.metadata.get("confirm")]


def shown_text(entry: Any) -> str | None:
    """The plain text of a cell's result."""
    results = [one for one in entry.outputs if one.output_type == "execute_result"]
    return results[-1].data["text/plain"] if results else None


def _environment() -> dict[str, str]:
    """This process' environment, with the package under test first on the path."""
    root = str(Path(__file__).parents[1])
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, path] if path else [root])}
