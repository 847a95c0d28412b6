"""What is told in passing takes the status line's place and covers neither prompt nor output."""

from __future__ import annotations

import pytest
from bench_screen import bench, settle, submit, text_of

from kbench.tui.session.notices import MAX_NOTICE_ROWS

LONG = "/home/somebody/.local/state/kbench/keys.toml: there is no preset 'wordstar'; " * 2
SIZES = [(20, 5), (60, 16), (80, 24), (120, 40), (200, 50)]


@pytest.mark.parametrize("size", SIZES)
async def test_no_row_of_the_session_is_covered(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, _):
        await submit(pilot, "[1, 2, 3]")
        app.notify(LONG, severity="warning", timeout=60, markup=False)
        await settle(pilot)
        screen = text_of(app).split("\n")
        region = app.query_one("#notices").region
        assert region.y == 0 and 1 <= region.height <= MAX_NOTICE_ROWS
        assert screen[0].startswith(" /home/somebody")
        assert not any(toast.region for toast in app.query("Toast"))  # Textual's own
        assert any("Out[1]: [1, 2, 3]" in row for row in screen[region.height :])
        for name in ("prompt", "transcript"):
            shown = app.query_one(f"#{name}")
            assert shown.display and not shown.region.overlaps(region)
        if size[0] >= 80:
            joined = " ".join(row.strip() for row in screen[: region.height])
            assert joined.count("'wordstar'") == 2


async def test_words_go_and_are_not_told_twice() -> None:
    async with bench((120, 40), clock=lambda: 0.0) as (app, pilot, _):
        for words, severity in (
            ("saved", "information"),
            ("broken", "error"),
            ("saved", "warning"),
        ):
            app.notify(words, severity=severity, timeout=60)  # type: ignore[arg-type]
        await settle(pilot)
        assert text_of(app).split("\n")[:2] == [" broken", " saved"]
        assert app.query_one("#notices").has_class("error")
        app.notify("[b]soon[/b] gone", timeout=0.01)
        await settle(pilot)
        await pilot.pause(0.05)
        await settle(pilot)
        assert text_of(app).split("\n")[:2] == [" broken", " saved"]
        app.clear_notifications()
        await settle(pilot)
        assert "idle" in text_of(app).split("\n")[0]
        assert app.screen.arrangement.choices.notices == 0  # type: ignore[attr-defined]


async def test_markup_of_data_is_text() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        app.notify("[bold]x[/bold]\x1b[2J", timeout=60, markup=False)
        await settle(pilot)
        assert text_of(app).startswith(" [bold]x[/bold]")
