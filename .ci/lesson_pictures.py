"""The pictures of the lessons: what their cells draw, stored in the notebooks for readers.

    python .ci/lesson_pictures.py       runs the lessons that have pictures, stores what they draw
    python .ci/lesson_pictures.py 4 8   these lessons alone

`tests/workbench/lessons/test_lessons.py` compares.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

from kbench.workbench.core_types import JsonObject
from kbench.workbench.lessons import lesson_author, lesson_files
from kbench.workbench.lessons.lesson_files import Lesson


def stored(lesson: Lesson) -> str:
    """The notebook's text with the pictures of today in it."""
    book = json.loads(lesson.path.read_text(encoding="utf-8"))
    with contextlib.redirect_stdout(io.StringIO()):  # what the lesson's cells print
        shown = lesson_author.pictures(lesson)
    for cell in book["cells"]:
        name = cell["metadata"].get("kbench", {}).get("id")
        if name in shown:
            cell["outputs"] = [_output(shown[name])]
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _output(bundle: JsonObject) -> JsonObject:
    data = {kind: text.splitlines(keepends=True) for kind, text in sorted(bundle.items())}
    return {"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}


def main(numbers: list[str]) -> None:
    """Store the pictures of the lessons numbered so, or of all."""
    for lesson in lesson_files.catalogue():
        wanted = not numbers or str(lesson.number) in numbers
        if wanted and any(step.is_picture for step in lesson.steps):
            text = stored(lesson)
            Path(lesson.path).write_text(text, encoding="utf-8")
            print(f"{lesson.path.name}: {len(text):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
