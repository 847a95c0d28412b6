"""Callables that golden cases pass to API functions: a step of rnn, a body of map_fn, a branch.

FACTORIES: name -> f(K, *tensors) returning the callable; K is the backend module under test.
"""


def map_square_plus(K):
    return lambda x: K.square(x) + 1.0


def map_sum_last(K):
    return lambda x: K.sum(x, axis=-1)


def map_scale(K, w):
    return lambda x: x * w


def fold_add(K):
    return lambda acc, x: acc + x


def fold_decay(K):
    return lambda acc, x: acc * 0.5 - x


def fold_maximum(K):
    return lambda acc, x: K.maximum(acc, x)


def thunk(K, x):
    return lambda: x


def thunk_double(K, x):
    return lambda: x * 2.0


def rnn_dense(K, w, u):
    def step(x, states):
        h = K.tanh(K.dot(x, w) + K.dot(states[0], u))
        return h, [h]

    return step


def rnn_two(K, w, u):
    def step(x, states):
        h, c = states[0], states[1]
        z = K.dot(x, w) + K.dot(h, u)
        c2 = 0.5 * c + K.sigmoid(z)
        h2 = K.tanh(c2) * 0.75
        return h2, [h2, c2]

    return step


def rnn_accumulate(K):
    def step(x, states):
        s = states[0] + x
        return s, [s]

    return step


def rnn_const(K):
    def step(x, states):
        s = states[0] * states[1] + x
        return s * 2.0, [s]

    return step


def rnn_nostate(K, w):
    def step(x, states):
        return K.relu(K.dot(x, w)), []

    return step


def rnn_wide(K, w):
    # output width differs from the state width
    def step(x, states):
        s = states[0] + x
        return K.dot(s, w), [s]

    return step


FACTORIES = {
    k: v
    for k, v in list(globals().items())
    if callable(v) and k.split("_")[0] in ("map", "fold", "thunk", "rnn")
}
