"""The site of the documents: links, notebooks and functions become pages, and nothing is fetched.

Building it is a step of `.ci/run`; this is what needs no MkDocs.
"""

from __future__ import annotations

import base64
import json
import re
import runpy
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from kbench import backend as K

ROOT = Path(__file__).resolve().parents[2]
PAGES: dict[str, Any] = runpy.run_path(str(ROOT / ".ci" / "site_pages.py"))
OFFLINE: dict[str, Any] = runpy.run_path(str(ROOT / ".ci" / "site_offline.py"))


@pytest.mark.parametrize(
    "text, source, page, wanted",
    [
        ("[a](docs/api.md)", "README.md", "index.md", "[a](api.md)"),
        ("[a](../README.md)", "docs/style.md", "style.md", "[a](index.md)"),
        (
            "[a](../CONTRIBUTING.md#rules)",
            "docs/style.md",
            "style.md",
            "[a](contributing.md#rules)",
        ),
        ("[a](../style.md)", "docs/design/jit.md", "design/jit.md", "[a](../style.md)"),
        (
            "[1](../tutorials/03-shapes.ipynb)",
            "docs/lessons.md",
            "lessons.md",
            "(lessons/03-shapes.md)",
        ),
        ("![p](docs/workbench.svg)", "README.md", "index.md", "![p](workbench.svg)"),
        ("[a](nowhere.md)", "README.md", "index.md", "[a](nowhere.md)"),  # which --strict refuses
        ("[a](https://x.org/y.md)", "README.md", "index.md", "[a](https://x.org/y.md)"),
        ("`[a](docs/api.md)`", "README.md", "index.md", "`[a](docs/api.md)`"),
        ("```\n[a](docs/api.md)\n```", "README.md", "index.md", "[a](docs/api.md)"),
    ],
)
def test_links_lead_from_page_to_page(text: str, source: str, page: str, wanted: str) -> None:
    assert wanted in PAGES["relinked"](text, source, page)


def notebook(folder: Path, *outputs: object) -> str:
    """The page of a notebook of a heading and one cell with these outputs."""
    cells = [
        {"cell_type": "markdown", "source": ["# T\n", "words"]},
        {"cell_type": "code", "source": "print('```')", "outputs": outputs},
    ]
    path = folder / "n.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    return str(PAGES["notebook"](path))


def test_a_notebook_keeps_prose_code_and_text(tmp_path: Path) -> None:
    page = notebook(tmp_path, {"output_type": "stream", "text": ["3\n", "4\n"]})
    assert page.startswith("# T\nwords\n\n*This page shows")
    assert "````python\nprint('```')\n````" in page and "```text\n3\n4\n```" in page


@pytest.mark.parametrize(
    "kind, drawn", [("svg+xml", "<svg><title>a &lt; b</title></svg>"), ("png", "iVBO\nRw")]
)
def test_a_picture_is_a_picture_of_the_page(kind: str, drawn: str, tmp_path: Path) -> None:
    data = {f"image/{kind}": drawn.splitlines(keepends=True), "text/plain": 'a < "b"'}
    (image,) = re.findall(r"<img [^\n]*>", notebook(tmp_path, {"data": data}))
    picture = re.search(r"base64,([^\"]*)", image)
    assert picture and 'alt="a &lt; ' in image
    if kind == "png":
        assert picture[1] == "iVBORw"
    else:
        assert base64.b64decode(picture[1]).decode() == drawn


def test_stored_pictures_of_lessons_are_on_their_pages() -> None:
    for source in PAGES["lessons"]():
        cells = json.loads((ROOT / source).read_text("utf-8"))["cells"]
        pictures = sum("picture" in cell["metadata"].get("kbench", {}) for cell in cells)
        assert PAGES["notebook"](ROOT / source).count("<img alt=") == pictures, source


def test_every_function_has_a_place_in_the_reference() -> None:
    shown = [
        name
        for text in PAGES["reference"]().values()
        for name in re.findall(r"::: kbench\.backend\.(\w+)", text)
    ]
    assert len(shown) == len(set(shown))
    assert set(shown) == {name for name in K.__all__ if not name.startswith("py_")}


