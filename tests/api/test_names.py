"""The public names: those of Keras 2.3.1 with its signatures, in every place that has them."""

from __future__ import annotations

import importlib
import inspect
import json
import types
from pathlib import Path
from typing import Any

import pytest

import kbench
from kbench import backend as K

LINES = Path(__file__).with_name("keras_signatures.txt").read_text(encoding="utf-8").splitlines()
SIGNATURES = [line for line in LINES if line and not line.startswith("#")]


def expected(line: str) -> inspect.Signature:
    """The signature that a line such as `relu(x, alpha=0.0)` gives."""
    names: dict[str, Any] = {}
    exec(f"def {line}: pass", names)
    return inspect.signature(names[line.split("(")[0]])


@pytest.mark.parametrize("line", SIGNATURES)
def test_signature(line: str) -> None:
    name = line.split("(")[0]
    function = getattr(K, name)
    assert callable(function)
    got = list(inspect.signature(function).parameters.values())
    wanted = list(expected(line).parameters.values())
    assert [(one.name, one.default) for one in got[: len(wanted)]] == [
        (one.name, one.default) for one in wanted
    ]
    for one in got[len(wanted) :]:  # what kbench adds is optional
        assert one.kind == one.KEYWORD_ONLY or one.default is not one.empty


@pytest.mark.parametrize("line", SIGNATURES)
def test_arguments_can_be_given_by_name(line: str) -> None:
    """Every name of Keras is bound, never swallowed: a wrong one is a TypeError."""
    name = line.split("(")[0]
    if name == "function":  # takes keywords, and refuses those that it does not know
        with pytest.raises(K.ArgumentError, match="unknown argument"):
            K.function([], [], no_such_argument=1)
        return
    parameters = dict.fromkeys(expected(line).parameters)
    with pytest.raises(TypeError, match="no_such_argument"):
        getattr(K, name)(**parameters, no_such_argument=1)


ALIASES = {"backend"}  # the module itself is callable, too


def test_every_name_is_documented_and_listed() -> None:
    for line in SIGNATURES:
        name = line.split("(")[0]
        assert name in K.__all__ or name in ALIASES, name
        assert inspect.getdoc(getattr(K, name)), f"{name} has no documentation"
    assert len(set(K.__all__)) == len(K.__all__)
    assert all(hasattr(K, name) for name in K.__all__)
    assert not [name for name in K.__all__ if isinstance(getattr(K, name), types.ModuleType)]


def test_the_package_has_every_name_itself() -> None:
    # Keras copies what is in the module's __dict__, so that looking a name up late is not enough.
    missing = [name for name in K.__all__ if name not in vars(kbench)]
    assert missing == []
    assert all(vars(kbench)[name] is getattr(K, name) for name in K.__all__)
    assert kbench.backend() == K.backend() == K() == "kbench"


def test_python_functions_are_kept_under_their_names() -> None:
    assert K.py_all([True]) and K.py_sum([1, 2]) == 3
    assert K.py_slice(1) == slice(1) and K.py_any([1])


def test_what_keras_needs_of_a_backend() -> None:
    for name in ("placeholder", "variable", "function"):
        assert callable(getattr(importlib.import_module("kbench"), name))


HEAVY = ("numba", "scipy", "textual", "IPython", "ipywidgets", "matplotlib", "rich", "psutil")


def test_import_loads_nothing_heavy(run_python: Any) -> None:
    code = (
        "import json, sys, kbench as K\n"
        "K.eval(K.sum(K.variable([1.0]) * 2))\n"
        f"print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    )
    done = run_python("-c", code, env={"KBENCH_JIT": "off"})
    assert (json.loads(done.stdout), done.stderr) == ([], "")
