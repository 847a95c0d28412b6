"""Functions of Keras 3 of matrices of SciPy: what arrays give; gradients are never lost."""

import keras3_there  # noqa: F401  # isort: skip
import inspect

import keras
import numpy as np
import pytest
import scipy.sparse as sp
from keras import layers, ops
from keras3_traces import assert_close

from kbench import backend as K
from kbench.keras3.calls.program import programs
from kbench.keras3.core import traced
from kbench.keras3.gradients import gradients
from kbench.keras3.tensor import Traced, from_wide

DRAW = np.random.RandomState(5)
ROWS, COLUMNS = 37, 24
X = np.where(DRAW.rand(ROWS, COLUMNS) < 0.2, DRAW.uniform(-1, 1, (ROWS, COLUMNS)), 0.0)
X = X.astype("float32")
Y = DRAW.randn(ROWS, 2).astype("float32")
S = sp.csr_matrix(X)
W = DRAW.uniform(-1, 1, (COLUMNS, 3)).astype("float32")


PRODUCTS = {  # how -> the product of two factors, either of which may be a matrix of SciPy
    "matmul": (ops.matmul, X, W),
    "matmul_vector": (ops.matmul, X, W[:, 0]),
    "matmul_second": (ops.matmul, W.T, X.T),
    "matmul_vector_second": (ops.matmul, W[:, 0], X.T),
    "matmul_many": (ops.matmul, X, np.stack([W, W + 1])),
    "dot": (ops.dot, X, W),
    "dot_vector": (ops.dot, X, W[:, 0]),
    "dot_second": (ops.dot, W.T, X.T),
    "dot_many": (ops.dot, X, np.stack([W, W + 1])),
    "dot_number": (ops.dot, X, 2.0),
    "tensordot": (lambda x, y: ops.tensordot(x, y, 1), X, W),
    "einsum": (lambda x, y: ops.einsum("ab,bc->ca", x, y), X, W),
    "inner": (ops.inner, X, W.T),
}


def _matrices(x, y):
    """The factors, with a matrix in the first place, in the second, and in both."""
    one, two = (sp.csr_array(f) if getattr(f, "ndim", 0) == 2 else f for f in (x, y))
    return (one, y), (x, two), (one, two)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_matrices_are_those_of_arrays(name):
    function, x, y = PRODUCTS[name]
    wanted = function(x, y)
    for factors in _matrices(x, y):
        found = function(*factors)
        assert type(found) is np.ndarray and found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        with traced():
            node = function(*factors)
        if any(map(sp.issparse, factors)):
            assert node.dtype == wanted.dtype and node.shape == wanted.shape
            np.testing.assert_allclose(K.eval(node.node), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["matmul", "dot"])
@pytest.mark.parametrize("first", ["bool", "int8", "uint8", "int32", "int64", "float64"])
@pytest.mark.parametrize("second", ["bool", "int8", "int32", "float16", "bfloat16", "float64"])
def test_products_have_the_dtype_of_arrays(name, first, second):
    x, y = np.abs(4 * X).astype(first), np.abs(4 * W).astype(second)
    function = getattr(ops, name)
    wanted = function(x, y)
    with traced():
        symbol = function(sp.csr_array(x), y)
    traced_value = from_wide(K.eval(symbol.node), symbol.dtype)
    for found in (function(sp.csr_array(x), y), traced_value):
        assert found.dtype == wanted.dtype
        near = 0.01 if second in ("float16", "bfloat16") else 1e-6
        np.testing.assert_allclose(found.astype(float), wanted.astype(float), near, near)


