"""What LLVM makes of a loop that it is told something of."""

from __future__ import annotations

import re
from unittest import mock

import numba.core.codegen

from kbench.engine.jit.numba_backend import Entry, target_features

SOURCE = """
from kbench.engine.intrinsics.toolkit import (
    exact_kernel, exp_f32, field, load_float32, masked, store_float32, two_vectors
)

@exact_kernel
def run(params, start, stop):
    x, y = field(params, 0), field(params, 1)
{loops}
"""

LOOP = """
    for j in range(start, stop):
        store_float32(y, j, exp_f32(load_float32(x, j)))
        {hint}
"""
"""A loop whose last helper is merged into the kernel late: until then hints may get lost."""


def _compiled(*hints: str) -> str:
    """LLVM's instructions for loops, one after the other."""
    library = numba.core.codegen.CPUCodeLibrary
    found: list[str] = []
    own = library.finalize

    def finalize(self: object) -> None:
        own(self)
        found.append(str(self._final_module))  # type: ignore[attr-defined]

    names: dict[str, object] = {}
    loops = "".join(LOOP.format(hint=hint) for hint in hints)
    with mock.patch.object(library, "finalize", finalize):
        exec(compile(SOURCE.format(loops=loops), "loops", "exec"), names)
    assert isinstance(names["run"], Entry)
    return found[-1]


def _most_at_once(text: str) -> int:
    """The most vectors of numbers that one block of instructions stores."""
    blocks = re.split(r"\n\n", text)
    return max(len(re.findall(r"store <\d+ x float>", block)) for block in blocks)


def test_two_vectors_are_taken_at_a_time() -> None:
    plain, two = _compiled("pass"), _compiled("two_vectors()")
    assert _most_at_once(two) == 2 != _most_at_once(plain)


def test_what_is_left_over_is_masked_where_the_processor_has_masks() -> None:
    """Of each loop that asks for it, and of no other."""
    found = [_compiled(*hints) for hints in (("pass",), ("masked()", "pass", "masked()"))]
    stores = [len(re.findall(r"call void @llvm\.masked\.store", text)) for text in found]
    assert stores == [0, 2 * target_features().get("avx512vl", False)]
