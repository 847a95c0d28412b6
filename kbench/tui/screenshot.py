r"""Pictures of the workbench, drawn without a terminal and the same every time.

A script (`.kbs`) is lines of text: what stands there is typed and run, except for lines that begin
with `:press key key ...`, `:type text` and `#` for remarks; `\n` in a line breaks it. Cells run for
real in this process, one after another; clock and timings are fixed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.tui.app import WorkbenchApp
from kbench.tui.link import Opened
from kbench.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from kbench.workbench.base import Reply, Session

THREADS = 2
SECONDS = 0.0012  # what every cell and every step of a plan is said to have taken
PAUSE = 0.05
SHORT = 0.3  # seconds: longer than the inspector gathers changes
LONG = 1.6  # longer than a changed row stays marked
MOST_PAUSES = 600


def render(
    out: str | Path, size: tuple[int, int] | None, theme: str | None, script: str | Path | None
) -> None:
    """Write the picture that the workbench shows after the script, as SVG.

    Raises:
        OSError: the script cannot be read or the picture cannot be written.
        ValueError: a line of the script that makes no sense, or an unknown theme.
    """
    lines = Path(script).read_text(encoding="utf-8").splitlines() if script else []
    with _compiling_at_once():
        svg = asyncio.run(_draw(size or (120, 40), theme or "", _steps(lines)))
    Path(out).write_text(svg, encoding="utf-8")


def _steps(lines: list[str]) -> list[tuple[str, str]]:
    """The script as (command, argument): run, press or type."""
    steps: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(":"):
            steps.append(("run", line.replace("\\n", "\n")))
            continue
        command, _, argument = line[1:].partition(" ")
        if command not in ("press", "type") or not argument:
            raise ValueError(f"line {number}: {line!r} is none of :press KEYS, :type TEXT")
        steps.append((command, argument))
    return steps


async def _draw(size: tuple[int, int], theme: str, steps: list[tuple[str, str]]) -> str:
    app = WorkbenchApp(lambda: Opened(_fixed_session()), theme=theme, clock=lambda: 0.0)
    try:
        async with app.run_test(size=size) as pilot:
            await _settle(pilot)
            if app.problems:
                raise ValueError("; ".join(app.problems))
            for command, argument in steps:
                if command == "run":
                    prompt = app.screen.query_one(Prompt)
                    prompt.put(argument)
                    prompt.action_run()
                elif command == "press":
                    await pilot.press(*argument.split())
                else:
                    app.screen.query_one(Prompt).insert(argument)
                await _settle(pilot)
            await _settle(pilot, LONG)
            svg = app.export_screenshot(title="kbench", simplify=True)
    finally:
        app.link.close()
    # Rich names its styles after a hash of everything; a fixed name keeps differences readable.
    return re.sub(r"terminal-\d+", "terminal-kbench", svg)


async def _settle(pilot: Pilot[Any], seconds: float = SHORT) -> None:
    """Wait until nothing has been under way for so long."""
    quiet = 0.0
    for _ in range(MOST_PAUSES):
        await pilot.pause(PAUSE)
        busy = any(not worker.is_finished for worker in pilot.app.workers)
        quiet = 0.0 if busy else quiet + PAUSE
        if quiet >= seconds:
            return


def _fixed_session() -> Session:
    """A session in this process whose cells and steps all take the same time."""
    from kbench.engine import config
    from kbench.workbench.journal import Journal
    from kbench.workbench.session import LocalSession

    class FixedSession(LocalSession):
        """Whatever tells seconds tells `SECONDS`."""

        def start(self) -> None:
            config.assign("num_threads", THREADS)
            super().start()
            self.request("trace", on=True)

        def _emit(self, event: Any) -> None:
            if any(field.name == "seconds" for field in dataclasses.fields(event)):
                event = dataclasses.replace(event, seconds=SECONDS)
            super()._emit(event)

        def request(self, verb: str, **arguments: Any) -> Future[Reply]:
            future = super().request(verb, **arguments)
            if verb == "plan":
                reply = future.result()
                future = Future()
                future.set_result(_timeless(reply))
            return future

    return FixedSession(Journal(None))


def _timeless(reply: Reply) -> Reply:
    """A reply to `plan` in which every step takes `SECONDS`."""
    run = (reply.get("data") or {}).get("run")
    if run:
        run["seconds"] = SECONDS * len(run["rows"])
        for row in run["rows"]:
            row["seconds"] = SECONDS
            row["gb_per_s"] = row["bytes"] / SECONDS / 1e9
            row["gflop_per_s"] = row["flops"] / SECONDS / 1e9
    return reply


@contextmanager
def _compiling_at_once() -> Iterator[None]:
    """Without it, the forms in the plan would depend on how far the compiler has come."""
    before = os.environ.get("KBENCH_JIT")
    os.environ["KBENCH_JIT"] = "wait"
    try:
        yield
    finally:
        os.environ.pop("KBENCH_JIT")
        if before is not None:
            os.environ["KBENCH_JIT"] = before
