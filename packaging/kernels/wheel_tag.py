"""The wheel of kernels holds machine code: it is for Linux on one architecture, and any Python."""

from __future__ import annotations

import platform
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelTag(BuildHookInterface):  # type: ignore[type-arg]
    """Names the architecture in the wheel's file name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Kernels call nothing but functions that every C library of Linux has."""
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_17_{platform.machine()}"
