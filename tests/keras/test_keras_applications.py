"""The image models that come with Keras 2.3.1, without weights: hundreds of layers each."""

from __future__ import annotations

import numpy as np
import pytest
from keras import applications, models
from keras import backend as K

SIZES = {
    "DenseNet121": 64,
    "InceptionResNetV2": 75,
    "InceptionV3": 75,
    "MobileNet": 64,
    "MobileNetV2": 64,
    "NASNetMobile": 64,
    "ResNet50": 64,
    "ResNet50V2": 64,
    "VGG16": 48,
    "Xception": 71,
}


@pytest.mark.slow
def test_a_small_model_in_both_layouts(tmp_path):
    """The same weights give the same answers; a training step and a file work too."""
    x = np.random.uniform(-1, 1, (2, 32, 32, 3))
    found = []
    weights = None
    for form, shape in (("channels_last", (32, 32, 3)), ("channels_first", (3, 32, 32))):
        K.set_image_data_format(form)
        model = applications.MobileNet(shape, 0.25, weights=None, classes=5)
        model.set_weights(weights or model.get_weights())
        weights = model.get_weights()
        found.append(model.predict(x if form == "channels_last" else x.transpose(0, 3, 1, 2)))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[0].sum(1), 1, rtol=1e-5)
    model.compile("sgd", "categorical_crossentropy")
    assert np.isfinite(model.train_on_batch(x.transpose(0, 3, 1, 2), np.eye(5)[:2]))
    path = str(tmp_path / "model.h5")
    model.save(path)
    x = x.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(models.load_model(path).predict(x), model.predict(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_every_application(name):
    shape = (SIZES[name], SIZES[name], 3)
    model = getattr(applications, name)(input_shape=shape, weights=None, classes=7)
    x = np.random.uniform(-1, 1, (2, *shape))
    found = model.predict(x)
    assert found.shape == (2, 7)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-4)
    model.compile("sgd", "categorical_crossentropy")
    assert np.isfinite(model.train_on_batch(x, np.eye(7)[:2]))
