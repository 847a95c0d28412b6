"""Our own matrix product against NumPy's in float64, for sizes and strides of all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_helpers import compiled_at_once  # noqa: F401
from sampling import every

import kbench as K
from kbench.engine.kernels import registry
from kbench.engine.kernels.gemm import api as gemm
from kbench.engine.kernels.gemm import tiling as gemm_plan

RNG = np.random.default_rng(11)
CLOSE = {"float32": 2e-6, "float64": 4e-15}
SIZES = [
    (1, 1, 1),
    (1, 40, 7),
    (2, 3, 1),
    (14, 32, 64),
    (15, 33, 65),
    (13, 31, 63),
    (29, 100, 17),
    (101, 37, 77),
    (64, 64, 600),
    (300, 16, 5),
    (5, 700, 20),
]


@pytest.fixture
def threads():
    """Sets the number of threads; the number before comes back."""
    before = K.num_threads()
    yield K.set_num_threads
    K.set_num_threads(before)


SMALL = {
    "MAX_DEPTH": 32,
    "MAX_PIECE_COLUMNS": 64,
    "MAX_PIECE_DEPTH": 64,
    "MAX_WHOLE_FLOPS": 1 << 13,
    "MIN_THREAD_FLOPS": 1 << 10,
    "SECOND_CACHE_SHARE_BYTES": 0,
    "MAX_IN_PLACE_BYTES": 0,
    "TILES_PER_STRIP": 2,
    "TILES_PER_JOB": 3,
    "MAX_IN_PLACE_PANELS": 0,
}
BLOCKS = {
    **SMALL,
    "SECOND_CACHE_SHARE_BYTES": 1 << 14,
    "MAX_BLOCK_DEPTH": 32,
    "MAX_BLOCK_ROWS": 40,
    "MIN_BLOCK_ROWS": 15,
    "MIN_BLOCK_COLUMNS": 32,
    "MIN_BLOCK_FLOPS": 1 << 13,
    "MAX_PACKED_AGAIN": 10,
}
ACROSS = {**SMALL, "SECOND_CACHE_SHARE_BYTES": 1 << 30, "MAX_PIECE_COLUMNS": 1 << 10}


def _with_cuts(cuts: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in cuts.items():
        monkeypatch.setattr(gemm_plan, name, value)
    gemm._planned.cache_clear()
    yield
    gemm._planned.cache_clear()


@pytest.fixture
def small_cuts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pieces, jobs and strips so small that every cut is met."""
    yield from _with_cuts(SMALL, monkeypatch)


@pytest.fixture
def across_cuts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same, and jobs of all rows wherever a left operand is read in place."""
    yield from _with_cuts(ACROSS, monkeypatch)


@pytest.fixture
def blocks_cuts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same, in blocks of the right operand that jobs pack for themselves."""
    yield from _with_cuts(BLOCKS, monkeypatch)


def product(x: np.ndarray, y: np.ndarray, **rest: Any) -> np.ndarray:
    """The kernel's product, into an array that held something else."""
    multiply = gemm.find("product", x.dtype.name)
    assert multiply is not None
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    out = np.full((*lead, x.shape[-2], y.shape[-1]), 77, x.dtype)
    multiply(out, x, y, lambda: None, **rest)
    return out


