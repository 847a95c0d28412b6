"""Functions of Keras 3: an eager call and a trace agree, and gradients are those of differences."""

import keras3_there  # noqa: F401  # isort: skip
import inspect
import itertools

import keras
import numpy as np
import pytest
from keras import ops
from keras.src import backend
from keras3_traces import in_a_trace

from kbench import backend as K
from kbench.backend import ArgumentError
from kbench.keras3.core import traced
from kbench.keras3.gradients import gradients
from kbench.keras3.tensor import Traced, is_traced

DRAW = np.random.RandomState(7)
X = DRAW.uniform(0.2, 0.8, (3, 4))
Y = DRAW.uniform(0.2, 0.8, (3, 4))
SQUARE = DRAW.uniform(0.1, 0.5, (3, 3)) + 2 * np.eye(3)
IMAGE = DRAW.uniform(0, 1, (2, 5, 6, 3))
VOLUME = DRAW.uniform(0, 1, (1, 4, 4, 4, 2))
SIGNAL = DRAW.uniform(-1, 1, (2, 40))

STEP = 2e-3
"""How far operands are moved: most of Keras' functions of float64 give float32."""

SMOOTH = {  # name -> function of the operands behind it, all of float64
    **{
        name: (getattr(ops, name), X)
        for name in (
            "arccos arcsin arctan arctanh arcsinh cbrt cosh sinh tan exp2 expm1 log10 log1p log2 "
            "reciprocal sinc sqrt exp log tanh square i0 erf erfinv rsqrt gelu silu elu selu celu "
            "log_sigmoid squareplus tanh_shrink softmax log_softmax logsumexp cumsum cumprod mean "
            "std var sort ravel transpose max prod ptp nanmean nansum deg2rad".split()
        )
    },
    **{
        name: (getattr(ops, name), X, Y)
        for name in "arctan2 hypot logaddexp logaddexp2 fmod add multiply power kron outer".split()
    },
    "erfc": (ops.erfc, X),
    "arccosh": (lambda x: ops.arccosh(x + 1.5), X),
    "roll": (lambda x: ops.roll(x, 1, 1), X),
    "flip": (lambda x: ops.flip(x, 0), X),
    "repeat": (lambda x: ops.repeat(x, 2, 1), X),
    "pad_constant": (lambda x: ops.pad(x, ((1, 0), (0, 2)), constant_values=1.0), X),
    "pad_reflect": (lambda x: ops.pad(x, ((1, 1), (2, 1)), mode="reflect"), X),
    "diagonal": (lambda x: ops.diagonal(x, 1), X),
    "diag": (lambda x: ops.diag(x, 1), SQUARE),
    "tril": (lambda x: ops.tril(x, -1), SQUARE),
    "take": (lambda x: ops.take(x, np.array([2, 0, 2]), axis=1), X),
    "take_along_axis": (lambda x: ops.take_along_axis(x, np.array([[1], [0], [3]]), 1), X),
    "advanced_index": (lambda x: x[np.array([0, 2]), 1:], X),
    "top_k": (lambda x: ops.top_k(x, 2)[0], X),
    "where": (lambda x, y: ops.where(x > y, x, y * y), X, Y),
    **{
        f"{curve.__name__}_of_a_number": (lambda x, y, f=curve: f(x - 0.6, y[0] + 0.1), X, Y)
        for curve in (ops.leaky_relu, ops.elu, ops.celu, ops.squareplus, ops.soft_shrink)
    },
    "threshold_of_numbers": (lambda x, y: ops.threshold(x, 0.55, y[0]), X, Y),
    "clip": (lambda x: ops.clip(x, 0.1, 0.9), X),
    "average": (lambda x, y: ops.average(x, axis=0, weights=y), X, Y),
    "cross": (lambda x, y: ops.cross(x[:, :3], y[:, :3]), X, Y),
    "trapezoid": (ops.trapezoid, X),
    "vander": (lambda x: ops.vander(x[0], 3), X),
    "corrcoef": (ops.corrcoef, X),
    "einsum": (lambda x, y: ops.einsum("ab,cb->ca", x, y), X, Y),
    "einsum_three": (lambda x, y: ops.einsum("ab,cb,ad->cd", x, y, y), X, Y),
    "einsum_diagonal": (lambda x: ops.einsum("aa->a", x), SQUARE),
    "einsum_dots": (lambda x: ops.einsum("...a,...b->...ba", x, x), X),
    "matmul": (lambda x, y: ops.matmul(x, ops.transpose(y)), X, Y),
    "matmul_vector": (lambda x, y: ops.matmul(x, y[0]), X, Y),
    "tensordot": (lambda x, y: ops.tensordot(x, y, ([0], [0])), X, Y),
    "det": (ops.det, SQUARE),
    "inv": (ops.inv, SQUARE),
    "solve": (lambda x, y: ops.solve(x, y), SQUARE, X),
    "cholesky": (lambda x: ops.cholesky(x @ ops.transpose(x) + np.eye(3)), SQUARE),
    "eigh": (lambda x: ops.eigh(x + ops.transpose(x))[0], SQUARE),
    "norm": (ops.norm, X),
    "segment_sum": (lambda x: ops.segment_sum(x, np.array([1, 0, 1]), 2), X),
    "segment_max": (lambda x: ops.segment_max(x, np.array([1, 0, 1]), 2), X),
    "scatter": (lambda x: ops.scatter(np.array([[1], [0], [1]]), x, (3, 4)), X),
    "scatter_update": (lambda x, y: ops.scatter_update(x, [[0, 1], [2, 2]], y[0, :2]), X, Y),
    "slice_update": (lambda x, y: ops.slice_update(x, (1, 1), y[:2, :2]), X, Y),
    "associative_scan": (lambda x: ops.associative_scan(lambda a, b: a * b, x, axis=1), X),
    "scan": (lambda x: ops.scan(lambda c, v: (c * v, c + v), x[0], x)[1], X),
    "fft": (lambda x: ops.fft((x, x * x))[0], X),
    "fft_imaginary": (lambda x: ops.fft((x, x * x))[1], X),
    "rfft": (lambda x: ops.rfft(x)[1], SIGNAL),
    "irfft": (lambda x: ops.irfft(ops.rfft(x)), SIGNAL),
    "stft": (lambda x: ops.stft(x, 8, 4, 8)[0], SIGNAL),
    "conv": (lambda x: ops.conv(x, X[:3, :3, None, None] * np.ones((1, 1, 3, 2))), IMAGE),
    "conv_groups": (lambda x: ops.conv(x, np.ones((2, 2, 1, 6)), padding="same"), IMAGE),
    "conv_dilated": (
        lambda x: ops.conv(x, np.ones((2, 2, 3, 2)), 2, "same", dilation_rate=2),
        IMAGE,
    ),
    "conv_transpose": (lambda x: ops.conv_transpose(x, np.ones((3, 3, 2, 3)), 2, "same"), IMAGE),
    "depthwise_conv": (lambda x: ops.depthwise_conv(x, np.ones((2, 2, 3, 2))), IMAGE),
    "average_pool": (lambda x: ops.average_pool(x, 2, 1, "same"), IMAGE),
    "max_pool": (lambda x: ops.max_pool(x, 2), VOLUME),
    "adaptive_average_pool": (lambda x: ops.adaptive_average_pool(x, (3, 4)), IMAGE),
    "adaptive_max_pool": (lambda x: ops.adaptive_max_pool(x, (3, 4)), IMAGE),
    "unfold": (lambda x: ops.unfold(x, 2), IMAGE),
    "depth_to_space": (lambda x: ops.space_to_depth(x[:, :4], 2), IMAGE),
    "resize": (lambda x: ops.image.resize(x, (7, 4), antialias=True), IMAGE),
    "resize_bicubic": (lambda x: ops.image.resize(x, (7, 9), "bicubic"), IMAGE),
    "rgb_to_hsv": (ops.image.rgb_to_hsv, IMAGE),
    "resize_to_a_line": (
        lambda x: ops.image.resize(x, (5, 90), crop_to_aspect_ratio=True),
        IMAGE,
    ),
    "gaussian_blur": (ops.image.gaussian_blur, IMAGE),
    "gaussian_blur_of_a_drawn_width": (
        lambda x: ops.image.gaussian_blur(IMAGE, (3, 5), x[0, :2] + 0.5),
        X,
    ),
    "affine": (
        lambda x: ops.image.affine_transform(x, np.array([0.9, 0.1, 0.3, 0, 1.1, 0.2, 0, 0])),
        IMAGE,
    ),
    "attention": (
        lambda x: ops.dot_product_attention(x, x, x, is_causal=True),
        IMAGE,
    ),
    "flash_attention": (
        lambda x: ops.dot_product_attention(x, x, x, is_causal=True, flash_attention=True),
        IMAGE,
    ),
    "moments": (lambda x: ops.moments(x, 0)[1], X),
    "binary_crossentropy": (lambda x, y: ops.binary_crossentropy(y, x), X, Y),
    "categorical_crossentropy": (lambda x, y: ops.categorical_crossentropy(y, x), X, Y),
    "ctc_loss_with_blanks": (
        lambda x: ops.ctc_loss(np.array([[1, 0], [0, 2]]), x[:, :, :, 0], [2, 2], [5, 4]),
        IMAGE,
    ),
    "ctc_loss": (
        lambda x: ops.ctc_loss(np.array([[1, 2], [2, 1]]), x[:, :, :, 0], [2, 1], [5, 4]),
        IMAGE,
    ),
}


