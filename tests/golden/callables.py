"""Scripts that golden cases run; the callables they pass are in `factories`.

SCRIPTS: name -> f(K, *args) running a short multi-call scenario and returning
numpy arrays / Python values (or a list of them).
K is the backend module under test.  Only numpy is imported here.
"""

import numpy as np
from golden.factories import FACTORIES

__all__ = ["FACTORIES", "SCRIPTS"]


def s_variable_roundtrip(K, x):
    v = K.variable(x, dtype=x.dtype.name)
    return [K.get_value(v), K.eval(v), K.dtype(v), tuple(K.int_shape(v)), K.ndim(v)]


def s_variable_default_dtype(K, x):
    v = K.variable(x)
    return [K.dtype(v), K.eval(v)]


def s_set_value(K, x, y):
    v = K.variable(x)
    K.set_value(v, y)
    return K.get_value(v)


def s_batch_get_set(K, x, y, nx, ny):
    a, b = K.variable(x), K.variable(y)
    before = K.batch_get_value([a, b])
    K.batch_set_value([(a, nx), (b, ny)])
    return list(before) + list(K.batch_get_value([a, b]))


def s_update(K, x, y):
    v = K.variable(x)
    out = K.eval(K.update(v, K.constant(y)))
    return [out, K.get_value(v)]


def s_update_add(K, x, y):
    v = K.variable(x)
    K.eval(K.update_add(v, K.constant(y)))
    return K.get_value(v)


def s_update_sub(K, x, y):
    v = K.variable(x)
    K.eval(K.update_sub(v, K.constant(y)))
    return K.get_value(v)


def s_moving_average(K, x, y, momentum):
    v = K.variable(x)
    K.eval(K.moving_average_update(v, K.constant(y), momentum))
    return K.get_value(v)


def s_function_basic(K, x, y):
    a = K.placeholder(shape=x.shape)
    b = K.placeholder(shape=(None,) * y.ndim)
    f = K.function([a, b], [a + b, K.sum(a * b)])
    return list(f([x, y]))


def s_function_single_output(K, x):
    a = K.placeholder(shape=(None,) + x.shape[1:])
    out = K.function([a], [K.square(a)])([x])
    return [len(out), out[0]]


def s_function_ndim(K, x):
    a = K.placeholder(ndim=x.ndim)
    return [K.ndim(a), K.function([a], [K.exp(a)])([x])[0]]


def s_function_updates(K, x, inc):
    # updates are applied after (or with) the outputs; three calls accumulate
    v = K.variable(x)
    a = K.placeholder(shape=inc.shape)
    f = K.function([a], [K.sum(a)], updates=[K.update_add(v, a)])
    for _ in range(3):
        f([inc])
    return K.get_value(v)


def s_function_updates_pair(K, x, inc):
    v = K.variable(x)
    a = K.placeholder(shape=inc.shape)
    f = K.function([a], [K.sum(a)], updates=[(v, v * 0.5 + a)])
    f([inc])
    f([inc])
    return K.get_value(v)


def s_gradients_placeholder(K, x):
    a = K.placeholder(shape=(None,) * x.ndim)
    loss = K.sum(K.square(a) * K.sin(a))
    g = K.gradients(loss, [a])
    return K.function([a], [loss, g[0]])([x])


def s_gradients_two_paths(K, x, w):
    v, u = K.variable(x), K.variable(w)
    y = K.dot(v, u)
    loss = K.mean(K.tanh(y) + y * y)
    g = K.gradients(loss, [v, u])
    return [K.eval(g[0]), K.eval(g[1])]


def s_gradients_second_order(K, x):
    v = K.variable(x)
    g = K.gradients(K.sum(v**3), [v])[0]
    h = K.gradients(K.sum(g * g), [v])[0]
    return [K.eval(g), K.eval(h)]


def s_gradients_unrelated_is_none(K, x, y):
    a, b = K.variable(x), K.variable(y)
    return [K.gradients(K.sum(a), [a, b])[1] is None]


def s_stop_gradient(K, x):
    v = K.variable(x)
    loss = K.sum(K.stop_gradient(K.square(v)) * v)
    return K.eval(K.gradients(loss, [v])[0])


