"""Wrong calls of the random distributions, of the variables made of them, and of dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
from wrong import Wrong, fed, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, OutOfMemory, ShapeError

NAN = float("nan")
DRAWS = (
    "random_uniform random_normal truncated_normal random_binomial random_bernoulli "
    "random_uniform_variable random_normal_variable"
).split()


def of_all(name: str) -> list[Wrong]:
    """What no distribution takes: shapes, dtypes and seeds that are none."""
    function = getattr(K, name)
    more = (0.0, 1.0) if name.endswith("variable") else ()

    def call(shape: Any, **options: Any) -> Any:
        return function(shape, *more, **options)

    return [
        Wrong(name, lambda: call((2, -1)), ShapeError, ("negative", "-1")),
        Wrong(name, lambda: call((2, 1.5)), ArgumentError, ("shape", "1.5")),
        Wrong(name, lambda: call("ab"), ArgumentError, ("shape", "'ab'")),
        Wrong(name, lambda: call((2,), dtype="complex64"), DtypeError, ("complex64",)),
        Wrong(name, lambda: call((2,), seed=1.5), ArgumentError, ("seed", "1.5")),
        Wrong(name, lambda: call((2,), seed="a"), ArgumentError, ("seed", "'a'")),
        Wrong(name, lambda: call((2,), unknown=1), TypeError, ("unknown",)),
    ]


def of_normal(name: str) -> list[Wrong]:
    function = getattr(K, name)
    return [
        Wrong(name, lambda: function((2,), dtype="int32"), DtypeError, ("float32", "int32")),
        Wrong(name, lambda: function((2,), 0.0, -1.0), ArgumentError, ("stddev", "-1.0")),
        Wrong(name, lambda: function((2,), NAN), ArgumentError, ("mean must be finite",)),
        Wrong(name, lambda: function((2,), "x"), ArgumentError, ("mean", "'x'")),
        Wrong(
            name,
            lambda: function((2,), v(3, 2)),
            ShapeError,
            ("do not fit float32[2]", "float32[3, 2]"),
        ),
    ]


def of_binomial(name: str) -> list[Wrong]:
    function = getattr(K, name)
    return [
        Wrong(name, lambda: function((2,), 1.5), ArgumentError, ("between 0 and 1", "1.5")),
        Wrong(name, lambda: function((2,), NAN), ArgumentError, ("p must be finite",)),
        Wrong(name, lambda: function((2,), v(4, 2)), ShapeError, ("float32[2]", "[4, 2]")),
    ]


def negative_at_run() -> Any:
    sizes = x(2, dtype="int32")
    return fed(K.random_normal(sizes), (sizes, np.array([2, -3])))


def huge_at_run() -> Any:
    sizes = x(2, dtype="int64")
    return fed(K.random_uniform(sizes), (sizes, np.array([2**30, 2**30])))


def mask_at_run() -> Any:
    sizes = x(2, dtype="int32")
    dropped = K.dropout(np.ones((4, 3)), 0.5, noise_shape=sizes)
    return fed(dropped, (sizes, np.array([5, 3])))


UNIFORM, DROPOUT = "random_uniform", "dropout"

WRONG = [
    *[row for name in DRAWS for row in of_all(name)],
    *[row for name in ("random_normal", "truncated_normal") for row in of_normal(name)],
    *[row for name in ("random_binomial", "random_bernoulli") for row in of_binomial(name)],
    Wrong("random_normal", negative_at_run, ShapeError, ("negative", "-3")),
    Wrong(UNIFORM, huge_at_run, OutOfMemory, ("GB",)),
    Wrong(UNIFORM, lambda: K.random_uniform((2,), 1.0, 0.0), ArgumentError, ("minval <= maxval",)),
    Wrong(UNIFORM, lambda: K.random_uniform((2,), 0, NAN), ArgumentError, ("maxval must be",)),
    Wrong(UNIFORM, lambda: K.random_uniform((2,), 3, 3, "int32"), ArgumentError, ("minval <",)),
    Wrong(UNIFORM, lambda: K.random_uniform((2,), 0, 300, "uint8"), ArgumentError, ("uint8",)),
    Wrong(UNIFORM, lambda: K.random_uniform((2,), 0.5, 3, "int32"), ArgumentError, ("whole",)),
    Wrong(UNIFORM, lambda: K.random_uniform((2,), -1e38, 1e39), ArgumentError, ("float32",)),
    Wrong(UNIFORM, lambda: K.random_uniform((2,), dtype="bool"), DtypeError, ("bool",)),
    Wrong(
        UNIFORM,
        lambda: K.random_uniform((2, 2), v(3), 1.0),
        ShapeError,
        ("float32[3]", "[2, 2]"),
    ),
    Wrong(
        "random_uniform_variable",
        lambda: K.random_uniform_variable((2,), 1.0, 0.0),
        ArgumentError,
        ("minval <= maxval",),
    ),
    Wrong(
        "random_normal_variable",
        lambda: K.random_normal_variable((2,), 0.0, -1.0),
        ArgumentError,
        ("-1.0",),
    ),
    Wrong(DROPOUT, lambda: K.dropout(v(2), 1.0), ArgumentError, ("level", "1.0", "float32[2]")),
    Wrong(DROPOUT, lambda: K.dropout(v(2), -0.1), ArgumentError, ("level", "-0.1")),
    Wrong(DROPOUT, lambda: K.dropout(v(2), NAN), ArgumentError, ("level", "nan")),
    Wrong(DROPOUT, lambda: K.dropout(v(2), "half"), ArgumentError, ("level", "'half'")),
    Wrong(DROPOUT, lambda: K.dropout(v(2), v()), ArgumentError, ("level must be a number",)),
    Wrong(DROPOUT, lambda: K.dropout("text", 0.5), DtypeError, ("the string",)),
    Wrong(
        DROPOUT,
        lambda: K.dropout(x(None, 4), 0.5, noise_shape=(2, 3)),
        ShapeError,
        ("x is float32[?, 4]", "[2, 3]"),
    ),
    Wrong(
        DROPOUT,
        lambda: K.dropout(v(2, 3), 0.5, noise_shape=(None, 3, 1)),
        ShapeError,
        ("float32[2, 3]", "noise_shape has 3 entries"),
    ),
    Wrong(DROPOUT, lambda: K.dropout(v(2), 0.5, seed="x"), ArgumentError, ("seed", "'x'")),
    Wrong(DROPOUT, mask_at_run, ShapeError, ("float64[4, 3]", "[5, 3]")),
]
