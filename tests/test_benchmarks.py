"""The benchmark harness: wrong values are not timed, a short run gives every column."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def harness(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import harness

    yield harness
    for name in ("harness", "workloads", "libraries", "tables", "fresh", "convolutions"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("result", "wrong"),
    [
        ([1.0, 2.0], None),
        ([1.0, 2.000001], None),
        ([1.0, 2.1], "off by"),
        ([1.0, float("nan")], "off by nan"),
        ([[1.0, 2.0]], "shape"),
    ],
)
def test_a_value_that_disagrees_is_named(harness, result, wrong):
    found = harness._disagreement(np.array(result), np.array([1.0, 2.0]), 1e-5)
    assert found is None if wrong is None else wrong in found


def test_every_workload_has_a_value_on_small_operands(harness):
    """Each formula, graph against NumPy, where a test can afford it."""
    from convolutions import kbench_names
    from libraries import NUMPY
    from workloads import WORKLOADS

    import kbench as K

    random = np.random.default_rng(0)
    for one in WORKLOADS.values():
        count = one.formula.__code__.co_argcount - 1
        if one.small is None:
            arrays = [random.standard_normal((3, 4), dtype=np.float32) for _ in range(count)]
            feeds = [K.placeholder(shape=(None, 4)) for _ in arrays]
        else:
            arrays = list(one.small(random))
            feeds = [K.placeholder(shape=array.shape) for array in arrays]
        (ours,) = K.function(feeds, [one.formula(kbench_names(K), *feeds)])(arrays)
        reference = one.formula(NUMPY, *(array.astype(np.float64) for array in arrays))
        np.testing.assert_allclose(ours, reference, rtol=1e-5, atol=1e-6, err_msg=one.name)


@pytest.mark.parametrize(
    ("value", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (-4.2e-5, "-42 us"), (3e-9, "3 ns")]
)
def test_times_are_written_in_the_unit_that_suits(harness, value, text):
    from tables import seconds

    assert seconds(value) == text


@pytest.mark.slow
def test_a_short_run_gives_every_column(run_kbench, tmp_path):
    out = tmp_path / "out.json"
    options = ["--peers", "numpy,nonsense", "--rounds", "2", "--seconds", "0.01"]
    done = run_kbench("bench", "--only", "function_one", *options, "--json", str(out))
    assert done.returncode == 0, done.stderr
    assert "nonsense is not installed" in done.stderr
    rows = json.loads(out.read_text())["rows"]["tiny.function_one"]
    for library in ("kbench", "numpy"):
        assert 0 < rows[library]["best"] <= rows[library]["median"] <= rows[library]["high"]
        assert rows[library]["first"] > 0
    assert "| best peer | ratio |" in done.stdout


@pytest.mark.slow
def test_fresh_processes_are_measured(run_kbench):
    done = run_kbench("bench", "--only", "fresh", "--rounds", "2")
    assert done.returncode == 0 and "!!" not in done.stdout
    assert done.stdout.count("| `fresh.") == 5
