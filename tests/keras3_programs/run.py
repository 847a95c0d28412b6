"""What a drawn model gives: before, while and after it is trained."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np

from keras3_programs.draw_model import Drawn


def record(drawn: Drawn, calls: bool = True, **options: Any) -> dict[str, Any]:
    """Outputs, logs and weights by name, of a few steps of training.

    Without `calls`, what does not depend on options of `compile` is left out: the outputs before.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _record(drawn, calls, options)


def _record(drawn: Drawn, calls: bool, options: dict[str, Any]) -> dict[str, Any]:
    x, y, weight = drawn.given()
    model, found = drawn.model, {}
    size = {"batch_size": drawn.batch, "verbose": 0}
    for at in [layer for layer in model._flatten_layers() if getattr(layer, "stateful", False)]:
        at.reset_states() if hasattr(at, "reset_states") else at.reset_state()
    if calls:
        whole = [v for v in model.variables if "float" not in str(v.dtype)]
        before = [np.array(keras.ops.convert_to_numpy(v)) for v in whole]  # seeds
        found |= _named("before", model.predict(x, **size))
        found |= _named("called", model(x, training=False))
        found |= _named("training", model(x, training=True))
        for variable, value in zip(whole, before, strict=True):
            variable.assign(value)
    drawn._set_weights()
    drawn.compile(**options)
    history = model.fit(x, y, sample_weight=weight, epochs=2, shuffle=False, **size).history
    found |= {f"fit/{i}": values for i, values in enumerate(history.values())}
    for variable in model.variables:  # averages that optimizers keep are the same arrays on JAX
        variable.assign(np.array(keras.ops.convert_to_numpy(variable)))
    found |= _logs("evaluate", model.evaluate(x, y, sample_weight=weight, **size))
    found |= _logs("batch", model.train_on_batch(x, y, sample_weight=weight))
    found |= _logs("batch2", model.train_on_batch(x, y, sample_weight=weight))
    found |= {
        f"weight/{i}/{v.path}": _array(v)
        for i, v in enumerate(model.variables)
        if "seed" not in v.path
    }
    found |= {f"optimizer/{i}/{v.path}": _array(v) for i, v in enumerate(model.optimizer.variables)}
    found |= _named("after", model.predict(x, **size))
    return found


def _array(value: Any) -> np.ndarray:
    found = np.asarray(keras.ops.convert_to_numpy(value))
    return found.astype("float32") if found.dtype.name in ("bfloat16", "float16") else found


def _named(name: str, values: Any) -> dict[str, np.ndarray]:
    return {f"{name}/{i}": _array(one) for i, one in enumerate(keras.tree.flatten(values))}


def _logs(name: str, values: Any) -> dict[str, np.ndarray]:
    leaves = keras.tree.flatten(values)
    return {f"{name}/{i}": np.asarray(one) for i, one in enumerate(leaves)}
