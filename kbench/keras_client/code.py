"""Functions of the user, as a lambda in a Lambda layer, that pickle knows by no name.

A function that a module has under its name stays that name in bytes. Any other brings its bytecode,
what it has closed over, and the name of its module, whose names it looks up where it is
read. Each version of Python has a bytecode of its own, and another one refuses it. cloudpickle
has a way of its own for both, and is left to it.
"""

from __future__ import annotations

import importlib
import marshal
import sys
import types
import zlib
from typing import Any, SupportsIndex

from kbench.engine.core.errors import ArgumentError
from kbench.engine.graph import pickling

PYTHON = sys.implementation.cache_tag or sys.implementation.name


class Carried:
    """Stands for a function while it is pickled; what is read, or copied, is the function."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function

    def __deepcopy__(self, _memo: object) -> types.FunctionType:
        return self.function

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[Any, ...]:
        function = self.function
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if str(caller).partition(".")[0] == "cloudpickle":
            return _same, (function,)
        code = marshal.dumps(function.__code__)
        names = (function.__module__, function.__name__, function.__qualname__)
        cells = tuple([carried(cell.cell_contents) for cell in function.__closure__ or ()])
        defaults = carried((function.__defaults__, function.__kwdefaults__))
        return _function, (PYTHON, code, zlib.crc32(code), names, defaults, cells)


def carried(value: Any) -> Any:
    """A value, with what stands for functions without a name in its dicts, lists and tuples.

    A container of no such function is the same one.
    """
    if type(value) is types.FunctionType:
        return value if _has_name(value) else Carried(value)
    if type(value) is dict:
        entries = {key: carried(entry) for key, entry in value.items()}
        return value if all(entries[key] is value[key] for key in value) else entries
    if type(value) in (list, tuple):
        made = [carried(entry) for entry in value]
        same = all(new is old for new, old in zip(made, value, strict=True))
        return value if same else type(value)(made)
    return value


def _has_name(function: types.FunctionType) -> bool:
    """Whether its module has it under its name, as pickle wants it."""
    found: Any = sys.modules.get(function.__module__ or "")
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _same(function: types.FunctionType) -> types.FunctionType:
    return function


def _function(
    python: str,
    code: bytes,
    checksum: int,
    names: tuple[str, str, str],
    defaults: tuple[tuple[Any, ...] | None, dict[str, Any] | None],
    cells: tuple[Any, ...],
) -> types.FunctionType:
    """The function that bytes hold.

    Raises:
        ArgumentError: another version of Python has made them, or they are damaged.
    """
    module, name, qualname = names
    if python != PYTHON:
        raise ArgumentError(
            f"the function {qualname} of {module} is in the bytes as code of {python}, and this "
            f"is {PYTHON}; define it in a module, under its name, and no code is in them",
            function="pickle.loads",
        )
    if zlib.crc32(code) != checksum:
        pickling.refuse(f"the function {qualname}", "its code has another checksum")
    places = vars(sys.modules[module] if module in sys.modules else importlib.import_module(module))
    closure = tuple([types.CellType(content) for content in cells])
    made = types.FunctionType(marshal.loads(code), places, name, defaults[0], closure)
    made.__kwdefaults__ = defaults[1]
    made.__qualname__, made.__module__ = qualname, module
    return made
