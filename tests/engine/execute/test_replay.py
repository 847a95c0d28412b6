"""Captured launches of a plan: the same values as without, and when they may be used."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sampling import every

from kbench import backend as K
from kbench.engine.codegen import join_kernels
from kbench.engine.codegen.join_kernels import Joined, joined
from kbench.engine.core import cancel
from kbench.engine.core.errors import KbenchError
from kbench.engine.execute import executable, replay
from kbench.engine.jit.launch import LaunchGraph
from kbench.engine.jit.service import service

Arrays = list[np.ndarray]
ROWS = 24


class Model:
    """Placeholders, outputs and updates over variables, the same in each that is built."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(7)
        self.feeds: list[Any] = []
        self.variables: list[Any] = []
        self.outputs: list[Any] = []
        self.updates: list[Any] = []
        self.dtype = "float32"

    def feed(self, *shape: int, dtype: str | None = None) -> Any:
        self.feeds.append(K.placeholder(shape, dtype=dtype or self.dtype))
        return self.feeds[-1]

    def weight(self, *shape: int) -> Any:
        self.variables.append(K.variable(self.random.normal(0, 0.3, shape), dtype=self.dtype))
        return self.variables[-1]

    def train(self, loss: Any) -> None:
        """Momentum, and a count of the steps that the rate depends on."""
        self.outputs.insert(0, loss)
        weights = list(self.variables)
        count = K.variable(0, dtype="int64")
        rate = 0.05 / K.sqrt(K.cast(count, self.dtype) + 1.0)
        self.updates.append(K.update_add(count, 1))
        for one, slope in zip(weights, K.gradients(loss, weights), strict=True):
            speed = K.zeros(one.shape, dtype=self.dtype)
            now = 0.9 * speed - rate * slope
            self.updates += [K.update(speed, now), K.update(one, one + now)]
            self.variables.append(speed)
        self.variables.append(count)


def layers(model: Model) -> None:
    x, y = model.feed(ROWS, 20), model.feed(ROWS, 5)
    h = K.relu(K.bias_add(K.dot(x, model.weight(20, 33)), model.weight(33)))
    h = K.tanh(K.dot(h, model.weight(33, 17)) + model.weight(17))
    given = K.softmax(K.dot(h, model.weight(17, 5)) + model.weight(5))
    model.train(K.mean(K.categorical_crossentropy(K.softmax(y), given)))


def layers_of_float64(model: Model) -> None:
    model.dtype = "float64"
    layers(model)


def views(model: Model) -> None:
    x, w = model.feed(ROWS, 12), model.weight(12, 12)
    turned = K.dot(K.transpose(x), K.reshape(x * 2.0, (ROWS, 12)))
    both = K.dot(turned, K.transpose(w)) + K.reverse(w, 0)
    model.outputs += [K.reshape(both, (3, 48)), K.transpose(w), x, both[1:3], K.sum(both, 0)]
    model.train(K.mean(K.square(both)))


def large_results(model: Model) -> None:
    x = model.feed(ROWS, 40)
    h = K.tanh(K.dot(x, model.weight(40, 30)))
    g = K.softmax(K.dot(h, model.weight(30, 20)) * 2.0)
    wide = K.dot(g, model.weight(20, 1000))
    model.outputs += [wide, K.exp(wide), K.sum(g, 0), K.max(h, 1), K.dot(g, model.weight(20, 3))]


def random_numbers(model: Model) -> None:
    x = model.feed(ROWS, 16)
    h = K.dropout(K.dot(x, model.weight(16, 16)), 0.4, seed=3)
    h = K.relu(K.dot(h, model.weight(16, 16)) + 0.1)
    model.train(K.mean(K.square(K.dot(h, model.weight(16, 4)))))


def branches(model: Model) -> None:
    x, way = model.feed(ROWS, 16), model.feed()
    h = K.dot(x, model.weight(16, 16))
    chosen = K.switch(way > 0, lambda: K.tanh(h), lambda: K.exp(-K.square(h)))
    model.train(K.mean(K.square(K.dot(chosen, model.weight(16, 3)))))


