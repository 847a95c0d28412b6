"""More than one machine: functions over arrays of Dask, and training by several workers.

`map_blocks` calls a `K.function` on the chunks of dask arrays, `predict` does the same for a model
of Keras, `fit` trains one by all workers of a cluster with the same result as on one machine.
Everything that moves data or starts work is Dask's own. Dask is imported on first use, never by
`import kbench`. May import the public names and `keras_client`; the workbench reads
`activity`, which needs no Dask.
"""

from __future__ import annotations

import importlib
import os

from kbench.engine.core.errors import EngineError, see_through

HOMES = {
    "fit": "kbench.dask.training.fit",
    "map_blocks": "kbench.dask.blocks",
    "predict": "kbench.dask.prediction",
}
"""Public name -> the module that has it."""

__all__ = ["fit", "map_blocks", "predict"]

see_through(os.path.dirname(__file__))  # an error names the user's line


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        importlib.import_module("distributed")
        importlib.import_module("dask.array")
    except ImportError as error:
        raise EngineError(
            f"kbench.dask needs Dask, which is not installed here ({error}); "
            "pip install 'kbench[dask]'"
        ) from error
    return getattr(importlib.import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted((*globals(), *HOMES))
