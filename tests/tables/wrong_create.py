"""Wrong calls of functions that make tensors, of facts about them, and of the settings."""

from __future__ import annotations

import numpy as np
from wrong import Wrong, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, OutOfMemory, ShapeError

MAKE = [
    Wrong("arange", lambda: K.arange(0, 5, 0), ArgumentError, ("step must not be 0",)),
    Wrong("arange", lambda: K.arange("a"), ArgumentError, ("start", "'a'")),
    Wrong("arange", lambda: K.arange(3, dtype="float8"), DtypeError, ("'float8'",)),
    Wrong("arange", lambda: K.arange(2**31 - 1, 2**31 + 1), DtypeError, ("2147483648", "int64")),
    Wrong("arange", lambda: K.arange(3, -3, -1, dtype="uint8"), DtypeError, ("-2", "uint8")),
    Wrong("arange", lambda: K.arange(2**70, 2**70 + 2), ArgumentError, (str(2**70),)),
    Wrong("zeros", lambda: K.zeros((0, 2**62, 2**62)), ShapeError, ("too large for any array",)),
    Wrong("arange", lambda: K.arange(10**12), OutOfMemory, ("available",)),
    Wrong("arange", lambda: K.arange(0, x(2, 3)), ArgumentError, ("stop", "float32[2, 3]")),
    Wrong("arange", lambda: K.arange(0, 5, x()), ArgumentError, ("step must be a known number",)),
    Wrong("eye", lambda: K.eye(-1), ShapeError, ("-1",)),
    Wrong("eye", lambda: K.eye(2.5), ArgumentError, ("2.5",)),
    Wrong("eye", lambda: K.eye((2, 3, 4)), ArgumentError, ("(2, 3, 4)",)),
    Wrong("eye", lambda: K.eye(2, dtype="float8"), DtypeError, ("'float8'",)),
    Wrong("constant", lambda: K.constant("a"), DtypeError, ("value is the string 'a'",)),
    Wrong("constant", lambda: K.constant([1, 2], shape=(3,)), ShapeError, ("[2]", "[3]")),
    Wrong("constant", lambda: K.constant(1, dtype="float8"), DtypeError, ("'float8'",)),
    Wrong("constant", lambda: K.constant(1, name=3), ArgumentError, ("name", "3")),
    Wrong(
        "constant",
        lambda: K.constant([[1], [2, 3]]),
        ArgumentError,
        ("rows differ",),
    ),
    Wrong("variable", lambda: K.variable("a"), DtypeError, ("value is the string 'a'",)),
    Wrong("variable", lambda: K.variable(None), DtypeError, ("None",)),
    Wrong("variable", lambda: K.variable(1.0, dtype="float8"), DtypeError, ("'float8'",)),
    Wrong("variable", lambda: K.variable(1.0, name=3), ArgumentError, ("name", "3")),
    Wrong("placeholder", lambda: K.placeholder(True), ArgumentError, ("integers or None", "True")),
    Wrong("placeholder", lambda: K.placeholder((2, True)), ArgumentError, ("got True",)),
    Wrong("placeholder", lambda: K.placeholder((-1,)), ArgumentError, ("-1",)),
    Wrong("placeholder", lambda: K.placeholder(ndim=1.5), ArgumentError, ("1.5",)),
    Wrong("placeholder", lambda: K.placeholder((2,), ndim=3), ShapeError, ("[2]", "ndim is 3")),
    Wrong("placeholder", lambda: K.placeholder((2,), dtype="x"), DtypeError, ("'x'",)),
]


def of_filled(name: str) -> list[Wrong]:
    function = getattr(K, name)
    return [
        Wrong(name, lambda: function((None, 2)), ArgumentError, ("got None", "try K.shape")),
        Wrong(name, lambda: function((-1, 2)), ShapeError, ("-1",)),
        Wrong(name, lambda: function(2.5), ArgumentError, ("2.5",)),
        Wrong(name, lambda: function((None, 2)), ArgumentError, ("None",)),
        Wrong(name, lambda: function((2,), "float8"), DtypeError, ("'float8'",)),
        Wrong(name, lambda: function((2,), name=3), ArgumentError, ("name", "3")),
        Wrong(name, lambda: function((10**6, 10**6)), OutOfMemory, ("available",)),
    ]


