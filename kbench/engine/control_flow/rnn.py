"""Recurrence over the time axis: `rnn`, its masks, and its unrolled form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kbench.engine.control_flow import tree
from kbench.engine.control_flow.body import Body, Emit, Track, captures, symbol, without
from kbench.engine.control_flow.loop_op import loop
from kbench.engine.control_flow.tracing import (
    Results,
    checked_tensor,
    trace,
    zeros_of,
)
from kbench.engine.core.errors import ArgumentError, ShapeError, shown
from kbench.engine.core.spec import (
    Spec,
    checked_flag,
    checked_function,
    integer,
    is_float,
    is_whole,
    known_size,
)
from kbench.engine.graph.apply import results
from kbench.engine.graph.convert import as_tensor
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.elementwise.arithmetic import cast, where
from kbench.engine.ops.layout.create import zeros_like
from kbench.engine.ops.layout.reshape import expand_dims, squeeze
from kbench.engine.ops.layout.shape import sized
from kbench.engine.ops.layout.stack import stack

StepFunction = Callable[[Any, list[Tensor]], tuple[Any, list[Tensor]]]


def rnn(
    step_function: StepFunction,
    inputs: object,
    initial_states: Sequence[object],
    go_backwards: bool = False,
    mask: Operand | None = None,
    constants: Sequence[object] | None = None,
    unroll: bool = False,
    input_length: object = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Run a step over the time axis, carrying states from one time to the next.

    Arguments:
        step_function: function of `(input, states)` that returns `(output, new_states)`. `input` is
            [samples, ...], the inputs at one time; `states` a list of the states, then of the
            constants. It is called once, on symbols, and what it builds is run as a loop; with
            `unroll` it is called for each time.
        inputs: [samples, time, ...] of rank 3 or more, or nested lists, tuples and dicts of such.
            The time may be unknown until evaluation, or zero.
        initial_states: list of tensors, of any ranks; may be empty.
        go_backwards: start at the last time; outputs stay in the order of the steps.
        mask: [samples, time] or [samples, time, 1], of any dtype, 0 meaning absent. There the
            output repeats the one before (zeros at the start) and the states stay.
        constants: list of tensors handed to every step behind the states.
        unroll: build the graph of every step; needs a known time.
        input_length: the number of steps, where the inputs do not tell it; a tensor is ignored.
        time_major: inputs, mask and outputs are [time, samples, ...].
        zero_output_for_mask: where the mask is 0 the output is zero instead.
        return_all_outputs: False keeps the last output alone, with a time axis of one.
    Returns:
        `(last_output, outputs, new_states)`: [samples, ...], [samples, time, ...] and a list as
        long as `initial_states`. With no steps the last output is zeros.
    Raises:
        ShapeError: inputs of rank below 3, a mask that does not fit, states that change rank,
            `unroll` with an unknown time.
        DtypeError: a state that changes its dtype.
        ArgumentError: a step that returns something else, or another number of states.
    Gradient: through time, to inputs, states, constants and everything that the step uses; of
        any order.
    Source: Keras 2.3 `backend.rnn`; `time_major`, `zero_output_for_mask` and `return_all_outputs`
        as in tf_keras.

    >>> x = K.constant([[[1.0], [2.0], [3.0]]])
    >>> last, outputs, states = K.rnn(lambda x, s: (s[0] + x, [s[0] + x]), x, [K.zeros((1, 1))])
    >>> K.eval(outputs)[0, :, 0]
    array([1., 3., 6.], dtype=float32)
    """
    checked_function(step_function, "step_function")
    form = _Recurrence(inputs, initial_states, constants, mask, go_backwards, time_major)
    form.use_length(input_length)
    form.zero_masked = checked_flag(zero_output_for_mask, "zero_output_for_mask")
    run = form.unrolled if checked_flag(unroll, "unroll") else form.looped
    last, outputs, states = run(step_function)
    if not checked_flag(return_all_outputs, "return_all_outputs"):
        outputs = expand_dims(last, form.axis)
    return last, outputs, states


