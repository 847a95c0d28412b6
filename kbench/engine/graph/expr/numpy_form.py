"""The NumPy form of an expression (tier 0): a callable over arrays, the reference of all tiers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from kbench.engine.core.types import Array
from kbench.engine.graph.expr.expression import CONSTANTS, Expr
from kbench.engine.graph.expr.scalars import SCALARS

BLOCK = 32_768
"""Elements per block of a long array: a few temporaries of this length stay in the L2 cache."""

ArrayFunction = Callable[..., None]


@functools.cache
def _scope() -> dict[str, object]:
    """The names that generated NumPy forms see."""
    scope: dict[str, object] = {f"_{name}": scalar.numpy for name, scalar in SCALARS.items()}
    return {**scope, **CONSTANTS, "_copyto": np.copyto, "__builtins__": {}}


@functools.lru_cache(maxsize=4096)
def numpy_form(expr: Expr, leaves: tuple[Expr, ...], dtype: str) -> ArrayFunction:
    """The NumPy form of an expression: a callable `(out, *arrays)` that fills `out`.

    Arguments:
        expr: what to compute.
        leaves: the leaves of `expr`, in the order in which their arrays are passed.
        dtype: dtype of `out`. float16 arrays are computed in float32 and rounded on store.
    Arrays broadcast against `out`. `out` may be one of the arrays themselves, not a part of one.
    """
    names = {leaf: f"x{place}" for place, leaf in enumerate(leaves)}
    source = f"lambda {', '.join(('out', *names.values()))}: {_top(expr, names)}"
    calls = sum(node.kind == "call" for node in expr.walk())
    return _compiled(source, calls <= 1 and not _is_composed(expr), dtype)


@functools.lru_cache(maxsize=4096)
def _compiled(source: str, single: bool, dtype: str) -> ArrayFunction:
    """The form of a source, which is the same for all expressions that differ in names alone."""
    return _wrap(_evaluated(source), single, dtype)


def _evaluated(source: str) -> ArrayFunction:
    function: ArrayFunction = eval(compile(source, "<kbench numpy form>", "eval"), _scope())
    return function


@functools.lru_cache(maxsize=256)
def _evaluated_once(source: str) -> ArrayFunction:
    return _evaluated(source)


Names = Mapping[Expr, str]
"""What the leaves are called."""


def bare_lines(arguments: Sequence[str], lines: Sequence[tuple[str, Expr, Names]]) -> ArrayFunction:
    """Several expressions as one function of arrays, in the way of `bare_form`.

    Arguments:
        arguments: the names of the function's parameters.
        lines: the parameter that is filled, the expression, and the parameters that its leaves are;
            in the order in which they are computed.
    """
    calls = [_top(expr, names, target) for target, expr, names in lines]
    return _evaluated_once(f"lambda {', '.join(arguments)}: ({', '.join(calls)},)")


def _is_composed(expr: Expr) -> bool:
    """Whether a lone call makes temporaries of its own, so that long arrays want blocks."""
    return expr.kind == "call" and not isinstance(expr.scalar.numpy, np.ufunc)


def _top(expr: Expr, names: Names, out: str = "out") -> str:
    """Source of the outermost operation, writing to `out`."""
    if expr.kind != "call":
        return f"_copyto({out}, {names.get(expr, expr)})"
    return f"_{expr.scalar.name}({_arguments(expr, names)}, out={out})"


def _inner(expr: Expr, names: Names) -> str:
    """Source of an inner value. Operators keep Python numbers weak, so float32 stays float32."""
    if expr.kind != "call":
        return f"({names.get(expr, expr)})"
    scalar = expr.scalar
    if not scalar.symbol or scalar.symbol == "**":
        return f"_{scalar.name}({_arguments(expr, names)})"
    if scalar.arity == 1:
        return f"({scalar.symbol}{_inner(expr.args[0], names)})"
    left, right = [_inner(arg, names) for arg in expr.args]
    return f"({left} {scalar.symbol} {right})"


def _arguments(expr: Expr, names: Names) -> str:
    dtype = (repr(expr.dtype),) if expr.dtype else ()
    return ", ".join((*[_inner(arg, names) for arg in expr.args], *dtype))


def _wrap(run: ArrayFunction, single: bool, dtype: str) -> ArrayFunction:
    """Add what every form needs: no warnings, float16 through float32, blocks for long arrays."""

    def form(out: Array, *arrays: Array) -> None:
        with np.errstate(all="ignore"):
            for array in arrays:
                if array.dtype.char == "e":
                    return _run_blocks(_through_float32(run), out, arrays)
            if single or out.size <= BLOCK:
                run(out, *arrays)
            else:
                _run_blocks(run, out, arrays)

    form.__doc__ = f"NumPy form giving {dtype}."
    form.bare = run  # type: ignore[attr-defined]  # see `bare_form`
    return form


def bare_form(form: ArrayFunction) -> ArrayFunction:
    """The form without what it adds, for arrays up to `BLOCK` without float16; it may warn."""
    bare: ArrayFunction = form.bare  # type: ignore[attr-defined]
    return bare


def _through_float32(run: ArrayFunction) -> ArrayFunction:
    def widened(out: Array, *arrays: Array) -> None:
        run(out, *[a.astype(np.float32) if a.dtype.char == "e" else a for a in arrays])

    return widened


def _run_blocks(run: ArrayFunction, out: Array, arrays: Sequence[Array]) -> None:
    for piece, parts in _blocks(out, arrays):
        run(piece, *parts)


def _blocks(out: Array, arrays: Sequence[Array]) -> Iterator[tuple[Array, Sequence[Array]]]:
    """Cut `out`, and each array with it, into pieces of about `BLOCK` elements."""
    if out.size <= BLOCK:
        yield out, arrays
        return
    flat = [a for a in (out, *arrays) if a.ndim > 0]
    if all(a.shape == out.shape and a.flags.c_contiguous for a in flat):
        out = out.reshape(-1)
        arrays = [a.reshape(-1) if a.ndim > 0 else a for a in arrays]
    row = out.size // out.shape[0]
    count = max(1, BLOCK // row)
    for start in range(0, out.shape[0], count):
        window = slice(start, start + count)
        parts = [
            a[window] if a.ndim == out.ndim and a.shape[0] == out.shape[0] else a for a in arrays
        ]
        if row > BLOCK:
            squeezed = [p[0] if p.ndim == out.ndim else p for p in parts]
            yield from _blocks(out[start], squeezed)
        else:
            yield out[window], parts
