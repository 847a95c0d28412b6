"""Wrong calls of what chooses, evaluates, differentiates and stores."""

from __future__ import annotations

from typing import Any

import numpy as np
from wrong import Wrong, fed, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, FeedError, ShapeError

CHOOSE = [
    Wrong("switch", lambda: K.switch(v(2, 3, 4), v(2, 3), v(2, 3)), ShapeError, ("[2, 3, 4]",)),
    Wrong("switch", lambda: K.switch(v(2, 3), v(2, 3), v(4, 5)), ShapeError, ("float32[4, 5]",)),
    Wrong("switch", lambda: K.switch("text", v(2), v(2)), DtypeError, ("the string",)),
    Wrong("switch", lambda: K.switch(v(), v(2), lambda: None), DtypeError, ("None",)),
    Wrong("switch", lambda: K.switch(v(), v(2), v(2, 3)), ShapeError, ("rank",)),
    *[
        Wrong(name, call, error, (says,))
        for name, f in (("in_train_phase", K.in_train_phase), ("in_test_phase", K.in_test_phase))
        for call, error, says in (
            (lambda f=f: f(v(2), v(2), training="yes"), ArgumentError, "'yes'"),
            (lambda f=f: f(v(2), v(2), training=2), ArgumentError, "got 2"),
            (lambda f=f: f(v(2, 3), v(7)), ShapeError, "differ in rank"),
            (lambda f=f: f("a", "b"), DtypeError, "the string"),
        )
    ],
    Wrong("set_learning_phase", lambda: K.set_learning_phase(2), ArgumentError, ("got 2",)),
    Wrong("set_learning_phase", lambda: K.set_learning_phase("a"), ArgumentError, ("'a'",)),
    Wrong("set_learning_phase", lambda: K.set_learning_phase(None), ArgumentError, ("None",)),
    Wrong("learning_phase_scope", lambda: K.learning_phase_scope(3), ArgumentError, ("3",)),
    Wrong("learning_phase_scope", lambda: K.learning_phase_scope("a"), ArgumentError, ("'a'",)),
    Wrong("learning_phase_scope", lambda: K.learning_phase_scope(None), ArgumentError, ("None",)),
    Wrong("dropout", lambda: K.dropout(v(2), 1.5), ArgumentError, ("1.5", "float32[2]")),
    Wrong("dropout", lambda: K.dropout(v(2), "a"), ArgumentError, ("'a'",)),
    Wrong("dropout", lambda: K.dropout("text", 0.5), DtypeError, ("the string",)),
    Wrong("dropout", lambda: K.dropout(v(2, 3), 0.5, (7,)), ShapeError, ("float32[2, 3]", "[7]")),
]


def doubled(number: float = 2.0) -> Any:
    """A function of one placeholder of shape [?, 3]."""
    a = x(None, 3)
    return K.function([a], [a * number])


EVALUATE = [
    Wrong("eval", lambda: K.eval(x(None, 3)), FeedError, ("float32[?, 3]", "needs a value")),
    Wrong("eval", lambda: K.eval(x(2) * v(2)), FeedError, ("float32[2]",)),
    Wrong("eval", lambda: K.eval("text"), DtypeError, ("the string",)),
    Wrong("eval", lambda: K.eval(None), DtypeError, ("None",)),
    Wrong("function", lambda: doubled()([np.ones((2, 4))]), FeedError, ("float32[?, 3]", "[2, 4]")),
    Wrong("function", lambda: doubled()([]), FeedError, ("takes 1 value",)),
    Wrong(
        "function", lambda: doubled()([["a", "b", "c"]]), FeedError, ("value[0] is the string 'a'",)
    ),
    Wrong("function", lambda: doubled()(np.ones((2, 3))), FeedError, ("one list of values",)),
    Wrong("function", lambda: K.function([3], [v(2)]), ArgumentError, ("got 3",)),
    Wrong("function", lambda: K.function([], [v(2), None]), ArgumentError, ("outputs[1] is None",)),
    Wrong("function", lambda: K.function([], [Wrong]), ArgumentError, ("outputs[0] is type",)),
    Wrong("function", lambda: K.function([x(2)], [v(2)], mode="fast"), ArgumentError, ("'mode'",)),
    Wrong("function", lambda: K.function(x(2), [v(2)]), TypeError, ("list or tuple",)),
    Wrong(
        "function",
        lambda: K.function([], [v(2)], updates=[v(2)]),
        ArgumentError,
        ("update ops or pairs",),
    ),
    Wrong("gradients", lambda: K.gradients(3.0, [v(2)]), ArgumentError, ("got 3.0",)),
    Wrong("gradients", lambda: K.gradients(K.sum(v(2)), [3.0]), ArgumentError, ("got 3.0",)),
    Wrong("gradients", lambda: K.gradients(K.sum(v(2)), None), ArgumentError, ("None",)),
    Wrong("gradients", lambda: K.gradients(K.sum(v(2)), [v(2), "w"]), ArgumentError, ("'w'",)),
    Wrong("stop_gradient", lambda: K.stop_gradient("text"), DtypeError, ("the string",)),
    Wrong("stop_gradient", lambda: K.stop_gradient(None), DtypeError, ("None",)),
    Wrong("stop_gradient", lambda: K.stop_gradient([v(2), "text"]), DtypeError, ("the string",)),
]

