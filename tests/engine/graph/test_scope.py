"""Names, scopes, uids, the learning phase, sessions and the order of updates."""

from __future__ import annotations

import collections
import sys
import threading
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from kbench import backend as K
from kbench.engine.graph import variables
from kbench.engine.runtime import config


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


def test_names_that_were_asked_for_with_a_number_are_passed_over() -> None:
    made = [K.variable(1.0, name=name) for name in ("n_2", "n_02", "n", "n", "n", "n_3", "n_2")]
    assert [one.name for one in made] == "n_2:0 n_02:0 n:0 n_1:0 n_3:0 n_3_1:0 n_2_1:0".split()


def test_nodes_are_numbered_as_they_are_made_not_as_names_are_read() -> None:
    x = K.variable(1.0)
    with K.name_scope("order"):
        first, second = K.exp(x), K.exp(x)
    assert (second.name, first.name) == ("order/exp_1:0", "order/exp:0")


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


def test_names_with_numbers_from_many_threads_are_unique() -> None:
    """Whether `x_7` is a base of its own or the seventh `x` may be settled while both are made."""
    names: list[str] = []

    def work(first: int) -> None:
        for number in range(first, 120, 4):
            names.append(K.variable(0.0, name=f"x_{number + 1}").name)
            names.append(K.variable(0.0, name="x").name)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(names) == len(set(names)) == 240


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


# ------------------------------------------------------------------ the session


def test_the_session_is_one_until_it_is_replaced() -> None:
    session = K.get_session()
    assert K.get_session() is session
    other = K.Session()
    K.set_session(other)
    assert K.get_session() is other
    K.clear_session()
    assert K.get_session() not in (session, other)


def test_fetches_of_any_form_are_one_call() -> None:
    pair = collections.namedtuple("pair", "first second")
    x, v = K.placeholder((2,)), K.variable([1.0, 1.0])
    twice = x * 2
    fetches = [pair(twice, {"v": v, "none": []}), (), twice, K.update_add(v, x)]
    run = K.get_session().run
    got = run(fetches, {x: [1, 2]}, options=None, run_metadata=None)
    assert type(got[0]) is pair and got[0].first.tolist() == got[2].tolist() == [2.0, 4.0]
    assert got[0].second["v"].tolist() == [1.0, 1.0], "the state before the call"
    assert (got[0].second["none"], got[1]) == ([], ())
    assert got[3].tolist() == K.get_value(v).tolist() == [2.0, 3.0]
    assert run(twice + 1, feed_dict={twice: [5, 5]}).tolist() == [6.0, 6.0]
    assert run(v * 2, {v: [7, 7]}).tolist() == [14.0, 14.0]
    assert run(K.variable(sp.eye(3))).nnz == 3
    assert run([]) == []


def test_a_session_as_other_code_uses_it() -> None:
    x = K.variable(1.0)
    with K.get_session().as_default() as session, session.graph.as_default():
        assert session.run(x) == 1.0
        assert x.graph == session.graph
    with session:
        assert not session.closed
    assert session.closed
    K.clear_session()
    assert x.graph != K.get_session().graph


def test_swapping_by_updates() -> None:
    a, b = K.variable(1.0), K.variable(2.0)
    K.get_session().run([K.update(a, b), K.update(b, a)])
    assert (K.get_value(a), K.get_value(b)) == (2.0, 1.0)
    K.function([], [], updates=[(a, b), [b, a]])([])
    assert (K.get_value(a), K.get_value(b)) == (1.0, 2.0)


def test_an_error_in_the_middle_stores_nothing() -> None:
    a, b = K.variable([1.0]), K.variable([2.0])
    i = K.placeholder((1,), dtype="int32")
    fetches = [K.update(a, b), K.update(b, K.gather(a, i))]
    for wrong in ([5], [-1]):
        with pytest.raises(K.ShapeError):
            K.get_session().run(fetches, {i: wrong})
    assert (K.get_value(a), K.get_value(b), a.version, b.version) == (1.0, 2.0, 0, 0)
    K.get_session().run(fetches, {i: [0]})
    assert (K.get_value(a), K.get_value(b)) == (2.0, 1.0)


