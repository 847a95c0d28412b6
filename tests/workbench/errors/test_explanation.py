"""Errors told in the user's own expression: each operand is found where it stands."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import kbench as K
from kbench.workbench.errors import explanation

ROWS = [
    ("K.dot(w, x)", {"x": "w", "y": "x"}),
    ("a = K.dot(w, x)", {"x": "w", "y": "x"}),
    ("K.dot(x=w, y=x)", {"x": "w", "y": "x"}),
    ("K.dot(K.relu(w), x)", {"x": "K.relu(w)", "y": "x"}),
    ("w + x", {"x": "w", "y": "x"}),
    ("1 + (w + x) * 2", {"x": "w", "y": "x"}),
    ("w < x", {"x": "w", "y": "x"}),
    ("K.concatenate([x, w], axis=0)", {"tensors[0]": "x", "tensors[1]": "w"}),
    ("K.reshape(x, (3, 5))", {"x": "x"}),
    ("K.dot(holder.w, x)", {"x": "holder.w", "y": "x"}),
    ("[K.dot(one, x) for one in (w,)]", {"x": "one", "y": "x"}),
    ("K.dot('é' and w, x)", {"x": "'é' and w", "y": "x"}),
    ("K.dot(\n    w,\n    x,\n)", {"x": "w", "y": "x"}),
    ("K.sum(x, axis=7)", {"x": "x"}),
    ("K.dot(parts['w'], x)", {"x": "parts['w']", "y": "x"}),
    ("K.dot(parts['all'][-1], x)", {"x": "parts['all'][-1]", "y": "x"}),
    ("K.dot(holder.inner.w, x)", {"x": "holder.inner.w", "y": "x"}),
    ("x + w @ x", {"x": "w", "y": "x"}),
    ("f'{K.dot(w, x)}'", {"x": "w", "y": "x"}),
    ("d = K.dot\nd(w, x)", {"x": "w", "y": "x"}),
    ("h = x\nh += w", {"x": "h", "y": "w"}),
    ("K.dot(日本, x)", {"x": "日本", "y": "x"}),
]
# What was called on the way: for each line its text, and what is marked in it.
CHAINS = [
    ("K.dot(w, x)", []),
    ("def f(a):\n    return K.dot(a, x)\nf(w)", [("f(w)", ["w"])]),
    (
        "def f(a):\n    return K.dot(a, x)\ndef g(b):\n    c = f(b)\n    return c\nz = g(w)",
        [("z = g(w)", ["w"]), ("    c = f(b)", ["b"])],
    ),
    ("def f():\n    return K.dot(w, x)\nz = 1 + f()", [("z = 1 + f()", ["f()"])]),
    ("f = lambda a: K.dot(a, x)\nf(w)", [("f(w)", ["w"])]),
    ("[K.dot(one, x) for one in (w,)]", []),
    (
        "def deco(fn):\n    def inner(*a):\n        return fn(*a)\n    return inner\n"
        "@deco\ndef f(a):\n    return K.dot(a, x)\nf(w)",
        [("f(w)", ["w"]), ("        return fn(*a)", ["fn(*a)"])],
    ),
    (
        "class A:\n    def run(self, a):\n        return K.dot(a, x)\nA().run(w)",
        [("A().run(w)", ["w"])],
    ),
]
SUGGESTIONS = [
    ("K.dot(w, x)", "K.dot(x, w) -> (32, 10)"),
    ("K.dot(parts['w'], x)", "K.dot(x, parts['w']) -> (32, 10)"),
    ("x * w", "K.dot(x, w)"),
    ("x + K.zeros((32,))", "x + K.expand_dims(K.zeros((32,)), -1)"),
    ("x + K.zeros((784, 32))", "x + K.transpose(K.zeros((784, 32)))"),
    ("(x + 0) * w", "K.dot(x, y)"),
    ("K.reshape(x, (3, 8))", "K.reshape(x, (-1, 8))"),
    ("K.one_hot(x, 10)", 'K.cast(x, "int32")'),
    ("K.set_value(w, np.zeros((10, 784)))", "np.zeros((10, 784)).T"),
    ("K.maximum(x, side)", "K.maximum(x, K.expand_dims(side, -1))"),
    ("K.concatenate([x, K.zeros((5, 784))])", "axis=0"),
    (
        "K.batch_dot(K.zeros((4, 5, 6)), K.zeros((4, 7, 6)), axes=(2, 1))",
        "K.batch_dot(K.zeros((4, 5, 6)), K.zeros((4, 7, 6)), axes=(2, 2)) -> (4, 5, 7)",
    ),
    ("K.conv2d(K.zeros((2, 3, 8, 8)), K.zeros((3, 3, 3, 4)))", 'data_format="channels_first"'),
    ("K.categorical_crossentropy(side, x)", "K.sparse_categorical_crossentropy(side, x)"),
    ("f = K.function([x], [x])\nf([np.zeros((784, 32))])", "value.T"),
    ("f = K.function([row], [row])\nf([np.zeros(784)])", "value[None]"),
    ("x + K.zeros((7, 7))", None),
]


class Holder:
    def __init__(self, w: Any) -> None:
        self.w = w
        self.inner = self


def failure(code: str) -> BaseException:
    """The error of a cell, run as a shell would."""
    name = f"<cell {abs(hash(code))}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    w = K.variable(np.zeros((784, 10)), name="w")
    names = {
        "K": K,
        "np": np,
        "x": K.placeholder((32, 784), name="x"),
        "w": w,
        "日本": w,
        "holder": Holder(w),
        "parts": {"w": w, "all": [1, w]},
        "side": K.placeholder((32,), name="side"),
        "row": K.placeholder((None, 784), name="row"),
    }
    try:
        exec(compile(code, name, "exec"), names)
    except Exception as error:
        return error
    raise AssertionError(f"{code} does not fail")


@pytest.mark.parametrize(("code", "wanted"), ROWS, ids=[code for code, _ in ROWS])
def test_operands_are_found_in_the_source(code: str, wanted: dict[str, str]) -> None:
    detail = explanation.detail(failure(code))
    found = {
        one["role"]: detail["source"][one["line"]][one["start"] : one["end"]]
        for one in detail["operands"]
        if one["line"] is not None
    }
    assert found == wanted, detail["operands"]
    for one in wanted.values():
        assert any(one in line for line in detail["drawing"])
    assert detail["reason"] and detail["text"].startswith(str(detail["function"]))


@pytest.mark.parametrize(("code", "wanted"), CHAINS, ids=[code for code, _ in CHAINS])
def test_the_calls_on_the_way(code: str, wanted: list[tuple[str, list[str]]]) -> None:
    detail = explanation.detail(failure(code))
    found = [
        (one["source"], [one["source"][start:end] for start, end in one["marks"]])
        for one in detail["chain"]
        if "exec(compile" not in one["source"]  # the test's own
    ]
    assert found == wanted and detail["skipped"] == 0
    assert "K.dot(" in detail["source"][0]


def test_of_a_long_way_the_ends_are_told() -> None:
    code = "def f(n):\n    return f(n - 1) if n else K.dot(w, x)\nf(60)"
    detail = explanation.detail(failure(code))
    assert len(detail["chain"]) == 6 and detail["skipped"] == 56
    assert detail["chain"][1]["source"] == "f(60)"


@pytest.mark.parametrize(("code", "wanted"), SUGGESTIONS, ids=[code for code, _ in SUGGESTIONS])
def test_what_would_fit_is_said_in_the_users_names(code: str, wanted: str | None) -> None:
    assert explanation.detail(failure(code))["suggestion"] == wanted


def test_how_to_feed_is_said() -> None:
    found = explanation.detail(failure("K.eval(row)"))["suggestion"]
    assert found.startswith("K.function([row") and found.endswith("], [...])([value])")


def test_a_chain_of_methods_is_found_by_its_line() -> None:
    detail = explanation.detail(failure("y = (K\n    .dot(\n        w, x))"))
    assert [one["line"] for one in detail["operands"]] == [2, 2]


def test_an_expression_without_operands_is_marked() -> None:
    drawn = explanation.detail(failure("y = 0\nz = y or K.variable('text')"))["drawing"]
    assert drawn == ["z = y or K.variable('text')", "         ^^^^^^^^^^^^^^^^^^"]


def test_wide_characters_take_two_cells() -> None:
    lines = explanation.detail(failure("K.dot('日本' and w, x)"))["drawing"]
    assert lines[1].startswith("      " + "|" + " " * 13 + "+--")


def test_told_draws_what_it_can_and_else_says_it() -> None:
    assert "      +--" in explanation.error_text(failure("K.dot(w, x)"))
    assert explanation.error_text(failure("K.variable('text')")).startswith(
        "variable: value is the string"
    )
    assert explanation.error_text(ValueError("words")) == "words"


def test_the_drawing_points_at_the_first_letter() -> None:
    lines = explanation.detail(failure("K.dot(w, x)"))["drawing"]
    assert lines[0] == "K.dot(w, x)"
    assert lines[1].startswith("      |  +-- float32[32, 784]  placeholder 'x")
    assert lines[2].startswith("      +----- float32[784, 10]  variable 'w")


def test_a_missing_feed_is_told_without_a_caret() -> None:
    detail = explanation.detail(failure("K.eval(x + 1.0)"))
    assert detail["kind"] == "FeedError" and "x" in detail["reason"]


def test_other_errors_have_no_detail() -> None:
    assert explanation.detail(ValueError("x")) == {}


def test_an_error_without_source_still_has_its_words() -> None:
    error = failure("K.dot(w, x)")
    linecache.cache.clear()
    detail = explanation.detail(error)
    assert detail["source"] == [] and detail["operands"][0]["spec"] == "float32[784, 10]"


def test_user_frames_leaves_the_engine_out() -> None:
    error = failure("def f():\n    return K.dot(w, x)\nf()")
    traceback = explanation.user_frames(error.__traceback__)
    names = []
    while traceback is not None:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert names == ["failure", "<module>", "f"]


def test_safe_text_of_a_hostile_error() -> None:
    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert explanation.safe_text(Bad()) == "(no text: RuntimeError)"
    assert explanation.safe_text(ValueError("a\x1b[31m")) == "a"
    assert explanation.safe_text(ValueError("a\x1b]0;b\x07")) == r"a\x1b]0;b\x07"


def test_an_error_that_was_made_but_never_raised() -> None:
    row = explanation.detail(K.ShapeError("nothing fits"))
    assert row["reason"] == "nothing fits"
    assert (row["source"], row["chain"], row["line"]) == ([], [], None)
    assert "nothing fits" in explanation.error_text(K.ShapeError("nothing fits"))
