"""Sessions: TensorFlow 1's way to run tensors, with values fed by hand."""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from typing import Any

from kbench.engine.control_flow import tree
from kbench.engine.core.errors import ArgumentError, shown
from kbench.engine.execute.function import Function, feeds_of
from kbench.engine.graph import scope
from kbench.engine.graph.tensor import Tensor

MAX_FUNCTIONS = 256
"""Sets of fetches that a session remembers."""


class Session:
    """Runs tensors with values fed by hand, as TensorFlow 1 code expects it.

    Members: `run`, `graph`, `close`, `as_default`; it is a context manager, too.
    """

    def __init__(self) -> None:
        self.closed = False
        self._functions: OrderedDict[object, Function] = OrderedDict()

    @property
    def graph(self) -> scope.Graph:
        """The graph that is being built, of which every new tensor is a part."""
        return scope.Graph(scope.generation())

    def run(self, fetches: object, feed_dict: object = None, **_options: object) -> Any:
        """Values of `fetches` (a tensor, or nested lists, tuples and dicts of them) in its form.

        Everything is computed in one call, and updates among the fetches are stored together.
        `feed_dict` maps placeholders, or any tensors, to values. A sparse tensor gives a SciPy
        matrix in CSR form. Options of TensorFlow are taken, and ignored.
        """
        flat = tree.flatten(fetches)
        for fetch in flat:
            if not isinstance(fetch, Tensor):
                raise ArgumentError(f"fetches must be tensors, got {shown(fetch)}", function="run")
        feeds = feeds_of(feed_dict, "run")
        key = (tuple(id(fetch) for fetch in flat), tuple(id(feed) for feed in feeds))
        compiled = self._functions.get(key)
        if compiled is None:
            compiled = self._functions[key] = Function(tuple(feeds), flat, name="run")
            if len(self._functions) > MAX_FUNCTIONS:
                self._functions.popitem(last=False)
        return tree.rebuild(fetches, compiled(list(feeds.values())))

    def close(self) -> None:
        """Forget compiled functions."""
        self._functions.clear()
        self.closed = True

    def as_default(self) -> contextlib.AbstractContextManager[Session]:
        """A block without effect: every session runs everything."""
        return contextlib.nullcontext(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@functools.cache
def _holder() -> list[Session]:
    return [Session()]


def get_session() -> Session:
    """The session of the process, the same one until it is replaced or the session is cleared.

    Returns:
        Session with `run(fetches, feed_dict)`.
    Source: Keras 2.3 `backend.get_session`.

    >>> x = K.placeholder((2,))
    >>> K.get_session().run(x * 2, feed_dict={x: [1.0, 2.0]})
    array([2., 4.], dtype=float32)
    """
    return _holder()[0]


def set_session(session: Session) -> None:
    """Replace what `get_session` returns.

    Arguments:
        session: Session, or anything with a method `run`.
    Raises:
        ArgumentError: anything else.
    Source: Keras 2.3 `backend.set_session`.

    >>> K.set_session(K.Session())
    """
    if not callable(getattr(session, "run", None)):
        raise ArgumentError(f"needs a session, got {shown(session)}")
    _holder()[0] = session


scope.on_clear(lambda: set_session(Session()))
