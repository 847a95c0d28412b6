"""One bindable action, as all tables of keys write it."""

from __future__ import annotations

from msgspec import Struct

UNBOUND = "unbound"  # the key of what has none until the user gives it one


class Key(Struct, frozen=True):
    """One bindable action; `where` names the widgets that take it, `bar` its word in the footer.

    Those of the main screen come before the focused widget's own keys.
    """

    where: str
    id: str
    keys: str
    action: str
    words: str
    bar: str = ""
