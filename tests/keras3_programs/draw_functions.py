"""Functions of `keras.ops` of functions of `keras.ops`: at once, in a step, and their gradients."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np
from keras import ops
from keras.src.backend import compute_output_spec

from keras3_programs.choose import Chooser

UNARY = (
    "abs negative square sqrt exp log1p sin cos tanh sigmoid relu softplus sign floor ceil round "
    "trunc reciprocal rsqrt expm1 arctan sinh cosh tan arcsinh isfinite isnan gelu silu "
    "selu elu leaky_relu erf cbrt exp2 log_sigmoid softsign hard_tanh sparse_plus "
    "squareplus conj real imag angle isinf nan_to_num zeros_like ones_like copy deg2rad sinc mish "
    "hard_silu hard_sigmoid relu6 tanh_shrink soft_shrink bitwise_not "
    "logical_not signbit isposinf log10 log2 log"
).split()
BINARY = (
    "add subtract multiply true_divide maximum minimum power arctan2 less less_equal equal "
    "not_equal greater greater_equal logical_and logical_or logical_xor logaddexp hypot mod "
    "floor_divide "
    "bitwise_and bitwise_or bitwise_xor left_shift right_shift fmod copysign nextafter heaviside "
    "logaddexp2 gcd lcm ldexp isclose"
).split()
REDUCE = (
    "sum mean max min prod all any var std logsumexp argmax argmin count_nonzero median amax amin "
    "nansum nanmean nanmax nanmin ptp nanprod nanvar nanstd"
).split()
DTYPES = (
    ["float32"] * 6
    + "float16 bfloat16 float64 int32 int32 int64 int8 uint8 int16 uint16 uint32 bool bool".split()
)


def leaf(choose: Chooser, shape: Any) -> Any:
    """An array that may be of any dtype, and may lie in memory in any way."""
    dtype = choose.one(*DTYPES)
    way = choose.whole(0, 5)
    draw = choose.draw
    if way == 0 and shape:
        values = np.repeat(draw.uniform(-2, 2, shape), 2, 0)[::2]
    elif way == 1:
        values = draw.uniform(-2, 2, shape[::-1]).T
    elif way == 2 and shape:
        values = draw.uniform(-2, 2, shape)[..., ::-1]
    else:
        values = draw.uniform(-2, 2, shape)
    if dtype == "bool":
        return values > 0
    if dtype.startswith("uint"):
        return np.abs(np.round(values * 2)).astype(dtype)
    if "int" in dtype:
        return np.round(values * 2).astype(dtype)
    return (
        keras.ops.cast(values.astype("float32"), dtype)
        if dtype == "bfloat16"
        else (values.astype(dtype))
    )


def related(choose: Chooser, shape: Any) -> Any:
    """A shape that broadcasts with another."""
    found = [1 if choose.chance(0.25) else size for size in shape]
    return tuple(found[choose.whole(0, len(found)) :] if choose.chance(0.25) else found)


def step(choose: Chooser, count: int) -> Any:
    """A function of a list of `count` values, and its words.

    What depends on shapes is drawn when it is called, by a seed of its own.
    """
    seed = int(choose.draw.randint(1 << 30))
    places = [choose.whole(0, count - 1) if choose.chance(0.4) else count - 1 for _ in range(3)]
    places[0] = count - 1
    kind = choose.one("unary", "binary", "binary", "reduce", "shape", "shape", "shape", "more")
    name = choose.one(*{"unary": UNARY, "binary": BINARY, "reduce": REDUCE}.get(kind, [kind]))

    def run(values: list[Any]) -> Any:
        own = Chooser(seed)
        x, y = values[places[0]], values[places[1]]
        if kind == "unary":
            return getattr(ops, name)(x)
        if kind == "binary":
            return getattr(ops, name)(*own.one((x, y), (y, x), (x, 2), (x, own.one(1.5, True))))
        if kind == "reduce":
            return _reduced(own, name, x)
        return _shaped(own, x, y) if kind == "shape" else _further(own, x, y)

    return run, f"{name}({places[:2]}, {seed})"


def _axis(own: Chooser, x: Any) -> int:
    return own.whole(-len(x.shape), len(x.shape) - 1) if x.shape else 0


def _reduced(own: Chooser, name: str, x: Any) -> Any:
    axis = own.one(None, _axis(own, x), -1)
    if len(x.shape) > 1 and own.chance(0.3) and not name.startswith("arg"):
        axis = (0, -1)
    keepdims = own.chance(0.3)
    if name == "count_nonzero":
        return ops.count_nonzero(x, axis)
    return getattr(ops, name)(x, axis, keepdims=keepdims)


def _shaped(own: Chooser, x: Any, y: Any) -> Any:
    axis = _axis(own, x)
    rank = len(x.shape)
    order = [int(i) for i in own.draw.permutation(rank)]
    return own.one(
        lambda: ops.transpose(x, order),
        lambda: ops.reshape(x, (-1,)),
        lambda: ops.reshape(x, x.shape[::-1]),
        lambda: ops.expand_dims(x, own.whole(-rank - 1, rank)),
        lambda: ops.squeeze(x),
        lambda: ops.flip(x, own.one(None, axis)),
        lambda: ops.roll(x, own.whole(-3, 3), own.one(None, axis)),
        lambda: ops.repeat(x, 2, own.one(None, axis)),
        lambda: ops.tile(x, own.one(2, (2, 1))),
        lambda: ops.concatenate([x, x], axis),
        lambda: ops.stack([x, x], own.whole(-rank - 1, rank)),
        lambda: ops.split(x, own.one(1, [1], [0, 1]), axis)[-1],
        lambda: ops.take(x, own.one([0], np.array([[0, -1]]), 0), own.one(None, axis)),
        lambda: ops.swapaxes(x, axis, -1),
        lambda: ops.moveaxis(x, axis, 0),
        lambda: ops.pad(x, own.one(1, [(own.whole(0, 1), 2)] * rank)),
        lambda: ops.broadcast_to(x, (2, *x.shape)),
        lambda: ops.tril(x, own.whole(-1, 1)) if rank > 1 else x,
        lambda: ops.triu(x, own.whole(-1, 1)) if rank > 1 else x,
        lambda: ops.diagonal(x, own.whole(-1, 1)),
        lambda: ops.diag(x),
        lambda: ops.trace(x),
        lambda: x[..., ::-1],
        lambda: x[..., 1:],
        lambda: x[None, ..., -1:],
        lambda: x[1:2] if rank else x,
        lambda: ops.rot90(x),
        lambda: ops.ravel(x),
        lambda: ops.atleast_2d(x),
        lambda: ops.meshgrid(ops.ravel(x), ops.ravel(y))[1],
        lambda: ops.array_split(x, 2, axis)[0],
        lambda: ops.hstack([x, x]),
        lambda: ops.vstack([x, x]),
        lambda: ops.unstack(x, axis=axis)[0],
        lambda: ops.flipud(x),
        lambda: ops.append(x, y),
    )()


def _further(own: Chooser, x: Any, y: Any) -> Any:
    axis = _axis(own, x)
    return own.one(
        lambda: ops.cumsum(x, axis),
        lambda: ops.cumprod(x, axis),
        lambda: ops.sort(x, axis),
        lambda: ops.argsort(x, axis),
        lambda: ops.diff(x, axis=axis),
        lambda: ops.where(x > 0, x, y),
        lambda: ops.where(ops.cast(y, "bool"), x, 1),
        lambda: ops.clip(x, own.one(-1, 0), own.one(1, 1.5)),
        lambda: ops.clip(x, -1.0, y),
        lambda: ops.dot(x, y),
        lambda: ops.matmul(x, ops.swapaxes(y, -1, -2)),
        lambda: ops.matmul(x, y),
        lambda: ops.outer(x, y),
        lambda: ops.inner(x, y),
        lambda: ops.vdot(x, y),
        lambda: ops.tensordot(x, y, own.whole(0, 1)),
        lambda: ops.einsum("...i,...i->...", x, y),
        lambda: ops.softmax(x, axis),
        lambda: ops.log_softmax(x, axis),
        lambda: ops.one_hot(ops.cast(x, "int32"), 3, own.one(-1, 0)),
        lambda: ops.cast(x, own.one("float32", "int32", "bool", "float16", "int8", "bfloat16")),
        lambda: ops.average(x, axis, weights=y),
        lambda: ops.quantile(x, own.one(0.2, [0.1, 0.5]), axis),
        lambda: ops.digitize(x, np.array([-1.0, 0.5])),
        lambda: ops.searchsorted(np.array([-1.0, 0.5]), ops.ravel(x)),
        lambda: ops.bincount(ops.abs(ops.ravel(ops.cast(x, "int32")))),
        lambda: ops.top_k(x, 1)[own.whole(0, 1)],
        lambda: ops.take_along_axis(x, ops.argsort(x, axis), axis),
        lambda: ops.cross(x, y),
        lambda: ops.kron(x, y),
        lambda: ops.linspace(x, y, 3),
        lambda: ops.full_like(x, own.one(1, 2.5)),
        lambda: ops.logspace(x, 1, 2),
        lambda: ops.corrcoef(x),
        lambda: ops.correlate(ops.ravel(x), ops.ravel(y), own.one("full", "same", "valid")),
        lambda: ops.histogram(x, 4)[0],
        lambda: ops.normalize(x, axis),
        lambda: ops.segment_sum(x, np.zeros(x.shape[0], "int32"), 2),
        lambda: ops.segment_max(x, np.zeros(x.shape[0], "int32"), 2),
        lambda: ops.linalg.norm(x, axis=axis),
        lambda: ops.select([x > 1, x < 0], [x, y], 0),
        lambda: ops.trapezoid(x, axis=axis),
        lambda: ops.vander(ops.ravel(x), 3),
        lambda: ops.glu(x, axis),
        lambda: ops.unravel_index(ops.abs(ops.cast(x, "int32")), (3, 5))[1],
        lambda: ops.scatter_update(x, [[0] * len(x.shape)], ops.ravel(x)[:1]),
        lambda: ops.slice(x, [0] * len(x.shape), [1] * len(x.shape)),
        lambda: ops.isin(x, y),
        lambda: ops.multi_hot(ops.cast(x, "int32"), 3),
        lambda: ops.moments(x, [0])[1],
        lambda: ops.nanmedian(x, axis),
        lambda: ops.view(x, own.one("int32", "uint8", "float32")),
        lambda: ops.bartlett(3) * x[..., :1],
        lambda: ops.max(x, axis, initial=0),
        lambda: ops.associative_scan(ops.add, x, axis=axis),
        lambda: ops.rearrange(x, "a ... -> ... a"),
    )()


class Program:
    """A few arrays, and functions of them in a row."""

    def __init__(self, seed: int) -> None:
        choose = Chooser(seed, 9)
        shape = tuple(
            choose.one(0, 1, 1, 2, 2, 3, 3, 5) for _ in range(choose.one(0, 1, 2, 2, 3, 4))
        )
        self.leaves = [leaf(choose, shape)]
        self.leaves += [leaf(choose, related(choose, shape)) for _ in range(2)]
        self.steps: list[Any] = []
        self.words = [
            f"{keras.backend.standardize_dtype(x.dtype)}{tuple(x.shape)}" for x in self.leaves
        ]
        for i in range(choose.whole(2, 4)):
            run, words = step(Chooser(seed, 10, i), len(self.leaves) + i)
            self.steps.append(run)
            self.words.append(words)

    def values(self, leaves: Any) -> list[Any]:
        """What the functions give, the last of them last."""
        found = list(leaves)
        for run in self.steps:
            found.append(run(found))
        return found[len(leaves) :]


class Predicting(keras.Model):
    """A program as what a model computes."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.autocast = False
        self.program = program

    def call(self, leaves: Any) -> Any:
        return self.program.values(leaves)


