"""Branches and loops: by Python where values are known, else as part of the graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.backend.common.stateless_scope import get_stateless_scope

from kbench import backend as K
from kbench.api.operations import Spec, numpy_call
from kbench.keras3.calls.host import symbol
from kbench.keras3.complex_numbers.refusal import whole_only
from kbench.keras3.complex_numbers.whole import slope_node
from kbench.keras3.control.loops import as_one_loop, until
from kbench.keras3.control.stores import stores_apart
from kbench.keras3.numpy import elementwise, layout
from kbench.keras3.numpy.create import zeros
from kbench.keras3.tensor import (
    NotTracedError,
    Traced,
    held,
    in_dtype,
    is_traced,
    place_of,
    plain,
    tracing,
    without_matrices,
)


def _is_known(x: Any) -> bool:
    return not is_traced(x) or tracing.known


def cond(pred: Any, true_fn: Any, false_fn: Any) -> Any:
    """What one of two functions gives; in a trace both are part of the graph."""
    pred = plain(pred)
    if _is_known(pred):
        return true_fn() if pred else false_fn()
    return _either(pred, true_fn, false_fn)


def _either(pred: Any, first: Any, second: Any) -> Any:
    """What one of two functions gives; of what they assign to variables, that of the same one."""
    with stores_apart() as one:
        found = first()
    with stores_apart() as two:
        other = second()
    if one.losses or two.losses:
        raise NotTracedError(
            "a branch of cond or switch adds a loss (add_loss, a regularizer of activities); in a "
            "traced step a loss always counts, so add it outside of the branch, times the condition"
        )
    if one.values or two.values:
        state: dict[int, Any] = get_stateless_scope().state_mapping
        for key in {**one.values, **two.values}:
            held = state[key] if key in state else _held(key)
            state[key] = _chosen(pred, one.values.get(key, held), two.values.get(key, held))
    return _chosen(pred, found, other)


def _held(key: int) -> Any:
    """What a variable holds to which a step has not assigned."""
    from kbench.keras3.core import owner_of

    return owner_of(key)._value


def _chosen(pred: Any, first: Any, second: Any) -> Any:
    def choose(x: Any, y: Any) -> Any:
        if x is None and y is None:
            return None
        x, y = layout.known(plain(x)), layout.known(plain(y))
        dtype = str(x.dtype)
        sides = held(x, dtype), held(y, dtype)
        node = K.reshape(in_dtype(pred, "bool"), ())
        return Traced(K.switch(node, *sides), dtype)

    return tree.map_structure(choose, first, second)


def switch(index: Any, branches: Any, *operands: Any) -> Any:
    """What the function of that number gives; numbers beyond the ends count as these."""
    index, last = plain(index), len(branches) - 1
    whole_only("switch", index=index)
    operands = without_matrices(operands)
    if _is_known(index):
        return branches[int(np.clip(int(index), 0, last))](*operands)

    def found(place: int) -> Any:
        if place == last:
            return branches[last](*operands)
        here = elementwise.less_equal(index, place)
        return _either(here, lambda: branches[place](*operands), lambda: found(place + 1))

    return found(0)


def while_loop(cond: Any, body: Any, loop_vars: Any, maximum_iterations: Any = None) -> Any:
    """A body called again and again while a condition of its values holds."""
    several = isinstance(loop_vars, (tuple, list))
    values: Any = tuple(loop_vars) if several else (loop_vars,)
    values = tree.map_structure(plain, values)

    def next_values(given: Any) -> Any:
        after = body(*given)
        return tuple(after) if isinstance(after, (tuple, list)) else (after,)

    @functools.wraps(body, updated=())
    def guarded(given: Any, _entry: Any) -> Any:
        return _chosen(plain(cond(*given)), next_values(given), given), None

    count = 0
    while maximum_iterations is None or count < maximum_iterations:
        going = plain(cond(*values))
        if not _is_known(going):
            values = tree.map_structure(_converted, values)
            if maximum_iterations is None:
                values = until(lambda given: cond(*given), next_values, values)
            else:
                values = scan(guarded, values, length=maximum_iterations - count)[0]
            break
        if not going:
            break
        values = next_values(values)
        count += 1
    found = tree.map_structure(_converted, values)
    return found if several else found[0]


def _converted(x: Any) -> Any:
    return x if x is None else layout.known(plain(x))


def _stacked(*parts: Any) -> Any:
    return None if parts[0] is None else layout.stack(parts, 0)


def fori_loop(lower: Any, upper: Any, body_fun: Any, init_val: Any) -> Any:
    """A body called for every integer from `lower` up to `upper`."""
    lower, upper, init_val = plain(lower), plain(upper), without_matrices(init_val)
    whole_only("fori_loop", lower=lower, upper=upper)
    if not (_is_known(lower) and _is_known(upper)):
        return while_loop(
            lambda i, value: elementwise.less(i, upper),
            lambda i, value: (elementwise.add(i, 1), body_fun(i, value)),
            (elementwise.cast(lower, "int32"), init_val),
        )[1]
    numbers = np.arange(int(lower), int(upper), dtype="int32")

    @functools.wraps(body_fun, updated=())
    def round_of(value: Any, i: Any) -> Any:
        return body_fun(i, value), None

    found = as_one_loop(round_of, tree.map_structure(_converted, init_val), numbers, len(numbers))
    if found is not None:
        return found[0]
    value = init_val
    for i in numbers:
        value = body_fun(np.asarray(i), value)
    return value


def map(f: Any, xs: Any) -> Any:
    """What a function gives for every entry of the first axis, stacked."""
    given = tree.map_structure(lambda x: layout.known(plain(x)), xs)
    count = tree.flatten(given)[0].shape[0]

    @functools.wraps(f, updated=())
    def round_of(carry: Any, entry: Any) -> Any:
        return carry, f(entry)

    if not count:
        return _of_no_rounds(round_of, (), given)
    found = as_one_loop(round_of, (), given, count)
    if found is not None:
        return found[1]
    results = [f(tree.map_structure(lambda x, n=i: x[n], given)) for i in range(count)]
    return tree.map_structure(lambda *parts: layout.stack(parts, 0), *results)


def _of_no_rounds(f: Any, carry: Any, given: Any) -> Any:
    """What a function gives for no entries: no rows, of the shapes and dtypes of a round's."""
    from kbench.keras3.core import compute_output_spec  # `core` is made of functions of this file

    def none_of(x: Any) -> Any:
        if x is None:
            return None
        x = x if hasattr(x, "shape") else _converted(x)
        return zeros((0, *x.shape), x.dtype)

    entry = tree.map_structure(lambda x: KerasTensor(tuple(x.shape[1:]), str(x.dtype)), given)
    found = compute_output_spec(f, tree.map_structure(symbol, carry), entry)[1]
    return tree.map_structure(none_of, found)


