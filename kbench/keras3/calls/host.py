"""Functions of arrays as functions of Keras: the dtype is what Keras' own symbolic rule says.

Known values are computed at once, by NumPy. In a trace the same function becomes a node, so that a
traced step and an eager call agree.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keras.src import tree
from keras.src.backend import config
from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.dtypes import result_type
from keras.src.backend.common.keras_tensor import KerasTensor

from kbench import backend as K
from kbench.api.operations import Tensor, numpy_call, numpy_calls
from kbench.keras3.calls.planned import NotAlike, add_to_key
from kbench.keras3.complex_numbers.parts import by_parts, moved
from kbench.keras3.complex_numbers.refusal import is_complex, refused, spec_of
from kbench.keras3.complex_numbers.whole import rule_on_symbols
from kbench.keras3.tensor import (
    WIDE,
    NotTracedError,
    Traced,
    converted,
    from_held,
    held,
    held_spec,
    is_traced,
    name_of,
    own,
    plain,
    to_held,
    to_wide,
)

MAX_RULES = 4096
"""Dtypes of calls that are kept: some hundred bytes each."""
_dtypes: dict[Any, list[str]] = {}
WHOLE = ("int8", "uint8", "int16", "uint16", "bool")
"""Integers that NumPy would turn into floats narrower than float32."""


def dtype_of(x: Any) -> Any:
    """The dtype of an operand, or the Python type of a number, which promotes weakly."""
    if isinstance(x, (np.ndarray, np.generic)):
        return _standard(x.dtype)
    return standardize_dtype(x.dtype) if hasattr(x, "dtype") else type(x)


@functools.lru_cache
def _standard(dtype: np.dtype) -> str:
    return str(standardize_dtype(dtype))


def common_dtype(*operands: Any) -> str:
    kinds: list[Any] = [x.dtype if hasattr(x, "dtype") else type(x) for x in operands]
    return _common(config.floatx(), *kinds)


@functools.lru_cache(MAX_RULES)
def _common(floatx: str, *kinds: Any) -> str:
    """The dtype in which dtypes and types of Python meet, which `floatx` has a part in."""
    return str(result_type(*[x if isinstance(x, type) else standardize_dtype(x) for x in kinds]))


def operand(x: Any) -> Any:
    """An operand as an array, a traced value, or a number of Python."""
    if isinstance(x, (np.ndarray, Traced, bool, int, float, complex)) or x is None:
        return x
    x = plain(x)
    return x if isinstance(x, (Traced, np.ndarray)) else _converted(x)


def _converted(x: Any) -> Any:
    from kbench.keras3.core import convert_to_tensor  # `core` is made of functions of this file

    return convert_to_tensor(x)


def symbol(x: Any) -> Any:
    """The symbol by which Keras tells the shape and the dtype of a result."""
    if isinstance(x, (Traced, np.ndarray, np.generic)):
        return KerasTensor(tuple(x.shape), standardize_dtype(x.dtype))
    return x


def ruled(name: str, *arguments: Any, **options: Any) -> Any:
    """What Keras' symbolic rule of the function says of the result."""
    from keras.src import ops

    given = tree.map_structure(symbol, (arguments, options))
    return getattr(ops, name)(*given[0], **given[1])


def result_dtypes(name: str, given: Any, rest: Any, options: dict[str, Any]) -> list[str]:
    leaves = [dtype_of(leaf) for leaf in tree.flatten(given)]
    key: Any = (name, config.floatx(), tuple(leaves), repr(rest), repr(options))
    if any(hasattr(leaf, "shape") for leaf in tree.flatten((rest, options))):
        key = None
    found = _dtypes.get(key) if key is not None else None
    if found is None:
        ruling = tree.flatten(ruled(name, *given, *rest, **options))
        found = [standardize_dtype(leaf.dtype) for leaf in ruling]
        if key is not None:
            if len(_dtypes) >= MAX_RULES:
                _dtypes.clear()
            _dtypes[key] = found
    return found


