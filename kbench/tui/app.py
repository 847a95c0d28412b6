"""The Textual app: themes, keys, the link to the kernel; and the command line's entry point."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.filter import LineFilter, Monochrome, NoColor
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.widgets import Input

from kbench.tui.dialogs.pick import ListDialog
from kbench.tui.graphics.graphics import Graphics
from kbench.tui.keys import keymap, keys, terminal_keys
from kbench.tui.keys.key import UNBOUND
from kbench.tui.keys.key_queue import KeyProbe, KeyQueue
from kbench.tui.main_screen import MainScreen
from kbench.tui.panes.watch.controller import WatchController
from kbench.tui.session import ui_state, unsent_input
from kbench.tui.session.link import Link, Opener, open_existing, open_kernel
from kbench.tui.text import draw_cache
from kbench.tui.text.glyphs import ASCII, UNICODE, Glyphs, counted
from kbench.tui.text.text import typed
from kbench.tui.themes import DEFAULT, THEMES, full_name

if TYPE_CHECKING:
    from textual.command import Provider
    from textual.driver import Driver
    from textual.message import Message
    from textual.notifications import SeverityLevel
    from textual.timer import Timer

    from kbench.workbench.session.running_kernels import Kernel
    from kbench.workbench.session.session_interface import Session

KEY_NAMES = {
    "escape": "Esc",
    "enter": "Enter",
    "slash": "/",
    "comma": ",",
    "full_stop": ".",
    "colon": ":",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "at": "@",
    "dollar_sign": "$",
    "circumflex_accent": "^",
    "underscore": "_",
    "plus": "+",
    "minus": "-",
    "space": "Space",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}


RESIZE_PAUSE_SECONDS = 0.2
"""For which a terminal that is resized has held still before all of it is drawn again."""
AWAY_SECONDS = 1.0
"""Seconds without a key, after which somebody has come back."""
HANGUP = 129  # the exit code of a program that ends because its terminal is gone
ONLY_KITTY = ("shift+enter", "ctrl+enter", "ctrl+tab", "ctrl+i", "ctrl+m", "shift+space")


class BlankEnds(ScrollBarRender):
    """Scrollbars without block characters."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


def _commands() -> type[Provider]:
    """Loaded when the palette opens for the first time."""
    from kbench.tui.keys.commands import BenchCommands

    return BenchCommands


