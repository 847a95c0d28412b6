"""Data movement: scans, transposes, joins, and rows by index."""

from __future__ import annotations

import numpy as np

from workloads.base import Arrays, Inputs, Workload, at_most, normal, size

_SQUARE = (4096, 4096)
_LAST, _SECOND = (32, 56, 56, 64), (32, 64, 56, 56)
_TABLE, _ROWS = (100_000, 128), 65_536


def _table(entries: tuple[int, int], rows: int, gradient: bool) -> Inputs:
    def make(random: np.random.Generator) -> Arrays:
        table = random.standard_normal(entries, dtype=np.float32)
        indices = random.integers(0, entries[0], rows, dtype=np.int32)
        if not gradient:
            return table, indices
        return table, indices, random.standard_normal((rows, entries[1]), dtype=np.float32)

    return make


def _classes(rows: int, classes: int) -> Inputs:
    return lambda random: (random.integers(0, classes, rows, dtype=np.int32),)


def _cumsum(word: str, axis: int) -> Workload:
    return Workload(
        f"move.cumsum.{word}",
        f"cumsum over the {word} axis, 4096x4096",
        normal(_SQUARE),
        lambda F, x: F.cumsum(x, axis),
        traffic=2 * size(_SQUARE),
        tolerance=1e-5,
        goals=at_most(0.4),
    )


def _layout(name: str, words: str, shape: tuple[int, ...], order: tuple[int, ...]) -> Workload:
    return Workload(
        f"move.{name}",
        f"{words}, {'x'.join(map(str, shape))}",
        normal(shape),
        lambda F, x: F.permute(x, order),
        traffic=2 * size(shape),
        goals=at_most(0.7),
        small=normal((2, 3, 4, 5)),
    )


WORKLOADS = [
    _cumsum("first", 0),
    _cumsum("last", 1),
    Workload(
        "move.transpose",
        "transpose, 4096x4096",
        normal(_SQUARE),
        lambda F, x: F.transpose(x),
        traffic=2 * size(_SQUARE),
        goals=at_most(0.7),
    ),
    _layout("nhwc_nchw", "channels from last to second", _LAST, (0, 3, 1, 2)),
    _layout("nchw_nhwc", "channels from second to last", _SECOND, (0, 2, 3, 1)),
    Workload(
        "move.concatenate",
        "four of 4096x1024 along the last axis",
        normal(*[(4096, 1024)] * 4),
        lambda F, *parts: F.concatenate(list(parts), -1),
        traffic=2 * size(_SQUARE),
        goals=at_most(0.9),
        small=normal(*[(3, 4)] * 4),
    ),
    Workload(
        "embedding.lookup",
        "65,536 rows of 100,000x128",
        _table(_TABLE, _ROWS, False),
        lambda F, table, indices: F.gather(table, indices),
        traffic=2 * size((_ROWS, _TABLE[1])),
        goals=at_most(0.9),
        small=_table((7, 3), 5, False),
    ),
    Workload(
        "embedding.lookup.grad",
        "dense gradient to the table",
        _table(_TABLE, _ROWS, True),
        lambda F, table, indices, g: F.pullback(lambda table: F.gather(table, indices), g, table)[
            0
        ],
        traffic=size((_ROWS, _TABLE[1]), _TABLE),
        goals=at_most(0.8),
        small=_table((7, 3), 9, True),
    ),
    Workload(
        "move.one_hot",
        "65,536 indices, 256 classes",
        _classes(_ROWS, 256),
        lambda F, indices: F.one_hot(indices, 256),
        traffic=size((_ROWS, 256)),
        goals=at_most(0.9),
        small=_classes(5, 256),
    ),
]
