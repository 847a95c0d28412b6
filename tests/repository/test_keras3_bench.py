"""`kbench bench --keras3`: turns, losses that must agree, and its tables."""

from __future__ import annotations

import benchmark_programs
import pytest


@pytest.fixture(autouse=True)
def _programs(monkeypatch):
    with benchmark_programs.importable(monkeypatch):
        yield


class _Starting:
    """A backend's process, which is noted with its cache; the third of `jax` fails."""

    def __init__(self, name, cache, noted, opened):
        self.name, self._cache, self._noted, self._opened = name, cache, noted, opened
        self.hello = {"version": "1"}
        opened.append(self)

    def ask(self, do, patience=0.0, **arguments):
        self._noted.append((self.name, self._cache, arguments["epoch"]))
        turn = len([one for one in self._noted if one[0] == self.name])
        if self.name == "jax" and turn == 3:
            return {"error": "has ended"}
        return {"first": float(turn), "system": 0.5, "losses": [1.0]}

    def close(self):
        self._opened.remove(self)


def test_first_batches_are_those_of_processes_in_turns(monkeypatch):
    from keras3 import measure

    noted, opened, last = [], [], {}
    contest = measure.Contest(["kbench", "jax"], "python", 2, "home")
    monkeypatch.setattr(
        contest, "_process", lambda name, cache: _Starting(name, cache, noted, opened)
    )
    rows = contest._first_batches("mlp", ["a", "b", "c", "d"], last, epoch=True)
    turns = "kbench a, jax a, jax b, kbench b, kbench c, jax c, kbench d"
    assert ", ".join(f"{name} {cache}" for name, cache, _ in noted) == turns
    assert [goes_on for _, _, goes_on in noted] == [False] * 6 + [True]
    assert rows["kbench"]["first"] == {"median": 2.5, "low": 1.0, "high": 4.0, "system": 0.5}
    assert rows["jax"] == {"error": "has ended"}
    assert {name: one.name for name, one in last.items()} == {"kbench": "kbench", "jax": "jax"}
    assert opened == [
        last["kbench"]
    ]  # the one that failed was closed; to close it again does nothing


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
    row = {"fit": _spread(time), "predict": _spread(time / 3), "peak": 5e8}
    first = {"first": time * 100, "cold": time * 200}
    return row | {what: _spread(one) | {"system": one / 4} for what, one in first.items()}


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
    assert "| `mlp` | 200 ms (180 ms to 220 ms), system 50 ms |" in text
    assert "| `mlp` | 400 ms (360 ms to 440 ms), system 100 ms |" in text
    assert "| `add` | 4 us (3.6 us to 4.4 us) | 4 us (3.6 us to 4.4 us) | !! not measured |" in text
    assert "| memory | 200 MB | 200 MB | 200 MB | jax | 1.00 |" in text
    assert line("mlp", rows).endswith("torch !! losses / off  | 0.50 of jax")