def _traced(function, arrays):
    """What a function gives on symbols, evaluated."""
    nodes = [K.placeholder(array.shape, dtype="float64") for array in arrays]
    with traced():
        found = function(*[Traced(node) for node in nodes])
    assert is_traced(found)
    return K.function(nodes, [found.node])(list(arrays))[0]


@pytest.mark.parametrize("name", SMOOTH)
def test_a_trace_gives_what_an_eager_call_gives(name):
    function, *arrays = SMOOTH[name]
    with np.errstate(all="ignore"):
        eager = function(*arrays)
    np.testing.assert_allclose(_traced(function, arrays), eager, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_differences(name):
    function, *arrays = SMOOTH[name]
    weights = DRAW.uniform(0.5, 1.5, np.shape(function(*arrays)))
    variables = [keras.Variable(array, dtype="float64") for array in arrays]
    found = gradients(lambda: ops.sum(function(*variables) * weights), variables)
    for place, array in enumerate(arrays):
        along = DRAW.uniform(-1, 1, array.shape)
        ends = []
        for sign in (1, -1):
            moved = [*arrays]
            moved[place] = array + sign * STEP * along
            ends.append(np.sum(_traced(function, moved).astype("float64") * weights))
        wanted = (ends[0] - ends[1]) / (2 * STEP)
        np.testing.assert_allclose(np.sum(found[place] * along), wanted, rtol=5e-3, atol=8e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_narrow_floats_are_rounded_once(dtype):
    x = np.asarray(DRAW.uniform(-2, 2, (5, 6))).astype(dtype)
    node = K.placeholder(x.shape, dtype="float16" if dtype == "float16" else "float32")
    with traced():
        found = ops.sum(ops.exp(Traced(node, dtype)) * 2, axis=1)
    eager = ops.sum(ops.exp(x) * 2, axis=1)
    assert found.dtype == eager.dtype.name == dtype
    value = K.function([node], [found.node])([x.astype(node.dtype)])[0]
    np.testing.assert_allclose(value.astype("float32"), eager.astype("float32"), rtol=1e-2)


IN_PLACES_OF_THEIR_OWN = {
    "convert_to_tensor": ops.convert_to_tensor,
    "cast": lambda x: ops.cast(x, "float64"),
    "array": ops.array,
    "reshape": lambda x: ops.reshape(x, (4, 3)),
    "transpose": ops.transpose,
    "squeeze": lambda x: ops.squeeze(ops.expand_dims(x, 0)),
    "flip": lambda x: ops.flip(x, 0),
    "moveaxis": lambda x: ops.moveaxis(x, 0, 1),
    "diagonal": ops.diagonal,
    "split": lambda x: ops.split(x, 2, axis=1)[0],
}


@pytest.mark.parametrize("name", IN_PLACES_OF_THEIR_OWN)
def test_a_result_that_is_added_to_leaves_the_operand_alone(name):
    x = np.array(X)
    found = IN_PLACES_OF_THEIR_OWN[name](x)
    found += 1.0
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize(
    "name", ["add", "elu", "relu", "amax", "bitwise_or", "fft", "qr", "scan", "unique"]
)
def test_signatures_are_those_of_keras(name):
    modules = (backend.numpy, backend.nn, backend.math, backend.linalg, backend.core)
    function = next(getattr(one, name) for one in modules if hasattr(one, name))
    assert inspect.signature(function) == inspect.signature(getattr(ops, name))


def test_places_of_what_unique_fills_up_are_that_of_the_first():
    values, places = ops.unique(np.array([3, 1, 2, 1]), return_index=True, size=5, fill_value=-1)
    np.testing.assert_array_equal(values, [1, 2, 3, -1, -1])
    np.testing.assert_array_equal(places, [1, 2, 0, 1, 1])


def test_edges_of_bins_may_be_a_list():
    edges = [0.3, 0.5, 0.7]
    node = K.placeholder(X.shape, dtype="float64")
    with traced():
        found = ops.digitize(Traced(node), edges)
    eager = ops.digitize(X, edges)
    np.testing.assert_array_equal(eager, np.digitize(X, edges))
    for known in (np.array(edges), np.array(edges[::-1]), np.array([1, 2], "int32")):
        (traced_too,) = in_a_trace(ops.digitize, [X, known])
        np.testing.assert_array_equal(traced_too, np.digitize(X, known))
    np.testing.assert_array_equal(K.function([node], [found.node])([X])[0], eager)


def test_texts_are_no_tensors():
    assert ops.is_tensor(X)
    assert not ops.is_tensor(np.array(["a", "b"]))


def test_eager_functions_promote_as_keras_does():
    found = ops.add(np.ones(3, "int32"), np.ones(3, "float32"))
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, [2, 2, 2])
    assert ops.divide(np.ones(3, "int64"), 2).dtype == "float32"
    assert float(ops.reciprocal(4.0)) == 0.25


def test_a_shape_that_depends_on_values_is_refused_in_a_trace():
    with traced(), pytest.raises(NotImplementedError, match="not known in a traced step"):
        ops.nonzero(Traced(K.placeholder((3,), dtype="float32")))


def test_an_array_on_the_left_meets_a_symbol():
    node = K.placeholder((3,), dtype="float32")
    with traced():
        total = np.ones(3, "float32")
        total += Traced(node)
        total = np.float32(2) * total
    assert is_traced(total)
    value = K.function([node], [total.node])([np.arange(3, dtype="float32")])[0]
    np.testing.assert_array_equal(value, [2, 4, 6])


def test_a_gradient_of_ones_own():
    @ops.custom_gradient
    def halved(x):
        def grad(upstream):
            return upstream * 0.5

        return x * 1.0, grad

    variable = keras.Variable(np.arange(3.0), dtype="float32")
    (found,) = gradients(lambda: ops.sum(halved(variable)), [variable])
    np.testing.assert_array_equal(found, [0.5, 0.5, 0.5])


def test_gradients_of_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="loss is ndarray"):
        gradients(np.ones(()), [])


