"""Pictures of arrays: their axes, scales, sizes, and how they come through the inspector."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspector_helpers import ask, refused

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import block_view, image_view
from kbench.engine.runtime import config
from kbench.workbench.export import export
from kbench.workbench.inspector.inspector import Inspector

LAST, FIRST = "channels_last", "channels_first"

AXES = [
    ((4, 5), LAST, (0, 1, None)),
    ((28, 28, 3), LAST, (0, 1, 2)),
    ((3, 28, 28), FIRST, (1, 2, 0)),
    ((3, 28, 28), LAST, (1, 2, None)),  # a batch of three grey ones
    ((28, 28, 3), FIRST, (0, 1, None)),
    ((28, 28, 8), LAST, (0, 1, 2)),
    ((128, 28, 28), LAST, (1, 2, None)),
    ((128, 28, 28), FIRST, (1, 2, 0)),
    ((10, 32, 48), LAST, (1, 2, None)),
    ((32, 48, 10), FIRST, (0, 1, None)),
    ((9, 9, 9), LAST, (0, 1, 2)),
    ((9, 9, 9), FIRST, (1, 2, 0)),
    ((128, 28, 28, 8), LAST, (1, 2, 3)),
    ((128, 8, 28, 28), FIRST, (2, 3, 1)),
    ((2, 3, 4, 5, 6), LAST, (2, 3, 4)),
    ((2, 3, 4, 5, 6), FIRST, (3, 4, 2)),
]


@pytest.mark.parametrize(("shape", "layout", "wanted"), AXES)
def test_axes_of_pictures(shape: tuple[int, ...], layout: str, wanted: tuple[Any, ...]) -> None:
    assert image_view.axes(shape, layout) == wanted


CHOSEN = [
    ((3, 3, 16, 64), LAST, (0, 1), (0, 1, 3)),
    ((3, 3, 16, 64), FIRST, (0, 1), (0, 1, None)),
    ((3, 3, 16, 64), LAST, (2, 3), (2, 3, None)),
    ((5, 6, 3), LAST, (1, 0), (1, 0, 2)),
    ((5, 6, 7), LAST, (1, 0), (1, 0, None)),
]


@pytest.mark.parametrize(("shape", "layout", "chosen", "wanted"), CHOSEN)
def test_axes_that_were_chosen(
    shape: tuple[int, ...], layout: str, chosen: tuple[int, int], wanted: tuple[Any, ...]
) -> None:
    assert image_view.axes(shape, layout, *chosen) == wanted


def pixels(found: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The pixels of a reply as an array of rows, columns and levels."""
    levels = np.frombuffer(base64.b64decode(found["pixels"]), np.uint8)
    return levels.reshape(*found["size"], 3 if found["colours"] else 1)


def levels(values: np.ndarray[Any, Any], low: float, high: float) -> np.ndarray[Any, Any]:
    return np.rint((values - low) / (high - low) * image_view.MAX_LEVEL).astype(np.uint8)


@pytest.mark.parametrize("layout", [LAST, FIRST])
def test_a_picture_in_colours_has_the_right_channels(layout: str) -> None:
    images = np.random.default_rng(0).random((4, 5, 6, 3))
    given = images if layout == LAST else images.transpose(0, 3, 1, 2)
    found = image_view.picture(given, (20, 20), layout, index=[2, 0, 0, 0], limits=(0.0, 1.0))
    assert found["colours"] and found["size"] == [5, 6] and found["index"] == [2, 0, 0, 0]
    np.testing.assert_array_equal(pixels(found), levels(images[2], 0, 1))
    single = image_view.picture(
        given, (20, 20), layout, [2, 1, 1, 0] if layout == FIRST else [2, 0, 0, 1],
        colours=False, limits=(0.0, 1.0),
    )  # fmt: skip
    np.testing.assert_array_equal(pixels(single)[..., 0], levels(images[2, :, :, 1], 0, 1))


def test_rows_and_columns_may_be_swapped() -> None:
    values = np.arange(12.0).reshape(3, 4)
    found = image_view.picture(values, (9, 9), LAST, row_axis=1, col_axis=0)
    np.testing.assert_array_equal(pixels(found)[..., 0], levels(values.T, 0, 11))