def embedded(model: Model) -> None:
    places = model.feed(ROWS, 6, dtype="int32")
    rows = K.gather(model.weight(30, 8), places)
    flat = K.reshape(rows, (ROWS, 48))
    model.train(K.mean(K.square(K.relu(K.dot(flat, model.weight(48, 9)) - 0.2))))


def images(model: Model) -> None:
    x = model.feed(4, 12, 12, 3)
    h = K.relu(K.bias_add(K.conv2d(x, model.weight(3, 3, 3, 8), padding="same"), model.weight(8)))
    h = K.pool2d(h, (2, 2), (2, 2))
    flat = K.reshape(h, (4, 6 * 6 * 8))
    model.train(K.mean(K.square(K.dot(flat, model.weight(288, 4)) - 1.0)))


def convolved(model: Model) -> None:
    """By Winograd's form and by the direct one, with strides, without borders, channel by channel,
    and normalized over rows that are apart."""
    x = model.feed(2, 24, 24, 16)
    h = K.relu(K.conv2d(x, model.weight(3, 3, 16, 16), padding="same"))
    h, mean, variance = K.normalize_batch_in_training(
        h, model.weight(16), model.weight(16), [0, 1, 2]
    )
    h = K.conv2d(h, model.weight(3, 3, 16, 24), strides=(2, 2), padding="same")
    h = K.depthwise_conv2d(h, model.weight(3, 3, 24, 1), padding="same")
    h = K.depthwise_conv2d(K.relu(h), model.weight(3, 3, 24, 2))
    h = K.conv2d(h, model.weight(1, 1, 48, 16), strides=(2, 2))
    model.outputs += [mean, variance]
    model.train(K.mean(K.square(K.dot(K.mean(h, [1, 2]), model.weight(16, 4)) - 1.0)))


def convolved_float64(model: Model) -> None:
    model.dtype = "float64"
    convolved(model)


def sequences(model: Model) -> None:
    x = model.feed(3, 40, 20)
    h = K.relu(K.conv1d(x, model.weight(3, 20, 24), padding="causal", dilation_rate=2))
    model.train(K.mean(K.square(K.conv1d(h, model.weight(5, 24, 3), strides=2) - 1.0)))


def normalized(model: Model) -> None:
    x = model.feed(ROWS, 16)
    h = K.dot(x, model.weight(16, 10))
    gamma, beta = model.weight(10), model.weight(10)
    out, mean, _ = K.normalize_batch_in_training(h, gamma, beta, [0])
    model.outputs.append(mean)
    model.train(K.mean(K.square(K.dot(out, model.weight(10, 3)) - 0.5)))


def recurrent(model: Model) -> None:
    x, w, u = model.feed(4, 7, 6), model.weight(6, 8), model.weight(8, 8)

    def step(now: Any, states: Any) -> Any:
        out = K.tanh(K.dot(now, w) + K.dot(states[0], u))
        return out, [out]

    last = K.rnn(step, x, [K.zeros((4, 8))])[0]
    model.train(K.mean(K.square(K.relu(K.dot(last, model.weight(8, 5)) + 0.1))))


MODELS: list[Callable[[Model], None]] = [
    layers,
    layers_of_float64,
    views,
    large_results,
    random_numbers,
    branches,
    embedded,
    images,
    convolved,
    convolved_float64,
    sequences,
    normalized,
    recurrent,
]


