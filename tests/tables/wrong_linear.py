"""Wrong calls of products, normalisation and losses."""

from __future__ import annotations

import numpy as np
from wrong import Wrong, fed, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, ShapeError

PRODUCTS = [
    Wrong("dot", lambda: K.dot(x(None, 3), v(4, 5)), ShapeError, ("float32[?, 3]", "has 4")),
    Wrong("dot", lambda: K.dot("text", v(4, 5)), DtypeError, ("the string",)),
    Wrong(
        "dot",
        lambda a=None: fed(K.dot(a := x(None, None), v(4, 5)), (a, np.ones((2, 3)))),
        ShapeError,
        ("float32[2, 3]", "float32[4, 5]"),
    ),
    Wrong("dot", lambda: K.dot(v(2), v(3)), ShapeError, ("float32[2]", "float32[3]")),
    Wrong("@", lambda: v(4, 5) @ v(4, 5), ShapeError, ("has 5 on axis -1", "has 4 on axis -2")),
    Wrong("batch_dot", lambda: K.batch_dot(x(None, 3), v(4, 5)), ShapeError, ("float32[?, 3]",)),
    Wrong(
        "batch_dot",
        lambda: K.batch_dot(v(2, 3), v(4, 3)),
        ShapeError,
        ("batch sizes differ", "has 2 on axis 0", "has 4 on axis 0"),
    ),
    Wrong("batch_dot", lambda: K.batch_dot(v(2, 3), v(2, 3), axes=0), ArgumentError, ("batch",)),
    Wrong("batch_dot", lambda: K.batch_dot(v(2), v(2)), ShapeError, ("float32[2]",)),
    Wrong(
        "batch_dot",
        lambda: K.batch_dot(v(2, 3, 4), v(2, 5, 3), axes=[1, 1]),
        ShapeError,
        ("float32[2, 3, 4]", "float32[2, 5, 3]"),
    ),
    Wrong("bias_add", lambda: K.bias_add(x(None, 3), v(4)), ShapeError, ("float32[4]", "3")),
    Wrong("bias_add", lambda: K.bias_add(x(None, 3), v(4, 5)), ShapeError, ("rank 1",)),
    Wrong("bias_add", lambda: K.bias_add(v(2, 3), v(3), "nhwc"), ArgumentError, ("'nhwc'",)),
    Wrong("bias_add", lambda: K.bias_add("text", v(3)), DtypeError, ("the string",)),
]

NORM = [
    Wrong(
        "batch_normalization",
        lambda: K.batch_normalization(x(None, 3), v(5), v(5), v(5), v(5)),
        ShapeError,
        ("float32[5]", "float32[?, 3]"),
    ),
    Wrong(
        "batch_normalization",
        lambda: K.batch_normalization(v(2, 3), v(3), v(3), None, None, axis=4),
        ShapeError,
        ("axis 4",),
    ),
    Wrong(
        "batch_normalization",
        lambda: K.batch_normalization("text", v(3), v(3), None, None),
        DtypeError,
        ("the string",),
    ),
    Wrong(
        "normalize_batch_in_training",
        lambda: K.normalize_batch_in_training(x(None, 3), None, None, [5]),
        ShapeError,
        ("axis 5",),
    ),
    Wrong(
        "normalize_batch_in_training",
        lambda: K.normalize_batch_in_training(v(2, 3), v(4), v(4), [0]),
        ShapeError,
        ("float32[4]",),
    ),
    Wrong(
        "normalize_batch_in_training",
        lambda: K.normalize_batch_in_training("text", None, None, [0]),
        DtypeError,
        ("the string",),
    ),
]


def of_loss(name: str) -> list[Wrong]:
    function = getattr(K, name)
    return [
        Wrong(
            name,
            lambda: function(x(None, 3), v(4, 5)),
            ShapeError,
            ("float32[?, 3]", "float32[4, 5]"),
        ),
        Wrong(name, lambda: function("text", v(4, 5)), DtypeError, ("the string",)),
        Wrong(name, lambda: function(v(4, 5), None), DtypeError, ("None",)),
        Wrong(
            name,
            lambda a=None: fed(function(a := x(None, None), v(4, 5)), (a, np.ones((4, 3)))),
            ShapeError,
            ("float32[4, 3]", "float32[4, 5]"),
        ),
    ]


def classes() -> object:
    """A placeholder of two class numbers."""
    return x(2, dtype="int32")


LOSSES = [
    Wrong(
        "categorical_crossentropy",
        lambda: K.categorical_crossentropy(v(2, 3), v(2, 3), axis=5),
        ShapeError,
        ("axis 5",),
    ),
    Wrong(
        "categorical_focal_crossentropy",
        lambda: K.categorical_focal_crossentropy(v(2, 3), v(2, 3), axis=5),
        ShapeError,
        ("axis 5",),
    ),
    Wrong(
        "sparse_categorical_crossentropy",
        lambda: K.sparse_categorical_crossentropy(v(4, 1), v(2, 3)),
        ShapeError,
        ("float32[4, 1]", "float32[2, 3]"),
    ),
    Wrong(
        "sparse_categorical_crossentropy",
        lambda: K.sparse_categorical_crossentropy(v(2), v(2, 3), axis=5),
        ShapeError,
        ("axis 5",),
    ),
    Wrong(
        "sparse_categorical_crossentropy",
        lambda: K.sparse_categorical_crossentropy("text", v(2, 3)),
        DtypeError,
        ("the string",),
    ),
    Wrong(
        "sparse_categorical_crossentropy",
        lambda a=None: fed(
            K.sparse_categorical_crossentropy(a := classes(), v(2, 3)), (a, np.array([1, 3]))
        ),
        ArgumentError,
        ("class 3", "3 classes", "float32[2, 3]"),
    ),
    Wrong(
        "sparse_categorical_crossentropy",
        lambda a=None: fed(
            K.sparse_categorical_crossentropy(a := classes(), v(2, 3), ignore_class=-1),
            (a, np.array([-1, 3])),
        ),
        ArgumentError,
        ("class 3", "3 classes", "float32[2, 3]"),
    ),
    *[
        Wrong(
            "sparse_categorical_crossentropy",
            lambda given=given: K.sparse_categorical_crossentropy(
                v(2), v(2, 3), ignore_class=given
            ),
            ArgumentError,
            ("ignore_class must", repr(given)),
        )
        for given in (1.5, "1", True, 2**70)
    ],
    Wrong("in_top_k", lambda: K.in_top_k(v(4, 5), x(None, 3), 2), ShapeError, ("float32[4, 5]",)),
    Wrong("in_top_k", lambda: K.in_top_k(v(4, 5), v(3), 2), ShapeError, ("[3]",)),
    Wrong("in_top_k", lambda: K.in_top_k(v(4, 5), v(4), 1.5), ArgumentError, ("1.5",)),
    Wrong("in_top_k", lambda: K.in_top_k("text", v(4), 1), DtypeError, ("the string",)),
]

NAMES = ["categorical_crossentropy", "binary_crossentropy"]
NAMES += ["categorical_focal_crossentropy", "binary_focal_crossentropy"]
WRONG = PRODUCTS + NORM + LOSSES + [row for name in NAMES for row in of_loss(name)]
