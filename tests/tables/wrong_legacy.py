"""Wrong calls of functions under their names of Keras 1, and of others in Keras 1's form."""

from __future__ import annotations

import numpy as np
from wrong import Wrong, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, ShapeError

BROADCAST = "shapes [2, 3] and [4] do not broadcast"

WRONG = [
    # functions under their old names
    Wrong("lesser", lambda: K.lesser(x(2, 3), v(4)), ShapeError, (BROADCAST, "float32[4]")),
    Wrong("lesser", lambda: K.lesser(x(2, 3), "a"), DtypeError, ("float32[2, 3]",)),
    Wrong("lesser", lambda: K.lesser(x(2, 3)), TypeError, ("'y'",)),
    Wrong("lesser_equal", lambda: K.lesser_equal(x(2, 3), v(4)), ShapeError, (BROADCAST,)),
    Wrong("lesser_equal", lambda: K.lesser_equal(x(2, 3), object()), DtypeError, ("[2, 3]",)),
    Wrong("lesser_equal", lambda: K.lesser_equal(x(2), x(2), x(2)), TypeError, ("3",)),
    Wrong(
        "asymmetric_temporal_padding",
        lambda: K.asymmetric_temporal_padding(x(2, 3)),
        ShapeError,
        ("float32[2, 3]",),
    ),
    Wrong(
        "asymmetric_temporal_padding",
        lambda: K.asymmetric_temporal_padding(x(2, 3, 4), -1),
        ArgumentError,
        ("-1", "float32[2, 3, 4]"),
    ),
    Wrong(
        "asymmetric_temporal_padding",
        lambda: K.asymmetric_temporal_padding(x(2, 3, 4), 1, 1.5),
        ArgumentError,
        ("1.5",),
    ),
    Wrong(
        "asymmetric_spatial_2d_padding",
        lambda: K.asymmetric_spatial_2d_padding(x(2, 3, 4)),
        ShapeError,
        ("float32[2, 3, 4]",),
    ),
    Wrong(
        "asymmetric_spatial_2d_padding",
        lambda: K.asymmetric_spatial_2d_padding(x(1, 2, 3, 4), dim_ordering="channels_last"),
        ArgumentError,
        ("'tf', 'th' or 'default'", "'channels_last'"),
    ),
    Wrong(
        "asymmetric_spatial_2d_padding",
        lambda: K.asymmetric_spatial_2d_padding(x(1, 2, 3, 4), left_pad=-2),
        ArgumentError,
        ("-2",),
    ),
    Wrong(
        "atrous_conv2d",
        lambda: K.atrous_conv2d(x(1, 8, 8, 3), v(3, 3, 2, 4), 2),
        ShapeError,
        ("float32[1, 8, 8, 3]", "float32[3, 3, 2, 4]"),
    ),
    Wrong(
        "atrous_conv2d",
        lambda: K.atrous_conv2d(x(1, 8, 8, 3), v(3, 3, 3, 4), 0),
        ArgumentError,
        ("0",),
    ),
    Wrong(
        "atrous_conv2d",
        lambda: K.atrous_conv2d(x(1, 8, 8, 3), v(3, 3, 3, 4), border_mode="full"),
        ArgumentError,
        ("'full'",),
    ),
    Wrong(
        "deconv2d",
        lambda: K.deconv2d(x(1, 3, 3, 2), v(3, 3, 5, 4), (1, 5, 5, 4)),
        ShapeError,
        ("float32[1, 3, 3, 2]", "kernel is float32[3, 3, 5, 4], in today's layout float32[3, 3, 4"),
    ),
    Wrong(
        "deconv2d",
        lambda: K.deconv2d(x(1, 2, 3, 3), v(4, 5, 3, 3), (1, 4, 5, 5), dim_ordering="th"),
        ShapeError,
        ("kernel is float32[4, 5, 3, 3], in today's layout float32[3, 3, 4, 5]", "variable"),
    ),
    Wrong(
        "deconv2d",
        lambda: K.deconv2d(x(1, 3, 3, 2), v(3, 3, 2, 4), (1, 5, 5, 4), border_mode="full"),
        ArgumentError,
        ("border_mode must be", "'full'"),
    ),
    Wrong(
        "deconv2d",
        lambda: K.deconv2d(x(1, 3, 3, 2), v(3, 3, 2), (1, 5, 5, 4)),
        ShapeError,
        ("kernel is float32[3, 3, 2], but rank 4 is needed: [rows, cols, channels, filters]",),
    ),
    Wrong(
        "atrous_conv2d",
        lambda: K.atrous_conv2d(x(1, 3, 8, 8), v(4, 2, 3, 3), 2, dim_ordering="th"),
        ShapeError,
        ("kernel is float32[4, 2, 3, 3], in today's layout float32[3, 3, 2, 4]", "variable"),
    ),
    Wrong(
        "deconv2d",
        lambda: K.deconv2d(x(1, 3, 3, 2), v(3, 3, 2, 4), (1, 5, 5, 4), dim_ordering="nchw"),
        ArgumentError,
        ("dim_ordering", "'nchw'"),
    ),
    Wrong(
        "set_image_dim_ordering",
        lambda: K.set_image_dim_ordering("channels_last"),
        ArgumentError,
        ("'tf' or 'th'",),
    ),
    Wrong("set_image_dim_ordering", lambda: K.set_image_dim_ordering(None), ArgumentError, ()),
    Wrong("set_image_dim_ordering", lambda: K.set_image_dim_ordering([]), ArgumentError, ()),
    # functions of today in Keras 1's form
    Wrong(
        "conv2d",
        lambda: K.conv2d(x(1, 3, 8, 8), v(4, 2, 3, 3), dim_ordering="th"),
        ShapeError,
        ("float32[1, 3, 8, 8]", "kernel is float32[4, 2, 3, 3], in today's layout float32[3, 3, 2"),
    ),
    Wrong(
        "conv2d",
        lambda: K.conv2d(x(1, 3, 8, 8), v(4, 2, 3), dim_ordering="th"),
        ShapeError,
        ("kernel is float32[4, 2, 3], but rank 4 is needed: [filters, channels, rows, cols]",),
    ),
    Wrong(
        "conv3d",
        lambda: K.conv3d(x(1, 3, 8, 8, 8), v(4, 2, 3, 3, 3), dim_ordering="th"),
        ShapeError,
        ("kernel is float32[4, 2, 3, 3, 3], in today's layout float32[3, 3, 3, 2, 4]",),
    ),
    Wrong(
        "separable_conv2d",
        lambda: K.separable_conv2d(
            x(1, 3, 8, 8), v(2, 4, 3, 3), v(4, 6, 1, 1), (1, 1), "valid", "th"
        ),
        ShapeError,
        ("depthwise_kernel is float32[2, 4, 3, 3], in today's layout float32[3, 3, 4, 2]",),
    ),
    Wrong(
        "separable_conv2d",
        lambda: K.separable_conv2d(
            x(1, 3, 8, 8), v(2, 3, 3, 3), v(4, 7, 1, 1), (1, 1), "valid", "th"
        ),
        ShapeError,
        (
            "depthwise_kernel is float32[2, 3, 3, 3], in today's layout float32[3, 3, 3, 2]",
            "pointwise_kernel is float32[4, 7, 1, 1], in today's layout float32[1, 1, 7, 4]",
        ),
    ),
    Wrong("expand_dims", lambda: K.expand_dims(x(2, 3), dim=7), ShapeError, ("dim 7 is out of",)),
    Wrong(
        "pool2d",
        lambda: K.pool2d(x(1, 8, 8, 3), (2, 2), border_mode="q"),
        ArgumentError,
        ("border_mode must",),
    ),
    Wrong(
        "conv2d",
        lambda: K.conv2d(x(1, 8, 8, 3), v(3, 3, 3, 4), dim_ordering="NHWC"),
        ArgumentError,
        ("'tf', 'th' or 'default'", "'NHWC'"),
    ),
    Wrong(
        "conv2d",
        lambda: K.conv2d(x(1, 8, 8, 3), v(3, 3, 3, 4), padding="same", border_mode="valid"),
        TypeError,
        ("'padding'", "'border_mode'"),
    ),
    Wrong(
        "conv1d",
        lambda: K.conv1d(x(2, 8, 3), v(3, 3, 4), 1, "same", (2, 8, 3), stride=2),
        TypeError,
        ("multiple values", "'stride'"),
    ),
    Wrong("expand_dims", lambda: K.expand_dims(x(2, 3), dim=5), ShapeError, ("float32[2, 3]",)),
    Wrong("one_hot", lambda: K.one_hot(np.zeros(2, "int32"), nb_classes=-1), ArgumentError, ()),
    Wrong("pool2d", lambda: K.pool2d(x(1, 4, 4, 2), (2, 2), dim_ordering=3), ArgumentError, ()),
    Wrong("set_floatx", lambda: K.set_floatx("float32", value="float64"), TypeError, ()),
]
