"""Connection files and what listens behind them: found, questioned, refused with a reason."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from jupyter_client.connect import write_connection_file
from jupyter_client.session import Session as Signer

from kbench.workbench.session import running_kernels
from kbench.workbench.session.running_kernels import AttachError


def file_of(folder: Path, name: str = "kernel-abc.json", **changes: Any) -> Path:
    path = folder / name
    write_connection_file(str(path), key=b"k", transport="tcp", ip="127.0.0.1")
    table = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: one for key, one in table.items() if one is not None}))
    return path


BAD_FILES = [
    ("not JSON", b"hello", "not JSON"),
    ("a list", b"[]", "not a connection file"),
    ("binary", b"\xff\x00", "not JSON"),
    ("empty", b"{}", "shell_port is missing"),
    ("deep", b"[" * 100_000, "not JSON"),
]


@pytest.mark.parametrize(("kind", "data", "words"), BAD_FILES, ids=[one[0] for one in BAD_FILES])
def test_a_file_that_is_no_connection_file(
    tmp_path: Path, kind: str, data: bytes, words: str
) -> None:
    (tmp_path / "f.json").write_bytes(data)
    with pytest.raises(AttachError, match=words):
        running_kernels.find(str(tmp_path / "f.json"))


CHANGED: list[tuple[dict[str, Any], str]] = [
    ({}, "has ended: nobody listens at 127.0.0.1"),
    ({"key": None}, "key is missing"),
    ({"shell_port": "80"}, "shell_port is missing or wrong"),
    ({"transport": "carrier pigeon"}, "transport"),
    ({"transport": "ipc", "ip": "/tmp/no-such-socket"}, "has ended"),
    ({"shell_port": 10**9}, "has ended"),
]


@pytest.mark.parametrize(("changes", "words"), CHANGED)
def test_a_file_of_nobody(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(AttachError, match=words):
        running_kernels.find(str(file_of(tmp_path, **changes)))


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime folder of Jupyter with one living kernel, as far as a listener is one."""
    folder = tmp_path / "runtime"
    folder.mkdir()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_kernels_are_found_by_parts_of_their_names(runtime: Path, listener: int) -> None:
    for number, name in enumerate(("kernel-aa1.json", "kernel-aa2.json", "kernel-a.json")):
        os.utime(file_of(runtime, name, shell_port=listener), (number, number))
    file_of(runtime, "kernel-dead.json")
    wanted = ("", "aa", "aa2", "a")
    names = {part: [one.name for one in running_kernels.find(part)] for part in wanted}
    assert names == {"": ["a", "aa2", "aa1"], "aa": ["aa2", "aa1"], "aa2": ["aa2"], "a": ["a"]}


NONE = [
    ("", "no Jupyter kernel is running"),
    ("zz", "named like 'zz'"),
    ("dead", "the kernels of 1 files there have ended"),
    ("no/such.json", "no connection file"),
    ("such.json", "no connection file such.json"),
]


@pytest.mark.parametrize(("wanted", "words"), NONE)
def test_no_kernel_is_said(runtime: Path, wanted: str, words: str) -> None:
    file_of(runtime, "kernel-dead.json")
    with pytest.raises(AttachError, match=words):
        running_kernels.find(wanted)


def serve(connection: dict[str, Any], answer: Callable[[], dict[str, Any] | None]) -> Any:
    """Something that listens where a kernel would, and may answer one question."""
    context = zmq.Context()
    socket = context.socket(zmq.ROUTER)
    socket.linger = 0
    socket.bind(f"tcp://127.0.0.1:{connection['control_port']}")
    shell = context.socket(zmq.ROUTER)
    shell.bind(f"tcp://127.0.0.1:{connection['shell_port']}")
    signer = Signer(key=connection["key"].encode())

    def loop() -> None:
        if socket.poll(10_000):
            idents, parts = signer.feed_identities(socket.recv_multipart())
            info = answer()
            if info is not None:
                signer.send(socket, "kernel_info_reply", info, signer.deserialize(parts), idents)
        stop.wait(10)
        socket.close(0)
        shell.close(0)
        context.term()

    stop = threading.Event()
    thread = threading.Thread(target=loop, daemon=True)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join()

    return end


ANSWERS = [
    ({"language_info": {"name": "R", "version": "4"}}, "runs R, not Python"),
    ({"language_info": None}, "runs an unknown language"),
    (None, "did not answer within"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("info", "words"), ANSWERS)
def test_what_is_no_python_kernel_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, info: Any, words: str
) -> None:
    monkeypatch.setattr(running_kernels, "GROUP_ANSWER_SECONDS", 0.3)
    path = file_of(tmp_path)
    stop = serve(json.loads(path.read_text()), lambda: info)
    (kernel,) = running_kernels.find(str(path))
    with pytest.raises(AttachError, match=words):
        running_kernels.ask(kernel, 1.0)
    assert running_kernels.ask_all([kernel]) == [""]
    stop()
