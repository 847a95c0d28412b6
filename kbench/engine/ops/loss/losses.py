"""Losses: cross-entropies, one number for each sample or element, and the top-k test."""

from __future__ import annotations

import numpy as np

from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError, shown
from kbench.engine.core.spec import (
    INTEGERS,
    check_axis,
    checked_flag,
    is_float,
    is_whole,
    known_size,
    promote,
)
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, constant_node, converted, tensors_of
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.elementwise.activation import sigmoid, softmax, softplus
from kbench.engine.ops.elementwise.arithmetic import cast, clip, where
from kbench.engine.ops.elementwise.compare import equal, greater, less, logical_and
from kbench.engine.ops.elementwise.elementary import abs as absolute
from kbench.engine.ops.elementwise.elementary import log, pow
from kbench.engine.ops.layout.reshape import expand_dims, reshape_like
from kbench.engine.ops.loss.pick import PICK
from kbench.engine.ops.reduce.moments import logsumexp
from kbench.engine.ops.reduce.reduction import sum as total
from kbench.engine.runtime.config import epsilon, floatx

# ------------------------------------------------------------------ operands


def _classes(target: Operand, name: str) -> Tensor:
    """Class numbers as int64; floats are truncated, as Keras feeds them so."""
    tensor = as_tensor(target)
    if tensor.spec.dtype not in INTEGERS and not is_float(tensor.spec.dtype):
        raise DtypeError(f"{name} must be class numbers, got {tensor.spec}")
    return cast(tensor, "int64")


def _pair(target: Operand, output: Operand) -> tuple[Tensor, Tensor]:
    """Both as floats of the same dtype."""
    first, second = tensors_of(target, output)
    common = promote(first.spec.dtype, second.spec.dtype)
    wanted = common if is_float(common) else floatx()
    return converted(first, wanted), converted(second, wanted)


def _same_shape(target: Tensor, output: Tensor) -> None:
    fits = target.ndim == output.ndim and all(
        None in (a, b) or a == b for a, b in zip(target.spec.shape, output.spec.shape, strict=True)
    )
    if not fits:
        raise ShapeError(f"target is {target.spec} and output is {output.spec}: shapes must agree")


def _wide(*tensors: Tensor) -> list[Tensor]:
    """float32 in place of float16, in which `1 - epsilon()` is 1: nothing is held away from 1."""
    return [cast(x, "float32") if x.spec.dtype == "float16" else x for x in tensors]


def _inside(probability: Tensor) -> Tensor:
    """Held away from 0 and 1 by `epsilon()`, where the gradient ends too."""
    return clip(probability, epsilon(), 1.0 - epsilon())


def _shares(output: Tensor, axis: int) -> Tensor:
    """Probabilities that sum to 1 along `axis`, held away from 0 and 1."""
    return _inside(output / total(output, axis, keepdims=True))


# ------------------------------------------------------------------ several classes


