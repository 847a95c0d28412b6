"""The sockets to one kernel: signed messages out, messages in. Used by the session thread only."""

from __future__ import annotations

import contextlib
import time
from typing import Any, cast

import zmq
from jupyter_client.connect import ConnectionFileMixin, KernelConnectionInfo

from kbench.workbench.core_types import JsonObject, Message
from kbench.workbench.output.rate_limit import MAX_WHOLE_BYTES, RateLimit

_MAX_BATCH_MESSAGES = 100
"""Of one channel, before the others have their turn."""
_LARGE_MESSAGE_BYTES = 1_000_000
"""Of a message after which other threads come first: decoding it has kept them waiting."""
_YIELD_SECONDS = 0.02
"""In which other threads come first."""


class Wire:
    """The four channels of a kernel whose connection information is given.

    `rate_limit`: the kernel does not bound what its cells print, so some of that is not read.
    """

    def __init__(self, connection: JsonObject, rate_limit: RateLimit | None = None) -> None:
        self._rate_limit = rate_limit
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.setsockopt(zmq.RCVHWM, 0)  # a slow front end must not lose output
        self._file = ConnectionFileMixin(context=self._context)
        self._file.load_connection_info(cast(KernelConnectionInfo, dict(connection)))
        self._session = self._file.session
        identity = self._session.bsession
        self.sockets: dict[str, zmq.Socket[bytes]] = {
            "shell": self._file.connect_shell(identity=identity),
            "iopub": self._file.connect_iopub(),
            "control": self._file.connect_control(identity=identity),
            "stdin": self._file.connect_stdin(identity=identity),
        }

    def send(
        self,
        channel: str,
        kind: str,
        content: JsonObject,
        subshell: str | None = None,
        metadata: JsonObject | None = None,
    ) -> str:
        """Send a message and return its id; `subshell` names the subshell that answers it."""
        message = self._session.msg(kind, content, metadata=metadata)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self._session.send(self.sockets[channel], message)
        return str(message["header"]["msg_id"])

    def receive(self, channel: str) -> list[Message]:
        """The messages that wait on a channel, at most a batch of them."""
        found: list[Message] = []
        for _ in range(_MAX_BATCH_MESSAGES):
            try:
                # Copied by zmq, what is small is had faster; what may be huge is not copied.
                frames = self.sockets[channel].recv_multipart(
                    zmq.NOBLOCK, copy=self._rate_limit is None
                )
            except zmq.Again:
                break
            with contextlib.suppress(ValueError, IndexError, TypeError):  # not signed by our key
                found.append(self._read(frames))
            if sum(map(len, frames)) > _LARGE_MESSAGE_BYTES:
                time.sleep(_YIELD_SECONDS)
                break
        return found

    def _read(self, frames: list[Any]) -> Message:
        """One message, checked and decoded."""
        session, whole = self._session, self._rate_limit is None
        _, parts = session.feed_identities(frames, copy=whole)
        if self._rate_limit is not None and len(parts) > 4 and len(parts[4]) > MAX_WHOLE_BYTES:
            *first, content = parts[:5]
            head = [bytes(frame.bytes) for frame in first]
            if session.unpack(head[1]).get("msg_type") == "stream":
                kept = self._rate_limit.cut(content.buffer)
                if kept is not None:
                    message: Message = session.deserialize([*head, content.buffer], content=False)
                    return {**message, "content": kept}
        read: Message = session.deserialize(parts, copy=whole)
        return read

    def is_others(self, message: Message) -> bool:
        """True for what a kernel says about a cell of another client, or about its own end."""
        if message["header"]["msg_type"] == "shutdown_reply":
            return True
        asked = message["parent_header"]
        if asked.get("msg_type") != "execute_request":
            return False
        return bool(asked.get("session") != self._session.session)

    def close(self, linger: int = 0) -> None:
        """Close every socket; what cannot be sent within `linger` milliseconds is dropped."""
        self._context.destroy(linger=linger)

    def pause(self, seconds: float) -> None:
        """Wait for a message on any channel, at most so long."""
        poller = zmq.Poller()
        for socket in self.sockets.values():
            poller.register(socket, zmq.POLLIN)
        poller.poll(int(seconds * 1000))

    def poll(self, also: int, patience: float | None) -> None:
        """Wait for a message, for the file descriptor `also`, or for `patience` seconds."""
        poller = zmq.Poller()
        poller.register(also, zmq.POLLIN)
        for socket in self.sockets.values():
            poller.register(socket, zmq.POLLIN)
        poller.poll(None if patience is None else int(patience * 1000) + 1)