DOCSTRING = """Slide filters.

Arguments:
    x: images.
Returns:
    Tensor.
Raises:
    ShapeError: not rank 4, or a window
        too large. ArgumentError: strides.
    DtypeError: no floats.
Gradient: to `x`.
Source: Keras 2.3.

>>> K.relu(-1)
0
"""


def test_sections_and_errors_of_a_docstring_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    griffe = types.SimpleNamespace(Extension=object, Object=object)
    monkeypatch.setitem(sys.modules, "griffe", griffe)
    as_markdown = runpy.run_path(str(ROOT / ".ci" / "site_docstrings.py"))["as_markdown"]
    text = as_markdown(DOCSTRING)
    for head in ("Arguments:", "Returns:", "Raises:", "**Gradient**:", "**Source**:"):
        assert f"\n\n{head}" in text, head
    errors = re.findall(r"^    (\w+Error): (.*)$", text, re.MULTILINE)
    assert [name for name, _ in errors] == ["ShapeError", "ArgumentError", "DtypeError"]
    assert "        too large.\n" in text
    assert "```pycon\n>>> K.relu(-1)\n0\n```" in text


def test_ci_builds_strictly_and_aloud() -> None:
    """Quiet, MkDocs counts no warnings, so that nothing is strict."""
    run = (ROOT / ".ci" / "run").read_text("utf-8")
    (build,) = re.findall(r"mkdocs build .*", run)
    assert "--strict" in build and not re.search(r" (-q|--quiet)\b", build)


def test_every_page_of_docs_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert there <= listed


@pytest.mark.parametrize(
    "page, fault",
    [
        ('<img src="a.png">', "a.png is missing"),
        ('<script src="https://x.org/a.js"></script>', "loads https://x.org/a.js"),
        ('<link rel="stylesheet" href="//x.org/a.css">', "loads //x.org/a.css"),
        ('<link rel="canonical" href="https://x.org/">', ""),
        ('<a href="https://x.org/">x</a><img src="data:image/png;base64,AA">', ""),
        ('<img src="there.png?v=1">', ""),
    ],
)
def test_a_page_that_loads_from_elsewhere_is_found(page: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "there.png").write_text("", "utf-8")
    (tmp_path / "index.html").write_text(page, "utf-8")
    found = list(OFFLINE["faults"](tmp_path))
    assert [fault in one for one in found] == ([True] if fault else [])


def test_a_style_that_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    for name, text in {
        "a": "@import url(https://x.org/f.css);",
        "b": "p{background:url(b.png)}",
    }.items():
        (tmp_path / f"{name}.css").write_text(text, "utf-8")
    assert list(OFFLINE["faults"](tmp_path)) == ["a.css loads a file from elsewhere"]


# ------------------------------------------------------------------ how it compares

LIBRARIES = {
    "PyTorch": ["torch"],
    "JAX": ["jax"],
    "TensorFlow, Keras 3": ["tf-keras", "tf-xla"],
    "NumPy": ["numpy"],
}
TOLERANCE = 0.1
"""Relative: figures of speed.md are measured again, and the words beside them stay true."""


def test_the_comparison_has_the_figures_of_the_speed_page() -> None:
    rows = [
        line.strip("|").split(" | ")
        for line in (ROOT / "docs/speed.md").read_text("utf-8").splitlines()
        if line.startswith("| `")
    ]
    measured = {row[0].strip(" `"): (row[3].split()[0], float(row[4].split()[0])) for row in rows}
    told = 0
    for line in (ROOT / "docs" / "compare.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        for column, cell in enumerate(cells):
            for name, ratio in re.findall(r"`([\w.]+)` (\d+\.\d+)", cell):
                library, figure = measured[name]
                assert library in LIBRARIES[cells[0]], name
                assert float(ratio) == pytest.approx(figure, rel=TOLERANCE), name
                assert (figure > 1) == (column == 1), f"{name} stands in the wrong column"
                told += 1
    assert told >= 8
