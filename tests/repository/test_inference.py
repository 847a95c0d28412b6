"""`kbench bench --inference`: the graphs that are written for other libraries, and its tables."""

from __future__ import annotations

import json

import benchmark_programs
import keras_loaded
import numpy as np
import onnx_numpy
import pytest
from benchmark_programs import FOLDER

pytestmark = keras_loaded.OWN_WARNINGS


@pytest.fixture
def keras(monkeypatch):
    """Keras on kbench, and the package `inference`, which is forgotten afterwards."""
    found = keras_loaded.load()
    np.random.seed(3)
    with benchmark_programs.importable(monkeypatch):
        yield found
        found.backend.clear_session()


# ------------------------------------------------------------------ layouts


@pytest.mark.parametrize(
    ("arguments", "pads"),
    [
        ((224, 3, 2), (0, 1)),
        ((224, 7, 2), (2, 3)),
        ((113, 3, 2), (1, 1)),
        ((112, 3, 1), (1, 1)),
        ((10, 4, 1), (1, 2)),
        ((10, 3, 1, 2), (2, 2)),
        ((5, 1, 2), (0, 0)),
        ((4, 2, 4), (0, 0)),
    ],
)
def test_the_odd_border_of_same_goes_behind(keras, arguments, pads):
    from inference.layout import same_padding

    assert same_padding(*arguments) == pads


def test_weights_are_turned(keras):
    from inference import layout

    assert layout.gates(np.array([[1, 2, 3, 4]])).tolist() == [[1, 4, 2, 3]]
    w, r, b = layout.lstm_weights(np.ones((5, 8)), np.ones((2, 8)), np.arange(8.0))
    assert (w.shape, r.shape, b.shape) == ((1, 8, 5), (1, 8, 2), (1, 16))
    assert b[0].tolist() == [0, 1, 6, 7, 2, 3, 4, 5, *[0] * 8]
    kernel = np.random.default_rng(0).random((2, 3, 4, 5))
    assert layout.kernel(kernel)[4, 3, 1, 2] == kernel[1, 2, 3, 4]
    assert layout.depthwise_kernel(kernel)[3 * 5 + 4, 0, 1, 2] == kernel[1, 2, 3, 4]


# ------------------------------------------------------------------ graphs


def _small_resnet(keras):
    """What ResNet-50 is made of: borders of their own, a shortcut, a pooling."""
    L = keras.layers
    x = L.Input((15, 14, 3))
    y = L.ZeroPadding2D(3)(x)
    y = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(8, 7, strides=2)(y)))
    y = L.MaxPooling2D(3, strides=2)(L.ZeroPadding2D(1)(y))
    z = L.BatchNormalization(epsilon=1.001e-5)(L.Conv2D(8, 3, padding="same")(y))
    y = L.Activation("relu")(L.add([L.Conv2D(8, 1)(y), z, y]))
    y = L.Conv2D(6, 3, dilation_rate=2, padding="same", activation="tanh")(y)
    return keras.models.Model(x, L.Dense(5, activation="softmax")(L.GlobalAveragePooling2D()(y)))


def _small_mobilenet(keras):
    """What MobileNet is made of: one-sided borders, a limit at 6, a layer for each channel."""
    L = keras.layers
    x = L.Input((16, 13, 3))
    y = L.ZeroPadding2D(((0, 1), (0, 1)))(x)
    y = L.Conv2D(4, 3, strides=2, use_bias=False, padding="valid")(y)
    y = L.ReLU(6.0)(L.BatchNormalization()(y))
    y = L.DepthwiseConv2D(3, padding="same", depth_multiplier=2, use_bias=False)(y)
    y = L.DepthwiseConv2D(4, strides=2, padding="same")(L.ReLU()(y))
    y = L.MaxPooling2D(2, padding="same")(y)
    y = L.Reshape((1, 1, 8))(L.GlobalAveragePooling2D()(y))
    y = L.Conv2D(5, 1, padding="same", activation="sigmoid")(L.Dropout(0.1)(y))
    return keras.models.Model(x, L.Activation("softmax")(L.Reshape((5,))(y)))


def _hard_lstm(keras):
    L = keras.layers
    x = L.Input((9, 4))
    y = L.LSTM(6, recurrent_activation="hard_sigmoid")(x)
    return keras.models.Model(x, L.Dense(3)(y))


def _own(name, **sizes):
    def make(keras):
        from inference import models

        return getattr(models, name)(**sizes)

    return make


