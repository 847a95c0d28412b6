"""Plans: what the passes do to a graph, which buffers are shared, and that values stay the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine.compiler import decompose_softmax, simplify
from kbench.engine.execute.steps import group_step
from kbench.engine.graph.op import REGISTRY
from kbench.engine.graph.traverse import walk
from kbench.engine.kernels.data import strided_copy

SOURCES = ("placeholder", "variable", "constant")


def ops(roots: list[Any]) -> list[str]:
    """Names of the ops that the roots need, without the sources, sorted."""
    found = [node.op.name for node in walk(roots, set())]
    return sorted(name for name in found if name not in SOURCES)


def planned(*roots: Any, inputs: Any = ()) -> list[str]:
    """Names of the ops in the plan for the roots."""
    plan = K.function(list(inputs), list(roots)).plan
    return ops(list(plan.roots))


# ------------------------------------------------------------------ simplify rules

Build = Callable[[Any], Any]
NEXT = "sin"  # an op above the rule's, so that the rule's result is not the root itself


def negated(x: Any, times: int) -> Any:
    for _ in range(times):
        x = -x
    return x


def locally(x: Any, filters: int) -> Any:
    kernel = K.constant(np.ones((2, 3, filters)))
    return K.local_conv1d(K.reshape(x, (1, 2, 3)), kernel, (1,), (1,))


def behind_permutation(x: Any) -> Any:
    """The gradient of what was broadcast, and then permuted."""
    many = K.constant(np.ones((4, 1, 1))) + x
    return K.gradients(K.sum(K.exp(K.permute_dimensions(many, (2, 0, 1)))), [x])[0]


PATCHED = ["patches", "batch_dot", "permute"]
RULES: list[tuple[str, Build, list[str]]] = [
    ("drop_identity", lambda x: K.identity(x), []),
    ("drop_identity", lambda x: K.stop_gradient(x), []),
    ("drop_neutral_factor", lambda x: x * 1, []),
    ("drop_neutral_factor", lambda x: 1.0 * x, []),
    ("drop_neutral_factor", lambda x: x * K.constant([[1.0]]), []),
    ("drop_neutral_factor", lambda x: x[0] * K.constant([[1.0]]), ["getitem", "multiply"]),
    ("drop_neutral_factor", lambda x: x * 2, ["multiply"]),
    ("drop_neutral_factor", lambda x: K.gradients(K.sum(x * x), [x])[0], ["add"]),
    ("drop_neutral_operand", lambda x: x / 1, []),
    ("drop_neutral_operand", lambda x: x - 0, []),
    ("drop_neutral_operand", lambda x: 1 / x, ["divide"]),
    ("drop_neutral_operand", lambda x: 0 - x, ["subtract"]),
    ("drop_neutral_operand", lambda x: x - (-0.0), ["subtract"]),
    ("drop_neutral_operand", lambda x: x + 0, ["add"]),
    ("drop_neutral_operand", lambda x: x - K.constant([[[0.0]]]), ["subtract"]),
    ("drop_double_negation", lambda x: negated(x, 2), []),
    ("drop_double_negation", lambda x: negated(x, 3), ["negative"]),
    ("products_of_power", lambda x: x**2, ["square"]),
    ("products_of_power", lambda x: x**1, []),
    ("products_of_power", lambda x: x**3, ["square", "multiply"]),
    ("products_of_power", lambda x: x**4, ["square", "square"]),
    ("products_of_power", lambda x: x**5, ["power"]),
    ("merge_permutations", lambda x: K.transpose(K.transpose(x)), []),
    ("merge_permutations", lambda x: K.permute_dimensions(x, (0, 1)), []),
    (
        "merge_permutations",
        lambda x: K.permute_dimensions(K.expand_dims(K.transpose(x), 0), (1, 0, 2)),
        ["expand_dims", "permute", "permute"],
    ),
    ("fold_before_permuting", lambda x: K.max(K.transpose(x), 0, True), ["max", "permute"]),
    ("fold_before_permuting", lambda x: K.var(K.transpose(x), 0, True), ["permute", "var"]),
    ("fold_before_permuting", lambda x: K.logsumexp(K.transpose(x), 1), ["logsumexp"]),
    ("sum_before_permuting", behind_permutation, ["add", "permute", "exp", "sum", "permute"]),
    ("reshape_of_permuted", lambda x: K.flatten(K.transpose(x)), ["permute", "reshape_copy"]),
    ("reshape_of_permuted", lambda x: K.reshape(K.transpose(x), (3, 1, 2)), ["permute", "reshape"]),
    ("merge_reshapes", lambda x: K.reshape(K.reshape(x, (6,)), (3, 2)), ["reshape"]),
    ("drop_widening_cast", lambda x: K.cast(K.cast(x, "float64"), "float32"), []),
    ("drop_widening_cast", lambda x: K.cast(K.cast(x, "float16"), "float32"), ["cast", "cast"]),
    ("drop_widening_cast", lambda x: K.cast(K.cast(x, "int32"), "float32"), ["cast", "cast"]),
    (
        "decompose_softmax",
        lambda x: K.softmax(x, 0),
        ["max", "subtract", "exp", "sum", "divide"],
    ),
    (
        "decompose_softmax",
        lambda x: K.logsumexp(x, 0),
        ["max", "minimum", "maximum", "subtract", "exp", "sum", "log", "add", "sum"],
    ),
    ("decompose_softmax", lambda x: K.softmax(x, 1), ["softmax"]),
    ("decompose_softmax", lambda x: K.logsumexp(x), ["logsumexp"]),
    ("products_of_patches", lambda x: locally(x, 16), ["reshape", "local_products"]),
    ("products_of_patches", lambda x: locally(x, 8), ["reshape", *PATCHED]),
]


FED = np.array([[1.5, -2.0, np.nan], [-0.0, np.inf, 3e38]], "float32")


@pytest.mark.parametrize(("rule", "build", "after"), RULES)
def test_rule(rule: str, build: Build, after: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if rule == "decompose_softmax":
        monkeypatch.setattr(decompose_softmax, "MIN_ELEMENTS", 0)
    if rule == "reshape_of_permuted":
        monkeypatch.setattr(strided_copy, "MIN_KERNEL_BYTES", 0)
    x = K.placeholder((2, 3))
    result = build(x)
    assert planned(K.sin(result), inputs=[x]) == sorted([*after, NEXT])
    (value,) = K.function([x], [result])([FED])
    monkeypatch.setattr(simplify, "laws_of", lambda op: ())
    (plain,) = K.function([x], [result])([FED])
    assert value.shape == plain.shape == K.int_shape(result)
    assert value.dtype == plain.dtype == K.dtype(result)
    np.testing.assert_array_equal(value, plain)
    np.testing.assert_array_equal(np.signbit(value), np.signbit(plain))


def test_every_rule_has_a_row() -> None:
    laws = {law for op in REGISTRY.values() for law in simplify.laws_of(op)}
    assert {rule for rule, _, _ in RULES} == {law.__name__ for law in laws}
    assert all(law.__doc__ and "=" in law.__doc__ for law in laws)


def test_a_merged_reshape_still_checks_what_it_is_fed() -> None:
    x = K.placeholder((None,))
    compiled = K.function([x], [K.reshape(K.reshape(x, (-1, 2)), (-1,))])
    assert compiled([[1, 2]])[0].tolist() == [1.0, 2.0]
    with pytest.raises(K.ShapeError):
        compiled([[1, 2, 3]])


# ------------------------------------------------------------------ folding, sharing, pruning


def test_constants_are_folded() -> None:
    x = K.placeholder((3,))
    c = K.exp(K.constant([1.0, 2.0, 3.0]) * 2) + K.sum(K.constant([1.0]))
    assert planned(x + c, inputs=[x]) == ["add"]
    assert planned(K.shape(x)[0] * 2 + K.size(x), inputs=[x]) == []
    np.testing.assert_allclose(K.eval(c), np.exp([2.0, 4.0, 6.0]) + 1, 1e-6)


def test_variables_and_feeds_are_not_folded() -> None:
    v = K.variable(2.0)
    y = v * 3
    compiled = K.function([], [y])
    assert compiled([])[0] == 6.0
    K.set_value(v, 5.0)
    assert compiled([])[0] == 15.0
    (double,) = K.function([v], [y])([4.0])
    assert double == 12.0


def test_what_was_folded_cannot_be_fed() -> None:
    x, c = K.placeholder((3,)), K.constant(2.0)
    for known in (c, K.shape(x), K.constant(1, dtype="int32") + 1):
        with pytest.raises(K.ArgumentError, match="has a known value"):
            K.function([known], [x * 3])
        with pytest.raises(K.ArgumentError, match="has a known value"):
            (known * 2).eval(feed_dict={known: 4.0})


def test_an_error_in_constants_waits_until_it_is_needed() -> None:
    n = K.placeholder((), dtype="int32")
    broken = K.constant(1, dtype="int32") // K.constant(0, dtype="int32")
    compiled = K.function([n], [K.switch(n > 0, broken, n)])
    assert compiled([-3])[0] == -3
    with pytest.raises(K.ArgumentError, match="division by zero"):
        compiled([3])


def test_equal_operations_are_shared() -> None:
    x = K.placeholder((3,))
    assert planned(K.sin(x) + K.sin(x), inputs=[x]) == ["add", "sin"]
    assert planned(K.sum(x, 0) + K.sum(x, -1), inputs=[x]) == ["add", "sum"]
    assert planned(x * 2 + K.exp(x * 2.0), inputs=[x]) == ["add", "exp", "multiply"]
    assert planned(K.sum(x, keepdims=True) + K.sum(x), inputs=[x]) == ["add", "sum", "sum"]


def test_signed_zeros_and_dtypes_are_not_shared() -> None:
    x = K.placeholder((3,))
    got = K.function([x], [x * 0.0, x * -0.0])([[1, 1, 1]])
    assert [bool(np.signbit(one).all()) for one in got] == [False, True]
    first, second = K.zeros_like(x, "int32"), K.zeros_like(x, "float64")
    assert [one.dtype.name for one in K.function([x], [first, second])([[1, 1, 1]])] == [
        "int32",
        "float64",
    ]


def test_what_nobody_needs_does_not_run() -> None:
    x, y = K.placeholder((3,)), K.placeholder((3,))
    K.exp(y)
    compiled = K.function([x], [K.sin(x), K.shape(K.exp(x))])
    assert ops(list(compiled.plan.roots)) == ["sin"]
    assert K.function([y], [K.zeros_like(y + 1) + K.shape(K.cos(y))[0]])


# ------------------------------------------------------------------ memory


def chain(x: Any, length: int) -> Any:
    for index in range(length):
        x = K.cumsum(x, index % 2) * 0.5  # a scan is a step of its own
    return x


def test_buffers_are_used_again() -> None:
    x = K.placeholder((None, 200))
    compiled = K.function([x], [chain(x, 20)])
    fed = np.ones((300, 200), "float32")
    layout = compiled.bound([fed]).layout
    assert fed.nbytes <= layout.peak_bytes <= 5 * fed.nbytes  # and not 40 of them
    (value,) = compiled([fed])
    wanted = fed.astype("float64")
    for index in range(20):
        wanted = np.cumsum(wanted, index % 2) * 0.5
    np.testing.assert_allclose(value, wanted, 1e-4)


def test_a_buffer_lives_as_long_as_a_view_of_it() -> None:
    x = K.placeholder((4, 5))
    first = K.cumsum(x, 0)
    view = K.transpose(first)[1:, ::-1]
    late = chain(x, 6)
    compiled = K.function([x], [K.sum(late) + K.sum(view * 1, keepdims=True), first])
    fed = np.arange(20, dtype="float32").reshape(4, 5)
    total, kept = compiled([fed])
    running = np.cumsum(fed, 0)
    wanted = fed.astype("float64")
    for index in range(6):
        wanted = np.cumsum(wanted, index % 2) * 0.5
    np.testing.assert_allclose(total, [[wanted.sum() + running.T[1:].sum()]], 1e-5)
    np.testing.assert_array_equal(kept, running)


@pytest.mark.parametrize("rows", [3, 300], ids=["small", "fused"])
def test_what_a_later_step_reads_is_kept(rows: int) -> None:
    """A group reads when it runs, a guarded step its condition: later than the graph says."""
    x = K.placeholder((None, 100))
    scans = [K.cumsum(x * number, 1) for number in (1.0, 2.0, 3.0)]
    joined = scans[0] * 0.5 + K.cumsum(scans[1], 0) + scans[2] * 0.25
    flag = K.sum(K.cumsum(x, 0)) > 0
    chosen = K.switch(flag, K.cumsum(joined, 0), K.cumsum(-joined, 1))
    fed = np.random.default_rng(5).uniform(0, 1, (rows, 100)).astype("float32")
    wide = [np.cumsum(fed.astype("float64") * number, 1) for number in (1, 2, 3)]
    wanted = wide[0] * 0.5 + np.cumsum(wide[1], 0) + wide[2] * 0.25
    value, late = K.function([x], [joined, chosen * 1])([fed])
    np.testing.assert_allclose(value, wanted, 1e-4)
    np.testing.assert_allclose(late, np.cumsum(wanted, 0), 1e-4)


def test_the_record_tells_the_peak() -> None:
    x = K.placeholder((None, 200))
    compiled = K.function([x], [chain(x, 5)])
    with K.record() as runs:
        compiled([np.ones((300, 200))])
    assert runs[0].peak_bytes == compiled.bound([np.ones((300, 200), "float32")]).layout.peak_bytes


# ------------------------------------------------------------------ fusion


def labels(compiled: Any, *arrays: Any) -> Counter[str]:
    with K.record() as runs:
        compiled(list(arrays))
    return Counter(step.label for step in runs[0].steps if step.form != "view")


@pytest.mark.parametrize("mode", ["off", "wait"])
def test_chains_and_their_fold_are_one_step(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", mode)
    x, y = K.placeholder((None, 100)), K.placeholder((100,))
    z = K.sigmoid(1.5 * x + y) * K.tanh(x)
    fed = np.random.default_rng(0).normal(size=(300, 100)).astype("float32")
    row = fed[0].copy()
    compiled = K.function([x, y], [K.sum(z, 1), K.sum(z)])
    assert len(labels(compiled, fed, row)) <= 3
    first, total = compiled([fed, row])
    wide = fed.astype("float64")
    wanted = 1 / (1 + np.exp(-(1.5 * wide + row))) * np.tanh(wide)
    np.testing.assert_allclose(first, wanted.sum(1), 1e-4, 1e-4)
    np.testing.assert_allclose(total, wanted.sum(), 1e-4)
    assert len(labels(K.function([x, y], [K.max(z, 0)]), fed, row)) == 1


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "any", "all"])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), 2])
def test_a_fold_in_slabs(name: str, axis: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")
    monkeypatch.setattr(group_step, "SLAB_ELEMENTS", 5000)
    x, y = K.placeholder((None, None, None), dtype=dtype), K.placeholder((None,), dtype=dtype)
    compiled = K.function([x, y], [getattr(K, name)(x * y, axis)])
    fed = np.random.default_rng(1).uniform(0.99, 1.01, (40, 30, 20)).astype(dtype)
    row = np.ones(20, dtype)
    row[3] = 1.01
    (value,) = compiled([fed, row])
    wanted = getattr(np, name)((fed * row).astype("float64"), axis=axis)
    assert value.dtype == ("bool" if name in ("any", "all") else dtype)
    np.testing.assert_allclose(value, wanted, 2e-2 if dtype == "float16" else 2e-3)


def test_a_fold_of_more_than_fits_in_memory() -> None:
    x = K.placeholder((None,))
    outer = K.reshape(x, (-1, 1)) * K.reshape(x, (1, -1))
    compiled = K.function([x], [K.sum(K.sign(outer), axis=0)])
    bound = compiled.bound([np.ones(10**6, "float32")])  # 4 TB if it were ever there
    assert bound.layout.peak_bytes < 10**9


def test_small_arrays_are_not_fused() -> None:
    x = K.placeholder((None,))
    compiled = K.function([x], [K.sin(x) * 2])
    assert sum(labels(compiled, np.ones(10)).values()) == 2
