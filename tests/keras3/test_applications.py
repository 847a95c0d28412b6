"""One model of each family of `keras.applications`, with random weights and small pictures.

A prediction is a traced step, made of compiled kernels; a call computes function by function.
"""

import keras3_there  # noqa: F401  # isort: skip
import keras
import numpy as np
import pytest

pytestmark = pytest.mark.slow

CLASSES = 5
FAMILIES = {
    "Xception": (71, {}),
    "VGG16": (32, {}),
    "ResNet50": (32, {}),
    "ResNet50V2": (32, {}),
    "InceptionV3": (75, {}),
    "InceptionResNetV2": (75, {}),
    "MobileNet": (32, {"alpha": 0.25}),
    "MobileNetV2": (32, {"alpha": 0.35}),
    "MobileNetV3Small": (32, {}),
    "DenseNet121": (32, {}),
    "NASNetMobile": (32, {}),
    "EfficientNetB0": (32, {}),
    "EfficientNetV2B0": (32, {}),
    "ConvNeXtTiny": (32, {}),
}
"""Sides of the pictures in dots, the least that the family takes, and what makes it small."""


@pytest.fixture(autouse=True)
def forgotten():
    yield
    keras.backend.clear_session()


def _model(name):
    size, options = FAMILIES[name]
    keras.utils.set_random_seed(5)
    build = getattr(keras.applications, name)
    model = build(weights=None, input_shape=(size, size, 3), classes=CLASSES, **options)
    x = np.random.RandomState(5).uniform(-1, 1, (2, size, size, 3)).astype("float32")
    return model, x


@pytest.mark.parametrize("name", FAMILIES)
def test_a_prediction_is_what_its_functions_give(name):
    model, x = _model(name)
    for weight in model.weights:  # of chances that differ from class to class
        if weight.path.endswith(("beta", "bias")):
            weight.assign(np.random.RandomState(1).normal(0, 0.05, weight.shape))
    found = model.predict(x, verbose=0)
    assert found.shape == (2, CLASSES)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(found, model(x), rtol=1e-4, atol=1e-6)
    assert np.ptp(found) > 1e-4


@pytest.mark.parametrize("name", ["MobileNet", "EfficientNetB0"])
def test_a_model_learns_its_batch(name):
    model, x = _model(name)
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy")
    x, labels = np.repeat(x, 4, axis=0), np.repeat([1, 3], 4)
    losses = [float(np.ravel(model.train_on_batch(x, labels))[0]) for _ in range(2)]
    model.reset_metrics()
    for _ in range(15):
        model.reset_metrics()
        losses.append(float(np.ravel(model.train_on_batch(x, labels))[0]))
    assert losses[-1] < 0.5 * losses[0]
