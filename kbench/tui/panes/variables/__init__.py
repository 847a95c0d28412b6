"""The names of the session: `view` is the table, `controller` has its rows read."""

from __future__ import annotations

from kbench.tui.keys.key import Key
from kbench.tui.panes.spec import PaneSpec, Taker

KEYS = (
    Key("variables", "filter", "slash", "filter", "filter by name"),
    Key("variables", "sort", "s", "sort", "sort by name, kind, size or last change"),
    Key("variables", "unfold", "right,l", "unfold", "unfold a model, then its layers"),
    Key("variables", "fold", "left,h", "fold", "fold a model or a layer"),
    Key("variables", "graph", "o", "graph", "follow an output to its inputs"),
    Key("variables", "insert", "i", "insert", "put the name into the prompt"),
    Key("variables", "exact", "x", "exact", "exact statistics of a large array"),
    Key("variables", "copy_name", "y", "copy", "copy the row"),
    Key("variables", "watch_name", "w", "watch", "watch the value"),
    Key("variables", "derive", "g", "derive", "gradients of a tensor or a model"),
    Key("variables", "trace_name", "t", "trace", "trace where its NaN or Inf came from"),
    Key("variables", "compare_name", "c", "compare", "compare it on engines or under settings"),
)
SPEC = PaneSpec(
    id="variables",
    title="Variables",
    tab="Vars",
    letter="v",
    about="Your names, as the kernel pushes them. Enter shows a value, or unfolds a model.",
    region="left",
    shares={"two": 45},
    view="kbench.tui.panes.variables.view:VariablesTable",
    controller="kbench.tui.panes.variables.controller:VariablesController",
    takers=(
        Taker(
            "variables",
            ("table", "variables"),
            {
                "row_open": "value", "derive": "gradients", "graph": "graph",
                "watch_name": "watch", "trace_name": "trace NaN", "filter": "filter",
                "sort": "sort",
            },
        ),
    ),
    keys=KEYS,
)  # fmt: skip
