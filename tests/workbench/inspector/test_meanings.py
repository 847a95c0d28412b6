"""What completions stand for: kinds, and signatures with shapes; nothing of the user's runs."""

from __future__ import annotations

from typing import Any

import pytest
from inspector_helpers import ask

import kbench as K
from kbench.workbench.inspector import shape_signature, signature
from kbench.workbench.inspector.inspector import Inspector


class Loud:
    @property
    def value(self) -> int:
        raise AssertionError("ran")

    def method(self, a: int, b: int = 2) -> int:
        return a + b


MEANINGS = [
    ("K.relu", "function", "(x, alpha=0.0, max_value=None, threshold=0.0) -> shape of x"),
    ("K.one_hot", "function", ""),
    ("K", "module", ""),
    ("Loud", "class", ""),
    ("Loud.method", "function", "(self, a: 'int', b: 'int' = 2) -> 'int'"),
    ("loud.value", "", ""),
    ("loud", "value", ""),
    ("print", "function", ""),
    ("no.such", "", ""),
    ("%time", "", ""),
    ("x=", "", ""),
    ("", "", ""),
]


def test_each_name_has_a_kind() -> None:
    inspector = Inspector({"K": K, "Loud": Loud, "loud": Loud()})
    data: Any = ask(inspector, "meanings", names=[name for name, _, _ in MEANINGS])
    assert data["kinds"] == [kind for _, kind, _ in MEANINGS]
    for (name, kind, words), found in zip(MEANINGS, data["signatures"], strict=True):
        assert bool(found) == (kind == "function"), name
        assert found == words or not words, name


def test_many_names_are_looked_up_in_part() -> None:
    names = ["K.relu"] * (signature.MAX_MEANINGS + 3)
    found = signature.meanings(names, {"K": K})
    assert len(found.kinds) == len(found.signatures) == len(names)
    assert found.kinds[-4:] == ["function", "", "", ""]


SHAPED = [
    (K.conv2d, "(x: float[batch, rows, cols, channels], kernel: float["),
    (K.dot, "(x: [..., n], y) -> [*x.shape[:-1], *y.shape[:-2], m]"),
    (K.rnn, "(step_function"),
    (len, ""),
    (Loud, ""),
    (3, ""),
]


@pytest.mark.parametrize(("function", "begins"), SHAPED)
def test_shapes_come_from_the_docstring(function: object, begins: str) -> None:
    words = shape_signature.words(function)
    assert words.startswith(begins) and bool(words) == bool(begins)


def test_every_public_function_has_a_signature() -> None:
    import inspect

    from kbench import backend

    for name in backend.__all__:
        function = getattr(backend, name)
        words = shape_signature.words(function)
        if words:
            for parameter in inspect.signature(inspect.unwrap(function)).parameters:
                assert parameter in words, (name, words)
