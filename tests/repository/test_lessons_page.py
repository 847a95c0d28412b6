"""`docs/lessons.md` names every lesson and every heading of the reference documents, and tells the
truth about where each is taught."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from kbench import backend as K
from kbench.workbench.lessons import lesson_files

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "lessons.md"
TEXT = PAGE.read_text(encoding="utf-8")
DOCUMENTS = tomllib.loads(
    (ROOT / "tests" / "reference" / "headings.toml").read_text(encoding="utf-8")
)
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def table(heading: str) -> list[list[str]]:
    """The rows of the table below `heading`, without its head."""
    after = f"\n{TEXT}".split(f"\n{heading}\n", 1)[1]
    lines = [line for line in re.split(r"\n#+ ", after)[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


FUNCTIONS = {row[0].strip("`"): row for row in table("## Functions")}


@cache
def code(notebook: Path) -> str:
    """What a learner runs: the cells, and what the solutions put into them."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    found = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    if notebook.with_suffix(".toml").exists():
        found += [one.solution for one in lesson_files.read(notebook).exercises.values()]
    return "\n".join(found)


def test_every_lesson_is_listed_under_its_title() -> None:
    rows = [(row[0], row[1]) for row in table("# The lessons")]
    names = [
        (str(one.number), f"[{one.title}](../tutorials/{one.path.name})")
        for one in lesson_files.catalogue()
    ]
    assert rows == names
    assert all(len(cell) > 3 for row in table("# The lessons") for cell in row[2:])


def test_every_notebook_is_linked() -> None:
    linked = {Path(target).name for _, target in LINK.findall(TEXT)}
    assert {path.name for path in (ROOT / "tutorials").glob("*.ipynb")} <= linked


def test_links_lead_somewhere() -> None:
    anchors = {f"#{line.lstrip('# ').lower().replace(' ', '-')}" for line in TEXT.splitlines()}
    missing = [
        target
        for _, target in LINK.findall(TEXT)
        if target not in anchors and not (PAGE.parent / target).is_file()
    ]
    assert missing == []
    named = re.findall(r"`((?:tests|tutorials|docs)/[\w./]*)`", TEXT)
    assert named and [name for name in named if not (ROOT / name).exists()] == []


def test_numbers_lead_to_their_lessons() -> None:
    wrong = [
        (label, target)
        for label, target in LINK.findall(TEXT)
        if label.isdigit() and not Path(target).name.startswith(f"{int(label):02d}-")
    ]
    assert wrong == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_heading_is_listed(name: str) -> None:
    document = DOCUMENTS[name]
    rows = table(f"### {document['title']} ({document['letter']})")
    assert [row[0] for row in rows] == document["headings"]
    assert all(LINK.search(row[1]) for row in rows)
    named = [one for one, row in FUNCTIONS.items() if document["letter"] in row[1].split()]
    assert sorted(named) == sorted(document["functions"].split())


def test_the_table_holds_real_functions_in_order() -> None:
    assert list(FUNCTIONS) == sorted(FUNCTIONS)
    assert [name for name in FUNCTIONS if not hasattr(K, name)] == []
    letters = [one["letter"] for one in DOCUMENTS.values()]
    for name, row in FUNCTIONS.items():
        assert row[1].split() and set(row[1].split()) <= set(letters), name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_used_where_it_is_said_to_be_taught(name: str) -> None:
    links = LINK.findall(FUNCTIONS[name][2])
    assert links
    for _, target in links:
        assert re.search(rf"\bK\.{name}\b", code((PAGE.parent / target).resolve())), target
