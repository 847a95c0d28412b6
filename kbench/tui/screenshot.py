r"""Pictures of the workbench, drawn without a terminal and the same every time.

A script (`.kbs`) is lines of text: what stands there is typed and run (`\n` in a line breaks it),
except for `#` remarks and lines that begin with a colon:

    :press KEY KEY ...  keys by their names, one after the other
    :type TEXT          typed where the cursor is, at the prompt or in a dialog
    :size 100x30        of the screen, unless the command line says another
    :took 31 4.2 ...    microseconds of the steps of the runs that follow, as recorded

Cells run for real in this process, one after another; clock and timings are fixed.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from textual.widgets import Input

from kbench.tui.app import WorkbenchApp
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.session.link import Opened
from kbench.workbench.core_types import JsonObject, Row

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from kbench.engine.runtime.profile import RunRecord
    from kbench.workbench.core_types import Reply
    from kbench.workbench.session.session_interface import Session

NUM_THREADS = 2
"""Threads that every picture says the kernels use."""
FIXED_SECONDS = 0.0012
"""What every cell and every step of a plan is said to have taken."""
LIMITS = {  # of the machine on which the steps of docs/plan.kbs were recorded
    "copy_gb_per_s": 30.8,
    "gemm_float32": 405.0,
    "gemm_float64": 200.0,
    "threads": NUM_THREADS,
}
POLL_SECONDS = 0.05
"""Seconds between two looks at whether anything is under way."""
SETTLE_SECONDS = 0.3
"""Seconds of rest after a command: longer than the inspector gathers changes."""
LAST_SETTLE_SECONDS = 1.6
"""Seconds of rest before the picture: longer than a changed row stays marked."""
MAX_POLLS = 600
"""Looks after which the picture is drawn whatever is under way: half a minute."""
GENEROUS_BUDGET_SECONDS = 600.0
"""What the inspector may take for an answer, on however busy a machine."""
NEVER = 1e-9
"""Samples a second of a running cell: none."""
_SIZE = re.compile(r"(\d{2,4})x(\d{1,3})")
_NUMBERS = re.compile(r"[\d.]+( [\d.]+)*")


SIZE = 120, 40
"""Columns and rows of a script that says none."""


class Script(Struct, frozen=True):
    """What to do, as (command, argument) with the commands run, press, type and took."""

    steps: list[tuple[str, str]]
    size: tuple[int, int] = SIZE


def render(
    out: str | Path, size: tuple[int, int] | None, theme: str | None, script: str | Path | None
) -> None:
    """Write the picture that the workbench shows after the script, as SVG.

    Raises:
        OSError: the script cannot be read or the picture cannot be written.
        ValueError: a line of the script that makes no sense, or an unknown theme.
    """
    lines = Path(script).read_text(encoding="utf-8").splitlines() if script else []
    wanted = parse(lines)
    with _compiling_at_once(), _without_hurry(), tempfile.TemporaryDirectory() as folder:
        svg = asyncio.run(_draw(size or wanted.size, theme or "", wanted.steps, folder))
    Path(out).write_text(svg, encoding="utf-8")


def parse(lines: list[str]) -> Script:
    """Read a script.

    Raises:
        ValueError: a line that makes no sense.
    """
    steps: list[tuple[str, str]] = []
    size = SIZE
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        command, _, argument = line[1:].partition(" ")
        if not line.startswith(":"):
            steps.append(("run", line.replace("\\n", "\n")))
        elif command == "size" and (found := _SIZE.fullmatch(argument)):
            size = (int(found[1]), int(found[2]))
        elif command == "took" and _NUMBERS.fullmatch(argument):
            steps.append((command, argument))
        elif command in ("press", "type") and argument:
            steps.append((command, argument))
        else:
            known = ":press KEYS, :type TEXT, :size 120x40, :took MICROSECONDS"
            raise ValueError(f"line {number}: {line!r} is none of {known}")
    return Script(steps, size)


async def _draw(
    size: tuple[int, int], theme: str, steps: list[tuple[str, str]], folder: str
) -> str:
    timing, console = _Timing(), Console(file=io.StringIO(), color_system="truecolor")
    app = WorkbenchApp(lambda: Opened(_fixed_session(timing)), theme=theme, clock=lambda: 0.0)
    app.console = console  # a terminal that can draw all colours
    app.progress_file = Path(folder) / "lessons.json"  # a picture shows nobody's progress
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
                elif command == "took":
                    timing.steps = [float(number) / 1e6 for number in argument.split()]
                else:
                    _type(app, argument)
                await _settle(pilot)
            await _settle(pilot, LAST_SETTLE_SECONDS)
            svg = app.export_screenshot(title="kbench", simplify=True)
    finally:
        timing.stop()
        app.link.close()
    # Rich names its styles after a hash of everything; a fixed name keeps differences readable.
    return re.sub(r"terminal-\d+", "terminal-kbench", svg)


def _type(app: WorkbenchApp, text: str) -> None:
    """At the cursor of a dialog, or else of the prompt."""
    if isinstance(app.focused, Input):
        app.focused.insert_text_at_cursor(text)
    else:
        app.screen.query_one(Prompt).insert(text)


async def _settle(pilot: Pilot[int], seconds: float = SETTLE_SECONDS) -> None:
    """Wait until nothing has been under way for so long."""
    quiet = 0.0
    for _ in range(MAX_POLLS):
        await pilot.pause(POLL_SECONDS)
        busy = any(not worker.is_finished for worker in pilot.app.workers)
        quiet = 0.0 if busy else quiet + POLL_SECONDS
        if quiet >= seconds:
            return


class _Timing:
    """Gives the steps of every run the seconds that were recorded once."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.stop: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Stand before all who listen to runs."""
        from kbench.engine.runtime import profile

        self.stop = profile.run_finished.subscribe(self.fix)

    def fix(self, record: RunRecord) -> None:
        """Replace what was measured, before anybody else sees the record."""
        taken = [*self.steps[: len(record.steps)]]
        taken += [FIXED_SECONDS] * (len(record.steps) - len(taken))
        record.steps[:] = [
            replace(step, seconds=seconds)
            for step, seconds in zip(record.steps, taken, strict=True)
        ]
        record.seconds = sum(taken)


