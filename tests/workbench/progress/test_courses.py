"""Losses are kept call by call in bounded memory, without an evaluation of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine.runtime import profile
from kbench.workbench.progress.course import MAX_POINTS, Curve
from kbench.workbench.progress.courses import MAX_COURSES, MIN_CALLS, Courses


@pytest.mark.parametrize("count", [0, 1, 2, 2 * MAX_POINTS - 1, 2 * MAX_POINTS, 10_007])
def test_a_curve_is_bounded_and_its_ends_are_exact(count: int) -> None:
    curve = Curve()
    for value in range(count):
        curve.add(float(value))
    points = curve.points()
    assert len(points) == min(count, len(points)) <= 2 * MAX_POINTS + 1
    assert curve.count == count
    if count:
        assert (curve.first, curve.last) == (0.0, count - 1.0)
        assert points[-1] == (float(count), count - 1.0)
    # a point stands in the middle of what it is the mean of, so a line stays a line
    assert all(math.isclose(value, at - 1.0) for at, value in points)
    assert points[:1] == ([(1.0, 0.0)] if count else [])


def test_what_is_not_finite_stays_where_it_was() -> None:
    curve = Curve()
    for value in [1.0] * 1000 + [math.nan] + [2.0] * 1000:
        curve.add(value)
    bad = [at for at, value in curve.points() if math.isnan(value)]
    assert len(bad) == 1 and abs(bad[0] - 1001) <= curve.stride


@pytest.fixture
def losses() -> Iterator[Courses]:
    made = Courses()
    leave = made.listen()
    yield made
    leave()
    assert not profile.call_ended
    K.clear_session()


def test_each_training_function_has_its_curve(losses: Courses) -> None:
    x = K.placeholder((None, 2), name="x")
    w = K.variable(np.ones((2, 1)), name="w")
    loss = K.mean(K.square(K.dot(x, w)))
    train = K.function([x], [x, loss], [(w, w * 0.5)], name="train")
    look = K.function([x], [loss], name="look")
    shapeless = K.function([x], [x], [(w, w * 1.0)], name="no loss")
    said = []
    for _ in range(3):
        said.append(float(train([np.ones((4, 2))])[1]))
        look([np.ones((4, 2))])
        shapeless([np.ones((4, 2))])
    (found,) = losses.shown()
    assert found.tensor is not None
    assert (found.source, found.unit, found.tensor()) == ("train", "call", loss)
    assert [value for _, value in found.curve.points()] == said == [4.0, 1.0, 0.25]
    losses.cell_started()
    assert losses.shown() == [found] and losses.of_this_cell() == []  # until this one trains
    train([np.ones((4, 2))])
    assert [one.curve.count for one in losses.shown()] == [1]
    assert losses.of_this_cell() == losses.shown()


def test_there_are_few_at_most(losses: Courses) -> None:
    w = K.variable(1.0, name="w")
    many = [K.function([], [w * 2.0], [(w, w * 0.5)]) for _ in range(MAX_COURSES + 2)]
    for function in many:
        function([])
    assert len(losses.shown()) == MAX_COURSES


def test_what_is_told_has_the_names_of_the_user(losses: Courses) -> None:
    w = K.variable(8.0, name="w")
    loss, other = K.square(w), K.abs(w)
    train = K.function([], [loss], [(w, w * 0.5)], name="train")
    losses.cell_started()
    for _ in range(MIN_CALLS - 1):
        train([])
    assert losses.told(lambda tensor: None) is None  # so few are numbers
    train([])
    told = losses.told(lambda tensor: "mse" if tensor is loss else None)
    assert told is not None and (told["unit"], told["source"]) == ("call", "train")
    ((name, values),) = told["series"]
    assert name == "mse" and values[:2] == [64.0, 16.0] and told["count"] == MIN_CALLS
    second = K.function([], [other / 0.0], [(w, w * 0.5)], name="second")
    for _ in range(MIN_CALLS):
        second([])
    told = losses.told(lambda tensor: None)
    assert told is not None
    assert [name for name, _ in told["series"]] == ["loss of train", "loss of second"]
    assert told["series"][1][1] == [None] * MIN_CALLS  # infinite
    losses.cell_ended()


def test_an_output_that_is_one_number_only_at_first_is_passed_over(losses: Courses) -> None:
    x, w = K.placeholder((None,), name="x"), K.variable(1.0, name="w")
    train = K.function([x], [x * 1.0], [(w, w * 0.5)], name="train")
    for size in (1, 3, 0, 1):
        train([np.full(size, 2.0)])
    assert [one.curve.count for one in losses.shown()] == [2]


def test_leaving_twice_leaves_once() -> None:
    made = Courses()
    leave, other = made.listen(), made.listen()
    leave()
    leave()
    assert profile.call_ended
    other()
    assert not profile.call_ended
