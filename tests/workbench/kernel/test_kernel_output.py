"""What a kernel of our own does for its front end: lines that fit, cells under their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from session_helpers import Watched, make, replied

from kbench.workbench.kernel import output_width
from kbench.workbench.kernel.cell_names import name_of
from kbench.workbench.output import picture
from kbench.workbench.session import events
from kbench.workbench.session.kernel_session import KernelSession


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: Any) -> Iterator[Watched]:
    watched = make(KernelSession, tmp_path_factory.mktemp("journal"))
    yield watched
    watched.session.shutdown()


def shown(kernel: Watched, code: str, columns: int = 0) -> str:
    """What a cell prints and gives, in a transcript of so many columns."""
    kernel.session.columns = columns
    cell, _ = kernel.run(code)
    return kernel.text(cell) + "".join(one.text for one in kernel.of(events.Result, cell))


ARGPARSE = """
import argparse
parser = argparse.ArgumentParser(prog="x", description="word " * 40)
parser.print_help()
"""
WIDE = [
    ("print(np.arange(200) / 7)", "NumPy prints"),
    ("np.arange(200) / 7", "NumPy's value"),
    ("['a word of text', 'another one'] * 9", "IPython's list"),
    ("import pandas as pd\npd.DataFrame(np.zeros((2, 30)))", "pandas, imported by the cell"),
    (ARGPARSE, "argparse"),
]


@pytest.mark.parametrize("code", [code for code, _ in WIDE], ids=[words for _, words in WIDE])
def test_output_fits_and_follows_the_width(kernel: Watched, code: str) -> None:
    label = len("Out[99]: ")
    longest = [
        max(map(len, shown(kernel, code, columns).rstrip("\n").split("\n")))
        for columns in (44, 100, 60)
    ]
    assert longest[0] <= 44 and longest[1] <= 100 and longest[2] <= 60
    if "list" not in code and "'a word" not in code:
        assert longest[0] >= 44 - label - 13 and longest[1] > 70


def test_a_width_of_the_users_stays(kernel: Watched) -> None:
    code = "np.set_printoptions(linewidth=33)"
    shown(kernel, code, 90)
    long = max(map(len, shown(kernel, "print(np.arange(99) / 7)", 70).split("\n")))
    kernel.run("np.set_printoptions(linewidth=75)")
    assert long <= 33


def test_without_a_width_nothing_changes(kernel: Watched) -> None:
    before = shown(kernel, "np.get_printoptions()['linewidth']", 64)
    assert shown(kernel, "np.get_printoptions()['linewidth']", 0) == before


HEADING = "Layer (type)".ljust(450) + "Output Shape".ljust(400) + "Param #".ljust(150)


def test_a_summary_gets_the_columns_that_its_entries_take() -> None:
    def draw(_: object, length: int, positions: object, tell: Any) -> None:
        row = "a_long_name (Dense)".ljust(450) + "(None, 4)".ljust(400) + "36".ljust(150)
        for line in ("Model: m", "_" * length, HEADING, "=" * length, row, "Total params: 36"):
            tell(line)

    assert output_width._summary_columns(draw, None) == (44, [21, 35, 44])


def test_np_is_there_and_hidden(kernel: Watched) -> None:
    assert shown(kernel, "np.arange(2)") == "array([0, 1])"
    rows = replied(kernel.session, "summary")["data"]["rows"]
    assert not {"np", "K"} & {row["key"] for row in rows}
    kernel.run("np = 3")
    assert shown(kernel, "np") == "3"
    kernel.run("import numpy as np")


NAMED = [
    ("x = 1\ny = = 2", "invalid syntax (cell {}, line 2)"),
    ("import warnings\nwarnings.warn('hello')", "cell {}, line 2: UserWarning: hello"),
    (
        "import traceback\ntry:\n    1 / 0\nexcept Exception:\n    traceback.print_exc()",
        'cell {}.py", line 3, in <module>',
    ),
    ("import inspect\ndef f(): ...\nprint(inspect.getsourcefile(f))", "cell {}.py"),
]


@pytest.mark.parametrize(("code", "words"), NAMED)
def test_a_cell_is_named_by_its_number(kernel: Watched, code: str, words: str) -> None:
    cell, done = kernel.run(code)
    said = kernel.text(cell) + kernel.text(cell, "stderr")
    said += "".join(one.value for one in kernel.of(events.Error, cell))
    assert words.format(done.count) in said


def test_frames_of_other_cells_have_their_own_number(kernel: Watched) -> None:
    _, first = kernel.run("def broken():\n    return 1 / 0")
    cell, second = kernel.run("x = 1\nbroken()")
    trace = "\n".join(kernel.of(events.Error, cell)[0].traceback)
    assert f"Cell In[{second.count}], line 2" in trace
    assert f"Cell In[{first.count}], line 2, in broken()" in trace


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/tmp/ipykernel_12/cell 3.py", "cell 3"),
        ("/tmp/ipykernel_12/cell 3 (2).py", "cell 3 (2)"),
        ("/tmp/ipykernel_12/2955584457.py", ""),
        ("/home/me/cell 3.py", ""),
        ("<string>", ""),
    ],
)
def test_only_cells_have_the_name_of_a_cell(file: str, name: str) -> None:
    assert name_of(file) == name


PICTURES = [
    ("np.zeros((16, 20, 3), np.uint8)", (20, 16)),
    ("from PIL import Image\nImage.new('RGB', (30, 20))", (30, 20)),
    ("import matplotlib.pyplot as plt\nplt.plot([1, 2]);", None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("code", "size"), PICTURES, ids=["array", "Pillow", "Matplotlib"])
def test_what_is_a_picture_comes_as_one(
    kernel: Watched, code: str, size: tuple[int, int] | None
) -> None:
    cell, _ = kernel.run(code)
    (found,) = [one for one in map(_picture, kernel.of(events.Result, cell)) if one is not None]
    assert (found.width, found.height) == size if size else found.width > 300


def _picture(result: events.Result) -> picture.Picture | None:
    return picture.decoded(result.data)


def test_what_is_none_comes_as_text_alone(kernel: Watched) -> None:
    cell, _ = kernel.run("np.zeros((20, 20))")
    (result,) = kernel.of(events.Result, cell)
    assert picture.form_of(result.data) == "" and result.text.startswith("array(")
