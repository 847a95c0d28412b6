"""Data for models of Keras 2.3.1 on kbench: images, text, series, and scikit-learn around it."""

from __future__ import annotations

import numpy as np
from keras import layers, optimizers
from keras.layers import Dense
from keras.models import Sequential
from keras.preprocessing.image import ImageDataGenerator
from keras.preprocessing.sequence import (
    TimeseriesGenerator,
    make_sampling_table,
    pad_sequences,
    skipgrams,
)
from keras.preprocessing.text import (
    Tokenizer,
    hashing_trick,
    one_hot,
    text_to_word_sequence,
    tokenizer_from_json,
)
from keras.wrappers.scikit_learn import KerasClassifier, KerasRegressor

RNG = np.random.default_rng


def numbers(*shape, seed=1):
    return RNG(seed).normal(size=shape)


def test_images_in_threads(tmp_path):
    from PIL import Image

    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for number in range(4):
            pixels = RNG(number).integers(0, 255, (8, 8, 3)).astype("uint8")
            Image.fromarray(pixels).save(tmp_path / label / f"{number}.png")
    maker = ImageDataGenerator(rescale=1 / 255, horizontal_flip=True, rotation_range=10)
    flow = maker.flow_from_directory(str(tmp_path), target_size=(8, 8), batch_size=2, seed=1)
    x, y = flow[0]
    assert (x.shape, y.shape) == ((2, 8, 8, 3), (2, 2))
    model = Sequential(
        [
            layers.Conv2D(2, 3, input_shape=(8, 8, 3)),
            layers.Flatten(),
            Dense(2, activation="softmax"),
        ]
    )
    model.compile("adam", "categorical_crossentropy", metrics=["acc"])
    history = model.fit_generator(flow, epochs=2, workers=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    arrays = ImageDataGenerator(featurewise_center=True, featurewise_std_normalization=True)
    images = RNG(1).uniform(0, 9, (12, 8, 8, 3))
    arrays.fit(images)
    batch = next(arrays.flow(images, np.ones(12), batch_size=12, shuffle=False))[0]
    assert abs(batch.mean()) < 1e-5


# ------------------------------------------------------------------ text and sequences


def test_text_to_numbers():
    texts = ["The cat sat on the mat.", "The dog sat!"]
    tokenizer = Tokenizer(num_words=4, oov_token="?")
    tokenizer.fit_on_texts(texts)
    assert tokenizer.word_index["the"] == 2
    found = tokenizer.texts_to_sequences(texts)
    assert found == [[2, 1, 3, 1, 2, 1], [2, 1, 3]]
    np.testing.assert_array_equal(pad_sequences(found, 4), [[3, 1, 2, 1], [0, 2, 1, 3]])
    again = pad_sequences(found, padding="post", truncating="post", maxlen=4, value=9)
    np.testing.assert_array_equal(again, [[2, 1, 3, 1], [2, 1, 3, 9]])
    assert tokenizer.texts_to_matrix(texts, "count").shape == (2, 4)
    twin = tokenizer_from_json(tokenizer.to_json())
    assert twin.texts_to_sequences(texts) == found
    assert text_to_word_sequence("A, b!") == ["a", "b"]
    assert all(0 < one < 10 for one in one_hot("a b c", 10) + hashing_trick("a b", 10))


def test_series():
    data = np.arange(20.0)[:, None]
    series = TimeseriesGenerator(data, data, length=3, batch_size=4)
    x, y = series[0]
    np.testing.assert_array_equal(x[1, :, 0], [1, 2, 3])
    np.testing.assert_array_equal(y[:, 0], [3, 4, 5, 6])
    model = Sequential([layers.LSTM(2, input_shape=(3, 1)), Dense(1)])
    model.compile("adam", "mse")
    assert np.isfinite(model.fit_generator(series, epochs=1, verbose=0).history["loss"]).all()
    pairs, labels = skipgrams([1, 2, 3], 5, window_size=1, seed=1)
    assert len(pairs) == len(labels)
    assert make_sampling_table(10).shape == (10,)


# ------------------------------------------------------------------ scikit-learn


def classifier(width=8):
    model = Sequential(
        [Dense(width, activation="relu", input_shape=(2,)), Dense(2, activation="softmax")]
    )
    model.compile(optimizers.Adam(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def regressor():
    model = Sequential([Dense(1, input_shape=(2,))])
    model.compile(optimizers.SGD(0.1), "mse")
    return model


def test_scikit_learn():
    x = numbers(60, 2)
    labels = (x.sum(1) > 0).astype(int)
    made = KerasClassifier(classifier, epochs=15, batch_size=10, verbose=0)
    made.fit(x, labels)
    assert made.score(x, labels) > 0.9
    assert made.predict_proba(x).shape == (60, 2)
    assert set(made.predict(x)) == {0, 1}
    assert made.get_params()["epochs"] == 15
    line = KerasRegressor(regressor, epochs=20, verbose=0)
    line.fit(x, x @ np.array([2.0, -1.0]))
    assert line.score(x, x @ np.array([2.0, -1.0])) > -0.05
    np.testing.assert_allclose(line.model.get_weights()[0][:, 0], [2, -1], atol=0.2)


def test_scikit_learn_pipelines():
    """Its own tools on the wrapped model: scaling before it, and a search among its options."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = numbers(40, 2) * 30
    labels = (x.sum(1) > 0).astype(int)
    made = KerasClassifier(classifier, epochs=10, batch_size=10, verbose=0)
    steps = make_pipeline(StandardScaler(), made)
    steps.fit(x, labels)
    assert (steps.predict(x) == labels).mean() > 0.85
    search = GridSearchCV(made, {"width": [1, 8]}, cv=2)
    search.fit(x / 30, labels)
    assert search.best_params_["width"] in (1, 8)
