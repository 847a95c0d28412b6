"""The session so far: a list of cells, drawn row by row. Main entry: `transcript.Transcript`."""

from __future__ import annotations

from kbench.tui.keys.key import UNBOUND, Key
from kbench.tui.panes.spec import PaneSpec, Taker

KEYS = (
    Key("transcript", "cell_leave", "escape", "screen.pane('prompt')", "back to the prompt"),
    Key("transcript", "cell_up", "up", "move(-1)", "cell above"),
    Key("transcript", "cell_down", "down", "move(1)", "cell below"),
    Key("transcript", "cell_first", "home", "edge(0)", "first cell"),
    Key("transcript", "cell_last", "end", "edge(1)", "last cell"),
    Key("transcript", "cell_fold", "enter", "fold", "fold or unfold the cell"),
    Key("transcript", "cell_explain", UNBOUND, "explain", "explain the error of the cell"),
    Key("transcript", "cell_edit", "alt+w", "edit", "bring the cell back to the prompt"),
    Key("transcript", "cell_copy", "alt+y", "copy", "copy the output of the cell"),
    Key("transcript", "cell_picture", "alt+d", "save_picture", "write its picture to a PNG file"),
    Key("transcript", "cell_goto", "alt+g", "origin", "go to the cell of the faulty operand"),
    Key("transcript", "cell_trace", UNBOUND, "trace", "trace where the NaN came from"),
)
SPEC = PaneSpec(
    id="transcript",
    title="Session",
    letter="t",
    about="The cells of this session. Up and down choose one; letters go to the prompt.",
    region="session",
    view="kbench.tui.transcript.transcript:Transcript",
    takers=(
        Taker(
            "transcript",
            ("transcript",),
            {
                "cell_leave": "prompt", "cell_fold": "fold", "cell_picture": "save picture",
                "cell_edit": "to prompt",
                "explain": "explain error", "trace_newest": "trace NaN", "cell_copy": "copy",
            },
        ),
    ),
    keys=KEYS,
)  # fmt: skip