class Sloping(keras.Model):
    """A program of variables: a step of gradient descent moves them by their gradients."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.held = [
            self.add_weight(shape=np.shape(x), dtype="float32", autocast=False, initializer="zeros")
            if str(x.dtype) == "float32"
            else x
            for x in program.leaves
        ]
        self.moved = [x for x in self.held if isinstance(x, keras.Variable)]
        for variable, x in zip(self.held, program.leaves, strict=True):
            if isinstance(variable, keras.Variable):
                variable.assign(x)

    def call(self, _: Any) -> Any:
        last = self.program.values([ops.convert_to_tensor(x) for x in self.held])[-1]
        total = ops.sum(ops.sin(ops.cast(last, "float32") + 0.3))
        return ops.reshape(total, (1,))

    def compute_loss(self, x: Any, y: Any, y_pred: Any, *_: Any, **__: Any) -> Any:
        return ops.sum(y_pred)


def record(seed: int, slopes: bool = True) -> dict[str, Any]:
    """Values by name: at once, in a step, by their specifications; and gradients, if wanted."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        program = Program(seed)
        found: dict[str, Any] = {"words": np.array(program.words)}
        ways = {
            "eager": lambda: program.values(program.leaves),
            "step": lambda: Predicting(program).predict_on_batch(list(program.leaves)),
            "spec": lambda: _specified(program),
        }
        if slopes:
            ways["slope"] = lambda: _slopes(program)
        for name, way in ways.items():
            try:
                values = way()
            except Exception as error:
                found[f"{name}/error"] = np.array(f"{type(error).__name__}: {error}"[:400])
                continue
            for i, one in enumerate(values):
                dtype = keras.backend.standardize_dtype(one.dtype)
                found[f"{name}/{i}/dtype"] = np.array(f"{dtype}{tuple(one.shape)}")
                if name != "spec":
                    array = np.asarray(ops.convert_to_numpy(one))
                    found[f"{name}/{i}"] = (
                        array.astype("float32") if dtype in ("bfloat16", "float16") else array
                    )
        return found


def _specified(program: Program) -> Any:
    tensors = [
        keras.KerasTensor(x.shape, keras.backend.standardize_dtype(x.dtype)) for x in program.leaves
    ]
    return compute_output_spec(lambda *x: program.values(x), *tensors)


def _slopes(program: Program) -> Any:
    model = Sloping(program)
    if not model.moved:
        return []
    model.compile(keras.optimizers.SGD(1.0), "mse")
    before = [np.array(ops.convert_to_numpy(x)) for x in model.moved]
    one = np.zeros((1, 1), "float32")
    model.train_on_batch(one, one)
    return [
        b - np.asarray(ops.convert_to_numpy(x)) for b, x in zip(before, model.moved, strict=True)
    ]