def _spellings(labels, steps):
    """Every way to lay labels out in time, as states of them and of the blanks between."""
    states = [0, *(one for label in labels for one in (label, 0))]
    for way in itertools.combinations_with_replacement(range(len(states)), steps):
        moves = list(zip((-1, *way), way, strict=False))
        over = [states[b] != states[b - 2] if b > 1 else b == 1 for a, b in moves if b == a + 2]
        if all(b - a <= 2 for a, b in moves) and all(over) and way[-1] >= len(states) - 2:
            yield [states[s] for s in way]


@pytest.mark.parametrize("labels", [[0, 1], [1, 0, 2], [2, 0, 0], [0]])
def test_the_blank_is_a_label_like_any_other(labels):
    logits = DRAW.uniform(-1, 1, (1, 5, 3))
    shares = np.exp(logits[0]) / np.exp(logits[0]).sum(-1, keepdims=True)
    chance = sum(np.prod(shares[range(5), way]) for way in _spellings(labels, 5))
    found = ops.ctc_loss(np.array([labels]), logits, [len(labels)], [5])
    np.testing.assert_allclose(found, [-np.log(chance)], rtol=1e-5)


def _chances(logits, blank):
    """The logarithm of the chance of every sequence of labels, summed over all its paths."""
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    found = {}
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        kept = [b for a, b in zip((None, *path), path, strict=False) if a != b and b != blank]
        chance = np.exp(sum(logs[t, label] for t, label in enumerate(path)))
        found[tuple(kept)] = found.get(tuple(kept), 0.0) + chance
    return sorted(((np.log(value), key) for key, value in found.items()), reverse=True)


