"""`kbench doctor` on Dask: the extra, and the workers of a cluster."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kbench.cli import cluster, doctor
from kbench.cli.main import main
from kbench.version import __version__


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler and two workers, all threads of this process, that talk by TCP."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=3,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address=None,
        silence_logs=50,
    ) as running:
        yield running.scheduler_address


def test_versions_and_threads_of_workers(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--cluster", address, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == [] and found["cluster"]["address"] == address
    assert [worker["threads"] for worker in found["cluster"]["workers"]] == [3, 3]
    here = {name: importlib.metadata.version(name) for name in ("numpy", "dask", "distributed")}
    here |= {"kbench": __version__, "python": "{}.{}.{}".format(*sys.version_info)}
    for process in (found["cluster"]["scheduler"], *found["cluster"]["workers"]):
        assert here.items() <= process.items()
    assert main(["doctor", "--cluster", address]) == 0
    text = capsys.readouterr().out
    assert text.startswith("cluster\n") and text.endswith("no problems\n")
    assert text.count(f"3 threads, Python {here['python']}, kbench {__version__}") == 2


def process(**packages: str | None) -> dict[str, Any]:
    """What Dask tells of one process."""
    mine = {"python": "{}.{}.{}.final.0".format(*sys.version_info), "kbench": __version__}
    mine |= {name: importlib.metadata.version(name) for name in ("numpy", "dask", "distributed")}
    return {"host": {}, "packages": {**mine, **packages}}


def test_what_would_be_refused(capsys: pytest.CaptureFixture[str]) -> None:
    workers = {
        "tcp://one:1": process(),
        "tcp://two:2": process(numpy="1.26.0", dask="1.0"),
        "tcp://three:3": process(kbench=None),
        "tcp://four:4": process(python="3.9.1.final.0"),
    }
    told = {"scheduler": process(), "workers": workers, "client": process()}
    found = cluster.judged("tcp://all:9", told, {"tcp://one:1": 1})
    four, three, two = found["problems"]
    assert "worker tcp://two:2 has NumPy 1.26.0, and the client" in two and "refused" in two
    assert "worker tcp://three:3 has no kbench" in three
    assert "worker tcp://four:4 has Python 3.9, and the client" in four
    text = doctor.text(cluster.lines(found))
    assert "tcp://one:1    1 thread, Python" in text and "no kbench" in text
    assert "threads unknown, Python 3.9.1" in text and text.count("  ! ") == 3
    alone = cluster.judged("tcp://all:9", {**told, "workers": {}}, {})
    assert alone["problems"] == ["the cluster at tcp://all:9 has no workers"]


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "foo://127.0.0.1:1", "nonsense"])
def test_nothing_answers(
    address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.3)
    assert main(["doctor", "--cluster", address]) == 2
    assert f"kbench: no Dask scheduler answers at {address}" in capsys.readouterr().err


def test_without_dask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["doctor", "--cluster", "tcp://127.0.0.1:1"]) == 2
    assert "pip install 'kbench[dask]'" in capsys.readouterr().err


def test_one_question_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctor", "--api", "--cluster", "tcp://127.0.0.1:1"])
    assert "ask for one of them" in capsys.readouterr().err


def test_the_extra_is_told_without_an_import() -> None:
    text = (
        "import sys; from kbench.cli import doctor; print(doctor._versions()['extra dask']); "
        "assert not {'dask', 'distributed'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    version = importlib.metadata.version
    wanted = f"dask {version('dask')}, distributed {version('distributed')}\n"
    assert done.stdout == wanted


def test_an_extra_that_is_missing_or_old(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["numpy>=1.26", 'dask[array]>=2025.1 ; extra == "dask"', 'torch>2 ; extra == "bench"']
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2024.2")
    assert doctor._dask_extra(asked) == (
        "dask 2024.2, distributed 2024.2",
        ["dask is 2024.2; kbench[dask] needs dask>=2025.1"],
    )

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert doctor._dask_extra(asked) == ("not installed; pip install 'kbench[dask]'", [])
