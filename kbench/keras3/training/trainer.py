"""`fit`, `evaluate`, `predict` and their kin, made of Keras' own pieces and of traced steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import callbacks as callbacks_module
from keras.src import tree
from keras.src.backend import config
from keras.src.backend.common.stateless_scope import get_stateless_scope
from keras.src.trainers import trainer as base_trainer
from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.epoch_iterator import EpochIterator
from keras.src.utils import traceback_utils
from keras.src.utils.python_utils import pythonify_logs

from kbench.api.operations import uncollected
from kbench.keras3.gradients import traced_gradients
from kbench.keras3.tensor import Traced, tracing
from kbench.keras3.training.batches import Batches, as_leaf, few_rows, split
from kbench.keras3.training.step import Step

STOPS = {"train": "stop_training", "test": "stop_evaluating", "predict": "stop_predicting"}
"""What callbacks set to end a run, by its kind."""


class Trainer(base_trainer.Trainer):  # type: ignore[misc]
    """The trainer of a model: each of its steps is one function of the engine."""

    def __init__(self) -> None:
        super().__init__()
        self.train_function: Any = None
        self.test_function: Any = None
        self.predict_function: Any = None

    # -------------------------------------------------------------- one step

    def train_step(self, data: Any) -> Any:
        """One step of the optimizer on a batch; returns the logs."""
        x, y, weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        y_pred = self._predicted(x, True)
        loss = self._tracked_loss(x, y, y_pred, weight, True)
        if self.optimizer is not None and self.trainable_weights:
            scaled = self.optimizer.scale_loss(loss)
            variables = self.trainable_weights
            slopes = traced_gradients(scaled, variables)
            _put_back(variables)
            self.optimizer.apply(slopes, variables)
        return self.compute_metrics(x, y, y_pred, sample_weight=weight)

    def test_step(self, data: Any) -> Any:
        """Loss and metrics of a batch."""
        x, y, weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        y_pred = self._predicted(x, False)
        self._tracked_loss(x, y, y_pred, weight, False)
        return self.compute_metrics(x, y, y_pred, sample_weight=weight)

    def predict_step(self, data: Any) -> Any:
        """What the model gives for a batch."""
        return self._predicted(data_adapter_utils.unpack_x_y_sample_weight(data)[0], False)

    def _predicted(self, x: Any, training: bool) -> Any:
        return self(x, training=training) if self._call_has_training_arg else self(x)

    def _tracked_loss(self, x: Any, y: Any, y_pred: Any, weight: Any, training: bool) -> Any:
        loss = self._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight, training=training)
        if training and isinstance(loss, Traced):
            self.__dict__["_traced_loss"] = loss.held  # for whoever asks for gradients of the step
        count = next(leaf for leaf in tree.flatten(x) if leaf is not None).shape[0]
        self._loss_tracker.update_state(loss, sample_weight=count)
        return loss

    def make_train_function(self, force: bool = False) -> Any:
        """The function of a list of batches that trains on each, and returns the last logs."""
        if self.train_function is None or force:
            self.train_function = Batched(Step(self, self.train_step, "train_step"), _last)
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        """The function of a list of batches that evaluates each, and returns the last logs."""
        if self.test_function is None or force:
            self.test_function = Batched(Step(self, self.test_step, "test_step"), _last)
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Any:
        """The function of a list of batches that gives what the model says of all of them."""
        if self.predict_function is None or force:
            self.predict_function = Batched(Step(self, self.predict_step, "predict_step"), _joined)
        return self.predict_function

    # -------------------------------------------------------------- many steps

    @traceback_utils.filter_traceback  # type: ignore[untyped-decorator]
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: Any = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: Any = None,
        validation_steps: Any = None,
        validation_batch_size: Any = None,
        validation_freq: Any = 1,
    ) -> Any:
        """Train for some epochs; what arguments mean says Keras. Returns the history."""
        self._assert_compile_called("fit")
        self._eval_epoch_iterator = None
        epochs = min(epochs, config.max_epochs() or epochs)
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = split((x, y, sample_weight), validation_split)
        batches = self._batches(
            x, y, sample_weight, batch_size, steps_per_epoch, shuffle, class_weight
        )
        told = self._callbacks(callbacks, batches, verbose, epochs, add_history=True)
        self._symbolic_build(iterator=batches)
        batches.reset()
        self.stop_training = False
        self.make_train_function()
        told.on_train_begin()
        logs: Any = {}
        for epoch in range(self._initial_epoch or initial_epoch, epochs):
            self.reset_metrics()
            told.on_epoch_begin(epoch)
            logs = self._trained_epoch(batches, told)
            if validation_data is not None and self._should_eval(epoch, validation_freq):
                size = validation_batch_size or batch_size
                logs |= self._validated(validation_data, size, validation_steps, told)
            told.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        if self.optimizer is not None and epochs > 0:
            self.optimizer.finalize_variable_values(self.trainable_weights)
        self._eval_epoch_iterator = None
        told.on_train_end(logs=logs)
        return self.history

    def _trained_epoch(self, batches: Any, told: Any) -> dict[str, Any]:
        """Every batch of one epoch; the logs of the epoch."""

        def run(data: Any) -> Any:
            return pythonify_logs(self.train_function(data))

        logs = self._each_batch(batches, told, "train", run)
        return dict(self._get_metrics_result_or_logs(logs))

    def _each_batch(self, batches: Any, told: Any, kind: str, run: Any) -> Any:
        """`run` of every batch, between its two callbacks, until one of them stops it.

        Returns what the last call told.
        """
        begins, ends = (getattr(told, f"on_{kind}_batch_{part}") for part in ("begin", "end"))
        count = batches.num_batches  # noqa: F841 - for whoever watches how far the loop has come
        logs: Any = {}
        for begin, end, data in batches:
            begins(begin)
            logs = run(data)
            ends(end, logs)
            if getattr(self, STOPS[kind]):
                break
        return logs

    def _validated(self, data: Any, batch_size: Any, steps: Any, told: Any) -> dict[str, Any]:
        """The logs of an evaluation within `fit`, whose batches are made once."""
        x, y, weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        if getattr(self, "_eval_epoch_iterator", None) is None:
            self._eval_epoch_iterator = self._batches(x, y, weight, batch_size, steps)
        found = self.evaluate(
            x=x,
            y=y,
            sample_weight=weight,
            batch_size=batch_size,
            steps=steps,
            callbacks=told,
            return_dict=True,
            _use_cached_eval_dataset=True,
        )
        return {f"val_{name}": value for name, value in found.items()}

    @traceback_utils.filter_traceback  # type: ignore[untyped-decorator]
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: Any = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: Any = None,
        callbacks: Any = None,
        return_dict: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Loss and metrics over all batches."""
        self._assert_compile_called("evaluate")
        cached = kwargs.pop("_use_cached_eval_dataset", False)
        if kwargs:
            raise ValueError(f"Arguments not recognized: {kwargs}")
        batches: Any = self._eval_epoch_iterator if cached else None
        if batches is None:
            batches = self._batches(x, y, sample_weight, batch_size, steps)
        told = self._callbacks(callbacks, batches, verbose, 1)
        self._symbolic_build(iterator=batches)
        batches.reset()
        self.make_test_function()
        self.stop_evaluating = False
        told.on_test_begin()
        self.reset_metrics()

        def run(data: Any) -> Any:
            return pythonify_logs(self.test_function(data))

        logs = self._each_batch(batches, told, "test", run)
        logs = pythonify_logs(self._get_metrics_result_or_logs(logs))
        told.on_test_end(logs)
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    @traceback_utils.filter_traceback  # type: ignore[untyped-decorator]
    def predict(
        self,
        x: Any,
        batch_size: Any = None,
        verbose: Any = "auto",
        steps: Any = None,
        callbacks: Any = None,
    ) -> Any:
        """What the model gives for all batches, joined along the first axis."""
        batches = self._batches(x, None, None, batch_size, steps)
        told = self._callbacks(callbacks, batches, verbose, 1)
        self.make_predict_function()
        self.stop_predicting = False
        found: list[Any] = []

        def run(data: Any) -> Any:
            self._build_by(data[0])
            found.append(self.predict_function(data))
            return {"outputs": found[-1]}

        told.on_predict_begin()
        self._each_batch(batches, told, "predict", run)
        told.on_predict_end()
        return _joined(found)

    # -------------------------------------------------------------- single batches

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """One step on one batch; the metrics so far."""
        self._assert_compile_called("train_on_batch")
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError(
                    "Arguments `sample_weight` and `class_weight` cannot be specified at the same "
                    f"time. Received: sample_weight={sample_weight}, class_weight={class_weight}"
                )
            sample_weight = data_adapter_utils.class_weight_to_sample_weights(y, class_weight)
        return self._on_batch((x, y, sample_weight), self.make_train_function, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Loss and metrics of one batch."""
        self._assert_compile_called("test_on_batch")
        return self._on_batch((x, y, sample_weight), self.make_test_function, return_dict)

    def _on_batch(self, batch: Any, make: Any, return_dict: bool) -> Any:
        data = tree.map_structure(lambda leaf: None if leaf is None else as_leaf(leaf), batch)
        self._symbolic_build(data_batch=data)
        function = make()
        self.reset_metrics()
        logs = pythonify_logs(function([data]))
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    def predict_on_batch(self, x: Any) -> Any:
        """What the model gives for one batch."""
        data = (tree.map_structure(as_leaf, x),)
        self._build_by(data)
        return self.make_predict_function()([data])

    def _build_by(self, batch: Any) -> None:
        """The variables of a model that has not seen data yet."""
        if not all(layer.built for layer in self._flatten_layers()):
            self(few_rows(data_adapter_utils.unpack_x_y_sample_weight(batch)[0]))

    def _symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Build what is not built; where steps run eagerly, on values that Python may look at."""
        tracing.builds_on_values = bool(self.run_eagerly)
        try:
            with uncollected():
                super()._symbolic_build(iterator=iterator, data_batch=data_batch)
        finally:
            tracing.builds_on_values = False

    def _batches(
        self,
        x: Any,
        y: Any,
        sample_weight: Any,
        batch_size: Any,
        steps: Any,
        shuffle: bool = False,
        class_weight: Any = None,
    ) -> EpochIterator:
        if isinstance(x, EpochIterator):
            return x
        return Batches(
            x=x,
            y=y,
            sample_weight=sample_weight,
            batch_size=batch_size,
            steps_per_epoch=steps,
            shuffle=shuffle,
            class_weight=class_weight,
            steps_per_execution=self.steps_per_execution,
        )

    def _callbacks(
        self, given: Any, batches: Any, verbose: Any, epochs: int, **options: Any
    ) -> Any:
        if isinstance(given, callbacks_module.CallbackList):
            return given
        return callbacks_module.CallbackList(
            given,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=epochs,
            steps=batches.num_batches,
            model=self,
            **options,
        )


def _put_back(variables: Any) -> None:
    """Let the optimizer begin with the values that gradients were taken at.

    A layer may assign to a variable that is trained, as `SpectralNormalization` does. On JAX that
    lasts as long as the pass through the model, and the gradient goes through what was assigned.
    """
    scope = get_stateless_scope()
    for variable in variables:
        value = scope.get_current_value(variable)
        if isinstance(value, Traced) and value.held is not variable._node:
            scope.add_update((variable, Traced(variable._node, variable._dtype)))


class Batched:
    """A step as a function of several batches: `steps_per_execution` of them at a time."""

    def __init__(self, step: Step, result: Callable[[list[Any]], Any]) -> None:
        self.step, self.result = step, result

    def __call__(self, batches: Any) -> Any:
        return self.result([self.step(batch) for batch in batches])


def _last(logs: list[Any]) -> Any:
    return logs[-1] if logs else {}


def _joined(parts: list[Any]) -> Any:
    """Outputs of batches as one, along the first axis."""
    if len(parts) == 1:
        return parts[0]
    return tree.map_structure(
        lambda *arrays: None if arrays[0] is None else np.concatenate(arrays), *parts
    )
