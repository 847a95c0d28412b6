"""What is measured: models, how many samples a call takes, and the numbers that go in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SEED = 20261125
TOLERANCE = 1e-4
"""Of the largest value of a result: float32 through fifty layers, each library in its own order."""


@dataclass(frozen=True)
class Case:
    """A model with a batch; `note` says what it is."""

    model: str
    batch: int
    note: str

    @property
    def name(self) -> str:
        """How `--only` and the tables call it."""
        return f"{self.model}.{self.batch}"


_RESNET = "ResNet-50, images of 224x224x3"
_MOBILENET = "MobileNet, images of 224x224x3"
_TRANSFORMER = "a block of a Transformer's encoder: 128 tokens of 256 numbers, 4 heads, 1024 within"

CASES = {
    one.name: one
    for one in (
        Case("resnet50", 1, _RESNET),
        Case("resnet50", 16, _RESNET),
        Case("mobilenet", 1, _MOBILENET),
        Case("mobilenet", 16, _MOBILENET),
        Case("lstm", 32, "LSTM of 128 on 80 steps of 128 numbers, and Dense"),
        Case("transformer", 8, _TRANSFORMER),
    )
}

MODELS = tuple(dict.fromkeys(one.model for one in CASES.values()))


def batches(model: str) -> list[int]:
    """How many samples the calls of a model take, the most at the end."""
    return sorted(one.batch for one in CASES.values() if one.model == model)


def _images(count: int, random: np.random.Generator) -> np.ndarray:
    """Coarse patches of colour under fine noise: samples differ as pictures do."""
    coarse = random.uniform(-1, 1, (count, 7, 7, 3)).repeat(32, 1).repeat(32, 2)
    return coarse + random.normal(0, 0.3, coarse.shape)


def inputs(model: str, count: int, seed: int = SEED) -> np.ndarray:
    """So many samples, as Keras takes them: channels last, samples before steps."""
    random = np.random.default_rng(seed)
    if model in ("resnet50", "mobilenet"):
        found = _images(count, random)
    else:
        shape = {"lstm": (80, 128), "transformer": (128, 256)}[model]
        found = random.normal(0, 1, (count, *shape))
    return found.astype(np.float32)
