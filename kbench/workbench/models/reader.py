"""What is read of Keras' objects, of whichever generation: `keras2` and `keras3` have it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np
from msgspec import Struct

from kbench.workbench.models.fields import Place, field, listed

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor
    from kbench.engine.graph.variables import Variable

Called: TypeAlias = tuple[object, object]
"""A layer, and one of its calls."""
OutputSpec: TypeAlias = tuple[tuple[int | None, ...], str]
"""A shape and a dtype."""


STEPS = ("train_function", "test_function", "predict_function")
"""The fields of a model that hold what it calls for a batch."""


class Listed(NamedTuple):
    """What a layer lists: a variable, whether training is to change it, and Keras' name for it."""

    variable: object
    trained: bool
    name: str


class Weight(Struct, frozen=True):
    """A variable of a layer; `trainable`: whether training changes it; `name`: what Keras has."""

    variable: Variable
    trainable: bool
    name: str

    @property
    def count(self) -> int:
        """Its number of elements."""
        return math.prod(size for size in self.variable.spec.shape if size is not None)

    @property
    def bytes(self) -> int:
        """The size of its elements."""
        return self.count * np.dtype(str(self.variable.spec.dtype)).itemsize


class Reader(Protocol):
    """A generation of Keras; what each function means stands there."""

    LAYER: Place
    MODEL: Place
    SEQUENTIAL: Place
    INPUT: Place

    def inner(self, layer: object) -> Iterator[object]: ...
    def own_weights(self, layer: object) -> list[Listed]: ...
    def is_trained(self, layer: object) -> bool: ...
    def in_order(self, weights: list[Weight]) -> list[Weight]: ...
    def dtype(self, layer: object) -> str: ...
    def calls(self, layer: object, model: object) -> list[object]: ...
    def given(self, call: object) -> list[OutputSpec]: ...
    def result(self, model: object) -> list[OutputSpec]: ...
    def feeding(self, call: object) -> list[Called]: ...
    def ends(self, model: object) -> list[Called]: ...
    def inside(
        self, layer: object, model: object, steps: list[Function]
    ) -> tuple[list[Tensor], list[object]]: ...
    def output_of(self, layer: object, call: object, steps: list[Function]) -> Tensor | None: ...
    def counter(self, model: object) -> object: ...
    def functions_in(self, step: object) -> list[Function]: ...
    def loss(self, model: object) -> object: ...
    def outputs(self, model: object) -> list[Tensor]: ...


def called_at(pairs: Iterable[tuple[object, object]]) -> list[Called]:
    """Layers with those of their calls that have these numbers, as far as they are there."""
    found = []
    for layer, at in pairs:
        calls = listed(field(layer, "_inbound_nodes"))
        if type(at) is int and at < len(calls):
            found.append((layer, calls[at]))
    return found


def made_by(tensors: list[object]) -> list[Called]:
    """The layers and calls that symbolic tensors come from."""
    histories = [listed(field(tensor, "_keras_history")) for tensor in tensors]
    return called_at((one[0], one[1]) for one in histories if len(one) == 3)
