"""What several tests of Keras 3 ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Results as precise as operands, as Keras has them on TensorFlow; else many are float32."""
    from keras.src.backend.common import dtypes

    from kbench.keras3.calls import host
    from kbench.keras3.calls.planned import plans
    from kbench.keras3.numpy import elementwise

    def forget() -> None:
        host._common.cache_clear()
        elementwise._met.cache_clear()
        plans.clear()

    monkeypatch.setitem(dtypes.BIT64_TO_BIT32_DTYPE, "float64", "float64")
    monkeypatch.setattr(host, "_dtypes", {})
    monkeypatch.setattr(host, "_as_it_is", {})
    forget()
    yield
    forget()
