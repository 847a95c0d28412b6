"""Linear algebra of matrices with a side of 0, and of stacks of none: values, dtypes, gradients."""

import keras3_there  # noqa: F401  # isort: skip
import keras
import numpy as np
import pytest
from keras import ops, tree
from keras3_traces import in_a_trace

from kbench.api.operations import ArgumentError, ShapeError
from kbench.keras3.gradients import gradients

SQUARES = [(0, 0), (0, 2, 2), (2, 0, 0), (0, 0, 0)]
MATRICES = [(0, 0), (0, 3), (3, 0), (0, 3, 2), (2, 0, 3), (2, 3, 0)]
ONE, TWO = (2, 2), (2, 3)
"""Matrices with elements, beside which others have none."""


def _side(shape):
    return (*shape[:-2], min(shape[-2:]))


OF_ONE = {  # name -> function, shapes of its operand, shapes of results
    "cholesky": (ops.cholesky, SQUARES, lambda s: [s]),
    "cholesky_inverse": (ops.cholesky_inverse, SQUARES, lambda s: [s]),
    "det": (ops.det, SQUARES, lambda s: [s[:-2]]),
    "slogdet": (ops.slogdet, SQUARES, lambda s: [s[:-2], s[:-2]]),
    "logdet": (ops.logdet, SQUARES, lambda s: [s[:-2]]),
    "inv": (ops.inv, SQUARES, lambda s: [s]),
    "eigh": (ops.eigh, SQUARES, lambda s: [s[:-1], s]),
    "eig": (ops.eig, SQUARES, lambda s: [s[:-1], s]),
    "qr": (ops.qr, MATRICES, lambda s: [(*s[:-1], _side(s)[-1]), (*_side(s), s[-1])]),
    "qr_complete": (
        lambda x: ops.qr(x, "complete"),
        MATRICES,
        lambda s: [(*s[:-1], s[-2]), s],
    ),
    "svd": (
        lambda x: ops.svd(x, full_matrices=False),
        MATRICES,
        lambda s: [(*s[:-1], _side(s)[-1]), _side(s), (*_side(s), s[-1])],
    ),
    "svd_full": (
        ops.svd,
        MATRICES,
        lambda s: [(*s[:-1], s[-2]), _side(s), (*s[:-2], s[-1], s[-1])],
    ),
    "svd_values": (lambda x: ops.svd(x, compute_uv=False), MATRICES, lambda s: [_side(s)]),
    "lu_factor": (ops.lu_factor, MATRICES, lambda s: [s, _side(s)]),
    "pinv": (ops.pinv, MATRICES, lambda s: [(*s[:-2], s[-1], s[-2])]),
    "matrix_rank": (ops.matrix_rank, MATRICES, lambda s: [s[:-2]]),
    **{
        f"norm_{order}": (
            lambda x, o=order: ops.norm(x, o, axis=(-2, -1)),
            MATRICES,
            lambda s: [s[:-2]],
        )
        for order in ("fro", "nuc", 1, 2, np.inf)
    },
    **{
        f"norm_of_vectors_{order}": (
            lambda x, o=order: ops.norm(x, o, axis=-1, keepdims=True),
            MATRICES,
            lambda s: [(*s[:-1], 1)],
        )
        for order in (0, 1, 2, 3, np.inf)
    },
}
OF_TWO = {  # name -> function, shapes of both operands, shape of the result
    **{
        f"solve_{a}_{b}": (ops.solve, a, b, b)
        for a, b in [((0, 0), (0, 2)), ((0, 0), (0,)), (ONE, (2, 0)), ((2, 0, 0), (2, 0, 3))]
    },
    **{
        f"solve_triangular_{a}_{b}": (ops.solve_triangular, a, b, b)
        for a, b in [((0, 0), (0, 2)), (ONE, (2, 0)), ((0, 2, 2), (0, 2, 1))]
    },
    **{
        f"lstsq_{a}_{b}": (ops.lstsq, a, b, (a[1], *b[1:]))
        for a, b in [((3, 0), (3, 2)), ((3, 0), (3,)), ((0, 3), (0, 2)), ((3, 2), (3, 0))]
    },
    **{
        f"matmul_{a}_{b}": (ops.matmul, a, b, shape)
        for a, b, shape in [
            ((2, 0), (0, 3), (2, 3)),
            ((0, 2), TWO, (0, 3)),
            (TWO, (3, 0), (2, 0)),
            ((0, 2, 3), (0, 3, 4), (0, 2, 4)),
            ((4, 2, 0), (4, 0, 3), (4, 2, 3)),
            ((0,), (0, 2), (2,)),
            ((0,), (0,), ()),
        ]
    },
    **{
        f"einsum_{text}_{a}_{b}": (lambda x, y, t=text: ops.einsum(t, x, y), a, b, shape)
        for text, a, b, shape in [
            ("ij,jk->ik", (2, 0), (0, 3), (2, 3)),
            ("bij,bjk->bik", (0, 2, 3), (0, 3, 4), (0, 2, 4)),
            ("...ij,jk->...ik", (2, 0, 3), (3, 4), (2, 0, 4)),
            ("ij,ij->", (0, 3), (0, 3), ()),
            ("i,j->ij", (0,), (3,), (0, 3)),
        ]
    },
}
CASES = [
    *[(name, (shape,), to(shape)) for name, (_, shapes, to) in OF_ONE.items() for shape in shapes],
    *[(name, (a, b), [shape]) for name, (_, a, b, shape) in OF_TWO.items()],
]
DTYPES = ["float32", pytest.param("complex64", marks=pytest.mark.slow)]
WHOLE = {("lu_factor", 1), ("matrix_rank", 0)}
"""Results that are int32."""
REAL = {("slogdet", 1), ("logdet", 0), ("eigh", 0), ("svd", 1), ("svd_full", 1), ("svd_values", 0)}
"""Results that are real for complex matrices, too, beside norms."""
ONES = {("det", 0), ("slogdet", 0)}
"""Results that are 1 where there is nothing to multiply; all others are 0."""


