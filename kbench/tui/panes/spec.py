"""What a pane says of itself, in the `__init__` of its folder; `registry` collects it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from kbench.tui.keys.key import Key

REGIONS = ("session", "left", "right", "stack", "foot", "corner", "lesson")
"""Where panes stand in three columns, in the order in which the focus goes round. The left column
is `left` over `corner`, the right one `right` over `stack`, whose panes share one place with tabs,
over `foot`. Two columns show `left` above, and below it one of all others that have a tab."""


class Taker(Struct, frozen=True):
    """What takes the keys of a pane while it is shown."""

    widget: str  # its id
    places: tuple[str, ...]  # whose rows of the table of keys it has
    hints: Mapping[str, str]  # what the line below the prompt tells: words by the ids of keys


class PaneSpec(Struct, frozen=True):
    """All that is known of a pane outside its own files."""

    id: str  # of its widget, and its name everywhere
    title: str  # in its frame, its help and the palette
    letter: str  # jumps to it
    about: str  # the first line of its help
    region: str  # one of REGIONS
    view: str  # its widget, as `module:class`: it loads when it is mounted
    takers: tuple[Taker, ...]  # the first that is shown takes the keys
    keys: tuple[Key, ...]  # rows of the table of keys
    controller: str = ""  # what fills it, as `module:class`
    tab: str = ""  # on its tab, where that is not the title
    shares: Mapping[str, int] = field(default_factory=dict)
    """Percent of its column, or from where on its neighbour has the rest, by the layout's kind."""

    def __post_init__(self) -> None:
        assert self.region in REGIONS and self.takers
