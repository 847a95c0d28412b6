"""Derivatives of quantiles and of linear algebra in float64, and where there are none."""

import keras3_there  # noqa: F401  # isort: skip
import keras
import numpy as np
import pytest
from keras import ops

from kbench import backend as K
from kbench.api.operations import GradientError
from kbench.keras3.core import traced
from kbench.keras3.gradients import gradients
from kbench.keras3.tensor import Traced, is_traced

DRAW = np.random.RandomState(23)
STEP = 1e-6
"""How far operands are moved: the error of a central difference is about its square."""

X = DRAW.uniform(-1, 1, (4, 7))
SQUARE = DRAW.uniform(-1, 1, (4, 4)) + 2 * np.eye(4)
STACK = DRAW.uniform(-1, 1, (2, 4, 4)) + 2 * np.eye(4)
TALL, WIDE = DRAW.uniform(-1, 1, (5, 3)), DRAW.uniform(-1, 1, (3, 5))
TALLS, WIDES = DRAW.uniform(-1, 1, (2, 5, 3)), DRAW.uniform(-1, 1, (2, 3, 5))
RIGHT = DRAW.uniform(-1, 1, (5, 2))
PARTS = np.array([0.0, 0.13, 0.5, 0.77, 1.0])
HOLES = np.where(DRAW.uniform(0, 1, X.shape) < 0.3, np.nan, X)
METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
SHAPES = {"square": SQUARE, "stack": STACK, "tall": TALL, "wide": WIDE, "talls": TALLS}
SHAPES["wides"] = WIDES
TURNED = np.array([[1.0, -2.0, 0.3], [1.5, 0.7, 0.2], [0.1, 0.4, 3.0]])
"""Two of its eigenvalues are conjugates."""

pytestmark = pytest.mark.usefixtures("float64")


def _part(function, place):
    return lambda x: function(x)[place]


def _gram(x):
    return ops.matmul(x, ops.swapaxes(x, -1, -2)) + np.eye(x.shape[-2])


def _in_any_order(values, vectors):
    """What neither the order nor the signs of real vectors change; their imaginary parts are 0."""
    squares = ops.square(ops.real(vectors)) * ops.expand_dims(ops.real(values), -2)
    return ops.sum(squares + 3 * ops.imag(vectors), axis=-1)


