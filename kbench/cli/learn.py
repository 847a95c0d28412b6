"""`kbench learn`: the lessons as plain steps, line by line, for any terminal and screen readers.

The lesson, its checks and the progress are `workbench`'s; here is only the conversation. Whatever
does not begin with a colon is Python and runs, so the learner may try things at every step.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from kbench.cli.exit_codes import (
    OK,
    PICTURES,
    USAGE,
    load_engine,
    names_engine,
    terminal_refusal,
    workbench,
)
from kbench.workbench.lessons.lesson_coach import Coach
from kbench.workbench.lessons.lesson_files import Lesson, LessonError, Step, load
from kbench.workbench.lessons.lesson_progress import Progress

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

LOADED = "%load_ext kbench"  # a notebook needs it; here it is done
HELP = """:next      go on           :back   the step before
:run       run the code shown      :check  check the exercise
:hint      the next hint           :solution [sure]
:skip      enter the answer and go on
:list      the exercises           :reset  forget what you have done
:again     show the step again     :quit   leave; your place is kept
Anything else is Python, and K is the backend. Enter alone runs the code shown and goes on."""


def _make_shell() -> InteractiveShell:
    """IPython in this process, with K and the magics that lessons use; errors are folded."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    import kbench
    from kbench.cli.plain import fold_errors

    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.colors = "nocolor"
    module = ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, K=kbench)
    sys.modules["__main__"] = module
    shell = InteractiveShell.instance(config=settings, user_module=module)
    shell.run_line_magic("load_ext", "kbench")
    fold_errors(shell)
    return shell


class Walk:
    """One learner's way through one lesson."""

    def __init__(self, lesson: Lesson, progress: Progress) -> None:
        self.shell = _make_shell()
        self.lesson = lesson
        self.coach = Coach(lesson, self.shell.user_ns, progress)
        self.index = max(progress.step(lesson), 0)

    @property
    def step(self) -> Step:
        """Where the learner is."""
        return self.lesson.steps[self.index]

    def run(self) -> int:
        """Ask and answer until the lesson ends, the learner leaves, or input does."""
        print(f"Lesson {self.lesson.number}: {self.lesson.title}   (:help lists the commands)\n")
        self._catch_up()
        self._show()
        while True:
            try:
                line = input(self._prompt())
            except EOFError:
                print()
                return OK
            except KeyboardInterrupt:
                print("\n(:quit leaves)")
                continue
            if not self._answer(line):
                return OK

    def _prompt(self) -> str:
        return f"[{self.index + 1}/{len(self.lesson.steps)}] "

    def _catch_up(self) -> None:
        """Run what earlier steps set up, quietly, so that a resumed lesson finds its names."""
        done = self.lesson.steps[: self.index]
        if not any(step.is_code for step in done):
            return
        print(f"(running again what the first {len(done)} steps made)\n")
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            for step in done:
                self._run_step(step)

    def _run_step(self, step: Step) -> None:
        """Run one step; an exercise that is done runs as its solution."""
        if step.role in ("setup", "demo"):
            self._python(step.text)
        elif step.is_exercise and step.name in self.coach.progress.passed(self.lesson):
            self._python(self.lesson.exercise(step.name).solution)

    def _python(self, source: str) -> None:
        """Run a cell; the value of its last expression is shown, as in a notebook."""
        lines = [line for line in source.splitlines() if line.strip() != LOADED]
        self.shell.run_cell("\n".join(lines), store_history=True)

    def _show(self) -> None:
        step = self.step
        if not step.is_code:
            print(step.text.rstrip(), "\n")
            return
        titles = {"exercise": f"Exercise {step.name}: fill in the ___", "check": "Check"}
        titles["predict"] = f"Predict {step.name}: fill in the ___ before running it"
        print(f"{titles.get(step.role, 'Try this')}\n")
        for line in step.text.rstrip().splitlines():
            print(f"    {line}".rstrip())
        print()

    def _read_more(self, line: str) -> str | None:
        """The whole of the input that began with `line`; None when it was given up."""
        source = line
        while self.shell.check_complete(source)[0] == "incomplete":
            try:
                source += "\n" + input("  ... ")
            except (EOFError, KeyboardInterrupt):
                print()
                return None
        return source

    def _answer(self, line: str) -> bool:
        """Do what one line asks for; False to leave."""
        text = line.strip()
        if not text.startswith(":") and text:
            source = self._read_more(line)
            if source is not None:
                self._python(source)
            return True
        word, _, rest = text.removeprefix(":").partition(" ")
        if not text:
            return self._enter()
        actions: dict[str, Callable[[], object]] = {
            "next": lambda: self._go(1),
            "back": lambda: self._go(-1),
            "run": lambda: self._python(self.step.text) if self.step.is_code else None,
            "again": self._show,
            "check": self._check,
            "hint": lambda: print(self.coach.hint(self._exercise())),
            "solution": lambda: print(self.coach.solution(self._exercise(), rest == "sure")),
            "skip": self._skip,
            "list": lambda: print(self.coach.overview()),
            "reset": self._reset,
            "help": lambda: print(HELP),
        }
        if word in ("quit", "q"):
            return False
        action = actions.get(word)
        if action is None:
            print(f"unknown command :{word}; :help lists them")
            return True
        return action() is not False

    def _exercise(self) -> str | None:
        return (self.step.of or self.step.name) if self.step.role in _ASKED else None

    def _enter(self) -> bool:
        step = self.step
        if step.role == "check":
            self._check()
        elif step.is_exercise and step.name not in self.coach.progress.passed(self.lesson):
            print("type your answer, then :check; or :hint, :skip, :next")
            return True
        else:
            self._run_step(step)
        return self._go(1)

    def _go(self, by: int) -> bool:
        target = self.index + by
        if target >= len(self.lesson.steps):
            print(self.coach.overview())
            return False
        self.index = max(target, 0)
        self.coach.progress.record_step(self.lesson, self.index)
        self._show()
        return True

    def _check(self) -> None:
        print(self.coach.check(self._exercise()).message)

    def _skip(self) -> bool:
        if not self.step.is_exercise:
            return self._go(1)
        solution = self.coach.skip(self._exercise())
        print(solution)
        self._python(solution)
        return self._go(1)

    def _reset(self) -> bool:
        print(self.coach.reset(":again"))
        self.index = 0
        self._show()
        return True


