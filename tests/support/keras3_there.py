"""Imported first by tests of Keras 3: they are skipped where the environment has another Keras."""

import os
from importlib.metadata import PackageNotFoundError, version

import pytest

try:
    FOUND = version("keras")
except PackageNotFoundError:
    FOUND = "none"
if not FOUND.startswith("3."):
    pytest.skip(
        f"Keras here is {FOUND}; Keras 3 and Keras 2.3.1 are one package, so .ci/run has an "
        "environment of its own for these tests",
        allow_module_level=True,
    )

os.environ["KERAS_BACKEND"] = "kbench"
import kbench  # noqa: E402, F401  # before keras: it makes itself known as a backend