OTHERS = {
    "convert_to_tensor": ops.convert_to_tensor,
    "convert_to_tensor_dtype": lambda x: ops.convert_to_tensor(x, "float16"),
    "convert_to_tensor_dense": lambda x: ops.convert_to_tensor(x, sparse=False),
    "convert_to_numpy": ops.convert_to_numpy,
    "cast": lambda x: ops.cast(x, "int32"),
    "array": ops.array,
    "add": lambda x: ops.add(x, 1.0),
    "add_second": lambda x: ops.add(W[:, 0], x),
    "multiply": lambda x: ops.multiply(x, x),
    "equal": lambda x: ops.equal(x, 0.0),
    "sum": lambda x: ops.sum(x, axis=0),
    "max": ops.max,
    "softmax": ops.softmax,
    "transpose": ops.transpose,
    "reshape": lambda x: ops.reshape(x, (-1, 6)),
    "concatenate": lambda x: ops.concatenate([x, X], axis=1),
    "stack": lambda x: ops.stack([x, x]),
    "where": lambda x: ops.where(x, x, -1.0),
    "take": lambda x: ops.take(x, [1, 3], axis=1),
    "norm": ops.norm,
    "size": ops.size,
    "ndim": ops.ndim,
    "shape": ops.shape,
    "zeros_like": ops.zeros_like,
    "segment_sum": lambda x: ops.segment_sum(x, np.arange(ROWS) % 3, 3),
    "scan": lambda x: ops.scan(lambda c, v: (c + v, c), np.zeros(COLUMNS, "float32"), x),
    "binary_crossentropy": lambda x: ops.binary_crossentropy(x, ops.sigmoid(X)),
    "tree": lambda x: [ops.vectorized_map(ops.abs, x), ops.slice(x, (1, 2), (3, 4))],
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("form", ["csr_matrix", "coo_array"])
def test_every_other_function_takes_a_matrix_as_an_array(name, form):
    function = OTHERS[name]
    found, wanted = function(getattr(sp, form)(X)), function(X)
    assert_close(found, wanted)
    for one, other in zip(keras.tree.flatten(found), keras.tree.flatten(wanted), strict=True):
        assert isinstance(one, np.ndarray) == isinstance(other, np.ndarray)


def test_matrices_of_one_axis_and_of_complex_numbers_are_arrays():
    line, turned = sp.coo_array(X[0]), sp.csr_array(X * 1j)
    np.testing.assert_array_equal(ops.convert_to_tensor(line), X[0])
    np.testing.assert_allclose(ops.matmul(line, W), X[0] @ W, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ops.convert_to_numpy(turned), X * 1j)
    assert not ops.is_tensor(S)


def test_a_broken_matrix_is_refused():
    broken = sp.csr_array(X)
    broken.indices[0] = COLUMNS + 5
    model = keras.Sequential([layers.Dense(2)])
    for call in (ops.sum, lambda x: ops.matmul(x, W), model, model.predict_on_batch):
        with pytest.raises(ValueError, match=str(COLUMNS + 5)):
            call(broken)


# ------------------------------------------------------------------ gradients


def _slopes(matrix, kernel):
    """The gradients of a loss to the kernel, by the engine and by differences in float64."""

    def loss(w):
        return float(np.sum(np.tanh(matrix.toarray().astype("float64") @ w) ** 2))

    variable = keras.Variable(kernel)
    found = gradients(lambda: ops.sum(ops.tanh(ops.matmul(matrix, variable)) ** 2), [variable])
    w, wanted = kernel.astype("float64"), np.zeros(kernel.shape)
    for place in np.ndindex(kernel.shape):
        step = np.zeros(kernel.shape)
        step[place] = 1e-6
        wanted[place] = (loss(w + step) - loss(w - step)) / 2e-6
    return found[0], wanted


def test_a_loop_of_ones_own_has_the_gradient_of_differences_and_keeps_its_program():
    programs.clear()
    for form in ("csr_array", "csc_matrix"):
        found, wanted = _slopes(getattr(sp, form)(X), W)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    programs.clear()
    variable = keras.Variable(W)
    for scale in (1.0, 2.0, 3.0):
        matrix = sp.csr_array(scale * X)
        (found,) = gradients(lambda m=matrix: ops.sum(ops.matmul(m, variable)), [variable])
        wanted = np.repeat(matrix.sum(0)[:, None], 3, 1)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert len(programs.recent) == 1


@pytest.mark.parametrize("eager", [False, True])
def test_a_constant_matrix_within_a_layer_passes_gradients(eager):
    """A convolution over a graph: its neighbours are a matrix that does not change."""
    near = sp.csr_array((DRAW.rand(ROWS, ROWS) < 0.1).astype("float32"))

    class Graph(layers.Layer):
        def __init__(self, matrix):
            super().__init__()
            self.matrix, self.dense = matrix, layers.Dense(2)

        def call(self, x):
            return ops.matmul(self.matrix, self.dense(x))

    found = []
    for matrix in (near, near.toarray()):
        keras.utils.set_random_seed(4)
        model = keras.Sequential([Graph(matrix)])
        model.compile(keras.optimizers.SGD(0.05), "mse", run_eagerly=eager)
        found.append([[model.train_on_batch(X, Y) for _ in range(4)], model.get_weights()])
    assert_close(*found, rtol=1e-4, atol=1e-5)


def test_a_matrix_multiplies_in_a_functional_model_and_in_a_loop():
    near = sp.csr_array((DRAW.rand(ROWS, ROWS) < 0.1).astype("float32") / 4)
    found = []
    for matrix in (near, near.toarray()):

        class Spread(layers.Layer):
            def call(self, x, matrix=matrix):
                return ops.fori_loop(0, 9, lambda _, y: ops.matmul(matrix, y) + x, x)

        keras.utils.set_random_seed(4)
        inputs = keras.Input(batch_shape=(ROWS, COLUMNS))
        outputs = layers.Dense(2)(Spread()(ops.matmul(matrix, layers.Dense(3)(inputs))))
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.SGD(0.05), "mse")
        found.append([[model.train_on_batch(X, Y) for _ in range(4)], model.get_weights()])
    assert_close(*found, rtol=1e-4, atol=1e-5)


