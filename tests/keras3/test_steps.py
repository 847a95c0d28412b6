"""The ways in which Keras 3 runs steps on kbench, and what `compile` says about them."""

import keras3_there  # noqa: F401  # isort: skip
import keras
import numpy as np
import pytest
from keras import layers

from kbench.api import operations
from kbench.keras3.gradients import gradients

DRAW = np.random.RandomState(11)
X = DRAW.randn(40, 5).astype("float32")
Y = DRAW.randn(40, 2).astype("float32")


def _model(**options):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((5,)), layers.Dense(4, "tanh"), layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1, 0.9), "mse", metrics=["mae"], **options)
    return model


def _losses(model, **options):
    history = model.fit(X, Y, batch_size=8, epochs=3, shuffle=False, verbose=0, **options)
    return history.history["loss"], model.get_weights()


@pytest.mark.parametrize(
    "options",
    [{"run_eagerly": True}, {"jit_compile": False}, {"jit_compile": True}],
    ids=str,
)
def test_the_ways_to_run_a_step_agree(options):
    losses, weights = _losses(_model())
    others, same = _losses(_model(**options))
    np.testing.assert_allclose(losses, others, rtol=1e-5)
    for one, other in zip(weights, same, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("eager", [False, True])
def test_losses_of_layers_count_in_a_step(eager):
    class Adding(layers.Layer):
        def call(self, x):
            self.add_loss(0.25 * keras.ops.mean(x))
            return x

    keras.utils.set_random_seed(3)
    dense = layers.Dense(2, activity_regularizer=keras.regularizers.L2(0.5))
    model = keras.Sequential([keras.Input((5,)), dense, Adding()])
    model.compile(keras.optimizers.SGD(0.01), "mse", run_eagerly=eager)
    y = model(X)
    wanted = np.mean((y - Y) ** 2) + 0.5 * np.sum(y**2) / len(X) + 0.25 * np.mean(y)
    np.testing.assert_allclose(model.train_on_batch(X, Y), wanted, rtol=1e-5)
    assert model.evaluate(X, Y, verbose=0) < wanted


def test_each_batch_is_measured_by_itself():
    model = _model()
    model.train_on_batch(X, Y)
    wanted = model.evaluate(X, Y, verbose=0)
    np.testing.assert_allclose(model.test_on_batch(X, Y), wanted, rtol=1e-5)
    np.testing.assert_allclose(model.train_on_batch(X, Y), wanted, rtol=1e-5)


def test_the_most_epochs_are_those_that_keras_is_told():
    keras.config.set_max_epochs(1)
    try:
        assert len(_losses(_model())[0]) == 1
    finally:
        keras.config.set_max_epochs(None)


def test_run_eagerly_shows_values_to_python():
    seen = []

    class Seeing(layers.Layer):
        def call(self, x):
            seen.append(float(keras.ops.sum(x)))
            return x if seen[-1] > -1e9 else -x

        def compute_output_spec(self, x):
            return keras.KerasTensor(x.shape, x.dtype)

    model = keras.Sequential([keras.Input((5,)), Seeing(), layers.Dense(2)])
    model.compile("sgd", "mse", run_eagerly=True)
    seen.clear()
    model.fit(X[:8], Y[:8], batch_size=4, shuffle=False, verbose=0)
    built, *steps = seen  # once on ones, before the first step
    assert built == 20
    np.testing.assert_allclose(steps, [X[:4].sum(), X[4:8].sum()], rtol=1e-4)


def test_a_value_that_python_asks_for_is_named_in_a_trace():
    class Asking(layers.Layer):
        def call(self, x):
            return x if keras.ops.sum(x) > 0 else -x

        def compute_output_shape(self, shape):
            return shape

        def compute_output_spec(self, x):
            return keras.KerasTensor(x.shape, x.dtype)

    model = keras.Sequential([keras.Input((5,)), Asking()])
    with pytest.raises(TypeError, match="run_eagerly=True shows it"):
        model.predict(X, verbose=0)


def test_jit_compile_false_runs_no_compiled_code(monkeypatch):
    asked = []
    before = operations.config.allow_kernels
    monkeypatch.setattr(
        operations.config, "allow_kernels", lambda wanted: asked.append(wanted) or before(wanted)
    )
    model = _model(jit_compile=False)
    model.train_on_batch(X, Y)
    assert asked[0] is False and len(asked) == 2
    _model().train_on_batch(X, Y)
    assert len(asked) == 2


def test_several_steps_an_execution_call_back_once():
    told = []
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda i, logs: told.append(i))
    losses, _ = _losses(_model(steps_per_execution=5), callbacks=[callback])
    alone, _ = _losses(_model())
    np.testing.assert_allclose(losses, alone, rtol=1e-6)
    assert told == [4, 4, 4]


