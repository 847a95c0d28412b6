"""Nodes of elementwise operations on floats: the same as those of other operands, made sooner."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine.core.spec import Spec, dense
from kbench.engine.graph.apply import controlled_by
from kbench.engine.graph.protocols.operators import OPERATORS

FLOATS = ("float16", "float32", "float64")
SHAPES = [
    ((3, 4), (3, 4)),
    ((3, 4), ()),
    ((), (3, 4)),
    ((3, 1), (4,)),
    ((None, 4), (3, 4)),
    ((), ()),
]
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "r-": lambda x, y: y - x,
    "<": lambda x, y: x < y,
    "maximum": K.maximum,
    "not equal": K.not_equal,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("first", "second"), SHAPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_spec_is_that_of_the_rule(name: str, first: Any, second: Any, dtype: str) -> None:
    x, y = K.placeholder(first, dtype=dtype), K.placeholder(second, dtype=dtype)
    node = OPERATIONS[name](x, y)
    assert node.spec == node.op.infer(*[operand.spec for operand in node.inputs])
    assert {x, y} <= set(node.inputs)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("value", [2, 0.5, 0, -0.0])
def test_numbers_have_the_dtype_of_the_tensor(name: str, value: float, dtype: str) -> None:
    x = K.placeholder((2, 3), dtype=dtype)
    node = OPERATIONS[name](x, value)
    numbers = [one for one in node.inputs if one is not x]
    assert all(one.spec == Spec((), dtype) for one in numbers)
    array = next(one.value for one in numbers if one.value == value)
    assert np.signbit(array) == np.signbit(value)


OTHERS = [
    lambda: K.placeholder((2,), dtype="float64"),
    lambda: K.placeholder((2,), dtype="int32"),
    lambda: True,
    lambda: np.float64(3.0),
    lambda: np.ones(2),
    lambda: [1.0, 2.0],
]


@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_others_are_converted(number: int) -> None:
    x, other = K.placeholder((2,)), OTHERS[number]()
    for node in (x * other, other * x, K.maximum(x, other)):
        assert K.int_shape(node) == (2,)
        assert {operand.spec.dtype for operand in node.inputs} == {node.spec.dtype}


def test_a_spec_is_one_object_as_long_as_nothing_changes() -> None:
    x, y = K.variable(np.ones((3, 4))), K.placeholder((3, 4))
    assert x.spec is y.spec is (x + y).spec is K.tanh(2.0 - x).spec is dense((3, 4), "float32")
    assert (x < y).spec is K.equal(y, x).spec is dense((3, 4), "bool")


def test_controls_scopes_and_lines_are_noted() -> None:
    K.clear_session()
    x = K.placeholder((2,), name="x")
    before = controlled_by((x,))
    try:
        with K.name_scope("block"):
            node, line = x + 1.0, sys._getframe().f_lineno
    finally:
        controlled_by(before)
    assert (node.controls, (node + 1.0).controls) == ((x,), ())
    assert (node.name, (x + 1.0).name) == ("block/add:0", "add_1:0")
    assert node.place is not None
    assert (node.place.file, node.place.line, node.called) == (__file__, line, None)
    softplus = K.relu(x, max_value=2.0)
    assert softplus.called == "relu"


def test_operators_ask_the_table_for_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    i = K.placeholder((2,), dtype="int32")
    monkeypatch.setitem(OPERATORS, "__add__", lambda x, y: "found")
    assert (i + 1, 1 + i) == ("found", "found")


def test_a_wrong_operand_is_told_by_its_side() -> None:
    K.clear_session()
    x = K.placeholder((2,), name="x")
    for made, text in (
        (lambda: x + K.zeros((3,)), "x  placeholder 'x'"),
        (lambda: K.zeros((3,)) + x, "y  placeholder 'x'"),
    ):
        with pytest.raises(K.ShapeError) as caught:
            made()
        assert caught.value.function == "+" and text in str(caught.value)
