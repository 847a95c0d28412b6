"""Every golden case: values, dtypes, shapes, gradients, errors; fed in three ways, on two tiers.

The cases come from another implementation; `golden/README.md` explains their form. The arrays of
a case are given as variables, as constants, or fed to placeholders that know their rank alone.
On the compiled tier KBENCH_LEAST gives even these small arrays to the kernels; as that compiles
one for each expression and dtype, a plain run takes one case in 192, on placeholders alone. On
NumPy it takes all of them on placeholders, and one of each function as a variable.
"""

from __future__ import annotations

import contextlib
import functools
import json
import operator
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import callables
from sampling import every, first_of_each, in_turns

from kbench import backend as K
from kbench.engine.execute.steps import library_step
from kbench.engine.graph.op import REGISTRY

FOLDER = Path(__file__).parents[1] / "golden"
Case = dict[str, Any]

CASES: list[Case] = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))["cases"]
ABOUT_SIZES = ("int_shape", "count_params")  # what they say is what is known
KINDS_WITH_KERNELS = "conv pool shape indexing ctc random reduction nn linalg".split()
MODES = ("variable", "constant")  # beside "placeholder"


# ------------------------------------------------------------------ reading a case


@functools.cache
def _archive(kind: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / f"{kind}.npz", allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


class Reader:
    """Turns the argument nodes of one case into arguments; keeps the tensors by number."""

    def __init__(self, case: Case, mode: str = "variable") -> None:
        self.case = case
        self.mode = mode
        self.inputs: dict[int, Any] = {}
        self.feeds: dict[Any, np.ndarray] = {}

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
            name = array.dtype.name
            if self.mode == "placeholder":
                known = self.case["fn"] in ABOUT_SIZES
                tensor = K.placeholder(array.shape if known else None, array.ndim, dtype=name)
                self.feeds[tensor] = array
            else:
                make = K.variable if self.mode == "variable" else K.constant
                tensor = make(array, dtype=name)
            self.inputs[number] = tensor
        return self.inputs[number]

    def call(self) -> Any:
        case, name = self.case, self.case["fn"]
        arguments = [self.argument(node) for node in case["args"]]
        keywords = {key: self.argument(node) for key, node in case.get("kwargs", {}).items()}
        with _old_names(case):
            if name.startswith("s_"):
                return callables.SCRIPTS[name](K, *arguments, **keywords)
            return function_named(name)(*arguments, **keywords)

    def values(self, tensors: Sequence[Any]) -> list[np.ndarray]:
        """What tensors are, with everything fed."""
        return list(K.function(list(self.feeds), list(tensors))(list(self.feeds.values())))


@contextlib.contextmanager
def _old_names(case: Case) -> Iterator[None]:
    """Let calls in the ways of Keras 1 warn; every other warning is an error."""
    with warnings.catch_warnings():
        if case["kind"] == "legacy" or "legacy" in case.get("tags", ()):
            warnings.simplefilter("ignore", DeprecationWarning)
        yield


def function_named(name: str) -> Any:
    """The function or operator that a case is about; a missing one is never the error awaited."""
    found = getattr(operator, name[3:]) if name.startswith("op.") else getattr(K, name, None)
    if found is None:
        pytest.fail(f"K has no {name}")
    return found


# ------------------------------------------------------------------ comparing


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


def _check_python_value(reader: Reader, wanted: Any, got: Any) -> None:
    if isinstance(wanted, float):
        rtol, atol = reader.case["tol"]
        assert got == pytest.approx(wanted, rel=rtol, abs=atol)
    else:
        assert (list(got) if isinstance(wanted, list) else got) == wanted


def _check_array(reader: Reader, wanted: np.ndarray, got: Any, value: np.ndarray) -> None:
    if reader.case.get("cmp") == "trim-1":
        wanted, value = _trimmed(wanted), _trimmed(value)
    assert value.dtype == wanted.dtype
    assert value.shape == wanted.shape
    if K.is_tensor(got):
        assert K.dtype(got) == wanted.dtype.name
        static = K.int_shape(got)
        assert len(static) == wanted.ndim
        assert all(a in (None, b) for a, b in zip(static, wanted.shape, strict=True))
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(value, wanted, *reader.case["tol"])
    else:
        np.testing.assert_array_equal(value, wanted)


def _loss(reader: Reader, outputs: list[Any]) -> Any:
    terms = [
        K.sum(output * K.constant(reader.array(key), dtype=K.dtype(output)))
        for output, key in zip(outputs, reader.case["grad"]["cot"], strict=True)
        if key is not None
    ]
    return functools.reduce(operator.add, terms)


def _check_gradients(reader: Reader, found: dict[int, Any], values: list[np.ndarray]) -> None:
    gradient, left = reader.case.get("grad", {}), iter(values)
    for number, got in found.items():
        value = None if got is None else next(left)
        key = gradient["wrt"][str(number)]
        if key is None:
            assert value is None or not np.any(value)
            continue
        assert value is not None, f"no gradient to input {number}"
        wanted = reader.array(key)
        assert value.dtype == wanted.dtype
        assert value.shape == wanted.shape
        np.testing.assert_allclose(value, wanted, *gradient["tol"])


def check(case: Case, mode: str) -> None:
    """Run one case: outputs and gradients come from one evaluation."""
    reader = Reader(case, mode)
    if "raises" in case:
        wanted = case["raises"]
        with pytest.raises(Exception) as caught:
            reader.values([reader.call()])
        names = {one.__name__ for one in type(caught.value).__mro__}
        assert "*" in wanted or names & set(wanted), f"got {type(caught.value)}"
        return
    leaves = list(_leaves(case["out"], reader.call()))
    tensors = [got for _, got in leaves if K.is_tensor(got)]
    found: dict[int, Any] = {}
    if "grad" in case:
        numbers = [int(number) for number in case["grad"]["wrt"]]
        inputs = [reader.inputs[number] for number in numbers]
        loss = _loss(reader, [got for _, got in leaves])
        found = dict(zip(numbers, K.gradients(loss, inputs), strict=True))
    slopes = [one for one in found.values() if one is not None]
    values = reader.values([*tensors, *slopes]) if tensors else []
    _check_gradients(reader, found, values[len(tensors) :])
    results = iter(values)
    for node, got in leaves:
        if "py" in node:
            _check_python_value(reader, node["py"], got)
        else:
            value = next(results) if K.is_tensor(got) else np.asarray(got)
            _check_array(reader, reader.array(node["arr"]), got, value)


# ------------------------------------------------------------------ the tests


def has_tensors(case: Case) -> bool:
    """Whether there is anything to feed in another way."""
    return '"arr"' in json.dumps([case["args"], case.get("kwargs", {})])


def title(value: Any) -> str:
    return f"{value['kind']}-{value['id']}" if isinstance(value, dict) else str(value)


FED = [case for case in CASES if has_tensors(case)]


@pytest.mark.parametrize("case", CASES, ids=title)
def test_on_numpy(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")
    check(case, "placeholder")


def about(case: Case) -> tuple[str, bool]:
    return case["fn"], "raises" in case


@pytest.mark.parametrize("case", first_of_each(about, FED), ids=title)
def test_variables_on_numpy(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")
    check(case, "variable")


@pytest.mark.slow
@pytest.mark.parametrize("case", FED, ids=title)
def test_constants_on_numpy(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")
    check(case, "constant")


def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    monkeypatch.setenv("KBENCH_LEAST", "1")


@pytest.mark.parametrize("case", every(192, CASES), ids=title)
def test_compiled(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(monkeypatch)
    check(case, "placeholder")


OTHERWISE = [
    (case, mode) for case, modes in in_turns(FED, about, lambda _: MODES) for mode in modes
]
"""The cases of each function take turns at these: with both, kernels take a quarter of an hour."""


@pytest.mark.slow
@pytest.mark.parametrize(("case", "mode"), OTHERWISE, ids=title)
def test_compiled_and_fed_in_other_ways(
    case: Case, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(monkeypatch)
    check(case, mode)


# Kernels that no golden case asks for, or only of values known beforehand, which are computed
# while binding; test_random_kernels, test_kernel_library, test_pooling, test_ctc and
# test_gemm run them.
ELSEWHERE = {"random_binomial", "random_integers", "random_normal", "random_uniform"}
ELSEWHERE |= {"truncated_normal", "log_softmax", "interpolate_back", "block_sum"}
ELSEWHERE |= {"ctc_cost", "ctc_slope", "matmul", "local_products"}
ELSEWHERE |= {"reshape_copy"}  # test_reshape_copy
ELSEWHERE |= {"seeded_draw"}  # which only programs of Keras 3 load; test_seeded runs it
KERNELS = {name for name, op in REGISTRY.items() if op.kernel is not None} | set(
    library_step.KERNEL_OPS
)


@pytest.mark.slow
def test_small_arrays_reach_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the cases which are said to run compiled do so: every kernel is seen to run."""
    compiled(monkeypatch)
    with_gradients = sorted(CASES, key=lambda case: "grad" not in case)
    seen: set[str] = set()
    tried: Counter[str] = Counter()
    for case in with_gradients:
        tried[case["fn"]] += case["kind"] in KINDS_WITH_KERNELS and "raises" not in case
        if 0 < tried[case["fn"]] <= 8:
            with K.record() as runs:
                check(case, "placeholder")
            seen |= {step.label for run in runs for step in run.steps if step.form == "library"}
            seen |= {step.form for run in runs for step in run.steps}
    assert (KERNELS - ELSEWHERE) | {"fused"} <= seen


def test_the_cases_are_all_there() -> None:
    assert len(CASES) == 1384
    assert len({title(case) for case in CASES}) == len(CASES)
