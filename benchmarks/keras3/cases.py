"""What is measured: models with a batch, small eager calls, and what an import takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SEED = 20261126
BATCHES = 20
"""Steps of one `fit`, whose time is divided by them: callbacks and the start of an epoch count."""
FIRSTS = 5
"""Processes of each backend whose first batch is timed, that find nothing; and as many later."""
TOLERANCE = 1e-4
"""Of the loss of the first batch: float32 through twenty layers, each backend in its own order."""
LATER_TOLERANCE = 2e-2
"""Of the mean loss of an epoch, over which roundings grow: most where batches are normalized."""

PEERS = ("jax", "torch", "tensorflow")
"""Backends of Keras 3, by its own names."""


@dataclass(frozen=True)
class Case:
    """A model and how many samples a batch has."""

    name: str
    batch: int
    note: str


CASES = {
    one.name: one
    for one in (
        Case("mlp", 128, "784-512-512-10, Adam"),
        Case("cnn", 128, "28x28x1, conv 32 and 64, pool, dense 128, Adam"),
        Case("resnet20", 32, "ResNet-20 on 32x32x3, batch normalization, SGD with momentum"),
        Case("lstm", 32, "embedding of 5,000x128, LSTM 128 over 80 steps, Adam"),
        Case("transformer", 32, "a block of an encoder, 128 tokens of 256 numbers, 4 heads, Adam"),
    )
}


# ------------------------------------------------------------------ eager calls


EAGER = ("add", "exp", "sum", "reshape", "softmax", "matmul.64", "conv.8x28x28x8")


def eager_call(name: str, ops: Any, tensor: Callable[[tuple[int, ...]], Any]) -> Callable[[], Any]:
    """The call of this name; `tensor` makes a float32 value of a shape."""
    small, other = tensor((3, 4)), tensor((3, 4))
    left, right = tensor((64, 64)), tensor((64, 64))
    images, kernel = tensor((8, 28, 28, 8)), tensor((3, 3, 8, 16))
    calls: dict[str, Callable[[], Any]] = {
        "add": lambda: ops.add(small, other),
        "exp": lambda: ops.exp(small),
        "sum": lambda: ops.sum(small, axis=-1),
        "reshape": lambda: ops.reshape(small, (4, 3)),
        "softmax": lambda: ops.softmax(small),
        "matmul.64": lambda: ops.matmul(left, right),
        "conv.8x28x28x8": lambda: ops.conv(images, kernel, padding="same"),
    }
    return calls[name]
