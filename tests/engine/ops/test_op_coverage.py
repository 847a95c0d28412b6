"""Every op and every function of the op families has a row in the op table or a test elsewhere."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case import FLOATS, Row
from cases import CASES

from kbench import backend as K
from kbench.engine.graph.op import REGISTRY
from kbench.engine.graph.traverse import walk
from tests.engine.ops.test_ops import ROWS, inputs_of

SOURCES = {"variable", "placeholder", "constant", "update"}  # test_variables, test_function
RANDOM = {  # values in test_random
    "random_uniform": lambda: K.random_uniform((2, 3)),
    "random_integers": lambda: K.random_uniform((2, 3), 0, 9, dtype="int32"),
    "random_normal": lambda: K.random_normal((2, 3)),
    "truncated_normal": lambda: K.truncated_normal((2, 3)),
    "random_binomial": lambda: K.random_binomial((2, 3), 0.5),
    "dropout_mask": lambda: K.dropout(K.ones((2, 3)), 0.5),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_ops_are_drawn_once_a_call_and_never_folded(name: str) -> None:
    x = RANDOM[name]()
    assert name in names_in_graph([x])
    first, again, other = K.function([], [x, x * 1, RANDOM[name]() * 1])([])
    assert first.shape == (2, 3) == K.int_shape(x)
    np.testing.assert_array_equal(first, again)
    draws = [first.tolist(), other.tolist(), *(K.eval(x).tolist() for _ in range(6))]
    assert any(one != draws[0] for one in draws[1:])


def names_in_graph(roots: Sequence[Any]) -> set[str]:
    return {node.op.name for node in walk(roots, set())}


def reached(row: Row) -> set[str]:
    """Names of the ops in the graphs and plans of a row and of its gradients."""
    names: set[str] = set()
    dtype = "float64" if "float64" in row.case.dtypes else row.case.dtypes[0]
    arrays = row.arrays(dtype)
    for known in (True, False):
        inputs = inputs_of(arrays, known)
        results = row.case.symbolic(*inputs, **row.options)
        roots = list(results)
        if K.dtype(results[0]) in FLOATS:
            slopes = [one for one in K.gradients(results[0], inputs) if one is not None]
            roots += slopes
            if row.case.smooth:
                bent = K.gradients(K.sum(results[0] * results[0]), inputs)
                again = K.gradients(
                    K.sum(K.stack([K.sum(one) for one in bent if one is not None])), inputs
                )
                roots += [one for one in again if one is not None]
        names |= names_in_graph(roots)
        compiled = K.function(inputs, roots)
        compiled(arrays)
        names |= {value.op.name for value in compiled.bound(arrays).values}
    return names


SEEDED = {"seeded_draw"}  # values in test_seeded
OF_CLUSTERS = {"all_mean"}  # there once `kbench.dask` was used; tests/dask/test_training.py


@pytest.mark.slow
def test_every_registered_op_has_a_row() -> None:
    missing = set(REGISTRY) - SOURCES - set(RANDOM) - SEEDED - OF_CLUSTERS
    one_of_each_case = {id(row.case): row for row in ROWS}.values()
    for row in (*one_of_each_case, *ROWS):
        if missing:
            missing -= reached(row)
    assert missing == set()
    impure = {name for name, op in REGISTRY.items() if not op.pure} - OF_CLUSTERS
    assert impure == {"update", "print_tensor", *RANDOM}


ELSEWHERE = {  # functions of kbench.engine.ops without operands to draw, and who tests them
    "engine/graph/test_scope": [
        *("control_dependencies", "learning_phase", "learning_phase_scope", "set_learning_phase")
    ],
    "engine/ops/test_ops": ["arange", "random_bernoulli"],
    "engine/graph/test_variables": ["eye"],
    "engine/ops/random/test_random": [
        *("random_binomial", "random_normal", "random_normal_variable"),
        *("random_uniform", "random_uniform_variable", "truncated_normal", "dropout"),
    ],
}


def test_every_public_function_of_the_op_families_has_a_row() -> None:
    modules = ("kbench.engine.ops.", "kbench.engine.control_flow.")
    functions = {name: one for name, one in vars(K).items() if inspect.isfunction(one)}
    public = {
        name
        for name in K.__all__
        if name in functions and inspect.unwrap(functions[name]).__module__.startswith(modules)
    }
    assert len(public) > 100
    tested = [(page, name) for page, names in ELSEWHERE.items() for name in names]
    for page, name in tested:
        text = (Path(__file__).parents[2] / f"{page}.py").read_text(encoding="utf-8")
        assert name in public and f"K.{name}" in text, f"{page} does not call {name}"
    assert public - {case.name for case in CASES} - {name for _, name in tested} == set()
