"""A random model with weights, data, and what it is compiled and trained with."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers

from keras3_programs.choose import Chooser
from keras3_programs.draw_layers import layer, merge
from keras3_programs.draw_training import Head, head, optimizer

POLICIES = ["float32"] * 14 + ["float64"] * 2
POLICIES += ["mixed_float16", "mixed_bfloat16", "float16", "bfloat16"]
MAX_ELEMENTS = 600
"""What one sample of a tensor may have; larger ones take long and show nothing else."""


class Drawn:
    """A model, and all that is needed to train it; the same for the same seed.

    `refused` has what Keras said about layers that do not fit: it is the same on all backends.
    """

    def __init__(self, seed: int, policy: str | None = None) -> None:
        self.seed = seed
        self.refused: list[str] = []
        keras.utils.set_random_seed(seed)  # layers that draw do so alike on one backend
        choose = Chooser(seed, 0)
        self.policy = policy or choose.one(*POLICIES)
        self.count, self.batch = choose.whole(7, 11), choose.whole(3, 5)
        self.lines: list[str] = []
        keras.config.set_dtype_policy(self.policy)
        try:
            self._build(choose)
        finally:
            keras.config.set_dtype_policy("float32")
        self._set_weights()
        self._data()

    def _build(self, choose: Chooser) -> None:
        self.inputs: list[Any] = []
        tensors: list[Any] = []
        for i in range(choose.one(1, 1, 1, 2)):
            tensors.append(self._input(Chooser(self.seed, 1, i)))
        used: list[Any] = []
        for i in range(choose.whole(2, 6)):
            each = Chooser(self.seed, 2, i)
            found = self._grown(each, tensors, used)
            if found is not None:
                tensors.append(found)
        ends = [tensors[-1]]
        if len(tensors) > len(self.inputs) + 1 and choose.chance(0.3):
            ends.append(tensors[-2])
        self.heads, outputs = [], []
        for i, end in enumerate(ends):
            made, output = self._ended(Chooser(self.seed, 3, i), end, i)
            self.heads.append(made)
            outputs.append(output)
        kept = _reached(outputs, self.inputs)
        self.model = keras.Model(
            kept[0] if len(kept) == 1 else kept, outputs if len(outputs) > 1 else outputs[0]
        )
        self.inputs = kept

    def _input(self, choose: Chooser) -> Any:
        rank = choose.one(2, 3, 3, 4, 4, 5)
        size = {2: (2, 7), 3: (3, 7), 4: (4, 8), 5: (3, 4)}[rank]
        if rank == 3 and choose.chance(0.35):
            tokens = keras.Input((choose.whole(3, 7),), dtype="int32")
            self.inputs.append(tokens)
            return layers.Embedding(9, choose.whole(2, 4), mask_zero=choose.chance(0.7))(tokens)
        shape = (*choose.wholes(rank - 2, *size), choose.whole(1, 4) if rank > 2 else size[1])
        if rank == 4 and choose.chance(0.4):
            shape = (*shape[:2], 3)
        made = keras.Input(shape)
        self.inputs.append(made)
        return made

    def _grown(self, choose: Chooser, tensors: list[Any], used: list[Any]) -> Any:
        """One more tensor, out of those that are there."""
        at = tensors[-1] if choose.chance(0.75) else choose.one(*tensors)
        rank = len(at.shape)
        if choose.chance(0.15):
            other = choose.one(*[one for one in tensors if len(one.shape) == rank])
            alike = tuple(other.shape) == tuple(at.shape)
            return self._applied(lambda: merge(choose, alike), [at, other], used)
        if used and choose.chance(0.1):
            again = choose.one(*used)
            return self._applied(lambda: again, at, used)
        if choose.chance(0.12):
            return self._applied(lambda: self._nested(choose, at), at, used)
        return self._applied(lambda: layer(choose, at.shape), at, used)

    def _nested(self, choose: Chooser, at: Any) -> Any:
        """A model of two layers as a layer."""
        first = keras.Input(at.shape[1:], dtype=at.dtype)
        inner = layer(choose, at.shape)(first)
        return keras.Model(first, layer(choose, inner.shape)(inner))

    def _applied(self, make: Any, at: Any, used: list[Any]) -> Any:
        name = "?"
        try:
            made = make()
            name = type(made).__name__
            if getattr(made, "stateful", False):
                made.stateful = False if self.count % self.batch else made.stateful
            found = made(at)
            if isinstance(found, list | tuple):
                found = found[0]
        except Exception as error:
            self.refused.append(f"{name}: {type(error).__name__}")
            self.lines.append(f"refused {name}: {error}"[:900])
            return None
        size = found.shape[1:]
        fits = "float" in str(found.dtype) and found.shape[:1] == (None,) and None not in size
        if not fits or not 1 <= len(size) <= 4 or not 0 < np.prod(size) <= MAX_ELEMENTS:
            self.lines.append(f"left out {name}: {found.dtype}{found.shape}")
            return None
        config = {
            key: value
            for key, value in (made.get_config().items() if name != "Functional" else [])
            if not key.endswith(("initializer", "name", "dtype")) and value not in (None, False)
        }
        self.lines.append(f"{name} {config} -> {found.dtype}{tuple(found.shape)}"[:700])
        used.append(made)
        return found

    def _ended(self, choose: Chooser, end: Any, i: int) -> Any:
        if len(end.shape) > 3 or (len(end.shape) == 3 and choose.chance(0.5)):
            if choose.chance(0.5):
                end = layers.Flatten()(end)
            elif len(end.shape) > 2:
                end = getattr(layers, f"GlobalAveragePooling{len(end.shape) - 2}D")()(end)
        made: Head = head(choose, len(end.shape))
        made.end.name = f"end{i}"
        made.end.dtype_policy = keras.DTypePolicy("float32")
        return made, made.end(end)

    # ---------------------------------------------------------------- numbers

    def _set_weights(self) -> None:
        draw = Chooser(self.seed, 4).draw
        for variable in self.model.variables:
            if "float" not in str(variable.dtype):
                continue
            shape = tuple(variable.shape)
            values = draw.randn(*shape) if shape else draw.randn()
            if any(word in variable.path for word in ("variance", "stddev")):
                values = np.abs(values) + 0.5
            elif any(word in variable.path for word in ("gamma", "scale")):
                values = 1 + 0.2 * values
            else:
                values = values * (0.7 / np.sqrt(max(1, np.prod(shape[:-1]) if shape else 1)))
            if variable.constraint is not None:
                values = np.abs(values)
            variable.assign(np.asarray(values, "float32"))

    def _data(self) -> None:
        choose = Chooser(self.seed, 5)
        self.x = [self._values(choose, one) for one in self.inputs]
        outputs = self.model.outputs
        self.y = [
            made.targets((self.count, *output.shape[1:]), choose)
            for made, output in zip(self.heads, outputs, strict=True)
        ]
        self.sample_weight = None
        if choose.chance(0.3):
            self.sample_weight = [
                choose.draw.uniform(0.2, 2, (self.count, *one.shape[1:-1])).astype("float32")
                for one in outputs
            ]

    def _values(self, choose: Chooser, one: Any) -> np.ndarray:
        shape = (self.count, *one.shape[1:])
        if one.dtype == "int32":
            lengths = choose.draw.randint(1, shape[1] + 1, (self.count, 1))
            tokens = choose.draw.randint(1, 9, shape)
            return np.where(np.arange(shape[1]) < lengths, tokens, 0).astype("int32")
        values = choose.draw.uniform(0, 1, shape) if len(shape) == 4 else choose.draw.randn(*shape)
        if len(shape) == 3:
            values[choose.draw.uniform(size=shape[:2]) < 0.15] = 0
        return values.astype("float32")

    def compile(self, **options: Any) -> None:
        """The model with its losses, metrics and optimizer, made anew."""
        choose = Chooser(self.seed, 6)
        chosen = optimizer(choose)
        self.optimizer_name = type(chosen).__name__
        found = [
            made.metrics(Chooser(self.seed, 7, i), len(output.shape))
            for i, (made, output) in enumerate(zip(self.heads, self.model.outputs, strict=True))
        ]
        weighted = choose.chance(0.3)
        names: dict[str, Any] = {"weighted_metrics" if weighted else "metrics": found}
        if len(self.heads) > 1 and choose.chance(0.5):
            names["loss_weights"] = [0.5, 2.0]
        losses = [made.loss for made in self.heads]
        if len(losses) == 1:
            losses = losses[0]
            names = {
                key: value[0] if key != "loss_weights" else value for key, value in names.items()
            }
        self.model.compile(chosen, losses, **names, **options)

    def given(self) -> Any:
        """x, y and weights of samples as `fit` takes them."""

        def single(values: Any) -> Any:
            return values if values is None or len(values) > 1 else values[0]

        return single(self.x), single(self.y), single(self.sample_weight)


def _reached(outputs: list[Any], inputs: list[Any]) -> list[Any]:
    """The inputs on which outputs depend."""
    seen: set[int] = set()
    left = list(outputs)
    while left:
        tensor = left.pop()
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        operation = tensor._keras_history.operation
        node = operation._inbound_nodes[tensor._keras_history.node_index]
        left += node.input_tensors
    return [one for one in inputs if id(one) in seen]
