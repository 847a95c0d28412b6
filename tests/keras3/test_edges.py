"""Operands at the edge: indices outside, NaN among the largest, integers by 0, Python's numbers."""

import keras3_there  # noqa: F401  # isort: skip
import keras
import numpy as np
import pytest
from keras import ops, tree
from keras3_traces import in_a_trace

from kbench.api.operations import ArgumentError, ShapeError

NAN, INF = np.nan, np.inf
ROWS = np.arange(6, dtype="float32").reshape(3, 2)
WHOLE = np.array([7, -7], "int32")
BELOW, MANY = np.array([1, -1], "int32"), np.array([1, 3], "int32")
REFUSED = {  # name -> function, operands, words of the error at once, words in a step
    "take": (
        ops.take,
        [ROWS, np.array([0, 6])],
        "take: x is float32[6], whose axis 0 has 6 entries; index 6 is outside of it",
        "take: index 6 is out of range for 6 rows",
    ),
    "take_below": (
        lambda x, i: ops.take(x, i, -1),
        [ROWS, np.array([[1, -3]])],
        "take: x is float32[3, 2], whose axis 1 has 2 entries; index -3 is outside of it",
        "take: index -1 is out of range for 2 rows",
    ),
    "bincount": (
        lambda x: ops.bincount(x, minlength=3),
        [BELOW],
        "bincount: x is int32[2] and has -1; only integers from 0 on are counted",
        "bincount: x is int32[2] and has -1; only integers from 0 on are counted",
    ),
    "bincount of weights": (
        lambda x, weights: ops.bincount(x, weights, minlength=3),
        [BELOW, np.ones(2, "float32")],
        "bincount: x is int32[2] and has -1; only integers from 0 on are counted",
        "bincount: x is int32[2] and has -1; only integers from 0 on are counted",
    ),
    "unravel_index": (
        lambda x: ops.unravel_index(x, (3, 1)),
        [MANY],
        "unravel_index: indices is int32[2], 1 to 3; shape (3, 1) has 3",
        "unravel_index: indices is int32[2], 1 to 3; shape (3, 1) has 3",
    ),
    "take_along_axis": (
        lambda x, i: ops.take_along_axis(x, i, 0),
        [ROWS, np.array([[0, 3]])],
        "take_along_axis: x is float32[3, 2], whose axis 0 has 3 entries; index 3 is outside of it",
        "take_along_axis: index 3 is out of range for 3 rows",
    ),
    **{
        name: (
            getattr(ops, name),
            [WHOLE, np.array([2, 0], "int32")],
            f"{name}: x1 is int32[2], x2 is int32[2]; integers have no quotient by 0",
            words,
        )
        for name, words in [
            ("floor_divide", "integer division by zero"),
            ("mod", "integer division by zero"),
            ("fmod", "integers have no quotient by 0"),
        ]
    },
    "power": (
        ops.power,
        [WHOLE, np.array([2, -1], "int32")],
        "power: x1 is int32[2], x2 is int32[2]; integers have no negative powers",
        "integers have no negative powers",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_name_the_operands(name):
    function, arrays, *words = REFUSED[name]
    calls = (lambda: function(*arrays), lambda: in_a_trace(function, arrays))
    for call, told in zip(calls, words, strict=True):
        with pytest.raises((ShapeError, ArgumentError)) as caught:
            call()
        assert told in str(caught.value)


def test_what_has_no_place_in_a_shape_is_refused():
    with pytest.raises(ShapeError, match=r"indices is int64\[2\], 0 to 6; shape \(2, 3\) has 6"):
        ops.unravel_index(np.array([0, 6]), (2, 3))


def test_a_step_counts_no_integer_that_has_no_place_in_its_result():
    def counts(x):
        return ops.bincount(x, minlength=3)

    assert in_a_trace(counts, [MANY - 1])[0].tolist() == [1, 0, 1]
    assert counts(MANY - 1).tolist() == [1, 0, 1]
    assert counts(MANY).tolist() == [0, 1, 0, 1]
    told = r"bincount: x is int32\[2\] and has 3; in a traced step minlength=3 is the length"
    with pytest.raises(ArgumentError, match=told):
        in_a_trace(counts, [MANY])


def test_counts_of_negative_integers_are_refused():
    with pytest.raises(ArgumentError, match=r"bincount: x is int64\[2\] and has -1"):
        ops.bincount(np.array([1, -1]))


def test_an_embedding_does_not_train_on_a_token_that_it_does_not_have():
    model = keras.Sequential([keras.layers.Embedding(4, 2), keras.layers.Flatten()])
    model.compile("sgd", "mse")
    with pytest.raises(ShapeError, match="index 4 is out of range for 4 rows"):
        model.fit(np.array([[1, 4]]), np.zeros((1, 4)), verbose=0)


VALUES = {  # name -> function, operands, results
    "negative": (ops.take, [ROWS, np.array([-1, -6, 5])], [[5, 0, 5]]),
    "negative_columns": (
        lambda x, i: ops.take(x, i, 1), [ROWS, np.array([[-1, 0]])],
        [[[[1, 0]], [[3, 2]], [[5, 4]]]],
    ),
    "negative_along": (
        lambda x, i: ops.take_along_axis(x, i, 0), [ROWS, np.array([[-1, 0]])], [[[4, 1]]]
    ),
    "top_k": (
        lambda x: ops.top_k(x, 4), [np.array([1, NAN, 3, INF, NAN, 3, -INF])],
        [[NAN, NAN, INF, 3], [1, 4, 3, 2]],
    ),
    "top_k_of_equals": (
        lambda x: ops.top_k(x, 3), [np.array([[2, 3, 3, 1], [0, 0, 0, 0]], "uint8")],
        [[[3, 3, 2], [0, 0, 0]], [[1, 2, 0], [0, 1, 2]]],
    ),
    "in_top_k": (
        lambda y, x: ops.in_top_k(y, x, 1),
        [np.array([1, 5, -1, 0], "int32"), np.array([[0, 1, 0]] * 4, "float32")],
        [[True, False, False, False]],
    ),
    "rounded": (
        lambda x: ops.image.map_coordinates(x, np.array([[0.5, 1.5, 2.0]]), 1),
        [np.array([2, 3, -6], "int32")], [[3, -2, -6]],
    ),
    "view": (ops.view, [np.array([1, -2], "int32")], [[1, -2]]),
    "hypot": (lambda x: ops.hypot(x, 4), [np.array([3, 0], "float32")], [[5, 4]]),
    "hypot_of_whole": (lambda x: ops.hypot(3.0, x), [np.array([4], "int32")], [[5]]),
    "hypot_of_bool": (ops.hypot, [np.array([True]), np.array([True])], [[2**0.5]]),
    "heaviside": (
        lambda x: ops.heaviside(x, 0.5), [np.array([-1, 0, 2, NAN], "float32")], [[0, 0.5, 1, NAN]]
    ),
    "heaviside_of_whole": (lambda x: ops.heaviside(0, x), [np.array([3], "int32")], [[3]]),
    "nextafter_of_whole": (
        lambda x: ops.nextafter(x, 2), [np.array([1, 3], "int32")],
        [[np.nextafter(np.float32(1), np.float32(2)), np.nextafter(np.float32(3), np.float32(2))]],
    ),
}  # fmt: skip

SQUARE, TALL = np.array([[4, 1], [1, 3]]), np.array([[0, 1], [2, 3], [4, 6]])
SIDE, FEW = np.array([[1], [2]]), np.array([[1], [1], [1]])
NO_INTEGERS = {  # name -> function, operands: what is found is no integer, whatever is given
    **{name: (getattr(ops, name), [SQUARE]) for name in (
        "cholesky", "cholesky_inverse", "det", "inv", "eigh", "lu_factor", "slogdet", "logdet",
        "reciprocal", "sparsemax",
    )},
    **{name: (getattr(ops, name), [TALL]) for name in ("qr", "svd", "pinv", "norm")},
    "svd_values": (lambda x: ops.svd(x, compute_uv=False), [TALL]),
    "nuclear_norm": (lambda x: ops.norm(x, "nuc"), [TALL]),
    "solve": (ops.solve, [SQUARE, SIDE]),
    "solve_by_name": (lambda a, b: ops.solve(a=a, b=b), [SQUARE, SIDE]),
    "solve_triangular": (lambda a, b: ops.solve_triangular(a, b, lower=True), [SQUARE, SIDE]),
    "lstsq": (ops.lstsq, [TALL, FEW]),
    "erfinv": (ops.erfinv, [np.array([0, 0])]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int32", "uint8", pytest.param("int64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NO_INTEGERS)
def test_integers_give_what_floats_give(name, dtype):
    function, arrays = NO_INTEGERS[name]
    whole = [x.astype(dtype) for x in arrays]
    wanted = tree.flatten(function(*[x.astype("float32") for x in arrays]))
    for found in (tree.flatten(function(*whole)), in_a_trace(function, whole)):
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    function, arrays, wanted = VALUES[name]
    at_once = [np.asarray(one) for one in tree.flatten(function(*arrays))]
    later = in_a_trace(function, arrays)
    for one, other, values in zip(at_once, later, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, np.array(values).astype(one.dtype))
        np.testing.assert_array_equal(other, one)
