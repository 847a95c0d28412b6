"""Functions of complex numbers, composed of the same function of their parts.

What is here runs on the engine's operations, compiled and with their gradients. Gradients are kept
as the engine keeps them: of both parts, so that a step against the gradient descends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kbench import backend as K
from kbench.api.operations import Tensor
from kbench.keras3.complex_numbers.refusal import is_complex
from kbench.keras3.tensor import PARTS, Traced, finish, held, in_dtype, plain

Build = Callable[..., Tensor]
"""A function of nodes of real numbers."""


def joined(real: Tensor, imaginary: Tensor, dtype: str) -> Traced:
    """Complex numbers of their parts, two nodes of one shape."""
    found = Traced(K.stack([real, imaginary], -1), dtype)
    found.parts = real, imaginary
    return found


def _parts(x: Any, dtype: str) -> tuple[Tensor, Tensor | None]:
    """Both parts as nodes of a dtype; None where the operand is real."""
    x = plain(x)
    if not is_complex(x):
        return in_dtype(x, dtype), None
    if not isinstance(x, Traced):
        array = np.asarray(x)
        return in_dtype(array.real, dtype), in_dtype(array.imag, dtype)
    if x.parts is None:
        x.parts = x.held[..., 0], x.held[..., 1]
    real, imaginary = x.parts
    return in_dtype(Traced(real), dtype), in_dtype(Traced(imaginary), dtype)


def parts_of(x: Any, dtype: str) -> tuple[Tensor, Tensor]:
    """Both parts as nodes of a dtype; zeros for a real operand."""
    real, imaginary = _parts(x, dtype)
    return real, K.zeros_like(real) if imaginary is None else imaginary


def by_parts(build: Build, operands: Sequence[Any], dtype: str) -> Traced:
    """A function that treats both parts alike, such as one that moves or adds elements.

    Of operands in a real dtype it is the function itself, whose result needs no rounding.
    """
    half = PARTS.get(dtype)
    if half is None:
        return Traced(build(*[in_dtype(x, dtype) for x in operands]), dtype)
    pairs = [parts_of(x, half) for x in operands]
    return joined(build(*[one for one, _ in pairs]), build(*[two for _, two in pairs]), dtype)


def moved(build: Build, x: Any) -> Traced:
    """A function of one traced operand that moves elements, in whatever dtype."""
    return by_parts(build, [x], str(x.dtype))


def products(build: Build, operands: Sequence[Any], dtype: str) -> Traced:
    """A function that is linear in each operand, such as a product of matrices: sums of it."""
    half = PARTS.get(dtype)
    if half is None:
        return finish(build(*[in_dtype(x, dtype) for x in operands]), dtype)
    terms: tuple[list[Tensor], list[Tensor]] = ([], [])
    choices = [[(i, part) for i, part in enumerate(_parts(x, half)) if part is not None]
               for x in operands]  # fmt: skip
    for chosen in itertools.product(*choices):
        turns = sum(i for i, _ in chosen)  # i to this power stands before the term
        term = build(*[part for _, part in chosen])
        terms[turns % 2].append(-term if turns % 4 > 1 else term)
    zero = K.zeros_like([*terms[0], *terms[1]][0])
    return joined(_total(terms[0], zero), _total(terms[1], zero), dtype)


def _total(terms: list[Tensor], zero: Tensor) -> Tensor:
    found = terms[0] if terms else zero
    for term in terms[1:]:
        found = found + term
    return found


def cast_held(x: Any, dtype: str) -> Traced:
    """An operand as complex numbers of a dtype."""
    return Traced(held(x, dtype), dtype)
