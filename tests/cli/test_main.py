"""The command line: what is run, what is written where, exit codes, bad input."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap

import pytest
from sampling import every

from kbench.cli import main
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
    assert main.split(arguments) == (head, rest)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-such"], "unrecognized arguments"),
        (["--plai"], "unrecognized arguments"),
        (["-c"], "expected one argument"),
        (["--size", "80x24"], "only apply to --screenshot"),
        (["--script", "demo.kbs"], "only apply to --screenshot"),
        (["--screenshot", "o.svg", "--size", "80"], "is not COLUMNSxROWS"),
        (["--screenshot", "o.svg", "--size", "0x5"], "outside 20x5 to 1000x500"),
        (["--screenshot", "o.svg", "--size", "5000x5000"], "outside 20x5 to 1000x500"),
        (["--screenshot", "o.svg", "-c", "1"], "takes no code"),
        (["--screenshot", "o.svg", "--ascii"], "--ascii only applies to the workbench"),
        (["--plain", "-c", "1"], "takes no code"),
        (["--plain", "--json"], "no --json"),
        (["--theme", "light", "x.py"], "only applies to the workbench"),
        (["--json", "doctor"], "options of a command follow it"),
        (["config", "get"], "kbench config get NAME"),
        (["config", "set", "epsilon"], "kbench config set NAME VALUE"),
        (["config", "put", "epsilon", "1"], "invalid choice"),
        (["learn", "one"], "invalid int value"),
    ],
)
def test_wrong_usage_says_what_is_wrong_and_gives_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main.main(arguments)
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
    for word in ("-c CODE", "--plain", "--json", "--screenshot", *main.COMMANDS, "130"):
        assert word in help_text.stdout


@pytest.mark.parametrize("name", sorted(main.COMMANDS))
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
    (
        ["-c", "K.softmax(K.variable([[1., 2.]]))"],
        "",
        0,
        "tensor softmax:0 float32[1, 2] 8 B  [0.2689, 0.7311]  softmax(variable:0)\n",
        None,
    ),
    (
        ["-c", "w = K.variable([1., 2.]); [K.sum(w), w, K.placeholder(()) + 1]"],
        "",
        0,
        "[0] tensor sum:0 float32[] 4 B  3  sum(variable:0)\n"
        "[1] variable variable:0 float32[2] 8 B  [1, 2]  v0\n"
        "[2] tensor add:0 float32[]  add(placeholder:0, constant:0)\n",
        None,
    ),
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
    (["config", "get", "nonsense"], "", 2, "", "unknown setting 'nonsense'; choose from backend, "),
    (["config", "set", "floatx", "int8"], "", 2, "", "floatx must be one of"),
    (["config", "set", "epsilon", "NaN"], "", 2, "", "epsilon must be a finite number"),
    (["config", "set", "num_threads", "2"], "", 2, "", "is not kept in keras.json"),
    (["config", "get", "floatx"], "", 0, "float32\n", None),
    (["--screenshot", "x.svg", "--theme", "no"], "", 2, "", "unknown theme 'no'; choose from"),
    (["--screenshot", "x.svg", "--script", "no.kbs"], "", 2, "", "No such file.*no.kbs"),
    (["--screenshot", "no/such/x.svg", "--size", "20x5"], "", 2, "", "No such file"),
    (["learn", "99"], "", 2, "", "no lesson 99"),
    (["bench", "--only", "no such"], "", 2, "", "no name contains 'no such': "),
]


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "out", "err"),
    every(3, RUNS),
    ids=[" ".join(row[0])[:40] for row in RUNS],
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
