"""Functions of complex numbers that NumPy computes, and their gradients.

A gradient is that of the real part plus i times that of the imaginary part. Behind a function with
the derivative s it is the one that arrives times the conjugate of s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.api.operations import Tensor, numpy_call, numpy_calls, results
from kbench.keras3.complex_numbers.parts import (
    by_parts,
    cast_held,
    joined,
    parts_of,
    products,
)
from kbench.keras3.complex_numbers.refusal import is_complex
from kbench.keras3.tensor import (
    PARTS,
    WIDE,
    Traced,
    converted,
    from_held,
    held,
    held_spec,
    in_dtype,
    node_of,
    to_held,
)

Rule = Callable[..., Any]
"""`rule(g, y, *operands)`, on symbols; an entry for each operand."""
Form = Callable[..., Any]
"""What computes the arrays of results from those of the operands."""


def conjugated(x: Any) -> Any:
    """The conjugate of a symbol; real ones as they are."""
    half = PARTS.get(str(x.dtype))
    if half is None:
        return x
    real, imaginary = parts_of(x, half)
    return joined(real, -imaginary, x.dtype)


def rule_on_symbols(rule: Rule | None, dtypes: list[str], own: list[str], several: bool) -> Any:
    """A rule on symbols as one on nodes; None where there is none."""
    if rule is None:
        return None

    def passed(g: Any, y: Tensor, *inputs: Tensor) -> Any:
        given = [Traced(node, kind) for node, kind in zip(inputs, own, strict=True)]
        if several:
            slopes: Any = {i: Traced(one, dtypes[i]) for i, one in g.items()}
            found: Any = [Traced(n, kind) for n, kind in zip(results(y), dtypes, strict=True)]
        else:
            slopes, found = Traced(g, dtypes[0]), Traced(y, dtypes[0])
        entries = rule(slopes, found, *given)
        return [
            None if entry is None else slope_node(entry, kind)
            for entry, kind in zip(entries, own, strict=True)
        ]

    return passed


def slope_node(entry: Any, dtype: str) -> Tensor:
    """A gradient in the dtype of its operand: of a real one the real part."""
    if dtype in PARTS:
        return held(entry, dtype)
    if is_complex(entry):
        return parts_of(entry, dtype)[0]
    return node_of(entry) if dtype in WIDE else in_dtype(entry, dtype)


def whole(
    name: str,
    form: Form,
    operands: list[Any],
    specs: list[tuple[tuple[int, ...], str]],
    rule: Rule | None,
    several: bool = False,
) -> Any:
    """A node that runs `form` on arrays, in the dtypes of the operands; the results by `specs`."""
    own = [str(x.dtype) for x in operands]
    dtypes = [kind for _, kind in specs]
    parts = [held_spec(shape, kind) for shape, kind in specs]

    def run(*arrays: np.ndarray) -> Any:
        found = form(*[from_held(array, kind) for array, kind in zip(arrays, own, strict=True)])
        if several:
            pairs = zip(found, dtypes, strict=True)
            return tuple(to_held(converted(np.asarray(one), kind)) for one, kind in pairs)
        return to_held(converted(np.asarray(found), dtypes[0]))

    run.__name__ = name
    passed = rule_on_symbols(rule, dtypes, own, several)
    nodes = [held(x, kind) for x, kind in zip(operands, own, strict=True)]
    if not several:
        return Traced(numpy_call(run, nodes, parts[0], passed), dtypes[0])
    found = numpy_calls(run, nodes, parts, passed)
    return [Traced(node, kind) for node, kind in zip(found, dtypes, strict=True)]


# ------------------------------------------------------------------ functions of every element

How = Callable[..., Traced] | None
"""What an elementwise function is of complex numbers: `how(name, build, form, operands, dtype,
result)`. None: it takes real numbers only."""


def linear(_name: str, build: Any, _form: Any, operands: Any, dtype: str, _result: str) -> Traced:
    """A function that is applied to both parts."""
    return by_parts(build, operands, dtype)


def product(_name: str, build: Any, _form: Any, operands: Any, dtype: str, _result: str) -> Traced:
    """A product of its operands."""
    return products(build, operands, dtype)


def told(
    name: str, _build: Any, form: Any, operands: Any, dtype: str, result: str
) -> Traced:  # fmt: skip
    """A function whose result is bool, and passes no gradient on."""
    given = [cast_held(x, dtype) for x in operands]
    shape = np.broadcast_shapes(*[x.shape for x in given])
    found: Traced = whole(name, form, given, [(shape, result)], lambda g, y, *xs: [None] * len(xs))
    return found


def smooth(*slopes: Callable[..., Any]) -> Callable[..., Traced]:
    """A function with complex derivatives: `slope(y, *operands)` for each operand, on symbols."""

    def rule(g: Any, y: Any, *xs: Any) -> Any:
        return [g * conjugated(slope(y, *xs)) for slope in slopes]

    def how(name: str, _build: Any, form: Any, operands: Any, dtype: str, result: str) -> Traced:
        given = [cast_held(x, dtype) for x in operands]
        shape = np.broadcast_shapes(*[x.shape for x in given])
        found: Traced = whole(name, form, given, [(shape, result)], rule)
        return found

    return how
