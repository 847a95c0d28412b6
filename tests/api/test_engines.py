"""The choice of an engine: by the environment, by keras.json, by name; and what is refused."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pexpect
import pytest
from sampling import every

import kbench
from kbench import backend as K
from kbench.api import engines
from kbench.cli import exit_codes
from kbench.engine.core.errors import EngineError
from kbench.engine.runtime import config, profile

ENGINE = '''
"""A backend of three functions and a few more."""
made = []
def placeholder(shape=None): return ("placeholder", shape)
def variable(value): return ("variable", value)
def function(inputs, outputs): return lambda values: values
def sum(x): return "their sum"
def set_floatx(name): made.append(name)
'''


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that can be imported: a backend, half a one, broken ones."""
    (tmp_path / "their_backend.py").write_text(ENGINE)
    (tmp_path / "half_a_backend.py").write_text("def variable(value): return value\nfunction = 3\n")
    (tmp_path / "broken_backend.py").write_text("1 / 0\n")
    (tmp_path / "needy_backend.py").write_text("import nothing_of_this_name\n")
    (tmp_path / "tf_keras").mkdir()
    (tmp_path / "tf_keras" / "__init__.py").write_text("")
    (tmp_path / "tf_keras" / "backend.py").write_text(ENGINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("their_backend", "half_a_backend", "needy_backend", "tf_keras"):
        sys.modules.pop(name, None)
        sys.modules.pop(f"{name}.backend", None)


# ------------------------------------------------------------------ which one is meant


@pytest.mark.parametrize(
    "named, fields, name, source",
    [
        (None, {}, "kbench", "the default"),
        ("", {"backend": "numpy"}, "numpy", "keras.json"),
        ("  ", {}, "kbench", "the default"),
        (" numpy ", {"backend": "kbench"}, "numpy", "KERAS_BACKEND"),
        ("tensorflow", {}, "tensorflow", "KERAS_BACKEND"),
        ("kbench", {"backend": "numpy"}, "kbench", "KERAS_BACKEND"),
        (None, {"backend": "kbench"}, "kbench", "keras.json"),
        (None, {"backend": "a.module"}, "a.module", "keras.json"),
        (None, {"backend": ""}, "kbench", "the default"),
        *(
            (None, {"backend": one}, "kbench", f"the default; {one} in keras.json is Keras' own")
            for one in ("tensorflow", "theano", "cntk", "jax", "torch")
        ),
    ],
)
def test_choose(
    monkeypatch: pytest.MonkeyPatch, named: Any, fields: Any, name: str, source: str
) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    if named is not None:
        monkeypatch.setenv("KERAS_BACKEND", named)
    choice = engines.choose(fields)
    assert choice.name == name
    assert choice.source.startswith(source)
    assert str(choice) == f"{choice.name} ({choice.source})"


def test_a_backend_that_is_no_name_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    with pytest.warns(UserWarning, match="field 'backend': 5 is not a name"):
        assert engines.choose({"backend": 5}).name == "kbench"


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    "name, says",
    [
        ("no_such_backend", ["'no_such_backend'", "cannot be imported", "No module named"]),
        ("half_a_backend", ["it has no placeholder, function", "kbench and numpy"]),
        ("json", ["it has no placeholder, variable, function (a backend has placeholder"]),
        ("broken_backend", ["fails while it is imported: ZeroDivisionError"]),
        ("needy_backend", ["cannot be imported: No module named 'nothing_of_this_name'"]),
        ("theano", ["is not available", "2020", "kbench and numpy"]),
        ("cntk", ["is not available", "2019", "kbench and numpy"]),
    ],
)
def test_refused(modules: Path, name: str, says: list[str]) -> None:
    with pytest.raises(EngineError) as caught:
        engines.module(name)
    assert isinstance(caught.value, ImportError)
    for part in says:
        assert part in str(caught.value)
    with pytest.raises(EngineError, match="unset KERAS_BACKEND, or set it to kbench or numpy"):
        engines.module(name, "KERAS_BACKEND")


def test_tensorflow_is_tf_keras_backend(modules: Path) -> None:
    assert engines.module("tensorflow").__name__ == "tf_keras.backend"


def test_tensorflow_says_how_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tf_keras", None)  # as if it were not installed
    with pytest.raises(EngineError, match=r"pip install 'kbench\[tensorflow\]'"):
        engines.module("tensorflow")


# ------------------------------------------------------------------ a fresh process with one


