"""Gradients of a loss to every trainable variable that it reaches, on what was fed last.

Computed beside the program (`workbench/kernel/sandbox.py`) when a front end asks, never by itself,
and stopped when a cell begins. The gradients stay at hand for the value grid under addresses:
`gradient/w`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from kbench.engine.core import fork_safety
from kbench.engine.inspect import describe
from kbench.engine.runtime import blas
from kbench.workbench.core_types import JsonObject
from kbench.workbench.errors import explanation
from kbench.workbench.inspector import namespace
from kbench.workbench.inspector.recorder import Feeds, Recorder
from kbench.workbench.models import keras_models
from kbench.workbench.protocol.messages import ProtocolError

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor
    from kbench.engine.graph.variables import Placeholder, Variable

PREFIX = "gradient/"
MAX_VARIABLES = 200
"""Whose gradients are computed."""
MAX_LOSSES = 50
"""That are offered, the newest first."""
EXPLODING_NORM = 1_000.0
"""From which on a gradient counts as exploding."""
VANISHING_NORM = 1e-7
"""Below which it counts as vanishing."""
_BLOCK_ELEMENTS = 1 << 20
"""Of a gradient that are read at once, as float64: 8 MB."""


class Target(Struct, frozen=True):
    """A variable, what the user calls it, and what to type for it."""

    name: str
    variable: Variable
    code: str


# ------------------------------------------------------------------ which loss, which variables


def losses(view: namespace.View) -> list[str]:
    """Names of what can be a loss, the newest first: scalar symbols, and compiled models."""
    found: list[tuple[int, str]] = []
    for name, value in view.values().items():
        loss = _loss_of(value)
        if loss is not None and loss.spec.shape == () and loss.spec.dtype.startswith("float"):
            found.append((loss.serial, name))
    return [name for _, name in sorted(found, reverse=True)][:MAX_LOSSES]


def _loss_of(value: object) -> Tensor | None:
    """The symbol whose gradient is meant: a tensor itself, of a compiled Keras model its loss."""
    if keras_models.is_model(value):
        value = keras_models.loss(value)
    if not describe.is_tensor(value) or value.kind not in ("tensor",):
        return None
    return value


def _result_of(function: Function) -> Tensor | None:
    """Of a function's results the first that can be a loss, a scalar where there is one."""
    floats = [output for output in function.outputs if output.spec.dtype.startswith("float")]
    scalars = [output for output in floats if output.spec.shape == ()]
    return next(iter(scalars or floats or function.outputs), None)


def loss_of(view: namespace.View, name: str) -> Tensor:
    """The loss that a name stands for; ProtocolError says why it is none."""
    value = view.part(name).value
    loss = _loss_of(_result_of(value) if describe.is_function(value) else value)
    shown = describe.printable(name)
    if loss is None:
        words = "is not a symbol that depends on variables"
        if keras_models.is_model(value):
            words = "has no loss; compile it first, and with Keras 3 train it on a batch"
        raise ProtocolError("name", f"{shown} {words}")
    if not loss.spec.dtype.startswith("float"):
        raise ProtocolError("name", f"{shown} is {loss.spec}, which has no gradient")
    return loss


def targets(view: namespace.View, nodes: list[Tensor]) -> tuple[list[Target], list[str]]:
    """The trainable float variables among the nodes, and names of others that are not there."""
    names: dict[int, str] = {}
    weights = _Weights()
    for name, value in view.values().items():
        if describe.is_variable(value):
            names.setdefault(id(value), name)
        elif keras_models.is_layer(value):
            weights.add(value, name)
    found: dict[str, Target] = {}
    for node in nodes:
        key = id(node)
        if describe.is_variable(node) and _trains(node) and key not in weights.fixed:
            name = names.get(key) or weights.names.get(key) or node.name.partition(":")[0]
            name = name if name not in found else f"{name} #{len(found)}"
            found[name] = Target(name, node, names.get(key) or weights.codes.get(key, ""))
    there = {id(target.variable) for target in found.values()}
    others = [
        name
        for name, value in view.values().items()
        if describe.is_variable(value) and _trains(value) and id(value) not in there
    ]
    return list(found.values())[:MAX_VARIABLES], others[:MAX_VARIABLES]


