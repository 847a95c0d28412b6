"""Notebooks run from the first cell to the last, as nbclient does it."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError
from traitlets.config import Config

TELL_STACKS = (
    "import faulthandler, signal; faulthandler.register(signal.SIGUSR1, open({path!r}, 'w'))"
)
"""For a kernel: when it is asked to, it writes where each of its threads is."""


def run_book(book: nbformat.NotebookNode, folder: Path, timeout: int = 60) -> None:
    """Run all cells in `folder`, in place; `timeout` is each cell's, in seconds.

    The kernel is reached through files: a free port may be taken before the kernel has it. The
    error of a cell that does not end says where the kernel's threads are.
    """
    with tempfile.TemporaryDirectory() as place:
        files = Config({"KernelManager": {"transport": "ipc", "ip": f"{place}/kernel"}})
        client = NotebookClient(book, timeout=timeout, kernel_name="python3", config=files)
        with client.setup_kernel(cwd=str(folder)):
            stacks = Path(place) / "stacks"
            client.kc.execute(TELL_STACKS.format(path=str(stacks)), silent=True)
            for number, cell in enumerate(book.cells):
                try:
                    client.execute_cell(cell, number)
                except CellTimeoutError as error:
                    os.kill(client.km.provisioner.pid, signal.SIGUSR1)
                    time.sleep(1.0)
                    error.add_note(stacks.read_text())
                    raise
