"""Looking into arrays: slices as text, controls that agree, pictures of anything."""

from __future__ import annotations

import importlib
import io
import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from PIL import Image
from sampling import every
from seen import text_of
from waiting import wait_for

from kbench import backend as K
from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect.number_format import NumberFormat
from kbench.notebook import TensorView
from kbench.notebook.base import inspector_hub, redraw
from kbench.notebook.base.slicing import Slice, first, parse
from kbench.notebook.drawing import centred, drawable
from kbench.notebook.drawing.heatmap import (
    MAX_SIDE_PIXELS,
    SlicePainter,
    sampled,
    thinned,
    unit_range,
)
from kbench.notebook.markup.markup import MAX_OUTPUT_BYTES
from kbench.notebook.widgets.value_tab import ValueTab


@pytest.mark.parametrize(
    "text, shape, expected",
    [
        ("[0, :, :]", (2, 3, 4), Slice((0, 0, 0), 1, 2)),
        ("1,:,2", (2, 3, 4), Slice((1, 0, 2), None, 1)),
        (":, -1, :", (2, 3, 4), Slice((0, 2, 0), 0, 2)),
        ("..., 0", (3, 4, 2), Slice((0, 0, 0), 0, 1)),
        ("1, 2", (2, 3), Slice((1, 2), None, None)),
        ("[]", (), Slice((), None, None)),
    ],
)
def test_parse(text: str, shape: tuple[int, ...], expected: Slice) -> None:
    assert parse(text, shape) == expected
    assert parse(str(expected), shape) == expected


@pytest.mark.parametrize(
    "text, message",
    [
        ("0, :", "3 entries are needed"),
        (":, :, :", "at most two axes"),
        ("2, :, :", "index 2 is out of range for axis 0 of size 2"),
        ("x, :, :", "axis 0: 'x' is neither"),
        ("__import__('os'), :, :", "neither an index nor a colon"),
        ("..., ..., 0", "neither"),
    ],
)
def test_parse_refuses(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=None) as caught:
        parse(text, (2, 3, 4))
    assert message in caught.value.reason


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_slice_is_what_numpy_gives(shape: tuple[int, ...]) -> None:
    array = np.arange(float(np.prod(shape))).reshape(shape)
    shown = first(shape).of(array)
    assert np.array_equal(shown, array.reshape((-1, *shown.shape))[0])
    if len(shape) > 1:
        turned = Slice((0,) * len(shape), len(shape) - 1, len(shape) - 2)
        assert np.array_equal(turned.of(array), shown.T)


def test_controls_agree_with_each_other() -> None:
    view = TensorView(np.arange(24.0).reshape(2, 3, 4), "a")
    assert view.index.value == "[0, :, :]" and "a[0, :, :]" in view._body.value
    view.steppers[0].value = 1
    assert view.index.value == "[1, :, :]" and ">23<" in view._body.value
    view.rows.value = 0
    assert str(view.slice) == "[:, 0, :]"
    wait_for(lambda: "a[:, 0, :]" in view._body.value)  # the second within 100 ms comes behind
    view.rows.value = 2
    assert (view.rows.value, view.cols.value) == (2, 0)
    view.index.value = "0, 1, :"
    assert (view.rows.value, view.cols.value, view.steppers[1].value) == (None, 2, 1)
    view.index.value = "0, 9, :"
    assert "out of range" in view._message.value and view.index.value == "[0, 1, :]"
    view.cols.value = None
    assert str(view.slice) == "[0, 1, 0]"


def test_view_follows_its_variable_only() -> None:
    w, other = K.variable(np.zeros((2, 2))), K.variable(0.0)
    view = TensorView(w)
    view._repr_mimebundle_()
    drawn = []
    view.observe(lambda _change: drawn.append(1), "children")
    view._body.observe(lambda _change: drawn.append(1), "value")
    K.set_value(other, 1.0)
    time.sleep(2 * redraw.REDRAW_SECONDS)
    assert drawn == []
    K.set_value(w, np.full((2, 2), 7.0))
    wait_for(lambda: ">7<" in view._body.value)
    view.close()