CASES = {
    **{
        f"{name}_{method}": (
            lambda x, f=function, m=method, s=scale: f(x, PARTS * s, axis=1, method=m),
            array,
        )
        for method in METHODS
        for name, function, scale, array in [
            ("quantile", ops.quantile, 1, X),
            ("percentile", ops.percentile, 100, X),
            ("nanquantile", ops.nanquantile, 1, HOLES),
            ("nanpercentile", ops.nanpercentile, 100, HOLES),
        ]
    },
    "quantile_scalar": (lambda x: ops.quantile(x, 0.3), X),
    "quantile_keepdims": (lambda x: ops.quantile(x, PARTS, (0, 2), keepdims=True), STACK),
    "quantile_of_part": (lambda x, q: ops.quantile(x, q, 0), X, np.array([0.2, 0.61])),
    "median": (lambda x: ops.median(x, axis=0), X),
    "median_keepdims": (lambda x: ops.median(x, axis=(0, 1), keepdims=True), STACK),
    "nanmedian": (lambda x: ops.nanmedian(x, axis=1), HOLES),
    "sort": (lambda x: ops.sort(x, axis=0), X),
    **{
        f"{name}_{axis}_{endpoint}": (
            lambda x, y, f=function, a=axis, e=endpoint: f(x, y, 4, e, axis=a, dtype="float64"),
            np.array([[0.4, 1.2, 2.0], [0.7, 1.9, 0.8]]),
            np.array([1.3, 0.6, 2.1]),
        )
        for name, function in [
            ("linspace", ops.linspace),
            ("logspace", ops.logspace),
            ("geomspace", ops.geomspace),
        ]
        for axis in (0, -1)
        for endpoint in (True, False)
    },
    "top_k": (lambda x: ops.top_k(x, 3)[0], X),
    **{
        f"svd_{kind}_{place}": (
            _part(lambda x: ops.svd(x, full_matrices=False), place),
            array,
        )
        for kind, array in SHAPES.items()
        for place in range(3)
    },
    "svd_values": (lambda x: ops.svd(x, compute_uv=False), TALLS),
    "svd_values_of_full": (lambda x: ops.svd(x)[1], WIDE),
    "svd_full_right": (lambda x: ops.svd(x)[2], TALL),
    "svd_full_left": (lambda x: ops.svd(x)[0], WIDES),
    "svd_all": (lambda x: _together(ops.svd(x, full_matrices=False)), TALL),
    **{
        f"qr_{kind}_{place}": (_part(ops.qr, place), array)
        for kind, array in SHAPES.items()
        for place in range(2)
    },
    "qr_all": (lambda x: _together(ops.qr(x)), WIDES),
    **{
        f"qr_complete_{kind}_{place}": (_part(lambda x: ops.qr(x, "complete"), place), SHAPES[kind])
        for kind in ("tall", "wide", "talls")
        for place in range(2)
    },
    "eig_values": (lambda x: ops.real(ops.eig(x)[0]), STACK),
    "eig_vectors": (lambda x: ops.real(ops.eig(x)[1]), STACK),
    "eig_vectors_in_part": (lambda x: ops.imag(ops.eig(x)[1]), TURNED),
    "eig_vectors_of_equal_elements": (
        lambda x: _in_any_order(*ops.eig(x)),
        np.array([[2.0, 1.0], [1.0, 2.0]]),
    ),
    "eig_vectors_real": (lambda x: ops.real(ops.eig(x)[1]), SQUARE * np.eye(4) + 0.1 * SQUARE),
    **{f"lu_{kind}": (_part(ops.lu_factor, 0), array) for kind, array in SHAPES.items()},
    "eigh_values": (lambda x: ops.eigh(_gram(x))[0], STACK),
    "eigh_vectors": (lambda x: ops.eigh(_gram(x))[1], STACK),
    "cholesky": (lambda x: ops.cholesky(_gram(x)), STACK),
    "cholesky_upper": (lambda x: ops.cholesky(_gram(x), upper=True), STACK),
    "cholesky_inverse": (ops.cholesky_inverse, SQUARE),
    "cholesky_inverse_upper": (lambda x: ops.cholesky_inverse(x, upper=True), STACK),
    "det": (ops.det, STACK),
    "slogdet": (lambda x: ops.slogdet(x)[1], STACK),
    "logdet": (lambda x: ops.logdet(_gram(x)), STACK),
    "inv": (ops.inv, STACK),
    **{f"pinv_{kind}": (ops.pinv, array) for kind, array in SHAPES.items()},
    "solve": (lambda x, y: ops.solve(x, y), SQUARE, DRAW.uniform(-1, 1, (4, 2))),
    "solve_triangular": (
        lambda x, y: ops.solve_triangular(x, y, lower=True),
        SQUARE,
        DRAW.uniform(-1, 1, (4, 2)),
    ),
    "lstsq": (lambda x, y: ops.lstsq(x, y), TALL, RIGHT),
    "lstsq_vector": (lambda x, y: ops.lstsq(x, y), TALL, RIGHT[:, 0]),
    "lstsq_wide": (lambda x, y: ops.lstsq(x, y), WIDE, RIGHT[:3]),
    **{
        f"norm_{order}": (lambda x, o=order: ops.norm(x, o, axis=(0, 2)), STACK)
        for order in ("nuc", "fro", 1, -1, 2, -2, np.inf, -np.inf)
    },
    "norm_keepdims": (lambda x: ops.norm(x, "nuc", axis=(-2, -1), keepdims=True), WIDES),
    "norm_of_vectors": (lambda x: ops.norm(x, 3, axis=1), X),
    **{
        f"correlate_{mode}_{first}_{second}": (
            lambda x, y, m=mode: ops.correlate(x, y, m),
            DRAW.uniform(-1, 1, first),
            DRAW.uniform(-1, 1, second),
        )
        for mode in ("valid", "same", "full")
        for first, second in ((7, 3), (3, 7), (6, 4), (4, 6), (5, 5))
    },
}


def _together(parts):
    """Several results as one vector, so that all of their gradients arrive."""
    return ops.concatenate([ops.ravel(part) for part in parts])


def _value(function, arrays):
    nodes = [K.placeholder(array.shape, dtype="float64") for array in arrays]
    with traced():
        found = function(*[Traced(node) for node in nodes])
    assert is_traced(found)
    return K.function(nodes, [found.node])(list(arrays))[0]


