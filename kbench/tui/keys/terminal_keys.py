"""Alt and a letter, a digit or Enter, as terminals without the Kitty protocol send them.

They send Escape and the character. Textual waits for a tenth of a second whether more belongs to
it; where other keys follow sooner, as they do over a slow line, it types `^x` in place of alt+x.
It reads alt+Enter as Enter, and alt+3 as the `£` that one terminal on macOS means by it. And of an
Escape with ctrl and a letter right behind it, as they come to a program that was busy, it forgets
the Escape.
"""

from __future__ import annotations

from string import ascii_lowercase, digits

from msgspec import Struct


class _Key(Struct, frozen=True):
    """As Textual's parser takes a key from its table."""

    value: str


def restore() -> None:
    """Let Escape and a character be that key with alt, Escape and a key with ctrl be both.

    Without Textual's table nothing changes.
    """
    try:
        from textual._ansi_sequences import ANSI_SEQUENCES_KEYS as sequences
    except ImportError:  # a later version, which may need no help
        return
    if not isinstance(sequences, dict):
        return
    named = {character: character for character in ascii_lowercase + digits} | {"\r": "enter"}
    for character, name in named.items():
        # Escape with b and f, and what the user's terminal is set to send for words, stay so.
        if not isinstance(sequences.get(f"\x1b{character}"), tuple):
            sequences[f"\x1b{character}"] = (_Key(f"alt+{name}"),)
    for letter in ascii_lowercase:
        control = chr(ord(letter) & 31)
        known = sequences.get(control)
        if isinstance(known, tuple) and known[0].value == f"ctrl+{letter}":
            sequences.setdefault(f"\x1b{control}", (_Key("escape"), *known))
