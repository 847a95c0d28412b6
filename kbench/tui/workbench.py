"""The app as what is below it sees it: its own members, beside those of every Textual app."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from textual.dom import DOMNode

if TYPE_CHECKING:
    from kbench.tui.graphics.graphics import Graphics
    from kbench.tui.keys.key_queue import KeyQueue
    from kbench.tui.keys.keymap import Keymap
    from kbench.tui.session.link import Link
    from kbench.tui.text.glyphs import Glyphs


class Workbench(Protocol):
    """What widgets, dialogs and controllers may ask of the app; `WorkbenchApp` has all of it."""

    glyphs: Glyphs
    graphics: Graphics
    motion: bool
    link: Link
    clock: Callable[[], float]
    key_queue: KeyQueue
    keymap: Keymap
    resume: bool  # an earlier session is asked for
    lesson: int | None  # to be taken at once; 0: one that is chosen first
    progress_file: Path | None  # of lessons, where it is not the user's
    problems: list[str]  # with the user's files
    last_keys: deque[str]
    key_seen: Callable[[str], None] | None  # told of each key while it is set
    kitty_seen: bool
    frame_seconds: float

    @property
    def theme(self) -> str:
        """The name of the theme in use."""

    @property
    def colours(self) -> str:
        """How many colours the terminal draws: "off", "none", "256", "truecolor" ..."""

    @property
    def keys_file(self) -> Path:
        """Where the user's keys are."""

    def key_word(self, ident: str) -> str:
        """The first of an action's keys, as people write it."""

    def key_words(self, ident: str, default: str) -> str:
        """All keys of an action, of which `default` are those of the table."""

    def choose_preset(self, preset: str) -> None:
        """Another set of keys, now and from now on."""

    def draw_again(self) -> None:
        """Draw everything that is on the screen again."""

    def begin(self) -> None:
        """Start the session."""

    def apply_user_files(self, folder: Path | None) -> None:
        """Take over the user's theme, pane sizes, watches and keys."""

    def save_state(self) -> None:
        """Write down what is kept for the next session."""


def workbench(node: DOMNode) -> Workbench:
    """The app of a widget or a screen."""
    return cast(Workbench, node.app)
