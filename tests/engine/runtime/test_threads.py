"""What kbench tells other libraries about idle threads, by the environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("first", "given", "told"),
    [
        ("", {}, ["PASSIVE", "4", "OMP_WAIT_POLICY", "OPENBLAS_THREAD_TIMEOUT"]),
        ("", {"OMP_WAIT_POLICY": "ACTIVE"}, ["ACTIVE", "4", "OPENBLAS_THREAD_TIMEOUT"]),
        ("", {"OMP_WAIT_POLICY": "ACTIVE", "OPENBLAS_THREAD_TIMEOUT": "9"}, ["ACTIVE", "9"]),
        ("numpy, ", {}, ["PASSIVE", "None", "OMP_WAIT_POLICY"]),
    ],
)
def test_threads_know_what_they_have_set_in_the_environment(
    first: str, given: dict[str, str], told: list[str]
) -> None:
    code = f"import os, {first}kbench.engine.runtime.threads as threads; print(" + (
        "*[os.environ.get(n) for n in ('OMP_WAIT_POLICY', 'OPENBLAS_THREAD_TIMEOUT')],"
        " *threads.own_settings)"
    )
    names = ("OMP_WAIT_POLICY", "OPENBLAS_THREAD_TIMEOUT")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=inherited | given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == told
