"""Products and sums of products."""

from __future__ import annotations

from typing import Any

import numpy as np

from kbench import backend as K
from kbench.api.operations import ShapeError
from kbench.keras3.calls.host import common_dtype, host, operand, result_dtypes
from kbench.keras3.complex_numbers.parts import by_parts, products
from kbench.keras3.complex_numbers.refusal import is_complex, spec_of
from kbench.keras3.numpy import curves, elementwise, layout, reduce
from kbench.keras3.numpy.elementwise import array_in
from kbench.keras3.numpy.sparse_product import sparse_product
from kbench.keras3.tensor import Traced, is_traced, place_of


def _ruled(name: str, *operands: Any) -> str:
    return result_dtypes(name, operands, (), {})[0]


def matmul(x1: Any, x2: Any) -> Any:
    """Matrix products, with broadcasting of what stands before the last two axes."""
    found = sparse_product("matmul", x1, x2)
    if found is not None:
        return found
    x1, x2 = layout.known(x1), layout.known(x2)
    dtype = _ruled("matmul", x1, x2)
    if not is_traced(x1) and not is_traced(x2):
        first, second = array_in(x1, dtype), array_in(x2, dtype)
        return np.asarray(np.matmul(first, second)).astype(dtype)
    return products(_product, [x1, x2], dtype)


def _product(x: Any, y: Any) -> Any:
    """`x @ y` of nodes, where vectors are a row on the left and a column on the right."""
    row, column = x.ndim == 1, y.ndim == 1
    x = K.expand_dims(x, 0) if row else x
    y = K.expand_dims(y, 1) if column else y
    found = x @ y if x.ndim > 2 or y.ndim > 2 else K.dot(x, y)
    found = K.squeeze(found, found.ndim - 1) if column else found
    return K.squeeze(found, found.ndim - (1 if column else 2)) if row else found


def dot(x1: Any, x2: Any) -> Any:
    """The sum of products over the last axis of the first, the second-to-last of the second."""
    found = sparse_product("dot", x1, x2)
    if found is not None:
        return found
    x1, x2 = layout.known(x1), layout.known(x2)
    if not x1.shape or not x2.shape:
        return elementwise.multiply(x1, x2)
    axis = -1 if len(x2.shape) == 1 else -2
    return _summed_products("dot", x1, x2, ([-1], [axis]))


def inner(x1: Any, x2: Any) -> Any:
    """The sum of products over the last axes."""
    x1, x2 = layout.known(x1), layout.known(x2)
    if not x1.shape or not x2.shape:
        return elementwise.multiply(x1, x2)
    return _summed_products("inner", x1, x2, ([-1], [-1]))


def vdot(x1: Any, x2: Any) -> Any:
    """The sum of the products of all elements, of which the first are conjugated."""
    return tensordot(layout.ravel(curves.conjugate(x1)), layout.ravel(x2), 1)


def outer(x1: Any, x2: Any) -> Any:
    """All products of an element of the first and one of the second."""
    first, second = layout.ravel(x1), layout.ravel(x2)
    return elementwise.multiply(layout.expand_dims(first, 1), layout.expand_dims(second, 0))


def tensordot(x1: Any, x2: Any, axes: Any = 2) -> Any:
    """Sums of products over pairs of axes."""
    return _summed_products("tensordot", layout.known(x1), layout.known(x2), axes)


def _summed_products(name: str, x1: Any, x2: Any, axes: Any) -> Any:
    """What `tensordot` gives, for the function of that name."""
    dtype = common_dtype(x1, x2)
    rank1, rank2 = len(x1.shape), len(x2.shape)
    if isinstance(axes, int):
        first, second = list(range(rank1 - axes, rank1)), list(range(axes))
    else:
        first, second = ([one] if isinstance(one, int) else list(one) for one in axes)
    first, second = [place_of(i, rank1) for i in first], [place_of(i, rank2) for i in second]
    pairs = [(x1.shape[i], x2.shape[j]) for i, j in zip(first, second, strict=True)]
    if any(one != other for one, other in pairs):
        raise ShapeError(
            f"x1 is {spec_of(x1)} and x2 is {spec_of(x2)}, whose axes {first} and {second} differ "
            "in size",
            function=name,
        )
    if not is_traced(x1) and not is_traced(x2):
        found = np.tensordot(array_in(x1, dtype), array_in(x2, dtype), (first, second))
        return np.asarray(found).astype(dtype)
    free1 = [i for i in range(rank1) if i not in first]
    free2 = [i for i in range(rank2) if i not in second]
    count = int(np.prod([x1.shape[i] for i in first], dtype=int))
    rows = [x1.shape[i] for i in free1]
    columns = [x2.shape[i] for i in free2]

    def build(left: Any, right: Any) -> Any:
        left = K.permute_dimensions(left, [*free1, *first]) if rank1 else left
        right = K.permute_dimensions(right, [*second, *free2]) if rank2 else right
        left = K.reshape(left, (int(np.prod(rows, dtype=int)), count))
        right = K.reshape(right, (count, int(np.prod(columns, dtype=int))))
        return K.reshape(K.dot(left, right), (*rows, *columns))

    return products(build, [x1, x2], dtype)


