"""Signature and first words of documentation of the call around the cursor, evaluating nothing.

Only names, and attributes of modules, classes and functions, are followed; an attribute of a
user's object could be a property that runs code.
"""

from __future__ import annotations

import builtins
import inspect
import io
import re
import tokenize
import types

import numpy as np

from kbench.engine.inspect import describe
from kbench.workbench.inspector import shape_signature
from kbench.workbench.protocol.session import HelpReply, MeaningsReply

_MAX_DOC_LINES = 6
"""Of a docstring's first paragraph."""
_MAX_TEXT_LINES = 300
"""Of a whole docstring: NumPy's longest have about that many."""
_MAX_TEXT_CHARACTERS = 4_000
"""Of a signature: defaults may be long."""
_DOTTED = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*\s*$")
_CALL = re.compile(r"\w+\(")
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
_MAX_OPERANDS = 6
"""Of the names on a line whose specs are shown."""
MAX_MEANINGS = 200
"""Names that are looked up at once: as many as a list of completions shows."""
_CALLED = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    np.ufunc,
)
_FOLLOWED = (types.ModuleType, type, types.FunctionType)


def help_at(code: str, position: int, names: dict[str, object]) -> HelpReply:
    """The call around a position; all is empty where there is none."""
    before = code[: max(0, position)]
    found = call_at(before)
    nothing = HelpReply(text="", name="", signature="", doc="", argument=0, operands=[])
    if found is None:
        return nothing
    name, argument = found
    value = resolve(name, names)
    if value is None or not (callable(value) or isinstance(value, types.ModuleType)):
        return nothing
    shown = _signature(value)
    docstring = _docstring(value)
    head = f"{name}{shown}"
    operands = _operands(before, names)
    lines = [describe.printable(head, _MAX_TEXT_CHARACTERS), *operands]
    lines += ["", *_lines(docstring, _MAX_TEXT_LINES)] if docstring else []
    return HelpReply(
        text="\n".join(lines),
        name=name,
        signature=head,
        doc="\n".join(_lines(_first_words(docstring), _MAX_DOC_LINES)),
        argument=argument,
        operands=operands,
    )


def meanings(names: list[str], known: dict[str, object]) -> MeaningsReply:
    """What dotted names stand for; a signature for the first `MAX_MEANINGS` alone."""
    values = [resolve(name, known) for name in names[:MAX_MEANINGS]]
    kinds = [_kind(value) for value in values]
    texts = [
        describe.printable(_signature(value), _MAX_TEXT_CHARACTERS) if kind == "function" else ""
        for kind, value in zip(kinds, values, strict=True)
    ]
    rest = [""] * (len(names) - len(kinds))
    return MeaningsReply(kinds=kinds + rest, signatures=texts + rest)


def _kind(value: object) -> str:
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    if describe.is_function(value) or isinstance(value, _CALLED):
        return "function"
    return "" if value is None else "value"


def call_at(before: str) -> tuple[str, int] | None:
    """The dotted name of the innermost open call and the argument's index; else the name there."""
    open_calls: list[tuple[str, int]] = []
    for token in _tokens(before):
        row, column = token.end
        if token.string in ("(", "[", "{"):
            lines = before.splitlines()[: token.start[0]]
            lines[-1] = lines[-1][: token.start[1]]
            head = _DOTTED.search("\n".join(lines)) if token.string == "(" else None
            open_calls.append((re.sub(r"\s", "", head.group()) if head else "", 0))
        elif token.string in (")", "]", "}") and open_calls:
            open_calls.pop()
        elif token.string == "," and open_calls:
            open_calls[-1] = (open_calls[-1][0], open_calls[-1][1] + 1)
    for name, argument in reversed(open_calls):
        if name:
            return name, argument
    match = _DOTTED.search(before)
    return (re.sub(r"\s", "", match.group()), 0) if match else None


def _operands(before: str, names: dict[str, object]) -> list[str]:
    """The spec of every tensor and array named on the line so far: `w: float32[784, 10]`."""
    line = before.rpartition("\n")[2]
    found = dict.fromkeys(_NAME.findall(line))
    specs = []
    for name in list(found)[:_MAX_OPERANDS]:
        value = names.get(name)
        if describe.is_tensor(value):
            specs.append(f"{name}: {value.spec}")
        elif (held := describe.held_array(value)) is not None:
            specs.append(f"{name}: {describe.spec_text(held.shape, held.dtype.name)}")
    return specs


def _tokens(code: str) -> list[tokenize.TokenInfo]:
    """The tokens of unfinished code, up to where it ends or makes no sense."""
    found: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.OP:
                found.append(token)
    except (tokenize.TokenError, SyntaxError):
        pass
    return found


def resolve(dotted: str, names: dict[str, object]) -> object:
    """What a dotted name stands for, None when following it could run user code."""
    first, *rest = dotted.split(".")
    value = names.get(first, getattr(builtins, first, None))
    for attribute in rest:
        if issubclass(type(value), _FOLLOWED):
            value = inspect.getattr_static(value, attribute, None)
        else:
            value = inspect.getattr_static(type(value), attribute, None)
            if not isinstance(value, (types.FunctionType, types.MethodDescriptorType)):
                return None
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, property) or value is None:
            return None
    return value


def _signature(value: object) -> str:
    if not callable(value):  # a module
        return ""
    if own := shape_signature.words(value):
        return own
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"


def _docstring(value: object) -> str:
    """The documentation; that of functions and of types in C is read by their own slots."""
    text = inspect.getattr_static(value, "__doc__", None)
    if isinstance(text, (types.GetSetDescriptorType, types.MemberDescriptorType)):
        text = text.__get__(value, type(value))
    return inspect.cleandoc(text) if isinstance(text, str) else ""


def _first_words(docstring: str) -> str:
    """The first paragraph that is no signature, as docstrings of functions in C begin with one."""
    paragraphs = docstring.split("\n\n")
    return next((one for one in paragraphs if not _CALL.match(one)), paragraphs[0])


def _lines(text: str, most: int) -> list[str]:
    """The first lines of a text, made fit to be shown."""
    return [describe.printable(line, 200) for line in text.splitlines()[:most]]
