"""Small expressions without a plan: what is left to one, and that nothing else differs."""

import numpy as np
import pytest

import kbench as K
from kbench.engine.execute.eager import MAX_ELEMENTS, MAX_NODES, direct_value


def small():
    return K.variable(np.arange(6.0).reshape(2, 3))


def chain(length):
    x = small()
    for _ in range(length):
        x = x + 1.0
    return x


TAKEN = {
    "arithmetic": lambda: small() * 2.0 + 1.0,
    "mixed": lambda: K.mean(K.softmax(K.dot(small(), K.transpose(small()))), axis=0),
    "view": lambda: K.transpose(small()),
    "picked": lambda: small()[1],
    "compared": lambda: K.greater(small(), 2.0),
    "half": lambda: K.cast(small(), "float16") * 3.0,
    "halves compared": lambda: K.less(K.cast(small(), "float16"), 3.0),
    "integers": lambda: K.cast(small(), "int32") // 2,
    "nothing": lambda: K.sum(K.zeros((0, 3)), axis=0),
}
LEFT = {
    "large": lambda: K.zeros((MAX_ELEMENTS,)) + 1.0,
    "long": lambda: chain(MAX_NODES + 1),
    "random": lambda: K.random_uniform((2, 3)) + 0.0,
    "branch": lambda: K.switch(K.constant(True), small(), small() + 1.0),
    "loop": lambda: K.foldl(lambda a, b: a + b, small()),
    "update": lambda: K.update_add(small(), 1.0),
    "sparse": lambda: K.dot(sparse(), K.transpose(small())),
    "made dense": lambda: K.to_dense(sparse()),
    "size of sparse": lambda: K.shape(sparse()),
}


def sparse():
    from scipy.sparse import csr_matrix

    return K.variable(csr_matrix(np.eye(2, 3, dtype=np.float32)))


@pytest.mark.parametrize("name", TAKEN)
def test_the_value_is_that_of_a_plan(name):
    node = TAKEN[name]()
    found = direct_value(node)
    (planned,) = K.function([], [node])([])
    assert found is not None and found.dtype == planned.dtype
    np.testing.assert_array_equal(found, planned)
    assert K.eval(node).dtype == planned.dtype


@pytest.mark.parametrize("name", LEFT)
def test_what_needs_a_plan_gets_one(name):
    node = LEFT[name]()
    assert direct_value(node) is None
    assert K.eval(node) is not None


def test_a_value_is_the_callers_own():
    x = small()
    for node in (K.transpose(x), x[0], K.reshape(x, (3, 2)), K.identity(x)):
        K.eval(node)[...] = 99.0
    assert K.eval(x).max() == 5.0


def test_it_sees_the_variable_as_it_is_now():
    x = small()
    node = x + 1.0
    before = K.eval(node)
    K.set_value(x, K.get_value(x) * 10)
    assert before.max() == 6.0 and K.eval(node).max() == 51.0


def test_errors_are_those_of_a_plan():
    x = K.variable([1, 2], dtype="int32")
    with pytest.raises(K.KbenchError) as caught:
        K.eval(x // K.variable([1, 0], dtype="int32"))
    assert "//" in str(caught.value) and "test_eager.py" in str(caught.value)


def test_nothing_is_evaluated_from_before_the_session_was_cleared():
    node = small() + 1.0
    K.clear_session()
    with pytest.raises(K.ArgumentError, match="clear_session"):
        K.eval(node)


def test_a_recorded_evaluation_is_planned():
    node = small() * 2.0
    with K.record() as runs:
        K.eval(node)
    assert [step.label for step in runs[-1].steps] == ["multiply"]
