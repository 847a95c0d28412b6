"""The programs of examples/keras reach what they assert; examples/README.md shows what they print.

Each runs in a process of its own, with one thread for BLAS: tests share the machine's cores.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUICK = ("mlp",)


def _runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_all", EXAMPLES / "run_all.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_all"] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


runner = _runner()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else (pytest.mark.slow,))
        for name in runner.ORDER
    ],
)
def test_it_reaches_what_it_asserts(name, tmp_path):
    environment = {
        **os.environ,
        "KERAS_HOME": str(tmp_path),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(EXAMPLES.parent),
    }
    done = subprocess.run(
        [sys.executable, f"{name}.py"],
        cwd=EXAMPLES / "keras",
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "[==============================]" in done.stdout, "a progress bar, as Keras draws it"
    assert "nan" not in done.stdout
    assert "Using kbench backend." in done.stderr


def test_each_has_its_place_and_its_output():
    assert sorted(runner.ORDER) == [one.stem for one in runner.PROGRAMS]
    page = (EXAMPLES / "README.md").read_text("utf-8")
    for name in runner.ORDER:
        text = (EXAMPLES / "keras" / f"{name}.py").read_text("utf-8")
        _, words, code = text.split('"""', 2)
        assert code.startswith('\n\nimport os\n\nos.environ["KERAS_BACKEND"] = "kbench"\n')
        assert f"## {name}\n\n{words}\n" in page


def test_a_terminal_shows_the_last_of_a_progress_bar():
    first, last = " 1/10 [>...] - ETA: 9s", "10/10 [====] - 1s"
    drawn = f"Epoch 1\r\n\r{first}" + "\b" * len(first) + f"\r{last}     \r\n\r\nend"
    assert runner.screen(drawn) == f"Epoch 1\n{last}\n\nend"


@pytest.mark.slow
def test_a_step_is_timed(tmp_path):
    script = EXAMPLES.parent / "benchmarks" / "keras_steps.py"
    done = subprocess.run(
        [sys.executable, script, "--only", "mlp", "--seconds", "0.1", "--json", tmp_path / "out"],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    row = json.loads((tmp_path / "out").read_text())["rows"]["mlp"]
    assert 0 < row["best"] <= row["median"] < row["first"]
    assert 0 <= row["outside"] < 1
    assert row["samples_per_second"] == pytest.approx(100 / row["median"])
    assert sum(one["calls"] for one in row["inside"].values()) > 50
    assert "| `mlp` |" in done.stdout
