"""Connectionist temporal classification: the cost of labels whose places in time are unknown.

The cost, its slope and the change of the slope are one op each, so that gradients can be
differentiated once more. The arithmetic is in `lattice.py`; decoding is in `decode.py`. With the
attribute `blanks` the blank may be among the labels, where it is a label like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError
from kbench.engine.core.spec import Spec, Specs, is_float, several
from kbench.engine.core.types import Dim, KernelArguments
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, converted
from kbench.engine.graph.op import KernelFactory, KernelSelector, Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.kernels.ctc import api as kernels
from kbench.engine.ops.ctc import lattice
from kbench.engine.ops.elementwise.elementary import log
from kbench.engine.ops.layout.reshape import expand_dims
from kbench.engine.runtime import config
from kbench.engine.runtime.config import epsilon, floatx

MIN_KERNEL_ACTIVATIONS = 2048
"""Activations from which on a compiled kernel is worth while."""

# ------------------------------------------------------------------ rules


def common_size(sizes: dict[str, tuple[Spec, Dim]], what: str) -> Dim:
    """The one size that several operands have on an axis, as far as it is known."""
    known = {name: pair for name, pair in sizes.items() if pair[1] is not None}
    if len({size for _, size in known.values()}) > 1:
        told = ", ".join(f"{name} is {spec}" for name, (spec, _) in known.items())
        raise ShapeError(f"{told}: they must agree in the number of {what}")
    return next((size for _, size in known.values()), None)


def check_lengths(name: str, spec: Spec) -> None:
    """Lengths are one number for each row, as a vector or a column."""
    column = spec.ndim == 2 and spec.shape[1] in (None, 1)
    if not (spec.ndim == 1 or column):
        raise ShapeError(f"{name} is {spec}, but must be [batch] or [batch, 1]")
    if spec.dtype == "bool":
        raise DtypeError(f"{name} is {spec}, but must hold whole numbers")


def check_predictions(y_pred: Spec) -> None:
    """Predictions are [batch, steps, classes], at least the blank."""
    if y_pred.ndim != 3:
        raise ShapeError(f"y_pred is {y_pred}, but must be [batch, steps, classes]")
    if y_pred.shape[2] == 0:
        raise ShapeError(f"y_pred is {y_pred}, but needs at least one class, the blank")


def _rows(y_pred: Spec, labels: Spec, steps: Spec, lengths: Spec) -> Dim:
    check_predictions(y_pred)
    if labels.ndim != 2:
        raise ShapeError(f"y_true is {labels}, but must be [batch, labels]")
    if labels.dtype == "bool":
        raise DtypeError(f"y_true is {labels}, but must hold class numbers")
    check_lengths("input_length", steps)
    check_lengths("label_length", lengths)
    named = {
        "y_true": (labels, labels.shape[0]),
        "y_pred": (y_pred, y_pred.shape[0]),
        "input_length": (steps, steps.shape[0]),
        "label_length": (lengths, lengths.shape[0]),
    }
    return common_size(named, "rows")


def _cost_infer(
    y_pred: Spec, y_true: Spec, input_length: Spec, label_length: Spec, *, blanks: bool = False
) -> Spec:
    return Spec((_rows(y_pred, y_true, input_length, label_length), 1), y_pred.dtype)


def _slope_infer(
    y_pred: Spec, y_true: Spec, input_length: Spec, label_length: Spec, *, blanks: bool = False
) -> Spec:
    rows = _rows(y_pred, y_true, input_length, label_length)
    return Spec((rows, *y_pred.shape[1:]), y_pred.dtype)


def _bend_infer(v: Spec, *operands: Spec, blanks: bool = False) -> Spec:
    return _slope_infer(*operands)


def _both_infer(*operands: Spec, blanks: bool = False) -> Specs:
    return several([_cost_infer(*operands), _slope_infer(*operands)])


# ------------------------------------------------------------------ checks of the values


def whole_numbers(name: str, values: np.ndarray) -> np.ndarray:
    """Values as int64; an error tells of the first row with a fraction, NaN or infinity."""
    if values.dtype.kind == "f":
        wrong = ~(np.abs(values) < 2**53) | (values != np.floor(values))
        if wrong.any():
            row = int(np.argwhere(wrong)[0, 0])
            raise ArgumentError(
                f"row {row}: {name} holds {values[wrong].flat[0]}, which is not a whole number"
            )
    return values.astype(np.int64)


def checked_lengths(name: str, lengths: np.ndarray, most: int, what: str) -> np.ndarray:
    """Lengths as an int64 vector, each from 0 to `most`."""
    flat = whole_numbers(name, lengths.reshape(-1))
    wrong = (flat < 0) | (flat > most)
    if wrong.any():
        row = int(wrong.argmax())
        raise ArgumentError(f"row {row}: {name} is {flat[row]}, but {what}, so 0 to {most} fit")
    return flat


def _checked(
    x: np.ndarray,
    labels: np.ndarray,
    steps: np.ndarray,
    lengths: np.ndarray,
    *,
    blanks: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The operands as arithmetic needs them: nothing in them points outside of an array."""
    rows, time, classes = x.shape
    steps = checked_lengths("input_length", steps, time, f"y_pred has {time} steps")
    width = labels.shape[1]
    lengths = checked_lengths("label_length", lengths, width, f"y_true has {width} labels")
    used = np.arange(width) < lengths[:, None]
    numbers = whole_numbers("y_true", np.where(used, labels, labels.dtype.type(0)))
    most = classes - 1 if blanks else classes - 2
    wrong = used & ((numbers < 0) | (numbers > most))
    if wrong.any():
        row, place = (int(index) for index in np.argwhere(wrong)[0])
        fits = f"0 to {most}" if most >= 0 else "none"
        raise ArgumentError(
            f"row {row}: label {numbers[row, place]} at position {place} is out of range; "
            f"y_pred has {classes} classes{'' if blanks else ', the last is the blank'}, "
            f"so {fits} fit"
        )
    return x, numbers, steps, lengths