STORE = [
    Wrong("get_value", lambda: K.get_value(x(None, 3)), FeedError, ("float32[?, 3]",)),
    Wrong("get_value", lambda: K.get_value(x(2) * 2), FeedError, ("float32[2]",)),
    Wrong("get_value", lambda: K.get_value(K.sum(x(2))), FeedError, ("needs a value",)),
    Wrong("set_value", lambda: K.set_value(v(2, 3), np.ones(3)), ShapeError, ("float32[2, 3]",)),
    Wrong("set_value", lambda: K.set_value(v(2), "text"), DtypeError, ("the string",)),
    Wrong("set_value", lambda: K.set_value(x(2), 1.0), ArgumentError, ("needs a variable",)),
    Wrong("batch_get_value", lambda: K.batch_get_value(v(2)), ArgumentError, ("needs a list",)),
    Wrong("batch_get_value", lambda: K.batch_get_value(3), ArgumentError, ("needs a list",)),
    Wrong("batch_get_value", lambda: K.batch_get_value([x(2)]), FeedError, ("float32[2]",)),
    Wrong("batch_set_value", lambda: K.batch_set_value([v(2)]), ArgumentError, ("pairs",)),
    Wrong("batch_set_value", lambda: K.batch_set_value(3), ArgumentError, ("pairs",)),
    Wrong("batch_set_value", lambda: K.batch_set_value([(3, 3)]), ArgumentError, ("got 3",)),
    Wrong(
        "batch_set_value",
        lambda: K.batch_set_value([(v(2), np.ones(2)), (v(2), np.ones(3))]),
        ShapeError,
        ("float32[2]", "[3]"),
    ),
]


def of_update(name: str) -> list[Wrong]:
    function = getattr(K, name)
    return [
        Wrong(name, lambda: function(x(2), x(2)), ArgumentError, ("needs a variable",)),
        Wrong(name, lambda: function(3, 3), ArgumentError, ("got 3",)),
        Wrong(name, lambda: function(v(2, 3), np.ones(9)), ShapeError, ("float32[2, 3]",)),
        Wrong(name, lambda: function(v(2), "text"), DtypeError, ("the string",)),
        Wrong(
            name,
            lambda a=None: fed(function(v(2), a := x(None)), (a, np.ones(3))),
            ShapeError,
            ("float32[2]", "float32[3]"),
        ),
    ]


AVERAGE = [
    Wrong(
        "moving_average_update",
        lambda: K.moving_average_update(3, 3, 0.9),
        ArgumentError,
        ("got 3",),
    ),
    Wrong(
        "moving_average_update",
        lambda: K.moving_average_update(v(2, 3), np.ones(9), 0.9),
        ShapeError,
        ("float32[2, 3]",),
    ),
    Wrong(
        "moving_average_update",
        lambda: K.moving_average_update(v(2), v(2), "text"),
        DtypeError,
        ("the string",),
    ),
]

GRAPH = [
    Wrong("get_uid", lambda: K.get_uid(3), ArgumentError, ("got 3",)),
    Wrong("get_uid", lambda: K.get_uid(None), ArgumentError, ("None",)),
    Wrong("get_uid", lambda: K.get_uid(["dense"]), ArgumentError, ("['dense']",)),
    Wrong("name_scope", lambda: K.name_scope(3), ArgumentError, ("got 3",)),
    Wrong("name_scope", lambda: K.name_scope(None), ArgumentError, ("None",)),
    Wrong("name_scope", lambda: K.name_scope(v(2)), ArgumentError, ("float32[2]",)),
    Wrong("set_session", lambda: K.set_session(3), ArgumentError, ("got 3",)),
    Wrong("set_session", lambda: K.set_session(None), ArgumentError, ("None",)),
    Wrong("set_session", lambda: K.set_session(v(2)), ArgumentError, ("float32[2]",)),
    *[
        Wrong(name, lambda name=name, one=one: getattr(K, name)(one), ArgumentError, (says,))
        for name in ("manual_variable_initialization", "eager", "symbolic", "control_dependencies")
        for one, says in ((3, "3"), ("text", "'text'"), ([2.5], "2.5"))
    ],
]

UPDATES = [row for name in ("update", "update_add", "update_sub") for row in of_update(name)]
WRONG = CHOOSE + EVALUATE + STORE + UPDATES + AVERAGE + GRAPH
