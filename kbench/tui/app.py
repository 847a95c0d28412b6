"""The Textual app: themes, keys, the link to the kernel; and the command line's entry point."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.screen import Screen

from kbench.tui import keys
from kbench.tui.glyphs import ASCII, UNICODE, Glyphs
from kbench.tui.link import Link, Opener, open_kernel
from kbench.tui.screens.main import MainScreen
from kbench.tui.themes import DEFAULT, THEMES

KEY_NAMES = {
    "escape": "Esc", "enter": "Enter", "slash": "/", "colon": ":", "left_square_bracket": "[",
    "right_square_bracket": "]", "space": "Space", "pageup": "PgUp", "pagedown": "PgDn",
}


class WorkbenchApp(App[int]):
    """The terminal workbench over one session."""

    CSS_PATH = "app.tcss"
    TITLE = "kbench"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+backslash"  # the main screen binds ctrl+P, remappable
    BINDINGS: ClassVar[list[Any]] = [Binding("ctrl+c", "pass", show=False, system=True)]

    def __init__(
        self,
        opener: Opener = open_kernel,
        *,
        theme: str = DEFAULT,
        ascii: bool = False,
        folder: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.glyphs: Glyphs = ASCII if ascii else UNICODE
        self.link = Link(self._from_thread, opener)
        self.clock = clock
        self.last_key = "none yet"
        self.problems: list[str] = []
        self.folder = folder
        self.keymap: dict[str, str] = {}
        self._main = MainScreen()
        self._wanted_theme = theme
        if ascii:
            self.add_class("ascii")

    def get_default_screen(self) -> Screen[None]:
        """The main screen stands at the bottom of the stack."""
        return self._main

    def on_mount(self) -> None:
        """Themes; the keys file is read once the first frame is out."""
        for theme in THEMES:
            self.register_theme(theme)
        if self._wanted_theme in self.available_themes:
            self.theme = self._wanted_theme
        else:
            self.problems.append(f"there is no theme {self._wanted_theme!r}")

    def settled(self) -> None:
        """Everything is mounted: take over the user's keys and report what is wrong with them."""
        if self.folder is not None:
            self.keymap, problems = keys.load(self.keys_file)
            self.problems += problems
            if self.keymap:
                self.set_keymap(self.keymap)
        for problem in self.problems:
            self.notify(problem, severity="warning", markup=False)

    @property
    def keys_file(self) -> Path:
        """Where the user's keys are."""
        return (self.folder or Path()) / "keys.toml"

    def _from_thread(self, message: Any) -> None:
        if self.is_running:
            self._main.post_message(message)

    def key_words(self, ident: str, default: str) -> str:
        """A key as people write it: `F3`, `ctrl+Q`, `Esc`."""
        names = []
        for key in self.keymap.get(ident, default).split(","):
            *modifiers, last = key.split("+")
            if last in KEY_NAMES:
                last = KEY_NAMES[last]
            elif last.startswith("f") and last[1:].isdigit():
                last = last.upper()
            names.append("+".join([*modifiers, last.upper() if modifiers else last]))
        shown = " ".join(names)
        return shown if len(names) > 1 else shown.replace("ctrl+", "^")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action of the main screen, and the themes."""
        for key in keys.of("main"):
            if key.id != "palette":
                words = f"{key.words} ({self.key_words(key.id, key.keys)})"
                yield SystemCommand(key.id.replace("_", " "), words, self._runner(key.action))
        yield SystemCommand("theme", "change the theme", self.action_change_theme)

    def _runner(self, action: str) -> Callable[[], Any]:
        async def run() -> None:
            await self._main.run_action(action)

        return run

    async def on_event(self, event: events.Event) -> None:
        """Remember the last key, which the diagnostics show."""
        if isinstance(event, events.Key):
            self.last_key = f"{event.key} {event.character!r}"
        await super().on_event(event)

    def action_pass(self) -> None:
        """Dialogs ignore ctrl+C; Textual would offer to quit."""


def run(options: Any) -> int:
    """Open the workbench; `options` are the command line's. Returns the exit code."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    ascii_wanted = bool(getattr(options, "ascii", False)) or not encoding.startswith("utf")
    app = WorkbenchApp(theme=getattr(options, "theme", None) or DEFAULT, ascii=ascii_wanted)
    try:
        code = app.run()
    finally:
        app.link.close()
    if app.return_code:
        return app.return_code
    return 3 if app._main.conductor.state == "failed" and not code else int(code or 0)
