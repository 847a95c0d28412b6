"""How Keras and ONNX lay the same weights and borders out: arithmetic on arrays and sizes alone."""

from __future__ import annotations

import numpy as np

KERAS_GATES = "ifco"
ONNX_GATES = "iofc"


def same_padding(size: int, window: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """What `padding="same"` adds before and after an axis: the odd one goes behind, as in
    TensorFlow."""
    reach = (window - 1) * dilation + 1
    missing = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return missing // 2, missing - missing // 2


def kernel(weights: np.ndarray) -> np.ndarray:
    """Rows, columns, channels in, channels out: ONNX has the channels first, the last of them
    leading."""
    return np.ascontiguousarray(weights.transpose(3, 2, 0, 1))


def depthwise_kernel(weights: np.ndarray) -> np.ndarray:
    """Rows, columns, channels, multiplier: a kernel of one channel for each channel that comes
    out."""
    rows, columns, channels, multiplier = weights.shape
    flat = weights.reshape(rows, columns, channels * multiplier)
    return np.ascontiguousarray(flat.transpose(2, 0, 1)[:, None])


def gates(weights: np.ndarray) -> np.ndarray:
    """The last axis holds the four gates of an LSTM side by side: the same in ONNX's order."""
    parts = dict(zip(KERAS_GATES, np.split(weights, 4, axis=-1), strict=True))
    return np.concatenate([parts[gate] for gate in ONNX_GATES], axis=-1)


def lstm_weights(
    weights: np.ndarray, recurrent: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keras' three arrays as ONNX's W, R and B, for the one direction there is. ONNX adds two
    biases; the second is 0."""
    both = np.concatenate([gates(bias), np.zeros_like(bias)])
    turned = (np.ascontiguousarray(gates(one).T)[None] for one in (weights, recurrent))
    return *turned, both[None]


def channels_first(images: np.ndarray) -> np.ndarray:
    """Images as ONNX takes them."""
    return np.ascontiguousarray(np.moveaxis(images, -1, 1))


def steps_first(sequences: np.ndarray) -> np.ndarray:
    """Sequences as ONNX' LSTM takes them: steps, samples, numbers."""
    return np.ascontiguousarray(sequences.swapaxes(0, 1))