def test_one_figure_is_used_again() -> None:
    view = TensorView(np.random.default_rng(0).normal(size=(2, 30, 40)), mode="heat map")
    picture, before = view._painter, view.picture
    frame = picture._frame
    assert before.startswith(b"\x89PNG")
    view.steppers[0].value = 1
    wait_for(lambda: 'alt="heat map of array[1, :, :]"' in view._body.value)
    assert view._painter is picture and view.picture != before
    assert picture._frame is frame and len(frame._figure.axes) == 2
    assert 'alt="heat map of array[1, :, :]"' in view._body.value
    view.mode.value = "numbers"
    wait_for(lambda: view.picture == b"" and "<table>" in view._body.value)


@pytest.mark.parametrize(
    "data_format, shape, drawn",
    [
        ("channels_last", (2, 8, 6, 3), True),
        ("channels_first", (2, 3, 8, 6), True),
        ("channels_last", (8, 6), True),
        ("channels_last", (2, 3, 8, 6), True),
        ("channels_first", (2, 8, 6, 3), True),
        ("channels_last", (2, 8, 6, 16), True),
        ("channels_last", (3, 8, 6), True),
        ("channels_last", (8,), False),
        ("channels_last", (0, 8, 3), False),
    ],
)
def test_images_are_drawn_in_either_data_format(
    data_format: str, shape: tuple[int, ...], drawn: bool
) -> None:
    K.set_image_data_format(data_format)
    view = TensorView(np.zeros(shape), mode="image")
    assert bool(view.picture) == drawn
    assert ("kb-bad" in view._message.value) != drawn


def test_controls_of_an_image_are_those_that_matter() -> None:
    view = TensorView(np.zeros((2, 3, 8, 6, 3)), "a", mode="image")
    assert (view.rows.value, view.cols.value) == (2, 3)  # not those of the channels
    assert [one.disabled for one in view.steppers] == [False, False, True, True, True]
    assert view.rows.disabled and view.cols.disabled and view.index.disabled
    view.steppers[1].value = 2
    assert view.index.value == "[0, 2, :, :, :]"
    wait_for(lambda: 'alt="image of a[0, 2, :, :, :]"' in view._body.value)
    view.mode.value = "numbers"
    assert view.index.value == "[0, 2, 0, :, :]" and not view.index.disabled
    assert [one.disabled for one in view.steppers] == [False, False, False, True, True]
    flat = TensorView(np.zeros((8, 6)), "a", mode="image")
    assert flat.index.value == "[:, :]" and all(one.disabled for one in flat.steppers)
    maps = TensorView(np.zeros((2, 8, 6, 16)), "a", mode="image")  # one channel at a time
    assert [one.disabled for one in maps.steppers] == [False, True, True, False]
    assert "one of 16 channels" in maps._body.value and maps.index.value == "[0, :, :, 0]"


@pytest.mark.parametrize(
    "data_format, shape, axes, shown",
    [
        ("channels_last", (2, 8, 6, 3), (1, 2, 3), {1, 2, 3}),
        ("channels_first", (2, 3, 8, 6), (2, 3, 1), {1, 2, 3}),
        ("channels_last", (2, 3, 8, 6), (2, 3, 1), {1, 2, 3}),
        ("channels_first", (2, 8, 6, 1), (1, 2, 3), {1, 2, 3}),
        ("channels_last", (2, 8, 6, 16), (1, 2, 3), {1, 2}),
        ("channels_last", (3, 28, 28), (1, 2, 0), {0, 1, 2}),
        ("channels_last", (4, 28, 28), (1, 2, None), {1, 2}),
        ("channels_last", (3, 4, 5), (1, 2, None), {1, 2}),
        ("channels_last", (28, 28, 4), (0, 1, 2), {0, 1, 2}),
        ("channels_first", (1, 2, 4, 5), (2, 3, 1), {2, 3}),
        ("channels_first", (8, 6), (0, 1, None), {0, 1}),
    ],
)
def test_the_channels_of_an_image_are_found(
    data_format: str, shape: tuple[int, ...], axes: tuple[int, int, int | None], shown: set[int]
) -> None:
    assert drawable.image_axes(shape, data_format) == axes
    assert drawable.shown_axes(shape, data_format) == shown
    draw = np.random.default_rng(0).uniform(size=shape)
    pixels, _ = drawable.pixels(draw, (0,) * len(shape), data_format)
    whole = (axes[0], axes[1], axes[2]) if axes[2] in shown else axes[:2]
    wanted = np.moveaxis(draw, [axis for axis in whole if axis is not None], range(-len(whole), 0))
    wanted = wanted.reshape(-1, *(shape[axis] for axis in whole if axis is not None))[0]
    assert np.array_equal(pixels, wanted if wanted.ndim == 3 else wanted[:, :, None])


