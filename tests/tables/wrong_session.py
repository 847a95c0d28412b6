"""Wrong calls of the session, of what is fed to it, and of indices."""

from __future__ import annotations

from typing import Any

import numpy as np
from wrong import Wrong, fed, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, FeedError, ShapeError


def run(*arguments: Any, **keywords: Any) -> Any:
    """The session's answer."""
    return K.get_session().run(*arguments, **keywords)


def i(*shape: int | None) -> Any:
    """A placeholder of integers."""
    return x(*shape, dtype="int32")


SESSION = [
    Wrong("run", lambda: K.get_session().run("text"), ArgumentError, ("'text'",)),
    Wrong("run", lambda: K.get_session().run([v(2), 3]), ArgumentError, ("got 3",)),
    Wrong("run", lambda: K.get_session().run({"a": None}), ArgumentError, ("None",)),
    Wrong("run", lambda: K.get_session().run(x(2) * 2), FeedError, ("float32[2]", "needs a value")),
    Wrong("run", lambda: K.get_session().run(v(2), {"x": 1}), FeedError, ("'x'",)),
    Wrong("run", lambda: K.get_session().run(v(2), {3: 1}), FeedError, ("3",)),
    Wrong("run", lambda: K.get_session().run(v(2), [1]), FeedError, ("[1]",)),
    Wrong(
        "run",
        lambda: K.get_session().run((a := x(2)) * 2, {a: [1, 2, 3]}),
        FeedError,
        ("float32[2]", "[3]"),
    ),
    Wrong(
        "run",
        lambda: K.get_session().run((a := x(2)) * 2, {a: v(2) * 2}),
        FeedError,
        ("needs a value", "tensor"),
    ),
    Wrong("eval", lambda: (x(2) * 2).eval(feed_dict={"x": 1}), FeedError, ("'x'",)),
    Wrong("eval", lambda: (x(2) * 2).eval(feed_dict=3), FeedError, ("3",)),
]

INDEXED = [
    Wrong("x[...]", lambda: v(2, 3)[2], ShapeError, ("index 2", "float32[2, 3]")),
    Wrong("x[...]", lambda: v(2, 3)[-3], ShapeError, ("index -3", "float32[2, 3]")),
    Wrong("x[...]", lambda: v(2, 3)[0, 0, 0], ShapeError, ("3 indices", "float32[2, 3]")),
    Wrong("x[...]", lambda: v(2, 3)[..., ...], ArgumentError, ("at most once",)),
    Wrong("x[...]", lambda: v(2, 3)[1.5], ArgumentError, ("1.5",)),
    Wrong("x[...]", lambda: v(2, 3)[True], ArgumentError, ("True",)),
    Wrong("x[...]", lambda: v(2, 3)["a"], ArgumentError, ("'a'",)),
    Wrong("x[...]", lambda: v(2, 3)[[0, 1]], ArgumentError, ("K.gather",)),
    Wrong("x[...]", lambda: v(2, 3)[::0], ArgumentError, ("must not be 0",)),
    Wrong("x[...]", lambda: v(2, 3)[x()], DtypeError, ("float32[]",)),
    Wrong("x[...]", lambda: v(2, 3)[i(2)], DtypeError, ("int32[2]",)),
    Wrong("x[...]", lambda: v()[0], ShapeError, ("float32[]",)),
    Wrong("x[...]", lambda: fed(v(2, 3)[(a := i())], (a, 2)), ShapeError, ("index 2",)),
    Wrong("x[...]", lambda: fed(v(2, 3)[:: (a := i())], (a, 0)), ArgumentError, ("not be 0",)),
    Wrong("gather", lambda: K.gather(v(2, 3), [2]), ShapeError, ("index 2", "float32[2, 3]")),
    Wrong("gather", lambda: K.gather(v(2, 3), -1), ShapeError, ("index -1", "float32[2, 3]")),
    Wrong("gather", lambda: K.gather(v(2, 3), [0.5]), DtypeError, ("float32[1]",)),
    Wrong("gather", lambda: K.gather(v(), [0]), ShapeError, ("float32[]",)),
    Wrong(
        "gather",
        lambda: fed(K.gather(v(2, 3), a := i(None, None)), (a, [[0, 2]])),
        ShapeError,
        ("index 2", "float32[2, 3]", "int32[1, 2]"),
    ),
    Wrong(
        "gather",
        lambda: fed(K.gather(v(2, 3), a := i(None)), (a, np.array([-1]))),
        ShapeError,
        ("index -1", "float32[2, 3]"),
    ),
    Wrong("slice", lambda: K.slice(v(2, 3), [0], [1]), ArgumentError, ("one for each axis",)),
    Wrong("slice", lambda: K.slice(v(2, 3), [0, 2], [1, 2]), ShapeError, ("float32[2, 3]",)),
    Wrong("slice", lambda: K.slice(v(2, 3), [0, -1], [1, 1]), ShapeError, ("-1",)),
    Wrong("slice", lambda: K.slice(v(2), [0.5], [1]), ArgumentError, ("0.5",)),
    Wrong("one_hot", lambda: K.one_hot(v(2), 3), DtypeError, ("float32[2]",)),
    Wrong("one_hot", lambda: K.one_hot(i(2), -1), ArgumentError, ("-1",)),
    Wrong("reverse", lambda: K.reverse(v(2, 3), 2), ShapeError, ("rank 2",)),
    Wrong("reverse", lambda: K.reverse(v(2, 3), [0, -2]), ArgumentError, ("twice",)),
]

WRONG = [*SESSION, *INDEXED]
