"""One call of every public function that makes tensors, to see what it takes and gives.

`x(...)` is a placeholder of the dtype `d` that is looked at, `s(...)` a sparse one, `v(...)` a
variable; `i(...)` is a placeholder of int32 and `b(...)` of bool. What is missing here takes no
tensor or gives none.
"""

from __future__ import annotations

import inspect

from kbench import backend
from kbench.engine.graph.op import REGISTRY


def elementwise_functions(count: int) -> list[str]:
    """The public functions that are one elementwise operation of `count` operands alone."""
    found = []
    for name in backend.__all__:
        op = REGISTRY.get(name)
        if op is not None and op.expr is not None and len(op.expr.leaves) == count:
            parameters = inspect.signature(getattr(backend, name)).parameters.values()
            if [one.default for one in parameters] == [inspect.Parameter.empty] * count:
                found.append(name)
    return found


CURVES = [*elementwise_functions(1), "relu", "elu"]
UNARY = [
    *CURVES,
    *"softmax zeros_like ones_like identity flatten batch_flatten transpose".split(),
    *"stop_gradient print_tensor l2_normalize shape size ndim int_shape dtype".split(),
    *"is_tensor is_variable is_placeholder is_sparse is_symbolic".split(),
]
REDUCTIONS = "max min sum prod mean var std any all argmax argmin logsumexp cumsum cumprod".split()
BINARY = [*elementwise_functions(2), "lesser", "lesser_equal"]

