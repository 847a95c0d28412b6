"""`kbench bench --scaling`: what its model makes of parts and rates; that launches are found."""

from __future__ import annotations

import dataclasses
import json

import benchmark_programs
import pytest

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    """The programs of the folder are found by their names, and forgotten afterwards."""
    with benchmark_programs.importable(monkeypatch):
        yield


def _machine(**changed):
    """One thread gets 10 GB/s, two get 20; waking costs nothing."""
    from scaling_model import Machine

    rates = {1: [(MEGABYTE, 1e10)], 2: [(MEGABYTE, 2e10)]}
    return dataclasses.replace(Machine(rates, (0.0, 0.0), (0.0, 0.0)), **changed)


def _part(seconds=1e-3, threads=64, units=64, moved=0.0, kernel="kernel"):
    return {
        "label": "step", "kernel": kernel, "count": 1, "seconds": seconds, "bytes": moved,
        "threads": threads, "units": units, "idle": False,
    }  # fmt: skip


def _call(*parts, python=0.0, held=MEGABYTE):
    from scaling_model import call_of

    cut = {"parts": list(parts), "held": held, "python": python}
    return call_of({1: cut, 16: cut}, python + sum(part["seconds"] for part in parts))


@pytest.mark.parametrize(
    ("part", "python", "threads", "speedup", "cause"),
    [
        ({}, 0.0, 16, 16.0, "serial Python"),
        ({}, 1e-3, 16, 32 / 17, "serial Python"),
        ({"threads": 1, "units": 1}, 0.0, 16, 1.0, "one thread"),
        ({"units": 24}, 0.0, 16, 12.0, "too few items"),
        ({"threads": 4, "units": 4}, 0.0, 16, 4.0, "too few items"),
        ({}, 0.0, 1, 1.0, "serial Python"),
    ],
)
def test_a_call_is_as_fast_as_its_parts_allow(part, python, threads, speedup, cause):
    from scaling_model import predict

    found = predict(_call(_part(**part), python=python), threads, _machine())
    assert found.speedup == pytest.approx(speedup)
    assert speedup == threads or found.cause == cause


@pytest.mark.parametrize(
    ("held", "limit", "speedup"),
    [
        (MEGABYTE, None, 16.0),  # of caches, which every core brings along
        (1 << 28, None, 2.0),
        (1 << 28, 8e10, 8.0),
        (1 << 28, 1e12, 16.0),
    ],
)
def test_memory_gives_no_more_than_it_has(held, limit, speedup):
    """10 MB in a millisecond are all that one thread gets."""
    from scaling_model import predict

    found = predict(_call(_part(moved=1e7), held=held), 16, _machine(limit=limit))
    assert found.speedup == pytest.approx(speedup)
    assert speedup == 16 or found.cause == "memory"


def test_waking_costs_more_the_more_threads_sleep():
    from scaling_model import predict

    machine = _machine(signal=(1e-6, 2e-5), late=(5e-6, 5e-5))
    awake, asleep = _part(), {**_part(), "idle": True}
    times = [
        predict(_call(part), threads, machine).seconds
        for part in (awake, asleep)
        for threads in (2, 16)
    ]
    # half a signal, and what the other thread does not do meanwhile
    assert times[0] == pytest.approx(5e-4 + 0.5e-6 + 3e-6)
    assert times[1] == pytest.approx(1e-3 / 16 + 15 * (0.5e-6 + 6e-6 / 16))
    assert times[2] > times[0] and times[3] > 1e-3 / 16 + 15 * 1e-5
    assert predict(_call(asleep), 16, machine).cause == "waking"


def test_the_same_work_in_several_cuts_has_the_median_of_its_times():
    """Two launches of one kind stay two, also where threads sleep before one of them."""
    from scaling_model import call_of

    def cut(first, second, other):
        parts = [_part(first), {**_part(second), "idle": True}, _part(other, kernel="other")]
        return {"parts": parts, "held": MEGABYTE, "python": 0.0}

    cuts = {1: cut(2e-3, 4e-3, 1e-3), 2: cut(3e-3, 6e-3, 2e-3), 4: cut(9e-3, 18e-3, 3e-3)}
    call = call_of(cuts, 11e-3)
    for threads in cuts:
        times = [one.seconds for one in call.cuts[threads]]
        assert times == pytest.approx([3e-3, 6e-3, 2e-3])


def test_rates_lie_between_those_that_were_measured():
    from scaling_model import interpolated

    points = [(1 << 10, 8.0), (1 << 12, 4.0)]
    assert [interpolated(points, 1 << at) for at in (8, 10, 11, 12, 14)] == [8, 8, 6, 4, 4]


def _report(measured):
    cut = {"parts": [_part()], "held": MEGABYTE, "python": 0.0}
    rates = {count: [[MEGABYTE, float(count) * 1e10]] for count in ("1", "2")}
    waking = dict.fromkeys(("signal_awake", "signal_asleep", "late_awake", "late_asleep"), 0.0)
    return {
        "cpu": "a processor", "python": "3.11", "when": "2026-11-25", "rounds": 3,
        "load_before": 0.5, "load_after": 2.0, "cores": (2, 16),
        "machine_rates": {"rates": rates, "waking": waking},
        "rows": {
            "some.work": {
                "times": {"1": [1e-3] * 4, "2": [measured] * 4}, "cuts": {"1": cut, "16": cut},
            },
        },
    }  # fmt: skip


@pytest.mark.parametrize(("measured", "believed"), [(5e-4, True), (6e-4, False), (4e-4, False)])
def test_a_model_that_fails_on_two_threads_is_not_believed(measured, believed):
    from scaling import is_believed, page

    report = _report(measured)
    assert is_believed(report) is believed
    text = page(report)
    assert f"{5e-4 / measured - 1:+.0%}" in text
    assert "| `some.work` | 2.0 | 16.0 |" in text and "load 0.5 before and 2.0 after" in text
    broken = {**report, "rows": {**report["rows"], "other": {"error": "no such thing"}}}
    assert not is_believed(broken) and "!! no such thing" in page(broken)


def test_usual_workloads_are_some_of_all_and_cores_are_numbers():
    import scaling
    from workloads import WORKLOADS

    usual = scaling.usual(scaling.catalogue())
    assert usual and set(usual) <= set(scaling.CHOICE)
    assert {name for name in scaling.CHOICE if not name.startswith("keras.")} <= set(WORKLOADS)
    assert scaling._cores("2,64") == (2, 64)


@pytest.mark.slow
def test_a_workload_is_measured_and_taken_apart(run_kbench, tmp_path):
    """The hooks in the engine hold: launches are found, and make up most of the time."""
    file = tmp_path / "found.json"
    done = run_kbench(
        "bench", "--scaling", "--only", "elementwise.exp,train.mlp", "--rounds", "1",
        "--cores", "2,4", "--json", str(file), timeout=240,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr  # 1: a loaded machine takes longer than foretold
    rows = json.loads(file.read_text())["rows"]
    assert set(rows) == {"elementwise.exp", "train.mlp"}
    for name, row in rows.items():
        assert "error" not in row, (name, row)
        for cut in row["cuts"].values():
            launched = sum(part["seconds"] for part in cut["parts"] if part["kernel"])
            assert launched > cut["python"] > 0.0
            assert cut["held"] > MEGABYTE
    assert max(part["threads"] for part in rows["elementwise.exp"]["cuts"]["4"]["parts"]) >= 4
