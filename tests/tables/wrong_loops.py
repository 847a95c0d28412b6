"""Wrong calls of rnn, map_fn, foldl and foldr."""

from __future__ import annotations

from typing import Any

import numpy as np
from wrong import Wrong, v, x

from kbench import backend as K


def _same(entry: Any, states: Any) -> Any:
    return entry, states


WRONG = [
    Wrong("rnn", lambda: K.rnn(_same, x(2, 3), []), K.ShapeError, ("float32[2, 3]", "rank 3")),
    Wrong(
        "rnn",
        lambda: K.rnn(lambda e, s: (e, []), x(2, 3, 4), [v(2, 4)]),
        K.ArgumentError,
        ("returned 0 states", "1 initial"),
    ),
    Wrong("rnn", lambda: K.rnn(lambda e, s: e, x(2, 3, 4), []), K.ArgumentError, ("(output, ",)),
    Wrong(
        "rnn",
        lambda: K.rnn(lambda e, s: (e, [K.cast(s[0], "float64")]), x(2, 3, 4), [v(2, 4)]),
        K.DtypeError,
        ("state 0 is float32[2, 4]", "float64[2, 4]"),
    ),
    Wrong(
        "rnn",
        lambda: K.rnn(lambda e, s: (e, [K.sum(s[0])]), x(2, 3, 4), [v(2, 4)]),
        K.ShapeError,
        ("must keep its rank",),
    ),
    Wrong(
        "rnn",
        lambda: K.rnn(_same, x(2, None, 4), [], unroll=True),
        K.ShapeError,
        ("float32[2, ?, 4]", "known number of steps"),
    ),
    Wrong(
        "rnn",
        lambda: K.rnn(_same, x(2, 3, 4), [], input_length=5),
        K.ArgumentError,
        ("input_length is 5", "3 steps"),
    ),
    Wrong(
        "rnn",
        lambda: K.rnn(_same, x(2, 3, 4), [], mask=v(2, 5)),
        K.ShapeError,
        ("mask is float32[2, 5]", "axis 1"),
    ),
    Wrong(
        "+",  # only the fed sizes break the step, which does not need its state: done for all steps
        lambda: (lambda p: K.function([p], [K.rnn(lambda e, s: (e + v(5), s), p, [])[1]]))(
            x(None, None, None)
        )([np.zeros((2, 3, 4))]),
        K.ShapeError,
        ("[3, 2, 4]", "[5]", "sizes 4 and 5 differ on axis -1"),
    ),
    Wrong("map_fn", lambda: K.map_fn(lambda e: e, v()), K.ShapeError, ("float32[]",)),
    Wrong(
        "map_fn",
        lambda: K.map_fn(lambda e: e[0], (v(2), v(3))),
        K.ShapeError,
        ("float32[2], float32[3]", "differ in length"),
    ),
    Wrong("map_fn", lambda: K.map_fn(lambda e: None, v(2)), K.ArgumentError, ("got None",)),
    Wrong("map_fn", lambda: K.map_fn(lambda e: e, v(2), dtype="soft"), K.DtypeError, ("soft",)),
    Wrong("foldl", lambda: K.foldl(lambda a, e: a, v()), K.ShapeError, ("float32[]",)),
    Wrong(
        "foldl",
        lambda: K.foldl(lambda a, e: K.concatenate([a, e], 0), v(3, 2)),
        K.ShapeError,
        ("float32[2] before", "float32[4] after"),
    ),
    Wrong("foldl", lambda: K.foldl(lambda a, e: a + e, v(0, 2)), K.ShapeError, ("out of range",)),
    Wrong("foldr", lambda: K.foldr(lambda a, e: a, v()), K.ShapeError, ("float32[]",)),
    Wrong(
        "foldr",
        lambda: K.foldr(lambda a, e: K.cast(a, "int32"), v(3, 2)),
        K.DtypeError,
        ("int32[2] after",),
    ),
    Wrong(
        "foldr",
        lambda: K.foldr(lambda a, e: (a, a), v(3, 2)),
        K.ArgumentError,
        ("returned 2 tensors",),
    ),
]
