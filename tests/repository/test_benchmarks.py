"""The benchmark harness: wrong values are not timed, a short run gives every column."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import benchmark_programs
import numpy as np
import pytest
from benchmark_programs import FOLDER

from kbench.engine.runtime import threads


@pytest.fixture
def harness(monkeypatch):
    """The programs of the folder, found by their names, and forgotten afterwards."""
    with benchmark_programs.importable(monkeypatch):
        import harness

        yield harness


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
    from measuring import disagreement

    found = disagreement(np.array(result), np.array([1.0, 2.0]), 1e-5)
    assert found is None if wrong is None else wrong in found


def _operands(one):
    random = np.random.default_rng(0)
    if one.small is not None:
        return list(one.small(random))
    count = one.formula.__code__.co_argcount - 1
    return [random.standard_normal((3, 4), dtype=np.float32) for _ in range(count)]


def test_every_formula_agrees_with_numpy_on_small_operands(harness):
    """Each formula that NumPy can say, as a graph and as NumPy's calls."""
    from libraries import kbench_names, numpy_names
    from measuring import disagreement
    from names import Missing
    from workloads import WORKLOADS

    import kbench as K

    F, compared = numpy_names(), 0
    for one in WORKLOADS.values():
        if one.mode == "train" or one.summary is not None:
            continue
        arrays, formula = _operands(one), one.small_formula or one.formula
        feeds = [K.placeholder(shape=array.shape, dtype=str(array.dtype)) for array in arrays]
        result = formula(kbench_names(K), *feeds)
        several = list(result) if isinstance(result, (list, tuple)) else [result]
        values = K.function(feeds, several)(arrays)
        assert all(np.isfinite(value).all() for value in values), one.name
        wide = [one.astype(np.float64) if one.dtype.kind == "f" else one for one in arrays]
        try:
            reference = formula(F, *wide)
        except Missing:
            continue
        compared += 1
        assert disagreement(values[0], np.asarray(reference), 5e-6) is None, one.name
    assert compared > 50


LISTED = [
    ("", "dot.256", "fresh.python"),
    ("--quick", "dot.256", "fresh.python"),
    ("--memory", "train.mlp", "train.cnn"),
    ("--forms", "eager", "row program"),
    ("--cold", "mlp", "lstms"),
    ("--inference", "resnet50.1", "lstm.32"),
    ("--keras3", "resnet20", "eager"),
    ("--scaling", "dot.256", "train.cnn"),
    ("--cluster", "cnn", "lstm"),
]


@pytest.mark.parametrize("kind,first,second", LISTED)
def test_every_kind_of_run_lists_what_it_would_measure(harness, capsys, kind, first, second):
    """Nothing is measured, which would take minutes; a name that is not there is no success."""
    options = [kind] if kind else []
    assert harness.main([*options, "--list"]) == 0
    names = [one[:28].strip() for one in capsys.readouterr().out.splitlines()]
    assert {first, second} <= set(names)
    assert harness.main([*options, "--list", "--only", first]) == 0
    chosen = [one[:28].strip() for one in capsys.readouterr().out.splitlines()]
    assert first in chosen and all(first in name for name in chosen)
    assert harness.main([*options, "--only", "no such name"]) == 2
    assert "'no such name'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "only", "names"),
    [
        ("--inference", "lstm,net50.1", ["resnet50.1", "resnet50.16", "lstm.32"]),
        ("--scaling", "dot.64,tiny.eval_one", ["dot.64", "tiny.eval_one"]),
    ],
)
def test_names_are_chosen_by_words_between_commas(harness, capsys, kind, only, names):
    assert harness.main([kind, "--list", "--only", only]) == 0
    assert [one.split()[0] for one in capsys.readouterr().out.splitlines()] == names


@pytest.mark.parametrize(
    ("kind", "here", "said"),
    [
        ("--cold", "3.15.1", "--cold needs Keras 2.3.x, here is Keras 3.15.1: "),
        ("--inference", "", "--inference needs Keras 2.3.x, here is no Keras: "),
        ("--keras3", "2.3.1", "--keras3 needs Keras 3.x, here is Keras 2.3.1: "),
        ("--cluster", "", "--cluster needs Dask and Keras: "),
    ],
)
def test_a_run_says_which_keras_it_needs(harness, capsys, monkeypatch, kind, here, said):
    monkeypatch.setattr(harness, "keras_version", lambda: here)
    assert harness.main([kind]) == 2
    assert said in capsys.readouterr().err


