"""Row kernels: folds over the same rows, and what is made of them, as one step of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import every

from kbench import backend as K
from kbench.engine.codegen import row_kernel
from kbench.engine.codegen.loop_program import LoopProgram
from kbench.engine.codegen.row_sweeps import Sweeps
from kbench.engine.fusion import row_lower

Build = Callable[..., Sequence[Any]]
SHAPES = [(33, 129), (1, 5), (17, 1), (40, 2), (3, 7, 66), (2, 3, 5, 31), (4100, 3)]
EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -104.0])


def _layer_norm(x: Any, gain: Any, offset: Any) -> Any:
    centre = K.mean(x, axis=-1, keepdims=True)
    spread = K.mean(K.square(x - centre), axis=-1, keepdims=True)
    return (x - centre) / K.sqrt(spread + 1e-5) * gain + offset


def _attention(x: Any, gain: Any, offset: Any) -> list[Any]:
    return [K.softmax(x * 0.3 + offset) * gain, K.logsumexp(x, -1), K.max(K.softmax(x), -1)]


def _batch_norm(x: Any, gain: Any, offset: Any) -> list[Any]:
    axes = list(range(K.ndim(x) - 1))
    return list(K.normalize_batch_in_training(x, gain, offset, axes))


def _gradients(of: Callable[..., Any]) -> Build:
    def build(x: Any, gain: Any, offset: Any) -> list[Any]:
        result = of(x, gain, offset)
        first = result[0] if isinstance(result, list) else result
        loss = K.sum(first * K.sin(x)) if K.ndim(first) == K.ndim(x) else K.sum(first)
        return list(K.gradients(loss, [x, gain, offset]))

    return build


def _classes(x: Any, logits: bool) -> list[Any]:
    classes = K.cast(K.abs(K.sum(x, -1)) % 1 * K.cast(K.shape(x)[-1], K.dtype(x)), "int64")
    guess = x if logits else K.softmax(x)
    return [K.sparse_categorical_crossentropy(classes, guess, from_logits=logits)]


def _shares(x: Any, gain: Any, offset: Any) -> list[Any]:
    """What the laws of a softmax apply to, and what is only like it."""
    share = K.softmax(x * gain)
    total = K.sum(share, -1, keepdims=True)
    shifted = (x + K.sum(x * share, -1, keepdims=True)) * share
    logs = [K.log(share), K.log(K.clip(share, 1e-3, 0.9)), K.log(K.maximum(0.2, share))]
    logs += [K.log(K.maximum(share, 0.0)), K.log(K.minimum(share, 0.3 + 0 * x))]
    ratios = [share / total, x / total, x / K.sum(K.softmax(x), -1, keepdims=True)]
    sums = [total, K.sum(shifted, -1), K.sum(shifted + share, -1), K.sum(share * offset, -1)]
    return [K.sum(one * offset, -1) for one in (*logs, *ratios)] + sums


def _values_that_several_sweeps_use(x: Any, gain: Any, offset: Any) -> list[Any]:
    """Dear values that are outputs, that outputs are made of, and that only others need."""
    share = K.softmax(x)
    grown = K.exp(share) + 1.0
    gate = K.sigmoid(K.sin(x) / (share + 1.0))
    return [share, grown, gate * K.max(gate, axis=-1, keepdims=True)]


def _leading(x: Any) -> list[int]:
    return list(range(K.ndim(x) - 1))


ROWS: dict[str, Build] = {
    "values of several sweeps": _values_that_several_sweeps_use,
    "layer norm": lambda x, g, b: [_layer_norm(x, g, b)],
    "layer norm gradient": _gradients(_layer_norm),
    "softmax, logsumexp": _attention,
    "softmax gradient": _gradients(lambda x, g, b: K.softmax(x + b) * g),
    "batch norm": _batch_norm,
    "batch norm gradient": _gradients(_batch_norm),
    "deviations": lambda x, g, b: [K.std(x, -1), K.var(x, _leading(x)), K.std(x)],
    "cross-entropy": lambda x, g, b: [K.categorical_crossentropy(K.softmax(x * g), K.softmax(x))],
    "cross-entropy gradient": _gradients(
        lambda x, g, b: K.categorical_crossentropy(K.softmax(b + 0 * x), K.softmax(x * g))
    ),
    "from logits": _gradients(
        lambda x, g, b: K.categorical_crossentropy(K.softmax(b + 0 * x), x * g, from_logits=True)
    ),
    "classes": lambda x, g, b: _classes(x, False),
    "classes gradient": lambda x, g, b: K.gradients(K.sum(_classes(x, False)[0]), [x]),
    "classes of logits": lambda x, g, b: _classes(x, True),
    "classes of logits gradient": lambda x, g, b: K.gradients(
        K.sum(K.square(_classes(x, True)[0])), [x]
    ),
    "shares": lambda x, g, b: _shares(x, g, b)[:8],
    "sums of shares": lambda x, g, b: _shares(x, g, b)[8:],
    "shares gradient": lambda x, g, b: K.gradients(
        K.sum(_shares(x, g, b)[1] + _shares(x, g, b)[-3] + _shares(x, g, b)[5]), [x]
    ),
    "length": lambda x, g, b: [
        K.l2_normalize(x, -1),
        K.sum(x * g, -1),
        K.min(x, -1) - K.max(x, -1),
    ],
    "columns": lambda x, g, b: [K.sum(x * g, _leading(x)), K.sum(K.square(x), _leading(x))],
}


def _run(arrays: Sequence[np.ndarray], build: Build, jit: str) -> list[np.ndarray]:
    with mock.patch.dict("os.environ", {"KBENCH_JIT": jit, "KBENCH_LEAST": "1"}):
        inputs = [K.placeholder(ndim=one.ndim, dtype=one.dtype.name) for one in arrays]
        return list(K.function(inputs, list(build(*inputs)))(list(arrays)))


def _agree(got: Sequence[np.ndarray], want: Sequence[np.ndarray], units: float = 64) -> None:
    for one, other in zip(got, want, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        finite = np.abs(other[np.isfinite(other)].astype("float64"))
        limit = units * float(np.finfo(one.dtype).eps)
        scale = max([1.0, *finite.flat])
        np.testing.assert_allclose(
            one.astype("float64"), other.astype("float64"), rtol=limit, atol=limit * scale
        )


def _operands(shape: tuple[int, ...], dtype: str, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    parts = [shape, shape[-1:], shape[-1:]]
    return [random.normal(0.3, 1, one).astype(dtype) for one in parts]


@pytest.mark.parametrize("name", every(14, ROWS))
def test_row_kernels_agree_with_numpy(name: str) -> None:
    """On odd sizes, one row, one column, several leading axes."""
    for shape in SHAPES:
        arrays = _operands(shape, "float32")
        _agree(_run(arrays, ROWS[name], "wait"), _run(arrays, ROWS[name], "off"))


@pytest.mark.parametrize("name", every(14, ROWS))
def test_row_kernels_of_other_dtypes_agree_with_numpy(name: str) -> None:
    for shape, dtype in (((40, 33), "float64"), ((20, 9), "float16")):
        arrays = _operands(shape, dtype)
        _agree(_run(arrays, ROWS[name], "wait"), _run(arrays, ROWS[name], "off"))


@pytest.mark.parametrize(
    "name",
    every(2, ["layer norm", "batch norm", "length", "deviations", "columns", "sums of shares"]),
)
def test_nan_and_infinities_stay_where_they_are(name: str) -> None:
    x, gain, offset = _operands((40, 24), "float32")
    x[::5, ::3] = np.resize(EDGES, x[::5, ::3].shape)
    arrays = [x, gain, offset]
    _agree(_run(arrays, ROWS[name], "wait"), _run(arrays, ROWS[name], "off"))


def test_softmax_of_rows_with_infinities() -> None:
    x = np.zeros((20, 40), "float32")
    x[0] = -np.inf
    x[1, 3], x[2, 4], x[3, 5] = np.inf, np.nan, -np.inf
    build: Build = lambda x: [K.softmax(x), K.logsumexp(x, -1)]  # noqa: E731
    _agree(_run([x], build, "wait"), _run([x], build, "off"))


FEW_OR_LONG: dict[str, tuple[int, ...]] = {
    "a vector": (9000,), "few": (3, 4097), "one": (1, 20_000), "of several axes": (2, 3, 9000)
}  # fmt: skip


@pytest.mark.parametrize("rows", every(2, FEW_OR_LONG))
def test_softmax_has_one_kernel_for_few_and_for_long_rows(rows: str) -> None:
    x = np.random.default_rng(0).normal(0, 4, FEW_OR_LONG[rows]).astype("float32")
    x.reshape(-1)[:3] = -np.inf, 80, -80

    def build(x: Any) -> list[Any]:
        share = K.softmax(x)
        return [share, K.logsumexp(x, -1), K.logsumexp(x), share * x]

    _agree(_run([x], build, "wait"), _run([x], build, "off"))
    assert set(_forms([x], build)) == {"fused"}


def test_softmax_has_a_kernel_where_its_cluster_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_lower, "MAX_OUTPUTS", 1)
    x = np.random.default_rng(0).normal(0, 4, (20, 30)).astype("float32")

    def build(x: Any) -> list[Any]:
        share = K.softmax(x)
        return [share, share * K.max(share, -1, keepdims=True), K.softmax(K.sin(share))]

    _agree(_run([x], build, "wait"), _run([x], build, "off"))
    assert _steps([x], build).count("softmax") == 2 and "numpy" not in _forms([x], build)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(["layer norm", "batch norm", "deviations", "columns", "length"]),
    st.lists(st.integers(1, 70), min_size=2, max_size=3),
    st.integers(0, 9),
)
def test_any_shape(name: str, shape: list[int], seed: int) -> None:
    arrays = _operands(tuple(shape), "float32", seed)
    _agree(_run(arrays, ROWS[name], "wait"), _run(arrays, ROWS[name], "off"))


def _steps(arrays: Sequence[np.ndarray], build: Build) -> list[str]:
    with K.record() as runs:
        _run(arrays, build, "wait")
    return [step.label for step in runs[0].steps if step.form != "view"]


def _forms(arrays: Sequence[np.ndarray], build: Build) -> list[str]:
    with K.record() as runs:
        _run(arrays, build, "wait")
    return [step.form for step in runs[0].steps if step.form != "view"]


@pytest.mark.parametrize("name", ["layer norm", "layer norm gradient", "length"])
def test_one_step_does_it_all(name: str) -> None:
    assert len(_steps(_operands((64, 48), "float32"), ROWS[name])) == 1


@pytest.mark.parametrize("logits", [False, True])
def test_the_slope_of_a_cross_entropy_is_one_step(logits: bool) -> None:
    def build(truth: Any, x: Any) -> list[Any]:
        guess = x if logits else K.softmax(x)
        return list(K.gradients(K.sum(K.categorical_crossentropy(truth, guess, logits)), [x]))

    random = np.random.default_rng(5)
    arrays = list(random.random((2, 30, 70), "float32"))
    assert len(_steps(arrays, build)) == 1
    _agree(_run(arrays, build, "wait"), _run(arrays, build, "off"))


@pytest.mark.parametrize(("rows", "steps"), [(32, 1), (8, None), (20, None)])
def test_a_short_row_kernel_stands_for_many_steps(rows: int, steps: int | None) -> None:
    """With 32 rows; with 8 there is too little to do, and one fold of 20 rows is but few steps."""
    x = K.placeholder((rows, 10))
    target = K.placeholder((rows, 10))
    loss = K.categorical_crossentropy(target, K.softmax(x))
    result = K.softmax(x) if rows == 20 else K.gradients(K.sum(loss), x)[0]
    values = list(np.random.default_rng(rows).random((2, rows, 10), "float32"))
    outs = []
    for jit in ("wait", "off"):
        with mock.patch.dict("os.environ", {"KBENCH_JIT": jit}), K.record() as runs:
            outs.append(K.function([target, x], [result])(values))
        fused = [step.form == "fused" for step in runs[0].steps]
        assert any(fused) is (jit == "wait" and steps == 1)
        assert steps is None or jit == "off" or len(fused) == steps
    _agree(*outs)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_cross_entropy_of_shares_takes_one_exponential(sparse: bool) -> None:
    """Nor a logarithm of each element; and no more sweeps over a row than it must."""
    x = K.placeholder((40, 70))
    target = K.placeholder((40,), dtype="int32") if sparse else K.placeholder((40, 70))
    entropy = K.sparse_categorical_crossentropy if sparse else K.categorical_crossentropy
    loss = entropy(target, K.softmax(x))
    asked: list[LoopProgram] = []
    with mock.patch.object(row_kernel, "request", asked.append):
        with mock.patch.dict("os.environ", {"KBENCH_LEAST": "1"}):
            values = [np.zeros(one.shape, one.dtype) for one in (target, x)]
            for result in (loss, K.gradients(K.sum(loss), x)[0]):
                K.function([target, x], [result])(values)
    for program, sweeps in zip(asked, ((4, 5) if sparse else (4, 4)), strict=True):
        full = [one.expr for one, wide in zip(program.values, program.full, strict=True) if wide]
        assert sum("exp(" in str(one) for one in full) == 1
        assert Sweeps(program).count == sweeps
        logs = [n for n in range(len(program.values)) if "log(" in str(program.values[n].expr)]
        assert not any(program.full[n] for n in logs)


def test_statistics_of_a_batch_take_one_step() -> None:
    x = _operands((64, 48), "float32")[0]
    both: Build = lambda x: [K.mean(x, 0, keepdims=True), K.var(x, 0, keepdims=True)]  # noqa: E731
    assert _steps([x], both)[0] in ("mean+var", "var+mean")


@pytest.mark.slow
def test_no_step_waits_for_itself() -> None:
    """The second fold needs a product of the first one's result, which no row kernel computes."""
    x = _operands((20, 20), "float32")[0]

    def build(x: Any) -> list[Any]:
        first = K.softmax(x)
        return [K.softmax(K.dot(first, x) + K.max(x, -1, keepdims=True)) + first]

    _agree(_run([x], build, "wait"), _run([x], build, "off"))
    assert len(_steps([x], build)) == 3


