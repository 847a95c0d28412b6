"""Notebooks run from the first cell to the last, as nbclient does it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config


def run_book(book: nbformat.NotebookNode, folder: Path, timeout: int = 60) -> None:
    """Run all cells in `folder`, in place; `timeout` is each cell's, in seconds.

    The kernel is reached through files: a free port may be taken before the kernel has it.
    """
    with tempfile.TemporaryDirectory() as place:
        files = Config({"KernelManager": {"transport": "ipc", "ip": f"{place}/kernel"}})
        client = NotebookClient(book, timeout=timeout, kernel_name="python3", config=files)
        client.execute(cwd=str(folder))
