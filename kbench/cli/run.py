"""Run the user's code as Python would, then show its last value or fold its error.

Code runs as the real `__main__`, with `sys.argv`, `__file__` and the import path as under `python`.
`-c` and standard input find the backend as `K`. A traceback keeps the user's frames only; what an
engine error has to say about the operands follows it.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import linecache
import os
import runpy
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import TextIO

from msgspec import Struct

import kbench_launcher
from kbench.cli import json_document
from kbench.cli.exit_codes import FAILED, INTERRUPTED, OK, USAGE
from kbench.cli.json_document import Outcome, is_few, is_ours
from kbench.engine.core import syntax

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_RUNNERS = (_PACKAGE, os.path.abspath(kbench_launcher.__file__), runpy.__file__, "<frozen ")


class Style(Struct, frozen=True):
    """How results and errors are written."""

    as_json: bool = False
    full_traceback: bool = False


def run_code(code: str, arguments: list[str], style: Style) -> int:
    """`kbench -c CODE`: K is imported, the last expression's value is shown."""
    return _present(lambda: _run_source(code, "<string>", ["-c", *arguments]), style)


def run_stdin(arguments: list[str], style: Style, *, named: bool) -> int:
    """`kbench -`, and `kbench` in a pipe: the whole of standard input is one program."""
    if sys.stdin is None:
        print("kbench: there is no standard input to read", file=sys.stderr)
        return USAGE
    source = sys.stdin.buffer.read()
    argv = ["-", *arguments] if named else [""]
    return _present(lambda: _run_source(source, "<stdin>", argv), style)


def run_script(path: str, arguments: list[str], style: Style) -> int:
    """`kbench SCRIPT`: as `python SCRIPT`, a folder or archive with `__main__.py` included."""
    if not os.path.exists(path):
        print(f"kbench: no such script or command: {path}", file=sys.stderr)
        return USAGE
    if os.path.isdir(path) and not os.path.isfile(os.path.join(path, "__main__.py")):
        print(f"kbench: {path} is a folder without __main__.py", file=sys.stderr)
        return USAGE

    def run() -> Outcome:
        _set_argv([path, *arguments], os.path.dirname(os.path.realpath(path)))
        return Outcome(names=_public(runpy.run_path(path, run_name="__main__")))

    return _present(run, style)


def run_module(name: str, arguments: list[str], style: Style) -> int:
    """`kbench -m MODULE`: as `python -m MODULE`."""
    _set_argv([name, *arguments], os.getcwd())
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        found = None
    if found is None:
        print(f"kbench: no module named {name!r}", file=sys.stderr)
        return USAGE

    def run() -> Outcome:
        _set_argv([name, *arguments], os.getcwd())
        names = runpy.run_module(name, run_name="__main__", alter_sys=True)
        return Outcome(names=_public(names))

    return _present(run, style)


def _set_argv(argv: list[str], folder: str) -> None:
    """Give the program its arguments, and its own folder in place of the command's."""
    sys.argv[:] = argv
    if not sys.flags.safe_path:
        sys.path[:1] = [folder]


def _public(names: dict[str, object]) -> dict[str, object]:
    return {
        name: value
        for name, value in names.items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }


def compile_source(source: str | bytes, filename: str) -> tuple[CodeType, CodeType | None]:
    """The program, and apart from it its last expression, compiled under the same `__future__`."""
    tree = syntax.parse_module(source, filename)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    program = compile(tree, filename, "exec", dont_inherit=True)
    if not isinstance(last, ast.Expr):
        return program, None
    futures = program.co_flags & _FUTURES
    expression = ast.Expression(last.value)
    return program, compile(expression, filename, "eval", flags=futures, dont_inherit=True)


def _future_flags() -> int:
    import __future__

    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return flags


_FUTURES = _future_flags()


def _run_source(source: str | bytes, filename: str, argv: list[str]) -> Outcome:
    """Run text as `__main__`, with K; its lines are kept where tracebacks look for them."""
    program, last = compile_source(source, filename)
    text = source if isinstance(source, str) else importlib.util.decode_source(source)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    import kbench

    module = ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, K=kbench)
    sys.modules["__main__"] = module
    _set_argv(argv, "")
    exec(program, module.__dict__)
    value = eval(last, module.__dict__) if last is not None else None
    names = {name: held for name, held in _public(module.__dict__).items() if name != "K"}
    return Outcome(value=value, names=names)


