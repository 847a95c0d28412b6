"""Rows of recurrent layers, their cells and the wrappers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import reference_recurrent as slow
import reference_spatial as spatial
from keras import backend as K
from keras import layers
from keras.layers.convolutional_recurrent import ConvRNN2D
from layer_table import LayerRow, both

UNITS = 2
SHAPE = (4, 3)  # steps, features

# ------------------------------------------------------------------ the three layers, every option

STEPS: dict[str, tuple[Callable[..., Any], int]] = {
    "SimpleRNN": (slow.simple, 1),
    "GRU": (slow.gru, 1),
    "LSTM": (slow.lstm, 2),
}

# label, options of the layer, options of `run` that mean the same, whether the input is masked
FORMS: tuple[tuple[str, dict, dict, bool], ...] = (
    ("", {}, {}, False),
    ("sequences", {"return_sequences": True}, {"sequences": True}, False),
    ("state", {"return_state": True}, {"state": True}, False),
    ("backwards", {"go_backwards": True}, {"backwards": True}, False),
    ("unrolled", {"unroll": True}, {}, False),
    ("masked", {}, {}, True),
    (
        "masked, backwards, all results",
        {"go_backwards": True, "return_sequences": True, "return_state": True},
        {"backwards": True, "sequences": True, "state": True},
        True,
    ),
    (
        "masked, unrolled, sequences",
        {"unroll": True, "return_sequences": True},
        {"sequences": True},
        True,
    ),
)


def recurrent(
    name: str, label: str, options: dict, running: dict, masked: bool = False, **step: Any
) -> LayerRow:
    make_step, states = STEPS[name]

    def numpy(x, *weights, mask=None):
        return slow.run(make_step(*weights, **step), x, [(UNITS,)] * states, mask, **running)

    return LayerRow(
        name,
        lambda: getattr(layers, name)(UNITS, **options),
        (SHAPE,),
        numpy,
        label,
        masked=masked,
    )


LAYERS = [
    *(
        recurrent(name, label, options, running, masked)
        for name in STEPS
        for label, options, running, masked in FORMS
    ),
    recurrent("SimpleRNN", "linear", {"activation": "linear"}, {}, activation=lambda x: x),
    recurrent("GRU", "reset after", {"reset_after": True}, {}, reset_after=True),
    recurrent(
        "GRU",
        "reset after, at once",
        {"reset_after": True, "implementation": 2},
        {},
        reset_after=True,
    ),
    recurrent(
        "GRU",
        "reset after, no bias",
        {"reset_after": True, "use_bias": False},
        {},
        reset_after=True,
    ),
    recurrent("GRU", "reset after, masked", {"reset_after": True}, {}, True, reset_after=True),
    recurrent("GRU", "one product at a time", {"implementation": 1}, {}),
    recurrent("LSTM", "one product at a time", {"implementation": 1}, {}),
    recurrent("LSTM", "no bias", {"use_bias": False}, {}),
    *(
        recurrent(
            name, "hard gates", {"recurrent_activation": "hard_sigmoid"}, {}, gate=slow.hard_sigmoid
        )
        for name in ("GRU", "LSTM")
    ),
    *(
        recurrent(
            name,
            f"dropout, implementation {mode}",
            {"dropout": 0.3, "recurrent_dropout": 0.4, "implementation": mode},
            {},
        )
        for name in ("GRU", "LSTM")
        for mode in (1, 2)
    ),
    recurrent("SimpleRNN", "dropout", {"dropout": 0.3, "recurrent_dropout": 0.4}, {}),
]


# ------------------------------------------------------------------ states and constants given in


def from_states(x, h, c, *weights):
    return slow.run(slow.lstm(*weights), x, [(UNITS,)] * 2, initial=[h, c])


STATES = [
    LayerRow(
        "LSTM",
        lambda: layers.LSTM(UNITS),
        (SHAPE, (UNITS,), (UNITS,)),
        from_states,
        "initial state",
    ),
    LayerRow(
        "Bidirectional",
        lambda: layers.Bidirectional(layers.SimpleRNN(UNITS), merge_mode="sum"),
        (SHAPE, (UNITS,), (UNITS,)),
        lambda x, h, g, *weights: (
            slow.run(slow.simple(*weights[:3]), x, [(UNITS,)], initial=[h])
            + slow.run(slow.simple(*weights[3:]), x, [(UNITS,)], None, True, initial=[g])
        ),
        "initial state",
    ),
]

# ------------------------------------------------------------------ cells


class Leaky(layers.Layer):
    """A cell of a user: keeps a part of its state, adds a projection of the input."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight("kernel", (input_shape[-1], self.units), initializer="normal")
        self.keep = self.add_weight("keep", (self.units,), initializer="uniform")
        self.built = True

    def call(self, inputs: Any, states: Any) -> Any:
        output = K.dot(inputs, self.kernel) + self.keep * states[0]
        return output, [output]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


