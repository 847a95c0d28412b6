"""Nodes with several results: one node whose value is a tuple, and a reader for each result.

An op of kind "several" infers `several(parts)`, and its NumPy form returns a tuple. Its gradient
rule gets, in place of `g`, a `Partial`: the gradients that arrived, by the result's number.
"""

from __future__ import annotations

from typing import Any

from kbench.engine.core.spec import Spec, Specs
from kbench.engine.graph.apply import apply
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Tensor


class Partial(dict[int, Tensor]):
    """Gradients to some results of one node, by number; they add up as tensors do."""

    def __add__(self, other: Partial) -> Partial:
        total = Partial(self)
        for index, gradient in other.items():
            known = total.get(index)
            total[index] = gradient if known is None else known + gradient
        return total


def _result_infer(whole: Spec, *, index: int) -> Spec:
    assert isinstance(whole, Specs)
    return whole.parts[index]


def _result_numpy(out: Any, whole: tuple[Any, ...], *, index: int) -> Any:
    return whole[index]


def _result_gradient(g: Tensor, y: Tensor, whole: Tensor, *, index: int) -> tuple[Any, ...]:
    return (Partial({index: g}),)


RESULT = register(
    Op("result", "view", _result_infer, _result_numpy, _result_gradient, allocates=True)
)


def result(whole: Tensor, index: int, name: str | None = None) -> Tensor:
    """One result of a node that has several."""
    return apply(RESULT, whole, name=name, index=index)


def results(whole: Tensor, *names: str | None) -> list[Tensor]:
    """Every result of a node that has several, by these names as far as they reach."""
    assert isinstance(whole.spec, Specs)
    count = len(whole.spec.parts)
    known = (*names, *(None,) * count)
    return [result(whole, index, known[index]) for index in range(count)]
