"""Loading and unloading the IPython extension; both may be called again, and unloading restores.

In the workbench's own kernel, which has its place names and error reports already, only the magics
and the formatter are added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbench.engine import errors
from kbench.notebook import blanks, error_report, html
from kbench.notebook.magics import KbenchMagics

_KINDS = ("line", "cell")
_FUNCTION = ("kbench.engine.function", "Function")
_MODEL = ("keras.engine.network", "Network")
_SHOWN = (_FUNCTION, _MODEL)
_ATTRIBUTE = "_kbench_unload"
_WORKBENCH = "_kbench_channel"


def load_ipython_extension(shell: Any) -> None:
    """Add magics, the HTML of functions, and error reports to a shell."""
    if getattr(shell, _ATTRIBUTE, None) is not None:
        return
    undo = [_add_magics(shell), _add_formatter(shell)]
    if getattr(shell, _WORKBENCH, None) is None:
        undo += [error_report.install(shell), _name_places(shell)]
    setattr(shell, _ATTRIBUTE, undo)


def unload_ipython_extension(shell: Any) -> None:
    """Put everything back as it was before."""
    for action in reversed(getattr(shell, _ATTRIBUTE, None) or []):
        action()
    setattr(shell, _ATTRIBUTE, None)


def _add_magics(shell: Any) -> Callable[[], None]:
    known = shell.magics_manager.magics
    mine = KbenchMagics.magics
    before = {kind: {name: known[kind].get(name) for name in mine[kind]} for kind in _KINDS}
    shell.register_magics(KbenchMagics)

    def restore() -> None:
        for kind, magics in before.items():
            for name, function in magics.items():
                if function is None:
                    known[kind].pop(name, None)
                else:
                    known[kind][name] = function
        KbenchMagics.coach = None
        blanks.allow(shell)

    return restore


def _add_formatter(shell: Any) -> Callable[[], None]:
    """Functions and Keras models are shown as HTML; tensors bring theirs, made to be shown."""
    formatter = shell.display_formatter.mimebundle_formatter
    for name in _SHOWN:
        formatter.for_type_by_name(*name, html.bundle)

    def restore() -> None:
        for name in _SHOWN:
            formatter.deferred_printers.pop(name, None)
        for kind in list(formatter.type_printers):
            if (kind.__module__, kind.__name__) in _SHOWN:
                formatter.pop(kind)

    return restore


def _name_places(shell: Any) -> Callable[[], None]:
    """Places are told by the number of the cell."""
    from kbench.workbench import kernel

    errors.set_place_namer(lambda file, line: kernel.place_name(shell, file, line))
    return lambda: errors.set_place_namer(None)