def _slopes(function, *arrays):
    variables = [keras.Variable(array, dtype="float64") for array in arrays]
    return gradients(lambda: ops.sum(function(*variables)), variables)


@pytest.mark.parametrize("name", CASES)
def test_a_trace_gives_what_an_eager_call_gives(name):
    function, *arrays = CASES[name]
    np.testing.assert_allclose(_value(function, arrays), function(*arrays), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_differences(name):
    function, *arrays = CASES[name]
    weights = np.random.RandomState(5).uniform(0.5, 1.5, np.shape(function(*arrays)))
    found = _slopes(lambda *given: function(*given) * weights, *arrays)
    for place, array in enumerate(arrays):
        along = np.random.RandomState(6).uniform(-1, 1, array.shape)
        ends = []
        for sign in (1, -1):
            moved = [*arrays]
            moved[place] = array + sign * STEP * along
            ends.append(np.sum(_value(function, moved) * weights))
        wanted = (ends[0] - ends[1]) / (2 * STEP)
        there = np.where(np.isnan(array), 0, found[place])
        np.testing.assert_allclose(np.sum(there * along), wanted, rtol=1e-6, atol=1e-6)


def _flat_spectrum(rows, columns):
    """A matrix of which all singular values are 2."""
    return 2 * np.eye(rows, columns)


NOT_THERE = {  # name -> function, operand: what is infinite or NaN as in the formulas
    "eigh_vectors_of_equal_values": (lambda x: ops.eigh(x)[1], np.eye(3)),
    "svd_left_of_equal_values": (
        lambda x: ops.svd(x, full_matrices=False)[0],
        _flat_spectrum(3, 3),
    ),
    "svd_right_of_equal_values": (
        lambda x: ops.svd(x, full_matrices=False)[2],
        _flat_spectrum(4, 3),
    ),
    "svd_left_of_zero": (lambda x: ops.svd(x, full_matrices=False)[0], np.zeros((3, 1))),
    "slogdet_of_singular": (lambda x: ops.slogdet(x)[1], np.zeros((2, 2))),
    "qr_of_zero": (lambda x: ops.qr(x)[0], np.zeros((3, 2))),
    "qr_that_reflects_nothing": (lambda x: ops.qr(x, "complete")[0], np.eye(3, 2)),
    "eig_vectors_of_equal_values": (lambda x: ops.absolute(ops.eig(x)[1]), np.eye(3)),
    "lu_of_zero": (lambda x: ops.lu_factor(x)[0], np.zeros((2, 2))),
}


@pytest.mark.parametrize("name", NOT_THERE)
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
def test_without_a_derivative_no_number_is_given(name):
    function, array = NOT_THERE[name]
    weights = np.random.RandomState(1).uniform(0.5, 1.5, np.shape(function(array)))
    (found,) = _slopes(lambda x: function(x) * weights, array)
    assert not np.isfinite(found).all()


def test_what_equal_values_do_determine_has_a_derivative():
    (of_values,) = _slopes(lambda x: ops.sum(ops.eigh(x)[0]), np.eye(3))
    np.testing.assert_allclose(of_values, np.eye(3), atol=1e-12)
    (of_sizes,) = _slopes(lambda x: ops.norm(x, "nuc"), _flat_spectrum(3, 2))
    np.testing.assert_allclose(of_sizes, np.eye(3, 2), atol=1e-12)
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    (of_determinant,) = _slopes(ops.det, singular)
    np.testing.assert_allclose(of_determinant, [[4, -2], [-2, 1]], atol=1e-12)


@pytest.mark.parametrize(
    ("function", "array", "words"),
    [
        (lambda x: ops.svd(x)[0], TALL, "full_matrices=False"),
        (lambda x: ops.svd(x)[2], WIDE, "full_matrices=False"),
    ],
    ids=["svd_left", "svd_right"],
)
def test_what_has_no_derivative_is_refused(function, array, words):
    with pytest.raises(GradientError, match=words):
        _slopes(function, array)


def _of_rank(rank, *shape):
    """A matrix, or a stack, of that rank; its factors."""
    *lead, rows, columns = shape
    draw = np.random.RandomState(31)
    return draw.uniform(0.5, 1.5, (*lead, rows, rank)), draw.uniform(-1, 1, (*lead, rank, columns))


RANKS = {  # name -> a matrix without full rank by its factors
    "square": _of_rank(2, 4, 4),
    "tall": _of_rank(2, 6, 3),
    "wide": _of_rank(1, 3, 5),
    "stack": _of_rank(3, 2, 4, 5),
    "zero": (np.zeros((3, 1)), np.zeros((1, 2))),
}
PSEUDO = {
    "pinv": lambda x: ops.pinv(x),
    "pinv_of_limit": lambda x: ops.pinv(x, 1e-9),
    "lstsq": lambda x: ops.lstsq(x, SIDES[:, : x.shape[-2]].T, 1e-9),
    "lstsq_vector": lambda x: ops.lstsq(x, SIDES[0, : x.shape[-2]], 1e-9),
}
SIDES = np.random.RandomState(33).uniform(-1, 1, (2, 6))


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in PSEUDO for kind in RANKS if "lstsq" not in name or kind != "stack"],
)
def test_without_full_rank_the_gradient_is_along_changes_that_keep_the_rank(name, kind):
    left, right = RANKS[kind]
    matrix = left @ right
    weights = np.random.RandomState(5).uniform(0.5, 1.5, np.shape(PSEUDO[name](matrix)))
    (found,) = _slopes(lambda x: PSEUDO[name](x) * weights, matrix)
    if kind == "zero":
        np.testing.assert_array_equal(found, 0)
        return
    draw = np.random.RandomState(7)
    along = draw.uniform(-1, 1, left.shape), draw.uniform(-1, 1, right.shape)
    ends = []
    for sign in (STEP, -STEP):
        moved = (left + sign * along[0]) @ (right + sign * along[1])
        ends.append(np.sum(PSEUDO[name](moved) * weights))
    tangent = along[0] @ right + left @ along[1]
    wanted = (ends[0] - ends[1]) / (2 * STEP)
    np.testing.assert_allclose(np.sum(found * tangent), wanted, rtol=1e-5, atol=1e-5)
    beyond = np.random.RandomState(8).uniform(-1, 1, matrix.shape)
    back = np.linalg.pinv(matrix, 1e-9)
    rest = beyond - matrix @ back @ beyond
    rest = rest - rest @ back @ matrix  # this change would raise the rank: the entries there are 0
    np.testing.assert_allclose(np.sum(found * rest), 0, atol=1e-9)


