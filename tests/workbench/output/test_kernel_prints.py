"""What cells print reaches a front end in pieces; endless printing takes no endless memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from session_helpers import make

from kbench.workbench.output import kernel_prints
from kbench.workbench.session.kernel_session import KernelSession

# Characters that IPython still holds of what was printed.
KEPT = (
    "sum(len(text) for cell in get_ipython().history_manager.outputs.values() for one in cell"
    " for text in one.bundle.get('stream', ()))"
)


class Pipe:
    """A stream as ipykernel's, which counts."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.flushed = 0

    def write(self, text: str) -> int:
        self.written.append(text)
        return len(text)

    def flush(self) -> None:
        self.flushed += 1


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds for which a writer had to wait; time itself stands still."""
    waits: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: 100.0, sleep=waits.append)
    monkeypatch.setattr(kernel_prints, "time", clock)
    return waits


def test_long_text_goes_out_in_pieces_at_once(slept: list[float]) -> None:
    pipe = Pipe()
    out = kernel_prints.PrintThrottle(pipe)
    text = "abcdefg" * kernel_prints.CHUNK_CHARACTERS
    assert out.write(text) == len(text) and "".join(pipe.written) == text
    assert max(map(len, pipe.written)) == kernel_prints.CHUNK_CHARACTERS and pipe.flushed == 7
    assert out.write("end") == 3 and pipe.flushed == 7
    assert slept == []


def test_many_short_texts_are_sent_before_they_are_many(slept: list[float]) -> None:
    pipe = Pipe()
    out = kernel_prints.PrintThrottle(pipe)
    for _ in range(3 * kernel_prints.CHUNK_CHARACTERS // 1000 + 3):
        out.write("y" * 1000)
    assert pipe.flushed == 3


def test_beyond_the_burst_a_writer_waits_its_turn(slept: list[float]) -> None:
    out = kernel_prints.PrintThrottle(Pipe())
    out.write("y" * kernel_prints.BURST_CHARACTERS)
    assert slept == []
    out.write("y" * kernel_prints.CHUNK_CHARACTERS)
    assert slept == [kernel_prints.CHUNK_CHARACTERS / kernel_prints.CHARACTERS_PER_SECOND]


def test_what_is_no_text_is_refused_as_ever(slept: list[float]) -> None:
    class Strict(Pipe):
        def write(self, text: str) -> int:
            if not isinstance(text, str):
                raise TypeError("write() argument must be str")
            return len(text)

    with pytest.raises(TypeError, match="must be str"):
        kernel_prints.PrintThrottle(Strict()).write(3)  # type: ignore[arg-type]


def test_a_copy_of_what_is_printed_ends_with_its_room(slept: list[float]) -> None:
    pipe: Any = Pipe()
    out = kernel_prints.PrintThrottle(pipe)
    copied: list[str] = []

    def tee(text: str) -> int:
        copied.append(text)
        return out.write(text)

    for _ in range(3):  # cells
        pipe.write = tee
        out.begin()
        for _ in range(20):
            pipe.write("y" * kernel_prints.CHUNK_CHARACTERS)
    assert (
        sum(map(len, copied))
        <= kernel_prints.MAX_COPIED_CHARACTERS + kernel_prints.CHUNK_CHARACTERS
    )


def test_a_flood_arrives_whole_and_leaves_nothing_behind(tmp_path: Path) -> None:
    kernel = make(KernelSession, tmp_path)
    try:
        cell, _ = kernel.run("print('é' * 300_000, end='|')\nprint('z' * 300_000)")
        assert kernel.text(cell) == "é" * 300_000 + "|" + "z" * 300_000 + "\n"
        cell = kernel.session.execute("while True: print('y' * 10_000_000, end='')")
        kernel.until(lambda: len(kernel.text(cell)) > 1_000_000)
        kernel.session.interrupt()
        assert kernel.done(cell).status == "interrupted"
        _, done = kernel.run(f"assert {KEPT} < 12_000_000")
        assert done.ok
    finally:
        kernel.session.shutdown()