def answer(run_python: Any, code: str, **env: str) -> Any:
    done = run_python("-c", f"import json, kbench as K\nprint(json.dumps({code}))", env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_numpy_runs_without_kernels(run_python: Any) -> None:
    code = (
        "[K.backend(), K.eval(K.sum(K.ones((300, 300)) * 2)).item(),"
        " __import__('sys').modules.get('numba') is None]"
    )
    found = answer(run_python, code, KERAS_BACKEND="numpy", KBENCH_JIT="wait", KBENCH_LEAST="1")
    assert found == ["numpy", 180000.0, True]


def test_another_module_gives_its_functions(run_python: Any, modules: Path) -> None:
    code = (
        "[K.backend(), K.sum(1), K.variable(2), K.backend.sum(1), hasattr(K, 'dot'),"
        " 'dot' in K.__all__, K.floatx(), K.py_sum([1]), K.ShapeError.__name__,"
        " __import__('their_backend').made]"
    )
    (modules / "keras.json").write_text('{"floatx": "float16", "backend": "their_backend"}')
    found = answer(run_python, code, KERAS_HOME=str(modules), PYTHONPATH=f"{modules}:{ROOT}")
    assert found[:4] == ["their_backend", "their sum", ["variable", 2], "their sum"]
    assert found[4:] == [False, False, "float16", 1, "ShapeError", ["float16"]]
    code = "[getattr(K, 'dot', None), K.backend()]"
    done = run_python(
        "-c",
        "import kbench as K\nK.dot",
        env={"KERAS_BACKEND": "their_backend", "PYTHONPATH": f"{modules}:{ROOT}"},
    )
    assert "AttributeError: the engine 'their_backend' has no 'dot'" in done.stderr


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", every(4, ["tensorflow", "theano", "cntk", "jax"]))
def test_what_keras_writes_does_not_stop_the_import(
    run_python: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / "keras.json").write_text(json.dumps({"backend": name}))
    assert answer(run_python, "K.backend()", KERAS_HOME=str(tmp_path)) == "kbench"


def test_kbench_by_its_module_name_is_kbench(run_python: Any) -> None:
    assert answer(run_python, "K.eval(K.constant(2.0)).item()", KERAS_BACKEND="kbench") == 2.0
    assert answer(run_python, "K.backend()", KERAS_BACKEND="kbench.backend") == "kbench"


def test_the_import_fails_with_the_reason(run_python: Any) -> None:
    done = run_python("-c", "import kbench", env={"KERAS_BACKEND": "theano"})
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "kbench.engine.core.errors.EngineError: KERAS_BACKEND asks for the engine"
    )


# ------------------------------------------------------------------ the commands


def kbench_command(run_python: Any, *arguments: str, **env: str) -> Any:
    return run_python("-m", "kbench_launcher", *arguments, env=env)


@pytest.mark.parametrize("arguments", every(2, [["-c", "1"], ["learn"], ["warmup"], ["-"]]))
def test_commands_say_it_in_one_line(run_python: Any, arguments: list[str]) -> None:
    done = kbench_command(run_python, *arguments, KERAS_BACKEND="cntk")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "kbench: KERAS_BACKEND asks for the engine 'cntk', which is not available"
    )
    assert done.stderr.count("\n") == 1


def test_doctor_and_config_still_answer(run_python: Any) -> None:
    done = kbench_command(run_python, "doctor", "--fast", "--json", KERAS_BACKEND="theano")
    found = json.loads(done.stdout)
    assert done.returncode == 2
    assert found["settings"]["engine"] == "theano (KERAS_BACKEND)"
    assert any("is not available" in one for one in found["problems"])
    done = kbench_command(run_python, "config", KERAS_BACKEND="theano")
    assert done.returncode == 0
    assert "the backend is theano by KERAS_BACKEND" in done.stderr


def test_doctor_shows_the_engine_and_the_file(run_python: Any, tmp_path: Path) -> None:
    home = {"KERAS_HOME": str(tmp_path)}
    settings = json.loads(kbench_command(run_python, "doctor", "--fast", "--json", **home).stdout)[
        "settings"
    ]
    assert settings["engine"] == "kbench (the default)"
    assert settings["keras.json"] == f"{tmp_path / 'keras.json'}, which does not exist"


@pytest.mark.slow
def test_config_keeps_the_engine(run_python: Any, tmp_path: Path, modules: Path) -> None:
    home = {"KERAS_HOME": str(tmp_path), "PYTHONPATH": f"{modules}:{ROOT}"}

    def command(*arguments: str) -> Any:
        return kbench_command(run_python, "config", *arguments, **home)

    assert command("set", "backend", "numpy").returncode == 0
    assert command("get", "backend").stdout == "numpy\n"
    assert command("set", "epsilon", "1e-5").returncode == 0
    assert json.loads(command("--json").stdout)["backend"] == "numpy"
    assert command("set", "backend", "their_backend").returncode == 0
    for name, reason in (("half_a_backend", "no placeholder"), ("theano", "set KERAS_BACKEND")):
        done = command("set", "backend", name)
        assert done.returncode == 2 and reason in done.stderr
    assert command("get", "backend").stdout == "their_backend\n"


