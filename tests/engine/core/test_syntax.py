"""Python's parser in several threads at once."""

from __future__ import annotations

import ast
import gc
import sys
import threading
from pathlib import Path

import pytest

from kbench.engine.core import syntax

KBENCH = Path(syntax.__file__).parents[2]
TEXT = "\n".join(f"x{number} = f(a + b * {number})" for number in range(50))


class _Waste:
    """Collected only by the cycle collector, whose finalizer lets other threads run."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


def _parse_often(depth: int, failed: list[BaseException]) -> None:
    if depth:
        return _parse_often(depth - 1, failed)
    try:
        for _ in range(100):
            _Waste()
            assert len(syntax.parse_module(TEXT).body) == 50
            assert syntax.parse_expression("(" * 20 + "a" + ")" * 20).body
    except BaseException as error:
        failed.append(error)


def test_threads_that_parse_at_once() -> None:
    """With `ast.parse` of Python 3.11 some 150 of 600 parses ended in a SystemError."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    failed: list[BaseException] = []
    sys.setswitchinterval(1e-6)
    gc.set_threshold(1)
    try:
        threads = [
            threading.Thread(target=_parse_often, args=(40 * number, failed)) for number in range(4)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
    assert not failed, failed


def test_wrong_text_is_refused_at_once() -> None:
    with pytest.raises(SyntaxError):
        syntax.parse_module("a b")
    with pytest.raises(SyntaxError):
        syntax.parse_expression("a = b")


def test_what_always_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> ast.Module:
        raise SystemError("AST constructor recursion depth mismatch")

    monkeypatch.setattr(ast, "parse", broken)
    with pytest.raises(SystemError, match="mismatch"):
        syntax.parse_module("a")


def test_nothing_parses_by_itself() -> None:
    for path in KBENCH.rglob("*.py"):
        if path.name != "syntax.py":
            assert "ast.parse(" not in path.read_text("utf-8"), path
