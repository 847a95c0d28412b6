"""`kbench doctor`: what is installed, how it is set up, and what this machine can do.

Each part is gathered apart and may fail apart: a broken part becomes a line under "problems", and
the rest is still told. Exit code 0 when there is no problem, 2 when there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import stat
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from kbench.cli.exit_codes import OK, USAGE, load_engine, terminal_refusal
from kbench.version import __version__

Facts = dict[str, Any]


def _machine() -> Facts:
    import psutil

    memory = psutil.virtual_memory()
    return {
        "system": platform.platform(),
        "processor": processor(),
        "cores": psutil.cpu_count(logical=False),
        "usable threads": len(psutil.Process().cpu_affinity() or [0])
        if hasattr(psutil.Process, "cpu_affinity")
        else psutil.cpu_count(),
        "memory": f"{memory.total / 2**30:.1f} GB, {memory.available / 2**30:.1f} GB available",
    }


def processor() -> str:
    """The processor's name; `platform` knows it only on some systems."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _versions() -> Facts:
    """What the package asks for, and what is there; a missing or old package is a problem."""
    from packaging.requirements import Requirement

    found: Facts = {"python": platform.python_version(), "kbench": __version__}
    wrong = []
    try:
        asked = importlib.metadata.requires("kbench") or []
    except importlib.metadata.PackageNotFoundError:
        wrong.append(
            "kbench is not installed, so its requirements are not known; use pip install -e ."
        )
        asked = []
    for text in asked:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing; kbench needs {text}")
            continue
        found[requirement.name] = version
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name} is {version}; kbench needs {text}")
    extra, more = _dask_extra(asked)
    return {**found, "extra dask": extra, "Keras": _keras(), "problems": wrong + more}


def _keras() -> str:
    """Which generation of Keras is installed; both are one package."""
    from kbench.keras3 import repairs

    version = repairs.installed()
    if version is None:
        return f"not installed; pip install 'kbench[keras]' or 'kbench[keras3]' ({repairs.TESTED})"
    known = version in (repairs.KERAS_2, repairs.TESTED)
    return version if known else f"{version}, which is not known: {repairs.GENERATIONS}"


def _dask_extra(asked: Iterable[str]) -> tuple[str, list[str]]:
    """What of the extra `dask` is there, without importing it, and what is too old."""
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    of_extras = [one for one in map(Requirement, asked) if one.marker is not None]
    wanted = {one.name: one.specifier for one in of_extras}
    told, wrong = [], []
    for name in ("dask", "distributed"):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return "not installed; pip install 'kbench[dask]'", []
        told.append(f"{name} {version}")
        if not wanted.get(name, SpecifierSet()).contains(version, prereleases=True):
            wrong.append(f"{name} is {version}; kbench[dask] needs {name}{wanted[name]}")
    return ", ".join(told), wrong


def _settings() -> Facts:
    from kbench.api import engines
    from kbench.engine.runtime import config, keras_json, paths

    path = paths.keras_home() / "keras.json"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fields = keras_json.load_file()
        choice = engines.choose(fields)
    found: Facts = {"engine": str(choice), **config.snapshot()}
    found["keras.json"] = str(path) if path.exists() else f"{path}, which does not exist"
    found["compiling"] = (
        "never, the engine is numpy" if choice.name == "numpy" else config.jit_mode()
    )
    return {**found, "problems": [str(warning.message) for warning in caught]}


def _threads() -> Facts:
    from threadpoolctl import threadpool_info

    from kbench.engine.runtime import config, threads

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    names = [
        f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', 'unknown')}), "
        f"{pool['num_threads']} threads"
        for pool in pools
    ]
    return {
        "kernel threads": config.num_threads(),
        "BLAS": "; ".join(names) or "none found",
        "idle threads": "BLAS threads spin" if threads.blas_spins() else "sleep",
    }


def _sizes(folder: Path) -> Iterator[tuple[Path, int]]:
    """Its files and their sizes in bytes; other processes take theirs away meanwhile."""
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            found = path.stat()
            if stat.S_ISREG(found.st_mode):
                yield path, found.st_size


def _cache() -> Facts:
    from kbench.engine.jit import disk_cache, kernel_pack, service

    folder = disk_cache.folder()
    sizes = dict(_sizes(folder)) if folder.is_dir() else {}
    stats = service.service.stats()
    found: Facts = {
        "folder": str(folder),
        "kernels": sum(path.suffix == ".py" for path in sizes),
        "size": f"{sum(sizes.values()) / 2**20:.1f} MB",
        "compiled ahead": kernel_pack.describe(),
    }
    wrong = [f"kernel {name} did not compile: {reason}" for name, reason in stats.failures]
    if not disk_cache.cacheable():
        wrong.append(f"{folder} cannot be written: every process has to compile its kernels again")
    return {**found, "problems": wrong}