@pytest.mark.parametrize("blank", [0, 1, 2])
def test_decoding_finds_the_likeliest_labels_at_once_and_in_a_step(blank):
    logits, lengths = np.random.RandomState(blank).randn(3, 4, 3).astype("float32"), [4, 2, 3]
    options = {"strategy": "beam_search", "beam_width": 40, "top_paths": 2, "mask_index": blank}
    given = [logits, np.array(lengths, "int32")]
    search = lambda x, n: ops.ctc_decode(x, n, **options)  # noqa: E731
    for labels, score in (search(*given), search(*given), in_a_trace(search, given)):
        assert labels.shape == (2, 3, 4) and labels.dtype == "int32" and score.shape == (3, 2)
        for row, length in enumerate(lengths):
            for place, (chance, key) in enumerate(_chances(logits[row, :length], blank)[:2]):
                assert tuple(labels[place, row]) == (*key, *[-1] * (4 - len(key)))
                assert score[row, place] == pytest.approx(chance, abs=1e-5)
    for merged in (True, False):
        best = lambda x, n, m=merged: ops.ctc_decode(x, n, merge_repeated=m, mask_index=blank)  # noqa: E731
        for labels, score in (best(*given), in_a_trace(best, given)):
            for row, length in enumerate(lengths):
                path = logits[row, :length].argmax(-1).tolist()
                kept = [b for a, b in zip((None, *path), path, strict=False)
                        if b != blank and not (merged and a == b)]  # fmt: skip
                assert labels[0, row].tolist() == kept + [-1] * (4 - len(kept))
                assert score[row, 0] == pytest.approx(-logits[row, :length].max(-1).sum(), 1e-5)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_a_rate_to_drop_may_be_computed(rate):
    x, given = np.arange(1, 6001, dtype="float32").reshape(60, 100), np.array(rate, "float32")
    drop = lambda x, rate: keras.random.dropout(x, rate, seed=3)  # noqa: E731
    for found in (drop(x, given), in_a_trace(drop, [x, given])[0]):
        np.testing.assert_allclose(found, drop(x, rate), rtol=1e-6)
    for wrong in (-0.5, 1.5):
        with pytest.raises(ArgumentError, match=f"rate is {wrong}; a part of the elements"):
            in_a_trace(drop, [x, np.array(wrong, "float32")])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_elements_are_moved_by_numbers_of_a_step(dtype):
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    for shift, axis in [
        (1, None), (5, 0), (3, -1), ([1], 2), ([1, 2], (0, 2)), ([2], (0, 1)), ([1, 2], 1),
    ]:  # fmt: skip
        by = np.array(shift, dtype)
        wanted = np.roll(x, shift, axis)
        (found,) = in_a_trace(lambda x, by, axis=axis: ops.roll(x, by, axis), [x, by])
        np.testing.assert_array_equal(found, wanted)
    by = np.array(-1, "int32")
    (found,) = in_a_trace(lambda x, by: ops.roll(x, (by, 2), (0, 1)), [x, by])
    np.testing.assert_array_equal(found, np.roll(x, (-1, 2), (0, 1)))


