"""kbench: an interactive tensor workbench, and the Keras backend API on the CPU.

`import kbench as K` gives every public name. User interfaces and heavy packages load on first
need.
"""

from __future__ import annotations

import sys
from typing import Any

from kbench.engine.runtime import threads as _threads  # isort: skip  # before NumPy: how idle threads wait
from kbench import backend
from kbench import keras_client as _keras_client
from kbench.api import engines
from kbench.api import legacy as _legacy
from kbench.backend import *  # noqa: F403
from kbench.engine.graph import tensor as _tensor
from kbench.engine.runtime import keras_json as _keras_file
from kbench.version import __version__

__all__ = ["__version__", "backend"]
__all__ += backend.__all__
sys.modules["kbench.engines"] = engines  # as it may be imported
engines.start(_keras_file.load_file(), vars(backend), globals())
_keras_client.install()


def _rich_repr(value: object) -> dict[str, str]:
    from kbench.notebook.html.html import bundle

    return bundle(value)


_tensor.set_rich_repr(_rich_repr)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext kbench`: magics, displays and error reports in IPython and Jupyter."""
    from kbench.notebook.ipython.extension import load_ipython_extension as load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext kbench`: everything as it was before."""
    from kbench.notebook.ipython.extension import unload_ipython_extension as unload

    unload(shell)


def __getattr__(name: str) -> object:
    """Widgets, `show`, `charts`, `plots`, `compare`, `dask`, `progress`, loaded on first need."""
    if name == "charts":
        from kbench.notebook.drawing import charts

        return charts
    if name == "compare":
        from kbench.api.comparison import compare

        return compare
    if name == "dask":
        import kbench.dask

        return kbench.dask
    if name == "progress":
        from kbench.workbench.progress.progress import progress

        return progress
    if name == "plots":
        from kbench.notebook.plots import plots

        return plots
    if not name.startswith("_"):
        from kbench.notebook import registry

        if name in registry.public():
            return registry.widget(name)
    raise AttributeError(_legacy.missing(name))
