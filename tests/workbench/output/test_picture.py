"""Encoded pictures as pixels: every form, every shape, and what is no picture."""

from __future__ import annotations

import base64
import io
import sys
from typing import Any

import pytest
from PIL import Image

from kbench.workbench.output import picture

RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


def encoded(image: Image.Image, form: str = "PNG") -> str:
    file = io.BytesIO()
    image.save(file, form)
    return base64.encodebytes(file.getvalue()).decode()  # with line ends, as IPython writes it


def halves(mode: str = "RGB", size: tuple[int, int] = (40, 20)) -> Image.Image:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", size, RED)
    image.paste(BLUE, (size[0] // 2, 0, *size))
    return image.convert(mode)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
@pytest.mark.parametrize("form", ["PNG", "GIF", "WEBP"])
def test_a_picture_is_decoded_whatever_its_form(mode: str, form: str) -> None:
    data = {"text/plain": "x", f"image/{form.lower()}": encoded(halves(mode), form)}
    found = picture.decoded(data)
    assert found is not None and (found.width, found.height) == (40, 20)
    lines = found.fitted(100, 100)
    assert len(lines) == 20 and len(lines[0]) == 40
    for got, meant in ((lines[3][2], RED), (lines[17][37], BLUE)):
        assert max(abs(one - other) for one, other in zip(got, meant, strict=True)) < 12


# (size of the picture, columns and rows of pixels, size that is drawn)
FITS = [
    ((640, 480), (78, 1000), (78, 58)),
    ((640, 480), (1000, 32), (43, 32)),
    ((28, 28), (78, 60), (28, 28)),
    ((5000, 10), (50, 50), (50, 1)),
    ((10, 5000), (50, 50), (1, 50)),
    ((1, 1), (1, 1), (1, 1)),
]


@pytest.mark.parametrize(("size", "room", "drawn"), FITS)
def test_it_fits_its_room_and_keeps_its_aspect(
    size: tuple[int, int], room: tuple[int, int], drawn: tuple[int, int]
) -> None:
    found = picture.decoded({"image/png": encoded(halves(size=size))})
    assert found is not None
    lines = found.fitted(*room)
    assert (len(lines[0]), len(lines)) == drawn
    assert found.image.size[0] <= 400 and found.image.size[1] <= 300


def test_a_jpeg_and_grey_and_transparent_pixels() -> None:
    grey = picture.decoded({"image/jpeg": encoded(Image.new("L", (32, 32), 100), "JPEG")})
    clear = picture.decoded({"image/png": encoded(Image.new("RGBA", (8, 8), (0, 0, 0, 0)))})
    assert grey is not None and clear is not None
    assert grey.fitted(8, 8)[0][0] == (100, 100, 100) and clear.fitted(8, 8)[0][0] == WHITE


# (paper, width of the picture, how dark a line of one pixel is in 60 columns, of 255)
LINES = [(WHITE, 640, (40, 200)), (WHITE, 60, (255, 255)), ((200, 200, 200), 640, (60, 75))]


@pytest.mark.parametrize(("paper", "width", "dark"), LINES)
def test_thin_lines_of_drawings_are_seen(
    paper: tuple[int, int, int], width: int, dark: tuple[int, int]
) -> None:
    image = Image.new("RGB", (width, width // 2), paper)
    image.paste((0, 0, 0), (0, width // 4, width, width // 4 + 1))
    found = picture.decoded({"image/png": encoded(image)})
    assert found is not None
    darkest = 255 - min(line[30][0] for line in found.fitted(60, 30))
    assert dark[0] <= darkest <= dark[1]


@pytest.mark.parametrize(
    "data",
    [
        {"text/plain": "1"},
        {"image/png": ""},
        {"image/png": "AAAA"},
        {"image/png": "no base64 \ud800"},
        {"image/png": encoded(halves())[:90]},
        {"image/png": ["not", "a", "text"]},
        {"image/svg+xml": "<svg/>"},
    ],
)
def test_what_is_no_picture_is_none(data: Any) -> None:
    assert picture.decoded(data) is None


def test_a_picture_that_is_too_large_or_without_room_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = {"image/png": encoded(halves())}
    found = picture.decoded(data)
    assert found is not None
    with pytest.raises(ValueError, match="0 columns and 5 rows"):
        found.fitted(0, 5)
    monkeypatch.setattr(picture, "MAX_SOURCE_PIXELS", 40 * 20 - 1)
    assert picture.decoded(data) is None


def test_without_pillow_there_is_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"image/png": encoded(halves())}
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert picture.decoded(data) is None
