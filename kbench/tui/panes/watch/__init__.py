"""Watched expressions: `view` is the table, `controller` the list and when it is evaluated."""

from __future__ import annotations

from kbench.tui.keys.key import Key
from kbench.tui.panes.spec import PaneSpec, Taker

KEYS = (
    Key("watch", "watch_add", "a", "add", "watch one more expression"),
    Key("watch", "watch_edit", "e", "edit", "change the expression"),
    Key("watch", "watch_now", "ctrl+r", "evaluate", "evaluate it now, however long it takes"),
    Key("watch", "watch_full", "space", "full", "all of a value that does not fit the line"),
    Key("watch", "watch_remove", "delete", "remove", "stop watching it"),
    Key("watch", "watch_copy", "y", "copy", "copy the expression and its value"),
)
SPEC = PaneSpec(
    id="watch",
    title="Watch",
    letter="w",
    about="Expressions, evaluated again when something has changed: old and new value.",
    region="corner",
    shares={"three": 35},  # from below, without the settings
    view="kbench.tui.panes.watch.view:WatchTable",
    controller="kbench.tui.panes.watch.controller:WatchController",
    takers=(
        Taker(
            "watch",
            ("table", "watch"),
            {
                "watch_add": "add", "watch_edit": "edit", "watch_remove": "remove",
                "watch_full": "all of the value",
            },
        ),
    ),
    keys=KEYS,
)  # fmt: skip
