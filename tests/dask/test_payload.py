"""Payloads: one name for one content, read once in a process, and refused where damaged."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.dask import payload, versions
from kbench.dask.payload import Payload, pack
from kbench.engine.core.errors import ArgumentError, EngineError


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    payload.forget_all()
    yield
    payload.forget_all()


def made(weight: float = 2.0) -> Any:
    x, w = K.placeholder((None, 3), name="x"), K.variable(np.full((3, 2), weight), name="w")
    return K.function([x], [K.relu(K.dot(x, w))], name="layer")


def named(data: bytes) -> Payload:
    return Payload(hashlib.sha256(data).hexdigest(), data)


def test_one_name_for_one_content() -> None:
    f, x = made(), np.ones((2, 3), "float32")
    first = pack(f)
    f.outputs[0].name  # noqa: B018  # what is found when it is asked for
    f([x])
    made()  # which is given other names
    assert pack(f) == first and hash(pack(f)) == hash(first) and pack(f).data == first.data
    assert first.hash == hashlib.sha256(first.data).hexdigest()
    (weights,) = [node for node in f.outputs[0].inputs[0].inputs if node.kind == "variable"]
    weights.set_value(np.zeros((3, 2)))
    assert pack(f) != first
    weights.set_value(np.full((3, 2), 2.0))
    assert pack(f).load()([x])[0].tolist() == first.load()([x])[0].tolist()


def test_it_is_read_once_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    one, reads = pack(made()), []
    loads, together = pickle.loads, threading.Barrier(8)
    monkeypatch.setattr(payload.pickle, "loads", lambda data: reads.append(1) or loads(data))
    found: list[Any] = []

    def load() -> None:
        together.wait()
        found.append(Payload(one.hash, one.data).load())

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reads) == 1 and len(found) == 8 and len({id(value) for value in found}) == 1
    assert one.fresh() is not found[0]


def test_old_ones_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "MAX_KEPT", 3)
    some = [pack(number) for number in range(5)]
    assert [one.load() for one in some] == [0, 1, 2, 3, 4]
    assert list(payload._kept) == [one.hash for one in some[2:]]
    some[2].load(), some[0].load()
    assert [one.hash for one in (some[4], some[2], some[0])] == list(payload._kept)
    monkeypatch.setattr(payload, "MAX_KEPT_BYTES", 1)
    some[1].load()
    assert list(payload._kept) == [some[1].hash]


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_pickle_hands_the_bytes_on(protocol: int) -> None:
    one = pack(made())
    twin = pickle.loads(pickle.dumps(one, protocol))
    assert twin == one and bytes(twin.data) == one.data and repr(twin) == repr(one)
    assert sys.getsizeof(one) > len(one.data)


def test_beside_the_stream_they_are_not_copied() -> None:
    one, buffers = pack(made()), []
    stream = pickle.dumps(one, protocol=5, buffer_callback=buffers.append)
    assert len(stream) < 300 and len(buffers) == 1
    twin = pickle.loads(stream, buffers=[memoryview(bytes(buffer)) for buffer in buffers])
    assert twin == one and twin.load()([np.ones((1, 3))])[0].tolist() == [[6.0, 6.0]]
    assert pickle.loads(pickle.dumps(twin, 2)) == one


def test_functions_that_only_this_process_has() -> None:
    scale = 3
    assert pack(lambda x: x * scale).load()(2) == 6


@pytest.mark.slow
def test_deep_graphs() -> None:
    x = K.placeholder((2,))
    y = x
    for _ in range(3_000):
        y = y * 1.0 + x
    f, given = K.function([x], [y]), [np.ones(2, "float32")]
    assert pack(f).load()(given)[0].tolist() == f(given)[0].tolist()


# ------------------------------------------------------------------ what is refused

HEAD = payload.MAGIC + b"1 "
GOOD = pack(5).data


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (Payload("0" * 64, GOOD), ArgumentError, "is damaged: its content has another hash"),
        (named(b""), ArgumentError, "was not written by kbench: it begins with b''"),
        (named(pickle.dumps(5)), ArgumentError, "was not written by kbench"),
        (named(b"x" * 9000), ArgumentError, "was not written by kbench"),
        (named(HEAD + b"x" * 9000), ArgumentError, "was not written by kbench"),
        (named(HEAD + b"no versions\n"), ArgumentError, "is damaged: its head has no versions"),
        (named(HEAD + b"[1]\n"), ArgumentError, "is damaged: its head has no versions"),
        (named(GOOD.replace(b"payload 1", b"payload 7")), ArgumentError, "is in form 7, and this"),
        (named(GOOD[:-1]), ArgumentError, "is damaged: "),
        (
            named(GOOD.replace(b'"numpy": "', b'"numpy": "9')),
            EngineError,
            f"this process has NumPy {np.__version__}, and the client 9{np.__version__}",
        ),
        (
            named(GOOD.replace(b'"python": "3.', b'"python": "2.')),
            EngineError,
            "this process has Python 3.",
        ),
    ],
)
def test_other_bytes_are_refused(given: Payload, error: type[Exception], words: str) -> None:
    for _ in range(2):  # and nothing is kept
        with pytest.raises(error) as caught:
            given.load()
        assert words in str(caught.value)
    assert not payload._kept


def test_what_pickle_refuses() -> None:
    with pytest.raises(ArgumentError, match="kbench.dask: lock cannot be sent to workers: cannot"):
        pack(threading.Lock())


def test_versions_of_this_process() -> None:
    mine = versions.mine()
    assert {name: mine[name] for name in versions.NEEDED} == versions.needed()
    assert mine["numpy"] == np.__version__ and mine["dask"] and mine["distributed"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"dask": "1.0"}, None),
        ({"kbench": None}, "worker tcp://a:1 has no kbench, and the client"),
        ({"numpy": "1.2.3"}, "worker tcp://a:1 has NumPy 1.2.3, and the client"),
        ({"python": "3.9", "numpy": "1.2.3"}, "worker tcp://a:1 has Python 3.9, and the client"),
    ],
)
def test_differences(change: dict[str, str | None], words: str | None) -> None:
    here = versions.needed()
    found = versions.difference({**here, **change}, "worker tcp://a:1", here)
    assert found is None if words is None else words in (found or "")


def test_nothing_of_dask_is_imported() -> None:
    text = (
        "import sys, kbench, kbench.dask, kbench.dask.activity\n"
        "found = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not found & {'dask', 'distributed', 'cloudpickle', 'tornado'}, found\n"
        "import kbench.dask.payload\n"
        "found = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not found & {'dask', 'distributed', 'tornado', 'keras'}, found\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", text], check=True, timeout=120)
