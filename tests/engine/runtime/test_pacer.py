"""How work is cut into tiles: ranges that cover it, and what is learned from large ones."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kbench.engine.runtime import pacer
from kbench.engine.runtime.pacer import TILE_SECONDS, Pacer


def clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """A clock by which every tile takes so long."""
    ticks = (count * seconds for count in range(10**6))
    monkeypatch.setattr(pacer, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))


@pytest.mark.parametrize("items", [0, 1, 7, 1000])
@pytest.mark.parametrize("least", [1, 8])
@pytest.mark.parametrize("seconds", [1e-12, 1e-6, 1.0])
def test_tiles_cover_all_items_and_each_is_checked_before(
    items: int, least: int, seconds: float
) -> None:
    looks: list[int] = []
    found = []
    for start, stop in Pacer(seconds).tiles(items, 50, lambda: looks.append(1), least):
        found.append((start, stop))
        assert len(looks) == len(found)
    assert [number for start, stop in found for number in range(start, stop)] == list(range(items))
    assert all(stop - start >= least for start, stop in found[:-1])


def test_without_a_check_all_is_one_tile() -> None:
    assert list(Pacer(1.0).tiles(1000, 10**9, None)) == [(0, 1000)]


def test_a_tile_takes_no_longer_than_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    paced = Pacer(1e-9, min_work=1e5)
    clock(monkeypatch, 0.1)  # a machine on which 10**6 elements take 0.1 s
    for _ in range(4):
        next(iter(paced.tiles(10**6, 1.0, lambda: None)))
        list(paced.tiles(10**6, 1.0, lambda: None))
    sizes = [stop - start for start, stop in paced.tiles(10**6, 1.0, lambda: None)]
    assert max(sizes) * paced.seconds <= TILE_SECONDS


def test_small_work_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    paced = Pacer(1e-9, min_work=1e5)
    clock(monkeypatch, 0.5)
    list(paced.tiles(99_999, 1.0, lambda: None))
    assert paced.seconds == 1e-9


def test_one_slow_run_does_not_set_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that waited for other work took long; the next is not cut into tiny tiles."""
    paced = Pacer(1e-9, min_work=1e5)
    clock(monkeypatch, 100.0)
    list(paced.tiles(10**6, 1.0, lambda: None))
    assert paced.seconds == pacer.MAX_GROWTH * 1e-9


def test_a_fast_machine_is_believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    paced = Pacer(1e-8, min_work=1e5)
    clock(monkeypatch, 1e-3)
    list(paced.tiles(10**6, 1.0, lambda: None))
    assert paced.seconds == pytest.approx(2e-9)


def test_tiles_that_are_small_by_a_wrong_guess_tell_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a guess that is too high stays: no tile is ever large enough to tell."""
    paced = Pacer(1e-6, min_work=1e5)
    clock(monkeypatch, 1e-5)
    assert TILE_SECONDS / paced.seconds < 1e5
    list(paced.tiles(10**6, 1.0, lambda: None))
    assert paced.seconds < 1e-8
    assert len(list(paced.tiles(10**6, 1.0, lambda: None))) == 1
