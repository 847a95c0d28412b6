"""`kbench doctor --cluster ADDRESS`: what each worker of a Dask cluster runs, and what is refused.

It asks by Dask's own question, which any version of Python answers; nothing of kbench is sent.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from kbench.cli.exit_codes import load_engine
from kbench.engine.core.errors import EngineError

CONNECT_SECONDS = 10.0
"""Until a scheduler that does not answer is given up: one that is there takes milliseconds."""
TOLD = {"python": "Python", "kbench": "kbench", "numpy": "NumPy", "dask": "dask"}
TOLD |= {"distributed": "distributed"}
"""Packages in the order in which they are told, and what they are called."""

Facts = dict[str, Any]


def report(address: str) -> Facts:
    """What the processes of a cluster run, and as `problems` why kbench would not run there.

    Arguments:
        address: of the scheduler, as `tcp://10.0.0.1:8786`.
    Raises:
        EngineError: Dask is not installed, or nothing answers at that address.
    """
    load_engine()
    try:
        dask = importlib.import_module("dask")
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        raise EngineError(
            f"doctor --cluster needs Dask, which is not installed here ({error}); "
            "pip install 'kbench[dask]'"
        ) from None
    try:
        with (
            dask.config.set({"distributed.comm.timeouts.connect": CONNECT_SECONDS}),
            distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False) as client,
        ):
            told = client.get_versions(packages=["kbench"])
            threads = client.nthreads()
    except (OSError, ValueError) as error:  # what ends in no answer, and no address
        raise EngineError(f"no Dask scheduler answers at {address}: {error}") from None
    return judged(address, told, threads)


def judged(address: str, told: Mapping[str, Any], threads: Mapping[str, int]) -> Facts:
    """The report of a cluster of what Dask's `get_versions` and `nthreads` gave."""
    from kbench.dask import versions

    here = versions.needed()
    scheduler = _packages(told["scheduler"])
    rows = {f"worker {name}": _packages(one) for name, one in sorted(told["workers"].items())}
    differences = [
        versions.difference(_compared(one), where, here)
        for where, one in {"the scheduler": scheduler, **rows}.items()
    ]
    problems = [f"{one}: refused" for one in differences if one is not None]
    if not rows:
        problems.append(f"the cluster at {address} has no workers")
    addresses = [where.removeprefix("worker ") for where in rows]
    workers = [
        {"address": name, "threads": threads.get(name), **one}
        for name, one in zip(addresses, rows.values(), strict=True)
    ]
    client = _packages(told["client"])
    found = {"address": address, "client": client, "scheduler": scheduler, "workers": workers}
    return {"cluster": found, "problems": problems}


def _packages(told: Mapping[str, Any]) -> dict[str, str | None]:
    """Of one process the versions that matter; None for what it does not have."""
    found = dict(told["packages"])
    python = str(found.get("python") or "")
    return {name: found.get(name) for name in TOLD} | {"python": ".".join(python.split(".")[:3])}


def _compared(found: Mapping[str, str | None]) -> dict[str, str | None]:
    """As `kbench.dask.versions` compares them: of Python major and minor alone."""
    return {**found, "python": ".".join((found["python"] or "").split(".")[:2])}


def lines(found: Facts) -> Facts:
    """The same as words, for the report that people read."""
    cluster = found["cluster"]
    rows = {
        "scheduler": cluster["address"],
        "this process": _words(cluster["client"]),
        "the scheduler": _words(cluster["scheduler"]),
    }
    for worker in cluster["workers"]:
        count = worker["threads"]
        threads = "threads unknown" if count is None else f"{count} thread{'s' * (count != 1)}"
        rows[worker["address"]] = f"{threads}, {_words(worker)}"
    return {"cluster": rows, "problems": found["problems"]}


def _words(found: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{word} {found[name]}" if found[name] else f"no {word}" for name, word in TOLD.items()
    )
