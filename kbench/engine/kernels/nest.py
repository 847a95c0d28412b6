"""Writes the source of a program's loop nest: readable Python that Numba compiles to SIMD.

Work is cut into items that never depend on the number of threads, so results do not either. An item
is one element (one loop dim), a block of columns of one row (several), or for a fold the part
whose running result it stores to `partials`, which `loops.Kernel` then combines.
"""

from __future__ import annotations

import re

from kbench.engine.kernels.program import Program, field_names, is_direct, may_stream
from kbench.engine.kernels.rowwise import DEAR
from kbench.engine.kernels.translate import computed, translate
from kbench.engine.kernels.writing import CHUNK, Walk, bits_of, identity, join, rows_at_once

ROWS = 128
"""Rows added in float32 by a column fold before they join float64 totals."""

NEAR = 1e5
"""Largest angle for which sine and cosine may take their faster form (see `trig`)."""
ANGLES = 1024
"""Elements whose angles are looked at before that choice."""
STAGE = 256
"""Elements made in scratch before they are streamed past the caches (see `streaming`): few, so that
the lines of some are on their way while the next ones are computed."""


class _Nest(Walk):
    """One program's source under construction."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.inputs, program.patterns)
        self.program = program
        self.body, self.used, self.angles = _statements(program)
        self.last = program.rank - 1

    # -------------------------------------------------------------- pieces

    def loads(self) -> None:
        """Load what varies along the innermost loop."""
        for number, pattern in enumerate(self.program.patterns):
            if pattern[self.last]:
                self.out.add(self.load(number, self.place(number, "j")))

    def step(self, position: str, near: bool = False) -> None:
        """The innermost body: load, compute, store at `position`."""
        self.loads()
        self.out.add(*[_nearer(line) if near else line for line in self.body])
        for number, statement in enumerate(self.program.outputs):
            dtype = self.program.statements[statement].dtype
            self.used.add(f"store_{dtype}")
            target = "w" if may_stream(self.program) else "y"
            self.out.add(f"store_{dtype}({target}{number}, {position}, t{statement})")

    # -------------------------------------------------------------- nests

    def elementwise(self) -> None:
        """No fold: one loop, or rows cut into blocks of columns."""
        out = self.out
        for number, bits in self._streamed():
            self.used.add(f"scratch_{bits}")
            out.add(f"scratch{number} = scratch_{bits}()")
        if self.last == 0:
            self.hoisted()
            self._staged("start", "stop", "")
            self._settled()
            return
        outer = range(self.last)
        out.open("for item in range(start, stop):")
        out.add("rest = item // blocks", "first = (item - rest * blocks) * width")
        out.add(f"base = rest * n{self.last}")
        self.index("rest", outer)
        self.offsets(outer)
        self.hoisted()
        self._staged("first", f"min(first + width, n{self.last})", "base + ")
        out.close()
        self._settled()

    def _streamed(self) -> list[tuple[int, str]]:
        """The outputs that may be streamed by number, and how many bits an element of each has."""
        if not may_stream(self.program):
            return []
        kinds = [self.program.statements[one].dtype for one in self.program.outputs]
        return [(n, "8" if kind == "bool" else bits_of(kind)) for n, kind in enumerate(kinds)]

    def _staged(self, first: str, last: str, base: str) -> None:
        """The columns, all at once to where they belong, or block by block by way of scratch."""
        out, results = self.out, self._streamed()
        if not results:
            self.columns(first, last, f"{base}j")
            return
        out.add(f"left = {first}", f"bound = {last}")
        out.add(f"size = {STAGE} if streamed != 0 else bound - left")
        out.open("while left < bound:")
        out.add("right = min(left + size, bound)")
        for number, bits in results:
            place = f"({base}left) * {int(bits) // 8}"
            out.add(f"w{number} = scratch{number} - {place} if streamed != 0 else y{number}")
        self.columns("left", "right", f"{base}j")
        out.open("if streamed != 0:")
        for number, bits in results:
            each = int(bits) // 8
            place = f"y{number} + ({base}left) * {each}"
            out.add(f"stream_out({place}, scratch{number}, (right - left) * {each})")
        out.close()
        out.add("left = right")
        out.close()
        self.used.add("stream_out")

    def _settled(self) -> None:
        if not self._streamed():
            return
        self.out.open("if streamed != 0:")
        self.out.add("settle()")
        self.out.close()
        self.used.add("settle")

    def columns(self, first: str, last: str, position: str) -> None:
        """The innermost loop; with sines in it, in blocks that look at their angles first."""
        out = self.out
        if not self.angles:
            out.open(f"for j in range({first}, {last}):")
            self.step(position)
            out.close()
            return
        out.add(f"end = {last}")
        out.open(f"for low in range({first}, end, {ANGLES}):")
        out.add(f"high = min(low + {ANGLES}, end)", "widest = 0.0")
        out.open("for j in range(low, high):")
        self.loads()
        out.add(*self.body)
        for angle in self.angles:
            out.add(f"widest = maximum_float(widest, np.float64(absolute_float({angle})))")
        out.close()
        for head, near in ((f"if widest <= {NEAR}:", True), ("else:", False)):
            out.open(head)
            out.open("for j in range(low, high):")
            self.step(position, near)
            out.close(2)
        out.close()
        names = {name for line in self.body for name in re.findall(r"\w+", _nearer(line))}
        self.used.update({name for name in names if "_near_" in name})
        self.used.update({"maximum_float", "absolute_float"})

    def row_fold(self) -> None:
        """A fold over the trailing dims: an item is a part of one kept element's values."""
        fold, out = self.program.fold, self.out
        assert fold is not None
        kept, reduced = range(fold.start), range(fold.start, self.last)
        count = " * ".join(f"n{d}" for d in kept) or "1"
        out.add(f"kept = {count}")
        out.open("for item in range(start, stop):")
        out.add("place = item // blocks", "block = item - place * blocks", "rest = place")
        self.index("rest", kept)
        self.offsets(kept)
        out.add("first = block * width", f"total = {self.identity(self.program.partial_dtype)}")
        if len(reduced):
            out.add(f"end = min(first + width, {' * '.join(f'n{d}' for d in reduced)})")
            self._keep_bases(kept)
            out.open("for row in range(first, end):")
            out.add("rest = row")
            self.index("rest", reduced)
            self.offsets(reduced, "b")
            self._chunks("0", f"n{self.last}", self._row_position(kept, reduced))
            out.close()
        else:
            self._chunks("first", f"min(first + width, n{self.last})", f"place * n{self.last} + j")
        reduced_count = " * ".join(f"n{d}" for d in range(fold.start, fold.stop))
        self.finish("place", "block * kept + place", "total", reduced_count)

    def _row_position(self, kept: range, reduced: range) -> str:
        rows = " * ".join(f"n{d}" for d in reduced)
        return f"(place * {rows} + row) * n{self.last} + j"

    def _keep_bases(self, kept: range) -> None:
        for number, pattern in enumerate(self.program.patterns):
            if any(pattern[d] for d in kept):
                self.out.add(f"b{number} = o{number}")

    def _chunks(self, first: str, last: str, position: str) -> None:
        """Fold columns `first` to `last` into `total`, in chunks short enough for float32."""
        out, program = self.out, self.program
        self.hoisted()
        out.add(f"last = {last}")
        out.open(f"for low in range({first}, last, {CHUNK}):")
        out.add(f"part = {self.identity(self.step_dtype)}")
        out.open(f"for j in range(low, min(low + {CHUNK}, last)):")
        self.step(position)
        out.add(f"part = {self.join('part', self.value(self.step_dtype), self.step_dtype)}")
        out.close()
        partial = program.partial_dtype
        part = f"np.{partial}(part)" if partial != self.step_dtype else "part"
        out.add(f"total = {self.join('total', part, partial)}")
        out.close()

    def column_fold(self) -> None:
        """A fold over leading or middle dims: running results of some columns on the stack."""
        fold, out, last = self.program.fold, self.out, self.last
        assert fold is not None
        outer, reduced, inner = (
            range(fold.start),
            range(fold.start, fold.stop),
            range(fold.stop, last),
        )
        counts = {
            name: " * ".join(f"n{d}" for d in dims) or "1"
            for name, dims in (("outer", outer), ("reduced", reduced), ("inner", inner))
        }
        out.add(*[f"{name} = {count}" for name, count in counts.items()])
        partial, step = self.program.partial_dtype, self.step_dtype
        out.add(f"totals = scratch_{bits_of(partial)}()")
        out.add(f"parts = scratch_{bits_of(step)}()" if step != partial else "parts = totals")
        self.used.update({f"scratch_{bits_of(partial)}", f"scratch_{bits_of(step)}"})
        out.open("for item in range(start, stop):")
        out.add("rest = item // blocks", "first = (item - rest * blocks) * width")
        out.add(f"last = min(first + width, n{last})")
        out.add("place = rest // pieces", "piece = rest - place * pieces")
        out.add("across = place // inner", "along = place - across * inner")
        out.add("rest = across")
        self.index("rest", outer)
        out.add("rest = along")
        self.index("rest", inner)
        self._fill("totals", partial)
        out.add("begin = piece * rows", "end = min(begin + rows, reduced)")
        if step == partial:
            self._rows("begin", "end", reduced)
        else:
            out.open(f"for low in range(begin, end, {ROWS}):")
            self._fill("parts", step)
            self._rows("low", f"min(low + {ROWS}, end)", reduced)
            self._add_parts(partial, step)
            out.close()
        out.add(f"base = (piece * outer * inner + place) * n{last}")
        self.used.add(f"peek_{partial}")
        self.finish("base + j", "base + j", f"peek_{partial}(totals, j - first)", "reduced", True)

    def _fill(self, name: str, dtype: str) -> None:
        self.used.add(f"store_{dtype}")
        self.out.open("for j in range(last - first):")
        self.out.add(f"store_{dtype}({name}, j, {self.identity(dtype)})")
        self.out.close()

    def _rows(self, begin: str, end: str, reduced: range) -> None:
        """Fold these rows: some at once where that saves going over the running results."""
        out, group = self.out, self._group()
        if group > 1:
            out.add(f"begun = {begin}", f"ended = {end}")
            out.add(f"whole = begun + (ended - begun) // {group} * {group}")
            out.open(f"for head in range(begun, whole, {group}):")
            self._some_rows([f"head + {k}" for k in range(group)], reduced)
            out.close()
            begin, end = "whole", "ended"
        out.open(f"for row in range({begin}, {end}):")
        self._some_rows(["row"], reduced)
        out.close()

    def _group(self) -> int:
        """Rows of a column fold that are read side by side; one step after the other takes a
        largest value longer than its memory."""
        assert self.program.fold is not None
        dear = any(DEAR.search(one.expr) for one in self.program.statements)
        if self.program.fold.kind not in ("sum", "mean"):
            return 1
        return rows_at_once(len(self.program.inputs), dear)

    def _some_rows(self, rows: list[str], reduced: range) -> None:
        out, step = self.out, self.step_dtype
        assert self.program.fold is not None
        for k, row in enumerate(rows):
            begun = len(out.lines)
            out.add(f"rest = {row}")
            self.index("rest", reduced)
            self.offsets(range(self.last))
            self.hoisted()
            place = f"(across * reduced + {row}) * inner + along"
            out.add(f"base = ({place}) * n{self.last}")
            self.renamed(begun, k)
        out.open("for j in range(first, last):")
        self.used.update({f"peek_{step}", f"store_{step}"})
        out.add(f"grown = peek_{step}(parts, j - first)")
        for k in range(len(rows)):
            begun = len(out.lines)
            self.step("base + j")
            out.add(f"grown = {self.join('grown', self.value(step), step)}")
            self.renamed(begun, k)
        out.add(f"store_{step}(parts, j - first, grown)")
        out.close()

    def _add_parts(self, partial: str, step: str) -> None:
        self.used.update({f"peek_{partial}", f"peek_{step}", f"store_{partial}"})
        self.out.open("for j in range(last - first):")
        part = f"np.{partial}(peek_{step}(parts, j))"
        joined = self.join(f"peek_{partial}(totals, j)", part, partial)
        self.out.add(f"store_{partial}(totals, j, {joined})")
        self.out.close()

    # -------------------------------------------------------------- the fold's arithmetic

    def finish(
        self, place: str, part_place: str, total: str, count: str, columns: bool = False
    ) -> None:
        """Store totals: as the result itself where it is not cut into parts, else as partials."""
        partial, own = self.program.partial_dtype, self.program.value_dtype
        if is_direct(self.program):
            assert self.program.fold is not None
            mean = f" / np.float64({count})" if self.program.fold.kind == "mean" else ""
            self.out.open("if direct != 0:")
            self._store_each(own, f"direct, {place}, np.{own}({total}{mean})", columns)
            self.out.close()
            self.out.open("else:")
        self._store_each(partial, f"partials, {part_place}, {total}", columns)

    def _store_each(self, dtype: str, arguments: str, columns: bool) -> None:
        self.used.add(f"store_{dtype}")
        if columns:
            self.out.open("for j in range(first, last):")
        self.out.add(f"store_{dtype}({arguments})")
        if columns:
            self.out.close()

    @property
    def step_dtype(self) -> str:
        """Dtype of the innermost running result: float32 sums start in float32."""
        fold = self.program.fold
        assert fold is not None
        if fold.kind in ("sum", "mean") and computed(self.program.value_dtype) == "float32":
            return "float32"
        return self.program.partial_dtype

    def identity(self, dtype: str) -> str:
        assert self.program.fold is not None
        return identity(self.program.fold.kind, dtype)

    def value(self, dtype: str) -> str:
        """The folded statement as the running result's dtype."""
        name = f"t{len(self.program.statements) - 1}"
        own = computed(self.program.value_dtype)
        assert self.program.fold is not None
        if self.program.fold.kind in ("any", "all") and own != "bool":
            return f"np.uint8({name} != 0)"
        return name if own == dtype else f"np.{dtype}({name})"

    def join(self, left: str, right: str, dtype: str) -> str:
        assert self.program.fold is not None
        joined, used = join(self.program.fold.kind, left, right, dtype)
        self.used |= used
        return joined