_ASKED = ("exercise", "predict", "check")


def _listing(progress: Progress) -> str:
    from kbench.workbench.lessons.lesson_files import folder, shelf

    found = shelf()
    titles = [known.title for known in found.values() if isinstance(known, Lesson)]
    width = max(map(len, titles), default=0)
    lines = []
    for number, lesson in found.items():
        if isinstance(lesson, LessonError):
            lines.append(f"{number:>3}  cannot be read: {lesson}")
            continue
        done, all_of_them = len(progress.passed(lesson)), len(lesson.exercises)
        words = f"{done} of {all_of_them} exercises done"
        if progress.changed(lesson):
            words += "; it has changed since you took it and starts over"
        lines.append(f"{number:>3}  {lesson.title:<{width}}  {words}")
    place = folder()  # which an installed package holds, and a clone has beside the package
    with contextlib.suppress(OSError, ValueError):  # elsewhere, or in a folder that is gone
        place = place.relative_to(Path.cwd())
    lines.append(f"kbench learn NUMBER takes one; or open the notebooks in {place}{os.sep}")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kbench learn",
        description="Take the lessons, beside the workbench's panes where there is a terminal.",
        epilog="Without a terminal, with TERM=dumb or --plain, a lesson runs line by line.",
    )
    parser.add_argument(
        "number", nargs="?", type=int, help="the lesson to open; without it you choose one"
    )
    parser.add_argument(
        "--list", action="store_true", help="list the lessons and your progress in each"
    )
    parser.add_argument("--reset-progress", action="store_true", help="forget what was done")
    parser.add_argument("--plain", action="store_true", help="line by line, for screen readers")
    parser.add_argument("--theme", help="of the workbench: dark, light, contrast, ansi ...")
    parser.add_argument("--motion", choices=("full", "none"), help="none: no animation")
    parser.add_argument("--pictures", choices=PICTURES, help="how pictures are drawn")
    parser.add_argument("--ascii", action="store_true", help="without box and block characters")
    return parser


def main(arguments: list[str]) -> int:
    """`kbench learn [NUMBER] [--list] [--plain] [--reset-progress]`."""
    parser = _parser()
    options = parser.parse_args(arguments)
    looks = options.theme or options.motion or options.ascii or options.pictures
    if options.plain and looks:
        names = "--theme, --motion, --pictures and --ascii"
        parser.error(f"{names} only apply to the workbench, not to --plain")
    if names_engine():
        load_engine()  # so that one that is not available is told first
    progress = Progress()
    lines = options.plain or terminal_refusal() is not None
    try:
        lesson = None if options.number is None else load(options.number)
        if options.reset_progress:
            progress.reset(lesson)
        if options.list or (lesson is None and (lines or options.reset_progress)):
            print(_listing(progress))
            return OK
        if not lines:
            options.lesson = options.number or 0
            return workbench(options)
        assert lesson is not None
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  line editing for input()
        return Walk(lesson, progress).run()
    except LessonError as error:
        print(f"kbench: {error}", file=sys.stderr)
        return USAGE
