"""Arrays out of nothing: constants, ranges, windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.dtypes import result_type

from kbench import backend as K
from kbench.api.operations import numpy_call
from kbench.keras3.calls.host import host, operand
from kbench.keras3.complex_numbers.refusal import is_complex, real_only
from kbench.keras3.numpy import elementwise, layout
from kbench.keras3.tensor import (
    PARTS,
    Traced,
    converted,
    from_held,
    held_spec,
    is_traced,
    plain,
    to_held,
)


def _dtype(dtype: Any) -> str:
    return str(standardize_dtype(dtype or config.floatx()))


def zeros(shape: Any, dtype: Any = None) -> np.ndarray:
    """Zeros of a shape."""
    return np.zeros(_shape(shape), _dtype(dtype))


def ones(shape: Any, dtype: Any = None) -> np.ndarray:
    """Ones of a shape."""
    return np.ones(_shape(shape), _dtype(dtype))


def empty(shape: Any, dtype: Any = None) -> np.ndarray:
    """Zeros of a shape: what is called empty is never what memory held before."""
    return zeros(shape, dtype)


def _shape(shape: Any) -> Any:
    return int(shape) if np.ndim(shape) == 0 else tuple(int(size) for size in shape)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """One value, repeated to a shape."""
    value = operand(fill_value)
    if is_traced(value):
        return layout.broadcast_to(elementwise.cast(value, _dtype(dtype)), shape)
    return np.full(_shape(shape), converted(np.asarray(value), _dtype(dtype)))


def _like(x: Any, dtype: Any) -> tuple[Any, str]:
    x = layout.known(x)
    return tuple(x.shape), standardize_dtype(dtype or x.dtype)


def zeros_like(x: Any, dtype: Any = None) -> np.ndarray:
    """Zeros of the shape of `x`, and of its dtype where none is given."""
    return np.zeros(*_like(x, dtype))


def ones_like(x: Any, dtype: Any = None) -> np.ndarray:
    """Ones of the shape of `x`, and of its dtype where none is given."""
    return np.ones(*_like(x, dtype))


def empty_like(x: Any, dtype: Any = None) -> np.ndarray:
    """Zeros of the shape of `x`."""
    return zeros_like(x, dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Any:
    """One value in the shape of `x`."""
    shape, wanted = _like(x, dtype)
    return full(shape, fill_value, wanted)


def array(x: Any, dtype: Any = None) -> Any:
    """An array of anything that has elements."""
    from kbench.keras3.core import convert_to_tensor

    return convert_to_tensor(x, dtype=dtype)


def view(x: Any, dtype: Any = None) -> Any:
    """The same bytes read as another dtype; without one, as they are."""
    x = layout.known(x)
    wanted = str(x.dtype) if dtype is None else standardize_dtype(dtype)
    if is_traced(x):
        if wanted == x.dtype:
            return x
        if x.shape and PARTS.get(x.dtype) == wanted:
            return Traced(K.reshape(x.held, (*x.shape[:-1], 2 * x.shape[-1])))
        if x.shape and PARTS.get(wanted) == x.dtype and x.shape[-1] % 2 == 0:
            return Traced(K.reshape(x.held, (*x.shape[:-1], x.shape[-1] // 2, 2)), wanted)
        return _read_as(x, wanted)
    return x.view(wanted).copy()


def _read_as(x: Traced, wanted: str) -> Any:
    """The bytes of a symbol as another dtype; ValueError where the last axis does not come out."""
    kept = np.empty(x.shape, x.dtype).view(wanted)  # whose dtypes NumPy knows by name

    def view(array: np.ndarray) -> np.ndarray:
        return to_held(np.ascontiguousarray(from_held(array, x.dtype)).view(wanted).copy())

    return Traced(numpy_call(view, [x.held], held_spec(kept.shape, wanted)), wanted)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> np.ndarray:
    """Numbers from a start to a stop, which is left out, by a step."""
    given = [one for one in (start, stop, step) if one is not None]
    real_only("arange", start=start, stop=stop, step=step)
    if dtype is None:
        kinds = [getattr(plain(one), "dtype", type(one)) for one in given]
        dtype = result_type(*kinds)
    wanted = standardize_dtype(dtype)
    ends = (0, start) if stop is None else (start, stop)
    numbers: Any = [x if isinstance(x, (int, float)) else np.asarray(plain(x)) for x in ends]
    numbers.append(1 if step is None else plain(step))
    found = np.arange(*numbers)
    return np.asarray(found.astype(wanted))


def eye(N: int, M: Any = None, k: int = 0, dtype: Any = None) -> np.ndarray:
    """Ones on a diagonal, zeros elsewhere."""
    return np.eye(int(N), None if M is None else int(M), int(k)).astype(_dtype(dtype))


def identity(n: int, dtype: Any = None) -> np.ndarray:
    """Ones on the diagonal of a square."""
    return eye(n, dtype=dtype)


def tri(N: int, M: Any = None, k: int = 0, dtype: Any = None) -> np.ndarray:
    """Ones at and below a diagonal."""
    return np.tri(int(N), None if M is None else int(M), int(k)).astype(_dtype(dtype))


def _window(name: str, form: Any) -> Any:
    def call(x: Any) -> np.ndarray:
        return np.asarray(form(int(plain(x)))).astype(config.floatx())

    call.__name__ = name
    return call


bartlett = _window("bartlett", np.bartlett)
blackman = _window("blackman", np.blackman)
hamming = _window("hamming", np.hamming)
hanning = _window("hanning", np.hanning)


def kaiser(x: Any, beta: Any) -> np.ndarray:
    """Kaiser's window of `x` points."""
    return np.kaiser(int(plain(x)), float(plain(beta))).astype(config.floatx())


def ndim(x: Any) -> int:
    """The number of axes."""
    return len(layout.known(x).shape)


def size(x: Any) -> int:
    """The number of elements."""
    return int(np.prod(layout.known(x).shape, dtype=int))


def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """The powers of every entry of a vector, a row for each."""
    if is_traced(x) and is_complex(x):
        count = x.shape[0] if N is None else int(N)
        powers = np.arange(count) if increasing else np.arange(count)[::-1]
        return elementwise.power(layout.expand_dims(x, 1), powers.astype("int32"))
    return _vander(x, N, increasing)


@host(
    1,
    lambda g, y, x, N=None, increasing=False: (_vander_back(g, x, N, increasing),),
    name="vander",
    of_complex=None,
)
def _vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    return np.vander(x, N, increasing)


def _vander_back(g: Any, x: Any, count: Any, increasing: bool) -> Any:
    size = x.spec.shape[0] if count is None else count
    powers = np.arange(size) if increasing else np.arange(size)[::-1]
    slopes = [p * K.pow(x, int(p) - 1) * g[:, i] if p else 0 * x for i, p in enumerate(powers)]
    total = slopes[0]
    for slope in slopes[1:]:
        total = total + slope
    return total
