"""Linear algebra by LAPACK; `rules` has the gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy  # whose parts are loaded on first use

from kbench import backend as K
from kbench.api.operations import ArgumentError, ShapeError
from kbench.keras3.calls.host import flat, host, node_call, solved
from kbench.keras3.complex_numbers.refusal import is_complex, spec_of
from kbench.keras3.numpy import elementwise, layout, reduce
from kbench.keras3.numpy.elementwise import float_type, floating, of_floats
from kbench.keras3.rules.factors import (
    cholesky_inverse_rule,
    cholesky_rule,
    eig_rule,
    eigh_rule,
    lu_rule,
    qr_rule,
    svd_rule,
)
from kbench.keras3.rules.nodes import inverse_rule
from kbench.keras3.rules.solutions import (
    default_rcond,
    det_rule,
    lstsq_rule,
    pinv_rule,
    slogdet_rule,
    solve_rule,
    triangular_rule,
)
from kbench.keras3.tensor import PARTS, Traced, is_traced, operation, plain


def _adjoint(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.conjugate(np.swapaxes(x, -1, -2)))


def _half(dtype: str) -> str:
    """The dtype of sizes of numbers of a dtype."""
    return PARTS.get(dtype, dtype)


def _matrices(operands: int, rule: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """As `host`, of floats; the rule serves real and complex matrices."""
    declare = host(operands, rule, of_complex=rule, **more)
    return lambda function: of_floats(operands)(declare(function))


@_matrices(1, cholesky_rule)
def cholesky(a: Any, upper: bool = False) -> Any:
    """The triangular factor of a positive definite matrix; LinAlgError where there is none."""
    lower = np.linalg.cholesky(a)
    return _adjoint(lower) if upper else lower


@_matrices(1, cholesky_inverse_rule)
def cholesky_inverse(a: Any, upper: bool = False) -> Any:
    """The inverse of the matrix whose triangular factor is given."""
    lower = _adjoint(np.triu(a)) if upper else np.tril(a)
    back = np.linalg.inv(lower)
    return _adjoint(back) @ back


@_matrices(1, det_rule)
def det(a: Any) -> Any:
    """The determinant."""
    return np.linalg.det(a)


@_matrices(1, inverse_rule)
def inv(a: Any) -> Any:
    """The inverse."""
    return np.linalg.inv(a)


def eig(a: Any) -> Any:
    """Eigenvalues and eigenvectors of a square matrix, which are complex.

    Known matrices that need no complex ones give real values and vectors. In a traced step that is
    not known, so that the results are complex there. Vectors have the length 1, and the largest
    element of each is real: their gradient is that of these vectors.
    """
    a = layout.known(a)
    if is_traced(a):
        given = elementwise.cast(a, float_type(a))
        dtypes = _eig_dtypes(given)
        specs = [(tuple(a.shape[:-1]), dtypes[0]), (tuple(a.shape), dtypes[1])]
        return node_call("eig", _pair_of_eig, (given,), (), {}, eig_rule, specs, (a, a), True)
    dtype = float_type(a)
    wide = a.astype(dtype if dtype in EIG else "float32")
    values, vectors = solved("eig", np.linalg.eig, (a,), (wide,), {})
    if not np.iscomplexobj(wide) and not values.imag.any():
        values, vectors = values.real, vectors.real  # NumPy 2.5 gives complex ones in any case
    if np.iscomplexobj(values):
        dtype = _eig_dtypes(a)[0]
    return values.astype(dtype), vectors.astype(dtype)


def _pair_of_eig(a: np.ndarray) -> Any:
    values, vectors = np.linalg.eig(a)
    return values, vectors


EIG = ("float64", *PARTS)
"""Dtypes that LAPACK takes beside float32."""


def _eig_dtypes(a: Any) -> list[str]:
    dtype = float_type(a)
    return [dtype if dtype in PARTS else "complex128" if dtype == "float64" else "complex64"] * 2


@_matrices(1, eigh_rule, dtype=lambda a: [_half(float_type(a)), float_type(a)])
def eigh(a: Any) -> Any:
    """Eigenvalues, in order, and eigenvectors of a symmetric matrix.

    The gradient is NaN where a loss depends on the phases of complex vectors.
    """
    values, vectors = np.linalg.eigh(a)
    return values, vectors


@_matrices(1, lu_rule, dtype=lambda a: [float_type(a), "int32"])
def lu_factor(a: Any) -> Any:
    """The two triangles of a matrix in one, and the rows that were exchanged."""
    size, rank = a.shape[-2:], min(a.shape[-2:])
    if not a.size:
        return np.zeros_like(a), np.zeros((*a.shape[:-2], rank), np.int32)
    pairs = [scipy.linalg.lu_factor(one) for one in a.reshape(-1, *size)]
    factors = np.stack([one for one, _ in pairs]).reshape(a.shape)
    return factors, np.stack([one for _, one in pairs]).reshape(*a.shape[:-2], rank)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The length of vectors, or a norm of matrices."""
    x = layout.known(x)
    dtype = elementwise.float_type(x)
    x = elementwise.cast(x, dtype)
    axes = tuple(range(len(x.shape))) if axis is None else axis
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    _check_order(x, ord, axes)
    if _has_nothing_to_choose(x, ord, axes):
        return _norm_of_nothing(x, ord, axes, keepdims)
    if not is_traced(x):
        given = axis if axis is None or isinstance(axis, int) else tuple(axis)
        return _norm(x, ord, given, keepdims)
    size = elementwise.absolute(x)
    if ord in (None, "fro") or (ord == 2 and len(axes) == 1):
        squares = elementwise.square(size if dtype in PARTS else x)
        return elementwise.sqrt(reduce.sum(squares, axes, keepdims))
    if len(axes) == 1:
        return _vector_norm(size, ord, axes, keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        place = axes[0] if abs(ord) == 1 else axes[1]
        sums = reduce.sum(size, place, True)
        found = (reduce.max if ord > 0 else reduce.min)(sums, axes, True)
        return found if keepdims else layout.squeeze(found, axes)
    sizes = svd(layout.moveaxis(x, axes, (-2, -1)), compute_uv=False)
    fold = {"nuc": reduce.sum, 2: reduce.max, -2: reduce.min}[ord]
    found = fold(sizes, -1)
    return layout.expand_dims(found, axes) if keepdims else found


ORDERS = (1, -1, 2, -2, np.inf, -np.inf)
"""Norms of matrices, beside those that have names."""


def _check_order(x: Any, ord: Any, axes: Any) -> None:
    """ShapeError for an axis that is not there, ArgumentError for an order that vectors, matrices
    or more axes do not have."""
    if not all(-len(x.shape) <= axis < len(x.shape) for axis in axes):
        raise ShapeError(f"x is {spec_of(x)}, axis is {axes}", function="norm")
    if ord is None:
        return
    needed = {1: "a number", 2: "'fro', 'nuc', 1, -1, 2, -2, inf or -inf"}.get(len(axes), "None")
    fits = {1: not isinstance(ord, str), 2: ord in ("fro", "nuc", *ORDERS)}
    if not fits.get(len(axes), False):
        raise ArgumentError(
            f"x is {spec_of(x)}, and ord over {len(axes)} of its axes must be {needed}, "
            f"got {ord!r}",
            function="norm",
        )


def _has_nothing_to_choose(x: Any, ord: Any, axes: Any) -> bool:
    """Whether the norm is an extreme of no numbers."""
    if ord in (np.inf, -np.inf) and len(axes) == 1:
        return not x.shape[axes[0]]
    if len(axes) == 1 or ord not in ORDERS:
        return False
    rows, columns = (x.shape[axis] for axis in axes)
    return not {1: columns, 2: min(rows, columns)}.get(abs(ord), rows)


def _norm_of_nothing(x: Any, ord: Any, axes: Any, keepdims: bool) -> Any:
    """0, the least that a norm may be; ArgumentError where the smallest number is asked for."""
    if ord < 0:
        raise ArgumentError(
            f"x is {spec_of(x)}, and ord={ord!r} is the smallest of no numbers", function="norm"
        )
    return reduce.sum(elementwise.absolute(x), axes, keepdims)


def _vector_norm(size: Any, ord: Any, axes: Any, keepdims: bool) -> Any:
    if ord in (np.inf, -np.inf):
        return (reduce.max if ord > 0 else reduce.min)(size, axes, keepdims)
    if ord == 0:
        there = elementwise.cast(elementwise.not_equal(size, 0), str(size.dtype))
        return reduce.sum(there, axes, keepdims)
    powers = reduce.sum(elementwise.power(size, float(ord)), axes, keepdims)
    return elementwise.power(powers, 1.0 / ord)


@host(1, name="norm", dtype=lambda x: [_half(float_type(x))], of_complex=None)
def _norm(x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
    return np.linalg.norm(x, ord, axis, keepdims)


@_matrices(1, qr_rule)
def qr(x: Any, mode: Any = "reduced") -> Any:
    """An orthogonal factor and a triangular one, whose diagonal is real."""
    if mode not in ("reduced", "complete"):
        raise ValueError(
            "`mode` argument value not supported. Expected one of {'reduced', 'complete'}. "
            f"Received: mode={mode}"
        )
    first, second = np.linalg.qr(x, mode)
    return first, second


@_matrices(2, solve_rule)
def solve(a: Any, b: Any) -> Any:
    """What times `a` gives `b`."""
    column = b.ndim == a.ndim - 1
    found = np.linalg.solve(a, b[..., None] if column else b)
    return found[..., 0] if column else found


@_matrices(2, triangular_rule)
def solve_triangular(a: Any, b: Any, lower: bool = False) -> Any:
    """What times a triangle gives `b`."""
    column = b.ndim == a.ndim - 1
    triangle = np.tril(a) if lower else np.triu(a)
    found = np.linalg.solve(triangle, b[..., None] if column else b)
    return found[..., 0] if column else found


def svd(x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular values, and the vectors on both sides.

    The gradient is NaN where a loss depends on the phases of complex vectors, which turn together.
    """
    x = floating(x)
    if is_complex(plain(x)):
        if not compute_uv:
            return _singular_values(x, full_matrices, False)
        return _complex_svd(x, full_matrices)
    return _svd(x, full_matrices, compute_uv)


def _sizes_of(x: Any) -> list[str]:
    return [_half(float_type(x))]


@host(1, dtype=_sizes_of, name="svd", of_complex=svd_rule)
def _singular_values(x: Any, full_matrices: Any, compute_uv: Any) -> Any:
    return np.linalg.svd(x, full_matrices, compute_uv)


@host(
    1,
    dtype=lambda x: [float_type(x), *_sizes_of(x), float_type(x)],
    name="svd",
    of_complex=svd_rule,
)
def _complex_svd(x: Any, full_matrices: Any) -> Any:
    return tuple(np.linalg.svd(x, full_matrices))


@host(1, svd_rule, name="svd")
def _svd(x: Any, full_matrices: Any, compute_uv: Any) -> Any:
    found = np.linalg.svd(x, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


@_matrices(2, lstsq_rule)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """What times `a` comes nearest to `b`."""
    return np.linalg.lstsq(a, b, rcond)[0]


@_matrices(1, pinv_rule)
def pinv(x: Any, rcond: Any = None) -> Any:
    """The pseudoinverse."""
    limit = default_rcond(x.shape, x.dtype.name) if rcond is None else rcond
    return np.linalg.pinv(x, limit)


@host(1, of_complex=flat)
def matrix_rank(x: Any, tol: Any = None) -> Any:
    """How many singular values are above a tolerance."""
    return np.linalg.matrix_rank(x, tol)


def slogdet(x: Any) -> Any:
    """The sign and the logarithm of the size of a determinant."""
    x = layout.known(x)
    if not is_traced(x):
        return _slogdet(x)
    # Keras' rule forgets stacks of matrices
    specs = [(tuple(x.shape[:-2]), dtype) for dtype in _slogdet_dtypes(x)]
    of_complex = is_complex(x)
    if of_complex:
        x = elementwise.cast(x, float_type(x))
    rule = slogdet_rule
    return node_call("slogdet", _signs_and_sizes, (x,), (), {}, rule, specs, (x, x), of_complex)


def _slogdet_dtypes(x: Any) -> list[str]:
    return [float_type(x), _half(float_type(x))]


def _signs_and_sizes(x: Any) -> Any:
    return tuple(np.linalg.slogdet(x))


_slogdet = host(1, name="slogdet", dtype=_slogdet_dtypes, of_complex=None)(_signs_and_sizes)


def jvp(fun: Any, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """A function's value, and how it changes along tangents: twice through the reverse sweep."""
    return _jvp(fun, tuple(primals), tuple(tangents), has_aux)


@operation
def _jvp(fun: Any, primals: Any, tangents: Any, has_aux: bool) -> Any:
    from kbench.keras3.tensor import node_of

    inputs = [Traced(K.identity(node_of(one))) for one in primals]
    found = fun(*inputs)
    value, aux = found if has_aux else (found, None)
    cotangent = K.zeros(value.shape, dtype=value.node.spec.dtype)
    back = K.gradients(K.sum(value.node * cotangent), [one.node for one in inputs])
    parts = [
        K.sum(slope * node_of(tangent))
        for slope, tangent in zip(back, tangents, strict=True)
        if slope is not None
    ]
    change = K.gradients(K.sum(K.stack(parts)), [cotangent])[0]
    assert change is not None
    result = (value, Traced(change))
    return (*result, aux) if has_aux else result
