"""Keras 1's names and forms: each works as its form of today does, and says once what that is."""

from __future__ import annotations

import inspect
import json
import pickle
import timeit
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.api import legacy
from kbench.engine.runtime import config
from tests.api.test_golden import CASES, Case, Reader

SPEC = json.loads((Path(K.__file__).parent / "api" / "api.json").read_text("utf-8"))["functions"]
OLD_FORMS = {row["name"]: row["keras-1.2"] for row in SPEC if "keras-1.2" in row}


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


def value(made: Any) -> Any:
    if isinstance(made, (list, tuple)):
        return [value(one) for one in made]
    return K.eval(made) if K.is_tensor(made) else made


def told(call: Callable[[], Any]) -> tuple[Any, list[warnings.WarningMessage]]:
    """What a call gives, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, caught


def check(old: Callable[[], Any], new: Callable[[], Any], *says: str) -> None:
    """The old form gives what the new one does, and one warning, at the caller's line."""
    made, caught = told(old)
    wanted, none = told(new)
    assert not none
    for got, expected in zip(value([made]), value([wanted]), strict=True):
        np.testing.assert_array_equal(got, expected)
    (warning,) = caught
    assert warning.category is DeprecationWarning
    assert warning.filename == __file__
    for part in says:
        assert part in str(warning.message)


IMAGES, TH_IMAGES = array(2, 6, 5, 3), array(2, 3, 6, 5)
KERNEL, TH_KERNEL = array(3, 3, 3, 4), array(4, 3, 3, 3)
STEPS, STEP_KERNEL = array(2, 7, 3), array(3, 3, 4)


def th(kernel: np.ndarray) -> np.ndarray:
    """A kernel of "th" as it is laid out today."""
    return kernel.transpose(*range(2, kernel.ndim), 1, 0)


