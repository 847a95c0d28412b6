"""Says whether a program gives the same on every tier, within what its own rounding explains."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from programs.draw import FEEDS, Program, feeds, values_of
from programs.interpreted import Interpreter, interpreted
from programs.run import CALLS, Arrays, Built, build, mode, replay, stepwise

AMPLE = 40.0
"""Times the error of the steps alone that a tier may err: it adds up in another order."""
UNITS = 300.0
"""Units in the last place of an array's largest value that count for nothing."""

FLOOR = 0.05
"""The least size that values are taken to have, as they come of others of about 1."""
OTHERS = 4.0
"""Times the limits of the first feed that hold for the others, whose steps nobody ran singly."""


JITTER = 4.0
"""Units in the last place by which inputs are moved to see where results jump."""
TRIALS = 16
"""How often they are moved."""


@dataclass(frozen=True)
class Fault:
    """What a program gives wrong: which result of which call, on which tier, by how much."""

    what: str
    result: int
    apart: np.ndarray = field(repr=False)
    allowed: float
    call: int = 0

    def __str__(self) -> str:
        error = self.apart.max(initial=0.0)
        return f"{self.what}: off by {error:.3g}, where {self.allowed:.3g} is rounding"


def _plain(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, "float64")


def _differences(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How far apart elements are; infinite where one has a shape or a NaN the other has not."""
    if found.shape != wanted.shape:
        return np.array(np.inf)
    found, wanted = _plain(found), _plain(wanted)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    with np.errstate(all="ignore"):
        apart = np.where(same, 0.0, np.abs(found - wanted))
    return np.asarray(np.nan_to_num(apart, nan=np.inf))


def _apart(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest of the differences."""
    return float(_differences(found, wanted).max(initial=0.0))


def _larger(found: np.ndarray, first: np.ndarray) -> float:
    """How much more rounding another feed may have than the first, whose limits are known."""
    sizes = [float(np.abs(_plain(one)).max(initial=0.0)) + FLOOR for one in (found, first)]
    return OTHERS * max(1.0, sizes[0] / sizes[1])


class Judge:
    """Runs programs in this process, on interpreted kernels or compiled ones."""

    def __init__(self, interpreter: Interpreter | None) -> None:
        self.interpreter = interpreter
        self.unfit = 0
        """Programs that say little: their steps alone round too much, or a value is at an edge."""

    def fault(self, program: Program, values: Arrays | None = None) -> Fault | None:
        """The first thing that is wrong; None when all is right.

        `values` are those of the program in float64 for its first feed, where they are known.
        """
        count = CALLS if program.seed % 4 == 0 else FEEDS
        with contextlib.redirect_stdout(io.StringIO()):  # what programs print
            fault = self._fault(program, values, count)
            if fault is not None and self._jumps(program, fault):
                self.unfit += 1
                return None
        return fault

    def _jumps(self, program: Program, fault: Fault) -> bool:
        """Whether the right result is as far off, wherever it is wrong, for inputs, or results of
        single steps, that are moved by a few roundings: a value is so near to an edge, as that of
        `maximum`, that any side of it is right.
        """
        random = np.random.default_rng(program.seed)
        unit = JITTER * float(np.finfo(program.dtype).eps)
        plain = replace(program, dtype="float64")

        def near(value: np.ndarray) -> np.ndarray:
            if value.dtype.kind != "f":
                return value
            return np.asarray(value * (1 + unit * random.uniform(-1, 1, value.shape)))

        every = [feeds(plain, number) for number in range(FEEDS)]
        with mode("off", self.interpreter is not None):
            shapes = [one.shape for one in values_of(plain, "float64")]
            built = build(plain, shapes)
            first = replay(built, fault.call + 1, every)[fault.call][fault.result]
            moved = np.zeros(first.shape)
            for _ in range(TRIALS):
                moves = [[near(one) for one in feed] for feed in every]
                other = replay(built, fault.call + 1, moves)[fault.call][fault.result]
                moved = np.maximum(moved, _differences(other, first))
            if fault.call == 0:  # whose values are known step by step
                for _ in range(TRIALS):
                    other = stepwise(plain, values_of(plain, "float64", near))[fault.result]
                    moved = np.maximum(moved, _differences(other, first))
        wrong = fault.apart > fault.allowed
        return wrong.shape == moved.shape and bool((2 * moved >= fault.apart)[wrong].all())

    def _fault(self, program: Program, values: Arrays | None, count: int) -> Fault | None:
        small = self.interpreter is not None
        with mode("off", small):
            values = values_of(program, "float64") if values is None else values
            shapes = [one.shape for one in values]
            exact = stepwise(program, values)
            without = replay(build(program, shapes), count)
            limits = self._limits(program, exact, without[0])
        if self.interpreter is not None:  # in every third program kernels come one after the other
            self.interpreter.delay = 4 if program.seed % 3 == 1 else 0
        with mode("wait", small):
            given = self._with_kernels(build(program, shapes), count)
        for tier, found in (("NumPy", without[0]), ("kernels", given[0])):
            fault = self._compare(found, exact, limits, f"{tier} and single steps")
            if fault is not None:
                return fault
        if self._of_calls(given, without, exact, limits) is None:
            return None
        return self._of_calls(given, without, exact, limits, self._errors(program, shapes, count))

    def _of_calls(
        self,
        given: list[Arrays],
        without: list[Arrays],
        exact: Arrays,
        limits: list[float],
        errors: list[list[float]] | None = None,
    ) -> Fault | None:
        """The first call in which kernels and NumPy differ; by more than `errors`, where known."""
        for number, (one, other) in enumerate(zip(given, without, strict=True)):
            own = [limit * _larger(a, b) for limit, a, b in zip(limits, other, exact, strict=True)]
            if errors is not None:
                own = [limit + error for limit, error in zip(own, errors[number], strict=True)]
            fault = self._compare(one, other, own, f"call {number} of kernels and NumPy")
            if fault is not None:
                return replace(fault, call=number)
        return None

    def _errors(
        self, program: Program, shapes: list[tuple[int, ...]], count: int
    ) -> list[list[float]]:
        """What rounding does to each call: float32 against float64, on NumPy.

        An operand that suits its operation in the first feed may be close to an edge in another.
        """
        runs = []
        with mode("off", self.interpreter is not None):
            for dtype in ("float32", "float64"):
                runs.append(replay(build(replace(program, dtype=dtype), shapes), count))
        unit = AMPLE * float(np.finfo(program.dtype).eps) / float(np.finfo("float32").eps)
        return [
            [unit * _apart(one, other) for one, other in zip(*call, strict=True)]
            for call in zip(*runs, strict=True)
        ]

    def _with_kernels(self, built: Built, count: int) -> list[Arrays]:
        found = replay(built, count)
        if self.interpreter is not None and self.interpreter.failures:
            raise AssertionError(self.interpreter.failures.pop())
        return found

    def _compare(
        self, found: Arrays, wanted: Arrays, limits: list[float], tiers: str
    ) -> Fault | None:
        for number, (one, other, limit) in enumerate(zip(found, wanted, limits, strict=True)):
            apart = _differences(one, other)
            if apart.max(initial=0.0) > limit:
                return Fault(f"{tiers}, result {number}", number, apart, limit)
        return None

    def _limits(self, program: Program, exact: Arrays, plain: Arrays) -> list[float]:
        """How far each result may be off.

        A few units in the last place of its largest value; where NumPy errs more, as much as
        rounding explains, which shows when single steps run in float32.
        """
        unit = float(np.finfo(program.dtype).eps)
        units = UNITS if unit < 1e-6 else 10.0  # float16 has little to spare
        limits = [units * unit * (float(np.abs(one).max(initial=0.0)) + FLOOR) for one in exact]
        errors = [_apart(one, other) for one, other in zip(plain, exact, strict=True)]
        if all(4 * error < limit for error, limit in zip(errors, limits, strict=True)):
            return limits
        rounded = stepwise(program, values_of(program, "float32"))
        less = unit / float(np.finfo("float32").eps)
        for number, (one, other) in enumerate(zip(rounded, exact, strict=True)):
            more = AMPLE * _apart(one, other) * less
            self.unfit += more > 0.02 * less * (float(np.abs(other).max(initial=0.0)) + FLOOR)
            limits[number] += more
        return limits


@contextlib.contextmanager
def judge(compiled: bool) -> Iterator[Judge]:
    """A judge on compiled kernels, or on interpreted ones."""
    if compiled:
        yield Judge(None)
    else:
        with mode("wait", True), interpreted() as interpreter:
            yield Judge(interpreter)
