"""The value pane: cells, pictures, and the commands on them. Main entries: `view`, `controller`."""

from __future__ import annotations

from kbench.tui.keys.key import Key
from kbench.tui.panes import graph
from kbench.tui.panes.spec import PaneSpec, Taker

BEYOND_LAST_PICTURE = 10**12  # more pictures than there are
KEYS = (
    Key("grid", "left", "left,h", "step(0,-1)", "column to the left"),
    Key("grid", "right", "right,l", "step(0,1)", "column to the right"),
    Key("grid", "up", "up,k", "step(-1,0)", "row above"),
    Key("grid", "down", "down,j", "step(1,0)", "row below"),
    Key("grid", "page_up", "pageup", "page(-1)", "a page up"),
    Key("grid", "page_down", "pagedown", "page(1)", "a page down"),
    Key("grid", "line_start", "home", "line_edge(0)", "first column"),
    Key("grid", "line_end", "end", "line_edge(1)", "last column"),
    Key("grid", "first", "g", "edge(0)", "first row"),
    Key("grid", "last", "G", "edge(1)", "last row"),
    Key("grid", "slice_down", "left_square_bracket", "slice(-1)", "previous slice"),
    Key("grid", "slice_up", "right_square_bracket", "slice(1)", "next slice"),
    Key("grid", "axes", "a", "ask('axes')", "choose the axes shown and the slice"),
    Key("grid", "index", "colon", "ask('index')", "go to an index, or write a slice"),
    Key("grid", "image", "i", "ask('picture')", "show it as a picture"),
    Key("grid", "find", "f", "ask('find')", "find a value, or what is > 0.5, == 3, nan ..."),
    Key("grid", "find_again", "F", "ask('find_again')", "find the next one"),
    Key("grid", "stop_find", "escape", "ask('stop')", "cancel search or export, or go to prompt"),
    Key("grid", "next_nan", "n", "ask('next_nan')", "next NaN or infinity"),
    Key("grid", "full", "space", "ask('full')", "the value in full precision"),
    Key("grid", "shade", "s", "shade", "heat shading on or off"),
    Key("grid", "copy_cell", "y", "ask('copy')", "copy the value"),
    Key("grid", "watch_cell", "w", "ask('watch')", "watch the cell"),
    Key("grid", "copy_more", "Y", "ask('copy_more')", "copy the row, the window or the index"),
    Key("grid", "exact_value", "x", "ask('exact')", "exact statistics of a large array"),
    Key("grid", "export", "e", "ask('export')", "write the array, or the slice, to a file"),
    Key("picture", "picture_leave", "escape", "screen.pane('prompt')", "back to the prompt"),
    Key("picture", "picture_cells", "i", "ask('picture')", "show the numbers of the picture"),
    Key("picture", "picture_before", "left_square_bracket", "ask('slice',-1)", "previous one"),
    Key("picture", "picture_after", "right_square_bracket", "ask('slice',1)", "next one"),
    Key("picture", "picture_back", "pageup", "ask('slice',-10)", "ten pictures back"),
    Key("picture", "picture_on", "pagedown", "ask('slice',10)", "ten pictures on"),
    Key(
        "picture",
        "picture_first",
        "g,home",
        f"ask('slice',{-BEYOND_LAST_PICTURE})",
        "first picture",
    ),
    Key("picture", "picture_last", "G,end", f"ask('slice',{BEYOND_LAST_PICTURE})", "last picture"),
    Key("picture", "channel_before", "comma", "ask('channel',-1)", "channel before"),
    Key("picture", "channel_after", "full_stop", "ask('channel',1)", "next channel"),
    Key("picture", "pixel_up", "up,k", "step(-1,0)", "pixel above"),
    Key("picture", "pixel_down", "down,j", "step(1,0)", "pixel below"),
    Key("picture", "pixel_left", "left,h", "step(0,-1)", "pixel to the left"),
    Key("picture", "pixel_right", "right,l", "step(0,1)", "pixel to the right"),
    Key("picture", "colours", "c", "ask('colours')", "channels as colours, or one at a time"),
    Key("picture", "picture_axes", "a", "ask('axes')", "choose the axes shown"),
    Key("picture", "picture_index", "colon", "ask('index')", "go to a picture by its index"),
    Key("picture", "picture_export", "e", "ask('export')", "write the array, or the picture"),
)
SPEC = PaneSpec(
    id="value",
    title="Value",
    letter="a",
    about="A slice of an array of any size; of a symbol or layer, the graph that leads to it.",
    region="right",
    shares={"three": 50},
    view="kbench.tui.panes.value.view:ValuePane",
    controller="kbench.tui.panes.value.controller:ValueController",
    takers=(
        Taker(
            "grid",
            ("grid",),
            {
                "axes": "axes", "index": "index", "find": "find", "next_nan": "next NaN",
                "image": "picture", "export": "export", "full": "full value",
            },
        ),
        Taker(
            "picture",
            ("picture",),
            {
                "picture_cells": "numbers", "picture_before": "before", "picture_after": "next",
                "channel_after": "channel", "picture_index": "index", "colours": "colours",
                "picture_export": "export",
            },
        ),
        Taker("value-graph", ("graph",), graph.HINTS),
    ),
    keys=KEYS,
)  # fmt: skip
