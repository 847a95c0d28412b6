"""Numbers as nodes, real and complex ones alike: what the rules are made of.

A rule is written once. Of real numbers it makes the nodes of real numbers alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kbench import backend as K
from kbench.api.operations import Tensor, results
from kbench.keras3.complex_numbers.parts import joined, parts_of
from kbench.keras3.complex_numbers.whole import whole
from kbench.keras3.tensor import PARTS, Traced

COMPLEX = {half: dtype for dtype, half in PARTS.items()}
"""The dtype of complex numbers by that of their parts."""
PHASE_TOLERANCE = {"float32": 1e-3, "float64": 1e-7}
"""Up to this part of a gradient it may depend on the phase of a vector: rounding of a few sums."""
SLOPE_SHARE = 0.01
"""Where gradients cancel along vectors, what is left is rounding: this part of them counts."""


class Numbers:
    """Numbers of one shape; leading axes are a stack of matrices.

    `*` multiplies elements and `@` matrices. A gradient of complex numbers is that of the real part
    plus i times that of the imaginary part.
    """

    def __init__(
        self, real: Tensor, imaginary: Tensor | None = None, given: Traced | None = None
    ) -> None:
        self.real, self.imaginary = real, imaginary
        self._given = given

    @classmethod
    def of(cls, x: Any) -> Numbers:
        """Those of a node, or of a symbol."""
        if not isinstance(x, Traced):
            return cls(x)
        half = PARTS.get(x.dtype)
        return cls(x.held) if half is None else cls(*parts_of(x, half), x)

    def symbol(self) -> Traced:
        """The same as a symbol."""
        if self._given is None:
            if self.imaginary is None:
                self._given = Traced(self.real)
            else:
                self._given = joined(self.real, self.imaginary, self.dtype)
        return self._given

    @property
    def dtype(self) -> str:
        half = str(self.real.spec.dtype)
        return half if self.imaginary is None else COMPLEX[half]

    @property
    def ndim(self) -> int:
        return self.real.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, all of which are known while Keras 3 traces."""
        return tuple(size for size in self.real.spec.shape if size is not None)

    def each(self, build: Callable[[Tensor], Tensor]) -> Numbers:
        """A function that treats both parts alike."""
        return Numbers(build(self.real), None if self.imaginary is None else build(self.imaginary))

    @property
    def conjugate(self) -> Numbers:
        return self if self.imaginary is None else Numbers(self.real, -self.imaginary)

    @property
    def H(self) -> Numbers:  # noqa: N802  # as NumPy calls it
        """The conjugate transpose."""
        order = [*range(self.ndim - 2), self.ndim - 1, self.ndim - 2]
        return self.conjugate.each(lambda x: K.permute_dimensions(x, order))

    def __getitem__(self, key: Any) -> Numbers:
        return self.each(lambda x: x[key])

    def __neg__(self) -> Numbers:
        return self.each(lambda x: -x)

    def __add__(self, other: Numbers) -> Numbers:
        imaginary = self.imaginary if other.imaginary is None else other.imaginary
        if self.imaginary is not None and other.imaginary is not None:
            imaginary = self.imaginary + other.imaginary
        return Numbers(self.real + other.real, imaginary)

    def __sub__(self, other: Numbers) -> Numbers:
        return self + -other

    def __mul__(self, other: Numbers | np.ndarray | float) -> Numbers:
        """Of elements; an array is one of real numbers that are known."""
        if isinstance(other, Numbers):
            return _product(lambda x, y: x * y, self, other)
        if isinstance(other, float):
            return self.each(lambda x: x * other)
        dtype = self.real.spec.dtype
        mask = K.constant(other.astype(dtype), dtype=dtype)
        return self.each(lambda x: x * mask)

    def __matmul__(self, other: Numbers) -> Numbers:
        return _product(_times, self, other)


def _times(x: Tensor, y: Tensor) -> Tensor:
    return x @ y if x.ndim > 2 or y.ndim > 2 else K.dot(x, y)


