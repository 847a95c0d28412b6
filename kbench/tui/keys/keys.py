"""Every key of the workbench in one table: id, keys, action, words. `keymap.py` reads keys.toml.

Those of a pane are in the `__init__` of its folder.

Where people read what they have typed or are about to answer, in the transcript and in a lesson, a
letter is typing and goes to the prompt, so no letter is bound there. In the other panes letters
look, sort and ask; none of them runs, deletes or overwrites anything without a question.
"""

from __future__ import annotations

from collections.abc import Iterator

from textual.binding import Binding, BindingType

from kbench.tui.keys.key import Key
from kbench.tui.panes.registry import BY_ID, NUMBERS, PANES
from kbench.tui.panes.spec import Taker

BAR_DROP_ORDER = ("interrupt", "settings", "zoom", "side", "history", "value", "plan", "variables")
# Of each dialog: whose rows of the table its keys are.
DIALOGS = (
    ("text", "lines", "trace"), ("list",), ("search",), ("axes", "axis"), ("line",), ("choice",),
)  # fmt: skip
MAIN = (
    Key("main", "help", "f1", "help", "help for where you are", "Help"),
    Key("main", "prompt", "f2", "pane('prompt')", "go to the prompt", "Prompt"),
    Key("main", "variables", "f3", "pane('variables')", "go to the variables", "Vars"),
    Key("main", "value", "f4", "pane('value')", "go to the value", "Value"),
    Key("main", "plan", "f5", "pane('plan')", "go to the plan of the last run", "Plan"),
    Key("main", "next", "f6", "next_pane(1)", "next pane"),
    Key("main", "previous", "shift+f6", "next_pane(-1)", "previous pane"),
    Key("main", "settings", "f7", "pane('settings')", "go to the settings", "Config"),
    Key("main", "history", "f8", "history", "history of all sessions", "Hist"),
    Key("main", "side", "f9", "side", "hide or show the panes beside the session", "Side"),
    Key("main", "zoom", "f10", "zoom", "give the focused pane the whole screen", "Zoom"),
    Key("main", "diagnostics", "f12", "diagnostics", "diagnostics: versions, keys, timings"),
    Key("main", "palette", "ctrl+p", "palette", "palette of all commands", "Palette"),
    Key("main", "jump", "ctrl+o", "jump", "jump to a pane by its letter"),
    Key("main", "examples", "alt+t", "examples", "examples to begin with"),
    Key("main", "interrupt", "ctrl+c", "interrupt", "copy, interrupt or clear", "Int"),
    Key("main", "explain", "alt+e", "explain", "explain the newest error"),
    Key("main", "trace_newest", "alt+n", "trace_newest", "trace the newest NaN or infinity shown"),
    Key("main", "compare", "alt+c", "compare", "compare an expression: engines or settings"),
    Key("main", "save", "alt+s", "save", "write the session to a script or a notebook"),
    Key("main", "restart", "alt+r,ctrl+f5", "restart", "restart the kernel"),
    Key("main", "resume", "alt+u", "resume", "restore the cells of an earlier session"),
    Key("main", "lessons", "alt+l", "lessons", "lessons: list them, take one"),
    Key("main", "lesson_next", "alt+o", "learn('next')", "lesson: go on"),
    Key("main", "lesson_back", "alt+p", "learn('back')", "lesson: the step before"),
    Key("main", "lesson_check", "alt+k", "learn('check')", "lesson: run and check the exercise"),
    Key("main", "lesson_hint", "alt+i", "learn('hint')", "lesson: the next hint"),
    Key("main", "lesson_fold", "alt+z", "learn('fold')", "lesson: fold it to a line, or unfold it"),
    Key("main", "redraw", "ctrl+l", "redraw", "draw the screen again, pictures included"),
    Key("main", "quit", "ctrl+q", "quit", "quit", "Quit"),
    Key("main", "wider", "alt+right", "resize(2)", "move the border of the session right"),
    Key("main", "narrower", "alt+left", "resize(-2)", "move the border of the session left"),
    Key("main", "lower", "alt+down", "raise(3)", "move the border of the pane down"),
    Key("main", "higher", "alt+up", "raise(-3)", "move the border of the pane up"),
    *(
        Key("main", f"tab_{number}", f"alt+{number}", f"pane('{pane}')", BY_ID[pane].title.lower())
        for number, pane in NUMBERS.items()
    ),
)
ROWS_OF_TABLES = (
    Key("table", "row_up", "up,k", "move(-1)", "row above"),
    Key("table", "row_down", "down,j", "move(1)", "row below"),
    Key("table", "row_page_up", "pageup", "move_page(-1)", "a page up"),
    Key("table", "row_page_down", "pagedown", "move_page(1)", "a page down"),
    Key("table", "row_first", "g,home", "edge(0)", "first row"),
    Key("table", "row_last", "G,end", "edge(1)", "last row"),
    Key("table", "row_open", "enter", "open", "open the row"),
    Key("table", "row_leave", "escape", "leave", "all rows again, or back to the prompt"),
)
ROWS_OF_DIALOGS = (
    Key("text", "text_close", "escape,q,f1,f12", "dismiss", "close a text"),
    Key("text", "text_copy", "y", "copy", "copy the text"),
    Key("lines", "text_up", "up,k", "scroll_up", "line up in a text"),
    Key("lines", "text_down", "down,j", "scroll_down", "line down"),
    Key("lines", "text_page", "space,pagedown", "page_down", "a page down"),
    Key("lines", "text_first", "home,g", "scroll_home", "beginning of a text"),
    Key("lines", "text_last", "end,G", "scroll_end", "its end"),
    Key("trace", "trace_place", "enter,o", "goto", "from a NaN trace to the cell that made it"),
    Key("list", "list_close", "escape,q", "dismiss", "close a list"),
    Key("list", "list_up", "k", "move(-1)", "line up in a list"),
    Key("list", "list_down", "j", "move(1)", "line down"),
    Key("list", "list_drop", "delete", "drop", "do not offer a session again"),
    Key("search", "search_close", "escape,f8", "dismiss", "close the history"),
    Key("search", "search_up", "up,ctrl+p", "move(-1)", "line up in the history"),
    Key("search", "search_down", "down,ctrl+n,ctrl+r", "move(1)", "line down"),
    Key("search", "search_page_up", "pageup", "move(-10)", "ten lines up"),
    Key("search", "search_page_down", "pagedown", "move(10)", "ten lines down"),
    Key("axes", "axes_show", "enter", "accept", "show the chosen axes"),
    Key("axes", "axes_close", "escape,a,q", "cancel", "leave the axes as they were"),
    Key("axis", "axis_up", "up,k", "move(-1)", "axis above"),
    Key("axis", "axis_down", "down,j", "move(1)", "axis below"),
    Key("axis", "axis_less", "left,h", "turn(-1)", "index before along an axis"),
    Key("axis", "axis_more", "right,l", "turn(1)", "next index"),
    Key("axis", "axis_much_more", "pagedown", "turn(10)", "ten indices on"),
    Key("axis", "axis_much_less", "pageup", "turn(-10)", "ten indices back"),
    Key("axis", "axis_rows", "r", "take('row')", "make the axis the rows"),
    Key("axis", "axis_columns", "c", "take('col')", "make the axis the columns"),
    Key("line", "line_close", "escape", "cancel", "cancel the input"),
    Key("choice", "choice_close", "escape", "answer('')", "dismiss the question"),
)
TABLE: tuple[Key, ...] = (
    *MAIN, *(key for pane in PANES for key in pane.keys), *ROWS_OF_TABLES, *ROWS_OF_DIALOGS,
)  # fmt: skip


def hints(taker: Taker) -> list[tuple[Key, str]]:
    """The keys that are told while something takes the keys, the most needed first, with words."""
    known = {key.id: key for place in ("main", *taker.places) for key in of(place)}
    return [(known[ident], word) for ident, word in taker.hints.items()]


def named(ident: str) -> Key:
    """The row of an id."""
    return next(key for key in TABLE if key.id == ident)


def of(where: str) -> Iterator[Key]:
    """The rows of one place."""
    return (key for key in TABLE if key.where == where)


def bindings(*places: str) -> list[BindingType]:
    """Textual bindings of the rows of these places, remappable by their ids."""
    return [
        Binding(
            key.keys,
            key.action,
            key.words,
            show=bool(key.bar),
            priority=key.where == "main",
            id=key.id,
        )
        for place in places
        for key in of(place)
    ]
