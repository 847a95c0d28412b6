"""The command line: what is run, what is written where, exit codes, bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kbench import cli, cli_base
from kbench.version import __version__

ESCAPE = "\x1b"


# ------------------------------------------------------------------ the command line itself


@pytest.mark.parametrize(
    ("arguments", "head", "rest"),
    [
        ([], [], []),
        (["--plain"], ["--plain"], []),
        (["-c", "x", "-c", "--json"], ["-c", "x"], ["-c", "--json"]),
        (["-cx", "--json"], ["-cx"], ["--json"]),
        (["--json", "-c", "x", "a"], ["--json", "-c", "x"], ["a"]),
        (["-m", "mod", "--help"], ["-m", "mod"], ["--help"]),
        (["f.py", "--json", "-"], ["f.py"], ["--json", "-"]),
        (["-", "--version"], ["-"], ["--version"]),
        (
            ["--screenshot", "o.svg", "--size", "80x24"],
            ["--screenshot", "o.svg", "--size", "80x24"],
            [],
        ),
        (["doctor", "--json"], ["doctor"], ["--json"]),
        (["-c"], ["-c"], []),
    ],
)
def test_command_line_is_cut_after_the_target(arguments, head, rest):
    assert cli.split(arguments) == (head, rest)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-such"], "unrecognized arguments"),
        (["--plai"], "unrecognized arguments"),
        (["-c"], "expected one argument"),
        (["--size", "80x24"], "go with --screenshot"),
        (["--script", "demo.kbs"], "go with --screenshot"),
        (["--screenshot", "o.svg", "--size", "80"], "is not COLUMNSxROWS"),
        (["--screenshot", "o.svg", "--size", "0x5"], "outside 20x5 to 1000x500"),
        (["--screenshot", "o.svg", "--size", "5000x5000"], "outside 20x5 to 1000x500"),
        (["--screenshot", "o.svg", "-c", "1"], "takes no code"),
        (["--screenshot", "o.svg", "--ascii"], "--ascii goes with the workbench"),
        (["--plain", "-c", "1"], "takes no code"),
        (["--plain", "--json"], "no --json"),
        (["--theme", "light", "x.py"], "goes with the workbench"),
        (["--json", "doctor"], "options of a command follow it"),
        (["config", "get"], "kbench config get NAME"),
        (["config", "set", "epsilon"], "kbench config set NAME VALUE"),
        (["config", "put", "epsilon", "1"], "invalid choice"),
        (["learn", "one"], "invalid int value"),
    ],
)
def test_wrong_usage_says_what_is_wrong_and_gives_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_version_and_help_go_to_standard_output(run_kbench):
    version = run_kbench("--version")
    assert (version.returncode, version.stdout, version.stderr) == (
        0,
        f"kbench {__version__}\n",
        "",
    )
    help_text = run_kbench("--help")
    assert help_text.returncode == 0 and help_text.stderr == ""
    for word in ("-c CODE", "--plain", "--json", "--screenshot", *cli.COMMANDS, "130"):
        assert word in help_text.stdout


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_has_help(name, run_kbench):
    done = run_kbench(name, "--help")
    assert done.returncode == 0 and f"kbench {name}" in done.stdout


# ------------------------------------------------------------------ running code

# (arguments, standard input, exit code, standard output, a pattern in standard error or None)
RUNS = [
    (["-c", "1 + 1"], "", 0, "2\n", None),
    (["-c", "x = 3"], "", 0, "", None),
    (["-c", "None"], "", 0, "", None),
    (["-c", "'é'"], "", 0, "'é'\n", None),
    (["-c", "print('a'); 'b'"], "", 0, "a\n'b'\n", None),
    (["-c", "K.floatx()"], "", 0, "'float32'\n", None),
    (["-c", "K.eval(K.constant([1., 2.]) * 2)"], "", 0, "float32[2] 8 B  [2, 4]\n", None),
    (["-c", "import sys; sys.argv", "-c", "--x"], "", 0, "['-c', '-c', '--x']\n", None),
    (["-c", "import sys; sys.path[0]"], "", 0, "''\n", None),
    (["-c", "__name__"], "", 0, "'__main__'\n", None),
    (["-c", "import __main__; __main__.K is K"], "", 0, "True\n", None),
    (["-c", "from __future__ import annotations\nx: nowhere = 1\nx"], "", 0, "1\n", None),
    (["-c", ""], "", 0, "", None),
    (["-c", "raise SystemExit(7)"], "", 7, "", None),
    (["-c", "raise SystemExit('no')"], "", 1, "", "^no$"),
    (["-c", "raise SystemExit"], "", 0, "", None),
    (["-c", "1 +"], "", 1, "", r"SyntaxError: invalid syntax"),
    (["-c", "\0"], "", 1, "", "null bytes"),
    (["-c", "1/0"], "", 1, "", r'File "<string>", line 1.*\n.*ZeroDivisionError: division by zero'),
    (["-c", "raise KeyboardInterrupt"], "", 130, "", "interrupted"),
    (["-"], "K.epsilon()", 0, "1e-07\n", None),
    ([], "K.epsilon()", 0, "1e-07\n", None),
    (["-", "a"], "import sys\nsys.argv", 0, "['-', 'a']\n", None),
    (["-"], "# coding: utf-8\n'ü'\n", 0, "'ü'\n", None),
    (["-"], "", 0, "", None),
    (["-"], "def f():\n    1/0\nf()\n", 1, "", r'File "<stdin>", line 2, in f\n    1/0'),
    (["no-such.py"], "", 2, "", "no such script or command: no-such.py"),
    (["tests"], "", 2, "", "folder without __main__.py"),
    (["-m", "no.such.module"], "", 2, "", "no module named 'no.such.module'"),
    (["-m", "json.tool"], '{"a": 1}', 0, '{\n    "a": 1\n}\n', None),
    (["config", "get", "nonsense"], "", 2, "", "unknown setting 'nonsense'; there are backend, "),
    (["config", "set", "floatx", "int8"], "", 2, "", "floatx must be one of"),
    (["config", "set", "epsilon", "NaN"], "", 2, "", "epsilon must be a finite number"),
    (["config", "set", "num_threads", "2"], "", 2, "", "is not kept in keras.json"),
    (["config", "get", "floatx"], "", 0, "float32\n", None),
    (["--screenshot", "x.svg", "--theme", "no"], "", 2, "", "there is no theme 'no'; there are"),
    (["--screenshot", "x.svg", "--script", "no.kbs"], "", 2, "", "No such file.*no.kbs"),
    (["--screenshot", "no/such/x.svg", "--size", "20x5"], "", 2, "", "No such file"),
    (["learn", "99"], "", 2, "", "no lesson 99"),
    (["bench", "--only", "no such"], "", 2, "", "no workload's name contains"),
]


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "out", "err"), RUNS, ids=[" ".join(row[0])[:40] for row in RUNS]
)
def test_run(run_kbench, arguments, stdin, code, out, err):
    if any("\0" in one for one in arguments):  # no command line can carry it; a pipe can
        arguments, stdin = ["-"], arguments[1]
    done = run_kbench(*arguments, stdin=stdin)
    assert (done.returncode, done.stdout) == (code, out), done.stderr
    assert ESCAPE not in done.stdout + done.stderr
    if err is None:
        assert done.stderr == ""
    else:
        assert re.search(err, done.stderr, re.MULTILINE | re.DOTALL), done.stderr


def test_an_engine_error_shows_the_users_line_and_the_operands(run_kbench):
    code = (
        "x = K.placeholder((None, 3), name='x')\nw = K.variable([[1., 2.]], name='w')\nK.dot(x, w)"
    )
    done = run_kbench("-c", code)
    assert done.returncode == 1 and done.stdout == ""
    assert '  File "<string>", line 3' in done.stderr
    assert "ShapeError: dot: " in done.stderr
    assert "float32[?, 3]" in done.stderr and "float32[1, 2]" in done.stderr
    assert "engine" not in done.stderr and "cli_run" not in done.stderr
    full = run_kbench("--full-traceback", "-c", code)
    assert "engine" in full.stderr and full.returncode == 1


def test_a_script_runs_as_under_python(run_kbench, run_python, tmp_path):
    (tmp_path / "beside.py").write_text("VALUE = 5\n")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import sys, pickle
        import beside
        class Own: pass
        print(__name__, __file__ == sys.argv[0], sys.argv[1:], sys.path[0], beside.VALUE)
        print(sys.modules["__main__"].Own is Own, type(pickle.loads(pickle.dumps(Own()))) is Own)
        print("K" in globals())
        1 + 1
        """)
    )
    ours = run_kbench(str(script), "-c", "--json", cwd=tmp_path)
    python = run_python(str(script), "-c", "--json", cwd=tmp_path)
    assert (ours.returncode, ours.stdout) == (0, python.stdout), ours.stderr