def _listed(tensors: object) -> Sequence[Operand]:
    """States or constants, which may be None; a single tensor is no list of them."""
    if tensors is None:
        return ()
    if not isinstance(tensors, (list, tuple)):
        raise ArgumentError(f"states and constants must be lists of tensors, got {shown(tensors)}")
    return tensors


class _Recurrence:
    """The checked arguments of one call."""

    zero_masked = False

    def __init__(
        self,
        inputs: object,
        initial_states: Sequence[object],
        constants: Sequence[object] | None,
        mask: Operand | None,
        go_backwards: bool,
        time_major: bool,
    ) -> None:
        self.structure = inputs
        self.axis = 0 if checked_flag(time_major, "time_major") else 1
        self.sequences = [as_tensor(leaf) for leaf in tree.flatten(inputs)]
        if not self.sequences:
            raise ArgumentError("inputs hold no tensor")
        dtype = self.sequences[0].spec.dtype
        self.like = dtype if is_float(dtype) else None
        self.states = [as_tensor(state, like=self.like) for state in _listed(initial_states)]
        self.constants = [as_tensor(constant, like=self.like) for constant in _listed(constants)]
        self.backwards = checked_flag(go_backwards, "go_backwards")
        for sequence in self.sequences:
            if sequence.ndim < 3:
                raise ShapeError(
                    f"inputs are {sequence.spec}, but [samples, time, ...] of rank 3 or more "
                    "is needed"
                )
        self.mask = None if mask is None else self._checked_mask(as_tensor(mask))

    def _checked_mask(self, mask: Tensor) -> Tensor:
        """The mask as bool; an axis of one behind samples and time is dropped."""
        first = self.sequences[0]
        if mask.ndim < 2:
            raise ShapeError(f"mask is {mask.spec}, but [samples, time] or more is needed")
        for axis in (0, 1):
            sizes = mask.spec.shape[axis], first.spec.shape[axis]
            if None not in sizes and sizes[0] not in (1, sizes[1]):
                raise ShapeError(
                    f"mask is {mask.spec} and inputs are {first.spec}, which differ in axis {axis}",
                    axes={"mask": axis, "inputs": axis},
                )
        while mask.ndim > 2 and mask.spec.shape[-1] == 1:
            mask = squeeze(mask, mask.ndim - 1)
        present: Tensor = cast(mask, "bool")
        return present

    def use_length(self, given: object) -> None:
        """Take the number of steps from the argument where the inputs do not tell it."""
        if not is_whole(given):
            return
        given = integer(given)
        known = self.sequences[0].spec.shape[self.axis]
        if known is not None and given != known:
            raise ArgumentError(
                f"input_length is {given}, but inputs are {self.sequences[0].spec}, {known} steps"
            )
        self.sequences = [sized(sequence, self.axis, given) for sequence in self.sequences]

    # -------------------------------------------------------------- one step

    def called(
        self, function: StepFunction, entries: Sequence[Tensor], states: Sequence[Tensor]
    ) -> Any:
        """What the user's step returns: the output and a list of states."""
        inputs = tree.rebuild(self.structure, entries)
        returned = function(inputs, [*states, *self.constants])
        if not isinstance(returned, (tuple, list)) or len(returned) != 2:
            raise ArgumentError(f"the step must return (output, states), got {shown(returned)}")
        output, after = returned
        output = checked_tensor(output, "the output of the step", self.like)
        if output.ndim == 0:
            raise ShapeError(f"the step returned an output {output.spec} without axis of samples")
        if not isinstance(after, (list, tuple)):
            raise ArgumentError(f"the step must return a list of states, got {shown(after)}")
        if len(after) != len(self.states):
            raise ArgumentError(
                f"the step returned {len(after)} states, but there are {len(self.states)} "
                "initial states"
            )
        return output, [checked_tensor(state, "a state", self.like) for state in after]

    def masked(self, output: Tensor, previous: Tensor, present: Tensor | None) -> Tensor:
        """The output where the sample is present, else the one before, or zeros."""
        if present is None:
            return output
        if self.zero_masked:
            return self.or_zeros(present, output)
        return where(_spread(present, output, "the output"), output, previous)

    def or_zeros(self, present: Tensor, output: Tensor) -> Tensor:
        """The output, zeros where the sample is absent."""
        return where(_spread(present, output, "the output"), output, zeros_like(output))

    def kept(
        self, after: Sequence[Tensor], before: Sequence[Tensor], present: Tensor | None
    ) -> list[Tensor]:
        """The states after a step: as they were where the sample is absent."""
        if present is None:
            return list(after)
        return [
            where(_spread(present, new, "a state"), new, old)
            for new, old in zip(after, before, strict=True)
        ]

    # -------------------------------------------------------------- as a loop

    def looped(self, function: StepFunction) -> tuple[Tensor, Tensor, list[Tensor]]:
        """One loop over the time axis; its first state is the last output."""

        def step(entries: Sequence[Tensor], states: Sequence[Tensor]) -> Results:
            output, after = self.called(function, entries, states)
            return [output], after

        found = trace(step, self.sequences, self.axis, self.states)
        (output,) = found.outputs
        previous = symbol(output.spec, "previous")
        present = None if self.mask is None else self.present()
        masked = self.masked(output, previous, present)
        after = self.kept(found.after, found.states, present)
        sequences = (*found.entries, *([] if present is None else [present]))
        states = (previous, *found.states)
        roots = (masked, *after)
        body = Body(
            sequences,
            states,
            captures(roots, (*sequences, *states), found.since),
            roots,
        )
        reads = [Track(self.axis, self.backwards)] * len(sequences)
        emits = [Emit(masked, self.axis, False)]
        first = zeros_of(output, found.given)
        node = loop(body, reads, emits, [*self.moving, first, *found.first], "rnn")
        states_after = [f"rnn/state_{i}" for i in range(len(self.states))]
        last, *rest = results(node, "rnn/last_output", *states_after, "rnn/outputs")
        return last, rest[-1], rest[:-1]

    def present(self) -> Tensor:
        """What stands for the mask of one step."""
        assert self.mask is not None
        return symbol(Spec(without(self.mask.spec.shape, self.axis), "bool"), "present")

    @property
    def moving(self) -> list[Tensor]:
        """Everything that is walked over: the inputs, and the mask behind them."""
        return self.sequences if self.mask is None else [*self.sequences, self.mask]

    # -------------------------------------------------------------- step by step

    def unrolled(self, function: StepFunction) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The graph of every step, one after the other."""
        length = self.sequences[0].spec.shape[self.axis]
        if length is None:
            raise ShapeError(
                f"inputs are {self.sequences[0].spec}, but unroll needs a known number of steps"
            )
        if known_size(self.sequences[0].spec.shape) == 0:  # of any number of empty entries
            return self.looped(function)
        states, outputs = self.states, []
        previous: Tensor | None = None
        for time in range(length)[:: -1 if self.backwards else 1]:
            entries = [sequence[(_ALL,) * self.axis + (time,)] for sequence in self.moving]
            present = None if self.mask is None else entries.pop()
            output, after = self.called(function, entries, states)
            if present is not None and previous is None:
                output = self.or_zeros(present, output)
            elif present is not None and previous is not None:
                output = where(_spread(present, output, "the output"), output, previous)
            previous = output
            states = self.kept(after, states, present)
            outputs.append(output)
        last, stacked = outputs[-1], stack(outputs, self.axis)
        if self.mask is None or not self.zero_masked:
            return last, stacked, list(states)
        end = self.mask[(_ALL,) * self.axis + (0 if self.backwards else -1,)]
        # As tf_keras does it: the mask is laid over the outputs in the order of the inputs, also
        # when the steps went backwards.
        return self.or_zeros(end, last), self.or_zeros(self.mask, stacked), list(states)


_ALL = slice(None)


def _spread(present: Tensor, value: Tensor, what: str) -> Tensor:
    """The mask of one step with as many axes as what it decides on."""
    if present.ndim > value.ndim:
        raise ShapeError(f"{what} is {value.spec}, but the mask has {present.spec} for each step")
    while present.ndim < value.ndim:
        present = expand_dims(present, present.ndim)
    return present
