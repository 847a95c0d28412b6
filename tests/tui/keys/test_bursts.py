"""Text that is pasted without brackets comes as one paste, keys as keys."""

from __future__ import annotations

from typing import Any

import pytest
from bench_screen import bench, settle
from textual import events

from kbench.tui.keys.bursts import (
    BURST_PAUSE_SECONDS,
    LONG_BURST_CHARACTERS,
    BurstParser,
    pasted,
)

LOOP = "for i in range(3):\r    if i:\r        print(i)\r\rdone = 1\r"
START, END = "\x1b[200~", "\x1b[201~"


@pytest.mark.parametrize(
    ("data", "is_paste"),
    [
        (LOOP, True),
        (LOOP.replace("\r", "\n"), True),
        ("x = 1\r\ny = 2\r\n", True),
        ("if x:\r\ty\r", True),
        ("a" * LONG_BURST_CHARACTERS, True),
        ("K.dot(a, K.ones((3, 2)))\r", False),  # typed ahead, and run
        ("\rabc", False),  # Enter, and what was typed while the program was busy
        ("a\rb\r", False),
        ("x = 1\r\x1b[Ay = 2\r", False),  # keys
        ("x = 1\ry = \x03", False),
        ("\r\r\r\r\r\r\r\r\r\r", False),
        ("", False),
    ],
)
def test_what_counts_as_pasted(data: str, is_paste: bool) -> None:
    assert pasted(data) == is_paste


def events_of(reads: list[tuple[float, str]]) -> list[str]:
    """What a parser makes of reads at some moments: `<text>` for what was pasted, else keys."""
    now = [0.0]
    parser = BurstParser(clock=lambda: now[0])
    made: list[str] = []
    for moment, data in reads:
        now[0] = moment
        for event in parser.feed(data):
            if isinstance(event, events.Paste):
                made.append(f"<{event.text}>")
            elif isinstance(event, events.Key):
                made.append(event.character or event.key)
    return made


SOON, LATER = BURST_PAUSE_SECONDS / 2, BURST_PAUSE_SECONDS * 2
READS = [
    ([(0, LOOP)], ["<" + LOOP.replace("\r", "\n") + ">"]),
    ([(0, LOOP), (SOON, "a\r")], ["<" + LOOP.replace("\r", "\n") + ">", "<a\n>"]),
    ([(0, LOOP), (LATER, "a\r")], ["<" + LOOP.replace("\r", "\n") + ">", "a", "\r"]),
    ([(0, LOOP), (SOON, "\x03")], ["<" + LOOP.replace("\r", "\n") + ">", "\x03"]),
    ([(0, "a"), (SOON, "\r")], ["a", "\r"]),
    ([(0, START + LOOP + END)], ["<" + LOOP + ">"]),
    ([(0, START + "ab"), (0, LOOP), (0, END), (1, "x\r")], ["<ab" + LOOP + ">", "x", "\r"]),
    ([(0, START[:3]), (0, START[3:] + "ab"), (0, LOOP), (0, END)], ["<ab" + LOOP + ">"]),
]


@pytest.mark.parametrize(("reads", "made"), READS)
def test_reads_become_keys_or_pasted_text(reads: list[tuple[float, str]], made: list[str]) -> None:
    assert events_of(reads) == made


async def test_a_burst_keeps_its_indentation_and_does_not_run() -> None:
    async with bench((120, 40)) as (app, pilot, session):
        prompt: Any = app.query_one("#prompt")
        for event in BurstParser().feed(LOOP):
            app.post_message(event)
        await settle(pilot)
        assert prompt.text == LOOP.replace("\r", "\n") and not session.cells
