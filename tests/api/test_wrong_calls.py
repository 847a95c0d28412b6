"""The table of wrong calls: every public function, called wrongly, tells what and where.

Each row of `wrong_*.py` is run and the error's structure is looked at: class, function, place,
operands, message, and that nothing was changed.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
import wrong
from wrong import Wrong

from kbench import backend as K
from kbench.engine.core import errors
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.variables import Variable, changed
from kbench.engine.runtime import config

FEWEST = 3
# Some rows call in the form of Keras 1, which says so before it fails.
pytestmark = pytest.mark.filterwarnings("ignore:K[.]:DeprecationWarning")
TABLES = sorted(path.stem for path in Path(wrong.__file__).parent.glob("wrong_*.py"))
ROWS: list[Wrong] = [row for name in TABLES for row in importlib.import_module(name).WRONG]
SPEC = re.compile(r"(sparse )?([a-z]+[0-9]*|(datetime|timedelta)64\[[a-z]+\])\[[^]]*\]")

# Functions with nothing, or too little, to get wrong; everything else needs FEWEST rows.
_NO_ARGUMENT = "takes no argument: Python itself refuses any"
_ANY_ANSWER = "answers for whatever it is given"
CANNOT_BE_WRONG: dict[str, str] = {
    "epsilon": _NO_ARGUMENT,
    "exact": _NO_ARGUMENT,
    "floatx": _NO_ARGUMENT,
    "image_data_format": _NO_ARGUMENT,
    "num_threads": _NO_ARGUMENT,
    "learning_phase": _NO_ARGUMENT,
    "clear_session": _NO_ARGUMENT,
    "reset_uids": _NO_ARGUMENT,
    "get_session": _NO_ARGUMENT,
    "record": _NO_ARGUMENT,
    "is_tensor": _ANY_ANSWER,
    "is_variable": _ANY_ANSWER,
    "is_placeholder": _ANY_ANSWER,
    "is_symbolic": _ANY_ANSWER,
    "is_sparse": _ANY_ANSWER,
    "v1_variable_initialization": _NO_ARGUMENT,
}


EVALUATING = {"eval", "__call__", "run", "get_value", "batch_get_value"}


def entered(caught: BaseException, code: CodeType) -> FrameType | None:
    """The frame of K that the row's call entered, with the arguments that the user wrote.

    None for an evaluation: its error is about a node that was made earlier.
    """
    trace = caught.__traceback__
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    if trace is None or trace.tb_next is None:
        return None
    frame = trace.tb_next.tb_frame
    evaluates = frame.f_code.co_name in EVALUATING or frame.f_locals.get("name") in EVALUATING
    inside = errors.is_internal(frame.f_code.co_filename)
    return frame if inside and not evaluates else None


def operands_given(frame: FrameType) -> Iterator[Any]:
    """Tensors and arrays among the arguments of a K function, as its operands are named."""
    variables = frame.f_locals
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    names = [*code.co_varnames[:count], "operands", "other", "keywords"]
    for name in names:
        value = variables.get(name)
        if isinstance(value, dict):
            value = list(value.values())
        for one in list(value)[:8] if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, (Tensor, np.ndarray)):
                yield one


@pytest.fixture
def stored() -> Iterator[list[Variable]]:
    """Variables that were stored to during a test."""
    found: list[Variable] = []
    forget = changed.subscribe(found.append)
    yield found
    forget()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(row: Wrong, stored: list[Variable]) -> None:
    before = config.snapshot()
    code = row.call.__code__
    with pytest.raises(row.error) as caught:
        row.call()
    error = caught.value
    text = str(error)
    assert type(error) is row.error
    for part in row.says:
        assert part in text
    if isinstance(error, errors.KbenchError):
        check_structure(row, error, text)
        entry = entered(error, code)
        if entry is not None:
            told = {one.ident for one in error.operands}
            assert all(id(one) in told for one in operands_given(entry)), text
    else:
        assert text and row.error in (TypeError, NotImplementedError)
    assert config.snapshot() == before
    assert stored == [], "a variable was changed"


def check_structure(row: Wrong, error: errors.KbenchError, text: str) -> None:
    """Function, reason, place and operands: the fields, and all of them in the text."""
    assert error.function == row.function
    assert text.startswith(f"{row.function}: {error.reason}")
    assert error.place is not None, "no line of the user's"
    assert error.place.file == row.call.__code__.co_filename
    assert text.endswith(f"  at {error.place}")
    for one in error.operands:
        assert SPEC.fullmatch(one.spec), one.spec
        assert one.role and one.kind and one.spec in text


# ------------------------------------------------------------------ nothing is left out


def public_functions() -> list[str]:
    """Functions under their own names: an old name of another is tested with the table of names."""
    found = {name: getattr(K, name) for name in K.__all__}
    return sorted(
        name
        for name, one in found.items()
        if inspect.isfunction(one)
        and one.__name__.strip("_") == name
        and getattr(one, "__module__", "") != "kbench.api.legacy"
    )


@pytest.mark.parametrize("name", public_functions())
def test_enough_rows(name: str) -> None:
    rows = Counter(row.function for row in ROWS)
    if name in CANNOT_BE_WRONG:
        assert rows[name] < FEWEST, f"{name} can be called wrongly: strike it from the list"
        return
    assert rows[name] >= FEWEST, f"{name} has {rows[name]} rows in tests/tables/wrong_*.py"


def test_rows_are_about_what_exists() -> None:
    assert set(CANNOT_BE_WRONG) <= set(public_functions())
    operators = set(errors._OPERATOR_NAMES.values())
    unknown = {row.function for row in ROWS} - set(K.__all__) - operators
    assert unknown - {"run", "function"} == set()
