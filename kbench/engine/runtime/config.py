"""Settings, and where they come from.

Later wins: defaults; keras.json (see `keras_json.py`); environment; setters. Every change raises
`epoch()` and is emitted on `changed` with the setting's name.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.engine.core import fork_safety
from kbench.engine.core.errors import ArgumentError, shown
from kbench.engine.core.spec import FLOATS, is_whole
from kbench.engine.core.type_errors import numeric_array, refuse_masked
from kbench.engine.runtime import read_only, threads
from kbench.engine.runtime.environment import (
    MAX_THREADS,
    Setting,
    env,
    flag,
    one_of,
    whole_number,
)
from kbench.engine.runtime.signal import Signal

FORMATS = ("channels_last", "channels_first")
ORDERINGS = {"tf": "channels_last", "th": "channels_first"}

changed = Signal("config.changed")
_lock = fork_safety.lock()
_epoch = 0
_values: dict[str, Any] = {
    "epsilon": 1e-7,
    "floatx": "float32",
    "image_data_format": "channels_last",
    "num_threads": 0,
    "exact": None,
}


def _store(name: str, value: object) -> None:
    global _epoch
    with _lock:
        if _values.get(name) == value and type(_values.get(name)) is type(value):
            return
        read_only.refuse_change(f"set {name}")
        _values[name] = value
        threads.asked = int(_values["num_threads"])
        _epoch += 1
    changed.emit(name)


def notify_changed(name: str) -> None:
    """Tell listeners that a setting held elsewhere (the learning phase) has changed."""
    global _epoch
    with _lock:
        _epoch += 1
    changed.emit(name)


def epoch() -> int:
    """Counter of changes, to see cheaply whether anything was set since."""
    return _epoch


# ------------------------------------------------------------------ the Keras settings


def epsilon() -> float:
    """The fuzz factor used in numeric expressions.

    Returns:
        A Python float, 1e-07 by default.
    Source: Keras 2.3 `backend.epsilon`.

    >>> K.epsilon()
    1e-07
    """
    return float(_values["epsilon"])


def set_epsilon(e: float) -> None:
    """Set the fuzz factor; graphs built afterwards use it.

    Arguments:
        e: finite number of at least 0.
    Raises:
        ArgumentError: anything else, True and False among it.
    Source: Keras 2.3 `backend.set_epsilon`.

    >>> K.set_epsilon(1e-5)
    >>> K.epsilon()
    1e-05
    >>> K.set_epsilon(1e-7)
    """
    refuse_masked(e, "epsilon")
    flag = isinstance(e, (bool, np.bool_)) or getattr(e, "dtype", None) == "bool"
    given: Any = e
    try:
        value = float("" if flag or isinstance(given, bytes) or getattr(e, "ndim", 0) else given)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise ArgumentError(f"epsilon must be a finite number of at least 0, got {shown(e)}")
    _store("epsilon", value)


def floatx() -> str:
    """The default float dtype.

    Returns:
        'float16', 'float32' or 'float64'.
    Source: Keras 2.3 `backend.floatx`.

    >>> K.floatx()
    'float32'
    """
    return str(_values["floatx"])


def set_floatx(floatx: str) -> None:
    """Set the default float dtype; existing variables and tensors keep theirs.

    Arguments:
        floatx: 'float16', 'float32' or 'float64'.
    Raises:
        ArgumentError: anything else.
    Source: Keras 2.3 `backend.set_floatx`.

    >>> K.set_floatx("float64")
    >>> K.dtype(K.zeros((2,)))
    'float64'
    >>> K.set_floatx("float32")
    """
    if not isinstance(floatx, str) or floatx not in FLOATS:
        raise ArgumentError(f"floatx must be one of {', '.join(FLOATS)}, got {shown(floatx)}")
    _store("floatx", str(floatx))


def cast_to_floatx(x: object) -> Any:
    """An array in the default float dtype; NumPy in, NumPy out.

    Arguments:
        x: array, list or number.
    Returns:
        NumPy array of `floatx()`.
    Raises:
        DtypeError: no numbers. ArgumentError: rows of different lengths.
    Source: Keras 2.3 `backend.cast_to_floatx`.

    >>> K.cast_to_floatx([1.0, 2.0]).dtype
    dtype('float32')
    """
    with np.errstate(over="ignore"):
        return numeric_array(x).astype(floatx(), copy=False)


def image_data_format() -> str:
    """The layout of images used when a `data_format` argument is None.

    Returns:
        'channels_last' or 'channels_first'.
    Source: Keras 2.3 `backend.image_data_format`.

    >>> K.image_data_format()
    'channels_last'
    """
    return str(_values["image_data_format"])


def set_image_data_format(data_format: str) -> None:
    """Set the default layout of images.

    Arguments:
        data_format: 'channels_last' or 'channels_first'.
    Raises:
        ArgumentError: anything else.
    Source: Keras 2.3 `backend.set_image_data_format`.

    >>> K.set_image_data_format("channels_first")
    >>> K.image_data_format()
    'channels_first'
    >>> K.set_image_data_format("channels_last")
    """
    if not isinstance(data_format, str) or data_format not in FORMATS:
        raise ArgumentError(
            f"data_format must be 'channels_last' or 'channels_first', got {shown(data_format)}"
        )
    _store("image_data_format", str(data_format))


def normalize_data_format(value: str | None) -> str:
    """The layout meant by a `data_format` argument.

    Arguments:
        value: a layout in any case, or None for `image_data_format()`.
    Returns:
        'channels_last' or 'channels_first'.
    Raises:
        ArgumentError: any other value.
    Source: Keras 2.3 `backend.normalize_data_format`.

    >>> K.normalize_data_format("Channels_First"), K.normalize_data_format(None)
    ('channels_first', 'channels_last')
    """
    if value is None:
        return image_data_format()
    lowered = value.lower() if isinstance(value, str) else ""
    if lowered not in FORMATS:
        raise ArgumentError(
            f"data_format must be 'channels_last' or 'channels_first', got {shown(value)}"
        )
    return str(lowered)


def image_dim_ordering() -> str:
    """Keras 1's name of the image layout: 'tf' for channels_last, 'th' for channels_first."""
    return "th" if image_data_format() == "channels_first" else "tf"


