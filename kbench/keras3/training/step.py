"""A step of training, evaluation or prediction as one function of the engine."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common.stateless_scope import StatelessScope
from keras.src.trainers.trainer import model_supports_jit

from kbench import backend as K
from kbench.api.operations import kernels_allowed, uncollected
from kbench.keras3.core import traced, updates_of
from kbench.keras3.matrices import Rows, held_dtype
from kbench.keras3.tensor import (
    SparseTraced,
    Traced,
    from_held,
    held,
    known_rows,
    plain,
    symbol_of,
    to_held,
)
from kbench.keras3.training.batches import as_leaf

MAX_TRACES = 64
"""Traces of a step that are kept: one for each structure, shapes and dtypes of a batch."""


class Step:
    """A method of the model that is traced once for each structure, shapes and dtypes of a batch.

    With `run_eagerly` it is built anew at each call, on values that Python may look at. With
    `jit_compile=False`, or with layers that cannot be compiled, it is so where a trace fails for
    want of values. Operations of `jit_compile=False` are run by NumPy, one after the other.
    """

    def __init__(self, model: Any, method: Any, name: str) -> None:
        self.model, self.method, self.name = model, method, name
        self.made: dict[Any, Any] = {}
        self.needs_values = False

    def __call__(self, batch: Any) -> Any:
        leaves = [as_leaf(x) for x in tree.flatten(batch) if x is not None]
        if any(_is_text(leaf) for leaf in leaves):  # which is not traced
            return self.method(batch)
        if self.model.run_eagerly or self.needs_values:
            return self._eagerly(batch)
        shapes = tuple(
            (leaf.shape, leaf.dtype) if isinstance(leaf, Rows) else (leaf.shape, leaf.dtype.name)
            for leaf in leaves
        )
        key = (shapes, repr(tree.map_structure(lambda x: x is None, batch)))
        if key not in self.made:
            if len(self.made) >= MAX_TRACES:
                self.made.clear()
            try:
                self.made[key] = self._trace(batch, leaves)
            except (TypeError, ValueError, NotImplementedError):
                if _is_compiled(self.model):
                    raise
                self.needs_values = True
                return self._eagerly(batch)
        function, structure = self.made[key]
        with _kernels(self.model):
            found = function([x.csr if isinstance(x, Rows) else to_held(x) for x in leaves])
        return _packed(structure, found)

    def _trace(self, batch: Any, leaves: list[Any]) -> Any:
        inputs = [_symbol(leaf) for leaf in leaves]
        left = iter(inputs)
        symbols = tree.map_structure(lambda x: None if x is None else next(left), batch)
        nodes = [one.rows if isinstance(one, SparseTraced) else one.held for one in inputs]
        with uncollected():
            outputs, updates, structure = self._built(symbols, False)
            return K.function(nodes, outputs, updates=updates, name=self.name), structure

    def _built(self, symbols: Any, known: bool) -> tuple[list[Any], list[Any], Any]:
        """Outputs, updates of variables, and the structure of the results."""
        state = _state(self.model)
        with traced(known), StatelessScope(state, collect_losses=True) as scope:
            before = dict(scope.state_mapping)
            results = self.method(symbols)
            updates = updates_of(scope.state_mapping, before)
            results = _loss_first(tree.map_structure(plain, results))
        leaves = [x for x in tree.flatten(results) if x is not None]
        outputs = [(x if isinstance(x, Traced) else _known(x)).held for x in leaves]
        return outputs, updates, results

    def _eagerly(self, batch: Any) -> Any:
        symbols = tree.map_structure(lambda x: None if x is None else _known(x), batch)
        outputs, updates, structure = self._built(symbols, True)
        found = K.function([], outputs, updates=updates, name=self.name)([])
        return _packed(structure, found)


def _loss_first(results: Any) -> Any:
    """Logs whose first entry is the loss, as it is the first result of a training function of K."""
    if type(results) is not dict or "loss" not in results:
        return results
    return OrderedDict([("loss", results["loss"]), *results.items()])


def _is_text(leaf: Any) -> bool:
    return not isinstance(leaf, Rows) and leaf.dtype.kind in "USO"


def _symbol(leaf: Any) -> Traced:
    """A symbol that is fed an array, or rows."""
    if not isinstance(leaf, Rows):
        return symbol_of(leaf.shape, leaf.dtype.name)
    dtype = held_dtype(leaf.dtype)
    return SparseTraced(K.placeholder(leaf.shape, dtype=dtype, sparse=True), leaf.dtype)


def _known(x: Any) -> Traced:
    """A symbol that has the value of an array, or of rows."""
    leaf = as_leaf(x)
    return known_rows(leaf) if isinstance(leaf, Rows) else Traced(held(leaf), leaf.dtype.name)


def _is_compiled(model: Any) -> bool:
    """Whether the model is compiled, as it may be without a word: no layer speaks against it."""
    return getattr(model, "_jit_compile", None) is not False and bool(model_supports_jit(model))


def _state(model: Any) -> list[tuple[Any, Any]]:
    """The variables of the model, its metrics and its optimizer, as symbols of the trace."""
    optimizer = getattr(model, "optimizer", None)
    known = {}
    parts = [model.variables, model.metrics_variables, getattr(optimizer, "variables", [])]
    for variable in [one for part in parts for one in part]:
        if isinstance(getattr(variable, "_node", None), K.Variable):
            known[id(variable)] = (variable, Traced(variable._node, variable._dtype))
    return list(known.values())


def _packed(structure: Any, found: list[np.ndarray]) -> Any:
    """Arrays in the structure and the dtypes of the results."""
    left = iter(found)

    def value(x: Any) -> Any:
        if x is None:
            return None
        array = next(left)
        dtype = x.dtype if isinstance(x, Traced) else np.asarray(x).dtype.name
        return from_held(array, dtype)

    return tree.map_structure(value, structure)


@contextlib.contextmanager
def _kernels(model: Any) -> Iterator[None]:
    """No compiled code where the model was compiled with `jit_compile=False`."""
    if getattr(model, "_jit_compile", None) is not False:
        yield
        return
    with kernels_allowed(False):
        yield
