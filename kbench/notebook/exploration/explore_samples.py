"""What an exploration begins with: inputs for every function of the API, as the Python that makes
them, and the arguments of one call that works.

The calls are those of `kbench/api/samples.py`; where numbers say more than a shape, such as labels,
lengths and probabilities, or a picture that filters can be seen on, they stand here.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from kbench.api.samples import BINARY, CURVES, SAMPLES
from kbench.engine.core import syntax

_SYMBOLS = ("x", "s", "v", "i", "b")
_LETTERS = "abcdefgh"
DTYPE = "float32"


class Code(str):
    """A piece of Python, in contrast to a text that is a value."""

    def __repr__(self) -> str:
        return str(self)


class Sample(Struct, frozen=True):
    """`inputs`: name -> the Python that makes it; `arguments`: parameter -> `Code` or a value."""

    inputs: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)


def normal(shape: tuple[int, ...], number: int = 0) -> str:
    """A constant of normally distributed numbers, others for each number."""
    return f"K.constant(np.random.RandomState({number}).normal(size={shape!r}))"


def fed(shape: tuple[int, ...], number: int, dtype: str = DTYPE) -> str:
    """An array to be fed."""
    return f"np.random.RandomState({number}).normal(size={shape!r}).astype({dtype!r})"


def _ramp(low: float, high: float) -> str:
    return f"K.constant(np.linspace({low}, {high}, 48).reshape(6, 8))"


def _shares(shape: tuple[int, ...], number: int = 0) -> str:
    """Positive numbers whose last axis sums to 1."""
    ones = f"np.ones({shape[-1]})"
    size = shape[0] if len(shape) == 2 else shape[:-1]
    return f"K.constant(np.random.RandomState({number}).dirichlet({ones}, {size!r}))"


_PICTURE = "K.constant(np.hypot(*np.mgrid[-8:8, -8:8]).reshape(1, 16, 16, 1) % 5)"  # rings
_EDGE = "[[-1, 0, 1]] * 3"
_FILTERS = (  # edges across, edges downwards, their difference from what is around, the mean
    f"K.constant(np.stack([{_EDGE}, np.transpose({_EDGE}), 9 * np.eye(9)[4].reshape(3, 3) - 1, "
    "np.ones((3, 3)) / 9], -1).reshape(3, 3, 1, 4))"
)
_WHOLE = "K.constant([2, 0, 1, 2], dtype='int32')"
_RAMPS: dict[str, tuple[float, float]] = {"log": (0.1, 5.0), "sqrt": (0.0, 9.0), "exp": (-4.0, 4.0)}
_LENGTHS = "K.constant([[5], [4]], dtype='int32')"
_CTC = {"y_pred": _shares((2, 5, 4)), "input_length": _LENGTHS}

# A call in the names of its inputs, and how these are made.
_OWN: dict[str, tuple[str, dict[str, str]]] = {
    **{name: (f"K.{name}(x)", {"x": _ramp(*_RAMPS.get(name, (-3.0, 3.0)))}) for name in CURVES},
    **{name: (f"K.{name}(x, y)", {"x": _ramp(-3.0, 3.0), "y": normal((6, 8))}) for name in BINARY},
    "clip": ("K.clip(x, -1.0, 1.0)", {"x": _ramp(-3.0, 3.0)}),
    "pow": ("K.pow(x, 2.0)", {"x": _ramp(0.0, 3.0)}),
    "all": ("K.all(x)", {"x": "K.constant([[1, 1, 0], [1, 1, 1]], dtype='bool')"}),
    "any": ("K.any(x)", {"x": "K.constant([[0, 0, 0], [0, 1, 0]], dtype='bool')"}),
    "one_hot": ("K.one_hot(indices, 3)", {"indices": _WHOLE}),
    "gather": (
        "K.gather(reference, indices)",
        {"reference": normal((4, 3)), "indices": "K.constant([2, 0], dtype='int32')"},
    ),
    "in_top_k": (
        "K.in_top_k(predictions, targets, 2)",
        {"predictions": _shares((4, 3)), "targets": _WHOLE},
    ),
    "gradients": ("K.gradients(loss, x)", {"x": normal((4, 3)), "loss": "K.sum(x * x)"}),
    "function": ("K.function([], outputs)", {"x": normal((4, 3)), "outputs": "[K.exp(x), x * 2]"}),
    "batch_normalization": (
        "K.batch_normalization(x, mean, var, beta, gamma)",
        {
            "x": normal((4, 3)),
            "mean": "K.constant([0.0, 0.5, -0.5])",
            "var": "K.constant([1.0, 2.0, 0.5])",
            "beta": "K.constant([0.0, 0.0, 1.0])",
            "gamma": "K.constant([1.0, 1.0, 2.0])",
        },
    ),
    "sparse_categorical_crossentropy": (
        "K.sparse_categorical_crossentropy(target, output)",
        {"target": _WHOLE, "output": _shares((4, 3))},
    ),
    **{
        name: (
            f"K.{name}(target, output)",
            {"target": "K.constant(np.eye(3)[[2, 0, 1, 2]])", "output": _shares((4, 3))},
        )
        for name in (
            "categorical_crossentropy",
            "categorical_focal_crossentropy",
            "binary_crossentropy",
            "binary_focal_crossentropy",
        )
    },
    "conv2d": ("K.conv2d(x, kernel)", {"x": _PICTURE, "kernel": _FILTERS}),
    "depthwise_conv2d": (
        "K.depthwise_conv2d(x, depthwise_kernel)",
        {"x": _PICTURE, "depthwise_kernel": _FILTERS},
    ),
    "pool2d": ("K.pool2d(x, (2, 2))", {"x": _PICTURE}),
    "resize_images": ("K.resize_images(x, 2, 2, 'channels_last')", {"x": _PICTURE}),
    "spatial_2d_padding": ("K.spatial_2d_padding(x)", {"x": _PICTURE}),
    "ctc_batch_cost": (
        "K.ctc_batch_cost(y_true, y_pred, input_length, label_length)",
        {
            "y_true": "K.constant([[0, 1], [2, 0]], dtype='int32')",
            **_CTC,
            "label_length": "K.constant([[2], [1]], dtype='int32')",
        },
    ),
    "ctc_decode": (
        "K.ctc_decode(y_pred, input_length)",
        {**_CTC, "input_length": "K.constant([5, 4], dtype='int32')"},
    ),
    "ctc_label_dense_to_sparse": (
        "K.ctc_label_dense_to_sparse(labels, label_lengths)",
        {
            "labels": "K.constant([[3, 1, 2], [1, 2, 0]], dtype='int32')",
            "label_lengths": "K.constant([3, 2], dtype='int32')",
        },
    ),
    "rnn": (
        "K.rnn(lambda a, s: (a + s[0], [a + s[0]]), inputs, initial_states)",
        {
            "inputs": normal((2, 6, 3)),
            "initial_states": "[K.zeros((2, 3))]",
            "masked": "K.constant([[1] * 6, [1, 1, 1, 0, 0, 0]], dtype='bool')",
        },
    ),
    "switch": (
        "K.switch(condition, then_expression, else_expression)",
        {
            "condition": "K.constant([[1, 0, 1]] * 4, dtype='bool')",
            "then_expression": normal((4, 3)),
            "else_expression": "K.zeros((4, 3))",
        },
    ),
    "batch_get_value": ("K.batch_get_value(ops)", {"ops": "[K.variable([1, 2]), K.ones((2, 2))]"}),
    "batch_set_value": (
        "K.batch_set_value(tuples)",
        {"tuples": "[(K.variable([1, 2]), [3, 4])]"},
    ),
    "set_value": ("K.set_value(x, value)", {"x": "K.variable([1, 2])", "value": "[3, 4]"}),
    "to_dense": (
        "K.to_dense(tensor)",
        {"tensor": "K.variable(sparse.random(4, 3, 0.4, random_state=0))"},
    ),
    "control_dependencies": (
        "K.control_dependencies(control_inputs)",
        {"control_inputs": "[K.constant(1.0)]"},
    ),
    **{
        name: (f"K.{name}(iterable)", {"iterable": "[True, False]"})
        for name in ("py_all", "py_any", "py_sum")
    },
    "symbolic": ("K.symbolic(lambda x: x)", {}),
    "eager": ("K.eager(lambda x: x)", {}),
    "get_uid": ("K.get_uid('layer')", {}),
    "name_scope": ("K.name_scope('block')", {}),
    "learning_phase_scope": ("K.learning_phase_scope(1)", {}),
    "manual_variable_initialization": ("K.manual_variable_initialization(False)", {}),
    "normalize_data_format": ("K.normalize_data_format(None)", {}),
    "set_epsilon": ("K.set_epsilon(1e-7)", {}),
    "set_exact": ("K.set_exact(False)", {}),
    "set_floatx": ("K.set_floatx('float32')", {}),
    "set_image_data_format": ("K.set_image_data_format('channels_last')", {}),
    "set_image_dim_ordering": ("K.set_image_dim_ordering('tf')", {}),
    "set_learning_phase": ("K.set_learning_phase(1)", {}),
    "set_num_threads": ("K.set_num_threads(1)", {}),
    "set_session": ("K.set_session(session)", {"session": "K.get_session()"}),
}


@functools.cache
def known(name: str) -> Sample:
    """The sample of the K function called `name`; empty for one that takes nothing."""
    from kbench import backend

    text, inputs = _OWN.get(name, (SAMPLES.get(name, f"K.{name}()"), {}))
    call = syntax.parse_expression(text).body
    assert isinstance(call, ast.Call)
    maker = _Inputs(dict(inputs))
    parameters = inspect.signature(getattr(backend, name)).parameters
    given = [*zip(parameters, call.args, strict=False)]
    given += [(str(keyword.arg), keyword.value) for keyword in call.keywords]
    needed = [
        pair
        for pair in given
        if pair[0] != "dtype" or parameters["dtype"].default is inspect.Parameter.empty
    ]
    arguments = {parameter: maker.argument(parameter, node) for parameter, node in needed}
    return Sample(maker.inputs, arguments)


class _Inputs(ast.NodeTransformer):
    """Puts names in the place of the symbols of a sample, and remembers how to make them."""

    def __init__(self, inputs: dict[str, str]) -> None:
        self.inputs = inputs
        self._parameter = ""
        self._plain = True  # the argument is the symbol, and not a list of some

    def argument(self, parameter: str, node: ast.expr) -> Any:
        """An argument of the sample: `Code` where it has inputs or a function, else its value."""
        self._parameter, self._plain = parameter, isinstance(node, ast.Call)
        changed = self.visit(node)
        text = ast.unparse(changed)
        names = {found.id for found in ast.walk(changed) if isinstance(found, ast.Name)}
        if names & set(self.inputs) or isinstance(changed, ast.Lambda):
            return Code(text)
        return eval(text, {"d": DTYPE})  # our own text, from the tables

    def visit_Call(self, node: ast.Call) -> ast.AST:
        symbol = node.func.id if isinstance(node.func, ast.Name) else ""
        if symbol not in _SYMBOLS:
            return self.generic_visit(node)
        shape = tuple(ast.literal_eval(argument) for argument in node.args)
        name = self._parameter if self._plain else _LETTERS[len(self.inputs)]
        self.inputs[name] = _MAKERS[symbol](shape, len(self.inputs))
        return ast.Name(name, ast.Load())


_MAKERS: dict[str, Callable[[tuple[int, ...], int], str]] = {
    "x": normal,
    "v": lambda shape, number: normal(shape, number).replace("K.constant", "K.variable"),
    "i": lambda shape, number: f"K.constant(np.zeros({shape!r}), dtype='int32')",
    "b": lambda shape, number: "K.constant(True, dtype='bool')",
    "s": lambda shape, number: f"K.variable(np.eye(*{shape!r}))",
}


# ------------------------------------------------------------------ beside values that are given

_LIKE = ("y", "target", "targets", "alt", "new_x", "increment", "decrement")
_LAST = ("bias", "mean", "var", "beta", "gamma")


def fitting(function: str, parameter: str, shape: tuple[int, ...]) -> str | None:
    """An operand that fits a first one of `shape`, None where the sample's is as good as any."""
    if not shape:
        return None
    if function == "dot" and parameter == "y":
        return normal((shape[-1], 4), 1)
    if function == "batch_dot" and parameter == "y" and len(shape) > 2:
        return normal((*shape[:-2], shape[-1], 4), 1)
    if parameter == "output" and function in SAMPLES:
        return _shares(shape, 1)
    if parameter in _LIKE and (function in SAMPLES):
        return normal(shape, 1)
    if parameter in _LAST:
        return f"K.ones({(shape[-1],)!r})"
    windows = {"conv1d": 1, "conv2d": 2, "conv3d": 3}.get(function)
    if parameter == "kernel" and windows is not None:
        return normal((*(3,) * windows, shape[-1], 4), 1)
    if parameter == "depthwise_kernel" and function == "depthwise_conv2d":
        return normal((3, 3, shape[-1], 1), 1)
    return None


def fitting_value(function: str, parameter: str, default: object, shape: tuple[int, ...]) -> Any:
    """An argument of the sample, made to fit an input of another shape."""
    rank = len(shape)
    if (function, parameter) == ("permute_dimensions", "pattern"):
        return tuple(reversed(range(rank)))
    if (function, parameter) == ("pattern_broadcast", "broadcastable"):
        return tuple(size == 1 for size in shape)
    if (function, parameter) == ("reshape", "shape"):
        return (-1,)
    if (function, parameter) == ("tile", "n"):
        return (2, *(1 for _ in shape[1:])) if shape else default
    if (function, parameter) == ("squeeze", "axis"):
        return next((axis for axis, size in enumerate(shape) if size == 1), 0)
    if function == "slice":
        return (0,) * rank if parameter == "start" else tuple(min(size, 2) for size in shape)
    return default