def leaky(kernel, keep):
    def step(x, states):
        h = x @ kernel + keep * states[0]
        return h, [h]

    return step


def cells(name: str, make: Callable[[], Any], weights: int, label: str = "") -> LayerRow:
    """A cell in the general layer."""
    step, states = STEPS[name]
    return LayerRow(
        f"{name}Cell",
        lambda: layers.RNN(make()),
        (SHAPE,),
        lambda x, *found: slow.run(step(*found[:weights]), x, [(UNITS,)] * states),
        label,
    )


CELLS = [
    cells("SimpleRNN", lambda: layers.SimpleRNNCell(UNITS), 3),
    cells("GRU", lambda: layers.GRUCell(UNITS), 3),
    cells("LSTM", lambda: layers.LSTMCell(UNITS), 3),
    LayerRow(
        "RNN",
        lambda: layers.RNN(Leaky(UNITS), return_sequences=True),
        (SHAPE,),
        lambda x, kernel, keep, mask: slow.run(
            leaky(kernel, keep), x, [(UNITS,)], mask, sequences=True
        ),
        "a user's cell",
        masked=True,
        custom={"Leaky": Leaky},
    ),
    LayerRow(
        "StackedRNNCells",
        lambda: layers.RNN([layers.LSTMCell(UNITS), Leaky(3), layers.GRUCell(UNITS)]),
        (SHAPE,),
        lambda x, *w: slow.run(
            slow.stacked((slow.lstm(*w[:3]), 2), (leaky(*w[3:5]), 1), (slow.gru(*w[5:]), 1)),
            x,
            [(UNITS,), (UNITS,), (3,), (UNITS,)],
        ),
        custom={"Leaky": Leaky},
    ),
]

# ------------------------------------------------------------------ convolutional LSTM

FILTERS = 2


def conv_lstm(
    label: str, size: tuple[int, int], options: dict, running: dict, **step: Any
) -> list[LayerRow]:
    """`size` is that of the states, counted by hand."""

    def numpy(x, *weights):
        made = slow.convolutional_lstm(*weights, **step)
        return slow.run(made, x, [(*size, FILTERS)] * 2, **running)

    return both(
        "ConvLSTM2D",
        lambda form: layers.ConvLSTM2D(FILTERS, (2, 3), data_format=form, **options),
        (3, 4, 5, 1),
        numpy,
        label,
        axis=2,
    )


def one_cell(form: str) -> Any:
    return ConvRNN2D(layers.ConvLSTM2DCell(FILTERS, (2, 3), data_format=form))


CONVOLUTIONAL = [
    *conv_lstm("valid", (3, 3), {}, {}),
    *conv_lstm(
        "same, sequences",
        (4, 5),
        {"padding": "same", "return_sequences": True},
        {"sequences": True},
        padding="same",
    ),
    *conv_lstm(
        "strides, backwards, state",
        (2, 2),
        {"strides": 2, "go_backwards": True, "return_state": True, "use_bias": False},
        {"backwards": True, "state": True},
        strides=(2, 2),
    ),
    *conv_lstm(
        "dilated",
        (3, 1),
        {"dilation_rate": (1, 2), "use_bias": False},
        {},
        dilation=(1, 2),
    ),
    *both(
        "ConvLSTM2DCell",
        one_cell,
        (3, 4, 5, 1),
        lambda x, *weights: slow.run(slow.convolutional_lstm(*weights), x, [(3, 3, FILTERS)] * 2),
        axis=2,
        custom={"ConvRNN2D": ConvRNN2D},
    ),
]

# ------------------------------------------------------------------ wrappers


