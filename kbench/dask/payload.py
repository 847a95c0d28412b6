"""Functions and models as bytes with a name made of their content, which a worker reads once.

The name is the SHA-256 of the bytes, so that whoever has them need not be sent them again, and
damage is found. What is read stays in the process for the tasks that follow. As ever with pickle,
reading runs what the bytes say: read only those that you trust.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections import OrderedDict
from typing import Any

import cloudpickle

from kbench.dask import versions
from kbench.engine.core import fork_safety
from kbench.engine.core.errors import ArgumentError, EngineError

FORMAT = 1
"""Counts changes of how the bytes are laid out."""
MAGIC = b"kbench payload "
MAX_KEPT = 32
"""Objects that a process keeps: a handful of jobs, with some versions of their weights each."""
MAX_KEPT_BYTES = 1 << 30
"""Of the bytes that the kept objects came from, the newest always among them. A worker of 2 GB, a
usual size, is left with half of its memory."""
MAX_HEADER_BYTES = 4096
"""Before the content; what has no end of the header by then is no payload."""


class Payload:
    """The bytes of an object, and their hash. Two payloads are equal when their content is.

    Pickle, Dask's too, hands the bytes on as they are, without a copy.
    """

    __slots__ = ("data", "hash")

    def __init__(self, hash: str, data: bytes | memoryview | pickle.PickleBuffer) -> None:
        self.hash = hash  # hexadecimal digits of the SHA-256 of `data`
        self.data = data if isinstance(data, bytes) else memoryview(data)

    def __repr__(self) -> str:
        return f"<payload {self.hash[:12]} {len(self.data):,} bytes>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Payload) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + len(self.data)  # what Dask counts

    def __dask_tokenize__(self) -> str:
        return self.hash

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        data = pickle.PickleBuffer(self.data) if protocol >= 5 else bytes(self.data)
        return Payload, (self.hash, data)

    def load(self) -> Any:
        """The object: made once in a process, by one thread while others wait, and then kept.

        Everybody in the process gets the same object, so it must be safe from any thread.

        Raises:
            ArgumentError: the bytes are damaged, or another kbench's. EngineError: made with
            another kbench, NumPy or Python than this process has.
        """
        entry = _entry(self)
        with entry.lock:
            if not entry.ready:
                try:
                    entry.value = self.fresh()
                except BaseException:
                    _forget(self.hash)
                    raise
                entry.ready = True
            return entry.value

    def fresh(self) -> Any:
        """The object, made anew for this caller alone. Raises what `load` does."""
        content = self._content()
        try:
            return pickle.loads(content)
        except (pickle.UnpicklingError, EOFError) as error:
            raise _refused(f"{self!r} is damaged: {error}") from error

    def _content(self) -> memoryview:
        """The pickled bytes, after all that can be checked before they are read."""
        data = memoryview(self.data)
        if hashlib.sha256(data).hexdigest() != self.hash:
            raise _refused(f"{self!r} is damaged: its content has another hash")
        start = bytes(data[:MAX_HEADER_BYTES])
        head, end, _ = start.partition(b"\n")
        if not start.startswith(MAGIC) or not end:
            raise _refused(f"{self!r} was not written by kbench: it begins with {start[:20]!r}")
        number, _, told = head[len(MAGIC) :].decode().partition(" ")
        if number != str(FORMAT):
            raise _refused(
                f"{self!r} is in form {number}, and this kbench reads form {FORMAT}; "
                "make it with the same version"
            )
        try:
            theirs = dict(json.loads(told))
        except (ValueError, TypeError):
            raise _refused(f"{self!r} is damaged: its head has no versions") from None
        other = versions.difference(versions.needed(), versions.this_process(), theirs)
        if other is not None:
            raise EngineError(f"kbench.dask: {other}")
        return data[len(head) + 1 :]


def pack(value: object) -> Payload:
    """An object as bytes, under the hash of its content.

    The values of variables are part of the content. One function gives one hash as long as this
    process runs and its variables stay as they are.

    Arguments:
        value: whatever pickle takes, and functions and classes that only this process has.
    Raises:
        ArgumentError: something in it cannot be pickled.
    """
    head = MAGIC + f"{FORMAT} {json.dumps(versions.needed())}\n".encode()
    try:
        data = head + cloudpickle.dumps(value, protocol=5)
    except Exception as error:
        raise _refused(f"{type(value).__name__} cannot be sent to workers: {error}") from error
    return Payload(hashlib.sha256(data).hexdigest(), data)


def _refused(reason: str) -> ArgumentError:
    return ArgumentError(reason, function="kbench.dask")


# ------------------------------------------------------------------ what a process keeps


class _Entry:
    __slots__ = ("lock", "ready", "size", "value")

    def __init__(self, size: int) -> None:
        self.lock = fork_safety.lock()
        self.ready = False
        self.size = size
        self.value: Any = None


_kept: OrderedDict[str, _Entry] = OrderedDict()
_kept_lock = fork_safety.lock()


def _entry(payload: Payload) -> _Entry:
    """The place of an object, now the newest; the oldest go that are beyond the limits."""
    with _kept_lock:
        entry = _kept.get(payload.hash)
        if entry is None:
            entry = _kept[payload.hash] = _Entry(len(payload.data))
        _kept.move_to_end(payload.hash)
        while len(_kept) > 1 and (
            len(_kept) > MAX_KEPT or sum(one.size for one in _kept.values()) > MAX_KEPT_BYTES
        ):
            _kept.popitem(last=False)
        return entry


def _forget(hash: str) -> None:
    with _kept_lock:
        _kept.pop(hash, None)


def forget_all() -> None:
    """Drop what this process keeps."""
    with _kept_lock:
        _kept.clear()
