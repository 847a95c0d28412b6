"""Functions: feeds in, plans bound and cached by shape, updates stored together, arrays out."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.engine.core import cancel, fork_safety
from kbench.engine.core.csr import Csr, Held, as_dense, is_csr
from kbench.engine.core.errors import ArgumentError, DtypeError, FeedError, shown
from kbench.engine.core.type_errors import describe_operand
from kbench.engine.execute.control_deps import seeing_updates
from kbench.engine.execute.eager import direct_value
from kbench.engine.execute.executable import Executable
from kbench.engine.execute.feeds import fed_array, listed, made, unfed
from kbench.engine.execute.plan import Plan, make_plan
from kbench.engine.execute.steady import MAX_KEPT_ELEMENTS, SteadyCall
from kbench.engine.execute.steps.base import Signature
from kbench.engine.graph import pickling, scope, tensor
from kbench.engine.graph.convert import Constant, as_tensor, shared
from kbench.engine.graph.tensor import FeedDict, Operand, Tensor, last_seen
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.updates import Update, as_update, stores_of
from kbench.engine.graph.variables import Variable, store_all, update_lock
from kbench.engine.runtime import garbage, profile, read_only
from kbench.engine.runtime.profile import RunRecord

MAX_EXECUTABLES = 16
"""Shape signatures that a function remembers."""


class Function:
    """Computes `outputs` from values of `inputs`, and then stores `updates`.

    Call it with one list of values; it returns a list of NumPy arrays. Safe from any thread.
    """

    def __init__(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        updates: Sequence[Update] = (),
        name: str = "function",
    ) -> None:
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.updates = list(updates)
        self.name = name
        with garbage.uncollected():
            self._plan()

    def _plan(self) -> None:
        """Check the graph, and find out what a call computes."""
        _check_inputs(self.inputs)
        sparse = any(node.spec.sparse for node in self.inputs)  # which a dense array is made
        self._dtypes = None if sparse else [np.dtype(node.spec.dtype) for node in self.inputs]
        self._stores = stores_of(self.outputs, self.updates)
        roots = [*self.outputs, *(update.inputs[1] for update in self._stores)]
        stop = {id(node) for node in self.inputs}
        nodes = walk(roots, stop)
        _check_generation(nodes)
        self._before = _controlled(nodes, roots, self.inputs, self.name)
        roots = seeing_updates(self.outputs, self._stores, nodes, stop)
        targets = [store.target for store in self._stores]
        self.plan: Plan = make_plan(self.name, roots, self.inputs, targets)
        self.records: RunRecord | None = None  # of the last call that was recorded
        self._executables: OrderedDict[Signature, Executable] = OrderedDict()
        self._steady: SteadyCall | None = None
        self._latest: Executable | None = None  # what ran last, where a steady call could
        self._parts: dict[tuple[int, ...], Function] = {}  # by which inputs are given a value
        # Of two calls with updates each sees the variables as the other left them.
        stores = bool(self._stores) or self._before is not None
        self._lock = update_lock if stores else fork_safety.lock()
        _functions.add(self)

    def __repr__(self) -> str:
        return (
            f"<function {self.name!r} {len(self.inputs)} inputs, {len(self.outputs)} outputs, "
            f"{len(self.updates)} updates>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copies: the graph, which is planned anew on first use."""
        parts = (type(self), self.inputs, self.outputs, self.updates, self.name)
        return pickling.gathered(_restored, parts, [*self.inputs, *self.outputs, *self.updates])

    if not TYPE_CHECKING:

        def __getattr__(self, key: str) -> Any:
            """Of a copy that nobody has used yet, what planning finds."""
            if key not in _PLANNED or "name" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {key!r}")
            with _planning, garbage.uncollected():
                if key not in self.__dict__:
                    self._plan()
            return self.__dict__[key]

    # -------------------------------------------------------------- calling

    def __call__(self, inputs: Sequence[object] = (), *more: object) -> list[Held]:
        if more:
            raise self._unlisted(f"{1 + len(more)} arguments")
        steady = self._steady
        if steady is not None and (results := steady.run(inputs)) is not None:
            return results
        known = self._known(inputs)
        if known is not None:
            return self.run(list(inputs), known)  # type: ignore[arg-type]  # arrays, by `_known`
        if not isinstance(inputs, (list, tuple)):
            raise self._unlisted(describe_operand(inputs))
        given = listed(self.inputs, inputs)
        if len(given) > len(self.inputs):
            raise self._counted(given)
        if len(given) < len(self.inputs) or any(value is None for value in given):
            return self._partly(given)
        arrays = [self._fed(node, value) for node, value in zip(self.inputs, given, strict=True)]
        return self.run(arrays)

    def _fed(self, node: Tensor, value: object) -> Held:
        """The value for an input; an error names this function."""
        try:
            return fed_array(node, value)
        except FeedError as error:
            error.function = self.name
            raise

    def _partly(self, values: Sequence[object]) -> list[Held]:
        """The call with values for some of the inputs; FeedError when one that has none is needed.

        An input that is no placeholder is computed then.
        """
        pairs = zip(self.inputs, values, strict=False)
        given = [(node, value) for node, value in pairs if value is not None]
        key = tuple([id(node) for node, _ in given])
        partly = self._parts.get(key)
        if partly is None:
            roots = [*self.outputs, *(update.inputs[1] for update in self._stores)]
            needed = unfed([*roots, *self._waited_for()], key)
            if needed:
                raise self._counted([value for _, value in given], needed[0])
            inputs = [node for node, _ in given]
            partly = Function(inputs, self.outputs, self.updates, self.name)
            self._parts[key] = partly
        results = partly([value for _, value in given])
        self.records = partly.records or self.records
        return results

    def _waited_for(self) -> list[Tensor]:
        """What is computed before the call, by everything that it waits for."""
        earlier = self._before
        if earlier is None:
            return []
        stored = [store.inputs[1] for store in earlier._stores]
        return [*earlier._waited_for(), *earlier.outputs, *stored]

    def _unlisted(self, got: str) -> FeedError:
        """The error of a call with something else than one list."""
        names = ", ".join(node.name.split(":")[0] for node in self.inputs)
        return FeedError(
            f"takes one list of values, got {got}",
            function=self.name,
            suggestion=f"f([{names}]), with a value in place of each name" if names else "f([])",
        )

    def _counted(self, values: Sequence[object], needed: Tensor | None = None) -> FeedError:
        """The error of a call with too many values, or with none for an input that is needed."""
        count = len(self.inputs)
        reason = (
            f"takes {count} value{'' if count == 1 else 's'} "
            f"({', '.join(node.name.split(':')[0] for node in self.inputs)}), got {len(values)}"
        )
        if needed is not None:
            name = needed.name.split(":")[0]
            reason += f"; {needed.kind} {name!r} {needed.spec}{made(needed)}, needs one"
        return FeedError(reason, function=self.name)

    def _known(self, inputs: Sequence[object]) -> Executable | None:
        """The executable for arrays of the inputs' dtypes whose shapes were checked before."""
        dtypes = self._dtypes
        if dtypes is None or not isinstance(inputs, (list, tuple)) or len(inputs) != len(dtypes):
            return None
        shapes = []
        for place, dtype in enumerate(dtypes):
            array = inputs[place]
            if type(array) is not np.ndarray or array.dtype != dtype:
                return None
            shapes.append(array.shape)
        key = self.plan.signature(inputs) if self.plan.flags else tuple(shapes)
        return self._executables.get(key)

    def run(self, arrays: list[np.ndarray], executable: Executable | None = None) -> list[Held]:
        """The call after its values were checked; `executable` is that for them, if known."""
        if self._stores and read_only.is_active():
            read_only.refuse_change(
                f"store to variable {self._stores[0].target.name.split(':')[0]!r}"
            )
        with self._lock:
            cancel.clear()
            if self._stores or self._before is not None:
                executable, results = self._storing(arrays, executable)
            else:
                executable = executable or self.bound(arrays)
                results = executable.run(arrays)
            if executable.record is not None:
                self.records = executable.record
            finished = self._finish(arrays, results)
            if executable.is_simple and not self._stores and self._before is None:
                self._keep_steady(executable, arrays, finished)
            return finished

    def _keep_steady(
        self, executable: Executable, arrays: list[np.ndarray], results: list[Held]
    ) -> None:
        """Note how the next call goes, if it is as this one."""
        if self._dtypes is None or self.plan.flags or not _are_dense(arrays, results):
            return
        if self._steady is not None and self._steady.executable is executable:
            return
        if self._latest is executable:
            self._steady = SteadyCall(
                self.name, self.inputs, self.outputs, executable, arrays, results, self._lock
            )
        self._latest = executable

    def _storing(
        self, arrays: list[np.ndarray], executable: Executable | None
    ) -> tuple[Executable, list[Held]]:
        """Run, and store what the call and those that it waits for store: all of it or nothing."""
        undo: list[tuple[Variable, Held]] = []
        if self._stores and profile.update_started.listeners:
            profile.update_started.emit((self, arrays))
        try:
            if self._before is not None:
                undo = [(store.target, store.target._array) for store in _early_stores(self)]
                self._before.run(arrays)
            executable = executable or self.bound(arrays)
            results = executable.run(arrays)
            if self._stores:
                executable.store(results)
        except BaseException:
            store_all(undo)
            raise
        return executable, results

    def bound(self, arrays: Sequence[np.ndarray]) -> Executable:
        """The executable for the shapes of `arrays`, from the cache where it is."""
        key = self.plan.signature(arrays)
        executable = self._executables.get(key)
        if executable is None:
            executable = self._executables[key] = self.plan.bind(arrays)
            if len(self._executables) > MAX_EXECUTABLES:
                self._executables.popitem(last=False)
        return executable

    def _finish(self, arrays: list[np.ndarray], results: list[Held]) -> list[Held]:
        outputs = self.outputs
        if len(results) > len(outputs):
            results = results[: len(outputs)]
        if read_only.is_active():
            return results
        calls = profile.calls
        calls.count += 1
        calls.name = self.name
        for place, node in enumerate(self.inputs):
            node.last = last_seen((arrays[place].shape, None))
        if profile.inputs_fed.listeners and arrays:
            profile.inputs_fed.emit(list(zip(self.inputs, arrays, strict=True)))
        for place, node in enumerate(outputs):
            value = results[place]
            few = (
                type(value) is np.ndarray or not is_csr(value)
            ) and value.size <= MAX_KEPT_ELEMENTS
            node.last = last_seen((value.shape, value if few else None))
        if profile.call_ended.listeners:
            profile.call_ended.emit((self, arrays, results))
        if not self._stores:
            return results
        return [
            value.copy() if node in self._stores else value
            for node, value in zip(outputs, results, strict=True)
        ]


