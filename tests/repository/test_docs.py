"""What the documents say holds: README's code runs, docstring examples give what they show, links
lead somewhere, and the commands that are named exist."""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cases import CASES

import kbench as K
from kbench.cli import main
from kbench.workbench.protocol import verbs
from tests.api.test_wrong_calls import CANNOT_BE_WRONG

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
DESIGN = [
    "docs/architecture.md",
    "docs/style.md",
    *sorted(f"docs/design/{path.name}" for path in (ROOT / "docs" / "design").glob("*.md")),
]
PLACES = (ROOT, ROOT / "kbench", ROOT / "kbench" / "engine")  # that paths on a page begin at
ROOMS = ("fusion", "codegen", "codegen/writers", "execute/steps")  # of the engine, likewise


def _blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_readme_code_prints_what_it_says(run_python):
    (code,) = _blocks("README.md", "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 11
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    assert f"It prints `{done.stdout.strip()}`" in (ROOT / "README.md").read_text("utf-8")


def test_readme_code_learns():
    """Every step lowers the loss, to next to nothing, and ends at the weights of the targets."""
    (code,) = _blocks("README.md", "python")
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    losses = names["losses"]
    assert losses[0] > 1 and losses[-1] < 1e-4 * losses[0]
    assert all(after < before for before, after in pairwise(losses))
    assert abs(K.get_value(names["w"]) - [[2], [-3]]).max() < 1e-2


def test_readme_holds_the_two_commands():
    done = subprocess.run(
        [sys.executable, ".ci/commands.py", "README.md"], cwd=ROOT, capture_output=True, text=True
    )
    commands = done.stdout.splitlines()
    assert [line.rpartition(".venv/bin/")[2] for line in commands] == ["kbench", "python -m pytest"]


@pytest.mark.parametrize("page", [*PAGES, *DESIGN])
def test_links_lead_to_files(page):
    text = (ROOT / page).read_text("utf-8")
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    folder = (ROOT / page).parent
    missing = [link for link in links if "://" not in link and not (folder / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page):
    """Paths in `code` with a folder in them; `NN` and the like stand for any."""
    text = (ROOT / page).read_text("utf-8")
    named = re.findall(r"`((?:kbench|tests|benchmarks|docs|tutorials|\.ci)/[\w./-]*)`", text)
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing


# ------------------------------------------------------------------ the pages of the design

PATH = re.compile(r"[\w.]+(?:/[\w.*]*)+|[\w*]+\.py")
NAME = re.compile(r"[A-Za-z_]\w*")
CODE = r"`([^`\n]+)`"
WRITTEN = re.compile(r"[a-z]\d(_\d)?")  # a name in generated sources
ASIDE = {"perf"}  # other programs


def _prose(page: str) -> str:
    """A page without its blocks of code and what is drawn by a script."""
    text = (ROOT / page).read_text("utf-8").partition("<!-- from here on drawn")[0]
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)


def _found(name: str) -> list[Path]:
    """The files that a path on a page stands for; `*` stands for any."""
    places = [*PLACES, *(PLACES[2] / room for room in ROOMS)]
    return [path for place in places for path in place.glob(name.rstrip("/"))]


@functools.cache
def _words() -> set[str]:
    return set(NAME.findall(_sources()))


def _sources() -> str:
    """All that is written in the repository but its pages."""
    folders = ("kbench", "tests", "benchmarks", ".ci")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    files += [*(ROOT / "kbench").rglob("*.tcss"), ROOT / "pyproject.toml"]
    return "\n".join(path.read_text("utf-8") for path in files)


@pytest.mark.parametrize("page", [*DESIGN, "CONTRIBUTING.md"])
def test_files_and_folders_on_pages_of_the_design_are_there(page):
    named = [name for name in re.findall(CODE, _prose(page)) if PATH.fullmatch(name)]
    found = [name for name in named if name[0] != "." and ".." not in name]
    missing = [name for name in found if not _found(name) and "verbs" not in name]
    assert [name for name in missing if "/" in name or name.endswith(".py")] == []


@pytest.mark.parametrize("page", [*DESIGN, "CONTRIBUTING.md"])
def test_names_on_pages_of_the_design_are_in_the_sources(page):
    """Those beside a file are in that file: `name` (`file.py`), `name` of `file.py` and so on."""
    words = _words()
    named = {name.removesuffix("()") for name in re.findall(CODE, _prose(page))} - ASIDE
    single = {name for name in named if NAME.fullmatch(name) and not WRITTEN.fullmatch(name)}
    assert sorted(single - words) == []
    text = re.sub(r"\s+", " ", _prose(page))
    pairs = re.findall(rf"{CODE} (?:of|in) {CODE}", text)
    pairs += re.findall(rf"{CODE} \({CODE}\)", text)
    for one, other in pairs:
        name, file = (other, one) if one.endswith(".py") else (one, other)
        if NAME.fullmatch(name) and file.endswith(".py"):
            assert any(name in path.read_text("utf-8") for path in _found(file)), (name, file)


def test_every_verb_of_the_inspector_has_an_example_that_is_what_it_answers():
    """After a change of the replies: `python .ci/wire.py`."""
    text = (ROOT / "docs" / "design" / "wire.md").read_text("utf-8")
    assert set(re.findall(r"^### (\w+)$", text, re.MULTILINE)) == set(verbs.VERBS)
    done = subprocess.run(
        [sys.executable, ".ci/wire.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_commands_that_are_named_exist():
    text = "".join((ROOT / page).read_text("utf-8") for page in PAGES)
    named = set(re.findall(r"`kbench ([a-z]+)\b", text))
    assert named and named <= set(main.COMMANDS)
    options = set(re.findall(r"`kbench (--[a-z-]+)", text))
    help_text = main.make_parser().format_help()
    assert options and all(option in help_text for option in options)


def _public() -> list[str]:
    return sorted(
        name
        for name in K.backend.__all__
        if inspect.isfunction(getattr(K, name)) and getattr(K, name).__doc__
    )


@pytest.mark.parametrize("name", _public())
def test_docstring_examples(name):
    function = getattr(K, name)
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    names = {"K": K, "np": importlib.import_module("numpy")}
    report: list[str] = []
    for test in finder.find(function, f"K.{name}", module=False, globs=names):
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def _documented() -> list[str]:
    """Every public function but the names of Keras 1, whose text is that of the new name."""
    functions = [name for name in K.backend.__all__ if inspect.isfunction(getattr(K, name))]
    return sorted(name for name in functions if getattr(K, name).__module__ != "kbench.api.legacy")


SECTIONS = ("Arguments", "Returns", "Raises", "Gradient", "Source")


def _sections(text: str) -> dict[str, str]:
    """The parts of a docstring by their headings, in the order in which they stand."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):", text.split(">>>")[0], flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.mark.parametrize("name", _documented())
def test_docstrings_have_the_form(name):
    """A summary, the sections that apply, in their order, and an example."""
    function = getattr(K, name)
    text = inspect.getdoc(function) or ""
    sections = _sections(text)
    summary = sections[""].strip().split("\n\n")[0]
    assert summary.endswith(".") and len(summary) <= 200
    assert ">>>" in text
    assert [one for one in SECTIONS if one in sections] == list(sections)[1:]
    assert sections["Source"].strip().rstrip(".").startswith(("Keras", "`tf_keras", "kbench"))
    parameters = inspect.signature(function).parameters
    described = sections.get("Arguments", "")
    missing = [one for one in parameters if not re.search(rf"\b{one}\b", described)]
    assert not missing or set(missing) <= {"kwargs"}, "arguments that are not described"
    if name not in CANNOT_BE_WRONG:
        assert "Error" in sections["Raises"]
    gives_tensor = name in {case.name for case in CASES}
    assert not gives_tensor or sections["Gradient"].strip()
    nothing = inspect.signature(function).return_annotation in (None, "None")
    assert nothing or sections["Returns"].strip()
    assert max(map(len, text.splitlines())) <= 100


def test_old_names_say_the_new_one():
    old = {name for name in K.backend.__all__ if inspect.isfunction(getattr(K, name))}
    for name in old - set(_documented()):
        assert "Source:" in inspect.getdoc(getattr(K, name)), name
