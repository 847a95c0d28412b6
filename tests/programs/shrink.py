"""Makes a failing program small: fewer steps, outputs, updates, as long as it fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from programs.draw import Program, Step, values_of

Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, tries: int = 400) -> Program:
    """The smallest program that still fails, of those that dropping single parts leads to."""
    left = tries
    while left > 0:
        for smaller in _smaller(program):
            left -= 1
            if left < 0 or _fails(smaller, fails):
                break
        else:
            return program
        if left >= 0:
            program = smaller
    return program


def _fails(program: Program, fails: Fails) -> bool:
    try:
        values_of(program, "float64")
    except Exception:  # what was cut does not fit together any more
        return False
    return fails(program)


def _smaller(program: Program) -> Iterator[Program]:
    change = dataclasses.replace
    if program.updates:
        yield change(program, updates=())
    if program.slopes:
        yield change(program, slopes=())
        for one in program.slopes if len(program.slopes) > 1 else ():
            yield change(program, slopes=tuple(n for n in program.slopes if n != one))
    for one in program.outputs if len(program.outputs) > 1 else ():
        yield change(program, outputs=tuple(n for n in program.outputs if n != one))
    for number in range(len(program.steps) - 1, -1, -1):
        yield from _without(program, number)


def _without(program: Program, number: int) -> Iterator[Program]:
    """The program without a step: who used its value takes one of the step's operands."""
    place = len(program.leaves) + number
    for instead in dict.fromkeys(program.steps[number].operands):

        def moved(n: int, instead: int = instead) -> int:
            n = instead if n == place else n
            return n - 1 if n > place else n

        steps = tuple(
            Step(one.name, tuple(moved(n) for n in one.operands), one.attributes)
            for k, one in enumerate(program.steps)
            if k != number
        )
        outputs = tuple(sorted({moved(n) for n in program.outputs}))
        updates = tuple((variable, moved(n)) for variable, n in program.updates)
        if steps:
            yield dataclasses.replace(program, steps=steps, outputs=outputs, updates=updates)
