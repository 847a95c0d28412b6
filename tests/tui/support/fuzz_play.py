"""Performs the actions of `fuzz_actions.py` at a workbench, and looks after each what is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench_screen import text_of
from fuzz_actions import Action, Setting
from fuzz_session import FuzzSession
from textual import events
from textual._xterm_parser import XTermParser
from textual.geometry import Region, Size
from textual.keys import _character_to_key
from textual.widgets import Input

from kbench.tui.app import WorkbenchApp
from kbench.tui.dialogs.dialogs import ChoiceDialog
from kbench.tui.keys import keymap
from kbench.tui.main_screen import MainScreen
from kbench.tui.session.link import Opened, open_kernel
from kbench.tui.text.lines import LineView

PATIENCE = 60.0  # seconds in which even a busy machine answers a key
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
HIDDEN = re.compile("[\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
LOSS = 4  # characters that a single action may take from the prompt for good
NARROWEST = 20  # cells; rows may be cut at the edge of what is narrower
MOST_WIDGETS = 60  # of the main screen, its scrollbars and the app
UNDOABLE = 40  # steps back in which a text is found again


class Failed(Exception):
    """Something that must not happen; the text says what."""


class Player:
    """One workbench after another in one folder, as a user who leaves and comes back."""

    def __init__(self, setting: Setting, folder: Path) -> None:
        self.setting = setting
        self.folder = folder
        self.app: Any = None
        self.pilot: Any = None
        self.done: list[tuple[float, Action]] = []  # seconds that each action took
        self.broken: list[str] = []  # of what nobody waits for
        self._parser = XTermParser()
        self._size = setting.size
        self._text = ""  # of the prompt when the last action was over

    # ------------------------------------------------------------------ one workbench after another

    async def play(self, actions: list[Action]) -> None:
        """All actions; raises `Failed`, or what the app has raised."""
        left = deque(actions)
        if self.setting.preset != "default":
            keymap.choose(self.folder / "keys.toml", self.setting.preset)
        asyncio.get_running_loop().set_exception_handler(self._lost)
        while True:
            async with self._workbench():
                while left and self.app.is_running and self.app._exit is False:
                    await self._act(left.popleft())
                if not left:
                    await self._recover()
            if not left:
                break

    @contextlib.asynccontextmanager
    async def _workbench(self) -> Any:
        """A workbench that is opened, and left as the command leaves it."""
        setting = self.setting
        options = {"ascii": setting.ascii, "motion": setting.motion, "theme": setting.theme}
        opener = open_kernel if setting.real else self._open
        self.app = app = WorkbenchApp(opener, **options)
        try:
            async with app.run_test(size=self._size, notifications=True) as self.pilot:
                await self._opened()
                yield
            self._text = app._main.unsent_input.text
            app.save_state()
        finally:
            app.link.close()

    def _open(self) -> Opened:
        return Opened(FuzzSession(self.folder), None, self.folder)

    async def _opened(self) -> None:
        """What was typed and did not run is there again."""
        end = time.monotonic() + PATIENCE
        while self.app.link.session is None or self.app.folder is None:
            if time.monotonic() > end:
                raise Failed("the session did not come")
            await self.pilot.pause(0.02)
        await self._settle()
        kept, prompt = self._text.strip(), self._prompt
        if kept and prompt.text.strip() != kept:
            raise Failed(f"the draft {kept[:200]!r} came back as {prompt.text[:200]!r}")
        self._text = prompt.text

    def _lost(self, _: Any, context: dict[str, Any]) -> None:
        self.broken.append(f"{context.get('message')}: {context.get('exception')!r}")

    # ------------------------------------------------------------------ actions

    async def _act(self, action: Action) -> None:
        began = time.monotonic()
        main = self.app._main
        busy = main.session_controller.state == "busy" and self._running()
        asked = isinstance(self.app.screen, ChoiceDialog)
        ran = len(self._session.cells)
        await self._perform(action)
        await self._settle()
        self.done.append((time.monotonic() - began, action))
        if self.app._exit or not self.app.is_running:
            if busy and self._running() and not asked and not self.setting.real:
                raise Failed("it was left without a question while a cell ran")
            return
        await self._looked_at()
        if self.broken:
            raise Failed("; ".join(self.broken))
        self._look_at_the_draft(action, len(self._session.cells) > ran)

    async def _looked_at(self) -> None:
        """What is wrong on the screen, and stays so once a layout under way is there."""
        for pause in (0.05, 0.2, 1.0, 0.0):
            if not self.app.is_running or self.app._exit:
                return
            try:
                check(self.app)
                return
            except Failed:
                if not pause:
                    raise
            await asyncio.sleep(pause)
            await self._settle()

    async def _perform(self, action: Action) -> None:
        kind, *rest = action
        if kind == "burst":
            for one in rest[0]:
                await self._perform(one)
                await asyncio.sleep(0)
            return
        await getattr(self, f"_do_{kind}")(*rest)

    async def _do_key(self, key: str) -> None:
        if key in ("/", "slash") and isinstance(self.app.focused, Input):
            key = "_"  # nothing shall be written outside of the folder
        if len(key) == 1 and not key.isalnum():
            key = _character_to_key(key)
        character = key if len(key) == 1 else CHARACTERS.get(key)
        if key.startswith("alt+") and len(key) == 5:
            character = key[-1]
        self._send(events.Key(key, character))

    async def _do_type(self, text: str) -> None:
        for one in text:
            await self._do_key({"\t": "tab", " ": "space"}.get(one, one))

    async def _do_paste(self, text: str) -> None:
        if isinstance(self.app.focused, Input):
            text = text.replace("/", "_")
        await self._do_sent(f"\x1b[200~{text}\x1b[201~")

    async def _do_cell(self, code: str) -> None:
        if len(self.app.screen_stack) > 1:
            return
        await self._do_key("f2")
        await self._settle()
        self._prompt.put(code)
        others = ("emacs", "vim")
        key = "alt+enter" if self.app.keymap.preset in others else "alt+x"
        self._send(events.Key(key, None))

    async def _do_click(self, x: float, y: float, button: int = 0) -> None:
        at = "{};{}".format(*self._place(x, y))
        await self._do_sent(f"\x1b[<{button};{at}M\x1b[<{button};{at}m")

    async def _do_twice(self, x: float, y: float) -> None:
        await self._do_click(x, y)
        await self._do_click(x, y)

    async def _do_move(self, x: float, y: float) -> None:
        await self._do_sent("\x1b[<35;{};{}M".format(*self._place(x, y)))

    async def _do_drag(self, x: float, y: float, to_x: float, to_y: float) -> None:
        begin, end = self._place(x, y), self._place(to_x, to_y)
        middle = ((begin[0] + end[0]) // 2, (begin[1] + end[1]) // 2)
        await self._do_sent("\x1b[<0;{};{}M".format(*begin))
        for place in (middle, end):
            await self._settle()
            await self._do_sent("\x1b[<32;{};{}M".format(*place))
        await self._do_sent("\x1b[<0;{};{}m".format(*end))

    async def _do_scroll(self, x: float, y: float, turn: str, count: int) -> None:
        code = {"up": 64, "down": 65, "left": 66, "right": 67}[turn]
        await self._do_sent("\x1b[<{};{};{}M".format(code, *self._place(x, y)) * count)

    async def _do_sent(self, text: str) -> None:
        for message in self._parser.feed(text):
            self.app._driver.process_message(message)

    async def _do_resize(self, width: int, height: int) -> None:
        self._size = (width, height)
        size = Size(width, height)
        self.app._driver._size = size
        self.app.post_message(events.Resize(size, size))

    async def _do_theme(self, name: str) -> None:
        self.app.theme = name

    async def _do_preset(self, name: str) -> None:
        self.app.choose_preset(name)

    async def _do_wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _do_kernel(self, what: str) -> None:
        if not self.setting.real:
            self._session.act(what)
        elif what == "die" and self._session.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._session.pid, signal.SIGKILL)
        elif what == "revive" and self.app._main.session_controller.state == "dead":
            self._session.restart(replay=False)
        elif what == "finish":
            self._session.interrupt()

    # ------------------------------------------------------------------ help

    @property
    def _session(self) -> Any:
        return self.app.link.session

    @property
    def _prompt(self) -> Any:
        return self.app._main.query_one("#prompt")

    def _running(self) -> bool:
        return self._session.running() is not None

    def _place(self, x: float, y: float) -> tuple[int, int]:
        width, height = self.app.size
        return min(int(x * width), width - 1) + 1, min(int(y * height), height - 1) + 1

    def _send(self, event: Any) -> None:
        event.set_sender(self.app)
        self.app._driver.send_message(event)

    async def _settle(self) -> None:
        """Everything that was sent has been answered, and the screen is laid out."""
        end = time.monotonic() + PATIENCE
        rounds = 2
        while rounds:
            await asyncio.sleep(0)
            for _ in range(2):
                if not self.app.is_running or self.app._exit:
                    return
                await self.pilot._wait_for_screen(PATIENCE)
            screen = self.app.screen
            screen._on_timer_update()
            rounds -= 1
            unfit = self.app._resize_timer is not None or screen.size != self.app.size
            if unfit or self.app.key_queue.busy:
                await asyncio.sleep(0.005)
                rounds = 2
                if time.monotonic() > end:
                    what = (
                        "a key is held up" if self.app.key_queue.busy else f"it is of {screen.size}"
                    )
                    raise Failed(f"{screen!r} on a screen of {self.app.size}: {what}")

    def _look_at_the_draft(self, action: Action, ran: bool) -> None:
        """What a single action has taken from the prompt comes back by undo; redo takes it."""
        before, prompt = self._text, self._prompt
        now = self._text = prompt.text
        if action[0] == "burst" or ran or len(before.strip()) - len(now.strip()) < LOSS:
            return
        if not self._found(before, "undo", "redo") and not self._found(before, "redo", "undo"):
            raise Failed(f"neither undo nor redo brings {before[:200]!r} back")
        if prompt.text != now:
            raise Failed(f"undo and redo make {prompt.text[:200]!r} of {now[:200]!r}")

    def _found(self, wanted: str, there: str, back: str) -> bool:
        """Whether some steps, "undo" or "redo", bring a text to the prompt; they are taken back."""
        prompt, steps = self._prompt, 0
        while not _holds(prompt.text, wanted) and steps < UNDOABLE:
            if not getattr(prompt.history, f"{there}_stack"):
                break
            getattr(prompt, there)()
            steps += 1
        found = _holds(prompt.text, wanted)
        for _ in range(steps):
            getattr(prompt, back)()
        return found

    async def _recover(self) -> None:
        """Escape closes whatever is open, and a cell that is typed runs."""
        if not self.app.is_running or self.app._exit:
            return
        await self._do_sent("\x1b[I")
        for _ in range(12):
            if len(self.app.screen_stack) == 1:
                break
            await self._do_key("escape")
            await self._settle()
        if len(self.app.screen_stack) > 1:
            raise Failed(f"Escape does not close {self.app.screen!r}")
        await self._settle()
        kept = [one for one in self.app._registry if not type(one).__name__.startswith("Toast")]
        if len(kept) > MOST_WIDGETS:
            raise Failed(f"{len(kept)} widgets are left when all dialogs are closed: {kept}")
        await self._do_resize(120, 40)
        await self._settle()
        await self._do_key("f2")
        await self._settle()
        if self.app.focused is not self._prompt:
            raise Failed(f"F2 does not go to the prompt but to {self.app.focused!r}")
        if self._prompt.vim is not None:  # whose letters are commands
            await self._do_preset("default")
            await self._settle()
        self._prompt.put("")
        await self._do_type("seven")
        await self._settle()
        if self._prompt.text != "seven":
            raise Failed(f"typing gives {self._prompt.text!r}")
        await self._alive()

    async def _alive(self) -> None:
        """The kernel, be it a new one, runs another cell behind those that wait."""
        session, session_controller = self._session, self.app._main.session_controller
        end = time.monotonic() + 2 * PATIENCE
        interrupted = 0.0
        while self._prompt.answering and time.monotonic() < end - PATIENCE:  # cells that ask first
            self._send(events.Key("enter", "\r"))
            await self.pilot.pause(0.05)
            if not self.setting.real:
                session.act("finish")
                await self.pilot.pause(0.05)
        self._prompt.put("6 * 7_0")
        self._send(events.Key("enter", "\r"))
        while not re.search(r"Out\[\d+\]: (420|6 \* 7_0)", drawn := text_of(self.app)):
            await self.pilot.pause(0.05)
            if session_controller.state == "dead":  # a waiting cell may end the next kernel as well
                session.restart(replay=False)
                await self.pilot.pause(0.2)
            if not self.setting.real:
                session.act("finish")
            elif time.monotonic() > max(end - PATIENCE, interrupted + 5) and self._running():
                interrupted = time.monotonic()  # at once again, it would meet the cell behind
                session.interrupt()
            if time.monotonic() > end:
                raise Failed(f"the last cell did not run: {drawn}")


CHARACTERS = {"space": " ", "slash": "/", "colon": ":", "left_square_bracket": "[", "enter": "\r",
              "right_square_bracket": "]", "minus": "-", "plus": "+", "tab": "\t",
              "escape": "\x1b", "backspace": "\x7f"}  # fmt: skip


def _holds(text: str, wanted: str) -> bool:
    """Whether all of `wanted` stands in a text, which may have more in between."""
    left = iter(text)
    return all(one in left for one in wanted)


def check(app: Any) -> None:
    """What holds after each action, whatever it was."""
    screen = app.screen
    width, height = app.size
    whole = Region(0, 0, width, height)
    for child in screen.children if width >= NARROWEST // 2 and height > 3 else ():
        if child.display and child.region.area and child.region not in whole:
            raise Failed(f"{child!r} stands at {child.region} on a screen of {width}x{height}")
    strips = screen._compositor.render_strips()
    if len(strips) > height or any(strip.cell_length > width for strip in strips):
        raise Failed(f"rows are longer than the screen of {width}x{height}")
    for strip in strips:
        text = "".join(part.text for part in strip)
        if CONTROL.search(text) or HIDDEN.search(text):
            raise Failed(f"a row holds characters that must not be sent: {text!r}")
    for view in screen.query(LineView).results(LineView):
        if view.display and view.size.area:
            _check_rows(view)
    if isinstance(screen, MainScreen) and app.app_focus:
        focused = screen.focused
        if focused is None or not focused.display or not focused.region.overlaps(whole):
            raise Failed(f"the focus is on {focused!r}, which is not on the screen")


def _check_rows(view: Any) -> None:
    top = int(view.scroll_offset.y)
    for y in range(top, min(top + view.size.height, view.row_count())):
        row = view.row(y)
        if row.cell_length > max(view.size.width, NARROWEST):
            raise Failed(f"row {y} of {view!r} is longer than it: {row.plain!r}")


def told(setting: Setting, actions: list[Action]) -> str:
    """What a failure is replayed with."""
    return json.dumps([asdict(setting), actions], ensure_ascii=True)
