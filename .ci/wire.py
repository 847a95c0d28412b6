"""The examples of docs/design/wire.md: what an inspector answers to each verb.

    python .ci/wire.py           writes the examples into the page anew
    python .ci/wire.py --check   says what the page has otherwise, and fails if anything

What differs from run to run or from machine to machine (times, process, versions) is shown as one
fixed value.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "design" / "wire.md"
BEGIN = "<!-- from here on drawn by .ci/wire.py -->\n"
WIDTH = 96
Json = dict[str, Any]
WAIT_SECONDS = 30.0
"""How long a push may take."""

PROGRAM = """\
import numpy as np
import kbench as K

x = K.placeholder((None, 2), name="x")
w = K.variable([[1.0, 2.0], [3.0, 4.0]], name="w")
y = K.relu(K.dot(x, w))
loss = K.mean(K.square(y))
step = K.function([x], [loss], name="step")
step([np.array([[1.0, 0.5]])])
history = {"loss": [11.12, 4.5], "note": "first run"}
"""
JOB = """\
from kbench.dask import activity

job = activity.track("fit", "mlp", total=300)
for number in range(2):
    address = f"tcp://10.0.0.{number + 1}:40001"
    job.worker(address, host=f"node{number + 1}", threads=8, state="working")
    job.add(address, tasks=120, rows=3840, seconds=3.0, received=12 << 20, returned=1 << 20)
