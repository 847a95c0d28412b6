"""What the status line says of the kernel, its settings and its end, as pieces of text."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbench.tui.glyphs import Glyphs, human_bytes, human_seconds
from kbench.tui.palette import MUTED
from kbench.tui.widgets.bars import Piece


@dataclass(frozen=True)
class Status:
    """`state`: starting, idle, busy, dead or failed, and for how long; `beat` turns the spinner."""

    state: str
    seconds: float
    last_seconds: float | None
    waiting: int
    settings: Mapping[str, Any]
    pid: int | None
    memory: int
    beat: int


def pieces(now: Status, glyphs: Glyphs) -> list[Piece]:
    """The state first, then the settings, then the kernel's process; cut from the end."""
    found: list[Piece] = [("kbench", "bold"), state_piece(now, glyphs)]
    settings = now.settings
    if settings:
        phase = settings.get("learning_phase")
        found += [
            (f"eps {settings.get('epsilon')}", ""),
            (str(settings.get("floatx")), ""),
            (str(settings.get("image_data_format")), ""),
            (f"phase {'fed' if phase is None else phase}", ""),
            (f"{settings.get('num_threads')} thr", ""),
        ]
    if now.pid and now.state in ("idle", "busy"):
        words = f" {human_bytes(now.memory)}" if now.memory else ""
        found.append((f"kernel {now.pid}{words}", MUTED))
    return found


def tiny(now: Status, glyphs: Glyphs, width: int) -> list[Piece]:
    """The one line of a terminal that is too small for panes."""
    state = state_piece(now, glyphs)
    if width < 40:
        return [("panes need 60x16", MUTED), state]
    words = "panes need 60x16" if width < 50 else "small terminal: the panes need 60x16"
    return [state, (words, MUTED)]


def state_piece(now: Status, glyphs: Glyphs) -> Piece:
    """The state in words, so that it does not depend on colour."""
    spin = glyphs.spinner[now.beat % len(glyphs.spinner)]
    if now.state == "starting":
        return f"{spin} kernel starting {now.seconds:.1f} s", "$text-warning"
    if now.state == "busy":
        more = f", {now.waiting} waiting" if now.waiting else ""
        return f"{spin} busy {now.seconds:.1f} s{more}", "$text-warning"
    if now.state in ("dead", "failed"):
        return "! kernel dead" if now.state == "dead" else "! no kernel", "bold $text-error"
    took = f" {human_seconds(now.last_seconds)}" if now.last_seconds is not None else ""
    return f"idle{took}", "$text-success"


def memory_of(pid: int) -> int:
    """Resident bytes of a process, 0 when it is gone."""
    import psutil  # not before the first cell has run

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def exit_words(code: int | None) -> str:
    """'killed by SIGKILL', 'exit code 3'."""
    if code is None:
        return "for an unknown reason"
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}"
