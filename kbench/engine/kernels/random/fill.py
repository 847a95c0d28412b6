"""Library kernels that fill arrays with random numbers: Philox words, turned into a distribution.

One item is one run of 256 blocks of four words; words and numbers lie as `philox.words` and
`ops/random/sampling.py` lay them, and every rounding is the same, so that a seed gives the same
numbers on every tier and on any number of threads.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.core.types import Array, CancelCheck, KernelCall
from kbench.engine.intrinsics import philox
from kbench.engine.jit import kernel_file
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import service
from kbench.engine.kernels.random import normal

KINDS = {  # the dtypes that each kind of number has
    "uniform": ("float32", "float64"),
    "normal": ("float32", "float64"),
    "truncated": ("float32", "float64"),
    "below": ("bool", "float32", "float64"),
    "integers": ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
}
FORMS = {"normal": "pair", "truncated": "within"}
WORD_SECONDS = 2e-9
"""Seconds for a word: a guess."""


def source(kind: str, dtype: str) -> str:
    """The module that defines `run(params, first run, end run)`; see `find` for its fields."""
    forms = {name: name for name in FORMS.values()}
    if kind in FORMS:
        forms[FORMS[kind]] = normal.source(FORMS[kind], dtype)
    return kernel_file.specialized(
        "kernels/random/sources/fill",
        **forms,
        DTYPE=dtype,
        FORM=kind,
        NUMBERS_OF_RUN=per_run(kind, dtype),
        element=dtype,
        store_element=f"store_{dtype}",
        value="float32" if dtype == "float32" else "float64",
    )


def per_run(kind: str, dtype: str) -> int:
    """Numbers that one run of words gives: float64 and integers take two words each."""
    pairs = kind == "integers" or (dtype == "float64" and kind != "below")
    return philox.RUN_WORDS // 2 if pairs else philox.RUN_WORDS


def find(kind: str, dtype: str) -> KernelCall | None:
    """The kernel of a kind of numbers, or None when there is none, or while it is not ready.

    The call is `(out, key, stream, first, numbers, limit=0, least=None, cancel_check=None)`: fill
    `out` from run number `first` of the stream of a key. `numbers` are (low, span, last) of uniform
    numbers and (mean, deviation, 0) of normal and of truncated ones. A number is "below" when its
    word is below `limit`; integers are `limit` many from `least` on.
    """
    if dtype not in KINDS[kind]:
        return None
    job = service.find(f"random_{kind}_{dtype}", lambda: source(kind, dtype))
    if job is None:
        return None
    each = per_run(kind, dtype)

    def call(
        out: Array,
        key: int,
        stream: int,
        first: int,
        numbers: tuple[float, float, float] = (0.0, 0.0, 0.0),
        limit: int = 0,
        least: int | None = None,
        cancel_check: CancelCheck | None = None,
    ) -> None:
        if out.dtype != dtype or not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError(f"expected a contiguous array of {dtype}, got {out.dtype}")
        bits = np.array(numbers, np.float64).view(np.int64).tolist()
        if least is not None:
            bits[0] = least
        head = [key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF, stream]
        whole = out.size // each
        _run(job, out, [*head, first, limit, *bits], whole, each, cancel_check)
        if out.size % each:
            rest = np.empty(each, out.dtype)
            _run(job, rest, [*head, first + whole, limit, *bits], 1, each, cancel_check)
            out.reshape(-1)[whole * each :] = rest[: out.size % each]

    return call


def _run(
    job: Job, out: Array, fields: list[int], runs: int, each: int, cancel_check: CancelCheck | None
) -> None:
    if runs:
        wrapped = [field & (1 << 64) - 1 for field in (address_of(out), *fields)]
        params = np.array(wrapped, np.uint64).view(np.int64)
        drive(job, params, runs, each, cancel_check, WORD_SECONDS)
