"""What Python's own protocols and NumPy's functions are told by a tensor that has no value yet."""

from __future__ import annotations

import copy
import operator
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy import tanh
from scipy import sparse

from kbench import backend as K
from kbench.engine.graph.protocols import numpy_protocol

PAGE = Path(__file__).parents[3] / "docs" / "numpy.md"


def unknown() -> Any:
    return K.placeholder((None, 3), name="x")


def scalar() -> Any:
    return K.placeholder((), name="s")


def held() -> Any:
    return K.variable(VALUE, name="v")


VALUE = np.array([[1.0, 2.0], [3.0, 5.0]], "float32")
ARRAY = np.array([[2.0, 0.5], [1.0, 4.0]], "float32")


REFUSED: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
    (lambda: len(unknown()), ("placeholder", "float32[?, 3] has no known length", "K.shape(x)[0]")),
    (lambda: len(scalar()), ("float32[] is a scalar, which has no length",)),
    (lambda: list(unknown()), ("float32[?, 3]", "K.map_fn")),
    (lambda: list(scalar()), ("is a scalar",)),
    (lambda: bool(unknown()), ("no truth value", "K.switch", "K.eval(x)")),
    (lambda: float(scalar()), ("float32[]", "float(K.eval(x))")),
    (lambda: float(unknown()), ("cannot convert symbolic", "float32[?, 3] to float", "K.eval(x)")),
    (lambda: int(scalar()), ("float32[]", "int(K.eval(x))")),
    (lambda: complex(scalar()), ("float32[]", "float(K.eval(x))")),
    (lambda: range(scalar()), ("float32[]", "int(K.eval(x))")),
    (lambda: f"{scalar():.2f}", ("float32[] has no value to format", "float(K.eval(x))")),
    (lambda: np.asarray(unknown()), ("float32[?, 3] is symbolic", "K.eval(x)")),
    (lambda: np.tanh(unknown()), ("np.tanh takes arrays", "float32[?, 3]", "use K.tanh")),
    (lambda: np.tanh(K.zeros((2,)) * 2), ("tensor", "float32[2]", "use K.tanh")),
    (lambda: tanh(unknown()), ("np.tanh takes arrays", "use K.tanh")),
    (lambda: 1 + np.exp(np.ones(3)) + np.tanh(unknown()), ("np.tanh takes arrays",)),
    (lambda: np.maximum(1.0, unknown()), ("use K.maximum",)),
    (lambda: np.add(unknown(), 1), ("write x + y",)),
    (lambda: np.sum(unknown()), ("np.sum takes arrays", "use K.sum")),
    (lambda: np.add.reduce(unknown()), ("np.add.reduce takes arrays", "use K.sum")),
    (lambda: np.dot(unknown(), np.ones(3)), ("np.dot takes arrays", "use K.dot")),
    (lambda: np.concatenate([unknown()] * 2), ("np.concatenate takes", "use K.concatenate")),
    (lambda: np.linalg.norm(unknown()), ("np.linalg.norm takes arrays", "K.eval(x)")),
    (lambda: np.where(unknown(), 1, 2), ("use K.switch",)),
    (lambda: np.arctan(unknown()), ("np.arctan takes arrays", "K.eval(x)")),
    (lambda: np.add(np.ones(3), unknown(), out=np.ones((2, 3))), ("write x + y",)),
    (lambda: np.from_dlpack(unknown()), ("float32[?, 3] is symbolic", "K.eval(x)")),
    (lambda: bool(held()), ("variable", "no truth value")),
    (lambda: float(held()), ("cannot convert variable", "float32[2, 2] to float: it is not a")),
    (lambda: f"{held():.2f}", ("float32[2, 2] to float: it is not a scalar; K.eval(x)",)),
]


@pytest.mark.parametrize(("call", "says"), REFUSED)
def test_refusal(call: Callable[[], Any], says: tuple[str, ...]) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    for part in says:
        assert part in str(caught.value)


def test_the_functions_that_are_proposed_are_there() -> None:
    for name, ours in numpy_protocol.FUNCTIONS.items():
        assert callable(operator.attrgetter(name)(np))
        assert callable(getattr(K, ours))
    for name in numpy_protocol.OPERATORS:
        assert isinstance(getattr(np, name), np.ufunc)


@pytest.mark.parametrize("text", ["np.tanh(x)", "(lambda: np.tanh(x))()"])
def test_where_no_source_is_kept_no_function_is_named(text: str) -> None:
    with pytest.raises(TypeError, match="NumPy takes arrays, but placeholder .* symbolic"):
        eval(compile(text, "<nowhere>", "eval"), {"np": np, "x": unknown()})


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
    for text in numpy_protocol.METHODS.values():
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


