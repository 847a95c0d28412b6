"""Sources of pooling whose lanes are channels: windows that lie inside go side by side.

`gather` owns rows of the result; `route` owns a strip of rows of the input and visits every window
that reaches into it. What it adds up there may be made in scratch, and written past the caches at
the end. Every size is in elements.
"""

from __future__ import annotations

NAMES = ("max", "max_past", "average", "average_past", "added", "written", "written_past",
         "shared", "shared_past")  # fmt: skip
"""The loops of `sources/channel_tiles.py`."""

GATHER, ROUTE, TILES = (
    f"kernels/pool/sources/channel_{name}" for name in ("gather", "route", "tiles")
)
