"""How far a long cell has come: a bar below it, from half a second on, and a line when it is done.

The bar stands where it came up, between what the cell showed before and since; when the cell has
ended it goes, and the line is the last thing that the cell shows.

The same facts as in the terminal workbench (`workbench/progress/pace.py`): loops that tell of
themselves, Keras' epochs, and loops of the user's whose bounds can be read; calls per second, time
left, and kernels that are being compiled. Where Keras or tqdm draw bars of their own, there is no
second one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from kbench.engine.core import fork_safety
from kbench.engine.inspect import describe
from kbench.engine.runtime import config, profile
from kbench.notebook.base.redraw import shell
from kbench.notebook.drawing import loss_picture
from kbench.notebook.html import views
from kbench.notebook.markup.markup import Html, element, escape, join
from kbench.notebook.markup.style import OUTPUT
from kbench.workbench.core_types import JsonObject
from kbench.workbench.kernel import pane_channel
from kbench.workbench.progress import courses, loops, pace
from kbench.workbench.progress import progress as cell_progress
from kbench.workbench.progress.duration import clock
from kbench.workbench.progress.progress import Progress

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import CellResult, Shell
    from kbench.workbench.progress.course import Course

Item = TypeVar("Item")
Bundle = dict[str, str]
Show = Callable[[Bundle], Callable[[Bundle], None]]  # shows something; gives what changes it

# What is left of a bar: outputs cannot be taken away, but front ends can be told to leave no room.
GONE = {
    "text/plain": "",
    "text/html": f"<style>{OUTPUT}:has(.kb-gone){{display:none}}</style>"
    '<span class="kb-gone"></span>',
}
_BARS = "_kbench_bars"
_LOOPS = frozenset(
    "fit_loop predict_loop test_loop fit_generator evaluate_generator predict_generator".split()
)
_MAX_FRAMES = 200
"""Frames that are looked through for a loop of Keras, from the innermost on."""


class CellProgressBar(pace.Pace):
    """The bar of the running cell of one shell."""

    def __init__(self, show: Show, names: Callable[[], Mapping[str, object]] = dict) -> None:
        super().__init__(self._show_progress, names)
        self._show = show
        self._shown = fork_safety.lock()
        self._change: Callable[[Bundle], None] | None = None
        self._last: JsonObject = {}
        self._depth = 0
        self._since = 0.0
        self._foreign = False  # another bar was seen in this cell, which stays the only one

    def before_cell(self, *_: object) -> None:
        """A cell begins; one that it runs itself is a part of it."""
        self._depth += 1
        if self._depth == 1:
            self._since = time.monotonic()
            self._foreign = False
            self.cell_started()

    def after_cell(self, result: CellResult | None = None) -> None:
        """The cell has ended: its bar goes, and a line at its end says how far it came."""
        self._depth = max(self._depth - 1, 0)
        if self._depth:
            return
        self.cell_ended()
        with self._shown:
            change, self._change = self._change, None
            if change is not None:
                failed = result is not None and not getattr(result, "success", True)
                change(GONE)
                took = time.monotonic() - self._since
                found = courses.program.of_this_cell()
                self._show(done(self._last, took, failed, found, self.called))

    def _sample(self, estimate: pace.Estimate) -> None:
        """As the workbench looks, and at what is being compiled; from the thread that looks."""
        self._foreign = self._foreign or own_bar(self._runner)
        if self._foreign:
            self._leave_courses()  # nothing of this cell will be on show
            return
        found = loops.running(self._runner)
        calls = profile.calls.count - self._first
        data = estimate.sample(time.monotonic(), calls, profile.calls.name, found)
        data["compiling"] = _compiling(calls)
        if found or calls > 1 or data["compiling"]:
            self._show_progress(data)

    def _tell_course(self, done: bool) -> None:
        """The bar draws it with the rest."""

    def _show_progress(self, data: JsonObject) -> None:
        with self._shown:
            if not self._busy:
                return
            self._last = data
            bundle = drawn(data, courses.program.of_this_cell(), self.called)
            if self._change is None:
                self._change = self._show(bundle)
            else:
                self._change(bundle)


def _compiling(calls: int) -> int:
    """Kernels that are not ready yet, where the cell has to do with any."""
    kernels = sys.modules.get("kbench.engine.jit.service")
    if kernels is None or (calls == 0 and config.jit_mode() != "wait"):
        return 0
    return int(kernels.stats().pending)


def own_bar(thread: int) -> bool:
    """Whether a thread is in a loop of Keras, or any in one of tqdm, that shows how far it is."""
    bar = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    if len(getattr(bar, "_instances", None) or ()):
        return True
    frame = sys._current_frames().get(thread)
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return False
        code = frame.f_code
        if code.co_name in _LOOPS and "keras" in code.co_filename:
            return bool(frame.f_locals.get("verbose"))
        frame = frame.f_back
    return False


# ------------------------------------------------------------------ in words


def drawn(
    data: JsonObject, losses: Sequence[Course] = (), called: loss_picture.Called = lambda _: None
) -> Bundle:
    """A bar of the outermost loop, what is known in words, and the course of losses."""
    text = words(data)
    parts: list[Html] = []
    for _name, count, total in data["loops"][:1]:
        bar = element("progress", text, value=str(count), max=str(total), aria_label=text)
        parts.append(join([bar, escape(" ")]))
    parts.append(views.long(text))
    return _with_losses(text, element("p", join(parts)), losses, called)


def _with_losses(
    text: str, content: Html, losses: Sequence[Course], called: loss_picture.Called
) -> Bundle:
    curves = loss_picture.losses(losses, called)
    told = "\n".join([text, *loss_picture.lines(losses, called)])
    return {"text/plain": told, "text/html": views.styled(join([content, curves]))}


def words(data: JsonObject) -> str:
    """`epoch 4 of 10, batch 45 of 60, 182 calls/s, 1:20 left`, of what is known."""
    found = [
        f"{describe.printable(name)} {min(count + 1, total)} of {total}"
        for name, count, total in data["loops"]
    ]
    if data["calls"] and data.get("rate"):
        found.append(f"{data['rate']:.3g} calls/s")
    elif data["calls"] > 1:
        found.append(f"{data['calls']} calls")
    if data.get("left") is not None:
        found.append(f"{clock(data['left'])} left")
    if data.get("compiling"):
        kernels = "kernel is" if data["compiling"] == 1 else "kernels are"
        found.append(f"{data['compiling']} {kernels} being compiled")
    return ", ".join(found)


def done(
    data: JsonObject,
    seconds: float,
    failed: bool,
    losses: Sequence[Course] = (),
    called: loss_picture.Called = lambda _: None,
) -> Bundle:
    """The line that stays: how long it took, where it stopped if it did, and what losses did."""
    text = f"stopped after {clock(seconds)}" if failed else f"done in {clock(seconds)}"
    at = [
        f"{describe.printable(name)} {min(count + 1, total)} of {total}"
        for name, count, total in data.get("loops", [])
    ]
    if failed and at:
        text = f"{text}, last seen at {', '.join(at)}"
    content = element("p", views.long(text), class_="kb-note")
    return _with_losses(text, content, losses, called)


# ------------------------------------------------------------------ in a shell


def _display(bundle: Bundle) -> Callable[[Bundle], None]:
    """Show something below the running cell."""
    from IPython.display import display

    handle = display(bundle, raw=True, display_id=True)

    def change(other: Bundle) -> None:
        handle.update(other, raw=True)

    return change


def install(running: Shell, show: Show = _display) -> Callable[[], None]:
    """Draw bars in a shell from its next cell on; the returned function undoes it."""
    if getattr(running, _BARS, None) is not None:
        return lambda: None
    bar = CellProgressBar(show, lambda: dict(running.user_ns))
    setattr(running, _BARS, bar)
    running.events.register("pre_run_cell", bar.before_cell)
    running.events.register("post_run_cell", bar.after_cell)

    def restore() -> None:
        if getattr(running, _BARS, None) is not bar:
            return
        delattr(running, _BARS)
        running.events.unregister("pre_run_cell", bar.before_cell)
        running.events.unregister("post_run_cell", bar.after_cell)
        bar.cell_ended()
        bar.close()

    return restore


def progress(
    iterable: Iterable[Item], total: int | None = None, name: str = "step"
) -> Progress[Item]:
    """The same items; a loop over them in a notebook shows how far it is and what is left.

    As `kbench.progress`, and without `%load_ext kbench`: bars are drawn from here on.

    Arguments:
        iterable: what the loop runs over.
        total: how many items there are, where `len(iterable)` does not tell.
        name: the word for one item, such as "epoch".
    Returns:
        An iterable, with `done` and `total`.
    Raises:
        ArgumentError: not iterable, or a total that is no count.
    """
    found = cell_progress.progress(iterable, total, name)
    running = shell()
    if running is not None and hasattr(running, "kernel") and not hasattr(running, _BARS):
        if pane_channel.of(running) is None:  # the workbench tells the pace itself
            install(running)
            getattr(running, _BARS).before_cell()  # this cell has begun already
    return found