def _nearer(line: str) -> str:
    """A statement with the forms of sine and cosine for angles up to `NEAR`."""
    return re.sub(r"\b(sin|cos)_(f32|f64)\(", r"\1_near_\2(", line)


def _statements(program: Program) -> tuple[list[str], set[str], list[str]]:
    types = {f"a{number}": one.dtype for number, one in enumerate(program.inputs)}
    lines: list[str] = []
    used: set[str] = set()
    angles: list[str] = []
    for number, statement in enumerate(program.statements):
        found = translate(statement.expr, types, statement.dtype)
        lines.append(f"t{number} = {found.source}")
        used |= found.used
        angles += found.angles
        types[f"t{number}"] = statement.dtype
    return lines, used, angles


def source(program: Program) -> str:
    """The module that defines `run`, the range kernel of a program."""
    nest = _Nest(program)
    if program.fold is None:
        nest.elementwise()
    elif program.fold.stop == program.rank:
        nest.row_fold()
    else:
        nest.column_fold()
    words = re.findall(r"\w+", "\n".join(nest.out.lines))
    names = field_names(program)
    fields = [f"    {n} = field(params, {i})" for i, n in enumerate(names) if n in words]
    imports = sorted({"field", "range_kernel", *nest.used})
    what = "; ".join(f"t{n} = {one.expr}" for n, one in enumerate(program.statements))
    fold = f", then {program.fold.kind}" if program.fold else ""
    header = [f'"""Generated by kbench: {what}{fold}."""', "import numpy as np"]
    header += ["from kbench.engine.kernels.toolkit import (", *[f"    {n}," for n in imports], ")"]
    header += ["", "", "@range_kernel", "def run(params, start, stop):"]
    return "\n".join(header + fields + nest.out.lines) + "\n"
