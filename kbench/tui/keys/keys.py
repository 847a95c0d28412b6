"""Every key of the workbench in one table: id, keys, action, words. `keymap.py` reads keys.toml.

Where people read what they have typed or are about to answer, in the transcript and in a lesson, a
letter is typing and goes to the prompt, so no letter is bound there. In the other panes letters
look, sort and ask; none of them runs, deletes or overwrites anything without a question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from textual.binding import Binding, BindingType

from kbench.tui.panes.registry import BY_ID, SIDE_PANES, Taker

DELETE_LINE_END = "delete_to_end_of_line_or_delete_line"
BAR_DROP_ORDER = ("interrupt", "settings", "zoom", "side", "history", "value", "plan", "variables")
UNBOUND = "unbound"  # the key of what has none until the user gives it one
BEYOND_LAST_PICTURE = 10**12  # more pictures than there are
# Of each dialog: whose rows of the table its keys are.
DIALOGS = (
    ("text", "lines", "trace"), ("list",), ("search",), ("axes", "axis"), ("line",), ("choice",),
)  # fmt: skip


@dataclass(frozen=True)
class Key:
    """One bindable action; `where` names the widgets that take it, `bar` its word in the footer.

    Those of the main screen come before the focused widget's own keys.
    """

    where: str
    id: str
    keys: str
    action: str
    words: str
    bar: str = ""


TABLE: tuple[Key, ...] = (
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
    Key("main", "resume", "alt+u", "resume", "bring back the cells of an earlier session"),
    Key("main", "lessons", "alt+l", "lessons", "lessons: list them, take one"),
    Key("main", "lesson_next", "alt+o", "learn('next')", "lesson: go on"),
    Key("main", "lesson_back", "alt+p", "learn('back')", "lesson: the step before"),
    Key("main", "lesson_check", "alt+k", "learn('check')", "lesson: run and check the exercise"),
    Key("main", "lesson_hint", "alt+i", "learn('hint')", "lesson: the next hint"),
    Key("main", "lesson_fold", "alt+z", "learn('fold')", "lesson: fold it to a line, or unfold it"),
    Key("main", "quit", "ctrl+q", "quit", "quit", "Quit"),
    Key("main", "wider", "alt+right", "resize(2)", "move the border of the session right"),
    Key("main", "narrower", "alt+left", "resize(-2)", "move the border of the session left"),
    Key("main", "lower", "alt+down", "raise(3)", "move the border of the pane down"),
    Key("main", "higher", "alt+up", "raise(-3)", "move the border of the pane up"),
    *(
        Key("main", f"tab_{number}", f"alt+{number}", f"pane('{pane}')", BY_ID[pane].title.lower())
        for number, pane in enumerate(SIDE_PANES, 1)
    ),
    # Older terminals send ctrl+Enter as plain Enter, and some keep alt+Enter to themselves.
    Key("prompt", "run", "alt+x,alt+enter,ctrl+enter", "run", "run now; in a lesson, check it"),
    Key("prompt", "newline", "ctrl+j,shift+enter", "newline", "new line, whatever stands there"),
    Key("prompt", "complete", "tab", "complete", "complete; indent at a blank"),
    Key("prompt", "signature", "shift+tab", "signature", "documentation of the call at the cursor"),
    Key("prompt", "search", "ctrl+r", "search", "search the history"),
    Key("prompt", "end_input", "ctrl+d", "end_input", "quit when the prompt is empty"),
    Key("prompt", "leave", "escape", "leave", "close the list, or leave the prompt"),
    Key("prompt", "line_up", "up", "line(-1)", "line above, or the input before"),
    Key("prompt", "line_down", "down", "line(1)", "line below, or the input after"),
    Key("prompt", "turn_up", "pageup", "turn('up')", "a page up; in a lesson, of its text"),
    Key("prompt", "turn_down", "pagedown", "turn('down')", "a page down, likewise"),
    Key("prompt", "char_left", "left", "cursor_left", "character to the left"),
    Key("prompt", "char_right", "right", "cursor_right", "to the right; takes the suggestion"),
    Key("prompt", "word_left", "ctrl+left", "cursor_word_left", "word to the left"),
    Key("prompt", "word_right", "ctrl+right", "cursor_word_right", "word to the right"),
    Key("prompt", "line_begin", "home,ctrl+a", "cursor_line_start", "beginning of the line"),
    Key("prompt", "line_finish", "end,ctrl+e", "cursor_line_end", "end of the line"),
    Key("prompt", "cut_word", "ctrl+w", "delete_word_left", "delete the word before"),
    Key("prompt", "cut_word_right", "alt+delete", "delete_word_right", "delete the word after"),
    Key("prompt", "cut_line_end", "ctrl+k", DELETE_LINE_END, "delete to the end of the line"),
    Key("prompt", "cut_line_start", "ctrl+u", "delete_to_start_of_line", "delete up to the cursor"),
    Key("prompt", "cut", "ctrl+x", "cut", "cut what is selected"),
    Key("prompt", "paste", "ctrl+v", "paste", "paste"),
    Key("prompt", "undo", "ctrl+z", "undo", "undo"),
    Key("prompt", "redo", "ctrl+y", "redo", "do again"),
    Key("prompt", "select_all", "alt+a", "select_all", "select all"),
    Key("transcript", "cell_leave", "escape", "screen.pane('prompt')", "back to the prompt"),
    Key("transcript", "cell_up", "up", "move(-1)", "cell above"),
    Key("transcript", "cell_down", "down", "move(1)", "cell below"),
    Key("transcript", "cell_first", "home", "edge(0)", "first cell"),
    Key("transcript", "cell_last", "end", "edge(1)", "last cell"),
    Key("transcript", "cell_fold", "enter", "fold", "fold or unfold the cell"),
    Key("transcript", "cell_explain", UNBOUND, "explain", "explain the error of the cell"),
    Key("transcript", "cell_edit", "alt+w", "edit", "bring the cell back to the prompt"),
    Key("transcript", "cell_copy", "alt+y", "copy", "copy the output of the cell"),
    Key("transcript", "cell_goto", "alt+g", "origin", "go to the cell of the faulty operand"),
    Key("table", "row_up", "up,k", "move(-1)", "row above"),
    Key("table", "row_down", "down,j", "move(1)", "row below"),
    Key("table", "row_page_up", "pageup", "move_page(-1)", "a page up"),
    Key("table", "row_page_down", "pagedown", "move_page(1)", "a page down"),
    Key("table", "row_first", "g,home", "edge(0)", "first row"),
    Key("table", "row_last", "G,end", "edge(1)", "last row"),
    Key("table", "row_open", "enter", "open", "open the row"),
    Key("table", "row_leave", "escape", "leave", "all rows again, or back to the prompt"),
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
    Key("grid", "stop_find", "escape", "ask('stop')", "give a search up, or back to the prompt"),
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
    Key("gradient", "gradient_now", "ctrl+r", "compute", "compute now, however long it takes"),
    Key("gradient", "gradient_loss", "l", "choose", "choose the loss"),
    Key("gradient", "gradient_stop", "c", "stop", "compute no longer"),
    Key("gradient", "gradient_copy", "y", "copy", "copy the row"),
    Key("variables", "trace_name", "t", "trace", "what made the first NaN or infinity in it"),
    Key("variables", "compare_name", "c", "compare", "compare it on engines or under settings"),
    Key("plan", "trace_run", "t", "trace", "what made the first NaN or infinity in the run"),
    Key("transcript", "cell_trace", UNBOUND, "trace", "what made the first NaN shown"),
    Key("watch", "watch_add", "a", "add", "watch one more expression"),
    Key("watch", "watch_edit", "e", "edit", "change the expression"),
    Key("watch", "watch_now", "ctrl+r", "evaluate", "evaluate it now, however long it takes"),
    Key("watch", "watch_full", "space", "full", "all of a value that does not fit the line"),
    Key("watch", "watch_remove", "delete", "remove", "watch it no longer"),
    Key("watch", "watch_copy", "y", "copy", "copy the expression and its value"),
    Key("plan", "plan_sort", "s", "sort", "in the order of the run, or the slowest first"),
    Key("plan", "plan_unfold", "right,l", "unfold", "show what a step runs as one"),
    Key("plan", "plan_fold", "left,h", "fold", "hide it again"),
    Key("plan", "plan_earlier", "left_square_bracket", "other_run(-1)", "an earlier run"),
    Key("plan", "plan_later", "right_square_bracket", "other_run(1)", "a later run"),
    Key("plan", "plan_place", "o", "place", "go to the line that made the step"),
    Key("plan", "plan_details", "i,space", "details", "all about the run: kernels, limits"),
    Key("plan", "plan_measure", "m", "measure", "measure what this machine can do at best"),
    Key("plan", "plan_copy", "y", "copy", "copy the run as a table"),
    Key("plan", "plan_workers", "w", "turn", "the workers of the last fit or map over a cluster"),
    Key("workers", "workers_turn", "w", "turn", "the steps of the last run"),
    Key("workers", "workers_sort", "s", "sort", "in their order, or the longest time first"),
    Key("workers", "workers_earlier", "left_square_bracket", "other_job(-1)", "an earlier job"),
    Key("workers", "workers_later", "right_square_bracket", "other_job(1)", "a later job"),
    Key("workers", "workers_details", "i,space", "details", "all about the job, in words"),
    Key("workers", "workers_copy", "y", "copy", "copy the job in words"),
    Key("graph", "node_leave", "escape", "screen.pane('prompt')", "back to the prompt"),
    Key("graph", "node_up", "up,k", "move(-1)", "node above"),
    Key("graph", "node_down", "down,j", "move(1)", "node below"),
    Key("graph", "node_page_up", "pageup", "move_page(-1)", "a page up"),
    Key("graph", "node_page_down", "pagedown", "move_page(1)", "a page down"),
    Key("graph", "node_first", "g,home", "edge(0)", "first node"),
    Key("graph", "node_last", "G,end", "edge(1)", "last node"),
    Key("graph", "node_place", "enter,o", "place", "go to the line that made the node"),
    Key("graph", "node_toggle", "space", "turn", "fold or unfold what leads to the node"),
    Key("graph", "node_unfold", "right,l", "unfold", "unfold it, or go to its input"),
    Key("graph", "node_fold", "left,h", "fold", "fold it, or go to what uses it"),
    Key("graph", "node_fold_all", "minus", "fold_all(True)", "fold everything"),
    Key("graph", "node_unfold_all", "plus", "fold_all(False)", "unfold everything"),
    Key("graph", "node_search", "slash", "search", "find a node by name, operation or shape"),
    Key("graph", "node_next", "n", "search_again(1)", "find the next one"),
    Key("graph", "node_previous", "N", "search_again(-1)", "find the one before"),
    Key("graph", "node_copy", "y", "copy", "copy what is known of the node"),
    Key("settings", "setting_leave", "escape", "screen.pane('prompt')", "back to the prompt"),
    Key("settings", "setting_up", "up,k", "move(-1)", "setting above"),
    Key("settings", "setting_down", "down,j", "move(1)", "setting below"),
    Key("settings", "setting_less", "left", "turn(-1)", "choice to the left"),
    Key("settings", "setting_more", "right", "turn(1)", "choice to the right"),
    Key("settings", "setting_edit", "enter", "edit", "type a value, or next choice"),
    Key("lesson", "step_leave_text", "escape", "screen.pane('prompt')", "back to the prompt"),
    Key("lesson", "step_next", "enter,right", "screen.learn('next')", "go on"),
    Key("lesson", "step_back", "left", "screen.learn('back')", "the step before"),
    Key("lesson", "step_check", UNBOUND, "screen.learn('check')", "check the exercise"),
    Key("lesson", "step_hint", UNBOUND, "screen.learn('hint')", "the next hint"),
    Key("lesson", "step_solution", UNBOUND, "screen.learn('solution')", "the solution"),
    Key("lesson", "step_skip", UNBOUND, "screen.learn('skip')", "enter the answer"),
    Key("lesson", "step_again", UNBOUND, "screen.learn('again')", "the code, back in the prompt"),
    Key("lesson", "step_play", UNBOUND, "screen.learn('play')", "free play, until you go on"),
    Key("lesson", "step_list", UNBOUND, "screen.learn('list')", "all steps, to go to one"),
    Key("lesson", "step_reset", UNBOUND, "screen.learn('reset')", "begin the lesson anew"),
    Key("lesson", "step_leave", UNBOUND, "screen.learn('leave')", "close the lesson"),
    Key("lesson", "step_up", "up", "scroll_up", "line up"),
    Key("lesson", "step_down", "down", "scroll_down", "line down"),
    Key("lesson", "step_page_up", "pageup", "page_up", "a page up"),
    Key("lesson", "step_page", "pagedown", "page_down", "a page down"),
    Key("lesson", "step_first", "home", "scroll_home", "the beginning"),
    Key("lesson", "step_last", "end", "scroll_end", "the end"),
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
    Key("list", "list_drop", "delete", "drop", "offer a session no more"),
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
    Key("line", "line_close", "escape", "cancel", "give a line up"),
    Key("choice", "choice_close", "escape", "answer('')", "answer a question not at all"),
)


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
