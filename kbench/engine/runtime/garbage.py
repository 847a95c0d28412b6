"""Python's search for garbage, which planning does not need.

A graph of a network has tens of thousands of small objects, all of which stay. Each search looks at
them again, and the deepest at all that the process has: 60 ms beside Keras, as long as it takes to
plan a block of a transformer.
"""

from __future__ import annotations

import gc

from kbench.engine.core import fork_safety

_lock = fork_safety.lock()
_inside = 0
_was_enabled = False


class uncollected:
    """A context in which no search for garbage begins, on any thread; they may lie in each other.

    It is for what builds or plans a graph, and for the first run of a plan, which asks for its
    kernels; never around what computes again and again. It is no decorator, whose frame would be
    taken for the line of the user's that an error names.
    """

    def __enter__(self) -> None:
        global _inside, _was_enabled
        with _lock:
            if _inside == 0:
                _was_enabled = gc.isenabled()
                gc.disable()
            _inside += 1

    def __exit__(self, *_: object) -> None:
        global _inside
        with _lock:
            _inside = max(0, _inside - 1)  # 0 in a child that was forked within the block
            if _inside == 0 and _was_enabled:
                gc.enable()


def _in_child() -> None:
    """Of the blocks that other threads of the parent were in, a child never sees the ends."""
    global _inside
    if _inside:
        _inside = 0
        if _was_enabled:
            gc.enable()


fork_safety.in_child(_in_child)
