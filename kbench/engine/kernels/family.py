"""Kernels that are used together: asked for by dtype, and kept once all of them are ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.service import service

Made = TypeVar("Made")
Sources = Mapping[str, Callable[[], str]]
"""From the names of kernels, without the dtype, to what gives their sources."""


class Family(Generic[Made]):
    """Kernels of a dtype, and what is made of their jobs."""

    def __init__(
        self, sources: Callable[[str], Sources], made: Callable[[str, dict[str, Job]], Made]
    ) -> None:
        """`sources(dtype)` says which kernels there are, `made(dtype, jobs)` what is kept."""
        self._sources, self._made = sources, made
        self._found: dict[str, Made] = {}

    def find(self, dtype: str) -> Made | None:
        """What is made of the kernels of a dtype, None while one is not ready."""
        if dtype in self._found:
            return self._found[dtype]
        sources = self._sources(dtype)  # all are asked for, so that they compile side by side
        jobs = {name: service.find(f"{name}_{dtype}", text) for name, text in sources.items()}
        done = {name: job for name, job in jobs.items() if job is not None}
        if len(done) == len(jobs):
            self._found[dtype] = self._made(dtype, done)
        return self._found.get(dtype)
