"""`kbench bench --cluster`: what its formulas make of measured parts; that all is measured."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import benchmark_programs
import keras_loaded
import pytest

MILLISECOND = 1e-3


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    """The programs of the folder are found by their names, and forgotten afterwards."""
    with benchmark_programs.importable(monkeypatch):
        yield


def _network(**changed):
    """Nothing costs anything but what a test says."""
    from cluster_model import Network

    free = Network(0.0, 0.0, 0.0, 0.0, 0.0, float("inf"))
    return dataclasses.replace(free, **changed)


def _training(**changed):
    """A millisecond for each row, and no bytes."""
    from cluster_model import Training

    return dataclasses.replace(Training(0.0, MILLISECOND, 0.0, 0.0, 0.0), **changed)


@pytest.mark.parametrize(
    ("training", "network", "workers", "milliseconds"),
    [
        ({}, {}, 4, 32),
        ({}, {}, 3, 43),  # 128 rows make shards of 43, 43 and 42
        ({"fixed": 8e-3}, {}, 4, 40),
        ({"optimizer": 5e-3}, {}, 4, 37),
        ({}, {}, 256, 1),  # no more workers than rows
        ({}, {"step": 2e-3, "per_worker": 1e-3}, 4, 32 + 2 + 3),
        ({"meetings": 4}, {"message": 1e-3, "per_message": 5e-4}, 4, 32 + 4 * 2.5 + 1),
        ({"meetings": 4}, {"message": 1e-3}, 1, 128),
        ({"row_bytes": 1000.0}, {"bandwidth": 128e5}, 4, 32 + 10),
        # 1 MB takes 1 ms: to one worker, from there to two, and four gradients come back
        ({"weight_bytes": 1e6}, {"bandwidth": 1e9}, 4, 32 + (1 + 2 + 1) + 4),
        # 4 MB take 4 ms: a tree of two levels, and once to the client
        ({"weight_bytes": 4e6}, {"bandwidth": 1e9, "level": 1e-3}, 4, 32 + 16 + 2 * 5 + 4),
        ({"weight_bytes": 4e6}, {"bandwidth": 2e9, "copying": 2e9}, 1, 128 + 4 + 4),
    ],
)
def test_a_step_is_the_sum_of_its_parts(training, network, workers, milliseconds):
    from cluster_model import PARTS, predict

    found = predict(_training(**training), _network(**network), workers, 128)
    assert found.seconds == pytest.approx(milliseconds * MILLISECOND)
    assert tuple(found.parts) == PARTS
    alone = 128e-3 + training.get("fixed", 0.0) + training.get("optimizer", 0.0)
    assert found.speedup == pytest.approx(alone / found.seconds)


def test_workers_of_one_machine_share_its_cores():
    from cluster_model import predict

    seconds = [predict(_training(), _network(), w, 128, cores=2).seconds for w in (1, 2, 4)]
    assert seconds == pytest.approx([128e-3, 64e-3, 64e-3])
    heavy, wire = _training(weight_bytes=1e6), _network(bandwidth=1e9)
    assert predict(heavy, wire, 4, 128, cores=2).seconds == pytest.approx(64e-3 + 4e-3 + 4e-3)


def test_the_part_that_takes_most_is_named():
    from cluster_model import predict

    found = predict(_training(), _network(step=2e-3, message=3e-3), 4, 128)
    assert found.cause == "weights"  # of whose two levels the second begins with a question


@pytest.mark.parametrize(
    ("points", "found"),
    [
        ([(32, 5.0), (64, 7.0), (128, 11.0)], (3.0, 1 / 16)),
        ([(1, 2.0), (2, 4.0)], (0.0, 2.0)),
        ([(1, 1.0), (2, 4.0)], (0.0, 9 / 5)),  # not below 0 where there are no rows
        ([(1, 3.0), (2, 1.0)], (2.0, 0.0)),
    ],
)
def test_computing_is_a_straight_line(points, found):
    from cluster_model import line

    assert line(points) == pytest.approx(found)


def test_the_batch_from_which_a_cluster_is_faster():
    from cluster_model import rows_to_pay

    assert rows_to_pay(_training(), _network(step=10e-3), 2) == 32
    slow = _training(weight_bytes=1e6, per_row=1e-9)
    assert rows_to_pay(slow, _network(bandwidth=1e6), 2) is None


def _fits(step, computing=4e-3):
    """Of a model: computing takes 4 ms at 128 rows, a quarter at 32."""
    times = [step] * 4
    worker = {
        "times": times, "computing": [computing] * 4, "steps": times, "stores": [0.0] * 4,
        "moved": 2_000_000, "weight_bytes": 0, "row_bytes": 0, "meetings": 0,
    }  # fmt: skip
    parts = {f"rows {rows}": {"computing": [computing * rows / 128] * 4} for rows in (128, 64, 32)}
    alone = {"times": [4e-3] * 4}
    spent = dict.fromkeys(("task", "chain", "messages", "placed", "message"), [0.0])
    empty = {**worker, "times": [2e-3] * 4, "computing": [0.0] * 4, "steps": [2e-3] * 4}
    return {
        "one": alone, "all": alone, "1": worker, "2": worker, "4": worker, **parts,
        "empty 1": empty, "empty 2": empty, "messages": {**spent, "copied": [1e-3]},
    }  # fmt: skip


def _report(step=6e-3):
    tiny = {f"{one} {w} tiny": [0.1] * 4 for one in ("map", "plain", "nothing") for w in (1, 2, 4)}
    whole = {f"{one} {w}": [0.5] * 4 for one in ("map", "plain") for w in (1, 2, 4)}
    return {
        "cpu": "a processor", "cores": 1, "python": "3.11", "dask": "1", "when": "2026-11-25",
        "rounds": 3, "load_before": 0.5, "load_after": 2.0,
        "fits": {"mlp": _fits(step)},
        "maps": {"rows": 64, "bytes": 1e8, "chunks": 4,
                 "times": {"one process": [1.0] * 4, **whole, **tiny}},
    }  # fmt: skip


@pytest.mark.parametrize(("step", "error"), [(6e-3, "+0%"), (12e-3, "-50%"), (3e-3, "+100%")])
def test_the_page_tells_how_far_the_model_is_off(step, error):
    """On one core, 4 ms of computing stay 4 ms for any number of workers, and messages take 2."""
    from cluster import MAX_MEDIAN_ERROR, median_error, page

    report = _report(step)
    text = page(report)
    assert (
        f"| `mlp` | 2 | 1.0 | 6 ms | {step * 1e3:g} ms ({step * 1e3:g} ms to {step * 1e3:g} ms)"
        in text
    )
    assert f"| {error} |" in text
    assert (median_error(report) > MAX_MEDIAN_ERROR) is (step != 6e-3)
    assert "load 0.5 before and 2.0 after" in text
    assert (
        "| 2 workers, `kbench.dask.map_blocks` | 500 ms (500 ms to 500 ms) | 200 | 0.50 |" in text
    )
    assert "0.50 ms |" in text  # 0.1 s for 200 chunks of one row


def test_a_single_time_has_no_spread():
    from cluster import spread

    assert spread([2e-3]) == "2 ms"
    assert spread([2e-3, 2e-3]) == "2 ms (2 ms to 2 ms)"


@pytest.mark.parametrize(("one", "cores"), [(8e-3, 2.0), (6e-3, 1.5), (3e-3, 1.0), (20e-3, 2.0)])
def test_cores_that_are_free_are_told_by_what_threads_gain(one, cores):
    from cluster import cores_of

    row = {"one": {"times": [one] * 3}, "all": {"times": [4e-3] * 3}}
    assert cores_of(row, 2) == pytest.approx(cores)


def test_a_table_has_a_row_for_each_model_and_network():
    from cluster import GIGABITS, MORE_WORKERS, scaling_table

    lines = scaling_table(_report(), lambda workers: 128 * workers).splitlines()
    assert len(lines) == 2 + len(GIGABITS)
    assert all(line.count("|") == len(MORE_WORKERS) + 4 for line in lines)


def test_unknown_models_are_refused(capsys):
    import harness

    assert harness.main(["--cluster", "--only", "no such word"]) == 2
    assert "mlp, cnn, lstm" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_everything_is_measured_once(tmp_path):
    """The hooks in `kbench.dask.fit` hold: steps, what they compute, and their bytes are found."""
    keras_loaded.load()
    import cluster
    import cluster_runs

    found = {}
    for part, models in (("fits", "mlp"), ("maps", "")):
        done = subprocess.run(
            [sys.executable, cluster_runs.__file__, "--parts", part, "--models", models,
             "--rounds", "1", "--steps", "3", "--megabytes", "2", "--workers", "1,2"],
            env={**cluster.settings(str(tmp_path)), "KBENCH_JIT": "off"},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found |= json.loads(done.stdout.splitlines()[-1])
    row = found["fits"]["mlp"]
    weights = 4 * (784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10)
    assert row["2"]["weight_bytes"] == weights and row["1"]["row_bytes"] == 4 * (784 + 10)
    assert len(row["2"]["stores"]) == 3 and len(row["2"]["times"]) == 2  # from step to step
    assert row["2"]["moved"] > 4 * weights > 0 < min(row["1"]["computing"])
    assert set(found["maps"]["times"]) >= {"one process", "map 2", "plain 2 tiny", "nothing 1 tiny"}
    assert all(min(times) > 0 for times in row["messages"].values())
