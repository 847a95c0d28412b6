"""What the palette offers: the focused pane's actions, those of every place, themes, keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.widgets import OptionList

from kbench.tui.dialogs.modal import ClosesOnce
from kbench.tui.keys import keys
from kbench.tui.keys.presets import PRESETS
from kbench.tui.panes.registry import BY_ID, FOCUS_ORDER
from kbench.tui.themes import MUTED

if TYPE_CHECKING:
    from kbench.tui.screen_bench import ScreenBench

# Actions that only move a cursor or edit a line: found when searched for, not in the way before.
MINOR_ACTIONS = (
    "move", "step", "page", "edge", "line", "cursor", "slice", "ask('slice'", "ask('channel'",
    "delete", "cut", "paste", "undo", "redo", "select_all", "newline", "leave", "end_input",
)  # fmt: skip


class Command(Struct, frozen=True):
    """One line of the palette: `where` is a pane's title or '', `shown` its key."""

    where: str
    words: str
    shown: str
    ident: str
    run: Callable[[], object]
    first: bool = True  # offered before anything is typed

    @property
    def text(self) -> str:
        """What is searched and shown."""
        return f"{self.where}: {self.words}" if self.where else self.words


class CommandScreen(Protocol):
    """What the palette needs of the screen below it."""

    bench: ScreenBench

    def offers(self, action: str) -> bool:
        """Whether an action has a use now."""


class Palette(ClosesOnce, CommandPalette):  # type: ignore[misc]
    """Textual's, which a double click beside it must not close twice."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the list are for one that has room: Textual fails to turn pages of no rows."""
        return action != "command_list" or self.query_one(OptionList).size.area > 0


class BenchCommands(Provider):
    """All commands of the workbench, in the order of how near they are."""

    def commands(self) -> Iterator[Command]:
        """The focused pane's, the workbench's, then what is only found by searching."""
        screen, app = self.screen, self.app
        ours = cast(CommandScreen, screen)
        bench, known = ours.bench, ours.bench.app
        here = bench.arrangement.focused_pane()
        yield from self._of_pane(bench, here, True)
        for key in keys.of("main"):
            if key.id != "palette" and ours.offers(key.action):
                shown = known.key_words(key.id, key.keys)
                yield Command("", key.words, shown, key.id, partial(screen.run_action, key.action))
        yield Command("", "change the theme", "", "theme", app.action_change_theme)
        for preset in PRESETS:
            now = " (now)" if preset == known.keymap.preset else ""
            words = f"keys as in {preset}{now}"
            yield Command("", words, "", "preset", partial(known.choose_preset, preset))
        for pane in FOCUS_ORDER:
            if pane != here and bench.arrangement.choices.has(pane):
                yield from self._of_pane(bench, pane, False)
        for theme in sorted(app.available_themes):
            run = partial(setattr, app, "theme", theme)
            yield Command("", f"theme {theme}", "", "theme", run, False)

    def _of_pane(self, bench: ScreenBench, pane: str, first: bool) -> Iterator[Command]:
        for place in bench.arrangement.key_taker(pane).places:
            for key in keys.of(place):
                shown = bench.app.key_words(key.id, key.keys)
                run = partial(_act, bench, pane, key.action)
                near = first and not key.action.startswith(MINOR_ACTIONS)
                yield Command(BY_ID[pane].title, key.words, shown, key.id, run, near)

    async def discover(self) -> Hits:
        """Before anything is typed."""
        for command in self.commands():
            if command.first:
                yield DiscoveryHit(
                    _line(Content(command.text), command.shown), command.run, command.text
                )

    async def search(self, query: str) -> Hits:
        """By words and ids; what is near comes first where both fit alike."""
        matcher = self.matcher(query)
        for at, command in enumerate(self.commands()):
            score = matcher.match(command.text)
            if score > 0:
                shown = _line(matcher.highlight(command.text), command.shown)
                yield Hit(score + 1e-4 / (at + 1), shown, command.run, text=command.text)
            elif query.lower().replace(" ", "_") in command.ident:
                yield Hit(
                    1e-3 / (at + 1),
                    _line(Content(command.text), command.shown),
                    command.run,
                    command.text,
                )


def _line(words: Content, shown: str) -> Content:
    return words + Content.styled(f"   {shown}", MUTED) if shown else words


def _act(bench: ScreenBench, pane: str, action: str) -> None:
    """Run an action of a pane, which is brought to the front first."""
    bench.go(pane)

    async def run() -> None:
        widget = bench.arrangement.taker(pane)
        if widget is not None:
            await widget.run_action(action)

    bench.after_refresh(run)
