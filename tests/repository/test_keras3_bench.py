"""`kbench bench --keras3`: turns, losses that must agree, and its tables."""

from __future__ import annotations

import benchmark_programs
import pytest


@pytest.fixture(autouse=True)
def _programs(monkeypatch):
    with benchmark_programs.importable(monkeypatch):
        yield


class _Fake:
    """A backend whose rounds are noted; `broken` ones fail in the second."""

    def __init__(self, name, rounds, broken=False):
        self.name, self._rounds, self._broken = name, rounds, broken

    def ask(self, do, patience=0.0, **arguments):
        if do != "round":
            return {}
        self._rounds.append(self.name)
        if self._broken and self._rounds.count(self.name) == 2:
            return {"error": "has ended"}
        return {"times": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(("what", "parts"), [("fit", 20), ("predict", 20), ("call", 1)])
def test_backends_take_turns(what, parts, monkeypatch):
    from keras3 import measure

    monkeypatch.setattr(measure, "PAUSE", 0.0)
    rounds = []
    able = [_Fake("kbench", rounds), _Fake("jax", rounds, broken=True)]
    rows = {one.name: {} for one in able}
    measure._timed(able, rows, what, {}, 3, 0.1)
    assert rounds == ["kbench", "jax", "jax", "kbench", "kbench"]
    assert rows["kbench"][what]["median"] == 2.0 / parts and rows["jax"] == {"error": "has ended"}


@pytest.mark.parametrize(
    ("losses", "wrong"),
    [
        ({"kbench": [1.0, 0.5], "jax": [1.0, 0.5], "torch": [1.0, 0.5004]}, set()),
        ({"kbench": [1.0, 0.51], "jax": [1.0, 0.5], "torch": [1.0, 0.5]}, {"kbench"}),
        ({"kbench": [1.001, 0.5], "jax": [1.0, 0.5], "torch": [1.0, 0.5]}, {"kbench"}),
        ({"kbench": [1.0, 0.5]}, set()),
    ],
)
def test_losses_must_agree(losses, wrong):
    from keras3.measure import _agree

    rows = {name: {"losses": one} for name, one in losses.items()} | {"numpy": {"error": "absent"}}
    _agree(rows)
    assert {name for name in losses if "error" in rows[name]} == wrong
    assert rows["numpy"] == {"error": "absent"}


def _spread(median):
    return {"median": median, "low": median * 0.9, "high": median * 1.1}


def _row(time):
    row = {"fit": _spread(time), "predict": _spread(time / 3), "first": time * 100}
    return {**row, "cold": time * 200, "peak": 5e8}


def test_tables_name_the_best_other_backend():
    from keras3.report import keras3_tables, line

    rows = {"kbench": _row(0.002), "jax": _row(0.004), "torch": {"error": "losses | off"}}
    report = {
        "cpu": "a processor",
        "threads": 2,
        "python": "3.11",
        "when": "2026-01-01",
        "names": [*rows],
        "load_before": (0.1, 0, 0),
        "load_after": (1.1, 0, 0),
        "versions": {"kbench": "3.15.1, kbench 0.1.0"},
        "rows": {"mlp": rows},
        "eager": {"add": {name: {"call": _spread(4e-6)} for name in ("kbench", "jax")}},
        "imports": {name: _spread(1.5) | {"peak": 2e8} for name in rows},
    }
    text = keras3_tables(report)
    first = "| `mlp` | 2 ms (1.8 ms to 2.2 ms) | 4 ms (3.6 ms to 4.4 ms) | !! losses / off | jax |"
    assert f"{first} 0.50 |" in text
    assert "| `mlp` | 200 ms (cold 400 ms) |" in text
    assert "| `add` | 4 us (3.6 us to 4.4 us) | 4 us (3.6 us to 4.4 us) | !! not measured |" in text
    assert "| memory | 200 MB | 200 MB | 200 MB | jax | 1.00 |" in text
    assert line("mlp", rows).endswith("torch !! losses / off  | 0.50 of jax")
