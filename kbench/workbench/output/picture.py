"""Pictures that cells show (figures of Matplotlib, images of Pillow) as pixels for a terminal.

They come as encoded files in the data of a result. Pillow decodes them; it is loaded with the first
picture, and without it a cell keeps its text.
"""

from __future__ import annotations

import base64
import binascii
import io
import warnings
from typing import TYPE_CHECKING

from msgspec import Struct

from kbench.workbench.core_types import Row

if TYPE_CHECKING:
    from PIL.Image import Image

FORMS = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""MIME types that are drawn, the one to take first where a value has several."""
MAX_SOURCE_PIXELS = 40_000_000
"""Of a picture that is decoded: 160 MB while it is made smaller."""
MAX_KEPT_PIXELS = 400, 300
"""Width and height that are kept: a terminal of 400 columns shows no more."""
MAX_SHARP_PIXELS = 1200, 900
"""Width and height for a terminal that draws pixels: half of a large screen."""
MIN_SHARP_PIXELS = 400
"""Width and height up to which the pixels of a small picture are made larger, as squares."""
MIN_DRAWING_PIXELS = 200
"""Width from which on thin lines of a drawing are made stronger: less is hardly made smaller."""
NOTE_FIELD = "Comment"
"""Of a PNG file: where it says what it lacks of the array that it shows."""
MAX_NOTE_CHARACTERS = 200
_PAPER_LEVEL, _PAPER_SHARE = 250, 0.5
"""A picture is a drawing on paper where so much of it is as bright as that, of 255."""
_PAPER = "white"
"""What is seen through transparent pixels, as in a notebook."""

Pixel = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""


class Picture(Struct, frozen=True):
    """A decoded picture. `width`, `height`: pixels of the file; `image` may have fewer.

    `sharp`: a PNG file of it for terminals that draw pixels, if one was asked for.
    """

    image: Image
    width: int
    height: int
    sharp: bytes = b""

    def fitted_size(self, columns: int, rows: int) -> tuple[int, int]:
        """Columns and rows of square pixels that it takes of so many; it is not enlarged."""
        scale = min(columns / self.width, rows / self.height, 1.0)
        return max(round(self.width * scale), 1), max(round(self.height * scale), 1)

    def fitted(self, columns: int, rows: int) -> list[list[Pixel]]:
        """Lines of square pixels, at most so many of each; a smaller picture is not enlarged.

        Raises:
            ValueError: fewer than one row or column.
        """
        if columns < 1 or rows < 1:
            raise ValueError(f"picture: {columns} columns and {rows} rows hold no pixel")
        width, height = self.fitted_size(columns, rows)
        image = self.image
        if image.size != (width, height):
            image = image.resize((width, height), reducing_gap=2.0)
        raw = image.tobytes()
        values = iter(zip(raw[::3], raw[1::3], raw[2::3], strict=True))
        return [[next(values) for _ in range(width)] for _ in range(height)]


def form_of(data: Row) -> str:
    """The MIME type of the picture that a result has, or ''."""
    return next((form for form in FORMS if isinstance(data.get(form), str)), "")


def decoded(data: Row, sharp: bool = False) -> Picture | None:
    """The picture of a result; None if there is none, or none that can be decoded here.

    Takes some milliseconds, and more for a large picture: not for the thread of a user interface.
    """
    form = form_of(data)
    if not form:
        return None
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        return None
    try:
        file = io.BytesIO(base64.b64decode(data[form]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large pictures, which are refused below
            with Image.open(file) as opened:
                width, height = opened.size
                if not 0 < width * height <= MAX_SOURCE_PIXELS:
                    return None
                most = MAX_SHARP_PIXELS if sharp else MAX_KEPT_PIXELS
                opened.draft("RGB", most)  # a JPEG is decoded in a smaller size
                large = _on_paper(opened, most)
                small = large.copy()
                small.thumbnail(MAX_KEPT_PIXELS)
                file_of = _sharp_file(large) if sharp else b""
                return Picture(_strengthened(small), width, height, file_of)
    except (
        UnidentifiedImageError,
        Image.DecompressionBombError,
        OSError,
        SyntaxError,  # Pillow's word for a broken PNG
        ValueError,
        binascii.Error,
    ):
        return None


def _on_paper(image: Image, most: tuple[int, int]) -> Image:
    """A copy without transparency, of so many pixels at most."""
    from PIL import Image as images

    with_alpha = image.convert("RGBA")
    with_alpha.thumbnail(most)
    paper = images.new("RGBA", with_alpha.size, _PAPER)
    return images.alpha_composite(paper, with_alpha).convert("RGB")


def _sharp_file(image: Image) -> bytes:
    from PIL.Image import Resampling

    times = MIN_SHARP_PIXELS // max(image.size)
    if times > 1:
        size = image.width * times, image.height * times
        image = image.resize(size, Resampling.NEAREST)
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=3)
    return file.getvalue()


def _strengthened(image: Image) -> Image:
    """A drawing on white paper with lines of three pixels, which are seen in a few columns, too."""
    from PIL import ImageFilter

    levels = image.convert("L").histogram()
    is_drawing = sum(levels[_PAPER_LEVEL:]) > _PAPER_SHARE * sum(levels)
    if not is_drawing or image.width < MIN_DRAWING_PIXELS:
        return image
    return image.filter(ImageFilter.MinFilter(3))
