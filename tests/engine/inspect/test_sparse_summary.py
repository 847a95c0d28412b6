"""How sparse values are shown: by their entries, never made dense."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from kbench import backend as K
from kbench.engine.inspect import describe, slice_view, sparse_summary
from kbench.notebook.html import html
from kbench.workbench.inspector import namespace, summary
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.protocol.messages import ProtocolError

VALUES = np.array([[0, 2, 0, -1], [0, 0, 0, 0], [3, 0, 0.5, 0]], "float32")
FORMATS = ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")


def test_they_are_shown_by_their_entries() -> None:
    K.clear_session()
    v = K.variable(sp.csr_array(VALUES), name="v")
    x = K.placeholder((None, 4), sparse=True, name="x")
    assert repr(v) == "<variable 'v:0' variable sparse float32[3, 4]>"
    line = summary.line(v)
    assert line.startswith("variable v:0 sparse float32[3, 4] 48 B  4 entries (33.3 %)  [-1 |")
    assert summary.text(v) == line
    assert summary.line(x) == "placeholder x:0 sparse float32[?, 4]"
    assert summary.line(K.variable(sp.csr_array((0, 3)))).count("0 entries") == 1
    K.eval(v)
    assert describe.tensor(v)["bytes"] is None and describe.held_array(v) is None
    found = sparse_summary.facts(K.get_value(v))
    assert (found["entries"], found["bytes"]) == (4, 48)
    for value in (v, K.get_value(v)):
        shown = html.show(value)
        assert "4 entries (33.3 %)" in shown and "not shown" not in shown


@pytest.mark.parametrize("form", FORMATS)
def test_matrices_of_the_user_are_shown_too(form: str) -> None:
    matrix = sp.csr_array(VALUES).asformat(form)
    view = namespace.View({"m": matrix, "pair": [matrix, 1]})
    rows, _ = view.rows(None, True)
    assert "entries" in (rows[0].text or "") and rows[0].shape == [3, 4]
    assert rows[1].items is not None and rows[1].items[0].spec == "sparse float32[3, 4]"
    assert "sparse float32[3, 4]" in summary.line(matrix)
    with pytest.raises(ProtocolError, match="sparse"):
        view.array("m")
    if form in ("csr", "csc", "coo"):
        window = slice_view.window(view.cells("m"), None, (1, 2), (0, 9))
        assert window["cells"] == [["0"] * 4, ["3", "0", "0.5", "0"]]
        assert slice_view.window(view.cells("m"), [0, 3], row_axis=0, col_axis=None)["heat"]


def test_a_recorded_run_knows_their_bytes() -> None:
    v = K.variable(sp.csr_array(VALUES))
    with K.record() as runs:
        K.function([], [K.dot(v, K.ones((4, 2))), K.concatenate([v, v])])([])
    steps = {step.label: step for step in runs[-1].steps}
    assert steps["dot_sparse"].form == "scipy"
    assert steps["concatenate_sparse"].bytes == 48 * 2 + 8 * 8 + 4 * 4


def test_a_window_of_a_large_matrix() -> None:
    matrix = sp.csr_array(([1.5, -2], ([0, 999_999], [1, 999_999])), shape=(10**6, 10**6))
    inspector = Inspector({"v": K.variable(matrix), "m": matrix.tocsc()})
    try:
        for place, cells in ((0, [["0", "1.5"], ["0", "0"]]), (999_998, [["0", "0"], ["0", "-2"]])):
            reply = inspector.handle(
                {"verb": "window", "name": "v", "rows": [place, 2], "cols": [place, 2]}
            )
            assert reply["data"]["cells"] == cells
            assert reply["data"]["shape"] == [10**6, 10**6]
        (row,) = inspector.handle({"verb": "summary", "names": ["v"]})["data"]["rows"]
        assert row["text"] == "sparse, 2 entries (2e-10 %)"
        reply = inspector.handle({"verb": "window", "name": "m", "rows": [0, 1], "cols": [0, 2]})
        assert reply["data"]["cells"] == [["0", "1.5"]]
        inspector._view.get("m").indices[0] = 10**7
        refused = inspector.handle({"verb": "window", "name": "m"})["error"]
        assert "index 10000000 is out of range" in refused["reason"]
    finally:
        inspector.close()
