"""Labels as rows of zeros and ones, and losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common import standardize_dtype

from kbench import backend as K
from kbench.api.operations import ctc_cost, pick_class, where
from kbench.keras3.calls.host import common_dtype, host
from kbench.keras3.calls.planned import planned
from kbench.keras3.complex_numbers.refusal import real_only
from kbench.keras3.nn.activation import log_softmax, softmax
from kbench.keras3.numpy import elementwise, index, layout, reduce
from kbench.keras3.tensor import Traced, finish, in_dtype, node_of, place_of


@planned
def one_hot(
    x: Any, num_classes: Any, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Any:
    """A row for each label, with 1 at its place; of a label outside or between, zeros."""
    if sparse:
        raise ValueError("Unsupported value `sparse=True` with the kbench backend")
    x = layout.known(x)
    wanted = standardize_dtype(dtype or config.floatx())
    if num_classes is None:
        num_classes = int(np.max(x, initial=-1)) + 1
    places = np.arange(num_classes, dtype="int64")
    labels = x if "float" in str(x.dtype) else elementwise.cast(x, "int64")
    hot = elementwise.equal(layout.expand_dims(labels, -1), places)
    found = elementwise.cast(hot, wanted)
    rank = len(x.shape)
    return found if axis in (-1, rank) else layout.moveaxis(found, -1, axis)


@planned
def multi_hot(
    x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Any:
    """One row for several labels, with 1 at the place of each."""
    x = layout.known(x)
    over = 1 if len(x.shape) > 1 else 0
    hot = one_hot(elementwise.cast(x, "int32"), num_classes, axis, dtype, sparse)
    return reduce.max(hot, over, initial=0)


def _check_shapes(name: str, target: Any, output: Any) -> None:
    if len(target.shape) < 1:
        raise ValueError(
            f"{name}: arguments `target` and `output` must be at least rank 1. Received: "
            f"target.shape={tuple(target.shape)}, output.shape={tuple(output.shape)}"
        )
    pairs = zip(target.shape, output.shape, strict=False)
    if len(target.shape) != len(output.shape) or any(None not in p and p[0] != p[1] for p in pairs):
        raise ValueError(
            f"{name}: arguments `target` and `output` must have the same shape. Received: "
            f"target.shape={tuple(target.shape)}, output.shape={tuple(output.shape)}"
        )


def _logs(output: Any, from_logits: bool, axis: int) -> Any:
    if from_logits:
        return log_softmax(output, axis)
    total = elementwise.divide(output, reduce.sum(output, axis, True))
    return elementwise.log(elementwise.clip(total, config.epsilon(), 1.0 - config.epsilon()))


@planned
def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """Less the logarithm of what is expected of the classes, weighed by the target."""
    target, output = layout.known(target), layout.known(output)
    _check_shapes("categorical_crossentropy", target, output)
    product = elementwise.multiply(target, _logs(output, from_logits, axis))
    return elementwise.negative(reduce.sum(product, axis))


@planned
def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """Less the logarithm of what is expected of the class that a label names."""
    target, output = layout.known(target), layout.known(output)
    if len(target.shape) == len(output.shape) and target.shape[-1] == 1:
        target = layout.squeeze(target, -1)
    if len(output.shape) < 1:
        raise ValueError(
            "sparse_categorical_crossentropy: argument `output` must be at least rank 1. "
            f"Received: output.shape={tuple(output.shape)}"
        )
    rest = list(output.shape)
    rest.pop(axis)
    if tuple(target.shape) != tuple(rest):
        raise ValueError(
            "sparse_categorical_crossentropy: arguments `target` and `output` must have the same "
            f"shape up until the last dimension: target.shape={tuple(target.shape)}, "
            f"output.shape={tuple(output.shape)}"
        )
    logs, labels = _logs(output, from_logits, axis), elementwise.cast(target, "int64")
    dtype, place = str(logs.dtype), place_of(axis, len(output.shape))
    node = pick_class(in_dtype(logs, dtype), in_dtype(labels, "int64"), place)
    return finish(-node, dtype)


@planned
def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """Less the logarithm of what is expected of the target, which lies between 0 and 1."""
    target, output = layout.known(target), layout.known(output)
    if tuple(target.shape) != tuple(output.shape):
        _check_shapes("binary_crossentropy", layout.known(target), layout.known(output))
    return _binary_crossentropy(target, output, from_logits)


def _binary_crossentropy(target: Any, output: Any, from_logits: bool) -> Any:
    dtype = elementwise.float_type(target, output)
    goal, found = in_dtype(target, dtype), in_dtype(output, dtype)
    if from_logits:
        node = K.softplus(found) - goal * found
    else:
        found = K.clip(found, config.epsilon(), 1.0 - config.epsilon())
        node = -(goal * K.log(found) + (1.0 - goal) * K.log(1.0 - found))
    return elementwise.cast(Traced(node), dtype)


# ------------------------------------------------------------------ sequences of labels


def _blank_last(logits: Any, mask_index: int) -> Any:
    """The classes in such an order that the blank is the last, as the engine has it."""
    count = logits.shape[-1]
    order = [i for i in range(count) if i != mask_index % count] + [mask_index % count]
    return index.take(logits, np.array(order), axis=-1)


def ctc_loss(
    target: Any, output: Any, target_length: Any, output_length: Any, mask_index: int = 0
) -> Any:
    """Less the logarithm of the chance that a sequence of logits means the labels.

    A label `mask_index`, the blank, is a label like any other: rows are filled up with it.
    """
    target, output = layout.known(target), layout.known(output)
    last = output.shape[-1] - 1
    blank = mask_index % (last + 1)
    labels = elementwise.cast(target, "int32")
    if blank != last:  # they change places: the engine has the blank last
        order = np.arange(last + 1)
        order[[blank, last]] = last, blank
        output = index.take(output, order, axis=-1)
        swapped = elementwise.where(elementwise.equal(labels, last), blank, labels)
        labels = elementwise.where(elementwise.equal(labels, blank), last, swapped)
    dtype = elementwise.float_type(output)
    wide = "float32" if dtype in ("float16", "bfloat16") else dtype
    logits = elementwise.cast(output, wide)
    return _ctc_cost(labels, logits, target_length, output_length)


@planned
def _ctc_cost(labels: Any, logits: Any, target_length: Any, output_length: Any) -> Any:
    steps, counts = (
        K.reshape(in_dtype(layout.known(x), "int32"), (-1,)) for x in (output_length, target_length)
    )
    found = ctc_cost(node_of(logits), in_dtype(labels, "int32"), steps, counts)
    return Traced(K.reshape(found, (-1,)))


def ctc_decode(
    inputs: Any,
    sequence_lengths: Any,
    strategy: str = "greedy",
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
    mask_index: int = 0,
) -> tuple[Any, Any]:
    """The labels that a sequence of logits means most likely, and the logarithm of the chance."""
    inputs = layout.known(inputs)
    inputs = elementwise.cast(inputs, common_dtype(inputs, np.float32(0)))
    lengths = elementwise.cast(layout.known(sequence_lengths), "int32")
    count = inputs.shape[-1]
    blank = count - 1 if mask_index is None else mask_index
    if strategy == "greedy":
        found = _greedy(inputs, lengths, merge_repeated=merge_repeated, mask_index=blank)
    elif strategy == "beam_search":
        found = _beam_search(inputs, lengths, beam_width, top_paths, blank % count)
    else:
        raise ValueError(
            f"Invalid strategy {strategy}. Supported values are 'greedy' and 'beam_search'."
        )
    labels, score = found
    return labels, score


@host(2, name="ctc_decode")
def _greedy(inputs: Any, lengths: Any, merge_repeated: bool, mask_index: int) -> tuple[Any, Any]:
    best = inputs.argmax(-1)
    score = np.zeros((len(inputs), 1), inputs.dtype)
    rows = np.full(best.shape, -1, "int32")
    for i, length in enumerate(lengths):
        path = best[i, :length]
        score[i] = -inputs[i, :length].max(-1).sum()
        kept = path != mask_index
        if merge_repeated and len(path):
            kept &= np.concatenate([[True], path[1:] != path[:-1]])
        labels = path[kept]
        rows[i, : len(labels)] = labels
    return rows[None], score


@planned
def _beam_search(inputs: Any, lengths: Any, width: int, paths: int, blank: int) -> tuple[Any, Any]:
    """By the engine's search, whose blank is the last class and whose rows end with the longest."""
    dtype, (count, steps) = str(inputs.dtype), inputs.shape[:2]
    chances = softmax(_blank_last(inputs, blank), -1)
    decoded, scores = K.ctc_decode(
        in_dtype(chances, dtype), in_dtype(lengths, "int32"),
        greedy=False, beam_width=width, top_paths=paths,
    )  # fmt: skip
    border = K.constant(np.full((count, steps), -1), dtype="int64")
    rows = [K.concatenate([row, border], 1)[:, :steps] for row in decoded]
    labels = K.concatenate([K.reshape(row, (1, count, steps)) for row in rows], 0)
    labels = where(K.greater_equal(labels, blank), labels + 1, labels)
    return finish(labels, "int32"), finish(scores, dtype)


@planned
def psnr(x1: Any, x2: Any, max_val: float) -> Any:
    """How far a picture is from another, in decibels: more is nearer."""
    x1, x2 = layout.known(x1), layout.known(x2)
    real_only("psnr", x1=x1, x2=x2)
    if tuple(x1.shape) != tuple(x2.shape):
        raise ValueError(
            f"Input shapes {tuple(x1.shape)} and {tuple(x2.shape)} must match for PSNR calculation."
        )
    error = reduce.mean(elementwise.square(elementwise.subtract(x1, x2)))
    from kbench.keras3.numpy.curves import log10

    largest = elementwise.cast(max_val, str(error.dtype))
    return elementwise.subtract(
        elementwise.multiply(log10(largest), 20), elementwise.multiply(log10(error), 10)
    )
