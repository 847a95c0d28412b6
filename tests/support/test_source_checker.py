"""The checker of generated sources finds what is wrong in one, and nothing in a right one."""

from __future__ import annotations

import re

import pytest
import scan_checker
import source_checker
from abstract_machine import SourceError
from kernel_helpers import along, down, row_program

from kbench.engine.codegen import scan_program
from kbench.engine.codegen.loop_program import Fold, Input, loop_nest, loop_value
from kbench.engine.codegen.row_sweeps import Sweeps
from kbench.engine.codegen.scan_program import Access, Loop, Phase, Product, Recurrence
from kbench.engine.codegen.writers import kernel_source

F4 = "float32"
BOTH, COLUMN, ROW = (True, True), (False, True), (True, False)

NESTS = {
    "two outputs": loop_nest(
        (Input(F4, BOTH), Input(F4, COLUMN)),
        (loop_value("sin(a0) + a1", F4), loop_value("t0 * t0", F4)),
        (0, 1),
    ),
    "sum of columns": loop_nest(
        (Input(F4, BOTH), Input(F4, ROW)), (loop_value("a0 * a1", F4),), (), Fold("sum", 0, 1)
    ),
    "roots of columns": loop_nest(
        (Input(F4, BOTH), Input(F4, ROW)), (loop_value("sqrt(a0) * a1", F4),), (), Fold("sum", 0, 1)
    ),
    "columns of float64": loop_nest(
        (Input("float64", BOTH),), (loop_value("a0 * 3", "float64"),), (), Fold("sum", 0, 1)
    ),
    "mean of rows": loop_nest(
        (Input(F4, BOTH), Input(F4, COLUMN)), (loop_value("a0 * a1", F4),), (0,), Fold("mean", 1, 2)
    ),
    "largest of the middle": loop_nest(
        (Input(F4, (True, True, True)),), (loop_value("a0 / 3", F4),), (0,), Fold("max", 1, 2)
    ),
    "largest integer": loop_nest(
        (Input("int32", BOTH),), (loop_value("a0", "int32"),), (), Fold("max", 1, 2)
    ),
    "smallest integer": loop_nest(
        (Input("uint8", BOTH),), (loop_value("a0 + a0", "uint8"),), (), Fold("min", 0, 1)
    ),
    "bool and float16": loop_nest(
        (Input("float16", BOTH), Input("int8", COLUMN)),
        (
            loop_value("a0 > a1", "bool"),
            loop_value("where(t0, a0, cast(a1, 'float16'))", "float16"),
        ),
        (0, 1),
    ),
}
ROWS = {
    "softmax": row_program(
        (Input(F4, BOTH),),
        (
            along("a0", F4, "max"),
            loop_value("exp(a0 - t0)", F4),
            along("t1", F4, "sum"),
            loop_value("t1 / t2", F4),
        ),
        (3,),
    ),
    "variance and sum down": row_program(
        (Input(F4, BOTH), Input(F4, ROW)),
        (
            loop_value("a0 * 2", F4),
            down("t0", F4, "var"),
            down("t0", F4, "sum"),
            loop_value("t0 * a1", F4),
            along("t3", F4, "sum"),
            loop_value("t0 / t4", F4),
            down("t5", F4, "sum"),
        ),
        (4, 1, 2, 6),
    ),
    "rows apart": row_program(
        (Input(F4, BOTH), Input(F4, COLUMN)),
        (loop_value("a0 * a1", F4), down("t0", F4, "var")),
        (0, 1),
    ),
    "pick": row_program(
        (Input(F4, BOTH), Input("int64", ROW)),
        (loop_value("exp(a0)", F4), along("t0 + a1", F4, "pick"), loop_value("t0 - t1", F4)),
        (2,),
    ),
}


@pytest.mark.parametrize("name", [*NESTS, *ROWS])
@pytest.mark.parametrize("seed", range(3))
def test_a_right_source_passes(name: str, seed: int) -> None:
    program = (NESTS | ROWS)[name]
    source_checker.check_names(kernel_source.source(program))
    source_checker.check(program, kernel_source.source(program), seed)


@pytest.mark.parametrize("line", ["    lanes = field(params, 9)", "from toolkit import lost"])
def test_a_name_that_no_line_uses_is_found(line: str) -> None:
    text = kernel_source.source(ROWS["softmax"])
    before, head, body = text.partition("def run(params, start, stop):\n")
    wrong = f"{line}\n{text}" if line[0] == "f" else f"{before}{head}{line}\n{body}"
    with pytest.raises(SourceError, match="used by no line"):
        source_checker.check_names(wrong)


