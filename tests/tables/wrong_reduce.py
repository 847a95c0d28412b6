"""Wrong calls of reductions and of running sums."""

from __future__ import annotations

from wrong import Wrong, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, ShapeError

ANY_AXES = "sum max min prod mean var std any all logsumexp l2_normalize".split()
ONE_AXIS = "argmax argmin cumsum cumprod".split()


def common(name: str) -> list[Wrong]:
    function = getattr(K, name)
    rest = {} if name in ("sum", "any", "all") else {"axis": 0}
    return [
        Wrong(
            name,
            lambda: function(x(None, 3), axis=2),
            ShapeError,
            ("axis 2 is out of range for rank 2", "float32[?, 3]"),
        ),
        Wrong(name, lambda: function(v(2, 3), axis=-3), ShapeError, ("float32[2, 3]", "axis -3")),
        Wrong(name, lambda: function(v(2, 3), axis=1.5), ArgumentError, ("1.5", "integer")),
        Wrong(name, lambda: function(v(2, 3), axis="rows"), ArgumentError, ("'rows'",)),
        Wrong(name, lambda: function(v(2, 3), axis=True), ArgumentError, ("True",)),
        Wrong(name, lambda: function("text", **rest), DtypeError, ("the string",)),
        Wrong(name, lambda: function(v(2, 3), axis=x(2)), ArgumentError, ("float32[2]",)),
    ]


def of_axes(name: str) -> list[Wrong]:
    function = getattr(K, name)
    return [
        Wrong(name, lambda: function(v(2, 3), axis=(0, 0)), ArgumentError, ("same axis twice",)),
        Wrong(name, lambda: function(v(2, 3), axis=(0, 2)), ShapeError, ("axis 2",)),
        Wrong(name, lambda: function(v(2, 3), axis=[0, -2]), ArgumentError, ("twice",)),
    ]


OTHERS = [
    Wrong("argmax", lambda: K.argmax(v(2, 0)), ShapeError, ("float32[2, 0]", "no elements")),
    Wrong("argmin", lambda: K.argmin(v(0, 2), axis=0), ShapeError, ("float32[0, 2]",)),
]

WRONG = [row for name in ANY_AXES + ONE_AXIS for row in common(name)]
WRONG += [row for name in ANY_AXES for row in of_axes(name)]
WRONG += OTHERS
