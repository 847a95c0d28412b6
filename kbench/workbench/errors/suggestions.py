"""What would have worked in place of a call that failed, by its operands' shapes alone.

Nothing is called: a suggestion is a form whose shapes fit. Where the engine has one, it comes
first. Operands appear under the user's own names where these are known.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from math import prod

from kbench.engine.core import syntax
from kbench.engine.core.errors import FeedError, KbenchError, Operand
from kbench.engine.core.spec import broadcast_dim
from kbench.engine.core.types import Shape

_OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "&", "|", "^")
_PAIRS = (
    "maximum",
    "minimum",
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "pow",
    "binary_crossentropy",
)
_SHAPE = re.compile(r"\[([^\[\]]*)\]$")
_FEED = re.compile(r"is \w+(\[[^\]]*\]).*but the value has shape (\[[^\]]*\])$", re.DOTALL)
_MISSING = re.compile(r"placeholder '([^']+)'.* needs a value, but none is fed", re.DOTALL)
_FILL = re.compile(r"cannot reshape .* into (\[[^\]]*\])$")
_MAX_OPERAND_CHARACTERS = 30
"""Of an operand's text that takes the place of its role in a suggestion."""


def find(error: KbenchError, texts: Mapping[int, str | None]) -> str | None:
    """What would fit; `texts` are the expressions that gave the operands, by their numbers."""
    found = error.suggestion or _form(error)
    return None if found is None else _named(found, error.operands, texts)


def _named(found: str, operands: tuple[Operand, ...], texts: Mapping[int, str | None]) -> str:
    """The suggestion with the operands' own names, unless one of them is not known or long."""
    names = {operand.role: texts.get(at) for at, operand in enumerate(operands)}
    needed = set(re.findall(r"(?<![\w.])\w+\b(?!\s*[=(])", found)) & set(names)
    for role in needed:
        text = names[role]
        if text is None or len(text) > _MAX_OPERAND_CHARACTERS or not _is_operand(text):
            return found
    if not needed:
        return found
    words = "|".join(re.escape(role) for role in sorted(needed))
    pattern = rf"(?<![\w.])(?:{words})\b(?!\s*[=(])"
    return re.sub(pattern, lambda match: names[match.group()] or match.group(), found)


def _is_operand(text: str) -> bool:
    """True for what can take the place of a name without brackets around it."""
    try:
        node = syntax.parse_expression(text).body
    except (SyntaxError, ValueError):
        return False
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))


def _form(error: KbenchError) -> str | None:
    function = error.function or ""
    if isinstance(error, FeedError) or function == "set_value":
        return _feed(function, error.reason)
    shapes = [shape_of(operand.spec) for operand in error.operands]
    known = [(operand.role, shape) for operand, shape in zip(error.operands, shapes, strict=True)]
    pairs = [(role, shape) for role, shape in known if shape is not None]
    if function in _OPERATORS or function in _PAIRS:
        return _broadcast(function, *pairs[:2]) if len(pairs) == 2 else None
    search = _SEARCHES.get(function)
    return search(error, dict(pairs)) if search is not None else None


def shape_of(spec: str) -> Shape | None:
    """The shape in a text like `float32[?, 3]`."""
    match = _SHAPE.search(spec)
    if match is None:
        return None
    entries = [entry.strip() for entry in match.group(1).split(",") if entry.strip()]
    if not all(entry == "?" or entry.isdigit() for entry in entries):
        return None
    return tuple(None if entry == "?" else int(entry) for entry in entries)


# ------------------------------------------------------------------ operators


def _fits(one: Shape, other: Shape) -> bool:
    short, long = sorted((one, other), key=len)
    padded = (1,) * (len(long) - len(short)) + short
    return all(broadcast_dim(a, b) != -1 for a, b in zip(padded, long, strict=True))


def _broadcast(function: str, first: tuple[str, Shape], second: tuple[str, Shape]) -> str | None:
    """A form of `x + y` whose shapes broadcast: an axis put in, transposed, or a product."""
    (x, a), (y, b) = first, second
    if _fits(a, b):
        return None

    def call(left: str, right: str) -> str:
        operator = function in _OPERATORS
        return f"{left} {function} {right}" if operator else f"K.{function}({left}, {right})"

    if function == "*" and len(a) == len(b) == 2 and a[1] == b[0] is not None:
        return f"K.dot({x}, {y})"
    if len(a) != len(b):
        small, large = (a, b) if len(a) < len(b) else (b, a)
        for axis in range(len(small), 0, -1):
            if len(large) - len(small) == 1 and _fits((*small[:axis], 1, *small[axis:]), large):
                at = -1 if axis == len(small) else axis
                if small is a:
                    return call(f"K.expand_dims({x}, {at})", y)
                return call(x, f"K.expand_dims({y}, {at})")
    if len(b) == 2 and _fits(a, b[::-1]):
        return call(x, f"K.transpose({y})")
    if len(a) == 2 and _fits(a[::-1], b):
        return call(f"K.transpose({x})", y)
    return None