SCALES = [
    (np.array([[0, 128], [255, 1]], np.uint8), None, (0, 255)),
    (np.array([[0, 1], [1, 1]], np.uint8), (0.0, 1.0), (0, 1)),
    (np.array([[True, False]]), None, (0, 1)),
    (np.array([[-3.0, 5.0]]), None, (-3, 5)),
    (np.array([[-3, 5]], np.int64), (-4.0, 6.0), (-4, 6)),
]


@pytest.mark.parametrize(("values", "limits", "wanted"), SCALES)
def test_what_is_black_and_white(values: Any, limits: Any, wanted: tuple[int, int]) -> None:
    found = image_view.picture(values, (9, 9), LAST, limits=limits)
    assert tuple(found["limits"]) == wanted
    np.testing.assert_array_equal(pixels(found)[..., 0], levels(values.astype(float), *wanted))


def test_what_is_not_finite_is_marked() -> None:
    values = np.array([[0.0, np.nan], [np.inf, 1e308], [-np.inf, -1e308]])
    shown = pixels(image_view.picture(values, (9, 9), LAST))[..., 0]
    assert shown[:, 1].tolist() == [image_view.NOT_FINITE_LEVEL, image_view.MAX_LEVEL, 0]
    assert (
        shown[1:, 0].tolist() == [image_view.NOT_FINITE_LEVEL] * 2
        and shown[0, 0] == image_view.MAX_LEVEL // 2
    )
    nothing = pixels(image_view.picture(np.full((2, 2, 3), np.nan), (9, 9), LAST))
    assert (nothing == image_view.NOT_FINITE_LEVEL).all()


def test_opacity_is_over_black() -> None:
    values = np.array([[[255, 255, 255, 0], [255, 0, 255, 255]]], np.uint8)
    assert pixels(image_view.picture(values, (4, 4), LAST)).tolist() == [
        [[0, 0, 0], [image_view.MAX_LEVEL, 0, image_view.MAX_LEVEL]]
    ]


