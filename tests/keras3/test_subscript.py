"""`x[key]` in a step, with places that the step computes: the elements that NumPy takes."""

import keras3_there  # noqa: F401  # isort: skip
import numpy as np
import pytest
from keras3_programs.choose import Chooser
from keras3_traces import in_a_trace

from kbench import backend as K
from kbench.api.operations import ShapeError
from kbench.keras3.tensor import NotTracedError

A = np.arange(24, dtype="float32").reshape(2, 3, 4)
I, S, M = np.array([1, 0]), np.array(1), np.array([[1, 0]])  # noqa: E741
KEYS = {  # name -> the key of places that are traced
    "one": (lambda i: i, I),
    "before_a_number": (lambda i: (i, 1), I),
    "after_a_number": (lambda i: (1, i), I),
    "beside_known": (lambda i: (i, [0, 1]), I),
    "with_itself": (lambda i: (slice(None), i, i), I),
    "apart": (lambda i: (1, slice(None), i), I),
    "apart_both": (lambda i: (i, slice(0, 2), i), I),
    "a_row_beside_a_step": (lambda m: (slice(None), m, slice(None, None, 2)), M),
    "dots": (lambda s: (..., s), S),
    "dots_between": (lambda i: (i, ..., i), I),
    "new_axis": (lambda s: (None, s), S),
    "new_axis_between": (lambda i: (i, None, i), I),
    "mask_beside": (lambda i: (i, np.array([True, False, True])), I),
    "mask_of_two_axes": (lambda i: (np.eye(2, 3, dtype=bool), i), np.array([3, -1])),
    "empty": (lambda i: (i, [[], []]), np.zeros((2, 0), "int32")),
    "negative": (lambda i: i, -I),
    "narrow": (lambda i: (slice(1, 2), i), I.astype("uint8")),
}


def _check(x, key, places):
    wanted = x[key(places)]
    (found,) = in_a_trace(lambda x, i: x[key(i)], [x, places])
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", KEYS)
def test_a_place_that_is_traced(name):
    key, places = KEYS[name]
    _check(A, key, places)
    _check(A + 1j, key, places)


@pytest.mark.parametrize(
    "seeds",
    [range(60), pytest.param(range(60, 700), marks=pytest.mark.slow)],
    ids=["quick", "long"],
)
def test_random_keys(seeds):
    for seed in seeds:
        choose = Chooser(seed, 21)
        rank = choose.whole(1, 4)
        x = np.arange(int(np.prod(shape := [choose.whole(1, 4) for _ in range(rank)])))
        x = x.reshape(shape).astype("float32")
        common = choose.one((), (2,), (3,), (2, 3))
        entries, places, dots = [], [], choose.chance(0.3)
        for axis in range(rank):
            size, kind = shape[axis], choose.whole(0, 5)
            some = [1 if choose.chance(0.3) else n for n in common][choose.whole(0, len(common)) :]
            if kind < 2 or (axis == rank - 1 and not places):
                entries.append(len(places))
                places.append(choose.draw.randint(-size, size, some))
            elif kind == 2:
                entries.append(slice(choose.one(None, 0, 1), None, choose.one(None, 1, 2, -1)))
            elif kind == 3:
                entries.append(choose.draw.randint(-size, size, some))
            elif kind == 4:
                entries.append(np.int64(choose.whole(-size, size - 1)))
            elif dots:
                entries.append(...)
                dots = False
            else:
                entries.append(slice(None))
        for _ in range(choose.one(0, 0, 1, 2)):
            entries.insert(choose.whole(0, len(entries)), None)

        def key(given, entries=entries):
            return tuple(given[one] if type(one) is int else one for one in entries)

        wanted = x[key(places)]
        (found,) = in_a_trace(lambda x, *given: x[key(given)], [x, *places])  # noqa: B023
        assert found.shape == wanted.shape, (seed, entries)
        np.testing.assert_array_equal(found, wanted, err_msg=str((seed, entries)))


def test_its_gradient_adds_up_what_is_taken_twice():
    places = np.array([1, 1, 0])

    def total(x, i):
        taken = x[i, :, i]
        (slope,) = K.gradients(K.sum((taken * taken).node), [x.node])
        return type(x)(slope)

    (found,) = in_a_trace(total, [A, places])
    wanted = np.zeros_like(A)
    for i in places:
        wanted[i, :, i] += 2 * A[i, :, i]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("places", "kind", "words"),
    [
        (np.array([True, False]), NotTracedError, r"a mask .* bool\[2\], is not an index"),
        (I.astype("float32"), IndexError, r"must be of integer .* got float32\[2\]"),
        (I + 5, ShapeError, "index 6 is out of range"),
        (-I - 3, ShapeError, "index -2 is out of range"),
    ],
    ids=["mask", "floats", "beyond", "before"],
)
def test_what_names_no_place_is_refused(places, kind, words):
    for key in (lambda i: i, lambda i: (i, 0), lambda i: (i, i)):
        with pytest.raises(kind, match=words):
            in_a_trace(lambda x, i, key=key: x[key(i)], [A, places])


def test_a_mask_of_another_size_is_refused():
    for mask in ([True, False], [True] * 4):
        with pytest.raises(IndexError, match=f"has {len(mask)} entries on an axis of 3"):
            in_a_trace(lambda x, i, mask=mask: x[i, np.array(mask)], [A, S])


def test_a_key_of_too_many_entries_is_refused():
    for key in (lambda i: (i, 0, 0, 0), lambda i: (..., i, ...)):
        with pytest.raises(IndexError, match=r"float32\[2, 3, 4\]"):
            in_a_trace(lambda x, i, key=key: x[key(i)], [A, S])