def _ready(x: Any, floating: bool) -> Any:
    """An operand as NumPy computes with it: integers of few bits as float32 for float results."""
    if not isinstance(x, np.ndarray):
        return x
    x = to_wide(x)
    if x.dtype == np.float16 or (floating and name_of(x.dtype) in WHOLE):
        return x.astype(np.float32)
    return x


def solved(name: str, function: Any, given: Any, arguments: Any, options: Any) -> Any:
    """What a function of NumPy finds; LAPACK's error says the name and what was given."""
    try:
        return function(*arguments, **options)
    except np.linalg.LinAlgError as error:
        roles = inspect.signature(function).parameters
        pairs = zip(roles, given, strict=False)
        told = [f"{role} is {spec_of(x)}" for role, x in pairs if hasattr(x, "shape")]
        raise np.linalg.LinAlgError(f"{name}: {', '.join(told)}: {error}") from None


def computed(
    name: str, function: Any, given: Any, rest: Any, options: Any, dtypes: list[str]
) -> Any:
    """What NumPy finds, in the dtypes of the results."""
    floating = "float" in dtypes[0]
    arrays = tree.map_structure(lambda x: _ready(x, floating), given)
    with np.errstate(all="ignore"):
        found = solved(name, function, given, (*arrays, *rest), options)
        if isinstance(found, (tuple, list)):
            parts = zip(found, dtypes, strict=True)
            return type(found)([converted(np.asarray(one), kind, True) for one, kind in parts])
        return own(converted(np.asarray(found), dtypes[0]))


_as_it_is: dict[Any, np.dtype] = {}
"""The dtypes of results of calls whose arrays NumPy takes as they are, by `_key`."""


def _key(function: Any, operands: int, arguments: Any, options: Any) -> Any:
    """What tells the dtype of a result: the dtypes of arrays, and the rest. None where an operand
    is no array, or the rest is more than words and numbers."""
    if len(arguments) < operands:
        return None
    key = [function, config.floatx()]
    for x in arguments[:operands]:
        if type(x) is not np.ndarray:
            return None
        key.append(x.dtype)
    arrays: list[np.ndarray] = []
    try:
        for x in arguments[operands:]:
            add_to_key(x, key, arrays)
        for name, x in options.items():
            key.append(name)
            add_to_key(x, key, arrays)
    except NotAlike:
        return None
    return None if arrays else tuple(key)


def _note(key: Any, given: Any, dtypes: list[str]) -> None:
    """Remember the dtype of the one result of a call whose arrays need not be converted."""
    floating = "float" in dtypes[0]
    if len(dtypes) == 1 and dtypes[0] not in WIDE and all(_ready(x, floating) is x for x in given):
        if len(_as_it_is) >= MAX_RULES:
            _as_it_is.clear()
        _as_it_is[key] = np.dtype(dtypes[0])


def _own_result(name: str, function: Any, arguments: Any, options: Any, dtype: np.dtype) -> Any:
    """The one result of a function as an array of a dtype, in memory of its own."""
    with np.errstate(all="ignore"):
        found = solved(name, function, arguments, arguments, options)
    array = own(np.asarray(found).astype(dtype, copy=False))
    return array.copy() if any(array is x for x in arguments) else array


REAL, BY_PARTS = "real", "by parts"
"""What a function does with complex numbers, where it has no rule for them: it takes none, or it
is applied to the parts of its first operand."""


def flat(g: Any, y: Any, *given: Any, **options: Any) -> list[None]:
    """The rule of a function of complex numbers that passes no gradient on."""
    return [None] * len(given)


class Declared(NamedTuple):
    """A function as `host` declares it."""

    name: str
    function: Callable[..., Any]
    rule: Callable[..., Any] | None
    dtype: Any
    moves: bool
    of_complex: Any


