"""`keras.ops` of `linalg`: none of it is there yet."""

from __future__ import annotations

from typing import Any

from kbench.keras3.numpy import absent


def __getattr__(name: str) -> Any:
    return absent("keras.ops", name)