def _operand(shape, dtype):
    return np.broadcast_to(np.eye(*shape[-2:]) if len(shape) > 1 else 1.0, shape).astype(dtype)


def _dtype(name, place, dtype):
    if (name, place) in WHOLE:
        return "int32"
    is_real = (name, place) in REAL or name.startswith("norm")
    return "float32" if dtype == "complex64" and is_real else dtype


def _results(found):
    return [np.asarray(one) for one in tree.flatten(found)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "shapes", "wanted"), CASES)
def test_results_have_their_shapes_and_dtypes(name, shapes, wanted, dtype):
    function = (OF_ONE.get(name) or OF_TWO[name])[0]
    arrays = [_operand(shape, dtype) for shape in shapes]
    at_once, later = _results(function(*arrays)), in_a_trace(function, arrays)
    for found in (at_once, later):
        assert [one.shape for one in found] == wanted
    for place, (one, other) in enumerate(zip(at_once, later, strict=True)):
        assert other.dtype == _dtype(name, place, "complex64" if name == "eig" else dtype)
        assert one.dtype == (dtype if name == "eig" else other.dtype)
        np.testing.assert_array_equal(one, other)
        if one.size and not name.startswith("svd_full"):
            value = np.eye(*one.shape[-2:]) if name == "qr_complete" else (name, place) in ONES
            np.testing.assert_array_equal(one, np.broadcast_to(value, one.shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "shapes", "wanted"), CASES)
def test_gradients_have_the_shapes_of_operands(name, shapes, wanted, dtype):
    function = (OF_ONE.get(name) or OF_TWO[name])[0]
    variables = [keras.Variable(_operand(shape, dtype), dtype=dtype) for shape in shapes]

    def loss():
        parts = [one for one in tree.flatten(function(*variables)) if "int" not in str(one.dtype)]
        return sum([ops.sum(ops.real(one)) for one in parts], ops.zeros(()))

    found = gradients(loss, variables)
    for slope, variable in zip(found, variables, strict=True):
        assert slope.dtype == dtype
        np.testing.assert_array_equal(slope, np.zeros(variable.shape))


REFUSED = {  # name -> function, shapes, the error, what it says
    **{
        f"norm_{order}": (
            lambda x, o=order: ops.norm(x, o),
            [(0, 0)],
            ArgumentError,
            f"norm: x is float32[0, 0], and ord={order!r} is the smallest of no numbers",
        )
        for order in (-1, -2, -np.inf)
    },
    "norm_of_vectors": (
        lambda x: ops.norm(x, -np.inf, axis=1),
        [(3, 0)],
        ArgumentError,
        "norm: x is float32[3, 0], and ord=-inf is the smallest of no numbers",
    ),
    "norm_of_three_axes": (
        lambda x: ops.norm(x, 1),
        [(2, 2, 2)],
        ArgumentError,
        "norm: x is float32[2, 2, 2], and ord over 3 of its axes must be None, got 1",
    ),
    "norm_of_an_axis_that_is_not_there": (
        lambda x: ops.norm(x, 1, axis=(0, 1)),
        [(3,)],
        ShapeError,
        "norm: x is float32[3], axis is (0, 1)",
    ),
    "norm_of_an_unknown_order": (
        lambda x: ops.norm(x, 3),
        [(2, 2)],
        ArgumentError,
        "norm: x is float32[2, 2], and ord over 2 of its axes must be 'fro', 'nuc', 1, -1, 2",
    ),
    "norm_of_vectors_by_a_name": (
        lambda x: ops.norm(x, "fro", axis=0),
        [(2, 2)],
        ArgumentError,
        "norm: x is float32[2, 2], and ord over 1 of its axes must be a number, got 'fro'",
    ),
    "einsum": (
        lambda x, y: ops.einsum("ij,jk->ik", x, y),
        [(2, 0), (3, 1)],
        ShapeError,
        "einsum: ij is float32[2, 0], jk is float32[3, 1], so that j has 0 and 3 entries",
    ),
    "dot": (
        ops.dot,
        [(2, 4), (3, 1)],
        ShapeError,
        "dot: x1 is float32[2, 4] and x2 is float32[3, 1], whose axes [1] and [0] differ in size",
    ),
    **{
        name: (function, [(2, 2)] * count, np.linalg.LinAlgError, f"{name}: {words}: Singular")
        for name, function, count, words in [
            ("inv", ops.inv, 1, "a is float32[2, 2]"),
            ("solve", ops.solve, 2, "a is float32[2, 2], b is float32[2, 2]"),
            ("solve_triangular", ops.solve_triangular, 2, "a is float32[2, 2], b is float32[2, 2]"),
        ]
    },
    "cholesky": (ops.cholesky, [(2, 2)], ValueError, "cholesky: a is float32[2, 2]: Matrix is not"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_say_which_function_and_which_operands(name):
    function, shapes, kind, words = REFUSED[name]
    arrays = [np.zeros(shape, "float32") for shape in shapes]
    for call in (lambda: function(*arrays), lambda: in_a_trace(function, arrays)):
        with pytest.raises(kind) as caught:
            call()
        assert words in str(caught.value)
