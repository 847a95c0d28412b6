"""`python -m keras3_programs`: records models of some seeds, or compares two records.

KERAS_BACKEND=jax python -m keras3_programs record --first 0 --count 50 --to /tmp/jax
KERAS_BACKEND=kbench python -m keras3_programs record --first 0 --count 50 --to /tmp/kbench
python -m keras3_programs compare --to /tmp/kbench --with /tmp/jax
"""

from __future__ import annotations

import argparse
import os
import pickle
import time
import traceback
from pathlib import Path
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser(prog="keras3_programs", description=__doc__)
    parser.add_argument("what", choices=["record", "compare", "show"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--functions", action="store_true", help="of functions, not of models")
    parser.add_argument("--with", type=Path, dest="other")
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.count)
    if asked.what == "compare":
        return _compare(asked.to, asked.other, seeds)
    if os.environ.get("KERAS_BACKEND") == "kbench":
        import kbench  # noqa: F401
    asked.to.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        start = time.perf_counter()
        found = _functions(seed) if asked.functions else _recorded(seed)
        (asked.to / f"{seed}.pickle").write_bytes(pickle.dumps(found))
        if asked.functions and seed % 100:
            continue
        if asked.what == "show":
            print("\n".join(map(str, found["lines"])), found["error"])
        print(f"{seed}: {time.perf_counter() - start:.1f} s {found['error'][-200:]}", flush=True)
    return 0


def _recorded(seed: int) -> dict[str, Any]:
    import keras

    from keras3_programs.draw_model import Drawn
    from keras3_programs.run import record

    found: dict[str, Any] = {"error": "", "record": {}, "lines": [], "refused": [], "policy": ""}
    try:
        keras.backend.clear_session()
        drawn = Drawn(seed)
        found |= {"lines": drawn.lines, "refused": drawn.refused, "policy": drawn.policy}
        found["record"] = record(drawn)
        found["lines"] = [
            *drawn.lines,
            *(type(h.loss).__name__ for h in drawn.heads),
            str(drawn.model.optimizer.get_config())[:600],
        ]
    except Exception:
        found["error"] = traceback.format_exc()[-1500:]
    return found


def _functions(seed: int) -> dict[str, Any]:
    from keras3_programs.draw_functions import record

    found = record(seed)
    return {"record": found, "error": "", "refused": [], "policy": "", "lines": found["words"]}


def _compare(one: Path, other: Path, seeds: Any) -> int:
    from keras3_programs.compare import differences

    failed = 0
    for seed in seeds:
        files = [folder / f"{seed}.pickle" for folder in (one, other)]
        if not all(file.exists() for file in files):
            continue
        a, b = (pickle.loads(file.read_bytes()) for file in files)
        lines = []
        refused = [[one.split(":")[0] for one in each["refused"]] for each in (a, b)]
        if refused[0] != refused[1]:
            lines.append(f"refused {a['refused']} and {b['refused']}")
        if bool(a["error"]) != bool(b["error"]):
            lines.append(f"error {a['error'][-400:]!r} and {b['error'][-400:]!r}")
        lines += differences(a["record"], b["record"], a["policy"] or "float32")
        if lines:
            failed += 1
            print(f"--- {seed} {a['policy']} {len(lines)} lines")
            print("\n".join(lines[:7]))
    print(f"{failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
