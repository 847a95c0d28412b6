"""Errors that say which K function, which operands and what would have worked.

An error is built where a rule is broken, often deep inside the engine. Its constructor walks the
stack once to find the user's line and the K function called there, so that rules only state the
reason. The fields stay available for user interfaces; `str(error)` says all of them.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_ENGINE = os.path.join(_PACKAGE, "engine") + os.sep
_OUTSIDE = tuple(
    os.path.join(_PACKAGE, "api", name)
    for name in ("legacy.py", "legacy_layout.py", "comparison.py", "operations.py")
)
_INTERNAL = (_ENGINE, *_OUTSIDE, "<kbench", "<frozen")
_OPERATOR_NAMES = {
    "__add__": "+",
    "__sub__": "-",
    "__mul__": "*",
    "__truediv__": "/",
    "__floordiv__": "//",
    "__mod__": "%",
    "__pow__": "**",
    "__matmul__": "@",
    "__lt__": "<",
    "__le__": "<=",
    "__gt__": ">",
    "__ge__": ">=",
    "__and__": "&",
    "__or__": "|",
    "__xor__": "^",
    "__invert__": "~",
    "__getitem__": "x[...]",
}

_OP_SYMBOLS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floordiv": "//",
    "mod": "%",
    "power": "**",
    "matmul": "@",
    "getitem": "x[...]",
}


def op_symbol(name: str) -> str:
    """How an error names an op: by its operator where there is one."""
    return _OP_SYMBOLS.get(name, name)


class Place(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        return _namer(self.file, self.line)


Call: TypeAlias = "tuple[Place | None, str | None]"
"""A line of the user's code, and the K function that it calls."""
CallSite: TypeAlias = "tuple[CodeType | None, int, CodeType | None]"
"""The user's code, how far it had come, and the code of the engine that it called."""


class Operand(Struct, frozen=True):
    """One argument of the failing call, as `spec` text plus where it was made."""

    role: str
    spec: str
    kind: str
    name: str
    place: Place | None
    ident: int
    axis: int | None = None


def _plain_place(file: str, line: int) -> str:
    """`file.py:12`; of a cell of IPython, whose file has a hash for a name, its number."""
    python = sys.modules.get("IPython")  # not imported for this: without it there are no cells
    shell = None if python is None else python.get_ipython()
    return cell_place(shell, file, line) or f"{os.path.basename(file)}:{line}"


def cell_place(shell: object, file: str, line: int) -> str:
    """'In [3]' for a cell of one line, 'In [3] line 2' for a longer one, '' for another file."""
    names = getattr(getattr(shell, "compile", None), "_filename_map", {})
    if file not in names:
        return ""
    import linecache

    label = f"In [{names[file]}]"
    return label if len(linecache.getlines(file)) <= 1 else f"{label} line {line}"


_namer: Callable[[str, int], str] = _plain_place


def set_place_namer(namer: Callable[[str, int], str] | None) -> None:
    """Choose how a place is shown, for example 'In [3]' in a notebook; None restores file:line."""
    global _namer
    _namer = namer or _plain_place


def is_internal(filename: str) -> bool:
    """True for code of this package's engine, which is never the user's line."""
    return filename.startswith(_INTERNAL)


_WRAPPERS = ("method", "public")  # engine frames whose name says nothing of the function
_libraries: tuple[str, ...] = ()
_faces: tuple[str, ...] = ()
_between: tuple[str, ...] = ()


def see_through(folder: str) -> None:
    """Take lines of code in `folder`, a library on top of this one, for nobody's own."""
    global _libraries
    _libraries = tuple({*_libraries, os.path.join(folder, "")})
    _whose.clear()


def name_functions(file: str, folder: str) -> None:
    """Let the functions in `file` be what users of the library in `folder` call: what is made there
    is told of by the outermost of them, else by the function of K that the library calls."""
    global _faces, _between
    _faces, _between = (*_faces, file), (*_between, os.path.join(folder, ""))
    _whose.clear()


def is_users(filename: str) -> bool:
    """True for code that is neither the engine's nor that of a library on top of it."""
    return not filename.startswith(_libraries + _INTERNAL)


def call_site(depth: int = 1) -> CallSite:
    """Where the innermost line that the user wrote is being run, for `located`: every node has
    one, and few are asked for it."""
    frame: FrameType | None = sys._getframe(depth)
    entry, owner = None, _ENGINES
    while frame is not None:
        here = frame.f_code
        owner = _whose.get(here.co_filename, -1)
        if owner == _USERS:
            return here, frame.f_lasti, entry
        if owner < 0:
            owner = _owner_of(here.co_filename)
        if owner >= _LIBRARY:
            break
        if owner == _ENGINES:
            entry = here
        frame = frame.f_back
    if frame is None:
        return None, 0, None
    line: FrameType | None = frame
    while owner != _USERS and line is not None:
        line = line.f_back
        if line is None:
            break
        name = line.f_code.co_filename
        owner = _whose.get(name, -1)  # here, as a layer lies below twenty calls of its library
        if owner < 0:
            owner = _owner_of(name)
    place = line or frame
    return place.f_code, place.f_lasti, entry


