"""Every key of the workbench in one table: id, keys, action, words. `keys.toml` changes the keys.

The file is a table `[keys]` of `id = "key,key"`; ids are those shown on the help page (F1).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from textual.binding import Binding, BindingType


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
    Key("main", "interrupt", "ctrl+c", "interrupt", "copy, interrupt or clear", "Int"),
    Key("main", "explain", "alt+e", "explain", "explain the newest error"),
    Key("main", "save", "alt+s", "save", "write the session to a script or a notebook"),
    Key("main", "restart", "alt+r,ctrl+f5", "restart", "restart the kernel"),
    Key("main", "quit", "ctrl+q", "quit", "quit", "Quit"),
    Key("main", "wider", "alt+right", "resize(2)", "move the border of the session right"),
    Key("main", "narrower", "alt+left", "resize(-2)", "move the border of the session left"),
    Key("main", "tab_1", "alt+1", "pane('variables')", "variables"),
    Key("main", "tab_2", "alt+2", "pane('value')", "value"),
    Key("main", "tab_3", "alt+3", "pane('plan')", "plan"),
    Key("main", "tab_4", "alt+4", "pane('settings')", "settings"),
    # Older terminals send alt+Enter and ctrl+Enter as plain Enter; alt+x reaches every program.
    Key("prompt", "run", "alt+x,alt+enter,ctrl+enter", "run", "run now, complete or not"),
    Key("prompt", "newline", "ctrl+j,shift+enter", "newline", "new line, whatever stands there"),
    Key("prompt", "complete", "tab", "complete", "complete; indent at a blank"),
    Key("prompt", "signature", "shift+tab", "signature", "documentation of the call at the cursor"),
    Key("prompt", "search", "ctrl+r", "search", "search the history"),
    Key("prompt", "end_input", "ctrl+d", "end_input", "quit when the prompt is empty"),
    Key("prompt", "leave", "escape", "leave", "close the list, or leave the prompt"),
    Key("transcript", "cell_up", "up,k", "move(-1)", "cell above"),
    Key("transcript", "cell_down", "down,j", "move(1)", "cell below"),
    Key("transcript", "cell_first", "g,home", "edge(0)", "first cell"),
    Key("transcript", "cell_last", "G,end", "edge(1)", "last cell"),
    Key("transcript", "cell_fold", "enter,space", "fold", "fold or unfold the cell"),
    Key("transcript", "cell_explain", "e", "explain", "explain the error of the cell"),
    Key("transcript", "cell_edit", "r", "edit", "bring the cell back to the prompt"),
    Key("transcript", "cell_copy", "y", "copy", "copy the output of the cell"),
    Key("transcript", "cell_goto", "c", "origin", "go to the cell that made the faulty operand"),
    Key("table", "row_up", "up,k", "move(-1)", "row above"),
    Key("table", "row_down", "down,j", "move(1)", "row below"),
    Key("table", "row_page_up", "pageup", "move_page(-1)", "a page up"),
    Key("table", "row_page_down", "pagedown", "move_page(1)", "a page down"),
    Key("table", "row_first", "g,home", "edge(0)", "first row"),
    Key("table", "row_last", "G,end", "edge(1)", "last row"),
    Key("table", "row_open", "enter", "open", "open the row"),
    Key("variables", "filter", "slash", "filter", "filter by name"),
    Key("variables", "sort", "s", "sort", "sort by name, kind, size or last change"),
    Key("variables", "unfold", "right,l", "unfold", "unfold a model, then its layers"),
    Key("variables", "fold", "left,h", "fold", "fold a model or a layer"),
    Key("variables", "graph", "o", "graph", "follow an output to its inputs"),
    Key("variables", "insert", "i", "insert", "put the name into the prompt"),
    Key("variables", "exact", "x", "exact", "exact statistics of a large array"),
    Key("variables", "copy_name", "y", "copy", "copy the row"),
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
    Key("grid", "axes", "a", "axes", "choose the axes shown and the slice"),
    Key("grid", "index", "colon", "index", "go to an index, or write a slice"),
    Key("grid", "next_nan", "n", "next_nan", "next NaN or infinity"),
    Key("grid", "full", "space", "full", "the value in full precision"),
    Key("grid", "shade", "s", "shade", "heat shading on or off"),
    Key("grid", "copy_cell", "y", "copy", "copy the value"),
    Key("grid", "export", "e", "export", "write the array to a file"),
    Key("settings", "setting_up", "up,k", "move(-1)", "setting above"),
    Key("settings", "setting_down", "down,j", "move(1)", "setting below"),
    Key("settings", "setting_less", "left,h", "turn(-1)", "choice to the left"),
    Key("settings", "setting_more", "right,l", "turn(1)", "choice to the right"),
    Key("settings", "setting_edit", "enter", "edit", "type a value, or next choice"),
)


def of(where: str) -> Iterator[Key]:
    """The rows of one place."""
    return (key for key in TABLE if key.where == where)


def bindings(*places: str) -> list[BindingType]:
    """Textual bindings of the rows of these places, remappable by their ids."""
    return [
        Binding(key.keys, key.action, key.words, show=bool(key.bar),
                priority=key.where == "main", id=key.id)
        for place in places
        for key in of(place)
    ]


def conflicts(mapping: dict[str, str]) -> list[str]:
    """Keys that two actions of one place would share, as lines for people."""
    problems = []
    for place in dict.fromkeys(key.where for key in TABLE):
        seen: dict[str, str] = {}
        for key in of(place):
            for one in mapping.get(key.id, key.keys).split(","):
                if one in seen:
                    problems.append(f"{one} is both {seen[one]} and {key.id} in {place}")
                seen.setdefault(one, key.id)
    return problems


def load(path: Path) -> tuple[dict[str, str], list[str]]:
    """The changes in a keys.toml and what is wrong with them; a missing file changes nothing."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("keys", {})
    except FileNotFoundError:
        return {}, []
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return {}, [f"{path}: {error}; the default keys are used"]
    if not isinstance(table, dict):
        return {}, [f"{path}: 'keys' must be a table of id = \"key,key\""]
    known = {key.id for key in TABLE}
    mapping, problems = {}, []
    for name, keys in table.items():
        if name not in known:
            problems.append(f"{path}: there is no action {name!r}")
        elif not isinstance(keys, str) or not all(one.strip() for one in keys.split(",")):
            problems.append(f"{path}: {name} needs a text such as \"f5,ctrl+e\", got {keys!r}")
        else:
            mapping[name] = ",".join(one.strip() for one in keys.split(","))
    return mapping, problems + conflicts(mapping)
