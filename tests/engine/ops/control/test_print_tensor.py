"""`print_tensor`: what is printed, and when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from kbench import backend as K


def test_printing_passes_the_value_on(capsys: pytest.CaptureFixture[str]) -> None:
    x = K.placeholder((None,))
    y = K.print_tensor(x, "x is")
    compiled = K.function([x], [y * 2, K.gradients(K.sum(y * y), x)[0]])
    assert [one.tolist() for one in compiled([[1, 2]])] == [[2.0, 4.0], [2.0, 4.0]]
    assert capsys.readouterr().out == "x is [1. 2.]\n"
    assert K.function([x], [K.gradients(K.sum(y), x)[0]])([[1, 2]])[0].tolist() == [1.0, 1.0]
    assert capsys.readouterr().out == "", "nobody needs the value"


@pytest.mark.parametrize("mode", ["off", "wait"])
def test_every_evaluation_prints(
    mode: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KBENCH_JIT", mode)
    fixed, v = K.print_tensor(K.constant(1.5), "c"), K.variable(0.0)
    count = K.function([], [fixed + 1, K.print_tensor(v, "v") + K.print_tensor(v, "v")])
    K.function([], [], [(v, K.print_tensor(v + 1, "new"))])([])
    count([])
    count([])
    assert capsys.readouterr().out == "new 1.\n" + "c 1.5\nv 1.\nv 1.\n" * 2


def test_only_the_side_taken_prints(capsys: pytest.CaptureFixture[str]) -> None:
    flag, x = K.placeholder(()), K.placeholder((1,))
    chosen = K.switch(flag > 0, lambda: K.print_tensor(x, "one"), lambda: K.print_tensor(x, "two"))
    for value in (1, 0):
        chosen.eval(feed_dict={flag: value, x: [3]})
    with K.control_dependencies(K.print_tensor(x, "before")):
        (x * 1).eval(feed_dict={x: [4]})
    assert capsys.readouterr().out == "one [3.]\ntwo [3.]\nbefore [4.]\n"


PRINTED: list[tuple[Any, int, str]] = [
    (np.float32(2.5), 3, "2.5"),
    (np.arange(7), 3, "[0. 1. 2. ... 4. 5. 6.] float32[7]"),
    (np.arange(7), 1, "[0. ... 6.] float32[7]"),
    (np.arange(7), -1, "[0. 1. 2. 3. 4. 5. 6.]"),
    (np.arange(6).reshape(2, 3), 3, "[[0. 1. 2.]\n [3. 4. 5.]]"),
    (np.zeros((0, 3)), 3, "[] float32[0, 3]"),
    (np.array([np.nan, np.inf]), 3, "[nan inf]"),
    (sp.csr_array([[0, 2], [0, 0]]), 3, "sparse float32[2, 2] 1 entry: (0, 1) 2.0"),
    (sp.eye(9), 1, "sparse float32[9, 9] 9 entries: (0, 0) 1.0, ..., (8, 8) 1.0"),
    (sp.csr_array((2, 3)), 3, "sparse float32[2, 3] 0 entries"),
]


@pytest.mark.parametrize(("value", "summarize", "text"), PRINTED)
def test_what_is_printed(
    value: Any, summarize: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    K.eval(K.print_tensor(K.variable(value), "", summarize))
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.parametrize("shape", [(1000, 1000), (20, 20, 20, 20), (2,) * 16, (3, 10**6)])
def test_a_large_value_is_printed_shortly(
    shape: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    K.eval(K.print_tensor(K.zeros(shape), "z"))
    text = capsys.readouterr().out
    assert len(text) < 2000
    assert text.rstrip().endswith(f"float32[{', '.join(map(str, shape))}]")
