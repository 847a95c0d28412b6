"""A random layer for a tensor of some rank, with random arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import constraints, layers, ops, regularizers, saving

from keras3_programs.choose import Chooser

SMOOTH = (
    "celu elu exponential gelu hard_sigmoid hard_silu hard_tanh leaky_relu linear log_sigmoid "
    "log_softmax mish relu relu6 selu sigmoid silu soft_shrink softmax softplus softsign "
    "sparse_plus sparse_sigmoid squareplus tanh tanh_shrink threshold hard_shrink"
).split()
BOUNDED = ["tanh", "sigmoid", "softsign", "hard_sigmoid", "linear", "softmax"]


def activation(choose: Chooser) -> Any:
    name = choose.one(*SMOOTH)
    return "tanh" if name in ("exponential", "threshold") else name


def weights(choose: Chooser, *kinds: str) -> dict[str, Any]:
    """Regularizers and constraints, of some of the weights."""
    found: dict[str, Any] = {}
    for kind in kinds:
        if choose.chance(0.15):
            found[f"{kind}_regularizer"] = choose.one(
                regularizers.L1(0.01), regularizers.L2(0.02), regularizers.L1L2(0.01, 0.01)
            )
        if choose.chance(0.15):
            found[f"{kind}_constraint"] = choose.one(
                constraints.NonNeg(),
                constraints.MaxNorm(0.8, axis=0),
                constraints.UnitNorm(axis=0),
                constraints.MinMaxNorm(0.2, 0.9, rate=0.5, axis=0),
            )
    if choose.chance(0.1):
        found["activity_regularizer"] = regularizers.L2(0.01)
    return found


def per_axis(choose: Chooser, rank: int, low: int, high: int) -> Any:
    return choose.one(choose.whole(low, high), choose.wholes(rank, low, high))


def _order(choose: Chooser) -> dict[str, Any]:
    return {"data_format": choose.one(None, "channels_last", "channels_first")}


# ------------------------------------------------------------------ any rank


def _dense(choose: Chooser, shape: Any) -> Any:
    return layers.Dense(
        choose.whole(1, 5),
        activation(choose),
        use_bias=choose.chance(0.8),
        **weights(choose, "kernel", "bias"),
    )


def _activation(choose: Chooser, shape: Any) -> Any:
    return choose.one(
        layers.Activation(activation(choose)),
        layers.LeakyReLU(choose.number(0.01, 0.5)),
        layers.ELU(choose.number(0.5, 1.5)),
        layers.ReLU(choose.one(None, 1.0), choose.one(0.0, 0.1), choose.one(0.0, 0.2)),
        layers.Softmax(choose.whole(1, len(shape) - 1)),
        layers.Softmax(tuple(range(1, len(shape)))),
        layers.PReLU(shared_axes=choose.one(None, [1])),
        layers.ActivityRegularization(0.01, 0.02),
        layers.Identity(),
        layers.Rescaling(choose.number(0.2, 2.0), choose.number(-1, 1)),
    )


def _normalization(choose: Chooser, shape: Any) -> Any:
    axis = choose.whole(1, len(shape) - 1)
    axes = choose.one(axis, -1, list(range(choose.whole(1, len(shape) - 1), len(shape))))
    flags = {"center": choose.chance(0.8), "scale": choose.chance(0.8)}
    epsilon = choose.one(1e-3, 1e-2)
    return choose.one(
        lambda: layers.BatchNormalization(
            choose.one(axis, -1), choose.number(0.3, 0.99), epsilon, **flags
        ),
        lambda: layers.BatchNormalization(-1, 0.9, epsilon, renorm=True),
        lambda: layers.LayerNormalization(axes, epsilon, **flags),
        lambda: layers.RMSNormalization(axes, epsilon),
        lambda: layers.UnitNormalization(axes),
        lambda: layers.GroupNormalization(
            choose.one(-1, *[one for one in (1, 2, 3) if shape[axis] % one == 0]),
            axis,
            epsilon,
            **flags,
        ),
        lambda: layers.SpectralNormalization(layers.Dense(choose.whole(2, 4))),
    )()


def _shape(choose: Chooser, shape: Any) -> Any:
    order = [int(i) + 1 for i in choose.draw.permutation(len(shape) - 1)]
    return choose.one(
        layers.Flatten(choose.one(None, "channels_first")),
        layers.Permute(order),
        layers.Reshape((-1, choose.whole(1, 3))),
        layers.Reshape((-1,)),
        layers.Reshape((choose.whole(1, 2), -1, 1)),
    )


@saving.register_keras_serializable("keras3_programs")
class Ops(layers.Layer):
    """Some functions of `keras.ops` in a row, chosen by a seed when it is made."""

    def __init__(self, chosen: int, **options: Any) -> None:
        super().__init__(**options)
        self.chosen = chosen

    def get_config(self) -> Any:
        return {**super().get_config(), "chosen": self.chosen}

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None

    def call(self, x: Any) -> Any:
        choose = Chooser(self.chosen)
        for _ in range(choose.whole(1, 3)):
            x = _function(choose, x)
        return x


def _function(choose: Chooser, x: Any) -> Any:
    axis, size = choose.whole(1, len(x.shape) - 1), x.shape[-1]
    other = choose.whole(1, len(x.shape) - 1)
    return choose.one(
        lambda: ops.flip(x, axis),
        lambda: ops.roll(x, choose.whole(-2, 2), axis),
        lambda: ops.cumsum(x, axis) * 0.5,
        lambda: x - ops.mean(x, axis, keepdims=True),
        lambda: ops.where(x > 0.1, x, ops.sin(x)),
        lambda: ops.repeat(x, 2, axis),
        lambda: ops.concatenate([x, ops.tanh(x)], axis),
        lambda: ops.swapaxes(x, axis, other),
        lambda: ops.take(x, np.array([0, -1, 0]), axis),
        lambda: x[..., ::-1] * x[..., : choose.whole(1, 2)][..., :1],
        lambda: ops.stack([x, x * 0.5], axis)[:, 1] if axis == 1 else x + 1,
        lambda: ops.sum(ops.split(x, size, -1)[0] * x, axis, keepdims=True) + x,
        lambda: ops.clip(x, -0.7, 0.9),
        lambda: ops.logsumexp(x, axis, keepdims=True) - x,
        lambda: ops.sort(x, axis),
        lambda: ops.maximum(x, ops.flip(x, axis)),
        lambda: ops.einsum("...i,...j->...ij", x, x)[..., 0],
        lambda: ops.matmul(ops.expand_dims(x, -1), ops.expand_dims(x, -2))[..., 0],
        lambda: ops.pad(x, [(0, 0)] + [(1, 0)] * (len(x.shape) - 1), "symmetric"),
        lambda: ops.moveaxis(x, axis, -1),
        lambda: ops.top_k(x, 1)[0] + x,
        lambda: ops.var(x, axis, keepdims=True) + ops.square(x),
        lambda: ops.tril(x) if len(x.shape) > 2 else x,
        lambda: ops.diff(x, axis=axis) if x.shape[axis] > 1 else x,
        lambda: ops.cast(ops.argmax(x, axis, keepdims=True), x.dtype) * 0.1 + x,
        lambda: ops.one_hot(ops.argmax(x, -1), size, dtype=x.dtype) + x,
        lambda: ops.stop_gradient(x) * x,
        lambda: ops.normalize(x, axis, order=choose.one(1, 2)),
        lambda: ops.max(x, axis, keepdims=True) * ops.amin(x, other, keepdims=True),
        lambda: ops.tanh(ops.nan_to_num(x / ops.relu(x))),
        lambda: ops.cond(ops.sum(x) > 0, lambda: x * 2, lambda: -x),
        lambda: ops.scan(lambda c, v: (c * 0.5 + v, c), x[0], x)[1],
        lambda: ops.vectorized_map(lambda row: row * ops.sum(row), x),
        lambda: ops.fori_loop(0, 3, lambda i, v: v * 0.5 + ops.cos(v), x),
        lambda: ops.squeeze(ops.expand_dims(x, axis), axis),
        lambda: ops.broadcast_to(ops.mean(x, axis, keepdims=True), x.shape),
        lambda: ops.reshape(ops.transpose(x), x.shape),
        lambda: ops.stack(ops.unstack(x, axis=axis)[::-1], axis),
        lambda: ops.round(x * 3) / 3 + x,
        lambda: ops.floor(x) + ops.abs(x),
        lambda: ops.dot(x, ops.ones((size, 2), dtype=x.dtype)),
        lambda: ops.tensordot(x, ops.eye(size, dtype=x.dtype), axes=[[-1], [0]]),
        lambda: ops.median(x, axis, keepdims=True) - x,
        lambda: ops.quantile(x, 0.3, axis, keepdims=True) - x,
        lambda: ops.segment_sum(x, np.arange(x.shape[0]) // 2, x.shape[0]),
        lambda: ops.scatter_update(x, [[0] * len(x.shape)], ops.ones((1,), dtype=x.dtype)),
        lambda: ops.slice_update(x, [0] * len(x.shape), x[:1] * 2),
        lambda: ops.associative_scan(lambda a, b: a + b, x, axis=axis),
        lambda: ops.real(x) * ops.sign(x),
        lambda: ops.erf(x) + ops.log1p(ops.abs(x)),
        lambda: ops.power(ops.abs(x) + 0.1, 1.5),
        lambda: ops.prod(x, axis, keepdims=True) + x,
        lambda: ops.linalg.norm(x, axis=axis, keepdims=True) + x,
        lambda: ops.rot90(x, axes=(axis, other)) if axis != other else x,
        lambda: ops.searchsorted(np.array([-0.5, 0.0, 0.4]), x) * 0.2 + x,
    )()


def _ops(choose: Chooser, shape: Any) -> Any:
    return Ops(int(choose.draw.randint(1 << 30)))


def _wrapped(choose: Chooser, shape: Any) -> Any:
    """A layer of the rank below at each step."""
    return layers.TimeDistributed(layer(choose, (shape[0], *shape[2:])))


def _einsum(choose: Chooser, shape: Any) -> Any:
    letters = "abcde"[: len(shape)]
    units = choose.whole(1, 4)
    kept = letters[1:-1]
    both = kept and choose.chance(0.4)
    right = f"{kept[0]}{letters[-1]}" if both else letters[-1]
    return layers.EinsumDense(
        f"{letters},{right}z->{letters[:-1]}z",
        [*shape[1:-1], units],
        activation=activation(choose),
        bias_axes=choose.one(None, "z"),
    )


# ------------------------------------------------------------------ spatial


def _convolution(choose: Chooser, shape: Any) -> Any:
    n = len(shape) - 2
    dilated = choose.chance(0.25)
    order = _order(choose)
    channels = shape[1 if order["data_format"] == "channels_first" else -1]
    groups = choose.one(1, *[one for one in (1, 2, 3) if channels % one == 0])
    options: dict[str, Any] = {
        "strides": 1 if dilated else per_axis(choose, n, 1, 2),
        "padding": choose.one("valid", "same"),
        "activation": choose.one(None, activation(choose)),
        "use_bias": choose.chance(0.7),
        **order,
    }
    if n == 1 and choose.chance(0.3):
        options["padding"] = "causal"
    kernel = per_axis(choose, n, 1, 3)
    dilation = per_axis(choose, n, 1, 3) if dilated else 1
    kind = choose.whole(0, 4)
    if kind == 2 and n < 3:  # XLA has no strides that differ here
        options["strides"] = 1 if dilated else choose.whole(1, 2)
        one = getattr(layers, f"DepthwiseConv{n}D")
        return one(kernel, depth_multiplier=choose.whole(1, 2), dilation_rate=dilation, **options)
    if kind == 3 and n < 3:
        options["strides"] = 1 if dilated else choose.whole(1, 2)
        one = getattr(layers, f"SeparableConv{n}D")
        return one(2 * groups, kernel, dilation_rate=dilation, **options)
    if kind == 4:
        if options["padding"] == "causal":
            options["padding"] = "same"
        one = getattr(layers, f"Conv{n}DTranspose")
        return one(choose.whole(1, 4), kernel, dilation_rate=choose.one(1, dilation), **options)
    one = getattr(layers, f"Conv{n}D")
    filters = groups * choose.whole(1, 2)
    extra = weights(choose, "kernel", "bias")
    return one(filters, kernel, dilation_rate=dilation, groups=groups, **options, **extra)


def _pool(choose: Chooser, shape: Any) -> Any:
    n = len(shape) - 2
    kind = choose.one("Max", "Average")
    form = choose.whole(0, 3)
    if form == 0:
        keep = choose.chance(0.4)
        return getattr(layers, f"Global{kind}Pooling{n}D")(keepdims=keep, **_order(choose))
    if form == 1:
        return getattr(layers, f"Adaptive{kind}Pooling{n}D")(
            per_axis(choose, n, 1, 3), **_order(choose)
        )
    return getattr(layers, f"{kind}Pooling{n}D")(
        per_axis(choose, n, 1, 3),
        choose.one(None, per_axis(choose, n, 1, 3)),
        choose.one("valid", "same"),
        **_order(choose),
    )


def _size(choose: Chooser, shape: Any) -> Any:
    n = len(shape) - 2
    pairs = tuple(choose.wholes(2, 0, 2) for _ in range(n))
    order = {} if n == 1 else _order(choose)
    kind = choose.whole(0, 2)
    if kind == 0:
        cut = pairs[0] if n == 1 else choose.one(pairs, tuple(choose.wholes(n, 0, 1)))
        return getattr(layers, f"Cropping{n}D")(cut, **order)
    if kind == 1:
        return getattr(layers, f"ZeroPadding{n}D")(pairs[0] if n == 1 else pairs, **order)
    if n == 2:
        method = choose.one("nearest", "bilinear", "bicubic", "nearest")
        return layers.UpSampling2D(choose.wholes(2, 1, 3), interpolation=method, **order)
    return getattr(layers, f"UpSampling{n}D")(per_axis(choose, n, 1, 2), **order)


def _spatial_dropout(choose: Chooser, shape: Any) -> Any:
    return choose.one(layers.Dropout(0.0), layers.GaussianNoise(0.0), layers.Dropout(0.0))


# ------------------------------------------------------------------ sequences


def cell(choose: Chooser, units: int) -> Any:
    options = {"use_bias": choose.chance(0.8), "activation": choose.one(*BOUNDED)}
    options["recurrent_initializer"] = "zeros"  # JAX has no orthogonal ones of 16 bits
    return choose.one(
        lambda: layers.LSTMCell(units, unit_forget_bias=choose.chance(0.5), **options),
        lambda: layers.GRUCell(units, reset_after=choose.chance(0.5), **options),
        lambda: layers.SimpleRNNCell(units, **options),
    )()


def _recurrent(choose: Chooser, shape: Any, stateful: bool = True) -> Any:
    units = choose.whole(1, 4)
    options: dict[str, Any] = {
        "return_sequences": choose.chance(0.6),
        "go_backwards": choose.chance(0.3),
        "unroll": choose.chance(0.2),
        "zero_output_for_mask": choose.chance(0.2),
        "stateful": stateful and choose.chance(0.2),
    }
    single = {
        "use_bias": choose.chance(0.8),
        "recurrent_initializer": "zeros",
        "activation": choose.one(*BOUNDED),
        "recurrent_activation": choose.one("sigmoid", "hard_sigmoid", "tanh"),
        **weights(choose, "kernel", "recurrent", "bias"),
    }
    simple = {name: value for name, value in single.items() if name != "recurrent_activation"}
    return choose.one(
        lambda: layers.LSTM(units, unit_forget_bias=choose.chance(0.5), **single, **options),
        lambda: layers.GRU(units, reset_after=choose.chance(0.5), **single, **options),
        lambda: layers.SimpleRNN(units, **simple, **options),
        lambda: layers.RNN(cell(choose, units), **options),
        lambda: layers.RNN([cell(choose, 2), cell(choose, units)], **options),
        lambda: layers.RNN(
            layers.StackedRNNCells([cell(choose, 3), cell(choose, units), cell(choose, 2)]),
            **options,
        ),
    )()


def _bidirectional(choose: Chooser, shape: Any) -> Any:
    inner = _recurrent(choose, shape, stateful=False)
    mode = choose.one("sum", "mul", "concat", "ave")
    return layers.Bidirectional(inner, merge_mode=mode)


def _masking(choose: Chooser, shape: Any) -> Any:
    return layers.Masking(0.0)


def _recurrent_convolution(choose: Chooser, shape: Any) -> Any:
    n = len(shape) - 3
    return getattr(layers, f"ConvLSTM{n}D")(
        choose.whole(1, 3),
        per_axis(choose, n, 1, 3),
        padding=choose.one("valid", "same"),
        strides=choose.one(1, 1, 2),
        return_sequences=choose.chance(0.5),
        go_backwards=choose.chance(0.3),
        use_bias=choose.chance(0.7),
        recurrent_initializer="zeros",
        data_format=choose.one("channels_last", "channels_first"),
    )


@saving.register_keras_serializable("keras3_programs")
class Attended(layers.Layer):
    """Attention of a sequence to itself, with a mask where it has one."""

    def __init__(self, kind: int, causal: bool, options: dict[str, Any], **more: Any) -> None:
        super().__init__(**more)
        self.kind, self.causal, self.options = kind, causal, options
        self.supports_masking = True
        self.inner = (
            layers.MultiHeadAttention,
            layers.GroupQueryAttention,
            layers.Attention,
            layers.AdditiveAttention,
        )[kind](**options)

    def get_config(self) -> Any:
        own = {"kind": self.kind, "causal": self.causal, "options": self.options}
        return {**super().get_config(), **own}

    def build(self, shape: Any) -> None:
        self.inner.build(*([shape, shape] if self.kind < 2 else [[shape, shape]]))

    def call(self, x: Any, mask: Any = None) -> Any:
        if self.kind < 2:
            full = None if mask is None else mask[:, None, :]
            return self.inner(x, x, attention_mask=full, use_causal_mask=self.causal)
        masks = None if mask is None else [mask, mask]
        return self.inner([x, x], mask=masks, use_causal_mask=self.causal)


def _attention(choose: Chooser, shape: Any) -> Any:
    kind = choose.whole(0, 3)
    sides = {"use_bias": choose.chance(0.7)}
    options: dict[str, Any] = (
        {"num_heads": choose.whole(1, 3), "key_dim": choose.whole(1, 3), **sides}
        | choose.some({"value_dim": 2, "output_shape": 3, "sliding_window": 2}, 0.3),
        {"head_dim": choose.whole(1, 3), "num_query_heads": 4, **sides}
        | {"num_key_value_heads": choose.one(1, 2, 4)},
        {"use_scale": choose.chance(0.5), "score_mode": choose.one("dot", "concat")},
        {"use_scale": choose.chance(0.5)},
    )[kind]
    return Attended(kind, choose.chance(0.4), options)


# ------------------------------------------------------------------ images


def _image(choose: Chooser, shape: Any) -> Any:
    """What changes images, by factors that leave nothing to chance."""
    order = _order(choose)
    side = choose.wholes(2, 2, 8)
    fill = {
        "fill_mode": choose.one("constant", "reflect", "wrap", "nearest"),
        "interpolation": choose.one("nearest", "bilinear"),
        **order,
    }
    method = choose.one("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5")
    bits = choose.whole(3, 6)
    turn, up = choose.number(-0.2, 0.2), choose.number(-0.3, 0.3)
    return choose.one(
        lambda: layers.Resizing(*side, interpolation=method, antialias=choose.chance(0.3), **order),
        lambda: layers.Resizing(*side, pad_to_aspect_ratio=True, **order),
        lambda: layers.Resizing(*side, crop_to_aspect_ratio=True, **order),
        lambda: layers.CenterCrop(*side, **order),
        lambda: layers.RandomRotation((turn, turn), **fill),
        lambda: layers.RandomTranslation((up, up), (turn, turn), **fill),
        lambda: layers.RandomZoom((up, up), choose.one(None, (turn, turn)), **fill),
        lambda: layers.RandomBrightness((up, up), value_range=(0, 1)),
        lambda: layers.RandomGrayscale(1.0, **order),
        lambda: layers.RandomInvert(1.0, value_range=(0, 1)),
        lambda: layers.AutoContrast(value_range=(0, 1)),
        lambda: layers.RandomSharpness((0.4, 0.4), value_range=(0, 1), **order),
        lambda: layers.RandomHue((0.3, 0.3), value_range=(0, 1), **order),
        lambda: layers.RandomSaturation((0.4, 0.4), value_range=(0, 1), **order),
        lambda: layers.RandomPosterization((bits, bits), value_range=(0, 1), **order),
    )()


ANY = [_dense, _activation, _normalization, _shape, _ops, _ops, _einsum, _dense]
BY_RANK = {
    2: [*ANY],
    3: [*ANY, _convolution, _convolution, _pool, _size, _recurrent, _recurrent, _bidirectional]
    + [_attention, _attention, _masking, _wrapped],
    4: [*ANY, _convolution, _convolution, _convolution, _pool, _pool, _size, _image, _image]
    + [_recurrent_convolution, _wrapped],
    5: [*ANY, _convolution, _convolution, _pool, _pool, _size, _recurrent_convolution, _wrapped],
}


def layer(choose: Chooser, shape: Any) -> Any:
    """A random layer for tensors of that shape, whose first axis is that of samples."""
    if len(shape) == 2 and choose.chance(0.08):
        return layers.RepeatVector(choose.whole(1, 3))
    return choose.one(*BY_RANK.get(len(shape), ANY))(choose, shape)


def merge(choose: Chooser, alike: bool) -> Any:
    """A layer of two tensors, which have the same shape or only the same rank."""
    if not alike:
        return layers.Concatenate(choose.one(1, -1))
    return choose.one(
        layers.Add(),
        layers.Average(),
        layers.Maximum(),
        layers.Minimum(),
        layers.Multiply(),
        layers.Subtract(),
        layers.Concatenate(choose.one(1, -1)),
        layers.Dot(axes=-1, normalize=choose.chance(0.3)),
    )
