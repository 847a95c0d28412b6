"""Builds the wheel `kbench-kernels`: kernels that are compiled ahead, for levels of processors.

    python packaging/kernels/build.py        packs for this architecture; the wheel is in dist/
    python packaging/kernels/build.py --no-wheel --level x86-64-v3

First it finds out which kernels there are: those of the library, and those that the programs in
examples/keras and the models of `kbench bench --cold` ask for as they train. Then it compiles their
sources once for each level; nothing of that is run, so it need not run here.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKS = HERE / "kbench_kernels"
STEPS = 3  # of a model; a kernel that comes late may ask for the next

_V3 = "sse3 ssse3 sse4.1 sse4.2 popcnt avx avx2 bmi bmi2 f16c fma lzcnt movbe".split()
_V4 = "avx512f avx512bw avx512cd avx512dq avx512vl avx512vbmi2".split()
TARGETS = {  # by level: LLVM's name of a processor, and its features
    "x86-64-v3": ("x86-64-v3", [f"+{name}" for name in _V3]),
    "x86-64-v4": ("x86-64-v4", [*(f"+{name}" for name in [*_V3, *_V4]), "-prefer-256-bit"]),
    "aarch64": ("generic", ["+neon", "+fp-armv8"]),
}


# ------------------------------------------------------------------ which kernels there are


def collect() -> None:
    """Ask for every kernel, in a process whose cache of kernels is the folder to fill."""
    from kbench.engine.kernels import registry

    print(f"{registry.warmup()} kernels of the library", flush=True)
    sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "examples" / "keras")]
    import numpy as np

    cold = importlib.import_module("cold")
    for name in cold.MODELS:
        _train(name, *cold.build(name))
    steps = importlib.import_module("keras_steps")
    for name, batch in steps.STEPS.items():
        numbers = np.random.default_rng(steps.SEED)
        _train(name, *batch(importlib.import_module(name), numbers))


def _train(name: str, model: object, inputs: object, targets: object) -> None:
    begun = time.perf_counter()
    for _ in range(STEPS):
        model.train_on_batch(inputs, targets)  # type: ignore[attr-defined]
        model.predict_on_batch(inputs)  # type: ignore[attr-defined]
    print(f"{name}: {time.perf_counter() - begun:.1f} s", flush=True)


# ------------------------------------------------------------------ compiling for a level


def _begin(folder: str) -> None:
    from kbench.engine.jit import disk_cache, numba_backend

    numba_backend.compile_objects_only()
    disk_cache.use_folder(Path(folder))


def _compile(name: str, text: str) -> tuple[str, str]:
    from kbench.engine.jit.compiling import build

    return text, build.build(name, text)


def _sources(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*.kernel")):
        name, _, _ = path.stem.rpartition("-")
        yield name, path.with_suffix(".py").read_text(encoding="utf-8")


def compile_level(level: str, sources: Path) -> None:
    """Compile the sources of a folder, in processes for whose target the caller has cared."""
    from kbench.engine.jit import disk_cache, kernel_pack

    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(initializer=_begin, initargs=(folder,)) as processes,
    ):
        asked = [(name, processes.submit(_compile, name, text)) for name, text in _sources(sources)]
        done = [(name, *future.result()) for name, future in asked]
        disk_cache.use_folder(Path(folder))
        kernels = []
        for name, text, key in done:
            found = disk_cache.read(name, key)
            if found is None:
                raise OSError(f"{name} was compiled and is not there")
            header, code = found
            del header["key"]  # of this processor
            kernels.append((text, header, code))
    path = PACKS / f"{level}{kernel_pack.SUFFIX}"
    count = kernel_pack.write(path, kernels)
    print(f"{path.name}: {count} kernels, {path.stat().st_size >> 10} kB", flush=True)


# ------------------------------------------------------------------ all of it


def _run(arguments: list[str], **environment: str) -> None:
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, __file__, *arguments],
        check=True,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )


def main() -> int:
    """Build packs and the wheel."""
    parser = argparse.ArgumentParser(description="kernels of kbench, compiled ahead")
    parser.add_argument("--level", action="append", choices=[*TARGETS], help="only this level")
    parser.add_argument("--no-wheel", action="store_true", help="leave the packs in the package")
    parser.add_argument("--out", default=str(ROOT / "dist"), help="folder of the wheel")
    parser.add_argument("--collect", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compile", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.collect:
        collect()
        return 0
    if options.compile:
        compile_level(options.compile[0], Path(options.compile[1]))
        return 0
    here = "aarch64" if platform.machine() == "aarch64" else "x86-64"
    levels = options.level or [name for name in TARGETS if name.startswith(here)]
    with tempfile.TemporaryDirectory() as home:
        cache = {"KBENCH_CACHE_DIR": home, "KERAS_HOME": home, "KERAS_BACKEND": "kbench"}
        _run(["--collect"], KBENCH_JIT="wait", PYTHONWARNINGS="ignore", **cache)
        for level in levels:
            name, features = TARGETS[level]
            target = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ",".join(features)}
            _run(["--compile", level, str(Path(home) / "kernels")], **target)
    if not options.no_wheel:
        wheel = ["wheel", "--no-deps", "--wheel-dir", options.out, str(HERE)]
        subprocess.run([sys.executable, "-m", "pip", "-q", *wheel], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