@pytest.fixture(autouse=True)
def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    monkeypatch.setenv("KBENCH_LEAST", "1")
    monkeypatch.setattr(replay, "RUNS_BEFORE_CAPTURE", 1)
    monkeypatch.setattr(executable, "RUNS_BEFORE_KEEPING", 1)


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many steps were captured, for each run that repeated them."""
    found: list[int] = []
    plain = replay.Replay.run

    def run(self: Any, *rest: Any) -> None:
        found.append(self.captured)
        plain(self, *rest)

    monkeypatch.setattr(replay.Replay, "run", run)
    yield found


def built(make: Callable[[Model], None]) -> tuple[Model, Any]:
    model = Model()
    make(model)
    return model, K.function(model.feeds, model.outputs, updates=model.updates)


def batches(model: Model) -> list[Arrays]:
    """The same arrays several times, then others, of other places and layouts, then the first."""
    random = np.random.default_rng(1)

    def batch() -> Arrays:
        return [
            random.integers(0, 30, one.shape).astype("int32")
            if one.dtype == "int32"
            else np.asarray(random.normal(0, 1, one.shape), one.dtype)
            for one in model.feeds
        ]

    first, second = batch(), batch()
    moved = [[one.copy() for one in second], [one.copy("F") for one in first]]
    spaced = [np.repeat(one, 2, -1)[..., ::2] if one.ndim else one for one in second]
    return [*[first] * 5, *[second] * 4, *moved, batch(), batch(), spaced, *[first] * 3]


def values_of(make: Callable[[Model], None]) -> tuple[list[Any], list[Any]]:
    model, step = built(make)
    given = batches(model)
    results = [step(given[0])]
    assert service.wait_idle(120)  # nothing is captured while a compiler is at work
    results += [step(one) for one in given[1:]]
    return results, [K.get_value(one) for one in model.variables]


@pytest.mark.parametrize("make", every(len(MODELS), MODELS), ids=lambda make: make.__name__)
def test_values_are_those_of_the_steps_themselves(
    make: Callable[[Model], None], repeated: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, after = values_of(make)
    assert len(repeated) >= 8 and min(repeated) >= replay.MIN_CAPTURED_STEPS
    repeated.clear()
    monkeypatch.setattr(replay, "RUNS_BEFORE_CAPTURE", 1 << 40)
    wanted, ends = values_of(make)
    assert not repeated
    for one, other in zip([*found, after], [*wanted, ends], strict=True):
        for got, want in zip(one, other, strict=True):
            near = 1e-12 if got.dtype == np.float64 else 2e-5
            np.testing.assert_allclose(got, want, near, near * max(1.0, np.abs(want).max()))


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("where", ["input", "weights", "start"])
def test_convolutions_that_are_not_finite(
    where: str, value: float, repeated: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What calls cannot tell from their own products of infinity and zero, the steps do."""

    def strange(model: Model) -> None:
        x = model.feed(2, 24, 24, 16)
        kernel, last = model.weight(3, 3, 16, 16), model.weight(3, 3, 16, 5)
        h = K.conv2d(x, kernel, padding="same")
        model.outputs += [h, K.conv2d(K.relu(h), last, padding="same")]
        model.outputs += K.gradients(K.sum(model.outputs[-1]), [x, kernel, last])
        model.updates.append(K.update_add(K.variable(0.0), 1.0))

    def results() -> list[Any]:
        model, step = built(strange)
        feeds = [np.random.default_rng(1).normal(0, 1, (2, 24, 24, 16)).astype("float32")]
        if where == "start":
            feeds[0][1, 3, 4, 5] = value
        found = [step(feeds) for _ in range(6)]
        weights = K.get_value(model.variables[0])
        if where == "input":
            feeds[0][1, 3, 4, 5] = value
        elif where == "weights":
            K.set_value(model.variables[0], np.where(weights == weights.max(), value, weights))
        found += [step(feeds) for _ in range(6)]
        feeds[0][1, 3, 4, 5] = 0
        K.set_value(model.variables[0], weights)
        return found + [step(feeds) for _ in range(6)]

    found = results()
    assert len(repeated) >= 8
    monkeypatch.setattr(replay, "RUNS_BEFORE_CAPTURE", 1 << 40)
    for got, want in zip(found, results(), strict=True):
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))
            np.testing.assert_allclose(one, other, 2e-5, 2e-5)


def test_results_belong_to_the_caller(repeated: list[int]) -> None:
    model, step = built(large_results)
    first, second = batches(model)[0], batches(model)[5]
    kept = [step(first) for _ in range(6)]
    for one in kept[1:]:
        for got, want in zip(one, kept[0], strict=True):
            np.testing.assert_array_equal(got, want)
            assert got is not want
    for one in kept[-1]:
        one.fill(7)
    others = step(second)
    again = step(first)
    for got, want, other in zip(again, kept[0], others, strict=True):
        np.testing.assert_array_equal(got, want)
        assert not np.array_equal(got, other)
    assert repeated


