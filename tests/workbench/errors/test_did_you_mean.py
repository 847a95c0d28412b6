"""Names that were probably meant, and where they are told."""

from __future__ import annotations

import linecache
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import kbench as K
from kbench.workbench.errors import did_you_mean

WEIGHTS = "weights = 3; "
MEANT = [
    (WEIGHTS + "wieghts", "weights"),
    (WEIGHTS + "Weights", "weights"),
    ("relu(1)", "K.relu"),
    ("batchdot(1)", "K.batch_dot"),
    ("pritn(1)", "print"),
    ("K.rleu", "K.relu"),
    ("K.softMax", "K.softmax"),
    ("np.zeors", ".zeros"),
    ("'a'.uper()", ".upper"),
    ("K.variable([1.0]).relu", "K.relu(...)"),
    ("import nunpy", "numpy"),
    ("import kbench.bakend", "kbench.backend"),
    ("from kbench import vairable", "variable"),
    ("from math import sqr", "sqrt"),
    ("K.relu(K.ones((2,)), alhpa=1.0)", "alpha="),
    ("K.mean(K.ones((2,)), keep_dims=True)", "keepdims="),
    ("K.conv2d(K.ones((1, 4, 4, 1)), K.ones((2, 2, 1, 1)), stride=(2, 2))", "strides="),
    ("def f(momentum=0): pass\nf(momentun=1)", "momentum="),
    # Nothing is near, or there is nothing to be meant.
    ("zzzzzz", ""),
    ("K.qqqqqq", ""),
    ("None.thing", ""),
    ("import zzqqzz", ""),
    ("f = 1; f()", ""),
    ("raise NameError('x')", ""),
    ("raise AttributeError('no')", ""),
    ("raise TypeError(3)", ""),
    ("raise ImportError", ""),
    ("raise NameError('Did you mean me?')", ""),
    ("1 / 0", ""),
]


IMPORTS = [
    ("del K; K.ones((2,))", "from kbench import backend as K"),
    ("from kbench import K", "from kbench import backend as K"),
    ("del np; np.ones(2)", "import numpy as np"),
    ("plt.plot([1])", "import matplotlib.pyplot as plt"),
    ("pd.DataFrame()", "import pandas as pd"),
]


def raised(code: str) -> BaseException:
    names: dict[str, Any] = {"K": K, "np": np}
    linecache.cache["<cell>"] = len(code), None, code.splitlines(keepends=True), "<cell>"
    try:
        exec(compile(code, "<cell>", "exec"), names)
    except Exception as error:
        return error
    raise AssertionError(f"{code} raised nothing")


@pytest.mark.parametrize(("code", "meant"), MEANT)
def test_what_was_meant(code: str, meant: str) -> None:
    error = raised(code)
    if "Did you mean" in str(error):  # Python says it itself, of arguments from 3.13 on
        assert meant.removesuffix("=") in str(error)
        meant = ""
    assert did_you_mean.meant(error) == meant
    assert did_you_mean.detail(error) == ({"meant": f"Did you mean {meant}?"} if meant else {})


@pytest.mark.parametrize(("code", "statement"), IMPORTS)
def test_a_module_that_was_not_imported(code: str, statement: str) -> None:
    assert did_you_mean.detail(raised(code)) == {"meant": f"Import it first: {statement}"}


def test_an_object_that_cannot_list_its_names_is_none_the_worse() -> None:
    class Odd:
        def __dir__(self) -> list[str]:
            raise RuntimeError("no")

    error = AttributeError("gone")
    error.name, error.obj = "thing", Odd()
    assert did_you_mean.meant(error) == ""


SHELL_ROWS = [
    ("K.rleu", "Did you mean K.relu?"),
    ("%tiem 1", "Did you mean %time?"),
    ("%%timeti\n1", "Did you mean %%timeit?"),
]


@pytest.fixture
def shell() -> Any:
    one = InteractiveShell()
    one.user_ns.update(K=K)
    one.set_custom_exc(did_you_mean.reported(), did_you_mean.report)
    yield one
    one.history_manager.end_session()


@pytest.mark.parametrize(("code", "told"), SHELL_ROWS)
def test_a_shell_tells_it_once(shell: Any, capsys: Any, code: str, told: str) -> None:
    result = shell.run_cell(code)
    assert isinstance(result.error_in_exec, (AttributeError, UsageError))
    said = "".join(capsys.readouterr())
    assert said.count("Did you mean") == 1 and told in said


def test_a_notebook_tells_it(shell: Any, capsys: Any) -> None:
    from kbench.notebook.ipython import error_report

    restore = error_report.install(shell)
    shell.run_cell("K.mean(K.ones((2,)), keep_dims=True)")
    said = "".join(capsys.readouterr())
    assert said.count("Did you mean") == 1 and re.search("Did you mean '?keepdims(=|')[?]", said)
    restore()


def test_code_on_the_command_line_tells_it_once() -> None:
    start = "from kbench_launcher import main; raise SystemExit(main())"
    done = subprocess.run(
        [sys.executable, "-c", start, "-c", "K.rleu"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and done.stderr.count("Did you mean K.relu?") == 1