def test_the_page_tells_families_and_marks_what_is_missed(harness):
    from page import page

    row = {"median": 2e-3, "best": 2e-3, "low": 2e-3, "high": 2e-3, "first": 3e-3}
    slower, faster = ({**row, "median": one, "best": one} for one in (3e-3, 1e-3))
    report = {
        "machine": {"cpu": "some CPU", "python": "3.11"},
        "threads": 2,
        "when": "2026-01-01 10:00",
        "versions": {"numpy": "2", "torch": "3"},
        "limits": {"copy": 4e10, "gemm": 4e11},
        "rows": {
            "elementwise.exp": {"kbench": row, "numpy": slower, "torch+kept": faster},
            "reduce.sum.all": {"kbench": row, "numpy": slower, "torch": faster},
        },
    }
    text = page(report)
    assert (
        "| `elementwise.exp` | exp alone, 10M float32 | 2 ms | numpy 3 ms | 0.67 | 2.00 |" in text
    )
    assert "2 ms | torch 1 ms | 2.00 ! |" in text
    assert "1 of 2 reach what we aim at" in text
    assert "| elementwise | 0.67 | 0.67 | 2.00 | 1 of 1 |" in text


@pytest.mark.parametrize(
    ("speedup", "threads", "share"),
    [(2.0, 2, 1.0), (1.0, 2, 0.0), (1.5, 2, 2 / 3), (0.9, 2, 0.0), (2.5, 2, 1.0), (3.0, 4, 8 / 9)],
)
def test_the_parallel_share_is_amdahls(harness, speedup, threads, share):
    from tables import parallel_share

    assert parallel_share(speedup, threads) == pytest.approx(share)


@pytest.mark.parametrize(
    ("value", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (-4.2e-5, "-42 us"), (3e-9, "3 ns")]
)
def test_times_are_written_in_the_unit_that_suits(harness, value, text):
    from tables import seconds

    assert seconds(value) == text


_ROWS = {
    "kbench": {"median": 4.0, "best": 4.0, "low": 4.0, "high": 4.0, "first": 5.0},
    "torch": {"median": 8.0, "best": 5.0, "low": 8.0, "high": 8.0, "first": 9.0},
    "jax": {"median": 10.0, "best": 9.0, "low": 9.0, "high": 11.0, "first": 9.0},
    "tf-xla": {"absent": "no such function"},
    "tf-keras": {"median": 1.0, "best": 1.0, "error": "off by 1"},
    "torch+kept": {"median": 2.0, "best": 2.0, "low": 2.0, "high": 2.0, "first": 9.0},
}


def test_the_fastest_right_peer_of_each_mode_is_what_counts(harness):
    import figures

    assert figures.ratio(_ROWS) == ("torch", 0.5)
    assert figures.ratio(_ROWS, "best") == ("torch", 0.8)
    assert figures.ratio(_ROWS, kept=True) == ("torch", 2.0)
    wrong = {**_ROWS, "kbench": {**_ROWS["kbench"], "error": "off by 1"}}
    assert figures.ratio(wrong) is None and figures.ratio({}) is None
    assert figures.has_kept(_ROWS) and not figures.has_kept({"kbench": {}})


def test_goals_say_by_how_much_they_are_missed(harness):
    import figures
    from workloads import WORKLOADS, Goal

    (goal,) = WORKLOADS["conv.3x3"].goals
    assert figures.shortfall("conv.3x3", _ROWS) == pytest.approx(0.5 / goal.factor)
    assert figures.shortfall("conv.3x3", _ROWS, kept=True) == pytest.approx(2.0 / goal.factor)
    tiny = {"kbench": {"median": 9e-6}, "torch": {"median": 2e-6}, "tf-keras": {"median": 6e-5}}
    assert figures.shortfall("tiny.eval_one", tiny) == pytest.approx(1.5)
    assert Goal(1.0, "torch", 5e-6).limit({"torch": 2e-6}) == pytest.approx(7e-6)
    assert Goal(1.0, "torch").limit({"jax": 1.0}) is None and Goal(1.0).limit({}) is None


def test_families_have_geometric_means(harness):
    import figures

    other = {**_ROWS, "kbench": {"median": 2.0}}
    means = figures.families({"conv.3x3": _ROWS, "conv.1x1": other, "dot.64": other})
    assert means["conv"] == pytest.approx((0.5 * 0.25) ** 0.5)
    assert means["dot"] == 0.25 and "tiny" not in means
    assert means[figures.OTHERS] == pytest.approx((0.5 * 0.25 * 0.25) ** (1 / 3))
    assert figures.geometric([]) is None


def test_the_part_of_the_limit_is_that_of_the_tighter_one(harness):
    import figures
    from workloads import WORKLOADS

    one = WORKLOADS["conv.depthwise"]
    time = 2 * one.traffic / 1e9
    found = figures.roof(one.name, {"median": time}, {"copy": 1e9, "gemm": one.flops / time * 10})
    assert found == pytest.approx(0.5)
    assert figures.roof("tiny.eval_one", {"median": 1.0}, {"copy": 1e9}) is None


