"""One entry of each row, by the number of its class, and what puts it back."""

from __future__ import annotations

import numpy as np

from kbench.engine.core.errors import ArgumentError, ShapeError
from kbench.engine.core.spec import Spec
from kbench.engine.graph.apply import apply
from kbench.engine.graph.expr.expression import COLUMN, Expr, call, cast, number_leaf
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.row_form import RowBuilder, RowForm


def _pick_infer(x: Spec, indices: Spec, *, axis: int) -> Spec:
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    for ours, theirs in zip(rest, indices.shape, strict=True):
        if None not in (ours, theirs) and ours != theirs:
            raise ShapeError(f"output is {x}, which does not fit the classes {indices}")
    return Spec(rest, x.dtype)


def _checked(indices: np.ndarray, classes: int) -> np.ndarray:
    wrong = (indices < 0) | (indices >= classes)
    if wrong.any():
        raise ArgumentError(
            f"class {indices[wrong].flat[0]} is out of range for {classes} classes", operands=()
        )
    return indices


def _pick_numpy(
    out: np.ndarray | None, x: np.ndarray, indices: np.ndarray, *, axis: int
) -> np.ndarray:
    index = np.expand_dims(_checked(indices, x.shape[axis]), axis)
    picked = np.take_along_axis(x, index, axis).squeeze(axis)
    if out is None:
        return picked
    out[...] = picked
    return out


def _put_numpy(
    out: np.ndarray | None, g: np.ndarray, indices: np.ndarray, x: np.ndarray, *, axis: int
) -> np.ndarray:
    if out is None:
        out = np.empty(x.shape, g.dtype)
    out[...] = 0
    index = np.expand_dims(_checked(indices, x.shape[axis]), axis)
    np.put_along_axis(out, index, np.expand_dims(g, axis), axis)
    return out


def _pick_written(rows: RowBuilder, dtype: str, x: Expr, place: Expr) -> Expr:
    return rows.node(x + place, dtype, "pick")


def _put_written(rows: RowBuilder, dtype: str, g: Expr, place: Expr) -> Expr:
    chosen = call("equal", COLUMN, place)
    return rows.node(call("where", chosen, g, cast(number_leaf(0), dtype)), dtype)


PICK = register(
    Op(
        "pick",
        "structured",
        _pick_infer,
        _pick_numpy,
        lambda g, y, x, indices, *, axis: (apply(PUT, g, indices, x, axis=axis), None),
        rows=RowForm(_pick_written, picks=True),
    )
)
PUT: Op = register(
    Op(
        "put",
        "structured",
        lambda g, indices, x, *, axis: Spec(x.shape, g.dtype),
        _put_numpy,
        lambda g, y, z, indices, x, *, axis: (apply(PICK, g, indices, axis=axis), None, None),
        rows=RowForm(_put_written, folds=False, picks=True),
    )
)


def pick_class(x: Tensor, classes: Tensor, axis: int) -> Tensor:
    """The entries along an axis that class numbers, integers of the shape of the rest, name.

    Raises:
        ShapeError: they do not fit. ArgumentError: at evaluation, a class that does not exist.
    Gradient: to `x`.
    """
    return apply(PICK, x, classes, axis=axis)
