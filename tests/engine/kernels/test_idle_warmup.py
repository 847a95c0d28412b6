"""The library compiles while nothing runs, and never while a cell does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbench.engine.kernels import idle_warmup
from kbench.engine.kernels.idle_warmup import IdleWarmup

ENTRIES = [(f"kernel {number}", "float32", "all") for number in range(4)]


class Library:
    """A library whose kernels take a while, and what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.pending_until = 0.0

    def catalogue(self) -> list[tuple[str, str, str]]:
        return ENTRIES

    def find(self, name: str, _dtype: str, _view: str) -> None:
        if name not in self.asked:
            self.asked.append(name)
            self.pending_until = time.monotonic() + 0.05

    def pending(self) -> int:
        return int(time.monotonic() < self.pending_until)

    def wait_for_change(self, _timeout: float) -> None:
        time.sleep(0.01)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Library]:
    made = Library()
    monkeypatch.setenv("KBENCH_JIT", "auto")
    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(idle_warmup, "registry", made)
    monkeypatch.setattr(idle_warmup, "service", made)
    monkeypatch.setattr(idle_warmup, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(idle_warmup.kernel_pack, "is_usable", lambda: False)
    yield made


def _ended(warmup: IdleWarmup) -> bool:
    thread = warmup._thread
    if thread is None:
        return True
    thread.join(timeout=10)
    return not thread.is_alive()


def test_all_of_the_library_is_compiled_once(library: Library) -> None:
    warmup = IdleWarmup(0.02)
    warmup.resume()
    assert _ended(warmup)
    assert library.asked == [name for name, _, _ in ENTRIES]
    library.asked.clear()
    again = IdleWarmup(0.02)
    again.resume()
    assert _ended(again)
    assert not library.asked  # the cache tells that it was


def test_a_cell_comes_first(library: Library) -> None:
    warmup = IdleWarmup(0.02)
    warmup.resume()
    while not library.asked:
        time.sleep(0.005)
    warmup.pause()
    time.sleep(0.1)
    seen = len(library.asked)
    time.sleep(0.2)
    assert len(library.asked) == seen < len(ENTRIES)
    warmup.resume()
    assert _ended(warmup)
    assert len(library.asked) == len(ENTRIES)


def test_nothing_is_begun_before_some_time_has_passed(library: Library) -> None:
    warmup = IdleWarmup(60)
    warmup.resume()
    time.sleep(0.1)
    assert not library.asked
    warmup.stop()
    assert _ended(warmup)


@pytest.mark.parametrize("mode", ["off", "wait"])
def test_only_where_kernels_are_compiled_in_the_background(
    library: Library, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", mode)
    warmup = IdleWarmup(0.01)
    warmup.resume()
    assert warmup._thread is None
    assert not library.asked


def test_a_pack_makes_it_needless(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_warmup.kernel_pack, "is_usable", lambda: True)
    warmup = IdleWarmup(0.01)
    warmup.resume()
    assert _ended(warmup)
    assert not library.asked
