"""A function of arrays as an operation, for clients of the engine with functions of their own.

The caller says what the result is, and how gradients pass; the engine runs the function as it
stands. What the engine can compile is better declared as an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kbench.engine.core.errors import GradientError
from kbench.engine.core.spec import Spec, several
from kbench.engine.graph.apply import apply, results
from kbench.engine.graph.declare import structured
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Tensor
from kbench.engine.ops.reduce.reduction import reduce_like

ArrayFunction = Callable[..., object]
"""Takes arrays, and gives one array, or a tuple of them."""
Rule = Callable[..., Sequence[Tensor | None]] | None
"""A gradient: `rule(g, y, *operands)` gives an entry for each operand. None: not differentiable."""


def _numpy(
    out: object, *arrays: np.ndarray, function: ArrayFunction, parts: tuple[Spec, ...], rule: Rule
) -> object:
    with np.errstate(all="ignore"):
        found = function(*arrays)
    if len(parts) == 1:
        return _checked(found, parts[0])
    assert isinstance(found, tuple)
    return tuple(_checked(one, part) for one, part in zip(found, parts, strict=True))


def _checked(found: object, part: Spec) -> np.ndarray:
    """The array, which is what the caller promised."""
    array = np.asarray(found)
    sizes = zip(array.shape, part.shape, strict=False)
    fits = array.ndim == part.ndim and all(wanted in (size, None) for size, wanted in sizes)
    if not fits or array.dtype.name != part.dtype:
        told = Spec(array.shape, array.dtype.name)
        raise AssertionError(f"numpy_call: the function gave {told}, and {part} was promised")
    return array


def _gradient(
    g: object,
    y: Tensor,
    *inputs: Tensor,
    function: ArrayFunction,
    parts: tuple[Spec, ...],
    rule: Rule,
) -> tuple[Tensor | None, ...]:
    if rule is None:
        name = getattr(function, "__name__", "function")
        raise GradientError(f"{name} is not differentiable", function="gradients")
    entries = rule(g, y, *inputs)
    return tuple(
        entry if entry is None or entry.spec.shape == source.spec.shape
        else reduce_like(entry, source)
        for entry, source in zip(entries, inputs, strict=True)
    )  # fmt: skip


CALL = structured(
    "numpy_call",
    lambda *_specs, function, parts, rule: parts[0],
    _numpy,
    _gradient,
    allocates=True,
)
CALLS = register(
    Op(
        "numpy_calls",
        "several",
        lambda *_specs, function, parts, rule: several(parts),
        _numpy,
        _gradient,
        allocates=True,
    )
)


def numpy_call(
    function: ArrayFunction, operands: Sequence[Tensor], part: Spec, rule: Rule = None
) -> Tensor:
    """`function` of the operands' arrays, whose result has the shape and dtype of `part`.

    Arguments:
        function: pure; takes read-only arrays, gives a new array.
        operands: dense tensors.
        part: what the result is; a promise that is checked when it runs.
        rule: `rule(g, y, *operands)`, one entry for each operand; broadcasting is undone here.
    Returns:
        Tensor of that shape and dtype.
    Raises:
        GradientError: it is differentiated, and there is no rule.
    Gradient: by `rule`.
    """
    return apply(CALL, *operands, function=function, parts=(part,), rule=rule)


def numpy_calls(
    function: ArrayFunction, operands: Sequence[Tensor], parts: Sequence[Spec], rule: Rule = None
) -> list[Tensor]:
    """Like `numpy_call`, of a function that gives a tuple of arrays, one for each of `parts`.

    Its `rule` gets the gradients that arrived as a dict, by the number of the result.
    """
    node = apply(CALLS, *operands, function=function, parts=tuple(parts), rule=rule)
    return results(node)
