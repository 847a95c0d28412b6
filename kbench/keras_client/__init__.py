"""What is there only for Keras 2.3.1: one state of the settings, and repairs of its modules.

`import kbench` changes nothing that anyone can see: a finder waits at the head of
`sys.meta_path` for the few modules of Keras named below. It lets every other import pass, and
these too unless Keras runs on kbench. Whichever of the two is imported first, `install` and the
finder see to it that the other finds what it needs. Keras itself is never imported here. The same
finder waits for Keras 3, and asks `kbench.keras3.repairs` how its modules are loaded.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import itertools
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any, cast

from kbench.engine.core.errors import see_through
from kbench.engine.jit.service import prefetch
from kbench.engine.runtime.environment import env

NAMES = ("kbench", "kbench.backend")  # as KERAS_BACKEND may call us

# Settings that Keras keeps in `keras.backend.common`, from which load_backend.py takes them.
SHARED = (
    "cast_to_floatx epsilon floatx image_data_format normalize_data_format set_epsilon set_floatx "
    "set_image_data_format set_image_dim_ordering"
).split()

# What keras/backend/__init__.py exports only for backends whose names it knows.
UNEXPORTED = (
    "clear_session get_session set_session manual_variable_initialization pattern_broadcast "
    "get_variable_shape image_dim_ordering set_image_dim_ordering"
).split()

KERAS_3 = "keras.src."  # where Keras 3 keeps its code
CHOOSES = ("keras.backend", "keras.src.backend")  # where Keras 2 and Keras 3 load their backend

# Module of Keras -> module and function that prepare its execution or mend it afterwards.
BEFORE = {"keras.callbacks.callbacks": ("kbench.keras_client.fixes", "before_callbacks")}
AFTER = {
    "keras.backend": ("kbench.keras_client", "begin"),
    "keras.callbacks.callbacks": ("kbench.keras_client.fixes", "callbacks"),
    "keras.callbacks.tensorboard_v1": ("kbench.keras_client.missing", "tensorboard"),
    "keras.datasets.imdb": ("kbench.keras_client.fixes", "ragged_arrays"),
    "keras.datasets.reuters": ("kbench.keras_client.fixes", "ragged_arrays"),
    "keras.engine.saving": ("kbench.keras_client.files", "saving"),
    "keras.engine.training_utils": ("kbench.keras_client.fixes", "training_utils"),
    "keras.layers.convolutional_recurrent": ("kbench.keras_client.fixes", "first_step"),
    "keras.layers.core": ("kbench.keras_client.fixes", "core_layers"),
    "keras.layers.cudnn_recurrent": ("kbench.keras_client.missing", "cudnn"),
    "keras.layers.recurrent": ("kbench.keras_client.fixes", "first_step"),
    "keras.layers.wrappers": ("kbench.keras_client.fixes", "time_distributed"),
    "keras.metrics": ("kbench.keras_client.metrics", "metrics"),
    "keras.optimizers": ("kbench.keras_client.missing", "optimizers"),
    "keras.utils.generic_utils": ("kbench.keras_client.fixes", "generic_utils"),
    "keras.utils.io_utils": ("kbench.keras_client.files", "io_utils"),
    "keras.utils.metrics_utils": ("kbench.keras_client.metrics", "metrics_utils"),
    "keras.utils.multi_gpu_utils": ("kbench.keras_client.missing", "multi_gpu"),
    "keras.wrappers.scikit_learn": ("kbench.keras_client.fixes", "scikit_learn"),
    "keras_preprocessing.sequence": ("kbench.keras_client.fixes", "sequence"),
}

# The same, for what pickle and copy make of Keras' objects.
PICKLED = {
    "keras.callbacks.callbacks": ("kbench.keras_client.pickling", "callbacks"),
    "keras.engine.base_layer": ("kbench.keras_client.pickled_models", "base_layer"),
    "keras.engine.network": ("kbench.keras_client.pickled_models", "network"),
    "keras.losses": ("kbench.keras_client.pickling", "losses"),
    "keras.optimizers": ("kbench.keras_client.pickling", "optimizers"),
}


def keras_runs_on_kbench() -> bool:
    """Whether Keras has been imported, or is being imported, with kbench as its backend."""
    loading = sys.modules.get("keras.backend.load_backend")
    return getattr(loading, "_BACKEND", None) in NAMES


def install() -> None:
    """Wait for Keras; when it is there already (it imports us), mend what is loaded."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    package = sys.modules.get("keras.backend")
    if package is not None and keras_runs_on_kbench():
        begin(package)


