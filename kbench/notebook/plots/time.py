"""Pictures of records and runs: what changed from step to step, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import describe
from kbench.notebook.base import given
from kbench.notebook.base.redraw import names
from kbench.notebook.plots import base
from kbench.notebook.plots.records import GradientNorms, History
from kbench.workbench.analysis import engine_functions
from kbench.workbench.core_types import JsonObject, Row
from kbench.workbench.protocol.messages import ProtocolError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kbench.engine.runtime.profile import RunRecord

_SOURCES = "a K.function, a Keras model, a tensor that K.eval computed, or records of runs"
MAX_STEPS = 40
"""Steps in a timeline: as many lines as a page has."""
MAX_LINES = 12
"""Lines in one figure: as many as styles tell apart."""
_HATCHES = {"numpy": "", "library": "//", "fused": "xx", "blas": "..", "view": "||", "scan": "++"}
_COLOURS = ("#4c78a8", "#e4a33d", "#59a14f", "#c9605b", "#8a7ab8", "#7f7f7f")


# ------------------------------------------------------------------ records


def history(record: object, ax: Axes | None = None, name: str | None = None) -> Figure:
    """How the values of a variable were spread over time: shares as shades, and their statistics.

    Arguments:
        record: a `History`.
        ax: axes to draw in, None for those of a new figure.
        name: for the title.
    Returns:
        The figure: mean, one deviation around it, smallest and largest as lines; crosses where
        values were not finite.
    Raises:
        ArgumentError: no record, or one without finite values.
    """
    if not isinstance(record, History):
        kind = describe.printable(type(record).__name__)
        raise ArgumentError(
            f"record must be a History, got {kind}",
            function="history",
            suggestion="with kbench.plots.History(w) as record: ... before it",
        )
    rows = record.rows
    finite = [row for row in rows if row["finite"]]
    if not finite:
        raise ArgumentError("there are no finite values in this record", function="history")
    axes = base.axes_of(ax, "history")
    steps = np.array([row["step"] for row in finite], float)
    low, high = min(row["min"] for row in finite), max(row["max"] for row in finite)
    if low < high:
        _draw_shares(axes, finite, steps, low, high, record.every)
    mean, std = (np.array([row[key] for row in finite], float) for key in ("mean", "std"))
    axes.plot(steps, mean, color="black", label="mean")
    for sign, label in ((-1, "mean ± sd"), (1, None)):
        axes.plot(steps, mean + sign * std, color="black", linestyle="--", label=label)
    for key, style in (("min", ":"), ("max", "-.")):
        axes.plot(steps, [row[key] for row in finite], color="#444444", linestyle=style, label=key)
    bad = [row["step"] for row in rows if row["nan"] or row["inf"]]
    if bad:
        axes.plot(bad, [high] * len(bad), "x", color="#a8071a", label="NaN or Inf")
    axes.set(xlabel="stores to the variable", ylabel="value")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    title = base.plain(name if name is not None else record.name)
    thin = f", one in {record.every}" if record.every > 1 else ""
    axes.set_title(f"{title}, {record.steps} steps{thin}", fontsize="medium")
    axes.legend(fontsize="small", loc="best")
    return base.figure_of(axes)


def _draw_shares(
    axes: Axes, rows: Sequence[Row], steps: np.ndarray, low: float, high: float, every: int
) -> None:
    """The histograms of all steps over one common range, darker where there are more values."""
    bins = 40
    edges = np.linspace(low, high, bins + 1)
    shares = np.zeros((bins, len(rows)))
    for column, row in enumerate(rows):
        counts = np.array(row["histogram"], float)
        own = np.linspace(row["min"], row["max"], len(counts) + 1)
        if row["min"] == row["max"] or not counts.size:
            at = int(np.clip(np.searchsorted(edges, row["min"], "right") - 1, 0, bins - 1))
            shares[at, column] = 1.0
            continue
        below = np.interp(edges, own, np.concatenate([[0.0], np.cumsum(counts)]))
        shares[:, column] = np.diff(below) / counts.sum()
    sides = np.append(steps, steps[-1] + every) - every / 2
    drawn = axes.pcolormesh(
        sides, edges, shares, cmap="Blues", norm=PowerNorm(0.5, 0.0), rasterized=True
    )
    base.figure_of(axes).colorbar(drawn, ax=axes, label="share of the values")


def gradient_norms(record: object, ax: Axes | None = None) -> Figure:
    """The norm of the gradient for each variable over the steps, on a logarithmic scale.

    Arguments:
        record: a `GradientNorms`, or a dictionary of names and sequences of norms.
        ax: axes to draw in, None for those of a new figure.
    Returns:
        The figure. Norms of 0 stand at its lower edge, norms that are not finite are crosses at
        its upper edge; variables without gradient are named in the legend.
    Raises:
        ArgumentError: no record, or one without steps.
    """
    series, missing = _series(record)
    if not any(len(steps) for steps, _ in series.values()):
        raise ArgumentError(
            "nothing is recorded yet",
            function="gradient_norms",
            suggestion="record.add([values of record.inputs]) at each step",
        )
    axes = base.axes_of(ax, "gradient_norms")
    known = [value for _, norms in series.values() for value in norms]
    good = [norm for norm in known if np.isfinite(norm) and norm > 0]
    low, high = (min(good) / 2, max(good) * 2) if good else (0.1, 1.0)
    shown = list(series.items())[:MAX_LINES]
    for number, (name, (steps, norms)) in enumerate(shown):
        values = np.array(norms, float)
        style: dict[str, Any] = {
            "linestyle": base.LINES[number % len(base.LINES)],
            "marker": base.MARKS[number % len(base.MARKS)],
            "markevery": max(len(steps) // 8, 1),
            "markersize": 4,
        }
        usual = np.where(np.isfinite(values), np.maximum(values, low), np.nan)
        (line,) = axes.plot(steps, usual, label=base.plain(name), **style)
        bad = [step for step, value in zip(steps, values, strict=True) if not np.isfinite(value)]
        if bad:
            label = f"{base.plain(name)}: NaN or Inf"
            axes.plot(bad, [high] * len(bad), "x", color=line.get_color(), label=label)
    more = len(series) - len(shown)
    for text in [*(f"{base.plain(name)}: no gradient" for name in missing[:MAX_LINES])] + (
        [f"{more} more are not shown"] if more else []
    ):
        axes.plot([], [], " ", label=text)
    axes.set_yscale("log")
    axes.set_ylim(low / 1.5, high * 1.5)
    axes.set(xlabel="step", ylabel="norm of the gradient (logarithmic)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize="small", loc="best")
    return base.figure_of(axes)


def _series(record: object) -> tuple[dict[str, tuple[list[int], list[float]]], list[str]]:
    if isinstance(record, GradientNorms):
        rows = record.rows
        steps = [row["step"] for row in rows]
        names = [name for name in record.names if name not in record.missing]
        found = {name: (steps, [row["norms"][name] for row in rows]) for name in names}
        return found, record.missing
    if isinstance(record, Mapping):
        try:
            lists = {str(name): [float(norm) for norm in norms] for name, norms in record.items()}
        except (TypeError, ValueError):
            raise ArgumentError(
                "each name needs a sequence of numbers", function="gradient_norms"
            ) from None
        return {name: (list(range(len(norms))), norms) for name, norms in lists.items()}, []
    kind = describe.printable(type(record).__name__)
    raise ArgumentError(
        f"record must be GradientNorms or a dictionary, got {kind}", function="gradient_norms"
    )


# ------------------------------------------------------------------ runs


def timeline(source: object, ax: Axes | None = None) -> Figure:
    """The steps of a recorded run in time, one below the other; their form by hatch and word.

    Arguments:
        source: a `K.function` of which a call was recorded, or what `K.record()` has collected:
            one record or a list of them, one after the other.
        ax: axes to draw in, None for those of a new figure.
    Returns:
        The figure. Of more steps than fit the slowest are shown.
    Raises:
        ArgumentError: nothing was recorded.
    """
    runs = _runs(source)
    title = ", ".join(describe.printable(run["function"]) for run in runs[:3])
    rows, at = [], 0.0
    for run in runs:
        for step in run["rows"]:
            rows.append((at, step))
            at += step["seconds"]
    slowest = sorted(rows, key=lambda row: -row[1]["seconds"])[:MAX_STEPS]
    shown = sorted(slowest, key=lambda row: row[0])
    axes = base.axes_of(ax, "timeline", (7.2, min(1.4 + 0.26 * len(shown), 11.0)))
    forms: dict[str, str] = {}
    for place, (began, step) in enumerate(shown):
        form = step["form"]
        colour = forms.setdefault(form, _COLOURS[len(forms) % len(_COLOURS)])
        axes.barh(
            place, step["seconds"] * 1e3, left=began * 1e3, height=0.7, color=colour,
            hatch=_HATCHES.get(form, "oo"), edgecolor="black", linewidth=0.6,
        )  # fmt: skip
    axes.set_yticks(
        range(len(shown)), [f"{base.plain(step['op'])}  {step['form']}" for _, step in shown]
    )
    axes.tick_params(axis="y", labelsize="small")
    axes.invert_yaxis()
    axes.set(xlabel="time since the first step, ms", ylabel="step")
    cut = f", the {len(shown)} slowest of {len(rows)} steps" if len(shown) < len(rows) else ""
    axes.set_title(f"{base.plain(title)}: {at * 1e3:.3g} ms{cut}", fontsize="medium")
    patches = [
        Patch(facecolor=colour, hatch=_HATCHES.get(form, "oo"), edgecolor="black", label=form)
        for form, colour in forms.items()
    ]
    axes.legend(handles=patches, fontsize="small", loc="best")
    return base.figure_of(axes)


def _runs(source: object) -> list[JsonObject]:
    """The rows of what was recorded."""
    if isinstance(source, str):
        try:
            source = names().get(source.strip())
        except ProtocolError as error:
            raise ArgumentError(error.reason, function="timeline") from None
    if given.is_runnable(source):
        plans = [describe.plan(function) for function in engine_functions.functions_of(source)]
        runs = [plan for plan in plans if plan is not None]
    else:
        records = source if isinstance(source, (list, tuple)) else [source]
        if not all(hasattr(record, "steps") and hasattr(record, "seconds") for record in records):
            kind = describe.printable(type(source).__name__)
            raise ArgumentError(f"source must be {_SOURCES}, got {kind}", function="timeline")
        runs = [describe.run(cast("RunRecord", record)) for record in records]
    if not any(run["rows"] for run in runs):
        raise ArgumentError(
            "no call was recorded, or none had steps",
            function="timeline",
            suggestion="with K.record() as runs: f([...]), then timeline(runs)",
        )
    return runs
