"""A/B: variants as a user types them, and what `kbench.compare` found as lines side by side."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from kbench.engine.core import syntax
from kbench.engine.inspect import describe
from kbench.engine.runtime import config, profile
from kbench.workbench.inspector.recorder import Feeds, Recorder
from kbench.workbench.models import keras_models
from kbench.workbench.protocol.findings import Versus, VersusReply
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.question import Served

if TYPE_CHECKING:
    from kbench.api.differences import Comparison, Result
    from kbench.engine.graph.tensor import Tensor

ENGINE = "engine"
EXAMPLE = "epsilon=1e-7,1e-3"
VARIANTS = (  # a letter, what differs, and what is typed for it
    ("e", "engines: compiled kernels and plain NumPy", "engine=kbench,numpy"),
    ("p", "epsilon", "epsilon=1e-7,1e-3"),
    ("f", "floatx", "floatx=float32,float64"),
    ("d", "data format of images", "image_data_format=channels_last,channels_first"),
    ("t", "threads", "num_threads=1,2"),
    ("l", "learning phase", "learning_phase=0,1"),
)
MAX_WORST_ELEMENTS, MAX_FIRST_ELEMENTS = 24, 24
"""Elements shown: those that differ most, and the first ones; a page of the terminal each."""


class VariantsError(Exception):
    """What was typed names no variants; the text says why."""


# ------------------------------------------------------------------ what is typed


def parse(text: str) -> tuple[list[str] | None, dict[str, list[object]]]:
    """Engines (None where none is named) and settings of `engine=kbench,numpy epsilon=1e-7,1e-3`.

    Raises:
        VariantsError: an unknown setting, or no values.

    >>> parse("epsilon=1e-7,1e-3 floatx=float16,float32")
    (None, {'epsilon': [1e-07, 0.001], 'floatx': ['float16', 'float32']})
    """
    engines: list[str] | None = None
    settings: dict[str, list[object]] = {}
    known = list(config.snapshot())
    for word in text.split():
        name, equals, rest = word.partition("=")
        values = [value for value in rest.split(",") if value]
        shown = describe.printable(word, 60)
        if not equals or not values:
            raise VariantsError(f"{shown}: name=value,value is needed, such as {EXAMPLE}")
        if name in ("engine", "engines"):
            engines = values
        elif name in known:
            settings[name] = [_value(value) for value in values]
        else:
            there = ", ".join([ENGINE, *known])
            raise VariantsError(f"{shown}: unknown setting; choose from {there}")
    if engines is None and not settings:
        raise VariantsError(f"variants are needed, such as {EXAMPLE} or engine=kbench,numpy")
    return engines, settings


def variants(settings: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """`VARIANTS` beside the values that are set now, as far as they are known.

    >>> variants({"floatx": "float64"})[2]
    ('f', 'floatx: now float64, and float32', 'floatx=float64,float32')
    """
    rows = []
    for letter, words, text in VARIANTS:
        name, _, values = text.partition("=")
        if settings.get(name) is not None:
            now = settings[name]
            other = next(value for value in values.split(",") if _value(value) != now)
            words, text = f"{words}: now {now}, and {other}", f"{name}={now},{other}"
        rows.append((letter, words, text))
    return rows


def parse_beside_now(
    text: str, known: Mapping[str, object] | None = None
) -> tuple[list[str] | None, dict[str, list[object]]]:
    """As `parse`: a single value is compared with the one that is set now.

    Arguments:
        known: the settings of the kernel, for a front end beside it; those of this process.
    Raises:
        VariantsError: as `parse`, and for the value that is set.
    """
    engines, settings = parse(text)
    known = config.snapshot() if known is None else known
    if engines is not None or len(settings) != 1:
        return engines, settings
    ((name, values),) = settings.items()
    if name not in known:
        return engines, settings
    now = known[name]
    if values == [now]:
        raise VariantsError(f"{name} is {now} already; name another value")
    return None, {name: values if len(values) > 1 else [now, *values]}


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def problem(expression: str) -> str:
    """What is wrong with an expression, '' if nothing."""
    try:
        syntax.parse_expression(expression.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"one expression is needed: {getattr(error, 'msg', None) or error}"
    return ""


def code(expression: str, variants: str, known: Mapping[str, object] | None = None) -> str:
    """The line that compares, to be run as a cell; `known`: as for `parse_beside_now`.

    >>> code("K.sqrt(x)", "epsilon=1e-7,1e-3")
    "K.compare(lambda K: K.sqrt(x), settings={'epsilon': [1e-07, 0.001]})"
    >>> code("K.sqrt(x)", "epsilon=1e-3", {"epsilon": 0.1})
    "K.compare(lambda K: K.sqrt(x), settings={'epsilon': [0.1, 0.001]})"
    """
    engines, settings = parse_beside_now(variants, known or {})
    text = " ".join(expression.strip().splitlines())
    if text != expression.strip() or "#" in text:  # several lines: within brackets, as they are
        text = f"(\n{expression.strip()}\n)"
    more = f", {engines!r}" if engines else ""
    more += f", settings={settings!r}" if settings else ""
    return f"K.compare(lambda K: {text}{more})"


def function(cell: str, names: Mapping[str, object]) -> Callable[[object], object]:
    """A cell as a function of K that gives its last value; its names stay its own.

    Raises:
        VariantsError: it is no Python, or has no value.
    """
    try:
        tree = syntax.parse_module(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise VariantsError(f"not Python: {getattr(error, 'msg', None) or error}") from None
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        raise VariantsError("the last line must be an expression, whose value is compared")
    last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    before = compile(tree, "<compared>", "exec")
    value = compile(last, "<compared>", "eval")

    def run(K: object) -> object:
        scope = {**names, "K": K}
        exec(before, scope)
        return compared(eval(value, scope))

    return run


def compared(value: object) -> object:
    """What is compared of a value: of a K.function or a Keras model what it computes."""
    if describe.is_function(value):
        return list(value.outputs)
    if keras_models.is_model(value):
        found = keras_models.outputs(value)
        if not found:
            raise VariantsError("the model has not been called yet; have it predict a batch")
        return found
    return value


# ------------------------------------------------------------------ what was fed


def feed_finder(recorder: Recorder) -> Callable[[list[Tensor]], Feeds]:
    """A source of fed values: what was fed last to the placeholders behind some nodes."""

    def find(nodes: list[Tensor]) -> Feeds:
        from kbench.engine.graph.traverse import walk
        from kbench.engine.graph.variables import Placeholder

        open_ = [node for node in walk(nodes) if isinstance(node, Placeholder)]
        needed = {id(node) for node in open_ if node.default is None}
        found, _ = recorder.feeds([node for node in open_ if id(node) in needed], needed)
        return found

    return find


class CompareVerbs:
    """Serves the comparison that was made last, as lines; lets comparisons know what was fed."""

    def __init__(self, recorder: Recorder) -> None:
        self._find = feed_finder(recorder)
        profile.fed_value_sources.append(self._find)

    def served(self) -> list[Served]:
        """The questions that are answered here."""
        return [Versus.served_by(self._versus)]

    def _versus(self, asked: Versus) -> VersusReply:
        module = sys.modules.get("kbench.api.comparison")
        if module is None or not module.latest:
            raise ProtocolError("name", "nothing was compared yet")
        return VersusReply(lines=lines(module.latest[0], max(40, min(asked.width, 300))))

    def close(self) -> None:
        """Keep no values any more."""
        if self._find in profile.fed_value_sources:
            profile.fed_value_sources.remove(self._find)


# ------------------------------------------------------------------ side by side


def lines(comparison: Comparison, width: int) -> list[str]:
    """The table of variants, then values side by side: those that differ most, and the first."""
    said: list[str] = comparison.text(width).splitlines()
    good = [result for result in comparison.results if result.error is None]
    if not good:
        return said
    for name in list(good[0].outputs)[:4]:
        same = [result for result in good if _fits(good[0], result, name)]
        if same:
            said += ["", *_output(name, good[0], same, width)]
    more = len(good[0].outputs) - 4
    return said + ([f"and {more} more outputs"] if more > 0 else [])


def _fits(reference: Result, other: Result, name: str) -> bool:
    array = other.outputs.get(name)
    return array is not None and array.shape == reference.outputs[name].shape


def _output(name: str, reference: Result, same: list[Result], width: int) -> list[str]:
    arrays = [np.asarray(result.outputs[name]) for result in same]
    label = f"output {name}: " if name else ""
    heads = ["index", *(result.engine for result in same)]
    size = arrays[0].size
    if not size:
        return [f"{label}no elements"]
    worst = _worst(arrays)
    said = []
    if worst:
        said += [f"{label}largest differences", *_table(heads, worst, arrays, width)]
    elif len(arrays) > 1:
        said.append(f"{label}no differences")
    if worst and size <= len(worst):
        return said
    said += [""] if said else []
    shown = list(range(min(size, MAX_FIRST_ELEMENTS)))
    said += [f"{label}first values of {size}", *_table(heads, shown, arrays, width)]
    return said


def _worst(arrays: list[np.ndarray]) -> list[int]:
    """Places of the elements that differ most from the reference, the largest first."""
    from kbench.api.differences import gaps

    total: np.ndarray = np.zeros(arrays[0].size)
    for array in arrays[1:]:
        total = np.maximum(total, gaps(arrays[0], array).reshape(-1))
    count = min(MAX_WORST_ELEMENTS, int(np.count_nonzero(total)))
    if not count:
        return []
    places = np.argpartition(-total, count - 1)[:count]
    return [int(place) for place in places[np.argsort(-total[places], kind="stable")]]


def _table(heads: list[str], places: list[int], arrays: list[np.ndarray], width: int) -> list[str]:
    shape = arrays[0].shape
    rows = [heads]
    for place in places:
        index = ", ".join(str(int(entry)) for entry in np.unravel_index(place, shape))
        cells = [describe.number(array.reshape(-1)[place].item()) for array in arrays]
        rows.append([f"[{index}]", *cells])
    sizes = [max(len(row[at]) for row in rows) for at in range(len(heads))]
    room = max((width - 2 - sizes[0]) // max(len(heads) - 1, 1) - 2, 8)
    sizes = [sizes[0], *(min(size, room) for size in sizes[1:])]
    return [
        "  "
        + "  ".join(
            [
                row[0].ljust(sizes[0]),
                *(c[:n].rjust(n) for c, n in zip(row[1:], sizes[1:], strict=True)),
            ]
        )
        for row in rows
    ]
