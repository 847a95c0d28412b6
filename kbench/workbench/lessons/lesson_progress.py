"""How far a learner came: one JSON file in the state folder, shared by every front end.

Nothing but names of lessons and exercises and counts is stored, and nothing leaves the machine. A
broken file is put aside, never fatal; a folder that cannot be written keeps progress in memory.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypedDict

from kbench.engine.runtime import paths
from kbench.workbench.lessons.lesson_files import Lesson

FORMAT_VERSION = 1
_FAILURES_BEFORE_SOLUTION = 2
_MAX_GUESS_CHARACTERS = 500
"""Of a prediction that is stored: a few lines."""


Counter = Literal["failures", "hints"]


class _Entry(TypedDict, total=False):
    """How far one lesson came; a key is missing while there is nothing to tell."""

    passed: list[str]
    failures: dict[str, int]
    hints: dict[str, int]
    guesses: dict[str, str]
    step: int


class _State(TypedDict):
    """What the file holds; a lesson's key names its text, too."""

    format: int
    lessons: dict[str, _Entry]


class Progress:
    """The record of every lesson; each change is written at once, whole or not at all."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or paths.state_dir() / "lessons.json"
        self._memory: _State | None = None
        self.note: str | None = None

    def passed(self, lesson: Lesson) -> set[str]:
        """Names of the exercises solved or skipped."""
        known = self._entry(lesson).get("passed", [])
        return {name for name in known if name in lesson.exercises}

    def failures(self, lesson: Lesson, exercise: str) -> int:
        """How often the check of `exercise` failed since the last reset."""
        return int(self._entry(lesson).get("failures", {}).get(exercise, 0))

    def hints(self, lesson: Lesson, exercise: str) -> int:
        """How many hints of `exercise` were shown."""
        return int(self._entry(lesson).get("hints", {}).get(exercise, 0))

    def step(self, lesson: Lesson) -> int:
        """Index of the step to resume at."""
        return min(int(self._entry(lesson).get("step", 0)), len(lesson.steps) - 1)

    def guess(self, lesson: Lesson, exercise: str) -> str:
        """What was predicted before it was run; '' when nothing was."""
        return str(self._entry(lesson).get("guesses", {}).get(exercise, ""))

    def changed(self, lesson: Lesson) -> bool:
        """Whether an earlier text of this lesson was begun, and this one not yet."""
        known = self._load()["lessons"]
        return lesson.key not in known and any(
            key.partition("@")[0] == lesson.name for key in known
        )

    def may_see_solution(self, lesson: Lesson, exercise: str) -> bool:
        """A solution is shown after two failed checks, or once the exercise is done."""
        tried = self.failures(lesson, exercise) >= _FAILURES_BEFORE_SOLUTION
        return tried or exercise in self.passed(lesson)

    def record_pass(self, lesson: Lesson, exercise: str) -> None:
        """Remember that `exercise` is done."""

        def change(entry: _Entry) -> None:
            entry["passed"] = sorted({*entry.get("passed", []), exercise})

        self._change(lesson, change)

    def record_failure(self, lesson: Lesson, exercise: str) -> None:
        """Count one failed check."""
        self._count(lesson, "failures", exercise)

    def record_hint(self, lesson: Lesson, exercise: str) -> None:
        """Count one hint shown."""
        self._count(lesson, "hints", exercise)

    def record_guess(self, lesson: Lesson, exercise: str, code: str) -> None:
        """Remember a prediction as it was typed."""

        def change(entry: _Entry) -> None:
            entry.setdefault("guesses", {})[exercise] = code[:_MAX_GUESS_CHARACTERS]

        self._change(lesson, change)

    def record_step(self, lesson: Lesson, index: int) -> None:
        """Remember where to resume."""
        self._change(lesson, lambda entry: entry.update({"step": index}))

    def reset(self, lesson: Lesson | None = None) -> None:
        """Forget one lesson, or all of them."""
        state = self._load()
        state["lessons"] = (
            {key: entry for key, entry in state["lessons"].items() if key != lesson.key}
            if lesson
            else {}
        )
        self._store(state)

    def _count(self, lesson: Lesson, counter: Counter, exercise: str) -> None:
        def change(entry: _Entry) -> None:
            counts = entry.setdefault(counter, {})
            counts[exercise] = int(counts.get(exercise, 0)) + 1

        self._change(lesson, change)

    def _entry(self, lesson: Lesson) -> _Entry:
        entry: _Entry = self._load()["lessons"].get(lesson.key, {})
        return entry

    def _change(self, lesson: Lesson, change: Callable[[_Entry], object]) -> None:
        """Read the newest state, change this lesson's entry, write: another front end may be on."""
        state = self._load()
        change(state["lessons"].setdefault(lesson.key, {}))
        self._store(state)

    def _load(self) -> _State:
        if self.note and self._memory:
            return self._memory
        try:
            state = json.loads(paths.read_text(self._path))
            if not _sound(state):
                raise ValueError("not a progress file")
        except FileNotFoundError:
            return {"format": FORMAT_VERSION, "lessons": {}}
        except OSError:
            return self._memory or {"format": FORMAT_VERSION, "lessons": {}}
        except (ValueError, RecursionError):
            self._put_aside()
            return {"format": FORMAT_VERSION, "lessons": {}}
        found: _State = state
        return found

    def _put_aside(self) -> None:
        aside = self._path.with_suffix(".broken.json")
        try:
            os.replace(self._path, aside)
        except OSError:
            return
        self.note = None

    def _store(self, state: _State) -> None:
        """Write whole or not at all; what cannot be written stays in memory, and `note` says so."""
        self._memory = state
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=".lessons-")
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(state, stream, indent=1, sort_keys=True)
            os.replace(name, self._path)
            self.note = None
        except OSError as error:
            self.note = f"progress is kept for this session only: {error.strerror}"


def _sound(state: object) -> bool:
    """Whether `state` has the form that this module writes."""
    if not isinstance(state, dict) or state.get("format") != FORMAT_VERSION:
        return False
    lessons = state.get("lessons")
    return isinstance(lessons, dict) and all(_sound_entry(entry) for entry in lessons.values())


def _sound_entry(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("step", 0), int):
        return False
    counters = [entry.get("failures", {}), entry.get("hints", {})]
    counted = all(
        isinstance(counter, dict) and all(isinstance(n, int) for n in counter.values())
        for counter in counters
    )
    guesses = isinstance(entry.get("guesses", {}), dict)
    return counted and guesses and isinstance(entry.get("passed", []), list)