class _Weights(Struct):
    """The weights of models and layers by their ids: what they are called, what to type for them,
    and which of them training leaves alone."""

    names: dict[int, str] = field(default_factory=dict)
    codes: dict[int, str] = field(default_factory=dict)
    fixed: set[int] = field(default_factory=set)

    def add(self, layer: object, address: str) -> None:
        """Those below a layer."""
        for part in keras_models.parts(layer, address):
            key = id(part.value)
            if part.weight is not None:
                label = keras_models.label_of(part)
                self.names.setdefault(key, f"{keras_models.name_of(part.owner)}/{label}")
                self.codes.setdefault(key, keras_models.code_of(part))
                if not part.weight.trainable:
                    self.fixed.add(key)
            elif keras_models.is_layer(part.value):
                self.add(part.value, part.address)


def _trains(variable: Variable) -> bool:
    spec = variable.spec
    return bool(variable.trainable) and spec.dtype.startswith("float") and not spec.sparse


# ------------------------------------------------------------------ computing


class _Made(Struct, frozen=True):
    """The function of some gradients: of what (`key`), and which targets have one (`reached`)."""

    loss: Tensor
    found: list[Target]
    key: tuple[int, ...]
    function: Function
    reached: list[bool]


class Gradients:
    """Computes, and keeps what was computed last for the value grid."""

    def __init__(self, view: namespace.View, recorder: Recorder) -> None:
        self._view = view
        self._recorder = recorder
        self._lock = fork_safety.lock()
        self._made: _Made | None = None

    def compute(self, name: str) -> JsonObject:
        """Rows of the gradients of what is called `name`; runs beside the program.

        Raises:
            ProtocolError: it is no loss, or something that it needs was never fed.
        """
        from kbench.engine.graph.traverse import walk
        from kbench.engine.graph.variables import Placeholder

        loss = loss_of(self._view, name)
        nodes = walk([loss])
        found, others = targets(self._view, nodes)
        open_ = [node for node in nodes if isinstance(node, Placeholder)]
        feeds, origin = self._feeds(open_)
        if not found:
            raise ProtocolError("loss", f"{describe.printable(name)} depends on no variable")
        used, values, derivatives = self._run(loss, found, feeds)
        kept = dict(zip((PREFIX + target.name for target in used), derivatives, strict=True))
        with self._lock:
            self._view.unnamed_arrays = kept
        rows = [_row(target, array) for target, array in zip(used, derivatives, strict=True)]
        flat = np.asarray(values, np.float64).reshape(-1)
        return {
            "loss": name,
            "value": describe.number(float(flat.sum())) if flat.size else "-",
            "sum": loss.spec.shape != (),
            "rows": rows,
            "unreached": [target.name for target in found if target not in used] + others,
            "fed": [self._fed_words(node, array) for node, array in feeds.items()],
            "origin": origin,
        }

    def _feeds(self, open_: list[Placeholder]) -> tuple[Feeds, str]:
        """What was fed to the placeholders, from one call where one has fed them all."""
        needed = [node for node in open_ if node.default is None]
        feeds, together = self._recorder.feeds(open_, {id(node) for node in needed})
        missing = [self._called(node) for node in needed if node not in feeds]
        if missing:
            words = ", ".join(missing[:4]) + (" and more" if len(missing) > 4 else "")
            reason = f"needs values for {words}: run a K.function or K.eval that feeds them"
            raise ProtocolError("feeds", reason)
        return feeds, "" if together else "values of several calls"

    def _called(self, node: Tensor) -> str:
        names = (name for name, value in self._view.values().items() if value is node)
        return next(names, describe.printable(node.name.partition(":")[0]))

    def _fed_words(self, node: Tensor, array: np.ndarray) -> str:
        return f"{self._called(node)} {describe.spec_text(array.shape, array.dtype.name)}"

    def _run(
        self, loss: Tensor, found: list[Target], feeds: Feeds
    ) -> tuple[list[Target], np.ndarray, list[np.ndarray]]:
        """The variables that the loss is differentiable to, its value and its gradients."""
        key = (id(loss), *(id(target.variable) for target in found), *(id(node) for node in feeds))
        with self._lock:
            made = self._made if self._made is not None and self._made.key == key else None
        if made is None:
            made = self._make(loss, found, feeds, key)
            with self._lock:
                self._made = made
        values = made.function(list(feeds.values()))
        used = [target for target, there in zip(found, made.reached, strict=True) if there]
        return used, values[0], [np.asarray(gradient) for gradient in values[1:]]

    def _make(self, loss: Tensor, found: list[Target], feeds: Feeds, key: tuple[int, ...]) -> _Made:
        from kbench.engine.autodiff import gradients
        from kbench.engine.execute.function import Function

        derivatives = gradients(loss, [target.variable for target in found])
        outputs = [loss, *(derivative for derivative in derivatives if derivative is not None)]
        function = Function(list(feeds), outputs, name="gradients")
        # The loss is held too: an id belongs to it only as long as it lives.
        return _Made(loss, found, key, function, [slope is not None for slope in derivatives])

    def forget(self) -> None:
        """Let go of the graph and of the gradients."""
        with self._lock:
            self._made = None
            self._view.unnamed_arrays = {}


