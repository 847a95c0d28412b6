"""Writes the source of a program's loop nest: readable Python that Numba compiles to SIMD.

Each product, sum and quotient of a statement is rounded on its own, as NumPy rounds them, so that
where two values are equal there, and what compares them, does not change when the kernel arrives.

Work is cut into items that never depend on the number of threads, so results do not either. An item
is one element (one loop dim), a block of columns of one row (several), or for a fold the part
whose running result it stores to `partials`, which `loops.Kernel` then combines.
"""

from __future__ import annotations

import re

from kbench.engine.codegen.loop_fold_source import Folds
from kbench.engine.codegen.loop_program import Program, field_names, may_stream
from kbench.engine.codegen.typed_expr import translate
from kbench.engine.codegen.writer import bits_of, imported
from kbench.engine.graph.expr.expression import input_leaf, local_leaf

MAX_FAST_ANGLE = 1e5
"""Largest angle for which sine and cosine may take their faster form (see `trig`)."""
ANGLE_ELEMENTS = 1024
"""Elements whose angles are looked at before that choice."""
STAGE_ELEMENTS = 256
"""Elements made in scratch before they are streamed past the caches (see `intrinsics/nontemporal`):
few, so that the lines of some are on their way while the next ones are computed."""


class _Nest(Folds):
    """One program's source under construction."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.last = program.rank - 1
        self.body: list[str] = []
        self.near: list[str] = []  # the same with the faster forms for moderate angles
        self.near_used: set[str] = set()
        self.angles: list[str] = []
        self._translate()

    def _translate(self) -> None:
        types = {input_leaf(n): operand.dtype for n, operand in enumerate(self.program.inputs)}
        for number, statement in enumerate(self.program.statements):
            found = translate(statement.expr, types, statement.dtype)
            self.body.append(f"t{number} = {found.source}")
            self.near.append(f"t{number} = {found.near}")
            self.used |= found.used
            self.near_used |= found.near_used
            self.angles += found.angles
            types[local_leaf(number)] = statement.dtype

    # -------------------------------------------------------------- pieces

    def loads(self) -> None:
        """Load what varies along the innermost loop."""
        for number, pattern in enumerate(self.program.patterns):
            if pattern[self.last]:
                self.out.add(self.load(number, self.place(number, "j")))

    def step(self, position: str, near: bool = False) -> None:
        """The innermost body: load, compute, store at `position`."""
        self.loads()
        self.out.add(*(self.near if near else self.body))
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
        kinds = [self.program.statements[number].dtype for number in self.program.outputs]
        return [(n, "8" if kind == "bool" else bits_of(kind)) for n, kind in enumerate(kinds)]

    def _staged(self, first: str, last: str, base: str) -> None:
        """The columns, all at once to where they belong, or block by block by way of scratch."""
        out, results = self.out, self._streamed()
        if not results:
            self.columns(first, last, f"{base}j")
            return
        out.add(f"left = {first}", f"bound = {last}")
        out.add(f"size = {STAGE_ELEMENTS} if streamed != 0 else bound - left")
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
        self.out.add("store_fence()")
        self.out.close()
        self.used.add("store_fence")

    def columns(self, first: str, last: str, position: str) -> None:
        """The innermost loop; with sines in it, in blocks that look at their angles first."""
        out = self.out
        if not self.angles:
            out.open(f"for j in range({first}, {last}):")
            self.step(position)
            out.close()
            return
        out.add(f"end = {last}")
        out.open(f"for low in range({first}, end, {ANGLE_ELEMENTS}):")
        out.add(f"high = min(low + {ANGLE_ELEMENTS}, end)", "widest = 0.0")
        out.open("for j in range(low, high):")
        self.loads()
        out.add(*self.body)
        for angle in self.angles:
            out.add(f"widest = maximum_float(widest, np.float64(absolute_float({angle})))")
        out.close()
        for head, near in ((f"if widest <= {MAX_FAST_ANGLE}:", True), ("else:", False)):
            out.open(head)
            out.open("for j in range(low, high):")
            self.step(position, near)
            out.close(2)
        out.close()
        self.used |= {"maximum_float", "absolute_float"} | self.near_used


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
    imports = sorted({"field", "exact_kernel", *nest.used})
    what = "; ".join(f"t{n} = {statement.expr}" for n, statement in enumerate(program.statements))
    fold = f", then {program.fold.kind}" if program.fold else ""
    header = [f'"""Generated by kbench: {what}{fold}."""', "import numpy as np"]
    header += imported("intrinsics.toolkit", imports)
    header += ["", "", "@exact_kernel", "def run(params, start, stop):"]
    return "\n".join(header + fields + nest.out.lines) + "\n"
