"""Work that leaves a loop: what is left inside, and the same values and gradients as before."""

from collections import Counter

import numpy as np
import pytest

import kbench as K
from kbench.engine.compiler.loop_dce import eliminate_dead_loops
from kbench.engine.compiler.loop_fission import split_loops
from kbench.engine.control_flow.loop_op import LOOP
from kbench.engine.execute import plan
from kbench.engine.graph.traverse import walk

WITHOUT = tuple(one for one in plan.PASSES if one is not split_loops)


def weights(*shape):
    values = np.random.default_rng(sum(shape)).standard_normal(shape) / 2
    return K.variable(values, dtype="float64")


def simple(entry, states):
    after = K.tanh(K.dot(entry, W) + B + K.dot(states[0], U))
    return after, [after]


def projected(entry, states):
    after = K.tanh(K.dot(entry, W) + K.dot(states[0], U))
    return K.softmax(K.dot(after, V) + C), [after]


def stateless(entry, states):
    return K.relu(K.dot(entry, W)) * K.sum(entry, axis=-1, keepdims=True), []


def attending(entry, states):
    scores = K.dot(entry, W) * states[0]
    return K.sum(scores, axis=-1, keepdims=True), [states[0] + K.mean(scores, axis=0)]


def shaped(entry, states):
    wide = K.expand_dims(K.dot(entry, W), 1)
    both = K.concatenate([wide, wide * 2.0], axis=1)
    flat = K.reshape(K.permute_dimensions(both, (0, 2, 1)), (-1, 8))
    return K.tanh(flat[:, ::2]) + states[0], [states[0] * 0.5]


W, U, V, B, C = weights(3, 4), weights(4, 4), weights(4, 2), weights(4), weights(2)
STEPS = [  # step, states, products left inside of the loop, forwards and backwards
    (simple, 1, 2),
    (projected, 1, 2),
    (stateless, 0, 0),
    (attending, 1, 0),
    (shaped, 1, 0),
]


def products_inside(roots, stop):
    planned = eliminate_dead_loops(split_loops(eliminate_dead_loops(roots, stop), stop), stop)
    counts = Counter()
    for node in walk(planned, stop):
        if node.op is LOOP:
            body = node.attrs["body"]
            inner = [*body.after, *(one.tensor for one in node.attrs["emits"])]
            fed = {id(one) for one in body.feeds}
            valued = [one for one in walk(inner, fed) if id(one) not in fed]
            read = {id(root) for root in inner}
            for one in reversed(valued):
                if id(one) in read:
                    places = enumerate(one.inputs)
                    read |= {id(i) for place, i in places if place not in one.op.shapes}
            counts.update(one.op.name for one in valued if id(one) in read)
    return counts["dot"]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("step, states, inside", STEPS, ids=[one[0].__name__ for one in STEPS])
def test_the_same_values_and_gradients(step, states, inside, known, masked, backwards, monkeypatch):
    x = K.placeholder((5, 6, 3) if known else (None, None, 3), dtype="float64")
    mask = K.placeholder((5, 6) if known else (None, None), dtype="float64")
    first = [K.zeros_like(x[:, 0, :1]) + K.zeros((4,), dtype="float64")] * states
    last, outputs, after = K.rnn(
        step, x, first, mask=mask if masked else None, go_backwards=backwards
    )
    loss = K.sum(K.square(outputs)) + sum(K.sum(one) for one in after)
    if masked:
        loss = loss + K.sum(last)
    gradients = [one for one in K.gradients(loss, [x, W, U, V, B, C]) if one is not None]
    roots = [outputs, *after, loss, *gradients]
    random = np.random.default_rng(3)
    values = [random.standard_normal((5, 6, 3)), random.random((5, 6)) < 0.7]
    found = K.function([x, mask], roots)(values)
    if known and not masked:
        assert products_inside(roots, {id(x)}) == inside
    monkeypatch.setattr(plan, "PASSES", WITHOUT)
    expected = K.function([x, mask], roots)(values)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("steps", [0, 1])
def test_few_steps(steps):
    x = K.placeholder((2, None, 3), dtype="float64")
    first = K.zeros((2, 4), dtype="float64")
    last, outputs, (after,) = K.rnn(simple, x, [first])
    gradient = K.gradients(K.sum(outputs), W)[0]
    run = K.function([x], [outputs, after, gradient])
    found = run([np.ones((2, steps, 3))])
    assert found[0].shape == (2, steps, 4)
    assert np.any(found[2]) == (steps > 0)


def test_a_map_leaves_no_loop():
    x = K.placeholder((None, 7, 4))
    rows = K.map_fn(lambda row: row / K.sqrt(K.sum(K.square(row), -1, keepdims=True)), x)
    (planned,) = split_loops([rows], {id(x)})
    assert not any(node.op is LOOP for node in walk([planned], {id(x)}))
    value = np.random.default_rng(1).random((3, 7, 4), np.float32)
    expected = value / np.sqrt(np.sum(value**2, -1, keepdims=True))
    np.testing.assert_allclose(K.function([x], [rows])([value])[0], expected, rtol=1e-5)


def test_random_numbers_stay_within_the_step():
    rows = K.map_fn(lambda row: K.random_uniform((3,)) + row, K.zeros((4, 3)))
    value = K.eval(rows)
    assert len({tuple(row) for row in value.tolist()}) == 4