def _are_dense(*some: list[np.ndarray] | list[Held]) -> bool:
    return all(type(value) is np.ndarray for values in some for value in values)


_functions: weakref.WeakSet[Function] = weakref.WeakSet()

# ------------------------------------------------------------------ copies

_planning = fork_safety.lock()
_PLANNED = frozenset(
    "_dtypes _stores _before plan records _executables _steady _latest _parts _lock".split()
)
"""What `Function._plan` finds."""


def _restored(version: object, *rest: Any) -> Function:
    """What `Function.__reduce__` has told of; ArgumentError when the bytes are not as expected."""
    return pickling.unharmed("a function", version, pickling.FORMAT, lambda: _made(*rest))


def _made(
    _stations: tuple[Tensor, ...],
    kind: type[Function],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    updates: Sequence[Update],
    name: str,
) -> Function:
    are_tensors = all(isinstance(node, Tensor) for node in (*inputs, *outputs))
    are_updates = all(isinstance(update, Update) for update in updates)
    if not (issubclass(kind, Function) and are_tensors and are_updates):
        pickling.refuse("a function", "it is not made of tensors")
    made = object.__new__(kind)
    lists = {"inputs": list(inputs), "outputs": list(outputs), "updates": list(updates)}
    made.__dict__.update(lists, name=str(name))
    return made


