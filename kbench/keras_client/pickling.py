"""Pickle and copy for Keras 2.3.1: models, layers, optimizers as they are, with their graph.

Keras' own way builds a model anew from its configuration, and gives it the weights. Here layers,
tensors, variables, metrics, the optimizer and the training step come through as the objects that
they are: a layer needs no `get_config`, random numbers go on where they stand, what is frozen in
the compiled step stays so, and objects that are pickled together share what they shared.
`pickled_models.py` has what layers and models need.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, SupportsIndex

from kbench.engine.core.errors import EngineError
from kbench.engine.graph import pickling
from kbench.engine.graph.protocols import checksums
from kbench.engine.runtime.environment import set_if_unset
from kbench.keras_client.code import carried
from kbench.keras_client.fixes import Keras

FORMAT = 1
"""Counts changes of what objects of Keras are in bytes."""
_new: Any = object.__reduce_ex__(object(), 2)[0]  # copyreg's, which calls `__new__`


def hook(owner: Keras, get: Callable[[Keras], object], take: Callable[[Keras, Any], None]) -> None:
    """Give a class of Keras what pickle and copy ask for; its subclasses may have their own."""

    def __setstate__(self: Keras, state: Any) -> None:
        pickling.unharmed(type(self).__name__, FORMAT, FORMAT, lambda: take(self, state))

    def __copy__(self: Keras) -> Keras:
        made = _new(type(self))
        made.__setstate__(self.__getstate__())
        return made

    owner.__reduce_ex__ = _reduced
    owner.__getstate__ = get
    owner.__setstate__ = __setstate__
    owner.__copy__ = __copy__


def _reduced(self: Keras, protocol: SupportsIndex) -> Any:
    """As of any object, but that the process that reads it is first told which backend it has."""
    reduced = object.__reduce_ex__(self, max(2, int(protocol)))
    if not isinstance(reduced, tuple) or reduced[0] is not _new:
        return reduced  # the user's own
    return _made, (_BACKEND, *reduced[1]), Sealed(type(self).__name__, reduced[2])


def _made(_backend: object, kind: type, *arguments: object) -> object:
    made: object = _new(kind, *arguments)
    return made


class Sealed:
    """A state that brings the checksum of what is plain in it, and functions that have no name.

    What is read, or copied, is the state itself.
    """

    def __init__(self, what: str, state: object) -> None:
        self.what, self.state = what, state

    def __reduce__(self) -> tuple[Any, ...]:
        told = checksums.of_text(self.what, {"": self.state})
        return _opened, (FORMAT, self.what, told, carried(self.state))


def _opened(version: object, what: str, checksum: int, state: Any) -> Any:
    """The state; ArgumentError when its bytes are not as they were made."""

    def check() -> Any:
        if checksums.of_text(what, {"": state}) != checksum:
            pickling.refuse(what, "its settings have another checksum")
        return state

    return pickling.unharmed(what, version, FORMAT, check)


class _Backend:
    """Comes before all of Keras in bytes: reading it makes kbench the backend."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _on_kbench, ()


_BACKEND = _Backend()


def _on_kbench() -> _Backend:
    """See to it that Keras runs on kbench in this process, too.

    Raises:
        EngineError: it runs on something else already, or the environment says that it shall.
    """
    from kbench.keras_client import NAMES, keras_runs_on_kbench

    wanted = set_if_unset("KERAS_BACKEND", NAMES[0]) if "keras" not in sys.modules else ""
    if not keras_runs_on_kbench() and wanted not in NAMES:
        raise EngineError(
            "pickle.loads: the bytes hold an object of Keras on kbench, and Keras runs on another "
            "backend here; set KERAS_BACKEND=kbench before Keras is imported"
        )
    return _BACKEND


# ------------------------------------------------------------------ optimizers, losses, callbacks


def optimizers(module: ModuleType) -> None:
    """optimizers.py: settings and weights; the updates are those of the model it trains."""
    _hook_plain(module.Optimizer, {"updates": list})


def losses(module: ModuleType) -> None:
    """losses.py: a loss as an object."""
    _hook_plain(module.Loss, {})


def callbacks(module: ModuleType) -> None:
    """callbacks/callbacks.py: with the model that it was called for. A file that was closed stays
    behind, and of History the data that the model was validated on."""
    _hook_plain(module.Callback, {})
    _hook_plain(module.History, {"validation_data": lambda: None})


def _hook_plain(owner: Keras, without: dict[str, Callable[[], object]]) -> None:
    """Let a class be what its attributes are, but for those that are made anew."""

    def get(self: Keras) -> dict[str, Any]:
        kept = {key: value for key, value in vars(self).items() if not _is_closed(value)}
        return {**kept, **{key: make() for key, make in without.items() if key in kept}}

    def take(self: Keras, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    hook(owner, get, take)


def _is_closed(value: object) -> bool:
    return isinstance(value, io.IOBase) and value.closed
