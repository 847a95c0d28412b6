"""Pictures are the same every time, hold what the script shows, and bad scripts are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from kbench.tui import screenshot
from kbench.tui.keys import keys

ROOT = Path(__file__).resolve().parents[2]


def words(svg: str) -> str:
    """The text of a picture, without blanks."""
    pieces = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    return "".join(unescape("".join(pieces)).replace("\xa0", " ").split())


@pytest.mark.parametrize(
    "line", [":dance now", ":press", ":type", ":size 80", ":size big", ":took", ":took long"]
)
def test_a_line_without_meaning_is_refused(line: str, tmp_path: Path) -> None:
    script = tmp_path / "bad.kbs"
    script.write_text(f"1 + 1\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2"):
        screenshot.render(tmp_path / "out.svg", (80, 24), None, script)
    assert not (tmp_path / "out.svg").exists()


def test_an_unknown_theme_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nonsense"):
        screenshot.render(tmp_path / "out.svg", (80, 24), "nonsense", None)


def draw(out: Path, script: Path) -> str:
    """A picture drawn by a process of its own, as the command line does it."""
    code = (
        "import sys; from kbench.tui.screenshot import render; "
        "render(sys.argv[1], (100, 30), None, sys.argv[2])"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(out), str(script)], check=True, cwd=ROOT, timeout=120
    )
    return out.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_same_script_gives_the_same_picture(tmp_path: Path) -> None:
    script = tmp_path / "a.kbs"
    script.write_text(
        "# remark\nw = K.variable([[1., 2.], [3., 4.]], name='w')\nfor i in range(2):\\n    i\n"
        "K.eval(K.sum(w))\n:press f3 end enter\n:press f2\n:type half [typed]\n",
        encoding="utf-8",
    )
    first = draw(tmp_path / "1.svg", script)
    second = draw(tmp_path / "2.svg", script)
    assert first == second
    shown = words(first)
    assert "Out[3]:" in shown and "10." in shown
    assert "Value:w" in shown and "half[typed]" in shown


PICTURES = sorted((ROOT / "docs").glob("*.kbs"))


@pytest.mark.slow
@pytest.mark.parametrize("script", PICTURES, ids=[one.stem for one in PICTURES])
def test_pictures_are_what_their_scripts_draw(script: Path, tmp_path: Path) -> None:
    out, kept = tmp_path / "drawn.svg", script.with_suffix(".svg")
    again = f"{sys.executable} -m kbench --screenshot docs/{kept.name} --script docs/{script.name}"
    command = [sys.executable, "-m", "kbench", "--screenshot", str(out), "--script", str(script)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=300)
    drawn, expected = out.read_text("utf-8"), kept.read_text("utf-8")
    assert words(drawn) == words(expected), f"stale: {again}"
    assert styles(drawn) == styles(expected), f"stale: {again}"


def test_every_picture_is_shown_in_the_documentation() -> None:
    page = (ROOT / "docs" / "terminal.md").read_text("utf-8")
    shown = re.findall(r"!\[[^\]]+\]\((\w+)\.svg\)", page)
    assert sorted(shown) == [one.stem for one in PICTURES]
    drawn = {one.stem for one in (ROOT / "docs").glob("*.svg")} - {"architecture"}
    assert drawn == set(shown) and len(shown) == len(set(shown))


def test_the_keys_that_the_documentation_names_are_bound() -> None:
    page = (ROOT / "docs" / "terminal.md").read_text("utf-8")
    bound = {one for key in keys.TABLE for one in key.keys.split(",")}
    names = {"[": "left_square_bracket", "]": "right_square_bracket", "/": "slash", ":": "colon"}
    names |= {
        ",": "comma",
        ".": "full_stop",
        "<": "less_than_sign",
        ">": "greater_than_sign",
        "@": "at",
    }
    told = set(re.findall(r"`(\S|F\d+|\^[A-Z]|alt\+\w)`", page))
    assert len(told) > 30
    for one in told:
        key = names.get(one, f"ctrl+{one[1].lower()}" if one[0] == "^" else one)
        key = key.lower() if len(key) > 1 else key
        assert key in bound or one in ("~", "!"), one


def styles(svg: str) -> list[str]:
    """The colours and faces of a picture's text and backgrounds, in the order of their names."""
    return sorted(set(re.findall(r'(?:fill:|fill=")\s*(#[0-9a-f]{6})', svg)))


@pytest.mark.parametrize(
    ("lines", "size", "steps"),
    [
        (["1 + 1"], (120, 40), [("run", "1 + 1")]),
        ([":size 90x20", "a\\nb", "# c", ""], (90, 20), [("run", "a\nb")]),
        ([":took 3 0.5", ":press f1 x"], (120, 40), [("took", "3 0.5"), ("press", "f1 x")]),
    ],
)
def test_scripts_are_read(lines: list[str], size: tuple[int, int], steps: list[Any]) -> None:
    script = screenshot.parse(lines)
    assert (script.size, script.steps) == (size, steps)


@pytest.mark.slow
def test_what_is_typed_goes_to_a_dialog_and_recorded_times_are_told(tmp_path: Path) -> None:
    script = tmp_path / "a.kbs"
    script.write_text(
        ":took 125 50\nw = K.variable([1., 2.])\nK.eval(K.exp(K.sum(w * 2)))\n"
        ":press alt+3 a\n:type K.max(w)\n:press enter f5\n",
        encoding="utf-8",
    )
    shown = words(draw(tmp_path / "out.svg", script))
    assert "125us" in shown and "K.max(w)" not in shown.split("Plan:")[1]
    script.write_text(script.read_text("utf-8") + ":press alt+3\n", encoding="utf-8")
    shown = words(draw(tmp_path / "out.svg", script))
    assert "K.max(w)2" in shown
