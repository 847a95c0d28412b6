"""Complex numbers: an eager call, a trace and NumPy agree; gradients are those of differences."""

import keras3_there  # noqa: F401  # isort: skip
import numpy as np
import pytest
from complex_traces import DRAW, SQUARE, W, Z, drawn, gram, run_traced
from keras import ops
from sampling import every
from scipy.linalg import lu_factor
from scipy.special import logsumexp

from kbench import backend as K
from kbench.keras3.core import traced
from kbench.keras3.tensor import symbol_of, to_held

TALL, WIDE = drawn(4, 2), drawn(2, 4)
STACKS = {"square": SQUARE, "tall": TALL, "wide": WIDE, "stack": drawn(2, 4, 3)}
STACKS["stack_wide"] = drawn(2, 2, 3)
REAL = DRAW.uniform(0.5, 1.5, (2, 3))
TURNED = np.array([[1.0, -2.0, 0.3], [1.5, 0.7, 0.2], [0.1, 0.4, 3.0]])
PLACES = np.array([[1, 0, 2], [2, 2, 0]])
STEP = 1e-5


def _same(name, *operands):
    """A row of a function that has its name in NumPy."""
    return getattr(ops, name), getattr(np, name), operands


def _half_of(z):
    return {"complex64": "float32", "complex128": "float64"}[str(z.dtype)]


def _scanned(carry, rows):
    found = []
    for row in rows:
        found.append(carry + row)
        carry = carry * row
    return np.stack(found)


def _adjoint(z):
    return ops.conj(ops.swapaxes(z, -1, -2))


def _singular(parts, place, adjoint):
    """What does not depend on phases: of vectors of one side, or of both together."""
    left, values, right = parts
    turned = adjoint(right)
    scale = np.arange(1.0, values.shape[-1] + 1).astype(values.dtype)
    both = [(left, adjoint(left)), (turned, right), (left, right)][place]
    return (both[0] * scale) @ both[1]


def _np_adjoint(z):
    return np.conj(np.swapaxes(z, -1, -2))


def _weighed(parts):
    """Vectors of both sides and values, of which all gradients arrive."""
    left, values, right = parts
    return (left * values) @ right + abs(left[:, :1]) + abs(right[:1])


def _eigen(parts):
    """All vectors at once, whatever their order; LAPACK makes the largest element of each real."""
    values, vectors = parts
    return (vectors * values[..., None, :] ** 2) @ vectors.swapaxes(-1, -2)


def _traced_eigen(parts):
    values, vectors = parts
    return (vectors * ops.expand_dims(values, -2) ** 2) @ ops.swapaxes(vectors, -1, -2)


def _lu(a):
    if a.ndim == 2:
        return lu_factor(a)[0]
    return np.stack([lu_factor(one)[0] for one in a])


