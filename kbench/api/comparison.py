"""`compare`: one expression on several engines or under several settings, side by side.

Nothing is stored and no random number is used up by what is compared; settings are as before.
"""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from kbench.api import engines as engine_choice
from kbench.api.differences import Comparison, Result
from kbench.engine.core.csr import Held
from kbench.engine.core.errors import ArgumentError
from kbench.engine.core.types import Array
from kbench.engine.graph.tensor import Tensor, serials
from kbench.engine.inspect import describe
from kbench.engine.jit.service import service
from kbench.engine.runtime import config, profile, read_only
from kbench.engine.runtime.overrides import temporarily

T = TypeVar("T")
Feeds = Mapping[str, object] | Sequence[object] | Array | None
Name = int | str  # of a fed array: its position, or what the function calls it
COMPILING_SECONDS = 120.0
"""Seconds to wait for kernels at most."""
TENSORFLOW = "tensorflow"
MAX_VARIANTS = 16
"""Variants that are compared."""

latest: list[Comparison] = []  # the one that was made last, for a front end to show


def compare(
    fn: Callable[..., object],
    engines: Sequence[str] | None = None,
    feeds: Feeds = None,
    repeats: int = 5,
    settings: Mapping[str, Sequence[object]] | None = None,
) -> Comparison:
    """Evaluate one expression on several engines or under several settings, side by side.

    Arguments:
        fn: called once for each engine as `fn(K, *tensors)`, where `K` has the engine's functions;
            returns a tensor, or lists, tuples and dicts of them. It may be called twice. Random
            operations agree when they have a seed.
        engines: names: "kbench", "numpy" (kbench without compiled kernels), "tensorflow" (tf-keras'
            backend) or an importable backend module. The first that gives a value is the reference.
            None means kbench and numpy, or with `settings` kbench alone.
        feeds: the arrays that become the tensors: a list, given by position, or a dict, given by
            name. Lists of numbers take `floatx()`, arrays keep their dtype.
        repeats: how many calls are timed after the first one and after kernels are compiled.
        settings: values to try for each of some settings: epsilon, floatx, image_data_format,
            num_threads, learning_phase. The function is called anew under each combination, and
            tensors that were built before keep what they were built with. Afterwards every setting
            is as it was, after an error or an interrupt, too.
    Returns:
        Comparison: shown as a table; `.largest`, `["numpy"].value`, `.as_dict()`. An engine that
        fails keeps its error in `.error` and loses the others nothing.
    Raises:
        ArgumentError: no engine, an engine twice, an unknown setting, too many combinations, or
        arguments of the wrong kind.

    >>> import kbench
    >>> found = kbench.compare(lambda K, x: K.softmax(x), feeds=[[1.0, 2.0, 3.0]])
    >>> found.largest.absolute < 1e-6
    True
    >>> found = kbench.compare(lambda K: K.zeros(2), settings={"floatx": ["float32", "float64"]})
    >>> [str(result.value.dtype) for result in found.results]
    ['float32', 'float64']
    """
    if engines is None:
        engines = ("kbench",) if settings else ("kbench", "numpy")
    _check(fn, engines, repeats)
    _arrays(feeds)
    results = [_result(variant, fn, feeds, repeats) for variant in _variants(engines, settings)]
    latest[:] = [Comparison(results)]
    return latest[0]


def _variants(engines: Sequence[str], settings: object) -> list[Result]:
    """Every engine under every combination of settings, without a value yet."""
    if settings is None:
        settings = {}
    if not isinstance(settings, Mapping):
        raise ArgumentError(f"settings must map names to lists of values, got {settings!r}")
    known = config.snapshot()
    for name, values in settings.items():
        if name not in known:
            there = ", ".join(known)
            raise ArgumentError(f"settings has the unknown setting {name!r}; choose from {there}")
        if not isinstance(values, (list, tuple)) or not values:
            raise ArgumentError(f"settings[{name!r}] must be a list of values, got {values!r}")
    count = len(engines)
    for values in settings.values():
        count *= len(values)
    if count > MAX_VARIANTS:
        raise ArgumentError(
            f"settings and engines make {count} combinations; the limit is {MAX_VARIANTS}"
        )
    found = []
    for engine, *values in itertools.product(engines, *settings.values()):
        chosen = dict(zip(settings, values, strict=True))
        words = [f"{name}={value}" for name, value in chosen.items()]
        label = " ".join([engine, *words] if len(engines) > 1 or not words else words)
        found.append(Result(label, backend=engine, settings=chosen))
    if len({variant.engine for variant in found}) != len(found):
        raise ArgumentError("settings name one value twice")
    return found


