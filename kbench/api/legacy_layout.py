"""Weights in Keras 1's layouts: brought into today's, and told in errors as they were given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from kbench.engine.core.errors import KbenchError, ShapeError
from kbench.engine.graph.convert import as_tensor
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.layout.reshape import permute_dimensions

TH_LAYOUT = {4: "filters, channels, rows, cols", 5: "filters, channels, depth, rows, cols"}
LAYOUT = {4: "rows, cols, channels, filters", 5: "depth, rows, cols, channels, filters"}


class Laid(NamedTuple):
    """A weight as the user gave it, and as it is laid out today."""

    name: str
    given: Tensor
    today: Tensor


def laid_out(name: str, weight: Operand, axes: Sequence[int], layout: str) -> Laid:
    """A weight with its axes in today's order; ShapeError when it has others than `layout`."""
    given = as_tensor(weight)
    if given.ndim != len(axes):
        raise ShapeError(f"{name} is {given.spec}, but rank {len(axes)} is needed: [{layout}]")
    return Laid(name, given, permute_dimensions(given, tuple(axes)))


@contextmanager
def told_as_given(weights: Sequence[Laid], names: Mapping[str, str]) -> Iterator[None]:
    """Errors in the block tell weights and arguments as they were given.

    `names` maps today's names of arguments to those that the call used.
    """
    try:
        yield
    except KbenchError as error:
        for weight in weights:
            today = rf"\b(?:{weight.name}|kernel) is {re.escape(str(weight.today.spec))}"
            both = f"{weight.name} is {weight.given.spec}, in today's layout {weight.today.spec}"
            error.reason = re.sub(today, both, error.reason)
        for new, old in names.items():
            if error.reason.startswith(f"{new} "):
                error.reason = old + error.reason.removeprefix(new)
        raise
