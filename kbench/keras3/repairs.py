"""The places of Keras 3.15.1 that ask for a backend by name, and what is written there instead.

`kbench.keras_client` waits for modules of Keras, and asks here how those of Keras 3 are loaded.
"""

from __future__ import annotations

import importlib.machinery
import inspect
import os
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from kbench.api.operations import env, keras_file_backend, name_functions, prefetch, see_through

TESTED = "3.15.1"
KERAS_2 = "2.3.1"
GENERATIONS = f"kbench was tested with Keras {KERAS_2} and {TESTED}"
REMEDY = f"pip install 'keras=={TESTED}' (or keras=={KERAS_2}, for programs of Keras 2)"
REPAIRS = {
    "keras.src.backend": (
        'else:\n    raise ValueError(f"Unable to import backend : {backend()}")\n',
        "else:\n    from keras_kbench.src import *\n"
        "    from keras_kbench.src import cudnn_ok, gru, lstm, rnn, vectorized_map\n"
        "    from keras_kbench.src import scatter, bidirectional_gru, bidirectional_lstm\n"
        "    from keras_kbench.src import Variable as BackendVariable, distribution_lib\n",
    ),
    "keras.src.layers.layer": (
        "else:\n    raise RuntimeError(\n        f\"Backend '{backend.backend()}' must implement"
        ' a layer mixin class."\n    )\n',
        "else:\n    from keras_kbench.src.layer import BackendLayer\n",
    ),
    "keras.src.models.model": (
        "else:\n    raise RuntimeError(\n        f\"Backend '{backend.backend()}' must implement"
        ' the Trainer class."\n    )\n',
        "else:\n    from keras_kbench.src.trainer import Trainer\n",
    ),
    "keras.src.optimizers.optimizer": (
        "else:\n\n    class BackendOptimizer(base_optimizer.BaseOptimizer):\n        pass\n",
        "else:\n    from keras_kbench.src.optimizer import BackendOptimizer\n",
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

COMPOSED = {
    "keras.src.ops.nn": ("_layer_normalization", "_rms_normalization"),
}
"""Functions that Keras composes of many of the backend's: their eager calls keep a plan, too."""
SETTINGS = "keras.src.backend.config"


def chosen() -> str | None:
    """The backend that Keras is going to load: what the environment says, else keras.json."""
    return env("KERAS_BACKEND") or keras_file_backend()


def installed() -> str | None:
    """The version of the package keras; None where it is not installed as one."""
    from importlib.metadata import PackageNotFoundError, version  # slow to load

    try:
        return version("keras")
    except PackageNotFoundError:
        return None


def only_tensorflow(version: str | None) -> bool:
    """Whether a version of Keras has no choice of a backend: those from 2.4 to 2.15."""
    found = re.match(r"2\.(\d+)", version or "")
    return found is not None and int(found[1]) >= 4


def repaired(
    name: str, path: Sequence[str] | None, target: ModuleType | None
) -> importlib.machinery.ModuleSpec | None:
    """How a module is loaded where kbench is Keras' backend; None where it stays as it is."""
    known = name in ("keras", SETTINGS) or name in REPAIRS or name in COMPOSED
    if not known or chosen() != "kbench":
        return None
    if name == "keras" and not only_tensorflow(installed()):
        return None
    spec = importlib.machinery.PathFinder.find_spec(name, path, target)
    if spec is None or spec.origin is None:
        return None
    spec.loader = _Loader(name, spec.origin)
    return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Reads a module's source with kbench written into it, at one place."""

    def get_code(self, fullname: str) -> Any:
        if fullname == "keras":
            raise ImportError(
                f"Keras {installed()} runs on TensorFlow alone, and {GENERATIONS}; {REMEDY}"
            )
        if fullname not in REPAIRS:
            return super().get_code(fullname)
        source = self.get_data(self.path).decode()
        old, new = REPAIRS[fullname]
        if source.count(old) != 1:
            raise ImportError(f"Keras {installed()} is not known: {GENERATIONS}; {REMEDY}")
        return compile(source.replace(old, new), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if module.__name__ == "keras.src.backend":
            _begin(module)
        elif module.__name__ == SETTINGS:
            _join_settings(module)
        for name in COMPOSED.get(module.__name__, ()):
            _keep_plans(module, name)


def _join_settings(module: ModuleType) -> None:
    """Let Keras and K have the same settings; of another Keras they may stand elsewhere."""
    from kbench.keras3 import settings

    if all(hasattr(module, one) for name, held in settings.HELD.items() for one in (
        name, held, f"set_{name}"
    )):  # fmt: skip
        settings.join(module)


def _keep_plans(module: ModuleType, name: str) -> None:
    """Let eager calls of a function keep their plan; of another Keras it may not be there."""
    from kbench.keras3.calls.planned import planned  # Keras is there by now

    function = getattr(module, name, None)
    if inspect.isfunction(function):
        setattr(module, name, planned(function))


def _begin(package: ModuleType) -> None:
    """Tell which Keras runs on kbench; errors name the line of the user's model from now on."""
    found = installed()
    sys.stderr.write(f"Using kbench backend with Keras {found}.\n")
    if found != TESTED:
        warnings.warn(f"Keras {found} is not known: {GENERATIONS}; {REMEDY}", stacklevel=2)
    prefetch()
    see_through(os.path.dirname(os.path.dirname(package.__path__[0])))  # the package keras
    here = os.path.dirname(__file__)
    see_through(here)
    name_functions(os.path.join(here, "calls", "named_errors.py"), here)


def without_types(modules: Iterable[ModuleType]) -> None:
    """Let `inspect.signature` say of functions what it says of Keras': names and defaults alone."""
    for function in [one for module in modules for one in vars(module).values()]:
        if inspect.isfunction(function) and function.__module__.startswith("kbench.keras3"):
            told = inspect.signature(function)
            bare = [one.replace(annotation=one.empty) for one in told.parameters.values()]
            told = told.replace(parameters=bare, return_annotation=told.empty)
            setattr(function, "__signature__", told)  # noqa: B010
