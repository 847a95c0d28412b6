"""Kernels: compiled loops over arrays, and their NumPy forms. Imports only `config` and `threads`.

Importing this package loads no Numba; only what compiles does, a process of its own.
"""

from kbench.engine.kernels.background import Stats, service
from kbench.engine.kernels.loops import Fold, Input, Kernel, Program, Statement, request
from kbench.engine.kernels.scalars import SCALARS, numpy_form

__all__ = [
    "SCALARS",
    "Fold",
    "Input",
    "Kernel",
    "Program",
    "Statement",
    "Stats",
    "numpy_form",
    "prefetch",
    "request",
    "source_of",
    "stats",
    "wait_idle",
]

prefetch = service.prefetch
stats = service.stats
wait_idle = service.wait_idle


def source_of(kernel: Kernel) -> str:
    """The generated source that a kernel was compiled from."""
    return kernel.source