def categorical_crossentropy(
    target: Operand, output: Operand, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Cross-entropy between two distributions along `axis`.

    Arguments:
        target: probabilities, of the shape of `output`.
        output: probabilities, which are divided by their sum and held within `epsilon()` of 0 and
            1; with `from_logits` any numbers, of which the softmax is taken.
        axis: that of the classes; negative counts from the end.
    Returns:
        Tensor of the shape of `output` without `axis`.
    Raises:
        ShapeError: the shapes differ, or there is no such axis.
    Gradient: to both; 0 where `output` was held.
    Source: Keras 2.3 `backend.categorical_crossentropy`. Keras 1 had `output` first.

    >>> target, output = K.constant([[0.0, 1.0]]), K.constant([[0.5, 0.5]])
    >>> K.eval(K.categorical_crossentropy(target, output)).round(3)
    array([0.693], dtype=float32)
    """
    truth, guess = _pair(target, output)
    along = check_axis(axis, guess.ndim)
    _same_shape(truth, guess)
    if checked_flag(from_logits, "from_logits"):
        return -total(truth * (guess - logsumexp(guess, along, keepdims=True)), along)
    wide, wide_guess = _wide(truth, guess)
    return cast(-total(wide * log(_shares(wide_guess, along)), along), guess.spec.dtype)


def sparse_categorical_crossentropy(
    target: Operand,
    output: Operand,
    from_logits: bool = False,
    axis: int = -1,
    ignore_class: int | None = None,
) -> Tensor:
    """Cross-entropy of the probabilities along `axis` with one right class for each row.

    Arguments:
        target: class numbers, integers or floats, of the shape of `output` without `axis`; or
            with as many elements in another shape.
        output: probabilities, held within `epsilon()` of 0 and 1 and then divided by their sum;
            with `from_logits` any numbers, of which the softmax is taken.
        ignore_class: a class number whose rows count nothing, such as -1 or 255 for what has no
            label; it need not exist. None ignores no row.
    Returns:
        Tensor of the shape of `output` without `axis`; 0 for rows that are ignored.
    Raises:
        ShapeError: the number of classes given does not fit, or there is no such axis.
        ArgumentError: `ignore_class` is no integer; at evaluation, a class that does not exist.
    Gradient: to `output`; 0 to rows that are ignored, whatever they hold.
    Source: Keras 2.3 `backend.sparse_categorical_crossentropy`; `ignore_class` from tf_keras.
        Keras 1 had `output` first.

    >>> output = K.constant([[0.5, 0.5]])
    >>> K.eval(K.sparse_categorical_crossentropy(K.constant([1]), output)).round(3)
    array([0.693], dtype=float32)
    """
    guess, classes = as_tensor(output), _classes(target, "target")
    if not is_float(guess.spec.dtype):
        guess = converted(guess, floatx())
    along = check_axis(axis, guess.ndim)
    logits = checked_flag(from_logits, "from_logits")
    if ignore_class is None:
        return _of_classes(classes, guess, logits, along)
    if not is_whole(ignore_class):
        raise ArgumentError(f"ignore_class must be an integer or None, got {shown(ignore_class)}")
    if not -(1 << 63) <= ignore_class < 1 << 63:
        raise ArgumentError(f"ignore_class must fit int64, got {shown(ignore_class)}")
    classes = _one_each(classes, guess, along)
    ignored = equal(classes, constant_node(np.array(ignore_class, np.int64)))
    # A row that is ignored may hold NaN, which would pass through 0 times its gradient.
    guess = where(expand_dims(ignored, along), 1.0, guess)
    losses = _of_classes(where(ignored, 0, classes), guess, logits, along)
    return where(ignored, 0.0, losses)


def _of_classes(classes: Tensor, guess: Tensor, logits: bool, along: int) -> Tensor:
    """The loss of each row, for the number of its class."""
    inside = guess if logits else _inside(*_wide(guess))
    normal = logsumexp(inside, along) if logits else log(total(inside, along))
    right = apply(PICK, inside, _one_each(classes, normal), axis=along)
    return cast(normal - (right if logits else log(right)), guess.spec.dtype)


def _one_each(classes: Tensor, guess: Tensor, along: int | None = None) -> Tensor:
    """The class numbers in the shape of the rows, which are those of `guess` without `along`."""
    rows = guess if along is None else total(guess, along)
    if classes.ndim == rows.ndim:
        return classes
    _check_count(classes, rows)
    return reshape_like(classes, rows)


def _check_count(classes: Tensor, normal: Tensor) -> None:
    given, wanted = known_size(classes.spec.shape), known_size(normal.spec.shape)
    if None not in (given, wanted) and given != wanted:
        raise ShapeError(
            f"target is {classes.spec.with_dtype('int64')} with {given} classes, but output has "
            f"{wanted} rows"
        )


def categorical_focal_crossentropy(
    target: Operand,
    output: Operand,
    alpha: Operand = 0.25,
    gamma: Operand = 2.0,
    from_logits: bool = False,
    axis: int = -1,
) -> Tensor:
    """Cross-entropy along `axis` that counts easy samples less.

    Every term is multiplied by `alpha * (1 - output) ** gamma`; the rest is as in
    `categorical_crossentropy`.

    Arguments:
        target: the probability of every class, of the shape of `output`.
        output: probabilities, or any numbers with `from_logits`.
        alpha: the weight of the loss.
        gamma: the exponent, at least 0.
        from_logits: whether `softmax` is still to be taken of `output`.
        axis: the axis of the classes.
    Returns:
        Tensor, float, without that axis.
    Raises:
        ShapeError: the shapes differ, or there is no such axis.
    Gradient: to both.
    Source: `tf_keras.backend.categorical_focal_crossentropy`.

    >>> target, output = K.constant([[0.0, 1.0]]), K.constant([[0.5, 0.5]])
    >>> K.eval(K.categorical_focal_crossentropy(target, output)).round(3)
    array([0.043], dtype=float32)
    """
    truth, guess = _pair(target, output)
    along = check_axis(axis, guess.ndim)
    _same_shape(truth, guess)
    logits = checked_flag(from_logits, "from_logits")
    wide, wide_guess = _wide(truth, guess)
    shares = _shares(softmax(wide_guess, along) if logits else wide_guess, along)
    losses = -total(wide * log(shares) * pow(1 - shares, gamma) * alpha, along)
    return cast(losses, guess.spec.dtype) if guess.spec.dtype == "float16" else losses


# ------------------------------------------------------------------ two classes


def binary_crossentropy(target: Operand, output: Operand, from_logits: bool = False) -> Tensor:
    """Cross-entropy of every element with its own yes or no.

    Arguments:
        target: probabilities, of the shape of `output`.
        output: probabilities, held within `epsilon()` of 0 and 1; with `from_logits` any numbers,
            of which the sigmoid is taken without overflow.
    Returns:
        Tensor of the shape of `output`.
    Raises:
        ShapeError: the shapes differ.
    Gradient: to both; 0 where `output` was held.
    Source: Keras 2.3 `backend.binary_crossentropy`. Keras 1 had `output` first.

    >>> K.eval(K.binary_crossentropy(K.constant([1.0]), K.constant([0.5]))).round(3)
    array([0.693], dtype=float32)
    """
    truth, guess = _pair(target, output)
    _same_shape(truth, guess)
    if checked_flag(from_logits, "from_logits"):
        return _from_logits(truth, guess)
    wide, wide_guess = _wide(truth, guess)
    inside = _inside(wide_guess)
    yes, no = log(inside + epsilon()), log(1 - inside + epsilon())
    return cast(-(wide * yes + (1 - wide) * no), guess.spec.dtype)


def _from_logits(truth: Tensor, guess: Tensor) -> Tensor:
    """max(z, 0) - z t + log(1 + exp(-|z|)), written so that the slope is right at z = 0."""
    positive = guess >= 0
    upper, below = where(positive, guess, 0), where(positive, -guess, guess)
    return upper - guess * truth + softplus(below)


def binary_focal_crossentropy(
    target: Operand,
    output: Operand,
    apply_class_balancing: bool = False,
    alpha: Operand = 0.25,
    gamma: Operand = 2.0,
    from_logits: bool = False,
) -> Tensor:
    """Binary cross-entropy that counts easy elements less.

    Every element is multiplied by `(1 - p) ** gamma`, where p is the probability of its target.

    Arguments:
        target: 0 or 1, or a probability, for every element of `output`.
        output: probabilities, or any numbers with `from_logits`.
        apply_class_balancing: whether to multiply by `alpha` for yes and `1 - alpha` for no.
        alpha: the weight of yes, from 0 to 1.
        gamma: the exponent, at least 0; 0 gives `binary_crossentropy`.
        from_logits: whether `sigmoid` is still to be taken of `output`.
    Returns:
        Tensor of the shape of `output`, float.
    Raises:
        ShapeError: the shapes differ.
    Gradient: to both.
    Source: `tf_keras.backend.binary_focal_crossentropy`.

    >>> K.eval(K.binary_focal_crossentropy(K.constant([1.0]), K.constant([0.5]))).round(3)
    array([0.173], dtype=float32)
    """
    truth, guess = _pair(target, output)
    plain = binary_crossentropy(truth, guess, from_logits)
    yes = sigmoid(guess) if from_logits else guess
    right = truth * yes + (1 - truth) * (1 - yes)
    result = pow(1 - right, gamma) * plain
    if checked_flag(apply_class_balancing, "apply_class_balancing"):
        weight = as_tensor(alpha, like=truth.spec.dtype)
        result = (truth * weight + (1 - truth) * (1 - weight)) * result
    return result


# ------------------------------------------------------------------ ranks


def in_top_k(predictions: Operand, targets: Operand, k: int) -> Tensor:
    """Whether the target of each row is among its `k` largest predictions.

    Arguments:
        predictions: numbers [batch, classes].
        targets: class numbers [batch].
        k: how many count as the largest, at least 0.
    Returns:
        Tensor bool[batch]. Ties count as in; a prediction of the target that is not finite gives
        False.
    Raises:
        ShapeError: other ranks, or batches that differ.
        ArgumentError: at evaluation, a class that does not exist.
    Gradient: none.
    Source: Keras 2.3 `backend.in_top_k`.

    >>> K.eval(K.in_top_k(K.constant([[0.1, 0.7, 0.2]]), K.constant([2]), 2))
    array([ True])
    """
    scores, classes = as_tensor(predictions), _classes(targets, "targets")
    if scores.ndim != 2 or classes.ndim != 1:
        raise ShapeError(
            f"predictions is {scores.spec} and targets is {classes.spec}: they must be "
            "[batch, classes] and [batch]"
        )
    given: object = k
    if not isinstance(given, Tensor) and not is_whole(given):
        raise ArgumentError(f"k must be an integer, got {shown(k)}")
    chosen = apply(PICK, scores, classes, axis=1)
    ahead = total(cast(greater(scores, expand_dims(chosen, 1)), "int32"), 1)
    return logical_and(less(ahead, k), less(absolute(chosen), np.inf))