SMOOTH = {  # name -> (function, the same in NumPy, operands)
    **{
        name: _same(name, Z)
        for name in (
            "exp log sqrt square sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh "
            "arctanh expm1 log1p exp2 log2 log10 reciprocal sinc negative conj conjugate real imag "
            "absolute abs angle sum mean prod var std cumsum cumprod ravel transpose flip"
        ).split()
    },
    **{name: _same(name, Z, W) for name in "add subtract multiply divide power kron outer".split()},
    "sign": (ops.sign, lambda z: z / np.abs(z), (Z,)),
    "power_of_a_whole_number": (lambda z: z**3, lambda z: z**3, (Z,)),
    "real_and_complex": (lambda x, z: x * z + x / z, lambda x, z: x * z + x / z, (REAL, Z)),
    "divide_no_nan": (ops.divide_no_nan, np.divide, (Z, W)),
    "view_as_complex": (
        lambda x: ops.view_as_complex(ops.stack([x, x * x], -1)),
        lambda x: x + 1j * x * x,
        (REAL,),
    ),
    "view_as_real": (ops.view_as_real, lambda z: np.stack([z.real, z.imag], -1), (Z,)),
    "polar": (ops.polar, lambda r, t: r * np.exp(1j * t), (REAL, REAL)),
    "cast": (lambda x: ops.cast(x, "complex64") * 1j, lambda x: 1j * x, (REAL,)),
    "matmul": (lambda z, w: z @ ops.transpose(w), lambda z, w: z @ w.T, (Z, W)),
    "matmul_vector": (lambda z, w: z @ w[0], lambda z, w: z @ w[0], (Z, W)),
    "matmul_with_real": (lambda x, z: ops.transpose(x) @ z, lambda x, z: x.T @ z, (REAL, Z)),
    "dot": (lambda z, w: ops.dot(z, ops.transpose(w)), lambda z, w: z @ w.T, (Z, W)),
    "inner": _same("inner", Z, W),
    "vdot": _same("vdot", Z, W),
    "cross": _same("cross", Z, W),
    "tensordot": (
        lambda z, w: ops.tensordot(z, w, ([0], [0])),
        lambda z, w: np.tensordot(z, w, ([0], [0])),
        (Z, W),
    ),
    "einsum": (
        lambda z, w: ops.einsum("ab,cb,ad->cd", z, w, w),
        lambda z, w: np.einsum("ab,cb,ad->cd", z, w, w),
        (Z, W),
    ),
    "correlate": (
        lambda z, w: ops.correlate(z[0], w[0, :2], "full"),
        lambda z, w: np.correlate(z[0], w[0, :2], "full"),
        (Z, W),
    ),
    "corrcoef": (lambda z: ops.corrcoef(z), np.corrcoef, (Z,)),
    "trace": _same("trace", SQUARE),
    "diff": _same("diff", Z),
    "trapezoid": _same("trapezoid", Z),
    "average": (
        lambda z, x: ops.average(z, 1, weights=x),
        lambda z, x: np.average(z, 1, weights=x),
        (Z, REAL),
    ),
    "sum_over_an_axis": (lambda z: ops.sum(z, 1, True), lambda z: z.sum(1, keepdims=True), (Z,)),
    "prod_over_an_axis": (lambda z: ops.prod(z, 0), lambda z: z.prod(0), (Z,)),
    "prod_at_a_zero": (ops.prod, np.prod, (Z * [1, 0, 1],)),
    "nansum": (ops.nansum, np.nansum, (Z,)),
    "nanvar": (ops.nanvar, np.nanvar, (Z,)),
    "logsumexp": (ops.logsumexp, logsumexp, (Z,)),
    "reshape": (lambda z: ops.reshape(z, (3, -1)), lambda z: z.reshape(3, -1), (Z,)),
    "expand_dims": (lambda z: ops.expand_dims(z, 1), lambda z: z[:, None], (Z,)),
    "squeeze": (lambda z: ops.squeeze(z[:1], 0), lambda z: z[0], (Z,)),
    "slice": (lambda z: z[:, ::2], lambda z: z[:, ::2], (Z,)),
    "slice_of_a_block": (lambda z: ops.slice(z, (0, 1), (2, 2)), lambda z: z[:, 1:], (Z,)),
    "slice_update": (
        lambda z, w: ops.slice_update(z, (0, 1), w[:1, :2]),
        lambda z, w: np.concatenate([np.c_[z[:1, :1], w[:1, :2]], z[1:]]),
        (Z, W),
    ),
    "scatter": (
        lambda z: ops.scatter(np.array([[1], [1]]), z, (3, 3)),
        lambda z: np.stack([0 * z[0], z[0] + z[1], 0 * z[0]]),
        (Z,),
    ),
    "concatenate": (
        lambda z, x: ops.concatenate([z, x], 1),
        lambda z, x: np.concatenate([z, x], 1),
        (Z, REAL),
    ),
    "stack": (lambda z, w: ops.stack([z, w], 1), lambda z, w: np.stack([z, w], 1), (Z, W)),
    "where": (
        lambda z, w: ops.where(PLACES > 0, z, w),
        lambda z, w: np.where(PLACES > 0, z, w),
        (Z, W),
    ),
    "take": (lambda z: ops.take(z, [2, 0], 1), lambda z: z[:, [2, 0]], (Z,)),
    "take_along_axis": (
        lambda z: ops.take_along_axis(z, PLACES, 1),
        lambda z: np.take_along_axis(z, PLACES, 1),
        (Z,),
    ),
    "advanced_index": (lambda z: z[np.array([1, 1, 0])], lambda z: z[[1, 1, 0]], (Z,)),
    "pad": (
        lambda z: ops.pad(z, ((1, 0), (0, 2)), constant_values=1j),
        lambda z: np.pad(z, ((1, 0), (0, 2)), constant_values=1j),
        (Z,),
    ),
    "pad_reflect": (
        lambda z: ops.pad(z, ((1, 1), (2, 1)), mode="reflect"),
        lambda z: np.pad(z, ((1, 1), (2, 1)), mode="reflect"),
        (Z,),
    ),
    "roll": (lambda z: ops.roll(z, 1, 1), lambda z: np.roll(z, 1, 1), (Z,)),
    "tile": (lambda z: ops.tile(z, (1, 2)), lambda z: np.tile(z, (1, 2)), (Z,)),
    "broadcast_to": (
        lambda z: ops.broadcast_to(z, (2, 2, 3)),
        lambda z: np.broadcast_to(z, (2, 2, 3)),
        (Z,),
    ),
    "diag": _same("diag", SQUARE),
    "tril": _same("tril", SQUARE),
    "vander": (lambda z: ops.vander(z[0], 3), lambda z: np.vander(z[0], 3), (Z,)),
    "segment_sum": (
        lambda z: ops.segment_sum(z, np.array([1, 1]), 2),
        lambda z: np.stack([0 * z[0], z.sum(0)]),
        (Z,),
    ),
    "full_like": (lambda z: z * ops.full_like(z, 2j), lambda z: 2j * z, (Z,)),
    "nan_to_num": _same("nan_to_num", Z),
    "det": (ops.det, np.linalg.det, (SQUARE,)),
    "inv": (ops.inv, np.linalg.inv, (SQUARE,)),
    "solve": (ops.solve, np.linalg.solve, (SQUARE, drawn(3, 2))),
    "solve_triangular": (
        lambda a, b: ops.solve_triangular(a, b, lower=True),
        lambda a, b: np.linalg.solve(np.tril(a), b),
        (SQUARE, drawn(3, 2)),
    ),
    "slogdet_sign": (lambda a: ops.slogdet(a)[0], lambda a: np.linalg.slogdet(a)[0], (SQUARE,)),
    "slogdet_size": (lambda a: ops.slogdet(a)[1], lambda a: np.linalg.slogdet(a)[1], (SQUARE,)),
    "cholesky": (
        lambda a: ops.cholesky(gram(a)),
        lambda a: np.linalg.cholesky(a @ a.conj().T),
        (SQUARE,),
    ),
    "cholesky_upper": (
        lambda a: ops.cholesky(gram(a), upper=True),
        lambda a: np.linalg.cholesky(a @ a.conj().T).conj().T,
        (SQUARE,),
    ),
    "eigh_values": (
        lambda a: ops.eigh(gram(a))[0],
        lambda a: np.linalg.eigh(a @ a.conj().T)[0],
        (SQUARE,),
    ),
    "eigh_vectors": (  # the sizes do not depend on phases
        lambda a: ops.absolute(ops.eigh(gram(a))[1]),
        lambda a: np.abs(np.linalg.eigh(a @ a.conj().T)[1]),
        (SQUARE,),
    ),
    "eig_values": (lambda a: ops.eig(a)[0] ** 2, lambda a: np.linalg.eig(a)[0] ** 2, (SQUARE,)),
    "svd_values": (
        lambda a: ops.svd(a, compute_uv=False),
        lambda a: np.linalg.svd(a, compute_uv=False),
        (SQUARE,),
    ),
    "pinv_tall": (ops.pinv, np.linalg.pinv, (TALL,)),
    "pinv_wide": (
        lambda a: ops.pinv(ops.transpose(a)),
        lambda a: np.linalg.pinv(a.T),
        (TALL,),
    ),
    "pinv_square": (ops.pinv, np.linalg.pinv, (SQUARE,)),
    "lstsq": (
        lambda a, b: ops.lstsq(a, b),
        lambda a, b: np.linalg.lstsq(a, b, None)[0],
        (TALL, drawn(4, 2)),
    ),
    **{
        f"svd_{('left', 'right', 'both')[place]}_{kind}": (
            lambda a, i=place: _singular(ops.svd(a, full_matrices=False), i, _adjoint),
            lambda a, i=place: _singular(np.linalg.svd(a, False), i, _np_adjoint),
            (array,),
        )
        for kind, array in STACKS.items()
        for place in range(3)
    },
    "svd_of_full": (lambda a: abs(ops.svd(a)[2]), lambda a: abs(np.linalg.svd(a)[2]), (TALL,)),
    "svd_together": (
        lambda a: _weighed(ops.svd(a, full_matrices=False)),
        lambda a: _weighed(np.linalg.svd(a, False)),
        (WIDE,),
    ),
    **{
        f"qr_{('columns', 'triangle')[place]}_{kind}": (
            lambda a, i=place: ops.qr(a)[i],
            lambda a, i=place: np.linalg.qr(a)[i],
            (array,),
        )
        for kind, array in STACKS.items()
        for place in range(2)
    },
    "qr_together": (lambda a: ops.matmul(*ops.qr(a)) * 2, lambda a: 2 * a, (STACKS["stack"],)),
    **{
        f"qr_complete_{('columns', 'triangle')[place]}_{kind}": (
            lambda a, i=place: ops.qr(a, "complete")[i],
            lambda a, i=place: np.linalg.qr(a, "complete")[i],
            (STACKS[kind],),
        )
        for kind in ("tall", "wide", "stack")
        for place in range(2)
    },
    **{
        f"lu_factor_{kind}": (lambda a: ops.lu_factor(a)[0], _lu, (array,))
        for kind, array in STACKS.items()
    },
    "cholesky_inverse": (
        ops.cholesky_inverse,
        lambda a: np.linalg.inv(np.tril(a) @ np.tril(a).conj().T),
        (SQUARE,),
    ),
    "cholesky_inverse_upper": (
        lambda a: ops.cholesky_inverse(a, upper=True),
        lambda a: np.linalg.inv(np.triu(a).conj().T @ np.triu(a)),
        (SQUARE,),
    ),
    "eig_vectors": (
        lambda a: _traced_eigen(ops.eig(a)),
        lambda a: _eigen(np.linalg.eig(a)),
        (SQUARE,),
    ),
    "eig_vectors_of_real": (  # two of them are conjugates
        lambda a: _traced_eigen(ops.eig(a)) + 0j,
        lambda a: _eigen(np.linalg.eig(a)),
        (TURNED,),
    ),
    "eig_vectors_of_stack": (
        lambda a: abs(ops.eig(a)[1]) @ abs(ops.swapaxes(ops.eig(a)[1], -1, -2)),
        lambda a: abs(np.linalg.eig(a)[1]) @ abs(np.linalg.eig(a)[1].swapaxes(-1, -2)),
        (np.stack([SQUARE, SQUARE @ SQUARE - 1]),),
    ),
    "norm": (ops.norm, np.linalg.norm, (Z,)),
    "norm_of_vectors": (
        lambda z: ops.norm(z, 1, 1),
        lambda z: np.linalg.norm(z, 1, 1),
        (Z,),
    ),
    "cumprod_over_an_axis": (lambda z: ops.cumprod(z, 1), lambda z: np.cumprod(z, 1), (Z,)),
    "view": (lambda z: ops.view(z, _half_of(z)), lambda z: z.view("float64"), (Z,)),
    "scan": (
        lambda z: ops.scan(lambda c, x: (c * x, c + x), z[0], ops.tile(z, (5, 1)))[1],
        lambda z: _scanned(z[0], np.tile(z, (5, 1))),
        (Z,),
    ),
    "conv": (
        lambda z, w: ops.conv(z[None], ops.reshape(w, (2, 3, 1))),
        lambda z, w: (z * w).sum().reshape(1, 1, 1),
        (Z, W),
    ),
    "conv_transpose": (
        lambda z, x: ops.conv_transpose(z[None], ops.reshape(x, (1, 2, 3))),
        lambda z, x: (z @ x.reshape(2, 3).T)[None],
        (Z, REAL),
    ),
    "stop_gradient": (lambda z: z + 0 * ops.stop_gradient(z), lambda z: z, (Z,)),
}
FLAT = {  # functions that pass no gradient on
    **{
        name: _same(name, Z)
        for name in "isnan isinf isfinite isreal all any round zeros_like ones_like".split()
    },
    "equal": (lambda z: ops.equal(z, z[0]), lambda z: z == z[0], (Z,)),
    "not_equal": (lambda z: z != z[0], lambda z: z != z[0], (Z,)),
    "logical_not": (lambda z: ops.logical_not(z * REAL), lambda z: np.logical_not(z), (Z,)),
    "cast_to_bool": (lambda z: ops.cast(z, "bool"), lambda z: z.astype(bool), (Z * [1, 0, 1j],)),
    "count_nonzero": (ops.count_nonzero, np.count_nonzero, (Z * [1, 0, 1],)),
    "isclose": (lambda z: ops.isclose(z, z[0]), lambda z: np.isclose(z, z[0]), (Z,)),
    "isin": (lambda z: ops.isin(z, z[0]), lambda z: np.isin(z, z[0]), (Z,)),
    "matrix_rank": (ops.matrix_rank, np.linalg.matrix_rank, (SQUARE,)),
    "not_a_number": (ops.isnan, np.isnan, (Z * [1, np.nan, 1],)),
    "nansum_of_nan": (ops.nansum, np.nansum, (Z * [1, np.nan, 1],)),
}
VALUES = {**SMOOTH, **FLAT}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, "complex64") for name in VALUES] + every(4, [(name, "complex128") for name in VALUES]),
)
def test_an_eager_call_and_a_trace_give_what_numpy_gives(name, dtype):
    function, wanted, given = VALUES[name]
    half = {"complex64": "float32", "complex128": "float64"}[dtype]
    arrays = [x.astype(dtype if x.dtype.kind == "c" else half) for x in given]
    eager, _, planned = [np.asarray(function(*arrays)) for _ in range(3)]
    with np.errstate(all="ignore"):
        expected = np.asarray(wanted(*given))
    found = run_traced(function, arrays)
    assert eager.dtype.kind == found.dtype.kind == expected.dtype.kind
    if dtype == "complex64":  # operators of arrays of complex128 are NumPy's
        assert eager.dtype == found.dtype
    for one in (eager, planned, found):
        np.testing.assert_allclose(_sorted(name, one), _sorted(name, expected), 2e-5, 2e-6)