def set_image_dim_ordering(dim_ordering: str) -> None:
    """Set the image layout by its Keras 1 name, 'tf' or 'th'.

    Raises:
        ArgumentError: any other value.
    """
    if not isinstance(dim_ordering, str) or dim_ordering not in ORDERINGS:
        raise ArgumentError(f"dim_ordering must be 'tf' or 'th', got {shown(dim_ordering)}")
    set_image_data_format(ORDERINGS[dim_ordering])


_engine = "kbench"


def backend() -> str:
    """The name of the active engine.

    >>> K.backend()
    'kbench'
    """
    return _engine


def use_engine(name: str) -> None:
    """Note which engine `kbench.engines` has chosen; "numpy" runs without compiled kernels."""
    global _engine
    _engine = name


# ------------------------------------------------------------------ the engine's own settings


def num_threads() -> int:
    """Threads that parallel kernels use.

    Returns:
        What `set_num_threads` set, or KBENCH_NUM_THREADS, or else the number of cores, as they
        were when first asked for. A forked child begins with 1.
    Source: kbench's own.

    >>> before = K.num_threads()
    >>> K.set_num_threads(1)
    >>> K.num_threads()
    1
    >>> K.set_num_threads(before)
    """
    return threads.count()


def _one_thread() -> None:
    _values["num_threads"] = threads.asked = 1


fork_safety.in_child(_one_thread)  # children are many, as a rule, and have the cores to share


def set_num_threads(count: int) -> None:
    """Set the number of threads that parallel kernels use; results do not depend on it.

    Arguments:
        count: integer from 1 to 1024.
    Raises:
        ArgumentError: anything else.
    Source: kbench's own.

    >>> K.set_num_threads(2)
    >>> K.num_threads()
    2
    """
    if not is_whole(count) or not 1 <= count <= MAX_THREADS:
        allowed = f"an integer from 1 to {MAX_THREADS}"
        raise ArgumentError(f"count must be {allowed}, got {shown(count)}")
    _store("num_threads", int(count))


_JIT = Setting("KBENCH_JIT", lambda name: one_of(name, ("auto", "wait", "off")))
_AFTER_EXIT = Setting("KBENCH_COMPILE_AFTER_EXIT", lambda name: one_of(name, ("on", "off")))
_LEAST = Setting("KBENCH_LEAST", env)
_EXACT = Setting("KBENCH_EXACT", flag)