WIDE = (Input(F4, (True,)), Input(F4, (True,)))
LOOP = Recurrence(
    accesses=(
        Access("state", F4),
        Access("moving", F4),
        Access("fixed", F4),
        Access("next", F4),
        Access("moving", F4),
    ),
    phases=(
        Phase(
            (Product(0, 2),),
            (Loop(loop_nest(WIDE, (loop_value("tanh(a0 + a1)", F4),), (0, 0)), (2, 1), (3, 4)),),
        ),
    ),
    split=False,
)
LOOP_FAULTS = [
    (r"then \* s3", "now * s3", "is"),
    (r"t \* s4", "0 * s4", "stored twice"),
    (r"columns0, packed0|packed0, columns0", "packed0, columns0 - 1", "read before"),
    (r"min\(first \+ block, rows\)", "min(first + block, rows) + 1", "outside|stored twice"),
    (r"k, t0\)", "k + 1, t0)", "outside|stored twice|None"),
    (r"a0 \+ a1", "a0 - a1", "is #"),
]


@pytest.mark.parametrize(("what", "instead", "said"), LOOP_FAULTS)
def test_a_fault_of_a_loop_is_found(what: str, instead: str, said: str) -> None:
    text = scan_program.source(LOOP)
    scan_checker.check(LOOP, text)
    wrong = re.sub(what, instead, text)
    assert wrong != text, text
    with pytest.raises(SourceError, match=said):
        scan_checker.check(LOOP, wrong)


FAULTS = [  # a source, what is changed in it, and what the checker says
    ("two outputs", r"\n *store_float32\(w?y?0, .*", "", "never stored"),
    ("two outputs", r"(\n *store_float32\(y1, .*)", r"\1\1", "stored twice"),
    ("two outputs", r"base = rest \* n1", "base = rest * n1 + 1", "outside of arrays"),
    ("two outputs", r"t1 = t0 \* t0", "t1 = t0 * a1", "is #"),
    ("two outputs", r"store_float32\(y1, base \+ j, t1", "store_float32(y1, base + j, t0", "is #"),
    ("sum of columns", r"grown = plus\(grown, np.float64\(t0_1\)\)", "pass", "the sum"),
    ("sum of columns", r"np.float64\(0\)", "np.float64(1)", "the sum"),
    ("roots of columns", r"low \+ 128", "low + 127", "the sum"),
    ("roots of columns", r"lost\(grown, some, joint\)", "some", "the sum"),
    ("columns of float64", r"\(t0_0 \+ t0_1\)", "(t0_0 + t0_0)", "the sum"),
    ("mean of rows", r" / np.float64\(n1\)", "", "the mean"),
    ("mean of rows", r"min\(low \+ 4096, last\)", "min(low + 4096, last - 1)", "the mean|is never"),
    ("largest of the middle", r"maximum_float\(", "minimum_float(", "the max"),
    ("bool and float16", r"select\(t0", "select(not t0", "is #"),
    ("bool and float16", r"store_float16\(w1", "store_float16(w0", "of 2 bytes"),
    ("softmax", r"t2 = np.*", "t2 = np.float32(1)", "is #"),
    ("softmax", r"peek_float32\(y0, base \+ j", "peek_float32(y0, j", "stored twice"),
    ("variance and sum down", r"\+ count \* peek", "- count * peek", "is #"),
    ("variance and sum down", r"head \+ 32", "head + 33", "stored twice"),
    ("rows apart", r"first \+ width", "first + width + 1", "is #|stored twice"),
    ("rows apart", r" - total \* total / count", " - total", "is #"),
    ("pick", r"low = np.int64\(a1\)", "low = np.int64(a1) + 1", "is #|outside"),
]


@pytest.mark.parametrize(("name", "what", "instead", "said"), FAULTS)
def test_a_fault_is_found(name: str, what: str, instead: str, said: str) -> None:
    program = (NESTS | ROWS)[name]
    text = kernel_source.source(program)
    wrong = re.sub(what, instead, text)
    assert wrong != text, text
    with pytest.raises(SourceError, match=said):
        source_checker.check(program, wrong)


def test_a_value_kept_where_an_output_is_stored_in_the_same_sweep_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exponentials of a softmax, kept in the place of what the same sweep makes of them."""
    program = row_program(
        (Input(F4, BOTH),),
        (
            loop_value("exp(a0)", F4),
            loop_value("t0 * 2", F4),
            along("t0", F4, "sum"),
            loop_value("t0 / t2", F4),
        ),
        (1, 3),
    )
    source_checker.check(program, kernel_source.source(program))
    monkeypatch.setattr(Sweeps, "homes", {0: 0})
    with pytest.raises(SourceError, match="stored twice"):
        source_checker.check(program, kernel_source.source(program))