@pytest.mark.parametrize(
    "name",
    ["svd_values", "svd_tall_0", "qr_wide_1", "lu_square", "det", "inv", "pinv_tall", "median"],
)
def test_gradients_have_gradients(name):
    function, array = CASES[name]
    weights = np.random.RandomState(5).uniform(0.5, 1.5, np.shape(function(array)))
    along = np.random.RandomState(6).uniform(-1, 1, array.shape)

    def slope(x):
        node = K.placeholder(array.shape, dtype="float64")
        with traced():
            total = ops.sum(function(Traced(node)) * weights)
        first = K.gradients(total.node, [node])[0]
        (second,) = K.gradients(K.sum(first * K.constant(along, dtype="float64")), [node])
        outputs = [first] if second is None else [first, second]
        return K.function([node], outputs)([x])

    ends = [slope(array + sign * STEP * along)[0] for sign in (1, -1)]
    wanted = (ends[0] - ends[1]) / (2 * STEP)
    found = [*slope(array)[1:], np.zeros_like(array)][0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["svd_values", "qr_tall_0", "lu_wide", "det", "pinv_tall", "solve"]
)
def test_gradients_in_float16_are_those_of_the_same_numbers(name):
    function, *arrays = CASES[name]
    given = [array.astype("float16") for array in arrays]
    variables = [keras.Variable(array, dtype="float16") for array in given]
    found = gradients(lambda: ops.sum(ops.cast(function(*variables), "float32")), variables)
    wanted = _slopes(function, *[array.astype("float64") for array in given])
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == "float16"
        np.testing.assert_allclose(one, other, rtol=0.02, atol=0.02 * np.abs(other).max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_complex_eigenvalues_are_not_cut_to_real_ones(dtype):
    turn = np.array([[0.0, -2.0], [2.0, 0.0]], dtype)
    values, vectors = ops.eig(turn)
    assert values.dtype == ("complex64" if dtype == "float32" else "complex128")
    np.testing.assert_allclose(sorted(values.imag), [-2, 2], rtol=1e-6)
    np.testing.assert_allclose(turn @ vectors, vectors * values, atol=1e-6)
    both = np.array([[2.0, 1.0], [1.0, 2.0]], dtype)
    assert ops.eig(both)[0].dtype == dtype
