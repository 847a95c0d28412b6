"""Keys that are the user's own: keys.toml, its mistakes, presets, dialogs, and words about keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench_screen import bench, settle, submit, text_of
from fake_session import FakeSession

from kbench.tui.app import WorkbenchApp
from kbench.tui.keys import keymap, keys
from kbench.tui.keys.key import UNBOUND
from kbench.tui.keys.presets import PRESETS

MISTAKES = [
    ("nonsense = 1", "there is no 'nonsense'"),
    ('preset = "vi"', "unknown preset 'vi'; choose from default, emacs, vscode, vim"),
    ("preset = 3", "unknown preset 3"),
    ("keys = 1", "'keys' must be a table"),
    ('[keys]\nnowhere = "x"', "nowhere: there is no such action"),
    ("[keys]\nhelp = 3", "help: needs a text"),
    ('[keys]\nhelp = ""', "help: needs a text"),
    ('[keys]\nhelp = "crtl+x"', "help: there is no key 'crtl+x'"),
    ('[keys]\nhelp = "f99"', "help: there is no key 'f99'"),
    ('[keys]\nhelp = "h"', "help: h is for typing"),
    ('[keys]\nrun = "space"', "run: space is for typing"),
    ('[keys]\nhelp = "f2"', "f2 is both help and prompt everywhere"),
    ('[keys]\nsort = "x"', "x is both sort and exact in variables"),
    ('[keys]\nsearch = "ctrl+p"', "ctrl+p is both palette and search in prompt"),
]


@pytest.mark.parametrize(("text", "words"), MISTAKES)
def test_mistakes_in_keys_are_named(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text, encoding="utf-8")
    assert any(words in one for one in keymap.load(path).problems), keymap.load(path).problems


@pytest.mark.parametrize("content", [b"[keys", b"\xff\xfe", b"a = = 1", b"a = " + b"[" * 5000])
def test_a_keys_file_that_is_no_toml_is_put_aside(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_bytes(content)
    found = keymap.load(path)
    assert "kept as keys.broken" in found.problems[0] and not found.changes
    assert (tmp_path / "keys.broken").read_bytes() == content
    assert keymap.load(path) == keymap.Keymap()


def test_a_key_is_understood_however_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text('[keys]\nhistory = "Ctrl+T, F4"\nlast = "Z"\nvalue = "alt+v"\n', "utf-8")
    found = keymap.load(path)
    assert found.problems == ()
    assert found.changes == {"history": "ctrl+t,f4", "last": "Z", "value": "alt+v"}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_free_of_conflicts(preset: str) -> None:
    assert keymap.conflicts(PRESETS[preset]) == []
    known = {key.id: key for key in keys.TABLE}
    for ident, text in PRESETS[preset].items():
        assert keymap._mistake(known[ident].where, text) == "", ident


def test_choosing_a_preset_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    assert keymap.choose(path, "emacs") == ""
    assert keymap.load(path).preset == "emacs"
    path.write_text('# mine\n[keys]\nhistory = "ctrl+h"  # preset = "x"\n', "utf-8")
    assert keymap.choose(path, "vscode") == "" and keymap.choose(path, "emacs") == ""
    text = path.read_text("utf-8")
    assert text == 'preset = "emacs"\n# mine\n[keys]\nhistory = "ctrl+h"  # preset = "x"\n'
    assert keymap.load(path).changes["history"] == "ctrl+h"


@pytest.mark.slow
async def test_a_preset_is_chosen_in_the_palette_and_stays(tmp_path: Path) -> None:
    async with bench((120, 40), FakeSession(), tmp_path) as (app, pilot, _):
        prompt: Any = app.query_one("#prompt")
        await submit(pilot, "alpha = 1")
        await pilot.press("ctrl+p")
        await settle(pilot)
        await pilot.press(*"keys as in emacs", "down", "enter")
        await settle(pilot)
        assert app.keymap.preset == "emacs"
        await pilot.press("f2", "ctrl+p")
        await settle(pilot)
        assert prompt.text == "alpha = 1"
        await pilot.press("ctrl+a", "ctrl+f", "x")
        assert prompt.text == "axlpha = 1"
        await pilot.press("alt+x")
        await settle(pilot)
        assert len(app.screen_stack) == 2
    async with bench((120, 40), FakeSession(), tmp_path) as (app, pilot, _):
        await settle(pilot)
        assert app.keymap.preset == "emacs"
        app.choose_preset("default")
        await pilot.press("ctrl+p")
        await settle(pilot)
        assert len(app.screen_stack) == 2


async def test_keys_of_dialogs_are_the_users_too(tmp_path: Path) -> None:
    lines = ['text_close = "x"', 'text_copy = "c"', 'line_close = "ctrl+b"', 'list_down = "n"']
    (tmp_path / "keys.toml").write_text("[keys]\n" + "\n".join(lines), "utf-8")
    async with bench((120, 40), FakeSession(), tmp_path) as (app, pilot, _):
        await settle(pilot)
        assert app.keymap.problems == ()
        await pilot.press("f1")
        await settle(pilot)
        assert "x close  c copy" in text_of(app)
        await pilot.press("escape")
        assert len(app.screen_stack) == 2
        await pilot.press("x")
        await settle(pilot)
        assert len(app.screen_stack) == 1
        await pilot.press("alt+s", "escape")
        assert len(app.screen_stack) == 2
        await pilot.press("ctrl+b", "alt+t", "n", "n")
        await settle(pilot)
        assert app.screen.query_one("OptionList").highlighted == 2  # type: ignore[attr-defined]
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('search_down = "n"', "n is for typing"),
        ('line_close = "q"', "q is for typing"),
        ('text_copy = "q"', "q is both text_close and text_copy in text"),
        ('axis_rows = "a"', "a is both axes_close and axis_rows in axis"),
    ],
)
def test_mistakes_with_keys_of_dialogs_are_told(line: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(f"[keys]\n{line}\n", "utf-8")
    assert any(reason in one for one in keymap.load(path).problems)


async def test_keys_file_moves_keys_and_reports_mistakes(tmp_path: Any) -> None:
    path = tmp_path / "keys.toml"
    path.write_text('[keys]\nhistory = "ctrl+y"\n', encoding="utf-8")
    async with bench((120, 40), FakeSession(), tmp_path) as (app, pilot, _):
        await settle(pilot)
        await pilot.press("ctrl+y")
        await settle(pilot)
        assert "History of all sessions" in text_of(app)


def test_default_keys_do_not_clash() -> None:
    for place in {key.where for key in keys.TABLE}:
        taken = [one for key in keys.of(place) for one in key.keys.split(",")]
        taken = [one for one in taken if one != UNBOUND]
        assert len(taken) == len(set(taken)), place
    idents = [key.id for key in keys.TABLE]
    assert len(idents) == len(set(idents))


def test_keys_of_characters_are_written_as_these() -> None:
    used = {one for key in keys.TABLE for one in key.keys.split(",")}
    used |= {
        one for preset in PRESETS.values() for text in preset.values() for one in text.split(",")
    }
    named = {one: WorkbenchApp._written(one) for one in sorted(used)}
    assert named["less_than_sign"] == "<" and named["left_square_bracket"] == "["
    long = ("sign", "bracket", "mark", "stop", "Minus", "Plus")
    assert not [one for one, shown in named.items() if any(word in shown for word in long)]


async def test_words_about_keys_name_the_users_own(tmp_path: Path) -> None:
    lines = ['watch_name = "W"', 'watch_add = "A"', 'derive = "D"', 'graph = "O"', 'explain = "f6"']
    (tmp_path / "keys.toml").write_text("[keys]\n" + "\n".join(lines), "utf-8")
    async with bench((200, 50), FakeSession(), tmp_path) as (app, pilot, _):
        await submit(pilot, "K.dot(w, x)")
        assert "F6 explain" in text_of(app)
        for tab, words in (
            ("3", ("press W on a variable", "or A here")),
            ("4", ("press D on a tensor",)),
            ("5", ("press O on a tensor",)),
        ):
            await pilot.press(f"alt+{tab}")
            await settle(pilot)
            assert all(one in text_of(app) for one in words), text_of(app)
