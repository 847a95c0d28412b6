"""Recurrences by the engine's loops, which it compiles as a whole."""

from __future__ import annotations

from typing import Any

from keras.src import tree

from kbench import backend as K
from kbench.keras3.calls.host import common_dtype
from kbench.keras3.core import traced
from kbench.keras3.numpy import layout
from kbench.keras3.tensor import PARTS, Traced, finish, held, in_dtype, operation, plain


@operation
def rnn(
    step_function: Any,
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> Any:
    """A step that goes along the time axis: the last output, all outputs, and the last states."""
    states = tree.flatten(initial_states)
    kinds = [str(layout.known(state).dtype) for state in states]
    read = [_if_complex(one) for one in tree.flatten(inputs)]
    fixed = [_if_complex(one) for one in constants or ()]
    dtypes: list[str] = []
    shape: list[Any] = []

    def step(given: Any, carried: Any) -> Any:
        entries = [finish(node, kind) for node, kind in zip(carried, kinds, strict=False)] + [
            Traced(node, kind) for node, kind in zip(carried[len(kinds) :], fixed, strict=True)
        ]
        packed = tree.pack_sequence_as(initial_states, entries[: len(kinds)])
        rest = entries[len(kinds) :]
        value = _symbols(given, read)
        found, new = step_function(value, [*packed, *rest])
        parts = tree.flatten(found)
        dtypes[:] = [common_dtype(part) for part in parts]
        shape[:] = [found]
        flat = [held(one, kind) for one, kind in zip(tree.flatten(new), kinds, strict=True)]
        return held(parts[0], _if_complex(parts[0]) and dtypes[0]), flat

    nodes = tree.map_structure(held, inputs)
    with traced():
        last, outputs, new = K.rnn(
            step,
            nodes,
            [held(state, kind) for state, kind in zip(states, kinds, strict=True)],
            go_backwards=bool(go_backwards),
            mask=None if mask is None else in_dtype(layout.known(mask), "bool"),
            constants=None if not constants else [held(one) for one in constants],
            unroll=bool(unroll),
            input_length=None,
            time_major=bool(time_major),
            zero_output_for_mask=bool(zero_output_for_mask),
            return_all_outputs=bool(return_all_outputs),
        )
    found = [finish(node, kind) for node, kind in zip(new, kinds, strict=True)]
    packed = tree.pack_sequence_as(initial_states, found)
    return finish(last, dtypes[0]), finish(outputs, dtypes[0]), packed


def _if_complex(x: Any) -> str | None:
    """The dtype of complex numbers; other nodes say it themselves."""
    dtype = str(plain(x).dtype)
    return dtype if dtype in PARTS else None


def _symbols(nodes: Any, dtypes: list[str | None]) -> Any:
    pairs = zip(tree.flatten(nodes), dtypes, strict=True)
    return tree.pack_sequence_as(nodes, [Traced(node, dtype) for node, dtype in pairs])


def lstm(*arguments: Any, **options: Any) -> Any:
    """Not apart: `rnn` compiles the whole loop of any step."""
    raise NotImplementedError("lstm: the kbench backend runs the step of the layer")


def gru(*arguments: Any, **options: Any) -> Any:
    """Not apart: `rnn` compiles the whole loop of any step."""
    raise NotImplementedError("gru: the kbench backend runs the step of the layer")


def bidirectional_lstm(*arguments: Any, **options: Any) -> Any:
    """Not apart: two loops of `rnn` are what a bidirectional layer runs."""
    raise NotImplementedError("bidirectional_lstm: the kbench backend runs two loops")


def bidirectional_gru(*arguments: Any, **options: Any) -> Any:
    """Not apart: two loops of `rnn` are what a bidirectional layer runs."""
    raise NotImplementedError("bidirectional_gru: the kbench backend runs two loops")


def cudnn_ok(*arguments: Any, **options: Any) -> bool:
    """There is no graphics card."""
    return False
