"""Wrong calls of functions that change the layout, join, repeat and pick."""

from __future__ import annotations

import numpy as np
from wrong import Wrong, fed, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, ShapeError

LAYOUT = [
    Wrong("reshape", lambda: K.reshape(v(4, 5), (3, 7)), ShapeError, ("float32[4, 5]", "[3, 7]")),
    Wrong("reshape", lambda: K.reshape(v(4, 5), (-1, -1)), ShapeError, ("more than one -1",)),
    Wrong("reshape", lambda: K.reshape(x(None, 3), (2.5, 1)), ArgumentError, ("2.5",)),
    Wrong("reshape", lambda: K.reshape("text", (1,)), DtypeError, ("the string",)),
    Wrong(
        "reshape",
        lambda a=None: fed(K.reshape(a := x(None, 3), (-1, 2)), (a, np.ones((3, 3)))),
        ShapeError,
        ("float32[3, 3]", "9 elements"),
    ),
    Wrong("flatten", lambda: K.flatten("text"), DtypeError, ("the string",)),
    Wrong("flatten", lambda: K.flatten(None), DtypeError, ("None",)),
    Wrong(
        "flatten",
        lambda: K.flatten([[1], [2, 3]]),
        ArgumentError,
        ("rows differ",),
    ),
    Wrong("batch_flatten", lambda: K.batch_flatten("text"), DtypeError, ("the string",)),
    Wrong("batch_flatten", lambda: K.batch_flatten(None), DtypeError, ("None",)),
    Wrong("batch_flatten", lambda: K.batch_flatten(v()), ShapeError, ("float32[]",)),
    Wrong(
        "permute_dimensions",
        lambda: K.permute_dimensions(x(None, 3), (0, 0)),
        ShapeError,
        ("float32[?, 3]", "(0, 0)"),
    ),
    Wrong("permute_dimensions", lambda: K.permute_dimensions(v(2, 3), 1), ArgumentError, ("1",)),
    Wrong("permute_dimensions", lambda: K.permute_dimensions(v(2), (0, 1)), ShapeError, ("[2]",)),
    Wrong(
        "permute_dimensions", lambda: K.permute_dimensions("a", (0,)), DtypeError, ("the string",)
    ),
    Wrong("transpose", lambda: K.transpose("text"), DtypeError, ("the string",)),
    Wrong("transpose", lambda: K.transpose(None), DtypeError, ("None",)),
    Wrong(
        "transpose",
        lambda: K.transpose([[1], [2, 3]]),
        ArgumentError,
        ("rows differ",),
    ),
    Wrong("squeeze", lambda: K.squeeze(v(4, 5), 0), ShapeError, ("float32[4, 5]", "size 4")),
    Wrong("squeeze", lambda: K.squeeze(v(4, 5), 2), ShapeError, ("axis 2",)),
    Wrong("squeeze", lambda: K.squeeze(v(1, 5), "a"), ArgumentError, ("'a'",)),
    Wrong(
        "squeeze",
        lambda a=None: fed(K.squeeze(a := x(None, 3), 0), (a, np.ones((2, 3)))),
        ShapeError,
        ("float32[2, 3]",),
    ),
    Wrong("expand_dims", lambda: K.expand_dims(x(None, 3), 5), ShapeError, ("axis 5",)),
    Wrong("expand_dims", lambda: K.expand_dims(v(2), -4), ShapeError, ("float32[2]",)),
    Wrong("expand_dims", lambda: K.expand_dims(v(2), 0.5), ArgumentError, ("0.5",)),
    Wrong("reverse", lambda: K.reverse(x(None, 3), 3), ShapeError, ("axis 3", "float32[?, 3]")),
    Wrong("reverse", lambda: K.reverse(v(2), (0, 0)), ArgumentError, ("twice",)),
    Wrong("reverse", lambda: K.reverse(v(2), "a"), ArgumentError, ("'a'",)),
    Wrong("reverse", lambda: K.reverse("text", 0), DtypeError, ("the string",)),
]

JOIN = [
    Wrong("concatenate", lambda: K.concatenate([]), ArgumentError, ("at least one tensor",)),
    Wrong("concatenate", lambda: K.concatenate(v(2)), ArgumentError, ("needs a list",)),
    Wrong(
        "concatenate",
        lambda: K.concatenate([x(None, 3), v(4, 5)], axis=0),
        ShapeError,
        ("[?, 3]", "[4, 5]"),
    ),
    Wrong("concatenate", lambda: K.concatenate([v(2, 3)], axis=5), ShapeError, ("axis 5",)),
    Wrong("concatenate", lambda: K.concatenate([v(2), v(2, 1)]), ShapeError, ("rank",)),
    Wrong("concatenate", lambda: K.concatenate([v(2), "text"]), DtypeError, ("the string",)),
    Wrong(
        "concatenate",
        lambda a=None: fed(K.concatenate([a := x(None, None), v(2, 3)]), (a, np.ones((4, 3)))),
        ShapeError,
        ("[4, 3]", "[2, 3]"),
    ),
    Wrong("stack", lambda: K.stack([]), ArgumentError, ("at least one tensor",)),
    Wrong("stack", lambda: K.stack([v(2), v(3)]), ShapeError, ("[2]", "[3]")),
    Wrong("stack", lambda: K.stack([v(2), v(2)], axis=3), ShapeError, ("axis 3",)),
    Wrong("stack", lambda: K.stack([v(2), "text"]), DtypeError, ("the string",)),
]

