"""Reading labels out of connectionist temporal classification: the best path, or a beam search.

Both are one node with several results, so that a batch is decoded once in an evaluation.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.core.errors import ArgumentError, shown
from kbench.engine.core.spec import Spec, Specs, checked_flag, integer, several
from kbench.engine.graph.apply import apply, results
from kbench.engine.graph.convert import as_tensor, converted
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.ctc.beam_search import search
from kbench.engine.ops.ctc.cost import (
    check_lengths,
    check_predictions,
    checked_lengths,
    common_size,
    log_predictions,
)

# ------------------------------------------------------------------ rules


def _decoded_infer(y_pred: Spec, input_length: Spec, *, paths: int = 1, **_attrs: object) -> Specs:
    check_predictions(y_pred)
    check_lengths("input_length", input_length)
    named = {
        "y_pred": (y_pred, y_pred.shape[0]),
        "input_length": (input_length, input_length.shape[0]),
    }
    rows = common_size(named, "rows")
    return several([*[Spec((rows, None), "int64")] * paths, Spec((rows, paths), y_pred.dtype)])


def _steps(x: np.ndarray, steps: np.ndarray) -> np.ndarray:
    time = x.shape[1]
    return checked_lengths("input_length", steps, time, f"y_pred has {time} steps")


def _is_blurred(x: np.ndarray, running: np.ndarray) -> np.ndarray:
    """Rows that hold a NaN in a step that counts; nothing can be read in them."""
    return (np.isnan(x).any(axis=2) & running).any(axis=1)  # type: ignore[no-any-return]


# ------------------------------------------------------------------ the best path


def _greedy_numpy(
    out: np.ndarray | None, x: np.ndarray, steps: np.ndarray
) -> tuple[np.ndarray, ...]:
    steps = _steps(x, steps)
    rows, time, classes = x.shape
    running = np.arange(time) < steps[:, None]
    best = x.argmax(axis=2)
    values = np.take_along_axis(x, best[:, :, None], 2)[:, :, 0]
    score = -np.where(running, values, 0).sum(axis=1, keepdims=True)
    kept = running & (best != classes - 1)
    kept[:, 1:] &= best[:, 1:] != best[:, :-1]
    kept[_is_blurred(x, running)] = False
    places = kept.cumsum(axis=1) - 1
    labels = np.full((rows, int(places.max(initial=-1)) + 1), -1, np.int64)
    row, step = kept.nonzero()
    labels[row, places[row, step]] = best[row, step]
    return labels, (0 + score).astype(x.dtype)


# ------------------------------------------------------------------ a beam of paths


def _beam_numpy(
    out: np.ndarray | None, x: np.ndarray, steps: np.ndarray, *, width: int, paths: int, merge: bool
) -> tuple[np.ndarray, ...]:
    steps = _steps(x, steps)
    rows, time, _ = x.shape
    scores = np.full((rows, paths), np.nan)
    found: list[list[list[int]]] = [[[]] * paths] * rows
    blurred = _is_blurred(x, np.arange(time) < steps[:, None])
    for row in range(rows):
        if blurred[row]:
            continue
        labels, score = search(x[row, : steps[row]], width, paths)
        if len(labels) < paths:
            raise ArgumentError(
                f"row {row}: {paths} paths are asked for, but its {steps[row]} steps of "
                f"{x.shape[2]} classes have only {len(labels)}"
            )
        found[row], scores[row] = labels, score
    decoded = [_padded([labels[path] for labels in found], merge) for path in range(paths)]
    return *decoded, scores.astype(x.dtype)


def _padded(rows: list[list[int]], merge: bool) -> np.ndarray:
    """Rows of labels as one array, -1 behind their ends; `merge` drops repeated neighbours."""
    if merge:
        rows = [[b for a, b in zip([-1, *row], row, strict=False) if a != b] for row in rows]
    labels = np.full((len(rows), max(map(len, rows), default=0)), -1, np.int64)
    for number, row in enumerate(rows):
        labels[number, : len(row)] = row
    return labels


def _no_gradient(
    g: Tensor, y: Tensor, x: Tensor, steps: Tensor, **_attrs: object
) -> tuple[None, None]:
    return None, None


GREEDY = register(Op("ctc_greedy", "several", _decoded_infer, _greedy_numpy, _no_gradient))
BEAM = register(Op("ctc_beam", "several", _decoded_infer, _beam_numpy, _no_gradient))

# ------------------------------------------------------------------ public


def _count(name: str, value: object) -> int:
    try:
        count = integer(value)
    except (AttributeError, TypeError):
        raise ArgumentError(f"{name} must be an integer, got {shown(value)}") from None
    if count < 1:
        raise ArgumentError(f"{name} must be at least 1, got {count}")
    return count


def ctc_decode(
    y_pred: Operand,
    input_length: Operand,
    greedy: bool = True,
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = False,
) -> tuple[list[Tensor], Tensor]:
    """The labels that predictions spell: repeats merged, blanks dropped.

    Arguments:
        y_pred: float[batch, steps, classes], probabilities; the last class is the blank.
        input_length: int[batch] or int[batch, 1], the steps of `y_pred` that count in each row.
        greedy: take the likeliest class of each step; otherwise search for the likeliest labels,
            each summed over its paths, keeping the `beam_width` best beginnings in each step.
        beam_width: how many beginnings a search keeps.
        top_paths: how many results a search gives, the likeliest first.
        merge_repeated: also merge equal labels that a blank parted, in the results of a search.
    Returns:
        (labels, log_prob): a list of int64[batch, width] tensors, one when greedy, else
        `top_paths`, as wide as the longest row and filled up with -1; and float[batch, paths]: the
        log probability of the labels of a search, or when greedy minus the sum of the logarithms
        of the likeliest classes. A row with NaN has no labels and the log probability NaN.
    Raises:
        ShapeError: wrong ranks, or numbers of rows that differ.
        ArgumentError: counts below 1, or more paths than the beam is wide; at evaluation, a length
            out of range, or a row with fewer paths than asked for.
    Gradient: none; K.gradients gives None.
    Source: Keras 2.3 `backend.ctc_decode`. A search normalises each step by a softmax.

    >>> y_pred = K.constant([[[0.6, 0.0, 0.4], [0.0, 0.3, 0.7], [0.6, 0.0, 0.4]]])
    >>> labels, _ = K.ctc_decode(y_pred, [3])
    >>> K.eval(labels[0])
    array([[0, 0]])
    """
    width, paths = _count("beam_width", beam_width), _count("top_paths", top_paths)
    x, steps = log_predictions(y_pred), as_tensor(input_length)
    if checked_flag(greedy, "greedy"):
        whole = apply(GREEDY, x, steps)
    else:
        if paths > width:
            raise ArgumentError(f"top_paths is {paths}, more than the beam_width of {width}")
        merge = bool(merge_repeated)
        whole = apply(BEAM, x, steps, width=width, paths=paths, merge=merge)
    *labels, score = results(whole)
    if getattr(y_pred, "dtype", None) == "float16":
        score = converted(score, "float16")
    return labels, score
