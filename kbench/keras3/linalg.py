"""Linear algebra by LAPACK, with derivatives where the decompositions have simple ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from kbench import backend as K
from kbench.api.operations import Spec, numpy_call
from kbench.api.operations import where as choose
from kbench.keras3.host import host
from kbench.keras3.numpy import elementwise, layout, reduce
from kbench.keras3.numpy.elementwise import float_type
from kbench.keras3.tensor import Traced, is_traced, operation


def _flipped(x: Any) -> Any:
    order = list(range(x.ndim))
    order[-1], order[-2] = order[-2], order[-1]
    return K.permute_dimensions(x, order)


def _times(x: Any, y: Any) -> Any:
    return x @ y if x.ndim > 2 or y.ndim > 2 else K.dot(x, y)


def _inverse(x: Any) -> Any:
    return numpy_call(
        lambda a: np.linalg.inv(a).astype(a.dtype), [x], Spec(x.spec.shape, x.spec.dtype)
    )


def _triangle(x: Any, half: bool) -> Any:
    """The lower triangle, with half the diagonal."""
    mask = np.tril(np.ones(x.spec.shape[-2:], x.spec.dtype))
    if half:
        mask = mask - 0.5 * np.eye(len(mask), dtype=mask.dtype)
    return x * K.constant(mask, dtype=x.spec.dtype)


def _cholesky_rule(g: Any, y: Any, a: Any, upper: bool = False) -> Any:
    lower, slope = (_flipped(y), _flipped(g)) if upper else (y, g)
    back = _inverse(lower)
    inner = _triangle(_times(_flipped(lower), slope), True)
    whole = _times(_times(_flipped(back), inner), back)
    return ((whole + _flipped(whole)) * 0.5,)


@host(1, _cholesky_rule)
def cholesky(a: Any, upper: bool = False) -> Any:
    """The triangular factor of a positive definite matrix; NaN where there is none."""
    try:
        lower = np.linalg.cholesky(a)
    except np.linalg.LinAlgError as error:
        raise ValueError(f"cholesky: {error}") from None
    return np.swapaxes(lower, -1, -2) if upper else lower


@host(1)
def cholesky_inverse(a: Any, upper: bool = False) -> Any:
    """The inverse of the matrix whose triangular factor is given."""
    lower = np.swapaxes(np.triu(a), -1, -2) if upper else np.tril(a)
    back = np.linalg.inv(lower)
    return np.swapaxes(back, -1, -2) @ back


def _det_rule(g: Any, y: Any, a: Any) -> Any:
    scale = g * y
    for _ in range(2):
        scale = K.expand_dims(scale, -1)
    return (scale * _flipped(_inverse(a)),)


@host(1, _det_rule)
def det(a: Any) -> Any:
    """The determinant."""
    return np.linalg.det(a)


def _inv_rule(g: Any, y: Any, a: Any) -> Any:
    turned = _flipped(y)
    return (-_times(_times(turned, g), turned),)


@host(1, _inv_rule)
def inv(a: Any) -> Any:
    """The inverse."""
    return np.linalg.inv(a)


@host(1)
def eig(a: Any) -> Any:
    """Eigenvalues and eigenvectors of a square matrix."""
    values, vectors = np.linalg.eig(a)
    return values, vectors


def _eigh_rule(g: Any, y: Any, a: Any) -> Any:
    """Through eigenvalues and eigenvectors of a symmetric matrix."""
    from kbench.api.operations import results

    values, vectors = results(y)
    turned = _flipped(vectors)
    inner = None
    if 1 in g:
        gaps = K.expand_dims(values, -2) - K.expand_dims(values, -1)
        near = K.less(K.abs(gaps), 1e-12)
        shares = choose(near, 0.0, 1.0 / choose(near, 1.0, gaps))
        inner = _times(turned, g[1]) * shares
    if 0 in g:
        eye = K.constant(np.eye(values.spec.shape[-1] or 0), dtype=values.spec.dtype)
        own = K.expand_dims(g[0], -1) * eye
        inner = own if inner is None else inner + own
    whole = _times(_times(vectors, inner), turned)
    return ((whole + _flipped(whole)) * 0.5,)


@host(1, _eigh_rule)
def eigh(a: Any) -> Any:
    """Eigenvalues, in order, and eigenvectors of a symmetric matrix."""
    values, vectors = np.linalg.eigh(a)
    return values, vectors


@host(1, dtype=lambda a: [float_type(a), "int32"])
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
    raise NotImplementedError(f"norm: ord={ord!r} is not available in a traced step on kbench")


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


@host(1)
def qr(x: Any, mode: Any = "reduced") -> Any:
    """An orthogonal factor and a triangular one."""
    if mode not in ("reduced", "complete"):
        raise ValueError(
            "`mode` argument value not supported. Expected one of {'reduced', 'complete'}. "
            f"Received: mode={mode}"
        )
    first, second = np.linalg.qr(x, mode)
    return first, second


def _solve_rule(g: Any, y: Any, a: Any, b: Any) -> Any:
    column = b.ndim == a.ndim - 1
    slope, found = (K.expand_dims(g, -1), K.expand_dims(y, -1)) if column else (g, y)
    to_b = _times(_flipped(_inverse(a)), slope)
    to_a = -_times(to_b, _flipped(found))
    return to_a, (K.squeeze(to_b, to_b.ndim - 1) if column else to_b)


@host(2, _solve_rule)
def solve(a: Any, b: Any) -> Any:
    """What times `a` gives `b`."""
    column = b.ndim == a.ndim - 1
    found = np.linalg.solve(a, b[..., None] if column else b)
    return found[..., 0] if column else found


def _triangular_rule(g: Any, y: Any, a: Any, b: Any, lower: bool = False) -> Any:
    mask = np.tri(a.spec.shape[-1])
    kept = K.constant(mask if lower else mask.T, dtype=a.spec.dtype)
    to_a, to_b = _solve_rule(g, y, a * kept, b)
    return to_a * kept, to_b


@host(2, _triangular_rule)
def solve_triangular(a: Any, b: Any, lower: bool = False) -> Any:
    """What times a triangle gives `b`."""
    column = b.ndim == a.ndim - 1
    triangle = np.tril(a) if lower else np.triu(a)
    found = np.linalg.solve(triangle, b[..., None] if column else b)
    return found[..., 0] if column else found


def svd(x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular values, and the vectors on both sides."""
    return _svd(x, full_matrices, compute_uv)


@host(1, name="svd")
def _svd(x: Any, full_matrices: Any, compute_uv: Any) -> Any:
    found = np.linalg.svd(x, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


@host(2)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """What times `a` comes nearest to `b`."""
    return np.linalg.lstsq(a, b, rcond)[0]


@host(1)
def pinv(x: Any, rcond: Any = None) -> Any:
    """The pseudoinverse."""
    return np.linalg.pinv(x) if rcond is None else np.linalg.pinv(x, rcond)


@host(1)
def matrix_rank(x: Any, tol: Any = None) -> Any:
    """How many singular values are above a tolerance."""
    return np.linalg.matrix_rank(x, tol)


@host(1)
def slogdet(x: Any) -> Any:
    """The sign and the logarithm of the size of a determinant."""
    sign, size = np.linalg.slogdet(x)
    return sign, size


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
