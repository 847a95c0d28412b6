"""Which name was probably meant: of a variable, an attribute, a module, an argument or a magic.

Python says so itself only where it prints a traceback to its own prompt, up to 3.11; IPython does
not, and neither knows that `relu` is a function of `K`. What an error says already is not repeated.
"""

from __future__ import annotations

import builtins
import difflib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING

from kbench.engine.inspect import describe
from kbench.workbench.core_types import JsonObject
from kbench.workbench.errors import positions

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import Shell

KINDS: tuple[type[Exception], ...] = (NameError, AttributeError, ImportError, TypeError)
"""Of errors for which a name may be found."""
MIN_SIMILARITY = 0.7
"""Of two names, from 0 to 1, as difflib has it: `wieght` and `weight` have 0.83, `sum` and `std`
0.33. Below it every short name has one that is near."""
MOST_ALIKE = 8
"""Names that are compared further."""
_KEYWORD = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")
_IMPORTED = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
_ATTRIBUTE = re.compile(r"module '([\w.]+)' has no attribute '(\w+)'$")
_MAGIC = re.compile(r"(?:Line|Cell) magic (?:function )?`(%+)(\w+)` not found")
_SAID = "did you mean"
_IMPORTS = {
    "K": "from kbench import backend as K",
    "np": "import numpy as np",
    "plt": "import matplotlib.pyplot as plt",
    "pd": "import pandas as pd",
}
"""What brings the names that everybody gives these modules. A kernel of Jupyter has none of them;
the prompts of kbench have the first two."""


def meant(error: BaseException, shell: Shell | None = None) -> str:
    """The name that was meant, as it is to be written, or its import; '' where none is near.

    `shell` knows the magics. Runs no code of the user's but an object's own `__dir__`.
    """
    try:
        if _SAID in str(error).lower():
            return ""
        return next((name for name in _found(error, shell) if name), "")
    except Exception:  # an object whose names cannot be listed: the error itself is still shown
        return ""


def words(error: BaseException, shell: Shell | None = None) -> str:
    """`Did you mean K.relu?`, '' where no name is near."""
    name = meant(error, shell)
    if name in _IMPORTS.values():
        return f"Import it first: {name}"
    return f"Did you mean {name}?" if name else ""


def detail(error: BaseException) -> JsonObject:
    """What a front end shows below the error; empty where no name is near."""
    found = words(error)
    return {"meant": found} if found else {}


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like `name`; case counts least, and itself is none."""
    names = {one for one in known if one != name and one.startswith("_") <= name.startswith("_")}
    folded: dict[str, str] = {}
    for one in sorted(names):
        folded.setdefault(one.lower().replace("_", ""), one)
    found = folded.get(name.lower().replace("_", ""))
    if found is not None:
        return found
    small = {one.lower() for one in names}
    near = set(difflib.get_close_matches(name.lower(), small, MOST_ALIKE, MIN_SIMILARITY))

    def likeness(one: str) -> tuple[float, bool, float]:
        """As difflib has it; of equals the one that begins alike, then the one of the same case."""
        folded, exact = (
            difflib.SequenceMatcher(None, *pair).ratio()
            for pair in ((one.lower(), name.lower()), (one, name))
        )
        return folded, one[:1].lower() == name[:1].lower(), exact

    return max(sorted(one for one in names if one.lower() in near), key=likeness, default="")


def _found(error: BaseException, shell: Shell | None) -> Iterator[str]:
    text = str(error)
    if isinstance(error, NameError):
        yield _variable(error.name or "", _frame(error.__traceback__))
    elif isinstance(error, AttributeError):
        yield _attribute(error, text)
    elif isinstance(error, ImportError):
        yield _imported(error, text)
    elif isinstance(error, TypeError):
        yield _argument(error, text)
    elif shell is not None and (found := _MAGIC.search(text)):
        kind = "cell" if found[1] == "%%" else "line"
        near = nearest(found[2], shell.magics_manager.magics[kind])
        yield f"{found[1]}{near}" if near else ""


def _frame(traceback: TracebackType | None) -> FrameType | None:
    """Where it was raised."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return None if traceback is None else traceback.tb_frame


def _functions() -> list[str]:
    from kbench import backend

    return list(backend.__all__)


def _variable(name: str, frame: FrameType | None) -> str:
    if name in _IMPORTS:
        return _IMPORTS[name]
    functions = _functions()
    if name in functions:
        return f"K.{name}"
    known = set(dir(builtins)) if frame is None else {*frame.f_locals, *frame.f_globals}
    near = nearest(name, known) or nearest(name, dir(builtins))
    if near:
        return near
    function = nearest(name, functions)
    return f"K.{function}" if function else ""


def _attribute(error: AttributeError, text: str) -> str:
    name, held = error.name, error.obj
    found = _ATTRIBUTE.search(text)
    if name is None and found:  # raised by the module's own code
        held, name = sys.modules.get(found[1]), found[2]
    if name is None or held is None:
        return ""
    if describe.is_tensor(held) and name in _functions():
        return f"K.{name}(...)"
    near = nearest(name, _functions() if _is_backend(held) else dir(held))
    return near and (f"K.{near}" if _is_backend(held) else f".{near}")


def _is_backend(held: object) -> bool:
    return isinstance(held, ModuleType) and held.__name__ in ("kbench", "kbench.backend")


def _imported(error: ImportError, text: str) -> str:
    if found := _IMPORTED.search(text):
        if found.groups() == ("K", "kbench"):
            return _IMPORTS["K"]
        return nearest(found[1], dir(sys.modules.get(found[2], builtins)))
    parent, _, name = (error.name or "").rpartition(".")
    if not isinstance(error, ModuleNotFoundError) or not name:
        return ""
    within = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    if parent and within is None:
        return ""
    known = {module.name for module in pkgutil.iter_modules(within)}
    near = nearest(name, known if parent else known | sys.stdlib_module_names)
    return f"{parent}.{near}" if near and parent else near


def _argument(error: TypeError, text: str) -> str:
    found = _KEYWORD.search(text)
    if found is None:
        return ""
    function = _called(error, found[1])
    if not callable(function):
        return ""
    near = nearest(found[2], inspect.signature(function).parameters)
    return f"{near}=" if near else ""


def _called(error: TypeError, name: str) -> object:
    """What was called with a wrong argument: found in the user's line, or a K function."""
    import ast

    from kbench import backend

    spots = positions.path(error.__traceback__)
    node = spots[-1].node if spots else None
    if isinstance(node, ast.Call):
        value = positions.value_of(node.func, spots[-1].frame)
        if callable(value):
            return value
    return getattr(backend, name, None) if name in backend.__all__ else None


def report(
    shell: Shell,
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
    tb_offset: int | None = None,
) -> list[str]:
    """IPython's handler of such errors: as it shows them itself, and what was meant below."""
    hint = words(error, shell)
    if kind.__name__ == "UsageError":
        shell.show_usage_error(f"{error} {hint}".rstrip())
        return []
    offset = shell.InteractiveTB.tb_offset if tb_offset is None else tb_offset
    lines = shell.InteractiveTB.structured_traceback(kind, error, traceback, offset)
    if hint and _SAID not in "\n".join(lines).lower():
        lines = [*lines, hint]
    shell._showtraceback(kind, error, lines)
    return lines


def reported() -> tuple[type[BaseException], ...]:
    """The classes of errors that `report` is for."""
    from IPython.core.error import UsageError

    return (*KINDS, UsageError)
