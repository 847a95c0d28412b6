"""Every golden case of the functions that kbench has: values, dtypes, shapes, gradients, errors.

The cases come from another implementation; `golden/README.md` explains their form. Functions that
do not exist yet are listed here by name, and the list is checked, so that it cannot hide a gap.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import callables

from kbench import backend as K

FOLDER = Path(__file__).parent / "golden"
Case = dict[str, Any]

# What each family of cases waits for: a name that K must not have yet.
ABSENT = (
    "asymmetric_spatial_2d_padding asymmetric_temporal_padding atrous_conv2d conv1d conv2d "
    "conv2d_transpose conv3d conv3d_transpose ctc_batch_cost ctc_decode "
    "ctc_label_dense_to_sparse deconv2d depthwise_conv2d foldl foldr lesser local_conv1d "
    "local_conv2d map_fn pool2d pool3d print_tensor resize_images resize_volumes rnn "
    "separable_conv1d separable_conv2d spatial_2d_padding spatial_3d_padding temporal_padding"
).split()
COMING = [name for name in ABSENT if not hasattr(K, name)]
COMING_SCRIPTS = {
    "s_print_tensor_identity": "print_tensor",
    "s_ctc_dense_to_sparse": "ctc_label_dense_to_sparse",
}
SPARSE_SCRIPTS = ("s_sparse_to_dense", "s_sparse_dot", "s_sparse_placeholder", "s_sparse_concat")
LEGACY_ARGUMENTS = ("expand_dims",)  # with an argument name of Keras 1, in the family "legacy"


def _is_coming(case: Case) -> bool:
    name = case["fn"]
    return (
        name in COMING
        or name in COMING_SCRIPTS
        or name in SPARSE_SCRIPTS
        or (case["kind"] == "legacy" and name in LEGACY_ARGUMENTS)
    )


ALL: list[Case] = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))["cases"]
CASES = [case for case in ALL if not _is_coming(case)]


# ------------------------------------------------------------------ reading a case


@functools.cache
def _archive(kind: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / f"{kind}.npz", allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


class Reader:
    """Turns the argument nodes of one case into arguments; keeps the tensors by number."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.inputs: dict[int, Any] = {}

    def array(self, key: str) -> np.ndarray:
        return _archive(self.case["kind"])[key]

    def argument(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        (form,) = node.keys() - {"i", "args"}
        value = node[form]
        if form == "arr":
            return self._tensor(node["i"], value)
        if form == "np":
            return self.array(value)
        if form in ("tuple", "list"):
            items = [self.argument(item) for item in value]
            return tuple(items) if form == "tuple" else items
        if form == "call":
            return callables.FACTORIES[value](K, *[self.argument(one) for one in node["args"]])
        return {"f": float, "slice": lambda v: slice(*v), "ellipsis": lambda _: ...}[form](value)

    def _tensor(self, number: int, key: str) -> Any:
        if number not in self.inputs:
            array = self.array(key)
            self.inputs[number] = K.variable(array, dtype=array.dtype.name)
        return self.inputs[number]

    def call(self) -> Any:
        case, name = self.case, self.case["fn"]
        arguments = [self.argument(node) for node in case["args"]]
        keywords = {key: self.argument(node) for key, node in case.get("kwargs", {}).items()}
        if name.startswith("s_"):
            return callables.SCRIPTS[name](K, *arguments, **keywords)
        return function_named(name)(*arguments, **keywords)


def function_named(name: str) -> Any:
    """The function or operator that a case is about; a missing one is never the error awaited."""
    found = getattr(operator, name[3:]) if name.startswith("op.") else getattr(K, name, None)
    if found is None:
        pytest.fail(f"K has no {name}")
    return found


def _leaves(expected: Any, got: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    if "seq" not in expected:
        yield expected, got
        return
    assert isinstance(got, (list, tuple)), f"expected a sequence, got {got!r}"
    assert len(got) == len(expected["seq"])
    for node, item in zip(expected["seq"], got, strict=True):
        yield from _leaves(node, item)


def _trimmed(array: np.ndarray) -> np.ndarray:
    while array.shape[-1] and (array[..., -1] == -1).all():
        array = array[..., :-1]
    return array


def _check_leaf(reader: Reader, node: dict[str, Any], got: Any) -> None:
    tolerance = reader.case["tol"]
    if "py" in node:
        wanted = node["py"]
        if isinstance(wanted, float):
            assert got == pytest.approx(wanted, rel=tolerance[0], abs=tolerance[1])
        else:
            assert (list(got) if isinstance(wanted, list) else got) == wanted
        return
    wanted = reader.array(node["arr"])
    value = np.asarray(K.eval(got) if K.is_tensor(got) else got)
    if reader.case.get("cmp") == "trim-1":
        wanted, value = _trimmed(wanted), _trimmed(value)
    assert value.dtype == wanted.dtype
    assert value.shape == wanted.shape
    if K.is_tensor(got):
        assert K.dtype(got) == wanted.dtype.name
        static = K.int_shape(got)
        assert len(static) == wanted.ndim
        assert all(a in (None, b) for a, b in zip(static, wanted.shape, strict=True))
    _assert_close(value, wanted, tolerance)


def _assert_close(value: np.ndarray, wanted: np.ndarray, tolerance: list[float]) -> None:
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(value, wanted, *tolerance)
    else:
        np.testing.assert_array_equal(value, wanted)


def _check_gradients(reader: Reader, outputs: list[Any]) -> None:
    case, loss = reader.case, None
    gradient = case["grad"]
    for output, key in zip(outputs, gradient["cot"], strict=True):
        if key is not None:
            term = K.sum(output * K.constant(reader.array(key), dtype=K.dtype(output)))
            loss = term if loss is None else loss + term
    numbers = [int(number) for number in gradient["wrt"]]
    found = K.gradients(loss, [reader.inputs[number] for number in numbers])
    for number, got in zip(numbers, found, strict=True):
        key = gradient["wrt"][str(number)]
        if key is None:
            assert got is None or not np.any(K.eval(got))
            continue
        assert got is not None, f"no gradient to input {number}"
        value, wanted = K.eval(got), reader.array(key)
        assert value.dtype == wanted.dtype
        assert value.shape == wanted.shape
        np.testing.assert_allclose(value, wanted, *gradient["tol"])


# ------------------------------------------------------------------ the tests


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']}-{case['id']}")
def test_case(case: Case) -> None:
    reader = Reader(case)
    if "raises" in case:
        wanted = case["raises"]
        with pytest.raises(Exception) as caught:
            K.eval(reader.call())
        names = {one.__name__ for one in type(caught.value).__mro__}
        assert "*" in wanted or names & set(wanted), f"got {type(caught.value)}"
        return
    leaves = list(_leaves(case["out"], reader.call()))
    for node, got in leaves:
        _check_leaf(reader, node, got)
    if "grad" in case:
        _check_gradients(reader, [got for _, got in leaves])


@pytest.mark.parametrize("name", COMING)
def test_functions_that_are_left_out_do_not_exist(name: str) -> None:
    assert not hasattr(K, name), f"{name} exists now: strike it from COMING"
    assert any(case["fn"] == name for case in ALL) or name in COMING_SCRIPTS.values()


def test_sparse_cases_are_left_out_because_there_are_no_sparse_tensors() -> None:
    with pytest.raises(K.ArgumentError, match="sparse"):
        K.placeholder((2, 3), sparse=True)


def test_argument_names_of_keras_1_are_left_out_because_they_are_refused() -> None:
    with pytest.raises(TypeError):
        K.expand_dims(K.zeros((2,)), dim=0)


def test_the_cases_are_all_there() -> None:
    assert len(ALL) == 1384
    assert len(CASES) + sum(map(_is_coming, ALL)) == len(ALL)