def _limits() -> Facts:
    from kbench.engine.inspect import roofline

    measured = roofline.measure(again=True)
    return {
        "copy": f"{measured.copy_gb_per_s:.1f} GB/s",
        "read": f"{measured.read_gb_per_s:.1f} GB/s",
        "caches": ", ".join(
            f"{rate:.0f} GB/s from {size >> 10} kB on" for size, rate in measured.cached
        ),
        "GEMM float32": f"{measured.gemm_float32:.0f} GFLOP/s",
        "GEMM float64": f"{measured.gemm_float64:.0f} GFLOP/s",
    }


def _terminal() -> Facts:
    refusal = terminal_refusal()
    return {
        "workbench": "can open" if refusal is None else f"plain prompt only: {refusal}",
        "TERM": os.environ.get("TERM", "unset"),
        "encoding": getattr(sys.stdout, "encoding", None) or "unknown",
        "colour": "off by NO_COLOR" if os.environ.get("NO_COLOR") else "on",
    }


PARTS: dict[str, Callable[[], Facts]] = {
    "versions": _versions,
    "machine": _machine,
    "settings": _settings,
    "threads": _threads,
    "kernel cache": _cache,
    "measured limits": _limits,
    "terminal": _terminal,
}


def report(fast: bool = False) -> Facts:
    """Every part's facts by name, and the list of `problems` over all of them."""
    found: Facts = {}
    problems: list[str] = []
    try:
        load_engine()  # which sets up threads before NumPy is loaded, as in real use
    except ImportError as error:
        problems.append(str(error))
    for name, gather in PARTS.items():
        if fast and name == "measured limits":
            continue
        try:
            facts = gather()
            problems += facts.pop("problems", [])
        except Exception as error:  # one broken part must not hide the others
            facts = {}
            problems.append(f"{name}: {type(error).__name__}: {error}")
        found[name] = facts
    return {**found, "problems": problems}


def text(found: Facts) -> str:
    """The report for people."""
    lines: list[str] = []
    for name, facts in found.items():
        if name == "problems":
            continue
        lines.append(name)
        width = max(map(len, facts), default=0)
        lines += [f"  {key:<{width}}  {value}" for key, value in facts.items()]
    problems = found["problems"]
    lines.append("problems" if problems else "no problems")
    lines += [f"  ! {problem}" for problem in problems]
    return "\n".join(lines)


def _api(as_json: bool) -> int:
    """`kbench doctor --api`: the reference table, which `docs/api.md` is, too."""
    load_engine()
    from kbench.api import reference

    width = max(
        40,
        min(
            reference.LINE_CHARACTERS,
            shutil.get_terminal_size((reference.LINE_CHARACTERS, 24)).columns,
        ),
    )
    print(json.dumps(reference.as_dicts(), indent=1) if as_json else reference.text(width))
    return OK


def _cluster(address: str, as_json: bool) -> int:
    """`kbench doctor --cluster ADDRESS`: versions and threads of each worker."""
    from kbench.cli import cluster

    found = cluster.report(address)
    print(json.dumps(found, indent=1) if as_json else text(cluster.lines(found)))
    return USAGE if found["problems"] else OK


def main(arguments: list[str]) -> int:
    """`kbench doctor [--json] [--fast] [--api | --cluster ADDRESS]`."""
    parser = argparse.ArgumentParser(
        prog="kbench doctor",
        description="Versions, threads, kernel cache, and what this machine can do.",
    )
    parser.add_argument("--json", action="store_true", help="write JSON")
    parser.add_argument("--fast", action="store_true", help="measure nothing")
    parser.add_argument("--api", action="store_true", help="every function and what it can do")
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="versions and threads of the workers of a Dask cluster, such as tcp://10.0.0.1:8786",
    )
    options = parser.parse_args(arguments)
    if options.api and options.cluster:
        parser.error("--api and --cluster are separate reports; ask for one of them")
    if options.api:
        return _api(options.json)
    if options.cluster:
        return _cluster(options.cluster, options.json)
    found = report(options.fast)
    print(json.dumps(found, indent=1, default=str) if options.json else text(found))
    return USAGE if found["problems"] else OK
