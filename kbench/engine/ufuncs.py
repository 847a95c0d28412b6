"""What NumPy's functions are told that meet a tensor: operators of arrays work, others say why not.

`array + tensor` reaches `np.add`, and is the tensor's business; `np.tanh(tensor)` cannot be
computed before the tensor is evaluated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_OPERATORS = {  # of arrays, by the ufunc that carries each of them out
    "add": ("__add__", "+"),
    "subtract": ("__sub__", "-"),
    "multiply": ("__mul__", "*"),
    "divide": ("__truediv__", "/"),
    "floor_divide": ("__floordiv__", "//"),
    "remainder": ("__mod__", "%"),
    "power": ("__pow__", "**"),
    "matmul": ("__matmul__", "@"),
    "bitwise_and": ("__and__", "&"),
    "bitwise_or": ("__or__", "|"),
    "bitwise_xor": ("__xor__", "^"),
    "less": ("__lt__", "<"),
    "less_equal": ("__le__", "<="),
    "greater": ("__gt__", ">"),
    "greater_equal": ("__ge__", ">="),
}
_SAME = "exp log sqrt square sign sin cos tanh maximum minimum equal not_equal".split()
FUNCTIONS = {  # of K, by the ufunc that does the same
    **{name: name for name in _SAME},
    "absolute": "abs",
    "fabs": "abs",
    "rint": "round",
    "conjugate": "identity",
}
FOLDS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
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
    **dict.fromkeys(("numpy", "item", "tolist", "get_value"), "K.eval(x)"),
    **dict.fromkeys(("set_value", "fill", "assign"), "K.set_value(x, value) of a variable"),
}


def operator_of(ufunc: Any, way: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The operator that an array on the left asked for; None when it was another call."""
    left = inputs[0]
    if way != "__call__" or len(inputs) != 2 or not isinstance(left, (np.ndarray, np.generic)):
        return None
    into = options.get("out", (left,))
    if set(options) - {"out"} or into[0] is not left:
        return None
    return _OPERATORS.get(ufunc.__name__, (None,))[0]


def is_comparison(ufunc: Any, way: str, inputs: tuple[Any, ...]) -> bool:
    """True for `array == tensor` and `array != tensor`, which compare identity."""
    arrays = isinstance(inputs[0], (np.ndarray, np.generic))
    return arrays and way == "__call__" and ufunc in (np.equal, np.not_equal)


def refusal(ufunc: Any, way: str, told: str) -> TypeError:
    """The error for every other function of NumPy; `told` names the tensor."""
    name = ufunc.__name__
    call = f"np.{name}" + ("" if way == "__call__" else f".{way}")
    if way == "__call__" and name in _OPERATORS:
        instead = f"write x {_OPERATORS[name][1]} y"
    elif way == "__call__" and name in FUNCTIONS:
        instead = f"use K.{FUNCTIONS[name]}"
    elif way == "reduce" and name in FOLDS:
        instead = f"use K.{FOLDS[name]}"
    else:
        instead = "use functions of K"
    return TypeError(
        f"{call} takes arrays, but {told} is symbolic: {instead}, or give it the value, "
        "which K.eval(x) computes"
    )