job.step(120)
"""
FIXED: Json = {"seconds": 0.0001, "kernel_seconds": 0, "gb_per_s": 0.5, "gflop_per_s": 0.1}
FIXED |= {"pid": 4711, "python": "3.11.7", "kbench": "0.1.0"}
FIXED_OF_PYTHON: Json = FIXED | {"bytes": 120}
"""Of what has a length: a list or a text, whose size depends on the version of Python."""

EXAMPLES: list[tuple[str, list[Json], str]] = [
    (
        "Who answers: versions, process, verbs, settings. `push` and `record` switch on what the "
        "verbs `push` and `trace` switch. A front end sends this first.",
        [{"verb": "hello", "push": False, "record": False}],
        "",
    ),
    ("Whether changes are told unasked. A front end says no while no pane is visible. After a cell "
     "that has stored to `w`, the inspector pushes `changed`.",
     [{"verb": "push", "on": True}], "changed"),
    ("What has changed since an epoch, and all names. Where they are too many for one message, the "
     "lists are empty and `many` says how many names have changed.",
     [{"verb": "changes", "since": 0}], ""),
    ("Rows of some names, or of all; `pattern` filters, `statistics` False leaves ranges out. This "
     "is the variables pane.",
     [{"verb": "summary", "names": ["w", "x"]}], ""),
    ("The rows below a Keras model: its layers, their weights. Other names have none.",
     [{"verb": "parts", "names": ["w"]}], ""),
    ("What is inside a value, a page at a time: entries of a container or attributes of an object, "
     "whose `key` opens them in turn; or the lines of a text, cut at `width` characters.",
     [{"verb": "open", "name": "history"}, {"verb": "open", "name": "history['loss']", "count": 2}],
     ""),
    ("What a name was after an earlier cell: `cell`, or with `step` the value before or after the "
     "one that is shown. `name` of the reply is what to ask by from then on, with any verb. Values "
     "are kept, within a number of bytes, from the first `hello` on.",
     [{"verb": "past", "name": "w", "cell": 1}], ""),
    ("A slice of an array as texts. `rows` and `cols` are first, end and (in the reply) size; "
     "`heat` has a digit for each cell, by its place between the limits.",
     [{"verb": "window", "name": "w", "rows": [0, 2], "cols": [0, 2]}], ""),
    ("Statistics of every element; of a large array a sample, unless `exact`.",
     [{"verb": "stats", "name": "w"}], ""),
    ("An array as a picture of at most `size` pixels: base64, a byte for each pixel, or three with "
     "`colours`.",
     [{"verb": "image", "name": "w", "size": [4, 4]}], ""),
    ("A line of an array as a curve: least and greatest of each stretch.",
     [{"verb": "curve", "name": "w", "stretches": 8, "index": [1, 0], "axis": 1}], ""),
    ("The next element that a condition holds for, from the index `after` on.",
     [{"verb": "find", "name": "w", "what": "> 2"}], ""),
    ("The operations behind a tensor, inputs first; `inputs` are the ids of other rows.",
     [{"verb": "graph", "name": "y"}], ""),
    ("The value of a node on what was fed last: known from the last run, or computed again beside "
     "the program, which `words` say. `name` of the reply is what to ask by for its cells.",
     [{"verb": "node", "name": "loss", "number": 2, "node": "relu:0"}], ""),
    ("The steps of a recorded run: the last, the last of a `function`, or the one of a number "
     "(`run`). With `step` only the generated source of that step. `measure` finds out what the "
     "machine can do at best.",
     [{"verb": "plan"}, {"verb": "plan", "step": 0}], ""),
    ("What each worker of a fit or a map over a cluster has done: of the job that leads, or of a "
     "number (`job`). A job leads while it runs, and until a later cell has recorded a run. At "
     "most 256 workers have a row, or `most`; the rest is summed up in `others`. While a job runs "
     "the inspector pushes twice a second how far it is; who shows the rows asks for them.",
     [{"verb": "jobs"}], "jobs"),
    ("Whether runs are recorded for `plan`.", [{"verb": "trace", "on": False}], ""),
    ("The settings, after `set`. While a cell runs, a change waits for its end, and the reply "
     "names it under `queued`.",
     [{"verb": "config", "set": {"epsilon": 1e-06}}], ""),
    ("The signature of the call at a position of some code.",
     [{"verb": "help", "code": "K.relu(x", "position": 8}], ""),
    ("What names stand for, for a list of completions.",
     [{"verb": "meanings", "names": ["K.conv1d", "K", "w"]}], ""),
    ("Writes an array to a file in the kernel's process. A large one goes on beside the program, "
     "and `job` numbers it.",
     [{"verb": "export", "name": "w", "path": "w.npy"}], ""),
    ("How far a `job` of `export` is; `stop` ends it. This one is not there, so this is also what "
     "a refusal looks like.",
     [{"verb": "exporting", "job": 1}], ""),
    ("The value of expressions. The reply has what is known, a push the new values. `force` has "
     "one evaluated that was too slow.",
     [{"verb": "watch", "expressions": ["K.sum(w)"]}], "watch"),
    ("The session's list of watched expressions, which `%watch` and every pane share. `join` puts "
     "them behind those that are there. Whenever the list changes, `watching` pushes it.",
     [{"verb": "watch_list", "expressions": ["K.sum(w)"], "join": True}], "watching"),
    ("The gradients of a loss, computed beside the program and pushed.",
     [{"verb": "gradient", "loss": "loss"}], "gradient"),
    ("Where the first NaN or infinity comes from, found beside the program and pushed.",
     [{"verb": "nan", "name": "y"}], "nan"),
    ("The lines of the last comparison (`K.compare`); here none was made.",
     [{"verb": "versus", "width": 80}], ""),
    ("Asks the running evaluation to stop. Sent together with the signal that interrupts the cell.",
     [{"verb": "cancel"}], ""),
]  # fmt: skip


def fixed(value: Any) -> Any:
    """A message with what differs from run to run or between machines replaced."""
    if isinstance(value, dict):
        known = FIXED_OF_PYTHON if "length" in value else FIXED
        return {key: known.get(key, fixed(one)) for key, one in value.items()}
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, str) and value.startswith(os.getcwd()):
        return value.replace(os.getcwd(), "/home/me")
    return [fixed(one) for one in value] if isinstance(value, list) else value


def written(value: Any, depth: int = 0, used: int = 0) -> str:
    """JSON on one line where that has room, else with an entry on each line."""
    whole = json.dumps(value)
    if not isinstance(value, (dict, list)) or 2 * depth + used + len(whole) <= WIDTH:
        return whole
    left, right = "{}" if isinstance(value, dict) else "[]"
    inside = "  " * (depth + 1)
    if isinstance(value, dict):
        named = [(json.dumps(key) + ": ", one) for key, one in value.items()]
    else:
        named = [("", one) for one in value]
    lines = _filled(named, depth + 1)
    return left + "\n" + ",\n".join(inside + one for one in lines) + f"\n{'  ' * depth}{right}"


def _filled(entries: list[tuple[str, Any]], depth: int) -> list[str]:
    """Entries of an object or a list: short ones side by side, long ones on lines of their own."""
    lines: list[str] = []
    for head, one in entries:
        text = head + written(one, depth, len(head) + 1)
        fits = lines and 2 * depth + len(lines[-1]) + len(text) + 3 <= WIDTH
        if fits and "\n" not in text + lines[-1] and not isinstance(one, dict):
            lines[-1] += f", {text}"
        else:
            lines.append(text)
    return lines


def drawn() -> str:
    """All examples."""
    from kbench.workbench.inspector.inspector import Inspector

    pushed: list[Json] = []
    names: Json = {}
    beside: Json = {}  # not among the names that the inspector tells of
    inspector = Inspector(names, publish=pushed.append)
    inspector.handle({"verb": "trace", "on": True})

    def run(code: str) -> None:
        inspector.cell_started()
        exec(compile(code, "train.py", "exec"), names)
        names.pop("__builtins__", None)
        inspector.cell_ended()

    def wait(kind: str, find: Callable[[Json], bool] = lambda _data: True) -> Json:
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            for one in pushed:
                if one["push"] == kind and find(one["data"]):
                    return one
            time.sleep(0.02)
        raise TimeoutError(f"no push {kind!r}")

    parts = [f"The program:\n\n```python\n{PROGRAM}```\n"]
    run(PROGRAM)
    number = 0
    try:
        for words, requests, kind in EXAMPLES:
            parts.append(f"### {requests[0]['verb']}\n\n{_wrapped(words)}\n")
            shown = []
            for request in requests:
                number += 1
                asked = {"id": number, **request}
                if kind == "jobs":
                    exec(JOB, beside)
                shown += [asked, inspector.handle(asked)]
            if kind == "changed":
                run("pass")
                wait(kind)
                time.sleep(0.3)
                pushed.clear()
                run("K.update(w, 2 * w); K.set_value(w, K.get_value(w))")
                shown.append(wait(kind))
            elif kind == "jobs":
                shown.append(wait(kind, lambda data: bool(data["job"]["steps"])))
                beside["job"].end()
            elif kind:
                shown.append(wait(kind))
            lines = "\n".join(written(fixed(one)) for one in shown)
            parts.append(f"```json\n{lines}\n```\n")
    finally:
        inspector.close()
    return "\n".join(parts)


def _wrapped(text: str) -> str:
    import textwrap

    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def main() -> int:
    """Write the page, or check it."""
    before = PAGE.read_text("utf-8")
    head = before.partition(BEGIN)[0]
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(KBENCH_JIT="off", KBENCH_NUM_THREADS="2", KERAS_HOME=folder)
        os.environ.update(KBENCH_CACHE_DIR=folder)  # where nobody has measured the machine
        os.chdir(folder)
        after = head + BEGIN + "\n" + drawn()
        os.chdir(ROOT)
    if sys.argv[1:] == ["--check"]:
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "page", "now", "", "")
        print(*lines, sep="\n")
        return int(before != after)
    PAGE.write_text(after, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
