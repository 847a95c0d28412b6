"""Sources of Winograd's convolution: the transforms, and the kernel that runs tiles of outputs.

One item transforms some rows of four by four tiles, multiplies the 36 planes by those of the
kernel, and transforms the sums back; all of it stays in the second cache. Filters may come in
groups, each with its own phase of the result's rows and columns: the phases of a convolution with
strides, in the gradient to its input.
"""

from __future__ import annotations

GATHER, REDUCE, TILES, WEIGHTS = (
    f"kernels/winograd/sources/{name}" for name in ("gather", "reduce", "tiles", "weights")
)
NAMES = ("into", "back", "spread", "weights", "totals")
"""The transforms of `sources/tiles.py`."""
