"""Wrong calls of functions that work element by element, and of the operators."""

from __future__ import annotations

import numpy as np
from wrong import Wrong, fed, v, x

from kbench import backend as K
from kbench.api.samples import elementwise_functions
from kbench.backend import ArgumentError, DtypeError, ShapeError

UNARY, BINARY = elementwise_functions(1), elementwise_functions(2)


def of_one(name: str) -> list[Wrong]:
    function = getattr(K, name)
    return [
        Wrong(name, lambda: function("text"), DtypeError, ("x is the string 'text'",)),
        Wrong(name, lambda: function([1.0, "a"]), DtypeError, ("x[1] is the string 'a'",)),
        Wrong(
            name,
            lambda: function([[1, 2], [3]]),
            ArgumentError,
            ("rows differ",),
        ),
        Wrong(name, lambda: function(np.ones(2, complex)), DtypeError, ("complex128[2]",)),
        Wrong(name, lambda: function(None), DtypeError, ("None",)),
        Wrong(name, lambda: function(x(2), unknown=1), TypeError, ("unknown",)),
    ]


def of_two(name: str) -> list[Wrong]:
    function = getattr(K, name)
    return [
        Wrong(
            name,
            lambda: function(x(None, 3), v(4, 5)),
            ShapeError,
            ("float32[?, 3]", "float32[4, 5]", "sizes 3 and 5 differ on axis -1"),
        ),
        Wrong(name, lambda: function(v(2), np.ones((3,))), ShapeError, ("float64[3]",)),
        Wrong(name, lambda: function(v(2), "text"), DtypeError, ("float32[2]", "the string")),
        Wrong(name, lambda: function(v(2)), ArgumentError, ("takes 2 operands (x, y), got 1",)),
        Wrong(
            name,
            lambda a=None: fed(function(a := x(None), v(3)), (a, np.ones(2))),
            ShapeError,
            ("float32[2]", "float32[3]"),
        ),
    ]


def of_operator(symbol: str, call: str) -> Wrong:
    """An operator on shapes that do not fit; `call` is its method."""
    return Wrong(
        symbol, lambda: getattr(v(4, 5), call)(v(2, 5)), ShapeError, ("float32[4, 5]", "axis -2")
    )


OPERATORS = [
    Wrong("+", lambda: x(None, 3) + v(4, 5), ShapeError, ("float32[?, 3]", "float32[4, 5]")),
    Wrong("-", lambda: v(4, 5) - x(3), ShapeError, ("float32[4, 5]", "float32[3]")),
    Wrong("*", lambda: np.ones((2, 2)) * x(None, 3), ShapeError, ("float64[2, 2]",)),
    Wrong("/", lambda: v(4, 5) / v(2, 5), ShapeError, ("sizes 4 and 2 differ on axis -2",)),
    Wrong("//", lambda: v(2, dtype="int32") // v(3, dtype="int32"), ShapeError, ("int32[3]",)),
    Wrong(
        "//",
        lambda a=None: fed(v(2, dtype="int32") // (a := x(2, dtype="int32")), (a, [1, 0])),
        ArgumentError,
        ("integer division by zero",),
    ),
    Wrong("%", lambda: v(4, 5) % v(2, 5), ShapeError, ("float32[4, 5]",)),
    Wrong(
        "%",
        lambda a=None: fed(v(2, dtype="int32") % (a := x(2, dtype="int32")), (a, [1, 0])),
        ArgumentError,
        ("by zero",),
    ),
    Wrong("**", lambda: v(4, 5) ** v(2, 5), ShapeError, ("float32[2, 5]",)),
    Wrong("**", lambda: v(2, dtype="int32") ** -1, ArgumentError, ("cast to a float first",)),
    Wrong("<", lambda: v(4, 5) < v(2, 5), ShapeError, ("float32[2, 5]",)),
    Wrong(">=", lambda: v(4, 5) >= v(2, 5), ShapeError, ("float32[2, 5]",)),
    Wrong("+", lambda: v(2) + "text", DtypeError, ("the string",)),
    Wrong("*", lambda: v(2) * None, DtypeError, ("None",)),
]

OTHERS = [
    Wrong("pow", lambda: K.pow(x(None, 3), v(4, 5)), ShapeError, ("float32[?, 3]",)),
    Wrong("pow", lambda: K.pow(v(2, dtype="int64"), -1), ArgumentError, ("no negative powers",)),
    Wrong("pow", lambda: K.pow(v(2), "text"), DtypeError, ("the string",)),
    Wrong(
        "pow",
        lambda a=None: fed(K.pow(v(2, dtype="int32"), a := x(2, dtype="int32")), (a, [1, -2])),
        ArgumentError,
        ("no negative powers",),
    ),
    Wrong("clip", lambda: K.clip(x(None, 3), v(4, 5), 2), ShapeError, ("float32[4, 5]",)),
    Wrong("clip", lambda: K.clip("text", 0, 1), DtypeError, ("the string",)),
    Wrong("clip", lambda: K.clip(v(2), "low", 1), DtypeError, ("the string",)),
    Wrong("clip", lambda: K.clip(v(2), 0), TypeError, ("max_value",)),
    Wrong("cast", lambda: K.cast(x(2), "float8"), DtypeError, ("unknown dtype 'float8'",)),
    Wrong("cast", lambda: K.cast("text", "float32"), DtypeError, ("the string",)),
    Wrong("cast", lambda: K.cast(x(2), 32), DtypeError, ("32",)),
    Wrong("cast", lambda: K.cast(x(2), None), DtypeError, ("None",)),
    Wrong("relu", lambda: K.relu("text"), DtypeError, ("the string",)),
    Wrong("relu", lambda: K.relu(v(2), alpha="text"), DtypeError, ("the string",)),
    Wrong("relu", lambda: K.relu(v(4, 5), max_value=v(3)), ShapeError, ("float32[3]",)),
    Wrong("relu", lambda: K.relu(v(2), threshold=v(3)), ShapeError, ("float32[2]",)),
    Wrong("elu", lambda: K.elu("text"), DtypeError, ("the string",)),
    Wrong("elu", lambda: K.elu(v(2), alpha="text"), DtypeError, ("the string",)),
    Wrong("elu", lambda: K.elu(v(2), v(3)), ShapeError, ("float32[2]", "float32[3]")),
    Wrong("softmax", lambda: K.softmax(x(None, 3), axis=4), ShapeError, ("axis 4", "-2 to 1")),
    Wrong("softmax", lambda: K.softmax(v(2, 3), axis=1.5), ArgumentError, ("1.5",)),
    Wrong("softmax", lambda: K.softmax("text"), DtypeError, ("the string",)),
]

WRONG = [row for name in UNARY for row in of_one(name)]
WRONG += [row for name in BINARY for row in of_two(name)]
WRONG += OPERATORS + OTHERS
