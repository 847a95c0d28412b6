"""Settings and graph as they were, after every test of the notebook side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kbench import backend as K
from kbench.engine import config


@pytest.fixture(autouse=True)
def default_settings() -> Iterator[None]:
    yield
    for name, value in (
        ("epsilon", 1e-7), ("floatx", "float32"), ("image_data_format", "channels_last")
    ):  # fmt: skip
        config.assign(name, value)
    K.clear_session()