def _check(fn: object, engines: object, repeats: object) -> None:
    if not callable(fn):
        raise ArgumentError(f"fn must be a function of K and the tensors, got {fn!r}")
    if isinstance(engines, str) or not isinstance(engines, Sequence) or not engines:
        raise ArgumentError(f"engines must be a list of names, got {engines!r}")
    for name in engines:
        if not isinstance(name, str):
            raise ArgumentError(f"engines must be names, got {name!r}")
    if len(set(engines)) != len(engines):
        raise ArgumentError(f"engines names one twice: {', '.join(engines)}")
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 0:
        raise ArgumentError(f"repeats must be an integer of at least 0, got {repeats!r}")


def _arrays(feeds: Feeds) -> dict[Name, Held]:
    """The fed arrays by position or by name."""
    if feeds is None:
        return {}
    if isinstance(feeds, Mapping):
        return {name: _array(name, value) for name, value in feeds.items()}
    if not isinstance(feeds, (list, tuple)):
        raise ArgumentError(
            f"feeds must be a list or a dict of arrays, got {type(feeds).__name__}; "
            "a single array goes into a list"
        )
    return {place: _array(place, value) for place, value in enumerate(feeds)}


def _array(name: object, value: object) -> Held:
    if hasattr(value, "tocoo"):
        return value
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentError(f"feeds[{name!r}] is not an array: {error}") from None
    if array.dtype.kind not in "biuf":
        raise ArgumentError(f"feeds[{name!r}] has dtype {array.dtype}, which no engine takes")
    is_array = isinstance(value, (np.ndarray, np.generic))
    return array if is_array or array.dtype.kind != "f" else array.astype(config.floatx())


# ------------------------------------------------------------------ one engine


def _result(result: Result, fn: Callable[..., object], feeds: Feeds, repeats: int) -> Result:
    """What one variant makes of it; an error is kept, whatever it is."""
    try:
        with temporarily(result.settings), engine_choice.running(result.backend):
            with _told(result):
                _run(result, fn, _arrays(feeds), repeats)
    except Exception as error:  # one variant's failure must not lose the others
        result.error = error
    return result


@contextmanager
def _told(result: Result) -> Iterator[None]:
    """Tell a backend module of others the settings, and what they were when it is done."""
    if result.backend in engine_choice.OWN or not result.settings:
        yield
        return
    module = engine_choice.load(result.backend)
    before = []
    try:
        for name, value in result.settings.items():
            read, write = getattr(module, name, None), getattr(module, f"set_{name}", None)
            if not callable(write) or not callable(read):
                raise ArgumentError(f"the engine {result.backend!r} has no setting {name}")
            before.append((write, read()))
            write(value)
        yield
    finally:
        for write, value in before:
            write(value)


@contextmanager
def _looking() -> Iterator[None]:
    """What is evaluated inside changes nothing."""
    if read_only.is_active():
        yield
    else:
        with read_only.evaluation():
            yield


def _run(result: Result, fn: Callable[..., object], arrays: dict[Name, Held], repeats: int) -> None:
    backend = engine_choice.load(result.backend)
    clock = time.perf_counter
    begun = clock()
    build = _build_tensorflow if result.backend == TENSORFLOW else _build_graph
    call, labels, rebuild, result.older = build(backend, fn, arrays)
    values = call()
    result.first = clock() - begun
    own = result.backend in engine_choice.OWN
    if own:
        _settle(call)
    for _ in range(repeats):
        begun = clock()
        values = call()
        result.times.append(clock() - begun)
    if own:  # built anew, so that seeded random numbers are the first ones on either engine
        call, labels, rebuild, _ = build(backend, fn, arrays)
        with profile.record() as runs:
            values = call()
        result.forms = _forms(runs)
    flat = [value.toarray() if hasattr(value, "tocoo") else np.asarray(value) for value in values]
    result.outputs = dict(zip(labels, flat, strict=True))
    result.value = rebuild(flat)


def _settle(call: Callable[[], object]) -> None:
    """Call until the kernels that it asks for are compiled."""
    for _ in range(4):  # a kernel may be asked for only when another one runs
        if config.jit_mode() == "off" or not service.stats().pending:
            return
        service.wait_idle(COMPILING_SECONDS)
        call()


def _forms(runs: Sequence[profile.RunRecord]) -> tuple[str, ...]:
    """What the steps ran as."""
    forms = {step.form for run in runs for step in run.steps}
    return tuple(sorted(forms - {"view", "not taken"}))


# ------------------------------------------------------------------ building the expression

Older = list[tuple[str, str]]
Rebuild = Callable[[Sequence[object]], object]  # nested as the function returned it
Built = tuple[Callable[[], Sequence[Any]], list[str], Rebuild, Older]


