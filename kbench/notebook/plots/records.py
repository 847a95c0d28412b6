"""Records that plots are drawn from: how a variable, or the gradients of a loss, came along.

Their memory is bounded: a full record keeps every second entry and goes on with steps twice as
long. Loads no matplotlib.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.engine.autodiff import gradients
from kbench.engine.core import fork_safety
from kbench.engine.core.errors import ArgumentError
from kbench.engine.execute.function import Function
from kbench.engine.graph import variables
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.variables import Placeholder
from kbench.engine.inspect import describe
from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.engine.graph.variables import Variable

MAX_ENTRIES = 200
"""Entries of one record unless the call says otherwise: more are not told apart in a figure."""
MAX_WANTED_ENTRIES = 1 << 16
"""Entries that a call may ask for."""


class _Thinning:
    """Entries at their steps: every one at first, later every second, fourth ..."""

    def __init__(self, most: int, function: str) -> None:
        if type(most) is not int or not 2 <= most <= MAX_WANTED_ENTRIES:
            raise ArgumentError(
                f"most must be a number of entries from 2 to {MAX_WANTED_ENTRIES}, got {most!r}",
                function=function,
            )
        self._most = most
        self._lock = fork_safety.lock()
        self._rows: list[JsonObject] = []
        self.every = 1  # of so many steps one is kept
        self.steps = 0  # that there were

    @property
    def rows(self) -> list[JsonObject]:
        """The entries that are kept, each with its `step`."""
        with self._lock:
            return list(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _due(self) -> bool:
        """Count a step; whether it is one to keep."""
        with self._lock:
            due = self.steps % self.every == 0
            self.steps += 1
            return due

    def _keep(self, step: int, row: JsonObject) -> None:
        with self._lock:
            self._rows.append({"step": step, **row})
            if len(self._rows) >= self._most:
                self.every *= 2
                self._rows = [row for row in self._rows if row["step"] % self.every == 0]


class History(_Thinning):
    """How a variable's values were spread, at the start and after each store to it.

    Arguments:
        variable: what to follow, from now to `stop()` or the end of a `with` block. None follows
            nothing: give the values to `add`.
        name: what to call it.
        most: how many entries are kept.
    Raises:
        ArgumentError: no variable, or a number of entries that is none.
    """

    def __init__(
        self, variable: object = None, name: str | None = None, most: int = MAX_ENTRIES
    ) -> None:
        super().__init__(most, "History")
        if variable is not None and (not describe.is_variable(variable) or variable.is_sparse):
            raise ArgumentError(
                "a dense variable is needed, whose stores tell of its values; give those of "
                f"anything else to add(), got {describe.printable(type(variable).__name__)}",
                function="History",
            )
        self.name = name or str(getattr(variable, "name", "value")).removesuffix(":0")
        self._variable = variable
        self._end: Callable[[], None] | None = None
        if variable is not None:
            self.add(describe.held_array(variable))
            self._end = variables.changed.subscribe(self._stored)

    def add(self, value: object) -> None:
        """Take the values of an array as those of the next step."""
        step = self.steps
        if self._due():
            array = np.asarray(value)
            row = describe.array(array)
            if "refused" in row:
                raise ArgumentError(row["refused"], function="History.add")
            kept = ("min", "max", "mean", "std", "histogram", "nan", "inf", "finite")
            self._keep(step, {key: row[key] for key in kept})

    def stop(self) -> None:
        """Follow the variable no more; what is recorded stays."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        name = describe.printable(self.name)
        return f"<history of {name}: {len(self)} entries of {self.steps} steps>"

    def _stored(self, variable: object) -> None:
        if variable is self._variable:
            self.add(describe.held_array(variable))


class GradientNorms(_Thinning):
    """The norm of a loss' gradient for each variable, step by step.

    Arguments:
        loss: a float tensor.
        variables: those it depends on; None for all that it reaches.
        most: how many steps are kept.
    Raises:
        ArgumentError: no tensor, or no variables.
    """

    def __init__(
        self, loss: object, variables: Sequence[object] | None = None, most: int = MAX_ENTRIES
    ) -> None:
        super().__init__(most, "GradientNorms")
        if not describe.is_tensor(loss):
            kind = describe.printable(type(loss).__name__)
            raise ArgumentError(f"loss must be a tensor, got {kind}", function="GradientNorms")
        nodes = walk([loss])
        reached = [node for node in nodes if describe.is_variable(node) and _learns(node)]
        given = list(variables) if variables is not None else reached
        chosen = [variable for variable in given if describe.is_variable(variable)]
        if not chosen or len(chosen) < len(given):
            raise ArgumentError(
                "the loss depends on no float variable" if not given else "variables are needed",
                function="GradientNorms",
            )
        inputs = [node for node in nodes if isinstance(node, Placeholder)]
        self.inputs = sorted(inputs, key=lambda node: int(node.serial))
        found = gradients(loss, chosen)
        self.names = _distinct([variable.name.removesuffix(":0") for variable in chosen])
        self.missing = [
            name for name, gradient in zip(self.names, found, strict=True) if gradient is None
        ]  # to which no gradient flows
        self._reached = [
            name for name, gradient in zip(self.names, found, strict=True) if gradient is not None
        ]
        self._run = Function(
            self.inputs, [gradient for gradient in found if gradient is not None], name="norms"
        )

    def add(self, feeds: Sequence[Any] | Mapping[Any, Any] = ()) -> dict[str, float]:
        """Compute the norms on the values of one step, and record them.

        Arguments:
            feeds: a value for each of `inputs`, the loss' placeholders in the order in which they
                were made; or by placeholder.
        Returns:
            The norm for each variable that a gradient flows to.
        Raises:
            FeedError: a value that is missing or does not fit.
        """
        if isinstance(feeds, Mapping):
            absent = [
                node.name for node in self.inputs if node not in feeds and node.default is None
            ]
            if absent:
                raise ArgumentError(f"no value for {absent[0]!r}", function="GradientNorms.add")
            feeds = [feeds.get(node, node.default) for node in self.inputs]
        elif not feeds and all(node.default is not None for node in self.inputs):
            feeds = [node.default for node in self.inputs]
        arrays = self._run(list(feeds))
        norms = {name: norm(array) for name, array in zip(self._reached, arrays, strict=True)}
        step = self.steps
        if self._due():
            self._keep(step, {"norms": norms})
        return norms

    def __repr__(self) -> str:
        return f"<gradient norms of {len(self.names)} variables: {len(self)} of {self.steps} steps>"


def norm(array: object) -> float:
    """The length of an array as one vector, without overflow on the way."""
    values = np.asarray(array, np.float64).reshape(-1)
    if not values.size:
        return 0.0
    largest = float(np.max(np.abs(values)))
    if not np.isfinite(largest) or largest == 0.0:
        return largest
    return largest * float(np.sqrt(np.sum(np.square(values / largest))))


def _learns(variable: Variable) -> bool:
    return str(variable.spec.dtype).startswith("float") and not variable.is_sparse


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of which the second of its kind gets a number."""
    found: list[str] = []
    for name in names:
        count = 2
        other = name
        while other in found:
            other, count = f"{name} ({count})", count + 1
        found.append(other)
    return found