def host(
    operands: int = 1,
    rule: Callable[..., Any] | None = None,
    dtype: Any = None,
    moves: bool = False,
    name: str | None = None,
    of_complex: Any = REAL,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of arrays as a function of Keras.

    The first `operands` arguments are tensors, or lists of them; the rest are options. `rule` is
    the gradient, on nodes: `rule(g, y, *operands, *options)`. `dtype` is the dtype of the result
    where Keras' rule is not asked: a name, "same", or a function of the operands that lists the
    dtypes. With `moves` the function only moves elements, so that it is traced as a gather,
    gradient included. `of_complex` is the rule for complex numbers, on symbols: with the gradients
    that `complex_numbers/whole.py` describes, None where there is no gradient, else `REAL` or
    `BY_PARTS`.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        called = name or function.__name__
        names = tuple(inspect.signature(function).parameters) if operands else ()
        declared = Declared(called, function, rule, dtype, moves, of_complex)

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            key = _key(function, operands, arguments, options)
            ruled_dtype = _as_it_is.get(key) if key else None
            if ruled_dtype is not None:
                return _own_result(called, function, arguments, options, ruled_dtype)
            while len(arguments) < operands and names[len(arguments)] in options:
                arguments = (*arguments, options.pop(names[len(arguments)]))
            given: Any = tuple(
                [operand(one) for one in x] if _is_list(x) else operand(x)
                for x in arguments[:operands]
            )
            rest = arguments[operands:]
            leaves = tree.flatten(given)
            has_complex = any(map(is_complex, leaves))
            if has_complex and not moves:
                _check_complex(called, given, names, of_complex)
            if any(map(is_traced, leaves)):
                return _symbolic(declared, call, given, rest, options, has_complex)
            known = any(hasattr(leaf, "shape") for leaf in leaves)
            given = tuple(_as_arrays(x, known) for x in given)
            dtypes = _told(dtype, given) or result_dtypes(called, given, rest, options)
            if has_complex and dtype is None:
                dtypes = _complex_dtypes(dtypes, leaves)
            if key:
                _note(key, given, dtypes)
            return computed(called, function, given, rest, options, dtypes)

        return call

    return declare


def _symbolic(
    one: Declared, call: Any, given: Any, rest: Any, options: Any, has_complex: bool
) -> Any:
    """A function of symbols; `call` is what Keras calls."""
    _check_options(one.name, rest, options)
    if one.moves:
        return _moved(one.function, given[0], rest, options)
    if has_complex and one.of_complex == BY_PARTS:
        return _each_part(call, given, rest, options)
    given = tuple(_as_arrays(x, False) for x in given) if has_complex else given
    return _traced(one, given, rest, options, has_complex)


def _check_complex(name: str, given: Any, names: tuple[str, ...], of_complex: Any) -> None:
    """DtypeError for a complex operand that the function does not take."""
    first = {REAL: 0, BY_PARTS: 1}.get(of_complex, len(given))
    for role, x in zip(names[first:], given[first:], strict=False):
        for one in x if isinstance(x, (list, tuple)) else [x]:
            if is_complex(one):
                raise refused(one, name, role)


def _complex_dtypes(dtypes: list[str], leaves: list[Any]) -> list[str]:
    """Dtypes of results of complex numbers, where Keras' rule says float of some functions."""
    wanted = common_dtype(*leaves, 0.0)
    return [wanted if "float" in dtype else dtype for dtype in dtypes]


def _each_part(call: Any, given: Any, rest: Any, options: Any) -> Traced:
    """A function of complex numbers that is the same for both parts of its first operand."""
    first, *others = given

    def build(node: Tensor) -> Any:
        return call(Traced(node), *others, *rest, **options).node

    return by_parts(build, [first], str(first.dtype))


def _check_options(name: str, rest: Any, options: Any) -> None:
    """NotTracedError where what is no operand is a symbol, whose value the function reads."""
    for leaf in tree.flatten((rest, options)):
        if is_traced(leaf):
            raise NotTracedError(f"{name}: an argument is {leaf!r}, and has to be known here")


def _is_list(x: Any) -> bool:
    """Whether it is a list of tensors, not of numbers."""
    return isinstance(x, (list, tuple)) and any(hasattr(one, "shape") for one in x)


def _as_arrays(x: Any, known: bool) -> Any:
    """The operand; numbers of Python stay what they are beside an array, which they adapt to."""
    if isinstance(x, (bool, int, float)):
        return x if known else _converted(x)
    return _converted(x) if isinstance(x, (np.generic, complex)) else x


def _told(dtype: Any, given: Any) -> list[str] | None:
    if dtype is None:
        return None
    if callable(dtype):
        return list(dtype(*given))
    if dtype != "same":
        return [dtype]
    return [
        standardize_dtype(given[0].dtype) if hasattr(given[0], "dtype") else common_dtype(given[0])
    ]


def _traced(one: Declared, given: Any, rest: Any, options: dict[str, Any], on_symbols: bool) -> Any:
    """The function as a node of the graph."""
    ruling = ruled(one.name, *given, *rest, **options)
    specs = [(tuple(leaf.shape), standardize_dtype(leaf.dtype)) for leaf in tree.flatten(ruling)]
    told = None
    if one.dtype is not None:
        told = _told(one.dtype, given) or []
    elif on_symbols:
        told = _complex_dtypes([kind for _, kind in specs], tree.flatten(given))
    if told is not None:
        specs = [(shape, kind) for (shape, _), kind in zip(specs, told, strict=True)]
    if any(None in shape for shape, _ in specs):
        raise NotTracedError(
            f"{one.name}: the shape of the result depends on values, which a traced step does not "
            "know"
        )
    rule = one.of_complex if on_symbols else one.rule
    return node_call(one.name, one.function, given, rest, options, rule, specs, ruling, on_symbols)


def node_call(
    name: str,
    function: Any,
    given: Any,
    rest: Any,
    options: dict[str, Any],
    rule: Callable[..., Any] | None,
    specs: list[tuple[tuple[int, ...], str]],
    structure: Any,
    on_symbols: bool = False,
) -> Any:
    """A node that calls `function`; the operands that are traced or arrays become its inputs.

    The rule is one on nodes, or one on symbols, as complex numbers need it.
    """
    leaves = tree.flatten(given)
    places = [i for i, leaf in enumerate(leaves) if hasattr(leaf, "shape")]
    own = [standardize_dtype(leaves[i].dtype) for i in places]
    nodes = [held(leaves[i], kind) for i, kind in zip(places, own, strict=True)]
    dtypes = [kind for _, kind in specs]
    is_single = len(specs) == 1 and not isinstance(structure, (tuple, list))

    def run(*arrays: np.ndarray) -> Any:
        filled = list(leaves)
        for i, array, kind in zip(places, arrays, own, strict=True):
            filled[i] = from_held(array, kind)
        packed = tree.pack_sequence_as(given, filled)
        found = computed(name, function, packed, rest, options, dtypes)
        if isinstance(found, (tuple, list)):
            return tuple(to_held(one) for one in found)
        return to_held(found)

    run.__name__ = name
    passed: Any = None
    if rule is not None:

        def passed(g: Any, y: Any, *inputs: Any) -> Any:
            filled = list(leaves)
            for i, node in zip(places, inputs, strict=True):
                filled[i] = node
            entries = rule(g, y, *filled, *rest, **options)
            return [entries[i] for i in places]

    if on_symbols:
        passed = rule_on_symbols(passed, dtypes, own, not is_single)
    parts = [held_spec(shape, kind) for shape, kind in specs]
    if is_single:
        return Traced(numpy_call(run, nodes, parts[0], passed), dtypes[0])
    found = numpy_calls(run, nodes, parts, passed)
    made = [Traced(node, kind) for node, kind in zip(found, dtypes, strict=True)]
    return tree.pack_sequence_as(structure, made)


def _moved(function: Any, x: Traced, rest: Any, options: dict[str, Any]) -> Any:
    """Elements in other places: a gather of where they came from."""
    size = int(np.prod(x.shape))
    where = function(np.arange(size).reshape(x.shape), *rest, **options)
    if isinstance(where, (tuple, list)):
        return type(where)([_taken_from(x, one) for one in where])
    return _taken_from(x, where)


def _taken_from(x: Traced, where: np.ndarray) -> Traced:
    return moved(lambda node: taken(K.reshape(node, (-1,)), where), x)


def taken(flat: Tensor, where: np.ndarray) -> Tensor:
    """The elements of a vector at known places, in the shape of these."""
    return K.gather(flat, K.constant(np.asarray(where, np.int64), dtype="int64"))