@pytest.mark.parametrize("wrong", [-1, 20])
def test_a_class_that_does_not_exist(wrong: int) -> None:
    """The message is that of the items by themselves."""
    x = _operands((30, 20), "float32")[0]
    classes = np.zeros(30, "int64")
    classes[7] = wrong
    build: Build = lambda x, classes: [  # noqa: E731
        K.sparse_categorical_crossentropy(classes, x, from_logits=True) * 2.0
    ]
    texts = []
    for jit in ("wait", "off"):
        with pytest.raises(K.ArgumentError, match="out of range for 20 classes") as caught:
            _run([x, classes], build, jit)
        texts.append(str(caught.value))
    assert [text.count("pick") for text in texts] == [0, 0]


def test_one_side_of_a_branch() -> None:
    x, gain, offset = _operands((20, 20), "float32")
    flag = np.array(1.0, "float32")

    def build(flag: Any, x: Any) -> list[Any]:
        taken = lambda: K.softmax(x) + K.sum(x, -1, keepdims=True)  # noqa: E731
        return [K.switch(K.greater(flag, 0), taken, lambda: _layer_norm(x, gain, offset))]

    for one in (flag, -flag):
        _agree(_run([one, x], build, "wait"), _run([one, x], build, "off"))


@pytest.mark.parametrize("name", every(14, ROWS))
def test_until_the_kernel_is_ready_the_items_run(name: str) -> None:
    arrays = _operands((33, 20), "float32")
    with mock.patch.object(row_kernel, "request", lambda program: None):
        got = _run(arrays, ROWS[name], "wait")
    _agree(got, _run(arrays, ROWS[name], "off"))


