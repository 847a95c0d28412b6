"""One row of the op table: how to call a function, on what, and what NumPy says of it."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kbench import backend as K

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int32", "int64")
NUMBERS = (*FLOATS, *INTEGERS)
ANY = (*NUMBERS, "bool")

Shape = tuple[int, ...]
Domain = tuple[float, float]

UNARY: tuple[tuple[Shape, ...], ...] = (((4, 3),), ((),), ((0, 3),))
BINARY: tuple[tuple[Shape, ...], ...] = (
    ((4, 3), (4, 3)),
    ((2, 1, 3), (4, 1)),
    ((3,), ()),
    ((), ()),
    ((0, 3), (3,)),
)


@dataclass(frozen=True)
class Case:
    """A function of K with reference, shapes and what it promises.

    `shapes` holds one tuple of operand shapes for each call. `fixed` gives the dtype of operands
    that do not vary (indices, conditions). `result` is the rule of the result's dtype. `smooth`
    asks for the second derivative too; `gradient` says which operands have one.
    """

    name: str
    shapes: Sequence[tuple[Shape, ...]]
    numpy: Callable[..., Any]
    options: Sequence[dict[str, Any]] = ({},)
    domain: Domain | Sequence[Domain] = (-3.0, 3.0)
    dtypes: Sequence[str] = FLOATS
    result: str = "same"
    fixed: dict[int, str] = field(default_factory=dict)
    gradient: bool | tuple[bool, ...] = True
    smooth: bool = False
    wide: bool = True  # the reference may compute in float64
    scale: float = 1.0  # how much looser than usual the comparison is
    call: Callable[..., Any] | None = None

    def symbolic(self, *tensors: Any, **options: Any) -> list[Any]:
        """The results of the K function, as a list."""
        function = self.call or getattr(K, self.name)
        results = function(*tensors, **options)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    def reference(self, arrays: Sequence[np.ndarray], **options: Any) -> list[np.ndarray]:
        """What NumPy computes, floats in float64."""
        wide = [
            one.astype(np.float64) if one.dtype.kind == "f" or self._as_float(one) else one
            for one in arrays
        ]
        with np.errstate(all="ignore"):
            results = self.numpy(*wide, **options)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    def _as_float(self, array: np.ndarray) -> bool:
        return self.result in ("float", "divide") and array.dtype.kind in "iub"

    def result_dtype(self, dtype: str) -> str:
        """The dtype that the result must have for operands of `dtype`."""
        if self.result == "float":
            return dtype if dtype in FLOATS else K.floatx()
        if self.result == "number":
            return "int32" if dtype == "bool" else dtype
        if self.result == "divide":
            if dtype in FLOATS:
                return dtype
            return "float32" if dtype in ("int8", "uint8", "bool") else "float64"
        return dtype if self.result == "same" else self.result

    def has_gradient(self, position: int) -> bool:
        if position in self.fixed:
            return False
        return self.gradient if isinstance(self.gradient, bool) else self.gradient[position]


@dataclass(frozen=True)
class Row:
    """One call of a case: operand shapes and options."""

    case: Case
    shapes: tuple[Shape, ...]
    options: dict[str, Any]

    def __str__(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        shapes = ",".join("x".join(map(str, shape)) or "scalar" for shape in self.shapes)
        return f"{self.case.name}-{shapes}" + (f"-{options}" if options else "")

    def domain(self, position: int) -> Domain:
        given = self.case.domain
        if isinstance(given[0], (int, float)):
            return given  # type: ignore[return-value]
        return given[position]  # type: ignore[return-value]

    def arrays(self, dtype: str, shapes: Sequence[Shape] | None = None) -> list[np.ndarray]:
        """Random operands, the same at every call."""
        random = np.random.default_rng(zlib.crc32(str(self).encode()))
        return [
            draw(random, shape, self.case.fixed.get(i, dtype), self.domain(i))
            for i, shape in enumerate(shapes or self.shapes)
        ]


def draw(random: np.random.Generator, shape: Shape, dtype: str, domain: Domain) -> np.ndarray:
    """Random numbers of a dtype within a domain, as far as the dtype reaches."""
    low, high = domain
    if dtype == "bool":
        return np.asarray(random.integers(0, 2, shape), dtype=bool)
    if np.dtype(dtype).kind == "f":
        return np.asarray(random.uniform(low, high, shape), dtype=dtype)
    limits = np.iinfo(dtype)
    first, last = max(int(np.ceil(low)), int(limits.min)), min(int(high), int(limits.max))
    return np.asarray(random.integers(first, max(last, first) + 1, shape), dtype=dtype)


def product(**choices: Sequence[Any]) -> list[dict[str, Any]]:
    """Every combination of the options."""
    names = list(choices)
    return [
        dict(zip(names, values, strict=True)) for values in itertools.product(*choices.values())
    ]


def each(*keywords: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    """One dict of options for each entry of `values`."""
    if len(keywords) == 1:
        return [{keywords[0]: value} for value in values]
    return [dict(zip(keywords, value, strict=True)) for value in values]


def rows(cases: Sequence[Case]) -> Iterator[Row]:
    """Every call of every case."""
    for case in cases:
        for shapes in case.shapes:
            for options in case.options:
                yield Row(case, shapes, options)
