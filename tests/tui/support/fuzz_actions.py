"""What a careless user may do at a workbench, drawn at random: plain lists that can be replayed.

An action is a list of its kind and its arguments; `fuzz_play.py` performs them. Places on the
screen are parts of its width and height, so that an action means something at every size.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kbench.tui.keys import keys
from kbench.tui.keys.key import UNBOUND
from kbench.tui.keys.presets import PRESETS
from kbench.tui.panes.registry import BY_ID
from kbench.tui.themes import THEMES

Action = list[Any]

SIZES = (
    (1, 1), (3, 2), (9, 3), (20, 5), (40, 10), (60, 16), (80, 24), (99, 29), (120, 40), (160, 45),
    (200, 50), (300, 20), (30, 90),
)  # fmt: skip
THEME_NAMES = (*(theme.name for theme in THEMES), "ansi-dark", "ansi-light")
TYPED = (
    "x", "for i in range(3):", "  ", "(", ")", "f(1,", "'''abc", "K.do", "K.", "h[0].", "print(",
    "%", "=", "#", "日本", "e\u0301", "🙂", "ß", "\u0645", "_", "[", "]", "{", "\\", "0.5", "nan",
    ":", ", ", "session", ".py", ".npy", "sort", "theme", "1", "-1", "> 0.5", "w", "lambda x: x",
    "\t",
)  # fmt: skip
PASTED = (
    "x = 1\ny = 2", "def f(x):\r\n\treturn x\r\n", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07",
    "\u202eabc", "a\u200bb", "🙂👩\u200d👩\u200d👧", "z\u0351\u036b\u0343\u036a" * 9,
    "漢字かな" * 60, "a" * 3000, "line\n" * 300, "", "\n", "\n\n\n", "１２３", "\u0300\u0301",
    "[bold]not markup[/bold] [@click=app.quit]x[/]", "\x00\x07\x08\x7f\x85", "x" * 79 + "漢" * 5,
    "\ud7ff\ue000", "'" * 200, "(" * 500, "\v\f\x1c\u2028\u2029",
)  # fmt: skip
# What terminals send besides keys, cut off and out of range included.
SENT = (
    "\x1b[I", "\x1b[O\x1b[I", "\x1b[<0;9999;9999M\x1b[<0;9999;9999m", "\x1b[<0;1;1M",
    "\x1b[<64;0;0M", "\x1b[97;5u", "\x1b[57399u", "\x1b[?2026;1$y", "\x1b[12;40R", "\x1bOP",
    "\x1b[200~cut off\x1b[201~", "\x1b[1;9A", "\x1b[99~", "\x1b[<35;5;5M", "\x1b[<1;9;9M",
    "\x1b[<2;10;10M\x1b[<2;10;10m", "\x1b[<1;9;9M\x1b[<1;9;9m", "\x1b[<32;-3;-3M",
)  # fmt: skip
DIALOGS = (
    "history", "examples", "compare", "save", "restart", "jump", "help", "diagnostics", "search",
    "explain", "resume", "palette", "signature", "complete",
)  # fmt: skip
IN_DIALOGS = (
    "enter", "escape", "down", "up", "pagedown", "end", "tab", "backspace", "space", "left", "home",
    "shift+tab", "ctrl+a", "ctrl+u", "delete", "right", "y", "n", "r", "s", "q", "d", "f1", "f3",
    "f10", "ctrl+p", "ctrl+c", "o", "a",
)  # fmt: skip
KERNEL = ("die", "finish", "finish", "revive", "revive", "output", "changed", "stuck", "ask")


@dataclass(frozen=True)
class Setting:
    """How the workbench is opened; `real`: on a kernel process."""

    size: tuple[int, int] = (120, 40)
    ascii: bool = False
    motion: bool = True
    theme: str = "kbench-dark"
    preset: str = "default"
    real: bool = False

    @staticmethod
    def drawn(source: random.Random, real: bool = False) -> Setting:
        """Any of them."""
        ascii, motion = source.random() < 0.25, source.random() < 0.7
        theme, preset = source.choice(THEME_NAMES), source.choice(list(PRESETS))
        return Setting(source.choice(SIZES[3:]), ascii, motion, theme, preset, real)


class Chance:
    """Draws actions; the same seed draws the same."""

    def __init__(self, source: random.Random, setting: Setting, cells: Sequence[str]) -> None:
        self.source = source
        self.setting = setting
        self.cells = cells
        self.table = {key.id: key for key in keys.TABLE}

    def actions(self, count: int) -> list[Action]:
        """That many, a few more where some belong together."""
        kinds = {
            self.visit: 30, self.cell: 12, self.typing: 14, self.any_key: 8, self.paste: 5,
            self.mouse: 12, self.resize: 5, self.dialog: 10, self.kernel: 4, self.looks: 2,
            self.terminal: 2, self.wait: 3, self.burst: 3, self.leave: 0.4,
        }  # fmt: skip
        drawn: list[Action] = []
        while len(drawn) < count:
            (kind,) = self.source.choices(list(kinds), list(kinds.values()))
            drawn += kind()
        return drawn

    def key_of(self, ident: str) -> str:
        """One of the keys of an action, as the preset has it."""
        text = PRESETS[self.setting.preset].get(ident, self.table[ident].keys)
        return self.source.choice(text.split(","))

    def visit(self) -> list[Action]:
        """Some keys of a pane, pressed there."""
        pane = self.source.choice([*BY_ID, "value"])
        takers = BY_ID[pane].takers[: None if pane == "value" else 1]
        places = [place for taker in takers for place in taker.places]
        rows = [one for place in places for one in keys.of(place) if one.keys != UNBOUND]
        known = [one.id for one in rows]
        ways = {"transcript": "f6", "prompt": "prompt"}
        begin = ways.get(pane) or next(
            one.id for one in keys.TABLE if one.action == f"pane('{pane}')"
        )
        first = begin if begin == "f6" else self.key_of(begin)
        chosen = self.source.choices(known, k=self.source.randint(1, 8))
        return [["key", first], *(["key", self.key_of(one)] for one in chosen)]

    def cell(self) -> list[Action]:
        """Something that runs."""
        return [["cell", self.source.choice(self.cells)]]

    def typing(self) -> list[Action]:
        """A half-typed cell, and what one does with it."""
        typed = [["type", one] for one in self.source.choices(TYPED, k=self.source.randint(1, 4))]
        known = [one.id for one in keys.of("prompt")]
        then = self.source.choices(known, k=self.source.randint(0, 3))
        return [*typed, *(["key", self.key_of(one)] for one in then)]

    def any_key(self) -> list[Action]:
        """A key of the table, whatever has the focus."""
        return [["key", self.key_of(self.source.choice(list(self.table)))]]

    def paste(self) -> list[Action]:
        """Text that comes all at once."""
        return [["paste", self.source.choice(PASTED)]]

    def mouse(self) -> list[Action]:
        """A click, a double click, a drag, a scroll, at any place."""
        at = [round(self.source.random(), 3) for _ in range(4)]
        kind = self.source.choice(["click", "click", "click", "twice", "drag", "drag", "move"])
        if self.source.random() < 0.3:
            turn = self.source.choice(["up", "down", "left", "right"])
            return [["scroll", *at[:2], turn, self.source.randint(1, 6)]]
        return [[kind, *at]] if kind == "drag" else [[kind, *at[:2]]]

    def resize(self) -> list[Action]:
        """Other sizes, now and then many at once."""
        count = self.source.choice([1, 1, 1, 5])
        return [["resize", *self.source.choice(SIZES)] for _ in range(count)]

    def dialog(self) -> list[Action]:
        """What opens over the screen, and keys in it."""
        opened = self.key_of(self.source.choice(DIALOGS))
        inside: list[Action] = []
        for _ in range(self.source.randint(1, 6)):
            if self.source.random() < 0.35:
                inside.append(["type", self.source.choice(TYPED)])
            else:
                inside.append(["key", self.source.choice(IN_DIALOGS)])
        return [["key", opened], *inside, ["key", "escape"]][: self.source.randint(2, 9)]

    def kernel(self) -> list[Action]:
        """Something that the user does not do."""
        return [["kernel", self.source.choice(KERNEL)]]

    def looks(self) -> list[Action]:
        """Another theme or another set of keys."""
        if self.source.random() < 0.6:
            return [["theme", self.source.choice(THEME_NAMES)]]
        return [["preset", self.source.choice(list(PRESETS))]]

    def terminal(self) -> list[Action]:
        """What a terminal sends besides keys."""
        return [["sent", self.source.choice(SENT)]]

    def wait(self) -> list[Action]:
        """A pause, so that timers ring."""
        return [["wait", self.source.choice([0.02, 0.05, 0.2])]]

    def burst(self) -> list[Action]:
        """Actions that do not wait for one another."""
        inner = [one for _ in range(4) for one in self.source.choice([self.visit, self.typing])()]
        return [["burst", inner]]

    def leave(self) -> list[Action]:
        """The end of one workbench, and the beginning of the next."""
        return [["key", self.key_of("quit")], ["wait", 0.05]]


async def shrunk(
    actions: list[Action], fails: Callable[[list[Action]], Awaitable[bool]], tries: int = 60
) -> list[Action]:
    """Fewer actions that still fail: halves are left out, then quarters, then single ones."""
    part = max(len(actions) // 2, 1)
    while tries > 0:
        at, before = 0, len(actions)
        while at < len(actions) and tries > 0:
            fewer = [*actions[:at], *actions[at + part :]]
            tries -= 1
            if fewer and await fails(fewer):
                actions = fewer
            else:
                at += part
        if part == 1 and len(actions) == before:
            break
        part = max(part // 2, 1)
    return actions
