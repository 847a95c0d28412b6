"""The scalar vocabulary of elementwise expressions, and their NumPy form (tier 0).

`SCALARS` is the one table of names an expression may call. Each row has the NumPy callable that
tier 0 runs and the name of the SIMD function that generated loops call. `numpy_form` turns an
expression such as `"sigmoid(1.5 * x + y) * tanh(x)"` into a callable over arrays. This file must
not know Numba or the graph.
"""

import ast
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kbench.engine.core import syntax
from kbench.engine.core.special import erf
from kbench.engine.core.types import Array

BLOCK = 32_768
"""Elements per block of a long array: a few temporaries of this length stay in the L2 cache."""

CONSTANTS = {"inf": np.inf, "nan": np.nan, "pi": np.pi}

ArrayFunction = Callable[..., None]


class Scalar(NamedTuple):
    """One row of the table: how many arguments, what dtype rule, and the two forms."""

    arity: int
    result: str  # 'same', 'float' (integers become float64) or 'bool'
    numpy: Callable[..., object]  # takes `out=`
    source: str  # name of the compiled form; '' when the loop writer spells it out itself


def _rsqrt(x: Array, out: Array | None = None) -> object:
    return np.divide(1, np.sqrt(x), out=out)


def _sigmoid(x: Array, out: Array | None = None) -> object:
    # exp(-|x|) never overflows, so the far negative tail keeps its denormal values.
    # The larger of it and `x >= 0` is 1 for those and the tail for others, NaN for NaN; a mask of
    # random elements costs `np.where` ten times as much.
    tail = np.exp(-np.abs(x))
    return np.divide(np.maximum(tail, np.greater_equal(x, 0)), tail + 1, out=out)


def _softplus(x: Array, out: Array | None = None) -> object:
    return np.add(np.log1p(np.exp(-np.abs(x))), np.maximum(x, 0), out=out)


def _pow(x: Array, y: Array, out: Array | None = None) -> object:
    """C's power: NumPy takes the square root for one exponent of 0.5, and so gives NaN for -inf."""
    if np.size(y) != 1 or np.asarray(y).reshape(-1)[0] != 0.5:
        return np.power(x, y, out=out)
    endless = np.equal(x, -np.inf)
    root = np.sqrt(np.add(x, 0 * y), out=out)  # and -0.0 for -0.0
    return np.where(endless, np.inf, root) if out is None else _filled(root, endless)


def _filled(root: Array, endless: Array) -> Array:
    np.copyto(root, np.inf, where=endless)
    return root


def _where(condition: Array, x: Array, y: Array, out: Array | None = None) -> Array:
    chosen = np.where(condition, x, y)
    if out is None:
        return chosen
    np.copyto(out, chosen)
    return out


def _cast(x: Array, dtype: str, out: Array | None = None) -> Array:
    """Convert; floats to integers by truncation, clamped to the range, NaN to 0, everywhere."""
    source = np.asarray(x)
    target = np.dtype(dtype)
    if source.dtype.kind == "f" and target.kind in "iu":
        source = _to_integer(source, target)
    if out is None:
        return source.astype(target)
    np.copyto(out, source.astype(target))
    return out


def _to_integer(x: Array, target: np.dtype[np.integer]) -> Array:
    limits = np.iinfo(target)
    whole = np.trunc(x)
    low, high = float(limits.min), float(limits.max)
    inside = (whole >= low) & (whole < high)
    result = np.where(inside, whole, 0).astype(target)
    return np.where(whole >= high, limits.max, np.where(whole < low, limits.min, result)).astype(
        target
    )


