"""What `kbench.dask.fit` is given: arrays of Dask become rows that Keras can slice.

All else stays as it is. An array of Dask is checked, gets one chunk along each axis but that of
rows, and is computed and kept by the workers while `fit` runs.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from kbench.dask import arrays
from kbench.dask.training.array_rows import ArrayRows, HeldArray
from kbench.dask.training.program import FIT
from kbench.engine.core.errors import (
    ArgumentError,
    DtypeError,
    Operand,
    ShapeError,
    make_operand,
)

TRAINING = ("x", "y", "sample_weight")
VALIDATION = ("validation x", "validation y", "validation sample_weight")
"""What errors call the parts of `validation_data`."""


class Data(Struct, frozen=True):
    """What a `fit` computes with: by the names above, and all other arguments of Keras' `fit`."""

    parts: dict[str, Any]
    arguments: dict[str, Any]

    @classmethod
    def given(cls, model: Any, x: Any, y: Any, arguments: dict[str, Any]) -> Data:
        """What `fit` was given, with its arrays of Dask made ready; they stay lazy.

        Raises:
            ShapeError: chunks of unknown sizes, or other counts of rows. DtypeError: no numbers.
            ArgumentError: something else of Dask, or arrays of Dask in steps of all rows.
        """
        others = dict(arguments)
        parts = {"x": x, "y": y, "sample_weight": others.pop("sample_weight", None)}
        validation = others.get("validation_data")
        if isinstance(validation, (tuple, list)) and len(validation) <= len(VALIDATION):
            parts.update(zip(VALIDATION, others.pop("validation_data"), strict=False))
        for names, steps in ((TRAINING, "steps_per_epoch"), (VALIDATION, "validation_steps")):
            group = {name: parts[name] for name in names if name in parts}
            if not _lazy(group):
                continue
            if others.get(steps) is not None:
                raise ArgumentError(
                    f"{steps}={others[steps]} would give all rows of the dask arrays to each "
                    "step, as Keras does with arrays: leave it out, and say batch_size",
                    function=FIT,
                )
            parts.update({name: _mapped(_prepared, name, part) for name, part in group.items()})
            _check_rows({name: parts[name] for name in group})
        weights = others.get("class_weight")
        weighed = {name: parts[name] for name in ("y", "sample_weight")}
        if weights is not None and _lazy(weighed):
            parts["sample_weight"], others["class_weight"] = _by_class(model, parts, weights)
        return cls(parts, others)

    @contextlib.contextmanager
    def held(self, client: Any) -> Iterator[dict[str, Any]]:
        """All arguments for Keras' `fit`; the chunks are on the workers meanwhile."""
        there = HeldArray.all_of(client, _lazy(self.parts))

        def rows(name: str, value: Any) -> Any:
            return ArrayRows.whole(there[name]) if name in there else value

        parts = {name: _mapped(rows, name, part) for name, part in self.parts.items()}
        validation = tuple(parts.pop(name) for name in VALIDATION if name in parts)
        if validation:
            parts["validation_data"] = validation
        try:
            yield {**parts, **self.arguments}
        finally:
            for one in there.values():
                one.release()  # callbacks have the validation data for longer


def _mapped(change: Callable[[str, Any], Any], name: str, part: Any) -> Any:
    """A part of the data with each of its arrays changed; what has none stays as it is."""
    if isinstance(part, dict):
        return {key: change(f"{name}[{key!r}]", value) for key, value in part.items()}
    if isinstance(part, (list, tuple)) and any(arrays.is_array(value) for value in part):
        return [change(f"{name}[{place}]", value) for place, value in enumerate(part)]
    return change(name, part)


def _all(parts: dict[str, Any]) -> list[tuple[str, Any]]:
    """All arrays of some parts, by their names."""
    found: list[tuple[str, Any]] = []

    def note(name: str, value: Any) -> Any:
        found.append((name, value))
        return value

    for name, part in parts.items():
        _mapped(note, name, part)
    return found


def _lazy(parts: dict[str, Any]) -> dict[str, Any]:
    """The arrays of Dask among them, by their names."""
    return {name: value for name, value in _all(parts) if arrays.is_array(value)}


