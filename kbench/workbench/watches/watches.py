"""Watched expressions: evaluated beside the program when something has changed, old value kept.

Whoever shows them asks with `ask` after each change; what is known comes back at once, and what is
evaluated is pushed later. While a cell runs nothing is evaluated unless somebody follows it
(`workbench/kernel/live_sampling.py`): between two calls of the program what is quick, beside it
what is cheap. One that takes longer than its time is tried less and less often, and at once when it
is asked for by name.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from kbench.engine.core import fork_safety
from kbench.engine.core.errors import FeedError, KbenchError
from kbench.engine.inspect import describe
from kbench.engine.runtime import config
from kbench.workbench.errors import explanation
from kbench.workbench.inspector import summary
from kbench.workbench.kernel.sandbox import ALONE, Outcome, Sandbox, others_draw
from kbench.workbench.protocol.findings import WatchRow
from kbench.workbench.session.async_safe_event import AsyncSafeEvent
from kbench.workbench.watches import expressions
from kbench.workbench.watches.value_text import MAX_TEXT_CHARACTERS, text_and_bins

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor
    from kbench.engine.graph.variables import Placeholder

BUDGET_SECONDS = 0.05
"""That a watch gets by itself."""
FORCED_BUDGET_SECONDS = 30.0
"""That it gets when its user asks for it."""
LIVE_SECONDS = 0.002
"""That a watch may have taken the last time, to be looked at beside a running cell: a scalar, an
element, the mean of a small array."""
LIVE_BUDGET_SECONDS = 0.02
"""After which it is stopped there: the cell's thread has the interpreter most of the time."""
MAX_LIVE_MISSES = 1
"""Evaluations over the budget after which a watch waits for the end of the cell; one may be slow
because it is the first."""
MAX_WATCHES = 50
"""That a front end may ask for."""
PUSH_SECONDS = 0.1
"""Of evaluation after which what is there is pushed."""
_MAX_REMEMBERED = 4 * MAX_WATCHES
"""Watches whose last value is remembered."""
_MAX_SKIPPED_CHANGES = 64
"""That a slow one sits out at most."""
MAX_HISTORY = 24
"""Of the last values of a scalar, each another than the one before: as many as bars have room."""
MAX_DOUBTS = 3
"""Times that what seems to draw random numbers is evaluated again before it is refused."""
_HISTORY_DIGITS = 4
"""Of each: they are drawn as bars."""
Stamp = tuple[int, int, int]


class Found(Struct, frozen=True):
    """What an evaluation gives: a state, words, and the number that a scalar is (NaN, Inf too)."""

    state: str
    text: str
    note: str = ""
    number: float | None = None
    bins: list[int] | None = None  # of the finite elements of an array


_MAX_NUMBER = 1e300
"""Greater ones are drawn as Inf is."""
Fed = Callable[[Sequence["Tensor"]], dict["Tensor", np.ndarray]]


class Watch(Struct):
    """One expression, and what is known of it.

    `state`: new, value, spec (a symbol that needs feeds), error, refused or slow.
    """

    expression: str
    state: str = "new"
    text: str = ""
    before: str = ""  # the value that it had until it changed last
    note: str = ""
    seconds: float = 0.0
    count: int = 0  # of what was found so far, to tell old news from new
    stamp: Stamp | None = None  # of what it was evaluated on
    seen: Stamp | None = None  # of what it was considered on: a slow one sits changes out
    changed: bool = False  # by the last evaluation
    misses: int = 0
    skip: int = 0  # changes yet to sit out
    banned: bool = False  # it drew random numbers, as only its evaluation could show
    history: deque[float | None] = field(default_factory=lambda: deque(maxlen=MAX_HISTORY))
    bins: list[int] | None = None
    live: bool = False  # its value is one of the running cell
    at_start: str | None = None  # the text before the cell in which it was looked at

    def row(self, now: Stamp) -> WatchRow:
        """What a front end gets."""
        return WatchRow(
            expression=self.expression,
            state=self.state,
            text=self.text,
            before=self.before,
            note=self.note,
            seconds=self.seconds,
            changed=self.changed,
            count=self.count,
            current=self.stamp == now,
            history=list(self.history) if len(self.history) > 1 else None,
            live=self.live,
            histogram=self.bins,
        )

    def take(self, found: Found) -> None:
        """What an evaluation has found; the value before is the one from before the cell."""
        comparable = self.state == found.state and found.state in ("value", "spec")
        old = self.text if self.at_start is None else self.at_start
        self.changed = comparable and found.text != old
        if self.changed:
            self.before = old
        self.state, self.text, self.note = found.state, found.text, found.note
        self.bins, number = found.bins, found.number
        if number is None:
            self.history.clear()
            return
        new = float(f"{number:.{_HISTORY_DIGITS}g}") if math.isfinite(number) else None
        if not self.history or self.history[-1] != new:
            self.history.append(new)

    def begin_live(self) -> None:
        """What is taken next is found while a cell runs."""
        if self.at_start is None and self.state == "value":
            self.at_start = self.text
        self.live = True


