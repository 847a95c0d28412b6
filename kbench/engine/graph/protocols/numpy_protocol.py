"""What NumPy, Python and others are given of a tensor: its value, or what to write instead.

A variable or a constant is an array to all who ask for one (`HoldsValue`): functions of NumPy,
libraries that plot, `float(x)`, DLPack. They get a copy of the value as it is now, and what they
compute is an array, which no gradient passes. For any other tensor the error names the function of
NumPy that asked, and that of K which does the same. Operators never come here: an array on the left
leaves them to the tensor, whose priority is higher.
"""

from __future__ import annotations

import itertools
import linecache
import re
import sys
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

OPERATORS = {  # by the ufunc that carries each of them out
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "//",
    "remainder": "%",
    "power": "**",
    "matmul": "@",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_SAME = """exp log sqrt square sign sin cos tanh maximum minimum equal not_equal sum mean max min
prod std var any all argmax argmin cumsum cumprod dot concatenate stack transpose reshape squeeze
expand_dims tile clip round size zeros_like ones_like""".split()
FUNCTIONS = {  # of K, by the function of NumPy that does the same
    **{name: name for name in _SAME},
    "absolute": "abs",
    "fabs": "abs",
    "rint": "round",
    "conjugate": "identity",
    "amax": "max",
    "amin": "min",
    "ravel": "flatten",
    "flip": "reverse",
    "take": "gather",
    "where": "switch",
    "repeat": "repeat_elements",
    "add.reduce": "sum",
    "multiply.reduce": "prod",
    "maximum.reduce": "max",
    "minimum.reduce": "min",
    "logical_and.reduce": "all",
    "logical_or.reduce": "any",
}


_FOLDED = "sum mean max min prod std var any all argmax argmin cumsum cumprod".split()
METHODS = {  # what to write for methods and attributes that arrays have and tensors do not
    **{name: f"K.{name}(x, axis)" for name in _FOLDED},
    "T": "K.transpose(x)",
    "transpose": "K.permute_dimensions(x, pattern)",
    "reshape": "K.reshape(x, shape)",
    "flatten": "K.flatten(x)",
    "ravel": "K.flatten(x)",
    "dot": "K.dot(x, y)",
    "astype": "K.cast(x, dtype)",
    "clip": "K.clip(x, low, high)",
    "round": "K.round(x)",
    "squeeze": "K.squeeze(x, axis)",
    "size": "K.size(x)",
    "repeat": "K.repeat_elements(x, rep, axis)",
    "copy": "K.identity(x)",
    **dict.fromkeys(("numpy", "to_numpy", "item", "tolist", "get_value"), "K.eval(x)"),
    **dict.fromkeys(("set_value", "fill", "assign"), "K.set_value(x, value) of a variable"),
}


_PARTS = ("fft", "linalg", "ma", "polynomial", "random", "testing")  # that users know by name


def refusal(told: str) -> TypeError:
    """The error for a tensor that NumPy asks for an array; `told` names the tensor."""
    name = _called(sys._getframe(2))
    if name in OPERATORS:
        instead = f"write x {OPERATORS[name]} y"
    elif name in FUNCTIONS:
        instead = f"use K.{FUNCTIONS[name]}"
    else:
        instead = "use functions of K"
    head = f"np.{name} takes arrays" if name else "NumPy takes arrays"
    return TypeError(
        f"{head}, but {told} is symbolic: {instead}, or give it the value, which K.eval(x) computes"
    )


def _called(frame: FrameType | None) -> str:
    """The function of NumPy that the frame is in, or is calling; empty where nothing tells it."""
    inside = None
    while frame is not None and _module(frame).partition(".")[0] == "numpy":
        inside, frame = frame, frame.f_back
    if inside is None:
        return "" if frame is None else _written(frame)
    name = inside.f_code.co_name
    part = _module(inside).split(".")[1:2]
    return f"{part[0]}.{name}" if part and part[0] in _PARTS else name


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _written(frame: FrameType) -> str:
    """The function of NumPy whose call stands where the frame is, read from the source."""
    code = frame.f_code
    place = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None), None)
    if place is None or place[0] is None or place[2] is None:
        return ""
    line = linecache.getline(code.co_filename, place[0], frame.f_globals)
    path = re.match(r"[A-Za-z_][\w.]*", line.encode()[place[2] :].decode(errors="replace"))
    if path is None:
        return ""
    first, *rest = path.group().split(".")
    found: object = frame.f_locals.get(first, frame.f_globals.get(first))
    while rest and isinstance(found, ModuleType):
        found = getattr(found, rest.pop(0), None)
    if isinstance(found, np.ufunc):
        return ".".join([found.__name__, *rest])
    ours = str(getattr(found, "__module__", None) or "").partition(".")[0] == "numpy"
    return str(getattr(found, "__name__", "")) if ours and not rest else ""


# ------------------------------------------------------------------ tensors that hold a value

_DLPACK_CPU = (1, 0)  # kind and number of the device, as DLPack counts them


class HoldsValue:
    """The protocols of a tensor that holds a value, which `window` tells."""

    def window(self) -> np.ndarray:
        """The value without a copy, dense and read-only."""
        raise NotImplementedError

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        window = self.window()
        if copy is not False:
            return np.array(window, dtype=dtype)
        if dtype is not None and np.dtype(dtype) != window.dtype:
            raise ValueError(f"the value is {window.dtype}, and {np.dtype(dtype)} needs a copy")
        return window

    def to_numpy(self) -> np.ndarray:
        """A copy of the value, under the name by which plotting libraries look for it."""
        return np.array(self.window())

    def __dlpack__(self, **options: Any) -> object:
        if options.get("copy") is False:
            raise BufferError("a tensor gives a copy of its value; it cannot be shared")
        given = {
            name: option
            for name, option in options.items()
            if option is not None and name != "copy"
        }
        return self.to_numpy().__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_CPU

    def __float__(self) -> float:
        return float(self._number("float"))

    def __int__(self) -> int:
        return int(self._number("int"))

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def __round__(self, digits: int | None = None) -> float:
        number: float = self._number("float").item()
        return round(number, digits)

    def __format__(self, form: str) -> str:
        return format(self._number("float"), form) if form else str(self)

    def _number(self, wanted: str) -> Any:
        window = self.window()
        if window.ndim:
            told = self._told()  # type: ignore[attr-defined]
            raise TypeError(
                f"cannot convert {told} to {wanted}: it is not a scalar; K.eval(x) gives its value"
            )
        return window[()]
