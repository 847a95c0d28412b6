"""`kbench.compare`: values, times and differences of engines, and how they are shown."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import kbench
from kbench import backend as K
from kbench.api import differences
from kbench.api.comparison import flatten
from kbench.api.differences import Comparison, Difference, Result, difference, seconds
from kbench.notebook.html import html

ARRAY = np.random.default_rng(5).normal(size=(40, 30)).astype("float32")


@pytest.fixture
def crooked(monkeypatch: pytest.MonkeyPatch) -> str:
    """An engine that is kbench but for three functions: one off, one NaN, one another size."""
    module = types.ModuleType("crooked_engine")
    vars(module).update({name: getattr(K, name) for name in K.__all__})
    vars(module).update(
        backend=lambda: "crooked",
        exp=lambda x: K.exp(x) + K.one_hot(K.constant([1, 0], dtype="int32"), 2) * 0.5,
        log=lambda x: K.log(x - x),
        sqrt=lambda x: K.sum(x),
    )
    monkeypatch.setitem(sys.modules, "crooked_engine", module)
    return "crooked_engine"


# ------------------------------------------------------------------ values


def test_both_engines_give_values_and_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    monkeypatch.setenv("KBENCH_LEAST", "1")
    found = kbench.compare(lambda K, x: K.softmax(x * 2), feeds=[ARRAY], repeats=3)
    own, plain = found["kbench"], found["numpy"]
    wanted = np.exp(2 * ARRAY) / np.exp(2 * ARRAY).sum(-1, keepdims=True)
    np.testing.assert_allclose(own.value, wanted, 1e-5)
    np.testing.assert_allclose(plain.value, wanted, 1e-5)
    assert (own.forms, plain.forms) == (("fused",), ("numpy",))
    assert len(own.times) == len(plain.times) == 3
    assert 0 < own.median < own.first
    assert found.reference is own and own.difference is None
    assert plain.difference is not None and plain.difference.absolute < 1e-6


def test_feeds_by_name_and_nested_results() -> None:
    found = kbench.compare(
        lambda K, x, k: {"top": [K.max(x, -1), (K.argmax(x, -1),)], "count": K.gather(x, k)},
        feeds={"k": np.array([2, 1]), "x": ARRAY},
        repeats=0,
    )
    value = found["numpy"].value
    np.testing.assert_array_equal(value["top"][0], ARRAY.max(-1))
    np.testing.assert_array_equal(value["top"][1][0], ARRAY.argmax(-1))
    np.testing.assert_array_equal(value["count"], ARRAY[[2, 1]])
    assert list(found["kbench"].outputs) == ["['top'][0]", "['top'][1][0]", "['count']"]
    assert found["kbench"].times == [] and found["kbench"].median == found["kbench"].first
    assert found.largest == Difference()


def test_lists_take_floatx_and_arrays_keep_their_dtype() -> None:
    found = kbench.compare(lambda K, *x: list(x), feeds=[[1.0], [1], np.ones(1), np.float16(2)])
    dtypes = [one.dtype.name for one in found["kbench"].outputs.values()]
    assert dtypes == ["float32", "int64", "float64", "float16"]


def test_no_feeds_and_no_outputs() -> None:
    assert kbench.compare(lambda K: K.constant(2.0))["numpy"].value == 2.0
    found = kbench.compare(lambda K: [])
    assert found["kbench"].value == [] and "no output" in repr(found)


def test_sparse_feeds() -> None:
    matrix = scipy.sparse.random(6, 5, 0.5, random_state=1, dtype="float32", format="csr")
    found = kbench.compare(lambda K, s, x: K.dot(s, x), feeds=[matrix, ARRAY[:5]])
    np.testing.assert_allclose(found["kbench"].value, matrix @ ARRAY[:5], 1e-5)


def test_seeded_random_numbers_are_the_same() -> None:
    found = kbench.compare(
        lambda K: [K.random_normal((50, 50), seed=3), K.dropout(K.ones((50, 50)), 0.4, seed=5)]
    )
    assert found.largest == Difference()


def test_engine_of_the_function_is_the_one_named(crooked: str) -> None:
    names: list[str] = []
    kbench.compare(
        lambda K: names.append(K.backend()) or K.constant(1.0), ["numpy", crooked, "kbench"]
    )
    assert list(dict.fromkeys(names)) == ["numpy", "crooked", "kbench"]


class SparseTensor:
    """What TensorFlow calls its sparse tensors, here a dense array."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)