PAIRS: list[tuple[str, Callable[[], Any], Callable[[], Any], tuple[str, ...]]] = [
    (
        "conv2d, names",
        lambda: K.conv2d(IMAGES, KERNEL, border_mode="same", dim_ordering="tf"),
        lambda: K.conv2d(IMAGES, KERNEL, padding="same", data_format="channels_last"),
        ("border_mode is now padding", "dim_ordering='tf' is now data_format='channels_last'"),
    ),
    (
        "conv2d, th by name",
        lambda: K.conv2d(TH_IMAGES, TH_KERNEL, dim_ordering="th"),
        lambda: K.conv2d(TH_IMAGES, th(TH_KERNEL), data_format="channels_first"),
        ("kernel[filters, channels, rows, cols] is now [rows, cols, channels, filters]",),
    ),
    (
        "conv2d, th by position",
        lambda: K.conv2d(TH_IMAGES, TH_KERNEL, (1, 1), "same", "th"),
        lambda: K.conv2d(TH_IMAGES, th(TH_KERNEL), (1, 1), "same", "channels_first"),
        ("data_format='channels_first'",),
    ),
    (
        "conv2d, all eight",
        lambda: K.conv2d(IMAGES, KERNEL, (1, 1), "same", "tf", None, (4, 3, 3, 3), (2, 2)),
        lambda: K.conv2d(IMAGES, KERNEL, (1, 1), "same", "channels_last", (2, 2)),
        ("filter_shape is not used", "dilation_rate must be given by name"),
    ),
    (
        "conv2d, a mix of both",
        lambda: K.conv2d(TH_IMAGES, KERNEL, border_mode="same", data_format="channels_first"),
        lambda: K.conv2d(TH_IMAGES, KERNEL, padding="same", data_format="channels_first"),
        ("border_mode is now padding",),
    ),
    (
        "conv1d",
        lambda: K.conv1d(STEPS, STEP_KERNEL, stride=2, border_mode="same", filter_shape=(3, 3, 4)),
        lambda: K.conv1d(STEPS, STEP_KERNEL, 2, "same"),
        ("stride is now strides", "filter_shape is not used"),
    ),
    (
        "conv1d, by position",
        lambda: K.conv1d(STEPS, STEP_KERNEL, 1, "valid", (2, 7, 3)),
        lambda: K.conv1d(STEPS, STEP_KERNEL),
        ("image_shape is not used",),
    ),
    (
        "conv3d",
        lambda: K.conv3d(
            array(1, 2, 4, 4, 4), array(3, 2, 2, 2, 2), dim_ordering="th", volume_shape=None
        ),
        lambda: K.conv3d(
            array(1, 2, 4, 4, 4), th(array(3, 2, 2, 2, 2)), data_format="channels_first"
        ),
        ("volume_shape is not used", "kernel[filters, channels, depth, rows, cols]"),
    ),
    (
        "separable_conv2d",
        lambda: K.separable_conv2d(
            TH_IMAGES, array(2, 3, 3, 3), array(4, 6, 1, 1), (1, 1), "valid", "th"
        ),
        lambda: K.separable_conv2d(
            TH_IMAGES,
            th(array(2, 3, 3, 3)),
            th(array(4, 6, 1, 1)),
            data_format="channels_first",
        ),
        ("depthwise_kernel[", "pointwise_kernel["),
    ),
    (
        "atrous_conv2d",
        lambda: K.atrous_conv2d(IMAGES, KERNEL, 2),
        lambda: K.conv2d(IMAGES, KERNEL, dilation_rate=(2, 2)),
        ("K.atrous_conv2d is Keras 1's; use K.conv2d(",),
    ),
    (
        "deconv2d",
        lambda: K.deconv2d(IMAGES, KERNEL, (2, 8, 7, 4)),
        lambda: K.conv2d_transpose(IMAGES, KERNEL.transpose(0, 1, 3, 2), (2, 8, 7, 4)),
        ("conv2d_transpose",),
    ),
    (
        "pool2d",
        lambda: K.pool2d(TH_IMAGES, (2, 2), (2, 2), "same", "th", "avg"),
        lambda: K.pool2d(TH_IMAGES, (2, 2), (2, 2), "same", "channels_first", "avg"),
        ("dim_ordering='th' is now data_format='channels_first'",),
    ),
    (
        "resize_images",
        lambda: K.resize_images(X=TH_IMAGES, height_factor=2, width_factor=3, dim_ordering="th"),
        lambda: K.resize_images(TH_IMAGES, 2, 3, "channels_first"),
        ("X is now x",),
    ),
    (
        "spatial_2d_padding",
        lambda: K.spatial_2d_padding(TH_IMAGES, (1, 2), "th"),
        lambda: K.spatial_2d_padding(TH_IMAGES, ((1, 1), (2, 2)), "channels_first"),
        ("K.spatial_2d_padding in Keras 1's form",),
    ),
    (
        "asymmetric_spatial_2d_padding",
        lambda: K.asymmetric_spatial_2d_padding(IMAGES, 1, 0, 2, 3),
        lambda: K.spatial_2d_padding(IMAGES, ((1, 0), (2, 3))),
        ("use K.spatial_2d_padding",),
    ),
    (
        "asymmetric_temporal_padding",
        lambda: K.asymmetric_temporal_padding(STEPS, right_pad=0),
        lambda: K.temporal_padding(STEPS, (1, 0)),
        ("use K.temporal_padding",),
    ),
    (
        "batch_normalization, by position",
        lambda: K.batch_normalization(STEPS, *array(4, 3), 0.5),
        lambda: K.batch_normalization(STEPS, *array(4, 3), epsilon=0.5),
        ("epsilon must be given by name",),
    ),
    (
        "expand_dims",
        lambda: K.expand_dims(STEPS, dim=1),
        lambda: K.expand_dims(STEPS, 1),
        ("dim is now axis",),
    ),
    (
        "one_hot",
        lambda: K.one_hot(np.array([0, 2]), nb_classes=3),
        lambda: K.one_hot(np.array([0, 2]), 3),
        ("nb_classes is now num_classes",),
    ),
    (
        "random_normal",
        lambda: K.random_normal((3,), std=2.0, seed=1),
        lambda: K.random_normal((3,), stddev=2.0, seed=1),
        ("std is now stddev",),
    ),
    (
        "random_uniform",
        lambda: K.random_uniform((3,), low=2.0, high=3.0, seed=1),
        lambda: K.random_uniform((3,), 2.0, 3.0, seed=1),
        ("low is now minval", "high is now maxval"),
    ),
    (
        "batch_get_value",
        lambda: K.batch_get_value(xs=[K.variable(1.0)])[0],
        lambda: K.batch_get_value([K.variable(1.0)])[0],
        ("xs is now ops",),
    ),
    ("lesser", lambda: K.lesser(STEPS, 0.0), lambda: K.less(STEPS, 0.0), ("K.less(x, y)",)),
    (
        "lesser_equal",
        lambda: K.lesser_equal(STEPS, 0.0),
        lambda: K.less_equal(STEPS, 0.0),
        ("K.less_equal(x, y)",),
    ),
    (
        "image_dim_ordering",
        lambda: K.image_dim_ordering(),
        lambda: "tf",
        ("use K.image_data_format()",),
    ),
]


@pytest.mark.parametrize("name, old, new, says", PAIRS, ids=[pair[0] for pair in PAIRS])
def test_old_and_new_forms_agree(name: str, old: Any, new: Any, says: tuple[str, ...]) -> None:
    check(old, new, *says)


def test_the_global_layout_is_keras_1s_default() -> None:
    """A call of Keras 1 without dim_ordering means the global one, weights included."""
    K.set_image_data_format("channels_first")
    check(
        lambda: K.conv2d(TH_IMAGES, TH_KERNEL, border_mode="same"),
        lambda: K.conv2d(TH_IMAGES, th(TH_KERNEL), padding="same"),
    )
    check(
        lambda: K.conv2d(TH_IMAGES, TH_KERNEL, (1, 1), "same", "default"),
        lambda: K.conv2d(TH_IMAGES, th(TH_KERNEL), padding="same"),
    )
    check(  # Keras 1's conv1d knew no layout
        lambda: K.conv1d(STEPS, STEP_KERNEL, border_mode="same"),
        lambda: K.conv1d(STEPS, STEP_KERNEL, padding="same", data_format="channels_last"),
    )