@pytest.mark.parametrize(
    "array, words",
    [
        (np.array([["a", "b"]]), "[1, 2] is not numeric"),
        (np.zeros((0, 3)), "float64[0, 3] has no elements to draw"),
        (np.array([[None]]), "object[1, 1] is not numeric"),
        (np.array([["2020-01-01"]], "M8[D]"), "datetime64[D][1, 1] is not numeric"),
    ],
)
@pytest.mark.parametrize("mode", ["heat map", "image", "histogram"])
def test_nothing_to_draw(array: np.ndarray, words: str, mode: str) -> None:
    view = TensorView(array, mode=mode)
    assert words in view._message.value and not view.picture
    view.mode.value = "numbers"
    wait_for(lambda: "<table>" in view._body.value or not array.size)


@pytest.mark.parametrize(
    "array, words",
    [
        (np.array([[3 + 4j, 0], [1, 1j]]), "size of the complex numbers"),
        (np.ma.array([[1.0, 9.0], [3.0, 4.0]], mask=[[0, 1], [0, 0]]), "masked entries"),
        (np.ma.array([[1, 9], [3, 4]], mask=[[0, 1], [0, 0]]), "masked entries"),
        (np.ones((2, 2), np.longdouble), ""),
    ],
)
@pytest.mark.parametrize("mode", ["heat map", "image", "histogram"])
def test_what_is_drawn_of_other_dtypes_is_told(array: np.ndarray, words: str, mode: str) -> None:
    view = TensorView(array, mode=mode)
    assert view.picture and words in view._body.value and not view._message.value


@pytest.mark.parametrize(
    "low, high, expected",
    [
        (-1.0, 3.0, centred.Scale(-3.0, 3.0, "both")),
        (-4.0, 3.0, centred.Scale(-4.0, 4.0, "both")),
        (0.0, 2.0, centred.Scale(0.0, 2.0, "above")),
        (-2.0, -0.5, centred.Scale(-2.0, 0.0, "below")),
        (5.0, 5.0, centred.Scale(0.0, 5.0, "above")),
        (0.0, 0.0, centred.Scale(0.0, 0.0, "above")),
        (1000.0, 1001.0, centred.Scale(1000.0, 1001.0, "far")),
        (-1001.0, -1000.0, centred.Scale(-1001.0, -1000.0, "far")),
    ],
)
def test_scales_are_centred_on_zero(low: float, high: float, expected: centred.Scale) -> None:
    assert centred.scale(low, high) == expected


@pytest.mark.parametrize(
    "values",
    [
        np.full((3, 3), np.nan),
        np.array([[np.inf, -np.inf]]),
        np.ones((1, 1)),
        np.ones((2, 2), bool),
    ],
)
def test_heat_map_of_anything(values: np.ndarray) -> None:
    assert TensorView(values, mode="heat map").picture.startswith(b"\x89PNG")


def test_of_large_slices_nothing_is_left_out() -> None:
    thin = thinned(np.full((5000, 100, 3), 0.5))
    assert thin.shape == (MAX_SIDE_PIXELS, 100, 3) and np.allclose(thin, 0.5)
    view = TensorView(np.zeros((3000, 3000), np.float32), mode="heat map")
    assert len(view.picture) < 100_000


ZERO, HIGH, BAD = (247, 246, 246), (103, 0, 31), (176, 0, 150)  # of the map, and no number


def count(picture: SlicePainter, png: bytes, colour: tuple[int, int, int]) -> int:
    """How many pixels within a heat map are of about this colour."""
    assert picture._frame is not None
    inside = colours(png)[picture._frame._at]
    return int((np.abs(inside - colour).max(-1) <= 3).sum())


