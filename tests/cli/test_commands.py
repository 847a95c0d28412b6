"""The commands beside running code: `--json`, the terminal gate, settings, lessons, warmup."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
import time
from pathlib import Path

import pytest

from kbench.cli import doctor, exit_codes
from kbench.engine.kernels import registry
from kbench.version import __version__

ESCAPE = "\x1b"


# ------------------------------------------------------------------ --json


def test_json_is_one_document_whatever_the_program_prints(run_kbench):
    code = (
        "import os\nprint('printed')\nos.system('echo below')\n"
        "x = K.placeholder((None, 2), name='x')\nw = K.variable([1., 2., float('nan')])\nK.eval(w)"
    )
    done = run_kbench("--json", "-c", code)
    document = json.loads(done.stdout)
    assert done.returncode == 0 and document["ok"] and document["error"] is None
    assert "printed" in done.stderr and "below" in done.stderr
    assert document["value"]["array"]["nan"] == 1
    assert document["value"]["summary"].startswith("float32[3]")
    assert document["names"]["x"]["tensor"]["shape"] == [None, 2]
    assert document["names"]["w"]["tensor"]["kind"] == "variable"
    assert "K" not in document["names"] and "os" not in document["names"]


def test_json_tells_errors_in_fields(run_kbench):
    done = run_kbench("--json", "-c", "\nK.dot(K.zeros((2, 3)), K.zeros((4, 5)))")
    document = json.loads(done.stdout)
    error = document["error"]
    assert (done.returncode, document["ok"], document["exit_code"]) == (1, False, 1)
    assert (error["type"], error["function"], error["line"]) == ("ShapeError", "dot", 2)
    assert {one["spec"] for one in error["operands"]} == {"float32[2, 3]", "float32[4, 5]"}


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("raise SystemExit(4)", 4), ("raise KeyboardInterrupt", 130), ("1 +", 1)],
)
def test_json_is_written_however_the_program_ends(run_kbench, code, exit_code):
    done = run_kbench("--json", "-c", code)
    assert done.returncode == exit_code == json.loads(done.stdout)["exit_code"]


def test_json_never_asks_a_users_object(run_kbench):
    code = "class A:\n    def __repr__(self): raise OSError\nx = A()\ny = float('inf')\nx"
    document = json.loads(run_kbench("--json", "-c", code).stdout)
    assert document["value"]["type"] == "A" and document["names"]["y"]["type"] == "float"


# what is written as the last value, and what `--json` says of it as numbers
DATA = [
    ("K.softmax(K.variable([[1., 1.]])) * 2", "array", [[1.0, 1.0]]),
    ("K.variable([1., float('nan'), float('-inf')])", "array", [1.0, "nan", "-inf"]),
    ("np.arange(3)", "array", [0, 1, 2]),
    ("np.zeros((0, 3))", "array", []),
    ("np.float32(2.5)", "array", 2.5),
    ("np.ones(1000, 'bool')", "array", [True] * 1000),
    ("np.ones(1001)", "array", None),
    ("K.ones((40, 40)) + 1", "array", None),
    ("np.array(['a'])", "array", None),
    ("K.random_normal((2,))", "array", None),
    ("K.concatenate([K.variable(scipy.sparse.eye(2))])", "sparse", [1.0, 1.0]),
    ("K.int_shape(K.placeholder((None, 3)))", None, [None, 3]),
    ("{'a': [1, 2.5, True], 'b': 'c'}", None, {"a": [1, 2.5, True], "b": "c"}),
    ("10 ** 30", None, 10**30),
    ("10 ** 5000", None, None),
    ("'x' * 1001", None, None),
    ("[[0] * 100] * 11", None, None),
    ("{1: 2}", None, None),
    ("float('inf')", None, "inf"),
]


def test_json_carries_the_data_of_what_is_small():
    import numpy as np
    import scipy.sparse

    import kbench
    from kbench.cli import json_document

    names = {"K": kbench, "np": np, "scipy": scipy}
    for code, part, wanted in DATA:
        outcome = json_document.Outcome(value=eval(code, names))
        row = json.loads(json_document.text(outcome, lambda _frame: True))["value"]
        row = row if part is None else row.get(part, {})
        assert (code, row.get("data")) == (code, wanted)


def test_json_tells_the_entries_of_a_list_of_arrays(run_kbench):
    code = "x = K.placeholder((2,))\nK.function([x], [x * 2, K.sum(x)])([[1., 2.]])"
    value = json.loads(run_kbench("--json", "-c", code).stdout)["value"]
    assert [one["array"]["data"] for one in value["items"]] == [[2.0, 4.0], 3.0]


# ------------------------------------------------------------------ the terminal gate


@pytest.mark.parametrize(
    ("stdin", "stdout", "environment", "expected"),
    [
        (True, True, {"TERM": "xterm"}, None),
        (False, True, {"TERM": "xterm"}, "not both a terminal"),
        (True, False, {"TERM": "xterm"}, "not both a terminal"),
        (True, True, {}, "TERM is unset"),
        (True, True, {"TERM": "dumb"}, "TERM is unset or dumb"),
        (True, True, {"TERM": "xterm", "CI": "true"}, "CI is set"),
    ],
)
def test_the_workbench_opens_on_a_real_terminal_only(
    monkeypatch, stdin, stdout, environment, expected
):
    for name in ("TERM", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", _Stream(stdin))
    monkeypatch.setattr(sys, "stdout", _Stream(stdout))
    refusal = exit_codes.terminal_refusal()
    assert refusal is None if expected is None else expected in refusal


class _Stream:
    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


# ------------------------------------------------------------------ small commands


def test_config_set_keeps_unknown_fields_and_is_read_back(run_kbench, tmp_path):
    home = {"KERAS_HOME": str(tmp_path)}
    path = tmp_path / "keras.json"
    path.write_text('{"mine": [1], "epsilon": 1e-06}')
    assert run_kbench("config", "get", "epsilon", env=home).stdout == "1e-06\n"
    assert (
        run_kbench("config", "set", "image_data_format", "channels_first", env=home).returncode == 0
    )
    kept = json.loads(path.read_text())
    assert kept["mine"] == [1] and kept["image_data_format"] == "channels_first"
    shown = json.loads(run_kbench("config", "--json", env=home).stdout)
    assert (shown["epsilon"], shown["image_data_format"]) == (1e-06, "channels_first")


def test_doctor_tells_every_part(run_kbench):
    done = run_kbench("doctor", "--fast", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["problems"] == [], done.stdout
    assert report["versions"]["kbench"] == __version__
    assert report["versions"]["Keras"] == importlib.metadata.version("keras")
    assert report["threads"]["idle threads"] == "sleep"
    assert report["settings"]["floatx"] == "float32"
    text = run_kbench("doctor", "--fast").stdout
    for part in ("versions", "machine", "settings", "threads", "kernel cache", "no problems"):
        assert part in text


def test_doctor_counts_files_that_others_take_away(tmp_path):
    (tmp_path / "fused.py").write_text("1")
    (tmp_path / "fused.lock").symlink_to(tmp_path / "gone")
    assert dict(doctor._sizes(tmp_path)) == {tmp_path / "fused.py": 1}


@pytest.mark.slow
def test_doctor_measures_the_machine(run_kbench):
    limits = json.loads(run_kbench("doctor", "--json").stdout)["measured limits"]
    for name in ("copy", "GEMM float32", "GEMM float64"):
        assert float(limits[name].split()[0]) > 0.1


def test_doctor_names_a_broken_settings_file(run_kbench, tmp_path):
    (tmp_path / "keras.json").write_text('{"epsilon": 1e-7,\n oops')
    done = run_kbench("doctor", "--fast", env={"KERAS_HOME": str(tmp_path)})
    assert done.returncode == 2 and "keras.json, line 2" in done.stdout


@pytest.mark.slow
def test_a_screenshot_is_the_same_bytes_every_time(run_kbench, tmp_path):
    script = tmp_path / "a.kbs"
    script.write_text("w = K.variable([[1., 2.], [3., 4.]], name='w')\nK.eval(w * 2)\n")
    pictures = []
    for name in ("one.svg", "two.svg"):
        command = [
            "--screenshot",
            str(tmp_path / name),
            "--size",
            "100x30",
            "--script",
            str(script),
        ]
        done = run_kbench(*command)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        pictures.append((tmp_path / name).read_text("utf-8"))
    assert pictures[0] == pictures[1]
    assert pictures[0].startswith("<svg") and "variable" in pictures[0]


# ------------------------------------------------------------------ lessons as plain steps


def _lesson(run_kbench, tmp_path: Path, number: int, *lines: str):
    state = {"KBENCH_STATE_DIR": str(tmp_path)}
    return run_kbench("learn", str(number), stdin="\n".join(lines) + "\n", env=state)


def test_lessons_are_listed(run_kbench, tmp_path, root):
    done = run_kbench("learn", env={"KBENCH_STATE_DIR": str(tmp_path)})
    assert done.returncode == 0
    assert re.search(r"^ +1  .*0 of \d+ exercises done$", done.stdout, re.MULTILINE)
    listed = run_kbench("learn", "--list", env={"KBENCH_STATE_DIR": str(tmp_path)})
    assert (listed.returncode, listed.stdout) == (0, done.stdout)
    for folder in (tmp_path, None):  # the notebooks are where the last line says
        told = run_kbench("learn", "--list", cwd=folder).stdout.splitlines()[-1].split()[-1]
        assert ((folder or root) / told / "01-tour-and-config.ipynb").is_file()


def test_options_of_the_workbench_do_not_go_with_plain_lessons(run_kbench):
    done = run_kbench("learn", "1", "--plain", "--theme", "light")
    assert done.returncode == 2 and "only apply to the workbench" in done.stderr


@pytest.mark.parametrize("number", [1, 2])
def test_a_lesson_can_be_walked_to_its_end(run_kbench, tmp_path, number):
    from kbench.workbench.lessons.lesson_files import load

    lesson = load(number)
    lines = []
    for step in lesson.steps:
        if step.is_exercise:
            lines += [":skip"]
        else:
            lines += [""]
    done = _lesson(run_kbench, tmp_path, number, *lines)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("Traceback") == sum(
        step.may_fail and step.role == "demo" and not step.of for step in lesson.steps
    )
    for name in lesson.exercises:
        assert f"[x] {name}" in done.stdout


def test_a_lesson_runs_python_between_its_steps_and_keeps_the_place(run_kbench, tmp_path):
    lines = [":next", "def f(n):", "    return n * 2", "", "f(21)", "1/0", ":nonsense", ":quit"]
    done = _lesson(run_kbench, tmp_path, 1, *lines)
    assert "42" in done.stdout and "ZeroDivisionError" in done.stdout
    assert "unknown command :nonsense" in done.stdout
    again = _lesson(run_kbench, tmp_path, 1, ":quit")
    assert "[2/" in again.stdout


# ------------------------------------------------------------------ on a pseudo-terminal


def _on_terminal(*arguments: str, typed: str, environment: dict[str, str]) -> tuple[int, str]:
    """Run kbench on a pseudo-terminal, type when it is quiet, and give exit code and output."""
    import pexpect

    child = pexpect.spawn(
        sys.executable,
        ["-m", "kbench_launcher", *arguments],
        env={**os.environ, "TERM": "dumb", **environment},
        encoding="utf-8",
        timeout=60,
    )
    try:
        child.expect_exact("In [1]: ")
        for line in typed.splitlines():
            child.sendline(line)
            child.expect([r"In \[\d+\]: ", pexpect.EOF])
            shown = (
                (child.before or "") if not hasattr(child, "shown") else child.shown + child.before
            )
            child.shown = shown
        child.close()
        return child.exitstatus or 0, child.shown
    finally:
        child.close(force=True)


@pytest.mark.parametrize("arguments", [["--plain"], []], ids=["asked", "TERM=dumb"])
def test_the_plain_prompt_announces_changes_without_escape_codes(root, arguments):
    code, shown = _on_terminal(
        *arguments,
        typed="w = K.variable([1., 2.])\nK.set_epsilon(.001)\nw*8\nK.set_value(w, [3., 4.])\n"
        "import numpy as np; a = np.zeros(2)\na[1] = 7\nexit",
        environment={"PYTHONPATH": str(root)},
    )
    assert code == 0 and ESCAPE not in shown
    assert "setting epsilon is now 0.001" in shown
    assert re.search(r"Out\[3\]: tensor multiply\S* float32\[2\] 8 B  \[8, 16\]", shown)
    assert re.search(r"w: variable .*\[1, 2\]", shown) and re.search(
        r"w: variable .*\[3, 4\]", shown
    )
    assert shown.count("\na: float64[2]") == 2 and re.search(r"\na: .*\[0, 7\]", shown)


@pytest.mark.slow
def test_the_plain_prompt_tells_a_job_of_workers_in_a_sentence(root):
    code, shown = _on_terminal(
        "--plain",
        typed="from kbench.dask import activity; job = activity.track('fit', 'mlp', 3)\n"
        "at = 'tcp://node1:4001'; job.worker(at, threads=2); job.add(at, rows=8, seconds=1)\n"
        "job.step(3); job.say('one machine would be faster'); job.end()\n"
        "%plan\nexit",
        environment={"PYTHONPATH": str(root)},
    )
    assert code == 0 and ESCAPE not in shown
    assert shown.count("fit of model 'mlp': step 0 of 3, no workers yet") == 1
    assert re.search(r"'mlp' ended: step 3 of 3, 1 worker, .* s; one machine would", shown)
    assert "w1 node1:4001, 2 threads, done: 1 task, 8 rows in 1 s (125 ms a row), 100%" in shown


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_warmup_fills_the_cache_once(run_kbench, tmp_path):
    cache = {"KBENCH_CACHE_DIR": str(tmp_path)}
    times = []
    for _ in range(2):
        start = time.perf_counter()
        done = run_kbench("warmup", env=cache, timeout=300)
        times.append(time.perf_counter() - start)
        assert done.returncode == 0 and done.stdout == ""
        lines = r"(compiling \d+/\d+\n)*\d+ kernels ready in [\d.]+ s\n"
        assert re.fullmatch(lines, done.stderr)  # nor is there one that did not compile
        assert f"\n{len(registry.catalogue())} kernels" in f"\n{done.stderr}"
    assert times[1] < times[0] / 2
    assert (
        int(
            json.loads(run_kbench("doctor", "--fast", "--json", env=cache).stdout)["kernel cache"][
                "kernels"
            ]
        )
        > 50
    )
    files = list(tmp_path.rglob("*.kernel"))
    assert len(files) > 50 and len({path.name.rpartition("-")[0] for path in files}) == len(files)
