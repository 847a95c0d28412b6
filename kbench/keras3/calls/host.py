"""Functions of arrays as functions of Keras: the dtype is what Keras' own symbolic rule says.

Known values are computed at once, by NumPy. In a trace the same function becomes a node, so that a
traced step and an eager call agree.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend import config
from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.dtypes import result_type
from keras.src.backend.common.keras_tensor import KerasTensor

from kbench import backend as K
from kbench.api.operations import Spec, Tensor, numpy_call, numpy_calls
from kbench.keras3.calls.planned import NotAlike, add_to_key
from kbench.keras3.tensor import (
    WIDE,
    NotTracedError,
    Traced,
    from_wide,
    in_dtype,
    is_traced,
    own,
    plain,
    to_wide,
)

MAX_RULES = 4096
"""Dtypes of calls that are kept: some hundred bytes each."""
_dtypes: dict[Any, list[str]] = {}
WHOLE = ("int8", "uint8", "int16", "uint16", "bool")
"""Integers that NumPy would turn into floats narrower than float32."""


def dtype_of(x: Any) -> Any:
    """The dtype of an operand, or the Python type of a number, which promotes weakly."""
    return standardize_dtype(x.dtype) if hasattr(x, "dtype") else type(x)


def common_dtype(*operands: Any) -> str:
    kinds: list[Any] = [x.dtype if hasattr(x, "dtype") else type(x) for x in operands]
    return _common(config.floatx(), *kinds)


@functools.lru_cache(MAX_RULES)
def _common(floatx: str, *kinds: Any) -> str:
    """The dtype in which dtypes and types of Python meet, which `floatx` has a part in."""
    return str(result_type(*[x if isinstance(x, type) else standardize_dtype(x) for x in kinds]))


def operand(x: Any) -> Any:
    """An operand as an array, a traced value, or a number of Python."""
    from kbench.keras3.core import convert_to_tensor

    if isinstance(x, (Traced, np.ndarray, bool, int, float, complex)) or x is None:
        return x
    return convert_to_tensor(plain(x))


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


def _result_dtypes(name: str, given: Any, rest: Any, options: dict[str, Any]) -> list[str]:
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
    if x.dtype == np.float16 or (floating and x.dtype.name in WHOLE):
        return x.astype(np.float32)
    return x


def computed(function: Any, given: Any, rest: Any, options: Any, dtypes: list[str]) -> Any:
    """What NumPy finds, in the dtypes of the results."""
    floating = "float" in dtypes[0]
    arrays = tree.map_structure(lambda x: _ready(x, floating), given)
    with np.errstate(all="ignore"):
        found = function(*arrays, *rest, **options)
        if isinstance(found, (tuple, list)):
            parts = zip(found, dtypes, strict=True)
            return type(found)([np.asarray(one).astype(dtype) for one, dtype in parts])
        return own(np.asarray(found).astype(dtypes[0], copy=False))


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


def _own_result(found: Any, dtype: np.dtype, arguments: Any) -> Any:
    """One result as an array of a dtype, in memory of its own."""
    array = own(np.asarray(found).astype(dtype, copy=False))
    return array.copy() if any(array is x for x in arguments) else array


def host(
    operands: int = 1,
    rule: Callable[..., Any] | None = None,
    dtype: Any = None,
    moves: bool = False,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of arrays as a function of Keras.

    The first `operands` arguments are tensors, or lists of them; the rest are options. `rule` is
    the gradient, on nodes: `rule(g, y, *operands, *options)`. `dtype` is the dtype of the result
    where Keras' rule is not asked: a name, "same", or a function of the operands that lists the
    dtypes. With `moves` the function only moves elements, so that it is traced as a gather,
    gradient included.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        called = name or function.__name__
        names = tuple(inspect.signature(function).parameters) if operands else ()

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            key = _key(function, operands, arguments, options)
            ruled_dtype = _as_it_is.get(key) if key else None
            if ruled_dtype is not None:
                with np.errstate(all="ignore"):
                    return _own_result(function(*arguments, **options), ruled_dtype, arguments)
            while len(arguments) < operands and names[len(arguments)] in options:
                arguments = (*arguments, options.pop(names[len(arguments)]))
            given: Any = tuple(
                [operand(one) for one in x] if _is_list(x) else operand(x)
                for x in arguments[:operands]
            )
            rest = arguments[operands:]
            if any(is_traced(leaf) for leaf in tree.flatten(given)):
                _check_options(called, rest, options)
                if moves:
                    return _moved(function, given[0], rest, options)
                return _traced(called, function, given, rest, options, rule, dtype)
            known = any(hasattr(leaf, "shape") for leaf in tree.flatten(given))
            given = tuple(_as_arrays(x, known) for x in given)
            dtypes = _told(dtype, given) or _result_dtypes(called, given, rest, options)
            if key:
                _note(key, given, dtypes)
            return computed(function, given, rest, options, dtypes)

        return call

    return declare


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
    from kbench.keras3.core import convert_to_tensor

    if isinstance(x, (bool, int, float)):
        return x if known else convert_to_tensor(x)
    return convert_to_tensor(x) if isinstance(x, (np.generic, complex)) else x


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


def _traced(
    name: str,
    function: Any,
    given: Any,
    rest: Any,
    options: dict[str, Any],
    rule: Callable[..., Any] | None,
    dtype: Any,
) -> Any:
    """The function as a node of the graph."""
    ruling = ruled(name, *given, *rest, **options)
    specs = [(tuple(one.shape), standardize_dtype(one.dtype)) for one in tree.flatten(ruling)]
    if dtype is not None:
        told = _told(dtype, given) or []
        specs = [(shape, kind) for (shape, _), kind in zip(specs, told, strict=True)]
    if any(None in shape for shape, _ in specs):
        raise NotTracedError(
            f"{name}: the shape of the result depends on values, which a traced step does not know"
        )
    return node_call(name, function, given, rest, options, rule, specs, ruling)


def node_call(
    name: str,
    function: Any,
    given: Any,
    rest: Any,
    options: dict[str, Any],
    rule: Callable[..., Any] | None,
    specs: list[tuple[tuple[int, ...], str]],
    structure: Any,
) -> Any:
    """A node that calls `function`; the operands that are traced or arrays become its inputs."""
    leaves = tree.flatten(given)
    places = [i for i, leaf in enumerate(leaves) if hasattr(leaf, "shape")]
    own = [standardize_dtype(leaves[i].dtype) for i in places]
    nodes = [in_dtype(leaves[i], kind) for i, kind in zip(places, own, strict=True)]
    dtypes = [kind for _, kind in specs]

    def run(*arrays: np.ndarray) -> Any:
        filled = list(leaves)
        for i, array, kind in zip(places, arrays, own, strict=True):
            filled[i] = from_wide(array, kind)
        packed = tree.pack_sequence_as(given, filled)
        found = computed(function, packed, rest, options, dtypes)
        if isinstance(found, (tuple, list)):
            return tuple(to_wide(one) for one in found)
        return to_wide(found)

    run.__name__ = name
    passed = None
    if rule is not None:

        def passed(g: Any, y: Tensor, *inputs: Tensor) -> Any:
            filled = list(leaves)
            for i, node in zip(places, inputs, strict=True):
                filled[i] = node
            entries = rule(g, y, *filled, *rest, **options)
            return [entries[i] for i in places]

    parts = [Spec(shape, WIDE.get(kind, kind)) for shape, kind in specs]
    if len(parts) == 1 and not isinstance(structure, (tuple, list)):
        return Traced(numpy_call(run, nodes, parts[0], passed), dtypes[0])
    found = numpy_calls(run, nodes, parts, passed)
    made = [Traced(node, kind) for node, kind in zip(found, dtypes, strict=True)]
    return tree.pack_sequence_as(structure, made)


def _moved(function: Any, x: Traced, rest: Any, options: dict[str, Any]) -> Any:
    """Elements in other places: a gather of where they came from."""
    size = int(np.prod(x.shape))
    where = function(np.arange(size).reshape(x.shape), *rest, **options)
    flat = K.reshape(x.node, (-1,))
    if isinstance(where, (tuple, list)):
        return type(where)([Traced(taken(flat, one), x.dtype) for one in where])
    return Traced(taken(flat, where), x.dtype)


def taken(flat: Tensor, where: np.ndarray) -> Tensor:
    """The elements of a vector at known places, in the shape of these."""
    return K.gather(flat, K.constant(np.asarray(where, np.int64), dtype="int64"))
