"""What wrong code is told: the whole text of every row, the fields, and the hard cases."""

from __future__ import annotations

import linecache
import sys
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sampling import every

from kbench import backend as K
from kbench.engine.core import errors

PREPARATION = """\
x = K.placeholder((None, 3), name="images")
w = K.variable(np.ones((4, 5)), name="w")
i = K.placeholder((2,), dtype="int32", name="rows")
"""
LINE = 10

TEXTS = Path(__file__).with_name("error_texts.toml").read_text(encoding="utf-8")
ROWS = tomllib.loads(TEXTS)["row"]


def run(code: str, line: int = LINE, preparation: str = PREPARATION) -> Any:
    """Run code as line `line` of train.py, in a fresh session, after the preparation."""
    K.clear_session()
    names = {"K": K, "np": np}
    exec(compile(preparation, "train.py", "exec"), names)
    exec(compile("\n" * (line - 1) + code, "train.py", "exec"), names)
    return names


def failure(code: str, **options: Any) -> K.KbenchError:
    with pytest.raises(K.KbenchError) as caught:
        run(code, **options)
    return caught.value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["code"])
def test_text(row: dict[str, str]) -> None:
    with pytest.raises(Exception) as caught:
        run(row["code"])
    assert type(caught.value).__name__ == row["error"]
    assert str(caught.value) == row["text"]


def test_the_rows_say_where_and_what_was_called() -> None:
    engine = [row for row in ROWS if row["error"] != "TypeError"]
    assert len(engine) > 100
    for row in engine:
        assert row["text"].endswith(f"  at train.py:{LINE}"), row["code"]
        assert ": " in row["text"].splitlines()[0], row["code"]


# ------------------------------------------------------------------ for user interfaces


def test_fields() -> None:
    error = failure("K.dot(x, K.transpose(K.zeros((7, 4))))")
    assert isinstance(error, K.ShapeError)
    assert error.function == "dot"
    assert error.place == errors.Place("train.py", LINE)
    first, second = error.operands
    assert (first.role, first.spec, first.kind, first.name) == (
        "x",
        "float32[?, 3]",
        "placeholder",
        "images",
    )
    assert first.place == errors.Place("train.py", 1)
    assert (first.axis, second.axis) == (-1, -2)
    assert second.kind == "tensor"


def test_ident_is_that_of_the_tensor() -> None:
    x = K.placeholder((2, 3))
    with pytest.raises(K.ShapeError) as caught:
        K.reshape(x, (4, 2))
    assert [one.ident for one in caught.value.operands] == [id(x)]


def test_a_suggestion_that_works() -> None:
    error = failure("K.dot(w, w)")
    assert error.suggestion is not None
    code = error.suggestion.split(" -> ")[0]
    y = K.zeros((4, 5))
    assert K.int_shape(eval(code, {"K": K, "x": y, "y": y})) == (4, 4)


def test_places_can_be_named_as_cells() -> None:
    errors.set_place_namer(lambda file, line: f"In [3], line {line}")
    try:
        assert str(failure("K.sum(x, axis=9)")).endswith("  at In [3], line 10")
    finally:
        errors.set_place_namer(None)


def test_cells_of_ipython_have_their_numbers_without_an_extension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {
        "/tmp/ipykernel_7/2955584457.py": ("y = 1\n", 3),
        "/tmp/ipykernel_7/88.py": ("\n\n", 4),
    }
    compiler = SimpleNamespace(_filename_map={file: number for file, (_, number) in files.items()})
    shell = SimpleNamespace(compile=compiler)
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    for file, (text, _) in files.items():
        lines = text.splitlines(keepends=True)
        monkeypatch.setitem(linecache.cache, file, (len(text), None, lines, file))
    shown = [str(errors.Place(file, 2)) for file in (*files, "/home/me/99.py")]
    assert shown == ["In [3]", "In [4] line 2", "99.py:2"]
    ipython.get_ipython = lambda: None  # imported, but no shell
    assert str(errors.Place("/tmp/ipykernel_7/88.py", 2)) == "88.py:2"


LINES = """
import sys
def here(): return sys._getframe(1).f_lineno
def many(w):
    made = []
    for step in range(2):
        made.append((w + 1.0, here()))
        made.append((
            K.tanh(w), here()
        ))
        try:
            made.append((-w, here()))
        finally:
            made.append((K.sum(w), here()))
    made += [(w * 2.0, here()) for _ in range(2)]
    made.extend((K.relu(w, 0.5), here()) for _ in range(2))
    made.append((lambda: (2.0 / w, here()))())
    return made
made = many(K.zeros((2, 3)))
"""


def test_each_node_knows_its_line_once_all_have_run() -> None:
    made = run(LINES)["made"]
    assert len(made) == 13
    for node, line in made:
        assert node.place == errors.Place("train.py", line)


CLASSES = [
    ("ShapeError", ValueError),
    ("DtypeError", ValueError),
    ("DtypeError", TypeError),
    ("ArgumentError", ValueError),
    ("FeedError", ValueError),
    ("GradientError", ValueError),
    ("OutOfMemory", MemoryError),
]


@pytest.mark.parametrize(("name", "base"), CLASSES)
def test_classes_are_also_pythons_own(name: str, base: type) -> None:
    assert issubclass(getattr(K, name), base)
    assert issubclass(getattr(K, name), K.KbenchError)


