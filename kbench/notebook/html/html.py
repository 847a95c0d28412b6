"""Static HTML of tensors, arrays, functions, runs and settings, from the rows of `describe`.

No script, no Jupyter import: what a notebook, an exported page or a code hosting site shows. Only
`bundle`, what a cell's last line shows, has a tensor computed. Legible with every style stripped.
Nothing here raises: what cannot be shown says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from kbench.api.differences import seconds
from kbench.engine.core.scipy_input import Matrix
from kbench.engine.inspect import describe, sparse_summary
from kbench.engine.inspect.number_format import AUTO, NumberFormat
from kbench.engine.runtime.profile import RunRecord
from kbench.notebook.drawing import graph_rows
from kbench.notebook.html import (
    array_html,
    collection,
    comparing,
    error_view,
    model_view,
    run_steps,
)
from kbench.notebook.markup.columns import span
from kbench.notebook.markup.markup import (
    Html,
    details,
    element,
    escape,
    facts,
    join,
    page,
    table,
)
from kbench.workbench.analysis import known_value
from kbench.workbench.core_types import Row
from kbench.workbench.errors import explanation
from kbench.workbench.inspector import summary
from kbench.workbench.inspector.summary import NO_VALUE, KnownValue
from kbench.workbench.models import keras_models
from kbench.workbench.protocol.runs import PlanStep

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor


def bundle(value: object, *_unused: object, **_ignored: object) -> dict[str, str]:
    """What IPython shows of a value: a line of text with the corners of a small table, and HTML.

    A tensor that needs no feed is computed for it, within a budget: see `known`.
    """
    with describe.reading_once():
        found = known_value.known(value)
        return {"text/plain": text(value, found), "text/html": show(value, found)}


def text(value: object, found: KnownValue = NO_VALUE) -> str:
    """The summary of a value; an error or a recorded run has one of its own."""
    try:
        kind = _kind_of(value)
        if kind is not None and kind.text is not None:
            return kind.text(value)
    except Exception:  # what it holds may do anything
        return summary.type_name(value)
    return summary.text(value, found=found)


def show(value: object, found: KnownValue = NO_VALUE) -> str:
    """HTML of anything of kbench's, of arrays, Keras models, errors, and of lists of such.

    Of anything else only its type. `found` is what was computed for a tensor.
    """
    return _guarded(_show, value, found)


def _show(value: object, found: KnownValue) -> str:
    kind = _kind_of(value)
    return _numbers(value) if kind is None else kind.markup(value, found)


def _kind_of(value: object) -> Kind | None:
    return next((kind for kind in KINDS if kind.accepts(value)), None)


def _numbers(value: object) -> str:
    """An array or a sparse matrix; else the type alone."""
    array = describe.held_array(value)
    matrix = sparse_summary.held_matrix(value)
    if matrix is not None:
        head = _head("sparse matrix", "", sparse_summary.facts(matrix)["spec"])
        return page(head, [facts(_matrix(matrix))])
    if array is None:
        return page(_head("object", type(value).__name__, ""), [])
    return array_view(array)


def _guarded(build: Callable[..., str], *arguments: Any) -> str:
    """A repr must never raise: an error becomes a line that names it."""
    try:
        return build(*arguments)
    except Exception as error:
        return page(
            element("p", f"not shown: {type(error).__name__}", class_="kb-head"),
            [element("p", _message(error), class_="kb-bad")],
        )


def _message(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _head(kind: str, name: str, spec: str) -> Html:
    """The line that stands on top: what it is, what it is called, its dtype and shape."""
    pieces = [element("b", kind), element("code", name) if name else "", escape(spec)]
    return element("p", Html(" ".join(piece for piece in pieces if piece)), class_="kb-head")


# ------------------------------------------------------------------ tensors


def _tensor(value: Tensor, found: KnownValue) -> str:
    row = describe.tensor(value)
    array = describe.held_array(value if found.value is None else found.value)
    known = [
        ("op", row["op"] if row["kind"] == "tensor" else None),
        ("inputs", _inputs(row)),
        ("size", describe.size(row["bytes"]) if row["bytes"] is not None else None),
        ("version", str(row["version"]) if "version" in row else None),
        ("made at", row["place"]),
        ("value", None if array is not None else found.reason or _state(row)),
    ]
    matrix = sparse_summary.held_matrix(value if found.value is None else found.value)
    if matrix is not None:
        known = [*(fact for fact in known if fact[0] not in ("size", "value")), *_matrix(matrix)]
    parts = [facts(known)]
    if array is not None:
        parts += array_html.parts(array, row["name"].removesuffix(":0"))
    if row["inputs"]:
        parts.append(graph_rows.graph(value))
    return page(_head(row["kind"], row["name"], row["spec"]), parts)


def _variable(value: object, found: KnownValue) -> str:
    """What a variable of Keras 3 holds: a variable of K, unless it holds texts."""
    return _tensor(value, found) if describe.is_variable(value) else _numbers(value)


def _matrix(matrix: object) -> list[tuple[str, object]]:
    """What is told of a sparse matrix, whose cells are not shown."""
    row = sparse_summary.facts(matrix)
    return [
        ("size", describe.size(row["bytes"]) if row["bytes"] is not None else None),
        ("entries", sparse_summary.count_text(row)),
        ("range", summary.entries_text(matrix) or None),
    ]


def _inputs(row: Row) -> Html | None:
    """The inputs as name and spec; a long list is cut, and says so."""
    shown = row["inputs"][:4]
    if not shown:
        return None
    texts = [
        join([element("code", source["name"]), escape(f" {source['spec']}")]) for source in shown
    ]
    more = row["input_count"] - len(shown)
    tail = escape(f", and {more} more") if more else Html("")
    return join([Html(", ".join(texts)), tail])


def _state(row: Row) -> str:
    """Why a symbolic tensor shows no value, and what is known of its last one."""
    last = row["last"]
    if last is None:
        return "none until it is fed" if row["kind"] == "placeholder" else "not evaluated yet"
    shape = ", ".join(map(str, last["shape"]))
    text = f": {last['text']}" if "text" in last else ""
    verb = "last fed" if row["kind"] == "placeholder" else "last run"
    return f"{verb} [{shape}]{text}"


# ------------------------------------------------------------------ arrays


def array_view(
    array: np.ndarray,
    name: str = "",
    shown: array_html.SliceLike | None = None,
    form: NumberFormat = AUTO,
) -> str:
    """HTML of an array: statistics and the edges of one slice, whose numbers `form` writes."""

    def build() -> str:
        shape, dtype = tuple(array.shape), str(array.dtype)
        known = [("size", describe.size(int(array.nbytes)))]
        parts = [facts(known), *array_html.parts(array, name or "array", shown, form)]
        return page(_head("array", name, describe.spec_text(shape, dtype)), parts)

    return _guarded(build)


def sparse_view(matrix: Matrix, name: str, start: int = 0, form: NumberFormat = AUTO) -> str:
    """HTML of a sparse matrix of compressed rows: what is known, a page of places and values.

    Only entries are read; nothing is made dense.
    """

    def build() -> str:
        stop = min(start + MAX_ENTRIES, int(matrix.nnz))
        at = np.arange(start, stop)
        rows = np.searchsorted(matrix.indptr, at, side="right") - 1
        lines = [
            (str(number), str(row), str(column), form.write(value))
            for number, row, column, value in zip(
                at.tolist(),
                rows.tolist(),
                matrix.indices[at].tolist(),
                matrix.data[at],
                strict=True,
            )
        ]
        caption = span(start, len(lines), int(matrix.nnz), "stored value")
        entries = table(caption, ("entry", "row", "column", "value"), lines)
        head = _head("sparse matrix", name, sparse_summary.facts(matrix)["spec"])
        return page(head, [facts(_matrix(matrix)), entries])

    return _guarded(build)


# ------------------------------------------------------------------ functions


def _function(value: Function) -> str:
    inputs, outputs = list(value.inputs), list(value.outputs)
    known: list[tuple[str, object]] = [
        ("inputs", _names(inputs)),
        ("outputs", _names(outputs)),
        ("updates", str(len(value.updates)) if value.updates else None),
    ]
    parts = [facts(known)]
    rows = describe.plan(value)
    if rows is not None:
        parts.append(details("last run", _run_table(rows)))
    return page(_head("function", str(value.name), ""), parts)


def _names(tensors: Sequence[Tensor]) -> Html:
    row = {"inputs": [], "input_count": len(tensors)}
    for tensor in tensors[:4]:
        facts_of_one = describe.tensor(tensor)
        row["inputs"].append({"name": facts_of_one["name"], "spec": facts_of_one["spec"]})  # type: ignore[attr-defined]
    return _inputs(row) or escape("none")


def _duration(record: RunRecord) -> str:
    count = len(record.steps)
    return f"{count} step{'' if count == 1 else 's'}, {seconds(record.seconds)}"


def _run_table(run: Row) -> Html:
    """As `run_steps.table`, of a run as the engine describes it."""
    steps = [PlanStep.built(row) for row in run["rows"]]
    return run_steps.table(steps, run["seconds"], page=(0, _MAX_FOLDED_STEPS))


MAX_ENTRIES = 40
"""Of a sparse matrix on one page."""
_MAX_FOLDED_STEPS = 24
"""Of the last run of a function, beside what else is told of it."""


# ------------------------------------------------------------------ what is shown how


def _layer(value: object) -> str:
    row = keras_models.facts(value)
    head = _head(row["type"], row["label"], model_view.spec(row) or "")
    return page(head, model_view.parts(value))


def _error(value: object) -> str:
    return page(element("p", error_view.head(value), class_="kb-head"), error_view.parts(value))


def _error_text(value: object) -> str:
    return explanation.printable_lines(f"{type(value).__name__}: {value}")


def _run(value: RunRecord) -> str:
    head = _head("run", value.function, _duration(value))
    return page(head, [_run_table(describe.run(value))])


def _run_text(value: RunRecord) -> str:
    return f"run of {describe.printable(value.function)}  {_duration(value)}"


def _collection(value: collection.Values) -> str:
    return page(_head(type(value).__name__, "", ""), [collection.entries(value)])


class Kind(Struct, frozen=True):
    """One kind of value: how it is told apart, its HTML, and its text if it has one of its own.

    `classes` are module and name of the classes that IPython has shown so by `%load_ext kbench`;
    those that bring their HTML with them need none.
    """

    accepts: Callable[[object], bool]
    markup: Callable[[Any, KnownValue], str]
    text: Callable[[Any], str] | None = None
    classes: tuple[tuple[str, str], ...] = ()


KINDS: tuple[Kind, ...] = (
    Kind(describe.is_tensor, _tensor),
    Kind(
        describe.is_function,
        lambda value, _: _function(value),
        classes=(("kbench.engine.execute.function", "Function"),),
    ),
    Kind(comparing.is_comparison, lambda value, _: comparing.comparison(value)),
    Kind(
        keras_models.is_layer,
        lambda value, _: _layer(value),
        classes=keras_models.LAYER_CLASSES,  # models are layers
    ),
    Kind(
        keras_models.is_variable,
        lambda value, found: _variable(keras_models.variable_of(value), found),
        lambda value: summary.text(keras_models.variable_of(value)),
        (keras_models.VARIABLE_CLASS,),
    ),
    Kind(
        error_view.is_error,
        lambda value, _: _error(value),
        _error_text,
        (("kbench.engine.core.errors", "KbenchError"),),
    ),
    Kind(
        lambda value: type(value) is RunRecord,
        lambda value, _: _run(value),
        _run_text,
        (("kbench.engine.runtime.profile", "RunRecord"),),
    ),
    Kind(collection.is_collection, lambda value, _: _collection(value), collection.text),
)
"""What is shown how, the first that fits; anything else as an array, or by its type alone."""
CLASSES = tuple(name for kind in KINDS for name in kind.classes)
