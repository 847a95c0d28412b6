"""`compare`: one expression on several engines, with values, times and the largest difference."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kbench import engines as engine_choice
from kbench.differences import Array, Comparison, Result
from kbench.engine import config, trace
from kbench.engine.errors import ArgumentError
from kbench.engine.kernels.background import service

Feeds = Mapping[str, Any] | Sequence[Any] | Array | None
COMPILING = 120.0  # seconds to wait for kernels at most
TENSORFLOW = "tensorflow"


def compare(
    fn: Callable[..., Any],
    engines: Sequence[str] = ("kbench", "numpy"),
    feeds: Feeds = None,
    repeats: int = 5,
) -> Comparison:
    """Evaluate one expression on several engines; values, times and the largest differences.

    Arguments:
        fn: called once for each engine as `fn(K, *tensors)`, where `K` has the engine's functions;
            returns a tensor, or lists, tuples and dicts of them. It may be called twice. Random
            operations agree when they have a seed.
        engines: names: "kbench", "numpy" (kbench without compiled kernels), "tensorflow" (tf-keras'
            backend) or an importable backend module. The first that gives a value is the reference.
        feeds: the arrays that become the tensors: a list, given by position, or a dict, given by
            name. Lists of numbers take `floatx()`, arrays keep their dtype.
        repeats: how many calls are timed after the first one and after kernels are compiled.
    Returns:
        Comparison: shown as a table; `.largest`, `["numpy"].value`, `.as_dict()`. An engine that
        fails keeps its error in `.error` and loses the others nothing.
    Raises:
        ArgumentError: no engine, an engine twice, or arguments of the wrong kind.

    >>> import kbench
    >>> found = kbench.compare(lambda K, x: K.softmax(x), feeds=[[1.0, 2.0, 3.0]])
    >>> found.largest.absolute < 1e-6
    True
    """
    _check(fn, engines, repeats)
    arrays = _arrays(feeds)
    return Comparison([_result(name, fn, arrays, repeats) for name in engines])


def _check(fn: Any, engines: Any, repeats: Any) -> None:
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


def _arrays(feeds: Feeds) -> dict[Any, Any]:
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


def _array(name: Any, value: Any) -> Any:
    if hasattr(value, "tocoo"):
        return value
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentError(f"feeds[{name!r}] is no array: {error}") from None
    if array.dtype.kind not in "biuf":
        raise ArgumentError(f"feeds[{name!r}] has dtype {array.dtype}, which no engine takes")
    is_array = isinstance(value, (np.ndarray, np.generic))
    return array if is_array or array.dtype.kind != "f" else array.astype(config.floatx())


# ------------------------------------------------------------------ one engine


def _result(name: str, fn: Callable[..., Any], arrays: dict[Any, Any], repeats: int) -> Result:
    """What one engine makes of it; an error is kept, whatever it is."""
    result = Result(name)
    try:
        with engine_choice.running(name):
            _run(result, fn, arrays, repeats)
    except Exception as error:  # one engine's failure must not lose the others
        result.error = error
    return result


def _run(result: Result, fn: Callable[..., Any], arrays: dict[Any, Any], repeats: int) -> None:
    backend = engine_choice.load(result.engine)
    clock = time.perf_counter
    begun = clock()
    build = _build_tensorflow if result.engine == TENSORFLOW else _build_graph
    call, labels, rebuild = build(backend, fn, arrays)
    values = call()
    result.first = clock() - begun
    own = result.engine in engine_choice.OWN
    if own:
        _settle(call)
    for _ in range(repeats):
        begun = clock()
        values = call()
        result.times.append(clock() - begun)
    if own:  # built anew, so that seeded random numbers are the first ones on either engine
        call, labels, rebuild = build(backend, fn, arrays)
        with trace.record() as runs:
            values = call()
        result.forms = _forms(runs)
    flat = [one.toarray() if hasattr(one, "tocoo") else np.asarray(one) for one in values]
    result.outputs = dict(zip(labels, flat, strict=True))
    result.value = rebuild(flat)


def _settle(call: Callable[[], Any]) -> None:
    """Call until the kernels that it asks for are compiled."""
    for _ in range(4):  # a kernel may be asked for only when another one runs
        if config.jit_mode() == "off" or not service.stats().pending:
            return
        service.wait_idle(COMPILING)
        call()


def _forms(runs: Sequence[trace.RunRecord]) -> tuple[str, ...]:
    """What the steps ran as."""
    forms = {step.form for run in runs for step in run.steps}
    return tuple(sorted(forms - {"view", "not taken"}))


# ------------------------------------------------------------------ building the expression

Built = tuple[Callable[[], Any], list[str], Callable[[list[Any]], Any]]


def _build_graph(K: Any, fn: Callable[..., Any], arrays: dict[Any, Any]) -> Built:
    """Placeholders, the function's result, and a call that computes it from the arrays."""
    tensors = {name: _placeholder(K, array) for name, array in arrays.items()}
    made = _apply(K, fn, tensors)
    flat, labels, rebuild = flatten(made)
    compiled = K.function(list(tensors.values()), flat)
    values = list(arrays.values())
    return lambda: compiled(values), labels, rebuild


