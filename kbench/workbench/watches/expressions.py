"""What may be watched: one Python expression that reads; what would change something is refused.

The engine refuses changes of its own state wherever they come from (`engine/runtime/read_only.py`).
This file refuses what can be seen in the text: statements, and calls that change lists, arrays,
files or the state of random numbers. What a function of the user's does inside is the user's.
"""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Mapping

from kbench.engine.core import syntax
from kbench.engine.inspect import describe

WATCH_FILE = "<watch>"
"""In which the code of an expression seems to be."""
MAX_CHARACTERS = 1_000
"""Of an expression."""

_NODES: dict[type[ast.AST], str] = {
    ast.NamedExpr: "a watch only reads, ':=' would bind a name",
    ast.Await: "'await' would wait for something",
    ast.Yield: "'yield' belongs into a function",
    ast.YieldFrom: "'yield' belongs into a function",
}
_BUILTINS = frozenset(
    "exec eval compile open input print __import__ setattr delattr breakpoint exit quit next help "
    "get_ipython display".split()
)
_METHODS = frozenset(
    "append extend insert remove pop popitem clear sort reverse update setdefault add discard fill "
    "put itemset resize partition setfield setflags tofile dump set_value assign assign_add "
    "assign_sub set_weights load_weights save save_weights fit fit_generator train_on_batch "
    "test_on_batch compile reset_states write writelines close seek read readline readlines send "
    "throw acquire release put_nowait shuffle seed intersection_update difference_update "
    "symmetric_difference_update move_to_end rotate appendleft extendleft popleft".split()
)
_FUNCTIONS = frozenset(
    "copyto put place putmask put_along_axis fill_diagonal save savez savez_compressed savetxt "
    "setbufsize seterr seterrcall set_printoptions seed shuffle print_tensor warmup".split()
)
_CHEAP_BUILTINS = frozenset("len abs min max sum round float int bool str repr".split())
_CHEAP_METHODS = frozenset("mean sum std var min max item tolist any all argmax argmin".split())
_CHEAP_HOMES = ("numpy", "kbench")
_MODULES = frozenset("os subprocess shutil socket importlib sys threading ctypes".split())
_RANDOM = ("random", "numpy.random")


class Refused(Exception):
    """The expression is no watch; the text says why."""


def compiled(text: str, names: Mapping[str, object]) -> types.CodeType:
    """The code of an expression that only reads, as far as its text shows, among `names`.

    Raises:
        Refused: it is no expression, or would change something.
    """
    text = text.strip()
    if not text:
        raise Refused("an expression is needed, such as K.mean(w)")
    if len(text) > MAX_CHARACTERS:
        raise Refused(f"an expression of at most {MAX_CHARACTERS} characters is needed")
    try:
        tree = syntax.parse_expression(text, WATCH_FILE)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Refused(_syntax(text, error)) from None
    for node in ast.walk(tree):
        reason = _reason(node, names)
        if reason:
            raise Refused(reason)
    try:
        return compile(tree, WATCH_FILE, "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Refused(_syntax(text, error)) from None


def is_cheap(text: str, names: Mapping[str, object]) -> bool:
    """Whether an expression calls nothing but the likes of `len`, `K.mean`, `np.max`, `x.mean()`.

    Only such are evaluated beside a cell: a function of the user's may be one that the cell is in.
    """
    try:
        tree = syntax.parse_expression(text.strip(), WATCH_FILE)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    loops = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
    nodes = list(ast.walk(tree))
    if any(isinstance(node, loops) for node in nodes):
        return False
    return all(_is_cheap_call(node, names) for node in nodes if isinstance(node, ast.Call))


def _is_cheap_call(node: ast.Call, names: Mapping[str, object]) -> bool:
    called = node.func
    if isinstance(called, ast.Name):
        if called.id not in names:
            return called.id in _CHEAP_BUILTINS
        return _home(names[called.id]) in _CHEAP_HOMES
    if not isinstance(called, ast.Attribute):
        return False
    module = _module(called.value, names)
    if module is not None:
        return module.__name__.partition(".")[0] in _CHEAP_HOMES
    return called.attr in _CHEAP_METHODS


def _home(value: object) -> str:
    """The package of a function, '' of anything else."""
    if not isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return ""
    return str(getattr(value, "__module__", None) or "").partition(".")[0]


def _syntax(text: str, error: BaseException) -> str:
    try:
        syntax.parse_module(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        words = error.msg if isinstance(error, SyntaxError) else str(error)
        return f"not Python: {words or type(error).__name__}"
    return "one expression is needed, this is a statement"


def _reason(node: ast.AST, names: Mapping[str, object]) -> str:
    """Why a node may not be in a watch, '' if it may."""
    if type(node) in _NODES:
        return f"{_NODES[type(node)]}"
    if isinstance(node, ast.Name):
        value = names.get(node.id)
        if value is not None and hasattr(type(value), "__next__"):
            return f"{node.id} is an iterator, which reading uses up"
    if isinstance(node, ast.Attribute):
        return _attribute(node, names)
    return _call(node, names) if isinstance(node, ast.Call) else ""


def _attribute(node: ast.Attribute, names: Mapping[str, object]) -> str:
    module = _module(node.value, names)
    if module is None:
        return ""
    found = getattr(module, node.attr, None)
    whole = getattr(found, "__name__", "") if isinstance(found, types.ModuleType) else ""
    if module.__name__ in _RANDOM or whole in _RANDOM:
        return "numbers drawn here would be missing in your program"
    if module.__name__.partition(".")[0] in _MODULES and callable(found):
        return f"{module.__name__}.{node.attr} may change something"
    return ""


def _call(node: ast.Call, names: Mapping[str, object]) -> str:
    called = node.func
    if any(word.arg == "out" for word in node.keywords):
        return "'out=' would write into an array"
    if isinstance(called, ast.Name):
        own = names.get(called.id, getattr(builtins, called.id, None))
        if called.id in _BUILTINS and own is getattr(builtins, called.id, own):
            return f"{called.id}() may change something"
        return _function(own)
    if not isinstance(called, ast.Attribute):
        return ""
    module = _module(called.value, names)
    if module is not None:
        return _function(getattr(module, called.attr, None))
    if called.attr in _METHODS or called.attr.startswith(("set_", "__")):
        return f"{describe.printable(called.attr)}() may change something"
    return ""


def _function(value: object) -> str:
    """Why a function of a library may not be called."""
    if not isinstance(value, (types.FunctionType, types.BuiltinFunctionType)) and not (
        type(value).__module__ == "numpy"
    ):
        return ""
    name = getattr(value, "__name__", "")
    home = str(getattr(value, "__module__", None) or "").partition(".")[0]
    if home == "random" or (home in ("numpy", "kbench", "keras") and name in _FUNCTIONS):
        return f"{name}() may change something"
    return ""


def _module(node: ast.expr, names: Mapping[str, object]) -> types.ModuleType | None:
    """The module that `np` or `np.linalg` stands for; attributes of modules only are looked up."""
    if isinstance(node, ast.Name):
        value = names.get(node.id)
    elif isinstance(node, ast.Attribute) and (inner := _module(node.value, names)) is not None:
        value = getattr(inner, node.attr, None)
    else:
        return None
    return value if isinstance(value, types.ModuleType) else None