@pytest.mark.slow
def test_threads_make_no_difference() -> None:
    arrays = _operands((3000, 130), "float32")
    before = K.num_threads()
    results = []
    try:
        for count in (1, 2):
            K.set_num_threads(count)
            results.append([_run(arrays, build, "wait") for build in ROWS.values()])
    finally:
        K.set_num_threads(before)
    for one, other in zip(*results, strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


# ------------------------------------------------------------------ accuracy


def _pairwise_limit(x: np.ndarray) -> np.ndarray:
    return np.finfo("float32").eps * np.log2(len(x)) * np.abs(x).sum(axis=0, dtype="float64")


def test_sums_down_columns_err_less_than_pairwise_ones() -> None:
    x = np.random.default_rng(1).normal(5, 1, (50_000, 6)).astype("float32")
    (got,) = _run([x], lambda x: [K.sum(x, 0)], "wait")
    assert (np.abs(got - x.sum(0, dtype="float64")) < _pairwise_limit(x)).all()


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_variances_far_from_zero(axis: int | None) -> None:
    """Numbers around 1000 with deviations of 1, and a first row that is far away."""
    x = np.random.default_rng(2).normal(1000, 1, (3000, 40)).astype("float32")
    x[0] = 3e4
    (got,) = _run([x], lambda x: [K.var(x, axis)], "wait")
    np.testing.assert_allclose(got, x.astype("float64").var(axis), rtol=2e-5)


@pytest.mark.parametrize("columns", [1, 2, 70, 9001])
def test_variances_of_rows_whose_first_value_is_unlike_the_others(columns: int) -> None:
    """Distances are taken from it: an outlier, an infinity, NaN, or what every value is."""
    random = np.random.default_rng(4)
    x = random.normal(1000, 1, (33, columns)).astype("float32")
    x[:16, 0] = [0.0, -0.0, 1e-40, -3e4, 1e10, 3e38, -3e38, np.inf, -np.inf, np.nan, *[1e3] * 6]
    x[16:18, -1] = np.inf, np.nan
    x[18] = 0.1
    x[19], x[19, -1] = 0.1, np.nextafter(np.float32(0.1), np.float32(1))
    build: Build = lambda x: [K.var(x, 1), K.std(x, 1, keepdims=True) * K.mean(x, 1, True)]  # noqa: E731
    got = _run([x], build, "wait")
    with np.errstate(all="ignore"):
        want = x.astype("float64").var(1).astype("float32")  # beyond float32: inf
    np.testing.assert_allclose(got[0], want, rtol=1e-6)
    assert got[0][18] == 0 and (got[0][19] > 0) == (columns > 1)
    for one, other in zip(got, _run([x], build, "off"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


# ------------------------------------------------------------------ long rows, read side by side


@pytest.mark.parametrize(
    "name", every(2, ["deviations", "layer norm", "softmax gradient", "length"])
)
def test_long_rows_of_row_kernels_are_read_from_several_places(name: str) -> None:
    arrays = _operands((18, 9_001), "float32")
    _agree(_run(arrays, ROWS[name], "wait"), _run(arrays, ROWS[name], "off"))


LONG_FOLDS = [
    (kind, dtype)
    for dtype in ("float32", "float16", "int32", "uint8")
    for kind in ("sum", "mean", "max", "min")
] + [("sum", "float64"), ("max", "float64"), ("any", "bool"), ("all", "bool")]


@pytest.mark.parametrize(("kind", "dtype"), every(9, LONG_FOLDS))
def test_long_rows_are_folded_from_several_places(kind: str, dtype: str) -> None:
    """Each of seven places of a row decides the result once: none is read twice or left out."""
    random = np.random.default_rng(3)
    places = [0, 9_999, 10_000, 20_001, 30_002, 39_999, 40_006]
    x = random.integers(1, 3, (len(places), 40_007)).astype(dtype)
    single = {"max": 9, "sum": 100, "mean": 100, "min": 0, "any": True, "all": False}[kind]
    if kind == "any":
        x[:] = False
    for row, place in enumerate(places):
        x[row, place] = single
    want = getattr(np, kind)(x.astype("float64") if kind in ("sum", "mean") else x, axis=1)
    for shape in (x.shape, (1, *x.shape)):
        (got,) = _run([x.reshape(shape)], lambda x: [getattr(K, kind)(x, -1)], "wait")
        got = got.reshape(want.shape)
        limit = {"float16": 1e-3, "float32": 1e-6}.get(got.dtype.name, 0)
        if kind == "sum" and dtype == "uint8":
            want = want % 256
        np.testing.assert_allclose(got.astype("float64"), np.asarray(want, "float64"), limit)


@pytest.mark.parametrize(
    ("axis", "kind"), every(3, [(a, k) for a in (0, 1) for k in ("max", "min", "sum", "mean")])
)
def test_a_nan_anywhere_is_kept(axis: int, kind: str) -> None:
    """Down the columns rows are folded a few at a time, along a long row its places are."""
    x = np.ones((40_003, 6) if axis == 0 else (6, 40_003), "float32")
    lines = x.T if axis == 0 else x
    for line, place in enumerate([0, 1, 10_001, 20_002, 40_001, 40_002]):
        lines[line, place] = np.nan
    (got,) = _run([x], lambda x: [getattr(K, kind)(x, axis)], "wait")
    assert np.isnan(got).all()


@pytest.mark.parametrize("kind", every(2, ["max", "any", "min", "all"]))
@pytest.mark.parametrize("rows", [1, 8, 31])
def test_extremes_down_a_few_rows(kind: str, rows: int) -> None:
    x = np.random.default_rng(rows).normal(size=(rows, 700)).astype("float32")
    x = x > 1 if kind in ("any", "all") else x
    (got,) = _run([x], lambda x: [getattr(K, kind)(x, 0)], "wait")
    np.testing.assert_array_equal(got, getattr(np, kind)(x, axis=0))
