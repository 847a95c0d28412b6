"""Library kernels that fill arrays with random numbers: Philox words, turned into a distribution.

One item is one run of 256 blocks of four words; words and numbers lie as `philox.words` and
`ops/random/sampling.py` lay them, and every rounding is the same, so that a seed gives the same
numbers on every tier and on any number of threads.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.core.types import Array, CancelCheck, KernelCall
from kbench.engine.intrinsics import philox
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import Job, service
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
"""Seconds for a word."""

HEAD = '''"""Library kernel of kbench: KIND random numbers of DTYPE."""
import numpy as np
from kbench.engine.jit.numba_backend import exact_inline, exact_kernel
from kbench.engine.intrinsics.primitives import (
    bits_of_f32,
    bits_of_f64,
    f32_of_bits,
    f64_of_bits,
    field,
    select,
    square_root,
    store_DTYPE,
)


@exact_inline
def philox(c0, c1, c2, k0, k1):
    """Four words of one block; Salmon et al., "Parallel random numbers" (SC 2011)."""
    c3 = np.uint32(0)
ROUNDS
    return c0, c1, c2, c3


@exact_inline
def share_f32(word):
    """24 bits, in [0, 1)."""
    return np.float32(np.int32(word >> np.uint32(8))) * np.float32(2.0**-24)


@exact_inline
def share_f64(high, low):
    """53 bits of two words, in [0, 1)."""
    upper = np.float64(np.int32(high >> np.uint32(5))) * 67108864.0
    return (upper + np.float64(np.int32(low >> np.uint32(6)))) * 2.0**-53

'''

ROUND = """    p = np.uint64(0xD2511F53) * np.uint64(c0)
    q = np.uint64(0xCD9E8D57) * np.uint64(c2)
    c0 = np.uint32(np.uint32(q >> np.uint64(32)) ^ c1 ^ k0)
    c1 = np.uint32(q)
    c2 = np.uint32(np.uint32(p >> np.uint64(32)) ^ c3 ^ k1)
    c3 = np.uint32(p)
"""
NEXT = """    k0 = np.uint32(k0 + np.uint32(0x9E3779B9))
    k1 = np.uint32(k1 + np.uint32(0xBB67AE85))
"""

SCALED = '''

@exact_inline
def scaled(high, low, span):
    """Upper half of a 64-bit number, given in halves, times `span`: evenly in [0, span)."""
    half = np.uint64(32)
    mask = np.uint64(0xFFFFFFFF)
    a = np.uint64(high)
    b = np.uint64(low)
    c = span >> half
    d = span & mask
    middle = a * d + ((b * d) >> half)
    other = b * c + (middle & mask)
    return a * c + (middle >> half) + (other >> half)
'''

LOOP = """
@exact_kernel
def run(params, start, stop):
    out = field(params, 0)
    k0 = np.uint32(field(params, 1))
    k1 = np.uint32(field(params, 2))
    stream = np.uint32(field(params, 3))
    origin = field(params, 4)
    limit = np.uint64(field(params, 5))
    a = np.VALUE(f64_of_bits(np.int64(field(params, 6))))
    b = np.VALUE(f64_of_bits(np.int64(field(params, 7))))
    c = np.VALUE(f64_of_bits(np.int64(field(params, 8))))
    least = np.uint64(field(params, 6))
    for number in range(start, stop):
        block = (origin + number) * 256
        low = np.uint32(block)
        high = np.uint32(block >> 32)
        first = number * COUNT
        for i in range(256):
            w, x, y, z = philox(np.uint32(low + np.uint32(i)), high, stream, k0, k1)
            place = first + i
"""

BODIES = {
    ("uniform", "float32"): """SET(0, share_f32(w) * b + a)
SET(256, share_f32(x) * b + a)
SET(512, share_f32(y) * b + a)
SET(768, share_f32(z) * b + a)
""",
    ("uniform", "float64"): """SET(0, share_f64(w, y) * b + a)
SET(256, share_f64(x, z) * b + a)
""",
    ("normal", "float32"): """one, two = pair(share_f32(w), share_f32(y))
SET(0, one * b + a)
SET(512, two * b + a)
one, two = pair(share_f32(x), share_f32(z))
SET(256, one * b + a)
SET(768, two * b + a)
""",
    ("normal", "float64"): """one, two = pair(share_f64(w, y), share_f64(x, z))
SET(0, one * b + a)
SET(256, two * b + a)
""",
    ("truncated", "float32"): """SET(0, within(share_f32(w)) * b + a)
SET(256, within(share_f32(x)) * b + a)
SET(512, within(share_f32(y)) * b + a)
SET(768, within(share_f32(z)) * b + a)
""",
    ("truncated", "float64"): """SET(0, within(share_f64(w, y)) * b + a)
SET(256, within(share_f64(x, z)) * b + a)
""",
    ("integers", "*"): """SET(0, np.DTYPE(scaled(w, y, limit) + least))
SET(256, np.DTYPE(scaled(x, z, limit) + least))
""",
    ("below", "*"): """SET(0, np.uint64(w) < limit)
SET(256, np.uint64(x) < limit)
SET(512, np.uint64(y) < limit)
SET(768, np.uint64(z) < limit)
""",
}


def _stored(kind: str, dtype: str, place: str, value: str) -> str:
    if kind == "uniform":  # rounding may reach the upper bound, which is not in the interval
        lines = f"value = {value}\nvalue = c if value > c else value\n"
        value = "value"
    else:
        lines = ""
    if kind == "below" and dtype != "bool":
        value = f"np.{dtype}(1) if {value} else np.{dtype}(0)"
    return f"{lines}store_{dtype}(out, place + {place}, {value})\n"


def source(kind: str, dtype: str) -> str:
    """The module that defines `run(params, first run, end run)`; see `find` for its fields."""
    rounds = NEXT.join([ROUND] * philox.ROUNDS).rstrip("\n")
    text = HEAD.replace("ROUNDS", rounds).replace("KIND", kind)
    if kind in FORMS:
        text += "\n@exact_inline" + normal.form(FORMS[kind], dtype) + "\n"
    if kind == "integers":
        text += SCALED
    body = ""
    for line in BODIES[kind, "*" if kind in ("below", "integers") else dtype].splitlines():
        if line.startswith("SET("):
            place, value = line[4:-1].split(", ", 1)
            body += _stored(kind, dtype, place, value)
        else:
            body += f"{line}\n"
    text += LOOP + "".join(f"            {line}\n" for line in body.splitlines())
    value = "float32" if dtype == "float32" else "float64"
    text = text.replace("COUNT", str(per_run(kind, dtype)))
    return text.replace("VALUE", value).replace("DTYPE", dtype)


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
    job = service.submit(f"random_{kind}_{dtype}", lambda: source(kind, dtype))
    if job is None or job.state != "ready":
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
