"""Axes and blocks that are not there, at once and in a step: refused, or moved into the array."""

import keras3_there  # noqa: F401  # isort: skip
import inspect

import numpy as np
import pytest
from keras import ops, tree
from keras3_traces import in_a_trace

A = np.arange(6, dtype="float32").reshape(2, 3)
WHOLE = np.array([[0, 2, 1], [1, 0, 0]], "int32")
AXES = ("axis", "axes", "axis1", "axis2", "source", "destination")
GIVEN = {  # what else functions need, by the name of the parameter
    "f": ops.add, "kth": 1, "q": 0.5, "num_classes": 3, "indices": WHOLE, "repeats": 2, "shift": 1,
    "indices_or_sections": 1, "mean": A[0], "variance": A[0] + 1, "axis1": 0, "axis2": 1,
    "source": 0, "destination": 1, "axis": 0, "axes": 0, "start": A, "stop": A + 1,
}  # fmt: skip
OPERANDS = {  # where the first is no array of floats with two axes
    "one_hot": WHOLE, "multi_hot": WHOLE, "stack": [A, A], "concatenate": [A, A],
    "sparse_categorical_crossentropy": WHOLE[0][:2], "unique": WHOLE,
}  # fmt: skip


def _cases():
    for name in dir(ops):
        function = getattr(ops, name)
        if name.startswith("_") or not callable(function) or inspect.isclass(function):
            continue
        parameters = inspect.signature(function).parameters
        for axis in [one for one in parameters if one in AXES]:
            yield pytest.param(function, axis, parameters, id=f"{name}-{axis}")


def _call(function, parameters, axis, place, *operands):
    options, left = {}, list(operands)
    for name, parameter in parameters.items():
        if name == axis:
            options[name] = place
        elif parameter.kind is parameter.VAR_KEYWORD or parameter.default is not parameter.empty:
            continue
        else:
            options[name] = GIVEN[name] if name in GIVEN else left.pop(0) if left else A
    first = next(iter(options))
    if first in options and function.__name__ in OPERANDS and not operands:
        options[first] = OPERANDS[function.__name__]
    return function(**options)


@pytest.mark.parametrize("place", [9, -9])
@pytest.mark.parametrize(("function", "axis", "parameters"), list(_cases()))
def test_an_axis_that_is_not_there(function, axis, parameters, place):
    name = function.__name__
    many = {"rot90": (0, place), "transpose": (place, 0), "moments": [place],
            "tensordot": ([place], [0])}  # fmt: skip
    place = many.get(name, place) if axis == "axes" else place
    with pytest.raises((ValueError, IndexError, TypeError)):
        _call(function, parameters, axis, place)
    if name not in OPERANDS:
        with pytest.raises((ValueError, IndexError, TypeError)):
            in_a_trace(lambda x: _call(function, parameters, axis, place, x), [A])


def _found(call):
    """What a call gives, or that it was refused."""
    try:
        return [np.asarray(one).tolist() for one in tree.flatten(call())]
    except (ValueError, IndexError, TypeError, NotImplementedError):
        return "refused"


@pytest.mark.parametrize("place", [0, -1, 1])
@pytest.mark.parametrize(("function", "axis", "parameters"), list(_cases()))
def test_an_axis_of_a_scalar_is_alike_in_a_step(function, axis, parameters, place):
    scalar = np.array(3, "float32")
    at_once = _found(lambda: _call(function, parameters, axis, place, scalar))
    traced = lambda x: _call(function, parameters, axis, place, x)  # noqa: E731
    assert _found(lambda: in_a_trace(traced, [scalar])) == at_once


# ------------------------------------------------------------------ blocks

STARTS = [(0, 0), (1, 2), (5, 5), (-1, -2), (-9, -9), (1, -1)]
SIZES = [(1, 2), (2, 3), (1, 1), (0, 2)]


def _block(start, size):
    """The block of that size, moved into the array; a negative start counts from the end."""
    first = [s + n if s < 0 else s for s, n in zip(start, A.shape, strict=True)]
    first = [min(max(s, 0), n - m) for s, n, m in zip(first, A.shape, size, strict=True)]
    return tuple(slice(s, s + m) for s, m in zip(first, size, strict=True))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("start", STARTS)
def test_a_block_lies_in_the_array(start, size):
    places, block = np.array(start, "int32"), _block(start, size)
    for function in (
        lambda x: ops.slice(x, start, size),
        lambda x: ops.slice(x, places, size),
    ):
        np.testing.assert_array_equal(function(A), A[block])
        np.testing.assert_array_equal(in_a_trace(function, [A])[0], A[block])
    found = in_a_trace(lambda x, i: ops.slice(x, i, size), [A, places])
    np.testing.assert_array_equal(found[0], A[block])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("start", STARTS)
def test_a_block_is_put_into_the_array(start, size):
    places, wanted, new = np.array(start, "int32"), A.copy(), np.full(size, 9, "float32")
    wanted[_block(start, size)] = new
    np.testing.assert_array_equal(ops.slice_update(A, start, new), wanted)
    for function, operands in (
        (lambda x: ops.slice_update(x, start, new), [A]),
        (lambda x, i, y: ops.slice_update(x, i, y), [A, places, new]),
    ):
        np.testing.assert_array_equal(in_a_trace(function, operands)[0], wanted)


@pytest.mark.parametrize("size", [(3, 1), (1, 4), (2,), (1, 1, 1), (-2, 1)])
def test_a_block_that_the_array_is_too_small_for(size):
    start, block = (0,) * len(size), r"float32\[2, 3\], which has no block of \["
    calls = {"slice": lambda x: ops.slice(x, start, size)}
    if min(size) >= 0:
        calls["slice_update"] = lambda x: ops.slice_update(x, start, np.ones(size, "float32"))
    for name, function in calls.items():
        with pytest.raises(ValueError, match=f"{name}: inputs is {block}"):
            function(A)
        with pytest.raises(ValueError, match=f"{name}: inputs is {block}"):
            in_a_trace(function, [A])
