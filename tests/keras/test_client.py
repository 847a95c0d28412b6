"""kbench and Keras 2.3.1 as neighbours: who is imported when, and one state for both."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import backend as K
from keras import layers

import kbench
from kbench.engine.runtime.config import changed

# ------------------------------------------------------------------ fresh processes


def fresh(code: str, home: Path, backend: str | None = "kbench", path: str = "") -> str:
    """What a new Python prints; it must end well. `path` is searched before everything else."""
    kept = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    own = {"KERAS_HOME": str(home), "PYTHONWARNINGS": "ignore", "PYTHONPATH": path}
    if backend is not None:
        own["KERAS_BACKEND"] = backend
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=kept | own,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


ASKED = """
    import kbench
    try:
        import keras
    except {error} as error:
        print(error)
"""
OURS = "set KERAS_BACKEND=kbench in the environment"


@pytest.mark.slow
def test_keras_without_its_backend_is_told_of_kbench(tmp_path):
    """Keras takes TensorFlow where nobody says anything, which is not there or too new for it."""
    told = fresh(ASKED.format(error="ModuleNotFoundError"), tmp_path, backend=None)
    assert "No module named 'tensorflow'; kbench is imported" in told and OURS in told
    told = fresh(
        ASKED.format(error="ImportError").replace(
            "import kbench", "import kbench, os; os.environ['KERAS_BACKEND'] = 'tensorflow'"
        ),
        tmp_path,
        backend=None,
    )
    assert "No module named 'tensorflow'" in told and OURS not in told
    broken = tmp_path / "packages"
    for name, text in {
        "keras/__init__.py": "from . import backend",
        "keras/backend/__init__.py": "from .load_backend import x",
        "keras/backend/load_backend.py": "raise AttributeError('module has no attribute x')",
        "three/keras/__init__.py": "from . import backend",
        "three/keras/backend/__init__.py": "import tensorflow",
    }.items():
        (broken / name).parent.mkdir(parents=True, exist_ok=True)
        (broken / name).write_text(text)
    code = ASKED.format(error="AttributeError")
    told = fresh(code, tmp_path, backend=None, path=str(broken))
    assert told.startswith("module has no attribute x; kbench is imported") and OURS in told
    code = ASKED.format(error="ImportError")
    told = fresh(code, tmp_path, backend=None, path=str(broken / "three"))
    assert told.strip() == "No module named 'tensorflow'"


SMALL = """
    import collections, numpy as np
    model = keras.models.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse", metrics=["mae"])
    model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
    model.save("{home}/model.h5")
    keras.models.load_model("{home}/model.h5")
    keras.preprocessing.sequence.pad_sequences([["a"]], dtype=object, value="b")
    K = keras.backend
    K.set_floatx("float64")
    assert kbench.floatx() == K.floatx() == "float64" == K.dtype(K.zeros(2))
    assert not hasattr(collections, "Iterable") and not hasattr(np, "Inf")
    K.clear_session()
    print(K.backend(), K.epsilon(), K.image_data_format())