def located(site: CallSite) -> Call:
    """The user's line of a call, and the K function called there or on its behalf."""
    code, offset, entry = site
    called = None
    if entry is not None and entry.co_name not in _WRAPPERS and entry.co_name[:1] not in "<_":
        called = entry.co_name
    if code is None:
        return None, called
    parts = code.co_lines()
    line = next((line for start, end, line in parts if start <= offset < end), None)
    return Place(code.co_filename, code.co_firstlineno if line is None else line), called


def user_call(depth: int = 1) -> Call:
    """The innermost line that the user wrote, and the K function called there or on its behalf."""
    return located(call_site(depth + 1))


_ENGINES, _BETWEEN, _LIBRARY, _USERS = range(4)

_whose: dict[str, int] = {}  # asked for several frames of each node, so found out once


def _owner_of(name: str) -> int:
    """Whose a file is, by its name."""
    found = _whose.get(name)
    if found is None:
        if len(_whose) >= 4096:  # every cell of a notebook is a file of its own
            _whose.clear()
        if is_internal(name) or name.startswith(_faces):
            found = _ENGINES
        elif name.startswith(_between):
            found = _BETWEEN
        else:
            found = _USERS if is_users(name) else _LIBRARY
        _whose[name] = found
    return found


_MAX_SHOWN_CHARACTERS = 200  # characters of a value that are shown


def shown(value: object) -> str:
    """A value that a user gave, as an error writes it: one line, not without end.

    An array whose numbers take several lines is told by its dtype and shape.
    """
    try:
        text = repr(value)
        if "\n" in text and (spec := describe_value(value)) is not None:
            return f"{type(value).__name__} {spec}".replace("ndarray", "array")
    except Exception:  # an integer of too many digits, or an object's own code
        if not isinstance(value, int):
            return f"a value of type {type(value).__name__}"
        return f"an integer of about {int(value.bit_length() * math.log10(2)) + 1} digits"
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}..."


def describe_value(value: object) -> str | None:
    """`dtype[shape]` of a tensor or array, None for anything else."""
    spec = getattr(value, "spec", None)
    if spec is not None:
        return str(spec)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        return None
    word = "sparse " if type(value).__module__.startswith("scipy.sparse") else ""
    return f"{word}{dtype}[{', '.join('?' if size is None else str(size) for size in shape)}]"


def make_operand(role: str, value: object, axis: int | None = None) -> Operand | None:
    """The record of one argument, or None when it is neither tensor nor array."""
    text = describe_value(value)
    if text is None:
        return None
    kind = getattr(value, "kind", "array")
    name = str(getattr(value, "name", "")).split(":")[0] if kind != "array" else ""
    return Operand(role, text, str(kind), name, getattr(value, "place", None), id(value), axis)


def _arguments(frame: FrameType) -> Iterator[tuple[str, object]]:
    """The arguments of a call under their names, the entries of a list each for itself."""
    for name, value in _given(frame):
        if isinstance(value, (list, tuple)):
            label = "operand " if name in ("operands", "arguments", "args") else f"{name}["
            for index, item in enumerate(value[:8]):
                yield (f"{label}{index}" + ("]" if label.endswith("[") else "")), item
        else:
            yield name, value


def role_of(value: object) -> str | None:
    """What the function that the user called calls this value of its arguments."""
    entry = _entry_frame(sys._getframe(1))
    if entry is None:
        return None
    pairs = [*_given(entry), *_arguments(entry)]
    roles = list(dict.fromkeys(name for name, argument in pairs if argument is value))
    if value is None and len(roles) > 1 and roles[0] != pairs[0][0]:
        return None  # most of them were left out
    return roles[0] if roles else None


def _given(frame: FrameType) -> Iterator[tuple[str, object]]:
    code, variables = frame.f_code, frame.f_locals
    if code.co_name == "method" and "name" in variables:  # an operator of Tensor
        around = [variables.get(key) for key in ("left", "self", "right") if key in variables]
        values = [*around, *variables.get("arguments", ())]
        yield from zip("xyz", values, strict=False)
        return
    declared = variables.get("public") or variables.get("function")
    if callable(declared) and "operands" in variables:  # an elementwise function
        names = code_names(declared)
        yield from zip(names, variables["operands"], strict=False)
        yield from (variables.get("keywords") or {}).items()
        return
    count = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & 4:
        count += 1
    for name in code.co_varnames[:count]:
        yield ("x" if name == "self" else name), variables.get(name)


def code_names(function: Callable[..., object]) -> tuple[str, ...]:
    """Names of the parameters of a function, seen through its wrappers."""
    code = inspect.unwrap(function).__code__
    return tuple(code.co_varnames[: code.co_argcount])


