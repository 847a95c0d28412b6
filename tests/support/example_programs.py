"""The folders of examples, as `examples/run_all.py` knows them, and a run of one program.

Each runs in a process of its own, with one thread for BLAS: tests share the machine's cores.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def _runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_all", ROOT / "examples" / "run_all.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_all"] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


runner = _runner()


def run(examples: Any, name: str, home: Path) -> subprocess.CompletedProcess[str]:
    """A program of the folder, which must reach what it asserts."""
    environment = {
        **os.environ,
        "KERAS_HOME": str(home),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, f"{name}.py"],
        cwd=examples.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "nan" not in done.stdout
    assert "Using kbench backend" in done.stderr
    return done


def check_page(examples: Any, start: str) -> None:
    """Each program has a place in the order, begins with `start`, and has a part of the page."""
    page = examples.page.read_text("utf-8")
    programs = examples.programs()
    assert sorted(examples.order) == list(programs)
    for name, program in programs.items():
        _, words, code = program.read_text("utf-8").split('"""', 2)
        assert code.startswith(start)
        assert f"## {name}\n\n{words}\n" in page
