"""Composed programs give the same on every tier: drawn at random, and those that once did not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sampling import every

from programs.draw import LARGE, Program, draw
from programs.judge import judge

KEPT = json.loads((Path(__file__).with_name("kept.json")).read_text("utf-8"))


def _judged(seeds: range, compiled: bool) -> None:
    faults = []
    with judge(compiled) as found:
        for seed in seeds:
            program, values = draw(seed, LARGE) if compiled else draw(seed)
            fault = found.fault(program, values)
            if fault is not None:
                faults.append(f"seed {seed}: {fault}")
    assert not faults
    assert found.unfit * 50 < len(seeds)  # results of which rounding leaves too little to judge
    if found.interpreter is not None:
        assert found.interpreter.runs > len(seeds)  # else NumPy was judged by NumPy


@pytest.mark.parametrize("first, after", every(2, [(0, 8), (8, 15)]))
def test_programs(first: int, after: int) -> None:
    _judged(range(first, after), compiled=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(1000, 1600, 200))
def test_many_programs(first: int) -> None:
    _judged(range(first, first + 200), compiled=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(10_000, 10_060, 20))
def test_compiled_programs(first: int) -> None:
    _judged(range(first, first + 20), compiled=True)


@pytest.mark.parametrize("number", range(len(KEPT)))
@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
def test_what_once_failed(number: int, compiled: bool) -> None:
    with judge(compiled) as found:
        assert found.fault(Program.from_row(KEPT[number])) is None