class WorkbenchApp(App[int]):
    """The terminal workbench over one session."""

    CSS_PATH = "app.tcss"
    TITLE = "kbench"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_commands}
    COMMAND_PALETTE_BINDING = "ctrl+backslash"  # the main screen binds ctrl+P, remappable
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "pass", show=False, system=True)]

    def __init__(
        self,
        opener: Opener = open_kernel,
        *,
        theme: str = "",
        ascii: bool = False,
        clock: Callable[[], float] = time.monotonic,
        kernels: Sequence[tuple[Kernel, str]] = (),
        resume: bool = False,
        motion: bool = True,
        lesson: int | None = None,
        pictures: str = "auto",
    ) -> None:
        self.graphics = Graphics(pictures)  # of the terminal, which the driver asks for
        self.graphics.redraw = self.draw_again
        self._resize_pause: Timer | None = None
        self._last_input = 0.0
        draw_cache.key_by_colours()
        super().__init__()
        self._no_colours: LineFilter | None = None
        self._textual_greys = self.no_color
        if self.no_color:
            self._drop_colours()
        self.key_queue = KeyQueue(self, super().on_event)
        self.kernels = list(kernels)  # to choose from: (`running_kernels.Kernel`, words)
        self.resume = resume
        self.lesson = lesson  # to be taken at once; 0: one that is chosen first
        self.glyphs: Glyphs = ASCII if ascii else UNICODE
        if not motion:
            self.animation_level = "none"
        self.motion = self.animation_level != "none"
        if not self.motion:
            self.glyphs = replace(self.glyphs, spinner="*")
        self.link = Link(self._from_thread, opener)
        self.clock = clock
        self.last_keys: deque[str] = deque(maxlen=4)
        self.key_seen: Callable[[str], None] | None = None  # told of each key while it is set
        self.kitty_seen = False
        self.frame_seconds = 0.0  # until the first frame was out
        self._created = time.monotonic()
        self.problems: list[str] = []
        self.folder: Path | None = None
        self.progress_file: Path | None = None  # of lessons, where it is not the user's
        self.keymap = keymap.Keymap()
        self._main = MainScreen()
        self._wanted_theme = theme
        ScrollBar.renderer = BlankEnds if ascii else ScrollBarRender
        if ascii:
            self.add_class("ascii")

    def get_default_screen(self) -> Screen[None]:
        """The main screen stands at the bottom of the stack."""
        return self._main

    def _drop_colours(self) -> None:
        """The user wants none, unless the variable is empty, which Textual counts as set."""
        from kbench.engine.runtime.environment import env
        from kbench.tui.text.no_colours import NoColours

        self.no_color = env("NO_COLOR") is not None
        self._no_colours = NoColours(self) if self.no_color else None

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What changes lines before they are drawn: without colours, Textual would draw greys."""
        found = super().get_line_filters()
        if not self._textual_greys:
            return found
        kept = [one for one in found if not isinstance(one, (Monochrome, NoColor))]
        return kept if self._no_colours is None else [*kept, self._no_colours]

    def on_mount(self) -> None:
        """Themes; what the user's files say is taken over once the first frame is out."""
        for theme in THEMES:
            self.register_theme(theme)
        self._take_theme(self._wanted_theme or DEFAULT)

    def get_driver_class(self) -> type[Driver]:
        """Textual's driver, but one that notices when the terminal is gone."""
        found = super().get_driver_class()
        if found.__name__ == "LinuxDriver":  # another system's cannot even be imported
            from kbench.tui.keys.driver import TerminalDriver

            return TerminalDriver
        return found

    def terminal_gone(self) -> None:
        """Nobody sees this any more: end as the hang-up would have, had it not been ignored."""
        self.exit(return_code=HANGUP)

    def terminal_resized(self) -> None:
        """Once it holds still, draw all of it, as it may be another one, or have lost pictures."""
        if self._resize_pause is not None:
            self._resize_pause.stop()
        if self.is_running:
            self._resize_pause = self.set_timer(RESIZE_PAUSE_SECONDS, self.draw_again)

    def draw_again(self) -> None:
        """What the terminal shows is lost: draw it again, pictures included."""
        self.graphics.send_again()
        self._main.refit_transcript()  # its terminal may have other graphics
        self.refresh(layout=True)

    def begin(self) -> None:
        """Start the session; where there is a choice of kernels, once the user has chosen."""
        self.frame_seconds = time.monotonic() - self._created
        if not self.kernels:
            self.link.start()
            return

        def take(at: int | None) -> None:
            if at is None:
                self.exit(0)
            else:
                kernel = self.kernels[at][0]
                self.link.start(lambda: open_existing(kernel))

        rows = [words for _, words in self.kernels]
        self.push_screen(ListDialog("Running kernels", rows), take)

    def _take_theme(self, name: str) -> None:
        name = full_name(name)
        if name in self.available_themes:
            self.theme = name
        else:
            self.problems.append(f"unknown theme {name!r}")
            self.theme = DEFAULT

    def apply_user_files(self, folder: Path | None) -> None:
        """Take over the user's theme, pane sizes and keys, and report what is wrong with them."""
        self.folder = folder
        if folder is not None:
            state, problem = ui_state.load(folder)
            self._main.arrangement.choices.shares.update(state.shares)
            self._watches.restore(state.watches)
            if state.theme and not self._wanted_theme:
                self._take_theme(state.theme)
            self.problems += [problem] * bool(problem)
            self._take_keys()
            self._main.arrangement.relayout()
        for problem in self.problems:
            self.notify(problem, severity="warning", markup=False)

    def _take_keys(self) -> None:
        """Read keys.toml; what was wrong with it before is forgotten."""
        old = self.keymap
        self.keymap = keymap.load(self.keys_file)
        self.problems = [problem for problem in self.problems if problem not in old.problems]
        self.problems += self.keymap.problems
        if self.keymap.changes or old.changes:
            self.set_keymap(self.keymap.changes)
        self._main.bench.prompt.use_vim(self.keymap.preset == "vim")

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Tell the user something for a while, where it covers neither prompt nor output."""
        given = {"title": title, "severity": severity, "timeout": timeout, "markup": markup}
        super().notify(message, **given)  # type: ignore[arg-type]
        words = Content.from_markup(message).plain if markup else message
        seconds = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        self.call_later(self._main.notices.add, words, severity, seconds)

    def clear_notifications(self) -> None:
        """Take away what is told."""
        super().clear_notifications()
        self._main.notices.clear()

    def choose_preset(self, preset: str) -> None:
        """Another set of keys, now and from now on."""
        problem = "settings are not known yet" if self.folder is None else ""
        problem = problem or keymap.choose(self.keys_file, preset)
        self._take_keys()
        self._main.arrangement.relayout()
        severity: SeverityLevel = "warning" if problem else "information"
        self.notify(problem or f"keys as in {preset}", severity=severity, markup=False)

    @property
    def _watches(self) -> WatchController:
        return self._main.panes.controller(WatchController)

    def save_state(self) -> None:
        """Write down what was typed and has not run, the theme, the pane sizes and the watches."""
        if self.folder is not None:
            unsent_input.keep(self.folder, self._main.unsent_input.text)
            theme = "" if self.theme in (DEFAULT, full_name(self._wanted_theme)) else self.theme
            shares, watches = self._main.arrangement.choices.shares, self._watches.expressions
            ui_state.save(self.folder, ui_state.UiState(theme, shares, watches))

    @property
    def keys_file(self) -> Path:
        """Where the user's keys are."""
        return (self.folder or Path()) / "keys.toml"

    @property
    def colours(self) -> str:
        """How many colours the terminal draws, "off" where none are wanted."""
        return "off" if self.no_color else self.console.color_system or "none"

    @property
    def kernel_failed(self) -> bool:
        """True when there never was a kernel."""
        return self._main.session_controller.state == "failed"

    def _from_thread(self, message: Message) -> None:
        if self.is_running:
            self._main.post_message(message)

    def key_word(self, ident: str) -> str:
        """The first of an action's keys, where there is little room."""
        found = self.keymap.changes.get(ident, keys.named(ident).keys)
        return self._written(found.partition(",")[0])

    def key_words(self, ident: str, default: str) -> str:
        """An action's keys as people write them: `F3`, `ctrl+Q`, `Esc`."""
        return self._written(self.keymap.changes.get(ident, default))

    @staticmethod
    def _written(text: str) -> str:
        names = []
        for key in text.split(","):
            *modifiers, last = key.split("+")
            if last == UNBOUND:
                last = ""
            elif last in KEY_NAMES:
                last = KEY_NAMES[last]
            elif last.startswith("f") and last[1:].isdigit():
                last = last.upper()
            elif len(last) > 1:
                last = last.replace("_", " ").capitalize()
            elif modifiers:
                last = last.upper()
            names.append("+".join([*modifiers, last]))
        shown = " ".join(names)
        return shown if len(names) > 1 else shown.replace("ctrl+", "^")

    async def on_event(self, event: events.Event) -> None:
        """Remember the last keys, which the diagnostics show; what is pasted can be drawn."""
        self._note_presence(event)
        if isinstance(event, events.Paste):
            event.text = typed(event.text)
        if isinstance(event, events.Key) and not event.is_forwarded:
            self._note_key(event.key, event.character)
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            await self.key_queue.take(event)
        else:
            await super().on_event(event)

    def _note_presence(self, event: events.Event) -> None:
        """Who comes back may have attached tmux in another terminal, which lacks the pictures."""
        if isinstance(event, events.AppFocus):
            self.graphics.look()
        elif isinstance(event, (events.InputEvent, events.Paste)) and not event.is_forwarded:
            before, self._last_input = self._last_input, time.monotonic()
            if self._last_input - before > AWAY_SECONDS:
                self.graphics.look()

    async def on_key_probe(self, message: KeyProbe) -> None:
        """What was sent behind a key has come back."""
        await self.key_queue.take_probe(message)

    @property
    def clipboard(self) -> str:
        """What was copied, for the editors of the workbench; the terminal got it as it is."""
        text = typed(super().clipboard)
        return text.partition("\n")[0] if isinstance(self.focused, Input) else text

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Where nothing shall move, no cursor blinks."""
        if not self.motion and hasattr(event.widget, "cursor_blink"):
            event.widget.cursor_blink = False

    def _note_key(self, key: str, character: str | None) -> None:
        """Keep what the diagnostics show: the key's name, its character, its meaning."""
        from kbench.tui.dialogs.diagnostics import meaning

        codes = " ".join(f"U+{ord(letter):04X}" for letter in character or "")
        words = f"{key}{' ' * bool(codes)}{codes}: {meaning(key, self.keymap.changes)}"
        self.kitty_seen = self.kitty_seen or key in ONLY_KITTY
        self.last_keys.append(words)
        if self.key_seen is not None:
            self.key_seen(words)

    async def action_quit(self) -> None:
        """Textual's own key for quitting asks first, too."""
        self._main.action_quit()

    def action_command_palette(self) -> None:
        """The palette, with words that every terminal can draw."""
        from kbench.tui.keys.commands import Palette

        if not any(isinstance(screen, Palette) for screen in self.screen_stack):
            words = "part of a command's name"
            self.push_screen(Palette(placeholder=words, id="--command-palette"))

    def search_themes(self) -> None:
        """The palette of themes."""
        from textual.theme import ThemeProvider

        from kbench.tui.keys.commands import Palette

        self.push_screen(Palette(providers=[ThemeProvider], placeholder="part of a theme's name"))

    def action_pass(self) -> None:
        """Dialogs ignore ctrl+C; Textual would offer to quit."""


