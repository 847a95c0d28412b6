"""Metrics that Keras 2.3.1 gives to TensorFlow alone: MeanIoU, and the `top_k` of two others."""

from __future__ import annotations

import functools
from types import ModuleType

import numpy as np

from kbench import backend
from kbench.engine.graph.tensor import Tensor
from kbench.keras_client.fixes import Keras

K: ModuleType = backend


def metrics_utils(module: ModuleType) -> None:
    """utils/metrics_utils.py:71 `filter_top_k` calls TensorFlow."""

    def filter_top_k(x: Tensor, k: int) -> Tensor:
        """The k largest entries of the last axis, the others far below every threshold."""
        width = K.int_shape(x)[-1]
        places = K.cumsum(K.ones_like(x, dtype="int32"), axis=-1) - 1
        kept: Tensor = K.zeros_like(x, dtype="bool")
        for _ in range(k if width is None else min(k, width)):
            left = K.switch(kept, K.zeros_like(x) - np.inf, x)
            largest = K.cast(K.argmax(left, axis=-1), K.dtype(places))
            kept = kept | K.equal(K.expand_dims(largest), places)
        chosen: Tensor = K.switch(kept, x, K.zeros_like(x) + module.NEG_INF)
        return chosen

    module.filter_top_k = filter_top_k  # type: ignore[attr-defined]


def metrics(module: ModuleType) -> None:
    """metrics.py:1411, 1521, 1884: RuntimeErrors for every backend but TensorFlow."""
    for name in ("Precision", "Recall"):
        _allow_top_k(getattr(module, name), module.metrics_utils)
    module.MeanIoU = _mean_iou(module)  # type: ignore[attr-defined]


def _allow_top_k(metric: Keras, utils: ModuleType) -> None:
    original = metric.__init__

    @functools.wraps(original)
    def __init__(
        self: Keras,
        thresholds: object = None,
        top_k: int | None = None,
        class_id: int | None = None,
        **names: object,
    ) -> None:
        original(self, thresholds, None, class_id, **names)
        self.top_k = top_k
        if top_k is not None and thresholds is None:
            self.thresholds = [utils.NEG_INF]

    metric.__init__ = __init__


def _mean_iou(module: ModuleType) -> type:
    """A class on Keras' own Metric; its formula: the mean over classes of tp / (tp + fp + fn)."""

    class MeanIoU(module.Metric):  # type: ignore[misc, name-defined]
        """Mean intersection over union of classes, from a confusion matrix.

        Arguments:
            num_classes: how many classes labels and predictions, given as integers, may have.
        """

        def __init__(self, num_classes: int, name: str | None = None, dtype: object = None) -> None:
            super().__init__(name=name or "mean_io_u", dtype=dtype)
            self.num_classes = num_classes
            self.total_cm = self.add_weight(
                "total_confusion_matrix", shape=(num_classes, num_classes), initializer="zeros"
            )

        def update_state(
            self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
        ) -> list[Tensor]:
            rows = K.eye(self.num_classes, dtype=self.dtype)
            true, found = (  # `gather` refuses what is no class
                K.gather(rows, K.cast(K.flatten(K.cast(labels, self.dtype)), "int32"))
                for labels in (y_true, y_pred)
            )
            if sample_weight is not None:
                weight = K.flatten(K.cast(sample_weight, self.dtype))
                true = true * K.expand_dims(weight, -1)
            counts = K.dot(K.transpose(true), found)
            return [K.update_add(self.total_cm, K.cast(counts, self.dtype))]

        def result(self) -> Tensor:
            rows, columns = K.sum(self.total_cm, axis=0), K.sum(self.total_cm, axis=1)
            both = K.sum(self.total_cm * K.eye(self.num_classes, dtype=self.dtype), axis=0)
            union = rows + columns - both
            present = K.cast(K.not_equal(union, 0), self.dtype)
            share = both / (union + (1 - present))
            mean: Tensor = K.sum(share) / K.maximum(K.sum(present), 1)
            return mean

        def reset_states(self) -> None:  # Metric's own stores a number, not a matrix
            K.set_value(self.total_cm, np.zeros((self.num_classes, self.num_classes)))

        def get_config(self) -> dict[str, object]:
            return {**super().get_config(), "num_classes": self.num_classes}

    MeanIoU.__module__, MeanIoU.__qualname__ = module.__name__, "MeanIoU"  # as pickle looks for it
    return MeanIoU
