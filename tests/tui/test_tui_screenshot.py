"""Pictures are the same every time, hold what the script shows, and bad scripts are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from kbench.tui import screenshot

ROOT = Path(__file__).resolve().parents[2]


def words(svg: str) -> str:
    """The text of a picture, without blanks."""
    pieces = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    return "".join(unescape("".join(pieces)).replace("\xa0", " ").split())


@pytest.mark.parametrize("line", [":dance now", ":press", ":type"])
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


@pytest.mark.slow
def test_the_readme_picture_is_what_its_script_draws(tmp_path: Path) -> None:
    out = tmp_path / "workbench.svg"
    command = [sys.executable, "-m", "kbench", "--screenshot", str(out), "--script"]
    subprocess.run([*command, "docs/demo.kbs"], check=True, cwd=ROOT, timeout=120)
    drawn, kept = out.read_text("utf-8"), (ROOT / "docs" / "workbench.svg").read_text("utf-8")
    assert words(drawn) == words(kept), "draw docs/workbench.svg again (see docs/demo.kbs)"
