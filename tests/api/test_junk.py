"""No argument of any function is followed blindly: whatever is put in its place, kbench answers.

Every argument of every function of the op table is replaced by things that it cannot be, and by
some that it can. Either the call works, or it is refused with an error of kbench that names the
function; never with one from the depths of NumPy, never with a hang.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from case import Row, rows
from cases import CASES

from kbench import backend as K


class Odd:
    """Nothing that a function could want."""

    def __repr__(self) -> str:
        return "<odd>"


JUNK: dict[str, Callable[[], Any]] = {
    "text": lambda: "text",
    "none": lambda: None,
    "odd": Odd,
    "negative": lambda: -7,
    "fraction": lambda: 1.5,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "empty list": list,
    "dict": dict,
    "pair of nothing": lambda: (None, None),
    "function": lambda: lambda *_arguments, **_keywords: None,
    "mixed": lambda: [1, "a"],
    "ragged": lambda: [[1], [2, 3]],
    "too many": lambda: tuple(range(9)),
    "huge": lambda: 10**30,
    "endless": lambda: 10**5001,
    "masked": lambda: np.ma.masked,
    "many axes": lambda: (1,) * 65,
    "bytes": lambda: b"x",
    "complex": lambda: 1j,
    "slice": lambda: slice(1),
    "dots": lambda: ...,
    "matrix": lambda: np.ones((2, 2)),
    "word in an array": lambda: np.array("a"),
    "objects": lambda: np.ones((2, 2), object),
    "placeholder": lambda: K.placeholder((2, 3)),
    "unknown": lambda: K.placeholder((None,), dtype="int32"),
    "true": lambda: True,
}


def rows_that_bind() -> Iterator[Row]:
    """The first row of each function whose operands are its first arguments."""
    seen = set()
    for row in rows(CASES):
        function = getattr(K, row.case.name, None)
        if row.case.name in seen or row.case.call or not inspect.isfunction(function):
            continue
        seen.add(row.case.name)
        try:
            inspect.signature(function).bind(*row.shapes, **row.options)
        except TypeError:
            continue
        yield row


def evaluated(result: Any) -> None:
    for one in result if isinstance(result, (list, tuple)) else [result]:
        if K.is_tensor(one):
            K.eval(one)


def check(name: str, given: dict[str, Any]) -> None:
    """Put each thing in the place of each argument of a call that works."""
    function = getattr(K, name)
    begun = time.perf_counter()
    for argument in inspect.signature(function).parameters:
        for what, make in JUNK.items():
            try:
                evaluated(function(**{**given, argument: make()}))
            except K.KbenchError as error:
                assert error.function and error.place is not None, f"{argument}: {what}"
            except Exception as error:
                own = isinstance(error, TypeError) and "known only when fed" in str(error)
                if not own and "is symbolic" not in str(error):  # Python's own protocols
                    raise AssertionError(f"{argument}: {what} gave {error!r}") from error
    assert time.perf_counter() - begun < 20


@pytest.mark.parametrize("row", list(rows_that_bind()), ids=lambda row: row.case.name)
def test_whatever_is_given_is_answered(row: Row, capsys: pytest.CaptureFixture[str]) -> None:
    function = getattr(K, row.case.name)
    dtype = "float32" if "float32" in row.case.dtypes else row.case.dtypes[0]
    operands = [K.variable(one, dtype=one.dtype.name) for one in row.arrays(dtype)]
    check(row.case.name, dict(inspect.signature(function).bind(*operands, **row.options).arguments))


def two() -> Any:
    return K.variable(np.ones((2, 3)))


SHAPE = {"shape": (2, 3)}
OTHERS: dict[str, Callable[[], dict[str, Any]]] = {
    "concatenate": lambda: {"tensors": [two(), two()]},
    "stack": lambda: {"x": [two(), two()]},
    "zeros": lambda: SHAPE,
    "ones": lambda: SHAPE,
    "eye": lambda: {"size": 2},
    "arange": lambda: {"start": 3},
    "variable": lambda: {"value": 1.0},
    "constant": lambda: {"value": 1.0},
    "placeholder": lambda: SHAPE,
    "random_uniform": lambda: SHAPE,
    "random_normal": lambda: SHAPE,
    "random_binomial": lambda: SHAPE,
    "random_bernoulli": lambda: SHAPE,
    "truncated_normal": lambda: SHAPE,
    "random_normal_variable": lambda: {**SHAPE, "mean": 0.0, "scale": 1.0},
    "random_uniform_variable": lambda: {**SHAPE, "low": 0.0, "high": 1.0},
    "dropout": lambda: {"x": two(), "level": 0.5},
    "map_fn": lambda: {"fn": K.square, "elems": two()},
    "foldl": lambda: {"fn": lambda a, x: a + x, "elems": two()},
    "foldr": lambda: {"fn": lambda a, x: a + x, "elems": two()},
    "rnn": lambda: {
        "step_function": lambda x, states: (x, [x + one for one in states]),
        "inputs": K.variable(np.ones((2, 4, 3))),
        "initial_states": [two()],
    },
    "ctc_decode": lambda: {"y_pred": K.variable(np.ones((2, 4, 3)) / 3), "input_length": [4, 4]},
    "ctc_batch_cost": lambda: {
        "y_true": np.zeros((2, 2)),
        "y_pred": K.variable(np.ones((2, 4, 3)) / 3),
        "input_length": [[4], [4]],
        "label_length": [[1], [1]],
    },
    "normalize_batch_in_training": lambda: {
        "x": two(),
        "gamma": None,
        "beta": None,
        "reduction_axes": [0],
    },
    "gradients": lambda: {"loss": K.sum(two()), "variables": [two()]},
    "stop_gradient": lambda: {"variables": two()},
    "eval": lambda: {"x": two()},
    "get_value": lambda: {"x": two()},
    "set_value": lambda: {"x": two(), "value": np.ones((2, 3))},
    "batch_get_value": lambda: {"ops": [two()]},
    "batch_set_value": lambda: {"tuples": [(two(), np.ones((2, 3)))]},
    "update": lambda: {"x": two(), "new_x": two()},
    "update_add": lambda: {"x": two(), "increment": two()},
    "update_sub": lambda: {"x": two(), "decrement": two()},
    "moving_average_update": lambda: {"x": two(), "value": two(), "momentum": 0.9},
    "get_uid": dict,
    "name_scope": lambda: {"name": "a"},
    "control_dependencies": lambda: {"control_inputs": [two()]},
    "manual_variable_initialization": lambda: {"value": False},
    "learning_phase_scope": lambda: {"value": 0},
    "set_learning_phase": lambda: {"value": 0},
    "set_epsilon": lambda: {"e": 1e-7},
    "set_floatx": lambda: {"floatx": "float32"},
    "set_image_data_format": lambda: {"data_format": "channels_last"},
    "set_num_threads": lambda: {"count": 2},
    "set_exact": lambda: {"value": False},
    "normalize_data_format": lambda: {"value": None},
    "cast_to_floatx": lambda: {"x": [1.0]},
    "is_keras_tensor": lambda: {"x": two()},
    "is_sparse": lambda: {"tensor": two()},
    "is_tensor": lambda: {"x": two()},
    "is_variable": lambda: {"x": two()},
    "is_placeholder": lambda: {"x": two()},
    "int_shape": lambda: {"x": two()},
    "ndim": lambda: {"x": two()},
    "dtype": lambda: {"x": two()},
    "count_params": lambda: {"x": two()},
}


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_else_is_given_is_answered(name: str) -> None:
    given = OTHERS[name]()
    getattr(K, name)(**given)
    check(name, given)


def test_nearly_every_function_is_tried() -> None:
    assert len({row.case.name for row in rows_that_bind()} | set(OTHERS)) > 140