def each_step(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda x, *w, mask=None: np.stack([function(one, *w) for one in x], axis=0)


TIME = [
    LayerRow(
        "TimeDistributed",
        lambda: layers.TimeDistributed(layers.Dense(UNITS)),
        (SHAPE,),
        lambda x, w, b: x @ w + b,
    ),
    LayerRow(
        "TimeDistributed",
        lambda: layers.TimeDistributed(layers.Dense(UNITS)),
        (SHAPE,),
        lambda x, w, b, mask: x @ w + b,
        "masked",
        masked=True,
    ),
    LayerRow(
        "TimeDistributed",
        lambda: layers.TimeDistributed(layers.Dense(UNITS)),
        (SHAPE,),
        lambda x, w, b: x @ w + b,
        "fixed batch",
        fixed=True,
    ),
    *both(
        "TimeDistributed",
        lambda form: layers.TimeDistributed(layers.Conv2D(2, 2, data_format=form)),
        (2, 3, 4, 2),
        each_step(lambda x, w, b: spatial.convolve(x, w, (1, 1)) + b),
        "convolution",
        axis=2,
    ),
    LayerRow(
        "TimeDistributed",
        lambda: layers.TimeDistributed(layers.BatchNormalization()),
        (SHAPE,),
        lambda x, gamma, beta, mean, variance: (x - mean) / np.sqrt(variance + 1e-3) * gamma + beta,
        "normalization",
    ),
    LayerRow(
        "TimeDistributed",
        lambda: layers.TimeDistributed(layers.LSTM(UNITS)),
        ((2, 3, 2),),
        each_step(lambda x, *w: slow.run(slow.lstm(*w), x, [(UNITS,)] * 2)),
        "recurrent",
    ),
]

MERGES = ("concat", "sum", "mul", "ave", None)


def both_ways(
    name: str, merge: str | None, label: str, masked: bool = False, **options: Any
) -> LayerRow:
    make_step, states = STEPS[name]
    sequences = options.get("return_sequences", False)

    def numpy(x, *weights, mask=None):
        steps = make_step(*weights[:3]), make_step(*weights[3:])
        return slow.bidirectional(*steps, merge, x, [(UNITS,)] * states, mask, sequences)

    return LayerRow(
        "Bidirectional",
        lambda: layers.Bidirectional(getattr(layers, name)(UNITS, **options), merge_mode=merge),
        (SHAPE,),
        numpy,
        label,
        masked=masked,
    )


def with_states(x, *weights):
    one = slow.run(slow.lstm(*weights[:3]), x, [(UNITS,)] * 2, state=True)
    two = slow.run(slow.lstm(*weights[3:]), x, [(UNITS,)] * 2, backwards=True, state=True)
    return [np.concatenate([one[0], two[0]], axis=-1), *one[1:], *two[1:]]


def everything(x, *weights, mask=None):
    """All outputs, in the order of time only where they are merged, and all states."""
    found = [
        slow.run(slow.gru(*own), x, [(UNITS,)], mask, backwards, sequences=True, state=True)
        for own, backwards in ((weights[:3], False), (weights[3:], True))
    ]
    (one, first), (two, second) = found
    return [one, two[:, ::-1], first, second]


BIDIRECTIONAL = [
    *(both_ways("SimpleRNN", merge, f"{merge}") for merge in MERGES),
    *(
        both_ways("GRU", merge, f"{merge}, masked, sequences", True, return_sequences=True)
        for merge in MERGES
    ),
    both_ways("LSTM", "concat", "LSTM"),
    both_ways("LSTM", "concat", "LSTM, sequences", return_sequences=True),
    LayerRow(
        "Bidirectional",
        lambda: layers.Bidirectional(layers.LSTM(UNITS, return_state=True)),
        (SHAPE,),
        with_states,
        "state",
    ),
    LayerRow(
        "Bidirectional",
        lambda: layers.Bidirectional(
            layers.GRU(UNITS, return_sequences=True, return_state=True), merge_mode=None
        ),
        (SHAPE,),
        everything,
        "masked, apart, all results",
        masked=True,
    ),
    both_ways("GRU", "ave", "unrolled", unroll=True),
    both_ways("LSTM", "sum", "dropout", dropout=0.2, recurrent_dropout=0.3),
]

ROWS = [*LAYERS, *STATES, *CELLS, *CONVOLUTIONAL, *TIME, *BIDIRECTIONAL]
