"""A group on NumPy: the same as statement by statement, in few temporaries."""

import numpy as np
import pytest
from support.kernel_helpers import values

from kbench.engine.codegen.loop_program import LoopValue
from kbench.engine.execute.steps import numpy_blocks
from kbench.engine.execute.steps.numpy_blocks import BlockedForm
from kbench.engine.graph.expr.expression import input_leaf, parse
from kbench.engine.graph.expr.numpy_form import BLOCK, numpy_form

CHAIN = (
    "exp(a0 * 0.25)",
    "t0 + a1",
    "where(a0 > 0, t1, t0)",
    "t1 * t2",
    "tanh(t3)",
    "t4 * t0",
    "t5 - t2",
)


def _form(dtype, outputs, dims):
    statements = [LoopValue(parse(text), dtype) for text in CHAIN]
    patterns = [(True,) * len(dims), (False,) * (len(dims) - 1) + (True,)]
    return BlockedForm(statements, patterns, dims, outputs)


def _wanted(x, row):
    wide = np.result_type(x.dtype, np.float32)
    x, row = x.astype(wide), row.astype(wide)
    found = [np.exp(x * wide.type(0.25))]
    found.append(found[0] + row)
    found.append(np.where(x > 0, found[1], found[0]))
    found.append(found[1] * found[2])
    found.append(np.tanh(found[3]))
    found.append(found[4] * found[0])
    found.append(found[5] - found[2])
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("outputs", [(6,), (1, 4, 6), (2, 6)])
@pytest.mark.parametrize("dims", [(7, 5), (300, 400), (3, BLOCK + 17)], ids=str)
def test_blocks_give_what_each_statement_gives(dtype, outputs, dims):
    x, row = values(dtype, np.prod(dims)).reshape(dims), values(dtype, dims[-1])
    outs = [np.empty(dims, dtype) for _ in outputs]
    form = _form(dtype, outputs, dims)
    before = x.copy(), row.copy()
    tolerance = 2e-3 if dtype == "float16" else 1e-6
    for _ in range(2):
        form.run(outs, [x, row])
        for place, out in zip(outputs, outs, strict=True):
            wanted = _wanted(x, row)[place].astype(dtype)
            np.testing.assert_allclose(out, wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(row, before[1])


def test_temporaries_are_used_again(monkeypatch):
    made = []

    def counted(spare, operands, dtype, own=numpy_blocks._temporary):
        known = {id(one) for one in spare}
        found = own(spare, operands, dtype)
        if id(found) not in known:
            made.append(found)  # kept, so that no id comes twice
        return found

    monkeypatch.setattr(numpy_blocks, "_temporary", counted)
    dims = (64, 4096)
    x, row = values("float32", np.prod(dims)).reshape(dims), values("float32", dims[-1])
    _form("float32", (6,), dims).run([np.empty(dims, "float32")], [x, row])
    assert len(made) <= 4  # of 6 statements in 8 blocks


def test_expressions_that_differ_in_names_share_a_form():
    forms = [
        numpy_form(parse(f"exp(a{i} * 2) + a{j}"), (input_leaf(i), input_leaf(j)), "float32")
        for i, j in ((0, 1), (3, 7))
    ]
    assert forms[0] is forms[1]
    other = numpy_form(parse("exp(a1 * 2) + a0"), (input_leaf(0), input_leaf(1)), "float32")
    out = np.empty(3, np.float32)
    other(out, np.ones(3, np.float32), np.zeros(3, np.float32))
    np.testing.assert_array_equal(out, np.full(3, 2, np.float32))
