"""The keys of vim at the prompt; `|` is the cursor, on the character behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench_screen import bench, settle, submit, text_of
from textual import events

from kbench.tui.prompt import vim_motions
from kbench.tui.prompt.vim import COMMAND, HELP

CODE = "x = K.dot(w, v)\nif x:\n    y = 2\n"
# What stands there, the keys, and what stands there then.
MOVES = [
    ("|abc", "l", "a|bc"), ("ab|c", "lll", "ab|c"), ("ab|c", "h", "a|bc"), ("|abc", "h", "|abc"),
    ("|x = K.dot(w)", "w", "x |= K.dot(w)"), ("|x = K.dot(w)", "3w", "x = K|.dot(w)"),
    ("|x = K.dot(w)", "2W", "x = |K.dot(w)"), ("x = K.do|t(w)", "b", "x = K.|dot(w)"),
    ("x = K.do|t(w)", "B", "x = |K.dot(w)"), ("|abc def", "e", "ab|c def"),
    ("ab|c def", "e", "abc de|f"), ("|a.b c", "E", "a.|b c"), ("|a\n\nb", "w", "a\n\n|b"),
    ("  ab|c", "0", "|  abc"), ("  ab|c", "^", "  |abc"), ("|abc", "$", "ab|c"),
    ("|abc\nde\nf", "2$", "abc\nd|e\nf"), ("a|bc\nde", "j", "abc\nd|e"),
    ("abc\nd|e", "k", "a|bc\nde"), ("ab|c\n\nde", "jj", "abc\n\n|de"),
    ("a|\nb\n  c", "G", "a\nb\n  |c"), ("a\nb\n  |c", "gg", "|a\nb\n  c"),
    ("a\nb\n  |c", "2G", "a\n|b\n  c"), ("|f(a, b)", "f,", "f(a|, b)"),
    ("|f(a, b)", "t,", "f(|a, b)"), ("f(a, |b)", "F(", "f|(a, b)"), ("f(a, |b)", "T(", "f(|a, b)"),
    ("|abc", "fz", "|abc"), ("|a", "10l", "|a"), ("|abc", "2l", "ab|c"), ("|abc", "zl", "a|bc"),
    ("|abc", "dzl", "a|bc"),
]  # fmt: skip
EDITS = [
    ("|abc", "x", "|bc"), ("|abc", "2x", "|c"), ("ab|c", "x", "a|b"), ("ab|c", "X", "a|c"),
    ("|abc", "9x", "|"), ("a|bc", "rz", "a|zc"), ("|abc", "2rz", "z|zc"), ("ab|c", "3rz", "ab|c"),
    ("|a b c", "dw", "|b c"), ("|a b c", "2dw", "|c"), ("|a b c", "d2w", "|c"),
    ("a |b\nc", "dw", "a| \nc"), ("a |b c", "d$", "a| "), ("a |b c", "D", "a| "),
    ("a b |c", "d0", "|c"), ("a b |c", "db", "a |c"), ("|ab cd", "de", "| cd"),
    ("f(|a, b)", "dt)", "f(|)"), ("f|(a, b)", "df)", "|f"), ("f(a|)", "dF(", "f|)"),
    ("a\n|b\nc", "dd", "a\n|c"), ("a\nb\n|c", "dd", "a\n|b"), ("|a", "dd", "|"),
    ("|a\nb\nc", "2dd", "|c"), ("a\n|b\nc", "9dd", "|a"), ("a\n|b\nc", "dG", "|a"),
    ("a\nb\n|c", "dgg", "|"), ("|a\nb\nc", "dj", "|c"), ("a\nb\n|c", "dk", "|a"),
    ("|a\nb", "dk", "|a\nb"), ("|ab cd", "cwx", "x| cd"), ("|ab cd", "cex", "x| cd"),
    ("|a cd", "cwx", "x| cd"), ("a b| c", "cwx", "a bx|c"), ("    |a = 1", "ccb", "    b|"),
    ("|a\nb\nc", "2ccd", "d|\nc"), ("a |b c", "Cx", "a x|"), ("  |a", "Sx", "  x|"),
    ("|abc", "sx", "x|bc"), ("f(|a, b)", "ct)x", "f(x|)"), ("|abc", "ix", "x|abc"),
    ("|abc", "ax", "ax|bc"), ("ab|c", "ax", "abcx|"), ("  a|b", "Ix", "  x|ab"),
    ("|abc", "Ax", "abcx|"), ("|", "ax", "x|"), ("if a:|", "ox", "if a:\n    x|"),
    ("  |a", "Ox", "  x|\n  a"), ("|a\nb", "yyp", "a\n|a\nb"), ("|a\nb", "Yjp", "a\nb\n|a"),
    ("a\n|b", "yyP", "a\n|b\nb"), ("|a\nb", "yy2p", "a\n|a\na\nb"), ("|ab c", "ywP", "ab| ab c"),
    ("|ab c", "xp", "b|a c"), ("|a\nb", "ddp", "b\n|a"), ("|ab", "y$2p", "aaba|bb"),
    ("|a b", "p", "|a b"), ("a |b", "yb", "|a b"), ("|a\n  b\nc", "J", "a| b\nc"),
    ("|a\nb\nc", "3J", "a b| c"), ("|a", "J", "|a"), ("|a\n\nb", "J", "|a\nb"),
]  # fmt: skip


def marked(prompt: Any) -> str:
    """The text with the cursor."""
    return f"{prompt.text[: prompt.position]}|{prompt.text[prompt.position :]}"


def type_keys(prompt: Any, keys: str) -> None:
    """Each character as a key that vim may take, else as text."""
    for key in keys:
        if not prompt.vim.take(events.Key(key, key)):
            prompt.insert(key)


async def test_each_command_does_what_vim_does() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        prompt: Any = app.query_one("#prompt")
        for before, keys, after in MOVES + EDITS:
            prompt.use_vim(False)
            prompt.use_vim(True)
            prompt.put(before.replace("|", ""))
            prompt.vim.normal = True
            prompt.go_to(before.index("|"))
            type_keys(prompt, keys)
            assert marked(prompt) == after, (before, keys)
            if prompt.text != before.replace("|", "") and prompt.vim.normal:
                commands = 2 if keys in ("xp", "ddp") else 1
                type_keys(prompt, f"{commands}u")
                assert prompt.text == before.replace("|", ""), f"{before} {keys}, undone"
                for _ in range(commands):
                    prompt.vim.take(events.Key("ctrl+r", None))
                assert prompt.text == after.replace("|", ""), f"{before} {keys}, and redone"


MOTIONS = "h l j k w b e W B E 0 ^ $ gg G fx tx Fx Tx".split()


@pytest.mark.parametrize("motion", MOTIONS)
def test_no_motion_leaves_the_text(motion: str) -> None:
    assert COMMAND.fullmatch(motion) and COMMAND.fullmatch(f"3d2{motion}")
    for text in ("", "\n", CODE, "  \n\n x"):
        for at in range(len(text) + 1):
            for count in (None, 1, 3, 99):
                span = vim_motions.find(text, at, motion, count)
                if span is None:
                    continue
                low, high = vim_motions.covered(text, at, motion, span)
                assert 0 <= span.at <= len(text) and 0 <= low <= high <= len(text), (text, at)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_mode_is_seen_and_cells_run(size: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('preset = "vim"\n')
    async with bench(size, folder=tmp_path) as (app, pilot, session):
        await settle(pilot)
        prompt: Any = app.query_one("#prompt")
        assert "-- INSERT --" in text_of(app)
        await pilot.press(*"1+1", "escape", "0", "r", "2", "3")
        await settle(pilot)
        assert "-- NORMAL -- 3" in text_of(app) and prompt.text == "2+1"
        await pilot.press("escape", "enter")
        await settle(pilot)
        assert session.cells[1].code == "2+1" and "-- INSERT --" in text_of(app)
        await pilot.press("escape", "k")
        await settle(pilot)
        assert prompt.text == "2+1" and prompt.has_focus
        await pilot.press("a", "x", "alt+d", "d", "u")  # Escape and d, as they come when typed fast
        await settle(pilot)
        assert prompt.text == "2+1x" and prompt.vim.normal
        await pilot.press("ctrl+r")
        assert not prompt.text
        await pilot.press("u")
        assert prompt.text == "2+1x"
        await pilot.press("d", "d", *"ifor i in x:", "escape", "o", *"i", "escape", "enter")
        await settle(pilot)
        assert prompt.text == "for i in x:\n    i" and len(session.cells) == 1
        await submit(pilot, "ask")  # an answer is typed, whatever the mode was
        await pilot.press(*"ix", "enter")
        await settle(pilot)
        assert session.log == [("answer", "ix")] and not prompt.text
        await pilot.press("f1")
        for _ in range(40):
            await pilot.press("down")
            if "Normal mode" in text_of(app):
                break
        assert "Normal mode" in text_of(app)
        await pilot.press("escape", "escape", "escape")  # the help, insert mode, the prompt
        await settle(pilot)
        assert app.screen.arrangement.focused_pane() == "transcript"
        app.choose_preset("default")
        await settle(pilot)
        assert prompt.vim is None and "INSERT" not in text_of(app)


async def test_what_is_typed_behind_a_command_goes_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('preset = "vim"\n')
    async with bench((120, 40), folder=tmp_path) as (app, pilot, _):
        await settle(pilot)
        await pilot.press("escape")
        for key, character in (("slash", "/"), ("a", "a"), ("b", "b")):
            app.post_message(events.Key(key, character))
        await settle(pilot)
        assert app.focused.value == "ab" and app.query_one("#prompt").text == ""  # type: ignore


@pytest.mark.slow
async def test_pages_of_a_grid(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('preset = "vim"\n')
    async with bench((120, 40), folder=tmp_path) as (app, pilot, _):
        await settle(pilot)
        await submit(pilot, "big")
        await pilot.press("f3", "enter")
        await settle(pilot)
        for keys, place in (("G", "999999, 0"), ("gg", "0, 0"), ("jjll", "2, 2"), ("$", "2, 15")):
            await pilot.press(*("dollar_sign" if key == "$" else key for key in keys))
            await settle(pilot)
            assert f"at ({place})" in text_of(app), keys
        await pilot.press("ctrl+d", "ctrl+u", "0")
        await settle(pilot)
        assert "at (2, 0)" in text_of(app)


def test_the_help_names_every_command() -> None:
    told = " ".join(key for key, _ in HELP)
    for letter in "iaIAoOhjkl0^$webdcyxXsrDCSYJpPu/":
        assert letter in told, letter
