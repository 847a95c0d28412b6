"""Errors told in the user's own expression: each operand is found where it stands."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import kbench as K
from kbench.workbench import errors

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
]


class Holder:
    def __init__(self, w: Any) -> None:
        self.w = w


def failure(code: str) -> BaseException:
    """The error of a cell, run as a shell would."""
    name = f"<cell {abs(hash(code))}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    w = K.variable(np.zeros((784, 10)), name="w")
    names = {"K": K, "x": K.placeholder((32, 784), name="x"), "w": w, "holder": Holder(w)}
    try:
        exec(compile(code, name, "exec"), names)
    except Exception as error:
        return error
    raise AssertionError(f"{code} does not fail")


@pytest.mark.parametrize(("code", "wanted"), ROWS, ids=[code for code, _ in ROWS])
def test_operands_are_found_in_the_source(code: str, wanted: dict[str, str]) -> None:
    detail = errors.detail(failure(code))
    found = {
        one["role"]: detail["source"][one["line"]][one["start"] : one["end"]]
        for one in detail["operands"]
        if one["line"] is not None
    }
    assert found == wanted, detail["operands"]
    for one in wanted.values():
        assert any(one in line for line in detail["drawing"])
    assert detail["reason"] and detail["text"].startswith(str(detail["function"]))


def test_the_drawing_points_at_the_first_letter() -> None:
    lines = errors.detail(failure("K.dot(w, x)"))["drawing"]
    assert lines[0] == "K.dot(w, x)"
    assert lines[1].startswith("      |  +-- float32[32, 784]  placeholder 'x")
    assert lines[2].startswith("      +----- float32[784, 10]  variable 'w")


def test_a_missing_feed_is_told_without_a_caret() -> None:
    detail = errors.detail(failure("K.eval(x + 1.0)"))
    assert detail["kind"] == "FeedError" and "x" in detail["reason"]


def test_other_errors_have_no_detail() -> None:
    assert errors.detail(ValueError("x")) == {}


def test_an_error_without_source_still_has_its_words() -> None:
    error = failure("K.dot(w, x)")
    linecache.cache.clear()
    detail = errors.detail(error)
    assert detail["source"] == [] and detail["operands"][0]["spec"] == "float32[784, 10]"


def test_user_frames_leaves_the_engine_out() -> None:
    error = failure("def f():\n    return K.dot(w, x)\nf()")
    traceback = errors.user_frames(error.__traceback__)
    names = []
    while traceback is not None:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert names == ["failure", "<module>", "f"]


def test_safe_text_of_a_hostile_error() -> None:
    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert errors.safe_text(Bad()) == "(no text: RuntimeError)"
    assert errors.safe_text(ValueError("a\x1b[31m")) == r"a\x1b[31m"
