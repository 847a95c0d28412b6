"""Every tab of the explorer on names and objects that no program should have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sampling import every
from seen import text_of
from waiting import wait_for

from kbench import backend as K
from kbench.notebook import TensorView, explorer

SCRIPT = "<script>alert(1)</script>"


class Evil:
    """Raises whatever it is asked."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError(SCRIPT)

    def __len__(self) -> int:
        raise RuntimeError(SCRIPT)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError(SCRIPT)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def values() -> dict[str, Any]:
    objects = np.empty(1, object)
    objects[0] = Evil()
    x = K.placeholder((None, None, 3), name=SCRIPT)
    v = K.variable([1.0, np.nan], name="v")
    return {
        "evil": Evil(),
        SCRIPT: v,
        "\u202ebidi\x1b[31m": np.array([np.inf, -np.inf]),
        "a" * 500: np.zeros(3),
        "empty": np.zeros((0, 3)),
        "objects": objects,
        "text": np.array(["x", SCRIPT]),
        "complex": np.array([1j]),
        "huge": np.broadcast_to(np.float32(1), (10**5, 10**5)),
        "scalar": np.float64(2),
        "extremes": np.array([[1e308, -1e308]]),
        "list": [np.ones(2)] * 3,
        "none": None,
        "tensor": K.sum(x * 2),
        "loss": K.mean(K.square(v)),
    }


@pytest.mark.parametrize("name", every(3, values()))
def test_no_name_and_no_value_breaks_a_tab(name: str, caplog: pytest.LogCaptureFixture) -> None:
    whole = explorer(values())
    whole._repr_mimebundle_()
    whole.choose(name)
    for place, part in enumerate(whole._tabs):
        whole.selected_index = place
        wait_for(lambda: not any(one.redraws.throttle._due for one in whole._parts))
        twin = part._static_bundle()
        assert len(twin["text/html"].encode()) <= 13_000 and twin["text/plain"]
        text_of(twin["text/html"])
        assert "\u202e" not in twin["text/html"] and "\x1b" not in twin["text/html"]
    if whole.view is not None:
        for mode in ("heat map", "image", "histogram", "numbers"):
            whole.view.mode.value = mode
            whole.view.refresh()
            text_of(whole.view._body.value)
            assert len(whole.view._body.value) <= 160_000
    whole.close()
    assert caplog.records == []


def test_what_is_no_array_is_refused_in_words() -> None:
    with pytest.raises(Exception, match="Evil is not an array"):
        TensorView(Evil(), "evil")
