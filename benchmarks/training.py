"""One step of training with Adam in each library's own way: an optimizer of the library, or the
update as its programs write it.

`steps(arrays, weights, model)` gives `step()`, which trains on the same batch again and gives the
loss, and `reset()`, which puts the first weights back. The model is a formula as every other.
Without a model the gradients are given, in the arrays: the optimizer alone; the value is then a row
of the first weights, as it was before the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RATE, FIRST, SECOND, TINY = 1e-3, 0.9, 0.999, 1e-7

Steps = tuple[Callable[[], Any], Callable[[], None]]


def kbench_steps(K: Any, F: Any, arrays: Any, weights: Any, model: Any) -> Steps:
    """Adam as Keras 2.3 writes it, through the updates of one `K.function`."""
    feeds = [K.placeholder(shape=one.shape, dtype=str(one.dtype)) for one in arrays]
    parameters = [K.variable(one) for one in weights]
    slots = [[K.zeros(one.shape) for one in weights] for _ in range(2)]
    count = K.variable(0, dtype="int64")
    loss = model(F, *feeds, *parameters) if model else parameters[0][:1]
    gradients = K.gradients(loss, parameters) if model else feeds
    t = K.cast(count, K.floatx()) + 1.0
    rate = RATE * (K.sqrt(1.0 - K.pow(SECOND, t)) / (1.0 - K.pow(FIRST, t)))
    updates = [K.update_add(count, 1)]
    for p, g, m, v in zip(parameters, gradients, *slots, strict=True):
        new_m = FIRST * m + (1.0 - FIRST) * g
        new_v = SECOND * v + (1.0 - SECOND) * K.square(g)
        updates += [K.update(m, new_m), K.update(v, new_v)]
        updates.append(K.update(p, p - rate * new_m / (K.sqrt(new_v) + TINY)))
    train = K.function(feeds, [loss], updates=updates)
    values = list(arrays)

    def reset() -> None:
        zeros = [(one, K.get_value(one) * 0) for one in (count, *slots[0], *slots[1])]
        K.batch_set_value([*zip(parameters, weights, strict=True), *zeros])

    return lambda: train(values)[0], reset


def torch_steps(torch: Any, F: Any, arrays: Any, weights: Any, model: Any) -> Steps:
    """`torch.optim.Adam` and `backward()`."""
    feeds = [torch.from_numpy(one) for one in arrays]
    with torch.inference_mode(False), torch.enable_grad():
        parameters = [torch.from_numpy(one).clone().requires_grad_() for one in weights]
    kept: dict[str, Any] = {}

    def reset() -> None:
        for one, first in zip(parameters, weights, strict=True):
            one.data.copy_(torch.from_numpy(first))
        kept["optimizer"] = torch.optim.Adam(
            parameters, lr=RATE, betas=(FIRST, SECOND), eps=TINY, fused=True
        )

    def step() -> Any:
        with torch.enable_grad():
            loss = model(F, *feeds, *parameters)
            kept["optimizer"].zero_grad()
            loss.backward()
        kept["optimizer"].step()
        return loss.detach()

    def update() -> Any:
        row = parameters[0].detach()[:1].clone()
        for one, g in zip(parameters, feeds, strict=True):
            one.grad = g
        kept["optimizer"].step()
        return row

    reset()
    return (step if model else update), reset


def jax_steps(jax: Any, F: Any, arrays: Any, weights: Any, model: Any) -> Steps:
    """One jitted function of weights and moments, which it may overwrite."""
    jnp = jax.numpy
    feeds = [jax.device_put(one) for one in arrays]
    kept: dict[str, Any] = {}

    def reset() -> None:
        first = [jax.device_put(one.copy()) for one in weights]
        zeros = [[jnp.zeros(one.shape, one.dtype) for one in weights] for _ in range(2)]
        kept["state"] = jnp.zeros(()), first, *zeros

    def train(state: Any, feeds: Any) -> Any:
        count, ps, ms, vs = state
        if model:
            loss, gs = jax.value_and_grad(lambda ps: model(F, *feeds, *ps))(ps)
        else:
            loss, gs = ps[0][:1], feeds
        count += 1
        rate = RATE * jnp.sqrt(1 - SECOND**count) / (1 - FIRST**count)
        ms = [FIRST * m + (1 - FIRST) * g for m, g in zip(ms, gs, strict=True)]
        vs = [SECOND * v + (1 - SECOND) * g * g for v, g in zip(vs, gs, strict=True)]
        moved = [rate * m / (jnp.sqrt(v) + TINY) for m, v in zip(ms, vs, strict=True)]
        return (count, [p - by for p, by in zip(ps, moved, strict=True)], ms, vs), loss

    compiled = jax.jit(train, donate_argnums=0)

    def step() -> Any:
        kept["state"], loss = compiled(kept["state"], feeds)
        jax.block_until_ready(kept["state"])
        return loss

    reset()
    return step, reset


def tensorflow_steps(
    tf: Any, keras: Any, F: Any, arrays: Any, weights: Any, model: Any, compiled: bool
) -> Steps:
    """`tf_keras.optimizers.Adam` and a tape in one `tf.function`."""
    feeds = [tf.constant(one) for one in arrays]
    parameters = [tf.Variable(one) for one in weights]
    optimizer = keras.optimizers.Adam(RATE, FIRST, SECOND, TINY, jit_compile=compiled)
    optimizer.build(parameters)

    @tf.function(jit_compile=compiled)
    def step() -> Any:
        if not model:
            row = tf.identity(parameters[0][:1])
            optimizer.apply_gradients(zip(feeds, parameters, strict=True))
            return row
        with tf.GradientTape() as tape:
            loss = model(F, *feeds, *parameters)
        found = tape.gradient(loss, parameters)
        optimizer.apply_gradients(zip(found, parameters, strict=True))
        return loss

    def reset() -> None:
        for one, first in zip(parameters, weights, strict=True):
            one.assign(first)
        for one in optimizer.variables:
            if one.dtype != tf.float32 or one.shape.rank:
                one.assign(tf.zeros_like(one))

    return step, reset
