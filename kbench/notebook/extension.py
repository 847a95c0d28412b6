"""Loading and unloading the IPython extension; both may be called again, and unloading restores."""

from __future__ import annotations

from typing import Any

from kbench.notebook import html
from kbench.notebook.magics import KbenchMagics

_KINDS = ("line", "cell")
_FUNCTION = ("kbench.engine.function", "Function")
_loaded: dict[int, dict[str, dict[str, Any]]] = {}


def load_ipython_extension(shell: Any) -> None:
    """Add the magics and the HTML of functions to a shell, remembering what was there before."""
    if id(shell) in _loaded:
        return
    known = shell.magics_manager.magics
    mine = KbenchMagics.magics
    _loaded[id(shell)] = {
        kind: {name: known[kind].get(name) for name in mine[kind]} for kind in _KINDS
    }
    shell.register_magics(KbenchMagics)
    _formatter(shell).for_type_by_name(*_FUNCTION, html.bundle)


def unload_ipython_extension(shell: Any) -> None:
    """Put back every magic that was there before, remove the others, forget the formatter."""
    before = _loaded.pop(id(shell), None)
    if before is None:
        return
    known = shell.magics_manager.magics
    for kind, magics in before.items():
        for name, function in magics.items():
            if function is None:
                known[kind].pop(name, None)
            else:
                known[kind][name] = function
    KbenchMagics.coach = None
    _forget_function(_formatter(shell))


def _formatter(shell: Any) -> Any:
    return shell.display_formatter.mimebundle_formatter


def _forget_function(formatter: Any) -> None:
    """Remove the formatter, whether its class has been met (and moved) since or not."""
    formatter.deferred_printers.pop(_FUNCTION, None)
    for kind in list(formatter.type_printers):
        if (kind.__module__, kind.__name__) == _FUNCTION:
            formatter.pop(kind)
