"""What a step of training by shards is made of, without a cluster: shards are threads here."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dask.array as da
import numpy as np
import pytest
from keras_loaded import OWN_WARNINGS, load

from kbench import backend as K
from kbench.dask.errors import ClusterError
from kbench.dask.training import array_rows, collective, parts, pieces, program, shard, step
from kbench.dask.training.break_even import BreakEven
from kbench.dask.training.interrupts import LostInterrupts
from kbench.engine.core.errors import ArgumentError
from kbench.engine.execute.function import Function

keras = load()
pytestmark = OWN_WARNINGS


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    np.random.seed(5)
    yield
    K.set_floatx("float32")
    K.clear_session()


# ------------------------------------------------------------------ sums in a fixed order


def _leaf(number: int, count: int) -> parts.Part:
    values = np.random.default_rng(number).normal(size=100).astype(np.float32)
    return parts.Part(count, {(0, number): [values, np.array(float(number))]})


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 13])
def test_a_sum_has_the_same_bits_whoever_adds_first(count: int) -> None:
    wanted = parts.merged([_leaf(number, count) for number in range(count)]).total
    assert wanted[1] == sum(range(count))
    order = np.random.default_rng(count)
    for _ in range(20):
        pool = [_leaf(number, count) for number in range(count)]
        while len(pool) > 1:
            first, second = (pool.pop(order.integers(len(pool))) for _ in range(2))
            pool.append(pickle.loads(pickle.dumps(parts.merged([first, second]))))
        found = parts.merged(pool).total
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_a_part_of_the_shards_has_no_total() -> None:
    with pytest.raises(KeyError):
        _ = parts.merged([_leaf(0, 3), _leaf(2, 3)]).total


@pytest.mark.parametrize(
    ("rows", "count", "cuts"),
    [(5, 2, [(0, 3), (3, 5)]), (3, 3, [(0, 1), (1, 2), (2, 3)]), (7, 1, [(0, 7)])],
)
def test_shards_are_cut_evenly(rows: int, count: int, cuts: list[tuple[int, int]]) -> None:
    assert step._cuts(rows, count) == cuts


def test_workers_get_neighbouring_shards() -> None:
    shards = [shard.Shard(number, 1, ()) for number in range(5)]
    shared = step._shared_out(shards, 3)
    assert [[one.number for one in own] for own in shared] == [[0], [1, 2], [3, 4]]
    assert step._shared_out(shards[:1], 2) == [[], shards[:1]]


# ------------------------------------------------------------------ rows in pieces


@pytest.mark.parametrize("sizes", [[12], [5, 7], [1, 0, 4, 0, 7], [1] * 12])
@pytest.mark.parametrize(
    "rows", [range(12), range(4, 9), range(0), [3, 0, 11, 3, 7], [11, 10, 9], [5]]
)
def test_pieces_come_together_as_the_rows_that_were_asked_for(
    sizes: list[int], rows: Sequence[int]
) -> None:
    array = np.arange(24).reshape(12, 2)
    firsts = np.cumsum([0, *sizes])
    found = pieces.cut(np.asarray(rows, np.int64), firsts)
    taken = []
    for piece in found:
        own = array[firsts[piece.chunk] : firsts[piece.chunk + 1]]
        taken.append(pieces.take(own, piece.rows, pieces.Chunk("x", piece.chunk, own.shape)))
    if len(rows):
        joined = pieces.joined(taken, [piece.places for piece in found])
        assert np.array_equal(joined, array[list(rows)])
    assert len({piece.chunk for piece in found}) == len(found)
    if isinstance(rows, range):
        assert all(isinstance(piece.rows, slice) for piece in found)


@pytest.mark.parametrize("key", [slice(2, None, 3), slice(None, None, -1), [3, 0, -1, 3], []])
def test_rows_are_picked_as_numpy_picks_them(key: Any) -> None:
    array = np.arange(12)
    held = array_rows.HeldArray("x", None, da.zeros((12, 2), chunks=5), np.array([0, 5, 10, 12]))
    rows = array_rows.ArrayRows.whole(held)[2:]
    assert np.array_equal(np.asarray(rows[key].rows), array[2:][key])
    assert np.array_equal(np.asarray(rows[::2][1:][key].rows), array[2::2][1:][key])
    assert rows[key].shape == (len(array[2:][key]), 2)
    with pytest.raises(IndexError, match="out of range for 10 rows"):
        rows[[10]]
    with pytest.raises(ArgumentError, match="taken by a slice or a list"):
        rows[3]  # type: ignore[index]


def test_a_chunk_that_is_not_what_was_promised_is_refused() -> None:
    chunk = pieces.Chunk("x", 3, (8, 2))
    for array in (np.zeros((7, 2)), np.ma.ones((8, 2)), 3):
        with pytest.raises(ClusterError, match=r"chunk 3 of x is .* shape \[8, 2\]"):
            pieces.take(array, slice(0, 2), chunk)


# ------------------------------------------------------------------ a program, by shards


class _Table:
    """The means of a team whose shards are threads of this process."""

    def __init__(self, count: int) -> None:
        self.values: dict[tuple[str, int], np.ndarray] = {}
        self.barrier = threading.Barrier(count, timeout=60)

    def exchanged(self, seat: collective.Seat, place: str, x: np.ndarray) -> np.ndarray:
        self.values[place, seat.shard] = x
        self.barrier.wait()
        own = {number: self.values[place, number] for number in range(len(seat.team.shares))}
        found = collective._weighted(own, seat.team.shares)
        self.barrier.wait()
        return found


def _by_shards(
    of: Function, arrays: Sequence[Any], sizes: Sequence[int], patch: pytest.MonkeyPatch
) -> list[list[np.ndarray]]:
    """What each shard of a batch gives."""
    rows = sum(sizes)
    shares = tuple(size / rows for size in sizes)
    patch.setattr(collective, "_exchanged", _Table(len(sizes)).exchanged)
    team = collective.Team("attempt", shares, "")
    results: dict[int, Any] = {}

    def run(number: int) -> None:
        start = sum(sizes[:number])
        own = [step._cut(array, start, start + sizes[number]) for array in arrays]
        function = Function(of.inputs, of.outputs, [], f"shard{number}")
        try:
            with collective.seated(collective.Seat(team, number)):
                results[number] = function([*own, np.float64(shares[number])])
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(sizes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found in results.values():
        if isinstance(found, BaseException):
            raise found
    return [results[number] for number in range(len(sizes))]


def _with_batch_norm(dtype: str) -> tuple[Any, list[Any]]:
    layers = keras.layers
    inputs = layers.Input((6, 6, 2))
    x = layers.Conv2D(3, 3)(inputs)
    x = layers.BatchNormalization()(x)
    other = layers.BatchNormalization(scale=False, momentum=0.5)(layers.Conv2D(3, 3)(inputs))
    x = layers.Activation("relu")(layers.add([x, other]))
    x = layers.BatchNormalization(axis=1, epsilon=0.1)(x)
    outputs = layers.BatchNormalization()(layers.Dense(2)(layers.Flatten()(x)))
    model = keras.models.Model(inputs, outputs)
    model.compile("sgd", "mse", metrics=["mae"])
    x = np.random.normal(size=(17, 6, 6, 2)).astype(dtype)
    return model, [x, np.random.normal(size=(17, 2)).astype(dtype), np.ones(17, dtype), 1]


@pytest.mark.parametrize(("dtype", "limit"), [("float32", 2e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("sizes", [(17,), (9, 8), (2, 5, 10)])
def test_batch_normalization_takes_the_moments_of_the_whole_batch(
    dtype: str, limit: float, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    K.set_floatx(dtype)
    model, arrays = _with_batch_norm(dtype)
    made, _ = program.build(model, "job", True)
    assert made.is_joint == 1
    assert made.states == 8
    slopes = K.gradients(model.total_loss, model._collected_trainable_weights)
    states = [update.inputs[1] for update in model.updates]
    whole = K.function([*made.train.inputs[:-1]], [model.total_loss, *slopes, *states])(arrays)
    results = _by_shards(made.train, arrays, sizes, monkeypatch)
    for place, wanted in enumerate(whole):
        found = sum(
            np.asarray(one[place], np.float64) * size / 17
            for one, size in zip(results, sizes, strict=True)
        )
        scale = max(1.0, float(np.abs(wanted).max()))
        assert np.abs(found - wanted).max() <= limit * scale


def test_local_statistics_are_those_of_the_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    model, arrays = _with_batch_norm("float32")
    made, _ = program.build(model, "job", False)
    assert not made.is_joint
    halves = _by_shards(made.train, arrays, (9, 8), monkeypatch)
    whole = _by_shards(made.train, arrays, (17,), monkeypatch)
    assert abs(halves[0][0] - whole[0][0]) > 1e-3


def test_a_mean_over_shards_is_made_by_fit_alone() -> None:
    x = K.placeholder((3,))
    with pytest.raises(ClusterError, match="made by kbench.dask.fit alone"):
        collective.all_mean(x)
    with collective.one_graph():
        y = collective.all_mean(x)
    with pytest.raises(ClusterError, match="has no shards here"):
        K.function([x], [y])([np.ones(3, "float32")])


def test_the_gradient_of_a_mean_over_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """By finite differences of the loss of the whole batch."""
    x, w = K.placeholder((None, 2), dtype="float64"), K.variable(np.ones(2), dtype="float64")
    share = K.placeholder((), dtype="float64")
    with collective.one_graph():
        centre = collective.all_mean(K.mean(K.exp(x * w), axis=0))
        spread = collective.all_mean(K.mean(K.square(x * w - centre), axis=0))
        loss = K.mean(K.sum(K.square(x) * centre / (1.0 + spread), axis=1))
        slope = K.gradients(loss, [w])[0]
    function = K.function([x, share], [loss, slope])
    values, sizes = np.random.normal(size=(7, 2)), (4, 3)

    def total(place: int) -> Any:
        found = _by_shards(function, [values], sizes, monkeypatch)
        return sum(
            np.asarray(one[place]) * size / 7 for one, size in zip(found, sizes, strict=True)
        )

    slopes = total(1)
    for entry in range(2):
        around = []
        for change in (1e-6, -1e-6):
            moved = np.ones(2)
            moved[entry] += change
            K.set_value(w, moved)
            around.append(total(0))
        K.set_value(w, np.ones(2))
        assert slopes[entry] == pytest.approx((around[0] - around[1]) / 2e-6, rel=1e-6)


def test_random_numbers_follow_from_step_and_shard() -> None:
    x = K.placeholder((None, 3))
    made = program.Program(
        "job",
        K.function([x, K.placeholder((), dtype="float64")], [K.sum(x), K.dropout(x, 0.5, seed=3)]),
        K.function([], [K.constant(0.0)]),
        (),
        (),
        1,
        0,
        False,
        False,
    )
    rows = np.ones((500, 3), np.float32)

    def drawn(number: int, at: int) -> np.ndarray:
        order = shard.Order(collective.Team("a", (0.5, 0.5), ""), at)
        return shard._sums(made, made.train, order, shard.Shard(number, 500, (rows,)), None)[1]

    first = drawn(0, 4)
    assert np.array_equal(first, drawn(0, 4))
    assert not np.array_equal(first, drawn(1, 4))
    assert not np.array_equal(first, drawn(0, 5))
    assert 0.4 < np.mean(first == 0) < 0.6


# ------------------------------------------------------------------ what cannot be put together


class _Largest(keras.metrics.Metric):  # type: ignore[misc, name-defined]
    """A metric whose state is no sum."""

    def __init__(self) -> None:
        super().__init__(name="largest")
        self.most = self.add_weight("most", initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> list[Any]:
        return [K.update(self.most, K.maximum(self.most, K.max(y_pred)))]

    def result(self) -> Any:
        return self.most


class _Silent(keras.optimizers.Optimizer):  # type: ignore[misc, name-defined]
    """An optimizer that asks for no gradients."""

    def get_updates(self, loss: Any, params: list[Any]) -> list[Any]:
        return [K.update(weight, weight * 0.5) for weight in params]


def _dense(**compiled: Any) -> Any:
    model = keras.models.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.compile(**{"optimizer": "sgd", "loss": "mse", **compiled})
    return model


def _stateful() -> Any:
    model = keras.models.Sequential(
        [keras.layers.LSTM(2, stateful=True, batch_input_shape=(4, 3, 2))]
    )
    model.compile("sgd", "mse")
    return model


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: _dense(loss=keras.losses.MeanSquaredError(reduction="sum")), "is a sum over the"),
    (lambda: _dense(metrics=[_Largest()]), "'most' does not add to it"),
    (lambda: _dense(optimizer=_Silent()), "does not ask for the gradients"),
    (_stateful, "the model is stateful"),
]


@pytest.mark.parametrize(("make", "words"), WRONG)
def test_what_cannot_be_put_together_is_refused(make: Callable[[], Any], words: str) -> None:
    model = make()
    with pytest.raises(ArgumentError, match=words):
        program.build(model, "job", True)


def test_the_optimizer_keeps_its_state() -> None:
    model = _dense(optimizer="adam")
    x, y = np.ones((4, 2)), np.ones((4, 1))
    model.fit(x, y, epochs=3, verbose=0)
    before = model.optimizer.get_weights()
    program.build(model, "job", True)
    after = model.optimizer.get_weights()
    assert int(after[0]) == 3
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


# ------------------------------------------------------------------ when it pays


def test_the_faster_way_is_told() -> None:
    slow = BreakEven()
    for _ in range(12):
        slow.note([parts.Work("a", 1, 10, 1.0, 100, 100)] * 4, [64] * 4)
        slow.add(1.01)
    assert "times as fast as one machine" in slow.sentence()
    assert "with 4 workers" in slow.sentence()
    with_one_thread = BreakEven()
    for _ in range(12):
        with_one_thread.note([parts.Work("a", 1, 10, 1e-4, 100, 100)], [1])
        with_one_thread.add(0.02)
    assert with_one_thread.sentence().startswith("one machine is faster")
    assert BreakEven().sentence() == ""


# ------------------------------------------------------------------ interrupts


class Raising:
    """Raises where Python can only print it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __del__(self) -> None:
        raise self.error


def test_what_python_cannot_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda it: told.append(it.exc_value))
    before = sys.unraisablehook
    with LostInterrupts() as interrupts:
        interrupts.check()
        Raising(ValueError("another"))
        interrupts.check()
        Raising(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.check()
    assert [type(one) for one in told] == [ValueError]
    assert sys.unraisablehook is before
    with pytest.raises(KeyboardInterrupt), LostInterrupts():
        Raising(KeyboardInterrupt())
    with pytest.raises(ValueError, match="first"), LostInterrupts():
        Raising(KeyboardInterrupt())
        raise ValueError("first")
    assert sys.unraisablehook is before
