"""Wrong calls with numbers beyond all bounds, and with what only looks like the right thing."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from wrong import Wrong, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, FeedError, ShapeError

ENDLESS = 10**5001  # Python itself does not write it out
HUGE = 10**30
TOLD = "an integer of about 5002 digits"
AXES = (1,) * 65


def turned(states: int) -> Any:
    """An rnn whose step returns that many states where one is wanted."""
    return lambda **options: K.rnn(
        lambda one, _states: (one, [v(2, 4)] * states), v(2, 3, 4), [v(2, 4)], **options
    )


NUMBERS = [
    Wrong("sum", lambda: K.sum(v(2), axis=ENDLESS), ArgumentError, (TOLD,)),
    Wrong("placeholder", lambda: K.placeholder((ENDLESS,)), ArgumentError, (TOLD,)),
    Wrong("placeholder", lambda: K.placeholder(ndim=HUGE), ArgumentError, ("from 0 to",)),
    Wrong("zeros", lambda: K.zeros((ENDLESS,)), ArgumentError, (TOLD,)),
    Wrong("zeros", lambda: K.zeros((-ENDLESS,)), ArgumentError, (TOLD,)),
    Wrong("zeros", lambda: K.zeros((2**62,) * 20), K.OutOfMemory, ("GB",)),
    Wrong("reshape", lambda: K.reshape(v(2), (ENDLESS,)), ArgumentError, (TOLD, "float32[2]")),
    Wrong("tile", lambda: K.tile(v(2), ENDLESS), ArgumentError, (TOLD,)),
    Wrong("repeat_elements", lambda: K.repeat_elements(v(2), ENDLESS, 0), ArgumentError, (TOLD,)),
    Wrong("one_hot", lambda: K.one_hot([1], ENDLESS), ArgumentError, (TOLD,)),
    Wrong("eye", lambda: K.eye(ENDLESS), ArgumentError, (TOLD,)),
    Wrong("+", lambda: v(2) + ENDLESS, ArgumentError, (TOLD, "does not fit into float32")),
    Wrong("constant", lambda: K.constant(ENDLESS), DtypeError, (TOLD, "no dtype holds")),
    Wrong("constant", lambda: K.constant([1, HUGE]), DtypeError, ("value[1] is 1000",)),
    Wrong("clip", lambda: K.clip(v(2), -ENDLESS, 1), ArgumentError, ("does not fit",)),
    Wrong("x[...]", lambda: v(2)[ENDLESS], ArgumentError, (TOLD,)),
    Wrong("random_uniform", lambda: K.random_uniform((2,), 0, ENDLESS), ArgumentError, (TOLD,)),
    Wrong("random_normal", lambda: K.random_normal((2,), -ENDLESS), ArgumentError, (TOLD,)),
    Wrong("set_learning_phase", lambda: K.set_learning_phase(ENDLESS), ArgumentError, (TOLD,)),
    Wrong("set_epsilon", lambda: K.set_epsilon(10**400), ArgumentError, ("finite number",)),
    Wrong("set_num_threads", lambda: K.set_num_threads(99999999999), ArgumentError, ("1024",)),
    Wrong("function", lambda: K.function([x(1)], [])([[ENDLESS]]), FeedError, (TOLD,)),
    Wrong("arange", lambda: K.arange(0.0, 1e308, 1e-9), ArgumentError, ("more than an array",)),
    Wrong("arange", lambda: K.arange(-1e308, 1e308, 1.0), ArgumentError, ("more than an array",)),
    Wrong(
        "conv2d_transpose",
        lambda: K.conv2d_transpose(v(1, 2, 2, 1), v(1, 1, 1, 1), (1, HUGE, 2, 1)),
        ArgumentError,
        ("below 2**31",),
    ),
]

RANKS = [
    Wrong("zeros", lambda: K.zeros(AXES), ShapeError, ("65 axes are more than the",)),
    Wrong("placeholder", lambda: K.placeholder(AXES), ShapeError, ("65 axes",)),
    Wrong("reshape", lambda: K.reshape(v(1), AXES), ShapeError, ("65 axes",)),
    Wrong("x[...]", lambda: v(1)[(None,) * 65], ShapeError, ("66 axes",)),
    Wrong("dot", lambda: K.dot(v(*AXES[:33]), v(*AXES[:34])), ShapeError, ("65 axes",)),
]

FORMS = [
    Wrong("gradients", lambda: K.gradients(K.sum(v(2)), sparse.eye(2).tocoo()), ArgumentError),
    Wrong("dropout", lambda: K.dropout(v(2), sparse.eye(2).tocoo()), ArgumentError, ("level",)),
    Wrong("repeat", lambda: K.repeat(v(1, 2), np.timedelta64(3, "s")), ArgumentError, ("got",)),
    Wrong("one_hot", lambda: K.one_hot([1], np.timedelta64(3, "s")), ArgumentError, ("got",)),
    Wrong("foldl", lambda: K.foldl(lambda a, b: a + b, v(2), name=ENDLESS), ArgumentError, (TOLD,)),
    Wrong("temporal_padding", lambda: K.eval(K.temporal_padding(v(0, 1, 1), 2**63)), ShapeError),
    Wrong("one_hot", lambda: K.eval(K.one_hot(np.zeros((0,), "int32"), 2**63)), ShapeError),
    Wrong("function", lambda: K.function([], [], updates=np.ones(3)), TypeError, ("updates must",)),
    Wrong("function", lambda: K.function([], [], updates=v(3)), TypeError, ("updates must",)),
    Wrong(
        "moving_average_update",
        lambda: K.moving_average_update(v(3), v(3), momentum=[[0.9], [0.1]]),
        ShapeError,
        ("float32[3]",),
    ),
    Wrong("int_shape", lambda: K.int_shape(np.ndarray), DtypeError, ("the class ndarray",)),
    Wrong("ndim", lambda: K.ndim(np.ndarray), DtypeError, ("the class ndarray",)),
    Wrong("count_params", lambda: K.count_params(np.ndarray), DtypeError, ("class ndarray",)),
    *[
        Wrong("rnn", call, ArgumentError, ("states, but there are 1 initial states",))
        for call in (
            lambda: turned(0)(),
            lambda: turned(2)(unroll=True),
            lambda: turned(0)(unroll=True),
            lambda: turned(2)(unroll=True, mask=v(2, 3)),
            lambda: turned(0)(unroll=True, mask=v(2, 3)),
        )
    ],
]

WRONG = [*NUMBERS, *RANKS, *FORMS]
