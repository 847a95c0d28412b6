"""Complex numbers: what is refused, layers and models, loops, and gradients beside JAX."""

import keras3_there  # noqa: F401  # isort: skip
import keras
import numpy as np
import pytest
from complex_traces import DRAW, SQUARE, Z, drawn, gram, run_traced
from keras import ops

from kbench import backend as K
from kbench.api.operations import DtypeError, GradientError
from kbench.keras3.core import traced
from kbench.keras3.gradients import gradients
from kbench.keras3.tensor import Traced, symbol_of, to_held


def _of_both(function):
    return lambda z: function(z, z)


REFUSED = {  # name -> (function, what the error says)
    **{
        name: (getattr(ops, name), f"{name}: x is complex64[2, 3], and complex numbers have no")
        for name in (
            "max min amax sort argsort argmax nanmax nanargmin ptp median relu relu6 leaky_relu"
        ).split()
    },
    **{
        name: (
            _of_both(getattr(ops, name)),
            f"{name}: x1 is complex64[2, 3], and complex numbers have no order",
        )
        for name in "maximum minimum less greater_equal fmax".split()
    },
    **{
        name: (getattr(ops, name), f"{name}: x is complex64[2, 3], and {name} takes real numbers")
        for name in "floor ceil softmax sigmoid i0 erf trunc deg2rad rfft".split()
    },
    "operator": (lambda z: z < 1 if isinstance(z, Traced) else ops.less(z, 1), "less: x1 is"),
    "clip": (lambda z: ops.clip(z, 0, 1), "clip: x is complex64[2, 3], and complex numbers have"),
    "top_k": (lambda z: ops.top_k(z, 2), "top_k: x is complex64[2, 3], and complex numbers have"),
    "mod": (lambda z: ops.mod(z, 2), "mod: x1 is complex64[2, 3], and mod takes real numbers"),
    "quantile": (lambda z: ops.quantile(z, 0.5), "quantile: x is complex64[2, 3], and complex"),
    "fft": (lambda z: ops.fft((z, z)), "fft: real is complex64[2, 3], and fft takes real numbers"),
    "average_pool": (
        lambda z: ops.average_pool(ops.reshape(z, (1, 2, 3)), 2),
        "average_pool: inputs is complex64[1, 2, 3], and average_pool takes real numbers",
    ),
    "segment_sum": (
        lambda z: ops.segment_sum(np.ones(3, "float32"), z[0], 2),
        "segment_sum: segment_ids is complex64[3], and segment_sum takes real numbers",
    ),
    "cast": (
        lambda z: ops.cast(z, "float32"),
        "cast: x is complex64[2, 3], and float32 has no imaginary part",
    ),
    "convert_to_tensor": (lambda z: ops.convert_to_tensor(z, "int32"), "int32 has no imaginary"),
    "assign_a_part": (
        lambda z: ops.slice_update(np.zeros((2, 3), "float32"), (0, 0), z),
        "float32 has no imaginary part",
    ),
    "sum_in_real_numbers": (lambda z: ops.cumsum(z, dtype="float32"), "float32 has no imaginary"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_takes_real_numbers_says_so(name):
    function, text = REFUSED[name]
    array = Z.astype("complex64")
    for call in (lambda: function(array), lambda: run_traced(function, [array])):
        with pytest.raises(DtypeError) as caught:
            call()
        assert text in str(caught.value)


def test_a_variable_of_real_numbers_keeps_no_real_part_of_complex_ones():
    variable = keras.Variable(np.zeros((2, 3), "float32"))
    with pytest.raises(DtypeError, match="float32 has no imaginary part"):
        variable.assign(Z)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3)])
def test_vectors_that_a_matrix_does_not_determine_have_no_gradient(shape):
    symbol = symbol_of(shape, "complex64")
    with traced():
        loss = ops.sum(ops.absolute(ops.svd(symbol)[0 if shape[0] > shape[1] else 2])).node
    with pytest.raises(GradientError, match="svd of complex64.*full_matrices=False"):
        K.gradients(loss, [symbol.held])


def _thin(place, rows=slice(None)):
    return lambda a: ops.svd(a[rows], full_matrices=False)[place]


