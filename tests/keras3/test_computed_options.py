"""Options of functions that a step computes, and bytes of traced values read as another dtype."""

import keras3_there  # noqa: F401  # isort: skip
import itertools

import numpy as np
import pytest
from keras import ops
from keras3_traces import in_a_trace

from kbench.keras3.tensor import NotTracedError

DRAW = np.random.RandomState(0)
A = DRAW.randn(40).astype("float32")
A[:6] = [np.nan, np.inf, -np.inf, np.inf, np.nan, 3]
B = A + DRAW.randn(40).astype("float32") * 1e-3
B[3], B[5] = 5, np.inf


@pytest.mark.parametrize("equal_nan", [False, True])
def test_tolerances(equal_nan):
    def close(x, y, rtol, atol):
        return ops.isclose(x, y, rtol, atol, equal_nan), ops.allclose(x, y, rtol, atol, equal_nan)

    for pair in itertools.product([0.0, 1e-5, 1e-3, 1.0], [0.0, 1e-8, 1e-3]):
        each, whole = in_a_trace(close, [A, B, *map(np.float32, pair)])
        np.testing.assert_array_equal(each, np.isclose(A, B, *pair, equal_nan))
        assert whole == np.allclose(A, B, *pair, equal_nan)


Z = np.array([complex(np.nan, 1), 1 + 2j, 3, complex(np.inf, 0), complex(np.nan, 0)], "complex64")
CLOSE = {  # name -> operands that a narrower dtype, or their parts, would tell apart otherwise
    "int32": np.array([[3, 2**30, -(2**31)], [3, 2**30 + 1, 2**31 - 1]], "int32"),
    "uint8": np.array([[0, 255], [255, 255]], "uint8"),
    "complex64": np.array([Z, Z + 1e-7]),
}


@pytest.mark.parametrize("name", CLOSE)
@pytest.mark.parametrize("equal_nan", [False, True])
def test_tolerances_of_other_numbers(name, equal_nan):
    x, y = CLOSE[name]
    for pair in itertools.product([0.0, 1e-5], [0.0, 1.0]):
        wanted = ops.isclose(x, y, *pair, equal_nan)
        (found,) = in_a_trace(
            lambda x, y, rtol, atol: ops.isclose(x, y, rtol, atol, equal_nan),
            [x, y, *map(np.float32, pair)],
        )
        np.testing.assert_array_equal(found, wanted)


def test_numbers_for_parts_of_complex_numbers_are_to_be_known():
    with pytest.raises(NotTracedError, match="^nan_to_num: "):
        in_a_trace(ops.nan_to_num, [Z, np.float32(5)])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("ends", [(None, None), (2.0, 3.0), (7.0, None)])
def test_numbers_for_nan_and_infinities(dtype, ends):
    x = ops.cast(A if "float" in dtype else np.arange(5), dtype)
    wanted = ops.nan_to_num(x, 1.5, *ends)
    (found,) = in_a_trace(lambda x, nan: ops.nan_to_num(x, nan, *ends), [x, np.float32(1.5)])
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.astype("float64"), wanted.astype("float64"))


VIEWS = [
    ("float32", "int32"), ("float32", "int16"), ("int16", "float32"), ("bfloat16", "uint16"),
    ("uint8", "bfloat16"), ("float16", "int8"), ("int32", "uint32"), ("bool", "uint8"),
    ("float32", "bfloat16"),
]  # fmt: skip


@pytest.mark.parametrize("source, wanted", VIEWS)
def test_bytes_as_another_dtype(source, wanted):
    x = ops.cast(DRAW.randint(0, 100, (3, 4)), source)
    at_once = ops.view(x, wanted)
    (found,) = in_a_trace(lambda x: ops.view(x, wanted), [x])
    assert (found.dtype, found.shape) == (at_once.dtype, at_once.shape)
    assert found.tobytes() == at_once.tobytes()


def test_bytes_that_do_not_come_out():
    x = np.ones((3, 3), "int16")
    for call in (lambda f: f(x), lambda f: in_a_trace(f, [x])):
        with pytest.raises(ValueError, match=r"^view: .* last axis .*int16\[3, 3\]"):
            call(lambda x: ops.view(x, "float32"))
