"""Keras 2.3.1 on kbench, for the tests of this folder alone.

KERAS_BACKEND and KERAS_HOME are set only while Keras is being imported: kbench reads them too, and
workers share their process with other tests. Keras writes a keras.json at its import, into a
folder of its own here. What it says at its import, and what Python warns of in its modules, is its
own business.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import random
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kbench import backend as K

FOLDER = Path(__file__).parent
HOME = tempfile.mkdtemp(prefix="keras-", dir=os.environ["KBENCH_TEST_HOME"])


def _import_keras() -> None:
    names = {"KERAS_BACKEND": "kbench", "KERAS_HOME": HOME}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            importlib.import_module("keras")
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_import_keras()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let warnings of Keras' own modules pass; those of kbench stay errors."""
    inside = f"{FOLDER}{os.sep}"
    for item in items:
        if str(item.path).startswith(inside):
            for module in ("keras", "keras_preprocessing", "keras_applications"):
                item.add_marker(pytest.mark.filterwarnings(rf"ignore:::{module}\."))


@pytest.fixture(autouse=True)
def clean_session() -> Iterator[None]:
    """The same random numbers in every run; no graph, name or learning phase is left behind."""
    np.random.seed(1234)
    random.seed(1234)
    yield
    K.clear_session()
