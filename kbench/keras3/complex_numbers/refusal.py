"""Errors for complex numbers where a function takes real ones, or where a part would get lost.

Knows arrays and symbols by their shape and dtype alone.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np

from kbench.api.operations import DtypeError, Spec

BY_ORDER = frozenset(
    "adaptive_max_pool amax amin argmax argmin argpartition argsort clip digitize fmax fmin "
    "greater greater_equal hard_sigmoid hard_tanh histogram in_top_k leaky_relu less less_equal "
    "max max_pool maximum median min minimum nanargmax nanargmin nanmax nanmedian nanmin "
    "nanpercentile nanquantile percentile ptp quantile relu relu6 searchsorted segment_max "
    "segment_min sort threshold top_k".split()
)
"""Functions that ask which number is larger."""
_METHODS = ("call", "static_call", "compute_output_spec")
"""Methods of operations of Keras, whose class has the name of the function."""


def spec_of(x: Any) -> str:
    """`dtype[shape]` of an array, a symbol, or a number of Python."""
    dtype = str(getattr(x, "dtype", None) or "complex64")
    return str(Spec(tuple(getattr(x, "shape", ())), dtype))


def is_complex(x: Any) -> bool:
    """Whether it is an array, a symbol or a number of complex numbers."""
    dtype = getattr(x, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype.kind == "c"
    return isinstance(x, complex) if dtype is None else "complex" in str(dtype)


def _is_between(frame: FrameType) -> bool:
    """Whether it runs what stands between the function of Keras and the error."""
    module = str(frame.f_globals.get("__name__"))
    return module.startswith(("kbench.keras3.", "keras.src.tree", "optree"))


def _asked(x: Any) -> tuple[str, str]:
    """The function of Keras that was called, and what it calls this operand."""
    frame: FrameType | None = sys._getframe(2)
    name = ""
    while frame is not None and _is_between(frame):
        name, frame = frame.f_code.co_name.strip("_"), frame.f_back
    if frame is None:
        return name, "x"
    given = frame.f_locals
    if str(frame.f_globals.get("__name__")).startswith("keras."):
        name = frame.f_code.co_name.strip("_")
        if name in _METHODS:
            name = type(given.get("self")).__name__.lower()
    return name, next((role for role, one in given.items() if one is x), "x")


def refused(x: Any, name: str | None = None, role: str | None = None) -> DtypeError:
    """The error of a function that takes real numbers only."""
    called, found = _asked(x) if name is None else (name, "x")
    reason = f"{called or 'it'} takes real numbers"
    if called in BY_ORDER:
        reason = "complex numbers have no order"
    return DtypeError(f"{role or found} is {spec_of(x)}, and {reason}", function=called)


def real_only(name: str, **operands: Any) -> None:
    """DtypeError where an operand is complex; each is given by its name."""
    for role, x in operands.items():
        if is_complex(x):
            raise refused(x, name, role)


def whole_only(name: str, **operands: Any) -> None:
    """DtypeError where an operand is no array of integers; each is given by its name."""
    real_only(name, **operands)
    for role, x in operands.items():
        kind = str(x.dtype) if hasattr(x, "dtype") else type(x).__name__
        if "int" not in kind:
            told = spec_of(x) if hasattr(x, "dtype") else repr(x)
            raise DtypeError(f"{role} is {told}; only integers name a place", function=name)


def loses_a_part(x: Any, dtype: str) -> DtypeError:
    """The error of a conversion that would drop imaginary parts."""
    called, role = _asked(x)
    return DtypeError(
        f"{role} is {spec_of(x)}, and {dtype} has no imaginary part; keras.ops.real gives the real "
        "parts, keras.ops.absolute the sizes",
        function=called,
    )