# ------------------------------------------------------------------ results and errors


def _present(run: Callable[[], Outcome], style: Style) -> int:
    kbench_launcher.load()
    start = time.perf_counter()
    with _aside() if style.as_json else contextlib.nullcontext(sys.stdout) as results:
        try:
            outcome = run()
            if outcome.value is not None and not style.as_json:
                print(echo(outcome.value, results))
            outcome.seconds = time.perf_counter() - start
        except BrokenPipeError:
            raise
        except SystemExit as stop:
            outcome = Outcome(code=_exit_code(stop))
        except KeyboardInterrupt as error:
            outcome = Outcome(code=INTERRUPTED, error=error)
            print("kbench: interrupted", file=sys.stderr)
        except BaseException as error:
            outcome = Outcome(code=FAILED, error=error)
            sys.stderr.write(fold(error, full=style.full_traceback))
        if style.as_json:
            results.write(json_document.text(outcome, _is_users))
            results.write("\n")
            results.flush()
    return outcome.code


@contextlib.contextmanager
def _aside() -> Iterator[io.TextIOBase]:
    """Send what the program prints to standard error, whatever prints it; give the real output."""
    sys.stdout.flush()
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield results
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        results.close()


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return OK
    if isinstance(stop.code, int):
        return stop.code
    print(stop.code, file=sys.stderr)
    return FAILED


def echo(value: object, stream: io.TextIOBase | TextIO) -> str:
    """The text of a last value: our summary of tensors and arrays, Python's repr of the rest."""
    from kbench.workbench.analysis import known_value
    from kbench.workbench.inspector import summary

    encoding = getattr(stream, "encoding", None) or "ascii"
    plain = not encoding.lower().startswith("utf")
    if is_ours(value):
        text = summary.text(value, plain, known_value.known(value))
    elif is_few(value):
        budget = known_value.Budget()
        shown = (summary.line(item, plain, budget.known(item)) for item in value)
        text = "\n".join(f"[{index}] {line}" for index, line in enumerate(shown))
    else:
        text = repr(value)
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _is_users(frame: traceback.FrameSummary) -> bool:
    return not frame.filename.startswith(_RUNNERS)


def fold(error: BaseException, *, full: bool = False, more: str | None = None) -> str:
    """The traceback as text, the user's frames only unless `full`; `more`: a folder to drop too."""
    report = traceback.TracebackException.from_exception(error)
    if not full:
        _drop_own_frames(report, (*_RUNNERS, more) if more else _RUNNERS)
    if full or not hasattr(error, "operands"):
        text = "".join(report.format())
        hint = _hint(error)
        return f"{text}{hint}\n" if hint and hint.lower()[:12] not in text.lower() else text
    from kbench.engine.core.errors import is_users
    from kbench.workbench.errors.explanation import error_text

    frames = [frame for frame in report.stack if is_users(frame.filename)]  # none of Keras' own
    stack = "".join(traceback.StackSummary.from_list(frames).format())
    head = f"Traceback (most recent call last):\n{stack}" if stack else ""
    return f"{head}{type(error).__name__}: {error_text(error)}\n"


def _hint(error: BaseException) -> str:
    """Which name was probably meant, where the error is about one that is none."""
    if not isinstance(error, (NameError, AttributeError, ImportError, TypeError)):
        return ""
    from kbench.workbench.errors import did_you_mean

    return did_you_mean.words(error)


def _drop_own_frames(report: traceback.TracebackException, own: tuple[str, ...]) -> None:
    def users(stack: traceback.StackSummary) -> traceback.StackSummary:
        kept = [frame for frame in stack if not frame.filename.startswith(own)]
        return traceback.StackSummary.from_list(kept)

    seen: set[int] = set()
    waiting: list[traceback.TracebackException | None] = [report]
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        error.stack = users(error.stack)
        inner = error.__context__
        if inner is not None and inner.stack and not users(inner.stack):
            error.__context__ = None  # an engine's inner step: nothing in it is the user's
        waiting += [error.__cause__, error.__context__, *(getattr(error, "exceptions", None) or ())]
