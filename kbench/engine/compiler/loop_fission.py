"""Loop fission: what needs no state is done for all steps at once, before the loop or after it.

Products with the entries of a sequence become one product before the loop; products that are only
emitted, and sums over all steps, one after it. A step that needs no state leaves no loop at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbench.engine.compiler.rewrite import rebuild, with_inputs
from kbench.engine.control_flow.batching import batched, batched_sum, reverse_first_axis
from kbench.engine.control_flow.body import Body, Emit, Track, common_length, infer_loop, stacked
from kbench.engine.control_flow.body import symbol as stand_in
from kbench.engine.control_flow.loop_op import LOOP
from kbench.engine.core.spec import Spec
from kbench.engine.core.types import Attrs
from kbench.engine.graph.apply import RESULT, make_node
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.batching import axis_moved
from kbench.engine.graph.traits.roles import Role
from kbench.engine.graph.traverse import walk

INVARIANT, STREAMED, CARRIED = range(3)
"""What a value depends on: nothing that changes, sequences, or states too.

Random numbers count as carried: each step draws its own.
"""


def split_loops(roots: Sequence[Tensor], stop: set[int]) -> list[Tensor]:
    """Every loop without what can be done before or after it."""
    found: dict[int, list[Tensor]] = {}

    def visit(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        if node.op is LOOP:
            found[id(node)] = _Fission(node, inputs).results()
            return node
        if node.op is RESULT and id(node.inputs[0]) in found:
            index: int = node.attrs["index"]
            return found[id(node.inputs[0])][index]
        return with_inputs(node, inputs)

    return rebuild(roots, stop, visit)


class _BodyGraph:
    """The graph of a step: the order of its nodes, what they depend on, and what may wait."""

    def __init__(self, body: Body, emits: Sequence[Emit]) -> None:
        self.body = body
        self.fed = {id(feed) for feed in body.feeds}
        self.roots = [*body.after, *(emit.tensor for emit in emits)]
        self.order = walk(self.roots, self.fed)
        self.depends = self._dependence()
        self.sums = self._find_sums()
        carried = [value for i, value in enumerate(body.after) if i not in self.sums]
        self.core = {id(node) for node in walk(carried, self.fed)}
        self.deferred = self._find_deferred()

    def _dependence(self) -> dict[int, int]:
        depends = dict.fromkeys((id(symbol) for symbol in self.body.captured), INVARIANT)
        depends.update((id(symbol), STREAMED) for symbol in self.body.sequences)
        depends.update((id(symbol), CARRIED) for symbol in self.body.states)
        for node in self.order:
            if id(node) not in depends:
                most = max([depends[id(operand)] for operand in node.inputs], default=INVARIANT)
                depends[id(node)] = most if node.op.pure else CARRIED
        return depends

    def _find_sums(self) -> dict[int, Tensor]:
        """By number, the states that only add up a sum of each step: that sum."""
        users: dict[int, int] = {}
        inner = [node for node in self.order if id(node) not in self.fed]
        for used in (*self.roots, *(operand for node in inner for operand in node.inputs)):
            users[id(used)] = users.get(id(used), 0) + 1
        found = {}
        for index, (state, after) in enumerate(zip(self.body.states, self.body.after, strict=True)):
            term = _added_to(state, after)
            if term is None or users[id(state)] != 1 or users[id(after)] != 1:
                continue
            if _is_heavy(term) and id(term) not in self.fed:
                found[index] = term
        return found

    def _find_deferred(self) -> set[int]:
        """Products and sums that no step needs of the one before, and all that is made of them."""
        deferred: set[int] = set()
        for node in self.order:
            key = id(node)
            if key in self.fed or key in self.core or not node.op.pure:
                continue
            heavy = _is_heavy(node) and self.depends[key] == CARRIED
            if heavy or any(id(operand) in deferred for operand in node.inputs):
                deferred.add(key)
        return deferred

    def hoisted(self) -> list[Tensor]:
        """Products of entries, with what is added to them elementwise, as the step reads them."""
        hoisted: set[int] = set()
        for node in self.order:
            if self.depends[id(node)] != STREAMED or id(node) in self.fed:
                continue
            streamed = [operand for operand in node.inputs if self.depends[id(operand)] == STREAMED]
            follows = len(streamed) == 1 and id(streamed[0]) in hoisted
            if node.op.role is Role.PRODUCT or (node.op.kind == "elementwise" and follows):
                hoisted.add(id(node))
        read = {id(value) for value in self.body.after}
        for node in self._valued():
            if id(node) not in hoisted and id(node) not in self.deferred:
                read.update(id(operand) for operand in value_inputs(node))
        return [node for node in self.order if id(node) in hoisted and id(node) in read]

    def _valued(self) -> list[Tensor]:
        """The nodes of which values are read, and not the shape alone."""
        valued = {id(root) for root in self.roots}
        found = []
        for node in reversed(self.order):
            if id(node) in valued and id(node) not in self.fed:
                valued.update(id(operand) for operand in value_inputs(node))
                found.append(node)
        return found


def value_inputs(node: Tensor) -> list[Tensor]:
    """The inputs of which the values are read."""
    return [
        operand for position, operand in enumerate(node.inputs) if position not in node.op.shapes
    ]


def _is_heavy(node: Tensor) -> bool:
    """Whether it is a product, or a sum over axes: worth doing for all steps at once."""
    return node.op.role in (Role.PRODUCT, Role.REDUCE_LIKE) or node.op.fold == "sum"


def _added_to(state: Tensor, after: Tensor) -> Tensor | None:
    """What a step adds to a state, if that is all it does with it."""
    if not after.op.computes("add"):
        return None
    left, right = after.inputs
    term = right if left is state else left if right is state else None
    return None if term is None or term is state or term.spec.shape != state.spec.shape else term


class _Batch:
    """Values of all steps, outside of the loop; `ask` gives those that the loop has to emit."""

    def __init__(self, fission: _Fission, ask: Callable[[Tensor], Tensor]) -> None:
        self.graph, self.ask = fission.graph, ask
        self.made = dict(fission.outside)

    def value(self, node: Tensor) -> Tensor | None:
        """The values of `node` in all steps along a first axis; None where a rule is missing."""
        for inner in walk([node], self.made.keys() | self._asked(node)):
            if id(inner) not in self.made:
                found = self._made(inner)
                if found is None:
                    return None
                self.made[id(inner)] = found
        return self.made[id(node)]

    def summed(self, term: Tensor) -> Tensor | None:
        """The sum of `term` over all steps."""
        inputs = [self.value(operand) for operand in term.inputs]
        if any(value is None for value in inputs):
            return None
        return batched_sum(term, inputs, self._mapped(term))  # type: ignore[arg-type]

    def _asked(self, node: Tensor) -> set[int]:
        """The ids of carried values that the loop itself computes."""
        depends, deferred = self.graph.depends, self.graph.deferred
        return {
            id(inner)
            for inner in self.graph.order
            if depends[id(inner)] == CARRIED and id(inner) not in deferred
        }

    def _mapped(self, node: Tensor) -> list[bool]:
        return [self.graph.depends[id(operand)] != INVARIANT for operand in node.inputs]

    def _made(self, node: Tensor) -> Tensor | None:
        depends = self.graph.depends[id(node)]
        if depends == CARRIED and id(node) not in self.graph.deferred:
            return self.ask(node)
        inputs = tuple(self.made[id(operand)] for operand in node.inputs)
        if depends == INVARIANT:
            return with_inputs(node, inputs) if inputs else node
        return batched(node, inputs, self._mapped(node))


class _Fission:
    """One loop, taken apart into what comes before it, what is left of it and what comes after."""

    def __init__(self, node: Tensor, inputs: Sequence[Tensor]) -> None:
        self.node, self.inputs = node, inputs
        self.body: Body = node.attrs["body"]
        self.reads: tuple[Track, ...] = node.attrs["reads"]
        self.emits: tuple[Emit, ...] = node.attrs["emits"]
        self.back = self.reads[0].backwards
        self.length = common_length(
            [operand.spec for operand in inputs[: len(self.reads)]], self.reads
        )
        self.graph = _BodyGraph(self.body, self.emits)
        self.asked: dict[int, Emit] = {}
        self.outside = self._outside()

    def _outside(self) -> dict[int, Tensor]:
        """What stands outside for sequences, entries along the first axis, and captured values."""
        outside = {}
        for symbol, value, read in zip(self.body.sequences, self.inputs, self.reads, strict=False):
            entries = axis_moved(value, read.axis, 0)
            outside[id(symbol)] = (
                entries if read.backwards == self.back else reverse_first_axis(entries)
            )
        count = len(self.body.sequences) + len(self.body.states)
        outside.update(
            (id(symbol), value)
            for symbol, value in zip(self.body.captured, self.inputs[count:], strict=True)
        )
        return outside

    def results(self) -> list[Tensor]:
        """What stands for each result of the loop."""
        trial = _Batch(self, self._ask)
        hoisted = [node for node in self.graph.hoisted() if trial.value(node) is not None]
        sums = {i: term for i, term in self.graph.sums.items() if self._tried(trial, term, True)}
        sunk = {
            k: emit.tensor
            for k, emit in enumerate(self.emits)
            if self._may_sink(emit.tensor) and self._tried(trial, emit.tensor, False)
        }
        if not (hoisted or sums or sunk):
            whole = with_inputs(self.node, tuple(self.inputs))
            return [self._read(whole, index) for index in range(len(self.node.spec.parts))]  # type: ignore[attr-defined]
        return self._joined(trial, hoisted, sums, sunk)

    def _may_sink(self, tensor: Tensor) -> bool:
        return self.graph.depends[id(tensor)] == STREAMED or id(tensor) in self.graph.deferred

    def _ask(self, node: Tensor) -> Tensor:
        """Stands for values that the loop emits, until it is known what else it does."""
        self.asked[id(node)] = Emit(node, 0, self.back)
        spec = Spec(stacked(node.spec.shape, 0, self.length), node.spec.dtype)
        return stand_in(spec, "emitted")

    def _tried(self, trial: _Batch, tensor: Tensor, as_sum: bool) -> bool:
        """Whether a value can be had outside. What is asked for in vain nobody reads: dead."""
        return (trial.summed(tensor) if as_sum else trial.value(tensor)) is not None

    def _joined(
        self, trial: _Batch, hoisted: list[Tensor], sums: dict[int, Tensor], sunk: dict[int, Tensor]
    ) -> list[Tensor]:
        states = [i for i in range(len(self.body.states)) if i not in sums]
        emits = [emitted for k, emitted in enumerate(self.emits) if k not in sunk]
        emits += [emitted for emitted in self.asked.values() if emitted not in emits]
        values = [trial.value(node) for node in hoisted]
        rest = self._rest(hoisted, values, states, emits) if states or emits else None  # type: ignore[arg-type]

        def emitted(node: Tensor) -> Tensor:
            assert rest is not None
            return self._read(rest, len(states) + emits.index(self.asked[id(node)]))

        after = _Batch(self, emitted)
        found: list[Tensor] = []
        count = len(self.body.sequences)
        for i in range(len(self.body.states)):
            if i in sums:
                whole = after.summed(sums[i])
                assert whole is not None
                found.append(
                    make_node(self.body.after[i].op, self.node, self.inputs[count + i], whole)
                )
            else:
                assert rest is not None
                found.append(self._read(rest, states.index(i)))
        for k, emit in enumerate(self.emits):
            if k in sunk:
                whole = after.value(emit.tensor)
                assert whole is not None
                ordered = whole if emit.backwards == self.back else reverse_first_axis(whole)
                found.append(axis_moved(ordered, 0, emit.axis))
            else:
                assert rest is not None
                found.append(self._read(rest, len(states) + emits.index(emit)))
        return found

    def _rest(
        self,
        hoisted: Sequence[Tensor],
        values: Sequence[Tensor],
        states: Sequence[int],
        emits: Sequence[Emit],
    ) -> Tensor:
        """The loop that is left; it walks over what was computed before it, too."""
        body, count = self.body, len(self.body.sequences)
        smaller = Body(
            (*body.sequences, *hoisted),
            tuple(body.states[i] for i in states),
            body.captured,
            tuple(body.after[i] for i in states),
        )
        given = (
            *self.inputs[:count],
            *values,
            *(self.inputs[count + i] for i in states),
            *self.inputs[count + len(body.states) :],
        )
        reads = (*self.reads, *[Track(0, self.back)] * len(hoisted))
        attrs: Attrs = {"body": smaller, "reads": reads, "emits": tuple(emits)}
        spec = infer_loop(*[operand.spec for operand in given], **attrs)
        return Tensor.derived(LOOP, given, attrs, spec, self.node)

    def _read(self, whole: Tensor, index: int) -> Tensor:
        return make_node(RESULT, self.node, whole, index=index)