OPERATORS = {
    "matrix @ x": lambda matrix, x: matrix @ x,
    "matrix * x": lambda matrix, x: matrix * x,
    "matrix.dot(x)": lambda matrix, x: matrix.dot(x),
    "matrix + x": lambda matrix, x: matrix + x,
    "matrix - x": lambda matrix, x: matrix - x,
    "matrix > x": lambda matrix, x: matrix > x,
    "matrix.multiply(x)": lambda matrix, x: matrix.multiply(x),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("form", ["csr_matrix", "csr_array"])
@pytest.mark.parametrize("known", [False, True])
def test_an_operator_of_scipy_never_loses_a_gradient(name, form, known):
    """It gives a symbol with the right value, or says what to write."""
    square = np.eye(4, dtype="float32") + 1
    with traced(known):
        x = Traced(K.constant(square), "float32")
        try:
            found = OPERATORS[name](getattr(sp, form)(square), x)
        except TypeError as error:
            assert "SciPy" in str(error) and "keras.ops.matmul" in str(error)
            return
    assert isinstance(found, Traced)
    np.testing.assert_array_equal(K.eval(found.node), OPERATORS[name](square, square))


@pytest.mark.parametrize("known", [False, True])
def test_an_operator_of_a_symbol_takes_a_matrix(known):
    square = np.eye(4, dtype="float32") + 1
    matrix = sp.csr_matrix(square)
    with traced(known):
        x = Traced(K.constant(square), "float32")
        found = [x @ matrix, x * matrix, x + matrix, x - matrix, x > matrix]
    wanted = [square @ square, square * square, 2 * square, 0 * square, square > square]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(K.eval(one.node), other)


# ------------------------------------------------------------------ what there is not

SPARSE_RESULTS = {  # all but the first two say so at the call
    "Input": lambda: layers.Input((3,), sparse=True),
    "Discretization": lambda: layers.Discretization([1.0], output_mode="one_hot", sparse=True),
    "CategoryEncoding": lambda: layers.CategoryEncoding(4, sparse=True)(np.array([1, 2])),
    "one_hot": lambda: ops.one_hot([1], 3, sparse=True),
    "multi_hot": lambda: ops.multi_hot([1], 3, sparse=True),
    "bincount": lambda: ops.bincount([1], sparse=True),
    "convert_to_tensor": lambda: ops.convert_to_tensor(S, sparse=True),
}


@pytest.mark.parametrize("name", SPARSE_RESULTS)
def test_sparse_results_are_refused(name):
    with pytest.raises(ValueError, match="sparse=True.*kbench"):
        SPARSE_RESULTS[name]()


# ------------------------------------------------------------------ every function

D, V, WHOLE = X[:4, :4].copy(), W[:4, 0].copy(), (5 * np.abs(X[:4, :4])).astype("int32")
SQUARE = (D @ D.T + 4 * np.eye(4)).astype("float32")
CANDIDATES = [
    (D,), (D, D), (D, D, D), (D, 2), (D, V), (V, D), (WHOLE,), (WHOLE, WHOLE), (WHOLE, 2),
    (D, WHOLE), ([D, D],),
    (D, [4, 4]), (D, 0), (D, 0, 1), (D, (1, 0)), ("ab->ba", D), ("ab,bc->ac", D, D), (D > 0, D, D),
    (D, WHOLE, WHOLE), (D, D > 0), (WHOLE, D), (D, 0, 2), (lambda c, x: (c + x, c), D[0], D),
    (lambda x: x * 2, D), (D, "float16"), (D, -1, 1), (D, "reflect"), (D, ((1, 1), (0, 0))),
    (SQUARE,), (SQUARE, D), (D, (1, 1), (2, 2)), (D, (1, 1), D[:2, :2].copy()), (D, 3),
    (D, WHOLE[:2, :2], V[:2]), ([D > 0], [D], 0.0), (0, [lambda x: x * 2], D), (np.arange(4), D, 2),
    (0, 3, lambda i, v: v * 2 + 1, D), (lambda a, b: a + b, D), (D, V, V, -1),
]  # fmt: skip
NOT_ARRAYS = {
    "custom_gradient",  # gives a function
    "get_item",  # Keras itself indexes what it is given
    "is_tensor",
    "empty", "empty_like",  # whatever was in memory
}  # fmt: skip


def _names():
    return [
        name
        for name in dir(ops)
        if inspect.isfunction(getattr(ops, name)) and name[0] != "_" and name not in NOT_ARRAYS
    ]


def _with_matrix(arguments, place):
    """The arguments with a matrix at one place; None where no array of two axes is there."""
    given = list(arguments)
    if isinstance(given[place], list) and len(given[place]) == 2:
        first, second = given[place]
        if getattr(first, "ndim", 0) == 2:
            given[place] = [sp.csr_matrix(first), second]
            return given
    if getattr(given[place], "ndim", 0) != 2:
        return None
    given[place] = sp.csr_matrix(given[place])
    return given


def _has_numbers(x):
    return isinstance(x, np.ndarray) and x.dtype.kind not in "USO"


def _is_like(found, wanted):
    pairs = zip(keras.tree.flatten(found), keras.tree.flatten(wanted), strict=True)
    return all(
        isinstance(one, np.ndarray)
        and (one.dtype, one.shape) == (other.dtype, other.shape)
        and np.allclose(one, other, 1e-4, 1e-5, equal_nan=True)
        for one, other in pairs
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", _names())
@pytest.mark.filterwarnings("ignore")
def test_a_matrix_in_any_argument_is_the_array_or_an_error(name):
    """A value is that of the array, eager and in a trace, and never an object or a matrix."""
    function = getattr(ops, name)
    for arguments in CANDIDATES:
        try:
            wanted = function(*arguments)
        except Exception:  # noqa: BLE001, S112  # arguments of another function
            continue
        if not all(_has_numbers(one) for one in keras.tree.flatten(wanted)):
            continue
        for place in range(len(arguments)):
            given = _with_matrix(arguments, place)
            if given is None:
                continue
            try:
                found = function(*given)
            except (TypeError, ValueError) as error:
                assert place > 0, error  # of a tolerance, a fill value
                continue
            assert _is_like(found, wanted), arguments
            assert _is_like(*_traced_pair(function, arguments, given, place)), arguments


def _traced_pair(function, arguments, given, place):
    """Values of a trace with the matrix, and with a symbol of the array in its place."""
    symbols = list(arguments)
    symbols[place] = keras.tree.map_structure(
        lambda x: Traced(K.constant(x, dtype=x.dtype.name), x.dtype.name), symbols[place]
    )
    found = []
    for each in (symbols, given):
        try:
            with traced():
                found.append(_values(function(*each)))
        except Exception:  # noqa: BLE001  # it has no trace, or not of these arguments
            found.append(np.zeros(0))
            if each is symbols:
                return found * 2
    return found


def _values(found):
    return keras.tree.map_structure(
        lambda x: from_wide(K.eval(x.node), x.dtype) if isinstance(x, Traced) else x, found
    )
