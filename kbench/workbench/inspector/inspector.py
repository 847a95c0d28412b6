"""The inspector: answers what a front end asks about the namespace, in the process that holds it.

It runs on a thread beside the user's code, so it reads snapshots, calls no method of a user's
object, and evaluates only what its user asks for, between cells (`workbench/kernel/sandbox.py`).
Changes are marked by the engine's signals and by the end of each cell, and pushed in one message at
most ten times a second; nothing is polled.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping

from kbench.engine.core import cancel
from kbench.engine.core.errors import KbenchError
from kbench.engine.inspect import describe
from kbench.engine.runtime import config
from kbench.workbench.analysis import compare
from kbench.workbench.contents import open_verbs
from kbench.workbench.core_types import JsonObject, Publish
from kbench.workbench.errors import explanation
from kbench.workbench.inspector import (
    array_verbs,
    gradient_verbs,
    graph_verbs,
    job_verbs,
    namespace,
    plan_verbs,
    recorder,
    signature,
)
from kbench.workbench.kernel.live_sampling import LiveSampling
from kbench.workbench.kernel.sandbox import Sandbox
from kbench.workbench.nan import nan_verbs
from kbench.workbench.progress import pace
from kbench.workbench.protocol import messages, verbs
from kbench.workbench.protocol.findings import WatchRow
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.names import Parts, PartsReply, Summary, SummaryReply
from kbench.workbench.protocol.question import Served
from kbench.workbench.protocol.session import (
    Cancel,
    CancelReply,
    Changes,
    ChangesReply,
    Config,
    ConfigReply,
    Hello,
    HelloReply,
    Help,
    HelpReply,
    Meanings,
    MeaningsReply,
    Push,
    PushReply,
)
from kbench.workbench.session.async_safe_event import AsyncSafeEvent
from kbench.workbench.snapshots import past_verbs
from kbench.workbench.watches import watch_verbs
from kbench.workbench.watches.watched_set import WatchedSet

PUSH_SECONDS = 0.1
"""Between two messages of changes: ten a second are all that a reader sees."""
SCAN_SLICE_SECONDS = 0.02
"""In which values are compared before the program has the process again."""
SCAN_SECONDS = 1.0
"""Likewise, where somebody waits for the answer."""
_log = logging.getLogger("kbench")


class Inspector:
    """Serves one namespace. `handle` is thread-safe and never raises."""

    def __init__(
        self,
        names: dict[str, object],
        publish: Publish | None = None,
        hidden: Mapping[str, object] | None = None,
        watched: WatchedSet | None = None,
    ) -> None:
        self._view = namespace.View(names, hidden)
        self._sandbox = Sandbox()
        self._recorder = recorder.Recorder()
        self.sampling = LiveSampling()
        self._watch_verbs = watch_verbs.WatchVerbs(
            self._view, publish, self._sandbox, self._recorder, self.sampling, watched
        )
        self._gradient_verbs = gradient_verbs.GradientVerbs(
            self._view, self._recorder, publish, self.sampling
        )
        self._nan_verbs = nan_verbs.NanVerbs(self._view, self._recorder, publish)
        self._compare_verbs = compare.CompareVerbs(self._recorder)
        self.past = past_verbs.PastVerbs(self._view)
        """The values of names after earlier cells."""
        self._job_verbs = job_verbs.JobVerbs(self._recorder, publish)
        runs = plan_verbs.PlanVerbs(self._view, self._recorder, self._sandbox, self._job_verbs)
        graphs = graph_verbs.GraphVerbs(
            self._view, self._recorder, self._sandbox, self.sampling, publish
        )
        served = [
            *self._served(),
            *array_verbs.ArrayVerbs(self._view).served(),
            *open_verbs.OpenVerbs(self._view).served(),
            *self.past.served(),
            *self._watch_verbs.served(),
            *self._gradient_verbs.served(),
            *self._nan_verbs.served(),
            *self._compare_verbs.served(),
            *graphs.served(),
            *runs.served(),
            *self._job_verbs.served(),
        ]
        self.answers = dict(served)
        """By the class of a question what answers it."""
        self._pace = pace.Pace(publish, self._view.snapshot)
        self._publish = publish
        self._busy = False
        self._queued_config: JsonObject = {}
        self._refused: dict[str, str] = {}
        self._settings_new = False
        self._pushing = False
        self._wake = AsyncSafeEvent()
        self._closed = False
        self._pusher: threading.Thread | None = None
        self._unsubscribe = [config.changed.subscribe(self._on_config), *self._on_variables()]

    def _on_variables(self) -> list[Callable[[], None]]:
        from kbench.engine.graph import variables

        return [variables.changed.subscribe(self._on_variable)]

    @property
    def view(self) -> namespace.View:
        """The names that are served."""
        return self._view

    @property
    def busy(self) -> bool:
        """Whether a cell runs."""
        return self._busy

    def sample_watches(self, expressions: list[str]) -> list[WatchRow]:
        """Rows of the watches that are quick, evaluated on this thread: the running cell's."""
        return self._watch_verbs.watches.sample(expressions)

    def look_at_watches(self, expressions: list[str]) -> list[WatchRow]:
        """Rows of the watches that are cheap, evaluated beside the running cell."""
        return self._watch_verbs.watches.look(expressions)

    def sample_gradients(self, loss: str, force: bool = False) -> JsonObject | None:
        """What a push tells of gradients, computed on this thread; None where they are slow.

        With `force` they may be.
        """
        return self._gradient_verbs.sample(loss, force)

    @property
    def sandbox(self) -> Sandbox:
        """What runs something beside the program, between cells."""
        return self._sandbox

    @property
    def recorder(self) -> recorder.Recorder:
        """What keeps the last runs and the values that were fed."""
        return self._recorder

    # ------------------------------------------------------------------ what the host calls

    def cell_started(self) -> None:
        """A cell begins: settings changed from outside wait until it ends."""
        self._busy = True
        if self._pushing:
            self._pace.cell_started()
        self._job_verbs.cell_started()
        for sandbox in self._sandboxes():
            sandbox.block()
        self.sampling.cell_started()

    def cell_ended(self, number: int | None = None) -> None:
        """A cell has ended: apply what waited, look which names were rebound, keep their values.

        `number` is the cell's, 0 for one that is not counted; by default the next one.
        """
        self._busy = False
        self.sampling.cell_ended()
        self._pace.cell_ended()
        for sandbox in self._sandboxes():
            sandbox.unblock()
        self._watch_verbs.watches.cell_ended()
        self._view.code_runs += 1
        queued, self._queued_config = self._queued_config, {}
        for name, value in queued.items():
            try:
                config.assign(name, value)
            except KbenchError as error:
                self._refused[name] = error.reason
        self._view.refresh()  # also lets go of what the user has deleted
        self.past.cell_ended(number)
        if self._pushing:  # what a list holds now is looked at there, beside the program
            self._wake.set()

    def close(self) -> None:
        """Stop listening and pushing."""
        self._closed = True
        self.sampling.close()
        self._pace.close()
        for stop in self._unsubscribe:
            stop()
        self._recorder.stop()
        self._watch_verbs.close()
        self._gradient_verbs.close()
        self._nan_verbs.close()
        self._compare_verbs.close()
        self._job_verbs.close()
        for sandbox in self._sandboxes():  # what still stops must not undo draws of what follows
            sandbox.close()
        self._wake.set()

    def _sandboxes(self) -> tuple[Sandbox, ...]:
        return self._sandbox, self._gradient_verbs.sandbox, self._nan_verbs.sandbox

    def handle(self, raw: object) -> JsonObject:
        """The reply to a request, whatever the request is."""
        try:
            request = verbs.parse(raw)
            asked = request.question
            return messages.reply(request.ident, asked.verb, self.answers[type(asked)](asked))
        except ProtocolError as error:
            return messages.refusal(raw, error)
        except KbenchError as error:
            return messages.refusal(raw, ProtocolError("value", error.reason))
        except Exception as error:  # a reply must come, or the front end waits for ever
            reason = f"{type(error).__name__}: {explanation.safe_text(error)}"
            return messages.refusal(raw, ProtocolError("internal", reason))

    def _served(self) -> list[Served]:
        """The questions that are answered in this file."""
        return [
            Hello.served_by(self._hello),
            Push.served_by(self._push),
            Changes.served_by(self._changes),
            Summary.served_by(self._summary),
            Parts.served_by(self._parts),
            Config.served_by(self._config),
            Help.served_by(self._help),
            Meanings.served_by(self._meanings),
            Cancel.served_by(self._cancel),
        ]

    # ------------------------------------------------------------------ verbs

    def _hello(self, asked: Hello) -> HelloReply:
        from kbench.version import __version__

        self.past.start()
        self._push(Push(on=asked.push))
        if asked.record:
            self._recorder.start()
        return HelloReply(
            version=messages.VERSION,
            kbench=__version__,
            python=platform.python_version(),
            pid=os.getpid(),
            verbs=sorted(verbs.VERBS),
            config=config.snapshot(),
            epoch=self._view.epoch,
        )

    def _push(self, asked: Push) -> PushReply:
        self._pushing = asked.on and self._publish is not None
        if self._pushing:
            self._view.refresh()
            if self._pusher is None:
                self._pusher = threading.Thread(
                    target=self._push_loop, name="kbench-inspector-push", daemon=True
                )
                self._pusher.start()
        return PushReply(on=self._pushing)

    def _changes(self, asked: Changes) -> ChangesReply:
        self._view.refresh()
        self._view.scan(SCAN_SECONDS)
        changed, names = self._view.changed_since(asked.since), self._view.names()
        many = messages.size({"names": [changed, names]}) > messages.MAX_PAGE_BYTES
        return ChangesReply(
            epoch=self._view.epoch,
            names=[] if many else changed,
            all=[] if many else names,
            many=len(changed) if many else 0,
            config=config.snapshot(),
        )

    def _summary(self, asked: Summary) -> SummaryReply:
        rows, following = self._view.rows(
            asked.names, asked.statistics, asked.pattern, asked.start, self._busy
        )
        total, epoch = len(self._view.names()), self._view.epoch
        return SummaryReply(rows=rows, total=total, epoch=epoch, next=following)

    def _parts(self, asked: Parts) -> PartsReply:
        wanted = [name for name in asked.names if type(name) is str]
        rows, following = self._view.parts(wanted, asked.statistics, asked.start)
        return PartsReply(rows=rows, next=following)

    def _config(self, asked: Config) -> ConfigReply:
        wanted = asked.set or {}
        known = config.snapshot()
        for name in wanted:
            if name not in known:
                raise ProtocolError("config", f"unknown setting {describe.printable(name)!r}")
        if self._busy and wanted:
            self._queued_config.update(wanted)
            return ConfigReply(config=config.snapshot(), queued=list(wanted))
        for name, value in wanted.items():
            config.assign(name, value)
        return ConfigReply(config=config.snapshot(), epoch=config.epoch())

    def _help(self, asked: Help) -> HelpReply:
        return signature.help_at(asked.code, asked.position, self._view.snapshot())

    def _meanings(self, asked: Meanings) -> MeaningsReply:
        return signature.meanings(asked.names, self._view.snapshot())

    def _cancel(self, asked: Cancel) -> CancelReply:
        if self._busy:  # else it would stop what is evaluated next
            cancel.request()
        return CancelReply(busy=self._busy)

    # ------------------------------------------------------------------ pushing

    def _on_config(self, _name: object) -> None:
        self._settings_new = True
        self._wake.set()

    def _on_variable(self, _variable: object) -> None:
        self._watch_verbs.watches.stored()
        if self._pushing:
            self._wake.set()

    def _push_loop(self) -> None:
        while not self._closed:
            self._wake.wait()
            if self._pushing and not self._closed:
                try:
                    self._push_now()
                except Exception:  # the next change must be pushed all the same
                    _log.exception("a change could not be reported")
            time.sleep(PUSH_SECONDS)

    def _push_now(self) -> None:
        since = self._view.pushed_epoch
        self._view.refresh()
        if not self._view.scan(SCAN_SLICE_SECONDS):
            self._wake.set()
        refused, self._refused = self._refused, {}
        new, self._settings_new = self._settings_new, False
        epoch = self._view.epoch
        names = self._view.changed_since(since)
        self._view.pushed_epoch = epoch
        if self._publish is None or not (names or refused or new):
            return
        many = messages.size({"names": names}) > messages.MAX_PAGE_BYTES
        data = {"names": [] if many else names, "many": many, "config": config.snapshot()}
        self._publish(messages.push("changed", {**data, "epoch": epoch, "refused": refused}))
