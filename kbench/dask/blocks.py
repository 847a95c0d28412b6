"""`map_blocks`: a function over the rows of arrays that no machine holds at once."""

from __future__ import annotations

from typing import Any

from kbench.dask import arrays
from kbench.dask.lazy_arrays import lazy
from kbench.dask.rows.analysis import Known, analyse, needed, told
from kbench.dask.rows.states import FREE, Mixed, Rows
from kbench.engine.core.errors import ArgumentError, FeedError, ShapeError, shown
from kbench.engine.execute.feeds import made, unfed
from kbench.engine.execute.function import Function
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.variables import Placeholder

MAP = "kbench.dask.map_blocks"
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
    refuse_unknown(function, facts, flags)
    outputs = analyse(function.outputs, facts, flags)
    if independent:
        outputs = [_asserted(place, one) for place, one in enumerate(outputs)]
    for place, one in enumerate(outputs):
        check_rows(place, one)
    results = lazy(function, found, outputs, None, function.name)
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


def refuse_unknown(
    function: Function, facts: dict[int, Known], flags: dict[int, bool], caller: str = MAP
) -> None:
    """Graphs whose values are not those of the inputs alone."""
    nodes = needed(function.outputs, facts, flags)
    missing = {id(node) for node in unfed(function.outputs, facts)}
    for node in nodes:
        if id(node) in missing:
            raise FeedError(
                f"{node.kind} {node.name.split(':')[0]!r} {node.spec}{made(node)}, needs a value, "
                "and is not an input of the function",
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
                f"{told(node)} gives a new value at each call, which chunks cannot repeat",
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


def check_rows(place: int, one: Known) -> None:
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
        reason = f"{head}depends on the number of rows, which differs between chunks"
    raise ArgumentError(reason, function=MAP, operands=(), suggestion=hint)
