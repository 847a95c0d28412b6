"""What a compiled model of Keras 2.3.1 becomes for training by several workers.

Workers get a `Program`: the graph of the loss, its gradients, the new states of layers and what
each metric adds, for one shard of a batch. It changes no variable. The client keeps the model and
has a `Store`: one function that takes the sums over all shards and does what the rest of a step
of Keras does, all at once: the optimizer's updates, states, metrics. Workers need no Keras.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from msgspec import Struct

from kbench import backend as K
from kbench.dask.payload import Payload, pack
from kbench.dask.training.collective import one_graph
from kbench.dask.training.statistics import normalizes_batches, of_the_whole_batch
from kbench.engine.core.errors import ArgumentError
from kbench.engine.execute.function import Function
from kbench.engine.graph.convert import Constant
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.updates import Update, as_update
from kbench.engine.graph.variables import Variable

FIT = "kbench.dask.fit"


class Program(Struct, frozen=True):
    """What a worker computes. Both functions take a shard's arrays and then its share.

    `train` gives the loss, then gradients, states, metrics as many as the counts say; `test` the
    loss and metrics. `weights` are set before, `zeros` are 0: what metrics add is told from there.
    """

    job: str
    train: Function
    test: Function
    weights: tuple[Variable, ...]
    zeros: tuple[Variable, ...]
    gradients: int
    states: int
    is_joint: bool  # shards need one another while they run
    phase: bool  # the last array is the learning phase


class Store(Struct, frozen=True):
    """What the client does with the sums over shards. `train` and `test` give the metrics."""

    train: Function
    test: Function
    gradients: tuple[int, ...]  # which gradients of the program `train` takes, in order


def build(model: Any, job: str, synchronized: bool) -> tuple[Program, Store]:
    """The program of a compiled model, and what is to be done with its results.

    Raises:
        ArgumentError: the model's result cannot be put together from shards.
    """
    _check_loss(model)
    gradients = _with_train_function(model)
    metrics = _Metrics(model)
    states = [as_update(update) for update in model.updates]
    weights = _weights(model)
    roots = [model.total_loss, *[update.inputs[1] for update in states], *metrics.new]
    share = K.placeholder((), dtype="float64", name="share")
    is_joint = synchronized and normalizes_batches(roots)
    slopes: list[Tensor] = gradients
    if is_joint:
        with one_graph():
            roots = of_the_whole_batch(roots, share)
            slopes = list(map(_needed, K.gradients(roots[0], model._collected_trainable_weights)))
    loss, new_states = roots[0], roots[1 : 1 + len(states)]
    new_metrics = roots[1 + len(states) :]
    inputs = [*model._feed_inputs, *model._feed_targets, *model._feed_sample_weights]
    phase = bool(model._uses_dynamic_learning_phase())
    inputs += [K.learning_phase()] if phase else []
    program = Program(
        job,
        K.function([*inputs, share], [loss, *slopes, *new_states, *new_metrics], name="shard"),
        K.function([*inputs, share], [loss, *new_metrics], name="shard_test"),
        tuple(weights),
        tuple(metrics.variables),
        len(slopes),
        len(states),
        is_joint,
        phase,
    )
    return program, _store(model, gradients, states, metrics)


def _needed(gradient: Tensor | None) -> Tensor:
    assert gradient is not None  # else the optimizer had refused it
    return gradient


def _weights(model: Any) -> list[Variable]:
    found = {id(weight): weight for weight in model.weights}
    return list(found.values())


# ------------------------------------------------------------------ what Keras has made


_building = threading.Lock()


def _with_train_function(model: Any) -> list[Tensor]:
    """Have Keras make its own step; the gradients that its optimizer has asked for.

    A step that was there before is made again, with the optimizer's state as it was.
    """
    state = None
    if model.train_function is not None:
        state = model.optimizer.get_weights()
        model.train_function = None
    with _building, _asked_gradients() as asked:
        model._make_train_function()
    if state is not None and len(state) == len(model.optimizer.weights):
        model.optimizer.set_weights(state)
    weights = model._collected_trainable_weights
    for loss, variables, found in asked:
        same = isinstance(variables, (list, tuple)) and len(variables) == len(weights)
        if loss is model.total_loss and same and all(map(_is, variables, weights)):
            return list(found)
    raise ArgumentError(
        f"optimizer {type(model.optimizer).__name__} does not ask for the gradients of the loss by "
        "K.gradients, so that they cannot be taken from the workers",
        function=FIT,
    )


def _is(first: object, second: object) -> bool:
    return first is second


@contextmanager
def _asked_gradients() -> Iterator[list[tuple[Any, Any, list[Any]]]]:
    """What this thread asks of `keras.backend.gradients`."""
    module: Any = importlib.import_module("keras.backend")
    asked: list[tuple[Any, Any, list[Any]]] = []
    original, here = module.gradients, threading.get_ident()

    def gradients(loss: Any, variables: Any) -> list[Any]:
        found: list[Any] = original(loss, variables)
        if threading.get_ident() == here:
            asked.append((loss, variables, found))
        return found

    module.gradients = gradients
    try:
        yield asked
    finally:
        module.gradients = original


def _check_loss(model: Any) -> None:
    """See to it that the loss of a batch is the mean of those of its shards."""
    for name, loss in zip(model.output_names, model.loss_functions, strict=False):
        if getattr(loss, "reduction", None) == "sum":
            raise ArgumentError(
                f"the loss of output {name!r} is a sum over the batch (reduction='sum'); "
                "shards are put together by means: use the default reduction",
                function=FIT,
            )
    if getattr(model, "stateful", False):
        raise ArgumentError(
            "the model is stateful: what a batch leaves for the next belongs to its rows, and "
            "rows go to other workers; build it with stateful=False",
            function=FIT,
        )


class _Metrics:
    """Metrics whose states are sums: what shards add is added up."""

    def __init__(self, model: Any) -> None:
        self.metrics = [
            metric
            for metric in model._get_training_eval_metrics()
            if hasattr(metric, "_call_result")
        ]
        updates = [update for metric in self.metrics for update in metric.updates]
        for update in updates:
            _check_sum(update)
        self.variables = [update.target for update in updates]
        if len({id(variable) for variable in self.variables}) != len(updates):
            raise ArgumentError("a metric stores to one of its variables twice", function=FIT)
        self.new = [update.inputs[1] for update in updates]


def _check_sum(update: Update) -> None:
    value = update.inputs[1]
    while value.op.name in ("cast", "identity"):
        value = value.inputs[0]
    if value.op.name == "add" and any(operand is update.target for operand in value.inputs):
        return
    name = update.target.name.split(":")[0]
    raise ArgumentError(
        f"the metric that keeps {name!r} does not add to it, so that what shards have found cannot "
        "be put together; leave it out of compile(metrics=...), and evaluate it on one machine",
        function=FIT,
    )


# ------------------------------------------------------------------ what the client stores


def _store(
    model: Any, gradients: Sequence[Tensor], states: Sequence[Update], metrics: _Metrics
) -> Store:
    """Functions that take gradients, new states and what metrics add; none changes all but once."""
    positions: dict[int, int] = {}
    for position, gradient in enumerate(gradients):
        if not isinstance(gradient, Constant):
            positions.setdefault(id(gradient), position)
    used = [gradients[position] for position in positions.values()]
    own = {id(update.target) for update in (*states, *_updates_of(metrics))}
    rest = [update for update in model.train_function.updates if id(update.target) not in own]
    values = [_holder(update.target, "state") for update in states]
    added = [_holder(variable, "added") for variable in metrics.variables]
    stored = [K.update(update.target, value) for update, value in zip(states, values, strict=True)]
    adding = [
        K.update_add(variable, value)
        for variable, value in zip(metrics.variables, added, strict=True)
    ]
    with K.control_dependencies(adding):
        results = [K.identity(_result(metric)) for metric in metrics.metrics]
    train = K.function([*used, *values, *added], results, [*rest, *stored, *adding], name="step")
    test = K.function(added, results, adding, name="metrics")
    return Store(train, test, tuple(positions.values()))


def _result(metric: Any) -> Tensor:
    """A metric's result of its states as they are, beside the one that Keras keeps with it."""
    kept = metric._call_result
    try:
        return metric.result()  # type: ignore[no-any-return]
    finally:
        metric._call_result = kept


def _updates_of(metrics: _Metrics) -> list[Update]:
    return [update for metric in metrics.metrics for update in metric.updates]


def _holder(variable: Variable, name: str) -> Tensor:
    return K.placeholder(variable.spec.shape, dtype=variable.spec.dtype, name=name)


def packed(program: Program) -> Payload:
    """The bytes of a program. Constraints stay here, where the optimizer is: they are Keras'."""
    kept = [(weight, weight.constraint) for weight in program.weights]
    with _building:
        try:
            for weight, _ in kept:
                weight.constraint = None
            return pack(program)
        finally:
            for weight, constraint in kept:
                weight.constraint = constraint


def weights_of(program: Program) -> list[np.ndarray]:
    """The weights as they are now, in the program's order. They do not change while held."""
    return [np.asarray(variable.held()) for variable in program.weights]


def version_of(program: Program) -> tuple[int, ...]:
    """Changes whenever a weight does."""
    return tuple([variable.version for variable in program.weights])
