"""Recurrent layers, loops and CTC under one set of names for every library.

The cells stand here once, written against `F.rnn(step, x, states)`, which gives the outputs of all
steps of a step function as Keras has it; a library that has such a layer of its own offers it in
`F.layers`. `F.map_fn`, `F.foldl`; and `F.ctc(labels, logits, steps, lengths)`, one loss for each
sequence, whose blank is the last class. Nothing is imported before it is asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from names import missing


def lstm(F: Any, x: Any, kernel: Any, recurrent: Any, bias: Any) -> Any:
    """The outputs of all steps; gates in the order of Keras: input, forget, cell, output."""
    units = recurrent.shape[0]
    ready = F.project(x, kernel, bias)

    def step(inputs: Any, states: Any) -> Any:
        z = F.enter(inputs, kernel, bias) + F.dot(states[0], recurrent)
        parts = [z[:, one * units : (one + 1) * units] for one in range(4)]
        through = [F.sigmoid(one) for one in (parts[0], parts[1], parts[3])]
        c = through[1] * states[1] + through[0] * F.tanh(parts[2])
        h = through[2] * F.tanh(c)
        return h, [h, c]

    zero = F.initial(x, units)
    return F.rnn(step, ready, [zero, zero])


def gru(F: Any, x: Any, kernel: Any, recurrent: Any, bias: Any) -> Any:
    """The outputs of all steps, reset after the product; gates: update, reset, candidate."""
    units = recurrent.shape[0]
    ready = F.project(x, kernel, bias[0])

    def step(inputs: Any, states: Any) -> Any:
        z, r, n = _thirds(F.enter(inputs, kernel, bias[0]), units)
        hz, hr, hn = _thirds(F.dot(states[0], recurrent) + bias[1], units)
        update = F.sigmoid(z + hz)
        candidate = F.tanh(n + F.sigmoid(r + hr) * hn)
        h = update * states[0] + (1.0 - update) * candidate
        return h, [h]

    return F.rnn(step, ready, [F.initial(x, units)])


def custom(F: Any, x: Any, kernel: Any, recurrent: Any, bias: Any) -> Any:
    """A cell that no library has: one gate, which also weighs what the second product sees."""
    units = recurrent.shape[0]
    ready = F.project(x, kernel, bias)

    def step(inputs: Any, states: Any) -> Any:
        z = F.enter(inputs, kernel, bias)
        gate = F.sigmoid(z[:, :units] + F.dot(states[0], recurrent[:, :units]))
        new = F.tanh(z[:, units:] + F.dot(gate * states[0], recurrent[:, units:]))
        h = states[0] + gate * (new - states[0])
        return h, [h]

    return F.rnn(step, ready, [F.initial(x, units)])


CELLS = {"lstm": lstm, "gru": gru, "custom": custom}


def recurrent(F: Any, name: str, x: Any, *weights: Any) -> Any:
    """The outputs of all steps, of the library's own layer where it has one."""
    if name in F.layers:
        return F.layers[name](x, *weights)
    return CELLS[name](F, x, *weights)


def recurrent_gradient(F: Any, name: str, g: Any, x: Any, *weights: Any) -> Any:
    """Gradients to the weights."""
    if name in F.layers:
        return F.layers[name].gradient(g, x, *weights)
    return F.pullback(lambda *some: CELLS[name](F, x, *some), g, *weights)


def _thirds(x: Any, units: int) -> list[Any]:
    return [x[:, one * units : (one + 1) * units] for one in range(3)]


def _hoisted(F: dict[str, Any]) -> dict[str, Any]:
    """The input's product for all steps at once, before the loop: the best form for a library
    that does not find it by itself."""
    return {
        "layers": {},
        "project": lambda x, kernel, bias: F["dot"](x, kernel) + bias,
        "enter": lambda inputs, kernel, bias: inputs,
    }


# ------------------------------------------------------------------ NumPy


def numpy_names(names: dict[str, Any]) -> dict[str, Any]:
    """Loops of Python."""

    def rnn(step: Any, x: Any, states: Any) -> Any:
        outputs = []
        for at in range(x.shape[1]):
            output, states = step(x[:, at], states)
            outputs.append(output)
        return np.stack(outputs, 1)

    def foldl(step: Any, x: Any) -> Any:
        kept = x[0]
        for row in x[1:]:
            kept = step(kept, row)
        return kept

    return {
        **_hoisted(names),
        "initial": lambda x, units: np.zeros((len(x), units), x.dtype),
        "rnn": rnn,
        "map_fn": lambda function, x: np.stack([function(row) for row in x]),
        "foldl": foldl,
        "ctc": missing("ctc"),
    }


# ------------------------------------------------------------------ kbench


def kbench_names(K: Any) -> dict[str, Any]:
    """As a cell of Keras would say it: the step takes its input as it is."""

    def ctc(labels: Any, logits: Any, steps: Any, lengths: Any) -> Any:
        return K.ctc_batch_cost(labels, K.softmax(logits), steps, lengths)[:, 0]

    return {
        "layers": {},
        "project": lambda x, kernel, bias: x,
        "enter": lambda inputs, kernel, bias: K.dot(inputs, kernel) + bias,
        "initial": lambda x, units: K.zeros((K.int_shape(x)[0], units)),
        "rnn": lambda step, x, states: K.rnn(step, x, states)[1],
        "foldl": lambda step, x: K.foldl(step, x),
        "ctc": ctc,
    }


