"""Answers to the exercises of the lessons from the eighth on, as `lesson_answers` tells them."""

from __future__ import annotations

MORE: dict[tuple[int, str], tuple[list[str], list[str]]] = {
    (8, "guess-swap"): (
        ["2.0 | 1.0", "2 | 1", "\nguess_swap = [2, 1]", "\nguess_swap = np.array([2.0, 1.0])",
         "\nguess_swap = K.constant([2.0, 1.0])", "np.float32(2) | 1"],
        ["2 | 2", "1 | 2", "1 | 1", "'2' | '1'", "\nguess_swap = 2", "\nguess_swap = [2, 1, 0]",
         "\nguess_swap = [2, 2]", "True | True"],
    ),
    (8, "descent"): (
        ["rate * to_slope | rate * to_offset", "to_slope * rate | to_offset * rate",
         "\ntrain = K.function([x, t], [loss], updates=[(slope, slope - rate * to_slope),"
         " (offset, offset - rate * to_offset)])"],
        ["rate * to_offset | rate * to_slope", "to_slope | to_offset", "rate | rate",
         "-rate * to_slope | -rate * to_offset", "rate * to_slope | 0",
         "0.1 * to_slope | 0.1 * to_offset"],
    ),
    (8, "momentum"): (
        ["new_speed | slope + new_speed", "new_speed | new_speed + slope",
         "0.9 * speed - rate * to_slope | slope + 0.9 * speed - rate * to_slope"],
        ["new_speed | slope + speed", "new_speed | new_speed", "speed | slope + new_speed",
         "new_speed | slope - new_speed", "new_speed | slope - rate * to_slope"],
    ),
    (8, "smooth"): (
        ["loss | 0.9", "loss | momentum=0.9", "loss | 9 / 10",
         "\nsmooth = K.variable(0.0)\n"
         "track = K.function([x, t], [loss], updates=[(smooth, 0.9 * smooth + 0.1 * loss)])"],
        ["loss | 0.1", "slope | 0.9", "loss | 0.99", "0.9 * loss | 0.9", "loss | 1.0"],
    ),
    (8, "guess-calls"): (
        ["1", "1.0", "np.float32(1)", "K.constant(1.0)"],
        ["2", "0", "'1'", "None", "True", "[1, 1]"],
    ),
    (9, "phase"): (
        ["phase | 0 | 1", "phase | False | True", "phase | 0.0 | 1.0",
         "\nrun = K.function([x, phase], [noisy])\n"
         "in_use, in_training = (run([row, one])[0].tolist() for one in (0, 1))"],
        ["phase | 1 | 0", "phase | 0 | 0", "phase | 1 | 1", "x | row | row",
         "\nrun = K.function([x, phase], [noisy])\nin_use = in_training = np.ones((2, 8))"],
    ),
    (9, "thinned"): (
        ["z * kept / 0.8", "z * kept * 1.25", "kept * z / 0.8",
         "1.25 * K.switch(kept > 0, z, 0 * z)"],
        ["z * kept", "z * kept / 0.2", "z / 0.8", "z * kept * 0.8", "K.dropout(z, 0.2)",
         "z * (1 - kept) / 0.8", "z"],
    ),
    (9, "guess-single"): (
        ["0.0 | 0.0", "0 | 0", "\nguess_single = [0, 0]", "\nguess_single = np.zeros(2)",
         "-0.0 | 0"],
        ["6.0 | -80.0", "1 | 1", "0 | 1", "\nguess_single = 0", "\nguess_single = [0]",
         "\nguess_single = [6, -80]", "None | None"],
    ),
    (9, "norm"): (
        ["K.batch_normalization(rows, moving_mean, moving_var, beta, gamma)",
         "K.batch_normalization(rows, moving_mean, moving_var, beta=beta, gamma=gamma)",
         "(rows - moving_mean) / K.sqrt(moving_var + 0.001) * gamma + beta"],
        ["K.batch_normalization(rows, moving_mean, moving_var, gamma, beta)",
         "K.batch_normalization(rows, mean, var, beta, gamma)", "normed", "rows",
         "K.batch_normalization(rows, moving_var, moving_mean, beta, gamma)"],
    ),
    (9, "safe-log"): (
        ["K.ones_like(p)", "1.0", "K.ones((3,))", "0 * p + 1"],
        ["p", "0.0", "K.epsilon()", "2.0", "K.zeros_like(p)", "-p",
         "\nmended = K.switch(p > 0, -p * K.log(p), K.zeros_like(p))"],
    ),
    (10, "falls"): (
        ["2, 1, 1, 1", "(2, 1, 1, 1)", "[2, 1, 1, 1]", "-1, 1, 1, 1"],
        ["1, 2, 1, 1", "1, 1, 2, 1", "2, 1", "\nfalls = x[:, 1:] - x[:, :-1]",
         "\nfalls = K.conv2d(x, -np.array([-1.0, 1.0]).reshape(2, 1, 1, 1))"],
    ),
    (10, "guess-sizes"): (
        ["12 | 14", "12.0 | 14.0", "\nsizes = [12, 14]", "\nsizes = np.array([12, 14])"],
        ["14 | 12", "12 | 12", "11 | 14", "\nsizes = [14, 12]", "\nsizes = 12", "'12' | '14'"],
    ),
    (10, "border-sides"): (
        ["0 | 1 | 1 | 1",
         "\nmine = K.conv2d(K.spatial_2d_padding(photos, [[0, 1], [1, 1]]), w, strides=(2, 2),"
         " padding='valid')"],
        ["1 | 0 | 1 | 1", "0 | 0 | 0 | 0", "1 | 1 | 1 | 1", "0 | 1 | 0 | 2", "\nmine = same",
         "\nmine = same + 0", "\nmine = K.conv2d(photos, w, strides=(2, 2), padding='same')",
         "\nmine = K.identity(same)"],
    ),
    (10, "mean-filter"): (
        ["(2, 2, 3, 1) | 0.25", "[2, 2, 3, 1] | 1 / 4",
         "\nbox = np.ones((2, 2, 3, 1)) / 4\nmeans = K.depthwise_conv2d(photos, box, strides=2)",
         "\nbox = np.eye(3).reshape(1, 1, 3, 3) * np.full((2, 2, 1, 1), 0.25)\n"
         "means = K.conv2d(photos, box, strides=(2, 2))"],
        ["(2, 2, 3, 1) | 1", "(2, 2, 3, 1) | 0.5", "(2, 2, 1, 1) | 0.25", "(2, 2, 3, 3) | 0.25",
         "\nmeans = K.pool2d(photos, (2, 2), strides=(2, 2), pool_mode='avg')",
         "\nmeans = K.pool2d(photos, (2, 2), strides=(2, 2))",
         "\nmeans = K.pool2d(photos, (2, 2), strides=(2, 2), pool_mode='avg')\n"
         "means = means + 0 * K.depthwise_conv2d(photos, np.ones((2, 2, 3, 1)), strides=(2, 2))"],
    ),
    (10, "guess-field"): (
        ["5 | 8", "\nsides = [5, 8]", "5.0 | np.int64(8)"],
        ["8 | 5", "5 | 5", "6 | 8", "9 | 36", "\nsides = [5, 7]", "\nsides = 5"],
    ),
    (10, "first"): (
        ["permute_dimensions | (0, 3, 1, 2) | 'channels_first'",
         "permute_dimensions | [0, 3, 1, 2] | 'channels_first'"],
        ["reshape | (-1, 3, 6, 7) | 'channels_first'",
         "permute_dimensions | (0, 3, 2, 1) | 'channels_first'",
         "permute_dimensions | (0, 3, 1, 2) | 'channels_last'",
         "\nfirst = K.permute_dimensions(photos, (0, 3, 1, 2))\n"
         "convolved = K.permute_dimensions(K.conv2d(photos, w), (0, 3, 1, 2))"],
    ),
    (11, "highest"): (
        ["K.maximum(states[0], now) | [top]", "K.maximum(now, states[0]) | [top]",
         "K.switch(now > states[0], now, states[0]) | [top]"],
        ["K.maximum(states[0], now) | states", "now | [now]", "K.minimum(states[0], now) | [top]",
         "states[0] | [now]", "K.maximum(states[0], now) | [now]"],
    ),
    (11, "guess-calls"): (
        ["1 | 50", "\ncalls = [1, 50]", "1.0 | 50.0"],
        ["50 | 50", "50 | 1", "1 | 1", "\ncalls = [50, 50]", "\ncalls = 50", "True | 50"],
    ),
    (11, "listen"): (
        ["after[0]", "K.identity(after[0])", "heard[:, -1]"],
        ["heard", "memory", "after", "heard[:, 0]", "0 * after[0]"],
    ),
    (11, "mask"): (
        ["K.any(K.not_equal(x, 0), axis=-1)", "K.any(K.not_equal(x, 0), axis=2)",
         "K.greater(K.sum(K.abs(x), axis=-1), 0)", "K.max(K.abs(x), axis=-1) > 0",
         "K.cast(K.sum(K.abs(x), axis=-1), 'bool')"],
        ["K.not_equal(x, 0)", "K.all(K.not_equal(x, 0), axis=-1)",
         "K.not_equal(K.sum(x, axis=-1), 0)", "K.not_equal(x[:, :, 0], 0)",
         "K.greater(K.sum(x, axis=-1), 0)", "K.not_equal(x[:, :, 1], 0)"],
    ),
    (11, "both"): (
        ["K.reverse(backward, 1)", "K.reverse(backward, [1])", "backward[:, ::-1]",
         "K.reverse(backward, -2)"],
        ["backward", "K.reverse(backward, 0)", "K.reverse(backward, 2)", "forward",
         "\nboth = K.concatenate([K.reverse(backward, 1), forward])"],
    ),
    (11, "lstm"): (
        ["f * c + i * g | o * K.tanh(c)", "i * g + c * f | K.tanh(c) * o"],
        ["i * c + f * g | o * K.tanh(c)", "f * c + i * g | o * c", "f * c + g | o * K.tanh(c)",
         "f * c + i * g | i * K.tanh(c)", "c | h"],
    ),
    (12, "path"): (
        ["'ab-ba'", "'ab' + '-' + 'ba'", "'-'.join(['ab', 'ba'])", "list('ab-ba')"],
        ["'abba'", "'abbba'", "'ab-b-a'", "'a-bba'", "'ab-bb'", "5", "['a', 1]", "'abcba'"],
    ),
    (12, "guess-paths"): (
        ["5 | 1", "\ncounts = [5, 1]", "5.0 | 1.0"],
        ["1 | 5", "5 | 0", "6 | 1", "5 | 5", "\ncounts = [1, 5]", "\ncounts = 6"],
    ),
    (12, "probability"): (
        ["np.prod(frames[range(len(path)), path])",
         "np.prod([frames[n, path[n]] for n in range(len(path))])",
         "float(np.multiply.reduce([row[n] for row, n in zip(frames, path)]))"],
        ["np.sum(frames[range(len(path)), path])", "1", "np.prod(frames)",
         "np.mean(frames[range(len(path)), path])",
         "\ndef probability(word, frames):\n    return 0.2"],
    ),
    (12, "lengths"): (
        ["[5, 3] | [2, 1]", "(5, 3) | (2, 1)", "np.array([5, 3]) | np.array([2, 1])",
         "[[5], [3]] | [[2], [1]]", "K.constant([5, 3], dtype='int32') | [2, 1]"],
        ["[2, 1] | [5, 3]", "[5, 5] | [2, 1]", "[5, 3] | [2, 2]", "[3, 5] | [1, 2]"],
    ),
    (12, "guess-decode"): (
        ["'' | 'a'", "\nwords = ['', 'a']", "\nwords = np.array(['', 'a'])"],
        ["'a' | ''", "'' | ''", "'' | 'b'", "'a' | 'a'", "\nwords = ['a', '']", "None | 'a'",
         "\nwords = 'a'", "'-' | 'a'"],
    ),
    (12, "train"): (
        ["K.gradients(loss, [scores])[0]", "K.gradients(loss, scores)[0]",
         "1.0 * K.gradients(loss, [scores])[0]"],
        ["loss", "K.gradients(loss, [chances])[0]", "-K.gradients(loss, [scores])[0]",
         "0.1 * K.gradients(loss, [scores])[0]", "0.0", "K.sign(K.gradients(loss, [scores])[0])"],
    ),
    (13, "norm"): (
        ["K.mean(K.square(x), axis=-1, keepdims=True)", "K.mean(x * x, -1, True)",
         "K.mean(x ** 2, axis=K.ndim(x) - 1, keepdims=True)",
         "K.expand_dims(K.mean(K.pow(x, 2), axis=-1), -1)"],
        ["K.mean(K.square(x), axis=-1)", "K.mean(K.square(x))", "K.square(K.mean(x, -1, True))",
         "K.mean(K.square(x), axis=1, keepdims=True)", "K.sum(K.square(x), -1, keepdims=True)",
         "1"],
    ),
    (13, "maxout"): (
        ["(input_shape[-1], self.units * self.pieces) | (input_shape[0], self.units)",
         "[input_shape[1], self.pieces * self.units] | [input_shape[0], self.units]",
         "(int(input_shape[-1]), self.units * self.pieces) | input_shape[:1] + (self.units,)"],
        ["(4, 15) | (None, 3)", "(input_shape[-1], self.units) | (input_shape[0], self.units)",
         "(input_shape[-1], self.units * self.pieces) | (None, self.units)",
         "(input_shape[-1], self.units * self.pieces) | (input_shape[0], 3)",
         "(input_shape[-1], self.units * self.pieces) | input_shape"],
    ),
    (13, "inner"): (
        ["model.get_layer('weigh').output", "model.get_layer(name='weigh').output"],
        ["model.get_layer('first').output", "model.output", "model.input",
         "2 * model.get_layer('weigh').output"],
    ),
    (13, "phase"): (
        ["K.learning_phase()"],
        ["K.placeholder(())", "model.input", "K.constant(1)"],
    ),
    (13, "share"): (
        ["1.0", "1", "np.float32(1)", "np.array(1.0)", "0.998"],
        ["0.5", "2.0", "2", "'1.0'", "None", "True", "[1.0]"],
    ),
    (14, "moves"): (
        ["K.update_sub(weight, 0.5 * slope)", "(weight, weight - 0.5 * slope)",
         "K.update(weight, weight - slope / 2)", "K.update_add(weight, -0.5 * slope)"],
        ["K.update_sub(weight, slope)", "K.update_add(weight, 0.5 * slope)",
         "(weight, 0.5 * slope)", "K.update_sub(kernel, 0.5 * slopes[0])", "(weight, weight)",
         "\nmoves = K.function([x, t], [loss])",
         "\nmoves = K.function([x, t], [loss], updates=[K.update_sub(readout, 0.5 * slopes[2])])"],
    ),
    (14, "finite"): (
        ["p + K.epsilon() | 1 - p + K.epsilon()", "K.epsilon() + p | 1 + K.epsilon() - p",
         "K.maximum(p, K.epsilon()) | K.maximum(1 - p, K.epsilon())",
         "\nfinite = K.mean(K.binary_crossentropy(t, p))"],
        ["p | 1 - p", "p + K.epsilon() | 1 - p", "p | 1 - p + K.epsilon()",
         "p + 0.1 | 1 - p + 0.1", "p + K.epsilon() | p + K.epsilon()",
         "\nfinite = K.constant(0.69)"],
    ),
    (14, "dead"): (
        ["0 | 0", "0 | 0.0", "-2 | K.constant(0.0)",
         "\nhidden = K.relu(K.dot(x, kernel) + bias)\n"
         "dead = K.sum(K.cast(K.all(K.equal(hidden, 0), axis=0), 'float32'))"],
        ["1 | 0", "-1 | 0", "0 | 1", "None | 0", "\ndead = 16", "\ndead = K.constant(16.0)",
         "\nhidden = K.relu(K.dot(x, kernel) + bias)\n"
         "dead = K.sum(K.cast(K.equal(hidden, 0), 'float32'))"],
    ),
    (14, "guess-dead"): (
        ["0", "0.0", "np.int64(0)", "K.constant(0)"],
        ["16", "8", "1", "'0'", "None", "(0,)"],
    ),
    (14, "axis"): (
        ["0 | 0", "[0] | [0]", "-2 | -2", "(0,) | 0"],
        ["1 | 0", "0 | 1", "1 | 1", "-1 | -1", "None | None", "\nscaled = odd",
         "\nscaled = K.constant(np.zeros((200, 2)))"],
    ),
    (14, "clip"): (
        ["5.0 / norm", "5 / norm", "K.constant(5.0) / norm", "5 / K.sqrt(K.sum(g * g))",
         "\ng = K.placeholder(shape=(4, 3))\nnorm = K.sqrt(K.sum(K.square(g)))\n"
         "clipped = K.switch(norm > 5, g * 5 / norm, g)"],
        ["norm / 5", "5.0", "1 / norm", "5.0 / K.sum(g)", "\nclipped = K.clip(g, -5.0, 5.0)",
         "\nclipped = g * 5 / norm", "\nclipped = K.placeholder((4, 3))"],
    ),
    (15, "left"): (
        ["3", "3.0", "np.int64(3)"],
        ["6", "2", "4", "1", "'3'", "None", "[3]"],
    ),
    (15, "mend"): (
        ["K.reverse(K.exp(-K.square(x)), axes=1)", "K.exp(-K.square(K.reverse(x, 1)))",
         "K.exp(-K.reverse(x, 1) ** 2)"],
        ["mirrored", "K.exp(-K.square(x))", "K.exp(-K.reverse(K.square(x), 1))",
         "K.reverse(K.exp(-K.square(x)), axes=0)"],
    ),
    (15, "lean"): (
        ["K.cast(scale, 'float32')", "K.cast(scale, K.floatx())", "K.cast(scale, x.dtype)"],
        ["scale", "0.5", "K.constant(K.get_value(scale), dtype='float32')",
         "\nlean = K.cast(K.tanh(x * scale), 'float32')",
         "\nlean = K.tanh(K.cast(x * scale, 'float32'))"],
    ),
    (15, "joined"): (
        ["[loss, slope]", "[loss, K.gradients(loss, [w])[0]]", "(loss, slope)"],
        ["[slope, loss]", "[loss]", "[loss, loss]", "[loss, -slope]", "loss", "[loss, w]"],
    ),
    (15, "permutes"): (
        ["2", "2.0", "np.int8(2)", "np.array(2)"],
        ["6", "0", "1", "3", "'2'", "None", "(1, 1)", "True"],
    ),
    (16, "last"): (
        ["40", "1000 - 6 * 160", "1000 % 160", "np.int64(40)"],
        ["160", "6", "7", "100", "'40'", "None", "[40]"],
    ),
    (16, "whole"): (
        ["x - middle", "-middle + x", "x - K.expand_dims(middle, 0)"],
        ["x", "x + middle", "x - K.mean(x, axis=0)", "middle - x", "middle",
         "x - K.mean(middle)"],
    ),
    (16, "plain"): (
        ["False", "bool(0)"],
        ["True", "None", "'False'"],
    ),
    (16, "shares"): (
        ["0.75 | 0.25", "48 / 64 | 16 / 64", "3 / 4 | 1 / 4"],
        ["0.5 | 0.5", "0.25 | 0.75", "48 | 16", "1 | 1", "0.75 | 0.75"],
    ),
    (16, "same"): (
        ["50", "25 * 2"],
        ["25", "100", "None", "\nshared = alone"],
    ),
    (16, "moved"): (
        ["8", "8.0", "2 * 4 * 1000 * 1000 / 1e6"],
        ["4", "1", "2", "8e6", "16", "'8'", "None"],
    ),
    (17, "kind"): (
        ["None | 5", "None | np.int64(5)", "\nguess_shape = means.shape"],
        ["None | 4", "5 | None", "None | 1", "2 | 5", "\nguess_shape = (None, 5, 1)"],
    ),
    (17, "norm"): (
        ["ops.mean(ops.square(x), axis=-1, keepdims=True)",
         "ops.mean(x * x, -1, keepdims=True)", "ops.mean(x**2, axis=-1)[..., None]",
         "ops.sum(ops.square(x), axis=-1, keepdims=True) / x.shape[-1]"],
        ["ops.mean(ops.square(x), axis=1, keepdims=True)", "ops.mean(ops.square(x))",
         "ops.square(ops.mean(x, axis=-1, keepdims=True))", "ops.mean(x, axis=-1, keepdims=True)",
         "ops.sum(ops.square(x), axis=-1, keepdims=True)",
         "ops.mean(ops.square(x), axis=0, keepdims=True)"],
    ),
    (17, "inner"): (
        ['model.get_layer("weigh").output', "model.layers[1].output"],
        ['model.get_layer("first").output', "model.outputs", 'model.get_layer("answer").output',
         'model.get_layer("weigh")'],
    ),
    (17, "phase"): (
        ["training=True", "training=1", "**{'training': True}"],
        ["training=False", "training=None", "training=0"],
    ),
    (17, "own"): (
        ["loss | self.trainable_variables", "loss | self.trainable_weights",
         "loss | list(self.trainable_variables)"],
        ["self.trainable_variables | loss", "loss | x", "y | self.trainable_variables",
         "-loss | self.trainable_variables", "0 * loss | self.trainable_variables"],
    ),
    (17, "arrays"): (
        ["5", "2 + 1 + 2", "len(model.get_weights())"],
        ["3", "4", "6", "'5'", "None"],
    ),
}  # fmt: skip
