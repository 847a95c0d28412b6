"""Errors of functions name the function and its arrays, whoever raised them first."""

import keras3_there  # noqa: F401  # isort: skip
import keras
import numpy as np
import pytest
from keras import ops, tree
from keras3_traces import in_a_trace

from kbench.api.operations import ArgumentError, DtypeError

A, B = np.ones((2, 3), "float32"), np.ones((4, 5), "float32")
PAIR = r"x1 float32\[2, 3\], x2 float32\[4, 5\]"
NAMED = {  # name -> call, type of the error, what it says
    "add": (lambda: ops.add(A, B), ValueError, rf"^add: .*; got {PAIR}$"),
    "maximum": (lambda: ops.maximum(A, B), ValueError, rf"^maximum: .*; got {PAIR}$"),
    "logical_and": (lambda: ops.logical_and(A, B), ValueError, rf"^logical_and: .*; got {PAIR}$"),
    "sum": (
        lambda: ops.sum(A, axis=5), np.exceptions.AxisError,
        r"^sum: axis 5 is out of bounds .*; got x float32\[2, 3\]$",
    ),
    "concatenate": (
        lambda: ops.concatenate([A, B]), ValueError,
        r"^concatenate: .*; got xs float32\[2, 3\], float32\[4, 5\]$",
    ),
    "transpose": (
        lambda: ops.transpose(A, (0, 1, 2)), ValueError, r"^transpose: .*; got x float32\[2, 3\]$"
    ),
    "swapaxes": (lambda: ops.swapaxes(A, 0, 4), IndexError, r"^swapaxes: .*; got x float32"),
    "cross": (lambda: ops.cross(A, B), ValueError, rf"^cross: .*; got {PAIR}$"),
    "broadcast_to": (
        lambda: ops.broadcast_to(A, (4, 7)), ValueError, r"^broadcast_to: .*; got x float32"
    ),
    "binomial": (
        lambda: keras.random.binomial((2, 3), 5.0, A + 1), ValueError,
        r"^binomial: p < 0, p > 1 .*; got probabilities float32\[2, 3\]$",
    ),
    "gcd": (lambda: ops.gcd(A, A), TypeError, r"^gcd: .*; got x1 float32\[2, 3\], x2 float32"),
    "own": (lambda: ops.split(A, 7, axis=1), ValueError, "^split: 3 .* make 7 equal parts$"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_an_error_names_the_function_and_its_arrays(name):
    call, kind, text = NAMED[name]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert type(caught.value) is kind and caught.value.__cause__ is None


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_a_part_to_drop_is_a_part(rate):
    for call in (lambda f: f(A), lambda f: in_a_trace(f, [A])):
        with pytest.raises(ArgumentError, match=f"dropout: rate is {rate}; a part of the"):
            call(lambda x: keras.random.dropout(x, rate, seed=1))


def test_an_error_of_the_users_own_stays_as_it_is():
    def fail(x):
        raise ValueError("this one is mine")

    for call in (lambda: ops.vectorize(fail)(A), lambda: ops.map(fail, A)):
        with pytest.raises(ValueError, match="^this one is mine$"):
            call()


# ------------------------------------------------------------------ places

PLACES = {  # name -> a function of an array and of what ought to be integers
    "take": lambda x, i: ops.take(x, i, axis=0),
    "take_along_axis": lambda x, i: ops.take_along_axis(x, i[:, None], axis=1),
    "scatter_update": lambda x, i: ops.scatter_update(x, i[:, None], x),
    "slice": lambda x, i: ops.slice(x, i, (1, 1)),
    "slice_update": lambda x, i: ops.slice_update(x, i, x[:1, :1]),
    "segment_sum": lambda x, i: ops.segment_sum(x, i, 3),
    "in_top_k": lambda x, i: ops.in_top_k(i, x, 1),
    "unravel_index": lambda x, i: ops.unravel_index(i, (2, 3)),
    "fori_loop": lambda x, i: ops.fori_loop(0, i[0], lambda _, value: value + 1, x),
    "switch": lambda x, i: ops.switch(i[0], [lambda: x, lambda: x + 1]),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "bool"])
@pytest.mark.parametrize("name", PLACES)
def test_only_integers_name_places(name, dtype):
    function, places = PLACES[name], ops.cast(np.array([1.5, 0.5]), dtype)
    spec = rf"{dtype}\[.*\]; only integers name a place"
    for call in (lambda: function(A, places), lambda: in_a_trace(function, [A, places])):
        with pytest.raises(DtypeError, match=rf"{name}: .* is {spec}"):
            call()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("name", PLACES)
def test_integers_of_every_width_name_places(name, dtype):
    function, places = PLACES[name], np.array([1, 0], dtype)
    wanted = tree.flatten(function(A, places.astype("int32")))
    for found in (tree.flatten(function(A, places)), in_a_trace(function, [A, places])):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_label_between_two_classes_is_none_of_them():
    labels = np.array([1.0, 1.5, 2.0], "float32")
    wanted = [[0, 1, 0], [0, 0, 0], [0, 0, 1]]
    np.testing.assert_array_equal(ops.one_hot(labels, 3), wanted)
    np.testing.assert_array_equal(in_a_trace(lambda x: ops.one_hot(x, 3), [labels])[0], wanted)


# ------------------------------------------------------------------ labels

LABELS = [[0, 3, 1], [0, -1, 1]]


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("labels", LABELS)
def test_a_label_without_a_class(labels, from_logits):
    def loss(y, x):
        return ops.sparse_categorical_crossentropy(y, x, from_logits=from_logits)

    wrong, x = np.array(labels, "int32"), np.full((3, 3), 1 / 3, "float32")
    for call in (lambda: loss(wrong, x), lambda: in_a_trace(loss, [wrong, x])):
        for _ in range(3):  # the second call of its like keeps a plan
            with pytest.raises(ArgumentError, match=rf"class {labels[1]} is out of range for 3 cl"):
                call()


@pytest.mark.parametrize("rows", [32, 4096])
def test_a_label_without_a_class_in_fit_changes_no_weight(rows):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy")
    x, right = np.ones((rows, 4), "float32"), np.arange(rows) % 3
    for _ in range(4):
        model.fit(x, right, batch_size=rows, verbose=0)
    before = model.get_weights()
    with pytest.raises(ArgumentError, match="class 3 is out of range for 3 classes"):
        model.fit(x, np.arange(rows) % 4, batch_size=rows, verbose=0)
    for weight, same in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, same)