def test_variables_that_are_set_or_held_in_between(repeated: list[int]) -> None:
    model, step = built(layers)
    twin, plain = built(layers)
    feeds = batches(model)[0]
    held = []
    for number in range(40):
        if number in (10, 25):
            fresh = [K.get_value(one) * 0.5 for one in model.variables[:6]]
            K.batch_set_value(list(zip(model.variables, fresh, strict=False)))
            K.batch_set_value(list(zip(twin.variables, fresh, strict=False)))
        if number == 17:
            held = [(one.peek(), K.get_value(one)) for one in model.variables]
        loss = step(feeds)[0]
        with K.record():  # runs step by step
            want = plain(feeds)[0]
        np.testing.assert_allclose(loss, want, 2e-5)
    for window, before in held:
        np.testing.assert_array_equal(window, before)
    assert len(repeated) >= 20


def test_memory_of_variables_is_used_again(repeated: list[int]) -> None:
    model, step = built(layers)
    feeds = batches(model)[0]
    for _ in range(4):
        step(feeds)
    places = [one.peek().__array_interface__["data"][0] for one in model.variables[:6]]
    for _ in range(4):
        step(feeds)
    assert places == [one.peek().__array_interface__["data"][0] for one in model.variables[:6]]
    assert len(repeated) >= 4


def test_a_small_variable_that_moves_in_each_step_is_copied(repeated: list[int]) -> None:
    """A counter of steps: what reads it is captured, and nothing is captured anew."""
    random = np.random.default_rng(3)
    x = K.placeholder((64, 300))
    count, rate = K.variable(0.0), K.variable(np.ones(300, "float32"))
    weights = [K.variable(random.normal(0, 0.1, (300, 300))) for _ in range(3)]
    plain = [K.get_value(one).astype("float64") for one in weights]
    scale = K.pow(K.constant(0.9), count)
    value = x
    for one in weights:
        value = K.tanh(K.dot(value, one) * rate) * scale
    step = K.function([x], [K.sum(value)], updates=[K.update_add(count, 1.0)])
    array = random.normal(size=(64, 300)).astype("float32")
    step([array])
    assert service.wait_idle(120)
    before, runs = 0, 40
    for number in range(1, runs):
        K.set_value(rate, np.full(300, 1 + 0.1 * (number % 3), "float32"))
        (got,) = step([array])
        want = array.astype("float64")
        for one in plain:
            want = np.tanh(want @ one * (1 + 0.1 * (number % 3))) * 0.9**number
        np.testing.assert_allclose(got, want.sum(), rtol=1e-4, atol=1e-3)
        before = len(repeated) if number == 20 else before
    assert len(repeated) - before >= runs - 1 - 20


def test_a_setting_that_changes_in_between(repeated: list[int]) -> None:
    model, step = built(layers)
    twin, plain = built(layers)
    feeds = batches(model)[0]
    for count in [2] * 4 + [1] * 6 + [2] * 8:
        K.set_num_threads(count)
        loss = step(feeds)[0]
        with K.record():
            np.testing.assert_allclose(loss, plain(feeds)[0], 2e-5)
    # All but the first run, the one that wrote calls down, and after a change 2 or 4 before that.
    assert len(repeated) == 2 + 3 + 3


def test_a_run_that_is_recorded_tells_of_every_step(repeated: list[int]) -> None:
    model, step = built(layers)
    feeds = batches(model)[0]
    with K.record() as first:
        step(feeds)
    for _ in range(5):
        step(feeds)
    with K.record() as later:
        step(feeds)
    assert repeated
    assert [one.label for one in later[0].steps] == [one.label for one in first[0].steps]


def test_an_error_in_between_leaves_all_as_it_was(repeated: list[int]) -> None:
    model, step = built(embedded)
    feeds = batches(model)[0]
    wrong = [np.full_like(feeds[0], 30)]
    for _ in range(5):
        step(feeds)
    before = [K.get_value(one) for one in model.variables]
    with pytest.raises(KbenchError, match=r"gather.*30"):
        step(wrong)
    for one, want in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(K.get_value(one), want)
    again = step(feeds)[0]
    assert repeated and np.isfinite(again)


