"""Batches of data: rows of matrices of SciPy stay rows, and are never made dense as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend import config
from keras.src.trainers.data_adapters import array_slicing
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.epoch_iterator import EpochIterator

from kbench.keras3.matrices import Rows, array_of, is_matrix, rows_of
from kbench.keras3.tensor import plain


class Batches(EpochIterator):  # type: ignore[misc]
    """Keras' batches, those of matrices of SciPy as rows."""

    _sources: Any = None

    def _get_iterator(self) -> Iterator[Any]:
        adapter = self.data_adapter
        if not isinstance(adapter, ArrayDataAdapter) or not _has_matrices(adapter._inputs):
            return iter(super()._get_iterator())
        if self._sources is None:  # each format becomes compressed rows once, not in every epoch
            self._sources = tree.map_structure(_source, adapter._inputs, none_is_leaf=False)
        found: Iterator[Any] = adapter._get_iterator(_taken, self._sources)
        return found


def _has_matrices(data: Any) -> bool:
    return any(is_matrix(leaf) for leaf in tree.flatten(data))


def _source(data: Any) -> Any:
    """What batches are taken from; floats become `floatx()`, as those of arrays do."""
    rows = rows_of(data) if is_matrix(data) else None
    if rows is not None:
        return rows.in_dtype(config.floatx()) if rows.csr.dtype.kind == "f" else rows
    array = array_of(data) if is_matrix(data) else data
    return array_slicing.convert_to_sliceable(array, target_backend="numpy")


def _taken(source: Any, indices: Any = None) -> Any:
    part = source[indices]
    return part if isinstance(source, Rows) else source.convert_to_numpy(part)


def as_leaf(x: Any) -> Any:
    """A part of a batch as an array, or as rows."""
    if isinstance(x, Rows):
        return x
    rows = rows_of(x) if is_matrix(x) else None
    return np.asarray(plain(x)) if rows is None else rows


def few_rows(x: Any) -> Any:
    """Inputs as arrays: where a matrix is among them, the first row of each is enough.

    A model is built on them, whose variables do not depend on how many rows there are.
    """
    leaves = [None if leaf is None else as_leaf(leaf) for leaf in tree.flatten(x)]
    if not any(isinstance(leaf, Rows) for leaf in leaves):
        return x
    return tree.map_structure(_first_row, x)


def _first_row(x: Any) -> Any:
    if x is None:
        return None
    leaf = as_leaf(x)
    return leaf[:1].array() if isinstance(leaf, Rows) else leaf[:1]


def split(data: Any, share: float) -> Any:
    """Keras' split into data for training and for validation; matrices of SciPy stay sparse."""
    if not _has_matrices(data):
        return array_slicing.train_validation_split(data, validation_split=share)
    numbers = tree.map_structure(lambda x: np.arange(x.shape[0]) if is_matrix(x) else x, data)
    parts = array_slicing.train_validation_split(numbers, validation_split=share)

    return tuple(tree.map_structure(_part, data, part) for part in parts)


def _part(x: Any, rows: Any) -> Any:
    """Neighbouring rows of a matrix, by their numbers; anything else is its own part already."""
    if not is_matrix(x):
        return rows
    return (x.tocsr() if len(x.shape) == 2 else array_of(x))[rows[0] : rows[-1] + 1]