def _row(target: Target, gradient: np.ndarray) -> JsonObject:
    """The row of one gradient; its values are read in pieces."""
    square, zeros, bad = 0.0, 0, 0
    low, high = np.inf, -np.inf
    flat = gradient.reshape(-1)
    for start in range(0, flat.size, _BLOCK_ELEMENTS):
        block = flat[start : start + _BLOCK_ELEMENTS].astype(np.float64)
        finite = np.isfinite(block)
        zeros += int((block == 0).sum())
        if not finite.all():
            bad += int((~finite).sum())
            block = block[finite]
        if block.size:
            square += blas.square_sum(block)
            low, high = min(low, float(block.min())), max(high, float(block.max()))
    norm = float(np.sqrt(square))
    size = _norm(np.asarray(target.variable.peek()))
    return {
        "name": target.name,
        "key": PREFIX + target.name,
        "shape": list(gradient.shape),
        "dtype": gradient.dtype.name,
        "code": target.code,
        "norm": norm,
        "ratio": norm / size if size else None,
        "zeros": zeros / flat.size if flat.size else None,
        "min": low if low <= high else None,
        "max": high if low <= high else None,
        "bad": bad,
        "mark": _mark(norm, zeros, bad, flat.size),
    }


def _mark(norm: float, zeros: int, bad: int, size: int) -> str:
    if bad:
        return "not finite"
    if size and zeros == size:
        return "dead"
    if norm > EXPLODING_NORM:
        return "exploding"
    return "vanishing" if size and norm < VANISHING_NORM else ""


def _norm(array: np.ndarray) -> float:
    flat, square = array.reshape(-1), 0.0
    for start in range(0, flat.size, _BLOCK_ELEMENTS):
        block = flat[start : start + _BLOCK_ELEMENTS].astype(np.float64)
        square += blas.square_sum(block)
    return float(np.sqrt(square))


def error_words(error: BaseException) -> str:
    """Why there are no gradients, in one line."""
    reason = getattr(error, "reason", None)
    words = str(reason) if isinstance(reason, str) else f"{type(error).__name__}: "
    if not isinstance(reason, str):
        words += explanation.safe_text(error)
    return describe.printable(words.replace("\n", " "), 300)