@pytest.mark.parametrize("traces", [True, False])
def test_tensorflow_is_traced_and_else_called(
    monkeypatch: pytest.MonkeyPatch, traces: bool
) -> None:
    """On stand-ins of both packages, which count what is asked of them."""
    traced: list[Any] = []

    def function(run: Any) -> Any:
        def call(given: Any) -> Any:
            if not traces:
                raise ValueError("a variable was made while tracing")
            traced.append(given)
            return run(given)

        return call

    tensorflow, keras = types.ModuleType("tensorflow"), types.ModuleType("tf_keras.backend")
    tensorflow.constant, tensorflow.function = np.asarray, function
    tensorflow.convert_to_tensor = np.asarray
    tensorflow.sparse = types.SimpleNamespace(
        from_dense=SparseTensor, to_dense=lambda one: one.array
    )
    keras.placeholder = keras.variable = keras.function = len
    keras.exp, keras.identity = np.exp, lambda x: x
    for name, module in (("tensorflow", tensorflow), ("tf_keras", keras)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "tf_keras.backend", keras)
    sparse = scipy.sparse.eye(3, format="csr", dtype="float32")
    found = kbench.compare(
        lambda K, x, s: [K.exp(x), K.identity(s)], ["tensorflow", "kbench"], [ARRAY, sparse], 2
    )
    assert found["tensorflow"].error is None and found["kbench"].error is None
    assert len(traced) == (4 if traces else 0)
    assert found["kbench"].difference.absolute < 1e-5
    np.testing.assert_array_equal(found["kbench"].value[1], np.eye(3))


# ------------------------------------------------------------------ differences


def test_the_largest_difference_and_its_place(crooked: str) -> None:
    found = kbench.compare(
        lambda K, x: [x, K.exp(x)], ["kbench", crooked], feeds=[np.zeros((2, 2))]
    )
    told = found[crooked].difference
    assert told is found.largest
    assert (told.absolute, told.output, told.index) == (0.5, "[1]", (0, 1))
    assert told.relative == pytest.approx(0.5 / 1.5)
    assert told.place == "[1][0, 1]" == told.relative_at


def test_nan_against_a_number_differs_by_infinity(crooked: str) -> None:
    found = kbench.compare(lambda K, x: K.log(x), ["kbench", crooked], feeds=[np.ones(2)])
    assert found.largest.absolute == np.inf and found.largest.relative == np.inf


def test_other_shapes_are_said_and_not_compared(crooked: str) -> None:
    found = kbench.compare(lambda K, x: K.sqrt(x), ["kbench", crooked], feeds=[np.ones(3)])
    assert found[crooked].difference.problem == "float64[] against float64[3]"
    assert "not comparable" in repr(found)


@pytest.mark.parametrize(
    "wanted, got, absolute, relative",
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], 0.0, 0.0),
        ([0.0, 4.0], [0.0, 5.0], 1.0, 0.2),
        ([0.0], [1e-30], 1e-30, 1.0),
        ([np.inf], [-np.inf], np.inf, np.inf),
        ([np.inf], [1.0], np.inf, np.inf),
        ([0.0], [-0.0], 0.0, 0.0),
        ([], [], 0.0, 0.0),
    ],
)
def test_differences_of_floats(wanted: Any, got: Any, absolute: float, relative: float) -> None:
    for dtype in ("float32", "float64"):
        found = difference({"": np.array(wanted, dtype)}, {"": np.array(got, dtype)})
        assert found.absolute == pytest.approx(absolute, rel=1e-6)
        assert found.relative == pytest.approx(relative, rel=1e-6)


def test_differences_of_integers_and_bools_are_exact() -> None:
    large = 2**63 - 1
    found = difference({"": np.array([large])}, {"": np.array([large - 1])})
    assert found.absolute == 1.0
    found = difference({"": np.array([-large])}, {"": np.array([large])})
    assert found.absolute == 2.0**64
    found = difference({"": np.array([True, False])}, {"": np.array([True, True])})
    assert (found.absolute, found.index) == (1.0, (1,))
    found = difference({"": np.array([0], "uint8")}, {"": np.array([255], "uint8")})
    assert found.absolute == 255.0


# ------------------------------------------------------------------ what fails


def test_an_engine_that_fails_loses_the_others_nothing(crooked: str) -> None:
    def only_here(K: Any, x: Any) -> Any:
        if K.backend() == "crooked":
            raise RuntimeError("not on\nthis engine")
        return K.exp(x)

    found = kbench.compare(only_here, [crooked, "numpy", "no_such_engine"], feeds=[ARRAY])
    assert isinstance(found[crooked].error, RuntimeError)
    assert isinstance(found["no_such_engine"].error, ImportError)
    assert found.reference is found["numpy"] and found.largest is None
    text = repr(found)
    assert "crooked_engine: RuntimeError: not on" in text and "this engine" not in text
    assert "No module named 'no_such_engine'" in " ".join(text.split())


def test_when_all_fail_there_is_no_table() -> None:
    found = kbench.compare(lambda K, x: K.dot(x, x), feeds=[ARRAY])
    assert found.reference is None and found.largest is None
    error = found["kbench"].error
    assert isinstance(error, K.ShapeError) and error.place.file == __file__
    assert [one.place.file for one in error.operands] == [__file__] * 2
    assert repr(found).startswith(
        "comparison of 2 engines, no value\nkbench: ShapeError: dot: inner"
    )


