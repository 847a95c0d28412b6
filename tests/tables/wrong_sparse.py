"""Wrong calls with sparse tensors, of print_tensor and of pattern_broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from wrong import Wrong, fed, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, FeedError, ShapeError


def s(*shape: int) -> Any:
    """A sparse variable of that shape."""
    return K.variable(sp.csr_array(np.ones(shape)))


def p(*shape: int | None) -> Any:
    """A sparse placeholder of that shape."""
    return K.placeholder(shape, sparse=True)


def i(*shape: int | None) -> Any:
    """A placeholder of integers."""
    return x(*shape, dtype="int32")


def late_labels(lengths: list[int]) -> Any:
    """The labels of a batch, whose lengths are known only at evaluation."""
    labels, counts = i(None, 3), i(None)
    built = K.ctc_label_dense_to_sparse(labels, counts)
    return fed(built, (labels, np.zeros((2, 3))), (counts, lengths))


def outside() -> Any:
    """A matrix whose indices point outside of it."""
    matrix = sp.csr_array(np.eye(3))
    matrix.indices[0] = 7
    return matrix


LABELS = K.ctc_label_dense_to_sparse
SPARSE = "sparse float32[2, 3]"

MADE = [
    Wrong("variable", lambda: K.variable(outside()), ArgumentError, ("index 7", "float64[3, 3]")),
    Wrong("variable", lambda: K.variable(sp.eye(3), "float16"), DtypeError, ("float16",)),
    Wrong("variable", lambda: K.variable(1j * sp.eye(3)), DtypeError, ("complex128",)),
    Wrong("variable", lambda: K.variable(sp.coo_array([1, 0])), ShapeError, ("two axes", "[2]")),
    Wrong("placeholder", lambda: K.placeholder((2, 3, 4), sparse=True), ShapeError, ("[2, 3, 4]",)),
    Wrong("placeholder", lambda: K.placeholder(ndim=1, sparse=True), ShapeError, ("two axes",)),
    Wrong(
        "placeholder",
        lambda: K.placeholder((2, 3), dtype="float16", sparse=True),
        DtypeError,
        ("float16",),
    ),
    Wrong("constant", lambda: K.constant(sp.eye(3)), DtypeError, ("sparse", "K.variable")),
    Wrong("set_value", lambda: K.set_value(s(2, 3), sp.eye(3)), ShapeError, (SPARSE, "[3, 3]")),
    Wrong("set_value", lambda: K.set_value(v(3, 3), sp.eye(3)), DtypeError, ("toarray",)),
    Wrong("set_value", lambda: K.set_value(s(3, 3), outside()), ArgumentError, ("index 7",)),
    Wrong("function", lambda: K.function([a := p(2, 3)], [a])([sp.eye(3)]), FeedError, (SPARSE,)),
    Wrong(
        "function", lambda: K.function([a := x(3, 3)], [a])([sp.eye(3)]), FeedError, ("is sparse",)
    ),
    Wrong("function", lambda: K.function([a := p(3, 3)], [a])([outside()]), FeedError, ("7",)),
    Wrong("eval", lambda: K.eval(p(2, None)), FeedError, ("sparse float32[2, ?]", "needs a value")),
    Wrong("update", lambda: K.update(s(2, 3), v(2, 3)), DtypeError, (SPARSE, "float32[2, 3]")),
    Wrong("update", lambda: K.update(s(2, 3), s(3, 2)), ShapeError, (SPARSE,)),
]

USED = [
    Wrong("to_dense", lambda: K.to_dense("text"), DtypeError, ("the string",)),
    Wrong("to_dense", lambda: K.to_dense(None), DtypeError, ("None",)),
    Wrong("to_dense", lambda: K.to_dense(sp.eye(3)), DtypeError, ("sparse float64[3, 3]",)),
    Wrong("dot", lambda: K.dot(s(2, 3), s(3, 2)), DtypeError, (SPARSE, "K.to_dense")),
    Wrong("dot", lambda: K.dot(s(2, 3), v(4, 2)), ShapeError, (SPARSE, "float32[4, 2]")),
    Wrong("dot", lambda: K.dot(v(4, 4), s(2, 3)), ShapeError, (SPARSE, "float32[4, 4]")),
    Wrong("dot", lambda: K.dot(s(2, 3), v(4, 3, 2)), ShapeError, (SPARSE, "float32[4, 3, 2]")),
    Wrong("dot", lambda: K.dot(s(2, 3), v()), ShapeError, (SPARSE, "float32[]")),
    Wrong(
        "dot",
        lambda: fed(K.dot(a := p(None, None), v(4, 2)), (a, sp.eye(3))),
        ShapeError,
        ("sparse float32[3, 3]", "float32[4, 2]"),
    ),
    Wrong("@", lambda: v(4, 4) @ s(2, 3), ShapeError, (SPARSE, "float32[4, 4]")),
    Wrong("concatenate", lambda: K.concatenate([s(2, 3), s(3, 2)]), ShapeError, (SPARSE,)),
    Wrong("concatenate", lambda: K.concatenate([s(2, 3)], 2), ShapeError, (SPARSE, "rank 2")),
    Wrong("concatenate", lambda: K.concatenate([s(2, 3), v(2)], 0), ShapeError, ("rank",)),
    Wrong("cast", lambda: K.cast(s(2, 3), "float16"), DtypeError, (SPARSE, "float16")),
    Wrong("switch", lambda: K.switch(v(), s(2, 3), v(2, 3)), DtypeError, (SPARSE,)),
    Wrong("sum", lambda: K.sum(s(2, 3)), DtypeError, (SPARSE, "K.to_dense")),
    Wrong("*", lambda: s(2, 3) * 2, DtypeError, (SPARSE, "K.to_dense")),
    Wrong("x[...]", lambda: s(2, 3)[0], DtypeError, (SPARSE, "K.to_dense")),
    Wrong("gradients", lambda: K.gradients(s(2, 3), [v(2)]), DtypeError, (SPARSE,)),
]

LABELLED = [
    Wrong(LABELS.__name__, lambda: LABELS(v(4), v(4)), ShapeError, ("float32[4]",)),
    Wrong(LABELS.__name__, lambda: LABELS(i(4, 3), v(4)), DtypeError, ("float32[4]",)),
    Wrong(LABELS.__name__, lambda: LABELS(i(4, 3), i(5)), ShapeError, ("int32[4, 3]", "int32[5]")),
    Wrong(LABELS.__name__, lambda: LABELS(i(4, 3), i(4, 1)), ShapeError, ("int32[4, 1]",)),
    Wrong(
        LABELS.__name__,
        lambda: LABELS(x(4, 3, dtype="float16"), i(4)),
        DtypeError,
        ("float16[4, 3]",),
    ),
    Wrong(LABELS.__name__, lambda: late_labels([3, 4]), ArgumentError, ("[1] is 4", "int32[2]")),
    Wrong(LABELS.__name__, lambda: late_labels([-1, 4]), ArgumentError, ("[0] is -1",)),
    Wrong(LABELS.__name__, lambda: late_labels([1, 1, 1]), ShapeError, ("int32[2, 3]", "int32[3]")),
]

PASSED_ON = [
    Wrong("print_tensor", lambda: K.print_tensor(v(2), 3), ArgumentError, ("got 3", "float32[2]")),
    Wrong("print_tensor", lambda: K.print_tensor(v(2), "x", 0), ArgumentError, ("got 0",)),
    Wrong("print_tensor", lambda: K.print_tensor(v(2), "x", 1.5), ArgumentError, ("got 1.5",)),
    Wrong("print_tensor", lambda: K.print_tensor("text"), DtypeError, ("the string",)),
    Wrong(
        "pattern_broadcast",
        lambda: K.pattern_broadcast(v(2, 3), (False,)),
        ArgumentError,
        ("float32[2, 3]", "1 entries"),
    ),
    Wrong(
        "pattern_broadcast",
        lambda: K.pattern_broadcast(v(2, 3), (True, False)),
        ShapeError,
        ("float32[2, 3]", "axis 0"),
    ),
    Wrong("pattern_broadcast", lambda: K.pattern_broadcast(v(2), [1]), ArgumentError, ("[1]",)),
    Wrong("pattern_broadcast", lambda: K.pattern_broadcast(v(2), None), ArgumentError, ("None",)),
]

WRONG = [*MADE, *USED, *LABELLED, *PASSED_ON]