# ------------------------------------------------------------------ after a fork


def _after_fork() -> None:
    """Forget plans that another thread of the parent may have been running, or about to change."""
    for known in list(_functions):
        if fork_safety.was_lost(known._lock):
            known._executables, known._steady, known._latest = OrderedDict(), None, None


fork_safety.in_child(_after_fork)

# ------------------------------------------------------------------ graphs behind a function


def _check_inputs(inputs: Sequence[Tensor]) -> None:
    """The graph was built on the values that it knows, so that they cannot be replaced."""
    for node in inputs:
        if isinstance(node, Constant) or any(entry is not None for entry in node.spec.value or ()):
            raise ArgumentError(
                f"{node.kind} {node.name.split(':')[0]!r} {node.spec}{made(node)}, has a known "
                "value and cannot be fed; use a placeholder"
            )


def _check_generation(nodes: Iterable[Tensor]) -> None:
    current = scope.generation()
    for node in nodes:
        if node.generation != current and not isinstance(node, (Variable, Constant)):
            raise ArgumentError(
                f"{node.kind} {node.name.split(':')[0]!r} {node.spec}{made(node)}, was built "
                "before K.clear_session(); build it again",
            )


def _controlled(
    nodes: Iterable[Tensor], roots: Sequence[Tensor], inputs: Sequence[Tensor], name: str
) -> Function | None:
    """A function that stores, before the call, the updates that nodes of the graph wait for."""
    waiting = {id(control): control for node in nodes for control in node.controls}
    updates = [node for node in waiting.values() if isinstance(node, Update)]
    others = [node for node in waiting.values() if not isinstance(node, Update)]
    own = {id(root) for root in roots}
    updates = [store for store in updates if own.isdisjoint((id(store), id(store.inputs[1])))]
    if not updates and not others:
        return None
    return Function(inputs, others, updates, f"{name}/controls")


def _early_stores(of: Function) -> list[Update]:
    """The updates that are stored before a call, by everything it waits for."""
    earlier = of._before
    return [] if earlier is None else [*_early_stores(earlier), *earlier._stores]


# ------------------------------------------------------------------ the public functions


