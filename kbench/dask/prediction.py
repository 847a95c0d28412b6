"""`predict`: a model of Keras over the rows of dask arrays. Imports no Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbench.dask import arrays
from kbench.dask.blocks import check_rows, refuse_unknown
from kbench.dask.lazy_arrays import lazy
from kbench.dask.rows.analysis import Known, analyse, told
from kbench.dask.rows.states import Mixed, Rows
from kbench.engine.core.errors import ArgumentError, FeedError, KbenchError, shown
from kbench.engine.execute.function import Function
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.variables import Placeholder

PREDICT = "kbench.dask.predict"


def predict(model: Any, x: Any, batch_size: int | None = None) -> Any:
    """What a model of Keras 2.3.1 predicts for the rows of dask arrays, as `model.predict` does.

    The learning phase is 0. The model's graph and weights go to each worker once, as they are now;
    workers need no Keras. Chunks are cut along axis 0, and predicted in batches.

    Arguments:
        model: a `keras.Model` that has its inputs; it need not be compiled.
        x: a dask array; a list of them, or a dict by the inputs' names, for several inputs.
            One of rank 1 is taken for a column, as Keras does.
        batch_size: rows that are computed at once; 32 if it is left out, as in Keras. More of
            them are often faster, as far as their values fit into the caches.
    Returns:
        A dask array, or a list of them for a model of several outputs; lazily.
    Raises:
        ArgumentError: no model that can be predicted by chunks: a stateful one, one with random
        numbers in testing, or no model at all; one whose rows depend on others of their batch,
        where chunks are no whole numbers of batches. Others as `map_blocks`.

    With chunks that are whole numbers of batches the values are those of `model.predict`, bit for
    bit where both run with the same kernels and with `K.set_exact(True)` or without. With other
    chunks the last batch of each is shorter, and float32 results may differ by some 1e-7 of
    the largest products that were summed: sums are taken in another order.
    """
    size = 32 if batch_size is None else batch_size
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ArgumentError(
            f"batch_size must be an integer of at least 1, got {shown(batch_size)}",
            function=PREDICT,
        )
    function = _predictor(model)
    values = [_column(node, one) for node, one in _fed(model, function.inputs, x)]
    try:
        found = arrays.given(PREDICT, function.inputs, values)
        facts = arrays.known(function.inputs, found)
    except KbenchError as error:
        error.function = PREDICT
        raise
    if found.constants:
        raise ArgumentError(
            "all inputs of the model need arrays of Dask, as each has rows",
            function=PREDICT,
            suggestion="dask.array.from_array(x, chunks=...)",
        )
    flags = {id(node): False for node in walk(function.outputs, facts) if node._phase_flag
             and isinstance(node, Placeholder)}  # fmt: skip
    refuse_unknown(function, facts, flags, PREDICT)
    outputs = analyse(function.outputs, facts, flags)
    for place, one in enumerate(outputs):
        _check_batches(place, one, found.chunks, size)
    rows = [
        one if isinstance(one.state, Rows) and one.state.axis == 0 else Known(one.spec, Rows(0))
        for one in outputs
    ]
    name = str(getattr(model, "name", "model"))
    results = lazy(function, found, rows, size, name)
    return results if len(results) > 1 else results[0]


def _predictor(model: Any) -> Function:
    """The function of a model's outputs."""
    inputs, outputs = getattr(model, "inputs", None), getattr(model, "outputs", None)
    if not hasattr(type(model), "predict") or not inputs or not outputs:
        raise ArgumentError(
            f"model must be a model of Keras that has its inputs, got {shown(model)}",
            function=PREDICT,
            operands=(),
        )
    if getattr(model, "stateful", False) or list(getattr(model, "state_updates", ())):
        raise ArgumentError(
            f"the model {model.name!r} is stateful: what it predicts depends on the chunk before",
            function=PREDICT,
            operands=(),
        )
    return Function(list(inputs), list(outputs), (), str(model.name))


def _fed(model: Any, inputs: Sequence[Tensor], x: Any) -> list[tuple[Tensor, Any]]:
    """Each input of a model with its value."""
    if isinstance(x, dict):
        names = list(model.input_names)
        unknown = [name for name in names if name not in x]
        if unknown or len(x) != len(names):
            raise FeedError(
                f"x has values for {', '.join(map(str, x))}, and the model's inputs are "
                f"{', '.join(names)}",
                function=PREDICT,
            )
        values = [x[name] for name in names]
    else:
        values = list(x) if isinstance(x, (list, tuple)) else [x]
    if len(values) != len(inputs):
        raise FeedError(
            f"the model takes {len(inputs)} arrays, got {len(values)}", function=PREDICT
        )
    return list(zip(inputs, values, strict=True))


def _column(node: Tensor, value: Any) -> Any:
    """An array for an input; numbers in a row become a column where one is needed, as in Keras."""
    if arrays.is_array(value) and value.ndim == 1 and node.spec.ndim == 2:
        return value[:, None]
    return value


def _check_batches(place: int, one: Known, chunks: Sequence[float], size: int) -> None:
    """Rows that depend on their batch need the batches that `model.predict` makes."""
    state = one.state
    if isinstance(state, Rows) and state.axis == 0:
        return
    if not isinstance(state, Mixed) or not one.spec.ndim:
        check_rows(place, one)
    if any(not rows % size == 0 for rows in chunks[:-1]):  # NaN, too
        assert isinstance(state, Mixed)
        raise ArgumentError(
            f"outputs[{place}] is {one.spec}, and {told(state.node)} {state.why}: then chunks must "
            f"be whole numbers of batches of {size}, and are {chunks[:3]}",
            function=PREDICT,
            operands=(),
            suggestion=f"x.rechunk({{0: {max(1, round(1000 / size)) * size}}})",
        )