# ------------------------------------------------------------------ functions


def _join(error: KbenchError, shapes: dict[str, Shape]) -> str | None:
    """The one axis on which the tensors may differ."""
    given = list(shapes.values())
    if len(given) < 2 or len({len(shape) for shape in given}) != 1:
        return None
    differing = [axis for axis, sizes in enumerate(zip(*given, strict=True)) if len(set(sizes)) > 1]
    return f"axis={differing[0]}" if len(differing) == 1 else None


def _batch_dot(error: KbenchError, shapes: dict[str, Shape]) -> str | None:
    """Axes of equal size over which the product can be taken."""
    a, b = shapes.get("x"), shapes.get("y")
    if a is None or b is None or len(a) < 2 or len(b) < 2 or not _fits(a[:1], b[:1]):
        return None
    for i, j in ((len(a) - 1, 1), (len(a) - 1, len(b) - 1), (1, 1), (1, len(b) - 1)):
        if a[i] is not None and a[i] == b[j]:
            return f"K.batch_dot(x, y, axes=({i}, {j}))"
    return None


def _convolution(error: KbenchError, shapes: dict[str, Shape]) -> str | None:
    """The other order of axes, where that brings the channels that the kernel reads."""
    x, kernel = shapes.get("x"), shapes.get("kernel") or shapes.get("depthwise_kernel")
    if x is None or kernel is None or len(x) != len(kernel) or "x" not in error.axes:
        return None
    last = error.axes["x"] % len(x) == len(x) - 1
    other = x[1] if last else x[-1]
    if other is None or other != kernel[-2]:
        return None
    return f'data_format="channels_{"first" if last else "last"}"'


def _crossentropy(error: KbenchError, shapes: dict[str, Shape]) -> str | None:
    """Class numbers in place of one column for each class."""
    target, output = shapes.get("target"), shapes.get("output")
    if target is None or output is None:
        return None
    numbers = len(target) == len(output) - 1 or (len(target) == len(output) and target[-1] == 1)
    return "K.sparse_categorical_crossentropy(target, output)" if numbers else None


def _whole_numbers(error: KbenchError, shapes: dict[str, Shape]) -> str | None:
    """Indices made integers."""
    return 'K.cast(indices, "int32")' if "must be integers, got float" in error.reason else None


def _reshape(error: KbenchError, shapes: dict[str, Shape]) -> str | None:
    """A free size in place of the first, where the others divide what there is."""
    wanted = _FILL.search(error.reason)
    sizes = shape_of(wanted.group(1)) if wanted is not None else None
    x = shapes.get("x")
    if not sizes or x is None or None in x or None in sizes:
        return None
    rest, held = prod(size or 0 for size in sizes[1:]), prod(size or 0 for size in x)
    if not rest or held % rest:
        return None
    return f"K.reshape(x, ({', '.join(map(str, (-1, *sizes[1:])))}{',' * (len(sizes) == 1)}))"


_SEARCHES: dict[str, Callable[[KbenchError, dict[str, Shape]], str | None]] = {
    "concatenate": _join,
    "batch_dot": _batch_dot,
    "reshape": _reshape,
    "gather": _whole_numbers,
    "one_hot": _whole_numbers,
    "categorical_crossentropy": _crossentropy,
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "depthwise_conv2d", "separable_conv2d"), _convolution
    ),
}


def _feed(function: str, reason: str) -> str | None:
    """One example as a batch, a matrix the other way round, or how to feed a value at all."""
    missing = _MISSING.match(reason)
    if missing is not None and function == "eval":
        return f"K.function([{missing.group(1)}], [...])([value])"
    match = _FEED.search(reason)
    if match is None:
        return None
    wanted, given = shape_of(match.group(1)), shape_of(match.group(2))
    if wanted is None or given is None:
        return None
    if _same(given[::-1], wanted) and len(given) == 2:
        return "value.T"
    for text, shape in (("value[None]", (1, *given)), ("value[..., None]", (*given, 1))):
        if _same(shape, wanted):
            return text
    return None


def _same(given: Shape, wanted: Shape) -> bool:
    pairs = zip(given, wanted, strict=False)
    return len(given) == len(wanted) and all(b is None or a == b for a, b in pairs)