def _product(build: Callable[[Tensor, Tensor], Tensor], x: Numbers, y: Numbers) -> Numbers:
    """What is linear in both."""
    real = build(x.real, y.real)
    if x.imaginary is None:
        return Numbers(real, None if y.imaginary is None else build(x.real, y.imaginary))
    if y.imaginary is None:
        return Numbers(real, build(x.imaginary, y.real))
    turned = build(x.real, y.imaginary) + build(x.imaginary, y.real)
    return Numbers(real - build(x.imaginary, y.imaginary), turned)


Slopes = Mapping[int, Numbers]
"""The gradients that arrived, by the number of the result."""


def rule_on_numbers(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule as one on nodes, and on symbols as complex numbers need it.

    It is not asked where there are no elements, of operands or of results.
    """

    @functools.wraps(rule)
    def passed(g: Any, y: Any, *given: Any, **options: Any) -> tuple[Any, ...]:
        if isinstance(g, Mapping):
            slopes: Any = {i: Numbers.of(one) for i, one in g.items()}
            found: Any = [Numbers.of(x) for x in (results(y) if isinstance(y, Tensor) else y)]
        else:
            slopes, found = Numbers.of(g), Numbers.of(y)
        on_symbols = isinstance(given[0], Traced)
        operands = [Numbers.of(x) if isinstance(x, (Tensor, Traced)) else x for x in given]
        if _all_empty(found) or _all_empty(operands):
            entries = [_no_slope_of(x) for x in operands]
        else:
            entries = rule(slopes, found, *operands, **options)
        return tuple(
            entry if entry is None else entry.symbol() if on_symbols else entry.real
            for entry in entries
        )

    return passed


def _all_empty(values: Any) -> bool:
    """Whether numbers, or all of several, have no elements."""
    each = values if isinstance(values, list) else [values]
    return all(0 in x.shape for x in each if isinstance(x, Numbers))


def _no_slope_of(x: Any) -> Numbers | None:
    """Zeros of the shape of an operand: what no element leads to, or what has none."""
    return x.each(K.zeros_like) if isinstance(x, Numbers) else None


def by_numpy(
    name: str,
    form: Callable[..., Any],
    x: Numbers,
    specs: list[tuple[tuple[int, ...], str]],
    rule: Callable[..., Any] | None,
) -> list[Numbers]:
    """What NumPy finds of matrices, each of a shape and dtype; the rule is one on symbols.

    NumPy's linear algebra takes no float16, which is float32 for it.
    """

    def run(array: np.ndarray) -> Any:
        return form(array.astype(np.float32) if array.dtype == np.float16 else array)

    found = whole(name, run, [x.symbol()], specs, rule, several=len(specs) > 1)
    return [Numbers.of(one) for one in (found if len(specs) > 1 else [found])]


def no_slope(_g: Any, _y: Any, *operands: Any) -> list[None]:
    """The rule of what passes no gradient on."""
    return [None] * len(operands)


# ------------------------------------------------------------------ pieces of rules


def total(parts: list[Numbers]) -> Numbers:
    """The sum of all."""
    return functools.reduce(lambda x, y: x + y, parts)


def joined_along(axis: int, *parts: Numbers) -> Numbers:
    """Matrices beside each other, or below; of one dtype."""
    real = K.concatenate([one.real for one in parts], axis)
    others = [one.imaginary for one in parts if one.imaginary is not None]
    return Numbers(real, K.concatenate(others, axis) if others else None)


def columns_by(x: Numbers, scale: Numbers) -> Numbers:
    """Each column of a matrix times its own number."""
    return x * scale.each(lambda one: K.expand_dims(one, -2))


def rows_by(x: Numbers, scale: Numbers) -> Numbers:
    """Each row of a matrix times its own number."""
    return x * scale.each(lambda one: K.expand_dims(one, -1))


def _ones(x: Numbers) -> np.ndarray:
    return np.ones(x.shape[-2:])


def lower_part(x: Numbers, below: int = 0) -> Numbers:
    """The lower triangle, so many diagonals below the main one; zeros above."""
    return x * np.tril(_ones(x), -below)


def upper_part(x: Numbers) -> Numbers:
    """The upper triangle; zeros below."""
    return x * np.triu(_ones(x))


def hermitian(x: Numbers) -> Numbers:
    """The nearest matrix that is its own conjugate transpose."""
    return (x + x.H) * 0.5


def identity_like(x: Numbers) -> Numbers:
    """The identity with as many columns as `x`."""
    return Numbers(K.constant(np.eye(x.shape[-1]), dtype=x.real.spec.dtype))


def diagonal_of(values: Numbers) -> Numbers:
    """The matrix with these values on its diagonal."""
    return rows_by(identity_like(values), values)


def on_diagonal(x: Tensor) -> Tensor:
    """The values on the diagonal of square matrices."""
    return K.sum(x * K.constant(np.eye(x.spec.shape[-1] or 0), dtype=x.spec.dtype), axis=-1)


def one_over(x: Numbers) -> Numbers:
    """Of each element."""
    if x.imaginary is None:
        return Numbers(1.0 / x.real)
    return x.conjugate * Numbers(1.0 / (x.real * x.real + x.imaginary * x.imaginary))


def gaps_of(values: Numbers) -> Numbers:
    """At row i and column j, value j less value i."""
    return values.each(lambda x: K.expand_dims(x, -2) - K.expand_dims(x, -1))


def one_over_gaps(gaps: Numbers) -> Numbers:
    """One over each gap, 0 on the diagonal; infinite where two values are equal."""
    eye = identity_like(gaps)
    return one_over(gaps + eye) - eye


def nan_of_phases(phases: Tensor, own: list[Numbers], slopes: list[Numbers]) -> Numbers:
    """0 for each matrix, of shape (..., 1, 1); NaN where a gradient changes with a phase.

    Vectors of complex matrices are determined up to their phases, so that there is no derivative
    then. `phases` is the change with each phase, `slopes` are the gradients to vectors, and `own`
    what they are along the vectors.
    """
    size = K.zeros_like(phases[..., :1])
    for one in [*own, *[slope * SLOPE_SHARE for slope in slopes]]:
        for part in (one.real, one.imaginary):
            if part is not None:
                size = K.maximum(size, K.expand_dims(K.max(K.abs(part), axis=(-2, -1)), -1))
    far = K.max(K.abs(phases), axis=-1, keepdims=True)
    share = PHASE_TOLERANCE[str(phases.spec.dtype)]
    nan = K.zeros_like(size) + np.nan
    found = K.switch(K.greater(far, share * size), nan, K.zeros_like(size))
    return Numbers(K.expand_dims(found, -1))


# ------------------------------------------------------------------ inverses and ranks


def inverses(a: np.ndarray) -> np.ndarray:
    """The inverses of a stack; NaN for a matrix that has none."""
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        flat = a.reshape(-1, *a.shape[-2:])
        if len(flat) == 1:
            return np.full_like(a, np.nan)
        return np.concatenate([inverses(one[None]) for one in flat]).reshape(a.shape)


@rule_on_numbers
def inverse_rule(g: Numbers, y: Numbers, _a: Numbers) -> list[Numbers]:
    """Through an inverse (Giles 2008, 2.2.3)."""
    turned = y.H
    return [-(turned @ g @ turned)]


def inverse(x: Numbers) -> Numbers:
    """The inverse; NaN where there is none."""
    return by_numpy("inv", inverses, x, [(x.shape, x.dtype)], inverse_rule)[0]


def lacks_rank(a: Numbers, rcond: float) -> Numbers:
    """For each matrix 1 where a singular value counts as 0, else 0; of shape (..., 1, 1)."""

    def told(array: np.ndarray) -> np.ndarray:
        sizes = np.linalg.svd(array, compute_uv=False)
        return ~(sizes[..., -1:] > rcond * sizes[..., :1])[..., None]

    specs = [((*a.shape[:-2], 1, 1), str(a.real.spec.dtype))]
    return by_numpy("lacks_rank", told, a, specs, no_slope)[0]
