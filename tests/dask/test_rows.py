"""What the analysis claims of rows holds: each chunk gives what all rows at once give.

Every operation's rows of the table, and gradients of them, with every choice of which operands have
the batch axis, are computed whole and in parts. A claim that does not hold fails; a list of what
must be claimed sees to it that the analysis is not simply shy.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from case import Row, rows
from cases import CASES
from scipy import sparse

from kbench import backend as K
from kbench.dask.rows.analysis import Known, analyse, needed
from kbench.dask.rows.states import FREE, Free, Mixed, Rows, State
from kbench.engine.core.errors import ShapeError
from kbench.engine.core.spec import Spec
from kbench.engine.ops.control.switch import learning_phase

EVERY = [row for row in rows(CASES) if not any(0 in shape for shape in row.shapes)]


@pytest.fixture(autouse=True)
def _on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")


def states_of(outputs: Sequence[Any], batched: Sequence[Any], flags: Any = None) -> list[State]:
    """How outputs have the rows of the placeholders."""
    given = {id(one): Known(Spec(one.spec.shape, one.spec.dtype), Rows(0)) for one in batched}
    return [known.state for known in analyse(outputs, given, flags or {})]


def choices(row: Row) -> list[tuple[int, ...]]:
    """Which operands may have the batch axis, as theirs is equally long."""
    able = [place for place, shape in enumerate(row.shapes) if shape and shape[0] > 1]
    return [
        chosen
        for count in range(1, len(able) + 1)
        for chosen in itertools.combinations(able, count)
        if len({row.shapes[place][0] for place in chosen}) == 1
    ]


def dense(value: Any) -> np.ndarray:
    return value.toarray() if sparse.issparse(value) else np.asarray(value)


def check(step: Any, claims: Sequence[State], arrays: Sequence[Any], chosen: Sequence[int]) -> int:
    """Compare parts with the whole; how many claims there were."""
    whole = [dense(value) for value in step(list(arrays))]
    count = len(arrays[chosen[0]])
    parts = []
    for first, last in ((0, 1), (1, count)):
        part = [
            array[first:last] if place in chosen else array for place, array in enumerate(arrays)
        ]
        parts.append([dense(value) for value in step(part)])
    claimed = 0
    for place, state in enumerate(claims):
        if isinstance(state, Rows):
            assert parts[0][place].shape[state.axis] == state.per
            joined = np.concatenate([part[place] for part in parts], state.axis)
            np.testing.assert_allclose(joined, whole[place], rtol=1e-3, atol=1e-5)
            claimed += 1
        elif state == FREE:
            for part in parts:
                np.testing.assert_array_equal(part[place], whole[place])
    return claimed


@pytest.mark.parametrize("row", EVERY, ids=str)
def test_claims_hold(row: Row) -> None:
    arrays = row.arrays(row.case.dtypes[0])
    for chosen in choices(row):
        inputs = [
            K.placeholder(
                (None, *array.shape[1:]) if place in chosen else array.shape,
                dtype=array.dtype.name,
            )
            for place, array in enumerate(arrays)
        ]
        try:
            results = row.case.symbolic(*inputs, **row.options)
        except (ValueError, TypeError):
            continue  # needs a size that is known
        floats = [one for one in results if K.dtype(one).startswith("float")]
        slopes = K.gradients(K.sum(floats[0]), inputs) if floats else []
        outputs = [*results, *(one for one in slopes if one is not None)]
        batched = [inputs[place] for place in chosen]
        if any(not one.op.pure for one in needed(outputs, {id(one) for one in batched}, {})):
            continue  # draws random numbers
        pairs = [
            (one, state)
            for one, state in zip(outputs, states_of(outputs, batched), strict=True)
            if isinstance(state, (Rows, Free))
        ]
        if pairs:
            claimed, states = zip(*pairs, strict=True)
            with contextlib.suppress(ShapeError):  # of a chunk, which is no silent wrong value
                check(K.function(inputs, list(claimed)), states, arrays, chosen)


# ------------------------------------------------------------------ what must be claimed


def _lstm(x: Any) -> Any:
    w = K.variable(np.ones((4, 4)))
    start = K.tile(K.expand_dims(K.sum(K.zeros_like(x), axis=(1, 2))), [1, 4])
    step = lambda a, s: (K.tanh(K.dot(a + s[0], w)), [K.tanh(K.dot(a + s[0], w))])  # noqa: E731
    return K.rnn(step, x, [start])[1]


def _normalized(x: Any) -> Any:
    stats = [K.variable(np.full(4, value)) for value in (0.5, 2.0, 0.0, 1.0)]
    return K.batch_normalization(x, *stats)


def _distributed(x: Any) -> Any:
    """A layer on each time, as Keras does it where the number of rows is not known."""
    flat = K.reshape(x, (-1, 4))
    return K.reshape(K.dot(flat, K.variable(np.ones((4, 2)))), (-1, 3, 2))


CLAIMED: dict[str, tuple[Callable[[Any], Any], Rows]] = {
    "softmax": (lambda x: K.softmax(x), Rows(0)),
    "relu of a product": (lambda x: K.relu(K.dot(x, K.variable(np.ones((4, 5))))), Rows(0)),
    "bias": (lambda x: K.bias_add(x, K.variable(np.ones(4))), Rows(0)),
    "batch norm in testing": (_normalized, Rows(0)),
    "sum over features": (lambda x: K.sum(x, axis=-1), Rows(0)),
    "mean over all but rows": (lambda x: K.mean(x, axis=[1, 2], keepdims=True), Rows(0)),
    "flatten": (lambda x: K.batch_flatten(x), Rows(0)),
    "transposed": (lambda x: K.permute_dimensions(x, (2, 1, 0)), Rows(2)),
    "rows of rows": (lambda x: K.reshape(x, (-1, 4)), Rows(0, 3)),
    "there and back": (_distributed, Rows(0)),
    "by the shape": (lambda x: K.reshape(x, (K.shape(x)[0], -1)), Rows(0)),
    "by the whole shape": (lambda x: K.reshape(x + 1.0, K.shape(x)), Rows(0)),
    "recurrence": (_lstm, Rows(0)),
    "masked": (lambda x: K.switch(K.any(x > 0, axis=-1, keepdims=True), x, -x), Rows(0)),
    "one map for each row": (lambda x: K.map_fn(lambda a: a / K.sum(a), x), Rows(0)),
    "zeros by the shape": (lambda x: x + K.zeros((K.shape(x)[0], 1, 1)), Rows(0)),
    "one hot": (lambda x: K.one_hot(K.argmax(x), 4), Rows(0)),
    "embedded": (lambda x: K.gather(K.variable(np.ones((4, 2))), K.argmax(x)), Rows(0)),
    "of each its norm": (lambda x: K.l2_normalize(x, axis=-1), Rows(0)),
    "products in pairs": (lambda x: K.batch_dot(x, x, axes=(2, 2)), Rows(0)),
    "saliency": (lambda x: K.gradients(K.sum(K.square(x)), [x])[0], Rows(0)),
    "parts joined": (lambda x: K.concatenate([x[:, :1], x[:, 1:] * 2.0], axis=1), Rows(0)),
    "stacked": (lambda x: K.stack([x, x], axis=0), Rows(1)),
    "reversed in time": (lambda x: K.reverse(x, 1), Rows(0)),
    "repeated": (lambda x: K.repeat_elements(x, 3, axis=0), Rows(0, 3)),
    "padded": (lambda x: K.temporal_padding(x, 1), Rows(0)),
    "pooled": (lambda x: K.pool2d(K.expand_dims(x), (2, 2)), Rows(0)),
    "convolved": (lambda x: K.conv1d(x, K.variable(np.ones((2, 4, 5)))), Rows(0)),
    "convolved back": (
        lambda x: K.conv2d_transpose(
            K.expand_dims(x), K.variable(np.ones((2, 2, 3, 1))), (K.shape(x)[0], 4, 5, 3)
        ),
        Rows(0),
    ),
}  # fmt: skip

MIXED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "mean": (lambda x: K.mean(x), "mean at test_rows.py"),
    "of the batch": (lambda x: K.mean(x, axis=0), "goes over the batch axis"),
    "centred": (lambda x: x - K.mean(x, axis=0), "goes over the batch axis"),
    "softmax over rows": (lambda x: K.softmax(x, axis=0), "goes over the batch axis"),
    "turned": (lambda x: K.reverse(x, 0), "goes over the batch axis"),
    "running": (lambda x: K.cumsum(x, axis=0), "goes over the batch axis"),
    "every other": (lambda x: x[::2], "takes some of the rows"),
    "first": (lambda x: x - x[0], "takes some of the rows"),
    "all pairs": (lambda x: K.dot(K.batch_flatten(x), K.transpose(K.batch_flatten(x))), "every"),
    "joined": (lambda x: K.concatenate([x, x], axis=0), "goes over the batch axis"),
    "regrouped": (lambda x: K.reshape(x, (-1, 24)), "joins rows"),
    "by number": (lambda x: x / K.cast(K.shape(x)[0], "float32"), "depends on the number of rows"),
    "by size": (lambda x: x * K.cast(K.size(x), "float32"), "depends on the number of rows"),
    "constant rows": (lambda x: x * K.constant(np.ones((6, 3, 4))), "along the batch axis"),
    "across": (lambda x: x[:, 0, :3] + K.transpose(x[:, 0, :3]), "to another axis of the other"),
    "folded": (lambda x: K.foldl(lambda a, b: a + b, x), "takes some of the rows"),
    "folded from zero": (
        lambda x: K.foldl(lambda a, b: a + b, x, initializer=K.zeros((3, 4))),
        "from one row to the next with a state",
    ),
    "mean slope": (lambda x: K.gradients(K.mean(K.square(x)), [x])[0], "depends on the number"),
    "slope of weights": (
        lambda x: K.gradients(K.sum(x * _W), [_W])[0],
        "goes over the batch axis",
    ),
    "in training": (
        lambda x: K.normalize_batch_in_training(x, None, None, [0])[0],
        "goes over the batch axis",
    ),
    "number of rows": (lambda x: K.shape(x), ""),
}
_W = K.variable(np.ones(4), name="w")


def batch(dtype: str = "float32") -> Any:
    return K.placeholder((None, 3, 4), dtype=dtype, name="x")


@pytest.mark.parametrize("name", CLAIMED)
def test_rows_that_are_known_to_be_apart(name: str) -> None:
    function, wanted = CLAIMED[name]
    x = batch()
    y = function(x)
    (state,) = states_of([y], [x])
    assert state == wanted
    arrays = [np.random.default_rng(3).normal(size=(6, 3, 4)).astype("float32")]
    assert check(K.function([x], [y]), [state], arrays, [0]) == 1


@pytest.mark.parametrize("name", MIXED)
def test_rows_that_are_not(name: str) -> None:
    function, words = MIXED[name]
    x = batch()
    (state,) = states_of([function(x)], [x])
    assert not isinstance(state, (Rows, Free))
    if isinstance(state, Mixed):
        from kbench.dask.rows.analysis import told

        assert words in f"{told(state.node)} {state.why}"


def test_what_depends_on_no_row() -> None:
    x = batch()
    assert states_of([_W * 2.0, K.zeros_like(_W) + K.shape(_W)[0]], [x]) == [FREE, FREE]


def test_the_learning_phase_decides_branches() -> None:
    x, flag = batch(), learning_phase()
    y = K.in_train_phase(x - K.mean(x, axis=0), x * 2.0)
    assert isinstance(states_of([y], [x])[0], Mixed)
    assert states_of([y], [x], {id(flag): False}) == [Rows(0)]
    assert isinstance(states_of([y], [x], {id(flag): True})[0], Mixed)
    noisy = K.in_train_phase(K.dropout(x, 0.5), x)
    assert all(one.op.pure for one in needed([noisy], {id(x)}, {id(flag): False}))
    assert not all(one.op.pure for one in needed([noisy], {id(x)}, {}))


def test_shapes_are_inferred_for_what_is_given() -> None:
    x = K.placeholder((None, None, 3))
    y = K.batch_flatten(x[:, 1:])
    (found,) = analyse([y], {id(x): Known(Spec((None, 5, 3), "float32"), Rows(0))}, {})
    assert found.spec.shape == (None, 12) and found.state == Rows(0)
    flat = K.reshape(x, (K.shape(x)[0], -1, 5))
    (found,) = analyse([flat], {id(x): Known(Spec((None, 10, 3), "float32"), Rows(0))}, {})
    assert found.spec.shape == (None, 6, 5) and found.state == Rows(0)
    with pytest.raises(ValueError) as caught:
        z = K.dot(x, K.variable(np.ones((3, 2))))
        analyse([z], {id(x): Known(Spec((None, 5, 4), "float32"), Rows(0))}, {})
    assert "dot: inner sizes differ: x float32[?, 5, 4] has 4" in str(caught.value)


# ------------------------------------------------------------------ programs


def _programs(seeds: range) -> int:
    """Every value of random programs, with each length of rows as the batch's; how many claims."""
    from programs.draw import draw, feeds
    from programs.operations import OPERATIONS

    claimed = 0
    for seed in seeds:
        program, _ = draw(seed)
        arrays = feeds(program, 0)
        for count in sorted({len(one) for one in arrays if one.ndim and len(one) > 1}):
            K.clear_session()
            chosen = [place for place, one in enumerate(arrays) if one.ndim and len(one) == count]
            leaves = [
                K.placeholder(
                    (None, *one.shape[1:]) if place in chosen else one.shape, dtype=program.dtype
                )
                for place, one in enumerate(arrays)
            ]
            values = list(leaves)
            for step in program.steps:
                operands = [values[n] for n in step.operands]
                try:
                    values.append(OPERATIONS[step.name].build(K, *operands, **step.attributes))
                except (ValueError, TypeError):
                    break  # needs a size that is known
            claimed += _checked_values(values[len(leaves) :], leaves, arrays, chosen, seed)
    return claimed


def _checked_values(
    values: list[Any], leaves: list[Any], arrays: list[np.ndarray], chosen: list[int], seed: int
) -> int:
    batched = [leaves[place] for place in chosen]
    found = [
        (one, state)
        for one, state in zip(values, states_of(values, batched), strict=True)
        if isinstance(state, Rows)
        and all(node.op.pure for node in needed([one], {id(leaf) for leaf in leaves}, {}))
    ]
    for one, state in found:
        step = K.function(leaves, [one])
        try:
            check(step, [state], arrays, chosen)
        except ShapeError:
            continue  # of a chunk, which is no silent wrong value
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {one!r}, {state}: {error}") from None
    return len(found)


def test_random_programs() -> None:
    assert _programs(range(20)) > 40


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 250))
def test_many_random_programs(first: int) -> None:
    assert _programs(range(first, first + 250)) > 500
