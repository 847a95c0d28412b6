"""Rows of the optimizers: how Keras makes one, and what NumPy says a step does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import optimizers

EPSILON = 1e-7
State = dict[str, Any]
Step = Callable[[np.ndarray, np.ndarray, State, float, int], np.ndarray]


@dataclass(frozen=True)
class OptimizerRow:
    """`step(parameter, gradient, state, rate, t)` gives the parameter after update t = 1, 2 ...

    `state` is a dict of one parameter, empty at first. `rate` has been decayed already.
    """

    name: str
    options: dict[str, Any]
    step: Step
    label: str = ""

    def __str__(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name

    def make(self) -> Any:
        return getattr(optimizers, self.name)(**self.options)

    def after(self, parameters: list[np.ndarray], gradients: Any, count: int) -> list[np.ndarray]:
        """The parameters after `count` updates; `gradients(parameters, t)` gives theirs."""
        states: list[State] = [{} for _ in parameters]
        rate = self.options["learning_rate"]
        for t in range(1, count + 1):
            slopes = clipped(gradients(parameters, t), self.options)
            slowed = rate / (1 + self.options.get("decay", 0.0) * (t - 1))
            parameters = [
                self.step(parameter, slope, state, slowed, t)
                for parameter, slope, state in zip(parameters, slopes, states, strict=True)
            ]
        return parameters


def clipped(gradients: list[np.ndarray], options: dict[str, Any]) -> list[np.ndarray]:
    """Scaled down to a common norm, then cut off one by one."""
    if "clipnorm" in options:
        norm = np.sqrt(sum((one**2).sum() for one in gradients))
        if norm >= options["clipnorm"]:
            gradients = [one * options["clipnorm"] / norm for one in gradients]
    if "clipvalue" in options:
        bound = options["clipvalue"]
        gradients = [np.clip(one, -bound, bound) for one in gradients]
    return gradients


def moving(state: State, name: str, rho: float, value: np.ndarray) -> np.ndarray:
    """An average of `value` that forgets: `rho` of what was, the rest new."""
    state[name] = rho * state.get(name, 0.0) + (1 - rho) * value
    return state[name]


def sgd(momentum: float = 0.0, nesterov: bool = False) -> Step:
    def step(p, g, state, rate, t):
        state["v"] = momentum * state.get("v", 0.0) - rate * g
        return p + momentum * state["v"] - rate * g if nesterov else p + state["v"]

    return step


def rmsprop(rho: float = 0.9, epsilon: float = EPSILON) -> Step:
    def step(p, g, state, rate, t):
        return p - rate * g / (np.sqrt(moving(state, "a", rho, g**2)) + epsilon)

    return step


def adagrad(p, g, state, rate, t):
    state["a"] = state.get("a", 0.0) + g**2
    return p - rate * g / (np.sqrt(state["a"]) + EPSILON)


def adadelta(rho: float = 0.95) -> Step:
    def step(p, g, state, rate, t):
        squares = moving(state, "a", rho, g**2)
        change = g * np.sqrt(state.get("d", 0.0) + EPSILON) / np.sqrt(squares + EPSILON)
        moving(state, "d", rho, change**2)
        return p - rate * change

    return step


def adam(first: float = 0.9, second: float = 0.999, amsgrad: bool = False) -> Step:
    def step(p, g, state, rate, t):
        m, v = moving(state, "m", first, g), moving(state, "v", second, g**2)
        if amsgrad:
            v = state["most"] = np.maximum(state.get("most", 0.0), v)
        corrected = rate * np.sqrt(1 - second**t) / (1 - first**t)
        return p - corrected * m / (np.sqrt(v) + EPSILON)

    return step


def adamax(p, g, state, rate, t):
    m = moving(state, "m", 0.9, g)
    state["u"] = np.maximum(0.999 * state.get("u", 0.0), np.abs(g))
    return p - rate / (1 - 0.9**t) * m / (state["u"] + EPSILON)


def nadam(p, g, state, rate, t):
    now, soon = (0.9 * (1 - 0.5 * 0.96 ** (at * 0.004)) for at in (t, t + 1))
    product = state["product"] = state.get("product", 1.0) * now
    m, v = moving(state, "m", 0.9, g), moving(state, "v", 0.999, g**2)
    ahead = (1 - now) * g / (1 - product) + soon * m / (1 - product * soon)
    return p - rate * ahead / (np.sqrt(v / (1 - 0.999**t)) + EPSILON)


def row(name: str, rate: float, step: Step, label: str = "", **options: Any) -> OptimizerRow:
    return OptimizerRow(name, {"learning_rate": rate, **options}, step, label)


ROWS = [
    row("SGD", 0.1, sgd()),
    row("SGD", 0.1, sgd(0.9), "momentum", momentum=0.9),
    row("SGD", 0.1, sgd(0.9, True), "nesterov", momentum=0.9, nesterov=True),
    row("SGD", 0.1, sgd(0.5), "decay", momentum=0.5, decay=0.2),
    row("SGD", 0.1, sgd(), "clipnorm", clipnorm=0.5),
    row("SGD", 0.1, sgd(), "clipnorm that is never reached", clipnorm=1e6),
    row("SGD", 0.1, sgd(), "clipvalue", clipvalue=0.3),
    row("SGD", 0.1, sgd(), "both clips", clipnorm=1.0, clipvalue=0.3),
    row("RMSprop", 0.05, rmsprop()),
    row("RMSprop", 0.05, rmsprop(0.7, 0.01), "decay", rho=0.7, epsilon=0.01, decay=0.1),
    row("Adagrad", 0.1, adagrad),
    row("Adagrad", 0.1, adagrad, "decay", decay=0.5),
    row("Adadelta", 1.0, adadelta()),
    row("Adadelta", 2.0, adadelta(0.8), "decay", rho=0.8, decay=0.1),
    row("Adam", 0.05, adam()),
    row("Adam", 0.05, adam(0.8, 0.7, True), "amsgrad", beta_1=0.8, beta_2=0.7, amsgrad=True),
    row("Adam", 0.05, adam(), "decay and clipnorm", decay=0.1, clipnorm=0.2),
    row("Adamax", 0.05, adamax),
    row("Adamax", 0.05, adamax, "decay", decay=0.3),
    row("Nadam", 0.05, nadam),
    row("Nadam", 0.05, nadam, "clipvalue", clipvalue=0.1),
]
