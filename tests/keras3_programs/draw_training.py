"""Random losses, targets, metrics and optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import layers, losses, metrics, optimizers

from keras3_programs.choose import Chooser

MEAN_METRICS = (
    "MeanSquaredError MeanAbsoluteError RootMeanSquaredError MeanAbsolutePercentageError "
    "MeanSquaredLogarithmicError CosineSimilarity LogCoshError R2Score MeanMetricWrapper"
).split()[:-1]


class Head:
    """How an output ends, and what it is trained against.

    `ends` are its last layers; `targets(shape, chooser)` makes what belongs to an output.
    """

    def __init__(self, kind: str, choose: Chooser) -> None:
        self.kind = kind
        self.classes = choose.whole(2, 5)
        self.logits = choose.chance(0.4)
        reduction = choose.one(
            *["sum_over_batch_size"] * 4, "sum", "mean", "mean_with_sample_weight"
        )
        self.loss, self.end = _HEADS[kind](self, choose, {"reduction": reduction})

    def targets(self, shape: Any, choose: Chooser) -> np.ndarray:
        rows = shape[:-1]
        if self.kind == "sparse":
            return choose.draw.randint(0, self.classes, rows).astype("int32")
        if self.kind == "categorical":
            found = np.eye(self.classes)[choose.draw.randint(0, self.classes, rows)]
            return found.astype("float32")
        if self.kind == "binary":
            return choose.draw.randint(0, 2, shape).astype("float32")
        if self.kind == "hinge":
            return (choose.draw.randint(0, 2, shape) * 2 - 1).astype("float32")
        if self.kind == "positive":
            return choose.draw.uniform(0.2, 2, shape).astype("float32")
        if self.kind == "ctc":
            return choose.draw.randint(1, self.classes, (shape[0], 2)).astype("int32")
        return choose.draw.randn(*shape).astype("float32")

    def metrics(self, choose: Chooser, rank: int) -> list[Any]:
        """Metrics that understand these targets, of outputs of that rank."""
        options = {"name": f"m{choose.whole(0, 999)}"}
        n = self.classes
        made: dict[str, list[Any]] = {
            "regression": [
                lambda: getattr(metrics, choose.one(*MEAN_METRICS))(**options),
                lambda: metrics.R2Score(choose.one(None, "uniform_average"), **options),
            ],
            "binary": [
                lambda: metrics.BinaryAccuracy(threshold=0.4, **options),
                lambda: metrics.AUC(
                    choose.one(20, 200),
                    choose.one("ROC", "PR"),
                    choose.one("interpolation", "minoring", "majoring"),
                    from_logits=self.logits,
                    **options,
                ),
                lambda: metrics.Precision(choose.one(0.3, [0.2, 0.6]), **options),
                lambda: metrics.Recall(choose.one(0.3, [0.2, 0.6]), top_k=None, **options),
                lambda: metrics.TruePositives(0.3, **options),
                lambda: metrics.FalseNegatives(**options),
                lambda: metrics.FalsePositives([0.1, 0.9], **options),
                lambda: metrics.TrueNegatives(**options),
                lambda: metrics.SensitivityAtSpecificity(0.5, **options),
                lambda: metrics.PrecisionAtRecall(0.5, **options),
                lambda: metrics.RecallAtPrecision(0.5, **options),
                lambda: metrics.SpecificityAtSensitivity(0.5, **options),
                lambda: metrics.BinaryCrossentropy(from_logits=self.logits, **options),
                lambda: metrics.BinaryIoU((0, 1), 0.4, **options),
                lambda: metrics.F1Score(choose.one(None, "micro", "macro"), 0.4, **options),
            ],
            "categorical": [
                lambda: metrics.CategoricalAccuracy(**options),
                lambda: metrics.TopKCategoricalAccuracy(2, **options),
                lambda: metrics.CategoricalCrossentropy(from_logits=self.logits, **options),
                lambda: metrics.F1Score(choose.one(None, "micro", "macro", "weighted"), **options),
                lambda: metrics.FBetaScore("macro", 2.0, **options),
                lambda: metrics.OneHotMeanIoU(n, **options),
                lambda: metrics.OneHotIoU(n, [0, 1], **options),
                lambda: metrics.KLDivergence(**options),
                lambda: metrics.CategoricalHinge(**options),
                lambda: metrics.Precision(top_k=1, **options),
                lambda: metrics.Recall(class_id=1, **options),
            ],
            "sparse": [
                lambda: metrics.SparseCategoricalAccuracy(**options),
                lambda: metrics.SparseTopKCategoricalAccuracy(2, **options),
                lambda: metrics.SparseCategoricalCrossentropy(from_logits=self.logits, **options),
                lambda: metrics.MeanIoU(n, sparse_y_pred=False, **options),
                lambda: metrics.IoU(n, [0, 1], sparse_y_pred=False, **options),
            ],
            "hinge": [
                lambda: metrics.Hinge(**options),
                lambda: metrics.SquaredHinge(**options),
            ],
            "positive": [
                lambda: metrics.Poisson(**options),
                lambda: metrics.MeanSquaredLogarithmicError(**options),
            ],
            "ctc": [],
        }
        kept = made[self.kind] if rank == 2 or self.kind in ("sparse", "hinge") else []
        if not kept or choose.chance(0.3):
            return []
        return [choose.one(*kept)()]


def _regression(head: Head, choose: Chooser, given: dict[str, Any]) -> Any:
    loss = choose.one(
        losses.MeanSquaredError(**given),
        losses.MeanSquaredError(**given),
        losses.MeanAbsoluteError(**given),
        losses.Huber(choose.number(0.3, 1.5), **given),
        losses.LogCosh(**given),
        losses.CosineSimilarity(**given),
    )
    least = 2 if isinstance(loss, losses.CosineSimilarity) else 1
    return loss, layers.Dense(choose.whole(least, 3))


def _binary(head: Head, choose: Chooser, given: dict[str, Any]) -> Any:
    logits = {"from_logits": head.logits, **given}
    loss = choose.one(
        lambda: losses.BinaryCrossentropy(label_smoothing=choose.one(0.0, 0.1), **logits),
        lambda: losses.BinaryFocalCrossentropy(
            choose.chance(0.5), gamma=choose.one(1.5, 2.0), **logits
        ),
        lambda: losses.Dice(axis=choose.one(None, -1), **given),
        lambda: losses.Tversky(0.3, 0.7, **given),
    )()
    return loss, layers.Dense(choose.whole(1, 3), None if head.logits else "sigmoid")


def _categorical(head: Head, choose: Chooser, given: dict[str, Any]) -> Any:
    logits = {"from_logits": head.logits, **given}
    loss = choose.one(
        lambda: losses.CategoricalCrossentropy(label_smoothing=choose.one(0.0, 0.2), **logits),
        lambda: losses.CategoricalFocalCrossentropy(gamma=1.5, **logits),
        lambda: losses.CategoricalHinge(**given),
        lambda: losses.KLDivergence(**given),
    )()
    if isinstance(loss, losses.KLDivergence):
        head.logits = False
    return loss, layers.Dense(head.classes, None if head.logits else "softmax")


def _sparse(head: Head, choose: Chooser, given: dict[str, Any]) -> Any:
    loss = losses.SparseCategoricalCrossentropy(
        from_logits=head.logits, ignore_class=choose.one(None, None, 1), **given
    )
    return loss, layers.Dense(head.classes, None if head.logits else "softmax")


def _hinge(head: Head, choose: Chooser, given: dict[str, Any]) -> Any:
    loss = choose.one(losses.Hinge(**given), losses.SquaredHinge(**given))
    return loss, layers.Dense(choose.whole(1, 3), "tanh")


def _positive(head: Head, choose: Chooser, given: dict[str, Any]) -> Any:
    loss = choose.one(
        losses.Poisson(**given),
        losses.MeanSquaredLogarithmicError(**given),
        losses.MeanAbsolutePercentageError(**given),
    )
    return loss, layers.Dense(choose.whole(1, 3), "softplus")


def _ctc(head: Head, choose: Chooser, given: dict[str, Any]) -> Any:
    return losses.CTC(**given), layers.Dense(head.classes)


_HEADS: dict[str, Any] = {
    "regression": _regression,
    "binary": _binary,
    "categorical": _categorical,
    "sparse": _sparse,
    "hinge": _hinge,
    "positive": _positive,
    "ctc": _ctc,
}


def head(choose: Chooser, rank: int) -> Head:
    """How an output of that rank ends."""
    kinds = ["regression", "regression", "binary", "categorical", "sparse", "sparse", "hinge"]
    kinds += ["positive"] + (["ctc"] if rank == 3 else [])
    return Head(choose.one(*kinds), choose)


def _rate(choose: Chooser, rate: float) -> Any:
    schedules = optimizers.schedules
    return choose.one(
        lambda: rate,
        lambda: rate,
        lambda: rate,
        lambda: schedules.ExponentialDecay(rate, 2, 0.9, staircase=choose.chance(0.5)),
        lambda: schedules.CosineDecay(rate, 10, 0.1, warmup_target=rate * 2, warmup_steps=2),
        lambda: schedules.CosineDecayRestarts(rate, 3, 1.5),
        lambda: schedules.InverseTimeDecay(rate, 2, 0.5),
        lambda: schedules.PiecewiseConstantDecay([2, 5], [rate, rate * 0.5, rate * 0.1]),
        lambda: schedules.PolynomialDecay(rate, 4, rate * 0.1, 2.0, cycle=choose.chance(0.5)),
    )()


def optimizer(choose: Chooser) -> Any:
    """A random optimizer; epsilon is large, so that gradients of 0 stay near 0."""
    common = choose.some(
        {
            "weight_decay": 0.01,
            "use_ema": True,
            "gradient_accumulation_steps": 2,
        },
        0.15,
    )
    if "use_ema" in common:
        common |= {"ema_momentum": 0.8, "ema_overwrite_frequency": choose.one(None, 3)}
    clip = choose.one({}, {}, {"clipnorm": 0.5}, {"clipvalue": 0.1}, {"global_clipnorm": 0.7})
    common |= clip
    rate = _rate(choose, choose.one(0.05, 0.01, 0.1))
    eps = {"epsilon": 1e-2}
    made = choose.one(
        lambda: optimizers.SGD(rate, **common),
        lambda: optimizers.SGD(rate, momentum=0.9, nesterov=choose.chance(0.5), **common),
        lambda: optimizers.SGD(rate, momentum=0.5, **common),
        lambda: optimizers.Adam(rate, amsgrad=choose.chance(0.4), **eps, **common),
        lambda: optimizers.AdamW(rate, **eps, **{"weight_decay": 0.05, **common}),
        lambda: optimizers.Adamax(rate, **eps, **common),
        lambda: optimizers.Nadam(rate, **eps, **common),
        lambda: optimizers.RMSprop(
            rate, momentum=choose.one(0.0, 0.5), centered=choose.chance(0.5), **eps, **common
        ),
        lambda: optimizers.Adagrad(rate, **eps, **common),
        lambda: optimizers.Adadelta(rate, **eps, **common),
        lambda: optimizers.Adafactor(
            rate, relative_step=choose.chance(0.5), epsilon_1=1e-4, **common
        ),
        lambda: optimizers.Ftrl(
            rate,
            l1_regularization_strength=choose.one(0.0, 0.01),
            l2_regularization_strength=choose.one(0.0, 0.1),
            beta=choose.one(0.0, 0.2),
            **common,
        ),
        lambda: optimizers.Lamb(rate, **eps, **common),
        lambda: optimizers.Lion(0.001, **common),
        lambda: optimizers.Muon(rate, **eps, **common),
        lambda: optimizers.ScheduleFreeAdamW(0.05, **eps, warmup_steps=2, **common),
    )()
    if choose.chance(0.1):
        return optimizers.LossScaleOptimizer(made, initial_scale=64.0, dynamic_growth_steps=3)
    return made