def run(options: object) -> int:
    """Open the workbench; `options` are the command line's. Returns the exit code."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    ascii_wanted = bool(getattr(options, "ascii", False)) or not encoding.startswith("utf")
    if sys.__stderr__ is None or not sys.__stderr__.isatty():
        # Textual draws on standard error; where that goes to a file, the terminal is stdout.
        setattr(sys, "__stderr__", sys.__stdout__)  # noqa: B010 - typed as final
    kernels = list(getattr(options, "kernels", ()))
    opener = open_kernel
    if len(kernels) == 1:
        opener = partial(open_existing, kernels.pop()[0])
    terminal_keys.restore()
    app = WorkbenchApp(
        opener,
        theme=getattr(options, "theme", None) or "",
        ascii=ascii_wanted,
        kernels=kernels,
        resume=bool(getattr(options, "resume", False)),
        motion=bool(getattr(options, "motion", True)),
        lesson=getattr(options, "lesson", None),
        pictures=getattr(options, "pictures", None) or "auto",
    )
    failed = True
    try:
        code = app.run()
        app.save_state()
        failed = bool(app.return_code)
    finally:
        app.link.close(failed)
    words = _resume_words(app.link.session)
    if words and sys.stderr is not None and sys.stderr.isatty():
        print(words, file=sys.stderr)
    if app.return_code == HANGUP:
        _drop_output()
    if app.return_code:
        return app.return_code
    return 3 if app.kernel_failed and not code else int(code or 0)


def _drop_output() -> None:
    """Let go of what is still to be written to a terminal that is gone: Python would end with
    another code, as it could not."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            os.dup2(nothing, stream.fileno())


def _resume_words(session: Session | None) -> str:
    """How the cells of a session that has been left come back, '' when there are none."""
    if session is None or session.journal.path is None:
        return ""
    ran = sum(cell.count is not None and not cell.origin for cell in session.cells.values())
    if not ran:
        return ""
    which = "it" if ran == 1 else "them"
    return f"kbench: {counted(ran, 'cell')} ran here; kbench --resume restores {which}"