NOT_THERE = {  # name -> function, operand: a loss of phases, or of vectors of equal values
    "phases_of_eigh": (lambda a: ops.eigh(gram(a))[1], SQUARE),
    "phases_of_svd_left": (_thin(0), SQUARE),
    "phases_of_svd_right": (_thin(2, slice(2)), SQUARE),
    "phases_of_svd_both": (lambda a: _thin(0)(a) + _thin(2)(a), SQUARE),
    "phases_of_eig_at_equal_sizes": (
        lambda a: ops.eig(a)[1],
        np.array([[1.0, -2.0], [2.0, 1.0]]) + 0j,
    ),
    "vectors_of_equal_values_of_eig": (lambda a: ops.absolute(ops.eig(a)[1]), np.eye(3) + 0j),
    "vectors_of_equal_values_of_svd": (lambda a: ops.absolute(_thin(0)(a)), 2j * np.eye(3)),
    "qr_that_reflects_nothing": (lambda a: ops.qr(a, "complete")[0], np.eye(3, 2) + 0j),
    "qr_of_zero": (lambda a: ops.qr(a)[1], np.zeros((2, 3)) + 0j),
    "lu_factor_of_zero": (lambda a: ops.lu_factor(a)[0], np.zeros((2, 2)) + 0j),
    "cholesky_inverse_of_zero": (ops.cholesky_inverse, np.diag([1.0, 1e-30]) + 0j),
}


@pytest.mark.parametrize("name", NOT_THERE)
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning", "ignore:overflow")
def test_without_a_derivative_no_number_is_given(name):
    function, array = NOT_THERE[name]
    symbol = symbol_of(array.shape, "complex64")
    with traced():
        found = function(symbol)
        weights = np.arange(1.0, np.prod(found.shape) + 1).reshape(found.shape).astype("float32")
        loss = ops.sum((ops.imag(found) + 2 * ops.real(found)) * weights).node
    run = K.function([symbol.held], K.gradients(loss, [symbol.held]))
    assert not np.isfinite(run([to_held(array.astype("complex64"))])[0]).all()


@pytest.mark.parametrize("draw", range(8))
def test_a_gradient_that_cancels_along_a_vector_is_there(draw):
    numbers = np.random.RandomState(draw).normal(size=(2, 4, 1))
    weights = np.arange(4.0)[:, None]
    array = numbers[0] + 1j * numbers[1]
    sizes = np.abs(array / np.linalg.norm(array)) ** 2
    weights = (weights - np.sum(weights * sizes)).astype("float32")
    variable = keras.Variable(array.astype("complex64"))

    def loss():
        return ops.sum(ops.square(ops.absolute(_thin(0)(variable))) * weights)

    (found,) = gradients(loss, [variable])
    wanted = 2 * weights * array / np.linalg.norm(array) ** 2  # the weighted mean is 0
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_at_vectors_of_equal_elements_a_loss_without_phases_has_a_gradient():
    turn = np.array([[1.0, -2.0], [2.0, 1.0]], "float32")  # its vectors are (1, i) and (1, -i)
    weights = np.array([[1, 2], [3, 4]], "float32")

    def loss(a):
        return ops.sum(ops.square(ops.absolute(ops.eig(a)[1])) * weights)

    variable = keras.Variable(turn)
    (found,) = gradients(lambda: loss(variable), [variable])
    wanted = np.zeros((2, 2))
    for place in np.ndindex(2, 2):
        ends = []
        for step in (1e-6, -1e-6):
            moved = turn.astype("float64")
            moved[place] += step
            ends.append(np.sum(np.abs(np.linalg.eig(moved)[1]) ** 2 * weights))
        wanted[place] = (ends[0] - ends[1]) / 2e-6
    np.testing.assert_allclose(found, wanted, atol=1e-5)


# ------------------------------------------------------------------ programs


class ComplexDense(keras.layers.Layer):
    """A product with complex weights, held as two real ones."""

    def __init__(self, units):
        super().__init__()
        self.units = units

    def build(self, shape):
        sizes = (shape[-1], self.units)
        self.first = self.add_weight(sizes, initializer=keras.initializers.RandomNormal(seed=1))
        self.second = self.add_weight(sizes, initializer=keras.initializers.RandomNormal(seed=2))

    def call(self, z):
        return z @ (ops.cast(self.first, "complex64") + 1j * ops.cast(self.second, "complex64"))


