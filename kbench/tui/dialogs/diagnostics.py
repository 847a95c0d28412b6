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
from kbench.tui.panes.value.controller import ValueController
from kbench.tui.session.bars import Line
from kbench.tui.session.status import memory_of
from kbench.tui.text.glyphs import human_bytes, human_seconds
from kbench.tui.text.text import safe

if TYPE_CHECKING:
    from kbench.tui.app import WorkbenchApp
    from kbench.tui.main_screen import MainScreen

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
        bench: WorkbenchApp = self.app  # type: ignore[assignment]
        bench.key_seen = self.show_key
        self.show_key(bench.last_keys[-1] if bench.last_keys else "none yet")

    def on_unmount(self) -> None:
        """And no longer."""
        self.app.key_seen = None  # type: ignore[attr-defined]

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


def show(screen: MainScreen) -> None:
    """Open the screen."""
    lines = [Content(safe(line)) for line in facts(screen)]
    screen.app.push_screen(Diagnostics("Diagnostics", lines))


def facts(screen: MainScreen) -> list[str]:
    """Versions, terminal, timings, keys, files, problems and the log of a dead kernel."""
    session_controller, bench = screen.session_controller, screen.bench
    lines = [
        f"kbench {_version('kbench')}  python {platform.python_version()}  {platform.platform()}",
        "  ".join(f"{name} {_version(name)}" for name in PACKAGES),
        *_terminal(screen),
        *_kernel(screen),
        *_files(screen),
        f"keys as in {bench.keymap.preset}, {len(bench.keymap.changes)} changed",
        f"last keys: {'; '.join(bench.last_keys) or 'none yet'}",
    ]
    lines += [f"! {problem}" for problem in bench.problems] or ["no problems"]
    if session_controller.death is not None:
        lines += ["", "log of the kernel that died:", *session_controller.death.log.split("\n")]
    return lines


def _terminal(screen: MainScreen) -> list[str]:
    from kbench.engine.runtime.environment import env

    bench, size = screen.bench, screen.size
    layout = screen.layout_now.kind if screen.layout_now else "-"
    names = ("TERM", "COLORTERM", "TERM_PROGRAM", "TMUX", "STY", "SSH_TTY", "NO_COLOR", "LANG")
    shown = [f"{name}={value}" for name in names if (value := env(name))]
    kitty = "in use" if bench.kitty_seen else "asked for, no key of it was seen"
    colours = "off" if bench.no_color else bench.console.color_system or "none"
    return [
        "terminal " + ("  ".join(shown) or "says nothing of itself"),
        f"screen {size.width}x{size.height}, layout {layout}, theme {bench.theme}, "
        f"colours {colours}, characters {'ASCII' if bench.glyphs.rule == '-' else 'Unicode'}, "
        f"encoding {getattr(sys.__stdout__, 'encoding', '-')}, "
        f"motion {'on' if bench.motion else 'off'}",
        f"keyboard: Kitty protocol {kitty}",
    ]


def _kernel(screen: MainScreen) -> list[str]:
    session_controller, bench = screen.session_controller, screen.bench
    ready = session_controller.ready_seconds
    memory = (
        f", memory {human_bytes(session_controller.memory)}" if session_controller.memory else ""
    )
    lines = [
        f"kernel {session_controller.state}"
        + (f", ready after {ready:.2f} s" if ready else "")
        + memory,
        f"this process {os.getpid()}, memory {human_bytes(memory_of(os.getpid()))}"
        f", first frame after {human_seconds(bench.frame_seconds)}",
    ]
    if session_controller.hello:
        shown = {name: value for name, value in session_controller.hello.items() if name != "verbs"}
        lines.append(f"inspector {shown}")
    trips = sorted(screen.panes.controller(ValueController).round_trips)
    if trips:
        lines.append(
            f"value round trips: {len(trips)}, median {trips[len(trips) // 2] * 1000:.1f} ms, "
            f"longest {trips[-1] * 1000:.1f} ms"
        )
    return lines


def _files(screen: MainScreen) -> list[str]:
    bench = screen.bench
    session, history = bench.link.session, bench.link.history
    lines = []
    if session is not None:
        lines.append(f"journal {session.journal.path or session.journal.problem}")
        log = getattr(session, "log_file", None)
        lines += [f"log file {log}"] * bool(log)
    if history is not None:
        lines.append(f"history {history.problem or history.path}")
    return [*lines, f"keys file {bench.keys_file}"]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
