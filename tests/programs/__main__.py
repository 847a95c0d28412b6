"""`python -m programs`: judges many programs, and makes those that fail small."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback

from programs.draw import LARGE, SMALL, Program, draw
from programs.judge import Judge, judge
from programs.shrink import shrink


def main() -> int:
    """Judge the programs of some seeds; failures are printed as rows for `kept.json`."""
    parser = argparse.ArgumentParser(prog="programs", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument(
        "--compiled", action="store_true", help="compile kernels, with arrays as large as they need"
    )
    asked = parser.parse_args()
    failed = 0
    with judge(asked.compiled) as found:
        for number in range(asked.count):
            failed += not _passes(found, asked.first + number, LARGE if asked.compiled else SMALL)
            if number % 100 == 99:
                seconds = time.process_time() / (number + 1)
                print(f"{number + 1} programs, {failed} failed, {seconds:.3f} s each", flush=True)
    print(f"{asked.count - failed} passed, {failed} failed; {found.unfit} results said little")
    return 1 if failed else 0


def _passes(found: Judge, seed: int, sizes: object) -> bool:
    program, values = draw(seed, sizes)  # type: ignore[arg-type]
    try:
        fault = found.fault(program, values)
        if fault is None:
            return True
        print(f"seed {seed}: {fault}")
    except Exception:
        print(f"seed {seed}: {traceback.format_exc()}")
    small = shrink(program, lambda one: _fails(found, one))
    print(json.dumps(Program.as_row(small)), flush=True)
    return False


def _fails(found: Judge, program: Program) -> bool:
    try:
        return found.fault(program) is not None
    except Exception:
        return True


if __name__ == "__main__":
    sys.exit(main())
