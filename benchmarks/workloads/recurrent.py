"""Recurrent layers through `K.rnn`: LSTM, GRU and a cell that no library has."""

from __future__ import annotations

from typing import Any

from sequences import recurrent, recurrent_gradient

from workloads.base import Workload, at_most, normal

_BATCH, _TIME, _WIDTH, _UNITS = 32, 100, 128, 256
_GATES = {"lstm": 4, "gru": 3, "custom": 2}


def _operands(name: str, batch: int, time: int, width: int, units: int, gradient: bool) -> Any:
    columns = _GATES[name] * units
    bias = (2, columns) if name == "gru" else (columns,)
    shapes = [(batch, time, width), (width, columns), (units, columns), bias]
    if gradient:
        shapes.insert(0, (batch, time, units))

    def make(random: Any) -> Any:
        # Weights as after an initialization, so that no gate is stuck.
        arrays = normal(*shapes)(random)
        first = 2 if gradient else 1
        return tuple(
            one * one.dtype.type(units**-0.5) if at >= first else one
            for at, one in enumerate(arrays)
        )

    return make


def _cell(name: str) -> list[Workload]:
    def formula(F: Any, *operands: Any) -> Any:
        return recurrent(F, name, *operands)

    def gradient(F: Any, *operands: Any) -> Any:
        return recurrent_gradient(F, name, *operands)

    what = {"custom": "a custom cell"}.get(name, name.upper())
    flops = 2 * _BATCH * _TIME * (_WIDTH + _UNITS) * _GATES[name] * _UNITS
    sizes = (_BATCH, _TIME, _WIDTH, _UNITS)
    return [
        Workload(
            f"rnn.{name}",
            f"{what}, all outputs, batch 32, 100 steps, 128 to 256",
            _operands(name, *sizes, False),
            formula,
            flops=flops,
            tolerance=1e-5,
            goals=at_most(0.95),
            small=_operands(name, 2, 3, 4, 5, False),
        ),
        Workload(
            f"rnn.{name}.grad",
            "forward, and back to the weights",
            _operands(name, *sizes, True),
            gradient,
            flops=3 * flops - 2 * _BATCH * _TIME * _WIDTH * _GATES[name] * _UNITS,
            tolerance=5e-5,
            goals=at_most(0.95),
            small=_operands(name, 2, 3, 4, 5, True),
        ),
    ]


WORKLOADS = [one for name in _GATES for one in _cell(name)]
