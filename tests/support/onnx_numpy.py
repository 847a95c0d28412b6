"""What ONNX says that its operations do, in NumPy: enough for the graphs of benchmarks/inference.

Written from the page of ONNX's operators, and from nothing of kbench.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _windows(x: np.ndarray, fill: float, **a: Any) -> np.ndarray:
    """Samples, channels, rows, columns, and the window's rows and columns."""
    top, left, bottom, right = a["pads"]
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    dilations = a.get("dilations", [1, 1])
    reach = [(k - 1) * d + 1 for k, d in zip(a["kernel_shape"], dilations, strict=True)]
    found = sliding_window_view(x, reach, (2, 3))
    (down, across), (d, e) = a["strides"], dilations
    return found[:, :, ::down, ::across, ::d, ::e]


def _conv(x: np.ndarray, w: np.ndarray, b: Any = 0.0, *, group: int, **a: Any) -> np.ndarray:
    seen = np.split(_windows(x, 0.0, **a), group, 1)
    parts = zip(seen, np.split(w, group), strict=True)
    y = np.concatenate([np.einsum("nchwij,ocij->nohw", *one) for one in parts], 1)
    return y + np.reshape(b, (1, -1, 1, 1))


def _batch_norm(x: np.ndarray, *arrays: np.ndarray, epsilon: float) -> np.ndarray:
    scale, shift, mean, variance = (np.reshape(one, (1, -1, 1, 1)) for one in arrays)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + shift


def _layer_norm(
    x: np.ndarray, scale: np.ndarray, shift: np.ndarray, axis: int, epsilon: float
) -> np.ndarray:
    away = x - x.mean(axis, keepdims=True)
    return away / np.sqrt(x.var(axis, keepdims=True) + epsilon) * scale + shift


def _gelu(x: np.ndarray, approximate: str) -> np.ndarray:
    assert approximate == "tanh"
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _lstm(x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray, **a: Any) -> tuple[Any, ...]:
    """X of steps, samples, numbers; the gates i, o, f, c are below one another in W and R."""
    alpha, beta = a.get("activation_alpha", [0.2])[0], a.get("activation_beta", [0.5])[0]
    known = {
        "Sigmoid": _sigmoid,
        "Tanh": np.tanh,
        "HardSigmoid": lambda x: np.clip(alpha * x + beta, 0, 1),
    }
    f, g, h = (known[name] for name in a["activations"])
    size, bias = a["hidden_size"], np.add(*np.split(b[0], 2))
    hidden = cell = np.zeros((x.shape[1], size))
    every = []
    for one in x:
        i, o, forget, c = np.split(one @ w[0].T + hidden @ r[0].T + bias, 4, 1)
        cell = f(forget) * cell + f(i) * g(c)
        hidden = f(o) * h(cell)
        every.append(hidden)
    return np.stack(every)[:, None], hidden[None], cell[None]


def _reshape(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return x.reshape([old if new == 0 else new for new, old in _beside(shape, x.shape)])


def _beside(shape: np.ndarray, old: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(int(new), old[at] if at < len(old) else 1) for at, new in enumerate(shape)]


OPERATIONS = {
    "Conv": _conv,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "LSTM": _lstm,
    "Gelu": _gelu,
    "Reshape": _reshape,
    "MaxPool": lambda x, **a: _windows(x, -np.inf, **a).max((-2, -1)),
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True),
    "Flatten": lambda x, axis: x.reshape(x.shape[0], -1),
    "Relu": lambda x: np.maximum(x, 0),
    "Clip": np.clip,
    "Sigmoid": _sigmoid,
    "Tanh": np.tanh,
    "Softmax": _softmax,
    "Add": np.add,
    "Mul": np.multiply,
    "MatMul": np.matmul,
    "Gemm": lambda x, w, b: x @ w + b,
    "Transpose": lambda x, perm: x.transpose(perm),
    "Squeeze": lambda x, axes: x.squeeze(tuple(axes)),
}


def run(graph: Any, x: np.ndarray) -> np.ndarray:
    """What comes out of a graph of one input and one output, in float64."""
    ((fed, shape),) = graph.inputs.items()
    ((last, made),) = graph.outputs.items()
    assert x.shape == shape
    known = {fed: np.asarray(x, np.float64), **graph.weights}
    for node in graph.nodes:
        found = OPERATIONS[node.kind](*(known[name] for name in node.inputs), **node.attributes)
        several = found if isinstance(found, tuple) else (found,)
        known.update(zip(node.outputs, several, strict=True))
    assert known[last].shape == made
    return known[last]
