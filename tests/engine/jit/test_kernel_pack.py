"""Kernels that were compiled ahead: found by their source, and believed only if they are whole."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kbench.engine.jit import disk_cache, kernel_pack

ROOT = Path(__file__).resolve().parents[3]
V3 = "fpu avx avx2 bmi1 bmi2 f16c fma movbe abm"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"
LEVELS = [
    ("x86_64", "fpu sse2 avx", None),
    ("x86_64", V3, "x86-64-v3"),
    ("x86_64", V3.replace("f16c ", ""), None),
    ("x86_64", V4, "x86-64-v3"),  # its clock goes down for long vectors
    ("x86_64", f"{V4} avx512_vbmi2", "x86-64-v4"),
    ("AMD64", V3, "x86-64-v3"),
    ("aarch64", "", "aarch64"),
    ("ppc64le", V3, None),
]


@pytest.mark.parametrize(("machine", "features", "level"), LEVELS)
def test_levels_of_processors(machine: str, features: str, level: str | None) -> None:
    assert kernel_pack.level_of(machine, features.split()) == level


def _written(folder: Path) -> Path:
    folder.chmod(0o755)
    path = folder / "x86-64-v3.kernels"
    header: Any = {"form": "image", "entries": {"run": 0}, "numbers": {"LANES": 8}}
    assert kernel_pack.write(path, [("first", header, b"\x90" * 40), ("second", header, b"x")]) == 2
    path.chmod(0o644)
    return path


def test_a_pack_gives_what_was_written(tmp_path: Path) -> None:
    pack = kernel_pack.open_pack(_written(tmp_path))
    found = pack.read("first")
    assert found is not None
    assert found[0]["numbers"] == {"LANES": 8}
    assert found[1] == b"\x90" * 40
    assert pack.read("another") is None


def test_a_kernel_is_of_its_helpers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from kbench.engine.intrinsics.toolkit import field\n"
    path = _written(tmp_path)
    kernel_pack.write(path, [(text, {"form": "image"}, b"code")])
    pack = kernel_pack.open_pack(path)
    assert pack.read(text) is not None
    edited = lambda name: (f"edited {name}", frozenset())  # noqa: E731
    monkeypatch.setattr(disk_cache, "_helper", edited)
    assert pack.read(text) is None


def _change(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("place", [0, 25, 60, 120])
def test_a_damaged_list_is_no_pack(tmp_path: Path, place: int) -> None:
    path = _written(tmp_path)
    _change(path, place)
    with pytest.raises(ValueError, match="damaged"):
        kernel_pack.open_pack(path)


def test_a_damaged_kernel_is_not_run(tmp_path: Path) -> None:
    path = _written(tmp_path)
    _change(path, -1)  # of the second
    pack = kernel_pack.open_pack(path)
    assert pack.read("first") is not None
    assert pack.read("second") is None


def test_a_folder_that_is_only_imported_from_has_no_pack() -> None:
    """As the folder of a program: whoever unpacks an archive runs no machine code of it."""
    searched = {str(folder.parent) for folder in kernel_pack.folders()}
    assert searched
    assert "" not in searched and os.getcwd() not in searched and str(ROOT) not in searched


@pytest.mark.parametrize("changed", ["file", "folder"])
def test_a_pack_that_others_can_write_is_not_believed(tmp_path: Path, changed: str) -> None:
    path = _written(tmp_path)
    (path if changed == "file" else tmp_path).chmod(0o777)
    with pytest.raises(OSError, match="others can write"):
        kernel_pack.open_pack(path)


PACKAGES = [  # what lies in the package, and what `kbench doctor` says of it
    (None, "kbench-kernels is not installed"),
    ("nothing", "kbench-kernels has nothing for x86-64-v3"),
    ("damaged", "that of kbench-kernels cannot be used: x86-64-v3.kernels is damaged"),
    ("whole", "2 kernels for x86-64-v3"),
]


@pytest.mark.parametrize(("held", "told"), PACKAGES)
def test_what_is_installed_is_told(
    held: str | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / kernel_pack.PACKAGE
    if held is not None:
        package.mkdir(mode=0o755)
    if held in ("damaged", "whole"):
        path = _written(package)
        if held == "damaged":
            _change(path, 60)
    monkeypatch.setattr(kernel_pack, "level", lambda: "x86-64-v3")
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(kernel_pack, "folders", lambda: [package])
    kernel_pack.installed.cache_clear()
    assert kernel_pack.describe().startswith(told)
    kernel_pack.installed.cache_clear()


# ------------------------------------------------------------------ the whole way

SCRIPT = """
import os
from pathlib import Path
import numpy as np
from kbench import backend as K
from kbench.engine.jit import disk_cache, kernel_pack
from kbench.engine.jit.service import service

kernel_pack.level = lambda: "x86-64-v3"
kernel_pack.folders = lambda: [Path(os.environ["PACKAGE"])]
x = K.placeholder((None, 500))
data = np.linspace(0, 3, 400000, dtype="float32").reshape(800, 500)
value = K.function([x], [K.exp(x) * 0.625 + 1.75])([data])[0]
np.testing.assert_allclose(value, np.exp(data) * 0.625 + 1.75, rtol=1e-5)
stats = service.stats()
print(stats.cache_hits, stats.compiled, stats.pending)
"""


def _builder() -> Any:
    place = ROOT / "packaging" / "kernels" / "build.py"
    spec = importlib.util.spec_from_file_location("build_kernels", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run(script: str, cache: Path, package: Path, **more: str) -> str:
    names = [name for name in os.environ if not name.startswith("NUMBA_CPU_")]
    environment = {name: os.environ[name] for name in names}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={
            **environment,
            "PYTHONPATH": str(ROOT),
            "KBENCH_CACHE_DIR": str(cache),
            "PACKAGE": str(package),
            **more,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="images run on Linux")
def test_a_process_that_finds_a_pack_compiles_nothing(tmp_path: Path) -> None:
    """Kernels are compiled for another level, packed, and run by a process with an empty cache."""
    package = tmp_path / kernel_pack.PACKAGE
    package.mkdir()
    asked = "import os; os.environ['KBENCH_JIT'] = 'wait'\n" + SCRIPT
    assert _run(asked, tmp_path / "one", package) == "0 2 0"  # what runs kernels, and a kernel
    sources = tmp_path / "one" / "kernels"
    builder = _builder()
    name, features = builder.TARGETS["x86-64-v3"]
    script = (
        "import sys; from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(builder.__file__).parent)!r}); import build\n"
        f"build.PACKS = Path({str(package)!r})\n"
        f"build.compile_level('x86-64-v3', Path({str(sources)!r}))"
    )
    target = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ",".join(features)}
    told = _run(script, tmp_path / "unused", package, **target)
    assert told.startswith("x86-64-v3.kernels: 2 kernels")
    assert _run(SCRIPT, tmp_path / "two", package, KBENCH_JIT="auto") == "2 0 0"
    assert not list((tmp_path / "two" / "kernels").glob("*.kernel"))
    other = _run(SCRIPT, tmp_path / "three", package, KBENCH_JIT="auto", **target)
    assert other.startswith("0 0")  # who compiles for another processor wants no pack
