"""What is explored: a function, the inputs it is called with, and a control for each argument."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field

from kbench.engine.core import syntax
from kbench.engine.core.errors import ArgumentError
from kbench.engine.graph import scope
from kbench.engine.inspect import describe
from kbench.engine.runtime import config
from kbench.notebook.base.redraw import names
from kbench.notebook.exploration import explore_samples
from kbench.notebook.exploration.explore_controls import (
    Control,
    Fixed,
    Shape,
    python_text,
    requested_control,
    start_of,
)
from kbench.notebook.exploration.explore_functions import find, own_name
from kbench.notebook.exploration.explore_rules import ArgumentFacts, derive
from kbench.notebook.exploration.explore_samples import Code

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function

_DEFAULT_SHAPE = (4, 3)
"""Rows and columns of an input of which nothing is known."""
_UNKNOWN_AXIS_SIZE = 3
"""Entries along an axis of unknown size."""
_MAX_WRITTEN_NUMBERS = 200
"""Numbers that a line of Python says; more are kept as a value."""
_EMPTY = inspect.Parameter.empty
_STAR = inspect.Parameter.VAR_POSITIONAL
_KEYWORDS = (inspect.Parameter.VAR_KEYWORD,)


class Subject(Struct):
    """A function as it is explored. `inputs` are those that are made, `given` those of the user."""

    function: Callable[..., object]
    name: str
    called: str  # the text that calls it
    public: bool  # a function of the API
    parameters: Mapping[str, inspect.Parameter] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    given: dict[str, object] = field(default_factory=dict)
    operands: dict[str, Code] = field(default_factory=dict)  # parameter -> its text in the call
    controls: dict[str, Control] = field(default_factory=dict)
    _made: tuple[object, dict[str, object]] | None = None

    def line(self, values: Mapping[str, object]) -> str:
        """The call with these values of the controls, as one line of Python."""
        texts: list[str] = []
        keywords = False
        for name, parameter in self.parameters.items():
            text = self._argument(name, parameter, values)
            if text is None:
                keywords = True
            elif parameter.kind is inspect.Parameter.KEYWORD_ONLY or (
                keywords or (parameter.default is not _EMPTY and name not in self.operands)
            ):
                keywords = True
                texts.append(f"{name}={text}")
            else:
                texts.append(text)
        return f"{self.called}({', '.join(texts)})"

    def _argument(
        self, name: str, parameter: inspect.Parameter, values: Mapping[str, object]
    ) -> str | None:
        """An argument's text, None where it is left out."""
        if name in self.operands:
            return str(self.operands[name])
        if name not in self.controls:
            return None
        value = values.get(name, start_of(self.controls[name]))
        return None if _is_default(value, parameter.default) else python_text(value)

    def preamble(self) -> str:
        """The Python that makes the inputs and whatever the line names."""
        lines = ["import numpy as np"] if "np." in "".join(self.inputs.values()) else []
        lines += ["from scipy import sparse"] if "sparse." in "".join(self.inputs.values()) else []
        lines.append("from kbench import backend as K")
        lines += [f"{name} = {text}" for name, text in self.inputs.items()]
        return "\n".join(lines)

    def namespace(self) -> dict[str, object]:
        """The names that the line is evaluated with; made anew after a change of the settings."""
        key = (config.epoch(), scope.generation(), *self.inputs, *self.given)
        if self._made is None or self._made[0] != key:
            made: dict[str, object] = {"__name__": "kbench_explore"}
            with scope.name_scope("explore"):  # the numbers of the user's names stay
                exec(compile(self.preamble(), "<kbench explore>", "exec"), made)
            made.update(self.given)
            if not self.public:
                made[self.called] = self.function
            self._made = (key, made)
        return self._made[1]

    def named(self) -> dict[str, object]:
        """The inputs by their names in the line."""
        namespace, line = self.namespace(), " ".join(self.operands.values())
        known = [name for name in (*self.given, *self.inputs) if name in namespace]
        known.sort(key=lambda name: (name not in line, line.find(name)))
        return {name: namespace[name] for name in known}

    def use_arrays(self, wanted: bool) -> None:
        """Make the samples for a function of the user's arrays of NumPy, or tensors again."""
        for number, name in enumerate(self.inputs):
            make = explore_samples.fed if wanted else explore_samples.normal
            self.inputs[name] = make(_DEFAULT_SHAPE, number)
        self._made = None


def _is_default(value: object, default: object) -> bool:
    """Whether an argument can be left out."""
    numbers = (int, float)
    if type(value) in numbers and type(default) in numbers:
        return bool(value == default)
    return type(value) is type(default) and python_text(value) == python_text(default)


