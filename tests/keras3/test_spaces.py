"""Numbers between ends that a step computes are those between known ends."""

import keras3_there  # noqa: F401  # isort: skip
import numpy as np
import pytest
from keras import ops
from keras3_traces import assert_close, in_a_trace

SHAPES = [((), ()), ((3,), ()), ((2, 3), (3,)), ((1, 3), (2, 1)), ((0, 2), (2,))]
DTYPES = ["float32", "float64", "float16", "bfloat16", "int32", "uint8"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("num", [0, 1, 2, 5])
@pytest.mark.parametrize("name", ["linspace", "logspace", "geomspace"])
def test_ends_may_be_traced(name, num, dtype):
    draw, function = np.random.RandomState(1), getattr(ops, name)
    for shapes in SHAPES:
        ends = [ops.cast(draw.uniform(1, 4, shape), dtype) for shape in shapes]
        for options in (
            {}, {"endpoint": False}, {"axis": -1}, {"dtype": "int32"}, {"dtype": "float16"},
            {"dtype": "float64", "endpoint": False, "axis": -1},
        ):  # fmt: skip
            space = lambda x, y, o=options: function(x, y, num, **o)  # noqa: E731
            assert_close(in_a_trace(space, ends), [space(*ends)], 1e-6)
            known = lambda x, o=options: function(x, 4, num, **o)  # noqa: E731
            assert_close(in_a_trace(known, ends[:1]), [known(ends[0])], 1e-6)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 4])
def test_the_distance_is_told(num, endpoint):
    ends = [np.array([1.0, 5.0], "float32"), np.array([3.0, 4.0], "float32")]

    def space(x, y):
        return ops.linspace(x, y, num, endpoint, retstep=True)

    assert_close(in_a_trace(space, ends), list(space(*ends)))


@pytest.mark.parametrize("name", ["linspace", "logspace", "geomspace"])
def test_the_last_number_is_the_end_itself(name):
    """A sum of steps, or a power of a ratio, may miss it."""
    ends = [np.array([0.1, 0.7], "float64"), np.array([1.3, 0.9], "float64")]
    for num in (4, 7, 50):
        function = getattr(ops, name)
        (found,) = in_a_trace(lambda x, y: function(x, y, num, dtype="float64"), ends)  # noqa: B023
        wanted = 10 ** ends[1] if name == "logspace" else ends[1]
        np.testing.assert_allclose(found[-1], wanted, rtol=0 if name != "logspace" else 1e-15)


def test_a_negative_count_is_refused():
    for call in (ops.linspace, lambda *given: in_a_trace(lambda x, y: ops.linspace(x, y, given[2]),
                                                         list(given[:2]))):  # fmt: skip
        with pytest.raises(ValueError, match="must be non-negative"):
            call(np.ones(2, "float32"), np.ones(2, "float32"), -1)


def test_a_scalar_has_no_borders():
    scalar = np.array(2, "float32")
    for mode in ("constant", "edge"):
        assert_close([ops.pad(scalar, 1, mode)], [scalar])
        assert_close(in_a_trace(lambda x, m=mode: ops.pad(x, 1, m), [scalar]), [scalar])