def test_a_label_that_is_no_class_is_refused():
    with pytest.raises(
        ArgumentError,
        match="label 5 at position 1 is out of range; y_pred has 3 classes, so 0 to 2",
    ):
        ops.ctc_loss(np.array([[0, 5]]), np.ones((1, 5, 3), "float32"), [2], [5])


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_a_float_beyond_an_integer_becomes_its_end(source, dtype):
    with np.errstate(over="ignore"):
        x = np.array([-np.inf, -3e38, -1.9, -0.5, 0.5, 1.9, 99.6, 3e38, np.inf, np.nan])
        x = x.astype(source)
    ends = np.iinfo(dtype)
    least = max(int(ends.min), -1)
    wanted = [ends.min, ends.min, least, 0, 0, 1, 99, ends.max, ends.max, 0]
    np.testing.assert_array_equal(ops.cast(x, dtype), np.array(wanted, dtype))
    node = K.placeholder(x.shape, dtype="float32" if source == "bfloat16" else source)
    with traced():
        found = ops.cast(Traced(node, source), dtype)
    value = K.function([node], [found.node])([x.astype(node.dtype)])[0]
    np.testing.assert_array_equal(value, np.array(wanted, dtype))


class Traced1(keras.Model):
    """A function in a traced step."""

    def __init__(self, function):
        super().__init__()
        self.autocast = False
        self.function = function

    def call(self, x):
        return self.function(x)


