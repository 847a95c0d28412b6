"""Names of what Keras 3 makes: nodes by layer and function, variables by path; errors tell them."""

import keras3_there  # noqa: F401  # isort: skip
import copy
import pickle
from collections import Counter

import keras
import numpy as np
import pytest
from keras import layers, ops
from keras3_traces import in_a_trace

from kbench import backend as K
from kbench.api.operations import ArgumentError, ShapeError, walk
from kbench.workbench.inspector.graph_calls import calls


def made(monkeypatch, model, x, y):
    """The nodes of a step of training."""
    roots = []
    function = K.function

    def noted(inputs, outputs, updates=(), **options):
        roots.extend([*outputs, *(update[1] if isinstance(update, tuple) else update
                                  for update in updates)])  # fmt: skip
        return function(inputs, outputs, updates=updates, **options)

    monkeypatch.setattr(K, "function", noted)
    model.train_on_batch(x, y)
    assert roots
    return walk(roots, set())


def block():
    """A model in which another one lies, beside layers of its own."""
    inner = keras.Sequential([layers.Dense(5, "gelu", name="wide"), layers.BatchNormalization()])
    x = keras.Input((4,))
    y = layers.Dense(3, activation="softmax", name="classes")(inner(x))
    model = keras.Model(x, y)
    model.compile(keras.optimizers.Adam(name="steps"), "sparse_categorical_crossentropy")
    return model


X, Y = np.random.RandomState(3).randn(6, 4).astype("float32"), np.arange(6) % 3


def test_nodes_stand_in_the_scope_of_their_layer(monkeypatch):
    nodes = made(monkeypatch, block(), X, Y)
    scopes = {node.name.partition("/")[0] for node in nodes if "/" in node.name}
    layers_ = {scope for scope in scopes if scope.startswith("batch_normalization")}
    assert len(layers_) == 1
    assert {"wide", "classes", "compile_loss", "steps"} <= scopes
    called = {node.called for node in nodes if node.name.startswith("wide/")}
    assert {"matmul", "add", "gelu"} <= called
    folded = Counter(name for _, name in calls(nodes).values())
    assert folded["wide"] >= 5 and folded["classes"] == 3 and folded["steps"] > 20


def test_variables_have_the_path_of_keras():
    model = block()
    for variable in model.variables:
        assert variable._node.name.partition(":")[0].startswith(variable.path)


def test_a_layer_with_layers_of_its_own_is_a_scope():
    class Block(layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.layers = [layers.Dense(4, name="one"), layers.Dense(4, name="two")]

        def call(self, x):
            for layer in self.layers:
                x = layer(x)
            made.append(x)
            return x

    made = []
    block = Block(name="block")
    block(X)
    in_a_trace(block, [X])
    assert made[-1].node.name.startswith("block/two/")


def test_scopes_of_ones_own_name_nodes():
    names = []

    def function(x):
        with keras.name_scope("mine"), keras.name_scope("inner"):
            names.append(ops.exp(x).node.name)
        names.append(ops.exp(x).node.name)
        return x

    in_a_trace(function, [X])
    assert names[0].startswith("mine/inner/exp") and "/" not in names[1]


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize("from_logits", [False, True])
def test_a_label_without_a_class_is_told_of_by_the_loss(from_logits):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits))
    text = r"^sparse_categorical_crossentropy: class 3 is out of range for 3 classes\n.*int64\[6\]"
    with pytest.raises(ArgumentError, match=f"(?s){text}"):
        model.fit(X, np.arange(6) % 4, verbose=0)


def narrow(x):
    return ops.max_pool(x, 2)


def between(x):
    return ops.average_pool(x, (2, 2), strides=(1, 2, 3))


ERRORS = {  # name -> a function that fails, of an array, the type of the error, what it says
    "max_pool": (narrow, np.ones((2, 3)), ShapeError, r"x is float32\[2, 3\], but rank 4"),
    "average_pool": (between, np.ones((1, 4, 4, 2)), ArgumentError, "strides must be 2 integers"),
    "where": (
        lambda x: ops.where(x > 0, x, np.ones(7)), np.ones((2, 3)), ShapeError, "do not broadcast"
    ),
    "conv": (
        lambda x: ops.conv(x, np.ones((3, 3, 3))), np.ones((2, 3)), ValueError,
        r"inputs need axes of batch and channels .*; got inputs float32\[2, 3\], kernel float",
    ),
    "scatter_update": (
        lambda x: ops.scatter_update(x, [[0], [1]], [1.0, 2.0]), np.ones((2, 3)), ValueError,
        r"indices are int\d\d\[2, 1\], .* float32\[2, 3\], and updates are float32\[2\]",
    ),
    "shuffle": (
        lambda x: keras.random.shuffle(x, seed=1), np.float32(3), np.exceptions.AxisError,
        "axis 0 is out of bounds for array of dimension 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_named_by_the_function_of_keras(name):
    function, x, kind, text = ERRORS[name]
    x = x.astype("float32")
    for call in (lambda: function(ops.convert_to_tensor(x)), lambda: in_a_trace(function, [x])):
        with pytest.raises(kind, match=f"^{name}: .*{text}"):
            call()


def test_an_error_in_a_layer_keeps_its_operands_and_names_the_layer():
    inner = layers.Lambda(lambda x: ops.where(x > 0, x, np.ones(7)), name="inside")
    for call in (lambda: inner(X), lambda: in_a_trace(inner, [X])):
        with pytest.raises(ShapeError, match=r"^where: shapes .* do not broadcast") as caught:
            call()
        assert "\n  in layer 'inside' (Lambda), called with float32[" in str(caught.value)
        assert [operand.role for operand in caught.value.operands] == ["condition", "x", "y"]
    product = layers.Lambda(lambda x: K.dot(x, K.ones((7, 5))), name="product")
    with pytest.raises(ShapeError, match="^dot: inner sizes differ") as caught:  # none of Keras'
        product(X)
    assert "\n  in layer 'product' (Lambda), called with float32[" in str(caught.value)
    assert [operand.role for operand in caught.value.operands] == ["x", "y"]
    with pytest.raises(ShapeError) as caught:
        layers.Embedding(3, 2, name="words")(np.array([[0, 9]]))
    assert str(caught.value).startswith("take: x is float32[3, 2], whose axis 0 has 3 entries;")
    assert "\n  in layer 'words' (Embedding), called with int64[1, 2]\n" in str(caught.value)


def test_an_error_is_copied_as_it_is():
    with pytest.raises(ShapeError) as caught:
        ops.take(np.ones((2, 3)), 7, axis=1)
    error = caught.value
    assert error.args == (str(error),)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(other) is ShapeError and str(other) == str(error)
