"""The forms that one operation may run in, and what each of them pays: `kbench bench --forms`.

Each form is left out in a process of its own, where the same workload runs in the next best one.
Both processes work in turns, and their values are checked before and after, as those of any
library are. A form stays in the engine as long as it pays on a workload that it is there for.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from measuring import measure
from process import Process
from workloads import WORKLOADS

_INTRO = """# The forms an operation runs in

Most operations have one kernel and their NumPy form, which runs until the kernel is there, where
arrays are small, and as the reference of tests. Some have several forms. Each of them stays as long
as it pays on a workload that it is there for. `kbench bench --forms` measures that: it leaves one
form out, in a process of its own, and has the same workload run in the next best form, in turns
with kbench as it is. A figure of 2 says that the workload takes twice the time without the form,
and 1 that the form gains nothing.

Softmax and logsumexp, for instance, are row programs along the last axes, with whatever else is
computed of the rows; over other axes they are folds and fused loops; within a loop they are part of
its kernel. They had a library kernel of their own, too, for few or long rows. A row program is as
fast there since it keeps the exponentials where the result will be, so the kernel went.

The plan pane, `PlanTable` and `K.record()` say by one word how a step ran:

| word | what ran |
|---|---|
| `numpy`, `blas`, `scipy` | the NumPy form, or what it calls |
| `fused` | a generated loop or row program |
| `library` | a kernel of the library, or the name of its variant: `winograd` |
| `scan`, `loop` | a loop as one kernel, or step by step |
| `view` | nothing: the same memory, seen in another shape |"""

WITHOUT = "KBENCH_BENCH_WITHOUT"
"""The variable of the environment that names the form to leave out."""


def _never(*_arguments: Any, **_options: Any) -> bool:
    return False


def _none(*_arguments: Any, **_options: Any) -> None:
    return None


@dataclass(frozen=True)
class Form:
    """One form: what it is, where it is chosen, what runs without it, and workloads it is for.

    `places` are functions by "module:name" in `kbench.engine`; `instead` takes their place.
    """

    what: str
    chosen: str
    otherwise: str
    places: tuple[str, ...]
    instead: Callable[..., Any]
    workloads: tuple[str, ...]


FORMS = {
    "eager": Form(
        "a small expression, one NumPy call after the other",
        "execute/eager.py",
        "a plan",
        ("execute.function:direct_value",),
        _none,
        ("tiny.eval_one", "tiny.eval_ten"),
    ),
    "row program": Form(
        "one pass over rows: softmax, logsumexp, moments, and what is made of them",
        "fusion/row_clusters.py",
        "loops, library kernels, NumPy",
        ("fusion.row_schedule:is_profitable",),
        _never,
        (
            "rows.softmax",
            "rows.softmax.few",
            "rows.logsumexp",
            "rows.cross_entropy.grad",
            "norm.batch",
            "norm.layer",
            "norm.layer.grad",
        ),
    ),
    "decomposed softmax": Form(
        "softmax over another axis than the last, as folds down the columns and fused loops",
        "compiler/decompose_softmax.py",
        "NumPy",
        ("compiler.simplify:decompose_softmax",),
        _none,
        ("rows.softmax.first",),
    ),
    "library kernel": Form(
        "argmax, argmin, cumsum, cumprod, var of one row, of all elements, or of a middle axis",
        "execute/steps/library_step.py",
        "NumPy",
        ("execute.select:library_step",),
        _none,
        ("reduce.argmax.last", "reduce.argmax.first", "move.cumsum.first", "move.cumsum.last"),
    ),
    "gemm": Form(
        "a product by packed tiles: small and middle sizes, batches",
        "kernels/gemm/tiling.py",
        "NumPy's BLAS",
        ("kernels.gemm.tiling:is_profitable",),
        _never,
        ("dot.64", "dot.128", "dot.512", "dot.batch"),
    ),
    "epilogue": Form(
        "bias and activation in the last store of a product",
        "execute/steps/epilogue_step.py",
        "a fused loop behind it",
        ("execute.select:with_epilogue",),
        _none,
        ("train.mlp", "train.cnn"),
    ),
    "convolution kernel": Form(
        "convolution by tiles, without a copy of windows",
        "kernels/conv/api.py",
        "windows copied, then BLAS",
        ("kernels.conv.api:is_profitable",),
        _never,
        ("conv.3x3", "conv.7x7s2", "conv.1x1.to_kernel", "conv.conv3d"),
    ),
    "winograd": Form(
        "3x3 convolution by tiles of 4x4 results: 36 products for 144",
        "kernels/winograd/api.py",
        "the convolution kernel",
        ("kernels.winograd.api:is_profitable", "kernels.winograd.api:suits_spread"),
        _never,
        ("conv.3x3", "conv.3x3.to_input", "conv.3x3.to_kernel"),
    ),
    "col2im": Form(
        "the gradient to the input of few channels, as products that are added where they belong",
        "kernels/conv/col2im.py",
        "the convolution kernel",
        ("kernels.conv.col2im:is_profitable",),
        _never,
        ("conv.7x7s2.to_input",),
    ),
    "channel lanes": Form(
        "pooling whose vectors hold channels",
        "kernels/pool/channel_lanes.py",
        "the kernel that walks over windows",
        ("kernels.pool.channel_lanes:is_profitable",),
        _never,
        ("pool.max", "pool.avg", "pool.max.3x3", "pool.max.3x3.grad"),
    ),
    "scan": Form(
        "a whole loop as one kernel",
        "fusion/scan_match.py",
        "the step's plan, once for each entry",
        ("execute.steps.loop_step:find_scan",),
        _none,
        ("rnn.lstm", "rnn.custom.grad", "loop.foldl"),
    ),
    "replay": Form(
        "the kernels of a plan in one call of compiled code, from the third run on",
        "execute/replay.py",
        "one call for each kernel",
        ("jit.launch:LaunchGraph.is_supported",),
        _never,
        ("train.mlp", "train.cnn", "rnn.custom.grad"),
    ),
    "stores past the caches": Form(
        "results that no cache holds, written without being read first",
        "runtime/cpu_caches.py",
        "usual stores",
        ("runtime.cpu_caches:is_streamed",),
        _never,
        ("elementwise.sqrt", "elementwise.bias_relu", "move.cumsum.last"),
    ),
}


def holder_of(place: str) -> tuple[Any, str]:
    """The module or class that has a function, and its name there."""
    module, _, path = place.partition(":")
    holder: Any = importlib.import_module(f"kbench.engine.{module}")
    *outer, last = path.split(".")
    for part in outer:
        holder = getattr(holder, part)
    return holder, last


def leave_out(name: str) -> None:
    """Have this process do without a form; '' leaves out none."""
    if not name:
        return
    instead: Any = FORMS[name].instead
    for holder, last in map(holder_of, FORMS[name].places):
        static = isinstance(vars(holder)[last], staticmethod)
        setattr(holder, last, staticmethod(instead) if static else instead)


def measure_forms(
    names: list[str], threads: int, rounds: int, seconds: float
) -> dict[str, dict[str, Any]]:
    """Rows by form and workload: kbench as it is, and without the form."""
    reference = Process(sys.executable, "reference", threads, {"KBENCH_JIT": "off"})
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name in names:
        for workload in FORMS[name].workloads:
            one = WORKLOADS[workload]
            environment = {"KBENCH_JIT": one.jit}
            usual = Process(sys.executable, "kbench", threads, environment)
            without = Process(
                sys.executable, "kbench", threads, {**environment, WITHOUT: name}, "without"
            )
            rows = measure(one, reference, [usual, without], [], rounds, seconds)
            found[name][workload] = rows
            print(f"{name}: {workload} {_told(rows)}", file=sys.stderr, flush=True)
            usual.close()
            without.close()
    reference.close()
    return found


def _told(rows: dict[str, dict[str, Any]]) -> str:
    """How many times the time it takes without the form, or why that is not known."""
    ours, without = rows.get("kbench", {}), rows.get("without", {})
    if "median" in ours and "median" in without:
        return f"{without['median'] / ours['median']:.2f}"
    return next((str(row["error"]) for row in rows.values() if "error" in row), "not timed")


def forms_table(measured: dict[str, dict[str, Any]]) -> str:
    """A row for each form, with the times without it."""
    lines = [
        "| form | what it is | chosen in `kbench/engine/` | otherwise | time without it, for 1 |",
        "|---|---|---|---|---|",
    ]
    for name, workloads in measured.items():
        form = FORMS[name]
        figures = ", ".join(f"`{one}` {_told(rows)}" for one, rows in workloads.items())
        cells = (name, form.what, f"`{form.chosen}`", form.otherwise, figures)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page(measured: dict[str, dict[str, Any]], machine: str) -> str:
    """docs/forms.md."""
    return f"{_INTRO}\n\n{machine}\n\n{forms_table(measured)}\n"
