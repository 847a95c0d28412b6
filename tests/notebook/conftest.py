"""Settings and graph as they were, and no widget left, after every test of the notebook side."""

from __future__ import annotations

from collections.abc import Iterator

import ipywidgets
import pytest

from kbench import backend as K
from kbench.engine import config


@pytest.fixture(autouse=True)
def default_settings() -> Iterator[None]:
    K.clear_session()  # names count anew, whatever other tests have made
    yield
    ipywidgets.Widget.close_all()
    for name, value in (
        ("epsilon", 1e-7), ("floatx", "float32"), ("image_data_format", "channels_last")
    ):  # fmt: skip
        config.assign(name, value)
    K.clear_session()
