"""Linear algebra by LAPACK; `rules` has the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # whose parts are loaded on first use

from kbench import backend as K
from kbench.keras3.calls.host import host, node_call
from kbench.keras3.numpy import elementwise, layout, reduce
from kbench.keras3.numpy.elementwise import float_type
from kbench.keras3.rules.factors import (
    cholesky_inverse_rule,
    cholesky_rule,
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
from kbench.keras3.tensor import Traced, is_traced, operation


@host(1, cholesky_rule)
def cholesky(a: Any, upper: bool = False) -> Any:
    """The triangular factor of a positive definite matrix; ValueError where there is none."""
    try:
        lower = np.linalg.cholesky(a)
    except np.linalg.LinAlgError as error:
        raise ValueError(f"cholesky: {error}") from None
    return np.swapaxes(lower, -1, -2) if upper else lower


@host(1, cholesky_inverse_rule)
def cholesky_inverse(a: Any, upper: bool = False) -> Any:
    """The inverse of the matrix whose triangular factor is given."""
    lower = np.swapaxes(np.triu(a), -1, -2) if upper else np.tril(a)
    back = np.linalg.inv(lower)
    return np.swapaxes(back, -1, -2) @ back


@host(1, det_rule)
def det(a: Any) -> Any:
    """The determinant."""
    return np.linalg.det(a)


@host(1, inverse_rule)
def inv(a: Any) -> Any:
    """The inverse."""
    return np.linalg.inv(a)


def eig(a: Any) -> Any:
    """Eigenvalues and eigenvectors of a square matrix, complex where it needs them.

    ValueError where a traced step needs them: it has no complex numbers.
    """
    a = layout.known(a)
    if is_traced(a):
        return _real_eig(a)
    dtype = float_type(a)
    values, vectors = np.linalg.eig(a.astype("float64" if dtype == "float64" else "float32"))
    if np.iscomplexobj(values):
        dtype = "complex128" if dtype == "float64" else "complex64"
    return values.astype(dtype), vectors.astype(dtype)


@host(1, name="eig")
def _real_eig(a: Any) -> Any:
    values, vectors = np.linalg.eig(a)
    if np.iscomplexobj(values):
        raise ValueError(
            "eig: the matrix has complex eigenvalues, and a traced step has no complex numbers; "
            "outside of a step they are there"
        )
    return values, vectors


@host(1, eigh_rule)
def eigh(a: Any) -> Any:
    """Eigenvalues, in order, and eigenvectors of a symmetric matrix."""
    values, vectors = np.linalg.eigh(a)
    return values, vectors


@host(1, lu_rule, dtype=lambda a: [float_type(a), "int32"])
def lu_factor(a: Any) -> Any:
    """The two triangles of a matrix in one, and the rows that were exchanged."""
    if a.ndim == 2:
        return scipy.linalg.lu_factor(a)
    size, rank = a.shape[-2:], min(a.shape[-2:])
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
    if not is_traced(x):
        given = axis if axis is None or isinstance(axis, int) else tuple(axis)
        return _norm(x, ord, given, keepdims)
    size = elementwise.absolute(x)
    if ord in (None, "fro") or (ord == 2 and len(axes) == 1):
        return elementwise.sqrt(reduce.sum(elementwise.square(x), axes, keepdims))
    if len(axes) == 1:
        return _vector_norm(size, ord, axes, keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        place = axes[0] if abs(ord) == 1 else axes[1]
        sums = reduce.sum(size, place, True)
        found = (reduce.max if ord > 0 else reduce.min)(sums, axes, True)
        return found if keepdims else layout.squeeze(found, axes)
    if ord not in ("nuc", 2, -2):
        raise ValueError(f"norm: ord must be None, 'fro', 'nuc', 1, 2 or inf, got {ord!r}")
    sizes = svd(layout.moveaxis(x, axes, (-2, -1)), compute_uv=False)
    fold = {"nuc": reduce.sum, 2: reduce.max, -2: reduce.min}[ord]
    found = fold(sizes, -1)
    return layout.expand_dims(found, axes) if keepdims else found


def _vector_norm(size: Any, ord: Any, axes: Any, keepdims: bool) -> Any:
    if ord in (np.inf, -np.inf):
        return (reduce.max if ord > 0 else reduce.min)(size, axes, keepdims)
    if ord == 0:
        there = elementwise.cast(elementwise.not_equal(size, 0), str(size.dtype))
        return reduce.sum(there, axes, keepdims)
    powers = reduce.sum(elementwise.power(size, float(ord)), axes, keepdims)
    return elementwise.power(powers, 1.0 / ord)


@host(1, name="norm")
def _norm(x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
    return np.linalg.norm(x, ord, axis, keepdims)


@host(1, qr_rule)
def qr(x: Any, mode: Any = "reduced") -> Any:
    """An orthogonal factor and a triangular one."""
    if mode not in ("reduced", "complete"):
        raise ValueError(
            "`mode` argument value not supported. Expected one of {'reduced', 'complete'}. "
            f"Received: mode={mode}"
        )
    first, second = np.linalg.qr(x, mode)
    return first, second


@host(2, solve_rule)
def solve(a: Any, b: Any) -> Any:
    """What times `a` gives `b`."""
    column = b.ndim == a.ndim - 1
    found = np.linalg.solve(a, b[..., None] if column else b)
    return found[..., 0] if column else found


@host(2, triangular_rule)
def solve_triangular(a: Any, b: Any, lower: bool = False) -> Any:
    """What times a triangle gives `b`."""
    column = b.ndim == a.ndim - 1
    triangle = np.tril(a) if lower else np.triu(a)
    found = np.linalg.solve(triangle, b[..., None] if column else b)
    return found[..., 0] if column else found


def svd(x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular values, and the vectors on both sides."""
    return _svd(x, full_matrices, compute_uv)


@host(1, svd_rule, name="svd")
def _svd(x: Any, full_matrices: Any, compute_uv: Any) -> Any:
    found = np.linalg.svd(x, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


@host(2, lstsq_rule)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """What times `a` comes nearest to `b`."""
    return np.linalg.lstsq(a, b, rcond)[0]


@host(1, pinv_rule)
def pinv(x: Any, rcond: Any = None) -> Any:
    """The pseudoinverse."""
    limit = default_rcond(x.shape, x.dtype.name) if rcond is None else rcond
    return np.linalg.pinv(x, limit)


@host(1)
def matrix_rank(x: Any, tol: Any = None) -> Any:
    """How many singular values are above a tolerance."""
    return np.linalg.matrix_rank(x, tol)


def slogdet(x: Any) -> Any:
    """The sign and the logarithm of the size of a determinant."""
    x = layout.known(x)
    if not is_traced(x):
        return _slogdet(x)
    spec = (tuple(x.shape[:-2]), float_type(x))  # Keras' rule forgets stacks of matrices
    return node_call("slogdet", _signs_and_sizes, (x,), (), {}, slogdet_rule, [spec] * 2, (x, x))


def _signs_and_sizes(x: Any) -> Any:
    return tuple(np.linalg.slogdet(x))


_slogdet = host(1, name="slogdet")(_signs_and_sizes)


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