_FAKE = """
import json, sys, time
print(json.dumps({"version": "1"}), flush=True)
for line in sys.stdin:
    do = json.loads(line)["do"]
    if do == "hang":
        time.sleep(60)
    if do == "crash":
        sys.exit(3)
    print(json.dumps({"did": do}), flush=True)
"""


def test_a_library_that_crashes_or_hangs_is_started_again(harness, monkeypatch, tmp_path):
    import process

    fake = tmp_path / "fake.py"
    fake.write_text(_FAKE)
    monkeypatch.setattr(process, "WORKER", fake)
    one = process.Process(sys.executable, "fake", 1, {})
    assert one.hello == {"version": "1"} and one.ask("warm") == {"did": "warm"}
    assert "no answer" in one.ask("hang", 0.2)["error"]
    assert one.ask("warm") == {"error": "has ended"}
    assert one.ask("prepare") == {"did": "prepare"}
    assert one.ask("crash") == {"error": "ended with code 3"}
    assert one.ask("prepare") == {"did": "prepare"}
    one.close()


def test_the_table_names_goals_and_both_modes_of_the_allocator(harness):
    from tables import line, markdown
    from workloads import WORKLOADS

    (goal,) = WORKLOADS["conv.3x3"].goals
    report = {
        "machine": {"cpu": "a cpu", "python": "3.11"},
        "when": "today",
        "load_before": (0.1,),
        "load_after": (0.2,),
        "seconds": 3.0,
        "threads": 2,
        "limits": {"copy": 40e9, "gemm": 200e9},
        "versions": {"kbench": "1", "torch": "2", "jax": "3", "tf-keras": "4"},
        "rows": {"conv.3x3": _ROWS},
        "runs": {
            count: {"rows": {"conv.3x3": {"kbench": {"median": time}}}}
            for count, time in (("1", 6.0), ("2", 4.0))
        },
        "fresh": {},
        "first": {
            "dot.64": {
                "usual": 1.0,
                "warm": 1.01,
                "warm_system": 0.01,
                "cold": 3.0,
                "cold_system": 2.5,
                "following": 1.5,
                "numpy": 1.0,
            }
        },
        "memory": {"train.mlp": {"kbench": {"import": 1e6, "now": 2e6, "steps": 3e6, "all": 4e6}}},
    }
    text = markdown(report)
    assert f"| torch | 0.50 | 0.80 | 2.00 | {goal.factor:g} | met |" in text
    assert "!! off by 1" in text and "40.0 GB/s" in text and "200 GFLOP/s" in text
    assert "| `conv.3x3` | 6 s | 4 s | 1.50 |" in text
    assert "| 1.01 s |" in text and "3 s (3.0), 2.5 s in the system ! | 1.5 s (1.5) |" in text
    assert "| kbench | 1 MB | 2 MB | 3 MB | 4 MB |" in text
    missed = f"kept 2.00 of torch missed by {200 / goal.factor - 100:.0f} %"
    assert missed in line("conv.3x3", _ROWS)


def test_names_are_chosen_by_parts(harness):
    names = ["conv.3x3", "conv.1x1", "dot.64"]
    assert harness._chosen(names, "") == names
    assert harness._chosen(names, "3x3,dot") == ["conv.3x3", "dot.64"]


def test_a_turn_spans_what_fits_into_it(harness, tmp_path, monkeypatch):
    import fcntl

    lock = tmp_path / "lock"

    def free():
        with open(lock, "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    turns = harness.Turns(str(lock))
    with turns:
        assert not free()
    assert not free()
    monkeypatch.setattr(harness.Turns, "LENGTH", 0.0)
    with turns:
        assert not free()
    assert free()
    turns.close()
    with harness.Turns(None):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="the process is a script of the shell")
def test_a_cold_process_finds_the_environment_of_a_user(harness, tmp_path, monkeypatch):
    """kbench tells BLAS in the environment how to wait, which the harness would hand on: threads
    of a newcomer's process, which loads NumPy first, wait otherwise."""
    import cold

    python = tmp_path / "python"
    fields = r"{\"blas\": \"$OPENBLAS_THREAD_TIMEOUT\", \"omp\": \"$OMP_WAIT_POLICY\"}"
    python.write_text(f'#!/bin/sh\necho "{fields}"\n')
    python.chmod(0o700)
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "4")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    monkeypatch.setattr(threads, "own_settings", ["OPENBLAS_THREAD_TIMEOUT"])
    assert cold._asked("mlp", 1, str(python)) == {"blas": "", "omp": "ACTIVE"}


