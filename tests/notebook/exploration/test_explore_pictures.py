"""`explore` pictures its inputs, shows images beside what is made of them, starts at defaults."""

from __future__ import annotations

import base64
import inspect
import io
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image

from kbench import backend as K
from kbench.engine.runtime import config
from kbench.notebook import explore
from kbench.notebook.exploration import explore_pictures
from kbench.notebook.exploration.explore_controls import Fixed, start_of
from kbench.notebook.exploration.explore_functions import functions
from kbench.notebook.exploration.explore_subject import subject

PUBLIC = sorted({name for names in functions().values() for name in names})


@pytest.mark.parametrize("name", PUBLIC)
def test_every_control_starts_at_the_default(name: str) -> None:
    explored = subject(name, (), {})
    parameters = inspect.signature(getattr(K, name)).parameters
    for argument, control in explored.controls.items():
        default = parameters[argument].default
        if default in (inspect.Parameter.empty, None) or isinstance(control, Fixed):
            continue
        start = start_of(control)
        assert start == default or (isinstance(default, tuple) and start == [*default]), argument


def pictures(markup: str) -> list[tuple[str, tuple[int, int], np.ndarray]]:
    """Of each image in some HTML its words, its size on the page and its colours."""
    found = []
    pattern = r'src="data:image/png;base64,([^"]+)" alt="([^"]*)" style="width:(\d+)px;height:(\d+)'
    for data, words, width, height in re.findall(pattern, markup):
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        found.append((words, (int(width), int(height)), np.asarray(image.convert("RGB"))))
    return found


# the function, what is chosen, how many maps come out, and their rows by columns
ROWS: list[tuple[str, dict[str, Any], int, tuple[int, int]]] = [
    ("conv2d", {}, 4, (14, 14)),
    ("depthwise_conv2d", {}, 4, (14, 14)),
    ("conv2d", {"padding": ["same"]}, 4, (16, 16)),
    ("pool2d", {}, 1, (15, 15)),
    ("pool2d", {"strides": [(2, 2)]}, 1, (8, 8)),
    ("resize_images", {}, 1, (32, 32)),
    ("spatial_2d_padding", {}, 1, (18, 18)),
]


@pytest.mark.parametrize(
    ("name", "chosen", "count", "size"), ROWS, ids=[f"{row[0]} {row[3]}" for row in ROWS]
)
def test_an_image_stands_beside_what_is_made_of_it(
    name: str, chosen: dict[str, Any], count: int, size: tuple[int, int]
) -> None:
    it = explore(name, **chosen)
    assert it.mode.value == "images" and name in explore_pictures.OF_IMAGES
    before, *after = pictures(it._body.value)
    assert before[0] == "x, channel 0: 16 by 16"
    assert [words for words, _, _ in after] == [
        f"result, channel {at}: {size[0]} by {size[1]}" for at in range(count)
    ]
    scale = before[1][0] / 16  # an element is as large in all of them
    for _, shown, pixels in after:
        assert pixels.shape[:2] == size
        assert shown == pytest.approx((size[1] * scale, size[0] * scale), abs=1)
    assert it.index.layout.display == "none"  # all there is is shown
    it.mode.value = "numbers"
    assert "<img" not in it._body.value and "<table" in it._body.value
    assert it.index.layout.display == ""
    it.close()


def test_the_small_picture_of_a_kernel_is_its_rows_by_columns() -> None:
    kernel = np.arange(24.0, dtype=np.float32).reshape(2, 3, 1, 4)
    it = explore("conv2d", np.ones((1, 5, 6, 1), np.float32), kernel)
    words = [words for words, _, _ in pictures(it._code.value)]
    assert words == ["picture of x[0, :, :, 0]", "picture of kernel[:, :, 0, 0]"]
    assert pictures(it._code.value)[1][2].shape[:2] == (2, 3)
    it.close()


def test_colours_are_those_of_the_numbers() -> None:
    given = np.zeros((1, 2, 2, 1), np.float32)
    given[0, 0] = [[-1.0], [1.0]]
    given[0, 1, 1] = np.nan
    markup = explore_pictures.feature_maps("x", given, "y", given, "channels_last")
    first, _second = pictures(markup)
    low, high, zero, bad = first[2].reshape(4, 3).astype(int)
    assert low[2] > low[0] and high[0] > high[2]  # blue, red
    assert zero.min() > 230 and tuple(bad) == (176, 0, 150)
    same = explore_pictures.feature_maps(
        "x", given.transpose(0, 3, 1, 2), "y", given.transpose(0, 3, 1, 2), "channels_first"
    )
    assert np.array_equal(pictures(same)[0][2], first[2])


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 3)),
        np.zeros((0, 4, 4, 1)),
        np.full((1, 2, 2, 1), "a"),
        np.zeros((1, 2, 2, 1)) * 1j,
    ],
)
def test_what_is_no_batch_of_images_is_shown_otherwise(array: np.ndarray) -> None:
    assert not explore_pictures.feature_maps("x", array, "y", array, "channels_last")


def test_a_large_image_is_thinned_and_many_channels_are_cut() -> None:
    array = np.random.default_rng(0).normal(size=(1, 300, 200, 20))
    markup = explore_pictures.feature_maps("x", array, "y", array, "channels_last")
    found = pictures(markup)
    assert len(found) == 2 * explore_pictures.MAX_MAPS
    assert max(found[0][2].shape[:2]) <= explore_pictures.MAX_SIDE
    assert "the first 8 of 20 channels" in markup


def test_inputs_are_pictured_in_small_and_other_functions_begin_with_numbers() -> None:
    it = explore("softmax")
    assert it.mode.value == "numbers"
    (picture,) = pictures(it._code.value)
    assert picture[0].startswith("picture of x[") and max(picture[1]) <= explore_pictures.THUMB_SIDE
    it.mode.value = "images"  # there are none: the numbers stay
    assert "<table" in it._body.value
    it.choose("conv2d")
    assert it.mode.value == "images"
    it.choose("exp")
    assert it.mode.value == "numbers"
    assert "<img" not in it._static_html()  # a saved notebook stays small
    it.close()


def test_the_layout_that_is_set_is_followed() -> None:
    config.assign("image_data_format", "channels_first")
    try:
        it = explore("pool2d", np.arange(32.0, dtype=np.float32).reshape(1, 2, 4, 4), (2, 2))
        assert len(pictures(it._body.value)) == 4
        it.close()
    finally:
        config.assign("image_data_format", "channels_last")