def test_a_large_picture_becomes_means_in_proportion() -> None:
    values = np.kron(np.arange(6.0).reshape(2, 3), np.ones((200, 200)))
    found = image_view.picture(values, (20, 300), LAST)
    assert found["size"] == [20, 30]
    np.testing.assert_array_equal(pixels(found)[::10, ::10, 0], levels(values[::200, ::200], 0, 5))
    grid = (np.indices((64, 64)).sum(axis=0) % 2).astype(np.uint8) * 255
    afar = pixels(image_view.picture(grid, (16, 16), LAST))  # a chess board is grey from afar
    assert afar.shape == (16, 16, 1) and (afar == image_view.MAX_LEVEL // 2).all()


@pytest.mark.parametrize("shape", [(4000, 3000), (4000, 30), (30, 4000), (70, 81)])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_what_is_rare_in_a_large_array_is_seen(shape: tuple[int, int], dtype: str) -> None:
    for turned in (False, True):
        striped = np.zeros(shape, dtype)
        striped[1::8] = 1
        striped = striped.T if turned else striped
        found = image_view.picture(striped, (48, 80), LAST)
        shown = pixels(found)
        assert found["limits"] == [0.0, 1.0] and set(np.unique(shown)) == {0, image_view.MAX_LEVEL}
        assert found["blocks"].startswith("least and greatest of each ")
        single = np.zeros(striped.shape, dtype)
        single[-3, 7] = 5
        found = image_view.picture(single, (48, 80), LAST)
        assert found["limits"] == [0.0, 5.0] and (pixels(found) == image_view.MAX_LEVEL).sum() == 1
        if dtype == "float32":
            single[5, 11] = np.nan
            assert (
                pixels(image_view.picture(single, (48, 80), LAST)) == image_view.NOT_FINITE_LEVEL
            ).any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64", "bool"])
@pytest.mark.parametrize("form", ["as it is", "turned", "backwards", "in columns", "in part",
                                  "one row", "one column", "one number"])  # fmt: skip
def test_blocks_leave_nothing_out(dtype: str, form: str) -> None:
    draw = np.random.default_rng(5)
    array: Any = (draw.normal(size=(37, 2 * 53)) * 50).astype(dtype)
    if array.dtype.kind == "f":
        array[draw.random(array.shape) < 0.02] = np.nan
        array[draw.random(array.shape) < 0.01] = np.inf
        array[10:20] = np.nan
    array = {"as it is": array[:, :53].copy(), "turned": array.T, "backwards": array[::-1, ::-1],
             "in columns": np.asfortranarray(array), "in part": array[:, ::2],
             "one row": np.broadcast_to(array[:1, :53], (37, 53)),
             "one column": np.broadcast_to(array[:, 3:4], (37, 53)),
             "one number": np.broadcast_to(array[0, 0], (37, 53))}[form]  # fmt: skip
    rows, cols = 9, 7
    downs = np.arange(rows + 1) * array.shape[0] // rows
    across = np.arange(cols + 1) * array.shape[1] // cols
    low, high, bad = block_view.extremes(array, rows, cols)
    means = block_view.means(array[..., None], rows, cols)
    for row in range(rows):
        for col in range(cols):
            block = array[downs[row] : downs[row + 1], across[col] : across[col + 1]]
            block = block.astype(np.float64)
            kept = block[np.isfinite(block)]
            assert bad[row, col] == (kept.size < block.size)
            if kept.size:
                assert (low[row, col], high[row, col]) == (kept.min(), kept.max())
            else:
                assert np.isnan(low[row, col]) and np.isnan(high[row, col])
            wanted = block.mean() if kept.size == block.size else np.nan
            np.testing.assert_allclose(means[row, col, 0], wanted, rtol=1e-6, atol=1e-6)


def test_a_narrow_picture_keeps_its_columns() -> None:
    assert image_view.picture(np.zeros((784, 10)), (34, 50), LAST)["size"] == [34, 8]
    assert image_view.picture(np.zeros((784, 3)), (34, 50), LAST)["size"] == [34, 3]


NO_PICTURE: list[tuple[Any, dict[str, Any], str]] = [
    (np.zeros(3), {}, "two axes, and the array has rank 1"),
    (np.float32(1), {}, "two axes, and the array has rank 0"),
    (np.zeros((0, 3)), {}, "holds no picture"),
    (np.zeros((2, 3), complex), {}, "complex128 cannot be shown as a picture"),
    (np.array([["a"]]), {}, "cannot be shown as a picture"),
    (np.array([[object()]]), {}, "object cannot be shown as a picture"),
    (np.zeros((2, 3)), {"row_axis": 0, "col_axis": 0}, "both axis 0"),
    (np.zeros((2, 3)), {"row_axis": 0, "col_axis": 7}, "out of range"),
    (np.zeros((2, 3, 4, 3)), {"index": [2, 0, 0, 0]}, "index 2 is out of range"),
    (np.zeros((2, 3, 4, 3)), {"index": [0]}, "needs 4 entries"),
]


@pytest.mark.parametrize(("values", "options", "words"), NO_PICTURE)
def test_no_picture(values: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        image_view.picture(values, (9, 9), LAST, **options)


def test_pictures_through_the_inspector_fit_and_follow_the_setting() -> None:
    names = {"x": np.random.default_rng(0).random((2, 600, 700, 3))}
    inspector = Inspector(names)
    found = ask(inspector, "image", name="x", size=[4096, 4096])  # ask checks the length
    assert found["colours"] and found["data_format"] == LAST
    assert found["size"][0] * 3 * found["size"][1] <= image_view.MAX_PIXEL_BYTES
    config.set_image_data_format(FIRST)
    found = ask(inspector, "image", name="x", size=[40, 40], index=[1, 5, 0, 0])
    assert found["data_format"] == FIRST and found["axes"] == [2, 3, 1] and not found["colours"]
    for size in ([1], [0, 4], [4, 5000], ["a", 2], [True, 2]):
        assert "size must be" in refused(inspector, "image", name="x", size=size)["reason"]
    assert "integers" in refused(inspector, "image", name="x", size=[4, 4], index=[0.5])["reason"]


def test_grey_pictures_have_the_limits_that_were_seen(tmp_path: Path) -> None:
    from matplotlib.image import imread

    values = np.array([[0.0, 1.0], [2.0, np.nan]])
    path = export.value(values, tmp_path / "a.png", grey=True, limits=(0.0, 4.0))
    shown = imread(path)[..., :3]
    assert shown[0, 0].max() == 0 and abs(shown[0, 1] - 0.25).max() < 0.01
    assert abs(shown[1, 0] - 0.5).max() < 0.01