class Size(keras.layers.Layer):
    def call(self, z):
        return ops.absolute(z)


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"run_eagerly": True}, marks=pytest.mark.slow), {"jit_compile": False}],
    ids=["compiled", "eager", "plain"],
)
def test_a_complex_layer_learns(options):
    draw = np.random.RandomState(3)
    z, turn = [draw.normal(size=(n, 3)) + 1j * draw.normal(size=(n, 3)) for n in (64, 2)]
    z, wanted = z.astype("complex64"), np.abs(z @ turn.T).astype("float32")
    inputs = keras.Input((3,), dtype="complex64")
    model = keras.Model(inputs, Size()(ComplexDense(2)(inputs)))
    model.compile(keras.optimizers.Adam(0.05), "mse", **options)
    history = model.fit(z, wanted, epochs=15, batch_size=16, verbose=0).history["loss"]
    assert history[-1] < 0.2 * history[0]
    kernel = model.layers[1].first.numpy() + 1j * model.layers[1].second.numpy()
    np.testing.assert_allclose(model.predict(z, verbose=0), np.abs(z @ kernel), rtol=1e-4)


def test_a_loss_in_real_numbers_takes_no_complex_output():
    inputs = keras.Input((3,), dtype="complex64")
    model = keras.Model(inputs, ComplexDense(2)(inputs))
    model.compile("sgd", "mse")
    with pytest.raises(DtypeError, match="complex64.* float32 has no imaginary part"):
        model.train_on_batch(drawn(4, 3).astype("complex64"), np.zeros((4, 2), "float32"))


def test_functions_within_a_functional_model():
    inputs = keras.Input((3, 2))
    z = ops.view_as_complex(inputs)
    model = keras.Model(inputs, [ops.view_as_real(z * z), ops.exp(z), ops.absolute(z)])
    assert model.outputs[1].dtype == "complex64"
    x = DRAW.normal(size=(4, 3, 2)).astype("float32")
    squares, powers, sizes = model.predict(x, verbose=0)
    wanted = x[..., 0] + 1j * x[..., 1]
    np.testing.assert_allclose(squares[..., 1], (wanted**2).imag, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(powers, np.exp(wanted), rtol=1e-5)
    np.testing.assert_allclose(sizes, np.abs(wanted), rtol=1e-6)


def test_sizes_parts_and_angles_of_symbolic_tensors_are_real():
    inputs = keras.Input((4,), dtype="complex64")
    parts = [ops.absolute(inputs), ops.real(inputs), ops.imag(inputs), ops.angle(inputs)]
    model = keras.Model(inputs, keras.layers.Dense(1, "relu")(ops.concatenate(parts)))
    assert {one.dtype for one in parts} == {"float32"}
    assert model.predict(drawn(5, 4).astype("complex64"), verbose=0).dtype == "float32"


def test_shapes_and_dtypes_of_complex_symbols():
    given = keras.KerasTensor((None, 3), "complex64")
    found = keras.src.backend.compute_output_spec(
        lambda z: (z + 1, ops.real(z), ops.transpose(z), ops.isnan(z)), given
    )
    assert [(one.shape, one.dtype) for one in found] == [
        ((None, 3), "complex64"),
        ((None, 3), "float32"),
        ((3, None), "complex64"),
        ((None, 3), "bool"),
    ]


def test_complex_weights_descend():
    weight = keras.Variable(np.array([1 + 1j, -2j], "complex64"))
    target = np.array([0.5 - 1j, 2.0], "complex64")

    def loss():
        return ops.sum(ops.square(ops.absolute(weight - target)))

    slopes = gradients(loss, [weight])[0]
    np.testing.assert_allclose(slopes, 2 * (weight.numpy() - target), rtol=1e-5)
    optimizer = keras.optimizers.SGD(0.25)
    for _ in range(20):
        optimizer.apply(gradients(loss, [weight]), [weight])
    np.testing.assert_allclose(weight.numpy(), target, atol=1e-4)


LOOPS = {
    "cond": lambda z: ops.cond(ops.sum(ops.real(z)) > -100, lambda: z * 1j, lambda: z),
    "fori_loop": lambda z: ops.fori_loop(0, 9, lambda i, x: x * (1j * z), z),
    "scan": lambda z: ops.scan(lambda c, x: (c * x, c + x), z[0], ops.tile(z, (5, 1)))[1],
    "while_loop": lambda z: ops.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, x * x), (ops.sum(ops.imag(z)) * 0, z)
    )[1],
    "map": lambda z: ops.map(lambda x: x * x, ops.tile(z, (5, 1))),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_carry_complex_numbers(name):
    array = Z.astype("complex64")
    found = run_traced(LOOPS[name], [array])
    assert found.dtype == "complex64"
    np.testing.assert_allclose(found, LOOPS[name](array), rtol=1e-4, atol=1e-6)