# ------------------------------------------------------------------ PyTorch


class _TorchLayer:
    """`torch.nn.LSTM` or `torch.nn.GRU` with weights in the order of Keras, made once for them."""

    def __init__(self, torch: Any, name: str, order: tuple[int, ...]) -> None:
        self._torch, self._name, self._order = torch, name, list(order)
        self._made: dict[int, Any] = {}

    def _blocks(self, weight: Any) -> Any:
        """Gates along the last axis, in the order of PyTorch."""
        parts = weight.chunk(len(self._order), -1)
        return self._torch.cat([parts[at] for at in self._order], -1)

    def _module(self, kernel: Any, recurrent: Any, bias: Any) -> Any:
        key = kernel.data_ptr()
        if key not in self._made:
            sizes = kernel.shape[0], recurrent.shape[0]
            with self._torch.inference_mode(False):
                module = getattr(self._torch.nn, self._name)(*sizes, batch_first=True)
            both = bias if bias.ndim == 2 else self._torch.stack([bias, 0 * bias])
            new = kernel.t(), recurrent.t(), both[0], both[1]
            for old, one in zip(module.parameters(), new, strict=True):
                ordered = self._blocks(one.t() if one.ndim == 2 else one)
                old.data.copy_(ordered.t() if one.ndim == 2 else ordered)
            self._made[key] = module, kernel  # kept, so that no other has its address
        return self._made[key][0]

    def __call__(self, x: Any, *weights: Any) -> Any:
        return self._module(*weights)(x)[0]

    def gradient(self, g: Any, x: Any, *weights: Any) -> Any:
        """Gradients in the layout of Keras; the way back to it costs no copy of the kernels for
        an LSTM, whose gates are in the same order."""
        module, grad = self._module(*weights), self._torch.autograd.grad
        with self._torch.inference_mode(False), self._torch.enable_grad():
            y = module(x)[0]
            found = grad(y, list(module.parameters()), g)
        kernel, recurrent = found[0].t(), found[1].t()
        bias = found[2] if weights[2].ndim == 1 else self._torch.stack(found[2:])
        if self._order == sorted(self._order):
            return kernel, recurrent, bias
        return self._blocks(kernel), self._blocks(recurrent), self._blocks(bias)


def torch_names(torch: Any, names: dict[str, Any]) -> dict[str, Any]:
    """Its own layers; loops of Python for what has none, and `vmap`."""

    def rnn(step: Any, x: Any, states: Any) -> Any:
        outputs = []
        for inputs in x.unbind(1):
            output, states = step(inputs, states)
            outputs.append(output)
        return torch.stack(outputs, 1)

    def foldl(step: Any, x: Any) -> Any:
        rows = iter(x)
        kept = next(rows)
        for row in rows:
            kept = step(kept, row)
        return kept

    def ctc(labels: Any, logits: Any, steps: Any, lengths: Any) -> Any:
        rows = torch.log_softmax(logits, -1).transpose(0, 1)
        return torch.nn.functional.ctc_loss(
            rows, labels, steps[:, 0], lengths[:, 0], logits.shape[-1] - 1, "none"
        )

    return {
        **_hoisted(names),
        "layers": {
            "lstm": _TorchLayer(torch, "LSTM", (0, 1, 2, 3)),
            "gru": _TorchLayer(torch, "GRU", (1, 0, 2)),
        },
        "initial": lambda x, units: torch.zeros((len(x), units)),
        "rnn": rnn,
        "map_fn": lambda function, x: torch.vmap(function)(x),
        "foldl": foldl,
        "ctc": ctc,
    }


# ------------------------------------------------------------------ JAX


def jax_names(jax: Any, names: dict[str, Any]) -> dict[str, Any]:
    """`lax.scan` and `vmap`."""
    jnp = jax.numpy

    def rnn(step: Any, x: Any, states: Any) -> Any:
        def scanned(states: Any, inputs: Any) -> Any:
            output, new = step(inputs, states)
            return new, output

        _, outputs = jax.lax.scan(scanned, states, x.swapaxes(0, 1))
        return outputs.swapaxes(0, 1)

    def foldl(step: Any, x: Any) -> Any:
        return jax.lax.scan(lambda kept, row: (step(kept, row), None), x[0], x[1:])[0]

    return {
        **_hoisted(names),
        "initial": lambda x, units: jnp.zeros((len(x), units), x.dtype),
        "rnn": rnn,
        "map_fn": lambda function, x: jax.vmap(function)(x),
        "foldl": foldl,
        "ctc": missing("ctc"),
    }


# ------------------------------------------------------------------ TensorFlow


def tensorflow_names(tf: Any, keras: Any, names: dict[str, Any]) -> dict[str, Any]:
    """The loops of tf_keras' backend, and `vectorized_map`."""
    K = keras.backend

    def ctc(labels: Any, logits: Any, steps: Any, lengths: Any) -> Any:
        return tf.nn.ctc_loss(
            labels, logits, lengths[:, 0], steps[:, 0], logits_time_major=False, blank_index=-1
        )

    return {
        **_hoisted(names),
        "initial": lambda x, units: tf.zeros((x.shape[0], units)),
        "rnn": lambda step, x, states: K.rnn(step, x, states)[1],
        "map_fn": lambda function, x: tf.vectorized_map(function, x),
        "foldl": lambda step, x: tf.foldl(step, x),
        "ctc": ctc,
    }