def s_learning_phase_fed(K, x):
    a = K.placeholder(shape=x.shape)
    out = K.in_train_phase(a * 2.0, a + 1.0)
    f = K.function([a, K.learning_phase()], [out])
    return [f([x, 0])[0], f([x, 1])[0]]


def s_learning_phase_fixed(K, x):
    res = []
    try:
        for value in (0, 1):
            K.set_learning_phase(value)
            v = K.variable(x)
            res.append(int(K.learning_phase()))
            res.append(K.eval(K.in_train_phase(lambda v=v: v * 2.0, lambda v=v: v + 1.0)))
            res.append(K.eval(K.in_test_phase(v * 2.0, v + 1.0)))
    finally:
        K.clear_session()
    return res


def s_session_run(K, x, y):
    a, v = K.placeholder(shape=x.shape), K.variable(y)
    return K.get_session().run(a * v, feed_dict={a: x})


def s_tensor_eval_feed(K, x, y):
    a, v = K.placeholder(shape=x.shape), K.variable(y)
    sess = K.get_session()
    return [(v + a).eval(session=sess, feed_dict={a: x}), v.eval(session=sess)]


def s_shape_eval(K, x):
    a = K.placeholder(shape=(None,) * x.ndim)
    return [K.function([a], [K.shape(a)])([x])[0], list(K.int_shape(a))]


def s_broadcast_unknown_dims(K, x, y):
    a, b = K.placeholder(ndim=x.ndim), K.placeholder(ndim=y.ndim)
    f = K.function([a, b], [a * b + K.mean(a, axis=-1, keepdims=True)])
    return f([x, y])[0]


def s_function_reshape_dynamic(K, x):
    # one function, two batch sizes
    a = K.placeholder(shape=(None,) + x.shape[1:])
    f = K.function([a], [K.batch_flatten(a), K.softmax(K.batch_flatten(a))])
    return list(f([x])) + list(f([x[:1]]))


def s_floatx_switch(K, x):
    old = K.floatx()
    try:
        K.set_floatx("float64")
        v = K.variable(x)
        res = [
            K.floatx(),
            K.dtype(v),
            K.dtype(K.placeholder(shape=(2,))),
            K.dtype(K.zeros((2,))),
            K.cast_to_floatx([1, 2]).dtype.name,
        ]
    finally:
        K.set_floatx(old)
    return res + [K.floatx()]


def s_epsilon_switch(K, value):
    old = K.epsilon()
    try:
        K.set_epsilon(value)
        new = K.epsilon()
    finally:
        K.set_epsilon(old)
    return [float(new), float(K.epsilon())]


def s_data_format_switch(K):
    old, seen = K.image_data_format(), []
    try:
        for f in ("channels_first", "channels_last"):
            K.set_image_data_format(f)
            seen.append(K.image_data_format())
    finally:
        K.set_image_data_format(old)
    return seen


def s_dim_ordering_switch(K):
    old, seen = K.image_data_format(), []
    try:
        for o in ("th", "tf"):
            K.set_image_dim_ordering(o)
            seen += [K.image_dim_ordering(), K.image_data_format()]
    finally:
        K.set_image_data_format(old)
    return seen


def s_uids(K):
    K.reset_uids()
    a = [K.get_uid("dense"), K.get_uid("dense"), K.get_uid("conv"), K.get_uid()]
    K.reset_uids()
    return a + [K.get_uid("dense")]


def s_default_data_format_conv(K, x, w):
    # data_format=None follows the global setting
    old = K.image_data_format()
    try:
        K.set_image_data_format("channels_first")
        return K.eval(K.conv2d(K.variable(x), K.variable(w)))
    finally:
        K.set_image_data_format(old)


def s_sparse_to_dense(K, x):
    import scipy.sparse as sp

    v = K.variable(sp.csr_matrix(x))
    return [bool(K.is_sparse(v)), K.eval(K.to_dense(v)), K.eval(v)]


def s_sparse_dot(K, x, y):
    import scipy.sparse as sp

    v, w = K.variable(sp.csr_matrix(x)), K.variable(y)
    out = K.dot(v, w)
    g = K.gradients(K.sum(out * out), [w])[0]
    return [K.eval(out), K.eval(g)]


