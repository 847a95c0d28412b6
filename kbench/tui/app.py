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

from kbench.tui import keys, remembered
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
        theme: str = "",
        ascii: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.glyphs: Glyphs = ASCII if ascii else UNICODE
        self.link = Link(self._from_thread, opener)
        self.clock = clock
        self.last_key = "none yet"
        self.problems: list[str] = []
        self.folder: Path | None = None
        self.keymap: dict[str, str] = {}
        self._main = MainScreen()
        self._wanted_theme = theme
        if ascii:
            self.add_class("ascii")

    def get_default_screen(self) -> Screen[None]:
        """The main screen stands at the bottom of the stack."""
        return self._main

    def on_mount(self) -> None:
        """Themes; what the user's files say is taken over once the first frame is out."""
        for theme in THEMES:
            self.register_theme(theme)
        self._take_theme(self._wanted_theme or DEFAULT)

    def _take_theme(self, name: str) -> None:
        if name in self.available_themes:
            self.theme = name
        else:
            self.problems.append(f"there is no theme {name!r}")
            self.theme = DEFAULT

    def settle(self, folder: Path | None) -> None:
        """Take over the user's theme, pane sizes and keys, and report what is wrong with them."""
        self.folder = folder
        if folder is not None:
            state, problem = remembered.load(folder)
            self._main.choices.shares.update(state.shares)
            if state.theme and not self._wanted_theme:
                self._take_theme(state.theme)
            self.keymap, problems = keys.load(self.keys_file)
            self.problems += [problem] * bool(problem) + problems
            if self.keymap:
                self.set_keymap(self.keymap)
            self._main.relayout()
        for problem in self.problems:
            self.notify(problem, severity="warning", markup=False)

    def remember(self) -> None:
        """Write down the theme and the pane sizes."""
        if self.folder is not None:
            theme = "" if self.theme in (DEFAULT, self._wanted_theme) else self.theme
            remembered.save(self.folder, remembered.Remembered(theme, self._main.choices.shares))

    @property
    def keys_file(self) -> Path:
        """Where the user's keys are."""
        return (self.folder or Path()) / "keys.toml"

    @property
    def kernel_failed(self) -> bool:
        """True when there never was a kernel."""
        return self._main.conductor.state == "failed"

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

    async def action_quit(self) -> None:
        """Textual's own key for quitting asks first, too."""
        self._main.action_quit()

    def action_pass(self) -> None:
        """Dialogs ignore ctrl+C; Textual would offer to quit."""


def run(options: Any) -> int:
    """Open the workbench; `options` are the command line's. Returns the exit code."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    ascii_wanted = bool(getattr(options, "ascii", False)) or not encoding.startswith("utf")
    if sys.__stderr__ is None or not sys.__stderr__.isatty():
        # Textual draws on standard error; where that goes to a file, the terminal is stdout.
        setattr(sys, "__stderr__", sys.__stdout__)  # noqa: B010 - typed as final
    app = WorkbenchApp(theme=getattr(options, "theme", None) or "", ascii=ascii_wanted)
    try:
        code = app.run()
        app.remember()
    finally:
        app.link.close()
    if app.return_code:
        return app.return_code
    return 3 if app.kernel_failed and not code else int(code or 0)
