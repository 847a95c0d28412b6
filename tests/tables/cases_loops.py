"""The op table: loops over an axis, against the same step run by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from case import FLOATS, Case, product

from kbench import backend as K

SIZES = (((3, 4, 2), (2, 5), (5, 5), (3, 5)), ((1, 1, 3), (3, 2), (2, 2), (1, 2)))
MASK = np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1]])


def _dense(w: Any, u: Any) -> Callable[..., Any]:
    def step(x: Any, states: Sequence[Any]) -> Any:
        h = K.tanh(K.dot(x, w) + K.dot(states[0], u))
        return h, [h]

    return step


def _rnn(x: Any, w: Any, u: Any, h: Any, masked: bool = False, **options: Any) -> Any:
    mask = K.constant(MASK) if masked else None
    last, outputs, states = K.rnn(_dense(w, u), x, [h], mask=mask, **options)
    return [last, outputs, *states]


def _rnn_numpy(
    x: np.ndarray,
    w: np.ndarray,
    u: np.ndarray,
    h: np.ndarray,
    masked: bool = False,
    go_backwards: bool = False,
    zero_output_for_mask: bool = False,
) -> list[np.ndarray]:
    output, outputs = np.zeros_like(h), []
    for time in range(x.shape[1])[:: -1 if go_backwards else 1]:
        present = MASK[:, time, None] == 1 if masked else np.array(True)
        new = np.tanh(x[:, time] @ w + h @ u)
        output = np.where(present, new, 0 * new if zero_output_for_mask else output)
        h = np.where(present, new, h)
        outputs.append(output)
    return [output, np.stack(outputs, 1), h]


def _fold(function: Callable[..., Any], x: np.ndarray, first: np.ndarray) -> np.ndarray:
    total = first
    for entry in x:
        total = function(total, entry)
    return total


def _decay(total: Any, entry: Any) -> Any:
    return total * 0.5 - entry * entry


LOOP_CASES = [
    Case(
        "rnn",
        SIZES,
        _rnn_numpy,
        options=product(go_backwards=[False, True]),
        domain=(-1, 1),
        call=_rnn,
        smooth=True,
        scale=4,
    ),
    Case(
        "rnn",
        SIZES[:1],
        _rnn_numpy,
        options=product(
            masked=[True], go_backwards=[False, True], zero_output_for_mask=[False, True]
        ),
        domain=(-1, 1),
        call=_rnn,
        smooth=True,
        scale=4,
    ),
    Case(
        "map_fn",
        (((3, 4), (4,)), ((1, 2), ()), ((0, 3), (3,))),
        lambda x, w: np.array([np.square(row) * w for row in x]).reshape(x.shape),
        call=lambda x, w: K.map_fn(lambda row: K.square(row) * w, x),
        smooth=True,
    ),
    Case(
        "foldl",
        (((3, 4), (4,)), ((5,), ()), ((0, 2), (2,))),
        lambda x, first: _fold(_decay, x, first),
        call=lambda x, first: K.foldl(_decay, x, initializer=first),
        domain=(-1, 1),
        dtypes=FLOATS,
        smooth=True,
        scale=2,
    ),
    Case(
        "foldr",
        (((3, 4), (4,)), ((5,), ()), ((0, 2), (2,))),
        lambda x, first: _fold(_decay, x[::-1], first),
        call=lambda x, first: K.foldr(_decay, x, initializer=first),
        domain=(-1, 1),
        dtypes=FLOATS,
        smooth=True,
        scale=2,
    ),
    Case(
        "sized",
        (((3, 4, 2),),),
        lambda x: np.stack([x[:, time] for time in range(4)], 1),
        call=lambda x: K.rnn(lambda entry, _: (entry, []), x, [], unroll=True, input_length=4)[1],
    ),
]
