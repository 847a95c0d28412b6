"""The parts that need no screen: geometry, texts, glyphs, indices, columns, rows, colours."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.color import Color
from textual.content import Content

from kbench.tui import layout as pane_layout
from kbench.tui.lesson import lesson_words
from kbench.tui.panes import rows
from kbench.tui.panes.registry import FOCUS_ORDER, SIDE_PANES
from kbench.tui.panes.value.slices import Target, parse, text_of
from kbench.tui.panes.value.views.grid import HEAT_STEP_SHARE
from kbench.tui.session import ui_state
from kbench.tui.text import no_colours
from kbench.tui.text.glyphs import ASCII, UNICODE, histogram, human_bytes, human_seconds
from kbench.tui.text.table import Column, column_widths
from kbench.tui.text.text import OutputDecoder, fold, fold_words, one_line, overwrite, safe, wrap
from kbench.tui.themes import THEMES
from kbench.tui.transcript.cells import Block, StreamPart
from kbench.workbench.protocol.names import VariableRow

CHOICES = st.builds(
    pane_layout.Choices,
    side=st.booleans(),
    tab=st.sampled_from(SIDE_PANES),
    zoom=st.sampled_from(("", *FOCUS_ORDER)),
    banner=st.integers(0, 3),
    lesson=st.booleans(),
    folded=st.booleans(),
)


@settings(deadline=None, max_examples=300)
@given(st.integers(1, 300), st.integers(1, 100), CHOICES, st.integers(1, 200))
def test_panes_tile_the_screen(
    width: int, height: int, choices: pane_layout.Choices, lines: int
) -> None:
    layout = pane_layout.arrange(width, height, choices, lines)
    for name, region in layout.regions.items():
        assert 0 <= region.x and region.right <= width, name
        assert 0 <= region.y and region.bottom <= height, name
    for (one, first), (other, second) in combinations(layout.regions.items(), 2):
        assert first.intersection(second).area == 0, (one, other)
    assert layout.regions.get("prompt", pane_layout.Region(0, 0, 1, 1)).area > 0
    assert "prompt" in layout.regions or choices.zoom in SIDE_PANES


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        ((59, 50), "tiny"),
        ((200, 15), "tiny"),
        ((60, 16), "compact"),
        ((99, 60), "compact"),
        ((200, 29), "compact"),
        ((100, 30), "two"),
        ((179, 60), "two"),
        ((180, 30), "three"),
    ],
)
def test_breakpoints(size: tuple[int, int], kind: str) -> None:
    assert pane_layout.arrange(*size, pane_layout.Choices(), 1).kind == kind


@pytest.mark.parametrize("width", [100, 120, 140, 179])
def test_the_session_has_more_than_half_of_two_columns(width: int) -> None:
    regions = pane_layout.arrange(width, 40, pane_layout.Choices(), 1).regions
    assert regions["transcript"].width == regions["prompt"].width > width * 0.54
    assert regions["variables"].width >= 43


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 50)])
def test_notices_move_what_is_below_them(size: tuple[int, int]) -> None:
    choices = pane_layout.Choices(notices=3, banner=1)
    regions = pane_layout.arrange(*size, choices, 1).regions
    assert "status" not in regions and regions["notices"].height == 3
    rest = [region for name, region in regions.items() if name != "notices"]
    assert all(region.y >= 3 and region.bottom <= size[1] for region in rest)


def test_a_dragged_border_stands_where_it_was_dropped() -> None:
    for border, size, x, y in (
        ("compact", (80, 24), 75, 12),
        ("two", (120, 40), 80, 5),
        ("two variables", (120, 40), 100, 25),
        ("three", (200, 50), 130, 5),
        ("three left", (200, 50), 50, 5),
        ("three watch", (200, 50), 20, 20),
        ("three value", (200, 50), 190, 30),
        ("compact lesson", (80, 24), 75, 12),
        ("two lesson", (120, 40), 30, 20),
        ("three lesson", (200, 50), 100, 25),
    ):
        lesson = border.endswith("lesson")
        choices = pane_layout.Choices(lesson=lesson, tab="lesson" if lesson else "variables")
        layout = pane_layout.arrange(*size, choices, 1)
        choices.move(border, pane_layout.share_at(border, layout, choices, x, y))
        moved = pane_layout.arrange(*size, choices, 1)
        near = [
            pane_layout.border_at(moved, x + right, y + down)
            for right in (-1, 0, 1)
            for down in (-1, 0, 1)
        ]
        assert border in near, border


@pytest.mark.parametrize(
    ("size", "pane", "border"),
    [
        ((80, 24), "prompt", "compact"),
        ((120, 40), "variables", "two variables"),
        ((120, 40), "value", "two variables"),
        ((120, 40), "prompt", ""),
        ((200, 50), "settings", "three watch"),
        ((200, 50), "value", "three value"),
        ((200, 50), "plan", "three value"),
        ((200, 50), "transcript", ""),
        ((40, 10), "prompt", ""),
    ],
)
def test_the_border_that_a_pane_moves(size: tuple[int, int], pane: str, border: str) -> None:
    layout = pane_layout.arrange(*size, pane_layout.Choices(), 1)
    assert pane_layout.border_of(layout, pane) == border


@pytest.mark.parametrize(
    ("size", "pane", "border"),
    [
        ((80, 24), "prompt", "compact lesson"),
        ((120, 40), "lesson", "two lesson"),
        ((120, 40), "variables", "two variables"),
        ((200, 50), "transcript", "three lesson"),
        ((40, 10), "lesson", ""),
    ],
)
def test_the_border_that_a_pane_moves_beside_a_lesson(
    size: tuple[int, int], pane: str, border: str
) -> None:
    layout = pane_layout.arrange(*size, pane_layout.Choices(lesson=True, tab="lesson"), 1)
    assert pane_layout.border_of(layout, pane) == border


@pytest.mark.slow
@settings(deadline=None)
@given(st.text())
def test_safe_text_has_no_control_or_bidi_characters(text: str) -> None:
    shown = safe(text)
    assert not any(ord(one) < 32 and one != "\n" for one in shown)
    assert not any(one in shown for one in "\u202e\u202d\u2066\u2067\u200b\ufeff\x7f\x9b")


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("a\nb", 5, "a b"),
        ("abc", 0, ""),
        ("\x1b[31m", 20, "\\x1b[31m"),
    ],
)
def test_one_line(text: str, width: int, shown: str) -> None:
    assert one_line(text, width) == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("10%\r20%\r30%", "30%"),
        ("abcdef\rXY", "XYcdef"),
        ("ab\bc", "ac"),
        ("\b\bx", "x"),
        ("done\r", "done"),
    ],
)
def test_overwriting_characters(line: str, shown: str) -> None:
    assert overwrite(line) == shown


def test_colours_of_output_are_kept_and_all_else_removed() -> None:
    decoder = OutputDecoder()
    line = decoder.line("\x1b[31mred\x1b[2J\x1b]0;title\x07 \x00 more")
    assert line.plain == "red \\x00 more" and line.spans
    assert decoder.line("still red").spans
    assert decoder.line("\x1b[0mplain").plain == "plain"


@settings(deadline=None)
@given(st.text(alphabet="ab 日é[]", max_size=200), st.integers(2, 40))
def test_folding_loses_nothing(text: str, width: int) -> None:
    folded = fold(Content(text), width)
    assert "".join(row.plain for row in folded) == text
    assert all(row.cell_length <= width for row in folded)
    words = fold_words(Content(text), width)
    assert "".join(row.plain for row in words).replace(" ", "") == text.replace(" ", "")
    assert all(row.cell_length <= width for row in words)
    broken = wrap(Content(text), width, " ,(")
    assert "".join(row.plain for row in broken) == text
    assert all(row.cell_length <= width for row in broken)
    hung = wrap(Content(text), width, " ,(", 3)
    lead = " " * 3 * (3 <= width // 2)
    assert hung[0].plain + "".join(row.plain.removeprefix(lead) for row in hung[1:]) == text
    assert all(row.plain.startswith(lead) and row.cell_length <= width for row in hung[1:])


def test_a_stream_is_drawn_piece_by_piece_as_at_once() -> None:
    text = "one\ntwo \x1b[32mgreen\nthree\x1b[0m\n" + "x" * 100 + "\nlast"
    whole, pieces = StreamPart("stdout"), StreamPart("stdout")
    whole.append(text)
    for character in text:
        pieces.append(character)
        pieces.rows(30)
    assert [row.plain for row in pieces.rows(30)] == [row.plain for row in whole.rows(30)]
    assert pieces.plain() == whole.plain()


def test_a_stream_is_capped_and_says_so() -> None:
    part = StreamPart("stdout")
    part.append("x\n" * 12_000)
    drawn = part.rows(80)
    assert len(drawn) == 10_001 and "2,000 earlier lines" in drawn[0].plain


@pytest.mark.parametrize(
    ("text", "width", "rows"),
    [
        ("0.125 -0.132 0.640 0.104", 16, ["0.125 -0.132", "0.640 0.104"]),
        ("0.125 0.132 0.640", 11, ["0.125 0.132", "0.640"]),
        (
            "    an indented paragraph goes on",
            20,
            ["    an indented", "    paragraph goes", "    on"],
        ),
        ("Layer   Shape   Params", 16, ["Layer   Shape", "Params"]),
        ("a verylongwordthatnoblankisnear", 10, ["a verylong", "wordthatno", "blankisnea", "r"]),
        ("================", 8, ["========", "========"]),
        ("fits", 8, ["fits"]),
    ],
)
def test_printed_lines_are_cut_at_blanks(text: str, width: int, rows: list[str]) -> None:
    assert [row.plain for row in fold_words(Content(text), width)] == rows


def test_long_lines_of_code_hang_below_their_beginning() -> None:
    code = (
        "def step(x):\n    return update(weights, gradient(loss), rate)\n"
        "y = step(first, second, third, fourth)"
    )
    rows = Block("1", code, "ok").rows(36, UNICODE)
    assert [row.plain for row in rows] == [
        "In [*]: def step(x):",
        "            return update(weights, ",
        "                gradient(loss), ",
        "                rate)",
        "        y = step(first, second, ",
        "            third, fourth)",
    ]


def test_a_folded_cell_is_one_row_of_output() -> None:
    block = Block("1", "f()", "ok")
    block.stream("stdout", "a\nb\nc\n")
    block.folded = True
    assert [row.plain.strip() for row in block.rows(60, UNICODE)][1:] == [
        "a",
        "… 2 more rows, Enter unfolds",
    ]


@pytest.mark.parametrize(
    ("bins", "width", "shown"),
    [
        ([0, 0], 8, "  "),
        ([1, 8], 8, "▂█"),
        ([1] * 16, 4, "████"),
        ([], 8, ""),
        ([5, 0, 5], 3, "█ █"),
    ],
)
def test_histogram(bins: list[int], width: int, shown: str) -> None:
    assert histogram(bins, UNICODE, width) == shown
    assert histogram(bins, ASCII, width).isascii()


@pytest.mark.parametrize(
    ("count", "shown"),
    [(None, "-"), (4, "4 B"), (31360, "31 kB"), (3 * 2**20, "3 MB"), (2**50, "1024 TB")],
)
def test_human_bytes(count: int | None, shown: str) -> None:
    assert human_bytes(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(35e-6, "35 us"), (0.0018, "1.8 ms"), (0.25, "250 ms"), (2.4, "2.40 s"), (200, "3 min 20 s")],
)
def test_human_seconds(seconds: float, shown: str) -> None:
    assert human_seconds(seconds) == shown


HERE = Target((0, 0, 0, 0), 2, 3)


@pytest.mark.parametrize(
    ("text", "slice_text", "cell"),
    [
        ("1, :, :, 2", "[1, :, :, 2]", None),
        ("[1, 2, :, :]", "[1, 2, :, :]", None),
        ("..., 1, 1", "[:, :, 1, 1]", None),
        ("-1, 0, 1, 2", "[5, 0, :, :]", (1, 2)),
        ("3, 2", "[0, 0, :, :]", (3, 2)),
        ("3", "[0, 0, :, :]", (3, 0)),
        (":, 0, 0, 0", "[:, 0, 0, 0]", None),
    ],
)
def test_indices(text: str, slice_text: str, cell: tuple[int, int] | None) -> None:
    target = parse(text, (6, 5, 4, 3), HERE)
    if ":" in text or "..." in text:
        assert text_of(target) == slice_text
    else:
        assert target.cell == cell and text_of(target) == slice_text


@pytest.mark.parametrize("text", ["", "x", "9, 9", "1, 2, 3", ":, :, :, 0", ":, 0", "1, 2, 3, 9"])
def test_wrong_indices_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        parse(text, (6, 5, 4, 3), HERE)


COLUMNS = (
    Column("name", 0, most=24),
    Column("kind", 2),
    Column("size", 1),
    Column("note", 0, most=60, least=10, stretch=True),
)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 90)] * 4), max_size=5), st.integers(1, 200))
def test_columns_fit_the_width(texts: list[tuple[int, ...]], width: int) -> None:
    widths = column_widths(COLUMNS, texts, width)
    shown = [one for one in widths if one]
    assert shown and (sum(shown) + 2 * (len(shown) - 1) <= width or max(shown) <= 4)


def test_columns_leave_by_rank() -> None:
    texts = [(6, 4, 8, 40)]
    assert column_widths(COLUMNS, texts, 80) == [6, 4, 8, 56]
    assert column_widths(COLUMNS, texts, 32)[1] == 0
    assert column_widths(COLUMNS, texts, 24)[1:3] == [0, 0]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.5, ".5"),
        (-0.25, "-.25"),
        (1e-7, "1e-7"),
        (123456.0, "1.23e5"),
        (3, "3"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Inf"),
        (0.0, "0"),
    ],
)
def test_numbers(value: float | None, shown: str) -> None:
    assert rows.number_text(value) == shown


def test_what_an_answer_has_made_is_named_with_its_kind() -> None:
    known = [
        VariableRow(name="Layer", kind="gone"),
        VariableRow(name="y", kind="tensor", shape=[None, 4], dtype="float32"),
    ]
    said = lesson_words.created(["Layer", "y", "other"], known)
    assert said == "`Layer`; `y`, tensor (?, 4) float32; `other`"


def test_remembered_survives_and_a_broken_file_is_put_aside(tmp_path: Path) -> None:
    state = ui_state.UiState("kbench-light", {"two": 60})
    assert ui_state.save(tmp_path, state) == ""
    assert ui_state.load(tmp_path) == (state, "")
    (tmp_path / ui_state.FILE).write_text("{broken", encoding="utf-8")
    found, problem = ui_state.load(tmp_path)
    assert found == ui_state.UiState() and "kept as" in problem
    assert (tmp_path / "workbench.broken").read_text(encoding="utf-8") == "{broken"
    assert ui_state.load(tmp_path) == (ui_state.UiState(), "")
    (tmp_path / ui_state.FILE).write_text("[1]", encoding="utf-8")
    assert "workbench.broken-2" in ui_state.load(tmp_path)[1]
    assert (tmp_path / "workbench.broken").read_text(encoding="utf-8") == "{broken"


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_text_of_our_themes_has_enough_contrast(theme: object) -> None:
    made = theme.to_color_system().generate()  # type: ignore[attr-defined]
    words = ("foreground", *(f"text-{one}" for one in ("success", "warning", "error", "accent")))
    for ground in ("background", "surface", "panel"):
        base = Color.parse(made[ground])
        for name in (*words, "text-primary"):
            colour = Color.parse(made[name])
            assert contrast(base, colour) >= 4.5, (theme, ground, name)
        muted = base.blend(Color.parse(made["foreground"]), 0.65)
        assert contrast(base, muted) >= 4.5, (theme, ground, "muted")
    marked = {
        "cursor": Color.parse(made["background"]).blend(Color.parse(made["primary"]), 0.3),
        "flash": Color.parse(made["background"]).blend(Color.parse(made["success"]), 0.25),
    }
    for place, base in marked.items():
        assert contrast(base, Color.parse(made["foreground"])) >= 4.5, (theme, place)
    for ground in ("error", "accent", "block-cursor-background"):
        base = Color.parse(made[ground])
        assert contrast(base, base + base.get_contrast_text(0.87)) >= 4.5, (theme, ground, "on it")
    cold, warm = Color.parse(made["surface"]), Color.parse(made["primary"])
    for level in range(10):
        heat = cold.blend(warm, HEAT_STEP_SHARE * level)
        assert contrast(heat, Color.parse(made["foreground"])) >= 4.5, (theme, "heat", level)


def contrast(first: Color, second: Color) -> float:
    """The contrast ratio of WCAG 2."""

    def luminance(colour: Color) -> float:
        parts = []
        for part in colour.rgb:
            share = part / 255
            parts.append(share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4)
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("\x1b[1;38;2;10;20;30;48;5;7;4mx\x1b[0m", "\x1b[1;4mx\x1b[0m"),
        ("\x1b[31mx\x1b[39;49m", "x"),
        ("\x1b[38:2::1:2:3;7mx", "\x1b[7mx"),
        ("\x1b[97;103mx\x1b[m", "x\x1b[m"),
        ("\x1b[58;5;3;4mx\x1b[2J\x1b[3;4H", "\x1b[4mx\x1b[2J\x1b[3;4H"),
    ],
)
def test_codes_of_colours_are_taken_out(written: str, wanted: str) -> None:
    assert no_colours.stripped(written) == wanted