# ------------------------------------------------------------------ putting it together


def subject(wanted: object, values: Sequence[object], ranges: Mapping[str, object]) -> Subject:
    """A function with its inputs and controls.

    Raises:
        ArgumentError: no function, values or ranges that it does not take, or a range that is none.
    """
    function, name = find(wanted)
    own = "" if name else own_name(function)
    made = Subject(function, name or own, f"K.{name}" if name else own, bool(name))
    if describe.is_function(function):
        _fed(made, function, values)
        return made
    try:
        made.parameters = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{describe.printable(made.name)} does not say which arguments it takes",
            function="explore",
        ) from None
    sample = explore_samples.known(name) if name else explore_samples.Sample()
    _check(made, values, ranges)
    bound = _bound(made, values)
    for parameter, value in bound.items():
        made.operands[parameter] = _take(made, parameter, value)
    made.parameters = {
        key: parameter
        for key, parameter in made.parameters.items()
        if parameter.kind not in _KEYWORDS
    }
    _fill(made, sample, ranges, bool(values))
    return made


def _check(made: Subject, values: Sequence[object], ranges: Mapping[str, object]) -> None:
    kinds = [parameter.kind for parameter in made.parameters.values()]
    places = sum(kind in (inspect.Parameter.POSITIONAL_ONLY, _POSITIONAL) for kind in kinds)
    if len(values) > places and _STAR not in kinds:
        raise ArgumentError(
            f"{made.name} takes at most {places} values, got {len(values)}", function="explore"
        )
    unknown = [name for name in ranges if name not in made.parameters]
    if unknown:
        raise ArgumentError(
            f"{made.name} has no argument {unknown[0]!r}; it has {', '.join(made.parameters)}",
            function="explore",
        )
    twice = [name for name in list(made.parameters)[: len(values)] if name in ranges]
    if twice:
        raise ArgumentError(f"{twice[0]} is given twice", function="explore")


_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _bound(made: Subject, values: Sequence[object]) -> dict[str, object]:
    """The user's values by parameter; those of `*args` count on behind its name."""
    found: dict[str, object] = {}
    left = list(values)
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in made.parameters.items():
        if parameter.kind is _STAR:
            for number, value in enumerate(left or [_EMPTY, _EMPTY]):
                key = f"{name}{number}"
                parameters[key] = inspect.Parameter(key, inspect.Parameter.POSITIONAL_ONLY)
                if value is not _EMPTY:
                    found[key] = value
            left = []
            continue
        parameters[name] = parameter
        if left and parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            found[name] = left.pop(0)
    made.parameters = parameters
    return found


def _take(made: Subject, parameter: str, value: object) -> Code:
    """Keep a value of the user's under the name it has; a placeholder gets sample values."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return Code(python_text(value))
    if isinstance(value, (list, tuple)) and _is_small(value):
        made.inputs[parameter] = f"np.array({python_text(list(value))})"
        return Code(parameter)
    if isinstance(value, (list, tuple)) and any(describe.is_tensor(item) for item in value):
        parts = [_take(made, f"{parameter}{at}", item) for at, item in enumerate(value)]
        return Code(f"[{', '.join(parts)}]")
    name = next((known for known, held in names().values().items() if held is value), parameter)
    if name in ("K", "np", made.called) or name in made.given or not name.isidentifier():
        if made.given.get(name) is value:
            return Code(name)
        name = parameter
    if describe.is_tensor(value) and value.kind == "placeholder":
        known = _known_shape(value.spec.shape or ())
        made.inputs[name] = explore_samples.normal(known, len(made.inputs))
    else:
        made.given[name] = value
    return Code(name)


def _is_small(value: Sequence[object]) -> bool:
    """Whether nested lists hold nothing but a few numbers, which a line of Python can say."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        return False
    return (
        array.dtype.kind in "bif"
        and array.size <= _MAX_WRITTEN_NUMBERS
        and all(map(_is_plain, value))
    )


def _is_plain(value: object) -> bool:
    if type(value) in (list, tuple) and isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return type(value) in (int, float, bool)


