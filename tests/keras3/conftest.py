"""Tests of Keras 3 on kbench, which only an environment with Keras 3 collects: see `.ci/run`."""

import os
from importlib.metadata import PackageNotFoundError, version

try:
    has_keras_3 = version("keras").startswith("3.")
except PackageNotFoundError:
    has_keras_3 = False
if has_keras_3:
    os.environ["KERAS_BACKEND"] = "kbench"
else:
    collect_ignore_glob = ["test_*.py"]
