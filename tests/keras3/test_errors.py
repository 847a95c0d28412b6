"""Errors of functions name the function and its arrays, whoever raised them first."""

import keras3_there  # noqa: F401  # isort: skip
import numpy as np
import pytest
from keras import ops

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
    "own": (lambda: ops.split(A, 7, axis=1), ValueError, "^split: 3 .* make 7 equal parts$"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_an_error_names_the_function_and_its_arrays(name):
    call, kind, text = NAMED[name]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert type(caught.value) is kind and caught.value.__cause__ is None


def test_an_error_of_the_users_own_stays_as_it_is():
    def fail(x):
        raise ValueError("this one is mine")

    for call in (lambda: ops.vectorize(fail)(A), lambda: ops.map(fail, A)):
        with pytest.raises(ValueError, match="^this one is mine$"):
            call()
