"""`map_blocks` and `predict`: a function over the rows of arrays that no machine holds at once."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import dask.array as da
import distributed
import numpy as np
from dask.base import tokenize
from dask.delayed import Delayed
from dask.layers import ArrayBlockwiseDep

from kbench.dask import arrays, figures, worker
from kbench.dask.mapped import Chunk, Mapped
from kbench.dask.payload import pack
from kbench.dask.rows.analysis import Known, analyse, needed, told
from kbench.dask.rows.states import FREE, Mixed, Rows
from kbench.engine.core.errors import ArgumentError, FeedError, KbenchError, ShapeError, shown
from kbench.engine.execute.feeds import made, unfed
from kbench.engine.execute.function import Function
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.variables import Placeholder

MAP = "kbench.dask.map_blocks"
PREDICT = "kbench.dask.predict"
ASSERTED = "independent=True, if you know that rows do not depend on each other"


def map_blocks(f: Any, *values: Any, independent: bool = False) -> Any:
    """A function of K over the rows of dask arrays: lazily, by chunks, on any scheduler of Dask.

    Chunks are cut along axis 0. An array that is cut along other axes, too, or otherwise than the
    others, gets new chunks. The function goes to each worker once. Shapes, chunks and dtypes of
    the results follow from the graph; nothing is computed for them.

    What a graph computes for a row may depend on other rows, as what `K.mean(x, axis=0)` does: by
    chunks that would be another value. So the graph is looked at, and refused where a row's
    result is not known to be its own. Results are those of one call with all rows but for the last
    bits, where products are summed in another order; functions that work element by element give
    the same bits.

    Arguments:
        f: what `K.function` makes; or a tensor or a list of them, whose placeholders are the
            inputs, in the order in which they were made. Variables have the values of now.
        values: one for each input, in order. Arrays of Dask bring rows along axis 0, all as many;
            their dtypes become those of the inputs, as in a call of `f`. Numbers and NumPy arrays
            are the same for all chunks.
        independent: True takes your word for it that the results of a row depend on that row
            alone. A result then has to begin with the batch axis.
    Returns:
        A dask array; a list of them for a function of several outputs.
    Raises:
        ArgumentError: rows may depend on each other, or the function stores, draws random numbers
        or depends on the learning phase. FeedError, ShapeError, DtypeError: arrays that do not fit
        the inputs, told with `dtype[shape]`. EngineError: a worker has another kbench, NumPy or
        Python. When it is computed, what goes wrong in a chunk has that chunk's number and rows in
        its text.

    >>> import dask.array as da
    >>> x = K.placeholder((None, 3))
    >>> y = map_blocks(K.function([x], [K.softmax(x)]), da.ones((10, 3), chunks=(4, 3)))
    >>> y.chunks, y.dtype
    (((4, 4, 2), (3,)), dtype('float32'))
    """
    function = _function(f)
    _refuse_effects(function)
    found = arrays.given(MAP, function.inputs, values)
    facts = arrays.known(function.inputs, found)
    flags = {
        id(function.inputs[place]): bool(value)
        for place, value in found.constants.items()
        if not value.ndim
    }
    _refuse_unknown(function, facts, flags)
    outputs = analyse(function.outputs, facts, flags)
    if independent:
        outputs = [_asserted(place, one) for place, one in enumerate(outputs)]
    for place, one in enumerate(outputs):
        _check_rows(place, one)
    results = _lazy(function, found, outputs, None, function.name)
    return results if len(results) > 1 or isinstance(f, (list, tuple)) else results[0]


# ------------------------------------------------------------------ the function


def _function(f: Any) -> Function:
    """What is to be mapped, as a function of its placeholders."""
    if isinstance(f, Function):
        return f
    outputs = f if isinstance(f, (list, tuple)) else [f]
    if not outputs or not all(isinstance(one, Tensor) for one in outputs):
        hint = "K.function([x], [y])"
        if hasattr(type(f), "predict"):
            hint = "kbench.dask.predict(model, x), which takes models"
        raise ArgumentError(
            f"f must be a function of K or a tensor, got {shown(f)}", function=MAP,
            operands=(), suggestion=hint,
        )  # fmt: skip
    inputs = [
        node for node in walk(outputs) if isinstance(node, Placeholder) and node.default is None
    ]
    return Function(sorted(inputs, key=lambda node: node.serial), list(outputs), (), "map")


def _refuse_effects(function: Function) -> None:
    """Functions that store: each chunk would change what others see."""
    stores = [*function.updates, *function._stores]
    if stores or function._before is not None:
        name = f" to variable {stores[0].target.name.split(':')[0]!r}" if stores else ""
        raise ArgumentError(
            f"{function!r} stores{name}, which chunks on other machines cannot do",
            function=MAP,
            suggestion="K.function(inputs, outputs) without updates",
        )
    if not function.outputs:
        raise ArgumentError(f"{function!r} has no outputs", function=MAP)


def _refuse_unknown(
    function: Function, facts: dict[int, Known], flags: dict[int, bool], caller: str = MAP
) -> None:
    """Graphs whose values are not those of the inputs alone."""
    nodes = needed(function.outputs, facts, flags)
    missing = {id(node) for node in unfed(function.outputs, facts)}
    for node in nodes:
        if id(node) in missing:
            raise FeedError(
                f"{node.kind} {node.name.split(':')[0]!r} {node.spec}{made(node)}, needs a value, "
                "and is no input of the function",
                function=caller,
            )
        if node._phase_flag and isinstance(node, Placeholder) and id(node) not in flags:
            raise ArgumentError(
                "the result depends on the learning phase",
                function=caller,
                suggestion="K.learning_phase_scope(0) around what builds the graph, or "
                "K.learning_phase() among the inputs with 0 as its value",
            )
        if not node.op.pure and node.op.name != "print_tensor":
            raise ArgumentError(
                f"{told(node)} gives another value in each call, which no chunk can repeat",
                function=caller,
                operands=(),
            )
    for place, node in enumerate(function.outputs):
        if node.spec.sparse:
            raise ArgumentError(
                f"outputs[{place}] is {node.spec}, and chunks are dense",
                function=caller,
                suggestion="K.to_dense(...)",
            )


# ------------------------------------------------------------------ the outputs


def _asserted(place: int, one: Known) -> Known:
    """An output of which the user says that it has the rows of the arrays in its first axis."""
    if not one.spec.ndim:
        raise ShapeError(
            f"outputs[{place}] is {one.spec}, and has no axis for the rows",
            function=MAP,
            operands=(),
        )
    return Known(one.spec, one.state if isinstance(one.state, Rows) else Rows(0))


def _check_rows(place: int, one: Known) -> None:
    """Refuse an output that does not have each row for itself, along the first axis."""
    state = one.state
    if isinstance(state, Rows) and state.axis == 0:
        return
    head = f"outputs[{place}] is {one.spec}, and "
    hint = ASSERTED
    if isinstance(state, Rows):
        reason = f"{head}has the rows along axis {state.axis}; chunks are joined along axis 0"
        hint = "K.permute_dimensions, and the transposed dask array"
    elif isinstance(state, Mixed):
        reason = (
            f"{head}is not computed row by row: {told(state.node)} {state.why}, so that chunks "
            "would give other values than all rows at once"
        )
    elif state == FREE:
        reason = f"{head}does not depend on the arrays: it is the same for all chunks"
        hint = "K.eval"
    else:
        reason = f"{head}tells the number of rows, which is another for each chunk"
    raise ArgumentError(reason, function=MAP, operands=(), suggestion=hint)


# ------------------------------------------------------------------ the graph of Dask


class _Places(ArrayBlockwiseDep):
    """Gives the task of each chunk its number, first row and rows."""

    def __init__(self, chunks: tuple[Any, ...]) -> None:
        super().__init__((chunks,))
        self.firsts = np.cumsum([0, *chunks])

    def __getitem__(self, idx: tuple[int, ...]) -> tuple[int, int | None, int | None]:
        (index,) = idx
        rows, first = self.chunks[0][index], self.firsts[index]
        if np.isnan(rows) or np.isnan(first):
            return index, None, None
        return index, int(first), int(rows)

    def __dask_tokenize__(self) -> tuple[str, object]:
        return "kbench places", self.chunks


def _lazy(
    function: Function,
    found: arrays.Given,
    outputs: Sequence[Known],
    batch: int | None,
    name: str,
) -> list[Any]:
    """The dask arrays of a map."""
    per = [one.state.per for one in outputs if isinstance(one.state, Rows)]
    payload = pack(Mapped(function, found.constants, per, batch))
    client = _client()
    key = f"kbench-payload-{payload.hash}"
    shapes = [array.chunks for array in found.arrays]
    job = f"kbench-map-{tokenize(key, [array.name for array in found.arrays], shapes)}"
    figures.expect(job, name, len(found.chunks), key)
    if client is not None:
        worker.prepare(client)
        figures.follow(client)
    blocks: list[Any] = []
    for array in found.arrays:
        blocks += [array, tuple(range(array.ndim))]
    held = Delayed(key, {key: payload})  # a key of its own, on which all chunks depend
    ends = (held, None, _Places(found.chunks), (0,), *blocks)
    if len(outputs) == 1:
        return [_array(Chunk(job, True), job, outputs[0], per[0], ends)]
    whole = da.blockwise(
        Chunk(job, False), (0,), *ends, name=job, align_arrays=False, meta=np.empty(0, object)
    )
    return [
        _array(operator.getitem, f"{job}-{place}", one, size, (whole, (0,), place, None))
        for place, (one, size) in enumerate(zip(outputs, per, strict=True))
    ]


def _array(task: Any, name: str, one: Known, per: int, ends: tuple[Any, ...]) -> Any:
    """An array of which each chunk is what a task gives."""
    sizes = {
        axis: (np.nan if size is None else size,)
        for axis, size in enumerate(one.spec.shape)
        if axis
    }
    taken = {axis for ind in ends[1::2] if ind is not None for axis in ind}
    return da.blockwise(
        task,
        tuple(range(one.spec.ndim)),
        *ends,
        name=name,
        align_arrays=False,
        new_axes={axis: size for axis, size in sizes.items() if axis not in taken},
        adjust_chunks={
            0: lambda rows: rows * per,
            **{axis: size for axis, size in sizes.items() if axis in taken},
        },
        meta=np.empty((0,) * one.spec.ndim, one.spec.dtype),
    )


def _client() -> Any:
    """The client of a cluster that would compute, if there is one."""
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    return client if client.status == "running" and not client.asynchronous else None


# ------------------------------------------------------------------ models of Keras


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
    flags = {id(node): False for node in walk(function.outputs, facts) if node._phase_flag
             and isinstance(node, Placeholder)}  # fmt: skip
    _refuse_unknown(function, facts, flags, PREDICT)
    outputs = analyse(function.outputs, facts, flags)
    for place, one in enumerate(outputs):
        _check_batches(place, one, found.chunks, size)
    rows = [
        one if isinstance(one.state, Rows) and one.state.axis == 0 else Known(one.spec, Rows(0))
        for one in outputs
    ]
    name = str(getattr(model, "name", "model"))
    results = _lazy(function, found, rows, size, name)
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
        _check_rows(place, one)
    if any(not rows % size == 0 for rows in chunks[:-1]):  # NaN, too
        assert isinstance(state, Mixed)
        raise ArgumentError(
            f"outputs[{place}] is {one.spec}, and {told(state.node)} {state.why}: then chunks must "
            f"be whole numbers of batches of {size}, and are {chunks[:3]}",
            function=PREDICT,
            operands=(),
            suggestion=f"x.rechunk({{0: {max(1, round(1000 / size)) * size}}})",
        )
