"""Every fast form against NumPy's: odd sizes, threads, views, NaN and infinities, no rows.

Most of the time goes into compiling, once for each form: a plain run takes every fifth one, the
same in all tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from fast_forms import FORMS, Form
from hypothesis import given
from hypothesis import strategies as st
from sampling import every

from kbench import backend as K
from kbench.engine.runtime import profile, threads
from tests.engine.ops.test_tiers import UNITS, agree, on_tier, quickly, size_of


def run(form: Form, arrays: Sequence[np.ndarray], tier: str = "compiled") -> Any:
    return on_tier(tier, arrays, form.build)


def check(form: Form, arrays: Sequence[np.ndarray]) -> None:
    """Compiled as NumPy has it, special values in the same places."""
    with np.errstate(all="ignore"):
        wanted, got = (run(form, arrays, tier) for tier in ("numpy", "compiled"))
    assert not isinstance(wanted, type)
    for one, other in zip(wanted, got, strict=True):
        agree([one], [other], UNITS * form.rough, size_of([*arrays, one]))


@pytest.mark.parametrize("form", every(10, FORMS), ids=str)
def test_odd_sizes(form: Form) -> None:
    check_kernels(form, "float32")


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_odd_sizes_in_float64(form: Form) -> None:
    check_kernels(form, "float64")


def check_kernels(form: Form, dtype: str) -> None:
    """The form's values, and that a kernel made them."""
    with profile.record() as runs:
        check(form, form.arrays(dtype))
    plain, compiled = ({step.form for step in one.steps} for one in runs)
    assert compiled - plain - {"view"}, f"no kernel ran: {compiled}"


@pytest.mark.parametrize("form", every(5, FORMS), ids=str)
def test_any_number_of_threads(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit: what is added up in which order does not depend on who does it."""
    monkeypatch.setattr(threads, "MIN_PARALLEL_ELEMENTS", 1)
    found = []
    for count in (1, 2, 5):
        K.set_num_threads(count)
        found.append(run(form, form.arrays("float32")))
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(other, one)


def misaligned(x: np.ndarray) -> np.ndarray:
    raw = np.zeros(x.nbytes + 1, np.uint8)
    view = raw[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def stepped(x: np.ndarray) -> np.ndarray:
    wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), 7, x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "in Fortran's order": np.asfortranarray,
    "backwards": lambda x: x[::-1].copy()[::-1],
    "stepped": stepped,
    "misaligned": misaligned,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("form", every(5, FORMS), ids=str)
def test_operands_that_are_views(form: Form, view: str) -> None:
    arrays = form.arrays("float32")
    views = [VIEWS[view](one) for one in arrays]
    kept = [one.copy() for one in arrays]
    for one, other in zip(run(form, arrays), run(form, views), strict=True):
        np.testing.assert_array_equal(other, one)
    for one, other in zip(views, kept, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("form", every(5, FORMS), ids=str)
def test_special_values(form: Form, value: float) -> None:
    """At the first place, at the last, and between."""
    for place in (0, -1, 1):
        arrays = form.arrays("float32")
        for one in arrays:
            if one.dtype.kind == "f":
                one.flat[place if place < 1 else one.size // 2] = value
                break
        check(form, arrays)


@pytest.mark.parametrize("form", every(5, FORMS), ids=str)
def test_no_rows_and_one(form: Form) -> None:
    for rows in (0, 1):
        arrays = form.arrays("float32", rows)
        wanted = run(form, arrays, "numpy")
        if isinstance(wanted, type):
            assert run(form, arrays) is wanted
        else:
            check(form, arrays)


@given(st.sampled_from(FORMS[::5]), st.integers(1, 40))
@quickly(40)
def test_any_number_of_rows(form: Form, rows: int) -> None:
    check(form, form.arrays("float32", rows))


@pytest.mark.slow
@given(st.sampled_from(FORMS), st.integers(1, 40))
@quickly(120)
def test_any_number_of_rows_of_every_form(form: Form, rows: int) -> None:
    check(form, form.arrays("float32", rows))


# ------------------------------------------------------------------ several updates in one call

SIZES = ((33,), (101, 67), (1,), (0, 5), (7, 3, 129), ())


def optimized(special: float | None, view: str = "") -> list[np.ndarray]:
    """What two steps of an optimizer with a momentum and a scale leave in variables."""
    laid = VIEWS.get(view, np.asarray)
    random = np.random.default_rng(3)
    weights, momenta, scales = (
        [K.variable(random.normal(0, 1, shape)) for shape in SIZES] for _ in range(3)
    )
    given = [random.normal(0, 1, shape).astype("float32") for shape in SIZES]
    if special is not None:
        for one in given:
            one.flat[-1:] = special
    given = [laid(one) if one.ndim else one for one in given]
    feeds, updates = [K.placeholder(shape) for shape in SIZES], []
    for w, m, v, g in zip(weights, momenta, scales, feeds, strict=True):
        momentum, scale = 0.9 * m + 0.1 * g, 0.99 * K.abs(v) + 0.01 * K.square(g)
        updates += [(m, momentum), (v, scale)]
        updates.append((w, w - 0.01 * momentum / (K.sqrt(scale) + 1e-7)))
    step = K.function(feeds, [], updates)
    for _ in range(2):
        step(given)
    return [K.get_value(one) for one in (*weights, *momenta, *scales)]


@pytest.mark.parametrize("special", [None, np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_updates_together(
    count: int, special: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MIN_PARALLEL_ELEMENTS", 1)
    K.set_num_threads(count)
    monkeypatch.setenv("KBENCH_JIT", "off")
    wanted = optimized(special)
    monkeypatch.setenv("KBENCH_JIT", "wait")
    monkeypatch.setenv("KBENCH_LEAST", "1")
    with profile.record() as runs:
        got = optimized(special)
    assert {step.form for one in runs for step in one.steps} - {"numpy", "view"}
    agree(wanted, got, UNITS, size_of(wanted))


@pytest.mark.parametrize("view", VIEWS)
def test_updates_together_from_views(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    monkeypatch.setenv("KBENCH_LEAST", "1")
    for one, other in zip(optimized(None), optimized(None, view), strict=True):
        np.testing.assert_array_equal(other, one)