def begin(package: ModuleType) -> None:
    """Share the settings with keras.backend, and mend what Keras loaded before its backend.

    Errors and tensors name the line of the user's model, not one of Keras. What runs kernels is
    made ready while the model is built: where nothing is compiled yet, that takes a second.
    """
    prefetch()
    share(package)
    see_through(os.path.dirname(package.__path__[0]))
    see_through(os.path.dirname(__file__))
    for table in (AFTER, PICKLED):
        for name, where in table.items():
            if name != "keras.backend" and name in sys.modules:
                _call(where, sys.modules[name])


def share(package: ModuleType) -> None:
    """One state of the settings, whichever side is used, and the names that Keras leaves out.

    `package` is keras.backend. load_backend.py takes the settings' functions from common.py and
    never from the backend, so that floatx would live twice: kbench's take their places. What
    gives values gives NumPy scalars where it can.
    """
    from kbench import backend
    from kbench.keras_client.values import PLAIN

    places = [sys.modules.get(f"keras.backend.{name}") for name in ("common", "load_backend")]
    for place in (package, *places):
        if place is None:
            continue
        for name in SHARED:
            if place is package or hasattr(place, name):
                setattr(place, name, getattr(backend, name))
    for place in (package, places[-1]):  # before load_backend.py takes kbench's own, or after
        vars(place).update(PLAIN)
    for name in UNEXPORTED:
        if not hasattr(package, name):
            setattr(package, name, getattr(backend, name))


# ------------------------------------------------------------------ waiting for modules


class _Finder(MetaPathFinder):
    """Wraps the loaders of the modules named above."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name == "keras" or name.startswith(KERAS_3):
            spec = importlib.import_module("kbench.keras3.repairs").repaired(name, path, target)
            if spec is not None or name not in CHOOSES:
                return cast("importlib.machinery.ModuleSpec | None", spec)
            return _wrapped(name, path, target)
        known = name in AFTER or name in PICKLED
        if not known or not (name == "keras.backend" or keras_runs_on_kbench()):
            return None  # what Keras loads before its backend is mended by `begin`
        return _wrapped(name, path, target)


def _wrapped(
    name: str, path: Sequence[str] | None, target: ModuleType | None
) -> importlib.machinery.ModuleSpec | None:
    spec = importlib.machinery.PathFinder.find_spec(name, path, target)
    if spec is not None and spec.loader is not None:
        spec.loader = _Loader(name, spec.loader)
    return spec


class _Loader(Loader):
    """A module's own loader, and what is done around it."""

    def __init__(self, name: str, own: Loader) -> None:
        self._name = name
        self._own = own

    def __getattr__(self, name: str) -> object:  # get_source and the like
        return getattr(self._own, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        restore = None
        if self._name in BEFORE:
            restore = _call(BEFORE[self._name], module)
        try:
            self._own.exec_module(module)
        except Exception as error:
            if self._name in CHOOSES:
                _say_ours(error, module)
            raise
        finally:
            if restore is not None:
                restore()
        if keras_runs_on_kbench():
            for table in (AFTER, PICKLED):
                if self._name in table:
                    _call(table[self._name], module)


def _say_ours(error: Exception, package: ModuleType) -> None:
    """Add to an error of Keras' own choice of a backend that kbench, which is there, is one.

    Nothing is added where somebody has chosen, or where Keras has no choice: from 2.4 to 2.15.
    """
    folders = getattr(package, "__path__", ())
    files = ("load_backend.py", "config.py")  # of Keras 2 and 3
    chooses = any(os.path.exists(os.path.join(*both)) for both in itertools.product(folders, files))
    if env("KERAS_BACKEND") is not None or not chooses or keras_runs_on_kbench():
        return
    said = (
        "; kbench is imported and is a backend of Keras too: set KERAS_BACKEND=kbench in the "
        "environment, or os.environ['KERAS_BACKEND'] = 'kbench' before the first `import keras`"
    )
    if isinstance(error, ImportError):
        error.msg = f"{error.msg}{said}"
    elif error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}{said}", *error.args[1:])
    else:
        error.add_note(said.removeprefix("; "))


def _call(where: tuple[str, str], module: ModuleType) -> Any:
    return getattr(importlib.import_module(where[0]), where[1])(module)