SAMPLES: dict[str, str] = {
    **{name: f"K.{name}(x(4, 3))" for name in (*UNARY, *REDUCTIONS)},
    **{name: f"K.{name}(x(4, 3), x(4, 3))" for name in BINARY},
    # creation
    "constant": "K.constant([1, 0], dtype=d)",
    "variable": "K.variable([1, 0], dtype=d)",
    "placeholder": "K.placeholder((2, 3), dtype=d)",
    "zeros": "K.zeros((2, 3), dtype=d)",
    "ones": "K.ones((2, 3), dtype=d)",
    "eye": "K.eye(3, dtype=d)",
    "arange": "K.arange(4, dtype=d)",
    "cast": "K.cast(x(4, 3), 'float64' if d == 'float32' else 'float32')",
    "one_hot": "K.one_hot(x(4), 3)",
    # elementwise
    "pow": "K.pow(x(4, 3), 2)",
    "clip": "K.clip(x(4, 3), 0, 1)",
    "in_top_k": "K.in_top_k(x(4, 3), i(4), 2)",
    # products
    "dot": "K.dot(x(2, 3), x(3, 4))",
    "batch_dot": "K.batch_dot(x(2, 3, 4), x(2, 4, 5))",
    # shape and indexing
    "reshape": "K.reshape(x(4, 3), (3, 4))",
    "permute_dimensions": "K.permute_dimensions(x(4, 3), (1, 0))",
    "expand_dims": "K.expand_dims(x(4, 3))",
    "squeeze": "K.squeeze(x(4, 1), 1)",
    "concatenate": "K.concatenate([x(4, 3), x(4, 3)])",
    "stack": "K.stack([x(4, 3), x(4, 3)])",
    "repeat": "K.repeat(x(4, 3), 2)",
    "repeat_elements": "K.repeat_elements(x(4, 3), 2, 0)",
    "tile": "K.tile(x(4, 3), (2, 1))",
    "reverse": "K.reverse(x(4, 3), 0)",
    "slice": "K.slice(x(4, 3), (0, 0), (2, 2))",
    "gather": "K.gather(x(4, 3), i(2))",
    "count_params": "K.count_params(x(4, 3))",
    "get_variable_shape": "K.get_variable_shape(x(4, 3))",
    "pattern_broadcast": "K.pattern_broadcast(x(4, 1), (False, True))",
    "temporal_padding": "K.temporal_padding(x(2, 5, 3))",
    "asymmetric_temporal_padding": "K.asymmetric_temporal_padding(x(2, 5, 3))",
    "spatial_2d_padding": "K.spatial_2d_padding(x(1, 4, 4, 2))",
    "asymmetric_spatial_2d_padding": "K.asymmetric_spatial_2d_padding(x(1, 4, 4, 2))",
    "spatial_3d_padding": "K.spatial_3d_padding(x(1, 3, 3, 3, 2))",
    "resize_images": "K.resize_images(x(1, 4, 4, 2), 2, 2, 'channels_last')",
    "resize_volumes": "K.resize_volumes(x(1, 2, 2, 2, 2), 2, 2, 2, 'channels_last')",
    # neural networks
    "bias_add": "K.bias_add(x(4, 3), x(3))",
    "batch_normalization": "K.batch_normalization(x(4, 3), x(3), x(3), x(3), x(3))",
    "normalize_batch_in_training": "K.normalize_batch_in_training(x(4, 3), x(3), x(3), [0])",
    "binary_crossentropy": "K.binary_crossentropy(x(4, 3), x(4, 3))",
    "categorical_crossentropy": "K.categorical_crossentropy(x(4, 3), x(4, 3))",
    "sparse_categorical_crossentropy": "K.sparse_categorical_crossentropy(i(4), x(4, 3))",
    "binary_focal_crossentropy": "K.binary_focal_crossentropy(x(4, 3), x(4, 3))",
    "categorical_focal_crossentropy": "K.categorical_focal_crossentropy(x(4, 3), x(4, 3))",
    # convolution and pooling
    "conv1d": "K.conv1d(x(2, 7, 3), x(3, 3, 4))",
    "conv2d": "K.conv2d(x(1, 5, 5, 2), x(3, 3, 2, 4))",
    "conv3d": "K.conv3d(x(1, 3, 3, 3, 2), x(2, 2, 2, 2, 3))",
    "conv2d_transpose": "K.conv2d_transpose(x(1, 3, 3, 2), x(3, 3, 4, 2), (1, 5, 5, 4))",
    "conv3d_transpose": ("K.conv3d_transpose(x(1, 2, 2, 2, 2), x(2, 2, 2, 3, 2), (1, 3, 3, 3, 3))"),
    "atrous_conv2d": "K.atrous_conv2d(x(1, 7, 7, 2), x(3, 3, 2, 4), 2)",
    "deconv2d": "K.deconv2d(x(1, 3, 3, 2), x(3, 3, 2, 4), (1, 5, 5, 4))",
    "depthwise_conv2d": "K.depthwise_conv2d(x(1, 5, 5, 2), x(3, 3, 2, 1))",
    "separable_conv1d": "K.separable_conv1d(x(1, 5, 2), x(3, 2, 1), x(1, 2, 4))",
    "separable_conv2d": "K.separable_conv2d(x(1, 5, 5, 2), x(3, 3, 2, 1), x(1, 1, 2, 4))",
    "local_conv1d": "K.local_conv1d(x(2, 5, 3), x(3, 9, 4), (3,), (1,))",
    "local_conv2d": "K.local_conv2d(x(1, 4, 4, 2), x(4, 18, 3), (3, 3), (1, 1), (2, 2))",
    "pool2d": "K.pool2d(x(1, 4, 4, 2), (2, 2))",
    "pool3d": "K.pool3d(x(1, 4, 4, 4, 2), (2, 2, 2))",
    # CTC
    "ctc_batch_cost": "K.ctc_batch_cost(i(2, 2), x(2, 5, 4), i(2, 1), i(2, 1))",
    "ctc_decode": "K.ctc_decode(x(2, 5, 4), i(2))",
    "ctc_label_dense_to_sparse": "K.ctc_label_dense_to_sparse(x(2, 3), i(2))",
    # loops and branches
    "rnn": "K.rnn(lambda a, s: (a + s[0], [a + s[0]]), x(2, 4, 3), [x(2, 3)])",
    "map_fn": "K.map_fn(lambda a: a + a, x(4, 3), dtype=d)",
    "foldl": "K.foldl(lambda a, b: a + b, x(4, 3))",
    "foldr": "K.foldr(lambda a, b: a + b, x(4, 3))",
    "switch": "K.switch(b(), x(4, 3), x(4, 3))",
    "in_train_phase": "K.in_train_phase(x(4, 3), x(4, 3))",
    "in_test_phase": "K.in_test_phase(x(4, 3), x(4, 3))",
    "learning_phase": "K.learning_phase()",
    # random numbers
    "random_uniform": "K.random_uniform((2, 3), minval=0, maxval=2, dtype=d)",
    "random_normal": "K.random_normal((2, 3), dtype=d)",
    "truncated_normal": "K.truncated_normal((2, 3), dtype=d)",
    "random_binomial": "K.random_binomial((2, 3), 0.5, dtype=d)",
    "random_bernoulli": "K.random_bernoulli((2, 3), 0.5, dtype=d)",
    "random_uniform_variable": "K.random_uniform_variable((2, 3), 0, 1, dtype=d)",
    "random_normal_variable": "K.random_normal_variable((2, 3), 0, 1, dtype=d)",
    "dropout": "K.dropout(x(4, 3), 0.5)",
    # evaluation and state
    "update": "K.update(v(2, 3), x(2, 3))",
    "update_add": "K.update_add(v(2, 3), x(2, 3))",
    "update_sub": "K.update_sub(v(2, 3), x(2, 3))",
    "moving_average_update": "K.moving_average_update(v(2, 3), x(2, 3), 0.9)",
    "gradients": "(lambda a: K.gradients(K.sum(a * a), [a]))(x(4, 3))",
    "get_value": "K.get_value(v(2, 3))",
    "eval": "K.eval(v(2, 3))",
    "is_keras_tensor": "K.is_keras_tensor(x(4, 3))",
    # sparse tensors
    "to_dense": "K.to_dense(s(4, 3))",
    "cast_to_floatx": "K.cast_to_floatx([1, 0])",
}

# What is given where the sample cannot show the rule.
GIVES = {"cast": "as asked", "gradients": "floats same, others None"}
