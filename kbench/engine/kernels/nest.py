"""Writes the source of a program's loop nest: readable Python that Numba compiles to SIMD.

Work is cut into items that never depend on the number of threads, so results do not either. An item
is one element (one loop dim), a block of columns of one row (several), or for a fold the part
whose running result it stores to `partials`, which `loops.Kernel` then combines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kbench.engine.kernels.program import Program, field_names, is_direct
from kbench.engine.kernels.translate import computed, translate

CHUNK = 4096
"""float32 values added in float32 before they join a float64 total."""
ROWS = 128
"""Rows added in float32 by a column fold before they join float64 totals."""

NEAR = 1e5
"""Largest angle for which sine and cosine may take their faster form (see `trig`)."""
ANGLES = 1024
"""Elements whose angles are looked at before that choice."""

STEPS = {
    "sum": "plus({0}, {1})",
    "mean": "plus({0}, {1})",
    "prod": "times({0}, {1})",
    "any": "({0} | {1})",
    "all": "({0} & {1})",
}


@dataclass
class _Lines:
    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def add(self, *texts: str) -> None:
        self.lines += ["    " * self.depth + text for text in texts]

    def open(self, text: str) -> None:
        self.add(text)
        self.depth += 1

    def close(self, count: int = 1) -> None:
        self.depth -= count


class _Nest:
    """One program's source under construction."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.out = _Lines(depth=1)
        self.body, self.used, self.angles = _statements(program)
        self.last = program.rank - 1

    # -------------------------------------------------------------- pieces

    def index(self, rest: str, dims: range) -> None:
        """Split a running number into `i<d>` for each of `dims`."""
        names = list(dims)
        for d in names[:0:-1]:
            self.out.add(f"i{d} = {rest} % n{d}", f"{rest} = {rest} // n{d}")
        if names:
            self.out.add(f"i{names[0]} = {rest}")

    def offset(self, number: int, dims: range) -> str:
        """Where input `number` stands for the indices of `dims` (the last loop dim left out)."""
        pattern = self.program.patterns[number]
        terms = [f"i{d} * s{number}_{d}" for d in dims if d < self.last and pattern[d]]
        return " + ".join(terms)

    def offsets(self, dims: range, base: str = "") -> None:
        """Set `o<number>` of every input that moves over `dims`."""
        for number, pattern in enumerate(self.program.patterns):
            if any(pattern[d] for d in dims if d < self.last):
                terms = self.offset(number, dims)
                before = f"{base}{number} + " if base and self._moves(number, dims) else ""
                self.out.add(f"o{number} = {before}{terms}")

    def _moves(self, number: int, after: range) -> bool:
        """Whether the input also moves over dims before `after`, so that a base was set."""
        return any(self.program.patterns[number][d] for d in range(after.start))

    def load(self, number: int, where: str) -> str:
        dtype = self.program.inputs[number].dtype
        self.used.add(f"load_{dtype}")
        return f"a{number} = load_{dtype}(x{number}, {where})"

    def place(self, number: int, column: str) -> str:
        pattern = self.program.patterns[number]
        moved = any(pattern[: self.last])
        parts = [f"o{number}"] if moved else []
        parts += [column] if pattern[self.last] else []
        return " + ".join(parts) or "0"

    def hoisted(self) -> None:
        """Load what does not vary along the innermost loop."""
        for number, pattern in enumerate(self.program.patterns):
            if not pattern[self.last]:
                self.out.add(self.load(number, self.place(number, "j")))

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
            self.out.add(f"store_{dtype}(y{number}, {position}, t{statement})")

    # -------------------------------------------------------------- nests

    def elementwise(self) -> None:
        """No fold: one loop, or rows cut into blocks of columns."""
        out = self.out
        if self.last == 0:
            self.hoisted()
            self.columns("start", "stop", "j")
            return
        outer = range(self.last)
        out.open("for item in range(start, stop):")
        out.add("rest = item // blocks", "first = (item - rest * blocks) * width")
        out.add(f"base = rest * n{self.last}")
        self.index("rest", outer)
        self.offsets(outer)
        self.hoisted()
        self.columns("first", f"min(first + width, n{self.last})", "base + j")

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
        out.add(f"totals = scratch_{_bits(partial)}()")
        out.add(f"parts = scratch_{_bits(step)}()" if step != partial else "parts = totals")
        self.used.update({f"scratch_{_bits(partial)}", f"scratch_{_bits(step)}"})
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
        out, step = self.out, self.step_dtype
        assert self.program.fold is not None
        out.open(f"for row in range({begin}, {end}):")
        out.add("rest = row")
        self.index("rest", reduced)
        self.offsets(range(self.last))
        self.hoisted()
        out.add(f"base = ((across * reduced + row) * inner + along) * n{self.last}")
        out.open("for j in range(first, last):")
        self.step("base + j")
        self.used.update({f"peek_{step}", f"store_{step}"})
        joined = self.join(f"peek_{step}(parts, j - first)", self.value(step), step)
        out.add(f"store_{step}(parts, j - first, {joined})")
        out.close(2)

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
        fold = self.program.fold
        assert fold is not None
        if fold.kind in ("sum", "mean", "any"):
            return f"np.{dtype}(0)"
        if fold.kind in ("prod", "all"):
            return f"np.{dtype}(1)"
        if dtype[0] == "f":
            return f"np.{dtype}({'-' if fold.kind == 'max' else ''}np.inf)"
        bits = int(re.sub(r"\D", "", dtype))
        low = 0 if dtype[0] == "u" else -(2 ** (bits - 1))
        return f"np.{dtype}({low if fold.kind == 'max' else low + 2**bits - 1})"

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
        kind = self.program.fold.kind
        if kind in ("max", "min"):
            helper = f"{kind}imum_{'float' if dtype[0] == 'f' else 'int'}"
            self.used.add(helper)
            joined = f"{helper}({left}, {right})"
        else:
            self.used.update({"plus", "times"} if kind in ("sum", "mean", "prod") else ())
            joined = STEPS[kind].format(left, right)
        return joined if dtype[0] == "f" else f"np.{dtype}({joined})"


def _nearer(line: str) -> str:
    """A statement with the forms of sine and cosine for angles up to `NEAR`."""
    return re.sub(r"\b(sin|cos)_(f32|f64)\(", r"\1_near_\2(", line)


def _bits(dtype: str) -> str:
    return re.sub(r"\D", "", dtype)


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
