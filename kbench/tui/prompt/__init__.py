"""The prompt: a Python editor with completions and signatures. Main entry: `prompt.Prompt`."""

from __future__ import annotations

from kbench.tui.keys.key import Key
from kbench.tui.panes.spec import PaneSpec, Taker

DELETE_LINE_END = "delete_to_end_of_line_or_delete_line"
KEYS = (
    # Older terminals send ctrl+Enter as plain Enter, and some keep alt+Enter to themselves.
    Key("prompt", "run", "alt+x,alt+enter,ctrl+enter", "run", "run now; in a lesson, check it"),
    Key("prompt", "newline", "ctrl+j,shift+enter", "newline", "insert newline"),
    Key(
        "prompt",
        "complete",
        "tab",
        "complete",
        "complete; indent; next ___ of a lesson",
    ),
    Key("prompt", "signature", "shift+tab", "signature", "documentation of the call at the cursor"),
    Key("prompt", "search", "ctrl+r", "search", "search the history"),
    Key("prompt", "end_input", "ctrl+d", "end_input", "quit when the prompt is empty"),
    Key("prompt", "leave", "escape", "leave", "close the list, or leave the prompt"),
    Key("prompt", "line_up", "up", "line(-1)", "line above, or the input before"),
    Key("prompt", "line_down", "down", "line(1)", "line below, or the input after"),
    Key("prompt", "turn_up", "pageup", "turn('up')", "page up (in a lesson: its text)"),
    Key("prompt", "turn_down", "pagedown", "turn('down')", "page down (in a lesson: its text)"),
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
    Key("prompt", "redo", "ctrl+y", "redo", "redo"),
    Key("prompt", "select_all", "alt+a", "select_all", "select all"),
)
SPEC = PaneSpec(
    id="prompt",
    title="Prompt",
    letter="p",
    about="Type Python. Enter runs it once it is complete; K is the backend, np NumPy.",
    region="session",
    view="kbench.tui.prompt.prompt:Prompt",
    takers=(Taker("prompt", ("prompt",), {"complete": "complete", "search": "search"}),),
    keys=KEYS,
)  # fmt: skip
