"""Signatures with the shapes that a docstring of kbench tells: what goes in, and what comes out."""

from __future__ import annotations

import inspect
import re
from functools import lru_cache
from types import FunctionType

_OWN = "kbench"
_MARKS: dict[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_ARGUMENT = r"(?m)^\s*(?:[\w, ]+; )?{}: (\w*\[[^\]\n]*\])"
_RESULT = re.compile(r"Returns:\n\s+(?:Tensors?,? )?(\w*\[(?:[^\[\]\n]|\[[^\[\]\n]*\])*\])")
_LIKE = re.compile(r"Returns:\n\s+Tensor of the shape (?:and dtype )?of `(\w+)`")


def words(function: object) -> str:
    """`(x: float[rows, cols], axis=-1) -> float[rows]`; '' for what is no function of kbench.

    Nothing is evaluated: only functions whose module is kbench's are read.
    """
    if not isinstance(function, FunctionType):
        return ""
    inner = inspect.unwrap(function)
    if not isinstance(inner, FunctionType) or inner.__module__.partition(".")[0] != _OWN:
        return ""
    return _of(inner)


@lru_cache(maxsize=1024)
def _of(function: FunctionType) -> str:
    doc = inspect.cleandoc(function.__doc__ or "")
    parts: list[str] = []
    parameters = inspect.signature(function).parameters.values()
    for at, parameter in enumerate(parameters):
        mark = _MARKS.get(parameter.kind, "")
        if parameter.kind == parameter.KEYWORD_ONLY and not any(
            part == "*" or part.startswith("*") for part in parts[:at]
        ):
            parts.append("*")
        shape = re.search(_ARGUMENT.format(re.escape(parameter.name)), doc)
        text = mark + parameter.name + (f": {shape[1]}" if shape else "")
        if parameter.default is not parameter.empty:
            text += f"{' = ' if shape else '='}{parameter.default!r}"
        parts.append(text)
    head = f"({', '.join(parts)})"
    if found := _RESULT.search(doc):
        return f"{head} -> {found[1]}"
    if found := _LIKE.search(doc):
        return f"{head} -> shape of {found[1]}"
    return head
