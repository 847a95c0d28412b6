"""Writes the source of a program's loop nest: readable Python that Numba compiles to SIMD.

Each product, sum and quotient of a statement is rounded on its own, as NumPy rounds them, so that
where two values are equal there, and what compares them, does not change when the kernel arrives.

Work is cut into items that never depend on the number of threads, so results do not either. An item
is one element (one loop dim), a block of columns of one row (several), or for a fold the part
whose running result it stores to `partials`, which `loop_kernel.Kernel` then combines.
"""

from __future__ import annotations

from kbench.engine.codegen.loop_program import LoopProgram
from kbench.engine.codegen.writers.loop_fold_source import NestFolds
from kbench.engine.codegen.writers.writer import Module, bits_of
from kbench.engine.graph.expr.expression import local_leaf

MAX_FAST_ANGLE = 1e5
"""Largest angle for which sine and cosine may take their faster form (see `trig`)."""
ANGLE_ELEMENTS = 1024
"""Elements whose angles are looked at before that choice."""
STAGE_ELEMENTS = 256
"""Elements made in scratch before they are streamed past the caches (see `intrinsics/nontemporal`):
few, so that the lines of some are on their way while the next ones are computed."""


class NestWriter(NestFolds):
    """The loops of a nest."""

    def __init__(self, program: LoopProgram, module: Module) -> None:
        super().__init__(program, module)
        kinds = [program.values[n].dtype for n in program.outputs] if program.may_stream else []
        self.streamed = [(n, int(bits_of(kind)) // 8) for n, kind in enumerate(kinds)]
        """The outputs that may be streamed by number, and how many bytes an element of each has."""

    @property
    def title(self) -> str:
        """What the program computes."""
        said = [f"t{n} = {self.program.values[n].expr}" for n in self.program.statements]
        fold = f", then {self.program.fold.kind}" if self.program.fold else ""
        return f": {'; '.join(said)}{fold}"

    def run(self) -> None:
        """The whole kernel."""
        if self.program.fold is None:
            self.elementwise()
        elif self.program.fold.stop == self.program.rank:
            self.row_fold(self.program.fold)
        else:
            self.column_fold(self.program.fold)

    # -------------------------------------------------------------- the innermost body

    def body(self, near: bool = False) -> None:
        """Load and compute."""
        values = [self.program.values[n] for n in self.program.statements]
        self.loads({leaf for one in values for leaf in one.expr.leaves})
        self.compute(self.program.statements, near)

    def step(self, position: str, near: bool = False) -> None:
        """Load, compute, store at `position`."""
        self.body(near)
        for place, number in enumerate(self.program.outputs):
            target = f"w{place}" if self.streamed else self.field(f"y{place}")
            dtype = self.program.values[number].dtype
            self.store(target, position, self.named(local_leaf(number)), dtype)

    # -------------------------------------------------------------- without a fold

    def elementwise(self) -> None:
        """One loop, or rows cut into blocks of columns."""
        out, field = self.out, self.field
        for number, each in self.streamed:
            out.add(f"scratch{number} = {self.call(f'scratch_{8 * each}')}")
        if self.last == 0:
            self.hoisted()
            self._staged("start", "stop", "")
        else:
            outer, size = range(self.last), field(f"n{self.last}")
            with out.block("for item in range(start, stop):"):
                blocks, width = field("blocks"), field("width")
                out.add(f"rest = item // {blocks}", f"first = (item - rest * {blocks}) * {width}")
                out.add(f"base = rest * {size}")
                self.index("rest", outer)
                self.offsets(outer)
                self.hoisted()
                self._staged("first", f"min(first + {width}, {size})", "base + ")
        if self.streamed:
            with out.block(f"if {field('streamed')} != 0:"):
                out.add(self.call("store_fence"))

    def _staged(self, first: str, last: str, base: str) -> None:
        """The columns, all at once to where they belong, or block by block by way of scratch."""
        out = self.out
        if not self.streamed:
            self.columns(first, last, f"{base}j")
            return
        streamed = self.field("streamed")
        out.add(f"left = {first}", f"bound = {last}")
        out.add(f"size = {STAGE_ELEMENTS} if {streamed} != 0 else bound - left")
        with out.block("while left < bound:"):
            out.add("right = min(left + size, bound)")
            for number, each in self.streamed:
                place, result = f"({base}left) * {each}", self.field(f"y{number}")
                out.add(f"w{number} = scratch{number} - {place} if {streamed} != 0 else {result}")
            self.columns("left", "right", f"{base}j")
            with out.block(f"if {streamed} != 0:"):
                for number, each in self.streamed:
                    place = f"y{number} + ({base}left) * {each}"
                    size = f"(right - left) * {each}"
                    out.add(self.call("stream_out", place, f"scratch{number}", size))
            out.add("left = right")

    def columns(self, first: str, last: str, position: str) -> None:
        """The innermost loop; with sines in it, in blocks that look at their angles first."""
        out = self.out
        angles = [a for n in self.program.statements for a in self.translated(n).angles]
        if not angles:
            with out.block(f"for j in range({first}, {last}):"):
                self.step(position)
            return
        out.add(f"end = {last}")
        with out.block(f"for low in range({first}, end, {ANGLE_ELEMENTS}):"):
            out.add(f"high = min(low + {ANGLE_ELEMENTS}, end)", "widest = 0.0")
            with out.block("for j in range(low, high):"):
                self.body()
                for angle in angles:
                    size = f"np.float64({self.call('absolute_float', angle)})"
                    out.add(f"widest = {self.call('maximum_float', 'widest', size)}")
            for head, near in ((f"if widest <= {MAX_FAST_ANGLE}:", True), ("else:", False)):
                with out.block(head), out.block("for j in range(low, high):"):
                    self.step(position, near)
