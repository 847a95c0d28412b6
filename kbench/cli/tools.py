"""The small commands: `kbench config`, `warmup`, `bench` and `learn`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.cli.exit_codes import OK, USAGE, load_engine

if TYPE_CHECKING:
    from types import ModuleType

    from rich.progress import Progress as Bar

# ------------------------------------------------------------------ config


def _parsed(text: str) -> object:
    """A value from the command line: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def config_main(arguments: list[str]) -> int:
    """`kbench config [get NAME | set NAME VALUE] [--json]`: settings, kept in keras.json."""
    parser = argparse.ArgumentParser(
        prog="kbench config",
        description="Show the settings, read one, or set one and write it to keras.json.",
    )
    parser.add_argument("action", nargs="?", choices=("get", "set"))
    parser.add_argument("name", nargs="?")
    parser.add_argument("value", nargs="?")
    parser.add_argument("--json", action="store_true", help="write JSON")
    options = parser.parse_args(arguments)
    expected = {None: 0, "get": 1, "set": 2}[options.action]
    given = (options.name is not None) + (options.value is not None)
    if given != expected:
        parser.error("use: kbench config, kbench config get NAME, kbench config set NAME VALUE")
    from kbench.api import engines
    from kbench.engine.runtime import config, keras_json, paths

    fields = keras_json.load_file()
    if options.action == "set":
        return _set(config, options.name, options.value)
    engine = engines.choose(fields)
    settings = {"backend": engine.name, **config.snapshot()}
    if options.action == "get":
        if options.name not in settings:
            known = ", ".join(settings)
            print(f"kbench: unknown setting {options.name!r}; choose from {known}", file=sys.stderr)
            return USAGE
        value = settings[options.name]
        print(json.dumps(value) if options.json else value)
    elif options.json:
        print(json.dumps(settings))
    else:
        width = max(map(len, settings))
        for name, value in settings.items():
            print(f"{name:<{width}}  {value}")
        path = paths.keras_home() / "keras.json"
        print(f"the backend is {engine.name} by {engine.source}", file=sys.stderr)
        print(f"kept in {path}" + ("" if path.exists() else ", once one is set"), file=sys.stderr)
    return OK


_KEPT = ("backend", "epsilon", "floatx", "image_data_format")


def _set(config: ModuleType, name: str, text: str) -> int:
    if name not in _KEPT:
        reason = f"{name!r} is not kept in keras.json; it keeps {', '.join(_KEPT)}"
        print(f"kbench: {reason}", file=sys.stderr)
        return USAGE
    try:
        if name == "backend":
            _check_engine(text)
        else:
            config.assign(name, _parsed(text))
    except (ValueError, ImportError) as error:
        print(f"kbench: {getattr(error, 'reason', error)}", file=sys.stderr)
        return USAGE
    from kbench.engine.runtime import keras_json, paths

    try:
        path = keras_json.save_file(engine=text if name == "backend" else None)
    except OSError as error:
        where = paths.keras_home() / "keras.json"
        print(f"kbench: {where} cannot be written: {error.strerror or error}", file=sys.stderr)
        return USAGE
    value = text if name == "backend" else config.snapshot()[name]
    print(f"{name} = {value}, written to {path}", file=sys.stderr)
    return OK


def _check_engine(name: str) -> None:
    """Raise ImportError or ValueError unless keras.json can name this engine."""
    from kbench.api import engines

    if name in engines.WRITTEN_BY_KERAS:
        raise ValueError(
            f"Keras writes {name!r} into keras.json by itself, so it is not followed there; "
            f"set KERAS_BACKEND={name} in the environment"
        )
    if name not in engines.OWN:
        engines.module(name)


# ------------------------------------------------------------------ warmup


class Progress:
    """A progress bar on a terminal; elsewhere a line now and then, and one at the end."""

    EVERY = 10.0
    """Seconds between lines where there is no terminal."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.start = self.said = time.perf_counter()
        self.bar: Bar | None = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            name = TextColumn("{task.fields[name]}")
            self.bar = Bar(*columns, name, console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task(title, total=None, name="")
            self.bar.start()

    def __call__(self, done: int, total: int, name: str = "") -> None:
        """Show that `done` of `total` parts are finished, the last one being `name`."""
        now = time.perf_counter()
        if self.bar is not None:
            self.bar.update(self.task, completed=done, total=total, name=name)
        elif now - self.said > self.EVERY:
            self.said = now
            print(f"{self.title} {done}/{total}", file=sys.stderr)

    def close(self, text: str) -> None:
        """Replace the bar by a last line."""
        if self.bar is not None:
            self.bar.stop()
        print(f"{text} in {time.perf_counter() - self.start:.1f} s", file=sys.stderr)


def warmup_main(arguments: list[str]) -> int:
    """`kbench warmup`: compile every library kernel into the cache."""
    parser = argparse.ArgumentParser(
        prog="kbench warmup",
        description="Compile every library kernel into the cache, so that no first call is slow.",
    )
    parser.parse_args(arguments)
    load_engine()
    from kbench.engine.jit.service import stats
    from kbench.engine.kernels import registry

    progress = Progress("compiling")
    count = 0
    try:
        count = registry.warmup(progress)
    finally:
        progress.close(f"{count} kernels ready")
    for name, reason in stats().failures:
        print(f"kbench: {name} did not compile: {reason.splitlines()[0]}", file=sys.stderr)
    return OK


# ------------------------------------------------------------------ bench, learn


def bench_main(arguments: list[str]) -> int:
    """`kbench bench`: hand over to the benchmarks' own program, which lies beside the package."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "benchmarks", package.parent / "benchmarks"):
        program = folder / "harness.py"
        if program.is_file():
            command = [sys.executable, str(program), *arguments]
            # Peers shall not inherit what kbench has set for itself, if `python -m` imported it.
            threads = sys.modules.get("kbench.engine.runtime.threads")
            given = None if threads is None else threads.users_environment()
            if os.name == "posix":  # whoever ends kbench then ends the bench
                sys.stdout.flush()
                if given is None:
                    os.execv(command[0], command)
                os.execve(command[0], command, given)
            return subprocess.call(command, env=given)
    print("kbench: the benchmarks are not installed beside the package", file=sys.stderr)
    return USAGE


def learn_main(arguments: list[str]) -> int:
    """`kbench learn`, in a file of its own."""
    from kbench.cli import learn

    return learn.main(arguments)


MAINS: dict[str, Callable[[list[str]], int]] = {
    "config": config_main,
    "warmup": warmup_main,
    "bench": bench_main,
    "learn": learn_main,
}
