"""What can be told of code while it is typed: whether it is complete, how the next line begins."""

from __future__ import annotations

import ast
import codeop
import warnings

from kbench.engine.core import syntax


def completeness(code: str) -> str:
    """'complete', 'incomplete' or 'invalid': Python's own rule, magics and shell lines included."""
    stripped = code.strip()
    if not stripped or stripped[0] in "%!?" or stripped.endswith("?"):
        return "incomplete" if stripped.startswith("%%") and not code.endswith("\n") else "complete"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = codeop.compile_command(code, "<prompt>", "exec")
    except (SyntaxError, OverflowError, ValueError):
        return "complete" if _awaits(code) else "invalid"
    if compiled is None:
        return "incomplete"
    lines = code.split("\n")
    if len(lines) > 1 and lines[-1].strip() and _opens_block(code):
        return "incomplete"
    return "complete"


def _awaits(code: str) -> bool:
    """True for a top-level await, which the kernel runs although Python's compiler refuses it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, "<prompt>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError):
        return False
    return True


def _opens_block(code: str) -> bool:
    """True when the last statement is a block that may go on."""
    try:
        body = syntax.parse_module(code).body
    except (SyntaxError, ValueError):
        return False
    return bool(body) and hasattr(body[-1], "body") and body[-1].end_lineno == code.count("\n") + 1


def indent_after(line: str) -> str:
    """The indentation of a line that follows `line`."""
    indent = line[: len(line) - len(line.lstrip())]
    body = line.split("#")[0].rstrip() if '"' not in line and "'" not in line else line.rstrip()
    if body.endswith((":", "(", "[", "{")):
        return indent + "    "
    if body.lstrip().split(" ")[0] in ("return", "raise", "pass", "break", "continue"):
        return indent[4:]
    return indent
