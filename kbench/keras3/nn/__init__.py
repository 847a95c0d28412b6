"""`keras.ops` of networks. What a function does is told by Keras; how, by its module here."""

from kbench.keras3.nn.activation import (
    celu,
    elu,
    gelu,
    glu,
    hard_shrink,
    hard_sigmoid,
    hard_silu,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_shrink,
    softmax,
    softplus,
    softsign,
    sparse_plus,
    sparse_sigmoid,
    sparsemax,
    squareplus,
    tanh,
    tanh_shrink,
    threshold,
)
from kbench.keras3.nn.attention import dot_product_attention
from kbench.keras3.nn.conv import conv, conv_transpose, depthwise_conv, separable_conv
from kbench.keras3.nn.loss import (
    binary_crossentropy,
    categorical_crossentropy,
    ctc_decode,
    ctc_loss,
    multi_hot,
    one_hot,
    psnr,
    sparse_categorical_crossentropy,
)
from kbench.keras3.nn.normalize import batch_normalization, moments
from kbench.keras3.nn.patches import depth_to_space, fold, space_to_depth, unfold
from kbench.keras3.nn.pool import (
    adaptive_average_pool,
    adaptive_max_pool,
    average_pool,
    max_pool,
)

__all__ = [
    "adaptive_average_pool", "adaptive_max_pool", "average_pool", "batch_normalization",
    "binary_crossentropy", "categorical_crossentropy", "celu", "conv", "conv_transpose",
    "ctc_decode", "ctc_loss", "depth_to_space", "depthwise_conv", "dot_product_attention", "elu",
    "fold", "gelu", "glu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_tanh", "leaky_relu",
    "log_sigmoid", "log_softmax", "max_pool", "moments", "multi_hot", "one_hot", "psnr", "relu",
    "relu6", "selu", "separable_conv", "sigmoid", "silu", "soft_shrink", "softmax", "softplus",
    "softsign", "space_to_depth", "sparse_categorical_crossentropy", "sparse_plus",
    "sparse_sigmoid", "sparsemax", "squareplus", "tanh", "tanh_shrink", "threshold", "unfold",
]  # fmt: skip
