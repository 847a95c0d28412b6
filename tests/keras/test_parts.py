"""Every optimizer, loss and metric of Keras 2.3.1 on kbench, against NumPy."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import numpy as np
import part_table_losses
import part_table_metrics
import part_table_optimizers
import pytest
from keras import backend as K
from keras import (
    constraints,
    initializers,
    layers,
    losses,
    metrics,
    models,
    optimizers,
    regularizers,
)
from part_table_metrics import ABSTRACT, NAMES, OF_VALUES, joined
from part_table_weights import CONSTRAINTS, INITIALIZERS, REGULARIZERS

from kbench.backend import ShapeError

RNG = np.random.default_rng


def public(module: ModuleType, base: type) -> set[str]:
    """Names of the classes of a module, without those that others derive from."""
    return {
        one.__name__
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, base) and not inspect.isabstract(one)
    }


def test_everything_has_a_row():
    rows = {
        optimizers.Optimizer: (
            optimizers,
            part_table_optimizers.ROWS,
            {"Optimizer", "TFOptimizer"},
        ),
        losses.Loss: (losses, part_table_losses.ROWS, {"LossFunctionWrapper"}),
        metrics.Metric: (metrics, part_table_metrics.ROWS, ABSTRACT | OF_VALUES),
        initializers.Initializer: (initializers, INITIALIZERS, {"Initializer"}),
        regularizers.Regularizer: (regularizers, REGULARIZERS, {"Regularizer"}),
        constraints.Constraint: (constraints, CONSTRAINTS, {"Constraint"}),
    }
    for base, (module, table, others) in rows.items():
        assert public(module, base) - others - {row.name for row in table} == set(), module
        assert len({str(row) for row in table}) == len(table)
    functions = {
        name
        for name, one in vars(losses).items()
        if inspect.isfunction(one) and list(inspect.signature(one).parameters)[:1] == ["y_true"]
    }
    tested = {row.function for row in part_table_losses.ROWS} | {part_table_losses.COSINE[0]}
    aliases = {name for name in functions if vars(losses)[name].__name__ != name}
    assert functions - aliases - tested == {"_maybe_convert_labels"}


# ------------------------------------------------------------------ optimizers

every_optimizer = pytest.mark.parametrize("row", part_table_optimizers.ROWS, ids=str)


@every_optimizer
def test_updates(row):
    """Six steps of a linear regression, every batch another one, against NumPy."""
    rng = RNG(3)
    x, y = rng.normal(size=(6, 8, 5)), rng.normal(size=(6, 8, 3))
    dense = layers.Dense(3)
    model = models.Sequential([dense])
    model.compile(row.make(), "mse")
    model.train_on_batch(x[0], y[0])  # builds it
    start = [rng.normal(size=one.shape) for one in dense.get_weights()]
    dense.set_weights(start)
    model.optimizer.set_weights([fresh(one) for one in model.optimizer.weights])

    def gradients(parameters: list[np.ndarray], t: int) -> list[np.ndarray]:
        kernel, bias = parameters
        error = (x[t - 1] @ kernel + bias - y[t - 1]) * 2 / y[t - 1].size
        return [x[t - 1].T @ error, error.sum(0)]

    for count in range(1, 7):
        model.train_on_batch(x[count - 1], y[count - 1])
        wanted = row.after(start, gradients, count)
        for found, one in zip(dense.get_weights(), wanted, strict=True):
            np.testing.assert_allclose(found, one, rtol=2e-5, atol=2e-5)
    assert K.get_value(model.optimizer.iterations) == 6


def fresh(weight: Any) -> np.ndarray:
    """An optimizer's weight as it is before the first step."""
    return np.full(weight.shape, 1.0 if "m_schedule" in weight.name else 0.0)


@every_optimizer
def test_optimizer_configuration(row):
    made = row.make()
    twin = optimizers.deserialize(optimizers.serialize(made))
    assert type(twin) is type(made)
    assert twin.get_config() == made.get_config()
    for name, value in row.options.items():
        assert made.get_config()[name] == pytest.approx(value)
    assert type(optimizers.get(row.name.lower())) is type(made)
    K.set_value(made.lr, 0.25)  # the old name
    assert K.get_value(made.learning_rate) == 0.25


@every_optimizer
def test_loss_falls(row):
    rng = RNG(5)
    x = rng.normal(size=(32, 4))
    y = x @ rng.normal(size=(4, 2)) * 0.3
    model = models.Sequential(
        [layers.Dense(8, activation="tanh", input_shape=(4,)), layers.Dense(2)]
    )
    model.compile(row.make(), "mse")
    history = model.fit(x, y, 8, epochs=4, verbose=0).history["loss"]
    assert history[-1] < history[0]


def test_optimizer_refuses_what_has_no_gradient():
    x = layers.Input((3,))
    unused = models.Model(x, layers.Lambda(lambda one: K.round(one))(layers.Dense(2)(x)))
    unused.compile("sgd", "mse")
    with pytest.raises(ValueError, match="None.*gradient"):
        unused.train_on_batch(np.ones((1, 3)), np.ones((1, 2)))


