"""Pages of the site that are not in docs/: README, changelog, lessons, the API from docstrings.

MkDocs calls the functions `on_...` (`mkdocs.yml`, `hooks`). Every link is written as GitHub reads
it, from file to file of the repository; here it becomes one from page to page.
"""

from __future__ import annotations

import ast
import base64
import html
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]
FROM_ROOT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples.md",
    "examples/keras3/README.md": "examples3.md",
}
FOLDERS = {"examples/keras": "examples", "examples/keras3": "examples3"}
"""Folders of programs, and their places in the site."""
OTHERS = "Classes and errors"
"""The page of what belongs to no family; functions that Keras does not have are on it, too."""
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
KEPT = re.compile(r"(```.*?^ *```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def lessons() -> dict[str, str]:
    """Every notebook of `tutorials/`, as its page."""
    return {
        f"tutorials/{path.name}": f"lessons/{path.stem}.md"
        for path in sorted((ROOT / "tutorials").glob("*.ipynb"))
    }


def examples() -> dict[str, str]:
    """Every program of the examples, as its page."""
    return {
        f"{folder}/{path.name}": f"{place}/{path.stem}.md"
        for folder, place in FOLDERS.items()
        for path in sorted((ROOT / folder).glob("*.py"))
    }


def program(path: Path) -> str:
    """A page with one program."""
    return f"# {path.name}\n\n{fenced(path.read_text('utf-8'), 'python')}\n"


def site_path(path: str) -> str:
    """Where a file of the repository is in the site; '' if it is not."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    folders = {folder: f"{place}.md" for folder, place in FOLDERS.items()}
    places = {**folders, **FROM_ROOT, **lessons(), **examples()}
    return places.get(path, "")


def relinked(text: str, source: str, page: str) -> str:
    """The text with its links, which start at `source`, as they are seen from `page`."""

    def link(found: re.Match[str]) -> str:
        before, target, anchor, after = found.groups()
        there = site_path(posixpath.normpath(posixpath.join(posixpath.dirname(source), target)))
        if not there:
            return found[0]  # which a strict build refuses
        return before + posixpath.relpath(there, posixpath.dirname(page)) + (anchor or "") + after

    parts = KEPT.split(text)  # every second one is code
    parts[::2] = [LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts)


def fenced(text: str, language: str) -> str:
    """Code in a fence that no line of it closes."""
    marks = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", text))])
    return f"{marks}{language}\n{text.rstrip()}\n{marks}"


def notebook(path: Path) -> str:
    """A notebook as Markdown: its prose, its code, and the outputs that are saved in it."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif source.strip():
            parts += [fenced(source, "python"), *_outputs(cell.get("outputs", ()))]
    note = f"*This page shows the notebook `tutorials/{path.name}`; `kbench learn` opens lessons.*"
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def _outputs(outputs: Any) -> Iterator[str]:
    """What a cell shows: its picture, else its text."""
    for output in outputs:
        data = {kind: "".join(part) for kind, part in output.get("data", {}).items()}
        text = "".join(output.get("text", data.get("text/plain", "")))
        if "image/svg+xml" in data:
            drawn = data["image/svg+xml"]
            title = re.search(r"<title>(.*?)</title>", drawn, re.DOTALL)
            picture = base64.b64encode(drawn.encode()).decode()
            yield _image("svg+xml", picture, html.unescape(title[1]) if title else "a figure")
        elif "image/png" in data:
            yield _image("png", data["image/png"].replace("\n", ""), text or "a figure")
        elif text:
            yield fenced(text, "text")


def _image(kind: str, picture: str, words: str) -> str:
    """An image within the page itself."""
    return f'<img alt="{html.escape(words)}" src="data:image/{kind};base64,{picture}">'


def public(module: Path) -> list[str]:
    """What a module lists in `__all__`, but for Python's own functions, which begin with `py_`."""
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(node.value) if not name.startswith("py_")]
    raise ValueError(f"{module} has no __all__")


def reference() -> dict[str, str]:
    """A page for each family of functions, and one for all else: title and text."""
    known = json.loads((ROOT / "kbench" / "api" / "api.json").read_text("utf-8"))
    rest = public(ROOT / "kbench" / "backend.py")
    families: dict[str, list[str]] = {}
    for row in known["functions"]:
        if row["name"] in rest:
            families.setdefault(row["family"], []).append(row["name"])
            rest.remove(row["name"])
    names = {one: families[one] for one in known["families"] if one in families}
    return {title: _reference_page(title, some) for title, some in (names | {OTHERS: rest}).items()}


def _reference_page(title: str, names: list[str]) -> str:
    parts = "\n\n".join(f"::: kbench.backend.{name}" for name in names)
    return f"# {title}\n\n{parts}\n"


def reference_path(family: str) -> str:
    """`reference/neural-networks.md`."""
    return f"reference/{family.lower().replace(' ', '-')}.md"


def on_config(config: Any) -> Any:
    """Lessons and families of functions get their places in the navigation."""
    for section in config.nav:
        if isinstance(section, dict) and "Lessons" in section:
            section["Lessons"] += lessons().values()
        if isinstance(section, dict) and "API" in section:
            section["API"] += [{family: reference_path(family)} for family in reference()]
    return config


def on_files(files: Files, config: Any) -> Files:
    """The pages that are not in docs/."""
    from mkdocs.structure.files import File

    for source, page in FROM_ROOT.items():
        text = relinked((ROOT / source).read_text("utf-8"), source, page)
        files.append(File.generated(config, page, content=text))
    for source, page in lessons().items():
        text = relinked(notebook(ROOT / source), source, page)
        files.append(File.generated(config, page, content=text))
    for source, page in examples().items():
        files.append(File.generated(config, page, content=program(ROOT / source)))
    for family, text in reference().items():
        files.append(File.generated(config, reference_path(family), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links of a page of docs/ to files beside that folder."""
    if page.file.generated_by:
        return markdown
    return relinked(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)
