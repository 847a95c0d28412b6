"""`Expr`: an elementwise expression as a tree, parsed once where an operation is declared.

Whoever asks something of an expression (which names it reads, what it costs, what it is with other
operands) asks the tree; its text is for people. Equal trees are one object.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from kbench.engine.core import fork_safety, syntax
from kbench.engine.graph.expr.scalars import SCALARS, Cost, Scalar

CONSTANTS = {"inf": np.inf, "nan": np.nan, "pi": np.pi}

Number: TypeAlias = bool | int | float
Kind = Literal["name", "input", "local", "number", "call"]

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.USub: "negative",
}
_COMPARISON, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(6)  # how tightly each binds
_BINDS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}
_CHEAP_EXPONENTS = {1: Cost.CHEAP, 2: Cost.CHEAP, 3: Cost.CHEAP, 0.5: Cost.QUOTIENT}

_interned: weakref.WeakValueDictionary[tuple[object, ...], Expr] = weakref.WeakValueDictionary()
_interning = fork_safety.lock()


class Expr:
    """One node. `name` is an operand of a declared operation; `input` and `local` are an input and
    an earlier statement of a program; `number` is a Python number, `call` a scalar function.

    Nodes never change; make them with the functions of this file.
    """

    __slots__ = (
        "__weakref__",
        "_text",
        "args",
        "cost",
        "dtype",
        "kind",
        "leaves",
        "scalar",
        "value",
    )

    kind: Kind
    value: str | Number
    """The operand's name, the number of an input or a statement, the number itself."""
    scalar: Scalar
    """The function of a call."""
    args: tuple[Expr, ...]
    dtype: str
    """What a `cast` gives; `{name}` is an attribute of the operation (see `with_attrs`)."""
    leaves: tuple[Expr, ...]
    """The names, inputs and locals it reads, each once, in the order in which they are written."""
    cost: Cost
    """Of the dearest function in it."""
    _text: str

    def __str__(self) -> str:
        if not self._text:
            self._text = _text(self)
        return self._text

    def __repr__(self) -> str:
        return f"<expr {self}>"

    def __add__(self, other: Expr) -> Expr:
        return call("add", self, other)

    def __sub__(self, other: Expr) -> Expr:
        return call("subtract", self, other)

    def __mul__(self, other: Expr) -> Expr:
        return call("multiply", self, other)

    def __truediv__(self, other: Expr) -> Expr:
        return call("divide", self, other)

    @property
    def is_leaf(self) -> bool:
        return self.kind in ("name", "input", "local")

    @property
    def index(self) -> int:
        """Which input or which earlier statement it is."""
        assert self.kind in ("input", "local") and isinstance(self.value, int)
        return self.value

    def is_call(self, name: str) -> bool:
        return self.kind == "call" and self.scalar.name == name

    def walk(self) -> Iterator[Expr]:
        """This node and all below it; one that stands twice comes twice."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.args))

    def count(self, least: Cost) -> int:
        """How many functions in it cost at least so much."""
        return sum(node.kind == "call" and _own_cost(node) >= least for node in self.walk())

    def replaced(self, table: Mapping[Expr, Expr]) -> Expr:
        """The same with other leaves."""
        if self.is_leaf:
            return table.get(self, self)
        if not self.leaves:
            return self
        return _call(self.scalar, tuple(arg.replaced(table) for arg in self.args), self.dtype)

    def with_attrs(self, attrs: Mapping[str, object]) -> Expr:
        """The same with an operation's attributes in place of their names."""
        if self.kind != "call" or not attrs:
            return self
        args = tuple(arg.with_attrs(attrs) for arg in self.args)
        return _call(self.scalar, args, self.dtype.format(**attrs))


def _made(
    kind: Kind, value: str | Number, scalar: Scalar | None, args: tuple[Expr, ...], dtype: str
) -> Expr:
    key = (kind, type(value), repr(value), scalar and scalar.name, dtype, *map(id, args))
    known = _interned.get(key)
    if known is not None:
        return known
    with _interning:
        return _interned.setdefault(key, _new(kind, value, scalar, args, dtype))


def _new(
    kind: Kind, value: str | Number, scalar: Scalar | None, args: tuple[Expr, ...], dtype: str
) -> Expr:
    made = Expr()
    made.kind, made.value, made.args, made.dtype, made._text = kind, value, args, dtype, ""
    if scalar is not None:
        made.scalar = scalar
    own = (made,) if made.is_leaf else ()
    made.leaves = own or tuple(dict.fromkeys(leaf for arg in args for leaf in arg.leaves))
    made.cost = max((_own_cost(made), *(arg.cost for arg in args)))
    return made


def name_leaf(text: str) -> Expr:
    """An operand of a declared operation, by its name."""
    return _made("name", text, None, (), "")


def input_leaf(index: int) -> Expr:
    """`a<index>`: an input of a program."""
    return _made("input", index, None, (), "")


def local_leaf(index: int) -> Expr:
    """`t<index>`: an earlier statement of a program."""
    return _made("local", index, None, (), "")


def number_leaf(value: Number | np.generic) -> Expr:
    """A Python number: it takes the dtype of what it meets."""
    plain: Number = value.item() if isinstance(value, np.generic) else value
    return _made("number", plain, None, (), "")