def test_a_recurrence_of_complex_states():
    x = drawn(2, 5, 3).astype("complex64")
    state = np.zeros((2, 3), "complex64")

    def step(value, states):
        after = value + 0.5j * states[0]
        return after, [after]

    _, found, _ = keras.src.backend.rnn(step, x, [state])
    for i in range(5):
        state = x[:, i] + 0.5j * state
        np.testing.assert_allclose(found[:, i], state, rtol=1e-5)


PROGRAMS = {  # name -> a real loss of two real weights and data, with the functions of a namespace
    "sizes": lambda n, a, b, x: n.sum(n.absolute(x @ n.transpose(a + 1j * b))),
    "phases": lambda n, a, b, x: n.sum(n.cos(n.angle(n.exp(1j * a) * x * (b + 2j)))),
    "logarithms": lambda n, a, b, x: n.sum(n.real(n.log(a + 1j * b) * n.sqrt(a + x))),
    "powers": lambda n, a, b, x: n.sum(n.imag(n.power(a + 1j, b + 0.5j) / x)),
    "parts": lambda n, a, b, x: n.sum(n.real(n.tanh(a * x)) * n.imag(b * n.conj(x))),
}


def _of_program(name):
    """Two weights, data, and the gradients to the weights."""
    given = [DRAW.uniform(0.5, 1.5, (2, 3)).astype("float32") for _ in range(2)]
    x = Z.astype("complex64")
    weights = [keras.Variable(one) for one in given]
    return given, x, gradients(lambda: PROGRAMS[name](ops, *weights, x), weights)


