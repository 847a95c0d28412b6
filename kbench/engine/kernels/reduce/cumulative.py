"""Library kernels of running sums and products, along the last axis or along any other.

float32 runs in float64 totals, a sum of float64 keeps what it loses, and a product of floats has an
exponent of its own, so that none overflows on the way. Along the last axis a long row is cut into
blocks of fixed length; each block starts from the total of those before it, so results do not
depend on threads. Four rows run side by side, because one running total waits for itself in every
step.
"""

from __future__ import annotations

import re

import numpy as np

from kbench.engine.codegen.typed_expr import computed
from kbench.engine.codegen.writer import Lines
from kbench.engine.core.folds import exact_folds

MAX_COLUMNS = 2048
"""Columns that run side by side at most."""
MIN_COLUMNS = 512
"""Columns that run side by side at least, where there are that many."""
MIN_ITEMS = 16
"""Items that are worth narrower blocks: threads get one each."""
STAGE_ELEMENTS = 512
"""Elements of each of four rows made in scratch before they are streamed past the caches."""

LAST = '''"""Library kernel of kbench: NAME of DTYPE along rows."""
import numpy as np
from kbench.engine.intrinsics.toolkit import (
    HELPERS
)


@inline
def part(item, n, width, blocks):
    """Where a block of a row begins, and its length."""
    row = item // blocks
    begin = (item - row * blocks) * width
    return row * n + begin, min(width, n - begin)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    x = field(params, 1)
    n = field(params, 2)
    width = field(params, 3)
    blocks = field(params, 4)
    starts = np.int64(field(params, 5))
    besides = np.int64(field(params, 6))
    streamed = field(params, 7)
    stage = scratch_64()
    item = start
    while item < stop:
        first, size = part(item, n, width, blocks)
        if item + 4 <= stop:
            first1, size1 = part(item + 1, n, width, blocks)
            first2, size2 = part(item + 2, n, width, blocks)
            first3, size3 = part(item + 3, n, width, blocks)
            if (size == size1) & (size == size2) & (size == size3):
                BEGIN4
                low = 0
                step = ROUND
                while low < size:
                    high = min(low + step, size)
                    w = stage - (first + low) * EACH if streamed != 0 else y
                    w1 = stage + (STAGE - first1 - low) * EACH if streamed != 0 else y
                    w2 = stage + (2 * STAGE - first2 - low) * EACH if streamed != 0 else y
                    w3 = stage + (3 * STAGE - first3 - low) * EACH if streamed != 0 else y
                    CHUNK4
                    if streamed != 0:
                        written = (high - low) * EACH
                        stream_out(y + (first + low) * EACH, stage, written)
                        stream_out(y + (first1 + low) * EACH, stage + STAGE * EACH, written)
                        stream_out(y + (first2 + low) * EACH, stage + 2 * STAGE * EACH, written)
                        stream_out(y + (first3 + low) * EACH, stage + 3 * STAGE * EACH, written)
                    low = high
                item += 4
                continue
        BEGIN1
        w = y
        low = 0
        while low < size:
            high = min(low + REST, size)
            CHUNK1
            low = high
        item += 1
    if streamed != 0:
        store_fence()
'''

ACROSS = '''"""Library kernel of kbench: NAME of DTYPE across rows."""
import numpy as np
from kbench.engine.intrinsics.toolkit import (
    HELPERS
)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    x = field(params, 1)
    rows = field(params, 2)
    inner = field(params, 3)
    width = field(params, 4)
    blocks = field(params, 5)
    streamed = field(params, 6)
    totals = scratch_64()
    others = scratch_64()
    locals_ = scratch_64()
    stage = scratch_64()
    for item in range(start, stop):
        outer = item // blocks
        first = (item - outer * blocks) * width
        last = min(first + width, inner)
        for j in range(last - first):
            CLEAR
        for row in range(rows):
            base = (outer * rows + row) * inner + first
            w = stage - base * EACH if streamed != 0 else y
            for j in range(last - first):
                ROW
            if streamed != 0:
                stream_out(y + base * EACH, stage, (last - first) * EACH)
            if row % REST == REST - 1:
                for j in range(last - first):
                    LEVEL
    if streamed != 0:
        store_fence()
'''

