"""Memory that the pool takes from the system."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from kbench.engine.execute.buffer_pool import MIN_MAPPED_BYTES, fresh_bytes


@pytest.mark.parametrize(
    "size", [1, MIN_MAPPED_BYTES - 1, MIN_MAPPED_BYTES, 3 * MIN_MAPPED_BYTES + 1]
)
def test_fresh_bytes_can_be_filled_to_their_ends(size: int) -> None:
    first, second = fresh_bytes(size), fresh_bytes(size)
    assert first.shape == (size,) and first.flags.writeable and first.flags.c_contiguous
    first.fill(1)
    second.fill(2)
    assert (first == 1).all() and (second == 2).all()


def test_more_bytes_than_there_are_are_refused() -> None:
    with pytest.raises(MemoryError):
        fresh_bytes(1 << 60)


@pytest.mark.skipif(sys.platform != "linux", reason="where NumPy asks for huge pages")
def test_fresh_bytes_are_not_in_pages_that_were_asked_to_be_huge() -> None:
    def is_advised(array: np.ndarray) -> bool:
        """Whether the mapping that holds the middle of it says `hg`."""
        middle, inside = array.ctypes.data + array.nbytes // 2, False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if mapping := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
                begin, end = (int(part, 16) for part in mapping.groups())
                inside = begin <= middle < end
            elif inside and line.startswith("VmFlags:"):
                return "hg" in line.split()
        raise AssertionError("no mapping holds it")

    kept = fresh_bytes(16 * MIN_MAPPED_BYTES)
    assert not is_advised(kept)
