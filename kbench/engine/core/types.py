"""Types that the whole engine shares, each with one meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray

Dim = int | None
"""The size of an axis, None where it is unknown."""

Shape = tuple[Dim, ...]
"""A static shape."""

Axis = int | Sequence[int] | None
"""An argument that names axes: one, several, or None for all of them."""

Sizes = int | Sequence[int]
"""An argument with a number for each axis, or one for all: strides, windows, dilation."""

Ints = tuple[int, ...]
"""Whole numbers: the shape of an array, checked strides."""

Axes = tuple[int, ...]
"""Numbers of axes, checked: none is negative, none is there twice."""

CancelCheck = Callable[[], object]
"""What is called between the tiles of a long run; it raises KeyboardInterrupt to stop it."""

Attrs = dict[str, Any]
"""What an operation is given besides its operands, under the names of its rule: axes, flags,
bodies of loops. Each rule knows the types of its own."""

Row = dict[str, Any]
"""Plain data under names, as interfaces read it: texts, numbers, lists and rows."""

KernelCall = Callable[..., None]
"""A kernel as it is called: the array for the result first, then the operands and what else it
takes; most end with `cancel_check`."""

KernelArguments = tuple[*tuple[Array, ...], CancelCheck | None]
"""What a kernel takes behind the array for its result, where all of it are arrays: they, and
`cancel_check`."""
