"""Sparse tensors: what is taken, what is refused, products and their gradients.

The op table (`cases_sparse`) holds the values of each operation; here is what it cannot say.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbench import backend as K
from kbench.api.operations import sparse_constant
from kbench.engine.core import cancel, csr
from kbench.engine.ops.sparse.sparse_ops import cast_sparse
from kbench.workbench.inspector import summary

VALUES = np.array([[0, 2, 0, -1], [0, 0, 0, 0], [3, 0, 0.5, 0]], "float32")
FORMATS = ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")


def matrices(values: np.ndarray) -> list[Any]:
    """The values in every format, as matrices and as arrays."""
    whole = [sp.csr_matrix(values), sp.csr_array(values)]
    return [one.asformat(form) for one in whole for form in FORMATS]


def unsorted() -> Any:
    """Entries out of order, and one of them in two parts."""
    rows, columns = [2, 0, 2, 0, 2], [2, 3, 0, 1, 2]
    return sp.coo_array(([0.25, -1, 3, 2, 0.25], (rows, columns)), shape=VALUES.shape)


# ------------------------------------------------------------------ made and fed


@pytest.mark.parametrize("matrix", [*matrices(VALUES), unsorted()], ids=lambda one: repr(one)[:40])
def test_every_format_is_taken(matrix: Any) -> None:
    before = matrix.copy()
    v = K.variable(matrix)
    x = K.placeholder((None, 4), sparse=True)
    stored = K.variable(sp.csr_array(VALUES.shape))
    K.set_value(stored, matrix)
    for value in (K.eval(v), K.eval(stored), K.function([x], [K.to_dense(x)])([matrix])[0]):
        assert value.dtype == "float32"
        np.testing.assert_array_equal(value, VALUES)
    assert (before != matrix).nnz == 0
    assert (K.get_value(v).nnz, K.get_value(v).indices.dtype) == (4, "int32")


@pytest.mark.parametrize("dtype", csr.SPARSE_DTYPES)
def test_dense_arrays_are_taken_again_and_again(dtype: str) -> None:
    values, by = np.array([[0, 1], [1, 0]], dtype), np.array([[2, 0], [0, 3]], dtype)
    x, y = K.placeholder((2, 2), dtype=dtype, sparse=True), K.placeholder((2, 2), dtype=dtype)
    both = K.function([x, y], [K.to_dense(x), K.dot(x, y)])
    for matrix in (values, sp.csr_array(values), values, values.tolist(), values):
        for got, want in zip(both([matrix, by]), (values, values @ by), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", csr.SPARSE_DTYPES)
def test_every_dtype(dtype: str) -> None:
    values = np.array([[0, 1], [1, 0]], dtype)
    v = K.variable(sp.csr_array(values), dtype)
    x = K.placeholder((None, None), dtype=dtype, sparse=True)
    (fed,) = K.function([x], [x])([sp.coo_array(values)])
    assert K.dtype(v) == K.dtype(x) == fed.dtype == K.get_value(v).dtype == dtype
    np.testing.assert_array_equal(fed.toarray(), values)
    np.testing.assert_array_equal(K.eval(v), values)


def test_what_a_sparse_tensor_tells() -> None:
    v, x = K.variable(sp.eye(3)), K.placeholder((None, 4), sparse=True, dtype="int32")
    assert K.is_sparse(v) and K.is_sparse(x) and v.is_sparse
    assert K.is_variable(v) and K.is_placeholder(x) and K.is_tensor(v)
    assert (K.int_shape(v), K.int_shape(x), v._keras_shape) == ((3, 3), (None, 4), (3, 3))
    assert (K.dtype(v), K.ndim(x), K.count_params(v)) == ("float32", 2, 9)
    assert str(x.spec) == "sparse int32[?, 4]"
    assert not any(map(K.is_sparse, (K.to_dense(v), K.zeros((2, 2)), sp.eye(3), None, 3)))
    assert K.int_shape(K.placeholder(ndim=2, sparse=True)) == (None, None)
    assert K.to_dense(dense := K.zeros((2,))) is dense


def test_values_are_copied_on_the_way_in_and_out() -> None:
    matrix = sp.csr_array(VALUES)
    v = K.variable(matrix)
    matrix.data[:] = 9
    K.get_value(v).data[:] = 8
    K.function([], [v])([])[0].data[:] = 7
    K.function([], [K.identity(v)])([])[0].data[:] = 6
    np.testing.assert_array_equal(K.eval(v), VALUES)
    np.testing.assert_array_equal(np.asarray(v), VALUES)
    K.set_value(v, matrix)
    matrix.data[:] = 5
    assert K.get_value(v).data.tolist() == [9.0] * 4
    with pytest.raises(ValueError):
        v.peek().data[0] = 5


def test_arrays_are_taken_without_their_zeros() -> None:
    v, x = K.variable(sp.eye(2)), K.placeholder((2, 2), sparse=True)
    K.set_value(v, [[0, 0], [4, 0]])
    assert (K.get_value(v).nnz, v.version) == (1, 1)
    (fed,) = K.function([x], [x])([np.array([[0, 2], [0, 0]])])
    assert fed.nnz == 1


def broken(kind: str) -> Any:
    """A matrix whose indices point outside of it."""
    matrix = sp.csr_array(VALUES).asformat(kind)
    if kind in ("csr", "csc", "bsr"):
        matrix.indices[0] = 1000
    elif kind == "coo":
        matrix.coords[1][0] = -7
    elif kind == "dia":
        matrix.offsets = np.tile(matrix.offsets, 50)
    elif kind == "dok":
        matrix._dict[-5, 9] = 1
    else:
        matrix.rows[0][0] = 1000
    return matrix


def unequal() -> Any:
    matrix = sp.lil_array(VALUES)
    matrix.data[0] = list(range(1000))
    return matrix


def short(kind: str) -> Any:
    (matrix := sp.csr_array(VALUES).asformat(kind)).indptr[-1] = 1000
    return matrix


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_indices_that_were_checked_are_nobody_elses(form: str) -> None:
    matrix = sp.csr_array(VALUES).asformat(form)
    taken = csr.as_csr(matrix)
    own = matrix.coords if form == "coo" else (matrix.indices, matrix.indptr)
    for one in (taken.indices, taken.indptr):
        assert not any(np.shares_memory(one, other) for other in own)


@pytest.mark.parametrize(
    "make",
    [lambda k=k: broken(k) for k in FORMATS]
    + [lambda k=k: short(k) for k in ("csr", "csc", "bsr")]
    + [unequal],
)
def test_broken_indices_never_reach_a_loop(make: Callable[[], Any]) -> None:
    x = K.placeholder((None, None), sparse=True)
    v = K.variable(sp.csr_array(VALUES))
    for call in (
        lambda: K.variable(make()),
        lambda: K.set_value(v, make()),
        lambda: K.function([x], [K.to_dense(x)])([make()]),
    ):
        with pytest.raises((K.ArgumentError, K.FeedError), match="no valid sparse matrix|index"):
            call()
    np.testing.assert_array_equal(K.eval(v), VALUES)


def test_integers_are_fed_exactly() -> None:
    x = K.placeholder((2, 2), sparse=True, dtype="int32")
    double = K.function([x], [K.to_dense(x)])
    assert double([sp.csr_array([[0, 2.0], [0, 0]])])[0].tolist() == [[0, 2], [0, 0]]
    with pytest.raises(K.FeedError, match="int32 cannot"):
        double([sp.csr_array([[0, 2.5], [0, 0]])])


def test_storing() -> None:
    a, b = K.variable(sp.csr_array(VALUES)), K.variable(sp.csr_array(2 * VALUES))
    K.function([], [], [(a, b), (b, a)])([])
    np.testing.assert_array_equal(K.eval(a), 2 * VALUES)
    np.testing.assert_array_equal(K.eval(b), VALUES)
    stored = K.eval(K.update(a, K.cast(K.cast(b, "int32"), "float32")))
    np.testing.assert_array_equal(stored, np.trunc(VALUES))
    K.batch_set_value([(a, VALUES), (b, sp.csc_array(VALUES))])
    assert [one.nnz for one in K.batch_get_value([a, b])] == [4, 4]
    with pytest.raises(K.ShapeError):
        K.batch_set_value([(a, sp.csr_array(VALUES.shape)), (b, sp.eye(2))])
    assert K.get_value(a).nnz == 4
    joined = K.concatenate([a, b], axis=0)
    assert K.get_value(joined).nnz == K.get_value(K.variable(joined)).nnz == 8
    assert K.is_sparse(K.variable(a)) and K.int_shape(K.variable(joined)) == (6, 4)


# ------------------------------------------------------------------ computing


def random_pair(rows: int, inner: int, columns: int, dtype: str = "float64") -> tuple[Any, Any]:
    random = np.random.default_rng(rows + inner)
    x = sp.random_array((rows, inner), density=0.2, rng=random, dtype=dtype)
    return x.tocsr(), random.uniform(-1, 1, (inner, columns)).astype(dtype)


@pytest.mark.parametrize("piece", [1, 50, 1 << 26])
@pytest.mark.parametrize("first", ["sparse", "dense"])
def test_gradients_are_those_of_the_dense_product(
    first: str, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csr, "MAX_PIECE_PRODUCTS", piece)
    a, b = random_pair(30, 20, 7)
    b = b if first == "sparse" else b[:, :6].T.reshape(6, 20) @ np.ones((20, 30))
    both = []
    for matrix in (a, a.toarray()):
        s, d = K.variable(matrix, "float64"), K.variable(b, "float64")
        z = K.dot(s, d) if first == "sparse" else K.dot(d, s)
        (g,) = K.gradients(K.sum(z * z * z), [d])
        (again,) = K.gradients(K.sum(g * g), [d])
        both.append(K.function([], [z, g, again])([]))
    for got, wanted in zip(*both, strict=True):
        np.testing.assert_allclose(got, wanted, 1e-12, 1e-12)


DTYPES = [
    ("float32", "float64", "float64"),
    ("float64", "float32", "float64"),
    ("int32", "float32", "float32"),
    ("int64", "float16", "float16"),
    ("float32", "float16", "float32"),
    ("bool", "bool", "int32"),
    ("int8", "int32", "int32"),
]


@pytest.mark.parametrize(("first", "second", "wanted"), DTYPES)
def test_products_of_two_dtypes(first: str, second: str, wanted: str) -> None:
    a, b = np.array([[0, 1], [1, 1]], first), np.array([[1, 1], [0, 1]], second)
    s, d = K.variable(sp.csr_array(a), first), K.variable(b, second)
    for z, values in ((K.dot(s, d), a.astype(int) @ b), (K.dot(d, s), b @ a.astype(int))):
        assert K.dtype(z) == K.eval(z).dtype == wanted
        np.testing.assert_array_equal(K.eval(z), values)


def test_the_operator_multiplies_too() -> None:
    s = K.variable(sp.csr_array(VALUES))
    np.testing.assert_array_equal(K.eval(s @ np.eye(4, 2)), VALUES[:, :2])
    np.testing.assert_array_equal(K.eval(np.ones(3, "float32") @ s), VALUES.sum(0))


def test_no_gradient_flows_to_the_entries() -> None:
    s, d = K.variable(sp.csr_array(VALUES)), K.variable(np.ones((4, 2)))
    loss = K.sum(K.dot(s, d)) + K.sum(K.to_dense(s))
    found = K.gradients(loss, [s, d])
    assert found[0] is None
    np.testing.assert_array_equal(K.eval(found[1]), np.repeat(VALUES.sum(0)[:, None], 2, 1))
    assert K.gradients(K.sum(K.to_dense(s)), s) == [None]


def test_what_stays_sparse() -> None:
    s, x = K.variable(sp.csr_array(VALUES)), K.placeholder((None, None), sparse=True)
    joined = K.concatenate([s, x], axis=0)
    chosen = K.switch(K.placeholder(()) > 0, s, x)
    for one in (K.identity(s), K.stop_gradient(s), K.cast(s, "int32"), joined, chosen):
        assert K.is_sparse(one)
    assert (K.int_shape(joined), K.int_shape(chosen)) == ((None, 4), (None, None))
    assert K.is_sparse(K.concatenate([s])) and not K.is_sparse(K.concatenate([s, VALUES]))
    (value,) = K.function([x], [joined])([sp.csr_array((0, 4))])
    np.testing.assert_array_equal(value.toarray(), VALUES)
    with pytest.raises(K.ShapeError, match=r"sparse float32\[2, 3\]"):
        K.function([x], [joined])([sp.csr_array((2, 3))])


@pytest.mark.parametrize("through", ["float16", "float32"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_a_cast_rounds_to_a_dtype_that_scipy_lacks(dtype: str, through: str) -> None:
    values = np.array([[0, 1.0 / 3], [70_000.0, -3.00001]]).astype(dtype)
    x = K.placeholder((None, None), dtype=dtype, sparse=True)
    cast = cast_sparse(x, "float32", through=through)
    assert str(cast.spec) == "sparse float32[?, ?]"
    with np.errstate(over="ignore"):
        wanted = values.astype(through).astype("float32")
    np.testing.assert_array_equal(cast.eval(feed_dict={x: sp.csr_array(values)}), wanted)
    assert K.gradients(K.sum(K.to_dense(cast)), x) == [None]


def test_a_sparse_constant_is_known_and_can_be_fed() -> None:
    x = sparse_constant(sp.csr_array(VALUES))
    d = K.variable(np.ones((4, 2)))
    product = K.dot(x, d)
    np.testing.assert_array_equal(K.eval(x), VALUES)
    np.testing.assert_array_equal(K.eval(product), VALUES @ np.ones((4, 2)))
    (slope,) = K.gradients(K.sum(product), [d])
    np.testing.assert_array_equal(K.eval(slope), np.repeat(VALUES.sum(0)[:, None], 2, 1))
    function = K.function([x], [product, slope])
    for _ in range(12):  # steps are captured after some
        found = function([sp.csr_array(2 * VALUES)])
        np.testing.assert_array_equal(found[0], 2 * VALUES @ np.ones((4, 2)))
    copy = pickle.loads(pickle.dumps(product))
    np.testing.assert_array_equal(K.eval(copy), K.eval(product))


def test_only_the_side_taken_is_computed() -> None:
    s, flag = K.variable(sp.csr_array(VALUES)), K.placeholder(())
    broken_side = K.ctc_label_dense_to_sparse(K.zeros((3, 4)), K.constant([9, 9, 9], "int32"))
    chosen = K.switch(flag > 0, s, broken_side)
    np.testing.assert_array_equal(chosen.eval(feed_dict={flag: 1}), VALUES)
    with pytest.raises(K.ArgumentError, match=r"label_lengths\[0\] is 9"):
        chosen.eval(feed_dict={flag: 0})


def test_shapes_at_run_time() -> None:
    x = K.placeholder((None, None), sparse=True)
    shape, size = K.function([x], [K.shape(x), K.size(x)])([sp.csr_array((5, 7))])
    assert (shape.tolist(), size) == ([5, 7], 35)
    product = K.dot(x, K.ones((4, 2)))
    with pytest.raises(K.ShapeError) as caught:
        product.eval(feed_dict={x: sp.eye(3)})
    assert caught.value.function == "dot"
    assert "sparse float32[3, 3]" in str(caught.value)


REFUSED: list[Callable[[Any], Any]] = [
    lambda s: s + 1,
    lambda s: -s,
    lambda s: s[0],
    lambda s: s < 1,
    lambda s: list(s),
    K.exp,
    K.sum,
    K.argmax,
    K.softmax,
    K.transpose,
    K.zeros_like,
    lambda s: K.reshape(s, (-1,)),
    lambda s: K.gather(s, [0]),
    lambda s: K.stack([s, s]),
    lambda s: K.batch_dot(s, s),
    lambda s: K.bias_add(s, K.ones((4,))),
    lambda s: K.dropout(s, 0.5),
    lambda s: K.categorical_crossentropy(s, s),
    lambda s: K.switch([[True] * 4] * 3, s, s),
    lambda s: K.gradients(s, s),
    lambda s: K.update_add(s, 1.0),
    lambda s: K.update(s, K.ones((3, 4))),
    lambda s: K.update(K.ones((3, 4)), s),
    lambda s: K.switch(K.constant(True), s, K.to_dense(s)),
    lambda s: K.dot(s, s),
    lambda s: K.dot(sp.eye(3), s),
    lambda s: K.concatenate([s, sp.eye(4)], axis=0),
    lambda s: K.cast(s, "float16"),
    lambda s: K.map_fn(lambda row: row, s),
    lambda s: K.map_fn(lambda row: s, K.ones((2, 3))),
    lambda s: K.foldl(lambda total, row: s, K.ones((2, 3, 4))),
]


@pytest.mark.parametrize("call", REFUSED)
def test_other_operations_refuse_sparse_tensors(call: Callable[[Any], Any]) -> None:
    s = K.variable(sp.csr_array(VALUES))
    with pytest.raises(K.DtypeError, match="sparse") as caught:
        call(s)
    assert caught.value.place is not None
    assert caught.value.place.file == __file__


DTYPE = st.sampled_from(["float32", "float64", "int32", "int64"])
SIZES = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 4))


@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
@given(SIZES, DTYPE, st.sampled_from(FORMATS), st.integers(0, 1), st.integers(0, 2**32))
def test_sparse_equals_dense(sizes: Any, dtype: str, form: str, axis: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, inner, columns = sizes
    a = (random.integers(-4, 5, (rows, inner)) * random.integers(0, 2, (rows, inner))).astype(dtype)
    b = random.integers(-4, 5, (inner, columns)).astype(dtype)
    x = K.placeholder((None, None), dtype=dtype, sparse=True)
    y = K.placeholder((None, None), dtype=dtype)
    joined = K.to_dense(K.concatenate([x, x], axis))
    flipped = K.variable(sp.csr_array(a.T), dtype)
    outputs = [K.dot(x, y), K.transpose(K.dot(K.transpose(y), flipped)), joined]
    got = K.function([x, y], outputs)([sp.csr_array(a).asformat(form), b])
    for value, wanted in zip(got, (a @ b, a @ b, np.concatenate([a, a], axis)), strict=True):
        assert value.dtype == dtype
        np.testing.assert_array_equal(value, wanted)


# ------------------------------------------------------------------ large ones, and stopping


def test_a_large_matrix_is_never_made_dense() -> None:
    size = 1_000_000
    matrix = sp.csr_array(([1.0, 2.0], ([0, size - 1], [size - 1, 5])), shape=(size, size))
    v = K.variable(matrix)
    out = K.eval(K.dot(v, K.ones((size, 1))))
    assert (out[0, 0], out[-1, 0], out.sum()) == (1, 2, 3)
    assert "2 entries" in summary.line(v)
    for call in (lambda: K.eval(v), lambda: K.eval(K.to_dense(v)), lambda: np.asarray(v)):
        with pytest.raises(MemoryError, match="4,000"):
            call()


def test_a_matrix_is_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, _ = random_pair(40, 30, 1)
    monkeypatch.setattr(csr, "MAX_UNCHECKED_CELLS", 70)
    np.testing.assert_array_equal(csr.as_dense(matrix), matrix.toarray())
    for shape in ((0, 3), (3, 0), (0, 0)):
        assert csr.as_dense(sp.csr_array(shape)).shape == shape


def test_a_long_product_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csr, "MAX_PIECE_PRODUCTS", 1)
    looked: list[int] = []

    def check() -> None:
        looked.append(1)
        if len(looked) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(cancel, "check", check)
    with pytest.raises(KeyboardInterrupt):
        csr.multiply(sp.csr_array(np.ones((9, 2))), np.ones((2, 2)), False)
    assert len(looked) == 3


def test_many_threads_read_while_one_stores() -> None:
    v, ones = K.variable(sp.eye(50)), K.ones((50, 1))
    product = K.function([], [K.dot(v, ones)])
    seen: list[float] = []

    def read() -> None:
        seen.extend(product([])[0].ravel()[0] for _ in range(50))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for one in threads:
        one.start()
    for number in range(1, 60):
        K.set_value(v, number * sp.eye(50))
    for one in threads:
        one.join()
    assert len(seen) == 200 and all(value == int(value) for value in seen)