def s_sparse_concat(K, x, y):
    import scipy.sparse as sp

    a, b = K.variable(sp.csr_matrix(x)), K.variable(sp.csr_matrix(y))
    c = K.concatenate([a, b], axis=0)
    return [bool(K.is_sparse(c)), K.eval(c)]


def s_sparse_placeholder(K, x):
    import scipy.sparse as sp

    a = K.placeholder(shape=x.shape, sparse=True)
    return [bool(K.is_sparse(a)), K.function([a], [K.to_dense(a)])([sp.csr_matrix(x)])[0]]


def s_dense_not_sparse(K, x):
    v = K.variable(x)
    return [bool(K.is_sparse(v)), K.eval(K.to_dense(v))]


def s_is_keras_tensor_raises(K, x):
    try:
        K.is_keras_tensor(x)
    except ValueError:
        return ["ValueError"]
    return ["no error"]


def s_is_placeholder(K, x):
    return [
        bool(K.is_placeholder(K.placeholder(shape=(2, 3)))),
        bool(K.is_placeholder(K.variable(x))),
    ]


def s_is_variable(K, x):
    v = K.variable(x)
    return [bool(K.is_variable(v)), bool(K.is_variable(v * 1.0)), bool(K.is_variable(x))]


def s_is_tensor(K, x):
    v = K.variable(x)
    return [bool(K.is_tensor(v)), bool(K.is_tensor(v * 1.0)), bool(K.is_tensor(x))]


def s_print_tensor_identity(K, x):
    return K.eval(K.print_tensor(K.variable(x), message="golden "))


def s_len_iter(K, x):
    v = K.variable(x)
    return [K.eval(v[0]), K.eval(v[-1])] + [K.eval(v[i]) for i in range(x.shape[0])]


def s_ctc_dense_to_sparse(K, labels, lengths):
    s = K.ctc_label_dense_to_sparse(
        K.variable(labels, dtype="int32"), K.variable(lengths, dtype="int32")
    )
    return K.eval(K.to_dense(s))


def s_name(K, x):
    K.clear_session()  # fresh name counters
    v = K.variable(x, name="weights")
    p = K.placeholder(shape=(2,), name="inp")
    return [str(v.name).split(":")[0], str(p.name).split(":")[0]]


def s_constant_forms(K):
    return [
        K.eval(K.constant(2.5)),
        K.eval(K.constant([1, 2, 3])),
        K.eval(K.constant(7, dtype="int32", shape=(2, 2))),
        K.eval(K.constant(np.arange(4.0), shape=(2, 2))),
    ]


def s_normalize_data_format(K):
    out = [K.normalize_data_format(None), K.normalize_data_format("Channels_First")]
    try:
        K.normalize_data_format("nchw")
        out.append("no error")
    except ValueError:
        out.append("ValueError")
    return out


def s_count_params(K, x):
    return [int(K.count_params(K.variable(x))), int(K.count_params(K.zeros((2, 3, 4))))]


def s_eval_scalar(K, x):
    out = K.eval(K.mean(K.variable(x)))
    return [np.asarray(out), int(np.asarray(out).ndim)]


def s_dropout_zero_rate(K, x):
    return K.eval(K.dropout(K.variable(x), 0.0))


def s_dropout_support(K, x, level):
    # every entry is either 0 or x/(1-level)
    out = K.eval(K.dropout(K.variable(x), level, seed=3))
    kept = x / (1.0 - level)
    return [bool(np.all((out == 0) | np.isclose(out, kept, rtol=1e-5)))]


def s_dropout_noise_shape(K, x, level):
    # noise shared along axis 1: a column of keep flags per row
    out = K.eval(K.dropout(K.variable(x), level, noise_shape=(x.shape[0], 1), seed=3))
    rows = (out != 0).sum(axis=1)
    return [bool(np.all((rows == 0) | (rows == x.shape[1])))]


SCRIPTS = {k: v for k, v in list(globals().items()) if callable(v) and k.startswith("s_")}
