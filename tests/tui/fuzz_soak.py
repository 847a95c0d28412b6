"""Random use for as long as wanted: `python tests/tui/fuzz_soak.py --minutes 10 --seed 7`.

Prints each failure with all that replays it, shrunk; `--replay FILE` performs what a file holds.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import json
import os
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "tui" / "support")]  # as pytest does
import conftest  # noqa: F401,E402 - folders of its own, before kbench is imported
from fuzz_actions import Action, Chance, Setting, shrunk  # noqa: E402
from fuzz_play import Player, told  # noqa: E402
from fuzz_session import CELLS, REAL_CELLS  # noqa: E402


def played(setting: Setting, actions: list[Action]) -> str:
    """What went wrong, '' if nothing."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        os.environ["KBENCH_STATE_DIR"] = folder
        player = Player(setting, Path(folder))
        faulthandler.dump_traceback_later(300, exit=True)
        try:
            asyncio.run(player.play(actions))
        except Exception:
            return traceback.format_exc()
        finally:
            faulthandler.cancel_dump_traceback_later()
            os.chdir(before)
        slow = max(player.done, default=(0.0, []))
        print(f"  {len(player.done)} actions, slowest {slow[0]:.2f} s: {json.dumps(slow[1])[:150]}")
        return ""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--shrink", type=int, default=40)
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if options.replay:
        setting, actions = json.loads(options.replay.read_text("utf-8"))
        setting["size"] = tuple(setting["size"])
        print(played(Setting(**setting), actions))
        return 0
    end, seed, bad = time.monotonic() + 60 * options.minutes, options.seed, 0
    while time.monotonic() < end:
        source = random.Random(seed)
        setting = Setting.drawn(source, options.real)
        print(f"seed {seed}: {setting}", flush=True)
        cells = REAL_CELLS if options.real else CELLS
        actions = Chance(source, setting, cells).actions(options.count)
        words = played(setting, actions)
        if words:
            bad += 1
            last = words.strip().split("\n")[-1][:25]

            async def fails(fewer: list[Action], how: Setting = setting, last: str = last) -> bool:
                return last in await asyncio.to_thread(played, how, fewer)

            if options.shrink:
                actions = asyncio.run(shrunk(actions, fails, options.shrink))
            print(f"FAILED seed {seed}\n{words[-3000:]}\n{told(setting, actions)}\n", flush=True)
        seed += 1
    print(f"{seed - options.seed} workbenches, {bad} failures")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