def _entry_frame(frame: FrameType | None) -> FrameType | None:
    """The engine frame that the user called: the outermost before the first foreign frame."""
    entry = None
    while frame is not None and is_internal(frame.f_code.co_filename):
        entry = frame
        frame = frame.f_back
    return entry


_ARGUMENTS: Any = vars(BaseException)["args"]


class KbenchError(Exception):
    """Base of all errors about tensors; see the module's text for its fields.

    A library whose layer makes the call may say so in `within`.
    """

    within: str = ""

    def __init__(
        self,
        reason: str,
        *,
        function: str | None = None,
        operands: tuple[Operand, ...] | None = None,
        axes: dict[str, int] | None = None,
        suggestion: str | None = None,
    ) -> None:
        entry = _entry_frame(sys._getframe(1))
        self.reason = _plain_words(reason)
        self.axes = axes or {}
        self.suggestion = suggestion if suggestion is not None else _meant(entry)
        self.function = function or _function_name(entry)
        self.place = user_call(2)[0]
        self.operands = operands if operands is not None else self._operands_of(entry)
        super().__init__(reason)

    @property
    def args(self) -> tuple[object, ...]:
        """What others see of the error who build another one of it, as Keras 3 does in each layer:
        all that it says. A copy is made of the reason, which Python keeps beside this."""
        return (str(self),)

    @args.setter
    def args(self, given: tuple[object, ...]) -> None:
        _ARGUMENTS.__set__(self, given)

    def _operands_of(self, entry: FrameType | None) -> tuple[Operand, ...]:
        if entry is None:
            return ()
        rows = (make_operand(role, value, self.axes.get(role)) for role, value in _arguments(entry))
        return tuple(row for row in rows if row is not None)

    def at(self, function: str, operands: tuple[Operand, ...], place: Place | None) -> KbenchError:
        """The same error told about another call: used when a rule breaks at run time."""
        self.function, self.operands, self.place = function, operands, place
        return self

    def __str__(self) -> str:
        head = f"{self.function}: {self.reason}" if self.function else self.reason
        lines = [head]
        width = max((len(operand.role) for operand in self.operands), default=0)
        for operand in self.operands:
            name = f" '{operand.name}'" if operand.name else ""
            where = f"   {operand.place}" if operand.place is not None else ""
            lines.append(f"  {operand.role:<{width}}  {operand.kind}{name} {operand.spec}{where}")
        if self.within:
            lines.append(f"  in {self.within}")
        if self.suggestion:
            lines.append(f"  try {self.suggestion}")
        if self.place is not None:
            lines.append(f"  at {self.place}")
        return "\n".join(lines)


_FUNCTION = re.compile(r"<function (?:\w+\.<locals>\.)*(\w+|<lambda>) at 0x[0-9a-f]+>")


def _plain_words(reason: str) -> str:
    """A reason without the addresses of functions that were given."""
    if type(reason) is not str or "<function" not in reason:
        return reason
    return _FUNCTION.sub(r"the function \1", reason)


def meant_call(value: object) -> str | None:
    """`K.epsilon()` for the function `K.epsilon`: a function of K that needs no argument."""
    if not isinstance(value, FunctionType) or not str(value.__module__).startswith("kbench."):
        return None
    parameters = inspect.signature(value).parameters.values()
    needed = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in (2, 4)
    ]
    return None if needed else f"K.{value.__name__}()"


def _meant(entry: FrameType | None) -> str | None:
    """The call of a function of K that was given in place of its value, whatever the rule says."""
    if entry is None:
        return None
    calls = (meant_call(argument) for _, argument in _arguments(entry) if callable(argument))
    return next((call for call in calls if call is not None), None)


def _function_name(entry: FrameType | None) -> str:
    if entry is None:
        return ""
    name, variables = entry.f_code.co_name, entry.f_locals
    if name == "method" and isinstance(variables.get("name"), str):
        return str(_OPERATOR_NAMES.get(variables["name"], variables["name"].strip("_")))
    if name == "public":
        declared = variables.get("public")
        name = str(getattr(declared, "__name__", getattr(variables.get("op"), "name", name)))
    elif name == "__call__":
        return str(getattr(variables.get("self"), "name", "function"))
    return name.strip("_")


class ShapeError(KbenchError, ValueError):
    """Shapes that do not fit the operation."""


class DtypeError(KbenchError, ValueError, TypeError):
    """A dtype that the operation does not take."""


class ArgumentError(KbenchError, ValueError):
    """An argument outside what the function accepts."""


class FeedError(KbenchError, ValueError):
    """A value that is missing at evaluation, or does not fit its placeholder."""


class GradientError(KbenchError, ValueError):
    """A gradient was asked of something that has none."""


class EngineError(ImportError):
    """An engine that is not available; the text says what is missing and what to do."""


class OutOfMemory(KbenchError, MemoryError):
    """An evaluation would need more memory than the machine has available."""
