"""What Python's own protocols and NumPy's functions are told by a tensor that has no value yet."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine import ufuncs


def unknown() -> Any:
    return K.placeholder((None, 3), name="x")


def scalar() -> Any:
    return K.placeholder((), name="s")


REFUSED: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
    (lambda: len(unknown()), ("placeholder", "float32[?, 3] has no known length", "K.shape(x)[0]")),
    (lambda: len(scalar()), ("float32[] is a scalar, which has no length",)),
    (lambda: list(unknown()), ("float32[?, 3]", "K.map_fn")),
    (lambda: list(scalar()), ("is a scalar",)),
    (lambda: bool(unknown()), ("no truth value", "K.switch", "K.eval(x)")),
    (lambda: float(scalar()), ("float32[]", "float(K.eval(x))")),
    (lambda: float(unknown()), ("float32[?, 3] is no single number",)),
    (lambda: int(scalar()), ("float32[]", "int(K.eval(x))")),
    (lambda: complex(scalar()), ("float32[]", "float(K.eval(x))")),
    (lambda: range(scalar()), ("float32[]", "int(K.eval(x))")),
    (lambda: f"{scalar():.2f}", ("float32[] has no value to format", "float(K.eval(x))")),
    (lambda: np.asarray(unknown()), ("float32[?, 3] is symbolic", "K.eval(x)")),
    (lambda: np.tanh(unknown()), ("np.tanh takes arrays", "float32[?, 3]", "use K.tanh")),
    (lambda: np.tanh(K.zeros((2,))), ("variable", "float32[2]", "use K.tanh")),
    (lambda: np.maximum(1.0, unknown()), ("use K.maximum",)),
    (lambda: np.add(unknown(), 1), ("write x + y",)),
    (lambda: np.sum(unknown()), ("np.add.reduce takes arrays", "use K.sum")),
    (lambda: np.arctan(unknown()), ("np.arctan takes arrays", "K.eval(x)")),
    (lambda: np.add(np.ones(3), unknown(), out=np.ones((2, 3))), ("write x + y",)),
]


@pytest.mark.parametrize(("call", "says"), REFUSED)
def test_refusal(call: Callable[[], Any], says: tuple[str, ...]) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    for part in says:
        assert part in str(caught.value)


def test_the_functions_that_are_proposed_are_there() -> None:
    for names in (ufuncs.FUNCTIONS, ufuncs.FOLDS):
        for ufunc, name in names.items():
            assert isinstance(getattr(np, ufunc), np.ufunc)
            assert callable(getattr(K, name))


MISSING = ["T", "sum", "reshape", "astype", "numpy", "item", "assign", "nothing_known"]


@pytest.mark.parametrize("name", MISSING)
@pytest.mark.parametrize("make", [unknown, lambda: K.constant([1.0])], ids=["fed", "constant"])
def test_methods_of_arrays_are_told_what_to_write(name: str, make: Callable[[], Any]) -> None:
    tensor = make()
    with pytest.raises(AttributeError, match=f"no attribute '{name}'") as caught:
        getattr(tensor, name)
    assert ("; write K." in str(caught.value)) == (name != "nothing_known")
    assert getattr(tensor, name, 3) == 3
    assert not hasattr(tensor, name)


def test_what_is_proposed_for_methods_is_there() -> None:
    for text in ufuncs.METHODS.values():
        assert callable(getattr(K, text.split("(")[0].removeprefix("K.")))


BINARY = "add sub mul truediv floordiv mod pow lt le gt ge".split()


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("left", [np.array([4.0, 9.0]), np.float32(4), np.array(4.0)], ids=repr)
def test_arrays_on_the_left(name: str, left: Any) -> None:
    function = getattr(operator, name)
    right = np.array([2.0, 3.0], "float32")
    made = function(left, K.variable(right))
    assert K.dtype(made) == ("bool" if name in ("lt", "le", "gt", "ge") else "float32")
    np.testing.assert_allclose(K.eval(made), function(left, right), 1e-6)


def test_matrices_and_logic_on_the_left() -> None:
    matrix = K.variable(np.eye(2) * 3)
    np.testing.assert_allclose(K.eval(np.ones((1, 2)) @ matrix), [[3, 3]])
    flags = np.array([[True, False], [True, False]])
    assert K.eval(flags & (matrix > 0)).tolist() == [[True, False], [False, False]]
    assert K.eval(flags ^ (matrix > 0)).tolist() == [[False, False], [True, True]]


def test_an_array_that_is_added_to_becomes_a_tensor() -> None:
    array = np.ones(2)
    total: Any = array
    total += K.variable([1.0, 2.0])
    assert K.eval(total).tolist() == [2, 3]
    assert array.tolist() == [1, 1]


def test_equality_is_identity_on_either_side() -> None:
    tensor = K.zeros((2,))
    for array in (np.zeros(2), np.float32(0)):
        assert (array == tensor) is False
        assert (tensor == array) is False
        assert (array != tensor) is True
    assert tensor in [tensor]


def test_known_numbers() -> None:
    size = K.shape(K.zeros((2, 3)))[1]
    assert (int(size), float(size), range(5)[size]) == (3, 3.0, 3)
