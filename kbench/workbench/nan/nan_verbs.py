"""The inspector's verb about NaN and infinities: what made them in a tensor, function or model."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kbench.engine.core import syntax
from kbench.engine.inspect import describe
from kbench.workbench.analysis import engine_functions, gradients
from kbench.workbench.core_types import JsonObject, Publish
from kbench.workbench.inspector import namespace, summary
from kbench.workbench.inspector.recorder import Recorder
from kbench.workbench.kernel.latest_task import LatestTask
from kbench.workbench.kernel.sandbox import Outcome
from kbench.workbench.models import keras_models
from kbench.workbench.nan import nan_trace, nan_words
from kbench.workbench.nan.first_bad_call import RecordedCalls, first_bad_call
from kbench.workbench.nan.nan_values import Array
from kbench.workbench.protocol import messages
from kbench.workbench.protocol.findings import Nan, NanReply
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.question import Served
from kbench.workbench.watches import expressions

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor
    from kbench.engine.graph.variables import Variable
    from kbench.engine.runtime.profile import RunRecord

BUDGET_SECONDS = 2.0
"""Of a trace that nobody has asked for by a key."""
FORCED_BUDGET_SECONDS = 300.0
"""Of one that was asked for by a key."""


class NanVerbs:
    """Serves the names of one view; what was found is pushed as "nan"."""

    def __init__(
        self,
        view: namespace.View,
        recorder: Recorder,
        publish: Publish | None,
    ) -> None:
        self._jobs = LatestTask("kbench-nan")
        self.sandbox = self._jobs.sandbox
        self._view = view
        self._recorder = recorder
        self._publish = publish

    def served(self) -> list[Served]:
        """The questions that are answered here."""
        return [Nan.served_by(self._nan)]

    def _nan(self, asked: Nan) -> NanReply:
        if asked.stop:
            self._jobs.withdraw()
            return NanReply(state="stopped", name=asked.name)
        wanted = asked.name or asked.function or self._target(asked.code, asked.quiet)
        if not wanted:
            return NanReply(state="none", name="")
        if self.sandbox.blocked:
            return NanReply(state="held", name=wanted)
        trace = self._trace_run if asked.function else self._trace
        number = self._jobs.begin(
            lambda: trace(wanted, self._view.snapshot()),
            BUDGET_SECONDS if asked.quiet else FORCED_BUDGET_SECONDS,
            partial(self._tell, wanted, asked.quiet),
        )
        return NanReply(state="tracing", name=wanted, job=number)

    def _target(self, code: str, quiet: bool) -> str:
        """What a cell shows; where that is a plain value, or print, what ran last.

        A cell that calls nothing may show a value that no run has made: nobody who has not asked
        is told of the last run then.
        """
        wanted = target_of(code)
        names = self._view.snapshot()
        known = not wanted.isidentifier() or engine_functions.is_computed(names.get(wanted))
        if wanted and known:
            return wanted
        if "(" not in code and (quiet or not wanted):
            return wanted
        record = self._record(None)
        return engine_functions.find_recorded(self._view.values(), record)[0] or wanted

    def _record(self, function: str | None) -> RunRecord | None:
        """What the last run of a function has recorded, or of any."""
        run = self._recorder.find(function)
        return None if run is None else run.record

    def _tell(self, name: str, quiet: bool, outcome: Outcome[JsonObject], number: int) -> None:
        if self._publish is not None:
            found = {**_outcome_data(outcome), "name": name, "job": number, "quiet": quiet}
            lines = [describe.printable(line, 300) for line in nan_words.lines(found)]
            found |= {"verdict": lines[0], "lines": lines}
            self._publish(messages.push("nan", found))

    def _trace(self, name: str, names: dict[str, object]) -> JsonObject:
        try:
            value = self._view.get(name)
        except ProtocolError:
            value = evaluated(name, names)
        return traced(value, self._recorder, names)

    def _trace_run(self, name: str, names: dict[str, object]) -> JsonObject:
        """Trace what a recorded run was a run of, if the user can still reach it."""
        record = self._record(name)
        _, function = engine_functions.find_recorded(self._view.values(), record)
        if function is not None:
            return traced(function, self._recorder, names)
        shown = describe.printable(name)
        raise ProtocolError(
            "name", f"the function that ran as {shown} has no name now; press t on a variable"
        )

    def close(self) -> None:
        """Look no more."""
        self.sandbox.halt()


def _outcome_data(outcome: Outcome[JsonObject]) -> JsonObject:
    if outcome.stopped == "cell":
        return {"state": "stopped", "error": "a cell began to run; ask again when it has ended"}
    if outcome.stopped:
        return {"state": "slow", "error": f"not found within {outcome.seconds:.0f} s"}
    if isinstance(outcome.error, ProtocolError):
        return {"state": "error", "error": outcome.error.reason}
    if outcome.error is not None:
        return {"state": "error", "error": gradients.error_words(outcome.error)}
    return outcome.value or {}


def evaluated(text: str, names: Mapping[str, object]) -> object:
    """The value of an expression that only reads; ProtocolError says why it is none."""
    try:
        return eval(expressions.compiled(text, names), dict(names))
    except expressions.Refused as error:
        raise ProtocolError("name", f"{describe.printable(text)}: {error}") from None


# ------------------------------------------------------------------ what is meant


def target_of(code: str) -> str:
    """The expression whose value a cell shows last, as far as it can be traced; '' if it cannot.

    >>> target_of("y = K.log(x)\\nK.eval(y)[0]"), target_of("f([data])"), target_of("1 + 1")
    ('y', 'f', '')
    """
    try:
        body = syntax.parse_module(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    last = body[-1] if body else None
    if not isinstance(last, (ast.Expr, ast.Assign)):
        return ""
    node: ast.expr = last.value
    while isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Call):
        return node.id if isinstance(node, ast.Name) else ""
    called = node.func
    if isinstance(called, ast.Name):
        return called.id if len(node.args) <= 1 and not node.keywords else ""
    if not isinstance(called, ast.Attribute):
        return ""
    if called.attr == "eval" and node.args:
        return ast.unparse(node.args[0])
    if called.attr in ("eval", "fit", "train_on_batch", "test_on_batch", "predict", "evaluate"):
        return ast.unparse(called.value)
    return ""


def function_of(value: object, recorder: Recorder) -> tuple[Function, bool]:
    """The engine's function to run again for a value; whether it was made here for that.

    Raises:
        ProtocolError: the value is nothing that was computed by kbench.
    """
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.traverse import walk
    from kbench.engine.graph.variables import Placeholder

    if keras_models.is_model(value):
        made = engine_functions.functions_of(value)
        ran = [function for function in made if _fed(function.inputs, recorder)[0] is not None]
        if not ran:
            raise ProtocolError("feeds", "the model has run no batch since the session began")
        return ran[0], False
    if describe.is_function(value):
        return value, False
    if not describe.is_tensor(value):
        words = "a tensor, a K.function or a Keras model is needed"
        raise ProtocolError("name", f"{words}, this is {summary.type_name(value)}")
    open_ = [node for node in walk([value]) if isinstance(node, Placeholder)]
    known, _ = recorder.feeds(open_, {id(node) for node in open_ if node.default is None})
    fed = [node for node in open_ if node in known]
    return Function(fed, [value], name="trace"), True


def _fed(inputs: Sequence[Tensor], recorder: Recorder) -> tuple[list[Array] | None, bool]:
    """The arrays fed last to these inputs, None where one is missing; whether by one call."""
    found, together = recorder.feeds(inputs, {id(node) for node in inputs})
    if any(node not in found for node in inputs):
        return None, together
    return [found[node] for node in inputs], together


def traced(value: object, recorder: Recorder, names: Mapping[str, object]) -> JsonObject:
    """What made the first NaN or infinity in a tensor, a function's or a model's last call.

    Runs in a thread that only looks.

    Raises:
        ProtocolError: nothing of the kind, or what it needs was never fed. KbenchError: of the run.
    """
    function, own = function_of(value, recorder)
    arrays, together = _fed(function.inputs, recorder)
    if arrays is None:
        what = "its placeholders fed; feed them" if own else "this function called; call it"
        raise ProtocolError("feeds", f"kbench has not seen {what}, then try again")
    found, recorded = _found(function, arrays, recorder)
    inputs = function.inputs
    if recorded is not None:
        function, (inputs, arrays), together = recorded.function, recorded.fed, True
    data = dict(found.data)
    called = {id(value): name for name, value in names.items() if describe.is_tensor(value)}
    if data.get("source") and id(found.origin) in called:
        data["name_of"] = called[id(found.origin)]
    data["fed"] = [
        f"{called.get(id(node), describe.printable(node.name.partition(':')[0]))} "
        f"{describe.spec_text(array.shape, array.dtype.name)}"
        for node, array in zip(inputs, arrays, strict=True)
    ][:6]
    notes = [] if recorded is None else [recorded.words(names)]
    data["notes"] = notes + _notes(function, data, found.random, together, recorded is not None)
    return data


def _found(
    function: Function, arrays: list[Array], recorder: Recorder
) -> tuple[nan_trace.SweepResult, _BadCall | None]:
    """What a run finds: of the first bad call where it is known, else of the last one.

    A call that has stored what it made finds its own variables bad: these were good before.
    """
    first = recorder.first_bad
    call = _explain_bad_call(first.of(function)) if function.updates else None
    if call is not None:
        return call.found, call
    found = nan_trace.sweep(function, arrays)
    if found.data.get("source") == "variable":
        for recorded in first.behind(found.origin):
            call = _explain_bad_call(recorded)
            if call is not None:
                call = _nearer(function, call)
                return call.found, call
    return found, None


def _nearer(function: Function, call: _BadCall) -> _BadCall:
    """What is asked about, on that call's values, where it is bad there and needs no others."""
    fed = dict(zip(call.function.inputs, call.arrays, strict=True))
    if any(node not in fed for node in function.inputs):
        return call
    arrays = [fed[node] for node in function.inputs]
    found = nan_trace.sweep(function, arrays, call.held)
    if found.data["state"] != "found" or found.data.get("source"):
        return call
    return replace(call, found=found, fed=(function.inputs, arrays))


