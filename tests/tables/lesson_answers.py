"""Answers to the exercises of the lessons, in several styles: those that are right, and those not.

An answer fills the blanks of the starter in their order, separated by ` | `; one that begins with a
line break is the whole cell. Of right answers no cell may raise.
"""

from __future__ import annotations

from lesson_answers_more import MORE

Answers = tuple[list[str], list[str]]  # right, wrong

ANSWERS: dict[tuple[int, str], Answers] = {
    (1, "row-means"): (
        ["1", "-1", "[1]", "(1,)", "\nmeans = K.sum(y, axis=1) / 3", "\nmeans = K.mean(y, -1)"],
        ["0", "None", "(0, 1)", "\nmeans = K.constant([3.0, 6.0])",
         "\nmeans = K.constant([3.0, 6.0]) + 0", "\nmeans = K.eval(K.mean(y, axis=1))",
         "\nmeans = K.mean(y, axis=1, keepdims=True)"],
    ),
    (1, "safe-log"): (
        ["K.epsilon()", "1e-7", "\nsafe = -(p * K.log(K.epsilon() + p))",
         "\nK.set_epsilon(1e-3)\nsafe = -p * K.log(p + K.epsilon())",
         "\nsafe = p * K.log(1 / (p + K.epsilon()))"],
        ["0", "1e-3", "1e-6", "1e-8", "1", "\nsafe = -p * K.log(p)",
         "\nsafe = -p * K.log(p) + K.epsilon()", "\nsafe = K.constant([0.0, 0.3466, 0.0])"],
    ),
    (1, "set-epsilon"): (
        ["0.001", "1e-3", "1 / 1000", "np.exp(-6.9)", "np.float32(0.001)", "0.00101",
         "np.exp(-6.91)"],
        ["0.01", "6.9", "1e-7", "0.0001", "-np.log(0.001)", "\nworst = K.constant(6.9)",
         "\nworst = 6.9",
         "\nworst = K.categorical_crossentropy(right, wrong)\nK.set_epsilon(1e-3)"],
    ),
    (1, "guess-dtype"): (
        ["'float32' | 'float64'", "K.dtype(old) | K.dtype(new)", "np.float32 | np.float64",
         "\nguess = ['float32', 'float64']", "\nguess = 'float32', 'float64'",
         "\nguess = np.array(['float32', 'float64'])",
         "\nguess = [np.dtype('f4'), np.dtype('f8')]"],
        ["'float32' | 'float32'", "'float64' | 'float32'", "32 | 64", "\nguess = 'float32'",
         "\nguess = ['float32']", "\nguess = ['float32', 'float64', 'float64']", "float | float"],
    ),
    (1, "overflow"): (
        ["'float32'", "'float64'", "'int32'",
         "\ndistance = lambda: K.constant(70000.0, dtype='float32')",
         "\ndef distance():\n    return K.variable(70000, 'float64')"],
        ["'float16'", "None", "K.floatx()", "'uint16'", "'bool'", "\ndistance = 70000.0",
         "\ndistance = K.constant(70000.0, dtype='float32')",
         "\ndef distance():\n    return K.constant(70001.0, dtype='float32')"],
    ),
    (1, "channels"): (
        ["'channels_first'", "\nimages = K.placeholder(shape=(None, 3, 4, 5))\n"
         "shifted = K.bias_add(images, tint, 'channels_first')",
         "\nimages = K.placeholder(shape=(None, 3, 4, 5))\n"
         "shifted = images + K.reshape(tint, (1, 3, 1, 1))"],
        ["'channels_last'", "'first'", "\nimages = K.placeholder(shape=(None, 3, 4, 5))\n"
         "shifted = images + K.reshape(tint, (3, 1, 1)) * 2",
         "\nimages = K.placeholder(shape=(None, 3, 4, 5))\nshifted = images + 0.2",
         "\nimages = shifted = K.placeholder(shape=(None, 3, 4, 5))"],
    ),
    (2, "set-value"): (
        ["2 * start", "start * 2", "start + start", "[[2, 4], [6, 8]]", "np.multiply(start, 2)",
         "K.get_value(w) * 0 + 2 * start"],
        ["start", "start ** 2", "2", "start * 2.001", "\nw = 2 * start",
         "\nw = K.constant(2 * start)"],
    ),
    (2, "guess-shape"): (
        ["None", "\nguess = [None]", "\nguess = K.int_shape(K.sum(y, axis=1))",
         "\nguess = (None,)"],
        ["2", "None, None", "None, 2", "'None'", "0", "\nguess = None", "\nguess = ()"],
    ),
    (2, "feed"): (
        ["x | y", "x | K.dot(x, w)", "x | y, w", "\nrun = K.function(inputs=[x], outputs=[y])"],
        ["y | x", "x | x", "x | w", "x | K.dot(x, K.constant([[2.0, 4.0], [6.0, 8.0]]))",
         "\nrun = lambda feeds: [feeds[0] @ K.get_value(w)]", "x | 2 * y"],
    ),
    (2, "affine"): (
        ["y + b", "K.dot(x, w) + b", "K.bias_add(K.dot(x, w), b)", "b + y", "K.bias_add(y, b)"],
        ["y", "y + [10.0, 20.0]", "K.dot(x, w) * b", "x + b", "K.dot(x, w + b)", "y - b",
         "K.dot(K.constant([[1.0, 2.0]]), w) + b"],
    ),
    (2, "kinds"): (
        ["variable | constant"],
        ["constant | variable", "constant | constant", "variable | variable",
         "\ncenter, spread = K.variable([1.0, 2.0]), K.constant([2.0, 4.0])\n"
         "standard = x - center"],
    ),
    (2, "counter"): (
        ["seen", "K.sum(x)", "\ntotal = K.variable(0.0)\nseen = K.sum(x)\n"
         "feed = K.function([x], [seen], updates=[K.update(total, total + seen)])",
         "\ntotal = K.variable(0.0)\n"
         "feed = K.function([x], [K.sum(x)], [(total, total + K.sum(x))])"],
        ["1", "6", "K.mean(x)", "total", "K.sum(w)", "4.0", "-seen"],
    ),
    (2, "train"): (
        ["0.1 * slope", "slope * 0.1", "slope / 10", "K.gradients(loss, [weights])[0] * 0.1",
         "K.constant(0.1) * slope"],
        ["slope", "-0.1 * slope", "0.1", "0.01 * slope", "0.1 * loss", "0.1 * weights",
         "\nslope = 0\ntrain = K.function([x, t], [loss])\nlosses = [10.0] * 50",
         "\ntrain = K.function([x, t], [loss], updates=[(weights, K.constant([[2.0], [-3.0]]))])"],
    ),
    (2, "guess-rate"): (
        ["1.1", "np.float32(1.1)", "K.constant(1.1)", "11 / 10"],
        ["0.1", "0.01", "1", "'1.1'", "None", "(1.1,)"],
    ),
    (3, "guess-pairs"): (
        ["None | 12 | 4 | 12", "\nstatic, dynamic = [None, 12], [4, 12]",
         "\nstatic = K.int_shape(pairs)\ndynamic = np.array([4, 12])"],
        ["\nstatic, dynamic = (4, 12), (4, 12)", "\nstatic, dynamic = (None, 12), (2, 12)",
         "\nstatic, dynamic = [None, 12], [2, 12]", "\nstatic, dynamic = (None, 24), (2, 24)",
         "\nstatic, dynamic = (None, None), (4, 12)", "\nstatic, dynamic = 12, 12"],
    ),
    (3, "rows"): (
        ["-1 | 24", "K.shape(x)[0] | 24", "-1 | 4 * 6", "\nrows = K.batch_flatten(x)",
         "\nrows = K.reshape(x, [-1, 24])"],
        ["2 | 24", "-1 | 12", "24 | -1", "-1 | 6",
         "\nrows = K.reshape(K.permute_dimensions(x, (0, 2, 1)), (-1, 24))"],
    ),
    (3, "permute"): (
        ["(0, 2, 1)", "[0, 2, 1]", "np.array([0, 2, 1])",
         "\nsensors = K.stack([x[:, :, i] for i in range(6)], axis=1)"],
        ["(0, 1, 2)", "(2, 0, 1)", "(1, 0, 2)", "\nsensors = K.reshape(x, (-1, 6, 4))"],
    ),
    (3, "expand"): (
        ["2", "-1", "axis=2", "\ncentered = x - K.mean(x, axis=2, keepdims=True)",
         "\noffset = K.mean(x, axis=2)\ncentered = x - K.reshape(offset, (-1, 4, 1))"],
        ["1", "0", "\ncentered = x - K.mean(x)", "\ncentered = x - 2.5",
         "\ncentered = x - K.mean(x, axis=1, keepdims=True)"],
    ),
    (3, "start"): (
        ["K.shape(x)[0]", "K.shape(x)[:1][0]", "K.int_shape(x)[0] or K.shape(x)[0]",
         "\nstart = K.zeros_like(x[:, :1])\nlate = K.concatenate([start, x[:, :-1]], axis=1)",
         "\nstart = 0 * x[:, :1]\nlate = K.concatenate([start, x[:, :3]], 1)"],
        ["2", "1", "K.shape(x)[1]", "K.int_shape(x)[0]", "K.shape(x)",
         "\nstart = K.zeros_like(x[:, :1])\nlate = K.concatenate([x[:, 1:], start], axis=1)"],
    ),
    (4, "guess-shape"): (
        ["None | 4 | 3", "\nguess = [None, 4, 3]", "\nguess = K.int_shape(p + q)"],
        ["None | 4 | 1", "1 | 4 | 3", "None | 1 | 3", "3 | 4 | None", "\nguess = [None, 4, 1]",
         "\nguess = (None, 4)", "'None' | 4 | 3"],
    ),
    (4, "loss"): (
        ["K.squeeze(prediction, 1)", "prediction[:, 0]", "K.flatten(prediction)",
         "K.sum(prediction, axis=1)", "K.reshape(prediction, (-1,))", "K.transpose(prediction)",
         "\nloss = K.mean(K.square(K.expand_dims(target, 1) - prediction))"],
        ["prediction", "K.mean(prediction)", "K.tile(prediction, 2)", "2.5", "target",
         "\nloss = K.sum(K.square(target - prediction[:, 0]))",
         "\nloss = K.mean(K.abs(target - prediction[:, 0]))"],
    ),
    (4, "leaky"): (
        ["x | 0.1 * x", "0.1 * x | x", "x | x / 10", "x * 0.1 | x",
         "\nleaky = -K.minimum(-x, -0.1 * x)"],
        ["x | 0", "x | 0.01 * x", "x | 0.1", "-x | 0.1 * x",
         "\nleaky = K.relu(x, alpha=0.1)", "\nleaky = K.switch(x > 0, x, 0.1 * x)",
         "\nleaky = K.minimum(x, 0.1 * x)"],
    ),
    (4, "gelu"): (
        ["0.044715 * x ** 3 | K.tanh(inner)", "0.044715 * K.pow(x, 3) | K.tanh(inner)",
         "0.044715 * x * x * x | K.tanh(inner)",
         "0.044715 * x ** 3 | 2 * K.sigmoid(2 * inner) - 1"],
        ["0.044715 * x ** 2 | K.tanh(inner)", "0.0447 * 3 * x | K.tanh(inner)",
         "0.044715 * x ** 3 | K.sigmoid(inner)", "0.044715 * x ^ 3 | K.tanh(inner)",
         "0 | K.tanh(inner)", "0.044715 * x ** 3 | K.tanh(x)"],
    ),
    (4, "guess-steps"): (
        ["1", "1.0", "np.int64(1)", "np.array(1)"],
        ["8", "2", "0", "'1'", "True", "None", "[8]"],
    ),
    (5, "guess-dot"): (
        ["(2, 4, 5)", "[2, 4, 5]", "2, 4, 5", "np.array([2, 4, 5])", "K.int_shape(K.dot(a, b))"],
        ["(4, 2, 5)", "[4, 2, 5]", "(2, 5)", "(4, 5)", "(2, 4)", "'(2, 4, 5)'", "40"],
    ),
    (5, "middle"): (
        ["K.permute_dimensions(signal, (0, 2, 1))", "K.permute_dimensions(signal, [0, 2, 1])",
         "K.stack([signal[:, i] for i in range(3)], axis=-1)"],
        ["signal", "K.reshape(signal, (-1, 7, 3))", "K.permute_dimensions(signal, (0, 1, 2))",
         "K.transpose(signal)", "2 * K.permute_dimensions(signal, (0, 2, 1))"],
    ),
    (5, "own"): (
        ["1", "(1, 1)", "[1, 1]", "-1", "\nown = K.sum(users * films, axis=1, keepdims=True)"],
        ["0", "(0, 1)", "\nown = K.dot(users, K.transpose(films))",
         "\nown = K.sum(users * films, 1)"],
    ),
    (5, "scores"): (
        ["2 | 2", "-1 | -1",
         "\nscores = K.batch_dot(words, K.permute_dimensions(words, (0, 2, 1)))"],
        ["1 | 1", "2 | 1", "0 | 0", "\nscores = K.batch_dot(words, words, axes=2) / 8"],
    ),
    (5, "attend"): (
        ["2 | 1", "-1 | 1", "\nvalues = K.placeholder(shape=(None, 5, 3))\n"
         "attended = K.batch_dot(weights, values)"],
        ["1 | 1", "2 | 2", "1 | 2",
         "\nvalues = K.placeholder(shape=(None, 5, 3))\nattended = values"],
    ),
    (5, "mask"): (
        ["place | K.expand_dims(place, 1)", "place | K.reshape(place, (5, 1))",
         "K.expand_dims(place, 0) | place[:, None]",
         "\nallowed = K.expand_dims(K.arange(5), 1) >= K.arange(5)\n"
         "past = K.softmax(K.batch_dot(words, words, 2) / np.sqrt(8)"
         " - 1e9 * (1 - K.cast(allowed, 'float32')))"],
        ["K.expand_dims(place, 1) | place", "place | place",
         "K.expand_dims(place, 1) | K.expand_dims(place, 1)", "place + 1 | K.expand_dims(place, 1)",
         "place | K.expand_dims(place, 1) + 1", "place | 5", "words | words",
         "\nallowed = np.tri(5) > 0\npast = K.softmax(K.batch_dot(words, words, 2))",
         "\nallowed = K.less_equal(place, K.expand_dims(place, 1))\npast = weights"],
    ),
    (6, "accuracy"): (
        ["1 | labels", "-1 | labels", "1 | K.cast(labels, 'int64')"],
        ["0 | labels", "1 | 0", "1 | scores", "1 | [0, 2, 1]", "1 | 2 - labels"],
    ),
    (6, "centers"): (
        ["K.transpose(table) | 0", "K.permute_dimensions(table, (1, 0)) | 0",
         "K.transpose(table) | -2",
         "K.transpose(K.one_hot(K.cast(kinds, 'int32'), 3)) | 0",
         "\nflowers = K.placeholder(shape=(None, 2), name='flowers')\n"
         "sums = K.sum(K.expand_dims(table, 2) * K.expand_dims(flowers, 1), axis=0)\n"
         "sizes = K.sum(table, axis=0)\n"
         "centers = sums / K.expand_dims(K.maximum(sizes, 1.0), 1)"],
        ["table | 0", "K.transpose(table) | 1", "K.transpose(table) | -1",
         "K.transpose(table) | None",
         "2 * K.transpose(table) | 0",
         "\nflowers = K.placeholder(shape=(None, 2), name='flowers')\n"
         "sums = K.dot(K.transpose(table), flowers)\nsizes = K.sum(table, axis=0)\n"
         "centers = sums / K.sum(table)"],
    ),
    (6, "variance"): (
        ["True | r - center", "1 | center - r", "True | K.abs(r - center)"],
        ["False | r - center", "True | r", "True | center", "True | r - center + 1",
         "\ncenter = K.mean(r, axis=1, keepdims=True)\n"
         "variance = K.mean(K.square(r), 1) - K.square(K.mean(r, 1))",
         "\ncenter = K.mean(r, axis=1, keepdims=True)\nvariance = K.std(r, axis=1)"],
    ),
    (6, "stable"): (
        ["K.squeeze(top, 1) | logits - top", "top[:, 0] | logits - top",
         "K.flatten(top) | logits - top", "K.reshape(top, (-1,)) | logits - top",
         "K.sum(top, axis=1) | logits - top"],
        ["top | logits - top", "0 | logits", "K.squeeze(top, 1) | logits",
         "K.squeeze(top, 1) | top - logits", "K.max(logits) | logits - K.max(logits)",
         "\nstable = K.logsumexp(logits, axis=1)",
         "\nstable = K.log(K.sum(K.exp(logits), axis=1))"],
    ),
    (6, "suspect"): (
        ["2", "2.0", "np.int32(2)", "np.array(2)", "K.constant(2)"],
        ["3", "1", "0", "'2'", "(0, 2)", "None", "True"],
    ),
    (6, "mend"): (
        ["K.std(x, axis=0) + K.epsilon()", "K.epsilon() + K.std(x, 0)",
         "K.std(x, axis=0) + 1e-7", "K.maximum(K.std(x, axis=0), K.epsilon())"],
        ["K.std(x, axis=0)", "K.std(x, axis=0) + 1", "K.epsilon()", "K.std(x) + K.epsilon()",
         "K.std(x, axis=1) + K.epsilon()", "1"],
    ),
    (7, "slope"): (
        ["loss | [w]", "loss | w", "K.identity(loss) | [w, w]",
         "\n(slope,) = K.gradients(loss, [w])"],
        ["loss | [x]", "w | [loss]", "-loss | [w]", "2 * loss | [w]", "loss | [K.identity(w)]",
         "\nslope = K.gradients(loss, [w])"],
    ),
    (7, "by-hand"): (
        ["(f(at + move) - f(at - move)) / (2 * step)", "(f(at + move) - f(at - move)) / 2 / step",
         "0.5 * (f(at + move) - f(at - move)) / step", "-(f(at - move) - f(at + move)) / step / 2",
         "\ndef slope_by_hand(f, at, step):\n"
         "    eye = step * np.eye(at.size).reshape(-1, *at.shape)\n"
         "    return np.array([(f(at + e) - f(at - e)) / (2 * step) for e in"
         " eye]).reshape(at.shape)"],
        ["(f(at + move) - f(at)) / step", "(f(at) - f(at - move)) / step",
         "(f(at + move) - f(at - move)) / step", "(f(at - move) - f(at + move)) / (2 * step)",
         "f(at + move) - f(at - move)", "3 * at[index] ** 2", "[12, 3, 0.75][index[0]]"],
    ),
    (7, "guess-step"): (
        ["0.001", "1e-3", "np.float32(0.001)", "1 / 1000", "np.array(0.001)"],
        ["0.1", "0.000001", "1e-6", "0.01", "'0.001'", "None", "[0.1]", "True"],
    ),
    (7, "chain"): (
        ["at_y * (1 - y ** 2) | x.T @ at_z", "(1 - y * y) * at_y | np.dot(x.T, at_z)",
         "at_y / np.cosh(x @ w) ** 2 | (x * at_z).sum(axis=0)[:, None]",
         "\ndef backwards(x, t, w):\n    y = np.tanh(x @ w)\n"
         "    at_z = (2 * (y - t) * (1 - y ** 2)).ravel()\n"
         "    return np.array([[np.mean(column * at_z)] for column in x.T])"],
        ["at_y | x.T @ at_z", "at_y * (1 - np.tanh(y) ** 2) | x.T @ at_z",
         "at_y * y | x.T @ at_z", "1 - y ** 2 | x.T @ at_z", "at_y * (1 - y ** 2) | x * at_z",
         "at_y * (1 - y ** 2) | x.T @ at_z / len(x)", "at_y * (1 - y ** 2) | x.T @ at_y",
         "at_y * (1 - y ** 2) | at_z * w", "-at_y * (1 - y ** 2) | x.T @ at_z",
         "at_y * (1 - y ** 2) | (x.T @ at_z).ravel()",
         "\ndef backwards(x, t, w):\n    return np.array([[0.0437], [0.5]])"],
    ),
    (7, "rounded"): (
        ["K.round(w) - w", "-(w - K.round(w))", "K.round(w) - K.identity(w)"],
        ["K.round(w)", "w - K.round(w)", "0", "K.eval(K.round(w) - w)",
         "\nrounded = K.round(w)", "\nrounded = w + K.round(w) - w"],
    ),
    (7, "alive"): (
        ["0.1", "alpha=0.1", "1 / 10", "\nalive = K.maximum(before, 0.1 * before)",
         "\nalive = K.switch(before > 0, before, 0.1 * before)"],
        ["0", "1", "0.01", "-0.1", "\nalive = K.relu(before)", "\nalive = K.relu(before + 10)"],
    ),
}  # fmt: skip
ANSWERS |= MORE
