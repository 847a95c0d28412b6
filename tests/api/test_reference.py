"""The reference table is complete, true and fresh: `kbench doctor --api` and `docs/api.md`."""

from __future__ import annotations

import inspect
import json
from typing import Any

import coverage_page
import pytest

from kbench import backend as K
from kbench.api import legacy, reference
from kbench.api.samples import GIVES, SAMPLES
from kbench.engine.graph.op import REGISTRY

KNOWN = reference.data()["functions"]
ENTRIES = {one.name: one for one in reference.entries()}
FRESH = "run: python tests/coverage_page.py"


# ------------------------------------------------------------------ complete


def test_every_name_of_keras_is_there_or_left_out_with_a_reason() -> None:
    assert len(KNOWN) == 189
    for row in KNOWN:
        name = row["name"]
        if row["priority"] == "required":
            assert hasattr(K, name), name
        elif not hasattr(K, name):
            assert legacy.ABSENT[name]
            assert ENTRIES[name].note == f"not there: {legacy.ABSENT[name]}"
    assert set(legacy.ABSENT) <= {row["name"] for row in KNOWN}
    assert len({row["name"] for row in KNOWN if row["priority"] == "required"}) == 166


def given(form: str) -> list[tuple[str, Any]]:
    names: dict[str, Any] = {}
    exec(f"def {form}: pass", names)
    parameters = inspect.signature(names[form.split("(")[0]]).parameters.values()
    return [(one.name, one.default) for one in parameters]


@pytest.mark.parametrize(
    "row",
    [row for row in KNOWN if row["signature"] and hasattr(K, row["name"])],
    ids=lambda row: row["name"],
)
def test_signatures_are_the_known_ones(row: dict[str, Any]) -> None:
    """What kbench adds comes after, and is optional."""
    wanted = given(row["signature"])
    parameters = list(inspect.signature(getattr(K, row["name"])).parameters.values())
    assert [(one.name, one.default) for one in parameters[: len(wanted)]] == wanted
    assert all(one.default is not one.empty for one in parameters[len(wanted) :])


def test_every_public_function_and_every_op_is_in_the_table() -> None:
    functions = {name for name in K.__all__ if inspect.isfunction(getattr(K, name))}
    assert functions <= set(ENTRIES)
    families = [family for family, _ in reference.families()]
    assert {one.family for one in ENTRIES.values()} == set(families)
    listed = {row[0] for row in reference.operations()}
    of_the_engine = {
        name for name, op in REGISTRY.items() if op.infer.__module__.startswith("kbench.engine.")
    }
    assert listed == {name for name in of_the_engine if REGISTRY[name].kind != "source"}


def test_samples_are_of_functions_that_exist() -> None:
    assert set(SAMPLES) <= set(K.__all__)
    assert set(GIVES) <= set(SAMPLES)


# ------------------------------------------------------------------ true


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_sample_is_taken_by_some_dtype(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.dtypes and entry.result


@pytest.mark.parametrize(
    "name, takes, gives, gradient, tiers",
    [
        ("exp", "any", "floats same, others float32", "yes", ("numpy", "fused")),
        ("equal", "any", "bool", "no", ("numpy", "fused")),
        ("sum", "any", "same, bool int32", "yes", ("numpy", "fused")),
        ("argmax", "any", "int64", "no", ("numpy", "library")),
        ("softmax", "any", "floats same, others float32", "yes", ("numpy", "fused")),
        ("dot", "any", "same, bool int32", "yes", ("blas", "library")),
        ("conv2d", "floats", "same", "yes", ("blas", "library")),
        ("reshape", "any", "same", "yes", ("view",)),
        ("random_normal", "floats", "same", "", ("numpy", "library")),
        ("int_shape", "any", "a Python value", "", ()),
    ],
)
def test_what_is_known_of_some(
    name: str, takes: str, gives: str, gradient: str, tiers: tuple[str, ...]
) -> None:
    one = ENTRIES[name]
    assert (one.dtypes, one.result, one.gradient, one.tiers) == (takes, gives, gradient, tiers)


def test_the_table_does_not_depend_on_settings() -> None:
    before = reference.markdown()
    K.set_floatx("float64")
    K.set_image_data_format("channels_first")
    reference.entries.cache_clear()
    try:
        assert reference.markdown() == before
        assert K.floatx() == "float64"
    finally:
        reference.entries.cache_clear()


# ------------------------------------------------------------------ fresh


def test_the_numbers_of_tests_are_fresh() -> None:
    known = reference.data()["tests"]
    counted = {name: one for name, one in coverage_page.counts().items() if name in set(K.__all__)}
    assert known == counted, FRESH


def test_the_page_is_fresh() -> None:
    assert coverage_page.PAGE.read_text("utf-8") == reference.markdown(), FRESH


# ------------------------------------------------------------------ shown


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_fits(width: int) -> None:
    lines = reference.text(width).splitlines()
    assert max(map(len, lines)) <= width
    assert "Convolution" in lines and "  softmax(x, axis=-1)" in lines


def test_doctor_prints_the_table(run_python: Any) -> None:
    done = run_python("-m", "kbench_launcher", "doctor", "--api", env={"COLUMNS": "80"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == reference.text(80) + "\n"
    done = run_python("-m", "kbench_launcher", "doctor", "--api", "--json")
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == list(ENTRIES)
    assert rows[0].keys() >= {"signature", "dtypes", "result", "gradient", "tiers", "tests"}
