"""One row of the table of layers: how to make a layer, on what, and what NumPy says of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from keras import layers, models

Shape = tuple[int | None, ...]
BATCH = 3


@dataclass(frozen=True)
class LayerRow:
    """A layer of Keras with its reference.

    `numpy(*inputs, *weights)` gives the output or a list of them; with `masked` it gets `mask=`
    too, and the layer follows `Masking(0.0)`. `shapes` are those of one sample of each input.
    `below` makes the inputs indices, which have no gradient. `fixed` states the batch's size.
    """

    name: str
    make: Callable[[], Any]
    shapes: tuple[Shape, ...]
    numpy: Callable[..., Any]
    label: str = ""
    masked: bool = False
    below: int = 0
    fixed: bool = False
    listed: bool = False  # the layer takes a list of its inputs
    custom: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name

    # -------------------------------------------------------------- numbers

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(str(self).encode()))

    def inputs(self) -> list[np.ndarray]:
        """Numbers on both sides of zero; masked rows have missing ends and a hole."""
        numbers = self.generator()
        if self.below:
            return [numbers.integers(0, self.below, (BATCH, *one)) for one in self.shapes]
        found = [numbers.uniform(-1.5, 1.5, (BATCH, *one)) for one in self.shapes]
        if self.masked:
            found[0][0, -1] = found[0][1, 1] = found[0][2, :2] = 0.0
        return found

    def weights(self, layer: Any) -> list[np.ndarray]:
        """Numbers for all weights, so that a bias that is zero at first counts too."""
        numbers = self.generator()
        values = []
        for weight in layer.weights:
            value = numbers.uniform(-0.7, 0.7, weight.shape)
            values.append(np.abs(value) + 0.5 if "variance" in weight.name else value)
        return values

    def wanted(self, inputs: list[np.ndarray], weights: list[np.ndarray]) -> list[np.ndarray]:
        """What NumPy says, as a list."""
        named = {"mask": np.any(inputs[0] != 0, axis=-1)} if self.masked else {}
        found = self.numpy(*inputs, *weights, **named)
        return found if isinstance(found, list) else [found]

    # -------------------------------------------------------------- models

    def model(self, learning: bool = False) -> tuple[Any, Any]:
        """(model, layer); with `learning` a layer with weights stands behind each input."""
        starts = [
            layers.Input(batch_shape=(BATCH, *one)) if self.fixed else layers.Input(one)
            for one in self.shapes
        ]
        tensors = [
            layers.Dense(one[-1])(x) if learning else x
            for one, x in zip(self.shapes, starts, strict=True)
        ]
        if self.masked:
            tensors[0] = layers.Masking(0.0)(tensors[0])
        layer = self.make()
        many = self.listed or len(tensors) > 1
        outputs = layer(tensors if many else tensors[0])
        return models.Model(starts, outputs), layer


def moved(numpy: Callable[..., Any], axis: int = 1) -> Callable[..., Any]:
    """The same reference for inputs whose channels come first, at `axis`."""

    def back(found: np.ndarray, rank: int) -> np.ndarray:
        return np.moveaxis(found, -1, axis + found.ndim - rank) if found.ndim > 2 else found

    def call(x, *weights, **named):
        found = numpy(np.moveaxis(x, axis, -1), *weights, **named)
        if isinstance(found, list):
            return [back(one, x.ndim) for one in found]
        return back(found, x.ndim)

    return call


def both(
    name: str,
    make: Callable[[str], Any],
    shape: Shape,
    numpy: Callable[..., Any],
    label: str = "",
    axis: int = 1,
    **options: Any,
) -> list[LayerRow]:
    """Two rows, one for each data format; `shape` has the channels last."""
    first = (*shape[: axis - 1], shape[-1], *shape[axis - 1 : -1])
    stem = f"{label}-" if label else ""
    return [
        LayerRow(name, lambda: make("channels_last"), (shape,), numpy, f"{stem}last", **options),
        LayerRow(
            name,
            lambda: make("channels_first"),
            (first,),
            moved(numpy, axis),
            f"{stem}first",
            **options,
        ),
    ]
