"""Arrays to files beside everything else: a long export neither holds up other questions nor the
user's code, tells how far it is, and can be given up."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from itertools import count

import numpy as np

from kbench.engine.core.errors import ArgumentError, KbenchError
from kbench.engine.inspect import describe
from kbench.workbench.core_types import JsonObject
from kbench.workbench.export import export
from kbench.workbench.protocol.messages import ProtocolError

REPLY_WAIT_SECONDS = 0.05
"""In which most files are written, so that one reply tells all."""


def part_of(array: np.ndarray, index: Sequence[int], axes: Sequence[int]) -> np.ndarray:
    """A view of some axes of an array, in their order, at an index along the others.

    Raises:
        ArgumentError: the array has no such axes, or no such index.
    """
    rank = array.ndim
    if len(set(axes)) != len(axes) or not all(0 <= axis < rank for axis in axes):
        raise ArgumentError(f"axes {list(axes)} are not axes of rank {rank}")
    if len(index) != rank:
        raise ArgumentError(f"index {list(index)} needs {rank} entries, one per axis")
    for axis, (at, size) in enumerate(zip(index, array.shape, strict=True)):
        if axis not in axes and not 0 <= at < size:
            raise ArgumentError(f"index {at} is out of range for axis {axis} of size {size}")
    key = [slice(None) if axis in axes else at for axis, at in enumerate(index)]
    part: np.ndarray = np.asarray(array[tuple(key)])
    return part.transpose([sorted(axes).index(axis) for axis in axes])


class _Job(threading.Thread):
    """One file that is being written."""

    def __init__(self, array: np.ndarray, path: str, options: JsonObject) -> None:
        super().__init__(name="kbench-export", daemon=True)
        self.progress = export.Progress()
        self.problem: ProtocolError | None = None
        self.result: JsonObject = {}
        self._array, self._path, self._options = array, path, options

    def run(self) -> None:
        """Write; whatever goes wrong is the next answer."""
        try:
            self.write()
        except ProtocolError as error:
            self.problem = error
        except KbenchError as error:
            self.problem = ProtocolError("value", error.reason)
        except Exception as error:  # an answer must come
            self.problem = ProtocolError("internal", f"{type(error).__name__}: {error}")
        finally:
            self._array = np.empty(0)  # let go of it, also when nobody asks how it went

    def write(self) -> None:
        """Write on this thread."""
        try:
            path = os.path.expanduser(self._path)
            written = export.value(self._array, path, progress=self.progress, **self._options)
        except KbenchError:
            raise
        except (OSError, ValueError) as error:  # a zero byte in the name is a ValueError
            reason = f"{describe.printable(self._path, 200)}: "
            reason += getattr(error, "strerror", None) or str(error)
            raise ProtocolError("file", reason) from None
        except export.Stopped:
            raise ProtocolError("stopped", "cancelled; nothing is written") from None
        self.result = {"path": str(written.resolve()), "bytes": written.stat().st_size}


class Exports:
    """The files that are being written, by number."""

    def __init__(self) -> None:
        self._jobs: dict[int, _Job] = {}
        self._numbers = count(1)

    def write(self, array: np.ndarray, path: str, options: JsonObject, wait: bool) -> JsonObject:
        """Write a file, or, without `wait`, begin to: `state` tells how far it is."""
        job = _Job(array, path, options)
        if wait:
            job.write()
            return job.result
        number = next(self._numbers)
        self._jobs[number] = job
        job.start()
        job.join(REPLY_WAIT_SECONDS)
        return self.state(number)

    def state(self, number: int, stop: bool = False) -> JsonObject:
        """What has become of a file: `done`, or how many bytes are `written`.

        Raises:
            ProtocolError: it could not be written, was given up, or there is no such job.
        """
        job = self._jobs.get(number)
        if job is None:
            raise ProtocolError("job", f"no file is being written under number {number}")
        job.progress.stop |= stop
        if job.is_alive():
            return {"job": number, "done": False, "written": job.progress.written}
        del self._jobs[number]
        if job.problem is not None:
            raise job.problem
        return {"job": number, "done": True, **job.result}
