"""What is drawn is forgotten with the widget that it was drawn for.

Textual keeps the colours behind a widget in a cache of 1,024 entries whose key, by mistake, holds
the widget's drawn lines too. So the lines of closed dialogs and toasts stay, tens of megabytes.
"""

from __future__ import annotations

from functools import lru_cache, partial


def key_by_colours() -> None:
    """Make the key the two colours alone; with a Textual that has no such method, nothing changes.

    A second time changes nothing, either.
    """
    try:
        from textual._styles_cache import StylesCache
    except ImportError:  # a later version, which may need no help
        return
    known = vars(StylesCache).get("get_inner_outer")
    plain = getattr(known, "__wrapped__", None)  # a function of the class, as its parameter says
    if plain is not None and not isinstance(known, staticmethod):
        shared = lru_cache(1024)(partial(plain, StylesCache))
        setattr(StylesCache, "get_inner_outer", staticmethod(shared))  # noqa: B010 - not typed so
