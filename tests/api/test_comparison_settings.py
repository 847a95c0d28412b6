"""Comparisons under several settings: values side by side, and everything as before afterwards."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kbench
import kbench as K
from kbench.engine.runtime import config, profile
from kbench.engine.runtime.overrides import temporarily
from kbench.notebook.html import comparing
from kbench.workbench.analysis import compare
from kbench.workbench.inspector.recorder import Recorder

IMAGES = np.random.default_rng(3).normal(size=(2, 6, 6, 6)).astype("float32")


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    before = config.snapshot(), dict(config._values)
    yield
    assert (config.snapshot(), dict(config._values)) == before


CASES: list[tuple[str, Any, dict[str, list[Any]], float, str]] = [
    # setting, expression, values, the largest difference and its place
    (
        "epsilon",
        lambda K: K.constant([0.0, 1.0]) * K.epsilon(),
        {"epsilon": [0, 0.5]},
        0.5,
        "[1]",
    ),
    ("floatx", lambda K: K.ones((3,)) / 3.0, {"floatx": ["float64", "float16"]}, 8.2e-5, "[0]"),
    (
        "learning phase",
        lambda K: K.in_train_phase(K.constant([1.0, 5.0]), K.constant([1.0, 2.0])),
        {"learning_phase": [0, 1]},
        3.0,
        "[1]",
    ),
    ("threads", lambda K: K.sum(K.constant(IMAGES)), {"num_threads": [1, 2]}, 0.0, ""),
]


@pytest.mark.parametrize(
    "fn,settings,absolute,place", [one[1:] for one in CASES], ids=[one[0] for one in CASES]
)
def test_values_under_each_setting(fn: Any, settings: Any, absolute: float, place: str) -> None:
    found = kbench.compare(fn, settings=settings, repeats=1)
    assert found.heads[0] == "variant" and "\nvariant " in str(found)
    assert [one.error for one in found.results] == [None, None]
    assert found.largest is not None and found.largest.problem is None
    assert found.largest.absolute == pytest.approx(absolute, rel=0.05)
    assert found.largest.place == place
    name, values = next(iter(settings.items()))
    assert [one.engine for one in found.results] == [f"{name}={value}" for value in values]
    assert "2 variants" in found.title()


def built_before() -> Any:
    """A tensor, as of an earlier cell."""
    return K.softmax(K.variable(np.ones((2, 3)), name="w"))


FLOATS, EPSILONS = {"floatx": ["float32", "float64"]}, {"epsilon": [1e-7, 1e-3]}
UNFELT: list[tuple[str, Any, Any, str]] = [
    ("a tensor", lambda K, y: y, FLOATS, "by floatx, all are float32: softmax"),
    ("one made of it", lambda K, y: y * 2.0 + 1.0, FLOATS, "all are float32: softmax"),
    ("a variable", lambda K, y: K.sum(y.inputs[0]), FLOATS, " (test_comparison_settings.py:"),
    ("epsilon", lambda K, y: y, EPSILONS, "by epsilon: softmax"),
    ("what reads no epsilon", lambda K, y: K.sum(K.ones(2)), EPSILONS, "creates uses it"),
    ("a variable has no epsilon", lambda K, y: K.sum(y.inputs[0]), EPSILONS, "creates uses it"),
    ("both", lambda K, y: y, {**FLOATS, **EPSILONS}, "by floatx and epsilon, all are float32"),
    ("built within", lambda K, y: K.zeros(2), FLOATS, ""),
    ("felt", lambda K, y: K.zeros(2) + K.epsilon(), EPSILONS, ""),
    ("threads", lambda K, y: y, {"num_threads": [1, 2]}, ""),
    ("one that fails", lambda K, y: y.nothing, FLOATS, ""),
]


@pytest.mark.parametrize(
    "fn,settings,words", [one[1:] for one in UNFELT], ids=[one[0] for one in UNFELT]
)
def test_why_a_setting_made_no_difference(fn: Any, settings: Any, words: str) -> None:
    y = built_before()
    found = kbench.compare(lambda K: fn(K, y), settings=settings, repeats=0)
    said = found.unfelt()
    assert (words in said and said.startswith("no difference by ")) if words else said == ""
    flat = " ".join(found.text(60).split())
    for text in (flat, " ".join("\n".join(compare.lines(found, 60)).split())):
        assert " ".join(said.split()) in text
    assert html.escape(said, quote=False).replace("\n", " ")[:40] in comparing.comparison(found)


def test_data_format_and_engines_multiply() -> None:
    found = kbench.compare(
        lambda K, x: K.mean(K.pool2d(x, (2, 2), (2, 2))),
        ["kbench", "numpy"],
        [IMAGES],
        1,
        {"image_data_format": ["channels_last", "channels_first"]},
    )
    assert [one.engine for one in found.results] == [
        f"{engine} image_data_format={layout}"
        for engine in ("kbench", "numpy")
        for layout in ("channels_last", "channels_first")
    ]
    assert all(one.error is None for one in found.results)
    labels = [line.split("  ")[0] for line in found.text(56).splitlines()[2:6]]
    assert len(set(labels)) == 4, "a label that is cut must still tell its variant"


def test_a_function_that_fails_or_is_interrupted_leaves_the_settings() -> None:
    def fails(K: Any) -> Any:
        raise ValueError("no")

    found = kbench.compare(fails, settings={"epsilon": [1e-3, 1e-2]})
    assert [str(one.error) for one in found.results] == ["no", "no"]

    def stops(K: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kbench.compare(stops, settings={"floatx": ["float64"], "learning_phase": [1]})


def test_settings_are_put_back_through_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    store, stops = config._store, [True, True]

    def interrupted(name: str, value: Any) -> None:
        if stops and value in (1e-7, "float32"):
            stops.pop()
            raise KeyboardInterrupt
        store(name, value)

    with pytest.raises(KeyboardInterrupt):
        with temporarily({"epsilon": 0.25, "floatx": "float64"}):
            monkeypatch.setattr(config, "_store", interrupted)
    assert not stops and (K.epsilon(), K.floatx()) == (1e-7, "float32")


def test_a_refused_value_is_kept_as_the_error_of_its_variant() -> None:
    found = kbench.compare(lambda K: K.zeros(2), settings={"floatx": ["float32", "float7"]})
    assert found.results[0].error is None
    assert "float7" in str(found.results[1].error)


WRONG = [
    ({"settings": {"speed": [1]}}, "unknown setting 'speed'"),
    ({"settings": {"epsilon": 1e-3}}, "must be a list of values"),
    ({"settings": {"epsilon": []}}, "must be a list of values"),
    ({"settings": ["epsilon"]}, "settings must map names"),
    ({"settings": {"epsilon": [1e-3, 1e-3]}}, "one value twice"),
    ({"settings": {"epsilon": [n / 100 for n in range(17)]}}, "the limit is 16"),
    ({"engines": [], "settings": {"epsilon": [1]}}, "engines must be"),
]


@pytest.mark.parametrize("keywords,words", WRONG, ids=[one[1] for one in WRONG])
def test_wrong_settings(keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(K.ArgumentError, match=words):
        kbench.compare(lambda K: K.zeros(2), **keywords)


def test_nothing_is_stored_and_no_random_number_used_up() -> None:
    w = K.variable([1.0, 2.0])
    step = K.function([], [K.sum(w)], [(w, w * 2.0)])
    found = kbench.compare(lambda _: step([]), settings={"num_threads": [1, 2]})
    assert all("must not change" in str(one.error) for one in found.results)
    noise = K.random_uniform((3,), seed=4)
    first = K.eval(noise)
    found = kbench.compare(lambda _: noise * 1.0, ["kbench", "numpy"], repeats=2)
    assert found.largest is not None and found.largest.absolute == 0.0
    again = K.random_uniform((3,), seed=4)
    assert K.eval(again).tolist() == first.tolist()
    assert K.eval(noise).tolist() == K.eval(again).tolist()
    assert K.get_value(w).tolist() == [1.0, 2.0]


def test_arrays_that_a_function_computes_are_timed() -> None:
    x = K.placeholder((2,))
    f = K.function([x], [x * 2.0])
    found = kbench.compare(lambda _: f([[1.0, 2.0]]), ["kbench", "numpy"], repeats=3)
    assert [one.value[0].tolist() for one in found.results] == [[2.0, 4.0]] * 2
    assert len(found.results[0].times) == 3


def test_placeholders_take_what_was_fed_last() -> None:
    recorder = Recorder()
    recorder.keep_feeds()
    find = compare.feed_finder(recorder)
    profile.fed_value_sources.append(find)
    try:
        x = K.placeholder((2,), name="x")
        K.function([x], [x])([[3.0, 4.0]])
        found = kbench.compare(lambda K: K.sum(x), repeats=0)
        assert [float(one.value) for one in found.results] == [7.0, 7.0]
    finally:
        profile.fed_value_sources.remove(find)
        recorder.stop()


# ------------------------------------------------------------------ what is typed and shown

TYPED = [
    ("engine=kbench,numpy", (["kbench", "numpy"], {})),
    ("epsilon=1e-7,1e-3 floatx=float16", (None, {"epsilon": [1e-7, 1e-3], "floatx": ["float16"]})),
    ("learning_phase=None,1", (None, {"learning_phase": [None, 1]})),
]


@pytest.mark.parametrize("text,wanted", TYPED, ids=[one[0] for one in TYPED])
def test_variants_are_read(text: str, wanted: Any) -> None:
    assert compare.parse(text) == wanted


@pytest.mark.parametrize("text", ["", "epsilon", "epsilon=", "=3", "speed=1", "x y"])
def test_variants_that_are_none(text: str) -> None:
    with pytest.raises(compare.VariantsError):
        compare.parse(text)


@pytest.mark.parametrize("text", ["K.sqrt(x)", "K.sqrt(  # why\n  x\n)", "[x, (x,\n x)]", "x # y"])
def test_the_line_that_compares_is_python(text: str) -> None:
    line = compare.code(text, "engine=numpy")
    names: dict[str, Any] = {"K": K, "x": K.constant(4.0)}
    assert eval(line, names).results[0].error is None


def test_a_cell_is_a_function_of_K() -> None:
    names: dict[str, Any] = {"a": 2.0}
    fn = compare.function("b = a * 3\nK.constant(b) + K.epsilon()", names)
    found = kbench.compare(fn, settings={"epsilon": [0.0, 1.0]}, repeats=0)
    assert [float(one.value) for one in found.results] == [6.0, 7.0] and "b" not in names
    for cell in ("b = 1", "", "if x", "for i in ():\n    pass"):
        with pytest.raises(compare.VariantsError):
            compare.function(cell, names)


def test_the_largest_differences_come_first() -> None:
    x = np.zeros((3, 4), "float32")
    x[1, 2], x[2, 3] = 1.0, 5.0
    found = kbench.compare(lambda K: K.constant(x) * K.epsilon(), settings={"epsilon": [0.0, 1.0]})
    lines = compare.lines(found, 60)
    at = next(n for n, line in enumerate(lines) if "largest differences" in line)
    assert [line.split()[:2] for line in lines[at + 2 : at + 4]] == [["[2,", "3]"], ["[1,", "2]"]]
    assert "first values of 12" in "\n".join(lines)
    assert all(len(line) <= 60 for line in lines)
