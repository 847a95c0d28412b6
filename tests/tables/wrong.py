"""One row of the table of wrong calls: what is called, and what the error must say.

Rows stand in `wrong_<family>.py`, in a list named WRONG; `test_wrong_calls.py` runs them. A call
makes what it needs inside itself: tensors made while the table is imported belong to another
session. `x` and `v` give it operands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench import backend as K


@dataclass(frozen=True)
class Wrong:
    """A wrong call of a public function, which may fail when it is built or when it is evaluated.

    `function` is what the error calls it: the name in K, or the operator. `says` are parts of the
    message, such as each operand's `dtype[shape]`.
    """

    function: str
    call: Callable[[], Any]
    error: type[BaseException]
    says: tuple[str, ...] = ()

    def __str__(self) -> str:
        code = self.call.__code__
        return f"{self.function}-line{code.co_firstlineno}"


def x(*shape: int | None, dtype: str = "float32") -> Any:
    """A placeholder of that shape; None is a size that is not known."""
    return K.placeholder(shape, dtype=dtype)


def v(*shape: int, dtype: str = "float32") -> Any:
    """A variable of that shape that holds ones."""
    return K.variable(np.ones(shape), dtype=dtype)


def fed(tensor: Any, *pairs: tuple[Any, Any]) -> Any:
    """The value of a tensor with what is fed to its placeholders."""
    return tensor.eval(feed_dict=dict(pairs))
