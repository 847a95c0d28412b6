"""The inspector: answers what a front end asks about the namespace, in the process that holds it.

It runs on a thread beside the user's code, so it reads snapshots, calls no method of a user's
object, and never evaluates anything. Changes are marked by the engine's signals and by the end of
each cell, and told in one message at most ten times a second; nothing is polled.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from kbench.engine import cancel, config, describe
from kbench.engine.errors import KbenchError
from kbench.workbench import (
    errors,
    keras_graph,
    keras_models,
    namespace,
    protocol,
    recorder,
    signature,
)
from kbench.workbench.protocol import ProtocolError

PUSH_INTERVAL = 0.1
_log = logging.getLogger("kbench")
Data = dict[str, Any]


class Inspector:
    """Serves one namespace. `handle` is thread-safe and never raises."""

    def __init__(
        self,
        names: dict[str, Any],
        publish: Callable[[Data], None] | None = None,
        hidden: Mapping[str, Any] | None = None,
    ) -> None:
        self._view = namespace.View(names, hidden)
        self._publish = publish
        self._recorder = recorder.Recorder()
        self._busy = False
        self._queued_config: dict[str, Any] = {}
        self._refused: dict[str, str] = {}
        self._pushing = False
        self._wake = threading.Event()
        self._closed = False
        self._pusher: threading.Thread | None = None
        self._unsubscribe = [config.changed.subscribe(self._on_config), *self._on_variables()]

    def _on_variables(self) -> list[Callable[[], None]]:
        from kbench.engine import variables

        return [variables.changed.subscribe(self._on_variable)]

    # ------------------------------------------------------------------ what the host calls

    def began(self) -> None:
        """A cell begins: settings changed from outside wait until it ends."""
        self._busy = True

    def ended(self) -> None:
        """A cell has ended: apply what waited, look which names were rebound."""
        self._busy = False
        self._view.turn += 1
        queued, self._queued_config = self._queued_config, {}
        for name, value in queued.items():
            try:
                config.assign(name, value)
            except KbenchError as error:
                self._refused[name] = error.reason
        changed = self._view.refresh()  # also lets go of what the user has deleted
        if self._pushing and (changed or self._refused):
            self._wake.set()

    def close(self) -> None:
        """Stop listening and pushing."""
        self._closed = True
        for stop in self._unsubscribe:
            stop()
        self._recorder.stop()
        self._wake.set()

    def handle(self, raw: object) -> Data:
        """The reply to a request, whatever the request is."""
        try:
            request = protocol.parse(raw)
            serve = getattr(self, f"_serve_{request.verb}")
            return protocol.reply(request, serve(**request.arguments))
        except ProtocolError as error:
            return protocol.refusal(raw, error)
        except KbenchError as error:
            return protocol.refusal(raw, ProtocolError("value", error.reason))
        except Exception as error:  # a reply must come, or the front end waits for ever
            reason = f"{type(error).__name__}: {errors.safe_text(error)}"
            return protocol.refusal(raw, ProtocolError("internal", reason))

    # ------------------------------------------------------------------ verbs

    def _serve_hello(self, push: bool = False, record: bool = False) -> Data:
        """Who answers: versions, process, verbs, settings; `push`, `record`: switch these on."""
        from kbench.version import __version__

        self._serve_push(push)
        if record:
            self._recorder.start()
        return {
            "version": protocol.VERSION,
            "kbench": __version__,
            "python": platform.python_version(),
            "pid": os.getpid(),
            "verbs": sorted(protocol.VERBS),
            "config": config.snapshot(),
            "epoch": self._view.epoch,
        }

    def _serve_push(self, on: bool = True) -> Data:
        """Whether changes are told unasked; off while no pane is visible."""
        self._pushing = on and self._publish is not None
        if self._pushing:
            self._view.refresh()
            if self._pusher is None:
                self._pusher = threading.Thread(
                    target=self._push_loop, name="kbench-inspector-push", daemon=True
                )
                self._pusher.start()
        return {"on": self._pushing}

    def _serve_changes(self, since: int = 0) -> Data:
        """Names whose row is not what it was at epoch `since`, and all names there are."""
        self._view.refresh()
        return {
            "epoch": self._view.epoch,
            "names": self._view.changed_since(since),
            "all": self._view.names(),
            "config": config.snapshot(),
        }

    def _serve_summary(
        self,
        names: list[str] | None = None,
        statistics: bool = True,
        pattern: str | None = None,
        start: int = 0,
    ) -> Data:
        """Rows of the given names or of all, paged; `statistics` False leaves ranges out."""
        if self._busy:  # the running cell may write into any array
            self._view.turn += 1
        rows, following = self._view.rows(names, statistics, pattern, start)
        data = {"rows": rows, "total": len(self._view.names()), "epoch": self._view.epoch}
        return {**data, "next": following}

    def _serve_window(self, name: str, **options: Any) -> Data:
        """The formatted cells of a slice: the options of `describe.window`."""
        held = self._view.cells(name)
        for key in ("rows", "cols", "limits"):
            if key in options:
                options[key] = _pair(key, options[key])
        if "index" in options and not all(type(one) is int for one in options["index"]):
            raise ProtocolError("argument", "window: index must hold integers")
        return {"name": name, **describe.window(held, **options)}

    def _serve_stats(self, name: str, exact: bool = False) -> Data:
        """Statistics of one name; `exact` reads a large array whole."""
        return {"name": name, **self._view.statistics(name, exact)}

    def _serve_find(self, name: str, what: str = "nan", after: list[int] | None = None) -> Data:
        """Index of the next NaN ("nan"), infinity ("inf") or either ("bad") behind `after`."""
        index = namespace.find(self._view.array(name), what, after)
        return {"name": name, "what": what, "index": index}

    def _serve_graph(self, name: str, limit: int = describe.GRAPH_LIMIT) -> Data:
        """The graph above a tensor, above the outputs of a function, or of a Keras layer."""
        part = self._view.part(name)
        value = part.value
        layer = keras_models.is_layer(value)
        if describe.is_function(value):
            value = list(value.outputs)
        elif not layer and not describe.is_tensor(value):
            raise ProtocolError("name", f"{describe.printable(name)} is no tensor")

        def build(limit: int) -> Data:
            if layer:
                return keras_graph.graph(value, part.owner, limit)
            return describe.graph(value, limit)

        limit = max(1, min(limit, 10 * describe.GRAPH_LIMIT))
        found = build(limit)
        while protocol.size(found) > protocol.PAGE and limit:  # leave out far nodes
            limit //= 2
            found = build(limit)
        return found

    def _serve_parts(self, names: list[Any], statistics: bool = True, start: int = 0) -> Data:
        """Rows of the layers of Keras models and of the weights of layers, paged."""
        wanted = [one for one in names if type(one) is str]
        rows, following = self._view.parts(wanted, statistics, start)
        return {"rows": rows, "next": following}

    def _serve_export(self, name: str, path: str) -> Data:
        """Write a name's array to a file whose name says the format."""
        from kbench.workbench import export

        held = self._view.array(name)
        try:
            written = export.value(held, os.path.expanduser(path))
        except OSError as error:
            reason = f"{describe.printable(path, 200)}: {error.strerror or error}"
            raise ProtocolError("file", reason) from None
        return {"name": name, "path": str(written.resolve()), "bytes": written.stat().st_size}

    def _serve_config(self, set: dict[str, Any] | None = None) -> Data:
        """The settings, after `set` was applied; while a cell runs `set` waits for its end."""
        wanted = set or {}
        known = config.snapshot()
        for name in wanted:
            if name not in known:
                raise ProtocolError("config", f"unknown setting {describe.printable(name)!r}")
        if self._busy and wanted:
            self._queued_config.update(wanted)
            return {"config": config.snapshot(), "queued": list(wanted)}
        for name, value in wanted.items():
            config.assign(name, value)
        return {"config": config.snapshot(), "epoch": config.epoch()}

    def _serve_plan(self, function: str | None = None, record: bool | None = None) -> Data:
        """The last recorded run of a function, or of any; `record` turns recording on or off."""
        if record is not None:
            self._recorder.start() if record else self._recorder.stop()
        found = self._recorder.find(function)
        return {
            "recording": self._recorder.on,
            "functions": self._recorder.functions(),
            "run": None if found is None else recorder.shortened(describe.run(found)),
        }

    def _serve_trace(self, on: bool = True) -> Data:
        """Turn the recording of runs on or off."""
        self._recorder.start() if on else self._recorder.stop()
        return {"recording": self._recorder.on}

    def _serve_help(self, code: str, position: int) -> Data:
        """Signature of the call at a position in code."""
        return signature.help_at(code, position, self._view.snapshot())

    def _serve_cancel(self) -> Data:
        """Ask the running evaluation to stop."""
        cancel.request()
        return {"busy": self._busy}

    # ------------------------------------------------------------------ pushing

    def _on_config(self, _name: object) -> None:
        self._wake.set()

    def _on_variable(self, _variable: object) -> None:
        if self._pushing:
            self._wake.set()

    def _push_loop(self) -> None:
        while not self._closed:
            self._wake.wait()
            self._wake.clear()
            if self._pushing and not self._closed:
                try:
                    self._push_now()
                except Exception:  # the next change must be told all the same
                    _log.exception("a change could not be told")
            time.sleep(PUSH_INTERVAL)

    def _push_now(self) -> None:
        since = self._view.told
        self._view.refresh()
        refused, self._refused = self._refused, {}
        data = {
            "names": self._view.changed_since(since),
            "config": config.snapshot(),
            "epoch": self._view.epoch,
            "refused": refused,
        }
        self._view.told = self._view.epoch
        if self._publish is not None:
            self._publish(protocol.push("changed", data))


def _pair(key: str, value: list[Any]) -> tuple[Any, Any]:
    if len(value) != 2 or not all(type(one) in (int, float) for one in value):
        raise ProtocolError("argument", f"window: {key} must be two numbers")
    return value[0], value[1]