def test_a_failed_call_leaves_nothing_behind() -> None:
    names = run("f = K.function([x], [x * 2, w], updates=[K.update_add(w, w)])")
    with pytest.raises(K.FeedError):
        names["f"]([np.ones((2, 4))])
    assert names["w"].version == 0
    np.testing.assert_array_equal(names["f"]([np.ones((2, 3))])[0], np.full((2, 3), 2.0))


# ------------------------------------------------------------------ feeds

MISSING = [
    "K.eval(x * 2)",
    "(x * 2).eval()",
    "(x + K.sum(w)).eval(feed_dict={i: [1, 2]})",
    "K.function([i], [K.gather(w, i), x])([[0, 1]])",
    "K.get_session().run([w, {'a': x * x}])",
    "K.eval(K.gradients(K.sum(x * x), x)[0])",
    "K.eval(K.update_add(w, K.sum(x)))",
    "np.array(K.get_value(x))",
]


@pytest.mark.parametrize("code", MISSING)
def test_a_missing_feed_names_the_placeholder_and_its_line(code: str) -> None:
    error = failure(code)
    assert isinstance(error, K.FeedError)
    assert "placeholder 'images' float32[?, 3], made at train.py:1, needs a value" in str(error)


INTEGER_FEEDS: list[tuple[str, Any, bool]] = [
    ("int32", [1.0, 2.0], True),
    ("int32", [1.5, 2.0], False),
    ("int32", [np.nan, 2.0], False),
    ("int32", [2**31, 0], False),
    ("int8", [127, -128], True),
    ("int8", [128, 0], False),
    ("uint8", [-1, 0], False),
    ("bool", [0, 1], True),
    ("bool", [0.0, 2.0], False),
    ("float16", [1e6, 1.0], True),
    ("float32", [1, 2], True),
]


@pytest.mark.parametrize(("dtype", "value", "fits"), INTEGER_FEEDS)
def test_a_feed_is_never_changed_by_its_dtype(dtype: str, value: Any, fits: bool) -> None:
    x = K.placeholder((2,), dtype=dtype)
    compiled = K.function([x], [x])
    if not fits:
        with pytest.raises(K.FeedError, match=dtype):
            compiled([value])
        return
    (got,) = compiled([value])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, np.array(value).astype(dtype))


# ------------------------------------------------------------------ a cleared session

CLEARED = [
    "K.eval(y)",
    "y.eval(feed_dict={x: np.ones((2, 3))})",
    "K.function([x], [y])",
    "K.get_session().run(y)",
    "K.eval(y + 1)",
    "K.eval(K.sum(K.concatenate([y, y])))",
]


@pytest.mark.parametrize("code", CLEARED)
def test_what_was_built_before_clear_session_is_refused(code: str) -> None:
    names = run("y = x * K.sum(w)\nv = K.variable(2.0)\nf = K.function([x], [x + v])")
    K.clear_session()
    with pytest.raises((K.ArgumentError, K.FeedError)) as caught:
        exec(code, names)
    assert "K.clear_session()" in str(caught.value)
    # Variables keep their values, and functions made before go on working.
    assert K.eval(names["v"]) == 2.0
    assert names["f"]([np.ones((1, 3))])[0].tolist() == [[3.0, 3.0, 3.0]]


# ------------------------------------------------------------------ absurd sizes

HUGE = [
    "K.zeros((10**6, 10**6))",
    "K.ones((10**30,))",
    "K.eye(10**6)",
    "K.arange(10**12)",
    "K.constant(1.0, shape=(10**6, 10**6))",
    "K.variable(np.broadcast_to(np.float32(1), (10**6, 10**6)))",
    "K.eval(K.ones((10**6, 1)) * K.ones((10**6,)))",
    "K.eval(K.repeat_elements(K.ones((1000, 1000)), 10**6, 0) * 2)",
    "K.eval(K.tile(K.ones((1000,)), 10**9))",
    "K.eval(K.one_hot(K.zeros((10**6,), dtype='int32'), 10**6))",
    "K.eval(K.dot(K.ones((10**6, 1)), K.ones((1, 10**6))))",
    "K.eval(K.ones_like(K.ones((10**6, 1)) * K.ones((10**6,))))",
    "K.function([x], [K.tile(x, (10**12, 1))])([np.ones((2, 3))])",
]


@pytest.mark.parametrize("code", HUGE)
def test_absurd_sizes_are_refused_before_anything_is_allocated(code: str) -> None:
    start = time.perf_counter()
    error = failure(code)
    assert time.perf_counter() - start < 2
    assert isinstance(error, K.OutOfMemory)
    assert " GB" in str(error) and "available" in str(error)


# ------------------------------------------------------------------ a long chain


@pytest.mark.parametrize("count", every(2, [3_000, 10_000]))
def test_a_chain_of_thousands(count: int) -> None:
    x = K.placeholder((3,))
    y = x
    for index in range(count):
        y = K.sin(y) if index % 2 else y * 1.0001 + 0.5
    assert not y._uses_learning_phase
    (gradient,) = K.gradients(K.sum(y), x)
    compiled = K.function([x], [y, gradient])
    value, slope = compiled([np.ones(3)])
    wanted, product = np.ones(3, "float32"), np.ones(3)
    for index in range(count):
        product *= np.cos(wanted) if index % 2 else 1.0001
        wanted = np.sin(wanted) if index % 2 else wanted * np.float32(1.0001) + np.float32(0.5)
    np.testing.assert_allclose(value, wanted, 1e-4)
    np.testing.assert_allclose(slope, product, 1e-3, 1e-30)