def _prepared(name: str, array: Any) -> Any:
    """An array of Dask as it is to be cut: known rows, and each of them in one chunk."""
    arrays.refuse_others(FIT, array)
    if not arrays.is_array(array):
        return array
    told = (arrays.operand(name, array),)
    if array.dtype.kind not in arrays.NUMBERS:
        raise DtypeError(f"{name} must be an array of numbers", function=FIT, operands=told)
    if not isinstance(array._meta, np.ndarray) or isinstance(array._meta, np.ma.MaskedArray):
        raise ArgumentError(
            f"{name} has chunks of {type(array._meta).__name__}; chunks must be NumPy arrays",
            function=FIT,
            operands=told,
            suggestion="x.map_blocks(convert), which makes them NumPy arrays",
        )
    if not array.ndim:
        raise ShapeError(f"{name} must have an axis of rows", function=FIT, operands=told)
    if None in arrays.shape_of(array):
        raise ShapeError(
            f"{name} has chunks of unknown sizes, and batches are cut by numbers of rows",
            function=FIT,
            operands=told,
            suggestion="x.compute_chunk_sizes(), before fit",
        )
    if array.ndim == 1 and not name.removeprefix("validation ").startswith("sample_weight"):
        array = array[:, None]  # a column, as Keras makes of NumPy arrays
    whole = {axis: -1 for axis in range(1, array.ndim) if array.numblocks[axis] > 1}
    return array.rechunk(whole) if whole else array


def _check_rows(group: dict[str, Any]) -> None:
    """See to it that all arrays have as many rows."""
    found = {name: value for name, value in _all(group) if getattr(value, "shape", ())}
    if len({value.shape[0] for value in found.values()}) > 1:
        raise ShapeError(
            "all arrays must have the same number of rows: "
            + ", ".join(f"{name} has {value.shape[0]}" for name, value in found.items()),
            function=FIT,
            operands=tuple(filter(None, (_operand(*one) for one in found.items()))),
        )


def _operand(name: str, array: Any) -> Operand | None:
    return arrays.operand(name, array) if arrays.is_array(array) else make_operand(name, array)


# ------------------------------------------------------------------ weights of classes


def _by_class(model: Any, parts: dict[str, Any], class_weight: Any) -> tuple[Any, Any]:
    """Weights of samples and of classes for Keras, with those of arrays of Dask in the first."""
    keras: Any = importlib.import_module("keras.engine.training_utils")
    names = model._feed_output_names
    targets = keras.standardize_input_data(parts["y"], names, None, False, "target")
    samples = list(keras.standardize_sample_weights(parts["sample_weight"], names))
    classes = list(keras.standardize_class_weights(class_weight, names))
    for place, (y, own, table) in enumerate(zip(targets, samples, classes, strict=True)):
        lazy = arrays.is_array(y) or arrays.is_array(own)
        fits = getattr(y, "ndim", 0) == 2 and getattr(own, "ndim", 1) == 1
        if not isinstance(table, dict) or not lazy or not fits:
            continue  # Keras does it, or refuses it
        if arrays.is_array(y):
            kind = np.asarray(list(table.values())).dtype
            found = y.map_blocks(
                class_weights, table, kind, dtype=kind, drop_axis=1, meta=np.empty(0, kind)
            )
        else:
            found = keras.standardize_weights(y, None, table)
        samples[place], classes[place] = found if own is None else own * found, None
    return samples, classes


def class_weights(y: np.ndarray, table: dict[Any, Any], kind: np.dtype[Any]) -> np.ndarray:
    """The weight of each row by its class, as Keras finds it; a task of Dask.

    Raises:
        ArgumentError: a class has no weight.
    """
    classes = np.argmax(y, axis=1) if y.shape[1] > 1 else y[:, 0]
    found, places = np.unique(classes, return_inverse=True)
    missing = [one for one in found.tolist() if one not in table]
    if missing:
        raise ArgumentError(
            f"class_weight must have all classes of the data, and has none for "
            f"{', '.join(map(str, missing))}",
            function=FIT,
            operands=(),
        )
    return np.asarray([table[one] for one in found.tolist()], kind)[places.reshape(-1)]
