"""What of a message of printed text is read when its kernel does not bound what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sampling import every

from kbench.workbench.output import rate_limit, stream
from kbench.workbench.output.rate_limit import (
    BURST_BYTES,
    BYTES_PER_SECOND,
    DROPPED_FIELD,
    MAX_MESSAGE_BYTES,
    RateLimit,
)
from kbench.workbench.output.stream import Output
from kbench.workbench.session.events import Stream


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def content(text: str, name: str = "stdout", ascii_only: bool = False) -> memoryview:
    body = json.dumps({"name": name, "text": text}, ensure_ascii=ascii_only)
    return memoryview(body.encode("utf-8", "surrogatepass"))


TEXTS = [
    ("plain", "x" * 3 * MAX_MESSAGE_BYTES),
    ("lines", "ab\n" * MAX_MESSAGE_BYTES),
    ("two bytes", "é" * 2 * MAX_MESSAGE_BYTES),
    ("four bytes", "a" + "😀" * MAX_MESSAGE_BYTES),
    ("escapes", 'a"\\\t' * MAX_MESSAGE_BYTES),
]


@pytest.mark.parametrize("ascii_only", every(2, [False, True]))
@pytest.mark.parametrize(("kind", "text"), TEXTS, ids=[one[0] for one in TEXTS])
def test_of_a_large_message_the_beginning_is_read(kind: str, text: str, ascii_only: bool) -> None:
    for shift in range(13):  # so that the cut falls into every part of a character
        message = content("b" * shift + text, "stderr", ascii_only)
        kept = RateLimit(Clock()).cut(message)
        assert kept is not None and kept["name"] == "stderr"
        assert ("b" * shift + text).startswith(kept["text"]) and kept[DROPPED_FIELD] > 0
        size = len(content(kept["text"], "stderr", ascii_only))
        assert MAX_MESSAGE_BYTES - 24 < size < MAX_MESSAGE_BYTES + 24
        assert kept[DROPPED_FIELD] == len(message) - MAX_MESSAGE_BYTES


def test_no_more_is_read_than_the_rate_allows_and_again_once_time_has_passed() -> None:
    clock = Clock()
    taken = RateLimit(clock)
    read = 0
    message = content("x" * 2 * MAX_MESSAGE_BYTES)
    for _ in range(100):
        kept = taken.cut(message)
        assert kept is not None
        read += len(message) - kept[DROPPED_FIELD]
    assert BURST_BYTES - MAX_MESSAGE_BYTES <= read <= BURST_BYTES
    kept = taken.cut(message)
    assert kept == {"name": "stdout", "text": "", DROPPED_FIELD: len(message)}
    clock.now += MAX_MESSAGE_BYTES / BYTES_PER_SECOND
    kept = taken.cut(message)
    assert kept is not None and kept[DROPPED_FIELD] == len(message) - MAX_MESSAGE_BYTES


def test_what_is_small_or_of_another_form_is_read_whole() -> None:
    assert RateLimit(Clock()).cut(content("x" * 1000)) is None
    assert RateLimit(Clock()).cut(content("x" * (MAX_MESSAGE_BYTES - 100))) is None
    assert (
        RateLimit(Clock()).cut(memoryview(b'{"text": "' + b"x" * 2 * MAX_MESSAGE_BYTES + b'"}'))
        is None
    )


def test_what_was_not_read_is_told_and_ends_what_is_shown(tmp_path: Path) -> None:
    shown: list[Stream] = []
    out = Output(shown.append, tmp_path)
    out.add(1, "stdout", "seen\n")
    out.drop(1, 2_500_000)
    out.drop(1, 1_000_000)
    out.add(1, "stdout", "later\n")
    out.close(1)
    (spilled,) = tmp_path.glob("*-cell-1.txt")
    assert spilled.read_text() == "later\n"
    assert "".join(one.text for one in shown) == (
        "seen\n\noutput cut after 1 lines: it comes faster than it can be shown\n"
        f"6 more characters in {spilled}\n3.5 MB came too fast and were dropped\n"
    )


def test_a_message_that_is_always_read_fits_under_the_cap_of_a_cell() -> None:
    assert rate_limit.MAX_WHOLE_BYTES < MAX_MESSAGE_BYTES < stream.MAX_CHARACTERS < BURST_BYTES
