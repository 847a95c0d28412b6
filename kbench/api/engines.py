"""Which module computes: kbench, kbench without compiled kernels ("numpy"), or another backend.

`KERAS_BACKEND` in the environment is taken literally. Without it the field "backend" of keras.json
counts, except that Keras writes names there by itself: those are not followed. Any importable
module may be named that has what Keras asks of a backend; the public names of kbench then come
from it. `load` gives an engine by name beside the chosen one.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from msgspec import Struct

from kbench.engine.core.errors import EngineError
from kbench.engine.runtime import config, paths
from kbench.engine.runtime.environment import env

NEEDED = ("placeholder", "variable", "function")
OWN = ("kbench", "numpy")
WRITTEN_BY_KERAS = ("tensorflow", "theano", "cntk", "jax", "torch", "openvino", "mxnet")
TENSORFLOW = "tf_keras.backend"
GONE = {
    "theano": "its last release is of 2020 and runs on no Python that kbench runs on",
    "cntk": "its last release is of 2019 and runs on no Python that kbench runs on",
}
REMEDIES = {
    "KERAS_BACKEND": "; unset KERAS_BACKEND, or set it to kbench or numpy",
    "keras.json": "; fix it with: kbench config set backend kbench",
}
KEPT = "py_all py_any py_slice py_sum num_threads set_num_threads exact set_exact".split()
SETTINGS = (
    "cast_to_floatx epsilon floatx image_data_format image_dim_ordering normalize_data_format "
    "set_epsilon set_floatx set_image_data_format set_image_dim_ordering"
).split()


class Choice(Struct, frozen=True):
    """The engine that was asked for, and by what."""

    name: str
    source: str

    def __str__(self) -> str:
        return f"{self.name} ({self.source})"


def choose(fields: Mapping[str, object]) -> Choice:
    """The engine that the environment or keras.json, whose `fields` these are, asks for."""
    named = (env("KERAS_BACKEND") or "").strip()
    if named:
        return Choice(named, "KERAS_BACKEND")
    written = fields.get("backend", "")
    if not isinstance(written, str):
        where = paths.keras_home() / "keras.json"
        warnings.warn(f"{where}, field 'backend': {written!r} is not a name", stacklevel=3)
        written = ""
    if not written.strip():
        return Choice("kbench", "the default")
    written = written.strip()
    if written in WRITTEN_BY_KERAS:
        return Choice("kbench", f"the default; {written} in keras.json is Keras' own entry")
    return Choice(written, "keras.json")


# ------------------------------------------------------------------ modules of others


def module(name: str, source: str = "") -> ModuleType:
    """The backend module of that name, seen to have what is needed.

    Raises:
        EngineError: it cannot be imported or lacks entries, all of which are listed.
    """
    said = f"{source} asks for the engine {name!r}" if source else f"the engine {name!r}"
    remedy = REMEDIES.get(source, "; kbench's own engines are kbench and numpy")
    if name in GONE:
        raise EngineError(f"{said}, which is not available: {GONE[name]}{remedy}")
    target = TENSORFLOW if name == "tensorflow" else name
    try:
        found = importlib.import_module(target)
    except ImportError as error:
        if name == "tensorflow":
            raise EngineError(
                f"{said}, which is tf-keras' backend and not installed ({error}); "
                "install it with: pip install 'kbench[tensorflow]'"
            ) from error
        raise EngineError(f"{said}, which cannot be imported: {error}{remedy}") from error
    except Exception as error:  # whatever the module's own code does
        what = f"{type(error).__name__}: {error}"
        raise EngineError(f"{said}, which fails while it is imported: {what}{remedy}") from error
    missing = [needed for needed in NEEDED if not callable(getattr(found, needed, None))]
    if missing:
        raise EngineError(
            f"{said}, but the module {found.__name__} is not a backend: it has no "
            f"{', '.join(missing)} (a backend has {', '.join(NEEDED)}){remedy}"
        )
    return found


# ------------------------------------------------------------------ the chosen engine


def start(fields: Mapping[str, object], *places: dict[str, Any]) -> Choice:
    """Put the chosen engine's functions into `places`, the public namespaces.

    Raises:
        EngineError: the engine is not available.
    """
    choice = choose(fields)
    name = "kbench" if choice.name == "kbench.backend" else choice.name
    if name in OWN:
        config.use_engine(name)
        return choice
    found = module(name, choice.source)
    _OWN_NAMES.update({public: places[0][public] for public in places[0]["__all__"]})
    for place in places:
        _adopt(found, place)
    _agree(found)
    config.use_engine(name)
    return choice


_OWN_NAMES: dict[str, Any] = {}  # kbench's functions, while another engine's stand in their place


def _adopt(found: ModuleType, place: dict[str, Any]) -> None:
    """Replace kbench's functions by the module's; what it does not have goes, but for settings.

    kbench's function on a tensor of another engine could only fail later and worse.
    """
    for name in list(place["__all__"]):
        value = place[name]
        if isinstance(value, (ModuleType, str)) or name in KEPT:
            continue
        if isinstance(value, type) and issubclass(value, Exception):
            continue
        if hasattr(found, name):
            place[name] = getattr(found, name)
        elif name not in SETTINGS:
            del place[name]
            place["__all__"].remove(name)


def _agree(found: ModuleType) -> None:
    """Tell the module the settings of keras.json, if it asks."""
    for name in ("floatx", "epsilon", "image_data_format"):
        setter = getattr(found, f"set_{name}", None)
        if callable(setter):
            setter(getattr(config, name)())


# ------------------------------------------------------------------ engines by name


@contextmanager
def running(name: str) -> Iterator[None]:
    """What is evaluated inside runs as on that engine: "numpy" without compiled kernels."""
    before = config.allow_kernels({"numpy": False, "kbench": True}.get(name))
    try:
        yield
    finally:
        config.allow_kernels(before)


def load(name: str) -> ModuleType:
    """The backend functions of an engine: "kbench", "numpy", "tensorflow" or a module's name.

    Raises:
        EngineError: it is not available.

    >>> import kbench.engines
    >>> K = kbench.engines.load("numpy")
    >>> K.eval(K.sum(K.constant([1.0, 2.0])))
    array(3., dtype=float32)
    """
    if name not in OWN:
        return module(name)
    names = _own()
    found = ModuleType(f"kbench.engines.{name}", f"kbench's functions on the engine {name}")
    vars(found).update(names, __all__=list(names), backend=lambda: name)
    vars(found)["eval"] = _on(name, names["eval"])
    vars(found)["function"] = _function_on(name, names["function"])
    return found


def _own() -> dict[str, Any]:
    from kbench import backend

    return _OWN_NAMES or {name: getattr(backend, name) for name in backend.__all__}


def _on(name: str, function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def call(*arguments: object, **keywords: object) -> object:
        with running(name):
            return function(*arguments, **keywords)

    return call


class _Bound:
    """A function that always runs on one engine."""

    def __init__(self, engine: str, function: Callable[..., object]) -> None:
        self._engine = engine
        self._function = function

    def __call__(self, inputs: object = ()) -> object:
        with running(self._engine):
            return self._function(inputs)

    def __getattr__(self, name: str) -> object:
        return getattr(self._function, name)

    def __repr__(self) -> str:
        return f"{self._function!r} on {self._engine}"


def _function_on(
    name: str, function: Callable[..., Callable[..., object]]
) -> Callable[..., object]:
    @functools.wraps(function)
    def call(*arguments: object, **keywords: object) -> _Bound:
        return _Bound(name, function(*arguments, **keywords))

    return call