def assert_close(got: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Within a few units of the last place of the sum of magnitudes."""
    with np.errstate(all="ignore"):
        want = x.astype(float) @ y.astype(float)
        limit = CLOSE[x.dtype.name] * (np.abs(x).astype(float) @ np.abs(y).astype(float))
    inside = np.isfinite(want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[~inside], want[~inside].astype(x.dtype))
    assert (np.abs(got - want)[inside] <= limit[inside] + 1e-300).all()


def strided(shape: tuple[int, ...], way: str, dtype: str) -> np.ndarray:
    """Random numbers that lie in memory in some way."""
    *lead, rows, columns = shape
    if way == "turned":
        return RNG.normal(size=(*lead, columns, rows)).astype(dtype).swapaxes(-1, -2)
    if way == "spread":
        return RNG.normal(size=(*lead, 2 * rows, 3 * columns)).astype(dtype)[..., ::2, ::3]
    if way == "backwards":
        return RNG.normal(size=shape).astype(dtype)[..., ::-1, ::-1]
    if way == "repeated":
        return np.broadcast_to(RNG.normal(size=(columns,)).astype(dtype), shape)
    if way == "unaligned":
        room = np.empty(np.prod(shape, dtype=int) * np.dtype(dtype).itemsize + 1, np.uint8)
        array = room[1:].view(dtype).reshape(shape)
        array[...] = RNG.normal(size=shape)
        return array
    if way == "window":
        return RNG.normal(size=(*lead, rows + 3, columns + 5)).astype(dtype)[..., 2:-1, 4:-1]
    return RNG.normal(size=shape).astype(dtype)


WAYS = ("plain", "turned", "spread", "backwards", "repeated", "unaligned", "window")

# ------------------------------------------------------------------ values


@pytest.mark.parametrize("dtype", gemm_plan.FLOATS)
@pytest.mark.parametrize("size", SIZES)
def test_sizes(size: tuple[int, int, int], dtype: str) -> None:
    rows, columns, depth = size
    x, y = strided((rows, depth), "plain", dtype), strided((depth, columns), "plain", dtype)
    assert_close(product(x, y), x, y)


@pytest.mark.parametrize("dtype", gemm_plan.FLOATS)
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("size", every(2, [(one,) for one in SIZES]))
@pytest.mark.parametrize("cuts", ["small", "across", "blocks"])
def test_every_cut(
    size: tuple[int, int, int], count: int, dtype: str, cuts: str, threads: Any, request: Any
) -> None:
    request.getfixturevalue(f"{cuts}_cuts")
    threads(count)
    rows, columns, depth = size
    for way in ("plain", "turned", "spread"):
        x, y = strided((rows, depth), way, dtype), strided((depth, columns), way, dtype)
        assert_close(product(x, y), x, y)


@pytest.mark.parametrize("right", WAYS)
@pytest.mark.parametrize("left", WAYS)
def test_strides(left: str, right: str) -> None:
    for dtype in gemm_plan.FLOATS:
        x, y = strided((45, 70), left, dtype), strided((70, 50), right, dtype)
        assert_close(product(x, y), x, y)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("cuts", ["usual", "small"])
@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), (3,)), ((40,), (40,)), ((4,), ()), ((), (9,)), ((2, 1, 3), (5, 1)), ((1,), (6,))],
)
def test_stacks(left: Any, right: Any, cuts: str, count: int, threads: Any, request: Any) -> None:
    if cuts == "small":
        request.getfixturevalue("small_cuts")
    threads(count)
    for way in ("plain", "turned", "backwards"):
        x = strided((*left, 33, 20), way, "float32")
        y = strided((*right, 20, 35), way, "float32")
        assert_close(product(x, y), x, y)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_nothing(shape: tuple[int, int, int]) -> None:
    rows, columns, depth = shape
    got = product(np.ones((rows, depth), "f"), np.ones((depth, columns), "f"))
    np.testing.assert_array_equal(got, np.zeros((rows, columns), "f"))
    got = product(np.ones((2, rows, depth), "f"), np.ones((depth, columns), "f"))
    np.testing.assert_array_equal(got, np.zeros((2, rows, columns), "f"))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("cuts", ["usual", "small"])
def test_specials_stay_in_their_row_and_column(special: float, cuts: str, request: Any) -> None:
    """One entry that is no number touches its row or column; times zero it is NaN."""
    if cuts == "small":
        request.getfixturevalue("small_cuts")
    for way in ("plain", "turned"):
        for row, column in ((0, 0), (14, 32), (16, 38), (3, 37)):
            x, y = strided((17, 39), way, "float32"), strided((39, 33), way, "float32")
            x[row, column] = special
            y[column] = 0
            assert_close(product(x, y), x, y)
            x, y = strided((17, 39), way, "float32"), strided((39, 33), way, "float32")
            x[:, column] = 0
            y[column, row] = special
            assert_close(product(x, y), x, y)


def test_the_error_is_below_that_of_pairwise_sums() -> None:
    """Along a great depth sums are made in blocks."""
    x, y = RNG.uniform(size=(4, 100_000)).astype("f"), RNG.uniform(size=(100_000, 3)).astype("f")
    want = x.astype(float) @ y.astype(float)
    assert np.abs(product(x, y) / want - 1).max() < 2e-5


@pytest.mark.parametrize("cuts", ["small", "blocks"])
def test_threads_change_nothing(cuts: str, threads: Any, request: Any) -> None:
    request.getfixturevalue(f"{cuts}_cuts")
    x, y = strided((150, 90), "plain", "float32"), strided((90, 140), "turned", "float32")
    results = []
    for count in (1, 2, 5):
        threads(count)
        results.append(product(x, y))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


numbers = st.integers(1, 70)


@given(
    numbers, numbers, numbers, st.sampled_from(WAYS), st.sampled_from(WAYS),
    st.sampled_from(gemm_plan.FLOATS), st.sampled_from([(), (1,), (3,), (2, 2)]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_any_product(
    rows: int, columns: int, depth: int, left: str, right: str, dtype: str, lead: Any
) -> None:
    x = strided((*lead, rows, depth), left, dtype)
    y = strided((depth, columns), right, dtype)
    assert_close(product(x, y), x, y)


# ------------------------------------------------------------------ results


def test_results_of_every_form() -> None:
    """A result that is strided, or one of the operands, is right too."""
    multiply = gemm.find("product", "float32")
    assert multiply is not None
    x, y = strided((40, 40), "plain", "float32"), strided((40, 40), "plain", "float32")
    want = x @ y
    room = np.zeros((80, 120), "f")
    multiply(room[::2, ::3], x, y)
    np.testing.assert_allclose(room[::2, ::3], want, rtol=1e-4, atol=1e-5)
    assert not room[1::2].any() and not room[:, 1::3].any()
    multiply(x, x, y)
    np.testing.assert_allclose(x, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("out", "x", "y"),
    [
        ((3, 4), (3, 5), (6, 4)),
        ((3, 4), (3, 5), (5, 3)),
        ((2, 4), (3, 5), (5, 4)),
        ((2, 3, 4), (3, 5), (5, 4)),
        ((2, 3, 4), (3, 3, 5), (5, 4)),
        ((4,), (5,), (5, 4)),
    ],
)
def test_sizes_that_disagree_are_refused(out: Any, x: Any, y: Any) -> None:
    multiply = gemm.find("product", "float32")
    assert multiply is not None
    with pytest.raises(ValueError, match="disagree"):
        multiply(*(np.ones(shape, "f") for shape in (out, x, y)))


def test_dtypes_and_read_only_results_are_refused() -> None:
    multiply = gemm.find("product", "float32")
    assert multiply is not None
    x = np.ones((4, 4), "f")
    with pytest.raises(ValueError, match="expected float32"):
        multiply(np.ones((4, 4)), x, x)
    fixed = np.ones((4, 4), "f")
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        multiply(fixed, x, x)
    assert gemm.find("product", "int32") is None
    assert gemm.find("other", "float32") is None
    assert registry.find("gemm_product", "float32") is not None


# ------------------------------------------------------------------ cuts and pace


def _cut(side: int, dtype: str, workers: int) -> list[gemm_plan.Piece]:
    tile = gemm_plan.Tile(64 // np.dtype(dtype).itemsize, 14, np.dtype(dtype).itemsize)
    step = side * tile.size
    sizes = gemm_plan.ProductSizes(1, side, side, side, step, tile.size, step, tile.size, step)
    return gemm_plan.cut(sizes, tile, workers, False)


@pytest.mark.parametrize("dtype", gemm_plan.FLOATS)
@pytest.mark.parametrize("workers", [2, 3, 8])
@pytest.mark.parametrize("side", [512, 1024, 2000, 2048])
def test_threads_have_equal_numbers_of_jobs(side: int, workers: int, dtype: str) -> None:
    for piece in _cut(side, dtype, workers):
        if piece.workers == workers:
            jobs = piece.jobs - piece.fields["packs"]
            assert jobs >= workers
            assert jobs % workers in (0, workers - 1)  # the last block may be left over


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_few_rows_are_cut_into_columns_alone(workers: int) -> None:
    """So that what one thread packs no other reads; the result is cut once, and wholly."""
    tile = gemm_plan.Tile(16, 14, 4)
    sizes = gemm_plan.ProductSizes(1, 128, 512, 512, 2048, 4, 2048, 4, 2048)
    (piece,) = gemm_plan.cut(sizes, tile, workers, False)
    fields = piece.fields
    assert (fields["own"], fields["packs"], fields["blocks"]) == (1, 0, 1)
    assert piece.jobs == fields["groups"] >= workers
    assert (fields["groups"] - 1) * fields["group"] < 16 <= fields["groups"] * fields["group"]
    assert piece.area_bytes >= fields["b_at"] + fields["group"] * 32 * fields["deep"] * 4


@pytest.mark.parametrize("dtype", gemm_plan.FLOATS)
@pytest.mark.parametrize("second", [1 << 18, 1 << 19, 1 << 20, 1 << 21])
def test_strips_fit_the_second_cache(second: int, dtype: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm_plan, "SECOND_CACHE_BYTES", second)
    monkeypatch.setattr(gemm_plan, "SECOND_CACHE_SHARE_BYTES", second // 2)
    for piece in _cut(2048, dtype, 2):
        fields, size = piece.fields, np.dtype(dtype).itemsize
        across = 2 * fields["lanes"] + gemm_plan.TILES_PER_STRIP * fields["tall"]
        assert across * fields["deep"] * size <= second // 2 + across * fields["lanes"] * size
        near = max(2 * second, gemm_plan.MIN_NEAR_BYTES)
        assert fields["columns"] * fields["deep"] * size <= near
        assert fields["depth"] <= gemm_plan.MAX_PIECE_DEPTH


@pytest.mark.parametrize("dtype", gemm_plan.FLOATS)
@pytest.mark.parametrize("first", [1 << 15, 3 << 14])
@pytest.mark.parametrize("second", [1 << 19, 1 << 20, 1 << 21, 1 << 22])
@pytest.mark.parametrize("workers", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("side", [512, 1000, 1024, 2048, 5000])
def test_blocks_fit_both_caches(
    side: int, workers: int, second: int, first: int, dtype: str, monkeypatch: Any
) -> None:
    """And every row and panel is in one job; the depth is the same for any number of threads."""
    monkeypatch.setattr(gemm_plan, "FIRST_CACHE_BYTES", first)
    monkeypatch.setattr(gemm_plan, "SECOND_CACHE_BYTES", second)
    monkeypatch.setattr(gemm_plan, "SECOND_CACHE_SHARE_BYTES", second // 2)
    size, pieces = np.dtype(dtype).itemsize, _cut(side, dtype, workers)
    depths = [piece.fields["deep"] for piece in pieces]
    assert depths == [piece.fields["deep"] for piece in _cut(side, dtype, 1)]
    for piece in pieces:
        fields, double = piece.fields, 2 * piece.fields["lanes"]
        panels = -(-fields["columns"] // double)
        assert (fields["blocks"] - 1) * fields["block"] < side <= fields["blocks"] * fields["block"]
        assert (fields["groups"] - 1) * fields["group"] < panels
        assert panels <= fields["groups"] * fields["group"]
        if fields["own"] and side > 512:
            across = min(fields["group"] * double, gemm_plan.padded(fields["columns"], double // 2))
            assert across * fields["deep"] * size <= second // 2
            assert fields["deep"] * fields["tall"] * size <= first
            assert fields["chunk"] == fields["most"]
            assert piece.area_bytes >= fields["b_at"] + across * fields["deep"] * size
            assert 2 * fields["block"] * across * fields["depth"] <= 1 << 33


# ------------------------------------------------------------------ rows after


ROWS_AFTER = '''"""Adds one to each element of finished rows: a test's."""
from kbench.engine.intrinsics.toolkit import field, peek_float32, range_kernel, store_float32


@range_kernel
def run(params, start, stop):
    out = field(params, 0)
    columns = field(params, 1)
    for place in range(start * columns, stop * columns):
        store_float32(out, place, peek_float32(out, place) + 1)
'''


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("cuts", ["usual", "small", "across", "blocks"])
@pytest.mark.parametrize("size", [(90, 50, 200), (20, 300, 10), (3, 5, 0), (400, 400, 300)])
def test_rows_after(size: Any, cuts: str, count: int, threads: Any, request: Any) -> None:
    """Every row is met once, when it is finished."""
    from kbench.engine.jit.service import service

    if cuts != "usual":
        request.getfixturevalue(f"{cuts}_cuts")
    threads(count)
    job = service.submit("test_rows_after", lambda: ROWS_AFTER)
    assert job is not None and job.state == "ready"
    multiply = gemm.find("product", "float32")
    assert multiply is not None
    rows, columns, depth = size
    for lead in ((), (3,)):
        x = strided((*lead, rows, depth), "plain", "float32")
        y = strided((depth, columns), "plain", "float32")
        out = np.full((*lead, rows, columns), 77, "f")
        params = np.array([out.__array_interface__["data"][0], columns], np.int64)
        multiply(out, x, y, None, (job.address, params))
        np.testing.assert_allclose(out, x @ y + 1, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------ through the backend


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_backend_takes_it(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contractions of any axes, and their gradients, on the kernel as on NumPy."""
    monkeypatch.setenv("KBENCH_LEAST", "1")
    x, y = K.placeholder((6, 7, 9), dtype=dtype), K.placeholder((6, 9, 5), dtype=dtype)
    w = K.placeholder((9, 4), dtype=dtype)
    outputs = [K.dot(x, w), K.batch_dot(x, y), K.batch_dot(x, y, axes=(2, 1)), x @ y, w @ y[:, :4]]
    outputs += [one for value in outputs for one in K.gradients(K.sum(value * value), [x, y, w])
                if one is not None]  # fmt: skip
    shapes = ((6, 7, 9), (6, 9, 5), (9, 4))
    arrays = [RNG.normal(size=shape).astype(dtype) for shape in shapes]
    results = []
    for mode in ("off", "wait"):
        monkeypatch.setenv("KBENCH_JIT", mode)
        results.append(K.function([x, y, w], outputs)(arrays))
    for plain, compiled in zip(*results, strict=True):
        assert plain.dtype == compiled.dtype == dtype
        near = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-12}[dtype]
        np.testing.assert_allclose(compiled, plain, rtol=near, atol=near * np.abs(plain).max())


def test_an_interrupt_stops_the_kernel() -> None:
    """`check` may raise between portions of a large product."""
    multiply = gemm.find("product", "float32")
    assert multiply is not None
    x = np.zeros((3000, 3000), "f")
    asked = []

    def check() -> None:
        asked.append(None)
        if len(asked) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        multiply(np.empty((3000, 3000), "f"), x, x, check)
