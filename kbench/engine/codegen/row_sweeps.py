"""What each sweep over a row does, for a program whose schedule is rows.

A value is `full` (one for each element) or one for each row. A fold along the row makes one for
each row that later values may use: the kernel sweeps a row once for each level of such folds,
while it lies in the cache. A fold down the columns is final, and no value can use it.
"""

from __future__ import annotations

from collections import Counter

from kbench.engine.codegen.loop_program import LoopProgram, LoopValue, Schedule
from kbench.engine.core.fork_safety import cached_property


class Sweeps:
    """Which values each sweep of a program computes, which it keeps, and where."""

    def __init__(self, program: LoopProgram) -> None:
        self.program = program

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The sweep in which each value can be computed; a fold's result is there one later."""
        found: list[int] = []
        for number, one in enumerate(self.program.values):
            level = max((found[leaf.index] for leaf in one.locals), default=0)
            found.append(level + (number in self.program.along_folds))
        return tuple(found)

    @cached_property
    def count(self) -> int:
        """How many sweeps a row takes."""
        return 1 + max(map(self.level_of, (*self.program.stores, *self.program.along_folds)))

    def level_of(self, number: int) -> int:
        """The sweep that does the work of a value."""
        return self.levels[number] - (number in self.program.along_folds)

    def folds(self, sweep: int) -> list[int]:
        """The folds along the row whose work a sweep does."""
        return [n for n in self.program.along_folds if self.level_of(n) == sweep]

    def needs(self, sweep: int) -> list[int]:
        """The full values a sweep has: computed, or fetched where an earlier one kept them."""
        return self._closure(sweep, self.kept)

    def _closure(self, sweep: int, kept: frozenset[int]) -> list[int]:
        program = self.program
        wanted = {n for n in program.outputs if program.full[n] and self.levels[n] == sweep}
        for number, one in enumerate(program.values):
            if one.fold is not None and self.level_of(number) == sweep:
                wanted |= self._full_reads(one)
        for number in range(len(program.values) - 1, -1, -1):
            fetched = number in kept and self.begins[number] < sweep
            if number in wanted and not fetched:
                wanted |= self._full_reads(program.values[number])
        return sorted(wanted)

    def _full_reads(self, one: LoopValue) -> set[int]:
        return {leaf.index for leaf in one.locals if self.program.full[leaf.index]}

    def is_kept(self, number: int, sweep: int) -> bool:
        """Whether a sweep is the first to compute a value, and keeps it for later ones."""
        return number in self.kept and self.begins[number] == sweep

    def is_result(self, number: int, sweep: int) -> bool:
        """Whether a sweep stores a value as a result."""
        return number in self.program.outputs and self.levels[number] == sweep

    def is_fetched(self, number: int, sweep: int) -> bool:
        """Whether a sweep finds a value that an earlier one kept."""
        return number in self.kept and self.begins[number] < sweep

    @cached_property
    def _apart(self) -> list[list[int]]:
        """The full values that each sweep would compute, were nothing kept."""
        return [self._closure(sweep, frozenset()) for sweep in range(self.count)]

    @cached_property
    def begins(self) -> dict[int, int]:
        """The first sweep that needs each full value."""
        found: dict[int, int] = {}
        for sweep, numbers in enumerate(self._apart):
            for number in numbers:
                found.setdefault(number, sweep)
        return found

    @cached_property
    def kept(self) -> frozenset[int]:
        """Dear full values that several sweeps use; their first one keeps them.

        One that later sweeps would need only to compute another kept value is not among them.
        Of long rows none is kept, unless each of them can lie in the place of an output.
        """
        uses = Counter(number for sweep in self._apart for number in sweep if self._is_dear(number))
        kept = frozenset(number for number, count in uses.items() if count > 1)
        needed = [set(self._closure(sweep, kept)) for sweep in range(self.count)]
        kept = frozenset(
            number
            for number in kept
            if any(number in sweep for sweep in needed[self.begins[number] + 1 :])
        )
        is_long = self.program.schedule is Schedule.LONG_ROWS
        return frozenset() if is_long and self._homes(kept).keys() != kept else kept

    def _is_dear(self, number: int) -> bool:
        one = self.program.values[number]
        return one.is_dear and one.dtype[0] == "f"

    @cached_property
    def homes(self) -> dict[int, int]:
        """Kept values that lie in the place of an output until that is stored over them."""
        return self._homes(self.kept)

    def _homes(self, kept: frozenset[int]) -> dict[int, int]:
        program = self.program
        sweeps = [self._closure(sweep, kept) for sweep in range(self.count)]
        found: dict[int, int] = {}
        for number in sorted(kept):
            last = max(sweep for sweep, numbers in enumerate(sweeps) if number in numbers)
            for place, output in enumerate(program.outputs):
                same = program.values[output].dtype == program.values[number].dtype != "float16"
                free = place not in found.values() and number not in program.outputs
                if program.full[output] and same and free and self.levels[output] >= last:
                    found[number] = place
                    break
        return found
