"""The main job: the code of two published notebooks, with one changed import, gives their values.

Run in three ways: as a script, as a notebook, and typed into the terminal workbench.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pexpect
import pytest
from reference_documents import DOCUMENTS, Cell, cells
from run_book import run_book
from sampling import every

from kbench.engine.core import errors as engine_errors
from kbench.workbench.history import journal

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


@pytest.mark.parametrize("document", every(3, DOCUMENTS))
def test_as_a_notebook(document: str, home: Path) -> None:
    book = notebook(cells(document))
    run_book(book, home)
    complaints = [
        cell.complaint(shown_text(entry))
        for cell, entry in zip(cells(document), _documents_cells(book), strict=True)
        if not cell.raises
    ]
    assert [one for one in complaints if one] == []
    for cell, entry in zip(cells(document), _documents_cells(book), strict=True):
        errors = [one.ename for one in entry.outputs if one.output_type == "error"]
        assert _is_a(errors[0] if errors else None, cell.raises), (cell.label, errors)
    confirmed = [shown_text(entry) for entry in book.cells if entry.metadata.get("confirm")]
    assert confirmed == ["True"] * sum(cell.confirm is not None for cell in cells(document))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_typed_into_the_terminal_workbench(document: str, home: Path) -> None:
    typed: list[tuple[Cell, str]] = []
    for cell in cells(document):
        typed.append((cell, cell.code))
        if cell.confirm:
            line = " ".join(cell.confirm.split())
            typed.append((Cell(f"confirm {cell.label}", "", shows="True"), f"bool({line})"))
    with Workbench(home) as workbench:
        results = [workbench.run(code) for _, code in typed]
    complaints = []
    for (cell, _), result in zip(typed, results, strict=True):
        complaints.append(None if cell.raises else cell.complaint(result.shown))
        assert _is_a(result.error, cell.raises), (cell.label, result)
    assert [one for one in complaints if one] == []


def _is_a(found: str | None, wanted: str | None) -> bool:
    """Whether the error called `found` is one of the class called `wanted`; None for no error."""
    if found is None or wanted is None:
        return found is wanted
    raised: Any = getattr(engine_errors, found, None) or getattr(builtins, found)
    return issubclass(raised, getattr(builtins, wanted))


@dataclass(frozen=True)
class Typed:
    """What the workbench's journal tells of one cell."""

    shown: str | None
    error: str | None


class Workbench:
    """`kbench` in a pseudo-terminal: keys go in as from a keyboard, its journal tells the rest."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "kbench_state_dir"
        self._screen = b""
        self._cells = 0
        environment = {**_environment(), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment.pop("CI", None)
        self._terminal = pexpect.spawn(
            sys.executable, ["-m", "kbench"], env=environment, dimensions=(40, 120), timeout=30
        )

    def __enter__(self) -> Workbench:
        self._wait(lambda: b"idle" in self._screen, "the kernel")
        return self

    def __exit__(self, *_error: object) -> None:
        self._terminal.send(b"\x11")  # ctrl+Q
        self._terminal.close(force=True)

    def run(self, code: str) -> Typed:
        """Type a cell, line by line, run it with Alt+Enter, and wait until it has ended."""
        self._cells += 1
        for number, line in enumerate(code.splitlines()):
            if number:
                self._terminal.send(b"\n")  # ctrl+J, a new line in the prompt
            self._terminal.send(line.encode())
        self._terminal.send(b"\x1b\r")
        done = self._cells
        self._wait(lambda: len(self._rows("CellDone")) >= done, f"cell {done}: {code}")
        number = self._rows("CellDone")[-1]["cell"]
        assert self._typed(number) == code
        shown = [row["text"] for row in self._rows("Result") if row["cell"] == number]
        errors = [row["name"] for row in self._rows("Error") if row["cell"] == number]
        return Typed(shown[-1] if shown else None, errors[-1] if errors else None)

    def _typed(self, number: int) -> str:
        """The code that arrived."""
        started = [row["code"] for row in self._rows("CellStarted") if row["cell"] == number]
        return str(started[-1])

    def _rows(self, kind: str) -> list[dict[str, Any]]:
        rows = [row for path in self._folder.rglob("*.jsonl") for row in journal.read(path)]
        return [row for row in rows if row.get("event") == kind]

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        """Read the screen, as a terminal does all the time, until `condition` holds."""
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end, f"waited in vain for {what}: {self._screen[-2000:]!r}"
            with contextlib.suppress(pexpect.TIMEOUT):
                self._screen += self._terminal.read_nonblocking(65536, timeout=0.05)


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
    root = str(Path(__file__).parents[2])
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, path] if path else [root])}