def test_the_workbench_does_not_open_without_its_engine() -> None:
    environment = {**os.environ, "KERAS_BACKEND": "theano", "TERM": "xterm-256color"}
    environment.pop("CI", None)
    arguments = ["-m", "kbench_launcher"]
    terminal = pexpect.spawn(
        sys.executable, arguments, env=environment, cwd=ROOT, timeout=30, dimensions=(24, 300)
    )
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.before.startswith(b"kbench: KERAS_BACKEND asks for the engine 'theano'")
    assert terminal.exitstatus == 2


@pytest.mark.parametrize(
    "written, named",
    [
        ("", False),
        ("no json", False),
        ("[1]", False),
        ('{"floatx": "float32"}', False),
        ('{"backend": "numpy"}', False),
        ('{"backend": "their_backend"}', True),
    ],
)
def test_whether_an_engine_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, named: bool
) -> None:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    if written:
        (tmp_path / "keras.json").write_text(written)
    assert exit_codes.names_engine() is named
    monkeypatch.setenv("KERAS_BACKEND", "kbench")
    assert exit_codes.names_engine() is False


# ------------------------------------------------------------------ engines side by side


def test_load_gives_engines_by_name(modules: Path) -> None:
    own, numpy = engines.load("kbench"), engines.load("numpy")
    assert (own.backend(), numpy.backend()) == ("kbench", "numpy")
    assert numpy.softmax is K.softmax and set(numpy.__all__) == set(K.__all__)
    assert engines.load("their_backend").sum(0) == "their sum"
    with pytest.raises(EngineError, match="no_such_backend"):
        engines.load("no_such_backend")


def forms(call: Any) -> set[str]:
    with profile.record() as runs:
        call()
    return {step.form for run in runs for step in run.steps}


def test_the_engines_live_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    x = K.placeholder((None, 300))
    y = K.softmax(K.exp(x) * 2)
    array = np.ones((100, 300), "float32")
    compiled = K.function([x], [y])
    plain = engines.load("numpy").function([x], [y])
    assert forms(lambda: compiled([array])) == {"fused"}
    assert forms(lambda: plain([array])) == {"numpy"}
    np.testing.assert_allclose(compiled([array])[0], plain([array])[0], 1e-6)
    assert forms(lambda: compiled([array])) == {"fused"}
    assert plain.name == "function" and repr(plain).endswith("on numpy")
    fixed = K.exp(K.constant(np.ones((200, 200))))
    variable = K.variable(np.ones((200, 200)))
    assert engines.load("numpy").eval(fixed).shape == (200, 200)
    assert forms(lambda: engines.load("numpy").eval(K.exp(variable))) == {"numpy"}


def test_a_threads_engine_is_its_own() -> None:
    modes = []

    def look() -> None:
        modes.append(config.jit_mode())

    with engines.running("numpy"):
        look()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        with engines.running("kbench"):
            look()
        look()
    look()
    assert modes == ["off", "auto", "auto", "off", "auto"]


def test_a_kernel_of_an_op_is_not_used_where_none_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One function, run on either engine: what the other has found does not stay."""
    monkeypatch.setenv("KBENCH_JIT", "wait")
    compiled = K.function([], [K.random_normal((200, 200), seed=1)])
    assert forms(lambda: compiled([])) == {"library"}
    with engines.running("numpy"):
        assert forms(lambda: compiled([])) == {"numpy"}
    assert forms(lambda: compiled([])) == {"library"}


def test_kbench_is_there_beside_another_engine(run_python: Any, modules: Path) -> None:
    code = (
        "[K.compare(lambda K, x: K.sum(x), ['kbench', 'numpy'], feeds=[[1.0, 2.0]])"
        "['numpy'].value.item(), K.backend(),"
        " len(__import__('kbench.api.reference', fromlist=['api']).entries()) > 180]"
    )
    found = answer(run_python, code, KERAS_BACKEND="their_backend", PYTHONPATH=f"{modules}:{ROOT}")
    assert found == [3.0, "their_backend", True]


@pytest.mark.parametrize(
    "module", ["kbench.engines", "kbench.api.engines", "kbench.api.comparison"]
)
def test_examples(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_the_package_offers_compare_and_engines() -> None:
    assert kbench.engines is engines
    assert callable(kbench.compare)


@pytest.mark.slow
def test_the_page_about_engines_holds(run_python: Any) -> None:
    text = (ROOT / "docs" / "engines.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    done = run_python("-c", "\n".join(blocks))
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "3.0" and lines[1] == "comparison of 2 engines, float64[300, 300]"
    assert lines[lines.index("True (300, 300)") + 1].startswith("comparison of 2 ")
    assert lines[-1].startswith("epsilon=0.001 ") and lines[-1].endswith("[150, 0]")
    named = re.search(r"by itself \((.*?)\)", text, re.DOTALL).group(1)
    assert set(re.findall(r"\w+", named)) <= set(engines.WRITTEN_BY_KERAS)
