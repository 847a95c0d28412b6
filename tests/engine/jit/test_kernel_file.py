"""Kernel files: what a specialisation says, what it leaves out, and what is refused."""

from __future__ import annotations

import ast
import importlib
import textwrap
from pathlib import Path

import pytest

from kbench.engine.intrinsics import specialized as prelude
from kbench.engine.jit import kernel_file

ENGINE = Path(kernel_file.__file__).resolve().parents[1]
FILES = sorted(path for path in ENGINE.glob("**/sources/*.py") if path.name != "__init__.py")
KERNEL = '''"""A kernel."""

import numpy as np

from kbench.engine.intrinsics.primitives import peek_int8, scratch_64, square_root
from kbench.engine.intrinsics.specialized import (
    KIND, TIMES, load_element, parameters, peek_element, store_element, value,
)
from kbench.engine.jit.numba_backend import inline, range_kernel


@inline
def root(x):
    """For one kind alone."""
    return square_root(x)


@inline
def grown(x):
    """For the other."""
    return x * value(TIMES)


@range_kernel
def run(params, start, stop):
    (y, x,  # addresses
     n) = parameters(params)
    for i in range(start, stop):
        if KIND == "root" and TIMES > 1:
            # why
            store_element(y, i, root(
                load_element(x, i)
            ))
        elif KIND == "root":
            store_element(y, i, np.nan)
        else:
            # a word on it

            if TIMES == 1:
                store_element(y, i, load_element(x, i))
            if n:
                store_element(y, i, grown(load_element(x, i)))
            else:
                store_element(y, i, peek_element(x, i))
'''
NAMES = {
    "load_element": "load_float16",
    "peek_element": "peek_float32",
    "store_element": "store_element",
    "value": "float32",
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a kernel file that is found as "kernel"."""
    monkeypatch.setattr(kernel_file, "_ENGINE", tmp_path)
    caches = (kernel_file._text, kernel_file._tree, kernel_file.specialized)

    def written(text: str = KERNEL) -> None:
        (tmp_path / "kernel.py").write_text(text, "utf-8")
        for cache in (*caches, kernel_file.parameters_of):
            cache.cache_clear()

    yield written
    for cache in (*caches, kernel_file.parameters_of):
        cache.cache_clear()


def test_a_specialisation_holds_what_it_needs_and_nothing_else(write):
    write()
    text = kernel_file.specialized("kernel", **NAMES, KIND="other", TIMES=3)
    assert (
        text
        == '''"""A kernel."""

import numpy as np

from numpy import float32 as value
from kbench.engine.intrinsics.toolkit import (
    field,
    load_float16 as load_element,
    peek_float32 as peek_element,
    store_element,
)
from kbench.engine.jit.numba_backend import inline, range_kernel

TIMES = 3


@inline
def grown(x):
    """For the other."""
    return x * value(TIMES)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    x = field(params, 1)
    n = field(params, 2)
    for i in range(start, stop):
        # a word on it

        if n:
            store_element(y, i, grown(load_element(x, i)))
        else:
            store_element(y, i, peek_element(x, i))
'''
    )


def _body(**given):
    text = kernel_file.specialized("kernel", **NAMES, **given)
    return textwrap.dedent(text.partition("range(start, stop):\n")[2])


def test_constants_decide_branches(write):
    write()
    root = "# why\nstore_element(y, i, root(\n    load_element(x, i)\n))\n"
    assert _body(KIND="root", TIMES=2) == root
    assert _body(KIND="root", TIMES=1) == "store_element(y, i, np.nan)\n"
    assert "if TIMES" not in _body(KIND="other", TIMES=1)
    assert _body(KIND="other", TIMES=1).count("load_element") == 2


def test_a_number_and_a_truth_are_two_specialisations(write):
    write()
    assert "TIMES = 1\n" in kernel_file.specialized("kernel", **NAMES, KIND="other", TIMES=1)
    assert "TIMES = True\n" in kernel_file.specialized("kernel", **NAMES, KIND="other", TIMES=True)


def test_parameters_have_an_order(write):
    write()
    assert kernel_file.parameters_of("kernel") == ("y", "x", "n")


def test_names_are_given_exactly(write):
    write()
    with pytest.raises(ValueError, match="kernel lacks KIND, value"):
        names = {name: meaning for name, meaning in NAMES.items() if name != "value"}
        kernel_file.specialized("kernel", **names, TIMES=1)
    with pytest.raises(ValueError, match="kernel has no SIZE"):
        kernel_file.specialized("kernel", **NAMES, KIND="other", TIMES=1, SIZE=4)


@pytest.mark.parametrize(
    ("decided", "other"), [("TIMES == 1", "n"), ("n", "TIMES == 1")], ids=["if", "elif"]
)
def test_a_row_of_conditions_is_decided_as_a_whole(write, decided, other):
    head = KERNEL.partition("        if KIND")[0]
    write(
        f"{head}        if {decided}:\n            pass\n        elif {other}:\n            pass\n"
    )
    names = {**NAMES, "KIND": "", "TIMES": 2}
    with pytest.raises(ValueError, match="constants decide an (el)?if"):
        kernel_file.specialized("kernel", **names)


# ------------------------------------------------------------------ the files of the library


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_kernel_files_ask_for_declared_names(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert kernel_file._asked(tree) <= prelude.__annotations__.keys()


def test_each_declared_name_is_asked_for():
    asked = [kernel_file._asked(ast.parse(path.read_text("utf-8"))) for path in FILES]
    assert set().union(*asked) == prelude.__annotations__.keys()


def test_a_kernel_file_cannot_be_imported():
    with pytest.raises(ImportError, match="specialized"):
        importlib.import_module("kbench.engine.kernels.data.sources.one_hot")