def vectorized_map(function: Any, elements: Any) -> Any:
    """What a function gives for every entry of the first axis of all elements, stacked."""
    return map(function, elements)


def scan(
    f: Any,
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    unroll: Any = 1,
) -> Any:
    """A function that carries a value from entry to entry, and what it gives for each."""
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    if not isinstance(unroll, bool) and not (isinstance(unroll, int) and unroll >= 1):
        raise ValueError(
            f"`unroll` must be an positive integer or boolean. Received: unroll={unroll}"
        )
    if xs is None and length is None:
        raise ValueError("Got no `xs` to scan over and `length` not provided.")
    given = tree.map_structure(_converted, xs)
    count = int(length) if xs is None else tree.flatten(given)[0].shape[0]
    carry: Any = tree.map_structure(_converted, init)
    if not count and xs is not None:
        return carry, _of_no_rounds(f, carry, given)
    if unroll is not True:
        looped = as_one_loop(f, carry, given, count, reverse)
        if looped is not None:
            return looped
    found: list[Any] = []
    order = range(count)[::-1] if reverse else range(count)
    for i in order:
        entry = None if xs is None else tree.map_structure(lambda x, n=i: x[n], given)
        carry, result = f(carry, entry)
        found.append(result)
    if reverse:
        found.reverse()
    if not found or all(one is None for one in found):
        return carry, None
    return carry, tree.map_structure(_stacked, *found)


def associative_scan(f: Any, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """The results of an associative function over all entries so far, in logarithmic depth."""
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    flat = [layout.known(plain(x)) for x in tree.flatten(elems)]
    flat = [layout.flip(x, axis) for x in flat] if reverse else flat
    axis = place_of(axis, len(flat[0].shape))
    count = flat[0].shape[axis]
    if any(x.shape[axis] != count for x in flat):
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension. (saw: "
            f"{[x.shape for x in flat]})"
        )

    def combined(first: list[Any], second: list[Any]) -> list[Any]:
        packed = [tree.pack_sequence_as(elems, one) for one in (first, second)]
        return [plain(one) for one in tree.flatten(f(*packed))]

    def part(x: Any, start: int, stop: int) -> Any:
        return x[(*(slice(None),) * axis, slice(start, stop))]

    step = 1
    while step < count:
        before = [part(x, 0, count - step) for x in flat]
        later = [part(x, step, count) for x in flat]
        joined = combined(before, later)
        flat = [
            layout.concatenate([part(x, 0, step), y], axis)
            for x, y in zip(flat, joined, strict=True)
        ]
        step *= 2
    flat = [layout.flip(x, axis) for x in flat] if reverse else flat
    return tree.pack_sequence_as(elems, flat)


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that also gives its own gradient: `f(*args)` returns the value and a function."""

    def call(*arguments: Any) -> Any:
        arguments = without_matrices(arguments)
        value, slopes = f(*arguments)
        value = plain(value)
        given = [plain(one) for one in arguments]
        if not is_traced(value):
            return value
        places = [i for i, one in enumerate(given) if is_traced(one)]

        def rule(g: Any, y: Any, *_inputs: Any) -> Any:
            found = slopes(Traced(g, value.dtype))
            found = found if isinstance(found, (tuple, list)) else (found,)
            pairs = [(plain(found[i]), given[i].dtype) for i in places]
            entries = [None if one is None else slope_node(one, dtype) for one, dtype in pairs]
            return [None, *entries]

        def same(array: np.ndarray, *_inputs: np.ndarray) -> np.ndarray:
            return np.array(array)

        node = value.held
        inputs = [node, *[given[i].held for i in places]]
        spec = Spec(node.spec.shape, node.spec.dtype)
        return Traced(numpy_call(same, inputs, spec, rule), value.dtype)

    return call


def remat(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself: what is computed again to save memory, the engine decides."""
    return f
