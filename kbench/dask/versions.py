"""Versions that must agree on all machines of a cluster, and the refusal of workers that differ.

Bytes of a graph mean the same only where kbench is the same, and values are the same bit for bit
only where NumPy is. Asking needs nothing of kbench on the other side, and no code crosses from
one Python to another before both are known to be the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from kbench.engine.core.errors import EngineError

NEEDED = ("python", "kbench", "numpy")
"""What must agree. Dask's own versions are told, and Dask itself warns of them."""
TOLD = ("dask", "distributed")

Versions = dict[str, str | None]
"""Package -> its version, None where it is missing; "python" has major and minor alone."""


def _reader() -> Callable[[], Versions]:
    """What finds out the versions of a process. Pickle sends it as code, as kbench may be missing
    there: a function within a function is known by no name."""

    def versions() -> dict[str, str | None]:
        import importlib
        import sys

        found: dict[str, str | None] = {"python": "{}.{}".format(*sys.version_info)}
        for name in ("kbench", "numpy", "dask", "distributed"):
            try:
                found[name] = str(importlib.import_module(name).__version__)
            except Exception:  # missing, or broken; to the caller that is one
                found[name] = None
        return found

    return versions


def mine() -> Versions:
    """The versions of this process: Python's major and minor, kbench, NumPy, Dask, distributed.

    >>> sorted(mine())
    ['dask', 'distributed', 'kbench', 'numpy', 'python']
    """
    return _reader()()


def needed() -> Versions:
    """Those of `mine` that must agree everywhere. Imports nothing that is not loaded."""
    import numpy

    from kbench.version import __version__

    python = "{}.{}".format(*sys.version_info)
    return {"python": python, "kbench": __version__, "numpy": numpy.__version__}


def this_process() -> str:
    """What a refusal calls this process: a worker by its address."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        try:
            return f"worker {distributed.get_worker().address}"
        except ValueError:
            pass  # no worker is at work in this thread
    return "this process"


def difference(there: Mapping[str, str | None], where: str, here: Versions) -> str | None:
    """A sentence about the first version that differs and must not, or None.

    Arguments:
        there: the versions of a worker, and `where` its address.
        here: the versions that it must have.
    """
    for package in NEEDED:
        have, want = there.get(package), here.get(package)
        if have != want:
            word = {"python": "Python", "numpy": "NumPy"}.get(package, package)
            has = f"has {word} {have}" if have else f"has no {word}"
            return f"{where} {has}, and the client {want}; both must have the same"
    return None


def refuse_others(client: Any) -> None:
    """Raise EngineError when a process of a cluster cannot compute what this one would.

    Arguments:
        client: a `distributed.Client`. Its scheduler and all of its workers are asked; a worker
            that is lost meanwhile is none.
    Raises:
        EngineError: it names the worker's address, the package, and the version on either side.
            Nothing of the caller's has been sent to it then.
    """
    here = mine()
    _refuse_pythons(client, here)
    answers: dict[str, Any] = client.run(_reader(), on_error="return")
    for address, answer in sorted(answers.items()):
        if isinstance(answer, BaseException):
            continue  # lost: its tasks go elsewhere
        _refuse(difference(answer, f"worker {address}", here))
    scheduler: Versions = client.run_on_scheduler(_reader())
    _refuse(difference(scheduler, "the scheduler", here))


def _refuse_pythons(client: Any, here: Versions) -> None:
    """By Dask's own question, before any code is sent."""
    found = client.get_versions()
    rows = {f"worker {address}": told for address, told in sorted(found["workers"].items())}
    for where, told in {**rows, "the scheduler": found["scheduler"]}.items():
        if told:
            python = ".".join(told["host"]["python"].split(".")[:2])
            _refuse(difference({**here, "python": python}, where, here))


def _refuse(sentence: str | None) -> None:
    if sentence is not None:
        raise EngineError(f"kbench.dask: {sentence}")
