"""Inputs to begin with: what the palette and the empty session offer to put into the prompt."""

from __future__ import annotations

_NETWORK = """\
import numpy as np
data = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], "float32")
wanted = np.array([[0], [1], [1], [0]], "float32")
x, t = K.placeholder((None, 2), name="x"), K.placeholder((None, 1), name="t")
w1, b1 = K.random_normal_variable((2, 8), 0, 1, seed=1, name="w1"), K.zeros((8,), name="b1")
w2, b2 = K.random_normal_variable((8, 1), 0, 1, seed=2, name="w2"), K.zeros((1,), name="b2")
hidden = K.tanh(K.dot(x, w1) + b1)
y = K.sigmoid(K.dot(hidden, w2) + b2)
loss = K.mean(K.binary_crossentropy(t, y))
weights = [w1, b1, w2, b2]
steps = [K.update_sub(w, 0.5 * g) for w, g in zip(weights, K.gradients(loss, weights))]
train = K.function([x, t], [loss], updates=steps)
losses = [float(train([data, wanted])[0]) for step in range(500)]
predict = K.function([x], [y])
print("loss", losses[0], "->", losses[-1])
predict([data])[0]"""

EXAMPLES: tuple[tuple[str, str], ...] = (
    ("a value: softmax of an array", "K.eval(K.softmax(K.ones((2, 3))))"),
    (
        "a variable and a placeholder, multiplied",
        'x = K.placeholder((None, 3), name="x")\n'
        'w = K.variable([[1., 2.], [3., 4.], [5., 6.]], name="w")\n'
        "y = K.dot(x, w)\n"
        "f = K.function([x], [y])\n"
        "f([[[1., 1., 1.]]])[0]",
    ),
    (
        "a gradient",
        'v = K.variable([1., 2., 3.], name="v")\n'
        "slope = K.gradients(K.sum(K.square(v)), v)[0]\n"
        "K.eval(slope)",
    ),
    ("a two-layer network, trained on XOR", _NETWORK),
    ("a shape error, shown in your expression", "K.dot(K.ones((2, 3)), K.ones((4, 5)))"),
    (
        "an array of rank 4 to walk through",
        "import numpy as np\npicture = np.random.rand(8, 28, 28, 3).astype('float32')",
    ),
)
