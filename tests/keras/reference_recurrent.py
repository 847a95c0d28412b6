"""Recurrent layers in NumPy, one sample, one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from reference_spatial import convolve


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def hard_sigmoid(x):
    return np.clip(0.2 * x + 0.5, 0, 1)


def simple(kernel, recurrent, bias=0.0, activation=np.tanh):
    """A step of SimpleRNN."""

    def step(x, states):
        (h,) = states
        h = activation(x @ kernel + bias + h @ recurrent)
        return h, [h]

    return step


def gru(kernel, recurrent, bias=None, gate=sigmoid, reset_after=False):
    """A step of GRU; gates in the order update, reset, candidate."""
    units = recurrent.shape[0]
    update, reset, fresh = (slice(n * units, (n + 1) * units) for n in range(3))
    outer = np.zeros(3 * units) if bias is None else bias
    inner = np.zeros(3 * units)
    if reset_after and bias is not None:
        outer, inner = bias

    def step(x, states):
        (h,) = states
        drive = x @ kernel + outer
        z = gate(drive[..., update] + h @ recurrent[:, update] + inner[update])
        r = gate(drive[..., reset] + h @ recurrent[:, reset] + inner[reset])
        if reset_after:
            pull = r * (h @ recurrent[:, fresh] + inner[fresh])
        else:
            pull = (r * h) @ recurrent[:, fresh]
        h = z * h + (1 - z) * np.tanh(drive[..., fresh] + pull)
        return h, [h]

    return step


def lstm(kernel, recurrent, bias=0.0, gate=sigmoid):
    """A step of LSTM; gates in the order input, forget, candidate, output."""

    def step(x, states):
        h, c = states
        i, f, fresh, o = np.split(x @ kernel + bias + h @ recurrent, 4, axis=-1)
        c = gate(f) * c + gate(i) * np.tanh(fresh)
        h = gate(o) * np.tanh(c)
        return h, [h, c]

    return step


def convolutional_lstm(
    kernel, recurrent, bias=0.0, padding="valid", strides=(1, 1), dilation=(1, 1), masks=None
):
    """A step of ConvLSTM2D: an LSTM whose products are convolutions.

    `masks` are four factors of the input and four of the state, one for each gate.
    """
    outer, inner = masks or ([1.0] * 4, [1.0] * 4)
    kernels, recurrents = np.split(kernel, 4, axis=-1), np.split(recurrent, 4, axis=-1)
    biases = np.split(np.broadcast_to(bias, kernel.shape[-1:]), 4)

    def step(x, states):
        h, c = states
        i, f, fresh, o = (
            convolve((x * outer[n])[None], kernels[n], strides, padding, dilation)[0]
            + convolve((h * inner[n])[None], recurrents[n], (1, 1), "same")[0]
            + biases[n]
            for n in range(4)
        )
        c = hard_sigmoid(f) * c + hard_sigmoid(i) * np.tanh(fresh)
        h = hard_sigmoid(o) * np.tanh(c)
        return h, [h, c]

    return step


def stacked(*cells: tuple[Callable[..., Any], int]):
    """Cells on top of each other: pairs of a step and the number of its states."""

    def step(x, states):
        after: list[Any] = []
        for cell, count in cells:
            x, own = cell(x, states[len(after) : len(after) + count])
            after += own
        return x, after

    return step


def scan(step, x, states, mask=None, backwards=False):
    """(outputs, last states) of every sample; a masked step repeats output and states."""
    collected = []
    for sample in range(len(x)):
        present = [one[sample] for one in states]
        output = None
        line = []
        times = range(x.shape[1])
        for time in reversed(times) if backwards else times:
            fresh, following = step(x[sample, time], present)
            if output is None:
                output = np.zeros_like(fresh)
            if mask is None or mask[sample, time]:
                output, present = fresh, following
            line.append(output)
        collected.append((np.stack(line), present))
    outputs = np.stack([line for line, _ in collected])
    last = [np.stack(group) for group in zip(*(kept for _, kept in collected), strict=True)]
    return outputs, last


def run(step, x, sizes, mask=None, backwards=False, sequences=False, state=False, initial=None):
    """What a recurrent layer gives: the last output or all of them, and the states if asked.

    `sizes` are the shapes of one sample's states.
    """
    states = initial or [np.zeros((len(x), *size)) for size in sizes]
    outputs, last = scan(step, x, states, mask, backwards)
    found = outputs if sequences else outputs[:, -1]
    return [found, *last] if state else found


def bidirectional(forward, backward, merge, x, sizes, mask=None, sequences=False):
    """Two directions; the second one's outputs are put into the order of time."""
    one = run(forward, x, sizes, mask, False, sequences)
    two = run(backward, x, sizes, mask, True, sequences)
    if sequences:
        two = two[:, ::-1]
    return {
        "concat": lambda: np.concatenate([one, two], axis=-1),
        "sum": lambda: one + two,
        "mul": lambda: one * two,
        "ave": lambda: (one + two) / 2,
        None: lambda: [one, two],
    }[merge]()
