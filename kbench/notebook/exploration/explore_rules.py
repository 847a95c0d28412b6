"""Which control an argument gets: by its name, its annotation and what it begins with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from kbench.notebook.exploration.explore_controls import (
    MAX_CHOICES,
    Control,
    Fixed,
    Number,
    Shape,
    by_value,
    choice,
)
from kbench.notebook.exploration.explore_samples import Code


class ArgumentFacts(Struct, frozen=True):
    """What is known when a control is derived: function, default, and the first input's shape."""

    function: str
    default: Any
    shape: Shape
    annotation: str = ""
    public: bool = True  # a function of the API

    @property
    def rank(self) -> int:
        return len(self.shape)


def derive(name: str, facts: ArgumentFacts) -> Control:
    """The control of one argument; `facts.default` is what it begins with."""
    rule = _RULES.get((facts.function, name)) if facts.public else None
    if rule is None and (facts.public or name in _CLEAR):
        rule = _NAMED.get(name)
    found = rule(facts) if rule is not None else None
    return found if found is not None else by_value(facts.default)


def _between(low: float, high: float, step: float) -> Callable[[ArgumentFacts], Control | None]:
    whole = all(isinstance(end, int) for end in (low, high, step))

    def rule(facts: ArgumentFacts) -> Control | None:
        if isinstance(facts.default, bool) or not isinstance(facts.default, (int, float)):
            return None
        start = min(max(facts.default, low), high)
        if whole and isinstance(start, float):
            return Number(low, high, step / 4, start)
        return Number(low, high, step, start, whole)

    return rule


def _of(*values: object) -> Callable[[ArgumentFacts], Control]:
    return lambda facts: choice(values, facts.default)


def _scale(facts: ArgumentFacts) -> Control | None:
    if not isinstance(facts.default, (int, float)) or not 1e-9 <= facts.default <= 1.0:
        return None
    return Number(-9.0, 0.0, 0.5, float(facts.default), log=True)


def _axes(facts: ArgumentFacts) -> Control | None:
    """Every axis that the input has, from both ends, and all pairs where several may be given."""
    if not isinstance(facts.default, (int, tuple, list, type(None))):
        return None
    extra = 1 if facts.function in ("expand_dims", "stack") else 0
    count = facts.rank + extra
    each: list[object] = list(range(-count, count))
    several = "Axis" in facts.annotation or facts.function == "reverse"
    if several:
        each += itertools.combinations(range(count), 2)
    if "Axis" in facts.annotation or facts.default is None:
        each.insert(0, None)
    if facts.function == "normalize_batch_in_training":
        sizes = range(1, facts.rank + 1)
        each = [list(axes) for n in sizes for axes in itertools.combinations(range(facts.rank), n)]
    return choice(each, facts.default)


def _windows(facts: ArgumentFacts) -> Control | None:
    """Strides, window sizes and spacings: small whole numbers, or tuples of them."""
    start = facts.default
    if isinstance(start, int) and 1 <= start <= 4:
        return Number(1, 4, 1, start, whole=True)
    if not isinstance(start, tuple) or not start:
        return None
    count = len(start)
    values: list[Any] = [(n,) * count for n in (1, 2, 3)]
    if count > 1:
        values += [(1,) * (count - 1) + (2,), (2,) + (1,) * (count - 1)]
    return choice(sorted(values), tuple(start))


def _paddings(facts: ArgumentFacts) -> Control | None:
    """Of convolutions words, of padding functions the cells at each border."""
    if isinstance(facts.default, str):
        causal = ("causal",) if facts.function in ("conv1d", "separable_conv1d") else ()
        return choice(("valid", "same", *causal), facts.default)
    if not isinstance(facts.default, tuple) or not facts.default:
        return None
    pairs = [(0, 0), (1, 1), (2, 2), (0, 2), (2, 0)]
    if isinstance(facts.default[0], int):
        return choice(pairs, facts.default)
    count = len(facts.default)
    return choice([(pair,) * count for pair in pairs], facts.default)


def _made_shapes(facts: ArgumentFacts) -> Control:
    """Shapes of new tensors."""
    values = [(), (5,), (2, 3), (4, 4), (8, 8), (2, 3, 4)]
    more = [None, (None, 3)] if facts.function in ("placeholder", "constant") else []
    return choice([*more, *values], facts.default)