def _slope(loss, at, step=1e-6):
    """The gradient of a real loss of a real array, by differences in float64."""
    at = at.astype("float64")
    found = np.zeros(at.shape)
    for place in np.ndindex(at.shape):
        moved = [at.copy(), at.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        found[place] = (loss(moved[0]) - loss(moved[1])) / (2 * step)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_differences(name):
    (a, b), x, found = _of_program(name)
    x = x.astype("complex128")
    program = PROGRAMS[name]
    wanted = [_slope(lambda one: program(np, one, b.astype("float64"), x), a)]
    wanted.append(_slope(lambda one: program(np, a.astype("float64"), one, x), b))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


@pytest.mark.slow  # JAX compiles each
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_jax(name):
    jax = pytest.importorskip("jax")
    program = PROGRAMS[name]
    given, x, found = _of_program(name)
    wanted = jax.grad(lambda a, b: program(jax.numpy, a, b, x), (0, 1))(*given)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


def _sizes(n, parts):
    return sum(n.sum(n.absolute(one) * n.arange(1.0, one.shape[-1] + 1)) for one in parts)


def _vectors(n, parts):
    """A loss that the phases of singular vectors do not change."""
    left, values, right = parts
    return n.sum(n.absolute((left * (values + n.arange(1.0, values.shape[-1] + 1))) @ right))


FACTORS = {  # name -> a real loss of a matrix, the same with JAX, the shape of the matrix
    **{
        f"svd_{kind}": (
            lambda a: _vectors(ops, ops.svd(a, full_matrices=False)),
            lambda jax, a: _vectors(jax.numpy, jax.numpy.linalg.svd(a, full_matrices=False)),
            shape,
        )
        for kind, shape in [("wide", (3, 5)), ("tall", (5, 3)), ("square", (3, 3))]
    },
    "svd_sizes": (
        lambda a: _sizes(ops, ops.svd(a, full_matrices=False)),
        lambda jax, a: _sizes(jax.numpy, jax.numpy.linalg.svd(a, full_matrices=False)),
        (5, 3),
    ),
    "qr_wide": (
        lambda a: _sizes(ops, ops.qr(a)),
        lambda jax, a: _sizes(jax.numpy, jax.numpy.linalg.qr(a)),
        (3, 5),
    ),
    "qr_complete": (
        lambda a: _sizes(ops, ops.qr(a, "complete")),
        lambda jax, a: _sizes(jax.numpy, jax.numpy.linalg.qr(a, "complete")),
        (5, 3),
    ),
    "qr_square": (
        lambda a: _sizes(ops, ops.qr(a)),
        lambda jax, a: _sizes(jax.numpy, jax.numpy.linalg.qr(a)),
        (3, 3),
    ),
    **{
        f"lu_{kind}": (
            lambda a: _sizes(ops, [ops.lu_factor(a)[0]]),
            lambda jax, a: _sizes(jax.numpy, [jax.scipy.linalg.lu_factor(a)[0]]),
            shape,
        )
        for kind, shape in [("square", (3, 3)), ("wide", (3, 5)), ("tall", (5, 3))]
    },
    "cholesky_inverse": (
        lambda a: _sizes(ops, [ops.cholesky_inverse(a)]),
        lambda jax, a: _sizes(jax.numpy, [_inverse_of_gram(jax.numpy, jax.numpy.tril(a))]),
        (3, 3),
    ),
    "eig_vectors": (  # with the phases of LAPACK; ordered by their values
        lambda a: _of_all(ops, *ops.eig(a)),
        lambda jax, a: _of_all(
            jax.numpy,
            *jax.lax.linalg.eig(a, compute_left_eigenvectors=False, enable_eigvec_derivs=True),
        ),
        (4, 4),
    ),
    "eigh": (
        lambda a: _sizes(ops, ops.eigh(gram(a))),
        lambda jax, a: _sizes(jax.numpy, jax.numpy.linalg.eigh(a @ a.conj().T)),
        (3, 3),
    ),
    "slogdet": (
        lambda a: ops.real(ops.slogdet(a)[0]) + ops.slogdet(a)[1],
        lambda jax, a: jax.numpy.linalg.slogdet(a)[0].real + jax.numpy.linalg.slogdet(a)[1],
        (3, 3),
    ),
}


def _inverse_of_gram(n, lower):
    return n.linalg.inv(lower @ n.conj(lower).T)


def _of_all(n, values, vectors):
    """A loss of both parts of vectors, whatever the order in which they are."""
    weights = n.arange(1.0, values.shape[-1] + 1)[:, None]
    sizes = n.sum(weights * (n.square(n.real(vectors)) + 2 * n.imag(vectors)), axis=0)
    return n.sum(sizes * n.absolute(values))


@pytest.mark.slow  # JAX compiles each
@pytest.mark.parametrize("name", FACTORS)
def test_gradients_of_factors_are_those_of_jax(name):
    jax = pytest.importorskip("jax")
    ours, theirs, shape = FACTORS[name]
    draw = np.random.RandomState(4)
    given = (draw.normal(size=shape) + 1j * draw.normal(size=shape)).astype("complex64")
    weight = keras.Variable(given)
    (found,) = gradients(lambda: ours(weight), [weight])
    wanted = np.conj(jax.grad(lambda a: theirs(jax, a))(given))
    np.testing.assert_allclose(found, wanted, rtol=5e-3, atol=5e-4 * np.abs(wanted).max())


def _of_spectrum():
    """A weight, its gradient for a loss of a spectrum, and that loss for any namespace."""
    signal = DRAW.normal(size=(2, 16)).astype("float32")
    weight = keras.Variable(DRAW.uniform(0.5, 1.5, 16).astype("float32"))

    def loss():
        z = ops.view_as_complex(ops.stack(ops.rfft(weight * signal), -1))
        return ops.mean(ops.log(ops.absolute(z) + 1e-3))

    def same(n, w):
        return n.mean(n.log(abs(n.fft.rfft(signal * w)) + 1e-3))

    return weight.numpy(), gradients(loss, [weight])[0], same


def test_a_spectral_loss_has_the_gradient_of_differences():
    weight, found, same = _of_spectrum()
    wanted = _slope(lambda w: same(np, w), weight)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.slow  # JAX compiles it
def test_a_spectral_loss_has_the_gradient_of_jax():
    jax = pytest.importorskip("jax")
    weight, found, same = _of_spectrum()
    wanted = jax.grad(lambda w: same(jax.numpy, w))(weight)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)
