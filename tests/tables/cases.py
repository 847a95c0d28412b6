"""The op table: element by element functions, reductions, and scans. `cases_more` has the rest."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from case import ANY, BINARY, FLOATS, NUMBERS, UNARY, Case, product
from cases_conv import CONV_CASES
from cases_ctc import CTC_CASES
from cases_loops import LOOP_CASES
from cases_more import ARRAY_CASES
from cases_pool import POOL_CASES
from cases_sparse import SPARSE_CASES

from kbench import backend as K
from kbench.engine.ops.elementwise import elementary
from kbench.engine.ops.elementwise.arithmetic import where
from kbench.engine.ops.elementwise.elementary import settled


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: function(2.5, x)


def _pow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.power(x, y)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0)


def _relu(
    x: np.ndarray, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0.0
) -> np.ndarray:
    above = x if max_value is None else np.minimum(x, max_value)
    return np.where(x > threshold, above, alpha * (x - threshold))


def _elu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.where(x > 0, x, alpha * np.expm1(x))


ELEMENTWISE = [
    Case("exp", UNARY, np.exp, dtypes=ANY, result="float", smooth=True),
    Case("log", UNARY, np.log, domain=(0.5, 4), dtypes=NUMBERS, result="float", smooth=True),
    Case("sin", UNARY, np.sin, dtypes=ANY, result="float", smooth=True),
    Case("cos", UNARY, np.cos, dtypes=ANY, result="float", smooth=True),
    Case("sqrt", UNARY, np.sqrt, domain=(0.5, 9), dtypes=NUMBERS, result="float", smooth=True),
    Case("square", UNARY, np.square, dtypes=NUMBERS, smooth=True),
    Case("abs", UNARY, np.abs, dtypes=NUMBERS),
    Case("sign", UNARY, np.sign, dtypes=NUMBERS),
    Case("round", UNARY, np.rint, dtypes=ANY, gradient=False),
    Case("sigmoid", UNARY, lambda x: 1 / (1 + np.exp(-x)), smooth=True),
    Case("tanh", UNARY, np.tanh, smooth=True),
    Case("softplus", UNARY, _softplus, smooth=True),
    Case("erf", UNARY, np.vectorize(math.erf, otypes="d"), call=elementary.erf, smooth=True),
    Case("expm1", UNARY, np.expm1, call=elementary.expm1, smooth=True),
    Case("log1p", UNARY, np.log1p, domain=(-0.5, 4), call=elementary.log1p, smooth=True),
    Case("floor", UNARY, np.floor, call=elementary.floor, gradient=False),
    Case("ceil", UNARY, np.ceil, call=elementary.ceil, gradient=False),
    Case("softsign", UNARY, lambda x: x / (1 + np.abs(x))),
    Case("hard_sigmoid", UNARY, lambda x: np.clip(0.2 * x + 0.5, 0, 1), domain=(-4, 4)),
    Case("elu", UNARY, _elu, options=product(alpha=[1.0, 0.3])),
    Case(
        "relu",
        UNARY,
        _relu,
        options=product(alpha=[0.0, 0.25], max_value=[None, 1.5], threshold=[0.0, 0.5]),
    ),
    Case("negative", UNARY, np.negative, dtypes=NUMBERS, call=operator.neg, smooth=True),
    Case("positive", UNARY, np.positive, dtypes=NUMBERS, call=operator.pos),
    Case("number_minus", UNARY, _reflected(operator.sub), call=_reflected(operator.sub)),
    Case(
        "number_divided",
        UNARY,
        _reflected(operator.truediv),
        domain=(0.5, 3),
        call=_reflected(operator.truediv),
        smooth=True,
    ),
    Case("number_power", UNARY, _reflected(operator.pow), call=_reflected(operator.pow)),
    Case(
        "clip",
        UNARY,
        lambda x, min_value, max_value: np.clip(x, min_value, max_value),
        options=[{"min_value": -1, "max_value": 2}],
        dtypes=(*FLOATS, "int8", "int32", "int64"),
    ),
    Case(
        "pow",
        UNARY,
        lambda x, a: np.power(x, a),
        options=product(a=[0, 1, 2, 3]),
        domain=(0.5, 3),
        dtypes=NUMBERS,
    ),
    Case(
        "pow_fraction",
        UNARY,
        lambda x, a: np.power(x, a),
        options=product(a=[0.3, -1.5]),
        domain=(0.5, 3),
        call=lambda x, a: x**a,
        smooth=True,
    ),
    Case("add", BINARY, np.add, dtypes=NUMBERS, call=operator.add, smooth=True),
    Case("subtract", BINARY, np.subtract, dtypes=NUMBERS, call=operator.sub, smooth=True),
    Case("multiply", BINARY, np.multiply, dtypes=NUMBERS, call=operator.mul, smooth=True),
    Case(
        "divide",
        BINARY,
        np.divide,
        domain=[(-3, 3), (0.5, 3)],
        dtypes=NUMBERS,
        result="divide",
        call=operator.truediv,
        smooth=True,
    ),
    Case(
        "floordiv",
        BINARY,
        np.floor_divide,
        domain=[(-9, 9), (0.7, 4)],
        dtypes=NUMBERS,
        gradient=False,
        call=operator.floordiv,
    ),
    Case(
        "mod",
        BINARY,
        np.mod,
        domain=[(-9, 9), (0.7, 4)],
        dtypes=("float32", "float64", "int8", "uint8", "int32", "int64"),
        call=operator.mod,
    ),
    Case("power", BINARY, _pow, domain=(0.5, 3), dtypes=NUMBERS, call=operator.pow, smooth=True),
    Case("maximum", BINARY, np.maximum, dtypes=ANY),
    Case("minimum", BINARY, np.minimum, dtypes=ANY),
    Case(
        "settled",
        UNARY,
        lambda x: np.where(np.abs(x) < 0.5, 0, x),
        call=lambda x: settled(x, 0.5),
    ),
]

COMPARE = [
    Case(name, BINARY, function, dtypes=ANY, result="bool", gradient=False)
    for name, function in (
        ("equal", np.equal),
        ("not_equal", np.not_equal),
        ("greater", np.greater),
        ("greater_equal", np.greater_equal),
        ("less", np.less),
        ("less_equal", np.less_equal),
    )
] + [
    Case(name, BINARY, function, dtypes=("bool",), result="bool", gradient=False, call=call)
    for name, function, call in (
        ("logical_and", np.logical_and, operator.and_),
        ("logical_or", np.logical_or, operator.or_),
        ("logical_xor", np.logical_xor, operator.xor),
    )
]

CHOICE = [
    Case(
        "logical_not",
        UNARY,
        np.logical_not,
        dtypes=("bool",),
        result="bool",
        gradient=False,
        call=operator.invert,
    ),
    Case(
        "where",
        [((4, 3), (4, 3), (4, 3)), ((3,), (4, 1), ()), ((), (), ())],
        np.where,
        dtypes=ANY,
        fixed={0: "bool"},
        call=where,
    ),
    Case(
        "switch",
        [((), (4, 3), (4, 3)), ((4, 3), (4, 3), (4, 3))],
        np.where,
        dtypes=NUMBERS,
        fixed={0: "bool"},
    ),
    Case(
        "switch_rows",
        [((4,), (4, 3), (4, 3))],
        lambda c, x, y: np.where(c[:, None], x, y),
        dtypes=NUMBERS,
        fixed={0: "bool"},
        call=lambda c, x, y: K.switch(c, x, y),
    ),
] + [
    Case(
        "cast",
        UNARY,
        lambda x, dtype: x != 0 if dtype == "bool" else x.astype(dtype),
        options=[{"dtype": target}],
        dtypes=ANY if target in FLOATS else ("float32", "float64", "int32", "bool"),
        domain=(0, 100),
        result=target,
        gradient=target in FLOATS,
        scale=1000.0 if target == "float16" else 1.0,
    )
    for target in ("float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool")
]

# ------------------------------------------------------------------ reductions and scans

CUBE = [((2, 3, 4),), ((5,),), ((),), ((2, 0, 3),)]
FILLED = [((2, 3, 4),), ((5,),), ((),)]
AXES = product(axis=[None, 0, -1], keepdims=[False, True])


def _over(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy reduction that takes the axis of a scalar too."""

    def run(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> Any:
        return function(x, axis=axis, keepdims=keepdims)

    return run


def _logsumexp(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def _normalized(x: np.ndarray, axis: Any = None) -> np.ndarray:
    return x / np.sqrt(np.maximum(np.sum(x * x, axis=axis, keepdims=True), 1e-12))


def _reduction(name: str, function: Callable[..., Any], **rest: Any) -> list[Case]:
    """The rows of one reduction: every form of axis that each shape has."""
    rest.setdefault("shapes", CUBE)
    vectors = [one for one in rest.pop("shapes") if one != ((),)]
    several = product(axis=[(0, 2), [1, -1], ()], keepdims=[False, True])
    tupled = _over(lambda x, axis, keepdims: function(x, axis=_tuple(axis), keepdims=keepdims))
    return [
        Case(name, vectors, _over(function), options=AXES, **rest),
        Case(name, [((),)], _over(function), options=AXES[:2], **rest),
        Case(name, [((2, 3, 4),)], tupled, options=several, **rest),
    ]


def _tuple(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


REDUCE = [
    *_reduction("sum", np.sum, dtypes=ANY, result="number", smooth=True),
    *_reduction("prod", np.prod, dtypes=ANY, result="number", smooth=True, domain=(0.5, 2)),
    *_reduction("max", np.max, dtypes=ANY, shapes=FILLED),
    *_reduction("min", np.min, dtypes=ANY, shapes=FILLED),
    *_reduction("mean", np.mean, dtypes=ANY, result="float", shapes=FILLED),
    *_reduction("var", np.var, dtypes=ANY, result="float", shapes=FILLED, smooth=True, scale=4),
    Case("std", CUBE[:1], _over(np.std), options=AXES, result="float", scale=4),
    *_reduction("logsumexp", _logsumexp, result="float", shapes=FILLED, smooth=True),
    *_reduction("any", np.any, dtypes=ANY, result="bool", gradient=False),
    *_reduction("all", np.all, dtypes=ANY, result="bool", gradient=False),
    Case(
        "argmax",
        [((2, 3, 4),)],
        lambda x, axis: np.argmax(x, axis),
        options=product(axis=[0, 1, -1]),
        dtypes=ANY,
        result="int64",
        gradient=False,
    ),
    Case(
        "argmin",
        [((2, 3, 4),)],
        lambda x, axis: np.argmin(x, axis),
        options=product(axis=[0, 1, -1]),
        dtypes=ANY,
        result="int64",
        gradient=False,
    ),
    Case("l2_normalize", [((4, 3),)], _normalized, options=product(axis=[None, 0, -1])),
    Case(
        "cumsum",
        [((2, 3, 4),), ((2, 0),), ((5,),)],
        lambda x, axis: np.cumsum(x, axis, dtype=x.dtype),
        options=product(axis=[0, -1]),
        dtypes=NUMBERS,
        smooth=True,
    ),
    Case(
        "cumprod",
        [((2, 3, 4),), ((2, 0),), ((5,),)],
        lambda x, axis: np.cumprod(x, axis, dtype=x.dtype),
        options=product(axis=[0, -1]),
        dtypes=NUMBERS,
        domain=(0.5, 2),
        smooth=True,
    ),
]

CASES: list[Case] = [
    *ELEMENTWISE,
    *COMPARE,
    *CHOICE,
    *REDUCE,
    *ARRAY_CASES,
    *CONV_CASES,
    *CTC_CASES,
    *LOOP_CASES,
    *POOL_CASES,
    *SPARSE_CASES,
]