BEGIN = "totalK = load_TOTAL(starts, item + K)"
BESIDES = "otherK = load_OTHER(besides, item + K)"
"""A row's running total, and what is kept besides, in a lane K of some rows side by side."""
NEXT = "load_DTYPE(x, firstK + j)"
STORE = "store_DTYPE(wK, firstK + j, np.VALUE({}))"

PLAIN = ["totalK = np.TOTAL(totalK OP np.TOTAL(" + NEXT + "))", STORE.format("totalK")]

ALONE = ["localK = 0.0"]
CARRIED = ["localK = localK + " + NEXT, STORE.format("totalK + (otherK + localK)")]
JOINED = [
    "jointK = totalK + localK",
    "otherK = kept(otherK + lost(totalK, localK, jointK))",
    "totalK = jointK",
]
"""Some numbers are added by themselves; then what joining the total loses is kept."""

SIZES = ["nextK = absolute_float(np.float64(" + NEXT + "))"]
EXTREMES = [
    "low_size = minimum_float(low_size, nextK)",
    "high_size = maximum_float(high_size, nextK)",
]
TAME = "(low_size >= LEAST) & (high_size <= MOST)"
SIMPLY = ["localK = 1.0", "frontK = totalK * half_power(otherK)", "behindK = other_half(otherK)"]
SIMPLE = [
    "localK = localK * np.float64(" + NEXT + ")",
    STORE.format("localK * frontK * behindK"),
]
FOUND = ["totalK = totalK * localK"]
MULTIPLIED = [
    "nextK = np.float64(" + NEXT + ")",
    "totalK = totalK * mantissa(nextK)",
    "otherK = otherK + exponent(nextK)",
    STORE.format("scaled(totalK, otherK)"),
]
LEVELLED = ["otherK = otherK + exponent(totalK)", "totalK = mantissa(totalK)"]
"""Few numbers of ordinary size are multiplied as they are; others without their exponents."""

CHUNKS = {"float64": exact_folds.SUM_CHUNK_ROWS, "int64": 32}
"""Numbers of a chunk, by what is kept beside the total. A sum's error grows with it; a product's
numbers are ordinary when as many of the least or largest of them stay within float64."""
MAX_ORDINARY_EXPONENT = 960 // CHUNKS["int64"]


def total_dtype(dtype: str) -> str:
    """Dtype of the running total."""
    return {"f": "float64", "u": "uint64"}.get(np.dtype(dtype).kind, "int64")


