"""Values for the inputs of a function: cast to their dtype, their shape checked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from kbench.engine.core import csr as sparse
from kbench.engine.core.csr import Held
from kbench.engine.core.errors import FeedError, KbenchError, shown
from kbench.engine.core.masked_arrays import masked_entries
from kbench.engine.core.spec import show
from kbench.engine.core.type_errors import (
    NO_MASK_WORDS,
    describe_non_number,
    describe_ragged,
    suggest_filled,
)
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.variables import Placeholder, Variable


def fed_array(node: Tensor, value: object) -> Held:
    """`value` as an array for a feed; as compressed rows for a sparse one."""
    spec = node.spec
    if type(value) is np.ndarray and value.dtype == spec.dtype and not spec.sparse:
        array = value
    else:
        array = _cast_feed(node, value)
    shape = array.shape
    if shape != spec.shape:
        if len(shape) != len(spec.shape) or any(
            want is not None and want != got for want, got in zip(spec.shape, shape, strict=True)
        ):
            raise _refused(node, f"but the value has shape {show(shape)}")
    return sparse.from_dense(array) if spec.sparse and not sparse.is_csr(array) else array


def listed(nodes: Sequence[Tensor], given: Sequence[object]) -> Sequence[object]:
    """The values of a call, one for each input.

    A tuple of lists of arrays, as Keras' models make of their inputs, targets and weights, is read
    as one list, unless each of its lists is one value, of as many axes as its input has.
    """
    if type(given) is not tuple or not all(isinstance(part, list) for part in given):
        return given
    flat = [entry for part in given for entry in part]
    if not flat or not all(entry is None or isinstance(entry, np.ndarray) for entry in flat):
        return given
    fits = len(given) == len(nodes) and all(
        {getattr(entry, "ndim", None) for entry in part} == {node.ndim - 1}
        for node, part in zip(nodes, given, strict=True)
    )
    return given if fits else flat


def unfed(roots: Sequence[Tensor], given: Collection[int]) -> list[Tensor]:
    """The placeholders that `roots` need, which have neither a value of their own nor are given."""
    return [
        node
        for node in walk(roots, given)
        if isinstance(node, Placeholder) and node.default is None and id(node) not in given
    ]


def made(node: Tensor) -> str:
    """Where a node was made, to follow its name in an error."""
    return f", made at {node.place}" if node.place is not None else ""


def _refused(node: Tensor, reason: str, suggestion: str | None = None) -> FeedError:
    name = node.name.split(":")[0]
    head = f"{node.kind} {name!r} is {node.spec}{made(node)}, "
    return FeedError(head + reason, function="function", suggestion=suggestion)


def _cast_feed(node: Tensor, value: object) -> Held:
    if isinstance(value, Variable):
        value = value.peek()
    elif isinstance(value, Tensor):
        raise FeedError(
            f"{node.name!r} needs a value, got the tensor {shown(value)}", function="function"
        )
    if sparse.is_matrix(value):
        return _sparse_feed(node, value)
    if (masked := masked_entries(value)) is not None:
        raise _refused(node, f"but value{masked}{NO_MASK_WORDS}", suggest_filled(value, "value"))
    try:
        array = np.asarray(value)
    except ValueError as error:
        listed = isinstance(value, (list, tuple))
        why = f"but the value is not an array: {describe_ragged(value) if listed else error}"
        raise _refused(node, why) from None
    if array.dtype.kind in "OUS" and not isinstance(value, np.ndarray):
        raise _refused(node, f"but {describe_non_number(value)}")
    return _cast(node, array)


def _sparse_feed(node: Tensor, value: object) -> sparse.Csr:
    if not node.spec.sparse:
        raise _refused(node, "but the value is sparse", "value.toarray()")
    try:
        csr = sparse.as_csr(value)
    except KbenchError as error:
        raise _refused(node, f"but the value is not valid: {error.reason}") from None
    return csr if csr.dtype == node.spec.dtype else sparse.with_data(csr, _cast(node, csr.data))


def _cast(node: Tensor, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise _refused(node, f"but the value has dtype {array.dtype}")
    with np.errstate(all="ignore"):
        cast = array.astype(node.spec.dtype)
    if cast.dtype.kind != "f" and not np.array_equal(cast, array):
        raise _refused(
            node,
            f"but the value is {array.dtype} and has values that {node.spec.dtype} "
            "cannot represent",
        )
    return cast
