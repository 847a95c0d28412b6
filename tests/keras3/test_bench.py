"""The measurement of Keras 3, on kbench alone."""

from __future__ import annotations

import keras3_there  # noqa: F401  # isort: skip

import json

import pytest


@pytest.mark.slow
def test_a_short_run_measures_kbench_alone(run_kbench, tmp_path):
    out = tmp_path / "out.json"
    options = ["--peers", "", "--rounds", "1", "--seconds", "0.05", "--json", str(out)]
    done = run_kbench("bench", "--keras3", "--only", "mlp,eager,imports", *options, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text())
    row = report["rows"]["mlp"]["kbench"]
    for what in ("fit", "predict"):
        assert 0 < row[what]["low"] <= row[what]["median"] <= row[what]["high"]
    assert all(1 < loss < 4 for loss in row["losses"]) and 0 < row["before"] < row["peak"]
    assert all(rows["kbench"]["call"]["median"] > 0 for rows in report["eager"].values())
    assert 0 < report["imports"]["kbench"]["median"] < 60