@pytest.mark.parametrize("shape", [(5000, 3000), (5000, 20), (20, 5000), (285, 341), (600, 100)])
def test_what_is_rare_in_a_large_slice_is_seen(shape: tuple[int, int]) -> None:
    picture = SlicePainter()
    for turned in (False, True):
        striped = np.zeros(shape, np.float32)
        striped[1::8] = 1.0
        striped = striped.T if turned else striped
        png = picture.heat(striped, ("a", "b"))
        assert min(count(picture, png, ZERO), count(picture, png, HIGH)) > 1000
        single = np.zeros(striped.shape, np.float32)
        single[-3, 7] = 1.0
        png = picture.heat(single, ("a", "b"))
        assert count(picture, png, HIGH) >= 1 and count(picture, png, BAD) == 0
        for bad in (np.nan, np.inf, -np.inf):
            single[5, -2] = bad
            png = picture.heat(single, ("a", "b"))
            assert 4 <= count(picture, png, BAD) <= 2000 and count(picture, png, HIGH) >= 1


def test_images_are_in_true_colour_and_small() -> None:
    y, x = np.mgrid[0:384, 0:384] / 384
    smooth = np.stack([y, x, (x + y) / 2], -1)
    png = SlicePainter().image(smooth)
    assert np.abs(colours(png) - np.round(smooth * 255)).max() <= 1
    plain = io.BytesIO()
    Image.fromarray(np.round(smooth * 255).astype(np.uint8)).save(plain, "png", compress_level=4)
    assert len(png) <= plain.getbuffer().nbytes
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    assert (colours(SlicePainter().image(noise)) == noise).all()  # the page enlarges it
    grown = TensorView(noise / 255.0, mode="image")._body.value
    assert "width:384px;max-width:100%;image-rendering:pixelated" in grown
    smooth[100, 200] = np.nan
    assert (np.abs(colours(SlicePainter().image(smooth)) - BAD).max(-1) <= 1).sum() == 9


def test_large_images_are_means_with_a_mark_for_nan() -> None:
    image = np.zeros((2048, 2048, 1), np.uint8)
    image[::2] = 200
    assert (np.abs(colours(SlicePainter().image(image)) - 100) <= 1).all()
    floats = image / 255.0
    floats[77, 1234] = np.nan
    seen = colours(SlicePainter().image(floats))
    assert (np.abs(seen - BAD).max(-1) <= 1).sum() >= 4


def test_histograms_of_large_slices_are_not_of_every_so_many_rows() -> None:
    striped = np.zeros((4096, 1024), np.float32)
    striped[1::8] = 1.0
    striped[:, 5::16] = 2.0
    values, note = sampled(striped)
    shares = [np.mean(values == one) for one in (0.0, 1.0, 2.0)]
    assert np.allclose(shares, (0.8203, 0.1172, 0.0625), atol=0.002)
    assert note == "262,144 of 4,194,304 elements"
    assert sampled(striped[:100])[1] == ""
    striped[...] = 0.0
    striped[3, 3] = 7.0
    assert SlicePainter().histogram(striped, "x") != SlicePainter().histogram(striped * 0, "x")


@pytest.mark.parametrize("size", [3, 512])
def test_the_label_of_a_histogram_is_not_cut(size: int) -> None:
    values = np.random.default_rng(0).normal(size=(size, size))
    assert (colours(SlicePainter().histogram(values, "x"))[:, :2] == 255).all()


def test_an_error_goes_when_a_picture_can_be_drawn() -> None:
    view = TensorView(np.full((2, 8, 6, 3), "a"), mode="image")
    assert "is not numeric" in view._message.value and not view.picture
    view._repr_mimebundle_()
    view.replace(np.zeros((2, 8, 6, 3)), "b")
    wait_for(lambda: view._message.value == "")
    assert view.picture
    view.replace(np.full((2, 8, 6, 3), "a"), "c")
    wait_for(lambda: "is not numeric" in view._message.value)
    view.close()