def _build_graph(K: ModuleType, fn: Callable[..., object], arrays: dict[Name, Held]) -> Built:
    """Placeholders, the function's result, and a call that computes it from the arrays."""
    mark = next(serials)
    tensors = {name: _placeholder(K, array) for name, array in arrays.items()}
    made = _quietly(lambda: _apply(K, fn, tensors))
    flat, labels, rebuild = flatten(made)
    fed = _fed_before(flat, tensors)
    values = [*arrays.values(), *fed.values()]
    if (
        not flat
        or any(describe.is_tensor(leaf) for leaf in flat)
        or K.backend() not in engine_choice.OWN
    ):
        compiled = K.function([*tensors.values(), *fed], flat)
        return lambda: _quietly(lambda: compiled(values)), labels, rebuild, _older(flat, mark)
    # Arrays already: the function calls what computes them, so it is that which is timed.
    return lambda: _quietly(lambda: flatten(_apply(K, fn, tensors))[0]), labels, rebuild, []


def _older(flat: list[object], mark: int) -> Older:
    """Names and kinds of what the expression reads and has not built, the nearest first."""
    found: Older = []
    stack: list[Any] = [leaf for leaf in flat if describe.is_tensor(leaf)]
    seen = {id(node) for node in stack}
    for node in stack:  # grows while it is read
        if node.serial < mark:
            where = describe.place(node)
            name = describe.printable(node.name.partition(":")[0])
            found.append((f"{name} ({where})" if where else name, str(node.kind)))
            continue
        new = [source for source in node.inputs if id(source) not in seen]
        seen.update(map(id, new))
        stack += new
    return found


def _quietly(call: Callable[[], T]) -> T:
    with _looking():
        return call()


def _fed_before(flat: list[object], tensors: Mapping[Name, object]) -> dict[Tensor, object]:
    """Values for placeholders of the program's own, as they were fed last."""
    own = {id(tensor) for tensor in tensors.values()}
    nodes = [leaf for leaf in flat if describe.is_tensor(leaf)]
    found = profile.fed_value_sources[-1](nodes) if profile.fed_value_sources and nodes else {}
    return {node: array for node, array in found.items() if id(node) not in own}


def _placeholder(K: ModuleType, array: Held) -> Tensor:
    sparse = {"sparse": True} if hasattr(array, "tocoo") else {}
    made: Tensor = K.placeholder(shape=array.shape, dtype=array.dtype.name, **sparse)
    return made


def _build_tensorflow(K: ModuleType, fn: Callable[..., object], arrays: dict[Name, Held]) -> Built:
    """The function traced into a graph, as TensorFlow's own users run it.

    What cannot be traced (it makes variables, say) is called as it is.
    """
    tensorflow = importlib.import_module("tensorflow")
    tensors = {name: _tensorflow_tensor(tensorflow, array) for name, array in arrays.items()}
    form: list[Any] = []

    def run(given: dict[Name, object]) -> list[object]:
        flat, labels, rebuild = flatten(_apply(K, fn, given))
        form[:] = [labels, rebuild]
        return [_dense(tensorflow, leaf) for leaf in flat]

    traced = tensorflow.function(run)
    try:
        traced(tensors)
    except Exception:
        traced = run
        traced(tensors)
    return lambda: [np.asarray(result) for result in traced(tensors)], form[0], form[1], []


def _dense(tensorflow: ModuleType, made: object) -> object:
    """A plain tensor, also of what gradients of `gather` and sparse functions give."""
    if type(made).__name__ == "SparseTensor":
        return tensorflow.sparse.to_dense(made)
    return tensorflow.convert_to_tensor(made)


def _tensorflow_tensor(tensorflow: ModuleType, array: Any) -> object:
    if hasattr(array, "tocoo"):
        return tensorflow.sparse.from_dense(array.toarray())
    return tensorflow.constant(array)


def _apply(K: ModuleType, fn: Callable[..., object], tensors: Mapping[Name, object]) -> object:
    by_position = [tensor for name, tensor in tensors.items() if not isinstance(name, str)]
    by_name = {name: tensor for name, tensor in tensors.items() if isinstance(name, str)}
    return fn(K, *by_position, **by_name)


def flatten(made: object) -> tuple[list[object], list[str], Rebuild]:
    """The tensors in nested lists, tuples and dicts, their places, and the way back."""
    flat: list[object] = []
    labels: list[str] = []

    def walk(node: object, label: str) -> Rebuild:
        if isinstance(node, dict):
            parts = {key: walk(item, f"{label}[{key!r}]") for key, item in node.items()}
            return lambda values: {key: part(values) for key, part in parts.items()}
        if isinstance(node, (list, tuple)):
            items = [walk(item, f"{label}[{place}]") for place, item in enumerate(node)]
            kind = tuple if isinstance(node, tuple) else list
            return lambda values: kind(item(values) for item in items)
        place = len(flat)
        flat.append(node)
        labels.append(label)
        return lambda values: values[place]

    rebuild = walk(made, "")
    return flat, labels, rebuild
