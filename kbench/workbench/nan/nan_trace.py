"""Which operation made the first NaN or infinity: a run again, one operation after the other.

A plan's operations are computed on NumPy in the order of the plan, unfused. Of each value only its
count of NaN and infinities is kept; the value itself goes as soon as nobody reads it any more, so
the memory is that of one ordinary run. Nothing is stored and no random number is used up.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from kbench.engine.compiler.values import Value, called, lower_graph, mark_guards, mark_needed
from kbench.engine.control_flow.loop_op import LOOP
from kbench.engine.core import cancel, memory_limit
from kbench.engine.core.csr import is_csr
from kbench.engine.core.errors import KbenchError
from kbench.engine.core.spec import Spec
from kbench.engine.execute.control_deps import seeing_updates
from kbench.engine.execute.plan import make_plan
from kbench.engine.execute.steps.base import (
    StepRunner,
    dynamic_step,
    explained,
    guarded,
    numpy_step,
)
from kbench.engine.execute.steps.loop_step import LoopStep
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.variables import Variable
from kbench.engine.inspect import describe
from kbench.engine.runtime import read_only
from kbench.workbench.core_types import JsonObject
from kbench.workbench.nan import nan_words
from kbench.workbench.nan.nan_values import Array, BadElements, bad_elements
from kbench.workbench.watches import expressions

if TYPE_CHECKING:
    from kbench.engine.core.errors import Place
    from kbench.engine.execute.function import Function
    from kbench.engine.execute.steps.base import Buffers, Registers
    from kbench.engine.graph.tensor import Tensor

MAX_ORIGINS = 64
"""Operations of which facts are kept."""
MAX_PATH_OPERATIONS = 12
"""On the way from the origin that are shown."""


class SweepResult(Struct, frozen=True):
    """What a sweep has found, as plain values, and what became of random numbers."""

    data: JsonObject
    random: str  # '', 'repeated', or 'new' where what was drawn is not known any more
    origin: Tensor | None = None  # the node that made it, or holds it


def sweep(
    function: Function, arrays: Sequence[Array], held: Mapping[Variable, Array] | None = None
) -> SweepResult:
    """Run a function again on these values of its inputs, and find where NaN or infinities begin.

    `held` are values of variables to run it with, in place of those that they have now.

    Raises:
        KbenchError: the run fails; OutOfMemory: one value after the other is too much.
    """
    plan, stores = function.plan, len(function.plan.targets)
    fed = {id(node) for node in plan.feeds}
    others = {
        variable: array for variable, array in (held or {}).items() if id(variable) not in fed
    }
    feeds, arrays = [*plan.feeds, *others], [*arrays, *others.values()]
    found = _swept(plan.name, feeds, arrays, plan.roots, plan.order, stores)
    if found.data.get("source") == "constant":  # perhaps one that the plan has computed
        stop = {id(node) for node in feeds}
        roots = [*function.outputs, *(store.inputs[1] for store in function._stores)]
        roots = seeing_updates(function.outputs, function._stores, walk(roots, stop), stop)
        found = _swept(plan.name, feeds, arrays, roots, walk(roots, stop), stores)
    if found.data.get("source") == "variable" and held is None:  # what was before is gone
        mended = _swept(plan.name, feeds, arrays, plan.roots, plan.order, stores, True)
        if mended.data["state"] == "found" and not mended.data.get("source"):
            found.data["mended"] = mended.data
    return found


def _swept(
    name: str,
    fed: Sequence[Tensor],
    arrays: Sequence[Array],
    ends: Sequence[Tensor],
    order: Sequence[Tensor],
    stores: int,
    mend: bool = False,
) -> SweepResult:
    """One sweep over the nodes in order; the last `stores` of the ends are values to be stored.

    `mend` puts 0 in place of what is not finite in variables, for this run alone.
    """
    given = dict(zip((id(node) for node in fed), arrays, strict=True))
    feeds = {
        id(node): Spec(array.shape, array.dtype.name, sparse=node.spec.sparse)
        for node, array in zip(fed, arrays, strict=True)
    }
    items, slots = lower_graph(order, feeds)
    for node in order:  # what the shapes alone decide is computed like all else, to be explained
        item = items[slots[id(node)]]
        if item.source == "constant" and node.inputs and item.origin is node:
            item.source, item.inputs = "", tuple(slots[id(source)] for source in node.inputs)
    roots = [slots[id(root)] for root in ends]
    needed = mark_needed(items, roots)
    mark_guards(items, needed, roots)
    values = {slots[ident]: array for ident, array in given.items() if ident in slots}
    sweep = _Sweep([item for item in items if needed[item.slot]], items, values, mend)
    with np.errstate(all="ignore"), read_only.repeated_draws() as drawn:
        sweep.run(name)
    random = ("new" if drawn.new else "repeated") if drawn.streams else ""
    return SweepResult(sweep.verdict(roots[: len(roots) - stores], roots), random, sweep.origin)


class _Sweep:
    """One run: values while they are read, and for good which of them were bad."""

    def __init__(
        self, needed: list[Value], items: list[Value], fed: dict[int, Array], mend: bool
    ) -> None:
        self._mend = mend
        self._needed = needed
        self._items = items
        self._fed = fed
        self._values: Registers = [None] * len(items)
        self._empty: Buffers = [None] * len(items)
        self.bad: dict[int, BadElements] = {}
        self.facts: dict[int, JsonObject] = {}  # of what made bad values from good ones
        self.turns: dict[int, JsonObject] = {}  # of what made NaN of infinities
        self.origin: Tensor | None = None  # of what the verdict names
        self._last = self._last_uses()

    def _last_uses(self) -> dict[int, list[int]]:
        """After which item which slots are read no more."""
        last: dict[int, int] = {}
        for item in self._needed:
            last[item.slot] = item.slot
            for source in item.inputs:
                last[source] = item.slot
            for slot, _ in item.guard:
                last[slot] = item.slot
        ending: dict[int, list[int]] = {}
        for slot, at in last.items():
            ending.setdefault(at, []).append(slot)
        return ending

    def run(self, name: str) -> None:
        self._require(name)
        for item in self._needed:
            value = self._value(item)
            found = bad_elements(value)
            if found is not None:
                self.bad[item.slot] = found
                inputs = [self.bad[slot] for slot in item.inputs if slot in self.bad]
                if not inputs:
                    self._note(item, found, value)
                elif found.nan and not any(earlier.nan for earlier in inputs):
                    self._turn(item, value)
            for slot in self._last.get(item.slot, ()):
                self._values[slot] = None
            cancel.check()

    def _require(self, name: str) -> None:
        """Compare the largest sum of values that live at one time with what the machine has."""
        live = peak = 0
        for item in self._needed:
            if not item.source and item.static:
                live += _nbytes(item)
            peak = max(peak, live)
            for slot in self._last.get(item.slot, ()):
                other = self._items[slot]
                live -= _nbytes(other) if not other.source and other.static else 0
        memory_limit.require(peak, "running it again operation by operation", name)

    def _value(self, item: Value) -> object:
        slot = item.slot
        if item.source == "feed":
            self._values[slot] = self._fed[slot]
        elif item.source == "variable":
            origin = item.origin
            assert isinstance(origin, Variable)
            held = origin.held() if item.spec.sparse else origin._array
            if self._mend and not item.spec.sparse and bad_elements(held) is not None:
                held = np.where(np.isfinite(held), held, held.dtype.type(0))
            self._values[slot] = held
        elif item.source:
            self._values[slot] = item.constant
        else:
            step: StepRunner
            if item.op is LOOP:  # run by the plan of its step, as ever
                step = LoopStep(item, make_plan).run
            else:
                step = numpy_step(item) if item.static else dynamic_step(item)
            step = guarded(step, item.guard) if item.guard else step
            try:
                step(self._values, self._empty)
            except KbenchError as error:
                raise explained(error, item, self._values) from None
        return self._values[slot]

    # ------------------------------------------------------------------ what was found

    def _note(self, item: Value, found: BadElements, value: object) -> None:
        if len(self.facts) >= MAX_ORIGINS:
            return
        node = item.origin
        row: JsonObject = {
            **self._step(item),
            "source": item.source and node.kind,
            **found.as_data(),
        }
        row["line"] = _line(node.place) if not item.source else ""
        if item.source:
            row["name_of"] = describe.printable(node.name.partition(":")[0])
            row["operands"] = []
        else:
            arrays = [self._values[slot] for slot in item.inputs]
            row["operands"] = [
                self._operand(item, place, array, found.index) for place, array in enumerate(arrays)
            ][:8]
            row["why"] = nan_words.why(item.op.name, row["operands"], found, item.spec.dtype)
            if item.op is LOOP:
                row |= _within(item, arrays, row["called"])
        self.facts[item.slot] = row

    def _turn(self, item: Value, value: object) -> None:
        """Keep of what has only infinities to read, and gives NaN, how it does."""
        if len(self.turns) >= MAX_ORIGINS or item.source or not isinstance(value, np.ndarray):
            return
        first = np.unravel_index(int(np.argmax(np.isnan(value))), value.shape)
        index = tuple(int(entry) for entry in first) if value.ndim else ()
        node = item.origin
        operands = [
            self._operand(item, place, self._values[slot], index)
            for place, slot in enumerate(item.inputs)
        ]
        self.turns[item.slot] = {
            **self._step(item),
            "line": _line(node.place),
            "index": list(index),
            "operands": operands[:8],
            "inputs": list(item.inputs[:8]),
        }

    def _operand(self, item: Value, place: int, array: Array, index: tuple[int, ...]) -> JsonObject:
        origin = self._items[item.inputs[place]].origin
        row: JsonObject = {
            "kind": str(getattr(origin, "kind", "tensor")),
            "name": describe.printable(origin.name.partition(":")[0]),
            "op": describe.printable(called(origin, origin.op)),
            "place": _place(origin),
        }
        held = array.data if is_csr(array) else array
        if not isinstance(held, np.ndarray):
            return {**row, "spec": str(origin.spec)}
        row["spec"] = describe.spec_text(array.shape, array.dtype.name)
        facts = describe.array(held)
        row |= {"min": facts.get("min"), "max": facts.get("max"), "sampled": facts["sampled"]}
        if item.op.kind == "elementwise" and not is_csr(array):
            # Broadcasting: axes count from the right, and one of size 1 has one element only.
            index = index[len(index) - array.ndim :] if array.ndim else ()
            index = tuple(i if n > 1 else 0 for i, n in zip(index, array.shape, strict=True))
            row |= {"index": list(index), "value": describe.number(array[index].item())}
        return row

    def _step(self, item: Value) -> JsonObject:
        found = self.bad[item.slot]
        node = item.origin
        spec = str(item.spec)
        value = self._values[item.slot]
        if isinstance(value, np.ndarray):
            spec = describe.spec_text(value.shape, value.dtype.name)
        return {
            "op": describe.printable(item.op.name),
            "called": describe.printable(called(node, item.op)),
            "place": _place(node),
            "spec": spec,
            "holds": nan_words.holds(found.nan, found.inf),
        }

    def verdict(self, results: list[int], roots: list[int]) -> JsonObject:
        """The first operation whose bad values reach a result, else the first of all."""
        for wanted, reach in ((results, "result"), (roots, "update")):
            ends = [slot for slot in wanted if slot in self.bad]
            if ends:
                return {"state": "found", "reaches": reach, **self._origin(ends)}
        made = [slot for slot in self.facts if not self._items[slot].source]
        if made:
            self.origin = self._items[made[0]].origin
            return {"state": "found", "reaches": "", **self.facts[made[0]], "path": []}
        return {"state": "clean", "operations": len(self._needed)}

    def _origin(self, ends: list[int]) -> JsonObject:
        """The earliest origin of bad values among what leads to these, and the way from there."""
        toward: dict[int, int] = dict.fromkeys(ends, -1)
        stack, origins = list(ends), set()
        while stack:
            slot = stack.pop()
            item = self._items[slot]
            bad = [slot for slot in item.inputs if slot in self.bad]
            if not bad:
                origins.add(slot)
            for source in bad:
                if source not in toward:
                    toward[source] = slot
                    stack.append(source)
        known = [slot for slot in origins if slot in self.facts]
        made = [slot for slot in known if not self._items[slot].source]
        first = min(made or known)
        self.origin = self._items[first].origin
        path, before, slot = [], first, toward[first]
        turn: JsonObject = {}
        while slot >= 0:
            path.append(self._path_row(self._items[slot]))
            if slot in self.turns and not turn:
                turn = {"turn": self._turned(slot, first, before)}
            before, slot = slot, toward[slot]
        cut = max(len(path) - MAX_PATH_OPERATIONS, 0)
        if cut:
            half = MAX_PATH_OPERATIONS // 2
            path = path[:half] + path[half - MAX_PATH_OPERATIONS :]
        others = len(made) - 1 if made else len(known) - 1
        return {**self.facts[first], **turn, "path": path, "cut": cut, "others": others}

    def _turned(self, slot: int, first: int, before: int) -> JsonObject:
        """How infinities, on the way from the first ones, became NaN; `of` is the input they are.

        `direct` says that this input is what the first operation made.
        """
        row = dict(self.turns[slot])
        inputs = row.pop("inputs")
        of = inputs.index(before) if before in inputs else None
        return {**row, "of": of, "direct": before == first and not self._items[first].source}

    def _path_row(self, item: Value) -> JsonObject:
        found = self.bad[item.slot]
        node = item.origin
        return {
            "called": describe.printable(called(node, item.op)),
            "op": describe.printable(item.op.name),
            "place": _place(node),
            "spec": str(item.spec),
            "holds": nan_words.holds(found.nan, found.inf),
        }


def _within(item: Value, arrays: Sequence[Array], called_as: str) -> JsonObject:
    """What made it within the first step of a loop that gives something bad; {} if none does now.

    The steps run once more; what they draw at random is new, and may be harmless.
    """
    loop = LoopStep(item, make_plan)
    body, ends = loop.body, [*loop.body.after, *(emit.tensor for emit in loop.emits)]
    for number, (given, results) in enumerate(loop.steps(arrays), 1):
        cancel.check()
        if all(bad_elements(result) is None for result in results):
            continue
        order = walk(ends, {id(node) for node in body.feeds})
        data = _swept(called_as, body.feeds, given, ends, order, 0).data
        if data["state"] != "found" or data.get("source"):
            return {}
        inner = {key: value for key, value in data.items() if key not in ("path", "cut", "others")}
        return {**inner, "loop": called_as, "step": number}
    return {}


def _nbytes(item: Value) -> int:
    if item.op.kind in ("view", "several") or item.spec.sparse:
        return 0
    return item.size * int(np.dtype(item.spec.dtype).itemsize)


def _place(node: Tensor) -> str:
    place = getattr(node, "place", None)
    typed = place is None or place.file == expressions.WATCH_FILE  # then there is no line to go to
    return "" if typed else describe.printable(place)


def _line(place: Place | None) -> str:
    """The user's line of code, where it can be read."""
    if place is None:
        return ""
    return describe.printable(linecache.getline(place.file, place.line).strip(), 160)
