"""Keras' settings and those of K are the same: epsilon, floatx and image_data_format.

Whoever sets one sets both, so that the workbench shows, and sets, what Keras computes with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from kbench import backend as K
from kbench.api.operations import ArgumentError, on_setting

HELD = {"epsilon": "_EPSILON", "floatx": "_FLOATX", "image_data_format": "_IMAGE_DATA_FORMAT"}
"""The settings, and where `keras.src.backend.config` holds them."""
DEFAULTS = {"epsilon": 1e-7, "floatx": "float32", "image_data_format": "channels_last"}
"""With which Keras begins, until it reads keras.json, as K has done."""


def join(module: ModuleType) -> None:
    """Make the settings of Keras' module those of K, from now on."""

    def take(name: str) -> None:
        if name in HELD:
            setattr(module, HELD[name], getattr(K, name)())

    for name in HELD:
        setter = f"set_{name}"
        setattr(module, setter, _of_both(getattr(module, setter), getattr(module, name), name))
        if getattr(K, name)() != DEFAULTS[name]:  # by keras.json, the environment, a program
            take(name)
    on_setting(take)


def _of_both(
    own: Callable[[Any], None], known: Callable[[], Any], name: str
) -> Callable[[Any], None]:
    """A setter of Keras that sets the same for K. K has no bfloat16 and stays as it is then."""

    @functools.wraps(own)
    def set_both(*given: Any, **named: Any) -> None:
        before = known()
        own(*given, **named)
        try:
            getattr(K, f"set_{name}")(known())
        except ArgumentError:
            if name != "floatx":
                own(before)
                raise

    return set_both