def _sorted(name, values):
    return np.sort_complex(values) if name == "eig_values" else values


@pytest.fixture
def precise(float64, monkeypatch):
    """Results as precise as operands, complex ones too."""
    from keras.src.backend.common import dtypes

    monkeypatch.setitem(dtypes.BIT64_TO_BIT32_DTYPE, "complex128", "complex128")


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_differences(name, precise):
    function, _, given = SMOOTH[name]
    if name in ("view_as_complex", "cast"):  # Keras' functions that give complex64
        function = _in_double(name)
    symbols = [symbol_of(x.shape, x.dtype.name) for x in given]
    with traced():
        loss = _real_loss(function(*symbols))
    nodes = [one.held for one in symbols]
    slopes = K.gradients(loss, nodes)
    run = K.function(nodes, [loss, *slopes])
    at = [to_held(x) for x in given]
    found = run(at)[1:]
    for i, array in enumerate(at):
        wanted = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = [np.array(one) for one in at]
                moved[i][place] += step
                ends.append(float(run(moved)[0]))
            wanted[place] = (ends[0] - ends[1]) / (2 * STEP)
        np.testing.assert_allclose(found[i], wanted, 1e-5, 1e-7)


TWICE = (
    "exp divide absolute matmul inv sqrt power prod det svd_both_tall lu_factor_wide eig_vectors"
)


