"""Builds a program and runs it: step by step on NumPy, or as a function in a kernel mode."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from programs.draw import FEEDS, Program, feeds, numpy_engine
from programs.larger import OPERATIONS

CALLS = 14
"""Calls of a replay: from the ninth on, neighbouring kernels are called as one."""
PART = 0.1
"""What of a value an update puts into its variable."""

Arrays = list[np.ndarray]


# ------------------------------------------------------------------ step by step


def stepwise(program: Program, values: Arrays) -> Arrays:
    """Outputs, new values of updated variables, and slopes, from what all values are."""
    found = [values[n] for n in program.outputs]
    found += [_updated(values[place], values[n]) for place, n in program.updates]
    return found + (_slopes_stepwise(program, values) if program.slopes else [])


def _updated(old: Any, value: Any) -> Any:
    return old * (1 - PART) + value * PART


def _update(K: Any, way: int, variable: Any, value: Any) -> Any:
    """The update of a variable to what `_updated` gives, in one of the ways that there are."""
    if way % 4 == 1:
        return K.update_add(variable, (value - variable) * PART)
    if way % 4 == 2:
        return K.update_sub(variable, (variable - value) * PART)
    if way % 4 == 3:
        return K.moving_average_update(variable, value, 1 - PART)
    return K.update(variable, _updated(variable, value))


def weights(shape: Sequence[int], dtype: Any, place: int) -> np.ndarray:
    """What an output is multiplied by before all are added up to a loss."""
    count = int(np.prod(shape))
    return (np.cos(np.arange(count) * 0.7 + place) / np.sqrt(count)).reshape(shape).astype(dtype)


def _slopes_stepwise(program: Program, values: Arrays) -> Arrays:
    """Gradients by the rule of each operation alone, from the last step to the first."""
    K = numpy_engine()
    slopes: dict[int, np.ndarray] = {}
    for place, n in enumerate(program.outputs):
        _collect(slopes, n, weights(values[n].shape, values[n].dtype, place))
    first = len(program.leaves)
    for number in range(len(program.steps) - 1, -1, -1):
        slope = slopes.get(first + number)
        if slope is None:
            continue
        step = program.steps[number]
        inputs = [K.placeholder(values[n].shape, dtype=values[n].dtype.name) for n in step.operands]
        result = OPERATIONS[step.name].build(K, *inputs, **step.attributes)
        found = K.gradients(K.sum(result * K.constant(slope, dtype=slope.dtype.name)), inputs)
        wanted = [n for n, one in enumerate(found) if one is not None]
        if not wanted:
            continue
        run = K.function(inputs, [found[n] for n in wanted])
        for n, array in zip(wanted, run([values[m] for m in step.operands]), strict=True):
            _collect(slopes, step.operands[n], array)
    return [slopes.get(n, np.zeros_like(values[n])) for n in program.slopes]


def _collect(slopes: dict[int, np.ndarray], place: int, slope: np.ndarray) -> None:
    slopes[place] = slopes[place] + slope if place in slopes else slope


# ------------------------------------------------------------------ as a function


@dataclass
class Built:
    """A program as a function of `K`: its inputs, variables by place, and what it gives."""

    program: Program
    inputs: list[Any]
    variables: dict[int, Any]
    run: Any

    def set(self, arrays: Arrays) -> None:
        """Give the variables their values."""
        from kbench import backend as K

        K.batch_set_value([(one, arrays[n]) for n, one in self.variables.items()])

    def call(self, given: Arrays) -> Arrays:
        """What a call gives: outputs and slopes, and between them the variables it updated."""
        from kbench import backend as K

        results = self.run(given)
        count = len(self.program.outputs)
        new = [K.get_value(self.variables[n]) for n, _ in self.program.updates]
        return [np.array(one) for one in (*results[:count], *new, *results[count:])]


def build(program: Program, shapes: Sequence[Sequence[int]]) -> Built:
    """The program with the chosen engine's functions; `shapes` of all its values."""
    from kbench import backend as K

    arrays = feeds(program, 0)
    values: list[Any] = []
    variables: dict[int, Any] = {}
    for n, leaf in enumerate(program.leaves):
        if leaf.kind == "variable":
            variables[n] = K.variable(arrays[n], dtype=program.dtype)
            values.append(variables[n])
        else:
            shape = leaf.shape if leaf.known else (None, *leaf.shape[1:])
            values.append(K.placeholder(shape, dtype=program.dtype))
    inputs = [one for n, one in enumerate(values) if n not in variables]
    for step in program.steps:
        given = [values[n] for n in step.operands]
        values.append(OPERATIONS[step.name].build(K, *given, **step.attributes))
    outputs = [values[n] for n in program.outputs]
    updates = [
        _update(K, way, variables[place], values[n])
        for way, (place, n) in enumerate(program.updates)
    ]
    slopes = _slopes(K, program, values, shapes) if program.slopes else []
    return Built(program, inputs, variables, K.function(inputs, outputs + slopes, updates=updates))


def _slopes(
    K: Any, program: Program, values: list[Any], shapes: Sequence[Sequence[int]]
) -> list[Any]:
    loss: Any = 0.0
    for place, n in enumerate(program.outputs):
        weight = K.constant(weights(shapes[n], program.dtype, place), dtype=program.dtype)
        loss = loss + K.sum(values[n] * weight)
    found = K.gradients(loss, [values[n] for n in program.slopes])
    return [
        K.zeros_like(values[n]) if one is None else one
        for n, one in zip(program.slopes, found, strict=True)
    ]


def mode(jit: str, small: bool) -> Any:
    """The environment of a kernel mode; with `small`, any size is worth a kernel."""
    wanted = {"KBENCH_JIT": jit} | ({"KBENCH_LEAST": "1"} if small else {})
    return mock.patch.dict(os.environ, wanted)


def laid_out(arrays: Arrays, number: int) -> Arrays:
    """What call `number` of a replay is fed: `arrays` where they are, or elsewhere.

    Moved, read-only, every other element of a larger array; or other values, in windows of one
    array that overlap.
    """
    way = number % 5
    if way == 1:
        return [one.copy() for one in arrays]
    if way == 2:
        return [_spread(one) for one in arrays]
    if way == 3:
        fixed = [one.copy() for one in arrays]
        for one in fixed:
            one.flags.writeable = False
        return fixed
    if way == 4 and arrays:
        block = np.concatenate([one.ravel() for one in arrays])
        first = [min(3 * place, block.size - one.size) for place, one in enumerate(arrays)]
        return [
            block[low : low + one.size].reshape(one.shape)
            for low, one in zip(first, arrays, strict=True)
        ]
    return arrays


def _spread(array: np.ndarray) -> np.ndarray:
    if array.ndim == 0:
        return array
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan, array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def replay(built: Built, count: int, every: list[Arrays] | None = None) -> list[Arrays]:
    """What `count` calls give: feeds, `every` or the program's own, take turns, and variables are
    set now and then."""
    program = built.program
    if every is None:
        every = [feeds(program, number) for number in range(FEEDS)]
    holes = [n for n in range(len(program.leaves)) if n not in built.variables]
    built.set(every[0])
    found = []
    for number in range(count):
        arrays = every[number % FEEDS]
        if number in (5, 11):
            built.set(every[number % FEEDS])
        found.append(built.call(laid_out([arrays[n] for n in holes], number)))
    return found
