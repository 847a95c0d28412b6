"""The op table: sparse tensors, made of dense operands on the way, and what hands values on."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import ANY, FLOATS, Case, product

from kbench import backend as K

WIDE = ("float32", "float64")
SPARSE = (*WIDE, "int8", "uint8", "int32", "int64", "bool")
MATRICES = (((4, 3),), ((0, 3),), ((3, 0),), ((1, 1),))


def full(x: Any) -> Any:
    """How many entries each row has: all of them."""
    return K.sum(K.ones_like(K.cast(x, "int32")), axis=1)


def sparse_of(x: Any) -> Any:
    """A sparse tensor that keeps every entry of a dense one."""
    return K.ctc_label_dense_to_sparse(x, full(x))


def _labels(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    return np.where(np.arange(x.shape[1]) < lengths[:, None], x, 0)


def _joined(*xs: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate(xs, axis)


def _integer(x: np.ndarray) -> np.ndarray:
    return np.trunc(x).astype("int32")


SPARSE_CASES = [
    Case(
        "to_dense",
        MATRICES,
        lambda x: x,
        dtypes=SPARSE,
        gradient=False,
        call=lambda x: K.to_dense(sparse_of(x)),
    ),
    Case("to_dense", (((4, 3),), ((),)), lambda x: x, dtypes=ANY),
    Case(
        "cast",
        MATRICES,
        _integer,
        dtypes=("float32", "float64", "int8", "int64"),
        result="int32",
        gradient=False,
        call=lambda x: K.to_dense(K.cast(sparse_of(x), "int32")),
    ),
    Case(
        "dot",
        [((4, 3), (3, 2)), ((4, 3), (3,)), ((4, 3), (3, 0)), ((0, 3), (3, 2)), ((3, 0), (0, 2))],
        np.dot,
        dtypes=(*WIDE, "int32", "int64"),
        gradient=(False, True),
        smooth=True,
        scale=2,
        call=lambda x, y: K.dot(sparse_of(x), y),
    ),
    Case(
        "dot",
        [((4, 3), (3, 2)), ((3,), (3, 2)), ((2, 3), (3, 0)), ((0, 3), (3, 2)), ((2, 0), (0, 2))],
        np.dot,
        dtypes=(*WIDE, "int32", "int64"),
        gradient=(True, False),
        smooth=True,
        scale=2,
        call=lambda x, y: K.dot(x, sparse_of(y)),
    ),
    Case(
        "concatenate",
        [((4, 3), (4, 3)), ((0, 3), (0, 3)), ((1, 1), (1, 1), (1, 1))],
        _joined,
        options=product(axis=[0, 1, -1]),
        dtypes=SPARSE,
        gradient=False,
        call=lambda *xs, axis: K.to_dense(K.concatenate([sparse_of(x) for x in xs], axis)),
    ),
    Case(
        "concatenate",
        [((4, 3), (4, 3))],
        _joined,
        options=product(axis=[0, 1]),
        dtypes=WIDE,
        gradient=(False, True),
        call=lambda x, y, axis: K.concatenate([sparse_of(x), y], axis),
    ),
    Case(
        "ctc_label_dense_to_sparse",
        [((4, 3), (4,)), ((0, 3), (0,)), ((2, 0), (2,))],
        _labels,
        domain=((-9, 9), (0, 0)),
        dtypes=SPARSE,
        fixed={1: "int32"},
        gradient=False,
        call=lambda x, n: K.to_dense(K.ctc_label_dense_to_sparse(x, n)),
    ),
    Case(
        "ctc_label_dense_to_sparse",
        [((4, 3), (4,)), ((5, 3), (5,))],
        _labels,
        domain=((-9, 9), (0, 3)),
        dtypes=SPARSE,
        fixed={1: "int64"},
        gradient=False,
        call=lambda x, n: K.to_dense(K.ctc_label_dense_to_sparse(x, n)),
    ),
    Case("print_tensor", [((4, 3),), ((),), ((0, 3),)], lambda x: x, dtypes=ANY, smooth=True),
    Case(
        "pattern_broadcast",
        [((4, 1),)],
        lambda x, broadcastable: x,
        options=[{"broadcastable": (False, True)}],
        dtypes=FLOATS,
    ),
]
