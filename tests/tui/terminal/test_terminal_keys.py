"""Keys as terminals send them: with Alt, and faster than the screen is drawn."""

from __future__ import annotations

from typing import Any

import pytest
from bench_screen import SIZES, bench, settle, submit
from sampling import every
from textual import events
from textual._xterm_parser import XTermParser

from kbench.tui.keys import keys, terminal_keys


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("\x1bx", ["alt+x"]),
        ("\x1b3", ["alt+3"]),
        ("\x1b\r", ["alt+enter"]),
        ("\x1bx\x1b2ab", ["alt+x", "alt+2", "a", "b"]),
        ("\x1bx\x1b[A", ["alt+x", "up"]),
        ("a\x1bO\x50", ["a", "f1"]),
        ("\x1b[1;3B", ["alt+down"]),
        ("\x1b\x10", ["escape", "ctrl+p"]),
        ("\x1b\x1b\x10\x1bx", ["escape", "escape", "ctrl+p", "alt+x"]),
        ("\x1bf\x1bb", ["ctrl+right", "ctrl+left"]),
        ("\x1b[200~ab\x1b[201~\x1bx", ["pasted ab", "alt+x"]),
    ],
)
def test_alt_is_known_at_once_whatever_follows(sent: str, keys: list[str]) -> None:
    terminal_keys.restore()
    parser: Any = XTermParser()
    found = [getattr(one, "key", f"pasted {getattr(one, 'text', '')}") for one in parser.feed(sent)]
    assert found == keys


def test_no_key_with_alt_is_one_that_textual_takes_for_another() -> None:
    terminal_keys.restore()
    names = {name for key in keys.TABLE for name in key.keys.split(",")}
    letters = [name[-1] for name in names if name.startswith("alt+") and len(name) == 5]
    parser: Any = XTermParser()
    for letter in letters:
        assert [one.key for one in parser.feed(f"\x1b{letter}")] == [f"alt+{letter}"]


@pytest.mark.parametrize("size", every(3, [(one,) for one in SIZES]))
@pytest.mark.parametrize("key", ["f3", "f4", "alt+3", "f5", "f7"])
async def test_what_is_typed_behind_the_key_of_a_pane_belongs_to_the_pane(
    key: str, size: tuple[int, int]
) -> None:
    async with bench(size) as (app, pilot, _):
        await submit(pilot, "define")
        for name, character in ((key, None), ("j", "j"), ("f2", None), ("x", "x")):
            app.post_message(events.Key(name, character))
        await settle(pilot)
        prompt: Any = app.query_one("#prompt")
        assert prompt.text == "x" and app.focused is prompt
