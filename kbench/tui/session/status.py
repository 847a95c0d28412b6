"""What the status line says of the kernel, its settings and its end, as pieces of text."""

from __future__ import annotations

import signal

from msgspec import Struct, field
from rich.cells import cell_len

from kbench.tui.session.bars import JOINT_CELLS, Piece, longest_piece
from kbench.tui.text.glyphs import Glyphs, human_bytes, human_seconds
from kbench.tui.text.text import one_line
from kbench.tui.themes import MUTED
from kbench.workbench.core_types import Row

WIDE_CELLS = 100
"""Cells from which on nothing is shortened."""


class Status(Struct, frozen=True):
    """`state`: starting, idle, busy, dead or failed, and for how long; `beat` turns the spinner."""

    state: str
    seconds: float
    last_seconds: float | None
    waiting: int
    settings: Row
    pid: int | None
    memory: int
    beat: int
    attached: str = ""
    pace: Row = field(default_factory=dict)


def pieces(now: Status, glyphs: Glyphs, width: int = 80) -> list[Piece]:
    """The state first, then the settings, then the kernel's process; cut from the end."""
    found: list[Piece] = [("kbench", "bold"), state_piece(now, glyphs)]
    room = width - sum(cell_len(words) + JOINT_CELLS for words, _ in found) - JOINT_CELLS
    far = pace_words(now.pace, min(room, longest_piece(width))) if now.state == "busy" else ""
    found += [(far, "$text-accent")] if far else []
    settings = now.settings
    if settings:
        wide = width >= WIDE_CELLS
        words = "learning phase" if wide else "phase"
        phase = settings.get("learning_phase")
        learning = (f"{words} {'per call' if phase is None else phase}", "")
        threads = (f"{settings.get('num_threads')} threads", "")
        found += [
            (f"eps {settings.get('epsilon')}", ""),
            (str(settings.get("floatx")), ""),
            (str(settings.get("image_data_format")), ""),
        ]
        # In a narrow line the phase comes first where it was set, the threads where it was not.
        found += [learning, threads] if wide or phase is not None else [threads, learning]
    words = f" {human_bytes(now.memory)}" if now.memory else ""
    if now.attached:
        found.insert(2, (f"attached to {now.attached[:12]}{words}", ""))
    elif now.pid and now.state in ("idle", "busy"):
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
    if now.state == "starting" and now.attached:
        return f"{spin} waiting for the kernel {now.seconds:.1f} s", "$text-warning"
    if now.state == "starting":
        return f"{spin} kernel starting {now.seconds:.1f} s", "$text-warning"
    if now.state == "busy":
        more = f", {now.waiting} waiting" if now.waiting else ""
        return f"{spin} busy {now.seconds:.1f} s{more}", "$text-warning"
    if now.state in ("dead", "failed"):
        return "! kernel dead" if now.state == "dead" else "! no kernel", "bold $text-error"
    took = f" {human_seconds(now.last_seconds)}" if now.last_seconds is not None else ""
    return f"idle{took}", "$text-success"


def pace_words(pace: Row, room: int) -> str:
    """`epoch 4 of 10, batch 45 of 60, 182 calls/s, 1:20 left`, of what is known.

    What does not fit into `room` cells is left out, the inner loops first: how far the outer
    one is and when it ends say most.
    """
    words = [
        f"{one_line(str(name), 12)} {int(done) + 1:,} of {int(total):,}"
        for name, done, total in pace.get("loops", ())
    ]
    loops = len(words)
    rate, left = pace.get("rate"), pace.get("left")
    if not words and pace.get("calls"):
        words.append(f"{int(pace['calls']):,} calls")
    if isinstance(rate, (int, float)) and rate > 0:
        words.append(f"{rate:,.0f} calls/s" if rate >= 10 else _slow(rate))
    if isinstance(left, (int, float)):
        words.append(f"{_clock(left)} left")
    while len(words) > 1 and cell_len(", ".join(words)) > room:
        words.pop(max(loops - 1, 1))
        loops -= 1
    return ", ".join(words)


def _slow(rate: float) -> str:
    return f"{rate:.1f} calls/s" if rate >= 1 else f"{1 / rate:.1f} s a call"


def _clock(seconds: float) -> str:
    """`40 s`, `1:20`, `2:05:00`."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


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
