"""A model of Keras as a graph of ONNX's operations, layer by layer.

Images are channels first in the graph, since ONNX knows nothing else; whoever runs it feeds them
so. Borders that a layer of their own adds go into the convolution that reads them. Nothing else is
simplified: what can be folded is left to the library that loads the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import layout
from .graph import Graph

Pads = tuple[int, int, int, int]  # before rows and columns, behind rows and columns
ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "softmax": "Softmax"}
RECURRENT = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "hard_sigmoid": "HardSigmoid"}


class NotExported(ValueError):
    """This layer, or this form of it, has no translation here."""


@dataclass
class Export:
    """The graph so far, and the borders that wait for the layer that reads a name."""

    batch: int
    graph: Graph = field(default_factory=Graph)
    borders: dict[str, Pads] = field(default_factory=dict)

    def pads(self, layer: Any, name: str, window: tuple[int, int], dilation: Any) -> Pads:
        """What a convolution or a pooling adds to the name that it reads."""
        waiting = self.borders.get(name)
        if layer.padding == "valid":
            return waiting or (0, 0, 0, 0)
        if waiting or layer.padding != "same":
            raise NotExported(f"{layer.name}: padding {layer.padding} behind a layer of borders")
        sizes = layer.input_shape[1:3]
        both = [
            layout.same_padding(*one)
            for one in zip(sizes, window, layer.strides, dilation, strict=True)
        ]
        return both[0][0], both[1][0], both[0][1], both[1][1]

    def activated(self, layer: Any, name: str) -> str:
        """The name behind the activation of a layer."""
        kind = layer.activation.__name__
        if kind == "linear":
            return name
        if kind == "gelu":
            return self.graph.add("Gelu", name, approximate="tanh")
        if kind == "softmax":
            if len(layer.output_shape) == 4:
                raise NotExported(f"{layer.name}: softmax over channels")
            return self.graph.add("Softmax", name, axis=-1)
        if kind not in ACTIVATIONS:
            raise NotExported(f"{layer.name}: activation {kind}")
        return self.graph.add(ACTIVATIONS[kind], name)

    def weights(self, layer: Any) -> list[Any]:
        """The arrays of a layer."""
        return list(layer.get_weights())


# ------------------------------------------------------------------ windows


def _convolution(out: Export, layer: Any, name: str) -> str:
    """Conv2D and DepthwiseConv2D: the latter has as many groups as channels."""
    _channels_last(layer)
    weights, *bias = out.weights(layer)
    deep = type(layer).__name__ == "DepthwiseConv2D"
    turned = layout.depthwise_kernel(weights) if deep else layout.kernel(weights)
    found = out.graph.add(
        "Conv",
        name,
        out.graph.weight(turned),
        *map(out.graph.weight, bias),
        kernel_shape=list(weights.shape[:2]),
        strides=list(layer.strides),
        dilations=list(layer.dilation_rate),
        group=weights.shape[2] if deep else 1,
        pads=list(out.pads(layer, name, weights.shape[:2], layer.dilation_rate)),
    )
    return out.activated(layer, found)


def _borders(out: Export, layer: Any, name: str) -> str:
    """ZeroPadding2D: the layer that reads it adds them."""
    _channels_last(layer)
    (top, bottom), (left, right) = layer.padding
    out.borders[name] = (top, left, bottom, right)
    return name


def _maxima(out: Export, layer: Any, name: str) -> str:
    """MaxPooling2D: it never sees the borders that it adds, so zeros of another layer must be the
    least there is."""
    _channels_last(layer)
    made = out.graph.maker(name)
    if name in out.borders and (made is None or made.kind != "Relu"):
        raise NotExported(f"{layer.name}: zeros around values that may be negative")
    pads = out.pads(layer, name, layer.pool_size, (1, 1))
    return out.graph.add(
        "MaxPool",
        name,
        kernel_shape=list(layer.pool_size),
        strides=list(layer.strides),
        pads=list(pads),
    )


def _mean_of_all(out: Export, layer: Any, name: str) -> str:
    """GlobalAveragePooling2D: ONNX keeps the axes."""
    _channels_last(layer)
    return out.graph.add("Flatten", out.graph.add("GlobalAveragePool", name), axis=1)


def _channels_last(layer: Any) -> None:
    if layer.data_format != "channels_last":
        raise NotExported(f"{layer.name}: {layer.data_format}")


# ------------------------------------------------------------------ one element at a time


def _normalization(out: Export, layer: Any, name: str) -> str:
    """BatchNormalization over the channels, by its moving statistics."""
    if layer.axis not in (-1, len(layer.input_shape) - 1) or not (layer.scale and layer.center):
        raise NotExported(f"{layer.name}: axis {layer.axis}, scale {layer.scale}")
    arrays = map(out.graph.weight, out.weights(layer))
    return out.graph.add("BatchNormalization", name, *arrays, epsilon=float(layer.epsilon))


def _limited(out: Export, layer: Any, name: str) -> str:
    """ReLU, with a largest value or without."""
    if float(layer.negative_slope) or float(layer.threshold):
        raise NotExported(f"{layer.name}: slope {layer.negative_slope}")
    if layer.max_value is None:
        return out.graph.add("Relu", name)
    limits = [out.graph.weight(one) for one in (0.0, float(layer.max_value))]
    return out.graph.add("Clip", name, *limits)


def _sum(out: Export, layer: Any, *names: str) -> str:
    found = names[0]
    for name in names[1:]:
        found = out.graph.add("Add", found, name)
    return found


def _reshaped(out: Export, layer: Any, name: str) -> str:
    """Reshape between vectors and images of one pixel; others would mix the two layouts."""
    before, after = layer.input_shape[1:], layer.output_shape[1:]
    for shape in (before, after):
        if len(shape) not in (1, 3) or (len(shape) == 3 and shape[:2] != (1, 1)):
            raise NotExported(f"{layer.name}: from {before} to {after}")
    shape = [0, after[-1], 1, 1] if len(after) == 3 else [0, after[-1]]
    return out.graph.add("Reshape", name, out.graph.weight(shape, "int64"))


# ------------------------------------------------------------------ vectors and sequences


def _dense(out: Export, layer: Any, name: str) -> str:
    """Dense: a product with a bias for vectors, two operations for sequences of them."""
    if not layer.use_bias:
        raise NotExported(f"{layer.name}: without a bias")
    weights, bias = map(out.graph.weight, out.weights(layer))
    if len(layer.input_shape) == 2:
        return out.activated(layer, out.graph.add("Gemm", name, weights, bias))
    product = out.graph.add("MatMul", name, weights)
    return out.activated(layer, out.graph.add("Add", product, bias))


def _lstm(out: Export, layer: Any, name: str) -> str:
    """LSTM: the last output. ONNX gives it an axis of directions."""
    kinds = [layer.recurrent_activation.__name__, *[layer.activation.__name__] * 2]
    plain = not (layer.return_sequences or layer.go_backwards or layer.stateful)
    if not plain or not layer.use_bias or set(kinds) - set(RECURRENT):
        raise NotExported(f"{layer.name}: {kinds}")
    numbers: dict[str, Any] = {}
    if kinds[0] == "hard_sigmoid":
        numbers = {"activation_alpha": [0.2], "activation_beta": [0.5]}
    arrays = map(out.graph.weight, layout.lstm_weights(*out.weights(layer)))
    found = out.graph.add(
        "LSTM",
        name,
        *arrays,
        outputs=3,
        hidden_size=layer.units,
        activations=[RECURRENT[kind] for kind in kinds],
        **numbers,
    )
    return out.graph.add("Squeeze", f"{found}_1", out.graph.weight([0], "int64"))


def _layer_normalization(out: Export, layer: Any, name: str) -> str:
    gamma, beta = map(out.graph.weight, out.weights(layer))
    epsilon = float(layer.epsilon)
    return out.graph.add("LayerNormalization", name, gamma, beta, axis=-1, epsilon=epsilon)


def _attention(out: Export, layer: Any, *names: str) -> str:
    """The operations that exporters write for it; whoever has a kernel for all finds them."""
    _, steps, width = layer.output_shape
    graph, size = out.graph, width // layer.heads
    split = graph.weight([0, steps, layer.heads, size], "int64")
    orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    q, k, v = (
        graph.add("Transpose", graph.add("Reshape", name, split), perm=order)
        for name, order in zip(names, orders, strict=True)
    )
    scores = graph.add("Mul", graph.add("MatMul", q, k), graph.weight(size**-0.5))
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), v)
    joined = graph.add("Transpose", mixed, perm=[0, 2, 1, 3])
    return graph.add("Reshape", joined, graph.weight([0, steps, width], "int64"))


# ------------------------------------------------------------------ the whole model


LAYERS: dict[str, Callable[..., str]] = {
    "Conv2D": _convolution,
    "DepthwiseConv2D": _convolution,
    "ZeroPadding2D": _borders,
    "MaxPooling2D": _maxima,
    "GlobalAveragePooling2D": _mean_of_all,
    "BatchNormalization": _normalization,
    "ReLU": _limited,
    "Activation": lambda out, layer, name: out.activated(layer, name),
    "Add": _sum,
    "Reshape": _reshaped,
    "Dropout": lambda out, layer, name: name,
    "Dense": _dense,
    "LSTM": _lstm,
    "LayerNormalization": _layer_normalization,
    "Attention": _attention,
}


def _listed(one: Any) -> list[Any]:
    return list(one) if isinstance(one, (list, tuple)) else [one]


def _fed(model: Any, batch: int) -> tuple[int, ...]:
    """The shape that goes in."""
    shape = tuple(int(one) for one in model.input_shape[1:])
    if len(shape) == 3:
        return batch, shape[2], *shape[:2]
    if any(type(one).__name__ == "LSTM" for one in model.layers):
        return shape[0], batch, shape[1]
    return batch, *shape


def export(model: Any, batch: int) -> Graph:
    """The graph of a model with one input and one output, for so many samples."""
    out = Export(batch)
    out.graph.inputs["x"] = _fed(model, batch)
    names = {id(model.inputs[0]): "x"}
    for layer in model.layers:
        if type(layer).__name__ == "InputLayer":
            continue
        if type(layer).__name__ not in LAYERS:
            raise NotExported(f"{layer.name}: a layer {type(layer).__name__}")
        read = [names[id(one)] for one in _listed(layer.input)]
        names[id(layer.output)] = LAYERS[type(layer).__name__](out, layer, *read)
    last = names[id(model.outputs[0])]
    out.graph.outputs[last] = (batch, *(int(one) for one in model.output_shape[1:]))
    return out.graph