MODELS = {
    "resnet": _small_resnet,
    "mobilenet": _small_mobilenet,
    "hard lstm": _hard_lstm,
    "lstm": _own("lstm", steps=7, size=5, classes=3),
    "transformer": _own("transformer", steps=6, width=8, heads=2),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_graph_gives_what_keras_gives(keras, name):
    """The graph as ONNX's own page defines it, and the model, on random weights."""
    from inference.build import fed
    from inference.export import export

    model, source = MODELS[name](keras), np.random.default_rng(5)
    weights = [
        source.uniform(0.2, 0.9, one.shape) - 0.4 * (one.ndim > 1) for one in model.get_weights()
    ]
    model.set_weights(weights)
    x = source.normal(size=(2, *model.input_shape[1:])).astype(np.float32)
    expected = model.predict(x)
    graph = export(model, 2)
    found = onnx_numpy.run(graph, fed("lstm" if "lstm" in name else name, x))
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def test_both_image_models_are_written_whole(keras):
    """Every layer of the real ones has a translation; folding is left to who loads the graph."""
    from collections import Counter

    from inference.export import export

    small = {"input_shape": (32, 32, 3), "weights": None, "classes": 4}
    kinds = {
        name: Counter(one.kind for one in export(make(**small), 1).nodes)
        for name, make in (
            ("ResNet50", keras.applications.ResNet50),
            ("MobileNet", keras.applications.MobileNet),
        )
    }
    assert kinds["ResNet50"]["Conv"] == kinds["ResNet50"]["BatchNormalization"] == 53
    assert kinds["ResNet50"]["Add"] == 16 and kinds["ResNet50"]["MaxPool"] == 1
    assert kinds["MobileNet"]["Conv"] == 28 and kinds["MobileNet"]["Clip"] == 27


REFUSED = {
    "Flatten": lambda L: [L.Input((4, 4, 3)), L.Flatten()],
    "activation": lambda L: [L.Input((3,)), L.Dense(2, activation="elu")],
    "without a bias": lambda L: [L.Input((3,)), L.Dense(2, use_bias=False)],
    "may be negative": lambda L: [L.Input((4, 4, 3)), L.ZeroPadding2D(1), L.MaxPooling2D(2)],
    "behind a layer of borders": lambda L: [
        L.Input((4, 4, 3)),
        L.ZeroPadding2D(1),
        L.Conv2D(2, 3, padding="same"),
    ],
    "softmax over channels": lambda L: [L.Input((4, 4, 3)), L.Activation("softmax")],
    "from": lambda L: [L.Input((4, 4, 3)), L.Reshape((48,))],
    "relu6": lambda L: [L.Input((5, 3)), L.LSTM(2, activation="elu")],
    "channels_first": lambda L: [L.Input((3, 4, 4)), L.Conv2D(2, 1, data_format="channels_first")],
    "axis 1": lambda L: [L.Input((4, 4, 3)), L.BatchNormalization(axis=1)],
    "slope": lambda L: [L.Input((4,)), L.ReLU(negative_slope=0.1)],
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_has_no_translation_is_refused(keras, words):
    from inference.export import NotExported, export

    x, *others = REFUSED[words](keras.layers)
    y = x
    for layer in others:
        y = layer(y)
    with pytest.raises(NotExported, match="elu" if words == "relu6" else words):
        export(keras.models.Model(x, y), 1)


def test_normalization_gets_the_statistics_of_samples(keras):
    from inference.models import calibrated

    L, x = keras.layers, np.random.default_rng(1).normal(3, 5, (40, 6))
    inputs = L.Input((6,))
    model = calibrated(keras.models.Model(inputs, L.BatchNormalization()(inputs)), x)
    found = model.predict(x)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(found.std(0), 1, rtol=0.05)


def test_values_that_say_nothing_are_noticed(keras):
    from inference.build import healthy

    good = np.random.default_rng(0).random((3, 4))
    assert healthy(good) and not healthy(np.full((3, 4), 0.25))
    assert not healthy(np.where(good > 0.9, np.nan, good) * np.array([np.nan, 1, 1, 1]))
    assert not healthy(np.tile(good[:1], (3, 1)))  # all samples alike


# ------------------------------------------------------------------ the command


def test_inputs_are_the_same_each_time(keras):
    from inference.cases import CASES, MODELS, batches, inputs

    assert {one.model for one in CASES.values()} == set(MODELS)
    assert batches("resnet50") == [1, 16] and list(CASES)[0] == "resnet50.1"
    for name in MODELS:
        one = inputs(name, 2)
        assert one.dtype == np.float32 and one.shape[0] == 2 and one.std() > 0.2
        np.testing.assert_array_equal(one, inputs(name, 2))
        assert np.abs(one - inputs(name, 2, 1)).max() > 0.1


def test_options_choose_the_peers(keras):
    import harness

    assert harness._options(["--inference"]).peers == "onnxruntime,openvino"
    assert harness._options(["--inference", "--rounds", "2", "--peers", ""]).peers == ""
    assert harness._options([]).peers == ",".join(harness.PEERS)


def _row(time, **more):
    spread = {"median": time, "low": 0.9 * time, "high": 1.1 * time}
    return {**spread, "start": 2.0, "load": 0.25, "call": 0.25, "before": 5e7, "peak": 2e8, **more}


REPORT = {
    "cpu": "a cpu",
    "threads": 2,
    "python": "3.11",
    "when": "today",
    "load_before": (0.25, 1, 1),
    "load_after": (1.5, 1, 1),
    "versions": {"kbench": "1", "onnxruntime": "2", "openvino": "3"},
    "rows": {
        "lstm.32": {
            "kbench": _row(3e-3, cold=4.0),
            "onnxruntime": _row(2e-3),
            "openvino": _row(1e-3, error="off by 1|2"),
        },
        "transformer.8": {"kbench": {"error": "none"}, "onnxruntime": _row(2e-3)},
    },
}


def test_the_tables_tell_times_first_results_and_memory(keras):
    from inference.report import inference_tables, line, ratio

    text = inference_tables(REPORT)
    assert "a cpu, 2 threads, Python 3.11, today, load 0.2 before and 1.5 after;" in text
    assert "; kbench 1, onnxruntime 2, openvino 3." in text
    assert (
        "| `lstm.32` | 3 ms (2.7 ms to 3.3 ms) | 2 ms (1.8 ms to 2.2 ms) | !! off by 1/2 |" in text
    )
    assert "| onnxruntime | 1.50 |" in text
    assert "| 2 s (500 ms, cold 4 s) | 2 s (500 ms) |" in text
    assert "| 200 MB (+150) |" in text
    assert "| `transformer.8` | !! none | 2 ms (1.8 ms to 2.2 ms) | !! not measured |  |  |" in text
    assert ratio(REPORT["rows"]["transformer.8"]) is None
    assert "| 1.50 of onnxruntime" in line("lstm.32", REPORT["rows"]["lstm.32"])
    assert "|" not in line("transformer.8", REPORT["rows"]["transformer.8"])


def test_what_stands_above_the_tables_stays(keras, tmp_path):
    from inference.report import DRAWN
    from tables import drawn_below

    file = tmp_path / "page.md"
    assert drawn_below(DRAWN, "tables", file) == "tables"
    file.write_text(f"# By hand\n\n{DRAWN}\n\nold tables\n")
    assert drawn_below(DRAWN, "tables", file) == f"# By hand\n\n{DRAWN}\n\ntables"
    drawn = (FOLDER.parent / "docs" / "inference.md").read_text("utf-8")
    assert drawn.count(DRAWN) == 1 and "| `transformer.8` |" in drawn.partition(DRAWN)[2]


class _Fake:
    """A process whose rounds are noted; `broken` ones fail in the second."""

    def __init__(self, name, rounds, broken=False):
        self.name, self._rounds, self._broken = name, rounds, broken

    def ask(self, do, patience, **arguments):
        if do != "round":
            return {}
        self._rounds.append(self.name)
        if self._broken and self._rounds.count(self.name) == 2:
            return {"error": "has ended"}
        return {"times": [1.0, 2.0, 3.0]}


def test_libraries_take_turns(keras, monkeypatch):
    from inference import measure

    monkeypatch.setattr(measure, "PAUSE", 0.0)
    rounds = []
    able = [_Fake("kbench", rounds), _Fake("onnxruntime", rounds, broken=True)]
    rows = {one.name: {} for one in able}
    measure._timed(able, rows, 3, 0.1)
    assert rounds == ["kbench", "onnxruntime", "onnxruntime", "kbench", "kbench"]
    assert rows["kbench"]["median"] == 2.0 and rows["onnxruntime"] == {"error": "has ended"}


def test_a_value_that_is_off_is_not_timed(keras, tmp_path):
    from inference.cases import Case
    from inference.measure import _judged

    expected = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.save(tmp_path / "expected.npy", expected)
    one = Case("lstm", 1, "")
    assert _judged([expected[:1] + 1e-5], str(tmp_path), one)["off"] == pytest.approx(5e-6)
    assert "off by" in _judged([expected[:1] + 1e-3], str(tmp_path), one)["error"]
    assert "shape" in _judged([expected], str(tmp_path), one)["error"]


@pytest.mark.slow
def test_a_short_run_measures_kbench_alone(run_kbench, tmp_path):
    """Without others there are no graphs, so it takes none of their libraries."""
    out = tmp_path / "out.json"
    options = ["--peers", "", "--rounds", "1", "--seconds", "0.05", "--json", str(out)]
    done = run_kbench("bench", "--inference", "--only", "lstm", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    row = json.loads(out.read_text())["rows"]["lstm.32"]["kbench"]
    assert 0 < row["low"] <= row["median"] <= row["high"] and row["off"] < 1e-4
    assert 0 < row["load"] + row["call"] < row["start"] and 0 < row["before"] < row["peak"]
