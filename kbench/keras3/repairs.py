"""The places of Keras 3.15.1 that ask for a backend by name, and what is written there instead."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from types import ModuleType
from typing import Any

from kbench.api.operations import env, keras_file_backend

TESTED = "3.15.1"
REPAIRS = {
    "keras.src.backend": (
        'else:\n    raise ValueError(f"Unable to import backend : {backend()}")\n',
        "else:\n    from keras_kbench.src import *\n"
        "    from keras_kbench.src import cudnn_ok, gru, lstm, rnn, vectorized_map\n"
        "    from keras_kbench.src import scatter, bidirectional_gru, bidirectional_lstm\n"
        "    from keras_kbench.src import Variable as BackendVariable\n"
        "    distribution_lib = None\n",
    ),
    "keras.src.layers.layer": (
        "else:\n    raise RuntimeError(\n        f\"Backend '{backend.backend()}' must implement"
        ' a layer mixin class."\n    )\n',
        "else:\n    class BackendLayer: pass\n",
    ),
    "keras.src.models.model": (
        "else:\n    raise RuntimeError(\n        f\"Backend '{backend.backend()}' must implement"
        ' the Trainer class."\n    )\n',
        "else:\n    from keras_kbench.src.trainer import Trainer\n",
    ),
    "keras.src.utils.backend_utils": (
        '        if self._backend == "openvino":\n',
        '        if self._backend == "kbench":\n'
        "            return getattr(backend_module, name)\n"
        '        if self._backend == "openvino":\n',
    ),
    "keras.src.layers.preprocessing.image_preprocessing.equalization": (
        '        if self.backend.name in ("jax", "openvino"):\n',
        '        if self.backend.name in ("jax", "openvino", "kbench"):\n',
    ),
    "keras.src.export.saved_model": (
        "else:\n    raise RuntimeError(\n        f\"Backend '{backend.backend()}' must implement"
        ' ExportArchive."\n    )\n',
        "else:\n    from keras_kbench.src.export import (\n"
        "        ExportArchive as BackendSavedModelExportArchive,\n    )\n",
    ),
}


def chosen() -> str | None:
    """The backend that Keras is going to load: what the environment says, else keras.json."""
    return env("KERAS_BACKEND") or keras_file_backend()


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in REPAIRS or chosen() != "kbench":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(name, spec.origin)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        source = self.get_data(self.path).decode()
        old, new = REPAIRS[fullname]
        if source.count(old) != 1:
            raise ImportError(
                f"Keras {version('keras')} is not known to kbench, which was tested with {TESTED}; "
                f"install keras=={TESTED}"
            )
        return compile(source.replace(old, new), self.path, "exec", dont_inherit=True)


def install() -> None:
    """Wait for Keras 3."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def without_types(modules: Iterable[ModuleType]) -> None:
    """Let `inspect.signature` say of functions what it says of Keras': names and defaults alone."""
    for function in [one for module in modules for one in vars(module).values()]:
        if inspect.isfunction(function) and function.__module__.startswith("kbench.keras3"):
            told = inspect.signature(function)
            bare = [one.replace(annotation=one.empty) for one in told.parameters.values()]
            told = told.replace(parameters=bare, return_annotation=told.empty)
            setattr(function, "__signature__", told)  # noqa: B010