class _ThreadSettings(threading.local):
    kernels: bool | None = None
    every_size = False


_thread = _ThreadSettings()


def allow_kernels(wanted: bool | None) -> bool | None:
    """Let this thread use compiled kernels or not, None as the engine does; returns what was."""
    before, _thread.kernels = _thread.kernels, wanted
    return before


def allow_any_size(wanted: bool) -> bool:
    """Let this thread take compiled kernels for arrays of any size or not; returns what was."""
    before, _thread.every_size = _thread.every_size, wanted
    return before


def of_this_thread() -> tuple[bool | None, bool]:
    """What `allow_kernels` and `allow_any_size` have set for this thread."""
    return _thread.kernels, _thread.every_size


def jit_mode() -> str:
    """KBENCH_JIT: 'auto' compiles in the background, 'wait' at once, 'off' never."""
    wanted = _thread.kernels
    if wanted is False or (wanted is None and _engine == "numpy"):
        return "off"
    return _JIT.value()


def compiles_after_exit() -> bool:
    """KBENCH_COMPILE_AFTER_EXIT: whether a compiler goes on for some seconds after the process that
    has asked for kernels, so that the next one finds them; 'on' or 'off'."""
    return _AFTER_EXIT.value() == "on"


def min_elements(elements: int) -> int:
    """Elements from which on a compiled kernel is worth while: KBENCH_LEAST instead, where set.

    Tests set it to 1, so that small arrays take the kernels too.
    """
    if _thread.every_size:
        return min(elements, 1)
    if _LEAST.value() is None:
        return elements
    return whole_number("KBENCH_LEAST", 2**63, elements, 0)


def exact() -> bool:
    """Whether faster forms with larger rounding errors are forbidden.

    Winograd's convolution is such a form: a float32 convolution with windows of 3x3, or its
    gradient, then errs by some 2e-6 of the largest sum of absolute products, four times what the
    plain form does, and by at most 1e-4 of it, where one number is far larger than all others. A
    result that is a small difference of large products has as many digits less, in either form.

    Returns:
        What `set_exact` set, or else whether KBENCH_EXACT is 1; False by default.
    Source: kbench's own.

    >>> K.exact()
    False
    """
    found = _values["exact"]
    return _EXACT.value() if found is None else bool(found)


def set_exact(value: bool) -> None:
    """Forbid faster forms with larger rounding errors, or allow them; counts from the next call.

    Arguments:
        value: True or False.
    Raises:
        ArgumentError: anything else.
    Source: kbench's own.

    >>> K.set_exact(True)
    >>> K.exact()
    True
    >>> K.set_exact(False)
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentError(f"value must be True or False, got {shown(value)}")
    _store("exact", bool(value))


# ------------------------------------------------------------------ for user interfaces

_phase: tuple[Callable[[], object], Callable[[Any], None]] | None = None


def set_phase_access(read: Callable[[], object], write: Callable[[Any], None]) -> None:
    """Let the session, which owns the learning phase, show it among the settings."""
    global _phase
    _phase = (read, write)


def snapshot() -> dict[str, Any]:
    """All settings by name; `learning_phase` is None while it is symbolic, else 0 or 1."""
    return {
        "epsilon": epsilon(),
        "floatx": floatx(),
        "image_data_format": image_data_format(),
        "learning_phase": _phase[0]() if _phase else None,
        "num_threads": num_threads(),
    }


def assign(name: str, value: object) -> None:
    """Set one setting by name, validated; the entry for user interfaces.

    Raises:
        ArgumentError: unknown setting, or a value it refuses. Nothing is changed then.
    """
    if name == "learning_phase" and _phase is not None:
        _phase[1](value)
    elif name in _SETTERS:
        _SETTERS[name](value)
    else:
        raise ArgumentError(f"unknown setting {name!r}; choose from {', '.join(snapshot())}")


_SETTERS: dict[str, Callable[[Any], None]] = {
    "epsilon": set_epsilon,
    "floatx": set_floatx,
    "image_data_format": set_image_data_format,
    "num_threads": set_num_threads,
}
