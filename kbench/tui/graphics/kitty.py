"""Kitty's graphics protocol, with placeholders: https://sw.kovidgoyal.net/kitty/graphics-protocol.

A picture is sent once. Where it stands is text, so it scrolls as text does, and tmux keeps it in
its window.
"""

from __future__ import annotations

import base64
import os
import re

from kbench.tui.graphics.placeholders import MARK, NUMBERS, Piece

MAX_CHUNK_CHARACTERS = 4096
"""Of a picture in one message, as the protocol says."""
MIN_KITTY_VERSION = (0, 28)
"""The first with placeholders."""
_KITTY = re.compile(r"kitty\((\d+)\.(\d+)")
_SESSION = os.getpid() % 255 + 1
"""A part of each picture's number, as other programs may draw in the same terminal."""


def has_placeholders(name: str) -> bool:
    """Whether a terminal, by the name that it gave, draws pictures where placeholders stand.

    Konsole and WezTerm have the protocol without them.
    """
    if (found := _KITTY.match(name)) is not None:
        return (int(found[1]), int(found[2])) >= MIN_KITTY_VERSION
    return name.lower().startswith("ghostty")


def sent(slot: int, file: bytes) -> list[str]:
    """Messages that give the terminal a picture, a PNG file."""
    data = base64.b64encode(file).decode()
    chunks = range(0, len(data), MAX_CHUNK_CHARACTERS)
    found = []
    for at in chunks:
        keys = f"a=t,f=100,i={_number(slot)}," if at == 0 else ""
        more = int(at + MAX_CHUNK_CHARACTERS < len(data))
        found.append(_message(f"{keys}q=2,m={more}", data[at : at + MAX_CHUNK_CHARACTERS]))
    return found


def placed(slot: int, columns: int, rows: int) -> str:
    """The message that says into how many cells the picture goes."""
    return _message(f"a=p,U=1,i={_number(slot)},p=1,c={columns},r={rows},q=2")


def deleted(slot: int) -> str:
    """The message that lets the terminal forget it."""
    return _message(f"a=d,d=I,i={_number(slot)},q=2")


def cells(piece: Piece) -> str:
    """Placeholders as the terminal reads them: their colour is part of the picture's number."""
    head, tail = MARK + NUMBERS[piece.row], NUMBERS[_SESSION]
    text = "".join(f"{head}{NUMBERS[at]}{tail}" for at in range(piece.start, piece.stop))
    return f"\x1b[38;5;{piece.slot}m{text}\x1b[39m"


def through_tmux(message: str) -> str:
    """A message that tmux hands on to its terminal, where `allow-passthrough` is on."""
    return "\x1bPtmux;" + message.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def _number(slot: int) -> int:
    return _SESSION << 24 | slot


def _message(keys: str, payload: str = "") -> str:
    return f"\x1b_G{keys}{';' * bool(payload)}{payload}\x1b\\"