def _cost_numpy(
    out: np.ndarray | None, x: np.ndarray, *rest: np.ndarray, blanks: bool = False
) -> np.ndarray:
    out = _result(out, (len(x), 1), x.dtype)
    with np.errstate(over="ignore"):
        out[:, 0] = lattice.cost(*_checked(x, *rest, blanks=blanks))
    return out


def _slope_numpy(
    out: np.ndarray | None, x: np.ndarray, *rest: np.ndarray, blanks: bool = False
) -> np.ndarray:
    return lattice.slope(_result(out, x.shape, x.dtype), *_checked(x, *rest, blanks=blanks))


def _bend_numpy(
    out: np.ndarray | None,
    v: np.ndarray,
    x: np.ndarray,
    *rest: np.ndarray,
    blanks: bool = False,
) -> np.ndarray:
    return lattice.bend(_result(out, x.shape, x.dtype), v, *_checked(x, *rest, blanks=blanks))


def _both_numpy(
    out: None, *arrays: np.ndarray, blanks: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    return _cost_numpy(out, *arrays, blanks=blanks), _slope_numpy(out, *arrays, blanks=blanks)


def _result(
    out: np.ndarray | None, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> np.ndarray:
    return np.empty(shape, dtype) if out is None else out


# ------------------------------------------------------------------ the ops


def _cost_gradient(
    g: Tensor, y: Tensor, *operands: Tensor, **attrs: Any
) -> tuple[Tensor | None, ...]:
    return expand_dims(g, -1) * apply(SLOPE, *operands, **attrs), None, None, None


def _slope_gradient(
    g: Tensor, y: Tensor, *operands: Tensor, **attrs: Any
) -> tuple[Tensor | None, ...]:
    return apply(BEND, g, *operands, **attrs), None, None, None


def _kernel(which: str) -> KernelSelector:
    def kernel(
        x: Spec, labels: Spec, steps: Spec, lengths: Spec, blanks: bool = False
    ) -> KernelFactory | None:
        size = np.prod([size or 0 for size in x.shape], dtype=np.int64)
        if size < config.min_elements(MIN_KERNEL_ACTIVATIONS) or x.dtype not in (
            "float32",
            "float64",
        ):
            return None

        def factory() -> Callable[..., object] | None:
            kernel = kernels.find("cost" if which == "cost" else "slope", x.dtype)
            if kernel is None:
                return None

            def call(
                out: np.ndarray,
                x: np.ndarray,
                *rest: *KernelArguments,
                cost: np.ndarray | None = None,
            ) -> None:
                *arrays, cancel_check = rest
                _, numbers, steps, lengths = _checked(x, *arrays, blanks=blanks)
                if which != "cost":
                    lattice.require_row(x, numbers)
                states, skips = lattice.states_of(numbers, lengths, x.shape[2])
                more = {} if which == "cost" else {"cost": cost}
                kernel(out, x, steps, 2 * lengths, states, skips, cancel_check, **more)

            def both(x: np.ndarray, *rest: *KernelArguments) -> tuple[np.ndarray, np.ndarray]:
                cost, slope = np.empty((len(x), 1), x.dtype), np.empty(x.shape, x.dtype)
                call(slope, x, *rest, cost=cost)
                return cost, slope

            return both if which == "both" else call

        return factory

    return kernel


def _work(x: Spec, labels: Spec, *_rest: Spec, blanks: bool = False) -> int:
    """FLOP for each row: about 30 for each state and step, each way."""
    return 60 * (x.shape[1] or 0) * (2 * (labels.shape[1] or 0) + 1)


BOTH = register(
    Op(
        "ctc_cost_and_slope",
        "several",
        _both_infer,
        _both_numpy,
        None,
        allocates=True,
        kernel=_kernel("both"),
    )
)
COST = register(
    Op(
        "ctc_cost",
        "structured",
        _cost_infer,
        _cost_numpy,
        _cost_gradient,
        kernel=_kernel("cost"),
        work=_work,
        joint=(BOTH, 0),
    )
)
SLOPE = register(
    Op(
        "ctc_slope",
        "structured",
        _slope_infer,
        _slope_numpy,
        _slope_gradient,
        kernel=_kernel("slope"),
        joint=(BOTH, 1),
    )
)
BEND = register(Op("ctc_bend", "structured", _bend_infer, _bend_numpy, None))

# ------------------------------------------------------------------ public


def log_predictions(y_pred: Operand) -> Tensor:
    """log(y_pred + epsilon), in float32 at least."""
    tensor = as_tensor(y_pred)
    check_predictions(tensor.spec)
    if not is_float(tensor.spec.dtype):
        tensor = converted(tensor, floatx())
    if tensor.spec.dtype == "float16":
        tensor = converted(tensor, "float32")
    return log(tensor + epsilon())


def ctc_cost(logits: Tensor, y_true: Tensor, input_length: Tensor, label_length: Tensor) -> Tensor:
    """`ctc_batch_cost` of logits, of which the softmax is taken, in their dtype.

    The blank may be among the labels, too: steps that spell it have its probability, as the steps
    between labels do.
    Gradient: to `logits`, twice differentiable.
    """
    return apply(COST, logits, y_true, input_length, label_length, blanks=True)


def ctc_batch_cost(
    y_true: Operand, y_pred: Operand, input_length: Operand, label_length: Operand
) -> Tensor:
    """How unlikely the labels are, summed over every way to lay them out in time.

    Arguments:
        y_true: int[batch, labels] (floats that are whole numbers too): class numbers from 0 to
            classes - 2; entries behind a row's `label_length` are not looked at.
        y_pred: float[batch, steps, classes], probabilities; the last class is the blank.
        input_length: int[batch] or int[batch, 1], the steps of `y_pred` that count in each row.
        label_length: int[batch] or int[batch, 1], the labels that count in each row.
    Returns:
        Tensor float[batch, 1] of the dtype of `y_pred`: -log(probability). It is infinity where
        no path can spell the labels, because there are more of them (and of the blanks that
        must part equal neighbours) than steps.
    Raises:
        ShapeError: wrong ranks, or numbers of rows that differ.
        ArgumentError: at evaluation, a length or label out of range, with its row.
    Gradient: to `y_pred`, twice differentiable; 0 in rows whose cost is infinite.
    Source: Keras 2.3 `backend.ctc_batch_cost`: the softmax of log(y_pred + epsilon()) is taken,
        as TensorFlow's `ctc_loss` does, so rows of `y_pred` need not sum to 1.

    >>> y_pred = K.constant([[[0.6, 0.4], [0.6, 0.4]]])  # "a" is 0, the blank is 1
    >>> cost = K.ctc_batch_cost([[0]], y_pred, [2], [1])  # aa, a-, -a: all but --
    >>> K.eval(K.exp(-cost)).round(2)
    array([[0.84]], dtype=float32)
    """
    result_dtype = getattr(y_pred, "dtype", None)
    x = log_predictions(y_pred)
    rest = [as_tensor(operand) for operand in (y_true, input_length, label_length)]
    cost = apply(COST, x, *rest)
    return converted(cost, "float16") if result_dtype == "float16" else cost