"""


@pytest.mark.parametrize(
    ("first", "name"),
    [("import kbench, keras", "kbench"), ("import keras, kbench", "kbench.backend")],
    ids=["kbench first", "keras first"],
)
def test_either_may_come_first(first, name, tmp_path):
    told = fresh(first + textwrap.dedent(SMALL).format(home=tmp_path), tmp_path, name)
    assert told.split() == [name, "1e-07", "channels_last"]


def test_the_file_of_settings_serves_both(tmp_path):
    (tmp_path / "keras.json").write_text(
        '{"backend": "kbench", "floatx": "float64", "epsilon": 0.001,'
        ' "image_data_format": "channels_first"}'
    )
    told = fresh(
        """
        import keras, kbench
        from keras import backend as K
        for one in (K, kbench):
            print(one.floatx(), one.epsilon(), one.image_data_format())
        print(K.backend())
        """,
        tmp_path,
        None,
    )
    assert told.split() == ["float64", "0.001", "channels_first"] * 2 + ["kbench"]


def test_kbench_alone_changes_nothing(tmp_path):
    """No module of Keras, no name in collections, no file; the finder lets everything pass."""
    told = fresh(
        """
        import sys, collections
        names, path = set(vars(collections)), list(sys.meta_path)
        import kbench
        assert set(vars(collections)) - names <= {"abc"}
        assert not any(name.split(".")[0] in ("keras", "h5py", "sklearn") for name in sys.modules)
        added = [one for one in sys.meta_path if one not in path]
        kept = [one for one in added if type(one).__module__.startswith("kbench")]
        assert len(kept) == 1, added
        assert kept[0].find_spec("json", None) is None
        assert kept[0].find_spec("keras.metrics", None) is None
        import importlib
        importlib.reload(kbench)
        print(sum(type(one).__module__.startswith("kbench") for one in sys.meta_path))
        """,
        tmp_path,
    )
    assert told.strip() == "1"
    assert list(tmp_path.iterdir()) == []


def test_other_backends_are_left_alone(tmp_path):
    """Keras 2.3.1 on another backend is as broken as it was."""
    (tmp_path / "other.py").write_text("from kbench.backend import *\n")
    told = fresh(
        """
        import kbench
        try:
            import keras
        except ImportError as error:
            print(error)
        import sys
        common = sys.modules["keras.backend.common"]
        common.set_floatx("float16")
        print(kbench.floatx(), hasattr(sys.modules["keras.backend"], "clear_session"))
        """,
        tmp_path,
        "other",
        str(tmp_path),
    )
    assert "cannot import name 'Iterable'" in told
    assert told.split()[-2:] == ["float32", "False"]


def test_other_kerases_are_left_alone(tmp_path):
    """A package of the same name with the same modules, as Keras 3 has them."""
    package = tmp_path / "keras"
    for name in ("backend", "metrics", "optimizers", "callbacks/callbacks", "layers/core"):
        module = package / f"{name}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text("np = MeanIoU = 'own'\nclass Lambda: compute_output_shape = 'own'\n")
    for folder in (package, package / "callbacks", package / "layers"):
        (folder / "__init__.py").write_text("")
    told = fresh(
        """
        import kbench, keras.backend, keras.metrics, keras.optimizers
        import keras.callbacks.callbacks, keras.layers.core
        print(keras.metrics.MeanIoU, keras.callbacks.callbacks.np)
        print(keras.layers.core.Lambda.compute_output_shape, hasattr(keras.backend, "floatx"))
        print(keras.metrics.__file__)
        """,
        tmp_path,
        "kbench",
        str(tmp_path),
    )
    assert told.split() == ["own", "own", "own", "False", str(package / "metrics.py")]


# ------------------------------------------------------------------ one state


SETTINGS = [("floatx", "float64"), ("epsilon", 0.01), ("image_data_format", "channels_first")]


@pytest.mark.parametrize(("name", "value"), SETTINGS, ids=[name for name, _ in SETTINGS])
@pytest.mark.parametrize("side", ["keras", "kbench", "common"])
def test_one_switch(name, value, side):
    """Whichever side sets it, all sides read it, and who listens is told once."""
    setter = {"keras": K, "kbench": kbench, "common": keras.backend.common}[side]
    told: list[str] = []
    stop = changed.subscribe(told.append)
    try:
        getattr(setter, f"set_{name}")(value)
    finally:
        stop()
    assert told == [name]
    for reader in (K, kbench, keras.backend.common, keras.backend.load_backend):
        assert getattr(reader, name)() == value
    assert keras.initializers.K is K


def test_layers_follow_the_switch():
    kbench.set_floatx("float64")
    kbench.set_image_data_format("channels_first")
    layer = layers.Conv2D(2, 3)
    assert K.int_shape(layer(layers.Input((1, 8, 8)))) == (None, 2, 6, 6)
    assert layer.get_weights()[0].dtype == "float64"
    assert K.cast_to_floatx(np.ones(1, "float32")).dtype == "float64"
    with pytest.raises(ValueError, match="float3"):
        K.set_floatx("float3")


def test_names_that_keras_exports_for_others_only():
    for name in "clear_session get_session set_session manual_variable_initialization".split():
        assert getattr(K, name) is getattr(kbench, name)
    assert K.pattern_broadcast is kbench.pattern_broadcast


def test_results_of_rank_0_are_numbers():
    """They are rounded, looked up and put in tables; kbench's own functions keep arrays."""
    assert repr(K.eval(K.constant(1.0))) == "np.float32(1.0)"
    assert repr(kbench.eval(K.constant(1.0))) == "array(1., dtype=float32)"
    variables = [K.variable(0.5, dtype="float64"), K.variable([2.0])]
    assert round(K.get_value(variables[0]), 1) == 0.5
    results = K.batch_get_value(variables)
    compute = K.function([], [K.sum(variables[1]), variables[1]], name="both")
    for number, array in (results, compute([])):
        assert np.isscalar(number)
        assert isinstance(array, np.ndarray)
    assert compute.name == "both"
    model = keras.Sequential([layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse", ["mae"])
    x, y = np.ones((4, 2)), np.ones((4, 1))
    assert all(np.isscalar(one) for one in model.train_on_batch(x, y))
    assert all(np.isscalar(one) for one in model.fit(x, y, verbose=0).history["mae"])
    with pytest.raises(ValueError, match="function: unknown argument 'nothing'"):
        K.function([], [], nothing=1)


def test_clear_session():
    first = layers.Dense(2)
    output = first(layers.Input((3,)))
    assert first.name == "dense_1"
    K.set_learning_phase(1)
    K.clear_session()
    assert layers.Dense(2).name == "dense_1"
    assert not isinstance(K.learning_phase(), int)
    with pytest.raises(ValueError, match="clear_session"):
        K.function([], [output])


def test_errors_name_the_users_line():
    """Not a line of Keras or kbench between the user and the operation."""
    with pytest.raises(kbench.ShapeError) as caught:
        layers.Lambda(lambda x: K.dot(x, K.ones((4, 5))))(layers.Input((3,)))
    assert "test_client.py" in str(caught.value)
    assert "dot" in str(caught.value)


# ------------------------------------------------------------------ what is not there


UNSUPPORTED = [
    ("TensorBoard", lambda: keras.callbacks.TensorBoard(), RuntimeError, "CSVLogger"),
    ("multi_gpu_model", lambda: keras.utils.multi_gpu_model(None, 2), ValueError, "all cores"),
    ("CuDNNLSTM", lambda: layers.CuDNNLSTM(2), RuntimeError, "use LSTM"),
    ("CuDNNGRU", lambda: layers.CuDNNGRU(2), RuntimeError, r"GRU\(reset_after=True\)"),
    ("TFOptimizer", lambda: keras.optimizers.TFOptimizer(None), RuntimeError, "such as Adam"),
]


@pytest.mark.parametrize(
    ("name", "call", "error", "instead"), UNSUPPORTED, ids=[name for name, *_ in UNSUPPORTED]
)
def test_what_needs_tensorflow_says_what_to_use(name, call, error, instead):
    with pytest.raises(error, match=instead) as caught:
        call()
    assert name in str(caught.value)


class _Pydot:
    """What `plot_model` takes of pydot."""

    class Dot:
        def __init__(self):
            self.nodes, self.edges = {}, []

        def set(self, *_option):
            pass

        def set_node_defaults(self, **_options):
            pass

        def add_node(self, node):
            self.nodes[node.name] = node

        def get_node(self, name):
            return self.nodes[name]

        def add_edge(self, edge):
            self.edges.append((edge.start, edge.end))

        @staticmethod
        def create(_dot):
            return b""

    class Node:
        def __init__(self, name, label):
            self.name, self.label = name, label

    class Edge:
        def __init__(self, start, end):
            self.start, self.end = start, end


def test_plotting_a_model(monkeypatch):
    """With pydot a drawing of layers and shapes; without it an error that says so."""
    model = keras.models.Sequential([layers.Dense(4, input_shape=(3,)), layers.Dense(2)])
    drawing = keras.utils.vis_utils
    monkeypatch.setattr(drawing, "pydot", None)
    with pytest.raises(ImportError, match="install `pydot`"):
        keras.utils.plot_model(model)
    monkeypatch.setattr(drawing, "pydot", _Pydot)
    dot = drawing.model_to_dot(model, show_shapes=True)
    assert [one.label.split("\n")[0] for one in dot.nodes.values()][1:] == [
        "dense_1: Dense",
        "dense_2: Dense",
    ]
    assert "(None, 4)" in list(dot.nodes.values())[1].label
    assert len(dot.edges) == 2


def test_python_is_left_as_it_was():
    assert not hasattr(collections, "Iterable")
    assert not hasattr(np, "Inf")
    assert keras.callbacks.callbacks.np.Inf == np.inf
    assert keras.callbacks.callbacks.np.mean is np.mean