def test_optimizer_weights_of_old_keras():
    """2.2.4 had no count of iterations at the head of the list."""
    weight = K.variable([1.0, 2.0])
    for made in (optimizers.RMSprop(), optimizers.Adagrad(), optimizers.Adadelta()):
        made.get_updates(K.sum(K.square(weight)), [weight])
        made.set_weights([np.full(2, 3.0) for _ in made.weights[1:]])
        np.testing.assert_array_equal(made.get_weights()[1], [3, 3])
        assert made.get_weights()[0] == 0


# ------------------------------------------------------------------ losses

every_loss = pytest.mark.parametrize("row", part_table_losses.ROWS, ids=str)


@every_loss
def test_loss_values(row):
    true, pred = row.pair()
    wanted = row.numpy(true, pred)
    place = K.placeholder(pred.shape)
    target = K.placeholder((None,) * true.ndim)
    each = getattr(losses, row.function)(target, place, **row.options)
    run = K.function([target, place], [each])
    np.testing.assert_allclose(run([true, pred])[0], wanted, rtol=1e-5, atol=1e-6)

    weights = RNG(1).uniform(0.2, 3, 6)
    spread = np.broadcast_to(weights.reshape(-1, *[1] * (wanted.ndim - 1)), wanted.shape)
    for reduction, value in {
        "sum_over_batch_size": (wanted * spread).mean(),
        "sum": (wanted * spread).sum(),
        "none": wanted * spread,
    }.items():
        loss = row.make(reduction=reduction)
        found = K.eval(loss(K.constant(true), K.constant(pred), sample_weight=weights))
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6)
    found = K.eval(row.make()(K.constant(true), K.constant(pred), sample_weight=2.0))
    assert found == pytest.approx(2 * wanted.mean(), rel=1e-5)


@every_loss
def test_loss_gradients(row):
    """In float64, against differences of NumPy's formula."""
    K.set_floatx("float64")
    true, pred = row.pair()
    place = K.placeholder(pred.shape)
    loss = row.make()(K.constant(true), place)
    found = K.function([place], K.gradients(loss, [place]))([pred])[0]
    softened = row.name in ("CategoricalCrossentropy", "SparseCategoricalCrossentropy")
    for index in np.ndindex(pred.shape):
        step = np.zeros_like(pred)
        step[index] = 1e-6
        ends = [moved(row, true, pred + way, softened) for way in (step, -step)]
        assert found[index] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-8)


def moved(row: Any, true: np.ndarray, pred: np.ndarray, softened: bool) -> float:
    """The loss; Keras makes predicted probabilities add up to one before it takes a logarithm."""
    if softened and not row.options.get("from_logits"):
        pred = pred / pred.sum(-1, keepdims=True)
    return row.numpy(true, pred).mean()


@every_loss
def test_loss_of_a_model(row):
    """Under its class and its function's name: reported as NumPy says, and configured anew."""
    true, pred = row.pair()
    weights = RNG(1).uniform(0.2, 3, 6)
    forms = [row.make()] if row.options else [row.make(), row.function]
    for form in forms:
        model = models.Sequential([layers.Activation("linear", input_shape=pred.shape[1:])])
        model.compile("sgd", form)
        wanted = row.numpy(true, pred)
        wanted = wanted.mean(tuple(range(1, wanted.ndim)))
        found = model.evaluate(pred, true, 6, verbose=0)
        assert found == pytest.approx(wanted.mean(), rel=1e-5)
        found = model.evaluate(pred, true, 6, verbose=0, sample_weight=weights)
        assert found == pytest.approx((wanted * weights).mean(), rel=1e-5)
    twin = type(row.make()).from_config(row.make().get_config())
    assert twin.get_config() == row.make().get_config()


def test_cosine_proximity():
    name, data, formula = part_table_losses.COSINE
    true, pred = data(RNG(2))
    found = K.eval(getattr(losses, name)(K.constant(true), K.constant(pred)))
    np.testing.assert_allclose(found, formula(true, pred), rtol=1e-5)


# ------------------------------------------------------------------ metrics

every_metric = pytest.mark.parametrize("row", part_table_metrics.ROWS, ids=str)


@every_metric
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_metric_over_batches(row, weighted):
    """By itself: state that grows with every batch, and is forgotten on request."""
    metric = row.make()
    batches = row.batches()
    weighted = weighted and row.weighted
    if not weighted:
        batches = [(true, pred, np.ones_like(one)) for true, pred, one in batches]
    target, place = (K.placeholder((None, *one.shape[1:])) for one in batches[0][:2])
    weight = K.placeholder((None,))
    value = metric(target, place, sample_weight=weight) if weighted else metric(target, place)
    assert value._is_metric and value._metric_obj is metric
    run = K.function([target, place, weight], [value], metric.updates)
    for _ in range(2):
        for count, batch in enumerate(batches, 1):
            found = run(list(batch))[0]
            wanted = row.numpy(*joined(batches[:count]))
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(K.eval(metric.result()), found)
        metric.reset_states()
        assert all((K.get_value(one) == 0).all() for one in metric.weights)