def _fed(made: Subject, function: Function, values: Sequence[object]) -> None:
    """A `K.function`: its inputs are fed the user's values, or else samples of their shapes."""
    if values and len(values) != len(function.inputs):
        raise ArgumentError(
            f"{made.name} takes {len(function.inputs)} values, got {len(values)}",
            function="explore",
        )
    parts = []
    for number, tensor in enumerate(function.inputs):
        name = tensor.name.split(":")[0].replace("/", "_")
        name = name if name.isidentifier() else f"input{number}"
        if values:
            parts.append(_take(made, name, values[number]))
            continue
        shape = _known_shape(tensor.spec.shape or ())
        made.inputs[name] = explore_samples.fed(shape, number, tensor.spec.dtype)
        parts.append(Code(name))
    made.parameters = dict(inspect.signature(function.__call__).parameters)
    made.operands = {"inputs": Code(f"[{', '.join(parts)}]")}


def _fill(
    made: Subject, sample: explore_samples.Sample, ranges: Mapping[str, object], others: bool
) -> None:
    """Inputs and controls for all arguments that have no value yet."""
    shape = _first_shape(made)
    for name, parameter in made.parameters.items():
        if name in made.operands:
            continue
        default = sample.arguments.get(name, parameter.default)
        if parameter.default not in (_EMPTY, None) and not isinstance(default, Code):
            default = parameter.default  # what the user would get, not what a sample shows
        if made.public and others and shape is not None and default is not _EMPTY:
            default = explore_samples.fitting_value(made.name, name, default, shape)
        is_input = isinstance(default, Code) and not default.startswith("lambda")
        if name not in ranges and (is_input or default is _EMPTY):
            _make_input(made, sample, name, default, shape)
            shape = shape if shape is not None else _first_shape(made)
            continue
        if name == "seed" and made.public and default is None:
            default = 0  # the same numbers while other arguments change
        facts = ArgumentFacts(made.name, default, shape or (), _annotation(parameter), made.public)
        derived = None if is_input or default is _EMPTY else derive(name, facts)
        if name in ranges:
            derived = requested_control(name, ranges[name], derived, made.name)
            if isinstance(derived, Fixed) and not isinstance(derived.value, _PLAIN):
                made.operands[name] = _take(made, name, derived.value)
                continue
        assert derived is not None
        made.controls[name] = derived
        _needed(made, sample, derived)


def _annotation(parameter: inspect.Parameter) -> str:
    return "" if parameter.annotation is _EMPTY else str(parameter.annotation)


_PLAIN = (bool, int, float, str, tuple, list, type(None), Code)


def _make_input(
    made: Subject, sample: explore_samples.Sample, name: str, default: Any, shape: Shape | None
) -> None:
    if default is _EMPTY:
        made.inputs[name] = explore_samples.normal(_DEFAULT_SHAPE, len(made.inputs))
        made.operands[name] = Code(name)
        return
    fitted = None
    if made.given and shape is not None and default == name:
        fitted = explore_samples.fitting(made.name, name, shape)
    if fitted is not None:
        made.inputs[name] = fitted
    else:
        _add(made, sample, default)
    made.operands[name] = default


def _needed(made: Subject, sample: explore_samples.Sample, control: Control) -> None:
    """Make the sample's inputs that a choice of the control names."""
    for _, value in getattr(control, "options", ()):
        if isinstance(value, Code):
            _add(made, sample, value)


def _add(made: Subject, sample: explore_samples.Sample, text: str) -> None:
    """Make the sample's inputs that a text names, behind those that they name themselves."""
    for name in sorted(_names(text)):
        if name in sample.inputs and name not in made.inputs and name not in made.given:
            _add(made, sample, sample.inputs[name])
            made.inputs[name] = sample.inputs[name]


def _names(text: str) -> set[str]:
    return {
        found.id for found in ast.walk(syntax.parse_module(text)) if isinstance(found, ast.Name)
    }


def _first_shape(made: Subject) -> Shape | None:
    """The shape of the first operand, None before there is one."""
    for text in made.operands.values():
        for name in sorted(_names(text), key=text.index):
            if name in made.given or name in made.inputs:
                return _shape_of(made.named()[name])
    return None


def _known_shape(shape: Sequence[int | None]) -> Shape:
    """A shape with a number in place of each unknown size."""
    return tuple(_UNKNOWN_AXIS_SIZE if size is None else size for size in shape)


def _shape_of(value: object) -> Shape | None:
    if isinstance(value, (list, tuple)) and value:
        first = value[0]
        if describe.is_tensor(first) or isinstance(first, np.ndarray):  # operands, side by side
            return _shape_of(first)
    if describe.is_tensor(value):
        shape = value.spec.shape
        return (
            None
            if shape is None
            else tuple(_UNKNOWN_AXIS_SIZE if size is None else size for size in shape)
        )
    try:
        found: Any = value
        return tuple(np.shape(found))
    except Exception:
        return None
