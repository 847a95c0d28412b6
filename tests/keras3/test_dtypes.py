"""Dtypes of results: an eager call, the next one like it, and a traced step agree."""

import keras3_there  # noqa: F401  # isort: skip
import numpy as np
import pytest
from keras import ops

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
