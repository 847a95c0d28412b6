"""What NumPy, Python and others are given of a tensor that holds a value: that value, as it is now.

A variable or a constant is an array to all who ask for one: functions of NumPy, libraries that
plot, `float(x)`, DLPack. They get a copy, and what they compute is an array, which no gradient
passes. Operators are the graph's: `array + x` is a tensor. Any other tensor has no value to give
(`Tensor.__array__` says what to do instead).
"""

from __future__ import annotations

from typing import Any

import numpy as np

CPU = (1, 0)  # kind and number of the device, as DLPack counts them


class Known:
    """The protocols of a tensor that holds a value, which `window` tells."""

    def window(self) -> np.ndarray:
        """The value without a copy, dense and read-only."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        window = self.window()
        if copy is not False:
            return np.array(window, dtype=dtype)
        if dtype is not None and np.dtype(dtype) != window.dtype:
            raise ValueError(f"the value is {window.dtype}, and {np.dtype(dtype)} needs a copy")
        return window

    def to_numpy(self) -> np.ndarray:
        """A copy of the value, under the name by which plotting libraries look for it."""
        return np.array(self.window())

    def __dlpack__(self, **options: Any) -> Any:
        if options.get("copy") is False:
            raise BufferError("a tensor gives a copy of its value; it cannot be shared")
        given = {name: one for name, one in options.items() if one is not None and name != "copy"}
        return self.to_numpy().__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    def __float__(self) -> float:
        return float(self._number("float"))

    def __int__(self) -> int:
        return int(self._number("int"))

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._number("float").item(), digits)

    def __format__(self, form: str) -> str:
        return format(self._number("float"), form) if form else str(self)

    def _number(self, wanted: str) -> Any:
        window = self.window()
        if window.ndim:
            told = self._told()  # type: ignore[attr-defined]
            raise TypeError(
                f"{wanted}: {told} is no single number; K.eval(x) gives all that it holds"
            )
        return window[()]
