"""Parts of Keras 2.3.1 that only TensorFlow could run: errors that say what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import NoReturn


def _refuse(what: str, instead: str) -> Callable[..., NoReturn]:
    def __init__(self: object, *_arguments: object, **_keywords: object) -> NoReturn:
        raise RuntimeError(f"{what} needs TensorFlow; on kbench use {instead}")

    return __init__


def tensorboard(module: ModuleType) -> None:
    """callbacks/tensorboard_v1.py:101: a summary writer of TensorFlow."""
    module.TensorBoard.__init__ = _refuse(
        "the TensorBoard callback",
        "CSVLogger for curves, the workbench (kbench) for values, gradients and the plan",
    )


def cudnn(module: ModuleType) -> None:
    """layers/cudnn_recurrent.py:36: kernels of an NVIDIA library."""
    for name, layer in (("CuDNNGRU", "GRU(reset_after=True)"), ("CuDNNLSTM", "LSTM")):
        made = getattr(module, name)
        made.__init__ = _refuse(f"the layer {name}", f"{layer}, which loads the same weights")


def multi_gpu(module: ModuleType) -> None:
    """utils/multi_gpu_utils.py:146: device placement of TensorFlow."""

    def multi_gpu_model(*_arguments: object, **_keywords: object) -> NoReturn:
        raise ValueError(
            "multi_gpu_model needs TensorFlow and several GPUs; kbench runs the model itself on "
            "all cores of the CPU (KBENCH_NUM_THREADS)"
        )

    module.multi_gpu_model = multi_gpu_model  # type: ignore[attr-defined]


def optimizers(module: ModuleType) -> None:
    """optimizers.py: TFOptimizer wraps an optimizer of TensorFlow."""
    module.TFOptimizer.__init__ = _refuse(
        "TFOptimizer", "an optimizer of keras.optimizers, such as Adam"
    )
