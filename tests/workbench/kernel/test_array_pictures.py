"""Which arrays are images, and the picture that is sent of them."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

import kbench as K
from kbench.workbench.kernel import array_pictures

GREY = np.arange(28 * 28, dtype=np.uint8).reshape(28, 28)
COLOURS = np.linspace(0, 1, 20 * 30 * 3).reshape(20, 30, 3)
IMAGES: list[tuple[Any, tuple[int, ...]]] = [
    (GREY, (28, 28)),
    (GREY[:, :, None], (28, 28)),
    (np.zeros((16, 40, 3), np.uint8), (16, 40, 3)),
    (np.zeros((16, 40, 4), np.uint8), (16, 40, 4)),
    (COLOURS, (20, 30, 3)),
    (COLOURS.astype(np.float16), (20, 30, 3)),
    (np.ones((28, 28, 1), np.float32), (28, 28)),
    (np.zeros((1200, 40, 3), np.uint8), (1200, 40, 3)),
    (np.zeros((2400, 1000, 3), np.uint8), (1200, 500, 3)),
]
OTHERS: list[Any] = [
    GREY[:15],
    GREY.astype(np.int64),
    GREY > 3,
    COLOURS[:, :, 0],
    COLOURS * 1.01,
    COLOURS - 0.01,
    np.full((20, 20, 3), np.nan),
    np.zeros((20, 30, 5), np.uint8),
    np.zeros((2, 20, 30, 3), np.uint8),
    np.zeros((0, 20, 3), np.uint8),
    np.ma.masked_array(GREY),
    np.zeros((3, 20, 30), np.uint8),
]


@pytest.mark.parametrize(("value", "shape"), IMAGES)
def test_an_image_is_found(value: np.ndarray, shape: tuple[int, ...]) -> None:
    found = array_pictures.pixels_of(value)
    assert found is not None and found.shape == shape and found.dtype == np.uint8


@pytest.mark.parametrize("value", OTHERS)
def test_other_arrays_are_none(value: np.ndarray) -> None:
    assert array_pictures.pixels_of(value) is None


def test_channels_are_where_the_setting_says() -> None:
    before = K.image_data_format()
    K.set_image_data_format("channels_first")
    try:
        found = array_pictures.pixels_of(np.moveaxis(COLOURS, -1, 0))
    finally:
        K.set_image_data_format(before)
    np.testing.assert_array_equal(found, np.rint(COLOURS.astype(np.float32) * 255))


def test_the_file_has_the_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    file = array_pictures.png_of(GREY)
    assert file is not None
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(file))), GREY)
    assert "Comment" not in Image.open(io.BytesIO(file)).info
    thinned = array_pictures.png_of(np.zeros((16, 1201), np.uint8))
    assert thinned is not None
    about = Image.open(io.BytesIO(thinned)).info["Comment"]
    assert about == "one of 2 x 2 pixels of 1201 x 16"
    assert array_pictures.png_of(GREY[:9]) is None
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert array_pictures.png_of(GREY) is None