# ------------------------------------------------------------------ the rules of docs/numpy.md


def computes(*calls: Callable[[Any], Any]) -> bool:
    """Whether each call gives for a variable and a constant what it gives for their array, in an
    array, and refuses what has no value."""
    for call in calls:
        wanted = call(VALUE)
        for tensor in (K.variable(VALUE), K.constant(VALUE)):
            found = call(tensor)
            assert type(found) is type(wanted)
            np.testing.assert_array_equal(found, wanted)
        for tensor in (K.placeholder((2, 2)), K.variable(VALUE) * 2):
            with pytest.raises(TypeError, match=r"np\..* takes arrays.*K.eval"):
                call(tensor)
    return True


def builds(*calls: Callable[[Any], Any]) -> bool:
    """Whether each call gives a tensor that follows its operand."""
    for call in calls:
        x = K.placeholder((2, 2))
        made = call(x)
        assert K.is_tensor(made)
        np.testing.assert_allclose(K.function([x], [made])([VALUE])[0], call(VALUE), 1e-6)
        for tensor in (K.variable(VALUE), K.constant(VALUE)):
            assert K.is_tensor(call(tensor))
            np.testing.assert_allclose(K.eval(call(tensor)), call(VALUE), 1e-6)
    v = K.variable(VALUE)
    return K.gradients(K.sum(ARRAY @ v), [v])[0] is not None


def refuses(call: Callable[[], Any], error: type[BaseException] = TypeError) -> bool:
    with pytest.raises(error):
        call()
    return True


def added_in_place() -> bool:
    for function in (operator.iadd, operator.imatmul, operator.imul):
        array = ARRAY.copy()
        assert K.is_tensor(function(array, held()))
        assert np.array_equal(array, ARRAY)
    return True


def copies() -> bool:
    v = held()
    np.asarray(v)[:] = 0
    v.to_numpy()[:] = 0
    window = np.array(v, copy=False) if np.__version__ >= "2" else v.__array__(copy=False)
    assert not window.flags.writeable and np.array_equal(window, VALUE)
    assert np.asarray(v, "float64").dtype == "float64"
    assert refuses(lambda: v.__array__("float64", copy=False), ValueError)
    many = K.variable(sparse.csr_matrix(VALUE))
    assert np.array_equal(np.asarray(many), VALUE)
    assert np.array_equal(np.array([v, v]), [VALUE, VALUE])
    return np.array_equal(K.eval(v), VALUE) and refuses(lambda: np.asarray(unknown()))


def exchanged() -> bool:
    for tensor in (held(), K.constant(VALUE), K.variable(sparse.csr_matrix(VALUE))):
        found = np.from_dlpack(tensor)
        assert found.dtype == "float32" and np.array_equal(found, VALUE)
        assert tensor.__dlpack_device__() == (1, 0)
        assert tensor.__dlpack__(stream=None, max_version=(1, 0), dl_device=None, copy=True)
        assert refuses(lambda one=tensor: one.__dlpack__(copy=False), BufferError)
    return refuses(lambda: unknown().__dlpack_device__())


def plotted() -> bool:
    from matplotlib.figure import Figure
    from sklearn.linear_model import LinearRegression

    axes = Figure().subplots()
    v, row = held(), K.constant(VALUE[0])
    assert np.array_equal(axes.plot(row)[0].get_ydata(), VALUE[0])
    assert [line.get_ydata().tolist() for line in axes.plot(v)] == VALUE.T.tolist()
    assert axes.hist(row, bins=[0, 1.5, 2.5])[0].tolist() == [1, 1]
    axes.hist(v)
    axes.imshow(v)
    axes.scatter(row, row)
    fitted = LinearRegression().fit(v, row).coef_
    assert np.array_equal(fitted, LinearRegression().fit(VALUE, VALUE[0]).coef_)
    return refuses(lambda: axes.hist(row * 2)) and refuses(lambda: axes.plot(unknown()))


def counted() -> bool:
    for tensor in (K.variable(2.5), K.constant(2.5)):
        assert (float(tensor), int(tensor), complex(tensor)) == (2.5, 2, 2.5 + 0j)
        assert (f"{tensor:.2f}", round(tensor)) == ("2.50", 2)
        assert f"{tensor}" == str(tensor)
    return refuses(lambda: float(scalar())) and refuses(lambda: float(K.variable(2.5) * 2))