class Watches:
    """The watches on one namespace. `tell` gets rows, from a thread of this class.

    `fed` gives for placeholders the values that the program has fed to them last.
    """

    def __init__(
        self,
        names: Callable[[], Mapping[str, object]],
        tell: Callable[[list[WatchRow]], None] | None = None,
        sandbox: Sandbox | None = None,
        fed: Fed = lambda _: {},
    ) -> None:
        self._names = names
        self._fed = fed
        self._tell = tell
        self.sandbox = sandbox or Sandbox()
        self._lock = fork_safety.lock()
        self._known: OrderedDict[str, Watch] = OrderedDict()
        self._wanted: list[str] = []
        self._forced: list[str] = []
        self._turn = self._stores = 0
        self._wake = AsyncSafeEvent()
        self._thread: threading.Thread | None = None
        self._closed = False
        # For looks beside a cell: the numbers drawn meanwhile are the cell's.
        self._beside = Sandbox(restores_random=False)

    # ------------------------------------------------------------------ what the host calls

    def stored(self) -> None:
        """A variable was stored to."""
        self._stores += 1

    def cell_ended(self) -> None:
        """A cell has ended: any name may be another."""
        self._turn += 1
        self._beside.halt()
        with self._lock:
            for watch in self._known.values():
                watch.live = False

    def close(self) -> None:
        """Evaluate no more."""
        self._closed = True
        self._beside.halt()
        self._wake.set()
        self.sandbox.halt()

    @property
    def stamp(self) -> Stamp:
        """Another one after each change of a variable, a setting or the namespace."""
        return self._turn, self._stores, config.epoch()

    # ------------------------------------------------------------------ asking

    def ask(self, wanted: list[str], force: list[str] | None = None) -> list[WatchRow]:
        """What is known of these; those that are old are evaluated soon, and pushed then."""
        with self._lock:
            self._wanted = list(dict.fromkeys(wanted))[:MAX_WATCHES]
            self._forced += [expression for expression in force or () if expression in self._wanted]
            watches = [self._watch(expression) for expression in self._wanted]
            rows = [watch.row(self.stamp) for watch in watches]
        if self._tell is not None and watches:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._loop, name="kbench-watches", daemon=True
                )
                self._thread.start()
            self._wake.set()
        return rows

    def evaluate_now(self, wanted: list[str], force: list[str] | None = None) -> list[WatchRow]:
        """As `ask`, but waits until all are evaluated: for prompts, which show them as lines."""
        with self._lock:
            watches = [
                self._watch(expression) for expression in list(dict.fromkeys(wanted))[:MAX_WATCHES]
            ]
        for watch in watches:
            self._update(watch, watch.expression in (force or ()))
        return [watch.row(self.stamp) for watch in watches]

    def _watch(self, expression: str) -> Watch:
        found = self._known.setdefault(expression, Watch(expression))
        self._known.move_to_end(expression)
        while len(self._known) > _MAX_REMEMBERED:
            self._known.popitem(last=False)
        return found

    # ------------------------------------------------------------------ while a cell runs

    def sample(self, wanted: list[str]) -> list[WatchRow]:
        """Evaluate those that are quick, on the thread of the running cell; their rows.

        What has been slow before waits for the end of the cell.
        """
        with self._lock:
            watches = [self._watch(expression) for expression in wanted[:MAX_WATCHES]]
        quick = [watch for watch in watches if watch.misses <= MAX_LIVE_MISSES]
        for watch in quick:
            self._update(watch, False, in_cell=True)
        return [watch.row(self.stamp) for watch in quick]

    def look(self, wanted: list[str]) -> list[WatchRow]:
        """Evaluate those that are cheap, on a thread beside the running cell; their rows."""
        if not self.sandbox.blocked or self._closed:
            return []
        with self._lock:
            watches = [self._watch(expression) for expression in wanted[:MAX_WATCHES]]
        found = [watch for watch in watches if self.sandbox.blocked and self._look_at(watch)]
        with self._lock:
            return [watch.row(self.stamp) for watch in found if watch.live]

    def _look_at(self, watch: Watch) -> bool:
        """Evaluate one if that is cheap, as its last evaluation says; whether there is a value."""
        known = watch.state in ("value", "error") and not (watch.banned or watch.misses)
        if not known or watch.seconds > LIVE_SECONDS:
            return False
        names, stamp = dict(self._names()), self.stamp
        try:
            code = expressions.compiled(watch.expression, names)
        except expressions.Refused:
            return False
        if not expressions.is_cheap(watch.expression, names):
            return False
        outcome = self._beside.run(lambda: _worded(code, names, self._fed), LIVE_BUDGET_SECONDS)
        with self._lock:
            if outcome.stopped or outcome.value is None:  # it may be half done: no news
                watch.seconds = max(watch.seconds, outcome.seconds)
                return False
            if not self.sandbox.blocked:
                return False
            found = outcome.value
            watch.begin_live()
            watch.take(found)
            watch.stamp = stamp
            watch.count += 1
        return True

    # ------------------------------------------------------------------ evaluating

    def _loop(self) -> None:
        while True:
            self._wake.wait()
            if self._closed:
                return
            self._round()

    def _round(self) -> None:
        """Evaluate what is due, the slow ones last, and tell what was found now and then."""
        with self._lock:
            forced, self._forced = set(self._forced), []
            watches = [self._watch(expression) for expression in self._wanted]
        watches.sort(key=lambda watch: (watch.expression in forced, watch.misses))
        pushed = time.monotonic()
        found: list[Watch] = []
        for watch in watches:
            if self._closed or self.sandbox.blocked:
                break
            if self._update(watch, watch.expression in forced):
                found.append(watch)
            if found and (watch.misses or time.monotonic() - pushed >= PUSH_SECONDS):
                self._say(found)
                found, pushed = [], time.monotonic()
        self._say(found)

    def _say(self, found: list[Watch]) -> None:
        if found and self._tell is not None and not self._closed:
            self._tell([watch.row(self.stamp) for watch in found])

    def _update(self, watch: Watch, forced: bool, in_cell: bool = False) -> bool:
        """Evaluate one if it is due; whether its row is another than before."""
        stamp = self.stamp
        if watch.banned or (not forced and watch.seen == stamp):
            return False
        if not forced and watch.skip:
            watch.skip -= 1
            watch.seen, watch.changed = stamp, False
            watch.count += 1
            return True
        names = dict(self._names())
        try:
            code = expressions.compiled(watch.expression, names)
        except expressions.Refused as error:
            with self._lock:
                watch.take(Found("refused", str(error)))
                watch.stamp = watch.seen = stamp
                watch.count += 1
            return True
        budget = FORCED_BUDGET_SECONDS if forced else BUDGET_SECONDS
        run = self.sandbox.run_in_cell if in_cell else self.sandbox.run
        work = partial(_worded, code, names, self._fed)
        outcome, others = run(work, budget), False
        for _ in range(1 if outcome.stopped else MAX_DOUBTS):
            if not outcome.used_random:
                break
            with ALONE:  # another thread may have drawn: who draws, draws again
                others = others_draw()
                outcome = run(work, budget)
        if outcome.stopped == "cell" or (in_cell and outcome.stopped == "stuck"):
            return False
        with self._lock:  # whoever asks meanwhile gets the old value with its old count
            watch.seen = stamp
            if not outcome.stopped:
                watch.stamp = stamp
            if in_cell and not outcome.stopped:
                watch.begin_live()
            self._take(watch, outcome, budget, others)
            if not in_cell:
                watch.at_start = None
            watch.count += 1
        return True

    def _take(self, watch: Watch, outcome: Outcome[Found], budget: float, others: bool) -> None:
        watch.seconds = outcome.seconds
        if outcome.used_random:
            reason = "it drew random numbers, which your program would then miss"
            if others:
                reason = "another thread draws random numbers, and this may draw some as well"
            watch.take(Found("refused", reason))
            watch.banned = not others
        elif outcome.stopped:
            watch.misses += 1
            watch.skip = min(2**watch.misses - 1, _MAX_SKIPPED_CHANGES)
            words = f"slow, over {describe_seconds(budget)}"
            if outcome.stopped == "stuck":
                words = "waiting: two others are within calls that do not stop"
            watch.state, watch.note, watch.changed = "slow", words, False
        elif outcome.error is not None:
            watch.misses = 0
            watch.take(Found("error", _error_words(outcome.error)))
        else:
            slow = outcome.seconds > BUDGET_SECONDS
            watch.misses = watch.misses + 1 if slow else 0
            watch.skip = _MAX_SKIPPED_CHANGES if slow else 0
            assert outcome.value is not None
            found = outcome.value
            took = f"took {describe_seconds(outcome.seconds)}" if slow else ""
            watch.take(replace(found, note=found.note or took))