def test_a_failing_script_shows_its_own_frames(run_kbench, tmp_path):
    script = tmp_path / "fails.py"
    script.write_text(
        "import kbench as K\ndef build():\n    return K.reshape(K.zeros((4,)), (3,))\nbuild()\n"
    )
    done = run_kbench(str(script))
    files = re.findall(r'File "([^"]+)", line (\d+)', done.stderr)
    assert done.returncode == 1
    assert files == [(str(script), "4"), (str(script), "3")]


def test_a_module_and_a_folder_run(run_kbench, tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    module = run_kbench("-m", "pack", "--help", cwd=tmp_path)
    folder = run_kbench("pack", "--help", cwd=tmp_path)
    assert module.stdout == folder.stdout == "__main__ ['--help']\n"


def test_chained_errors_keep_the_users_cause(run_kbench):
    code = "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise RuntimeError('why') from e"
    done = run_kbench("-c", code)
    assert "ZeroDivisionError" in done.stderr and "direct cause" in done.stderr
    assert done.stderr.rstrip().endswith("RuntimeError: why")


@pytest.mark.parametrize(
    ("code", "pattern"),
    [
        ("class A:\n    def __repr__(self): raise OSError('broken')\nA()", "OSError: broken"),
        ("class E(Exception):\n    def __str__(self): raise OSError\nraise E", "E: <exception str"),
        ("def f(): f()\nf()", "RecursionError"),
    ],
)
def test_hostile_objects_give_an_error_and_1(run_kbench, code, pattern):
    done = run_kbench("-c", code)
    assert done.returncode == 1 and pattern in done.stderr and len(done.stderr) < 10_000


def test_output_in_a_poor_encoding_is_escaped_not_fatal(run_kbench):
    poor = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert run_kbench("-c", "'\\u2603'", env=poor).stdout == "'\\u2603'\n"
    done = run_kbench("-c", "import numpy as np; np.arange(100.)", env=poor)
    assert done.returncode == 0 and done.stdout.isascii() and "[0 |" in done.stdout


def test_a_closed_pipe_ends_quietly(root):
    command = [sys.executable, "-m", "kbench_launcher", "-c", "while True: print('x' * 1000)"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, cwd=root, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith("x")
        process.stdout.close()
        assert process.wait(30) == 1
        assert process.stderr.read() == ""


def test_an_interrupt_gives_130(root):
    code = "import time; print('on', flush=True); time.sleep(60)"
    command = [sys.executable, "-m", "kbench_launcher", "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, cwd=root, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == "kbench: interrupted\n"


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
    refusal = cli_base.terminal_refusal()
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
    assert report["threads"]["idle threads"] == "sleep"
    assert report["settings"]["floatx"] == "float32"
    text = run_kbench("doctor", "--fast").stdout
    for part in ("versions", "machine", "settings", "threads", "kernel cache", "no problems"):
        assert part in text


@pytest.mark.slow
def test_doctor_measures_the_machine(run_kbench):
    limits = json.loads(run_kbench("doctor", "--json").stdout)["measured limits"]
    for name in ("copy", "GEMM float32", "GEMM float64"):
        assert float(limits[name].split()[0]) > 0.1


def test_doctor_names_a_broken_settings_file(run_kbench, tmp_path):
    (tmp_path / "keras.json").write_text('{"epsilon": 1e-7,\n oops')
    done = run_kbench("doctor", "--fast", env={"KERAS_HOME": str(tmp_path)})
    assert done.returncode == 2 and "keras.json, line 2" in done.stdout


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


def test_lessons_are_listed(run_kbench, tmp_path):
    done = run_kbench("learn", env={"KBENCH_STATE_DIR": str(tmp_path)})
    assert done.returncode == 0
    assert re.search(r"^ +1  .*0 of \d+ exercises done$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("number", [1, 2])
def test_a_lesson_can_be_walked_to_its_end(run_kbench, tmp_path, number):
    from kbench.workbench.lessons import load

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
        step.may_fail and step.role == "demo" for step in lesson.steps
    )
    for name in lesson.exercises:
        assert f"[x] {name}" in done.stdout


def test_a_lesson_runs_python_between_its_steps_and_keeps_the_place(run_kbench, tmp_path):
    lines = [":next", "def f(n):", "    return n * 2", "", "f(21)", "1/0", ":nonsense", ":quit"]
    done = _lesson(run_kbench, tmp_path, 1, *lines)
    assert "42" in done.stdout and "ZeroDivisionError" in done.stdout
    assert "no command :nonsense" in done.stdout
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
        typed="w = K.variable([1., 2.])\nK.set_epsilon(1e-3)\nK.set_value(w, [3., 4.])\nexit",
        environment={"PYTHONPATH": str(root)},
    )
    assert code == 0 and ESCAPE not in shown
    assert "setting epsilon is now 0.001" in shown
    assert re.search(r"w: variable .*\[1, 2\]", shown) and re.search(
        r"w: variable .*\[3, 4\]", shown
    )


@pytest.mark.slow
def test_warmup_fills_the_cache_once(run_kbench, tmp_path):
    cache = {"KBENCH_CACHE_DIR": str(tmp_path)}
    times = []
    for _ in range(2):
        start = time.perf_counter()
        done = run_kbench("warmup", env=cache, timeout=300)
        times.append(time.perf_counter() - start)
        assert done.returncode == 0 and done.stdout == ""
        assert re.fullmatch(r"\d+ kernels ready in [\d.]+ s\n", done.stderr)
    assert times[1] < times[0] / 2
    assert (
        int(
            json.loads(run_kbench("doctor", "--fast", "--json", env=cache).stdout)["kernel cache"][
                "kernels"
            ]
        )
        > 50
    )