class Interrupted(variables.Variable):
    """A variable whose storing is interrupted, once."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_array" and "_array" in vars(self) and not vars(self).get("hit"):
            vars(self)["hit"] = True
            raise KeyboardInterrupt
        super().__setattr__(name, value)


def test_an_interrupt_between_two_stores_undoes_the_first() -> None:
    a, b = K.variable(1.0), Interrupted(np.float32([2.0]), "b")
    swap = K.function([], [], [(a, a + 10), (b, b + 10), (a, a + 20)])
    with pytest.raises(KeyboardInterrupt):
        swap([])
    assert (K.get_value(a), K.get_value(b), a.version, b.version) == (1.0, 2.0, 0, 0)
    swap([])
    assert (K.get_value(a), K.get_value(b), a.version, b.version) == (21.0, 12.0, 1, 1)


def test_several_values_are_of_one_moment() -> None:
    a, b = K.variable(0.0), K.variable(0.0)
    torn: list[Any] = []

    def read() -> None:
        for _ in range(2000):
            first, second = K.batch_get_value([a, b])
            if first != second:
                torn.append((first, second))

    reader = threading.Thread(target=read)
    reader.start()
    number = 0
    while reader.is_alive():
        number += 1
        K.batch_set_value([(a, number), (b, number)])
    assert torn == []
    assert K.batch_get_value([a, a * 2]) == [number, 2 * number]
    assert K.batch_get_value([]) == []


# ------------------------------------------------------------------ what waits for what


def test_what_waits_for_several_updates() -> None:
    a, b = K.variable(1.0), K.variable(10.0)
    with K.control_dependencies([K.update_add(a, 1.0)]):
        with K.control_dependencies((K.update_add(b, 10.0), None)):
            inner = a + b
        outer = a * 1
    after = a * 100
    assert K.eval(after) == 100.0
    assert K.eval(outer) == 2.0
    assert K.eval(inner) == 23.0
    assert (K.get_value(a), K.get_value(b)) == (3.0, 20.0)


def test_an_update_that_waits_for_another() -> None:
    count, total = K.variable(0.0), K.variable(0.0)
    with K.control_dependencies(K.update_add(count, 1.0)):
        step = K.update_add(total, count)
    for _ in range(3):
        K.function([], [], [step])([])
    assert (K.get_value(count), K.get_value(total)) == (3.0, 6.0)


def test_an_error_undoes_what_was_waited_for() -> None:
    a, x = K.variable(1.0), K.placeholder((None,), dtype="int32")
    with K.control_dependencies(K.update_add(a, 1.0)):
        picked = K.gather(K.constant([1.0]), x) * a
    with pytest.raises(K.ShapeError):
        picked.eval(feed_dict={x: [3]})
    assert K.get_value(a) == 1.0
    assert picked.eval(feed_dict={x: [0]}) == 2.0


def test_what_waits_for_an_update_of_the_same_call_sees_its_value() -> None:
    total, count, x = K.variable(0.0), K.variable(0.0), K.placeholder((None,))
    updates = [K.update_add(total, K.sum(x)), K.update_add(count, K.cast(K.size(x), "float32"))]
    with K.control_dependencies(updates):
        mean = K.identity(total / count)
        twice = K.update_add(total, total)
    before = total * 1
    run = K.function([x], [mean, before, updates[0]], updates)
    assert [float(one) for one in run([[1.0, 3.0]])] == [2.0, 0.0, 4.0]
    assert [float(one) for one in run([[8.0]])] == [4.0, 4.0, 12.0]
    assert (K.get_value(total), K.get_value(count)) == (12.0, 3.0)
    # The pair of a variable and the same new value is that update, too.
    pairs = [(one.target, one.inputs[1]) for one in updates]
    assert K.function([x], [mean + 1], pairs)([[4.0, 4.0]])[0] == 5.0
    assert K.function([x], [twice])([[1.0]])[0] == 42.0, "not its own updates: stored before"


def test_an_update_that_waits_for_another_of_the_same_call() -> None:
    count, total, copy = K.variable(1.0), K.variable(10.0), K.variable(0.0)
    first = K.update_add(count, 1.0)
    with K.control_dependencies(first):
        second = K.update_add(total, count)
        third = K.update(copy, count)
    run = K.function([], [], [third, second, first])
    run([])
    assert [K.get_value(one) for one in (count, total, copy)] == [2.0, 12.0, 2.0]
    run([])
    assert [K.get_value(one) for one in (count, total, copy)] == [3.0, 15.0, 3.0]


def test_initializers_bring_back_how_a_variable_began() -> None:
    base = K.variable([1.0, 2.0])
    made = K.variable(K.constant([1.0, 2.0]) * 3)
    drawn = K.variable(K.random_normal((9,)))
    before = K.get_value(drawn)
    K.batch_set_value([(made, [0.0, 0.0]), (base, [3.0, 3.0])])
    made.initializer.run(session=K.get_session())
    assert K.get_value(made).tolist() == [3.0, 6.0]
    K.get_session().run([drawn.initializer])
    assert not (K.get_value(drawn) == before).any()
    fresh = K.variable([1.0])
    fresh.initializer.run()
    assert K.get_value(fresh).tolist() == [1.0]
    other = K.variable(base * 2)  # does not keep `base` alive
    K.set_value(other, [0.0, 0.0])
    for changed in (base, other):
        with pytest.raises(K.ArgumentError, match=r"initializer: .* float32\[2\] has changed"):
            _ = changed.initializer