# ------------------------------------------------------------------ einsum


def einsum(subscripts: str, *operands: Any, **kwargs: Any) -> Any:
    """Sums of products by labels of axes; several operands two at a time, the cheapest first."""
    given = [layout.known(x) for x in operands]
    dtype = _einsum_dtype(subscripts, given)
    terms, result = _labels(subscripts, [len(x.shape) for x in given])
    _check_sizes(terms, given)
    if not any(map(is_traced, given)):
        arrays = [array_in(x, dtype) for x in given]
        text = f"{','.join(terms)}->{result}"
        return np.asarray(np.einsum(text, *arrays, optimize=len(arrays) > 1)).astype(dtype)
    return products(lambda *nodes: _contracted(terms, nodes, result), given, dtype)


def _check_sizes(terms: list[str], given: list[Any]) -> None:
    """ShapeError where a label stands for axes of two sizes; one of 1 is stretched."""
    sizes: dict[str, int] = {}
    for term, x in zip(terms, given, strict=True):
        for label, size in zip(term, x.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
            elif size not in (1, sizes[label]):
                pairs = zip(terms, given, strict=True)
                told = [f"{labels} is {spec_of(one)}" for labels, one in pairs]
                raise ShapeError(
                    f"{', '.join(told)}, so that {label} has {sizes[label]} and {size} entries",
                    function="einsum",
                )


def _contracted(terms: list[str], nodes: Any, result: str) -> Any:
    """The sum of products of nodes by labels."""
    parts = [_own(term, node) for term, node in zip(terms, nodes, strict=True)]
    shapes = [np.broadcast_to(np.float32(0), tuple(node.spec.shape)) for _, node in parts]
    text = f"{','.join(term for term, _ in parts)}->{result}"
    path = np.einsum_path(text, *shapes, optimize="greedy")[0][1:] if len(parts) > 1 else [(0,)]
    for step in path:
        taken = [parts.pop(i) for i in sorted(step, reverse=True)]
        while len(taken) > 1:
            needed = set(result).union(*[set(term) for term, _ in (*parts, *taken[2:])])
            taken[:2] = [_pair(taken[0], taken[1], needed)]
        parts.append(taken[0])
    term, node = parts[0]
    return _arranged(_summed(term, node, set(result)), result)


def _einsum_dtype(subscripts: str, given: list[Any]) -> str:
    kinds = {common_dtype(x) for x in given}
    if kinds == {"int8"}:
        return "int32"
    return common_dtype(*given)


def _labels(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """The labels of every operand and of the result, `...` written out."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    spare = [chr(code) for code in range(ord("A"), ord("Z") + 1) if chr(code) not in subscripts]
    spare += [chr(code) for code in range(ord("a"), ord("z") + 1) if chr(code) not in subscripts]
    more = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    if any(n < 0 or ("..." not in term and n) for term, n in zip(terms, more, strict=True)):
        raise ValueError(f"einsum: {subscripts!r} does not fit operands of ranks {ranks}")
    most = max([n for n, term in zip(more, terms, strict=True) if "..." in term], default=0)
    names = "".join(spare[:most])
    full = [term.replace("...", names[most - n :]) for term, n in zip(terms, more, strict=True)]
    if arrow:
        return full, right.replace("...", names)
    once = sorted(c for c in set("".join(terms)) - set(".") if "".join(terms).count(c) == 1)
    return full, names + "".join(once)


def _own(term: str, node: Any) -> tuple[str, Any]:
    """A term each of whose labels is there once: of repeated ones the diagonal."""
    while len(set(term)) < len(term):
        label = next(c for c in term if term.count(c) > 1)
        first = term.index(label)
        second = term.index(label, first + 1)
        node = layout.diagonal(Traced(node), 0, first, second).node
        term = "".join(c for i, c in enumerate(term) if i not in (first, second)) + label
    return term, node


def _summed(term: str, node: Any, kept: set[str]) -> tuple[str, Any]:
    """The term without the labels that nobody else has."""
    axes = [i for i, c in enumerate(term) if c not in kept]
    if axes:
        node = K.sum(node, axis=axes)
    return "".join(c for c in term if c in kept), node


def _arranged(part: tuple[str, Any], wanted: str) -> Any:
    term, node = part
    if term == wanted:
        return node
    return K.permute_dimensions(node, [term.index(c) for c in wanted])


def _pair(second: tuple[str, Any], first: tuple[str, Any], needed: set[str]) -> tuple[str, Any]:
    """Two terms as one matrix product, of those labels that are needed."""
    (term1, x), (term2, y) = first, second
    term1, x = _summed(term1, x, needed | set(term2))
    term2, y = _summed(term2, y, needed | set(term1))
    batch = [c for c in term1 if c in term2 and c in needed]
    shared = [c for c in term1 if c in term2 and c not in needed]
    free1 = [c for c in term1 if c not in term2]
    free2 = [c for c in term2 if c not in term1]
    sizes = dict(zip(term1, x.spec.shape, strict=True))
    for label, size in zip(term2, y.spec.shape, strict=True):
        if sizes.get(label, 1) == 1:
            sizes[label] = size
    x, y = _stretched(term1, x, sizes), _stretched(term2, y, sizes)
    x = _arranged((term1, x), "".join([*batch, *free1, *shared]))
    y = _arranged((term2, y), "".join([*batch, *shared, *free2]))

    def total(labels: list[str]) -> int:
        return int(np.prod([sizes[c] for c in labels], dtype=int))

    lead = [sizes[c] for c in batch]  # not one axis of them all: that would copy what is turned
    left = _reshaped(x, (*lead, total(free1), total(shared)))
    right = _reshaped(y, (*lead, total(shared), total(free2)))
    found = left @ right if batch else K.dot(left, right)
    labels = [*batch, *free1, *free2]
    return "".join(labels), _reshaped(found, tuple(sizes[c] for c in labels))


def _reshaped(node: Any, shape: tuple[int, ...]) -> Any:
    return node if tuple(node.spec.shape) == shape else K.reshape(node, shape)


def _stretched(term: str, node: Any, sizes: dict[str, int]) -> Any:
    shape = tuple(sizes[c] for c in term)
    if tuple(node.spec.shape) == shape:
        return node
    return layout.broadcast_to(Traced(node), shape).node


# ------------------------------------------------------------------ others


def cross(
    x1: Any, x2: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    """The vector product, of vectors of two or three entries."""
    if axis is not None:
        axisa = axisb = axisc = axis
    first = layout.moveaxis(x1, axisa, -1)
    second = layout.moveaxis(x2, axisb, -1)
    dtype = common_dtype(first, second)

    def entries(x: Any) -> list[Any]:
        x = elementwise.cast(x, dtype)
        return [x[..., i] for i in range(x.shape[-1])]

    a, b = entries(first), entries(second)
    times, less = elementwise.multiply, elementwise.subtract
    last = less(times(a[0], b[1]), times(a[1], b[0]))
    if len(a) == 2 and len(b) == 2:
        return last
    a, b = [*a, None][:3], [*b, None][:3]

    def part(i: int, j: int) -> Any:
        one = None if a[i] is None or b[j] is None else times(a[i], b[j])
        two = None if a[j] is None or b[i] is None else times(a[j], b[i])
        if one is None:
            return elementwise.negative(two)
        return one if two is None else less(one, two)

    return layout.moveaxis(layout.stack([part(1, 2), part(2, 0), last], -1), -1, axisc)


def kron(x1: Any, x2: Any) -> Any:
    """Every element of the first times the whole second, laid out as blocks."""
    x1, x2 = layout.known(x1), layout.known(x2)
    rank = max(len(x1.shape), len(x2.shape))
    shape1 = (1,) * (rank - len(x1.shape)) + tuple(x1.shape)
    shape2 = (1,) * (rank - len(x2.shape)) + tuple(x2.shape)
    first = layout.reshape(x1, tuple(n for size in shape1 for n in (size, 1)))
    second = layout.reshape(x2, tuple(n for size in shape2 for n in (1, size)))
    sizes = tuple(a * b for a, b in zip(shape1, shape2, strict=True))
    return layout.reshape(elementwise.multiply(first, second), sizes)


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The sum of a diagonal."""
    x = layout.known(x)
    return reduce.sum(layout.diagonal(x, offset, axis1, axis2), -1)


def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    """The differences of neighbours along an axis, `n` times."""
    a = layout.known(a)
    lead = (slice(None),) * place_of(axis, len(a.shape))
    differ = elementwise.not_equal if common_dtype(a) == "bool" else elementwise.subtract
    for _ in range(n):
        a = differ(a[(*lead, slice(1, None))], a[(*lead, slice(None, -1))])
    return a


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """The area below a line through points."""
    y = layout.known(y)
    dtype = elementwise.float_type(*((y,) if x is None else (y, operand(x))))
    y = layout.moveaxis(elementwise.cast(y, dtype), axis, -1)
    middle = elementwise.add(y[..., 1:], y[..., :-1])
    if x is None:
        width: Any = dx
    else:
        points = elementwise.cast(x, dtype)
        width = diff(points if len(points.shape) == 1 else layout.moveaxis(points, axis, -1))
    area = elementwise.multiply(elementwise.multiply(middle, width), 0.5)
    return elementwise.cast(reduce.sum(area, -1), dtype)


def corrcoef(x: Any) -> Any:
    """How much rows go together: 1 for the same, 0 for independent ones."""
    x = layout.known(x)
    dtype = elementwise.float_type(x)
    x = elementwise.cast(x, dtype)
    x = layout.expand_dims(x, 0) if len(x.shape) < 2 else x
    away = elementwise.subtract(x, reduce.mean(x, -1, True))
    together = matmul(away, curves.conjugate(layout.swapaxes(away, -1, -2)))
    own = elementwise.sqrt(curves.real(layout.diagonal(together)))
    found = elementwise.divide(together, outer(own, own))
    found = _within_one(found)
    return layout.reshape(found, ()) if found.shape == (1, 1) else found


def _within_one(x: Any) -> Any:
    """Numbers, or both parts of complex ones, brought between -1 and 1."""
    if not is_complex(x):
        return elementwise.clip(x, -1.0, 1.0)
    if not is_traced(x):
        return (np.clip(x.real, -1, 1) + 1j * np.clip(x.imag, -1, 1)).astype(x.dtype)
    return by_parts(lambda node: K.clip(node, -1.0, 1.0), [x], x.dtype)


def correlate(x1: Any, x2: Any, mode: str = "valid") -> Any:
    """Sums of products of two vectors that are moved along each other."""
    x1, x2 = layout.known(x1), layout.known(x2)
    dtype = elementwise.float_type(x1, x2)
    if "int64" in _kinds(x1, x2) and "complex" not in dtype:
        dtype = "float32"
    x1, x2 = elementwise.cast(x1, dtype), elementwise.cast(x2, dtype)
    if 0 in (*x1.shape, *x2.shape):
        told = f"x1 is {spec_of(x1)}, x2 is {spec_of(x2)}; both need elements"
        raise ShapeError(told, function="correlate")
    if is_traced(x1) or is_traced(x2):
        return _traced_correlate(x1, x2, mode)
    return _correlate(x1, x2, mode)


def _kinds(*operands: Any) -> set[str]:
    return {str(x.dtype) for x in operands}


@host(2, dtype="same", name="correlate", of_complex=None)
def _correlate(x1: Any, x2: Any, mode: Any = "valid") -> Any:
    return np.correlate(x1, x2, mode)


def _traced_correlate(x1: Any, x2: Any, mode: Any) -> Any:
    """The same as a convolution over the first vector, with zeros at its ends."""
    size, width = x1.shape[0], x2.shape[0]
    # Element 1 + i of the probe stands where the last entry of x2 meets entry 1 + i of x1.
    probe = np.correlate(np.arange(1, size + 1), np.eye(1, width, dtype=int)[0], mode)
    place = int(np.flatnonzero(probe)[0])
    left = place - int(probe[place]) + 1
    right = len(probe) + width - 1 - size - left
    dtype = str(x1.dtype)

    def build(line: Any, window: Any) -> Any:
        found = K.conv1d(K.reshape(line, (1, -1, 1)), K.reshape(window, (width, 1, 1)))
        return K.reshape(found, (-1,))

    return products(build, [layout.pad(x1, ((left, right),)), curves.conjugate(x2)], dtype)


setattr(Traced, "__matmul__", lambda x, y: matmul(x, y))  # noqa: B010
setattr(Traced, "__rmatmul__", lambda x, y: matmul(y, x))  # noqa: B010


def slogdet(x: Any) -> Any:
    """The sign and the logarithm of the size of a determinant."""
    from kbench.keras3 import linalg

    return linalg.slogdet(x)