def iterated() -> bool:
    v = held()
    assert len(v) == len(K.placeholder((2, 3))) == 2
    assert all(K.is_tensor(row) for row in v) and K.is_tensor(v[0])
    return refuses(lambda: len(unknown()))


def multiplied_by_scipy() -> bool:
    csr = sparse.csr_matrix(ARRAY)
    found = csr @ held()
    assert isinstance(found, np.ndarray) and np.allclose(found, ARRAY @ VALUE)
    return refuses(lambda: csr @ (held() * 2))


RULES: dict[str, Callable[[], bool]] = {
    "`array + v`, `array @ v`, `array < v`": lambda: builds(
        lambda v: ARRAY + v,
        lambda v: ARRAY @ v,
        lambda v: ARRAY < v,
        lambda v: np.float32(3) - v,
        lambda v: ARRAY**v,
        lambda v: np.array(3.0) // v,
    ),
    "`array += v`": added_in_place,
    "`array == v`": lambda: (VALUE == held()) is False and (VALUE != held()) is True,
    "`np.exp(v)`, `np.matmul(v, array)`, `np.add(array, v)`": lambda: computes(
        lambda v: np.exp(v),
        lambda v: np.matmul(v, ARRAY),
        lambda v: np.matmul(ARRAY, v),
        lambda v: np.add(ARRAY, v),
        lambda v: np.add(v, ARRAY),
        lambda v: np.add(ARRAY, v, out=np.zeros((2, 2))),
        lambda v: np.less(v, ARRAY),
        lambda v: np.maximum(v, 2),
        lambda v: np.arctan2(v, ARRAY),
        lambda v: np.multiply.outer(v, ARRAY),
    ),
    "`np.sum(v)`, `np.dot(v, array)`, `np.concatenate([v, array])`": lambda: computes(
        lambda v: np.sum(v),
        lambda v: np.sum(v, axis=0),
        lambda v: np.mean(v),
        lambda v: np.any(v),
        lambda v: np.dot(v, ARRAY),
        lambda v: np.concatenate([v, ARRAY]),
        lambda v: np.stack([ARRAY, v]),
        lambda v: np.linalg.inv(v),
        lambda v: np.cumsum(v),
        lambda v: np.einsum("ij->i", v),
        lambda v: np.where(v, 1, 2),
        lambda v: np.clip(v, 2, 3),
        lambda v: np.transpose(v),
        lambda v: np.median(v),
    ),
    "`np.asarray(v)`, `np.array(v)`": copies,
    "`np.shape(v)`, `np.ndim(v)`": lambda: (
        (np.shape(held()), np.ndim(held())) == ((2, 2), 2)
        and (np.shape(unknown()), np.ndim(unknown())) == ((None, 3), 2)
    ),
    "`np.from_dlpack(v)`, `torch.from_dlpack(v)`": exchanged,
    "`plt.plot(v)`, `plt.hist(v)`, `LinearRegression().fit(v, y)`": plotted,
    '`float(v)`, `int(v)`, `f"{v:.2f}"`': counted,
    "`bool(v)`, `if v:`": lambda: (
        refuses(lambda: bool(K.variable(1.0))) and refuses(lambda: bool(scalar()))
    ),
    "`len(v)`, `v[0]`, `for row in v`": iterated,
    "`csr @ v`, with a matrix of SciPy on the left": multiplied_by_scipy,
    "`pickle.dumps(v)`, `copy.deepcopy(v)`": lambda: all(
        np.array_equal(K.eval(copied(held())), K.eval(held()))
        for copied in (copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v)))
    ),
}


def test_the_page_has_no_other_lines() -> None:
    rows = re.findall(r"^\| (.*?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows == ["what is written", *RULES]


@pytest.mark.parametrize("line", RULES)
def test_the_rules_of_the_page(line: str) -> None:
    assert RULES[line]()


TAKEN: list[Callable[[Any], Any]] = [
    K.constant,
    K.variable,
    K.cast_to_floatx,
    lambda array: K.variable(VALUE) * 0 + array,
    lambda array: K.function([x := K.placeholder((2, 2))], [x * 1])([array])[0],
    lambda array: K.constant([array[0], list(array[1])]),
    lambda array: K.zeros((2, 2)) + array,
]


@pytest.mark.parametrize("take", TAKEN)
@pytest.mark.parametrize("mask", [np.ma.nomask, False])
def test_masked_arrays_without_masked_entries_are_arrays(take: Any, mask: Any) -> None:
    array = np.ma.array(VALUE, mask=mask)
    np.testing.assert_array_equal(K.eval(take(array)), VALUE)