def test_set_image_dim_ordering_sets_the_one_setting() -> None:
    _, (warning,) = told(lambda: K.set_image_dim_ordering("th"))
    assert "K.set_image_data_format('channels_first')" in str(warning.message)
    assert (K.image_data_format(), config.image_dim_ordering()) == ("channels_first", "th")


def test_update_of_a_moving_average_by_its_old_name() -> None:
    v = K.variable(1.0)
    update, (warning,) = told(
        lambda: K.moving_average_update(variable=v, value=K.constant(3.0), momentum=0.5)
    )
    assert "variable is now x" in str(warning.message)
    K.function([], [], [update])([])
    assert K.get_value(v) == 2.0


def test_names_of_tf_keras_are_taken_without_a_warning() -> None:
    assert told(lambda: K.set_epsilon(value=0.5)) == (None, [])
    assert told(lambda: K.set_floatx(value="float64")) == (None, [])
    assert (K.epsilon(), K.floatx()) == (0.5, "float64")
    assert told(lambda: K.batch_get_value(tensors=[])) == ([], [])


# ------------------------------------------------------------------ the table is complete


def parameters(form: str) -> list[str]:
    names: dict[str, Any] = {}
    exec(f"def {form}: pass", names)
    return list(inspect.signature(names[form.split("(")[0]]).parameters)


@pytest.mark.parametrize("name", sorted(OLD_FORMS))
def test_every_argument_name_of_keras_1_is_taken(name: str) -> None:
    today = inspect.signature(getattr(K, name)).parameters
    old = legacy.TABLE[name] if name in legacy.TABLE else legacy.Old()
    for one in parameters(OLD_FORMS[name]):
        assert one in today or one in old.names, f"{name} takes no {one}"
    if old.order:
        assert list(old.order[: len(parameters(OLD_FORMS[name]))]) == parameters(OLD_FORMS[name])


def test_the_table_tells_of_parameters_that_exist() -> None:
    for name, old in legacy.TABLE.items():
        today = inspect.signature(getattr(K, name)).parameters
        targets = {one for one in (*old.names.values(), *old.others.values()) if one is not None}
        assert targets | set(old.weights) <= set(today), name
        assert not set(old.names) & set(today), name
        assert getattr(K, name).__wrapped__.__name__ == name


def test_functions_that_take_both_forms_are_pickled_by_name() -> None:
    for name in legacy.TABLE:
        assert pickle.loads(pickle.dumps(getattr(K, name))) is getattr(K, name)


def test_names_left_out_say_why() -> None:
    for name, reason in (legacy.ABSENT | legacy.ELSEWHERE).items():
        assert not hasattr(K, name)
        with pytest.raises(AttributeError, match=name) as caught:
            getattr(K, name)
        assert reason in str(caught.value)
    with pytest.raises(AttributeError, match="^module 'kbench' has no attribute 'nonsense'$"):
        K.nonsense  # noqa: B018
    assert legacy.NAMES.keys() <= set(K.__all__)
    assert set(legacy.NAMES.values()) <= set(K.__all__)


# ------------------------------------------------------------------ golden cases, speed

OF_KERAS_1 = [case for case in CASES if case["kind"] == "legacy"]
SAME_TODAY = ("temporal_padding",)  # a form of Keras 1 that is one of today's, too


@pytest.mark.parametrize("case", OF_KERAS_1, ids=lambda case: case["id"])
def test_golden_cases_of_keras_1_warn_once(case: Case) -> None:
    reader = Reader(case)
    arguments = [reader.argument(node) for node in case["args"]]
    keywords = {name: reader.argument(node) for name, node in case.get("kwargs", {}).items()}
    _, caught = told(lambda: getattr(K, case["fn"])(*arguments, **keywords))
    assert len(caught) == (case["fn"] not in SAME_TODAY)


def test_a_call_of_today_costs_less_than_a_microsecond_more() -> None:
    """In turns so short that other work on the machine does not get into the best of them."""

    def nothing(x: Any, axis: int = -1) -> None:
        pass

    wrapped = legacy.accepting("expand_dims", nothing)

    for call in (lambda f: f(1, 2), lambda f: f(1, axis=2)):
        taken: dict[Any, list[float]] = {wrapped: [], nothing: []}
        for _ in range(500):
            for function, times in taken.items():
                times.append(timeit.timeit(lambda: call(function), number=50) / 50)  # noqa: B023
        assert min(taken[wrapped]) - min(taken[nothing]) < 1e-6


def test_errors_name_the_function_and_the_users_line() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with pytest.raises(K.ShapeError) as caught:
            K.conv2d(K.placeholder((1, 2, 8, 8), name="images"), TH_KERNEL, dim_ordering="th")
    error = caught.value
    assert error.function == "conv2d"
    assert error.place is not None and error.place.file == __file__
    assert [one.role for one in error.operands] == ["x", "kernel"]
    assert K.placeholder((2,)).place.file == __file__
    made, _ = told(lambda: K.expand_dims(STEPS, dim=1))
    assert (made.place.file, made.called) == (__file__, "expand_dims")
