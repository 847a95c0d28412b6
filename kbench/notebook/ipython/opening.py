"""Opens a widget of `notebook/registry.py` on what is typed behind its word."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError

from kbench.engine.core import syntax
from kbench.engine.core.errors import KbenchError
from kbench.engine.inspect import describe
from kbench.notebook import registry
from kbench.notebook.registry import WidgetSpec


def typed(spec: WidgetSpec, text: str, shell: Any) -> Any:
    """The widget on what was typed: a name as it is, so that it is followed, else its value.

    Raises:
        UsageError: it cannot be read, or the widget cannot show it.
    """
    if spec.magic:
        return shell.run_line_magic(spec.magic, text)
    make = registry.widget(spec.name)
    if spec.takes == "nothing" and text:
        raise UsageError(f"%kb {spec.word} takes nothing, got {describe.printable(text)!r}")
    if spec.needs_value and not text:
        raise UsageError(f"%kb {spec.word} wants a name or an expression, such as %kb value w")
    try:
        if not text or spec.takes == "text" or text.isidentifier():
            return make(text) if text else make()
        return make(_value(text, shell.user_ns))
    except KbenchError as error:
        raise UsageError(f"%kb {spec.word}: {error.reason}") from None


def _value(text: str, names: dict[str, object]) -> object:
    try:
        tree = syntax.parse_expression(text)
        return eval(compile(tree, "<magic>", "eval"), names)
    except Exception as error:
        raise UsageError(f"{describe.printable(text)}: {type(error).__name__}: {error}") from None
