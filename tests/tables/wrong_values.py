"""Wrong calls with what is no tensor, array or number: functions, None, layers, ragged lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from wrong import Wrong, fed, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, FeedError, ShapeError


class Dense:
    """Something with what a layer of Keras has."""

    output = None

    def get_config(self) -> dict[str, Any]:
        return {}

    def call(self, inputs: Any) -> Any:
        return inputs


class Model(Dense):
    """Something with what a model has besides."""

    def predict(self) -> None: ...


def helper(a: Any) -> Any:
    return a


def doubled() -> Any:
    """A function that needs its one input, float32[2]."""
    a = x(2)
    return K.function([a], [a * 2.0])


FUNCTIONS = [
    Wrong(
        "+",
        lambda: v(2) + K.epsilon,
        DtypeError,
        ("y is the function K.epsilon", "float32[2]", "try K.epsilon()"),
    ),
    Wrong("*", lambda: K.epsilon * v(2), DtypeError, ("x is the function K.epsilon",)),
    Wrong("clip", lambda: K.clip(v(2), K.epsilon, 1), DtypeError, ("min_value is the function",)),
    Wrong("<", lambda: v(2) < K.learning_phase, DtypeError, ("try K.learning_phase()",)),
    Wrong("cast", lambda: K.cast(v(2), K.floatx), DtypeError, ("try K.floatx()",)),
    Wrong("dropout", lambda: K.dropout(v(2), K.epsilon), ArgumentError, ("try K.epsilon()",)),
    Wrong("zeros", lambda: K.zeros((2,), dtype=K.floatx), DtypeError, ("try K.floatx()",)),
    Wrong("square", lambda: K.square(helper), DtypeError, ("x is the function helper; a tensor",)),
    Wrong("square", lambda: K.square(K.mean), DtypeError, ("x is the function K.mean; a tensor",)),
    Wrong("square", lambda: K.square(Dense), DtypeError, ("x is the class Dense; a tensor",)),
    Wrong("function", lambda: K.function([], [K.mean]), ArgumentError, ("outputs[0]",)),
]

OBJECTS = [
    Wrong("dot", lambda: K.dot(None, v(2)), DtypeError, ("x is None", "float32[2]")),
    Wrong("+", lambda: v(2) + None, DtypeError, ("y is None; a tensor",)),
    Wrong("variable", lambda: K.variable(None), DtypeError, ("value is None; a tensor",)),
    Wrong("variable", lambda: K.variable([[1.0], [None]]), DtypeError, ("value[1][0] is None",)),
    Wrong("stack", lambda: K.stack([v(2), None]), DtypeError, ("x[1] is None",)),
    Wrong("maximum", lambda: K.maximum(v(2), {}), DtypeError, ("y is a dict",)),
    Wrong("relu", lambda: K.relu(object()), DtypeError, ("x is an object",)),
    Wrong("square", lambda: K.square(Dense()), DtypeError, ("a layer of type", "try x.output")),
    Wrong("dot", lambda: K.dot(v(2), Model()), DtypeError, ("a model of type", "try y.output")),
    Wrong("square", lambda: K.square("a" * 100), DtypeError, ("'" + "a" * 40 + "'...",)),
]

LISTS = [
    Wrong(
        "dot",
        lambda: K.dot(v(2, 2), [[1.0, 2.0], [3.0]]),
        ArgumentError,
        (
            "y is a list that cannot become an array: its rows differ in length, 1 and 2",
            "float32[2, 2]",
        ),
    ),
    Wrong("+", lambda: v(2) + [1, [2]], ArgumentError, ("numbers and lists are mixed",)),
    Wrong("dot", lambda: K.dot([v(2), v(3)], v(2)), ShapeError, ("x is a list of 2", "[3]")),
    Wrong("concatenate", lambda: K.concatenate(v(2), v(2)), ArgumentError, ("as in [x, y]",)),
    Wrong("function", lambda: K.function(v(2), v(2)), TypeError, ("variable float32[2]",)),
]

FED = [
    Wrong("function", lambda: doubled()([None]), FeedError, ("got 0", "float32[2]", "needs one")),
    Wrong("function", lambda: doubled()([None, None]), FeedError, ("takes 1 value", "got 2")),
    Wrong(
        "function", lambda: K.function([x(2)], [])([[1, None]]), FeedError, ("value[1] is None",)
    ),
    Wrong("function", lambda: K.function([x(2)], [])([[[1], [1, 2]]]), FeedError, ("in length",)),
    Wrong("function", lambda: K.function([x(2)], [])([K.mean]), FeedError, ("function K.mean",)),
]

SIZES = [
    Wrong("zeros", lambda: K.zeros((None, 3)), ArgumentError, ("got None", "try K.shape(...)")),
    Wrong("ones", lambda: K.ones((None, 3)), ArgumentError, ("got None", "try K.shape(...)")),
    Wrong(
        "zeros",
        lambda: K.zeros((K.shape(x(None))[0], None)),
        ArgumentError,
        ("must hold integers, got None",),
    ),
    Wrong(
        "zeros",
        lambda: K.zeros((K.shape(x(None))[0], 2.5)),
        ArgumentError,
        ("must hold integers, got 2.5",),
    ),
    Wrong(
        "ones",
        lambda: K.ones((2, x())),
        ArgumentError,
        ("must hold integers, got placeholder float32[]",),
    ),
    Wrong("ones", lambda: K.ones((2, x(3))), ArgumentError, ("float32[3]",)),
    Wrong("sum", lambda: K.sum(v(2, 3), v(2, 3).shape), ArgumentError, ("the shape [2, 3]",)),
    Wrong(
        "batch_dot",
        lambda: K.batch_dot(v(2, 3, 4), v(2, 3, 5)),
        ShapeError,
        ("try K.batch_dot(x, y, axes=(1, 1)) -> (2, 4, 5)",),
    ),
    Wrong(
        "batch_dot",
        lambda: K.batch_dot(v(2, 3, 4), v(2, 5, 4)),
        ShapeError,
        ("try K.batch_dot(x, y, axes=(2, 2)) -> (2, 3, 5)",),
    ),
    Wrong(
        "batch_dot",
        lambda: K.batch_dot(v(2, 3, 4), v(2, 3)),
        ShapeError,
        ("try K.batch_dot(x, y, axes=(1, 1)) -> (2, 4)",),
    ),
]

LOGIC = [
    Wrong("^", lambda: v(2) ^ 3, DtypeError, ("x is float32[2]", "the power is **")),
    Wrong("&", lambda: v(2, dtype="int32") & 1, DtypeError, ("try K.not_equal(x, 0)",)),
    Wrong("|", lambda: (v(2) > 0) | v(2), DtypeError, ("y is float32[2]", "K.not_equal(y, 0)")),
    Wrong("~", lambda: ~v(2), DtypeError, ("x is float32[2], but logical operators need bool",)),
    Wrong("&", lambda: np.ones(2) & (v(2) > 0), DtypeError, ("x is float64[2]",)),
]

STORED = [
    Wrong(
        "set_value",
        lambda: K.set_value(v(2), x(2)),
        ArgumentError,
        ("must be numbers, got placeholder", "K.update(x, value)", "try K.eval(value)"),
    ),
    Wrong("batch_set_value", lambda: K.batch_set_value([(v(2), v(2) * 2)]), ArgumentError),
]

NAMED = [  # at evaluation operands have the names of parameters
    Wrong(
        "ctc_batch_cost",
        lambda: fed(
            K.ctc_batch_cost(length := x(1, 2, dtype="int32"), v(1, 3, 4), [3], [2]),
            (length, [[9, 9]]),
        ),
        ArgumentError,
        ("y_true", "y_pred", "input_length", "label_length"),
    ),
    Wrong(
        "ctc_decode",
        lambda: fed(K.ctc_decode(v(1, 3, 4), n := x(1, dtype="int32"))[0][0], (n, [9])),
        ArgumentError,
        ("\n  y_pred ", "\n  input_length "),
    ),
    Wrong(
        "gather",
        lambda: fed(K.gather(v(2), i := x(1, dtype="int32")), (i, [9])),
        ShapeError,
        ("\n  reference ", "\n  indices "),
    ),
    Wrong(
        "reshape",
        lambda: fed(K.reshape(a := x(None), (2, -1)), (a, np.ones(3))),
        ShapeError,
        ("\n  x ",),
    ),
    Wrong(
        "concatenate",
        lambda: fed(
            K.concatenate([a := x(None, 2), b := x(None, 2)]),
            (a, np.ones((2, 2))),
            (b, np.ones((3, 2))),
        ),
        ShapeError,
        ("\n  tensors[0] ", "\n  tensors[1] "),
    ),
    Wrong(
        "+",
        lambda: fed((a := x(None)) + (b := x(None)), (a, np.ones(2)), (b, np.ones(3))),
        ShapeError,
        ("\n  x ", "\n  y "),
    ),
]

WRONG = [*FUNCTIONS, *OBJECTS, *LISTS, *FED, *SIZES, *LOGIC, *STORED, *NAMED]