def describe_seconds(seconds: float) -> str:
    """`50 ms`, `1.2 s`."""
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"


def _error_words(error: BaseException) -> str:
    if isinstance(error, KbenchError):
        words = f"{type(error).__name__}: {error.reason}"
    else:
        words = f"{summary.type_name(error)}: {explanation.safe_text(error)}"
    return describe.printable(words.replace("\n", " "), MAX_TEXT_CHARACTERS)


# ------------------------------------------------------------------ values as words


def _worded(code: CodeType, names: dict[str, object], fed: Fed) -> Found:
    """State, text and note of a value; a symbol's is computed, on what was fed last."""
    from kbench.engine.graph.variables import Placeholder

    value = eval(code, dict(names))
    if not describe.is_tensor(value):
        return _value(value)
    if isinstance(value, Placeholder) and value.default is None:
        known = fed([value])
        if value in known:
            return _value(known[value], "as fed last")
        return Found("spec", str(value.spec), "a placeholder, which is fed")
    try:
        found = value.get_value() if describe.is_variable(value) else value.eval()
    except FeedError as error:
        open_ = _open(value)
        known = fed(open_)
        if open_ and all(node in known for node in open_):
            return _value(value.eval(feed_dict=known), "as fed last")
        needs = _needs(open_, names)
        reason = describe.printable(error.reason, MAX_TEXT_CHARACTERS)
        return Found("spec", str(value.spec), needs or reason)
    return _value(found)


