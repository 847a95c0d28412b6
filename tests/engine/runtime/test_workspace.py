"""Scratch memory: aligned, apart, kept for the next call, and shared among launches that stay."""

from __future__ import annotations

import numpy as np
import pytest

from kbench.engine.runtime import workspace as home
from kbench.engine.runtime.workspace import (
    ALIGN_BYTES,
    MIN_BLOCK_BYTES,
    SHARED_BYTES,
    LastingWorkspace,
    NoRoomError,
    Workspace,
)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "_spare", [])


@pytest.mark.parametrize("kind", [Workspace, LastingWorkspace])
def test_what_is_taken_is_aligned_and_apart(kind: type[Workspace]) -> None:
    space = kind()
    spans = sorted((space.take(size), size) for size in (1, 0, 64, 100, 5000, 3, MIN_BLOCK_BYTES))
    assert all(begin % ALIGN_BYTES == 0 for begin, _ in spans)
    assert all(a + n <= b for (a, n), (b, _) in zip(spans, spans[1:], strict=False))


@pytest.mark.parametrize("kind", [Workspace, LastingWorkspace])
def test_arrays_can_be_filled_to_their_ends(kind: type[Workspace]) -> None:
    space = kind()
    shapes = [(3, 5), (0,), (1,), (300, 1000), (2, 2)]
    arrays = [space.array(shape, np.dtype("float64")) for shape in shapes]
    for number, array in enumerate(arrays):
        array.fill(number)
    for number, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        assert array.shape == shape and array.flags.c_contiguous and (array == number).all()


def test_memory_is_used_again_once_it_is_given_back() -> None:
    first = Workspace()
    begin = first.take(1000)
    other = Workspace()
    assert other.take(1000) != begin
    first.release()
    assert Workspace().take(1000) == begin


def test_an_interrupted_call_gives_nothing_back() -> None:
    Workspace().take(1000)
    assert home._spare == []


def test_large_blocks_and_many_are_not_kept() -> None:
    large = Workspace()
    large.take(home.MAX_KEPT_BYTES + 1)
    large.release()
    assert home._spare == []
    spaces = [Workspace() for _ in range(home.MAX_KEPT_BLOCKS + 3)]
    for space in spaces:
        space.take(10)
    for space in spaces:
        space.release()
    assert len(home._spare) == home.MAX_KEPT_BLOCKS


def test_a_call_finds_all_the_blocks_of_the_one_before() -> None:
    places = []
    for _ in range(3):
        space = Workspace()
        places.append([space.take(size, 10**8) for size in (10, 10**6, 10**7, 20)])
        space.release()
    assert places[0] == places[1] == places[2]


def test_the_largest_blocks_are_kept() -> None:
    for size in (1, 2, 6, 3, 5, 4):
        spaces = [Workspace() for _ in range(2)]
        for space in spaces:
            space.take(size * MIN_BLOCK_BYTES, 10**8)
        for space in spaces:
            space.release()
    assert sorted(block.size // MIN_BLOCK_BYTES for block in home._spare)[-2:] == [6, 6]
    assert len(home._spare) == home.MAX_KEPT_BLOCKS


def test_lasting_launches_share_one_block() -> None:
    assert LastingWorkspace().take(100) == LastingWorkspace().take(100)
    with pytest.raises(NoRoomError):
        LastingWorkspace().take(SHARED_BYTES + 1)
    space = LastingWorkspace()
    space.take(SHARED_BYTES - 100)
    with pytest.raises(NoRoomError):
        space.take(200)
    assert np.array_equal(home._spare, [])
