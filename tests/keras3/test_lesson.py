"""The lesson on Keras 3, which the tests of the others leave out where Keras 2.3.1 is installed."""

import keras3_there  # noqa: F401  # isort: skip
import os
import subprocess
import sys

import lesson_runs
import pytest

from kbench.workbench.lessons import lesson_author, lesson_files

pytestmark = pytest.mark.slow

LESSON = next(
    one for one in lesson_files.catalogue() if one.path.stem.endswith(lesson_runs.OF_KERAS_3)
)


def test_author_rules():
    assert lesson_author.faults(LESSON) == []


def test_checks_tell_right_answers_from_wrong_ones():
    assert lesson_runs.misjudged(LESSON) == []


def test_on_the_command_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "kbench", "learn", str(LESSON.number)],
        input=lesson_runs.walked(LESSON),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(LESSON.path.parents[1]),
            "KBENCH_STATE_DIR": str(tmp_path),
            "KERAS_HOME": str(tmp_path),
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in LESSON.exercises:
        assert f"{name}: not yet. " in done.stdout
        assert f"{name}: passed. " in done.stdout, done.stdout