class _BadCall(Struct, frozen=True):
    """What an earlier call was found to have made, and of which function it was a call."""

    function: Function
    arrays: list[Array]
    held: dict[Variable, Array]  # values of variables
    found: nan_trace.SweepResult
    whole: bool
    fed: tuple[list[Tensor], list[Array]]  # to what was run again for this

    def words(self, names: Mapping[str, object]) -> str:
        """Which call that was."""
        name = next((key for key, value in names.items() if value is self.function), "")
        of = describe.printable(name or self.function.name)
        call = f"this is the first call of {of} that gave NaN or Inf"
        if self.whole:
            return f"{call}, with the variables as they were before it"
        return f"{call}, with the variables as they were some calls before"


def _explain_bad_call(recorded: RecordedCalls | None) -> _BadCall | None:
    """The first bad one of the calls that are known, explained; None where none is bad now."""
    if recorded is None:
        return None
    ran = first_bad_call(recorded)
    whole = recorded.whole and ran is not None
    if ran is None:  # other random numbers, or values that are not known
        if not recorded.ended:
            return None
        ran = (recorded.calls[-1][0], recorded.values, len(recorded.calls) - 1)
    arrays, values, _ = ran
    held = dict(zip(recorded.variables, values, strict=True))
    found = nan_trace.sweep(recorded.function, arrays, held)
    if found.data["state"] != "found" or found.data.get("source") == "variable":
        return None
    fed = (recorded.function.inputs, list(arrays))
    return _BadCall(recorded.function, fed[1], held, found, whole, fed)


def _notes(
    function: Function, data: JsonObject, random: str, together: bool, earlier: bool = False
) -> list[str]:
    """What may make this run differ from the one that was seen; `earlier`: on its own variables."""
    notes = []
    if random == "new" or (random and earlier):
        notes.append("the random numbers of that call are gone; this run may differ from it")
    elif random:
        notes.append("random nodes drew again what they drew last")
    if not together and len(function.inputs) > 1:
        notes.append("the values were fed by several calls")
    if function._before is not None:
        notes.append("updates that control dependencies ask for were not run")
    if data.get("source") == "variable" and function.updates:
        if data.get("mended") is None:
            notes.append(
                "with 0 for NaN and Inf in the variables this call gives none: earlier updates "
                "already spoiled them, as with too large a learning rate"
            )
        notes.append(
            "the values from before the failing call are gone: re-initialise the variables, "
            "run once and trace again"
        )
    elif function.updates and data["state"] == "found" and not earlier:
        notes.append("traced with the variables as they are after the call")
    return notes
