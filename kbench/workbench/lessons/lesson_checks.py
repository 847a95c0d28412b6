"""What a lesson's check may ask of a learner's names: `expect("y").shape(...).close(...)`.

A check fails at its first unmet demand, and demands come in a fixed order: the name exists, its
kind, rank, each axis, dtype, values, gradient. So a learner hears of a wrong axis before a wrong
number.
Values are compared on fresh feeds: the graph the learner built is run again on numbers it has not
seen, so an answer written in by hand does not pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kbench import backend as K
from kbench.engine.autodiff import gradients
from kbench.engine.execute.function import Function
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.variables import Variable
from kbench.workbench.kernel.state_snapshot import preserve_state
from kbench.workbench.lessons import lesson_values
from kbench.workbench.lessons.lesson_files import BLANK, Exercise, LessonError, Verdict
from kbench.workbench.lessons.lesson_values import Operation, article, kind, reads

STAGES = ("exists", "kind", "shape", "dtype", "values", "gradient")
TOLERANCE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-7}
"""Relative and absolute, by the dtype of what the learner's graph computes."""
_OPEN_AXIS_SIZES = (3, 2, 4, 5)
"""Of axes that a placeholder leaves open, one after the other, so that no two draws agree."""
FLOATS = ("float16", "float32", "float64")
_DIFFERENCE_STEP = 1e-4
"""Of central differences in float64: error about 1e-8 for smooth references."""


Reference = Callable[..., Any]
"""What an exercise says is right: a function of the learner's names, in NumPy."""


class Unmet(Exception):
    """The first demand of a check that is not met; `str` of it is meant for the learner."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage


def judge(exercise: Exercise, namespace: Mapping[str, object]) -> Verdict:
    """Run the exercise's check on a learner's names; whatever goes wrong becomes a message."""
    scope = {"K": K, "np": np, "expect": _Expecter(namespace), "require": require}
    try:
        with preserve_state(namespace):
            exec(compile(exercise.check, f"<check {exercise.name}>", "exec"), scope)
    except Unmet as unmet:
        return Verdict(False, unmet.stage, str(unmet))
    except LessonError:
        raise
    except Exception as error:  # a graph that cannot run is the learner's to mend, not a crash
        first = str(error).partition("\n")[0]
        return Verdict(False, "values", f"Running it raised {type(error).__name__}: {first}")
    return Verdict(True, "", "Passed.")


def require(condition: bool, message: str) -> None:
    """A demand on anything else; `message` says what is wrong."""
    if not condition:
        raise Unmet("values", message)


class _Expecter:
    """`expect` of a check: looks names up in the learner's namespace."""

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self._namespace = namespace

    def __call__(self, name: str) -> Expectation:
        if name not in self._namespace:
            advice = (
                f"Fill in every {BLANK} and run the cell; if it ends in an error, correct that."
            )
            raise Unmet("exists", f"`{name}` does not exist yet. {advice}")
        return Expectation(name, self._namespace[name], self._namespace)