def of_like(name: str) -> list[Wrong]:
    function = getattr(K, name)
    return [
        Wrong(name, lambda: function("text"), DtypeError, ("the string",)),
        Wrong(name, lambda: function(v(2), "float8"), DtypeError, ("'float8'", "float32[2]")),
        Wrong(name, lambda: function(x(None), name=3), ArgumentError, ("float32[?]",)),
    ]


FACTS = [
    Wrong("is_keras_tensor", lambda: K.is_keras_tensor(3), ArgumentError, ("int",)),
    Wrong("is_keras_tensor", lambda: K.is_keras_tensor("a"), ArgumentError, ("str",)),
    Wrong("is_keras_tensor", lambda: K.is_keras_tensor(np.ones(2)), ArgumentError, ("ndarray",)),
    Wrong("to_dense", lambda: K.to_dense("text"), DtypeError, ("the string",)),
    Wrong("to_dense", lambda: K.to_dense(None), DtypeError, ("None",)),
    Wrong(
        "to_dense",
        lambda: K.to_dense([[1], [2, 3]]),
        ArgumentError,
        ("rows differ",),
    ),
    Wrong("count_params", lambda: K.count_params(x(None, 3)), TypeError, ("float32[?, 3]",)),
    *[
        Wrong(name, lambda name=name, one=one: getattr(K, name)(one), error, (says,))
        for name in ("int_shape", "get_variable_shape", "ndim", "dtype", "count_params")
        for one, error, says in (
            ("text", DtypeError, "the string"),
            (None, DtypeError, "None"),
            ([[1], [2, 3]], ArgumentError, "rows differ"),
        )
    ],
]

SETTINGS = [
    Wrong("cast_to_floatx", lambda: K.cast_to_floatx("a"), DtypeError, ("the string",)),
    Wrong("cast_to_floatx", lambda: K.cast_to_floatx(None), DtypeError, ("None",)),
    Wrong("cast_to_floatx", lambda: K.cast_to_floatx([[1], [2, 3]]), ArgumentError, ("array",)),
    Wrong("cast_to_floatx", lambda: K.cast_to_floatx(x(2)), TypeError, ("symbolic",)),
    Wrong("set_floatx", lambda: K.set_floatx("float8"), ArgumentError, ("'float8'", "float16")),
    Wrong("set_floatx", lambda: K.set_floatx(32), ArgumentError, ("32",)),
    Wrong("set_floatx", lambda: K.set_floatx(None), ArgumentError, ("None",)),
    Wrong("set_epsilon", lambda: K.set_epsilon(-1), ArgumentError, ("-1",)),
    Wrong("set_epsilon", lambda: K.set_epsilon("a"), ArgumentError, ("'a'",)),
    Wrong("set_epsilon", lambda: K.set_epsilon(float("nan")), ArgumentError, ("nan",)),
    Wrong(
        "set_image_data_format",
        lambda: K.set_image_data_format("nhwc"),
        ArgumentError,
        ("'nhwc'", "channels_last"),
    ),
    Wrong("set_image_data_format", lambda: K.set_image_data_format(None), ArgumentError, ("None",)),
    Wrong("set_image_data_format", lambda: K.set_image_data_format(3), ArgumentError, ("3",)),
    Wrong("normalize_data_format", lambda: K.normalize_data_format("a"), ArgumentError, ("'a'",)),
    Wrong("normalize_data_format", lambda: K.normalize_data_format(3), ArgumentError, ("3",)),
    Wrong("normalize_data_format", lambda: K.normalize_data_format([]), ArgumentError, ("[]",)),
    Wrong("set_exact", lambda: K.set_exact(1), ArgumentError, ("1",)),
    Wrong("set_exact", lambda: K.set_exact(None), ArgumentError, ("None",)),
    Wrong("set_exact", lambda: K.set_exact("yes"), ArgumentError, ("'yes'",)),
    Wrong("set_num_threads", lambda: K.set_num_threads(0), ArgumentError, ("0",)),
    Wrong("set_num_threads", lambda: K.set_num_threads(1.5), ArgumentError, ("1.5",)),
    Wrong("set_num_threads", lambda: K.set_num_threads("a"), ArgumentError, ("'a'",)),
    Wrong("set_num_threads", lambda: K.set_num_threads(True), ArgumentError, ("True",)),
]

WRONG = MAKE + FACTS + SETTINGS
WRONG += [row for name in ("zeros", "ones") for row in of_filled(name)]
WRONG += [row for name in ("zeros_like", "ones_like") for row in of_like(name)]
