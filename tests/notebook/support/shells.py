"""Shells of IPython for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from kbench import backend as K


def opened(home: Path) -> Iterator[Any]:
    """A shell of its own, in which kbench was never loaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(home))
        patch.setenv("KBENCH_STATE_DIR", str(home))
        InteractiveShell.clear_instance()
        made = InteractiveShell.instance(colors="nocolor")
        made.history_manager.enabled = False
        made.run_cell("from kbench import backend as K\nimport kbench\nimport numpy as np")
        yield made
        made.run_line_magic("unload_ext", "kbench")
        InteractiveShell.clear_instance()
        K.clear_session()


def run(shell: Any, code: str) -> str:
    """Run a cell; what it printed and showed, as text."""
    with capture_output() as captured:
        result = shell.run_cell(code)
    shown = "\n".join(str(one.data.get("text/plain")) for one in captured.outputs)
    plain = "" if result.result is None else repr(result.result)
    return captured.stdout + captured.stderr + shown + plain
