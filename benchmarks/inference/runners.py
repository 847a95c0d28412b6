"""The libraries: each loads the same model from a file of its own kind, and runs it.

Everybody gets one array in the layout that it likes best and the shape that will come, is told how
many threads there are, and computes in float32. What a call gives is NumPy's array.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], np.ndarray]


def files(folder: str, batch: int) -> dict[str, str]:
    """Where a model lies, by what it is."""
    named = {"keras": "model.h5", "x": "x.npy", "expected": "expected.npy"}
    return {
        **{key: os.path.join(folder, name) for key, name in named.items()},
        "onnx": os.path.join(folder, f"model-{batch}.onnx"),
        "fed": os.path.join(folder, f"fed-{batch}.npy"),
    }


class Runner:
    """One library; `version` says which."""

    version = ""

    def load(self, folder: str, batch: int) -> Call:
        """What calls the model of a folder."""
        raise NotImplementedError

    def settle(self) -> None:
        """Wait for what is compiled in the background; there is nothing of it by itself."""

    def array(self, result: Any) -> np.ndarray:
        """A result as an array of its own: the library may write over the one it gave."""
        return np.array(result)


class Kbench(Runner):
    """Keras' own file; a `K.function` from input to output, in the phase of tests."""

    def __init__(self, threads: int) -> None:
        from keras import backend

        import kbench

        if backend.backend() != "kbench":
            raise RuntimeError(f"Keras runs on {backend.backend()}")
        self.K: Any = backend
        kbench.set_num_threads(threads)
        self.version = kbench.__version__

    def load(self, folder: str, batch: int) -> Call:
        from keras import models

        from .models import OWN

        self.K.set_learning_phase(0)
        place = files(folder, batch)
        model = models.load_model(place["keras"], custom_objects=OWN, compile=False)
        values = [np.load(place["x"])[:batch]]
        call = self.K.function(model.inputs, model.outputs)
        return lambda: call(values)[0]

    def settle(self) -> None:
        """Wait for the kernels that are being compiled."""
        from kbench.engine.jit.service import service

        service.wait_idle(120)


class OnnxRuntime(Runner):
    """The provider for CPUs, with all optimizations of the graph."""

    def __init__(self, threads: int) -> None:
        import onnxruntime

        self._library, self._threads = onnxruntime, threads
        self.version = onnxruntime.__version__

    def load(self, folder: str, batch: int) -> Call:
        place, library = files(folder, batch), self._library
        options = library.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = library.GraphOptimizationLevel.ORT_ENABLE_ALL
        session = library.InferenceSession(
            place["onnx"], options, providers=["CPUExecutionProvider"]
        )
        feeds = {session.get_inputs()[0].name: np.load(place["fed"])}
        return lambda: session.run(None, feeds)[0]


class OpenVino(Runner):
    """The plugin for CPUs, set up for the least time of one call, without copies on the way."""

    def __init__(self, threads: int) -> None:
        import openvino

        self._library = openvino
        self._settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",  # else it rounds to bfloat16 where the CPU can
        }
        self.version = openvino.__version__.partition("-")[0]

    def load(self, folder: str, batch: int) -> Call:
        place = files(folder, batch)
        model = self._library.Core().compile_model(place["onnx"], "CPU", self._settings)
        request, values = model.create_infer_request(), {0: np.load(place["fed"])}
        return lambda: request.infer(values, share_inputs=True, share_outputs=True)[0]


RUNNERS: dict[str, Callable[[int], Runner]] = {
    "kbench": Kbench,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
}
PEERS = tuple(name for name in RUNNERS if name != "kbench")