SCALARS: dict[str, Scalar] = {
    "abs": Scalar(1, "same", np.absolute, "absolute"),
    "sign": Scalar(1, "same", np.sign, "sign"),
    "square": Scalar(1, "same", np.square, "square"),
    "exp": Scalar(1, "float", np.exp, "exp"),
    "expm1": Scalar(1, "float", np.expm1, "expm1"),
    "log": Scalar(1, "float", np.log, "log"),
    "log1p": Scalar(1, "float", np.log1p, "log1p"),
    "sqrt": Scalar(1, "float", np.sqrt, "sqrt"),
    "rsqrt": Scalar(1, "float", _rsqrt, "rsqrt"),
    "sin": Scalar(1, "float", np.sin, "sin"),
    "cos": Scalar(1, "float", np.cos, "cos"),
    "tanh": Scalar(1, "float", np.tanh, "tanh"),
    "sigmoid": Scalar(1, "float", _sigmoid, "sigmoid"),
    "softplus": Scalar(1, "float", _softplus, "softplus"),
    "erf": Scalar(1, "float", erf, "erf"),
    "floor": Scalar(1, "same", np.floor, "floor"),
    "ceil": Scalar(1, "same", np.ceil, "ceil"),
    "rint": Scalar(1, "same", np.rint, "rint"),
    "pow": Scalar(2, "same", _pow, "power"),
    "minimum": Scalar(2, "same", np.minimum, "minimum"),
    "maximum": Scalar(2, "same", np.maximum, "maximum"),
    "floordiv": Scalar(2, "same", np.floor_divide, "floordiv"),
    "mod": Scalar(2, "same", np.remainder, "mod"),
    "isnan": Scalar(1, "bool", np.isnan, "isnan"),
    "isinf": Scalar(1, "bool", np.isinf, "isinf"),
    "logical_and": Scalar(2, "bool", np.logical_and, "logical_and"),
    "logical_or": Scalar(2, "bool", np.logical_or, "logical_or"),
    "logical_not": Scalar(1, "bool", np.logical_not, "logical_not"),
    "where": Scalar(3, "same", _where, ""),
    "cast": Scalar(2, "same", _cast, ""),
}

BINARY: dict[type[ast.AST], tuple[str, np.ufunc]] = {
    ast.Add: ("+", np.add),
    ast.Sub: ("-", np.subtract),
    ast.Mult: ("*", np.multiply),
    ast.Div: ("/", np.true_divide),
    ast.FloorDiv: ("//", np.floor_divide),
    ast.Mod: ("%", np.remainder),
    ast.Pow: ("**", np.power),
}

COMPARE: dict[type[ast.AST], tuple[str, np.ufunc]] = {
    ast.Lt: ("<", np.less),
    ast.LtE: ("<=", np.less_equal),
    ast.Gt: (">", np.greater),
    ast.GtE: (">=", np.greater_equal),
    ast.Eq: ("==", np.equal),
    ast.NotEq: ("!=", np.not_equal),
}


def parse(expr: str, names: Sequence[str]) -> ast.expr:
    """The expression's tree; ValueError for anything outside the vocabulary."""
    try:
        tree = syntax.parse_expression(expr.strip()).body
    except SyntaxError as error:
        raise ValueError(f"not an expression: {expr!r}") from error
    _check(tree, frozenset(names), expr)
    return tree


def _check(node: ast.AST, names: frozenset[str], expr: str) -> None:
    if isinstance(node, ast.Call):
        _check_call(node, expr)
        arguments = node.args[:1] if _called(node) == "cast" else node.args
    elif isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        arguments = [node.left, node.right]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARE:
        arguments = [node.left, node.comparators[0]]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        arguments = [node.operand]
    elif isinstance(node, ast.Name) and (node.id in names or node.id in CONSTANTS):
        arguments = []
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        arguments = []
    else:
        raise ValueError(f"{ast.unparse(node)!r} is outside the scalar vocabulary, in {expr!r}")
    for argument in arguments:
        _check(argument, names, expr)


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _check_call(node: ast.Call, expr: str) -> None:
    name = _called(node)
    if name not in SCALARS or node.keywords or len(node.args) != SCALARS[name].arity:
        raise ValueError(f"{ast.unparse(node)!r} is not a call of the scalar table, in {expr!r}")
    if name == "cast":
        target = node.args[1]
        if not (isinstance(target, ast.Constant) and isinstance(target.value, str)):
            raise ValueError(f"cast needs a quoted dtype, in {expr!r}")
        np.dtype(target.value)


