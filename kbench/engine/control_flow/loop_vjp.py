"""The gradient of a loop: another loop, from the last step to the first.

The backward step is the gradient of the step's own graph. What it reads of the forward step is
emitted by the forward loop, extended for it: nothing is computed twice, and random numbers are the
same. Where only the shape of a value is read, the value is not kept. Products with a captured
matrix are collected into one product over all steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kbench.engine.autodiff import sweep
from kbench.engine.control_flow.body import Body, Emit, Track, captures, symbol
from kbench.engine.core.spec import is_float
from kbench.engine.graph.apply import RESULT, Partial, apply, result
from kbench.engine.graph.convert import Constant
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.ops.elementwise.arithmetic import add
from kbench.engine.ops.layout.create import zeros_like
from kbench.engine.ops.linear.matmul import DOT, contract


class _Arriving(Struct, frozen=True):
    """A gradient that arrives at what the forward loop emits."""

    symbol: Tensor
    value: Tensor
    read: Track


def loop_gradient(
    g: Partial,
    node: Tensor,
    *inputs: Tensor,
    body: Body,
    reads: tuple[Track, ...],
    emits: tuple[Emit, ...],
) -> tuple[Tensor | None, ...]:
    """One entry for each sequence, initial state and captured tensor."""
    return tuple(_Backward(g, node, inputs, body, reads, emits).entries())


class _Backward:
    """The parts of one backward loop while it is built."""

    def __init__(
        self,
        g: Partial,
        node: Tensor,
        inputs: Sequence[Tensor],
        body: Body,
        reads: Sequence[Track],
        emits: Sequence[Emit],
    ) -> None:
        self.node, self.inputs = node, inputs
        self.body, self.reads, self.emits = body, reads, emits
        self.backwards = reads[0].backwards  # what is stacked has the order of the sequences
        count = len(body.sequences)
        first = inputs[count : count + len(body.states)]
        self.arriving = self._arriving(g)
        self.moving = self._moving(g)
        self.state_symbols = [symbol(body.after[i].spec, "state_gradient") for i in self.moving]
        self.state_values = [g[i] if i in g else zeros_like(first[i]) for i in self.moving]
        self.found = self._swept()

    def _arriving(self, g: Partial) -> list[tuple[Tensor, _Arriving]]:

        found = []
        for index, emit in enumerate(self.emits):
            value = g.get(len(self.body.states) + index)
            if value is not None:
                read = Track(emit.axis, not emit.backwards)
                arrived = _Arriving(symbol(emit.tensor.spec, "output_gradient"), value, read)
                found.append((emit.tensor, arrived))
        return found

    def _moving(self, g: Partial) -> list[int]:
        """The states, by number, whose gradients the backward loop carries on.

        Those that no step reads have one only where it arrives behind the last step.
        """
        body = self.body
        roots = [*body.after, *(emit.tensor for emit in self.emits)]
        read = {id(node) for node in walk(roots, {id(feed) for feed in body.feeds})}
        return [
            i
            for i, state in enumerate(body.states)
            if is_float(state.spec.dtype) and (i in g or id(state) in read)
        ]

    def _swept(self) -> dict[int, Tensor]:
        """The gradient to each thing that the step is fed, by its id, within one step."""
        seeds = [(tensor, arrived.symbol) for tensor, arrived in self.arriving]
        seeds += [
            (self.body.after[i], symbol)
            for i, symbol in zip(self.moving, self.state_symbols, strict=True)
        ]
        targets = [feed for feed in self.body.feeds if is_float(feed.spec.dtype)]
        given = {id(feed) for feed in self.body.feeds}
        entries = sweep(seeds, targets, given)
        return {
            id(target): entry
            for target, entry in zip(targets, entries, strict=True)
            if entry is not None
        }

    # -------------------------------------------------------------- the results

    def entries(self) -> list[Tensor | None]:
        """Build the loop and read its results."""

        body = self.body
        states = [self._state_after(place, i) for place, i in enumerate(self.moving)]
        sequences = [i for i, feed in enumerate(body.sequences) if id(feed) in self.found]
        captured = [i for i, feed in enumerate(body.captured) if id(feed) in self.found]
        terms = {i: _terms(self.found[id(body.captured[i])]) for i in captured}
        emits = []
        for i in sequences:
            read = self.reads[i]
            entry = self.found[id(body.sequences[i])]
            emits.append(Emit(entry, read.axis, not read.backwards))
        summed = []
        for i in captured:
            for term in terms[i]:
                if self._is_collected(term):
                    emits += [Emit(operand, 0, not self.backwards) for operand in term.inputs]
                else:
                    summed.append((i, term))
        node = self._loop(states, emits, summed)
        if node is None:
            return [None] * len(self.inputs)
        return self._read(node, sequences, captured, terms, len(states))

    def _read(
        self,
        node: Tensor,
        sequences: list[int],
        captured: list[int],
        terms: dict[int, list[Tensor]],
        states: int,
    ) -> list[Tensor | None]:
        body = self.body
        sums = iter(range(states, len(node.attrs["body"].states)))
        stacks = iter(range(len(node.attrs["body"].states), 1 << 30))
        entries: dict[int, Tensor] = {}
        for i in sequences:
            entries[i] = result(node, next(stacks))
        for place, i in enumerate(self.moving):
            entries[len(body.sequences) + i] = result(node, place)
        for i in captured:
            total: Tensor | None = None
            for term in terms[i]:
                if self._is_collected(term):
                    left, right = result(node, next(stacks)), result(node, next(stacks))
                    part = _collected(left, right, term.attrs["axes"])
                else:
                    part = result(node, next(sums))
                total = part if total is None else add(total, part)
            assert total is not None
            entries[len(body.sequences) + len(body.states) + i] = total
        return [entries.get(position) for position in range(len(self.inputs))]

    def _state_after(self, place: int, index: int) -> Tensor:
        found = self.found.get(id(self.body.states[index]))
        return zeros_like(self.state_symbols[place]) if found is None else found

    def _is_collected(self, term: Tensor) -> bool:
        """True for a product of two factors that both change from step to step."""
        fixed = {id(feed) for feed in self.body.captured}
        return term.op is DOT and not any(
            id(operand) in fixed or isinstance(operand, Constant) for operand in term.inputs
        )

    # -------------------------------------------------------------- the loop

    def _loop(
        self, states: list[Tensor], emits: list[Emit], summed: list[tuple[int, Tensor]]
    ) -> Tensor | None:

        totals = [symbol(term.spec, "sum") for _, term in summed]
        after = [*states, *(add(t, term) for t, (_, term) in zip(totals, summed, strict=True))]
        roots = [*after, *(emit.tensor for emit in emits)]
        if not roots:
            return None
        values, reads, symbols = self._what_is_read(roots)
        state_symbols = (*self.state_symbols, *totals)
        bound = (*symbols, *state_symbols)
        step = Body(
            tuple(symbols),
            state_symbols,
            captures(roots, bound, self.node.serial),
            tuple(after),
        )
        first = [*self.state_values, *(zeros_like(self.body.captured[i]) for i, _ in summed)]
        given = (*values, *first, *step.captured)
        return apply(self.node.op, *given, body=step, reads=tuple(reads), emits=tuple(emits))

    def _what_is_read(
        self, roots: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Track], list[Tensor]]:
        """The sequences of the backward loop: gradients, forward sequences, kept values."""

        values = [arrived.value for _, arrived in self.arriving]
        reads = [arrived.read for _, arrived in self.arriving]
        symbols = [arrived.symbol for _, arrived in self.arriving]
        used = {id(node) for node in walk(roots, {id(feed) for feed in self.body.sequences})}
        for i, feed in enumerate(self.body.sequences):
            # the first one is always read: it says how many steps there are
            if id(feed) in used or (i == 0 and not values):
                read = self.reads[i]
                values.append(self.inputs[i])
                reads.append(Track(read.axis, not read.backwards))
                symbols.append(feed)
        kept = self._kept(roots)
        if kept:
            values += self._emitted(kept)
            reads += [Track(0, not self.backwards)] * len(kept)
            symbols += kept
        return values, reads, symbols

    def _emitted(self, kept: Sequence[Tensor]) -> list[Tensor]:
        """The values of all steps, from the forward loop extended for them."""

        emits = tuple(Emit(tensor, 0, self.backwards) for tensor in kept)
        node = apply(
            self.node.op, *self.inputs, body=self.body, reads=tuple(self.reads), emits=emits
        )
        return [result(node, len(self.body.states) + i) for i in range(len(kept))]

    def _kept(self, roots: Sequence[Tensor]) -> list[Tensor]:
        """The tensors of the forward step whose values the backward step reads."""
        body = self.body
        fed = {id(feed) for feed in (*body.sequences, *body.captured)}
        states = {id(state) for state in body.states}
        computed = self._computed(fed | states)
        kept: dict[int, Tensor] = {}
        seen: set[int] = set()
        stack = [(root, True) for root in reversed(roots)]
        while stack:
            node, value_read = stack.pop()
            if id(node) in fed or id(node) in kept:
                continue
            whole = node.inputs[0] if node.op is RESULT else node  # a result may be new here
            made = id(node) in computed or id(whole) in computed
            if id(node) in states or (made and (value_read or not node.op.pure)):
                kept[id(node)] = node
                continue
            if id(node) in seen:
                continue
            seen.add(id(node))
            stack.extend(
                (operand, not made and position not in node.op.shapes)
                for position, operand in enumerate(node.inputs)
            )
        return list(kept.values())

    def _computed(self, bound: set[int]) -> set[int]:
        """The nodes of the forward step that depend on what changes from step to step."""
        body = self.body
        changing = {id(feed) for feed in (*body.sequences, *body.states)}
        computed: set[int] = set()
        for node in walk([*body.after, *(emit.tensor for emit in self.emits)], bound):
            if id(node) in bound:
                continue
            drawn = not node.op.pure
            if drawn or any(id(operand) in changing for operand in node.inputs):
                changing.add(id(node))
                computed.add(id(node))
        return computed


def _terms(total: Tensor) -> list[Tensor]:
    """The terms of a sum, so that each can be collected in its own way."""
    found: list[Tensor] = []
    stack = [total]
    while stack:
        node = stack.pop()
        if node.op is add.op and all(operand.spec == node.spec for operand in node.inputs):
            stack.extend(reversed(node.inputs))
        else:
            found.append(node)
    return found


def _collected(
    left: Tensor, right: Tensor, axes: tuple[tuple[int, ...], tuple[int, ...]]
) -> Tensor:
    """The sum over all steps of the products of two stacked factors, as one product."""
    first, second = axes
    moved = ((0, *(i + 1 for i in first)), (0, *(i + 1 for i in second)))
    return contract(left, right, 0, moved)
