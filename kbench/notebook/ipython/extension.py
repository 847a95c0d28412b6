"""Loading and unloading the IPython extension; both may be called again, and unloading restores.

In the workbench's own kernel, which has its place names and error reports already, only the magics
and the formatter are added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.engine.core import errors
from kbench.notebook.base import recording
from kbench.notebook.exploration.explore_magics import ExploreMagics
from kbench.notebook.html import html
from kbench.notebook.ipython import blanks, error_report, progress_bar, show
from kbench.notebook.ipython.magics import KbenchMagics
from kbench.workbench.kernel import pane_channel
from kbench.workbench.watches import watched_set

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import Shell

_KINDS = ("line", "cell")
_MAGICS = (KbenchMagics, ExploreMagics)
_SHOWN = html.CLASSES
_ATTRIBUTE = "_kbench_unload"


def load_ipython_extension(shell: Shell) -> None:
    """Add magics, the HTML of functions, and error reports to a shell."""
    if getattr(shell, _ATTRIBUTE, None) is not None:
        return
    undo: list[Callable[[], None]] = []
    setattr(shell, _ATTRIBUTE, undo)
    steps: list[Callable[[Shell], Callable[[], None]]] = [_add_magics, _add_formatter]
    if pane_channel.of(shell) is None:
        steps += [error_report.install, _name_places]
        if hasattr(shell, "kernel"):  # in a terminal there is nothing that could be redrawn
            steps.append(progress_bar.install)
    try:
        for step in steps:
            undo.append(step(shell))
        recording.begin()
    except BaseException:
        unload_ipython_extension(shell)
        raise


def unload_ipython_extension(shell: Shell) -> None:
    """Put everything back as it was before."""
    for action in reversed(getattr(shell, _ATTRIBUTE, None) or []):
        action()
    if hasattr(shell, _ATTRIBUTE):
        delattr(shell, _ATTRIBUTE)


def _add_magics(shell: Shell) -> Callable[[], None]:
    manager = shell.magics_manager
    known = manager.magics
    names = [(kind, name) for magics in _MAGICS for kind in _KINDS for name in magics.magics[kind]]
    before = {pair: known[pair[0]].get(pair[1]) for pair in names}
    registry = dict(manager.registry)
    for magics in _MAGICS:
        shell.register_magics(magics)

    def restore() -> None:
        for (kind, name), function in before.items():
            if function is None:
                known[kind].pop(name, None)
            else:
                known[kind][name] = function
        for magics in _MAGICS:
            if magics.__name__ in registry:
                manager.registry[magics.__name__] = registry[magics.__name__]
            else:
                manager.registry.pop(magics.__name__, None)
        KbenchMagics.coach = KbenchMagics.watches = None
        watched_set.forget(shell)
        recording.finish()
        blanks.allow(shell)

    return restore


def _add_formatter(shell: Shell) -> Callable[[], None]:
    """Functions, models, runs and errors are shown as HTML; tensors bring theirs with them."""
    formatter = shell.display_formatter.mimebundle_formatter
    deferred, direct = formatter.deferred_printers, formatter.type_printers
    before_deferred = {key: found for key, found in deferred.items() if key in _SHOWN}
    before_direct = {key: found for key, found in direct.items() if _path(key) in _SHOWN}
    for name in _SHOWN:
        formatter.for_type_by_name(*name, html.bundle)

    def restore() -> None:
        show.arrays(shell, False)
        for name in _SHOWN:
            deferred.pop(name, None)
        for kind in [kind for kind in direct if _path(kind) in _SHOWN]:
            direct.pop(kind)
        deferred.update(before_deferred)
        direct.update(before_direct)

    return restore


def _path(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__name__


def _name_places(shell: Shell) -> Callable[[], None]:
    """Places are told by the number of the cell."""
    from kbench.workbench.kernel import extension

    errors.set_place_namer(lambda file, line: extension.place_name(shell, file, line))
    return lambda: errors.set_place_namer(None)