def test_an_interrupt_between_calls_leaves_all_as_it_was(
    repeated: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, step = built(random_numbers)
    feeds = batches(model)[0]
    for _ in range(5):
        step(feeds)
    before = [K.get_value(one) for one in model.variables]
    plain = LaunchGraph.run

    def interrupted(self: LaunchGraph) -> None:
        plain(self)
        cancel.request()

    with monkeypatch.context() as here:
        here.setattr(LaunchGraph, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(feeds)
    for one, want in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(K.get_value(one), want)
    assert repeated and np.isfinite(step(feeds)[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 2, 7, 20])
@pytest.mark.parametrize("width", [0, 1, 17, 1000])
def test_parts_are_joined_by_halves(dtype: str, count: int, width: int) -> None:
    random = np.random.default_rng(count)
    parts = random.normal(0, 1, (count, width)) * 10.0 ** random.integers(-9, 9, (count, width))
    for divisor in (1, 3):
        out = np.full(width, 7, dtype)
        call = Joined(out, parts, divisor).launch()
        assert call is not None
        LaunchGraph([call, call]).run()
        wanted = joined(parts) / divisor
        np.testing.assert_array_equal(out, wanted.astype(dtype))
        np.testing.assert_allclose(wanted, parts.sum(0) / divisor, 1e-9)


@pytest.mark.parametrize("count", [1, 2, 7, 20])
@pytest.mark.parametrize("width", [0, 1, 17, 1000])
def test_parts_of_the_result_s_dtype_are_rounded_at_each_step(count: int, width: int) -> None:
    parts = np.random.default_rng(count).normal(0, 1, (count, width)).astype("float32")
    out = np.full(width, 7, "float32")
    call = Joined(out, parts).launch()
    assert call is not None
    LaunchGraph([call]).run()
    np.testing.assert_array_equal(out, joined(parts))
    np.testing.assert_allclose(out, parts.sum(0), 1e-4, 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("counts", [[5], [4, 4, 1], [3] * 20])
def test_a_variance_of_parts_is_that_of_all(dtype: str, counts: list[int]) -> None:
    whole = np.random.default_rng(3).normal(1e3, 1, (sum(counts), 9))
    parts = np.split(whole, np.cumsum(counts)[:-1])
    means = np.array([one.mean(0) for one in parts])
    squares = np.array([np.square(one - one.mean(0)).sum(0) for one in parts])
    out, write = np.empty(9, dtype), join_kernels.find("variance", dtype)
    assert write is not None
    LaunchGraph([write(out, means, squares, np.array(counts, float))]).run()
    np.testing.assert_allclose(out, whole.var(0), 1e-6 if dtype == "float32" else 1e-10)
    for wrong in (squares[:, :8], np.ascontiguousarray(squares[:, :8]), squares.astype("float32")):
        with pytest.raises(ValueError, match="cannot be joined"):
            write(out, means, wrong, np.array(counts, float))
    with pytest.raises(ValueError, match="cannot be joined"):
        write(out, means, squares, np.ones(len(counts) + 1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_is_repeated(dtype: str) -> None:
    row, out, write = (
        np.arange(7, dtype=dtype),
        np.empty(21, dtype),
        join_kernels.find("repeat", dtype),
    )
    assert write is not None
    LaunchGraph([write(out, row)]).run()
    np.testing.assert_array_equal(out, np.tile(row, 3))
    assert (
        join_kernels.find("repeat", "int32") is None and join_kernels.find("other", dtype) is None
    )
    for wrong in (row[:0], row[::2], row.astype("int32")):
        with pytest.raises(ValueError, match="cannot be joined"):
            write(out, wrong)


def test_parts_that_cannot_be_joined() -> None:
    parts = np.zeros((3, 8))
    locked = np.zeros(8)
    locked.flags.writeable = False
    for out in (np.zeros(7), np.zeros(16)[::2], locked):
        with pytest.raises(ValueError, match=r"float64\[3, 8\] cannot be joined to float64"):
            Joined(out, parts).launch()
    for one in (np.zeros((0, 8)), parts[:, ::2]):
        with pytest.raises(ValueError, match="cannot be joined"):
            Joined(np.zeros(4), one).launch()
    assert Joined(np.zeros(8, "float16"), parts).launch() is None
    assert Joined(np.zeros(8), parts.astype("float32")).launch() is None
