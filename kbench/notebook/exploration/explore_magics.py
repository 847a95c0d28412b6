"""%explore and %plot: the widgets and pictures that are asked for most, in one short line.

%explore [conv2d | f | conv2d(x, strides=[1, 2])]   a control for each argument of a function
%plot [heatmap|images|history|norms|timeline] x     a picture of a value, a record or a run
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

from kbench.engine.core import syntax
from kbench.engine.core.errors import KbenchError
from kbench.engine.inspect import describe

if TYPE_CHECKING:
    pass

_EXPLORE = "%explore needs a function, such as conv2d, or a call, such as conv2d(x, strides=[1, 2])"
_PLOT = "%plot needs a value, such as w, or one of {} and a value"


@magics_class
class ExploreMagics(Magics):
    """Both give what is shown, and change nothing."""

    @line_magic
    def explore(self, line: str) -> Any:
        """Try a function out: `%explore conv2d`, or with values `%explore conv2d(x)`."""
        from kbench.notebook.exploration.explore_panel import (
            explore,  # ipywidgets: on first need only
        )

        text = line.strip()
        try:
            tree = syntax.parse_expression(text or "None").body
        except (SyntaxError, ValueError):
            raise UsageError(_EXPLORE) from None
        values: list[Any] = []
        ranges: dict[str, Any] = {}
        wanted: ast.expr = tree
        if isinstance(tree, ast.Call):
            wanted = tree.func
            if any(isinstance(argument, ast.Starred) for argument in tree.args):
                raise UsageError(_EXPLORE)
            values = [self._value(argument) for argument in tree.args]
            for keyword in tree.keywords:
                if keyword.arg is None:
                    raise UsageError(_EXPLORE)
                ranges[keyword.arg] = self._value(keyword.value)
        try:
            return explore(self._function(wanted), *values, **ranges)
        except KbenchError as error:
            raise UsageError(f"%explore: {_reason_of(error)}") from None

    def _function(self, node: ast.expr) -> Any:
        """What is meant: a name of the user's goes before one of the API."""
        text = ast.unparse(node)
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str)):
            return node.value
        if isinstance(node, ast.Name) and node.id not in self._namespace():
            return text
        if not isinstance(node, (ast.Name, ast.Attribute)):
            raise UsageError(_EXPLORE)
        return self._value(node)

    @line_magic
    def plot(self, line: str) -> Any:
        """A picture: `%plot w`, `%plot images x`, `%plot timeline f`."""
        from kbench.notebook.plots import plots  # matplotlib: on first need only

        kinds: dict[str, Any] = {
            "heatmap": plots.heatmap,
            "images": plots.image_grid,
            "history": plots.history,
            "norms": plots.gradient_norms,
            "timeline": plots.timeline,
        }
        word, _, rest = line.strip().partition(" ")
        named = word in kinds and bool(rest.strip())
        text = rest if named else line
        try:
            tree = syntax.parse_expression(text.strip()).body
        except (SyntaxError, ValueError):
            raise UsageError(_PLOT.format(", ".join(kinds))) from None
        value = self._value(tree)
        draw = kinds[word] if named else _usual(value, plots)
        try:
            if describe.is_tensor(value) and draw in (plots.heatmap, plots.image_grid):
                return draw(value, name=describe.printable(text.strip()))
            return draw(value)
        except KbenchError as error:
            raise UsageError(f"%plot: {_reason_of(error)}") from None

    def _namespace(self) -> dict[str, object]:
        shell = self.shell
        assert shell is not None
        found: dict[str, object] = shell.user_ns
        return found

    def _value(self, node: ast.expr) -> Any:
        """The value of an expression among the user's names."""
        try:
            code = compile(ast.Expression(node), "<magic>", "eval")
            return eval(code, self._namespace())
        except Exception as error:
            shown = describe.printable(ast.unparse(node))
            raise UsageError(f"{shown}: {type(error).__name__}: {error}") from None


def _usual(value: object, plots: Any) -> Any:
    """The picture for a value of which nothing else was said."""
    if isinstance(value, plots.History):
        return plots.history
    if isinstance(value, (plots.GradientNorms, dict)):
        return plots.gradient_norms
    records = value if isinstance(value, list) else [value]
    steps = bool(records) and all(hasattr(record, "steps") for record in records)
    return plots.timeline if describe.is_function(value) or steps else plots.heatmap


def _reason_of(error: KbenchError) -> str:
    return f"{error.reason}; try {error.suggestion}" if error.suggestion else error.reason
