"""Fused loops against NumPy: the scalar vocabulary, broadcasting, overlap, bad arrays."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_helpers import (
    FLOATS,
    INTEGERS,
    assert_same,
    compare_forms,
    compiled_at_once,
    kernel,
    pairs_of,
    specials,
    values,
)
from sampling import every

__all__ = ["compiled_at_once"]


from kbench.engine.codegen import loop_kernel
from kbench.engine.codegen.loop_kernel import source_of  # before a run's checks replace it
from kbench.engine.codegen.loop_program import Fold, Input, loop_nest, loop_value
from kbench.engine.codegen.writers import kernel_source
from kbench.engine.graph.expr.expression import input_leaf, parse
from kbench.engine.graph.expr.numpy_form import numpy_form
from kbench.engine.graph.expr.scalars import SCALARS

# ------------------------------------------------------------------ the vocabulary

UNARY = [name for name, row in SCALARS.items() if row.arity == 1 and name not in ("isnan", "isinf")]
BINARY = ["a0 + a1", "a0 - a1", "a0 * a1", "minimum(a0, a1)", "maximum(a0, a1)"]
BINARY += ["a0 // a1", "a0 % a1", "floordiv(a0, a1)", "mod(a0, a1)"]
COMPARE = ["a0 < a1", "a0 <= a1", "a0 > a1", "a0 >= a1", "a0 == a1", "a0 != a1"]


equal = np.testing.assert_array_equal


@pytest.mark.parametrize("dtype", every(3, ("float32", "float16", "float64")))
def test_every_unary_name_matches_numpy(dtype):
    results = {name: "bool" if SCALARS[name].result == "bool" else dtype for name in UNARY}
    rows = [(f"{name}(a0)", result) for name, result in results.items()]
    compare_forms(rows, [np.concatenate([values(dtype), specials(dtype)])], assert_same)


@pytest.mark.parametrize("dtype", every(3, ("float32", "float16", "float64")))
def test_signed_zeros_of_unary_names(dtype):
    names = ("abs", "floor", "ceil", "rint", "sqrt", "sin", "tanh", "erf", "expm1", "log1p")
    rows = [(f"{name}(a0)", dtype) for name in names]

    def same_sign(got, want):
        equal(np.signbit(got), np.signbit(want))

    compare_forms(rows, [np.array([0.0, -0.0], dtype)], same_sign)


@pytest.mark.parametrize("dtype", every(3, ("float32", "float16", "float64")))
def test_binary_operators_on_floats(dtype):
    rows = [(expr, dtype) for expr in [*BINARY, "a0 / a1"]]
    edges = pairs_of(specials(dtype))
    data = [
        np.concatenate([values(dtype, seed=n), edge])
        for n, edge in zip((3, 4), edges, strict=False)
    ]
    compare_forms(rows, data, assert_same)


INNER = [f"{name}(a0)" for name in UNARY if SCALARS[name].result != "bool"]
INNER += [*BINARY, "a0 / a1", "a0 ** 2", "a0 ** -1", "a0 ** 0.5", "a0 ** a1", "2.0 ** a0"]
INNER += ["where(a0 < a1, a0, a1)", "where(a0 < a1, 1, a1)", "cast(a0 < a1, '{dtype}')", "a0 + 1"]


@pytest.mark.parametrize("outer", every(4, ["exp", "tanh", "log", "sin"]))
@pytest.mark.parametrize("dtype", every(3, ["float16", "float32", "float64"]))
def test_every_name_keeps_the_dtype_for_the_next(dtype, outer):
    """A helper that widens would break the next one, which takes its bits for those of `dtype`."""
    data = [np.abs(values(dtype, seed=n)) % np.dtype(dtype).type(2) + 0.5 for n in (3, 4)]
    data = [one.astype(dtype) for one in data]
    limit = {"float16": 2e-2, "float32": 1e-5, "float64": 1e-12}[dtype]

    def close(got, want):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, limit, limit)

    compare_forms([(f"{outer}({one.format(dtype=dtype)})", dtype) for one in INNER], data, close)


@pytest.mark.parametrize("dtype", every(3, ("float32", "float16", "float64")))
def test_powers(dtype):
    edges = np.array([0, 1, -1, 2, -2, 0.5, 3, -3, np.inf, -np.inf, np.nan], dtype)
    compare_forms([("pow(a0, a1)", dtype)], pairs_of(edges), assert_same)
    x = np.abs(values(dtype)) + np.dtype(dtype).type(0.1)
    exprs = ("a0 ** 2", "a0 ** 3", "a0 ** 0.5", "a0 ** -1.5", "a0 ** 0", "2.0 ** a0")
    compare_forms([(expr, dtype) for expr in exprs], [x], assert_same)


@pytest.mark.parametrize("dtype", every(3, INTEGERS))
def test_integers_wrap_and_divide_like_numpy(dtype):
    x, y = values(dtype), values(dtype, seed=4)
    y[10:14] = 0
    if np.dtype(dtype).kind == "i":
        y[0] = -1  # the smallest integer by -1 is a trap in hardware
    exprs = (*BINARY, "abs(a0)", "sign(a0)", "square(a0)", "a0 ** 3", "-a0")
    small = np.where(y > 0, y % 7, 0).astype(dtype)
    rows = [(expr, dtype) for expr in (*exprs, "pow(a0, a2)")]
    compare_forms(rows, [x, y, small], equal)


@pytest.mark.parametrize("dtype", every(8, ("float32", "bool", *INTEGERS, "float16", "float64")))
def test_comparisons_and_logic(dtype):
    data = [values(dtype), values(dtype, seed=4)]
    if np.dtype(dtype).kind == "f":
        data = pairs_of(specials(dtype))
    logic = ["logical_and(a0, a1)", "logical_or(a0, a1)", "logical_not(a0)"]
    exprs = [*COMPARE, *logic, *([] if dtype == "bool" else ["isnan(a0)", "isinf(a0)"])]
    compare_forms([(expr, "bool") for expr in exprs], data, equal)


@pytest.mark.parametrize("source", every(8, ("float32", "bool", *INTEGERS, "float16", "float64")))
def test_casts(source):
    data = values(source)
    if np.dtype(source).kind == "f":
        data = np.concatenate([data, specials(source)])
    targets = ("bool", *INTEGERS, *FLOATS)
    compare_forms([(f"cast(a0, '{target}')", target) for target in targets], [data], equal)


ODD = [
    ("where(a0 > 0, a0, exp(2.0) * a0)", "float32"),
    ("where(a0 > 0, 1.0, 0.0)", "float32"),
    ("where(isnan(a0), 0, a0)", "float32"),
    ("minimum(maximum(a0, -1), 1)", "float32"),
    ("(a0 + 1e8) - 1e8", "float32"),
    ("cast(cast(a0, 'float16'), 'float32')", "float32"),
    ("a0 * inf", "float32"),
    ("a0 / -inf + pi", "float32"),
    ("2 - a0 * 3", "float32"),
    ("cast(a0 > 0, 'float32') * a0", "float32"),
    ("(a0 > 0) == (a0 < 1)", "bool"),
    ("+a0 * True", "float32"),
]


def test_mixed_expressions():
    compare_forms(ODD, [np.append(values("float32"), np.float32(np.nan))], assert_same)


BAD = [
    "__import__('os')",
    "a0.size",
    "exp(a0, a0)",
    "a0 if a0 else 1",
    "z",
    "[1]",
    "'a'",
    "a0 and a0",
]


@pytest.mark.parametrize("expr", [*BAD, "cast(a0, a0)", "a0 < a0 < a0", "exp(x=a0)", "1 +", ""])
def test_expressions_outside_the_vocabulary(expr):
    with pytest.raises(ValueError):
        numpy_form(parse(expr), (input_leaf(0),), "float32")
    with pytest.raises(ValueError):
        loop_value(expr, "float32")


def test_numpy_form_blocks_broadcasts_and_works_in_place():
    x = values("float32", 300_000).reshape(3, 100_000)
    column = np.array([[1.0], [2.0], [3.0]], np.float32)
    out = np.empty_like(x)
    numpy_form(parse("tanh(a0 * a1) + 1"), (input_leaf(0), input_leaf(1)), "float32")(
        out, x, column
    )
    assert_same(out, np.tanh(x * column) + np.float32(1))
    turned = np.empty((100_000, 3), np.float32)
    numpy_form(parse("tanh(a0) * a1"), (input_leaf(0), input_leaf(1)), "float32")(
        turned, x.T, np.float32(2)[...]
    )
    assert_same(turned, np.tanh(x.T) * np.float32(2))
    want = np.tanh(x) * np.float32(2)
    numpy_form(parse("tanh(a0) * 2"), (input_leaf(0),), "float32")(x, x)
    assert_same(x, want)


# ------------------------------------------------------------------ loop nests

PATTERNS = [
    ((5,), [(True,), (False,)]),
    ((4, 7), [(True, True), (False, True), (True, False), (False, False)]),
    ((3, 1, 5), [(True, False, True), (False, True, True)]),
    ((2, 3, 4), [(True, False, True), (False, True, False), (True, True, True)]),
    ((2, 3, 4, 5), [(True, False, True, False), (False, True, False, True), (True,) * 4]),
    ((300, 500), [(True, True), (False, True)]),
    ((2, 70_000), [(True, True), (True, False)]),
    ((0, 3), [(True, True), (False, True)]),
    ((), [(), ()]),
]


@pytest.mark.parametrize(("dims", "patterns"), every(2, PATTERNS))
def test_broadcast_patterns(dims, patterns):
    random = np.random.default_rng(1)
    arrays = [
        random.normal(size=[n if v else 1 for n, v in zip(dims, p, strict=True)]) for p in patterns
    ]
    expr = " + ".join(f"{n + 1} * a{n}" for n in range(len(arrays)))
    inputs = tuple(Input("float64", pattern) for pattern in patterns)
    out = np.empty(dims)
    kernel(loop_nest(inputs, (loop_value(expr, "float64"),), (0,))).run([out], arrays, dims)
    want = np.broadcast_to(sum((n + 1) * array for n, array in enumerate(arrays)), dims)
    np.testing.assert_allclose(out, want, rtol=1e-14)


def test_several_outputs_and_no_inputs():
    statements = (
        loop_value("a0 * 2", "float32"),
        loop_value("t0 > 0", "bool"),
        loop_value("where(t1, t0, 0)", "float16"),
    )
    x = values("float32")
    doubled, positive, half = (np.empty(len(x), d) for d in ("float32", "bool", "float16"))
    program = loop_nest((Input("float32", (True,)),), statements, (0, 1, 2))
    kernel(program).run([doubled, positive, half], [x], x.shape)
    np.testing.assert_array_equal(doubled, x * 2)
    np.testing.assert_array_equal(positive, x > 0)
    np.testing.assert_array_equal(half, np.where(x > 0, x * 2, 0).astype("float16"))
    constant = np.empty(9, "float32")
    kernel(loop_nest((), (loop_value("1.5 * 2", "float32"),), (0,))).run([constant], [], (9,))
    assert (constant == 3).all()


def test_strided_inputs_are_read_where_they_are_or_copied():
    base = values("float32", 6 * 16).reshape(6, 16)
    program = loop_nest((Input("float32", (True, True)),), (loop_value("a0 + 1", "float32"),), (0,))
    for x in (base[::2], base[:, ::2], base[:, 3:9], base[::-1], base.T, base[:, ::-1]):
        out = np.empty(x.shape, np.float32)
        kernel(program).run([out], [x], x.shape)
        np.testing.assert_array_equal(out, x + 1)


def test_results_may_overlap_inputs():
    buffer = values("float32", 1001)
    want = buffer[:-1] * 2
    program = loop_nest((Input("float32", (True,)),), (loop_value("a0 * 2", "float32"),), (0,))
    kernel(program).run([buffer[1:]], [buffer[:-1]], (1000,))
    np.testing.assert_array_equal(buffer[1:], want)
    x = values("float32", 1000)
    want = x * 2
    kernel(program).run([x], [x], (1000,))
    np.testing.assert_array_equal(x, want)
    two = (loop_value("a0 + 1", "float32"), loop_value("a0 * 2", "float32"))
    x = values("float32", 1000)
    want, other = (x + 1, x * 2), np.empty_like(x)
    program = loop_nest((Input("float32", (True,)),), two, (0, 1))
    kernel(program).run([x, other], [x], (1000,))
    np.testing.assert_array_equal((x, other), want)
    row = values("float32", 8)
    square = np.tile(row, (8, 1))
    inputs = (Input("float32", (True, True)), Input("float32", (False, True)))
    program = loop_nest(inputs, (loop_value("a0 - a1", "float32"),), (0,))
    kernel(program).run([square], [square, square[0]], (8, 8))
    assert (square == 0).all()


WRONG_ARRAYS = [
    ("short output", [np.empty(4, "float32")], [np.empty(5, "float32")], (5,)),
    ("short input", [np.empty(5, "float32")], [np.empty(4, "float32")], (5,)),
    ("output dtype", [np.empty(5, "float64")], [np.empty(5, "float32")], (5,)),
    ("input dtype", [np.empty(5, "float32")], [np.empty(5, "int32")], (5,)),
    ("strided output", [np.empty(10, "float32")[::2]], [np.empty(5, "float32")], (5,)),
    ("missing input", [np.empty(5, "float32")], [], (5,)),
    ("missing output", [], [np.empty(5, "float32")], (5,)),
    ("rank", [np.empty(5, "float32")], [np.empty(5, "float32")], (5, 1)),
    ("negative", [np.empty(5, "float32")], [np.empty(5, "float32")], (-5,)),
    ("read-only", [np.broadcast_to(np.float32(0), 1)], [np.empty(1, "float32")], (1,)),
]


@pytest.mark.parametrize(
    ("outs", "ins", "dims"), [row[1:] for row in WRONG_ARRAYS], ids=[row[0] for row in WRONG_ARRAYS]
)
def test_arrays_that_do_not_fit_are_refused(outs, ins, dims):
    program = loop_nest((Input("float32", (True,)),), (loop_value("a0 + 1", "float32"),), (0,))
    with pytest.raises(ValueError):
        kernel(program).run(outs, ins, dims)


WRONG_PROGRAMS = [
    {"inputs": (Input("complex64", (True,)),)},
    {"inputs": (Input("float32", (True,)), Input("float32", (True, True)))},
    {"values": ()},
    {"outputs": (1,)},
    {"outputs": ()},
    {"fold": Fold("median", 0, 1)},
    {"fold": Fold("sum", 0, 2)},
    {"fold": Fold("sum", 1, 1)},
]


@pytest.mark.parametrize("change", WRONG_PROGRAMS)
def test_programs_that_make_no_sense(change):
    good = {
        "inputs": (Input("float32", (True,)),),
        "values": (loop_value("a0", "float32"),),
        "outputs": (0,),
    }
    loop_nest(**good)
    with pytest.raises(ValueError):
        loop_nest(**(good | change))


# ------------------------------------------------------------------ sources


def test_a_source_is_written_once_for_all_processes(tmp_path, monkeypatch):
    def fail(_program):
        raise AssertionError("it is written again")

    monkeypatch.setenv("KBENCH_CACHE_DIR", str(tmp_path))
    program = loop_nest([Input("float32", (True,))], [loop_value("a0 + 1", "float32")], [0])
    written = source_of(program)
    assert written == kernel_source.source(program)
    monkeypatch.setattr(kernel_source, "source", fail)
    assert source_of(program) == written
    monkeypatch.setattr(loop_kernel, "_writers", lambda: "what writes was edited")
    with pytest.raises(AssertionError, match="written again"):
        source_of(program)