def _fixed_session(timing: _Timing) -> Session:
    """A session in this process that tells nothing of this machine and its speed."""
    from kbench.engine.runtime import config
    from kbench.workbench.history.journal import Journal
    from kbench.workbench.protocol.runs import Trace
    from kbench.workbench.session.local_session import LocalSession

    class FixedSession(LocalSession):
        """Whatever tells seconds tells `FIXED_SECONDS`, but for the steps of runs."""

        def start(self) -> None:
            config.assign("num_threads", NUM_THREADS)
            timing.start()
            super().start()
            self.ask(Trace(on=True))

        def _emit(self, event: Any) -> None:
            if "seconds" in event.__struct_fields__:
                event = replace(event, seconds=FIXED_SECONDS)
            if "data" in event.__struct_fields__:
                event = replace(event, data=_timeless(event.data))
            super()._emit(event)

        def request(self, verb: str, **arguments: object) -> Future[Reply]:
            future = super().request(verb, **arguments)
            data = future.result().get("data") or {}
            if verb == "plan" and data:
                data["limits"] = LIMITS
                if data["run"]:
                    data["run"].update(kernels=[], compiled=0, loaded=0, pending=0)
            return future

    return FixedSession(Journal(None))


def _timeless(data: Row) -> JsonObject:
    """What the kernel tells, as if it had taken `FIXED_SECONDS`."""
    return {name: FIXED_SECONDS if name == "seconds" else value for name, value in data.items()}


@contextmanager
def _without_hurry() -> Iterator[None]:
    """On a busy machine, what is quick elsewhere must not be put off as slow.

    Nor is anything looked at while a cell runs: how often that is depends on the machine.
    """
    from kbench.workbench.inspector import gradient_verbs
    from kbench.workbench.kernel import live_sampling
    from kbench.workbench.nan import nan_verbs
    from kbench.workbench.watches import watches

    modules: tuple[Any, ...] = (gradient_verbs, nan_verbs, watches)
    before = [module.BUDGET_SECONDS for module in modules]
    rate = live_sampling.RATE
    live_sampling.RATE = NEVER
    for module in modules:
        module.BUDGET_SECONDS = GENEROUS_BUDGET_SECONDS
    try:
        yield
    finally:
        for module, budget in zip(modules, before, strict=True):
            module.BUDGET_SECONDS = budget
        live_sampling.RATE = rate


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