def colours(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (7, 5), (40, 300), (280, 330)])
def test_every_cell_of_a_heat_map_has_its_colour(shape: tuple[int, int]) -> None:
    draw = np.random.default_rng(0)
    values = draw.normal(size=shape)
    values[0, 0], values[-1, -1] = 5.0, -5.0
    holes = draw.random(shape) < 0.1
    holes[0, 0] = holes[-1, -1] = False
    values[holes] = draw.choice([np.nan, np.inf, -np.inf], int(holes.sum()))
    picture = SlicePainter()
    picture.heat(np.ones(shape), ("", ""))
    shown = colours(picture.heat(values, ("rows", "columns")))
    assert picture._frame is not None
    inside = shown[picture._frame._at]
    assert inside.shape[:2] == picture._frame.room
    at = [(np.arange(count) * 2 + 1) * room // (2 * count)
          for count, room in zip(shape, inside.shape, strict=False)]  # fmt: skip
    seen = inside[np.ix_(*at)]
    scale = centred.scale(float(values[~holes].min()), float(values[~holes].max()))
    part = (values - scale.low) / ((scale.high - scale.low) or 1.0)
    colours_of = {"both": part, "above": 0.5 + part / 2, "below": part / 2}[scale.colours]
    centred_map = importlib.import_module("matplotlib").colormaps["RdBu_r"]
    wanted = np.round(centred_map(np.where(holes, 0, colours_of))[..., :3] * 255)
    assert np.abs(seen - wanted)[~holes].max() <= 5  # of 200 colours
    red, green, blue = np.moveaxis(seen[holes], -1, 0)
    assert ((green - blue <= 0) & (red >= green)).all()  # white, magenta, or between these
    if holes.any() and max(shape) <= 10:
        assert (np.ptp(inside, axis=(0, 1)) > 100).all()


def test_the_scale_says_what_the_colours_are() -> None:
    picture, values = SlicePainter(), np.arange(12.0).reshape(3, 4)
    before = colours(picture.heat(values, ("a", "b")))
    after = colours(picture.heat(values * 3, ("a", "b")))
    where = np.flatnonzero((before != after).any((0, 2)))
    assert picture._frame is not None
    assert where.size and where.min() >= picture._frame._bar[1].stop  # its numbers, nothing else
    assert (colours(picture.heat(values, ("a", "b"))) == before).all()
    assert (colours(picture.heat(values.T, ("a", "b"))) != before).any()
    assert (colours(SlicePainter().heat(values, ("a", "b"))) == before).all()


ENDS = [0.001, 0.0012, 0.0037, 0.0089, 0.0102, 0.02, 0.0375, 0.1, 0.15, 0.9, 7.5, 11.0, 99.0,
        1234.5, 9876.5, 12345.6, 1e6, 1e8 + 1.5, 3e-300, 1e308]  # fmt: skip


@pytest.mark.parametrize(
    "low, high", every(4, [(-one, other) for one in ENDS for other in (one, 0)])
)
def test_numbers_at_the_scale_are_not_cut(low: float, high: float) -> None:
    shown = colours(SlicePainter().heat(np.array([[low, high]]), ("", "")))
    assert (shown[:, -2:] == 255).all() and (shown[:2] == 255).all()


@pytest.mark.parametrize("values", [np.arange(9.0), np.ones(4), np.array([np.nan]), np.zeros(0)])
def test_histograms_are_drawn_anew(values: np.ndarray) -> None:
    used = SlicePainter()
    for other in (np.linspace(-1, 1, 50), np.full(3, 2.0), values):
        drawn = used.histogram(other.reshape(1, -1), "x")
    assert drawn == SlicePainter().histogram(values.reshape(1, -1), "x")


@pytest.mark.parametrize(
    "values, low, high",
    [
        (np.array([0, 255], np.uint8), 0.0, 1.0),
        (np.array([0.25, 0.5]), 0.25, 0.5),
        (np.array([-3.0, 5.0]), 0.0, 1.0),
        (np.array([np.nan, 2.0]), 0.0, 1.0),
        (np.array([-300, 300]), 0.0, 1.0),
        (np.array([2.0, 2.0]), 0.0, 0.0),
        (np.array([-1e308, 1e308]), 0.0, 1.0),
    ],
)
def test_unit_range(values: np.ndarray, low: float, high: float) -> None:
    pixels = unit_range(values)
    assert (pixels.min(), pixels.max()) == (low, high)


def test_symbols_that_need_what_was_never_fed_say_so() -> None:
    x = K.placeholder((2,), name="x")
    with pytest.raises(ArgumentError, match="was not fed yet"):
        TensorView(x)
    with pytest.raises(ArgumentError, match="needs values for x"):
        TensorView(x * 2)
    assert not inspector_hub._hubs


