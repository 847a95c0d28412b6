"""Variables, placeholders and constants; Python's protocols on tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine.graph import variables

# ------------------------------------------------------------------ making them

VALUES: list[tuple[Any, str | None, str, Any]] = [
    (1, None, "float32", 1.0),
    (True, None, "float32", 1.0),
    ([1, 2], "int32", "int32", [1, 2]),
    ([[1.5], [2.5]], "float16", "float16", [[1.5], [2.5]]),
    (np.arange(3), None, "float32", [0.0, 1.0, 2.0]),
    (np.float64(2.5), "float64", "float64", 2.5),
    ([0, 2], "bool", "bool", [False, True]),
    ([1.9, -1.9], "int8", "int8", [1, -1]),
    ([], None, "float32", []),
    (range(3), "int64", "int64", [0, 1, 2]),
    (np.float32([1, 2])[::-1], None, "float32", [2.0, 1.0]),
]


@pytest.mark.parametrize("make", [K.variable, K.constant])
@pytest.mark.parametrize(("value", "dtype", "wanted", "entries"), VALUES)
def test_values(make: Any, value: Any, dtype: str | None, wanted: str, entries: Any) -> None:
    tensor = make(value, dtype=dtype)
    assert K.dtype(tensor) == wanted
    got = K.eval(tensor)
    assert got.dtype == wanted
    assert got.tolist() == entries
    assert K.int_shape(tensor) == got.shape


def test_floatx_is_the_default_dtype() -> None:
    K.set_floatx("float64")
    made = [K.variable(1), K.constant(1), K.placeholder(()), K.zeros((1,)), K.ones((1,)), K.eye(2)]
    assert {K.dtype(one) for one in made} == {"float64"}


def test_a_variable_of_a_tensor_starts_with_its_value() -> None:
    first = K.variable([1.0, 2.0])
    second = K.variable(first * 2)
    K.set_value(first, [0.0, 0.0])
    assert K.get_value(second).tolist() == [2.0, 4.0]


def test_values_are_copied_on_the_way_in_and_out() -> None:
    array = np.ones(3, "float32")
    v, c = K.variable(array), K.constant(array)
    array.fill(5)
    assert K.get_value(v).tolist() == K.eval(c).tolist() == [1.0, 1.0, 1.0]
    K.set_value(v, array)
    array.fill(7)
    K.get_value(v).fill(8)
    v.numpy().fill(9)
    np.asarray(v).fill(10)
    K.batch_get_value([v])[0].fill(11)
    assert K.get_value(v).tolist() == [5.0, 5.0, 5.0]


def test_peek_is_a_window_that_cannot_be_written() -> None:
    v = K.variable([1.0, 2.0])
    window = v.peek()
    assert np.shares_memory(window, v.peek())
    with pytest.raises(ValueError):
        window[0] = 5


def test_constant_shapes() -> None:
    assert K.eval(K.constant(2, shape=(2, 3))).tolist() == [[2.0] * 3] * 2
    assert K.eval(K.constant([1, 2, 3, 4], shape=(2, 2))).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert K.eval(K.constant([7], shape=3)).tolist() == [7.0] * 3


def test_placeholders() -> None:
    K.clear_session()
    x = K.placeholder((None, 3), dtype="int32", name="x")
    assert (K.int_shape(x), K.ndim(x), K.dtype(x), x.name) == ((None, 3), 2, "int32", "x:0")
    assert x._keras_shape == (None, 3)
    assert K.int_shape(K.placeholder(ndim=2)) == (None, None)
    assert K.int_shape(K.placeholder(())) == ()
    assert K.int_shape(K.placeholder(shape=[2, np.int64(3)])) == (2, 3)
    assert K.int_shape(K.placeholder(4)) == (4,)
    one = K.placeholder(shape=(None), dtype="int64")  # as Keras' own programs write a vector
    assert (K.int_shape(one), K.dtype(one)) == ((None,), "int64")
    assert K.function([one], [one + 1])([np.array([1, 2])])[0].tolist() == [2, 3]
    with pytest.raises(K.FeedError, match=r"int64\[\?\].*shape \[2, 1\]"):
        K.function([one], [one + 1])([np.array([[1], [2]])])


# Results whose `_keras_shape` Keras' backends set; of a placeholder [?, 3] or [?, 4, 6, 2].
TOLD: list[tuple[Any, Any]] = [
    (lambda x, i: K.repeat_elements(x, 2, 0), (None, 3)),
    (lambda x, i: K.repeat_elements(x, 2, 1), (None, 6)),
    (lambda x, i: K.constant([[1.0, 2.0]]), (1, 2)),
    (lambda x, i: K.dot(x, K.zeros((3, 5))), (None, 5)),
    (lambda x, i: K.batch_dot(x, x, 1), (None, 1)),
    (lambda x, i: K.transpose(x), (3, None)),
    (lambda x, i: K.gather(K.zeros((7, 3)), K.cast(x, "int32")), (None, 3, 3)),
    (lambda x, i: K.any(x, 1), (None,)),
    (lambda x, i: K.all(x, 1, keepdims=True), (None, 1)),
    (lambda x, i: K.equal(x, x), (None, 3)),
    (lambda x, i: K.concatenate([x, x]), (None, 6)),
    (lambda x, i: K.reshape(x, (-1, 3, 1)), (None, 3, 1)),
    (lambda x, i: K.permute_dimensions(i, (0, 3, 1, 2)), (None, 2, 4, 6)),
    (lambda x, i: K.resize_images(i, 2, 3, "channels_last"), (None, 8, 18, 2)),
    (lambda x, i: K.repeat(x, 4), (None, 4, 3)),
    (lambda x, i: K.tile(x, (2, 2)), (None, 6)),
    (lambda x, i: K.flatten(i), (None,)),
    (lambda x, i: K.batch_flatten(i), (None, 48)),
    (lambda x, i: K.expand_dims(x, 1), (None, 1, 3)),
    (lambda x, i: K.squeeze(K.expand_dims(x), -1), (None, 3)),
    (lambda x, i: K.temporal_padding(i[:, 0], (1, 2)), (None, 9, 2)),
    (lambda x, i: K.spatial_2d_padding(i, data_format="channels_last"), (None, 6, 8, 2)),
    (lambda x, i: K.one_hot(K.cast(x, "int32"), 9), (None, 3, 9)),
    (lambda x, i: x[0], (3,)),
]


@pytest.mark.parametrize(("make", "wanted"), TOLD, ids=range(len(TOLD)))
def test_every_result_has_the_shape_that_keras_asks_for(make: Any, wanted: Any) -> None:
    found = make(K.placeholder((None, 3)), K.placeholder((None, 4, 6, 2)))
    assert found._keras_shape == K.int_shape(found) == wanted


def test_a_shape_from_outside_may_be_one_size_or_nothing() -> None:
    one = K.placeholder((None,))
    one.set_shape(None)
    one.set_shape(3)
    one.set_shape([None])
    with pytest.raises(K.ArgumentError, match=r"\(3, 4\) does not agree"):
        one.set_shape((3, 4))


CASTS: list[tuple[str, list[Any], list[Any]]] = [
    ("int32", [np.nan, np.inf, -1e20, 3.7, -3.7], [0, 2**31 - 1, -(2**31), 3, -3]),
    ("uint8", [np.nan, 300.0, -5.0, 3.7], [0, 255, 0, 3]),
    ("bool", [np.nan, 0.0, -0.0, 0.5], [True, False, False, True]),
    ("float16", [1e6, 1e-9, np.nan], [np.inf, 0.0, np.nan]),
]


@pytest.mark.parametrize(("dtype", "values", "wanted"), CASTS)
@pytest.mark.parametrize("mode", ["off", "wait"])
def test_every_way_casts_alike(
    dtype: str, values: Any, wanted: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", mode)
    stored = K.variable(np.zeros(len(values)), dtype=dtype)
    K.set_value(stored, np.array(values))
    many = K.placeholder((None, len(values)), dtype="float64")
    (rows,) = K.function([many], [K.cast(many, dtype)])([np.array([values] * 9000)])
    ways = [
        K.eval(K.variable(values, dtype)),
        K.eval(K.constant(values, dtype)),
        K.eval(K.cast(K.constant(values, "float64"), dtype)),
        K.eval(K.cast(K.variable(values, "float64"), dtype)),
        K.get_value(stored),
        rows[0],
        rows[-1],
    ]
    for got in ways:
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, wanted)


WRAPS: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("int8", K.sum, -128),
    ("int8", lambda x: x + x, [-2, 2]),
    ("int8", lambda x: K.cast(x, "int32") * 1000, [127000, 1000]),
    ("int32", lambda x: K.prod(x * 2**30), 0),
    ("int32", lambda x: K.cast(K.cast(x, "int64") * 2**40 + 5, "int32"), [5, 5]),
]


@pytest.mark.parametrize(("dtype", "function", "wanted"), WRAPS)
@pytest.mark.parametrize("make", [K.variable, K.constant], ids=["variable", "constant"])
def test_integers_wrap_whether_folded_or_not(
    make: Any, dtype: str, function: Any, wanted: Any
) -> None:
    assert K.eval(function(make([127, 1], dtype))).tolist() == wanted


def test_a_negative_power_of_integers_is_refused_wherever_it_is_known() -> None:
    two, minus = K.variable([2, 3], "int32"), K.placeholder((2,), dtype="int32")
    for build in (lambda: two**-1, lambda: K.pow(two, K.constant([-1, 1], "int32"))):
        with pytest.raises(K.ArgumentError, match="negative powers"):
            build()
    late = two**minus
    assert late.eval(feed_dict={minus: [3, 2]}).tolist() == [8, 9]
    with pytest.raises(K.ArgumentError, match="negative powers"):
        late.eval(feed_dict={minus: [3, -2]})


EMPTY: list[tuple[tuple[int, ...], tuple[Any, ...], tuple[int, ...]]] = [
    ((2, 0, 3), (None, 0, 3), (2, 0)),
    ((2, 0, 3), (None, None, 3), (2, 0)),
    ((0, 4, 3), (None, 4, 3), (0, 12)),
    ((0, 4, 3), (0, None, 3), (0, 12)),
    ((0, 3), (None, None), (0, 3)),
    ((2, 0, 3), (2, None, None), (2, 0)),
]


@pytest.mark.parametrize(("shape", "static", "wanted"), EMPTY)
def test_empty_batches_flatten(shape: Any, static: Any, wanted: Any) -> None:
    x = K.placeholder(static)
    assert K.batch_flatten(x).eval(feed_dict={x: np.zeros(shape)}).shape == wanted


# ------------------------------------------------------------------ storing


def test_versions_and_events() -> None:
    v = K.variable([1.0, 2.0])
    seen: list[Any] = []
    forget = variables.changed.subscribe(seen.append)
    try:
        v.set_value([3, 4])
        K.eval(v.assign_add([1, 1]))
        K.eval(v.assign_sub([2, 2]))
        K.eval(v.assign([9, 9]))
        K.batch_set_value([(v, [0, 0])])
    finally:
        forget()
    v.set_value([5, 5])
    assert seen == [v] * 5
    assert v.version == 6


def test_update_ops() -> None:
    v = K.variable([1.0, 2.0])
    assert K.eval(K.update_add(v, [1, 1])).tolist() == [2.0, 3.0]
    again = K.update_sub(v, 1.0)
    assert [K.eval(again).tolist() for _ in range(2)] == [[1.0, 2.0], [0.0, 1.0]]
    average = K.moving_average_update(v, np.array([10.0, 10.0]), 0.9)
    np.testing.assert_allclose(K.eval(average), [1.0, 1.9], 1e-6)
    np.testing.assert_allclose(K.get_value(v), [1.0, 1.9], 1e-6)


def test_batch_set_value_stores_all_or_none() -> None:
    a, b = K.variable([1.0]), K.variable([2.0])
    with pytest.raises(K.ShapeError):
        K.batch_set_value([(a, [5.0]), (b, [1.0, 2.0])])
    assert (K.get_value(a), K.get_value(b)) == ([1.0], [2.0])
    with pytest.raises(K.DtypeError):
        K.batch_set_value([(a, [5.0]), (b, ["x"])])
    assert (a.version, b.version) == (0, 0)
    K.batch_set_value([])


def test_setting_casts_to_the_dtype_of_the_variable() -> None:
    v = K.variable([1, 2], dtype="int32")
    K.set_value(v, np.array([3.0, 4.0]))
    assert K.get_value(v).dtype == "int32"
    with pytest.raises(K.DtypeError):
        K.set_value(v, np.array(["a", "b"]))


def test_values_of_other_things() -> None:
    assert K.get_value(3) == 3
    assert K.get_value(K.constant([1.0]) * 2).tolist() == [2.0]
    v = K.variable(1.0, constraint=abs)
    v.anything = 5
    assert (v.constraint, v.anything, v.trainable) == (abs, 5, True)
    assert K.eval(v.read_value()) == K.eval(v.value()) == K.eval(v.initializer) == 1.0


# ------------------------------------------------------------------ questions

THINGS: list[tuple[str, Callable[[], Any], str]] = [
    # name, what, letters: v variable, p placeholder, t tensor
    ("variable", lambda: K.variable(1.0), "vt"),
    ("zeros", lambda: K.zeros((2,)), "vt"),
    ("placeholder", lambda: K.placeholder((2,)), "pt"),
    ("constant", lambda: K.constant(1.0), "t"),
    ("result", lambda: K.variable(1.0) * 2, "t"),
    ("phase", K.learning_phase, "pt"),
    ("array", lambda: np.ones(2), ""),
    ("number", lambda: 3, ""),
    ("none", lambda: None, ""),
]


@pytest.mark.parametrize(("name", "make", "kinds"), THINGS, ids=[row[0] for row in THINGS])
def test_questions(name: str, make: Any, kinds: str) -> None:
    thing = make()
    assert K.is_variable(thing) == ("v" in kinds)
    assert K.is_placeholder(thing) == ("p" in kinds)
    assert K.is_tensor(thing) == K.is_symbolic(thing) == ("t" in kinds)
    assert not K.is_sparse(thing)
    if "t" not in kinds:
        with pytest.raises(ValueError):
            K.is_keras_tensor(thing)
        return
    assert not K.is_keras_tensor(thing)
    thing._keras_history = ()
    assert K.is_keras_tensor(thing)


def test_sizes() -> None:
    assert (K.count_params(K.zeros((2, 3))), K.count_params(K.variable(1))) == (6, 1)
    assert K.count_params(K.zeros((0, 5))) == 0
    assert K.get_variable_shape(K.zeros((2, 3))) == (2, 3)
    with pytest.raises(TypeError):
        K.count_params(K.placeholder((None,)))
    assert (K.int_shape(np.ones((2, 3))), K.ndim([[1]]), K.dtype(np.int8(1))) == ((2, 3), 2, "int8")


# ------------------------------------------------------------------ Python's protocols

OTHERS: list[Any] = [
    2,
    2.5,
    [1.0, 2.0, 3.0],
    np.array([1.0, 2.0, 3.0]),
    np.float32(2.5),
    np.array(2.5),
    np.int64(2),
]
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv]
ARITHMETIC += [operator.mod, operator.pow]
ORDER = [operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("function", ARITHMETIC + ORDER, ids=lambda one: one.__name__)
@pytest.mark.parametrize("other", OTHERS, ids=repr)
def test_operators_from_either_side(function: Any, other: Any) -> None:
    values = np.array([1.0, 2.0, 4.0], "float32")
    v = K.variable(values)
    plain = np.asarray(other, "float32")
    for got, wanted in (
        (function(v, other), function(values, plain)),
        (function(other, v), function(plain, values)),
    ):
        assert isinstance(got, K.Tensor)
        assert K.dtype(got) == ("bool" if function in ORDER else "float32")
        np.testing.assert_allclose(K.eval(got), wanted, 1e-6)


DTYPES: list[tuple[str, Any, str]] = [
    ("float16", 2.5, "float16"),
    ("float16", np.array([2.5, 1.0]), "float16"),
    ("float32", np.float64(2.5), "float32"),
    ("int32", 2, "int32"),
    ("int32", 2.5, "float32"),
    ("int8", [1, 2], "int8"),
    ("int32", np.array([1, 2]), "int32"),
    ("bool", True, "int32"),
]


@pytest.mark.parametrize(("dtype", "other", "wanted"), DTYPES)
def test_numbers_and_arrays_adopt_the_dtype(dtype: str, other: Any, wanted: str) -> None:
    v = K.variable([1, 0], dtype=dtype)
    assert K.dtype(v + other) == K.dtype(other + v) == wanted
    assert K.eval(v + other).dtype == wanted


PAIRS = [
    ("bool", "int8", "int8"),
    ("int8", "int32", "int32"),
    ("uint8", "int8", "int16"),
    ("int64", "float16", "float16"),
    ("int64", "float32", "float32"),
    ("float16", "float32", "float32"),
    ("float32", "float64", "float64"),
    ("bool", "float64", "float64"),
]


@pytest.mark.parametrize(("first", "second", "wanted"), PAIRS)
def test_promotion_of_two_tensors(first: str, second: str, wanted: str) -> None:
    a, b = K.variable([1, 1], dtype=first), K.variable([1, 1], dtype=second)
    assert K.dtype(a * b) == K.dtype(b * a) == wanted
    assert K.eval(K.maximum(a, b)).dtype == wanted
    assert K.dtype(K.concatenate([a, b])) == wanted


def test_identity_hash_and_truth() -> None:
    a, b = K.variable(1.0), K.variable(1.0)
    assert a == a and a != b and {a: 1, b: 2}[a] == 1
    assert [a, b].index(b) == 1
    for ask in (bool, lambda x: 1 if x else 2):
        with pytest.raises(TypeError, match="symbolic"):
            ask(a)


def test_length_and_iteration() -> None:
    x = K.variable([[1.0, 2.0], [3.0, 4.0]])
    first, second = x
    assert len(x) == 2
    assert [K.eval(one).tolist() for one in (first, second)] == [[1.0, 2.0], [3.0, 4.0]]
    for wrong in (K.placeholder((None,)), K.placeholder(())):
        with pytest.raises(TypeError):
            len(wrong)
        with pytest.raises(TypeError):
            iter(wrong)


def test_conversion_to_arrays() -> None:
    v = K.variable([1.0, 2.0])
    assert np.asarray(v).tolist() == [1.0, 2.0]
    assert np.asarray(K.constant([3.0]), "int32").tolist() == [3]
    for symbolic in (v * 2, K.placeholder((2,))):
        with pytest.raises(TypeError, match="symbolic"):
            np.asarray(symbolic)


def test_shapes_and_dtypes_answer_as_other_libraries_do() -> None:
    x = K.placeholder((None, 3), dtype="float16")
    assert x.shape == (None, 3) and x.get_shape().as_list() == [None, 3]
    assert (x.shape.ndims, x.shape.is_fully_defined(), x.shape[1]) == (2, False, 3)
    assert x.dtype == "float16" == x.dtype.name == x.dtype.base_dtype
    assert np.dtype(x.dtype) == np.float16 == x.dtype.as_numpy_dtype
    assert K.cast(x, np.int8).dtype == K.cast(x, np.dtype("int8")).dtype == "int8"


def test_known_integers_serve_as_sizes() -> None:
    x = K.placeholder((None, 6))
    assert range(4)[K.shape(x)[1] // 2] == 3
    with pytest.raises(TypeError):
        range(4)[K.shape(x)[0]]
    assert K.int_shape(K.reshape(x, (-1, K.shape(x)[1] // 2, 2))) == (None, 3, 2)


def test_reprs_name_kind_and_spec() -> None:
    K.clear_session()
    x, w = K.placeholder((None, 3), name="x"), K.variable([1.0, 2.0], name="w")
    assert repr(x) == "<placeholder 'x:0' placeholder float32[?, 3]>"
    assert repr(x * 2) == "<tensor 'multiply:0' multiply float32[?, 3]>"
    assert "variable" in repr(w) and "'w:0'" in repr(w) and "float32[2]" in repr(w)
