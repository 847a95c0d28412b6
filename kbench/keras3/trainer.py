"""Training as one function a step: Keras' own pieces traced, gradients by the reverse sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src import callbacks as callbacks_module
from keras.src import tree
from keras.src.backend.common.stateless_scope import StatelessScope
from keras.src.trainers import trainer as base_trainer
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from keras.src.trainers.epoch_iterator import EpochIterator
from keras.src.utils.python_utils import pythonify_logs

from kbench import backend as K
from kbench.keras3.core import traced
from kbench.keras3.tensor import Traced, node_of


class _Step:
    """A method of the model that is traced once for each structure, shape and dtype of a batch."""

    def __init__(self, model: Any, method: Any, name: str) -> None:
        self.model, self.method, self.name = model, method, name
        self.made: dict[Any, Any] = {}

    def __call__(self, batch: Any) -> Any:
        leaves = [np.asarray(leaf) for leaf in tree.flatten(batch) if leaf is not None]
        shapes = tuple((leaf.shape, leaf.dtype.name) for leaf in leaves)
        places = tuple(leaf is None for leaf in tree.flatten(batch))
        key = (shapes, places)
        if key not in self.made:
            self.made[key] = self._trace(batch, leaves)
        function, structure = self.made[key]
        return tree.pack_sequence_as(structure, function(leaves))

    def _trace(self, batch: Any, leaves: list[np.ndarray]) -> Any:
        inputs = [K.placeholder(leaf.shape, dtype=leaf.dtype.name) for leaf in leaves]
        left = iter(inputs)
        symbols = tree.map_structure(lambda x: None if x is None else Traced(next(left)), batch)
        owners = {id(variable): variable for variable in _all_variables(self.model)}
        with traced(), StatelessScope() as scope:
            results = self.method(symbols)
        updates = []
        for owner, value in scope.state_mapping.items():
            if owner not in owners:
                raise NotImplementedError("a step stored to a variable that the model does not own")
            variable = owners[owner]
            updates.append(K.update(variable._node, K.cast(node_of(value), variable._dtype)))
        outputs = [node_of(leaf) for leaf in tree.flatten(results)]
        return K.function(inputs, outputs, updates=updates, name=self.name), results


def _all_variables(model: Any) -> list[Any]:
    optimizer = getattr(model, "optimizer", None)
    own = [*model.variables, *model.metrics_variables]
    return [*own, *(optimizer.variables if optimizer is not None else ())]


class Trainer(base_trainer.Trainer):  # type: ignore[misc]
    """`fit`, `evaluate` and `predict` of Keras 3, each step one function."""

    def __init__(self) -> None:
        super().__init__()
        self.train_function: Any = None
        self.test_function: Any = None
        self.predict_function: Any = None

    def train_step(self, data: Any) -> Any:
        x, y, weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        y_pred = self._predicted(x, True)
        loss = self._tracked_loss(x, y, y_pred, weight, True)
        variables = self.trainable_variables
        nodes = [variable._node for variable in variables]
        found = K.gradients(node_of(self.optimizer.scale_loss(loss)), nodes)
        lost = [v.path for v, g in zip(variables, found, strict=True) if g is None]
        if lost:
            raise ValueError(f"the loss does not depend on {', '.join(lost)}")
        gradients = [Traced(gradient) for gradient in found if gradient is not None]
        self.optimizer.apply(gradients, variables)
        return self.compute_metrics(x, y, y_pred, sample_weight=weight)

    def test_step(self, data: Any) -> Any:
        x, y, weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        y_pred = self._predicted(x, False)
        self._tracked_loss(x, y, y_pred, weight, False)
        return self.compute_metrics(x, y, y_pred, sample_weight=weight)

    def predict_step(self, data: Any) -> Any:
        return self._predicted(data_adapter_utils.unpack_x_y_sample_weight(data)[0], False)

    def _predicted(self, x: Any, training: bool) -> Any:
        return self(x, training=training) if self._call_has_training_arg else self(x)

    def _tracked_loss(self, x: Any, y: Any, y_pred: Any, weight: Any, training: bool) -> Any:
        loss = self._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight, training=training)
        count = next(leaf for leaf in tree.flatten(x) if leaf is not None).shape[0]
        self._loss_tracker.update_state(loss, sample_weight=count)
        return loss

    def make_train_function(self, force: bool = False) -> Any:
        if self.train_function is None or force:
            self.train_function = _Step(self, self.train_step, "train_step")
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        if self.test_function is None or force:
            self.test_function = _Step(self, self.test_step, "test_step")
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Any:
        if self.predict_function is None or force:
            self.predict_function = _Step(self, self.predict_step, "predict_step")
        return self.predict_function

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
        self._assert_compile_called("fit")
        if validation_split and validation_data is None:
            kept, validation_data = array_slicing.train_validation_split(
                (x, y, sample_weight), validation_split=validation_split
            )
            x, y, sample_weight = kept
        batches = _Batches(
            x=x,
            y=y,
            sample_weight=sample_weight,
            batch_size=batch_size,
            shuffle=shuffle,
            steps_per_epoch=steps_per_epoch,
            class_weight=class_weight,
        )
        self._symbolic_build(iterator=batches)
        batches.reset()
        told = self._callbacks(callbacks, batches, verbose, epochs, add_history=True)
        self.stop_training, logs = False, {}
        step = self.make_train_function()
        told.on_train_begin()
        for epoch in range(self._initial_epoch or initial_epoch, epochs):
            self.reset_metrics()
            told.on_epoch_begin(epoch)
            logs = self._trained_epoch(step, batches, told)
            logs = dict(self._get_metrics_result_or_logs(logs))
            if validation_data is not None and self._should_eval(epoch, validation_freq):
                vx, vy, vw = data_adapter_utils.unpack_x_y_sample_weight(validation_data)
                found = self.evaluate(
                    vx,
                    vy,
                    sample_weight=vw,
                    batch_size=validation_batch_size or batch_size,
                    steps=validation_steps,
                    callbacks=told,
                    return_dict=True,
                )
                logs.update({f"val_{name}": value for name, value in found.items()})
            told.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        self.optimizer.finalize_variable_values(self.trainable_weights)
        told.on_train_end(logs=logs)
        return self.history

    def _trained_epoch(self, step: Any, batches: Any, told: Any) -> Any:
        """Every batch of one epoch; the logs of the last."""
        logs: Any = {}
        for begin, end, data in batches:
            told.on_train_batch_begin(begin)
            logs = pythonify_logs(step(next(iter(data))))
            told.on_train_batch_end(end, logs)
            if self.stop_training:
                break
        return logs

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
    ) -> Any:
        self._assert_compile_called("evaluate")
        batches = _Batches(
            x=x,
            y=y,
            sample_weight=sample_weight,
            batch_size=batch_size,
            steps_per_epoch=steps,
            shuffle=False,
        )
        self._symbolic_build(iterator=batches)
        batches.reset()
        told = self._callbacks(callbacks, batches, verbose, 1)
        step, logs, self.stop_evaluating = self.make_test_function(), {}, False
        told.on_test_begin()
        self.reset_metrics()
        for begin, end, data in batches:
            told.on_test_batch_begin(begin)
            logs = pythonify_logs(step(next(iter(data))))
            told.on_test_batch_end(end, logs)
            if self.stop_evaluating:
                break
        logs = pythonify_logs(self._get_metrics_result_or_logs(logs))
        told.on_test_end(logs)
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    def predict(
        self,
        x: Any,
        batch_size: Any = None,
        verbose: Any = "auto",
        steps: Any = None,
        callbacks: Any = None,
    ) -> Any:
        batches = _Batches(x=x, batch_size=batch_size, steps_per_epoch=steps, shuffle=False)
        told = self._callbacks(callbacks, batches, verbose, 1)
        step, found, self.stop_predicting = self.make_predict_function(), [], False
        told.on_predict_begin()
        for begin, end, data in batches:
            told.on_predict_batch_begin(begin)
            batch = next(iter(data))
            if not all(layer.built for layer in self._flatten_layers()):
                self(data_adapter_utils.unpack_x_y_sample_weight(batch)[0])
            found.append(step(batch))
            told.on_predict_batch_end(end, {"outputs": found[-1]})
            if self.stop_predicting:
                break
        told.on_predict_end()
        return tree.map_structure(lambda *parts: np.concatenate(parts), *found)

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


class _Batches(EpochIterator):  # type: ignore[misc]
    """The batches of one epoch, as arrays."""

    def _get_iterator(self) -> Any:
        return self.data_adapter.get_numpy_iterator()
