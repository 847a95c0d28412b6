"""F12: what a bug report needs, and which key the terminal sends when one is pressed."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.content import Content

from kbench.tui.dialogs.dialogs import Pager, key_hints
from kbench.tui.keys import keys
from kbench.tui.session.bars import Line
from kbench.tui.session.status import memory_of
from kbench.tui.text.glyphs import human_bytes, human_seconds
from kbench.tui.text.text import safe
from kbench.tui.workbench import workbench

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbench.tui.graphics.graphics import Graphics
    from kbench.tui.screen_bench import ScreenBench

PACKAGES = ("textual", "rich", "jupyter_client", "ipykernel", "numpy", "scipy", "numba")


class Diagnostics(Pager):
    """A text to read, over a line that names each key that is pressed."""

    def compose(self) -> ComposeResult:
        """The text in its frame, the line below it."""
        for frame in super().compose():
            words = "press any key to see it"
            frame.border_subtitle = key_hints(self.app, words, text_close="close", text_copy="copy")
            yield frame
        yield Line("key-seen")

    def on_mount(self) -> None:
        """Keys are told from now on."""
        super().on_mount()
        app = workbench(self)
        app.key_seen = self.show_key
        self.show_key(app.last_keys[-1] if app.last_keys else "none yet")

    def on_unmount(self) -> None:
        """And no longer."""
        workbench(self).key_seen = None

    def show_key(self, words: str) -> None:
        """The key that was just pressed."""
        for line in self.query("#key-seen").results(Line):
            line.show(Content.assemble(" key: ", (safe(words), "bold")))


def meaning(key: str, changes: dict[str, str]) -> str:
    """The ids of the actions that a key is bound to, by place."""
    found = [
        f"{row.id} ({'everywhere' if row.where == 'main' else row.where})"
        for row in keys.TABLE
        if key in changes.get(row.id, row.keys).split(",")
    ]
    return ", ".join(found) or "no action of kbench"


def show(bench: ScreenBench, round_trips: Sequence[float]) -> None:
    """Open the screen; `round_trips` of the value pane are in seconds."""
    lines = [Content(safe(line)) for line in facts(bench, round_trips)]
    bench.open(Diagnostics("Diagnostics", lines))


def facts(bench: ScreenBench, round_trips: Sequence[float]) -> list[str]:
    """Versions, terminal, timings, keys, files, problems and the log of a dead kernel."""
    app, death = bench.app, bench.session.death
    lines = [
        f"kbench {_version('kbench')}  python {platform.python_version()}  {platform.platform()}",
        "  ".join(f"{name} {_version(name)}" for name in PACKAGES),
        *_terminal(bench),
        *_kernel(bench, sorted(round_trips)),
        *_files(bench),
        f"keys as in {app.keymap.preset}, {len(app.keymap.changes)} changed",
        f"last keys: {'; '.join(app.last_keys) or 'none yet'}",
    ]
    lines += [f"! {problem}" for problem in app.problems] or ["no problems"]
    if death is not None:
        lines += ["", "log of the kernel that died:", *death.log.split("\n")]
    return lines


def _terminal(bench: ScreenBench) -> list[str]:
    from kbench.engine.runtime.environment import env

    app, size, arranged = bench.app, bench.size, bench.arrangement.layout_now
    layout = arranged.kind if arranged else "-"
    names = ("TERM", "COLORTERM", "TERM_PROGRAM", "TMUX", "STY", "SSH_TTY", "NO_COLOR", "LANG")
    shown = [f"{name}={value}" for name in names if (value := env(name))]
    kitty = "in use" if app.kitty_seen else "asked for, no key of it was seen"
    colours = app.colours
    return [
        "terminal " + ("  ".join(shown) or "does not identify itself"),
        f"screen {size.width}x{size.height}, layout {layout}, theme {app.theme}, "
        f"colours {colours}, characters {'ASCII' if app.glyphs.rule == '-' else 'Unicode'}, "
        f"encoding {getattr(sys.__stdout__, 'encoding', '-')}, "
        f"motion {'on' if app.motion else 'off'}",
        f"keyboard: Kitty protocol {kitty}",
        f"pictures {_pictures(app.graphics)}",
    ]


def _pictures(graphics: Graphics) -> str:
    """How they are drawn, and what the terminal said of itself, if it was asked yet."""
    kind = {"kitty": "by kitty graphics", "sixel": "by sixels"}.get(graphics.kind, "in half blocks")
    name, (width, height) = graphics.answers.name, graphics.answers.cell
    said = [safe(name)] * bool(name) + [f"cells of {width}x{height} pixels"] * bool(width)
    return f"{kind} ({graphics.wish}); the terminal said: {', '.join(said) or 'nothing yet'}"


def _kernel(bench: ScreenBench, trips: Sequence[float]) -> list[str]:
    known = bench.session
    ready = known.ready_seconds
    memory = f", memory {human_bytes(known.memory)}" if known.memory else ""
    lines = [
        f"kernel {known.state}" + (f", ready after {ready:.2f} s" if ready else "") + memory,
        f"this process {os.getpid()}, memory {human_bytes(memory_of(os.getpid()))}"
        f", first frame after {human_seconds(bench.app.frame_seconds)}",
    ]
    if known.hello:
        shown = {name: value for name, value in known.hello.items() if name != "verbs"}
        lines.append(f"inspector {shown}")
    if trips:
        lines.append(
            f"value round trips: {len(trips)}, median {trips[len(trips) // 2] * 1000:.1f} ms, "
            f"longest {trips[-1] * 1000:.1f} ms"
        )
    return lines


def _files(bench: ScreenBench) -> list[str]:
    session, history = bench.link.session, bench.link.history
    lines = []
    if session is not None:
        lines.append(f"journal {session.journal.path or session.journal.problem}")
        log = getattr(session, "log_file", None)
        lines += [f"log file {log}"] * bool(log)
    if history is not None:
        lines.append(f"history {history.problem or history.path}")
    return [*lines, f"keys file {bench.app.keys_file}"]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