def _reshapes(facts: ArgumentFacts) -> Control:
    """Every shape of rank 1 and 2 that the elements fill, and one with -1."""
    total = math.prod(facts.shape)
    pairs = [(n, total // n) for n in range(1, total + 1) if not total % n][: MAX_CHOICES - 4]
    return choice([(total,), *pairs, (-1, 1), (2, -1)], facts.default)


def _noise(facts: ArgumentFacts) -> Control:
    ones = [
        tuple(1 if axis == at else size for axis, size in enumerate(facts.shape))
        for at in range(facts.rank)
    ]
    return choice([None, *ones], facts.default)


def _orders(facts: ArgumentFacts) -> Control:
    orders = itertools.islice(itertools.permutations(range(facts.rank)), MAX_CHOICES)
    return choice(list(orders), tuple(facts.default))


def _flags(facts: ArgumentFacts) -> Control:
    values = itertools.islice(itertools.product((False, True), repeat=facts.rank), MAX_CHOICES)
    return choice(list(values), tuple(facts.default))


def _corners(facts: ArgumentFacts) -> Control:
    """Where a slice begins, or how far it reaches: along each axis nothing, one, or all of it."""
    low, high = (0, 1) if isinstance(facts.default, tuple) and 0 in facts.default else (1, 2)
    steps = [(low,) * facts.rank, (high,) * facts.rank, facts.shape]
    ones = [tuple(high if i == at else low for i in range(facts.rank)) for at in range(facts.rank)]
    whole = [(-1,) * facts.rank] if low else []
    return choice([*steps, *ones, *whole], facts.default)


def _repeats(facts: ArgumentFacts) -> Control | None:
    if isinstance(facts.default, int):
        return Number(1, 5, 1, facts.default, whole=True)
    rank = facts.rank
    ones = [tuple(2 if i == at else 1 for i in range(rank)) for at in range(rank)]
    return choice([(1,) * rank, *ones, (2,) * rank, (3,) * rank], facts.default)


def _outputs(facts: ArgumentFacts) -> Control | None:
    """Sizes of the result of a transposed convolution around the first one."""
    if not isinstance(facts.default, tuple):
        return None
    first, *space = facts.default
    inner, last = (space[:-1], space[-1:]) if len(space) > 2 else (space, [])
    more = [(first, *(size + n for size in inner), *last) for n in (-1, 0, 1, 2, 4)]
    return choice(more if last else [facts.default], facts.default)


def _optional(*values: float) -> Callable[[ArgumentFacts], Control]:
    return lambda facts: choice([None, *values], facts.default)


_DTYPES = _of(
    None, "float16", "float32", "float64", "bool", "int8", "uint8", "int16", "int32", "int64"
)
_LAYOUTS = _of(None, "channels_last", "channels_first")
_STEPS = (
    Code("lambda a, s: (a + s[0], [a + s[0]])"),
    Code("lambda a, s: (K.tanh(a + s[0]), [K.tanh(a + s[0])])"),
    Code("lambda a, s: (K.maximum(a, s[0]), [K.maximum(a, s[0])])"),
)
_FOLDS = (
    Code("lambda a, b: a + b"),
    Code("lambda a, b: a * b"),
    Code("lambda a, b: K.maximum(a, b)"),
)
_MAPS = (Code("lambda a: a + a"), Code("lambda a: K.softmax(a)"), Code("lambda a: K.sum(a)"))

_NAMED: dict[str, Callable[[ArgumentFacts], Control | None]] = {
    "axis": _axes,
    "axes": _axes,
    "reduction_axes": _axes,
    "epsilon": _scale,
    "e": _scale,
    "strides": _windows,
    "pool_size": _windows,
    "dilation_rate": _windows,
    "kernel_size": _windows,
    "rate": _windows,
    "padding": _paddings,
    "border_mode": _of("valid", "same"),
    "data_format": _LAYOUTS,
    "image_data_format": _LAYOUTS,
    "dim_ordering": _of("default", "tf", "th"),
    "interpolation": _of("nearest", "bilinear"),
    "pool_mode": _of("max", "avg"),
    "dtype": _DTYPES,
    "floatx": _of("float16", "float32", "float64"),
    "alpha": _between(-1.0, 2.0, 0.05),
    "gamma": _between(0.0, 5.0, 0.25),
    "level": _between(0.0, 0.95, 0.05),
    "p": _between(0.0, 1.0, 0.05),
    "momentum": _between(0.0, 1.0, 0.05),
    "threshold": _between(-2.0, 2.0, 0.1),
    "max_value": _optional(0.0, 0.5, 1.0, 2.0, 6.0),
    "min_value": _optional(-2.0, -1.0, -0.5, 0.0, 1.5),
    "mean": _between(-3.0, 3.0, 0.25),
    "stddev": _between(0.0, 3.0, 0.25),
    "minval": _between(-3.0, 3.0, 0.25),
    "maxval": _between(-3.0, 3.0, 0.25),
    "low": _between(-3, 3, 1),
    "high": _between(-3, 3, 1),
    "scale": _between(0, 3, 1),
    "a": _between(-2.0, 3.0, 0.25),
    "seed": _of(None, 0, 1, 2, 3, 4),
    "noise_shape": _noise,
    "output_shape": _outputs,
    "n": _repeats,
    "rep": _between(1, 5, 1),
    "k": _between(1, 4, 1),
    "num_classes": _between(1, 6, 1),
    "height_factor": _between(1, 4, 1),
    "width_factor": _between(1, 4, 1),
    "depth_factor": _between(1, 4, 1),
    "beam_width": _between(1, 100, 1),
    "top_paths": _between(1, 3, 1),
    "left_pad": _between(0, 4, 1),
    "right_pad": _between(0, 4, 1),
    "top_pad": _between(0, 4, 1),
    "bottom_pad": _between(0, 4, 1),
    "summarize": _between(-1, 10, 1),
    "count": _between(1, 4, 1),
    "ndim": _of(None, 0, 1, 2, 3),
    "pattern": _orders,
    "broadcastable": _flags,
    "training": _of(None, 0, 1),
    "fn": lambda facts: choice(_MAPS if facts.function == "map_fn" else _FOLDS, facts.default),
    "step_function": _of(*_STEPS),
    "name": lambda facts: Fixed(facts.default),
    "message": lambda facts: Fixed(facts.default),
    "input_length": lambda facts: Fixed(facts.default),
}
_CLEAR = frozenset(
    "axis axes epsilon strides pool_size dilation_rate kernel_size padding data_format "
    "interpolation pool_mode dtype alpha seed".split()
)  # names that mean the same in a function of the user's
_SHAPES = (
    "zeros ones constant placeholder random_uniform random_normal truncated_normal "
    "random_binomial random_bernoulli random_uniform_variable random_normal_variable"
).split()
_RULES: dict[tuple[str, str], Callable[[ArgumentFacts], Control | None]] = {
    **{(function, "shape"): _made_shapes for function in _SHAPES},
    ("reshape", "shape"): _reshapes,
    ("cast", "dtype"): _of(
        "float16", "float32", "float64", "bool", "int8", "uint8", "int16", "int32", "int64"
    ),
    ("slice", "start"): _corners,
    ("slice", "size"): _corners,
    ("eye", "size"): _between(1, 8, 1),
    ("arange", "start"): _between(-5, 5, 1),
    ("arange", "stop"): _of(None, 0, 5, 10, 20),
    ("arange", "step"): _between(1, 4, 1),
    ("batch_dot", "axes"): _of(None, 1, 2, (2, 1), (1, 2), (1, 1), (2, 2), (1, 0)),
    ("rnn", "mask"): _of(None, Code("masked")),
    ("constant", "value"): _of(1, [1, 0], [[1, 2], [3, 4]]),
    ("variable", "value"): _of(1, [1, 0], [[1, 2], [3, 4]]),
    ("foldl", "initializer"): _of(None, Code("K.zeros((3,))")),
    ("foldr", "initializer"): _of(None, Code("K.zeros((3,))")),
    ("set_learning_phase", "value"): _of(0, 1),
    ("learning_phase_scope", "value"): _of(0, 1),
    ("set_image_data_format", "data_format"): _of("channels_last", "channels_first"),
    ("set_image_dim_ordering", "dim_ordering"): _of("tf", "th"),
}