NARROW = {  # what depends on the dtype, which is computed in a wider one
    "nan_to_num_float16": (ops.nan_to_num, "float16", [np.inf, -np.inf, 2], [65504, -65504, 2]),
    "nan_to_num_bfloat16": (
        lambda x: ops.nan_to_num(x) / 2.0**120, "bfloat16", [np.inf, 0], [255, 0]
    ),
    "nan_to_num_given": (
        lambda x: ops.nan_to_num(x, 1, 2, 3), "float16", [np.nan, np.inf, -np.inf], [1, 2, 3]
    ),
    "nextafter_float16": (lambda x: ops.nextafter(x, x + 1), "float16", [1], [1 + 2**-10]),
    "nextafter_bfloat16": (lambda x: ops.nextafter(x, x + 1), "bfloat16", [1], [1 + 2**-7]),
    "bits_of_a_number": (lambda x: ops.bitwise_and(x, 6), "int8", [3, 12], [2, 4]),
    "bits_of_more": (
        lambda x: ops.bitwise_or(x, np.array([[4], [8]])), "int32", [1, 2], [[5, 6], [9, 10]]
    ),
    "shift_by_a_number": (lambda x: ops.left_shift(x, 2), "int8", [3], [12]),
    "shift_of_bools": (lambda x: ops.left_shift(x, 2), "bool", [1, 0], [4, 0]),
    "argsort": (ops.argsort, "float32", [3, 1, 2], [1, 2, 0]),
    "argpartition": (lambda x: ops.argpartition(x, 0)[:1], "float32", [3, 1, 2], [1]),
}  # fmt: skip


@pytest.mark.parametrize("name", NARROW)
def test_what_a_dtype_holds_counts_in_calls_and_in_steps(name):
    function, dtype, given, wanted = NARROW[name]
    x = ops.cast(np.array(given), dtype)
    with np.errstate(all="ignore"):
        for found in (function(x), Traced1(function).predict_on_batch(x)):
            np.testing.assert_array_equal(np.asarray(found).astype("float64"), wanted)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_an_odd_pixel_of_a_border_is_left_to_the_resizing(width):
    image = np.arange(1, 6 * width + 1, dtype="float32").reshape(1, 6, width, 1)
    found = ops.image.resize(image, (6, 4), pad_to_aspect_ratio=True)
    side = np.zeros((1, 6, (4 - width) // 2, 1), "float32")
    full = np.concatenate([side, image, side], 2)
    np.testing.assert_allclose(found, ops.image.resize(full, (6, 4)), rtol=1e-6)
