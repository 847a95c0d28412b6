"""Dtypes of results: an eager call, the next one like it, and a traced step agree."""

import keras3_there  # noqa: F401  # isort: skip
import numpy as np
import pytest
from keras import ops
from keras3_traces import in_a_trace

from kbench import backend as K
from kbench.keras3.core import traced
from kbench.keras3.tensor import WIDE, Traced

DTYPES = "bool int8 uint8 int32 int64 float16 bfloat16 float32 float64".split()
OF_ONE = (
    "absolute exp sqrt sign negative log10 reciprocal floor round square tanh isnan sum prod mean "
    "max min all any std var cumsum argmax ptp relu sigmoid softmax log_softmax nansum nanmax"
).split()
OF_TWO = (
    "add subtract multiply divide maximum minimum power floor_divide mod equal less logical_and "
    "arctan2 append dot matmul"
).split()
OF_MANY = "concatenate stack hstack vstack".split()
NO_BOOL = ("sign", "negative", "ptp", "subtract")
"""Those that NumPy refuses for bool."""
NAMES = (*OF_ONE, *OF_TWO, *OF_MANY, "where")


def _called(name, x):
    if name == "where":
        return ops.where(ops.equal(x, x), x, x)
    given = (x, x) if name in OF_TWO else ([x, x],) if name in OF_MANY else (x,)
    return getattr(ops, name)(*given)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_a_result_has_the_dtype_of_the_trace(name, dtype):
    if dtype == "bool" and name in NO_BOOL:
        with pytest.raises(TypeError):
            _called(name, np.ones((3, 3), dtype))
        return
    with traced():
        node = K.placeholder((3, 3), dtype=WIDE.get(dtype, dtype))
        wanted = _called(name, Traced(node, dtype)).dtype
    for _ in range(3):  # the second makes a plan, the third runs it
        assert str(_called(name, np.ones((3, 3), dtype)).dtype) == wanted


CONVOLUTIONS = {  # name -> function of images and of what draws a kernel of a shape
    "conv": lambda x, draw: ops.conv(x, draw(2, 2, 3, 4)),
    "conv_groups": lambda x, draw: ops.conv(x, draw(2, 2, 1, 6), padding="same"),
    "conv_first": lambda x, draw: ops.conv(x, draw(2, 2, 6, 4), data_format="channels_first"),
    "depthwise_conv": lambda x, draw: ops.depthwise_conv(x, draw(2, 2, 3, 2)),
    "separable_conv": lambda x, draw: ops.separable_conv(x, draw(2, 2, 3, 1), draw(1, 1, 3, 4)),
    "conv_transpose": lambda x, draw: ops.conv_transpose(x, draw(3, 3, 2, 3), 2, "same"),
    "extract_patches": lambda x, draw: ops.image.extract_patches(x, (2, 2)),
}


@pytest.mark.parametrize("dtype", "bool int8 uint8 int16 int32 int64".split())
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_of_integers_is_one(name, dtype):
    """Exact, where floats of 32 bits would not be; a narrow dtype wraps around, as its sums do."""

    def convolved(x, kind):
        source = np.random.default_rng(5)
        return CONVOLUTIONS[name](x, lambda *shape: numbers(source, shape).astype(kind))

    def numbers(source, shape):
        return source.integers(0, 2 if dtype == "bool" else 90, shape).astype(dtype)

    images = numbers(np.random.default_rng(3), (1, 6, 6, 3))
    exact = convolved(images.astype("float64"), "float64")
    kind = str(ops.maximum(images, images).dtype)  # of int64 it is int32, as on JAX
    wanted = exact != 0 if dtype == "bool" else exact.astype("int64").astype(kind)
    for found in (convolved(images, dtype), in_a_trace(lambda x: convolved(x, dtype), [images])[0]):
        assert str(found.dtype) == kind
        assert np.array_equal(found, wanted)


def test_sums_of_a_convolution_of_integers_have_all_their_digits():
    images, kernel = np.full((1, 2, 2, 1), 30_001, "int32"), np.full((2, 2, 1, 1), 10_001, "int32")
    assert ops.conv(images, kernel).tolist() == [[[[4 * 30_001 * 10_001]]]]


@pytest.mark.parametrize("method", ["nearest", "bilinear", "bicubic", "lanczos3"])
def test_an_image_of_bool_is_resized_to_one(method):
    image = np.random.default_rng(3).integers(0, 2, (4, 4, 1)).astype(bool)
    found = ops.image.resize(image, (6, 7), method)
    floats = ops.image.resize(image.astype("float32"), (6, 7), method)
    assert found.dtype == bool and np.array_equal(found, floats > 1e-6)
