"""Shorter ways through Numba: the machine code is that of its own way, and it is there for all."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from kbench.engine.jit.compiling import shortcuts

BEGIN = """
import hashlib
import numpy as np
from kbench.engine.jit import numba_backend
from kbench.engine.jit.compiling import linker, shortcuts

own_found = shortcuts._found


def found(path):
    if path in {missing!r}:
        raise AttributeError(path)
    return own_found(path)


shortcuts._found = found
take = (lambda: []) if {own} else shortcuts.take_all
shortcuts.take_all = lambda: print(take())
numba_backend.compile_objects_only()
"""
KERNELS = """
from numba.extending import overload
from kbench.engine.intrinsics.toolkit import field, load_float32, store_float32
from kbench.engine.jit.numba_backend import exact_kernel, part, range_kernel

def product_and_sum(a, b, c):
    raise NotImplementedError

@overload(product_and_sum)
def compiled(a, b, c):
    return lambda a, b, c: a * b + c

@part
def first_and_count(y, start, stop):
    count = 0
    for i in range(start, stop):
        if load_float32(y, i) > 0:
            count += 1
    return min(start, count), count

@part
def both(y, start, stop):
    first, count = first_and_count(y, start, stop)
    again, more = first_and_count(y, stop, stop + count)
    return first + again, count + more

def body(params, start, stop):
    x, y = field(params, 0), field(params, 1)
    for i in range(min((start, stop, 7)), max((stop, 3))):
        a = load_float32(x, i)
        b = np.float32(2) * a + np.float32(i) - np.float32(1.5)
        if a < b and i != 3:
            b = product_and_sum(a, b, a) + a / np.float32(3)
        store_float32(y, i, abs(b))
    first, count = both(y, start, stop)
    store_float32(y, first, np.float32(count))

for kernel in (exact_kernel, range_kernel, exact_kernel, range_kernel):
    made = kernel(body)
    print(hashlib.sha256(linker.link([made.object], [made.symbol]).code).hexdigest())
"""


def compiled(own: bool = False, missing: tuple[str, ...] = ()) -> list[str]:
    """What shortcuts were refused, and hashes of the code of four kernels."""
    begin = BEGIN.format(own=own, missing=missing)
    done = subprocess.run(
        [sys.executable, "-c", begin + KERNELS], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def plain() -> list[str]:
    return compiled(own=True)


@pytest.mark.slow
def test_the_code_is_the_same_as_without_them(plain: list[str]) -> None:
    assert compiled() == plain


def test_products_and_sums_are_rounded_as_each_kernel_says(plain: list[str]) -> None:
    exact, contracted, exact_again, contracted_again = plain[1:]
    assert (exact, contracted) == (exact_again, contracted_again)
    assert exact != contracted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "name"),
    [
        ("numba.core.ir", "list_variables"),
        ("numba.core.typing.templates:_OverloadFunctionTemplate", "remember_calls"),
        ("numba.core.transforms:canonicalize_cfg", "forget_lifetimes"),
        ("numba.core.inline_closurecall", "share_scope"),
        ("numba.core.lowering:Lower", "store_once"),
        ("numba.core.base", "remember_signatures"),
    ],
)
def test_numbas_own_way_remains_where_a_name_is_missing(
    plain: list[str], missing: str, name: str
) -> None:
    assert compiled(missing=(missing,)) == [f"['{name}']", *plain[1:]]


def test_what_a_shortcut_reads_is_looked_for_in_numbas_own_functions() -> None:
    def own(code: Any) -> object:
        return code.blocks, code.lifetimes

    shortcuts._look_for({"blocks", "lifetimes"}, own)
    with pytest.raises(AttributeError, match=r"^dels, scope$"):
        shortcuts._look_for({"blocks", "scope", "dels"}, own)