def columns(outer: int, inner: int) -> int:
    """How many columns run side by side, in whole lines of a cache."""
    each = -(-outer * inner // MIN_ITEMS)
    return min(MAX_COLUMNS, max(MIN_COLUMNS, -(-each // 64) * 64))


def kept_besides(name: str, dtype: str) -> str | None:
    """Dtype of what is kept beside the running total: what a sum of float64 has lost, and the
    exponent of a product of floats, which has no bound."""
    if name == "cumprod" and np.dtype(dtype).kind == "f":
        return "int64"
    return "float64" if (name, dtype) == ("cumsum", "float64") else None


class _Writer:
    """The lines of one kernel, for some rows side by side."""

    def __init__(self, besides: str | None) -> None:
        self.besides = besides

    def chunk(self, count: int) -> Lines:
        """What is done with the columns `low` to `high`."""
        out = Lines()
        if self.besides is None:
            self.columns(out, PLAIN, count)
        elif self.besides == "float64":
            out.add(*lanes(ALONE, count))
            self.columns(out, CARRIED, count)
            out.add(*lanes(JOINED, count))
        else:
            out.add("low_size = np.inf", "high_size = 0.0")
            self.columns(out, SIZES + EXTREMES, count)
            out.open(f"if {TAME}:")
            out.add(*lanes(SIMPLY, count))
            self.columns(out, SIMPLE, count)
            out.add(*lanes(FOUND, count))
            out.close()
            out.open("else:")
            self.columns(out, MULTIPLIED, count)
            out.close()
            out.add(*lanes(LEVELLED, count))
        return out

    @staticmethod
    def columns(out: Lines, lines: list[str], count: int) -> None:
        out.open("for j in range(low, high):")
        out.add(*lanes(lines, count))
        out.close()

    def across(self) -> dict[str, list[str]]:
        """What is done with a row, with the running totals of its columns in scratch."""
        held = {"total": ("totals", "TOTAL", "IDENTITY")}
        if self.besides is not None:
            held["other"] = ("others", "OTHER", "0")
        if self.besides == "float64":
            held["local"] = ("locals_", "OTHER", "0")
        clear = [f"store_{t}({a}, j, np.{t}({zero}))" for a, t, zero in held.values()]
        load = [f"{name} = peek_{t}({a}, j)" for name, (a, t, _) in held.items()]
        keep = [f"store_{t}({a}, j, {name})" for name, (a, t, _) in held.items()]
        step = {None: PLAIN, "float64": CARRIED, "int64": MULTIPLIED}[self.besides]
        level = {None: [], "float64": [*JOINED, "local = 0.0"], "int64": LEVELLED}[self.besides]
        row = [*load, *lanes(step, 1), *(keep[-1:] if self.besides == "float64" else keep)]
        return {"CLEAR": clear, "ROW": row, "LEVEL": [*load, *lanes(level, 1), *keep]}


def lanes(lines: list[str], count: int) -> list[str]:
    """Lines for each of some rows side by side."""
    named = [line.replace("K", str(k or "")) for line in lines for k in range(count)]
    return [line.replace("item + )", "item)") for line in named]


def _filled(text: str, word: str, lines: list[str]) -> str:
    """The lines in the place of a word, as deep as it stands; without any, no line at all."""
    inside = "".join(f"\\1{line}\n" for line in lines)
    return re.sub(rf"^( *){word}\n", inside, text, flags=re.MULTILINE)


def source(name: str, dtype: str, last: bool) -> str:
    """The module that defines `run`; `last` when the axis is the innermost one."""
    besides = kept_besides(name, dtype)
    text, writer = LAST if last else ACROSS, _Writer(besides)
    for count in (4, 1):
        begin = [BEGIN] if besides is None else [BEGIN, BESIDES]
        text = _filled(text, f"BEGIN{count}", lanes(begin, count))
        text = _filled(text, f"CHUNK{count}", writer.chunk(count).lines)
    if not last and besides is None:
        text = re.sub(r"^ *if row % REST.*\n.*\n.*\n", "", text, flags=re.MULTILINE)
    unused = {None: "others|locals_", "float64": "none", "int64": "locals_"}[besides]
    text = re.sub(rf"^ *({unused}) = scratch_64.*\n", "", text, flags=re.MULTILINE)
    for word, lines in writer.across().items():
        text = _filled(text, word, [line.replace("first +", "base +") for line in lines])
    step = CHUNKS.get(besides or "", STAGE_ELEMENTS)
    text = text.replace("ROUND", "STAGE if streamed != 0 else size" if besides is None else "REST")
    text = text.replace("REST", str(step)).replace("STAGE", str(STAGE_ELEMENTS))
    text = text.replace("LEAST", f"2.0**-{MAX_ORDINARY_EXPONENT}")
    text = text.replace("MOST", f"2.0**{MAX_ORDINARY_EXPONENT}")
    text = text.replace("EACH", str(np.dtype(dtype).itemsize)).replace("NAME", name)
    text = text.replace("OTHER", besides or "").replace("OP", "+" if name == "cumsum" else "*")
    text = text.replace("IDENTITY", "0" if name == "cumsum" else "1")
    text = text.replace("TOTAL", total_dtype(dtype)).replace("VALUE", computed(dtype))
    text = text.replace("DTYPE", dtype)
    helpers = "".join(f"    {name},\n" for name in sorted(_helpers(text)))
    return text.replace("    HELPERS\n", helpers)


def _helpers(text: str) -> set[str]:
    """The names that a source calls of the toolkit."""
    own = {"part", "run", "range", "min", "float64", "float32", "int64", "uint64"}
    called = set(re.findall(r"(?<![.\w])(\w+)\(", text.split("HELPERS", 1)[1]))
    return called - own | {"range_kernel"} | ({"inline"} if "@inline" in text else set())