REPEAT = [
    Wrong("repeat", lambda: K.repeat(v(2), 3), ShapeError, ("float32[2]", "rank 2")),
    Wrong("repeat", lambda: K.repeat(v(2, 3), -1), ArgumentError, ("-1",)),
    Wrong("repeat", lambda: K.repeat(v(2, 3), 1.5), ArgumentError, ("1.5",)),
    Wrong("repeat_elements", lambda: K.repeat_elements(v(2), 0, 0), ArgumentError, ("got 0",)),
    Wrong("repeat_elements", lambda: K.repeat_elements(v(2), 2, 4), ShapeError, ("axis 4",)),
    Wrong("repeat_elements", lambda: K.repeat_elements(v(2), 1.5, 0), ArgumentError, ("1.5",)),
    Wrong("tile", lambda: K.tile(x(None, 3), (1, 2, 3)), ArgumentError, ("float32[?, 3]",)),
    Wrong("tile", lambda: K.tile(v(2), -1), ShapeError, ("-1",)),
    Wrong("tile", lambda: K.tile(v(2), "a"), ArgumentError, ("'a'",)),
    Wrong("tile", lambda: K.tile("text", 2), DtypeError, ("the string",)),
]

PICK = [
    Wrong("gather", lambda: K.gather(v(4, 2), [0.5]), DtypeError, ("must be integers",)),
    Wrong("gather", lambda: K.gather(v(4, 2), [9]), ShapeError, ("index 9", "4 rows")),
    Wrong("gather", lambda: K.gather(v(4, 2), [-1]), ShapeError, ("index -1",)),
    Wrong("gather", lambda: K.gather(v(), [0]), ShapeError, ("float32[]",)),
    Wrong(
        "gather",
        lambda a=None: fed(K.gather(v(4, 2), a := x(2, dtype="int32")), (a, [3, 4])),
        ShapeError,
        ("index 4", "4 rows"),
    ),
    Wrong("slice", lambda: K.slice(v(4, 5), [0], [1]), ArgumentError, ("float32[4, 5]",)),
    Wrong("slice", lambda: K.slice(v(4, 5), [0, 0], [9, 1]), ShapeError, ("axis 0",)),
    Wrong("slice", lambda: K.slice(v(4), [-1], [1]), ShapeError, ("-1",)),
    Wrong(
        "slice",
        lambda a=None: fed(K.slice(a := x(None), [1], [5]), (a, np.ones(3))),
        ShapeError,
        ("float32[3]",),
    ),
    Wrong("x[...]", lambda: v(4, 5)[7], ShapeError, ("index 7", "float32[4, 5]")),
    Wrong("x[...]", lambda: v(4, 5)[0, 0, 0], ShapeError, ("3 indices",)),
    Wrong("x[...]", lambda: v(4, 5)["a"], ArgumentError, ("'a'",)),
    Wrong("x[...]", lambda: v(4, 5)[::0], ArgumentError, ("step",)),
    Wrong("x[...]", lambda: v(4)[x(2, dtype="int32")], DtypeError, ("int32[2]", "K.gather")),
    Wrong("x[...]", lambda: v(4)[v(4) > 0], DtypeError, ("bool[4]", "K.switch")),
    Wrong("one_hot", lambda: K.one_hot(x(2), 3), DtypeError, ("float32[2]", "integers")),
    Wrong("one_hot", lambda: K.one_hot(x(2, dtype="int32"), -1), ArgumentError, ("-1",)),
    Wrong("one_hot", lambda: K.one_hot(x(2, dtype="int32"), 2.5), ArgumentError, ("2.5",)),
    Wrong("one_hot", lambda: K.one_hot(x(2, dtype="int32"), x()), ArgumentError, ("float32[]",)),
    Wrong("shape", lambda: K.shape("text"), DtypeError, ("the string",)),
    Wrong("shape", lambda: K.shape(None), DtypeError, ("None",)),
    Wrong(
        "shape",
        lambda: K.shape([[1], [2, 3]]),
        ArgumentError,
        ("rows differ",),
    ),
    Wrong("size", lambda: K.size("text"), DtypeError, ("the string",)),
    Wrong("size", lambda: K.size(None), DtypeError, ("None",)),
    Wrong("size", lambda: K.size(v(2), name=3), ArgumentError, ("name", "3")),
    Wrong("identity", lambda: K.identity("text"), DtypeError, ("the string",)),
    Wrong("identity", lambda: K.identity(None), DtypeError, ("None",)),
    Wrong("identity", lambda: K.identity(v(2), name=3), ArgumentError, ("name", "3")),
]

WRONG = LAYOUT + JOIN + REPEAT + PICK
