"""A picture that a cell has shown, as a file: with every pixel that came, not as it was drawn."""

from __future__ import annotations

import base64
import binascii
import io
import struct
import warnings
from pathlib import Path

from msgspec import Struct

from kbench.engine.core.errors import ArgumentError
from kbench.workbench.core_types import Row
from kbench.workbench.export.export import atomically
from kbench.workbench.output import picture

ENDINGS = {
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg"),
    "image/gif": (".gif",),
    "image/webp": (".webp",),
}
"""Of the files that each form is written to as it came."""
_PNG_HEAD = b"\x89PNG\r\n\x1a\n"
_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16")
"""Of pixels, in Pillow's words, that a PNG file has room for; others become RGB."""


class PictureFile(Struct, frozen=True):
    """What was written. `note` says what the picture lacks, if whoever made it says so."""

    path: Path
    width: int
    height: int
    bytes: int
    note: str = ""


def endings(data: Row) -> tuple[str, ...]:
    """Those that the name of a picture's file may have: .png, and that of the picture's form."""
    return tuple(dict.fromkeys((".png", *ENDINGS.get(picture.form_of(data), ()))))


def write(data: Row, path: Path) -> PictureFile:
    """Write the picture of a result; as PNG, or as it came where the name says so.

    Raises:
        ArgumentError: it cannot be decoded, or the name has another ending.
        OSError: it cannot be written.
    """
    form, ending = picture.form_of(data), path.suffix.lower()
    if ending not in endings(data):
        raise ArgumentError(f"the name must end in {' or '.join(endings(data))}")
    try:
        raw = base64.b64decode(data[form])
    except (binascii.Error, ValueError):
        raise ArgumentError("the picture is damaged") from None
    is_png = raw.startswith(_PNG_HEAD) and len(raw) > 24
    if form == "image/png" and is_png:
        width, height = struct.unpack(">II", raw[16:24])
        note = _note(raw)
    else:
        raw, width, height, note = _converted(raw, ending == ".png")
    atomically(path, lambda stream: stream.write(raw))
    return PictureFile(path, width, height, len(raw), note)


def _converted(raw: bytes, to_png: bool) -> tuple[bytes, int, int, str]:
    """The file, its size and its note; of a moving picture a PNG has the first frame."""
    try:
        from PIL import Image
    except ImportError:
        raise ArgumentError("to write it as PNG needs Pillow: pip install pillow") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(raw)) as opened:
                width, height = opened.size
                if not 0 < width * height <= picture.MAX_SOURCE_PIXELS:
                    raise ArgumentError(f"the picture is too large: {width} x {height}")
                frames = getattr(opened, "n_frames", 1)
                if not to_png:
                    return raw, width, height, ""
                file = io.BytesIO()
                image = opened if opened.mode in _MODES else opened.convert("RGB")
                image.save(file, "PNG", save_all=False)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise ArgumentError("the picture is damaged") from None
    note = f"the first of {frames} frames" if frames > 1 else ""
    return file.getvalue(), width, height, note


def _note(raw: bytes) -> str:
    """What `array_pictures` says of an array that it has thinned."""
    try:
        from PIL import Image

        with Image.open(io.BytesIO(raw)) as opened:
            words = getattr(opened, "text", {}).get(picture.NOTE_FIELD, "")
    except (ImportError, OSError, SyntaxError, ValueError):
        return ""
    return str(words)[: picture.MAX_NOTE_CHARACTERS]