def _output(given: object, place: int) -> Tensor:
    """What is to be computed, as a tensor; the usual slips are told apart."""
    try:
        return as_tensor(given)  # type: ignore[arg-type]  # says what is no tensor
    except DtypeError:
        reason = f"outputs[{place}] is {type(given).__name__}, not a tensor"
        if given is None:
            reason = f"outputs[{place}] is None, not a tensor; K.gradients gives None for what the "
            raise ArgumentError(f"{reason}loss does not depend on") from None
        hint = f"outputs[{place}].output" if hasattr(type(given), "output") else None
        raise ArgumentError(reason, suggestion=hint) from None


def function(
    inputs: Sequence[Tensor],
    outputs: Sequence[Operand | None],
    updates: Sequence[object] | None = None,
    **kwargs: Any,
) -> Function:
    """A callable that computes `outputs` from values of `inputs`.

    Arguments:
        inputs: list of placeholders, or of any tensors, which are then given instead of computed.
        outputs: list of tensors; may be empty.
        updates: update ops or pairs (variable, new value). Every new value is computed from the
            state before the call; then all are stored, or none when anything fails.
        name: the keyword `name` is kept as the function's name.
    Returns:
        Function: call it with one list of values, get a list of NumPy arrays. Inputs that nothing
            needs may be given None, and those at the end be left out.
    Raises:
        ArgumentError: not tensors, or an unknown keyword. FeedError: at the call, a value that is
        missing and needed, or does not fit.
    Source: Keras 2.3 `backend.function`.

    >>> x = K.placeholder((None,))
    >>> K.function([x], [x * 2])([[1.0, 2.0]])
    [array([2., 4.], dtype=float32)]
    """
    name = kwargs.pop("name", None) or "function"
    if kwargs:
        raise ArgumentError(f"unknown argument {next(iter(kwargs))!r}")
    updates = [] if updates is None else updates
    for label, value in (("inputs", inputs), ("outputs", outputs), ("updates", updates)):
        if not isinstance(value, (list, tuple)):
            raise TypeError(
                f"function: {label} must be a list or tuple, got {describe_operand(value)}; "
                "call it as K.function([x], [y])"
            )
    for node in inputs:
        if not isinstance(node, Tensor):
            raise ArgumentError(f"inputs must be tensors, got {shown(node)}")
    if len({id(node) for node in inputs}) != len(inputs):
        raise ArgumentError("inputs name the same tensor twice, which would be fed two values")
    results = [_output(output, place) for place, output in enumerate(outputs)]
    return Function(inputs, results, [as_update(store) for store in updates], name)


def _evaluate(node: Tensor, feed_dict: FeedDict | None = None) -> np.ndarray:
    feeds = {} if feed_dict is None else feeds_of(feed_dict, "eval")
    if isinstance(node, Variable) and not feeds:
        return as_dense(node.held()) if node.is_sparse else node.get_value()
    if not feeds and node._functions is None:
        found = direct_value(node)
        if found is not None:
            return found
    _check_generation([node])
    keys = tuple(feeds)
    compiled: dict[tuple[int, ...], Function] = node.__dict__.setdefault("_functions", {})
    signature = tuple(id(key) for key in keys)
    evaluator = compiled.get(signature)
    if evaluator is None:
        evaluator = compiled[signature] = Function(keys, [node], name="eval")
    value = evaluator(list(feeds.values()))[0]
    return as_dense(value) if is_csr(value) else value


def feeds_of(feed_dict: object, function: str) -> FeedDict:
    """What a caller feeds by hand, checked."""
    if feed_dict is None:
        return {}
    if not isinstance(feed_dict, Mapping):
        raise FeedError(
            f"feed_dict must map tensors to values, got {shown(feed_dict)}", function=function
        )
    for key in feed_dict:
        if not isinstance(key, Tensor):
            reason = f"keys of feed_dict must be tensors, got {shown(key)}"
            raise FeedError(reason, function=function)
    return feed_dict


tensor.set_reducer(pickling.reduced)
tensor.set_evaluator(_evaluate)


@shared
def sparse_value(node: Tensor) -> Csr:
    """The value of a sparse tensor as it is, a SciPy matrix in CSR form."""
    return Function((), [node], name="get_value")([])[0]


def eval(x: Operand) -> np.ndarray:
    """The value of a tensor.

    Arguments:
        x: tensor, or what becomes one.
    Returns:
        NumPy array; of a sparse tensor with its zeros.
    Raises:
        FeedError: the value depends on a placeholder, which needs a value.
    Source: Keras 2.3 `backend.eval`.

    >>> K.eval(K.variable(2.0) * 3)
    array(6., dtype=float32)
    """
    return _evaluate(x) if isinstance(x, Tensor) else as_tensor(x).eval()
