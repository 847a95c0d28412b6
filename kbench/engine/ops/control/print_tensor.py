"""print_tensor: a value on its way through the graph, told on standard output.

Wherever a call runs, its output appears: in a terminal, in a cell of the workbench, under the
running cell of a notebook.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.core import errors
from kbench.engine.core.csr import Csr, is_csr
from kbench.engine.core.errors import ArgumentError
from kbench.engine.core.spec import is_whole
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, runtime_value
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Operand, Tensor

MAX_PRINTED_AXES = 3
"""Of a large value only the first entry of the axes before these is printed."""
MAX_WHOLE_CELLS = 300
"""Numbers of a value that is printed whole."""
LINE_CHARACTERS = 100
"""Characters of a line that is printed."""


def _print(out: np.ndarray | None, x: object, *, message: str, summarize: int) -> object:
    parts = (message, shown(x, summarize))
    text = " ".join(part for part in parts if part)
    print(f"{text}\n", end="", flush=True)  # in one piece, whoever else prints
    return x


PRINT = register(
    Op(
        "print_tensor",
        "view",
        lambda x, *, message, summarize: x,
        _print,
        lambda g, y, x, *, message, summarize: (g,),
        pure=False,
        allocates=True,
        sparse=True,
    )
)


def print_tensor(x: Operand, message: str = "", summarize: int = 3) -> Tensor:
    """`x`, whose value is printed each time it is evaluated.

    Arguments:
        x: tensor of any shape and dtype, sparse too.
        message: text that is printed before the value.
        summarize: how many entries at either end of each axis are printed of a large value; -1
            prints them all.
    Returns:
        Tensor equal to `x`. Only what is computed from it prints: `x` itself prints nothing.
    Raises:
        ArgumentError: `message` is no text, or `summarize` no integer of at least 1, or -1.
    Gradient: to `x`; it prints nothing.
    Source: Keras 2.3 `backend.print_tensor`; `summarize` from tf.keras.

    >>> K.eval(K.print_tensor(K.constant([1.0, 2.0]), "x is") * 2)
    x is [1. 2.]
    array([2., 4.], dtype=float32)
    """
    if not isinstance(message, str):
        raise ArgumentError(f"message must be text, got {errors.shown(message)}")
    if not is_whole(summarize):
        raise ArgumentError(f"summarize must be an integer, got {errors.shown(summarize)}")
    if summarize < 1 and summarize != -1:
        raise ArgumentError(f"summarize must be at least 1, or -1 for everything, got {summarize}")
    return apply(PRINT, as_tensor(x), message=message, summarize=int(summarize))


# ------------------------------------------------------------------ the text


def shown(value: object, summarize: int) -> str:
    """The text of a value, of bounded length; what is shortened is followed by its shape."""
    if is_csr(value):
        return _sparse_text(value, summarize)
    array = np.asarray(value)
    edge = max(array.shape, default=1) if summarize == -1 else summarize
    lead = array.ndim - MAX_PRINTED_AXES if array.size > MAX_WHOLE_CELLS and summarize != -1 else 0
    first = array[(0,) * max(lead, 0)]
    text = np.array2string(
        first, max_line_width=LINE_CHARACTERS, threshold=0, edgeitems=max(edge, 1)
    )
    if lead > 0:
        text = f"[{'0, ' * lead}...] is {text}"
    whole = array.size and first.size == array.size and all(n <= 2 * edge for n in first.shape)
    return text if whole else f"{text} {runtime_value(array)}"


def _sparse_text(csr: Csr, summarize: int) -> str:
    """Places and entries, the first and the last few."""
    count = int(csr.nnz)
    ends = count if summarize == -1 else summarize
    chosen = range(count) if count <= 2 * ends else [*range(ends), *range(count - ends, count)]
    texts = []
    for place in chosen:
        row = int(np.searchsorted(csr.indptr, place, side="right")) - 1
        texts.append(f"({row}, {csr.indices[place]}) {csr.data[place]}")
    if count > 2 * ends:
        texts.insert(ends, "...")
    entries = f"{count} entr{'y' if count == 1 else 'ies'}"
    return f"{runtime_value(csr)} {entries}" + (f": {', '.join(texts)}" if texts else "")
