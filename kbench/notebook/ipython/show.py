"""`show(x)`, the static picture of any value right now; and the same for every array of a shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kbench.notebook import registry
from kbench.notebook.base.redraw import shell
from kbench.notebook.html import html, views

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import Shell

_BEFORE = "_kbench_arrays"  # what showed arrays in a shell before this did


def show(*values: object, widget: str | None = None) -> None:
    """Show values as kbench sees them: tensors, arrays, models, errors, runs, lists of such.

    A tensor that needs no feed is computed, those inside a list are not. Without values, the
    settings are shown. Outside IPython the text is printed.

    Arguments:
        values: what to show.
        widget: in place of a static picture the widget of this word, such as "graph" or "value";
            `%kb help` lists them.
    Raises:
        ArgumentError: there is no such widget, or it cannot show the values.
    """
    if widget is not None:
        _live(widget, values)
        return
    bundles = [html.bundle(value) for value in values] or [_settings()]
    if shell() is None:
        print("\n".join(bundle["text/plain"] for bundle in bundles))
        return
    from IPython.display import display

    for bundle in bundles:
        display(bundle, raw=True)


def _live(word: str, values: tuple[object, ...]) -> None:
    made = registry.opened(word, values)
    if shell() is None:
        print(made)
        return
    from IPython.display import display

    display(made)


def _settings() -> dict[str, str]:
    from kbench.engine.runtime import config

    known = config.snapshot().items()
    text = "\n".join(f"{name}  {views.setting(name, value)}" for name, value in known)
    return {"text/plain": text, "text/html": views.settings()}


def are_arrays(running: Shell) -> bool:
    """Whether a shell shows NumPy arrays as `show` does."""
    return hasattr(running, _BEFORE)


def arrays(running: Shell, on: bool) -> None:
    """Have a shell show NumPy arrays as `show` does, or again as it did before."""
    formatter = running.display_formatter.mimebundle_formatter
    known = formatter.type_printers
    if on and not are_arrays(running):
        setattr(running, _BEFORE, known.get(np.ndarray))
        known[np.ndarray] = html.bundle
    elif not on and are_arrays(running):
        before: Callable[..., object] | None = getattr(running, _BEFORE)
        delattr(running, _BEFORE)
        if before is None:
            known.pop(np.ndarray, None)
        else:
            known[np.ndarray] = before