@every_metric
def test_metric_configuration(row):
    made = row.make()
    twin = type(made).from_config(made.get_config())
    assert twin.get_config() == made.get_config()
    assert {weight.shape for weight in twin.weights} == {weight.shape for weight in made.weights}
    assert len({weight.name for weight in made.weights}) == len(made.weights)


@pytest.mark.parametrize("row", [one for one in part_table_metrics.ROWS if one.compiled], ids=str)
def test_metric_of_a_model(row):
    """As `metrics=` and `weighted_metrics=`, over the batches of an epoch."""
    batches = row.batches()
    true, pred, weights = joined(batches)
    model = models.Sequential([layers.Activation("linear", input_shape=pred.shape[1:])])
    second = {"weighted_metrics": [row.make()]} if row.weighted else {}
    model.compile("sgd", lambda t, p: K.mean(p), metrics=[row.make()], **second)
    found = model.evaluate(pred, true, 6, verbose=0, sample_weight=weights)[1:]
    wanted = [row.numpy(true, pred, one) for one in (np.ones_like(weights), weights)]
    np.testing.assert_allclose(found, wanted[: len(found)], rtol=2e-5, atol=2e-6)
    again = model.evaluate(pred, true, 4, verbose=0, sample_weight=weights)[1:]
    np.testing.assert_allclose(again, found, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_metric_by_name(name):
    data, formula = NAMES[name]
    true, pred = (np.concatenate(parts) for parts in zip(data(RNG(1)), data(RNG(2)), strict=True))
    model = models.Sequential([layers.Activation("linear", input_shape=pred.shape[1:])])
    model.compile("sgd", lambda t, p: K.mean(p), metrics=[name])
    found = model.evaluate(pred, true, 4, verbose=0)[1]
    assert found == pytest.approx(formula(true, pred, np.ones(12)), rel=1e-5)


@pytest.mark.parametrize(
    ("loss", "data", "formula"),
    [
        ("binary_crossentropy", "chances", "binary_accuracy"),
        ("categorical_crossentropy", "many_classes", "categorical_accuracy"),
        ("sparse_categorical_crossentropy", "many_labels", "sparse_categorical_accuracy"),
    ],
)
@pytest.mark.parametrize("name", ["acc", "accuracy"])
def test_accuracy_follows_the_loss(name, loss, data, formula):
    true, pred = getattr(part_table_metrics, data)(RNG(4))
    model = models.Sequential([layers.Activation("linear", input_shape=pred.shape[1:])])
    model.compile("sgd", loss, metrics=[name])
    assert model.metrics_names == ["loss", name]
    found = model.evaluate(pred, true, verbose=0)[1]
    assert found == pytest.approx(NAMES[formula][1](true, pred, np.ones(6)))


def test_metrics_of_values():
    """Each update is an op of its own; the value is read when it is asked for."""
    for metric, wanted in (
        (metrics.Sum(), (16, 16 + 2 * 5)),
        (metrics.Mean(), (4, 26 / 6)),
        (metrics.MeanMetricWrapper(losses.mean_squared_error), None),
    ):
        assert all(K.get_value(one) == 0 for one in metric.weights)
        if wanted is None:
            K.get_session().run(metric.update_state([[1.0, 3.0]], [[2.0, 5.0]]))
            assert K.eval(metric.result()) == 2.5
            continue
        for update in metric.update_state([1, 3, 5, 7]):
            K.eval(update)
        assert K.eval(metric.result()) == wanted[0]
        for update in metric.update_state([5.0], sample_weight=[2.0]):
            K.eval(update)
        assert K.eval(metric.result()) == pytest.approx(wanted[1])


def test_metrics_by_themselves():
    """Called on values outside of any model: each evaluation counts them, and gives the result."""
    metric = metrics.MeanSquaredError()
    value = metric(K.constant([[1.0], [2.0]]), K.constant([[2.0], [4.0]]))
    assert K.eval(value) == 2.5
    other = metric(K.constant([[0.0]]), K.constant([[4.0]]))
    assert K.eval(other) == 7
    assert K.eval(metric.result()) == 7


def test_mean_iou_refuses_other_classes():
    metric = metrics.MeanIoU(3)
    assert metrics.MeanIoU.__module__ == "keras.metrics"
    with pytest.raises(ShapeError, match="index 3 is out of range for 3 rows"):
        K.get_session().run(metric.update_state(K.constant([0, 3]), K.constant([0, 1])))


@pytest.mark.parametrize(("count", "wanted"), [(1, 0), (2, 1 / 2), (3, 2 / 3), (9, 2 / 3)])
def test_best_of_an_unknown_number(count, wanted):
    metric = metrics.Precision(top_k=count)
    x = K.placeholder((None, None))
    value = metric(K.constant([[1.0, 0.0, 1.0]]), x)
    run = K.function([x], [value], metric.updates)
    assert run([[[0.1, 0.9, 0.4]]])[0] == pytest.approx(wanted)
