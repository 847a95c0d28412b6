"""Which of Keras, kbench and KERAS_BACKEND comes first, which Keras is there, and what is said."""

import keras3_there  # noqa: F401  # isort: skip
import json
import os
import subprocess
import sys

import keras
import pytest

SLOW = pytest.mark.slow  # a process that imports Keras
CHOSEN = {"KERAS_BACKEND": "kbench"}
PRINT = "; print(keras.config.backend(), keras.ops.sum([1, 2]))"


def _fresh(code, home, environment, path=()):
    """Output and errors of a new Python."""
    kept = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    places = os.pathsep.join([*map(str, path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {"KERAS_HOME": str(home), "PYTHONPATH": places} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout.strip(), done.stderr


@SLOW
@pytest.mark.parametrize(
    ("code", "environment", "file"),
    [
        ("import kbench, keras", CHOSEN, None),
        ("import keras_kbench, keras", CHOSEN, None),
        ("import kbench, os; os.environ['KERAS_BACKEND'] = 'kbench'; import keras", {}, None),
        ("import kbench, keras", {}, {"backend": "kbench"}),
    ],
)
def test_the_backend_is_found(code, environment, file, tmp_path):
    if file:
        (tmp_path / "keras.json").write_text(json.dumps(file))
    shown, errors = _fresh(code + PRINT, tmp_path, environment)
    assert shown == "kbench 3", errors
    assert errors == f"Using kbench backend with Keras {keras.__version__}.\n"


ASKED = "import kbench\ntry: import keras\nexcept ImportError as error: print(error)"


def _package(folder, version, files):
    """A package keras of that version, whose modules are these."""
    for name, text in files.items():
        path = folder / "keras" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    meta = folder / f"keras-{version}.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: keras\nVersion: {version}\n")


def _new_keras(folder, version):
    """A later Keras 3, whose choice of a backend looks otherwise."""
    modules = {
        "__init__": "from keras.src import backend\n",
        "src/__init__": "",
        "src/backend/__init__": "import tensorflow\n",
        "src/backend/config": "",
    }
    _package(folder, version, modules)


def test_an_unknown_keras_3_is_named(tmp_path):
    _new_keras(tmp_path, "3.99.1")
    shown, errors = _fresh(ASKED, tmp_path, CHOSEN, [tmp_path])
    assert shown == (
        "Keras 3.99.1 is not known: kbench was tested with Keras 2.3.1 and 3.15.1; "
        "pip install 'keras==3.15.1' (or keras==2.3.1, for programs of Keras 2)"
    ), errors


def test_a_keras_of_tensorflow_alone_is_named(tmp_path):
    _package(tmp_path, "2.15.0", {"__init__": "import tensorflow\n"})
    shown, errors = _fresh(ASKED, tmp_path, CHOSEN, [tmp_path])
    assert shown.startswith("Keras 2.15.0 runs on TensorFlow alone, and kbench was tested"), errors


def test_keras_without_a_backend_is_told_of_kbench(tmp_path):
    _new_keras(tmp_path, "3.99.1")
    shown, errors = _fresh(ASKED, tmp_path, {}, [tmp_path])
    assert shown.startswith("No module named 'tensorflow'; kbench is imported and is"), errors
    assert "set KERAS_BACKEND=kbench in the environment" in shown
    shown, errors = _fresh(ASKED, tmp_path, {"KERAS_BACKEND": "numpy"}, [tmp_path])
    assert shown == "No module named 'tensorflow'", errors


@SLOW
def test_what_an_import_does_not_need_is_not_loaded(tmp_path):
    code = "import kbench, keras, sys; print(sorted(sys.modules))"
    shown, errors = _fresh(code, tmp_path, CHOSEN)
    assert shown, errors
    slow = {"scipy.signal", "scipy.stats", "scipy.linalg", "scipy.special", "numba"}
    assert not slow & set(json.loads(shown.replace("'", '"')))