def call(function: str, *args: Expr) -> Expr:
    """A scalar function of expressions."""
    return _call(SCALARS[function], args, "")


def cast(x: Expr, dtype: str) -> Expr:
    """A value as another dtype."""
    return _call(SCALARS["cast"], (x,), dtype)


def _call(scalar: Scalar, args: tuple[Expr, ...], dtype: str) -> Expr:
    made = _made("call", "", scalar, args, dtype)
    if scalar.name == "cast" or any(arg.kind != "number" for arg in args):
        return made
    return number_leaf(_number_of(made))


def _number_of(made: Expr) -> Number:
    """What a function of Python numbers comes to."""
    with np.errstate(all="ignore"):
        found = made.scalar.numpy(*[arg.value for arg in made.args])
    if all(isinstance(arg.value, bool | int) for arg in made.args) and made.scalar.symbol != "/":
        whole = np.asarray(found)
        if whole.dtype.kind in "biu":
            return bool(whole) if whole.dtype.kind == "b" else int(whole)
    return bool(found) if isinstance(found, np.bool_) else float(np.asarray(found))


def _own_cost(node: Expr) -> Cost:
    if node.kind != "call":
        return Cost.CHEAP
    if node.scalar.name == "pow" and node.args[1].kind == "number":
        return _CHEAP_EXPONENTS.get(float(node.args[1].value), node.scalar.cost)
    return node.scalar.cost


# ------------------------------------------------------------------ from text


def parse(text: str, names: Sequence[str] | None = None) -> Expr:
    """The expression that a text says.

    Arguments:
        text: Python's operators, and calls of `SCALARS`.
        names: what its operands are called. None: it belongs to a program, and reads `a<number>`,
            `t<number>` and `column`.
    Raises:
        ValueError: something in it is outside the vocabulary.
    """
    try:
        tree = syntax.parse_expression(text.strip()).body
    except SyntaxError as error:
        raise ValueError(f"not an expression: {text!r}") from error
    return _Parser(text, names).expr(tree)


class _Parser:
    def __init__(self, text: str, names: Sequence[str] | None) -> None:
        self.text, self.names = text, names

    def expr(self, node: ast.expr) -> Expr:
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return self._operator(node.op, node.left, node.right)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
            return self._operator(node.ops[0], node.left, node.comparators[0])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._operator(node.op, node.operand)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd):
            return self.expr(node.operand)
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            return number_leaf(node.value)
        raise self._unknown(node)

    def _operator(self, kind: ast.AST, *operands: ast.expr) -> Expr:
        return call(_OPERATORS[type(kind)], *[self.expr(operand) for operand in operands])

    def _named(self, node: ast.Name) -> Expr:
        if self.names is not None and node.id in self.names:
            return name_leaf(node.id)
        if self.names is None and node.id[0] in "at" and node.id[1:].isdigit():
            return (input_leaf if node.id[0] == "a" else local_leaf)(int(node.id[1:]))
        if node.id in CONSTANTS:
            return number_leaf(CONSTANTS[node.id])
        if self.names is None and node.id == "column":
            return COLUMN
        raise self._unknown(node)

    def _called(self, node: ast.Call) -> Expr:
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        if function not in SCALARS or node.keywords or len(node.args) != SCALARS[function].arity:
            what = f"{ast.unparse(node)!r} is not a call of the scalar table"
            raise ValueError(f"{what}, in {self.text!r}")
        if function != "cast":
            return call(function, *[self.expr(argument) for argument in node.args])
        target = node.args[1]
        if not (isinstance(target, ast.Constant) and isinstance(target.value, str)):
            raise ValueError(f"cast needs a quoted dtype, in {self.text!r}")
        if "{" not in target.value:
            np.dtype(target.value)
        return cast(self.expr(node.args[0]), target.value)

    def _unknown(self, node: ast.AST) -> ValueError:
        what = f"{ast.unparse(node)!r} is outside the scalar vocabulary"
        return ValueError(f"{what}, in {self.text!r}")


COLUMN = name_leaf("column")
"""In a row program the number of the column."""


# ------------------------------------------------------------------ to text


def _text(node: Expr) -> str:
    if node.kind in ("input", "local"):
        return f"{'a' if node.kind == 'input' else 't'}{node.value}"
    if node.kind in ("name", "number"):
        return str(node.value)
    function = node.scalar
    if not function.symbol or function.symbol == "**":
        dtype = (repr(node.dtype),) if node.dtype else ()
        return f"{function.name}({', '.join((*map(str, node.args), *dtype))})"
    binds = _binds(node)
    if function.arity == 1:
        return f"{function.symbol}{_inside(node.args[0], binds)}"
    left = _inside(node.args[0], binds + (binds == _COMPARISON))
    return f"{left} {function.symbol} {_inside(node.args[1], binds + 1)}"


def _inside(node: Expr, least: int) -> str:
    return str(node) if _binds(node) >= least else f"({node})"


def _binds(node: Expr) -> int:
    if node.kind == "number":
        return _SIGN if str(node.value)[0] == "-" else _ATOM
    if node.kind != "call" or not node.scalar.symbol or node.scalar.symbol == "**":
        return _ATOM
    return _SIGN if node.scalar.arity == 1 else _BINDS.get(node.scalar.symbol, _COMPARISON)
