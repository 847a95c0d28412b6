"""The programs of examples/keras reach what they assert; a page shows what they print."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from example_programs import ROOT, check_page, run, runner

QUICK = ("mlp",)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else (pytest.mark.slow,))
        for name in runner.KERAS_2.order
    ],
)
def test_it_reaches_what_it_asserts(name, tmp_path):
    shown = run(runner.KERAS_2, name, tmp_path).stdout
    assert "[==============================]" in shown, "a progress bar, as Keras draws it"


def test_each_has_its_place_and_its_output():
    check_page(runner.KERAS_2, '\n\nimport os\n\nos.environ["KERAS_BACKEND"] = "kbench"\n')


def test_a_terminal_shows_the_last_of_a_progress_bar():
    first, last = " 1/10 [>...] - ETA: 9s", "10/10 [====] - 1s"
    drawn = f"Epoch 1\r\n\r{first}" + "\b" * len(first) + f"\r{last}     \r\n\r\nend"
    assert runner.screen(drawn) == f"Epoch 1\n{last}\n\nend"


@pytest.mark.slow
def test_a_step_is_timed(tmp_path):
    script = ROOT / "benchmarks" / "keras_steps.py"
    done = subprocess.run(
        [sys.executable, script, "--only", "mlp", "--seconds", "0.1", "--json", tmp_path / "out"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
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
