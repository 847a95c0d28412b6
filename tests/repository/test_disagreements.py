"""`docs/disagreements.md` holds: one check for every line of its tables."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kbench
from kbench import backend as K
from kbench.engine.runtime import config

PAGE = Path(__file__).parents[2] / "docs" / "disagreements.md"


def topics() -> list[str]:
    """The first column of every table."""
    rows = re.findall(r"^\| (.*?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    return [row for row in rows if row != "about"]


def value(made: Any) -> Any:
    return K.eval(made)


def same(made: Any, wanted: Any, tolerance: float = 1e-6) -> bool:
    return bool(np.allclose(value(made), wanted, tolerance, tolerance))


def refuses(error: type[BaseException], call: Callable[[], Any]) -> bool:
    with pytest.raises(error):
        call()
    return True


def quiet(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return call()


def layout() -> bool:
    K.set_image_data_format("channels_first")
    return config.image_dim_ordering() == "th"


def small_numbers() -> bool:
    zero, one = (K.constant([[number] * 2], "float16") for number in (0.0, 1.0))
    written = same(1 / (zero + 1e-8), [[np.inf, np.inf]])
    held = K.gradients(K.sum(K.binary_crossentropy(zero, one)), [one])[0]
    return written and same(K.l2_normalize(zero, 1), [[0, 0]]) and same(held, [[0, 0]])


def orders() -> bool:
    target, output = K.constant([[0.0, 1.0]]), K.constant([[0.25, 0.75]])
    wanted = [-np.log(0.75)]
    by_name = K.categorical_crossentropy(output=output, target=target)
    return same(K.categorical_crossentropy(target, output), wanted) and same(by_name, wanted)


def zeroed_backwards() -> bool:
    x, mask = K.constant([[[1.0], [2.0], [3.0]]]), K.constant([[1, 0, 0]])
    options = {"mask": mask, "go_backwards": True, "zero_output_for_mask": True}
    looped, unrolled = (
        K.rnn(lambda entry, _: (entry, []), x, [], unroll=unroll, **options)[1]
        for unroll in (False, True)
    )
    return same(looped, [[[0.0], [0.0], [1.0]]]) and same(unrolled, [[[0.0], [0.0], [0.0]]])


def phases() -> bool:
    before = K.learning_phase()
    fresh = K.is_placeholder(before) and not value(before) and K.learning_phase() is before
    K.set_learning_phase(True)
    return fresh and K.learning_phase() is True


def plain_average() -> bool:
    v = K.variable(4.0)
    update = K.moving_average_update(v, K.constant(0.0), 0.5)
    untouched = K.get_value(v) == 4.0
    K.function([], [], [update])([])
    return untouched and K.get_value(v) == 2.0


def together() -> bool:
    a, b = K.variable(1.0), K.variable(2.0)
    K.function([], [], [(a, b + 0), (b, a + 0)])([])
    swapped = (K.get_value(a), K.get_value(b)) == (2.0, 1.0)
    K.function([], [], [K.update_add(a, 5.0), K.update_add(a, 1.0)])([])
    return swapped and K.get_value(a) == 3.0


def masked() -> bool:
    def run(**options: Any) -> Any:
        steps = K.constant(np.arange(1.0, 4.0).reshape(1, 3, 1))
        mask = K.constant([[1, 0, 1]], dtype="bool")
        _, outputs, _ = K.rnn(
            lambda x, states: (x * 10, [states[0] + x]),
            steps,
            [K.zeros((1, 1))],
            mask=mask,
            **options,
        )
        return value(outputs).ravel().tolist()

    return run() == [10, 10, 30] and run(zero_output_for_mask=True) == [10, 0, 30]


def decoded_width() -> bool:
    classes = [0, 2, 2, 1, 2, 2]
    found, _ = K.ctc_decode(K.constant(np.eye(3)[classes][None]), np.array([6]))
    return value(found[0]).tolist() == [[0, 1]]


def kernels() -> bool:
    images, kernel = np.ones((1, 2, 4, 4)), np.random.default_rng(0).normal(size=(3, 3, 2, 5))
    today = K.conv2d(images, kernel, data_format="channels_first")
    then = quiet(lambda: K.conv2d(images, kernel.transpose(3, 2, 0, 1), dim_ordering="th"))
    return same(today, value(then))


def real_cells() -> bool:
    pooled = K.pool2d(K.ones((1, 3, 3, 1)), (2, 2), (2, 2), "same", pool_mode="avg")
    return same(pooled, np.ones((1, 2, 2, 1)))


def dtypes() -> bool:
    def together(*names: str) -> str:
        first, second = (K.zeros((2,), dtype=name) for name in names)
        return K.dtype(first + second)

    return (together("float16", "float64"), together("int64", "float16")) == ("float64", "float16")


def ties() -> bool:
    x = K.constant([1.0, 3.0, 3.0])
    return same(K.gradients(K.max(x), [x])[0], [0.0, 0.5, 0.5])


def paddings() -> bool:
    image = K.ones((1, 2, 2, 1))
    forms = [1, (1, 1), ((1, 1), (1, 1))]
    return {K.int_shape(K.spatial_2d_padding(image, one)) for one in forms} == {(1, 4, 4, 1)}


def bilinear() -> bool:
    image = K.constant(np.array([0.0, 1.0], "float64").reshape(1, 1, 2, 1), dtype="float64")
    grown = K.resize_images(image, 1, 2, "channels_last", "bilinear")
    return same(grown, np.reshape([0, 0.25, 0.75, 1], (1, 1, 4, 1))) and K.dtype(grown) == "float64"


def products() -> bool:
    shape = K.int_shape(K.dot(K.ones((2, 3)), K.ones((4, 3, 5))))
    return shape == (2, 4, 5) and K.int_shape(K.ones((4, 2, 3)) @ K.ones((4, 3, 5))) == (4, 2, 5)


def batches() -> bool:
    x, y = K.ones((2, 3, 4)), K.ones((2, 3, 4, 5))
    shapes = K.int_shape(K.batch_dot(x, y, [2, 2])), K.int_shape(K.expand_dims(x, 2) @ y)
    return shapes == ((2, 3, 3, 5), (2, 3, 1, 5))


def variances() -> bool:
    _, _, variance = K.normalize_batch_in_training(K.constant([[1.0], [3.0]]), None, None, [0])
    return same(variance, [1.0])


ONE, ZERO = np.ones((2, 2), "float32"), np.zeros(1, "float32")

CHECKS: dict[str, Callable[[], bool]] = {
    "default epsilon": lambda: K.epsilon() == 1e-7,
    "image layout": layout,
    "`backend()`": lambda: K.backend() == "kbench" == kbench.backend(),
    "dtype of a variable": lambda: K.dtype(K.variable(1.0)) == "float32",
    "`is_keras_tensor` of an array": lambda: refuses(ValueError, lambda: K.is_keras_tensor(ONE)),
    "`is_keras_tensor` of a variable": lambda: not K.is_keras_tensor(K.variable(1.0)),
    "`is_keras_tensor` of a placeholder": lambda: not K.is_keras_tensor(K.placeholder((2,))),
    "`placeholder()` without shape": lambda: K.int_shape(K.placeholder()) == (None,),
    "`eye`": lambda: K.is_variable(K.eye(2)) and K.is_tensor(K.eye(2)),
    "`zeros_like` without dtype": lambda: K.dtype(K.zeros_like(np.ones(2, "int16"))) == "int16",
    "`get_session`": lambda: K.get_session() is K.get_session(),
    "order in crossentropies": orders,
    "`binary_crossentropy` at saturated probabilities": lambda: same(
        K.binary_crossentropy(ZERO + 1, ZERO), 15.424949
    ),
    "`batch_dot` of two matrices": lambda: K.int_shape(K.batch_dot(ONE, ONE, 1)) == (2, 1),
    "`batch_dot` above rank 3": batches,
    "`dot` above rank 2": products,
    "`softmax` of a vector": lambda: same(K.softmax(np.zeros(4)), 0.25),
    "`mean` of integers": lambda: same(K.mean(np.array([1, 2])), 1.5),
    "`sum` of int32": lambda: (
        K.dtype(K.sum(np.ones(2, "int32"))) == K.dtype(K.sum(ONE > 0)) == "int32"
    ),
    "`any` and `all`": lambda: K.dtype(K.any(ONE)) == K.dtype(K.all(ONE)) == "bool",
    "`&`, `\\|`, `^` and `~` of numbers": lambda: all(
        refuses(TypeError, call)
        for call in (lambda: ONE & 1, lambda: ONE | ONE, lambda: ONE ^ 3, lambda: ~ONE)
    ),
    "`in_top_k`": lambda: value(K.in_top_k(ONE, np.array([0, 1]), 1)).tolist() == [True, True],
    "two dtypes in one operation": dtypes,
    "gradient of `max` at ties": ties,
    "epsilons in float16": small_numbers,
    "variance of `normalize_batch_in_training`": variances,
    "`moving_average_update`": plain_average,
    "`arange` with a float step": lambda: same(K.arange(0, 1, 0.25), [0, 0.25, 0.5, 0.75]),
    "`hard_sigmoid`": lambda: same(K.hard_sigmoid(ZERO + 1), 0.7),
    "paddings": paddings,
    '`resize_images` "bilinear"': bilinear,
    'kernel of `conv2d` in "channels_first"': kernels,
    '"causal" with "channels_first"': lambda: refuses(
        ValueError,
        lambda: K.conv1d(
            np.ones((2, 3, 8)), np.ones((3, 3, 4)), 1, "causal", data_format="channels_first"
        ),
    ),
    '`pool2d` "same"': real_cells,
    "`gather` with negative indices": lambda: refuses(
        ValueError, lambda: value(K.gather(ONE, np.array([-1])))
    ),
    "`one_hot` with a class out of range": lambda: same(K.one_hot(np.array([5, -1]), 3), 0.0),
    "`tile` with few numbers": lambda: K.int_shape(K.tile(ONE, 2)) == (2, 4),
    "`==` of tensors": lambda: (K.zeros((2,)) == K.zeros((2,))) is False,
    "`learning_phase()`": phases,
    "`set_learning_phase`": lambda: refuses(K.ArgumentError, lambda: K.set_learning_phase(2)),
    "updates of one call": together,
    "a result of rank 0": lambda: isinstance(value(K.ones(())), np.ndarray),
    "unknown keywords of `function`": lambda: refuses(
        K.ArgumentError, lambda: K.function([], [], nonsense=1)
    ),
    "a masked step of `rnn`": masked,
    "`zero_output_for_mask` of an unrolled `rnn` that goes backwards": zeroed_backwards,
    "width of `ctc_decode`": decoded_width,
    "`merge_repeated` of `ctc_decode`": lambda: (
        inspect.signature(K.ctc_decode).parameters["merge_repeated"].default is False
    ),
    "`ones`": lambda: same(K.ones((2,)), 1.0),
}


def test_every_line_has_a_check() -> None:
    assert topics() == list(CHECKS)


@pytest.mark.parametrize("topic", CHECKS)
def test_kbench_does_what_the_line_says(topic: str) -> None:
    assert CHECKS[topic]()
