"""A terminal that answers as others do, and pictures read back from what was sent to it."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import dataclass, field

from PIL import Image

from kbench.tui.graphics.graphics import Graphics

ANSWERS = {
    "kitty": "\x1bP>|kitty(0.35.1)\x1b\\\x1b[6;18;9t\x1b[?62;c",
    "old kitty": "\x1bP>|kitty(0.26.5)\x1b\\\x1b[6;18;9t\x1b[?62;c",
    "ghostty": "\x1bP>|ghostty 1.1.3\x1b\\\x1b[6;34;16t\x1b[?62;22c",
    "konsole": "\x1bP>|Konsole 24.08.3\x1b\\\x1b[6;18;9t\x1b[?62;1;4c",
    "foot": "\x1bP>|foot(1.16.2)\x1b\\\x1b[6;17;8t\x1b[?62;4;22c",
    "xterm": "\x1bP>|XTerm(379)\x1b\\\x1b[6;13;6t\x1b[?64;1;2;6;9;15;18;21;22c",
    "xterm -ti vt340": "\x1bP>|XTerm(379)\x1b\\\x1b[6;13;6t\x1b[?63;1;2;4;6;9;15;22c",
    "sixels of unknown size": "\x1b[?62;4c",
    "tmux with sixels": "\x1bP>|tmux 3.5a\x1b\\\x1b[6;18;9t\x1b[?1;2;4c",
    "silent": "",
}
"""What terminals answer to name, size of a cell, features."""
COLOURS = {"xterm -ti vt340": "\x1b[?1;0;16S"}
"""And to the number of colours."""


@dataclass
class Terminal:
    """One that answers at once; `keys` is what is left for the program."""

    graphics: Graphics
    says: str
    asked: str = ""
    keys: str = ""
    written: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graphics.use(self._write, -1)

    def _write(self, text: str) -> None:
        if not text.endswith("\x1b[c"):
            self.written.append(text)
            return
        self.asked += text
        again = text.startswith("\x1b[?1;1;0S")
        names = {says: name for name, says in ANSWERS.items()}
        colours = COLOURS.get(names.get(self.says, ""), "")
        features = re.search(r"\x1b\[\?[\d;]*c", self.says)
        self.types(colours + features.group() if again and features else self.says)

    def types(self, data: str) -> None:
        """Characters come, answers among them."""
        self.keys += self.graphics.answers.rest(data)


def kitty_messages(data: str) -> list[tuple[dict[str, str], str]]:
    """Keys and payload of each message of kitty's protocol."""
    found = re.findall(r"\x1b_G([^;\x1b]*)(?:;([^\x1b]*))?\x1b\\", data)
    return [(dict(pair.split("=") for pair in keys.split(",")), payload) for keys, payload in found]


def kitty_picture(data: str) -> Image.Image:
    """The picture that messages carry."""
    payload = "".join(payload for _, payload in kitty_messages(data))
    image = Image.open(io.BytesIO(base64.b64decode(payload)))
    image.load()
    return image


def sixel_picture(data: str) -> Image.Image:
    """A picture of one sixel sequence, with each pixel that was drawn."""
    (body,) = re.findall(r'\x1bP0;1q"1;1;(\d+;\d+)(.*?)\x1b\\', data, re.DOTALL)
    width, height = map(int, body[0].split(";"))
    image = Image.new("RGBA", (width, height))
    palette: dict[int, tuple[int, int, int, int]] = {}
    x = y = colour = 0
    tokens = re.findall(r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)(.)|(.)", body[1], re.DOTALL)
    for number, red, green, blue, times, repeated, single in tokens:
        if number:
            colour = int(number)
            if red:
                levels = (round(int(level) * 2.55) for level in (red, green, blue))
                palette[colour] = (*levels, 255)  # type: ignore[assignment]
        elif single == "$":
            x = 0
        elif single == "-":
            x, y = 0, y + 6
        else:
            bits = ord(repeated or single) - 63
            assert 0 <= bits < 64
            for _ in range(int(times or 1)):
                for line in range(6):
                    if bits >> line & 1:
                        image.putpixel((x, y + line), palette[colour])
                x += 1
    return image