@pytest.mark.parametrize(
    "style, digits, value, text",
    [
        ("auto", None, 0.123456, "0.1235"),
        ("auto", 7, 0.123456789, "0.1234568"),
        ("plain", 3, 123456.0, "123000"),
        ("plain", 17, 0.1, "0.10000000000000001"),
        ("scientific", 5, 12.0, "1.2000e+01"),
        ("scientific", None, -3, "-3.000e+00"),
        ("hex", None, 255, "0xff"),
        ("hex", None, -1, "-0x1"),
        ("hex", 2, 0.5, "0.5"),
        ("plain", None, 1e300, "1.000e+300"),
        ("plain", 4, float("nan"), "NaN"),
        ("scientific", 2, 1.0 - 2.0j, "1.0e+00-2.0e+00j"),
        ("hex", None, True, "True"),
        ("scientific", 3, "text", "'text'"),
    ],
)
def test_number_formats(style: str, digits: int | None, value: object, text: str) -> None:
    assert NumberFormat(style, digits).write(value) == text


@pytest.mark.parametrize("style, digits", [("roman", None), ("auto", 0), ("auto", 18)])
def test_wrong_formats(style: str, digits: int | None) -> None:
    with pytest.raises(ArgumentError, match="must be"):
        NumberFormat(style, digits)


def test_format_and_digits_of_a_view() -> None:
    part = TensorView(np.array([1 / 3, 2e-9]), "a")
    part.digits.value = 6
    part.refresh()
    assert "0.333333" in text_of(part._body.value)
    part.form.value = "scientific"
    part.look_at("[1]")
    part.refresh()
    assert "2.00000e-09" in text_of(part._body.value)  # the format is kept from slice to slice
    part.close()


@pytest.mark.parametrize("kind", ["scipy", "variable", "tensor"])
def test_sparse_values_are_places_and_numbers(kind: str) -> None:
    held = scipy.sparse.csr_matrix(([1.5, -2.0, 4.0], ([0, 2, 2], [1, 0, 3])), shape=(3, 4))
    value: object = held
    if kind != "scipy":
        value = K.variable(held, dtype="float32")
    if kind == "tensor":
        value = K.concatenate([value], axis=0)
    part = TensorView(value, "s")
    shown = text_of(part._body.value)
    assert "3 entries (25 %)" in shown and "3 stored values" in shown
    part.digits.value = 3
    part.entry.value = 1
    part.refresh()
    assert "3 stored values, 2-3" in text_of(part._body.value)
    part.dense_button.click()
    part.refresh()
    assert part._array.shape == (3, 4) and "s[:, :]" in text_of(part._body.value)
    part.close()


def test_a_large_sparse_value_is_not_made_dense() -> None:
    held = scipy.sparse.csr_matrix(([1.0], ([5], [7])), shape=(10**6, 10**6))
    part = TensorView(held, "s")
    assert part.dense_button.disabled and "1 stored value" in text_of(part._body.value)
    part.mode.value = "histogram"
    part.refresh()
    assert part.picture
    part.close()


def test_the_tab_of_values_takes_sparse_ones_and_keeps_the_format() -> None:
    held = scipy.sparse.csr_matrix(np.eye(3) / 3)
    part = ValueTab({"a": np.full((2, 2), 1 / 7), "s": held})
    part._activate()
    part.refresh()
    assert part.view is not None and "0.1429" in part.view._body.value
    part.view.digits.value = 8
    part.chosen.value = "s"
    assert "3 stored values" in part.view._body.value
    part.view.refresh()
    assert "0.33333333" in part.view._body.value
    part.close()


SAVED: list[tuple[str, Any, bool]] = [
    # the mode, the value, and whether there is room for its picture
    ("numbers", np.eye(3), False),
    ("heat map", np.eye(3), True),
    ("image", np.tile(np.arange(28, dtype=np.uint8), (28, 1)), True),
    ("heat map", np.random.default_rng(0).normal(size=(64, 64)), False),
    ("image", np.random.default_rng(0).integers(0, 255, (90, 90, 3), np.uint8), False),
]


@pytest.mark.parametrize(("mode", "value", "pictured"), SAVED)
def test_the_saved_view_has_the_numbers_and_where_it_fits_the_picture(
    mode: str, value: Any, pictured: bool
) -> None:
    view = TensorView(value, "x", mode=mode)
    saved = view._static_html()
    assert ("<img" in saved) is pictured and len(saved.encode()) <= MAX_OUTPUT_BYTES
    assert "<table" in saved and "mean" in text_of(saved)
    view.mode.value = "numbers"
    view.refresh()
    assert "<img" not in view._static_html()
    view.close()