def test_single_batches():
    model = _model()
    loss, mae = model.test_on_batch(X, Y)
    error = model.predict_on_batch(X) - Y
    assert loss == pytest.approx(float((error**2).mean()), rel=1e-5)
    assert mae == pytest.approx(float(np.abs(error).mean()), rel=1e-5)
    model.reset_metrics()
    first = model.train_on_batch(X, Y, return_dict=True)["loss"]
    assert first == pytest.approx(loss, rel=1e-5)
    for _ in range(5):
        model.train_on_batch(X, Y)
    model.reset_metrics()
    assert model.test_on_batch(X, Y)[0] < loss


def test_weights_of_samples_and_classes_weigh_the_loss():
    model = keras.Sequential([keras.Input((5,)), layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    labels = np.arange(40) % 3
    rows = -np.log(model.predict(X, verbose=0)[np.arange(40), labels])
    by_class = np.array([1.0, 2.0, 0.5])[labels]
    weighted = model.evaluate(X, labels, batch_size=40, sample_weight=by_class, verbose=0)
    assert weighted == pytest.approx(float((rows * by_class).mean()), rel=1e-4)
    weights = {0: 1.0, 1: 2.0, 2: 0.5}
    trained = model.train_on_batch(X, labels, class_weight=weights)
    assert trained == pytest.approx(weighted, rel=1e-4)


def test_validation_callbacks_and_a_step_of_ones_own():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(2)

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y = data
            loss = keras.ops.mean(keras.ops.square(self(x) - y))
            found = gradients(loss, self.trainable_variables)
            self.optimizer.apply(found, self.trainable_variables)
            return {"own_loss": loss}

    model = Own()
    model.compile("adam", "mse")
    stop = keras.callbacks.EarlyStopping("val_loss", patience=0, min_delta=10.0)
    history = model.fit(X, Y, epochs=9, validation_data=(X, Y), callbacks=[stop], verbose=0)
    assert len(history.epoch) == 2
    assert set(history.history) == {"own_loss", "val_loss"}


def test_float16_is_scaled_and_bfloat16_trains():
    for policy in ("mixed_float16", "mixed_bfloat16"):
        model = keras.Sequential(
            [keras.Input((5,)), layers.Dense(8, "relu", dtype=policy), layers.Dense(2)]
        )
        model.compile(keras.optimizers.Adam(0.01), "mse", auto_scale_loss=True)
        losses = model.fit(X, Y, epochs=15, verbose=0).history["loss"]
        assert losses[-1] < losses[0]


def test_a_loop_of_ones_own():
    model = _model()

    def loss():
        return keras.ops.mean(keras.ops.square(model(X) - Y))

    before = float(loss())
    for _ in range(20):
        found = gradients(loss, model.trainable_variables)
        for variable, slope in zip(model.trainable_variables, found, strict=True):
            variable.assign_sub(0.1 * slope)
    assert float(loss()) < before


def test_export_says_that_it_is_not_there(tmp_path):
    with pytest.raises(NotImplementedError, match="export"):
        _model().export(tmp_path / "model")


# ------------------------------------------------------------------ devices


def _parallel_data() -> object:
    return keras.distribution.DataParallel()


def _parallel_model() -> object:
    mesh = keras.distribution.DeviceMesh((1, 1), ("batch", "model"), ["cpu:0"])
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*kernel"] = (None, "model")
    layout[".*/output"] = ("batch", None)
    return keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch")


@pytest.mark.parametrize("make", [_parallel_data, _parallel_model])
def test_a_distribution_over_the_one_device_changes_nothing(make):
    def losses():
        keras.utils.set_random_seed(3)
        model = _model()
        return model.fit(X, Y, epochs=3, verbose=0).history["loss"]

    alone = losses()
    with make().scope():
        assert losses() == alone


REFUSED = {
    "variables": lambda two: two.scope(),
    "tensor": lambda two: keras.distribution.distribute_tensor(
        np.ones(2), keras.distribution.TensorLayout(("batch",), two.device_mesh)
    ),
    "mesh": lambda two: two.device_mesh.backend_mesh,
    "layout": lambda two: (
        keras.distribution.TensorLayout(("batch",), two.device_mesh).backend_layout
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_more_devices_than_there_are(name):
    two = keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"])
    with pytest.raises(NotImplementedError, match=r"one device, cpu:0.*mesh of 2: cpu:0, cpu:1"):
        made = REFUSED[name](two)
        if name == "variables":
            with made:
                _model()


def test_devices_and_processes():
    assert keras.distribution.list_devices() == keras.distribution.list_devices("cpu") == ["cpu:0"]
    assert keras.distribution.get_device_count() == 1
    assert keras.distribution.list_devices("gpu") == []
    keras.distribution.initialize()
    keras.distribution.initialize(num_processes=1, process_id=0)
    with pytest.raises(NotImplementedError, match="one process.*num_processes=2"):
        keras.distribution.initialize("10.0.0.1:1234,10.0.0.2:2345", 2, 0)
    layout = keras.distribution.TensorLayout(("batch",))
    with pytest.raises(ValueError, match="device_mesh"):
        _ = layout.backend_layout


class Branching(layers.Layer):
    """A layer that stores in one branch of a condition more than in the other."""

    def __init__(self, several):
        super().__init__()
        self.several = several
        self.first = self.add_weight(shape=(), initializer="zeros", trainable=False, name="a")
        self.second = self.add_weight(shape=(), initializer="zeros", trainable=False, name="b")

    def call(self, x):
        def grow():
            self.first.assign_add(1.0)
            return x * 2.0

        def both():
            self.first.assign_add(10.0)
            self.second.assign(self.first * 2.0)
            return x

        large = keras.ops.sum(x) > 0
        if self.several:
            return keras.ops.switch(keras.ops.cast(large, "int32"), [both, grow])
        return keras.ops.cond(large, grow, both)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("eager", [False, True])
def test_only_one_branch_of_a_step_stores(several, eager):
    layer = Branching(several)
    model = keras.Sequential([keras.Input((2,)), layer, layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=eager)
    layer.first.assign(0.0)
    layer.second.assign(0.0)
    ones, zeros = np.ones((4, 2), "float32"), np.zeros((4, 1), "float32")
    model.train_on_batch(ones, zeros)
    assert (float(layer.first), float(layer.second)) == (1, 0)
    model.train_on_batch(-ones, zeros)
    assert (float(layer.first), float(layer.second)) == (11, 22)


class LossInBranch(layers.Layer):
    """A layer that adds a loss in one branch alone."""

    def call(self, x):
        def costly():
            self.add_loss(keras.ops.sum(x))
            return x

        return keras.ops.cond(keras.ops.sum(x) > 0, costly, lambda: x)


def test_a_branch_of_a_traced_step_adds_no_loss():
    model = keras.Sequential([keras.Input((2,)), LossInBranch(), layers.Dense(1)])
    ones, zeros = np.ones((4, 2), "float32"), np.zeros((4, 1), "float32")
    model.compile("sgd", "mse", run_eagerly=True)
    model.train_on_batch(ones, zeros)
    model.compile("sgd", "mse")
    with pytest.raises(NotImplementedError, match="branch of cond or switch adds a loss"):
        model.train_on_batch(ones, zeros)


@pytest.mark.parametrize("eager", [False, True])
def test_gradients_are_gathered_over_steps(eager):
    def trained(batch, **options):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((5,)), layers.Dense(2)])
        model.compile(keras.optimizers.SGD(0.1, **options), "mse", run_eagerly=eager)
        model.fit(X, Y, batch_size=batch, epochs=2, shuffle=False, verbose=0)
        return model.get_weights()

    found = trained(10, gradient_accumulation_steps=2)
    for one, other in zip(found, trained(20), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("eager", [False, True])
def test_a_step_whose_gradients_are_not_finite_halves_the_scale_alone(eager):
    model = keras.Sequential([keras.Input((5,)), layers.Dense(2)])
    scaling = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), initial_scale=64.0, dynamic_growth_steps=2
    )
    model.compile(scaling, "mse", run_eagerly=eager)
    seen = []
    for number in range(4):
        before = model.get_weights()
        model.train_on_batch(X * np.float32(np.inf if number == 2 else 1), Y)
        moved = not np.array_equal(before[0], model.get_weights()[0])
        seen.append((float(scaling.dynamic_scale), int(scaling.step_counter), moved))
    assert seen == [(64, 1, True), (128, 0, True), (64, 0, False), (64, 1, True)]
