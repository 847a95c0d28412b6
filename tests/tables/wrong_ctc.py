"""Wrong calls of the cost of connectionist temporal classification, and of its decoding."""

from __future__ import annotations

from typing import Any

import numpy as np
from wrong import Wrong, fed, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, ShapeError

COST = "ctc_batch_cost"
DECODE = "ctc_decode"


def cost(labels: Any, steps: Any, lengths: Any, *shape: int) -> Any:
    """The evaluated cost of equal predictions of that shape."""
    predictions = np.full(shape or (2, 4, 3), 0.5, "float32")
    fed_one = x(None, None, None)
    return fed(K.ctc_batch_cost(labels, fed_one, steps, lengths), (fed_one, predictions))


def decode(steps: Any, **options: Any) -> Any:
    """The evaluated log probabilities of equal predictions of four steps and three classes."""
    y_pred = np.full((2, 4, 3), 0.5, "float32")
    return K.eval(K.ctc_decode(y_pred, steps, **options)[1])


WRONG = [
    Wrong(
        COST,
        lambda: K.ctc_batch_cost(v(2, 3), x(None, 4), [4, 4], [3, 3]),
        ShapeError,
        ("y_pred is float32[?, 4]", "[batch, steps, classes]"),
    ),
    Wrong(
        COST,
        lambda: K.ctc_batch_cost(v(3, dtype="int32"), x(2, 4, 3), [4, 4], [3, 3]),
        ShapeError,
        ("y_true is int32[3]", "[batch, labels]"),
    ),
    Wrong(
        COST,
        lambda: K.ctc_batch_cost(v(2, 3, dtype="int32"), v(5, 4, 3), v(2, dtype="int32"), [3, 3]),
        ShapeError,
        ("y_true is int32[2, 3]", "y_pred is float32[5, 4, 3]", "number of rows"),
    ),
    Wrong(
        COST,
        lambda: K.ctc_batch_cost([[0]], v(1, 4, 3), v(1, 4, dtype="int32"), [1]),
        ShapeError,
        ("input_length is int32[1, 4]", "[batch] or [batch, 1]"),
    ),
    Wrong(
        COST,
        lambda: K.ctc_batch_cost([[0]], v(1, 4, 3), [4], 1),
        ShapeError,
        ("label_length is int32[]",),
    ),
    Wrong(
        COST,
        lambda: K.ctc_batch_cost([[0]], v(1, 4, 0), [4], [1]),
        ShapeError,
        ("float32[1, 4, 0]", "the blank"),
    ),
    Wrong(
        COST,
        lambda: K.ctc_batch_cost([[True]], v(1, 4, 3), [4], [1]),
        DtypeError,
        ("y_true is bool[1, 1]", "class numbers"),
    ),
    Wrong(
        COST,
        lambda: cost([[0], [1]], [4, 5], [1, 1]),
        ArgumentError,
        ("row 1: input_length is 5", "y_pred has 4 steps", "0 to 4 fit", "float32[2, 4, 3]"),
    ),
    Wrong(COST, lambda: cost([[0], [1]], [-1, 4], [1, 1]), ArgumentError, ("row 0", "is -1")),
    Wrong(
        COST,
        lambda: cost([[0], [1]], [4, 4], [1, 2]),
        ArgumentError,
        ("row 1: label_length is 2", "y_true has 1 labels"),
    ),
    Wrong(
        COST,
        lambda: cost([[0, 1], [1, 2]], [4, 4], [2, 2]),
        ArgumentError,
        ("row 1: label 2 at position 1", "3 classes", "0 to 1 fit"),
    ),
    Wrong(
        COST,
        lambda: cost([[0], [-1]], [4, 4], [1, 1]),
        ArgumentError,
        ("row 1: label -1 at position 0",),
    ),
    Wrong(
        COST,
        lambda: cost([[0]], [4], [1], 1, 4, 1),
        ArgumentError,
        ("1 classes, the last is the blank, so none fit",),
    ),
    Wrong(
        COST,
        lambda: cost([[0.0], [0.5]], [4, 4], [1, 1]),
        ArgumentError,
        ("row 1: y_true holds 0.5", "not a whole number"),
    ),
    Wrong(
        COST,
        lambda: cost([[0], [1]], [4.0, float("nan")], [1, 1]),
        ArgumentError,
        ("row 1: input_length holds nan",),
    ),
    Wrong(
        COST,
        lambda: cost([[0], [1]], [4, 4], [1, 1], 3, 4, 3),
        ShapeError,
        ("int32[2, 1]", "float32[3, 4, 3]"),
    ),
    Wrong(
        DECODE,
        lambda: K.ctc_decode(x(4, 3), [4]),
        ShapeError,
        ("y_pred is float32[4, 3]",),
    ),
    Wrong(
        DECODE,
        lambda: K.ctc_decode(v(2, 4, 3), v(3, dtype="int32"), greedy=False),
        ShapeError,
        ("float32[2, 4, 3]", "int32[3]", "number of rows"),
    ),
    Wrong(
        DECODE,
        lambda: K.ctc_decode(v(2, 4, 3), [[4, 4]]),
        ShapeError,
        ("input_length is int32[1, 2]",),
    ),
    Wrong(
        DECODE,
        lambda: K.ctc_decode(v(2, 4, 3), [4, 4], False, beam_width=0),
        ArgumentError,
        ("beam_width must be at least 1, got 0",),
    ),
    Wrong(
        DECODE,
        lambda: K.ctc_decode(v(2, 4, 3), [4, 4], False, top_paths=1.5),
        ArgumentError,
        ("top_paths must be an integer, got 1.5",),
    ),
    Wrong(
        DECODE,
        lambda: K.ctc_decode(v(2, 4, 3), [4, 4], False, beam_width=2, top_paths=3),
        ArgumentError,
        ("top_paths is 3", "beam_width of 2"),
    ),
    Wrong(DECODE, lambda: decode([4, 5]), ArgumentError, ("row 1: input_length is 5",)),
    Wrong(DECODE, lambda: decode([4, 0.5]), ArgumentError, ("row 1", "not a whole number")),
    Wrong(
        DECODE,
        lambda: decode([4, 0], greedy=False, top_paths=2),
        ArgumentError,
        ("row 1: 2 paths are asked for", "only 1", "float32[2, 4, 3]"),
    ),
]