@pytest.mark.parametrize(
    "arguments, says",
    [
        ((3,), "fn must be a function of K and the tensors, got 3"),
        ((len, "kbench"), "engines must be a list of names"),
        ((len, []), "engines must be a list of names"),
        ((len, [3]), "engines must be names, got 3"),
        ((len, ["numpy", "numpy"]), "names one twice"),
        ((len, ["numpy"], ARRAY), "a single array goes into a list"),
        ((len, ["numpy"], [["a"]]), "which no engine takes"),
        ((len, ["numpy"], {"x": [[1], [1, 2]]}), "feeds['x'] is not an array"),
        ((len, ["numpy"], None, -1), "repeats must be an integer of at least 0"),
        ((len, ["numpy"], None, True), "repeats must be an integer"),
    ],
)
def test_wrong_arguments(arguments: Any, says: str) -> None:
    with pytest.raises(K.ArgumentError) as caught:
        kbench.compare(*arguments)
    assert caught.value.function == "compare"
    assert caught.value.place.file == __file__
    assert says in str(caught.value)


def test_an_engine_that_was_not_compared() -> None:
    with pytest.raises(KeyError, match="was not compared; choose from kbench, numpy"):
        kbench.compare(lambda K: K.constant(1.0))["tensorflow"]


# ------------------------------------------------------------------ how it is shown


def made() -> Comparison:
    values = {"": np.array([1.0, 2.0, 4.0], "float32")}
    other = {"": np.array([1.0, 2.0, 5.0], "float32")}
    return Comparison(
        [
            Result("kbench", values[""], values, 0.0123, [3.1e-4, 2.9e-4, 1.0], ("blas", "fused")),
            Result("numpy", other[""], other, 2.0, [5e-7], ("numpy",)),
            Result("<b>", error=ValueError("a\nb")),
        ]
    )


def test_text() -> None:
    assert made().text(80).splitlines() == [
        "comparison of 3 engines, float32[3]",
        "engine    first  median  ran as       max diff   relative  at",
        "kbench  12.3 ms  310 us  blas, fused  reference",
        "numpy       2 s  500 ns  numpy        1          0.2       [2]",
        "<b>: ValueError: a",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_text_fits(width: int) -> None:
    assert max(map(len, made().text(width).splitlines())) <= width


def test_columns_go_where_there_is_no_room() -> None:
    assert made().text(50).splitlines()[1:3] == [
        "engine  median  ran as    max diff   relative  at",
        "kbench  310 us  blas, f…  reference",
    ]
    assert made().text(40).splitlines()[1] == "engine  median  ran as    max diff   at"


def test_a_column_goes_before_a_name_is_cut() -> None:
    wide = made()
    for result, name in zip(wide.results, ("floatx=float16", "floatx=float32"), strict=False):
        result.engine = name
    lines = wide.text(52).splitlines()
    assert lines[1:3] == [
        "engine          median  ran as       max diff   at",
        "floatx=float16  310 us  blas, fused  reference",
    ]


def test_a_front_end_gets_the_width_that_it_has() -> None:
    with np.printoptions(linewidth=42):
        assert made()._repr_mimebundle_()["text/plain"] == made().text(42)


def test_html_is_escaped_and_has_no_script() -> None:
    shown = made()._repr_mimebundle_()
    assert shown["text/plain"] == made().text(75)
    page = shown["text/html"]
    assert page == html.show(made())
    assert "<script" not in page and "<b>:" not in page and "&lt;b&gt;" in page
    for part in ("12.3 ms", "blas, fused", "reference", "[2]", "ValueError: a", "float32[3]"):
        assert part in page


def test_as_dict() -> None:
    found = made().as_dict()
    assert found["reference"] == "kbench"
    assert found["engines"]["<b>"]["error"] == "ValueError: a"
    told = found["engines"]["numpy"]
    assert told["shapes"] == {"": (3,)} and told["dtypes"] == {"": "float32"}
    assert told["difference"]["absolute"] == 1.0 and told["difference"]["place"] == "[2]"
    assert found["engines"]["kbench"]["median"] == 3.1e-4


@pytest.mark.parametrize(
    "count, text",
    [(2.0, "2 s"), (0.01234, "12.3 ms"), (1e-3, "1 ms"), (4.5e-5, "45 us"), (3e-7, "300 ns")],
)
def test_seconds(count: float, text: str) -> None:
    assert seconds(count) == text


def test_flatten_and_back() -> None:
    flat, labels, rebuild = flatten({"a": [1, (2,)], "b": 3})
    assert (flat, labels) == ([1, 2, 3], ["['a'][0]", "['a'][1][0]", "['b']"])
    assert rebuild([4, 5, 6]) == {"a": [4, (5,)], "b": 6}
    assert flatten(7)[1] == [""] and flatten(7)[2]([8]) == 8


def test_the_columns_are_those_of_the_heads() -> None:
    assert {len(row) for row in made().rows()} == {len(differences.COLUMN_HEADS)}