@functools.cache
def _scope() -> dict[str, object]:
    """The names that generated NumPy forms see."""
    scope: dict[str, object] = {f"_{name}": row.numpy for name, row in SCALARS.items()}
    scope |= {f"_{ufunc.__name__}": ufunc for _, ufunc in (*BINARY.values(), *COMPARE.values())}
    scope |= {"_copyto": np.copyto, "_negative": np.negative, "__builtins__": {"float": float}}
    return scope | CONSTANTS


@functools.lru_cache(maxsize=4096)
def _numpy_form(expr: str, names: tuple[str, ...], dtype: str) -> ArrayFunction:
    tree = parse(expr, names)
    source = (
        f"lambda out, {', '.join(names)}: {_top(tree)}" if names else f"lambda out: {_top(tree)}"
    )
    run = eval(compile(source, "<kbench numpy form>", "eval"), _scope())
    single = sum(isinstance(n, ast.BinOp | ast.Compare | ast.Call) for n in ast.walk(tree)) <= 1
    return _wrap(run, single and not _composed(tree), dtype)


def numpy_form(expr: str, names: Sequence[str], dtype: str) -> ArrayFunction:
    """The NumPy form of an expression: a callable `(out, *arrays)` that fills `out` (tier 0).

    Arguments:
        expr: an expression over `names` in the vocabulary of `SCALARS` and Python's operators.
        names: what the arrays are called in `expr`, in the order they are passed.
        dtype: dtype of `out`. float16 arrays are computed in float32 and rounded on store.
    Arrays broadcast against `out`. `out` may be one of the arrays themselves, not a part of one.
    """
    return _numpy_form(expr, tuple(names), str(dtype))


def _composed(tree: ast.AST) -> bool:
    """Whether a lone call makes temporaries of its own, so that long arrays want blocks."""
    return isinstance(tree, ast.Call) and not isinstance(SCALARS[_called(tree)].numpy, np.ufunc)


def _top(node: ast.expr) -> str:
    """Source of the outermost operation, writing to `out`."""
    if isinstance(node, ast.Call):
        return f"{_call(node)[:-1]}, out=out)"
    if isinstance(node, ast.BinOp):
        name = BINARY[type(node.op)][1].__name__
        return f"_{name}({_inner(node.left)}, {_inner(node.right)}, out=out)"
    if isinstance(node, ast.Compare):
        name = COMPARE[type(node.ops[0])][1].__name__
        return f"_{name}({_inner(node.left)}, {_inner(node.comparators[0])}, out=out)"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not is_literal(node):
        return f"_negative({_inner(node.operand)}, out=out)"
    return f"_copyto(out, {_inner(node)})"


def _inner(node: ast.expr) -> str:
    """Source of an inner value. Operators keep Python numbers weak, so float32 stays float32."""
    if isinstance(node, ast.Call):
        return f"float({_call(node)})" if is_literal(node) else _call(node)
    if isinstance(node, ast.BinOp):
        return f"({_inner(node.left)} {BINARY[type(node.op)][0]} {_inner(node.right)})"
    if isinstance(node, ast.Compare):
        return (
            f"({_inner(node.left)} {COMPARE[type(node.ops[0])][0]} {_inner(node.comparators[0])})"
        )
    if isinstance(node, ast.UnaryOp):
        sign = "-" if isinstance(node.op, ast.USub) else "+"
        return f"({sign}{_inner(node.operand)})"
    return ast.unparse(node)


def _call(node: ast.Call) -> str:
    if _called(node) == "cast":
        return f"_cast({_inner(node.args[0])}, {ast.unparse(node.args[1])})"
    return f"_{_called(node)}({', '.join(_inner(argument) for argument in node.args)})"


def is_literal(node: ast.AST) -> bool:
    """Whether a value is made of Python numbers only. A cast gives a dtype, so it is not."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and _called(part) == "cast":
            return False
        if isinstance(part, ast.Name) and part.id not in CONSTANTS and part.id not in SCALARS:
            return False
    return True


def literal_value(node: ast.expr) -> bool | int | float:
    """The Python number that a literal expression comes to."""
    with np.errstate(all="ignore"):
        value = eval(compile(_inner(node), "<kbench literal>", "eval"), _scope())
    return value if isinstance(value, bool | int) else float(value)


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