class Expectation:
    """Demands on one name. Every method returns the expectation itself, or raises `Unmet`."""

    def __init__(self, name: str, value: object, namespace: Mapping[str, object]) -> None:
        self._name, self._value, self._namespace = name, value, namespace
        self._stage = 0

    @property
    def value(self) -> Any:
        """The learner's value itself, for demands that are not listed here."""
        return self._value

    def kind(self, wanted: str) -> Expectation:
        """Variable, placeholder, constant, tensor, function, array, number, string, or a type.

        "function" is what `K.function` makes; what `def` makes is a "Python function".
        """
        self._enter("kind")
        actual = kind(self._value)
        demand = f"it should be {article(wanted)}"
        if wanted == "tensor" and isinstance(self._value, Tensor):  # each of its kinds is one
            demand = "it should be computed from other tensors"
        self._need(actual == wanted, f"is {article(actual)}; {demand}")
        return self

    def shape(self, *wanted: int | None) -> Expectation:
        """Rank first, then every axis; None demands that an axis is left open."""
        self._enter("shape")
        actual = self._tensor().spec.shape
        self._need(
            len(actual) == len(wanted),
            f"has {len(actual)} {'axis' if len(actual) == 1 else 'axes'}, {_shape(actual)}; "
            f"it should have {len(wanted)}",
        )
        for axis, (found, size) in enumerate(zip(actual, wanted, strict=True)):
            self._need(
                found == size,
                f"has shape {_shape(actual)}: axis {axis} is {_size(found)}, "
                f"it should be {_size(size)}",
            )
        return self

    def dtype(self, wanted: str) -> Expectation:
        """The dtype, by name."""
        self._enter("dtype")
        actual = self._tensor().spec.dtype
        self._need(actual == wanted, f"is {actual}; it should be {wanted}")
        return self

    def equals(
        self,
        wanted: object,
        parts: Sequence[str] = (),
        advice: str = lesson_values.ADVICE,
        tolerance: float = lesson_values.TOLERANCE,
    ) -> Expectation:
        """A number, a string or a tuple of these, such as a guess or a shape, however written.

        Of a tuple the message says which of its `parts` are wrong; `advice` ends it.
        """
        self._enter("values")
        complaint = lesson_values.complaint(self._value, wanted, parts, advice, tolerance)
        self._need(not complaint, complaint)
        return self

    @property
    def plain(self) -> Any:
        """The value as a number, a string or a tuple of these; see `lesson_values.plain`."""
        return lesson_values.plain(self._value)

    @property
    def number(self) -> float:
        """The value as a number, for a guess that need not be exact."""
        self._enter("kind")
        found = self.plain
        actual = kind(found)
        self._need(actual == "number", f"is {article(actual)}; it should be a number")
        return float(found)

    def numbers(self, count: int) -> list[float]:
        """The value as so many numbers, whatever holds them."""
        self._enter("kind")
        found = self.plain
        self._need(isinstance(found, tuple), f"is {article(kind(found))}; it should be a tuple")
        many = "1 entry" if len(found) == 1 else f"{len(found)} entries"
        self._need(len(found) == count, f"has {many}; it should have {count}")
        for entry in found:
            self._need(kind(entry) == "number", f"holds {article(kind(entry))}; expected numbers")
        return [float(entry) for entry in found]

    def reads(self, source: Tensor) -> bool:
        """Whether the tensor is computed from another one."""
        return reads(self._tensor(), source)

    @property
    def ops(self) -> list[Operation]:
        """The names of the operations that compute the tensor, each with its `attrs`."""
        return lesson_values.operations(self._tensor())

    def made_of(self, *wanted: str, without: Sequence[str] = ()) -> Expectation:
        """The graph of the tensor has one of the operations `wanted`, and none of `without`.

        For exercises that are about the way and not the values; the message lists the graph.
        """
        self._enter("values")
        found = list(dict.fromkeys(self.ops))
        graph = f"has the right values, but its graph is {', '.join(found) or 'empty'}"
        refused = [name for name in without if name in found]
        self._need(
            bool({*wanted} & {*found}), f"{graph}; there should be {' or '.join(wanted)} in it"
        )
        self._need(not refused, f"{graph}; there should be no {' and no '.join(refused)} in it")
        return self

    def uses(self, *names: str) -> Expectation:
        """The tensor is computed from these tensors of the learner's."""
        self._enter("values")
        for name in names:
            source = _Expecter(self._namespace)(name)._value
            if isinstance(source, Tensor):
                self._need(
                    reads(self._tensor(), source),
                    f"does not use `{name}`, or was made with an earlier one: run its cell again",
                )
        return self

    def holds(self, wanted: object) -> Expectation:
        """The values that a variable, an array or a tensor without feeds has right now."""
        self._enter("values")
        value = self._value
        actual = value.eval() if isinstance(value, Tensor) else np.asarray(value)
        self._need(actual.dtype.kind in "biuf", f"is {article(kind(value))}, not numbers")
        self._compare(actual, np.asarray(wanted), "")
        return self

    def close(
        self,
        reference: Reference,
        feeds: int = 3,
        low: float = -2.0,
        high: float = 2.0,
    ) -> Expectation:
        """What the graph computes, on `feeds` fresh draws, is what `reference` computes.

        The parameters of `reference` are names of the learner: a placeholder or variable arrives as
        a fresh array (the variable gets its own value back afterwards), anything else as it is.
        """
        self._enter("values")
        for draw in range(feeds):
            with self._fresh(reference, draw, low, high) as (arrays, placeholders):
                wanted = reference(**arrays)
                target = self.uses(*arrays)._tensor()
                fed = [arrays[name] for name in placeholders]
                sources = self._tensors(placeholders)
                actual = Function(sources, [target])(fed)[0]
            self._compare(actual, np.asarray(wanted), _fed(arrays))
        return self

    def returns(self, reference: Reference, feeds: int = 3) -> Expectation:
        """The first output of a `K.function` on fresh feeds; see `close` for the parameters."""
        self._enter("values")
        for draw in range(feeds):
            with self._fresh(reference, draw, -2.0, 2.0) as (arrays, _):
                wanted = reference(**arrays)
                actual = self._function()(self._feeds_of_function(arrays))[0]
            self._compare(actual, np.asarray(wanted), _fed(arrays))
        return self

    def changes(self, variable: str, reference: Reference) -> Expectation:
        """One call of a `K.function` leaves in `variable` what `reference` computes."""
        self._enter("values")
        for draw in range(3):
            with self._fresh(reference, draw, -2.0, 2.0) as (arrays, _):
                wanted = reference(**arrays)
                self._function()(self._feeds_of_function(arrays))
                held: Any = self._namespace[variable]
                actual = held.get_value()
            changed = Expectation(variable, None, self._namespace)
            changed._enter("values")
            where = f"after one call of `{self._name}`, {_fed(arrays)}"
            changed._compare(actual, np.asarray(wanted), where)
        return self

    def gradient(
        self,
        wrt: str,
        reference: Reference,
        feeds: int = 2,
        low: float = -2.0,
        high: float = 2.0,
    ) -> Expectation:
        """The gradient of the graph's sum to the name `wrt` is that of the sum of `reference`.

        `reference` computes the graph's value, as for `close`, and has `wrt` among its parameters;
        its derivative is taken by central differences in float64.
        """
        self._enter("gradient")
        for draw in range(feeds):
            with self._fresh(reference, draw, low, high) as (arrays, placeholders):
                wanted = _slopes(reference, arrays, wrt)
                (found,) = gradients(self._tensor(), [self._namespace[wrt]])
                if found is None:
                    raise self._unmet(f"does not depend on `{wrt}`: its gradient is None")
                fed = [arrays[name] for name in placeholders]
                sources = self._tensors(placeholders)
                actual = Function(sources, [found])(fed)[0]
            note = f"gradient to `{wrt}`, {_fed(arrays)}"
            self._compare(actual, wanted, note, least=1e-3)
        return self

    def _enter(self, stage: str) -> None:
        """Hold a check to the fixed order of demands."""
        index = STAGES.index(stage)
        if index < self._stage:
            raise LessonError(f"a check asks for {stage} after {STAGES[self._stage]}")
        self._stage = index

    def _need(self, condition: bool, complaint: str) -> None:
        if not condition:
            raise self._unmet(complaint)

    def _unmet(self, complaint: str) -> Unmet:
        return Unmet(STAGES[self._stage], f"`{self._name}` {complaint}.")

    def _tensor(self) -> Tensor:
        self._need(
            isinstance(self._value, Tensor),
            f"is {article(kind(self._value))}; it should be a tensor",
        )
        assert isinstance(self._value, Tensor)
        return self._value

    def _tensors(self, names: list[str]) -> list[Tensor]:
        """The learner's tensors of these names."""
        values = (self._namespace[name] for name in names)
        return [value for value in values if isinstance(value, Tensor)]

    def _function(self) -> Function:
        self._need(
            isinstance(self._value, Function),
            f"is {article(kind(self._value))}; it should be made by K.function",
        )
        assert isinstance(self._value, Function)
        return self._value

    def _feeds_of_function(self, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The fresh arrays in the order of the function's inputs."""
        by_tensor = {id(self._namespace[name]): array for name, array in arrays.items()}
        feeds = [by_tensor.get(id(source)) for source in self._function().inputs]
        found = [feed for feed in feeds if feed is not None]
        self._need(len(found) == len(feeds), "takes other inputs than the exercise asks for")
        return found

    @contextmanager
    def _fresh(
        self, reference: Reference, draw: int, low: float, high: float
    ) -> Iterator[tuple[dict[str, Any], list[str]]]:
        """Fresh arrays for the parameters of `reference`; variables are put back at the end."""
        random = np.random.default_rng(1000 + draw)
        arrays: dict[str, Any] = {}
        placeholders: list[str] = []
        kept: list[tuple[Variable, np.ndarray]] = []
        try:
            for name in inspect.signature(reference).parameters:
                value = _Expecter(self._namespace)(name)._value
                arrays[name] = value
                if isinstance(value, Tensor) and value.kind in ("placeholder", "variable"):
                    arrays[name] = _draw(value, random, draw, low, high)
                if isinstance(value, Variable):
                    kept.append((value, value.get_value()))
                    value.set_value(arrays[name])
                elif isinstance(value, Tensor) and value.kind == "placeholder":
                    placeholders.append(name)
                elif isinstance(value, Tensor):
                    arrays[name] = value.eval()
            yield arrays, placeholders
        finally:
            for variable, value in kept:
                variable.set_value(value)

    def _compare(
        self, actual: np.ndarray, wanted: np.ndarray, where: str, least: float = 0.0
    ) -> None:
        """Shape, then the first wrong element, named by its index."""
        note = f" ({where})" if where else ""
        self._need(
            actual.shape == wanted.shape,
            f"gives shape {_shape(actual.shape)}{note}; it should give {_shape(wanted.shape)}",
        )
        tolerance = max(TOLERANCE.get(str(actual.dtype), 0.0), least)
        good = np.isclose(
            np.asarray(actual, np.float64),
            np.asarray(wanted, np.float64),
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
        )
        if not good.all():
            index = tuple(int(i) for i in np.argwhere(~good)[0])
            place = f"at index {_shape(index)} " if index else ""
            self._need(
                False,
                f"is {_number(actual[index])} {place}where {_number(wanted[index])} is right{note}",
            )


def _slopes(reference: Reference, arrays: Mapping[str, Any], wrt: str) -> np.ndarray:
    """The derivative of the sum of `reference` to the array called `wrt`, element by element."""
    inputs = {
        name: value.astype(np.float64) if getattr(value, "dtype", None) in FLOATS else value
        for name, value in arrays.items()
    }
    if wrt not in inputs:
        raise LessonError(f"a check asks for the gradient to {wrt}, which its reference lacks")
    center = inputs[wrt]
    slopes = np.zeros(np.shape(center))
    for index in np.ndindex(slopes.shape):
        ends = []
        for step in (_DIFFERENCE_STEP, -_DIFFERENCE_STEP):
            moved = np.array(center, np.float64)
            moved[index] += step
            ends.append(np.sum(reference(**{**inputs, wrt: moved}), dtype=np.float64))
        slopes[index] = (ends[0] - ends[1]) / (2 * _DIFFERENCE_STEP)
    return slopes


def _draw(
    source: Tensor, random: np.random.Generator, draw: int, low: float, high: float
) -> np.ndarray:
    """A fresh array for a placeholder or variable; open axes get a size that differs per draw."""
    sizes = [
        _OPEN_AXIS_SIZES[(axis + draw) % len(_OPEN_AXIS_SIZES)] if size is None else size
        for axis, size in enumerate(source.spec.shape)
    ]
    dtype = np.dtype(source.spec.dtype)
    if dtype.kind == "f":
        return random.uniform(low, high, sizes).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, sizes).astype(dtype)
    return random.integers(int(low), int(high) + 1, sizes).astype(dtype)


def _number(value: np.generic) -> str:
    return str(value) if value.dtype.kind == "b" else f"{value:.6g}"


def _size(size: int | None) -> str:
    return "open (None)" if size is None else str(size)


def _shape(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _fed(arrays: Mapping[str, Any]) -> str:
    """Which fresh values a comparison used, by shape."""
    shapes = [
        f"{name} of shape {_shape(np.shape(array))}" if np.ndim(array) else name
        for name, array in arrays.items()
    ]
    return "on fresh values: " + ", ".join(shapes) if shapes else ""