def _placeholder(K: Any, array: Any) -> Any:
    sparse = {"sparse": True} if hasattr(array, "tocoo") else {}
    return K.placeholder(shape=array.shape, dtype=array.dtype.name, **sparse)


def _build_tensorflow(K: Any, fn: Callable[..., Any], arrays: dict[Any, Any]) -> Built:
    """The function traced into a graph, as TensorFlow's own users run it.

    What cannot be traced (it makes variables, say) is called as it is.
    """
    tensorflow: Any = importlib.import_module("tensorflow")
    tensors = {name: _tensorflow_tensor(tensorflow, array) for name, array in arrays.items()}
    form: list[Any] = []

    def run(given: dict[Any, Any]) -> list[Any]:
        flat, labels, rebuild = flatten(_apply(K, fn, given))
        form[:] = [labels, rebuild]
        return [_dense(tensorflow, one) for one in flat]

    traced = tensorflow.function(run)
    try:
        traced(tensors)
    except Exception:
        traced = run
        traced(tensors)
    return lambda: [np.asarray(one) for one in traced(tensors)], form[0], form[1]


def _dense(tensorflow: Any, made: Any) -> Any:
    """A plain tensor, also of what gradients of `gather` and sparse functions give."""
    if type(made).__name__ == "SparseTensor":
        return tensorflow.sparse.to_dense(made)
    return tensorflow.convert_to_tensor(made)


def _tensorflow_tensor(tensorflow: Any, array: Any) -> Any:
    if hasattr(array, "tocoo"):
        return tensorflow.sparse.from_dense(array.toarray())
    return tensorflow.constant(array)


def _apply(K: Any, fn: Callable[..., Any], tensors: dict[Any, Any]) -> Any:
    by_position = [one for name, one in tensors.items() if not isinstance(name, str)]
    by_name = {name: one for name, one in tensors.items() if isinstance(name, str)}
    return fn(K, *by_position, **by_name)


def flatten(made: Any) -> tuple[list[Any], list[str], Callable[[list[Any]], Any]]:
    """The tensors in nested lists, tuples and dicts, their places, and the way back."""
    flat: list[Any] = []
    labels: list[str] = []

    def walk(node: Any, label: str) -> Callable[[list[Any]], Any]:
        if isinstance(node, dict):
            parts = {key: walk(one, f"{label}[{key!r}]") for key, one in node.items()}
            return lambda values: {key: part(values) for key, part in parts.items()}
        if isinstance(node, (list, tuple)):
            items = [walk(one, f"{label}[{place}]") for place, one in enumerate(node)]
            kind = tuple if isinstance(node, tuple) else list
            return lambda values: kind(item(values) for item in items)
        place = len(flat)
        flat.append(node)
        labels.append(label)
        return lambda values: values[place]

    rebuild = walk(made, "")
    return flat, labels, rebuild