@pytest.mark.parametrize("name", TWICE.split())
def test_gradients_have_gradients(name, precise):
    function, _, given = SMOOTH[name]
    symbols = [symbol_of(x.shape, x.dtype.name) for x in given]
    nodes = [one.held for one in symbols]
    with traced():
        first = K.gradients(_real_loss(function(*symbols)), nodes)
    loss = K.sum(K.concatenate([K.flatten(one * one) for one in first]))
    run = K.function(nodes, [loss, K.gradients(loss, nodes)[0]])
    at = [to_held(x) for x in given]
    along = np.random.RandomState(2).normal(size=at[0].shape)
    ends = [float(run([at[0] + step * along, *at[1:]])[0]) for step in (STEP, -STEP)]
    wanted = (ends[0] - ends[1]) / (2 * STEP)
    np.testing.assert_allclose(np.sum(run(at)[1] * along), wanted, rtol=1e-5)


def _in_double(name):
    if name == "cast":
        return lambda x: ops.cast(x, "complex128") * 1j
    return lambda x: x + 1j * (x * x)


def _real_loss(found):
    """A number that depends on both parts of each element, in its own way."""
    weights = np.cos(np.arange(np.prod(found.shape))).reshape(found.shape)
    parts = ops.real(found), ops.imag(found)
    return ops.sum(weights * parts[0] + ops.square(parts[1]) + ops.square(parts[0])).node