def test_a_peer_finds_the_environment_of_a_user(harness, monkeypatch):
    from process import Process

    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.setattr(threads, "own_settings", ["OMP_WAIT_POLICY"])
    monkeypatch.setattr(Process, "_start", lambda self: {})
    found = Process(sys.executable, "pytorch", 2, {})._environment
    assert "OMP_WAIT_POLICY" not in found and found["OMP_NUM_THREADS"] == "2"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the process is a script of the shell")
@pytest.mark.parametrize("module", ["kbench", "kbench_launcher"])
def test_a_bench_gives_its_peers_the_environment_of_a_user(root, tmp_path, module):
    python, seen = tmp_path / "python", tmp_path / "seen"
    python.write_text(f'#!/bin/sh\necho "$OPENBLAS_THREAD_TIMEOUT,$OMP_WAIT_POLICY" > {seen}\n')
    python.chmod(0o700)
    options = ["--peers", "torch", "--peer-python", str(python), "--rounds", "1"]
    set_by_kbench = ("OPENBLAS_THREAD_TIMEOUT", "OMP_WAIT_POLICY")
    clean = {name: value for name, value in os.environ.items() if name not in set_by_kbench}
    command = [sys.executable, "-m", module, "bench", "--only", "function_one", *options]
    subprocess.run(command, cwd=root, env=clean, capture_output=True, timeout=120)
    assert seen.read_text().strip() == ","


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
def test_another_tree_takes_turns_with_this_one(run_kbench, tmp_path):
    before, out = tmp_path / "tree", tmp_path / "out.json"
    shutil.copytree(FOLDER.parent / "kbench", before / "kbench")
    (before / "kbench" / "version.py").write_text('__version__ = "0.0.1"\n')
    options = ["--against", str(before), "--rounds", "2", "--seconds", "0.01"]
    done = run_kbench("bench", "--only", "function_one", *options, "--json", str(out))
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert report["versions"]["before"] == "0.0.1" != report["versions"]["kbench"]
    assert report["rows"]["tiny.function_one"]["before"]["median"] > 0
    assert " of before" in done.stderr and "met" not in done.stderr
    done = run_kbench("bench", "--against", str(tmp_path))
    assert done.returncode == 2 and "holds a folder kbench" in done.stderr


@pytest.mark.slow
def test_first_calls_and_memory_are_measured(run_kbench, tmp_path):
    out = tmp_path / "out.json"
    done = run_kbench("bench", "--fresh", "--only", "dot.64", "--json", str(out))
    assert done.returncode == 0, done.stderr
    row = json.loads(out.read_text())["first"]["dot.64"]
    assert 0 < row["usual"] <= row["warm"] and row["numpy"] > 0
    done = run_kbench("bench", "--memory", "--only", "train.adam", "--peers", "")
    assert done.returncode == 0 and "| kbench |" in done.stdout


@pytest.mark.slow
def test_fresh_processes_are_measured(run_kbench):
    done = run_kbench("bench", "--only", "fresh", "--rounds", "2")
    assert done.returncode == 0 and "!!" not in done.stdout
    assert done.stdout.count("| `fresh.") == 5


def test_every_form_can_be_left_out(harness):
    """Its functions are where the table of forms says, and so are its workloads and its file."""
    import forms
    from workloads import WORKLOADS

    page = (FOLDER.parent / "docs" / "forms.md").read_text(encoding="utf-8")
    for name, form in forms.FORMS.items():
        for holder, last in map(forms.holder_of, form.places):
            assert callable(getattr(holder, last)), name
        assert set(form.workloads) <= set(WORKLOADS), name
        assert (FOLDER.parent / "kbench" / "engine" / form.chosen).is_file(), name
        assert f"| {name} | {form.what} |" in page, f"{name}: run kbench bench --forms"
    with pytest.raises(KeyError):
        forms.leave_out("no such form")


def test_a_form_that_is_left_out_does_not_run(harness, monkeypatch):
    import forms

    import kbench as K

    x = np.random.default_rng(0).normal(size=(256, 200)).astype("float32")
    monkeypatch.setenv("KBENCH_JIT", "wait")
    (place,) = forms.FORMS["row program"].places
    holder, last = forms.holder_of(place)
    ran = []
    for without in ("", "row program"):
        monkeypatch.setattr(holder, last, getattr(holder, last))  # what it is again, afterwards
        forms.leave_out(without)
        feed = K.placeholder(x.shape)
        function = K.function([feed], [K.softmax(feed)])
        with K.record() as runs:
            function([x])
        ran.append([step.form for step in runs[0].steps])
    assert ran == [["fused"], ["numpy"]]
