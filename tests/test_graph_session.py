"""Names, scopes, uids, the learning phase, and what clearing the session does."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine import config


@pytest.fixture(autouse=True)
def fresh() -> None:
    K.clear_session()


# ------------------------------------------------------------------ names


def test_names_are_unique_and_keep_what_was_asked() -> None:
    names = [K.variable(1.0, name="w").name for _ in range(3)]
    assert names == ["w:0", "w_1:0", "w_2:0"]
    assert K.variable(1.0, name="w_1").name == "w_1_1:0"
    assert K.placeholder((1,), name="w").name == "w_3:0"
    assert (K.placeholder((1,)).name, K.variable(1.0).name) == ("placeholder:0", "variable:0")


def test_scopes_nest_and_end() -> None:
    with K.name_scope("outer"):
        first = K.variable(1.0, name="w")
        with K.name_scope("inner"):
            second = first * 2
        with pytest.raises(RuntimeError), K.name_scope("broken"):
            raise RuntimeError
        third = K.placeholder((), name="x")
    assert first.name == "outer/w:0"
    assert second.name == "outer/inner/multiply:0"
    assert third.name == "outer/x:0"
    assert K.variable(1.0, name="w").name == "w:0"


def test_scopes_are_of_one_thread() -> None:
    names: list[str] = []
    with K.name_scope("main"):
        other = threading.Thread(target=lambda: names.append(K.variable(1.0, name="w").name))
        other.start()
        other.join()
    assert names == ["w:0"]


def test_names_from_many_threads_are_unique() -> None:
    names: list[str] = []
    threads = [
        threading.Thread(target=lambda: names.extend(K.variable(0.0).name for _ in range(200)))
        for _ in range(6)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(set(names)) == 1200


def test_uids() -> None:
    assert [K.get_uid("a"), K.get_uid("a"), K.get_uid("b"), K.get_uid()] == [1, 2, 1, 1]
    K.reset_uids()
    assert K.get_uid("a") == 1
    K.clear_session()
    assert K.get_uid("a") == 1


# ------------------------------------------------------------------ clearing


def test_clearing_starts_names_again_and_keeps_values() -> None:
    v = K.variable(3.0, name="w")
    compiled = K.function([], [v * 2])
    session = K.get_session()
    K.set_learning_phase(1)
    K.clear_session()
    assert K.variable(1.0, name="w").name == "w:0"
    assert K.get_session() is not session
    assert K.is_tensor(K.learning_phase())
    assert K.get_value(v) == 3.0
    assert K.eval(v + 1) == 4.0
    assert compiled([])[0] == 6.0


def test_flags_and_decorators_of_keras() -> None:
    K.manual_variable_initialization(True)
    K.manual_variable_initialization(False)
    K.v1_variable_initialization()

    def plain(x: int) -> int:
        return x + 1

    assert K.symbolic(plain)(1) == K.eager(plain)(1) == 2


# ------------------------------------------------------------------ the learning phase


def test_the_phase_is_one_placeholder_until_cleared() -> None:
    phase = K.learning_phase()
    assert K.learning_phase() is phase
    assert (K.dtype(phase), K.int_shape(phase), phase._uses_learning_phase) == ("bool", (), True)
    assert not K.eval(phase)
    K.clear_session()
    assert K.learning_phase() is not phase


@pytest.mark.parametrize("value", [0, 1, True, False, np.int64(1), np.bool_(False), 1.0])
def test_a_fixed_phase(value: Any) -> None:
    told: list[str] = []
    forget = config.changed.subscribe(told.append)
    try:
        K.set_learning_phase(value)
    finally:
        forget()
    assert told == ["learning_phase"]
    assert K.learning_phase() == value
    assert config.snapshot()["learning_phase"] == int(value)
    x = K.constant([1.0])
    chosen = K.in_train_phase(x * 2, lambda: x * 3)
    assert K.eval(chosen) == (2.0 if value else 3.0)
    assert not chosen._uses_learning_phase


def test_a_phase_for_a_block() -> None:
    with K.learning_phase_scope(1):
        assert K.learning_phase() == 1
        with pytest.raises(K.ArgumentError):
            K.learning_phase_scope(3)
    assert K.is_tensor(K.learning_phase())


def test_a_phase_given_by_hand() -> None:
    x, y = K.constant([1.0]), K.constant([2.0])
    calls: list[str] = []

    def never() -> Any:
        calls.append("called")
        return y

    assert K.eval(K.in_train_phase(x, never, training=1)) == 1.0
    assert K.eval(K.in_test_phase(never, x, training=True)) == 1.0
    assert calls == []
    flag = K.placeholder((), dtype="bool")
    chosen = K.in_train_phase(x, y, training=flag)
    assert [K.function([flag], [chosen])([one])[0].item() for one in (1, 0)] == [1.0, 2.0]
    assert not chosen._uses_learning_phase


def test_what_uses_the_phase_spreads() -> None:
    x = K.placeholder((2,))
    y = K.in_train_phase(x * 2, x)
    for built in (y + 1, K.sum(y), K.concatenate([x, y]), K.gradients(K.sum(y), x)[0]):
        assert built._uses_learning_phase
    assert not (x + 1)._uses_learning_phase
    assert not K.variable(1.0)._uses_learning_phase


def test_setting_the_phase_keeps_functions_that_were_made() -> None:
    x = K.placeholder((1,))
    compiled = K.function([x, K.learning_phase()], [K.in_train_phase(x * 2, x)])
    K.set_learning_phase(0)
    assert compiled([[1.0], 1])[0].tolist() == [2.0]