def _value(value: object, note: str = "") -> Found:
    text, bins = text_and_bins(value)
    return Found("value", text, note, number_of(value), bins)


def number_of(value: object) -> float | None:
    """The number that a scalar, or an array of one element, is; None for anything else."""
    if type(value) in (int, float) and isinstance(value, (int, float)):
        return float(value) if abs(value) < _MAX_NUMBER or value != value else math.inf
    held = describe.held_array(value)
    if held is None or held.size != 1 or held.dtype.kind not in "iuf":
        return None
    return float(np.ma.filled(held.astype(np.float64), np.nan).reshape(-1)[0])


def _open(value: Tensor) -> list[Placeholder]:
    """The placeholders that a symbol waits for."""
    from kbench.engine.graph.traverse import walk
    from kbench.engine.graph.variables import Placeholder

    nodes = walk([value])
    return [node for node in nodes if isinstance(node, Placeholder) and node.default is None]


def _needs(nodes: Sequence[Tensor], names: dict[str, object]) -> str:
    """The placeholders by their names in the program where they have one."""
    called = {id(value): name for name, value in names.items() if describe.is_tensor(value)}
    open_ = [called.get(id(node), node.name.partition(":")[0]) for node in nodes]
    more = f" and {len(open_) - 3} more" if len(open_) > 3 else ""
    words = f"needs {', '.join(open_[:3])}{more}" if open_ else ""
    return describe.printable(words, MAX_TEXT_CHARACTERS)
