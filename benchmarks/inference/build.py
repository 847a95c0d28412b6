"""Write a model to a folder: Keras' file, graphs of ONNX, inputs, and what is to come out.

    KERAS_BACKEND=kbench python benchmarks/inference/build.py mobilenet FOLDER openvino

Without another library there are no graphs, and no need for the library onnx. What is to come out
is computed in float64 by NumPy, from the same weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path[0] = str(Path(__file__).resolve().parents[1])  # of all benchmarks, not of this package

from inference.cases import TOLERANCE, batches, inputs  # noqa: E402
from inference.export import export  # noqa: E402
from inference.graph import write  # noqa: E402
from inference.layout import channels_first, steps_first  # noqa: E402
from inference.runners import files  # noqa: E402


def fed(model: str, samples: np.ndarray) -> np.ndarray:
    """Samples as the graph of ONNX takes them."""
    if samples.ndim == 4:
        return channels_first(samples)
    return steps_first(samples) if model == "lstm" else samples


def healthy(result: np.ndarray) -> bool:
    """Whether samples and outputs differ by far more than the tolerance, as those of a model
    whose activations have neither died nor overflown."""
    if not np.isfinite(result).all():
        return False
    largest = float(np.abs(result).max())
    apart = min(float(np.ptp(result, axis=axis).max()) for axis in (0, -1))
    return apart > 100 * TOLERANCE * largest


def main(name: str, folder: str, *peers: str) -> None:
    """Build, write, compute."""
    from keras import backend as K

    import kbench
    from inference.models import build, exact

    most = batches(name)[-1]
    samples, model = inputs(name, most), build(name)
    model.save(files(folder, most)["keras"], include_optimizer=False)
    for batch in batches(name) if peers else ():
        place = files(folder, batch)
        write(export(model, batch), place["onnx"])
        np.save(place["fed"], fed(name, samples[:batch]))
    kbench.set_exact(True)
    K.set_learning_phase(0)
    expected = exact(name, model.get_weights(), samples)
    if not healthy(expected):
        raise ValueError(f"{name}: its values say nothing")
    np.save(files(folder, most)["x"], samples)
    np.save(files(folder, most)["expected"], expected)


if __name__ == "__main__":
    main(*sys.argv[1:])
