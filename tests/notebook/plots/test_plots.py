"""`kbench.plots`: what each picture says in its words and marks, and what it refuses.

Matplotlib is loaded by the tests, not with this file, which all processes of a run read.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kbench
from kbench import backend as K
from kbench.engine.core.errors import ArgumentError
from kbench.engine.graph import variables
from kbench.engine.runtime import config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RISING = np.arange(24.0).reshape(1, 2, 4, 3)


def words(figure: Figure) -> str:
    """Every text of a figure."""
    found = figure.findobj(lambda one: hasattr(one, "get_text"))
    return "\n".join(one.get_text() for one in found)


def test_plots_are_a_name_of_the_package() -> None:
    assert kbench.plots is importlib.import_module("kbench.notebook.plots.plots")
    assert "plots" not in kbench.__all__


@pytest.mark.parametrize(
    "make, arguments, said",
    [
        (lambda: K.variable([[1.0]], name="w"), {}, ["w[:, :], float32[1, 1]", "axis 0 (rows)"]),
        (lambda: K.constant([1.0, 2.0]), {"name": "a $x$ b"}, ["a \\$x\\$ b[:], float32[2]"]),
        (lambda: 3.0, {}, ["float64[]", "value, float64"]),
        (lambda: [[1, 2], [3, 4]], {}, ["[:, :], int64[2, 2]", "axis 1 (columns)"]),
        (lambda: [[True, False]], {}, ["value, bool"]),
        (lambda: RISING, {}, ["[0, :, :, 0]", "axis 1 (rows)"]),
        (lambda: RISING, {"index": "0, 1, :, :"}, ["[0, 1, :, :]", "axis 3 (columns)"]),
        (lambda: [[np.nan, np.inf, 1.0]], {}, ["1 NaN, 1 Inf"]),
        (lambda: [[np.nan]], {}, ["1 NaN"]),
        (lambda: np.zeros((2000, 3)), {}, ["least and greatest of each 8 rows"]),
        (lambda: np.full((2, 2), 1.5e308), {}, ["float64[2, 2]", "value in units of 1e+308"]),
    ],
)  # fmt: skip
def test_heatmap(make: Any, arguments: dict[str, Any], said: list[str]) -> None:
    figure = kbench.plots.heatmap(make(), **arguments)
    text = words(figure)
    assert [one for one in said if one not in text] == [], text
    if said[-1].startswith(("1 NaN, ", "value in units")):
        assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_heatmap_has_its_middle_at_zero_and_follows_the_layout() -> None:
    image = kbench.plots.heatmap([[-1.0, 3.0]]).axes[0].images[0]
    assert image.get_clim() == (-3.0, 3.0)
    white = image.get_cmap()(0.5)
    assert min(white[:3]) > 0.95
    assert kbench.plots.heatmap([[1.0, 3.0]]).axes[0].images[0].get_clim() == (0.0, 3.0)
    assert kbench.plots.heatmap([[9.0, 9.5]]).axes[0].images[0].get_clim() == (9.0, 9.5)
    config.assign("image_data_format", "channels_first")
    assert "[0, 0, :, :]" in words(kbench.plots.heatmap(RISING))


def test_they_draw_where_they_are_told() -> None:
    from matplotlib.figure import Figure

    own = Figure()
    left, right = own.subplots(1, 2)
    assert kbench.plots.heatmap([[1.0]], ax=left) is own and left.images
    assert kbench.plots.gradient_norms({"a": [1.0, 2.0]}, ax=right) is own and right.lines
    part = own.subfigures(1, 2)[0]
    assert kbench.plots.image_grid(np.ones((4, 4)), figure=part) is own


@pytest.mark.parametrize(
    "layout, shape, titles",
    [
        ("channels_last", (4, 5), ["image"]),
        ("channels_last", (4, 5, 3), ["image 0"]),
        ("channels_last", (3, 4, 5), ["image 0", "image 1", "image 2"]),
        ("channels_first", (3, 4, 5), ["image 0"]),
        ("channels_last", (2, 4, 5, 1), ["image 0", "image 1"]),
        ("channels_first", (2, 3, 4, 5), ["image 0", "image 1"]),
        ("channels_last", (1, 4, 5, 2), ["channel 0", "channel 1"]),
        ("channels_first", (1, 2, 4, 5), ["channel 0", "channel 1"]),
    ],
)
def test_image_grid(layout: str, shape: tuple[int, ...], titles: list[str]) -> None:
    config.assign("image_data_format", layout)
    figure = kbench.plots.image_grid(np.random.RandomState(0).uniform(size=shape))
    drawn = [one for one in figure.axes if one.images]
    assert [one.get_title() for one in drawn] == titles
    assert all(one.images[0].get_array().shape[:2] == (4, 5) for one in drawn)


def test_image_grid_is_cut() -> None:
    figure = kbench.plots.image_grid(np.zeros((20, 4, 4, 1)), most=6, columns=2, name="batch")
    assert len([one for one in figure.axes if one.images]) == 6
    assert "batch float64[20, 4, 4, 1], the first 6 of 20" in words(figure)


def test_history_follows_a_variable() -> None:
    w = K.variable([0.0, 1.0], name="w")
    other = K.variable(1.0)
    with kbench.plots.History(w) as record:
        for n in range(3):
            K.set_value(w, [-float(n), n + 1.0])
            K.set_value(other, float(n))
    assert not variables.changed
    K.set_value(w, [7.0, 7.0])
    assert [(one["step"], one["min"], one["max"]) for one in record.rows] == [
        (0, 0.0, 1.0), (1, 0.0, 1.0), (2, -1.0, 2.0), (3, -2.0, 3.0)
    ]  # fmt: skip
    text = words(kbench.plots.history(record))
    for one in ("mean ± sd", "min", "max", "stores to the variable", "share of the values"):
        assert one in text
    assert repr(record) == "<history of w: 4 entries of 4 steps>"


def test_records_are_bounded() -> None:
    record = kbench.plots.History(most=10)
    for n in range(1000):
        record.add([float(n)])
    assert len(record) < 10 and record.steps == 1000 and record.every == 128
    assert [one["step"] for one in record.rows] == list(range(0, 1000, 128))
    assert "steps, one in 128" in words(kbench.plots.history(record))


def test_history_of_what_is_not_finite() -> None:
    record = kbench.plots.History(name="h")
    record.add([1.0, np.nan])
    record.add([np.nan])
    record.add([2.0, 2.0])
    assert "NaN or Inf" in words(kbench.plots.history(record))


def test_gradient_norms() -> None:
    x = K.placeholder((None, 2), name="x")
    w, b, alone = (
        K.variable(one, name=n) for n, one in (("w", [[1.0], [2.0]]), ("b", 0.0), ("u", 1.0))
    )
    loss = K.sum(K.square(K.dot(x, w) + b))
    record = kbench.plots.GradientNorms(loss, [w, b, alone])
    assert record.inputs == [x] and record.missing == ["u"]
    found = record.add([[[1.0, 0.0]]])
    assert found == {"w": 2.0, "b": 2.0}
    assert record.add({x: [[0.0, 0.0]]}) == {"w": 0.0, "b": 0.0}
    figure = kbench.plots.gradient_norms(record)
    text = words(figure)
    assert "u: no gradient" in text and "norm of the gradient (logarithmic)" in text
    lines = [one for one in figure.axes[0].lines if len(one.get_xdata())]
    assert len({(one.get_linestyle(), one.get_marker()) for one in lines}) == len(lines) == 2
    assert kbench.plots.GradientNorms(K.sum(w * b)).add() == pytest.approx({"w": 0.0, "b": 3.0})


def test_norms_take_values_in_the_order_of_the_placeholders() -> None:
    x, t = K.placeholder((None, 2), name="x"), K.placeholder((None, 2), name="t")
    w = K.variable([1.0, 1.0], name="w")
    for loss in (K.sum(x * w) - K.sum(t), K.sum(-t) + K.sum(w * x)):
        record = kbench.plots.GradientNorms(loss)
        assert record.inputs == [x, t]
        assert record.add([[[3.0, 4.0]], [[0.0, 0.0]]]) == {"w": 5.0}


def test_norms_that_are_not_finite_are_marked() -> None:
    figure = kbench.plots.gradient_norms(
        {"a": [1.0, float("nan"), float("inf"), 0.0], "$b": [1e-30, 1.0]}
    )
    assert "a: NaN or Inf" in words(figure) and "\\$b" in words(figure)
    assert figure.axes[0].get_yscale() == "log"
    many = kbench.plots.gradient_norms({f"w{n}": [1.0] for n in range(20)})
    assert "8 more are not shown" in words(many)


@pytest.mark.parametrize("value, norm", [([3.0, 4.0], 5.0), ([3e200, 4e200], 5e200), ([], 0.0)])
def test_norm(value: list[float], norm: float) -> None:
    from kbench.notebook.plots.records import norm as norm_of

    assert norm_of(value) == pytest.approx(norm)


def test_timeline() -> None:
    x = K.placeholder((None, 3))
    f = K.function([x], [K.sum(K.exp(K.dot(x, K.ones((3, 2)))))], name="f")
    with pytest.raises(ArgumentError, match="no call was recorded"):
        kbench.plots.timeline(f)
    with K.record() as runs:
        f([np.ones((4, 3))])
        f([np.ones((4, 3))])
    for source in (f, runs, runs[0]):
        text = words(kbench.plots.timeline(source))
        assert "time since the first step, ms" in text and "dot  blas" in text
    figure = kbench.plots.timeline(runs)
    bars = figure.axes[0].patches
    steps = [step for one in runs for step in one.steps]
    assert len(bars) == len(steps)
    assert sum(one.get_width() for one in bars) == pytest.approx(
        1e3 * sum(one.seconds for one in steps)
    )
    forms = {one.form for one in steps}
    hatches = {one.get_hatch() for one in figure.axes[0].get_legend().get_patches()}
    assert len(hatches) == len(forms)


def test_a_long_timeline_shows_the_slowest() -> None:
    x = K.placeholder((2, 2))
    y = x
    for _ in range(60):
        y = K.dot(y, x)
    f = K.function([x], [y])
    with K.record() as runs:
        f([np.ones((2, 2))])
    assert "the 40 slowest of 60 steps" in words(kbench.plots.timeline(runs))


@pytest.mark.parametrize(
    "call, said",
    [
        (
            lambda: kbench.plots.heatmap(K.placeholder((2,), name="p")),
            "placeholder 'p' float32[2] was not fed",
        ),
        (lambda: kbench.plots.heatmap(K.placeholder((2,), name="p") + 1), "needs values for p"),
        (lambda: kbench.plots.heatmap("nope"), "no name nope"),
        (lambda: kbench.plots.heatmap(None), "a tensor, an array or numbers are needed; got None"),
        (lambda: kbench.plots.heatmap(K.function([], [K.ones(2)])), "needed; got a Function"),
        (lambda: kbench.plots.heatmap(np.zeros((0, 3))), "has no elements"),
        (lambda: kbench.plots.heatmap([[1, 2], [3]]), "list is not an array"),
        (lambda: kbench.plots.heatmap(["a"]), "x cannot be drawn"),
        (lambda: kbench.plots.heatmap([1.0], index="0, 0"), "1 entries are needed"),
        (lambda: kbench.plots.heatmap([1.0], ax=3), "ax must be axes of matplotlib, got int"),
        (lambda: kbench.plots.image_grid([1.0, 2.0]), "images have 2 axes"),
        (lambda: kbench.plots.image_grid(np.ones((2, 2)), columns=0), "columns must be at least 1"),
        (lambda: kbench.plots.image_grid(np.ones((2, 2)), most=0), "most must be at least 1"),
        (lambda: kbench.plots.image_grid(np.ones((2, 2)), figure=1), "figure must be a figure"),
        (lambda: kbench.plots.history(3), "record must be a History, got int"),
        (lambda: kbench.plots.history(kbench.plots.History()), "no finite values"),
        (lambda: kbench.plots.History(K.placeholder((2,))), "a dense variable is needed"),
        (lambda: kbench.plots.History(most=1), "most must be a number of entries"),
        (lambda: kbench.plots.History().add(["a"]), "History.add"),
        (lambda: kbench.plots.gradient_norms(3), "must be GradientNorms or a dictionary"),
        (lambda: kbench.plots.gradient_norms({}), "nothing is recorded yet"),
        (lambda: kbench.plots.gradient_norms({"a": 3}), "needs a sequence of numbers"),
        (lambda: kbench.plots.GradientNorms(3), "loss must be a tensor"),
        (
            lambda: kbench.plots.GradientNorms(K.sum(K.placeholder((2,)))),
            "depends on no float variable",
        ),
        (lambda: kbench.plots.GradientNorms(K.sum(K.ones((2,))), [3]), "variables are needed"),
        (lambda: kbench.plots.timeline(3), "source must be a K.function, a Keras model"),
        (lambda: kbench.plots.timeline([]), "no call was recorded"),
    ],
)
def test_refused(call: Any, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert said in str(caught.value)


def test_the_code_of_the_page_runs() -> None:
    from matplotlib.figure import Figure

    page = (Path(__file__).parents[3] / "docs" / "notebook.md").read_text("utf-8")
    section = page.partition("## Explore and plots")[2].partition("\n## ")[0]
    space: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    for block in blocks:
        exec(block, space)
    assert len(blocks) == 5 and isinstance(space["kbench"].plots.timeline(space["runs"]), Figure)
