"""What every command shares: its exit codes, and whether the workbench can open here."""

from __future__ import annotations

import argparse
import json
import os
import sys

OK = 0
FAILED = 1  # the user's code failed
USAGE = 2  # wrong usage or configuration
NO_KERNEL = 3  # the kernel could not be started
INTERRUPTED = 130


def terminal_refusal() -> str | None:
    """Why the full-screen workbench cannot open here, or None when it can.

    Textual does not check this: it would write escape codes into a pipe and never end.
    """
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        return "standard input and output are not both a terminal"
    if os.environ.get("TERM", "") in ("", "dumb") and sys.platform != "win32":
        return "TERM is unset or dumb"
    if os.environ.get("CI"):
        return "CI is set"
    return None


def motion(asked: str | None) -> bool:
    """Whether things may move on the screen: `--motion`, else KBENCH_MOTION."""
    return (asked or os.environ.get("KBENCH_MOTION", "")).lower() not in ("none", "0", "off")


PICTURES = ("auto", "kitty", "sixel", "blocks")
"""How pictures are drawn: `auto` takes what the terminal says that it has."""


def pictures(asked: str | None) -> str:
    """How pictures are drawn: `--pictures`, else KBENCH_PICTURES.

    Raises:
        ValueError: the variable is none of the words.
    """
    from kbench.engine.runtime.environment import env

    word = (asked or env("KBENCH_PICTURES") or PICTURES[0]).lower()
    if word not in PICTURES:
        raise ValueError(f"KBENCH_PICTURES is {word!r}; choose from {', '.join(PICTURES)}")
    return word


def names_engine() -> bool:
    """Whether the environment or keras.json names another engine than kbench's own.

    Told without loading the engine, which the terminal's process has no use for.
    """
    named = os.environ.get("KERAS_BACKEND")
    if not named:
        from kbench.engine.runtime import paths

        home = paths.keras_home()
        try:
            paths.check_own(home)
            data = paths.read_regular(home / "keras.json", 1 << 20, own=True)
            named = json.loads(data).get("backend")
        except (OSError, ValueError, AttributeError, RecursionError):
            return False
    return named not in (None, "", "kbench", "numpy")


def load_engine() -> None:
    """Run the package's `__init__`, which the launcher has put off.

    Raises:
        EngineError: the engine that is asked for is not available.
    """
    import kbench

    _ = kbench.__all__  # asking an unloaded package for a name loads it


def check_theme(name: str | None) -> None:
    """Raise ValueError for a theme that there is not."""
    from textual.theme import BUILTIN_THEMES

    from kbench.tui.themes import SHORT_NAMES, THEMES

    known = [*SHORT_NAMES, *sorted({*BUILTIN_THEMES, *(theme.name for theme in THEMES)})]
    if name is not None and name not in known:
        raise ValueError(f"unknown theme {name!r}; choose from {', '.join(known)}")


def workbench(options: argparse.Namespace) -> int:
    """Open the full screen; an engine that is not available is told before that."""
    from kbench.tui import app

    if not getattr(options, "kernels", None) and names_engine():
        load_engine()
    try:
        if options.theme:
            check_theme(options.theme)
        options.pictures = pictures(options.pictures)
    except ValueError as error:
        print(f"kbench: {error}", file=sys.stderr)
        return USAGE
    options.motion = motion(options.motion)
    return int(app.run(options))
